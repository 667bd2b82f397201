"""The objects in an image, as an example has them: their boxes and the names of their classes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from shardmill.features.feature import Features, of_kind
from shardmill.features.object_detection import KEYS
from shardmill.kinds.registry import kind_of
from shardmill.records.example import FeatureValue
from shardmill.transforms.files.images.boxes import Box


class Drawn(NamedTuple):
    """An object: its box as fractions of the stored picture, the id of its class, -1 for none, and its name."""

    box: Box
    label: int
    name: str


def objects_of(example: Mapping[str, FeatureValue], features: Features) -> tuple[Drawn, ...]:
    """The objects of an example that have boxes."""
    sequence, boxes = _boxes_of(example, features)
    beside = (feature for feature in features if feature.sequence == sequence and kind_of(feature).has_classes)
    label = next(beside, None)
    ids = [int(value) for value in cast(Sequence[int], example.get(label.name, ()))] if label is not None else []
    found = []
    for number, box in enumerate(boxes):
        index = ids[number] if number < len(ids) else -1
        names = label.class_names if label is not None else ()
        name = names[index] if 0 <= index < len(names) else ""
        found.append(Drawn(box, index, name))
    return tuple(found)


def _boxes_of(example: Mapping[str, FeatureValue], features: Features) -> tuple[str, list[Box]]:
    """The list of objects that have boxes, and these: a feature of boxes, or four of their edges."""
    feature = next((feature for feature in of_kind(features, "bbox") if feature.shape == (None, 4)), None)
    if feature is not None:
        edges = [float(edge) for edge in cast(Sequence[float], example.get(feature.name, ()))]
        return feature.sequence, [Box(*edges[start : start + 4]) for start in range(0, len(edges) // 4 * 4, 4)]
    if set(KEYS.edges) <= {feature.name for feature in features if feature.sequence == KEYS.objects}:
        columns = (map(float, cast(Sequence[float], example.get(name, ()))) for name in KEYS.edges)
        return KEYS.objects, [Box(*edges) for edges in zip(*columns, strict=False)]
    return "", []


def words_of(objects: Iterable[Drawn]) -> str:
    """How many there are of each class: `2 cat, dog`."""
    counts: dict[str, int] = {}
    for item in objects:
        counts[item.name] = counts.get(item.name, 0) + 1
    return ", ".join(f"{count} {name}" if count > 1 else name for name, count in counts.items())
