"""The objects in an image, as an example has them: their boxes and the names of their classes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from shardmill.features.feature import Features, of_kind
from shardmill.kinds.registry import kind_of
from shardmill.records.example import FeatureValue
from transforms.files.images.boxes import Box


class Drawn(NamedTuple):
    """An object: its box as fractions of the stored picture, the id of its class, -1 for none, and its name."""

    box: Box
    label: int
    name: str


def objects_of(example: Mapping[str, FeatureValue], features: Features) -> tuple[Drawn, ...]:
    """The objects of an example that have boxes."""
    boxes = next((feature for feature in of_kind(features, "bbox") if feature.shape == (None, 4)), None)
    if boxes is None:
        return ()
    beside = (feature for feature in features if feature.sequence == boxes.sequence and kind_of(feature).has_classes)
    label = next(beside, None)
    edges = [float(edge) for edge in cast(Sequence[float], example.get(boxes.name, ()))]
    ids = [int(value) for value in cast(Sequence[int], example.get(label.name, ()))] if label is not None else []
    found = []
    for number in range(len(edges) // 4):
        index = ids[number] if number < len(ids) else -1
        names = label.class_names if label is not None else ()
        name = names[index] if 0 <= index < len(names) else ""
        found.append(Drawn(Box(*edges[4 * number : 4 * number + 4]), index, name))
    return tuple(found)


def words_of(objects: Iterable[Drawn]) -> str:
    """How many there are of each class: `2 cat, dog`."""
    counts: dict[str, int] = {}
    for item in objects:
        counts[item.name] = counts.get(item.name, 0) + 1
    return ", ".join(f"{count} {name}" if count > 1 else name for name, count in counts.items())
