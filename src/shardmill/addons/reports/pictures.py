"""Choose the images that a report shows, and read their objects."""

import io
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, repeat, zip_longest
from operator import itemgetter
from typing import NamedTuple, TypeVar, cast

from shardmill.data.example import FeatureValue, decode_example
from shardmill.data.features import OBJECT_DETECTION_KEYS, Feature, Features, Renames, features_of_kind
from shardmill.data.kinds import draw_array, kind_of
from shardmill.errors import CorruptDataError
from shardmill.metadata.manifest import ShardEntry
from shardmill.quality.duplicates import LocatedExample
from shardmill.quality.profile import Profile
from shardmill.quality.stats_file import ShownPair
from shardmill.quality.stats_values import Extreme
from shardmill.reading.dataset import Dataset
from shardmill.transforms.files.image_geometry import Box
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.storage import run_concurrently


class ObjectBox(NamedTuple):
    """An object to draw: its box as fractions of the stored image, its class id (-1 for none) and its class name."""

    box: Box
    label: int
    name: str


def read_objects(example: Mapping[str, FeatureValue], features: Features) -> tuple[ObjectBox, ...]:
    """Return the objects of an example that have boxes."""
    sequence, boxes = _read_boxes(example, features)
    labels = (feature for feature in features if feature.sequence == sequence and kind_of(feature).has_classes)
    label = next(labels, None)
    ids = [int(value) for value in cast(Sequence[int], example.get(label.name, ()))] if label is not None else []
    names = label.class_names if label is not None else ()
    pairs = zip(boxes, chain(ids, repeat(-1)), strict=False)
    return tuple(ObjectBox(box, index, names[index] if 0 <= index < len(names) else "") for box, index in pairs)


def _read_boxes(example: Mapping[str, FeatureValue], features: Features) -> tuple[str, list[Box]]:
    feature = next((feature for feature in features_of_kind(features, "bbox") if feature.shape == (None, 4)), None)
    if feature is not None:
        edges = [float(edge) for edge in cast(Sequence[float], example.get(feature.name, ()))]
        return feature.sequence, [Box(*edges[start : start + 4]) for start in range(0, len(edges) // 4 * 4, 4)]
    if set(OBJECT_DETECTION_KEYS.edges) <= {
        feature.name for feature in features if feature.sequence == OBJECT_DETECTION_KEYS.objects
    }:
        columns = (map(float, cast(Sequence[float], example.get(name, ()))) for name in OBJECT_DETECTION_KEYS.edges)
        return OBJECT_DETECTION_KEYS.objects, [Box(*edges) for edges in zip(*columns, strict=False)]
    return "", []


def count_by_class(objects: Iterable[ObjectBox]) -> str:
    """Return the number of objects by class as text: `2 cat, dog`."""
    counts = Counter(item.name for item in objects)
    return ", ".join(f"{count} {name}" if count > 1 else name for name, count in counts.items())


CLASSES = 24  # shown at most
OF_A_CLASS = 6  # pictures
_OF_NO_CLASS = 24  # where there are no labels
_EXTREMES = 4  # of all splits
_PAIRS = 12  # pairs
_SHARDS, _RECORDS, _BYTES = 24, 480, 64_000_000  # looked at, in all
_MARGIN = 1.25  # by which records that come first may be larger than others

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Picture:
    """A stored image with its split, label, file name, objects and masks, and its example's further images."""

    image: bytes = field(repr=False)
    label: str = ""
    file: str = ""
    split: str = ""
    objects: tuple[ObjectBox, ...] = ()
    masks: tuple[bytes, ...] = field(default=(), repr=False)
    others: tuple[bytes, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Pictures:
    """The images that an HTML report shows."""

    classes: tuple[tuple[str, tuple[Picture, ...]], ...] = ()  # by class, in the order of ids; class "" without labels
    number_of_classes: int = 0  # in the version
    extremes: tuple[tuple[str, tuple[Picture, ...]], ...] = ()  # by extreme; () if all images have one size
    pairs: tuple[tuple[ShownPair, tuple[Picture, ...]], ...] = ()  # of add-ons
    notes: tuple[str, ...] = ()  # what could not be read, in sentences
    unreadable: Mapping[str, str] = field(default_factory=dict)  # reasons, by name of a shard that cannot be read


def find_pictures(dataset: Dataset, profile: Profile) -> Pictures:
    """Return the images of a version to show in its report; none if it has no image feature.

    Images of classes come from the first records of some shards, which are shuffled, so no shard is read to its end.
    The positions of extreme ones are in stats.json. The same version gives the same images.
    """
    if not features_of_kind(profile.manifest.features, "image"):
        return Pictures()
    finder = _PictureFinder(dataset, profile)
    found = (finder.find_classes(), finder.number_of_classes, finder.find_extremes(), finder.find_pairs())
    return Pictures(*found, tuple(dict.fromkeys(finder.notes)), finder.unreadable)


class _PictureFinder:
    def __init__(self, dataset: Dataset, profile: Profile) -> None:
        self._dataset, self._profile = dataset, profile
        manifest = profile.manifest
        self._images = [feature.name for feature in features_of_kind(manifest.features, "image")]
        self._label = next(iter(features_of_kind(manifest.features, "class_label")), None)
        self._filename = Renames.of(manifest.configuration)("filename")
        self.number_of_classes = len(self._label.class_names) if self._label is not None else 0
        self.notes: list[str] = []
        self.unreadable: dict[str, str] = {}

    def find_classes(self) -> tuple[tuple[str, tuple[Picture, ...]], ...]:
        """Return some images of each class, from as many splits as possible."""
        found: dict[int, dict[str, list[bytes]]] = defaultdict(lambda: defaultdict(list))
        samples = list(self._choose_shards())
        read = [partial(self._read_first, shard, *records) for _, shard, records in samples]
        for (split, *_), records in zip(samples, run_concurrently(self._dataset.directory, *read), strict=True):
            for index, record in records:
                found[index][split].append(record)
        shown = choose_evenly_spaced(sorted(found), CLASSES)
        number = OF_A_CLASS if self._label is not None else _OF_NO_CLASS
        names = {} if self._label is None else {index: name_class(index, self._label.class_names) for index in shown}
        return tuple((names.get(index, ""), tuple(self._pictures(found[index], number))) for index in shown)

    def _pictures(self, by_split: Mapping[str, Sequence[bytes]], number: int) -> Iterator[Picture]:
        chosen = list(islice(take_in_turn([(split, each) for each in by_split[split]] for split in by_split), number))
        for split in by_split:
            for of_split, record in chosen:
                if of_split == split and (picture := self._make_picture(decode_example(record), split)) is not None:
                    yield picture

    def find_extremes(self) -> tuple[tuple[str, tuple[Picture, ...]], ...]:
        """Return the extreme images of all splits together."""
        found: dict[str, list[tuple[float, str, str, Extreme]]] = defaultdict(list)
        for split in self._profile.splits:
            for name in self._images:
                summary = self._profile.summary(split, name)
                for what, images in ((summary.extremes if summary is not None else None) or {}).items():
                    found[what] += [(_sort_key(what, image), image.file, split, image) for image in images]
        sizes = {(image.width, image.height) for images in found.values() for *_, image in images}
        if len(sizes) < 2:
            return ()
        if not self._profile.manifest.codec.keeps_offsets:
            self.notes.append("The extreme ones are in compressed shards, where no record is found by its place.")
            return ()
        shown = {what: sorted(images, key=itemgetter(0, 1, 2))[:_EXTREMES] for what, images in found.items()}
        read = [
            partial(self._read_at, split, image.file, image) for images in shown.values() for *_, split, image in images
        ]
        pictures = iter(run_concurrently(self._dataset.directory, *read))
        return tuple((what, tuple(islice(pictures, len(images)))) for what, images in shown.items())

    def find_pairs(self) -> tuple[tuple[ShownPair, tuple[Picture, ...]], ...]:
        """Return the first pairs of images that add-ons found."""
        sections = self._profile.stats.sections.values()
        pairs = [pair for section in sections for pair in section.shown_pairs[:_PAIRS]]
        if pairs and not self._profile.manifest.codec.keeps_offsets:
            self.notes.append(
                "Pictures that look alike are in compressed shards, where no record is found by its place."
            )
            return ()
        return tuple((pair, tuple(self._read_at(one.split, str(one), one) for one in pair.images)) for pair in pairs)

    def _choose_shards(self) -> Iterator[tuple[str, ShardEntry, tuple[int, int]]]:
        """Yield the shards to sample, each with its split and the number of records and bytes to read."""
        splits = [
            (split.name, [shard for shard in split.shards if shard.examples]) for split in self._profile.manifest.splits
        ]
        each = max(_SHARDS // max(len(splits), 1), 1)
        chosen = [(split, shard) for split, shards in splits for shard in choose_evenly_spaced(shards, each)]
        for split, shard in chosen:
            yield split, shard, (math.ceil(_RECORDS / len(chosen)), _BYTES // len(chosen))

    def _read_first(self, shard: ShardEntry, records: int, size_bytes: int) -> list[tuple[int, bytes]]:
        """Return (class id, record) of a shard's first examples with an image; request hardly more bytes than these."""
        found: list[tuple[int, bytes]] = []
        wanted = [*self._images, *([self._label.name] if self._label is not None else [])]
        read_bytes = min(math.ceil(_MARGIN * records * shard.size_bytes / shard.examples), size_bytes)
        try:
            with storage.open_read(self._dataset.path(shard), shard.size_bytes, read_bytes) as file:
                for record in islice(self._profile.manifest.codec.read_records(file, shard.file), records):
                    example = decode_example(record, wanted)
                    if any(len(example.get(name, ())) for name in self._images):
                        found.append((find_class_id(example, self._label), bytes(record)))
                    size_bytes -= len(record)
                    if size_bytes < 0:
                        break
        except FileNotFoundError:
            self.notes.append(f"{shard.file} is missing")
        except (CorruptDataError, ValueError, OSError) as error:
            reason = str(error).removeprefix(f"{shard.file}: ")
            self._report_unreadable(shard.file, shard.file, reason)
        return found

    def _read_at(self, split: str, file: str, position: Extreme | LocatedExample) -> Picture:
        empty = Picture(b"", "", file, split)
        path = storage.join(self._dataset.directory, position.shard)
        try:
            framed = storage.read_range(path, position.offset, position.length)
            record = next(self._profile.manifest.codec.read_records(io.BytesIO(framed), position.shard), b"")
            return self._make_picture(decode_example(record), split) or empty
        except (CorruptDataError, ValueError, OSError, EOFError) as error:
            reason = str(error).removeprefix(f"{path}: ").removeprefix(f"{position.shard}: ")
            self._report_unreadable(position.shard, f"{file} in {position.shard}", reason)
            return empty

    def _report_unreadable(self, shard: str, subject: str, reason: str) -> None:
        self.notes.append(f"{subject} cannot be read: {reason}")
        self.unreadable.setdefault(shard, reason)

    def _make_picture(self, example: dict[str, FeatureValue], split: str) -> Picture | None:
        if not any(len(example.get(name, ())) for name in self._images):
            return None
        return to_picture(example, self._profile.manifest.features, self._filename, split=split)


def name_class(index: int, names: Sequence[str]) -> str:
    """Return the name of a class id."""
    return names[index] if 0 <= index < len(names) else f"no class {index}" if index >= 0 else "no class"


def is_drawable(feature: Feature) -> bool:
    """Return True for arrays of real numbers of one shape (height, width), (height, width, 1) or (height, width, 3)."""
    if not feature.is_packed or None in feature.shape or feature.element.startswith("complex"):
        return False
    return len(feature.shape) == 2 or (len(feature.shape) == 3 and feature.shape[2] in (1, 3))


def to_picture(
    example: dict[str, FeatureValue],
    features: Features,
    name_feature: str = "filename",
    name_class: Callable[[int, Sequence[str]], str] = name_class,
    split: str = "",
) -> Picture:
    """Return an example's first image or drawn array (b"" for none) with its label and file name."""
    image, label = b"", ""
    masks, others = [], []
    for feature in features:
        values = example.get(feature.name, ())
        if feature.kind == "image" and len(values) and not image:  # what Pillow opens; a picture is drawn of others
            image = cast(bytes, values[0])
        elif feature.kind == "image" and len(values):
            others.append(cast(bytes, values[0]))
        elif feature.kind == "mask" and len(values):
            masks.append(cast(bytes, values[0]))
        elif is_drawable(feature) and len(values) and not image:
            image = draw_array(feature, cast(bytes, values[0]))
        elif kind_of(feature).has_classes and len(values) and not label:
            label = ", ".join(name_class(int(value), feature.class_names) for value in values)
    filename = example.get(name_feature, ())
    text = filename[0].decode(errors="replace") if len(filename) and isinstance(filename[0], bytes) else ""
    objects = read_objects(example, features)
    return Picture(image, count_by_class(objects) or label, text, split, objects, tuple(masks), tuple(others))


def find_class_id(example: Mapping[str, FeatureValue], label: Feature | None) -> int:
    """Return an example's first class id; -1 without a label or a class."""
    values = example.get(label.name, ()) if label is not None else ()
    return int(values[0]) if len(values) else -1


def choose_evenly_spaced(items: Sequence[Item], number: int) -> list[Item]:
    """Return at most `number` of the items, evenly spaced."""
    count = min(number, len(items))
    return [items[index * len(items) // count] for index in range(count)]


def take_in_turn(lists: Iterable[Iterable[Item]]) -> Iterator[Item]:
    """Yield the first items of all lists, then the second ones, and so on."""
    return (item for one_of_each in zip_longest(*lists) for item in one_of_each if item is not None)


def _sort_key(extreme: str, image: Extreme) -> float:
    if extreme == "smallest":
        return image.width * image.height
    if extreme == "largest":
        return -image.width * image.height
    return -max(image.width, image.height) / max(min(image.width, image.height), 1)
