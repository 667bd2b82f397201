"""The objects in an image as features of its example: their boxes checked, and moved with the picture."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shardmill.features.feature import DType, Feature, Features, Kind
from shardmill.features.renames import NO_RENAMES, Renames
from shardmill.transforms.examples.encode import encode_entries
from shardmill.transforms.files.images.boxes import Picture
from shardmill.transforms.files.images.codec import Reencode
from shardmill.transforms.files.images.errors import ImageError
from shardmill.transforms.files.images.exif import UPRIGHT
from shardmill.transforms.files.images.object_names import TFDS, ObjectNames, Part, Stored
from shardmill.transforms.files.images.placing import Placing, place
from shardmill.transforms.inputs.annotations.objects import RELATIVE, Member, NotedObjects, noted_objects, sizes_of
from shardmill.transforms.sharding.keys import hash_strings
from shardmill.transforms.statistics.gathered import GatheredStats

ON_BAD_BOX = ("reject", "drop")
_ENTRIES = "entries"
_PREPARED = "prepared"  # beside what is planned of an image


class Placed(NamedTuple):
    """What became of the objects in some images.

    Attributes:
      rows: one an image: its features, serialized (`entries`), how many of its objects were `clipped`, `dropped` or
        `cropped`, see Placing, and a list for each feature of theirs, by its name.
      errors: why an image is refused for its objects, by its place among them.
    """

    rows: pa.RecordBatch
    errors: Mapping[int, ImageError]


class Noted(NamedTuple):
    """What became of the objects in the images of a batch.

    Attributes:
      rows: as Placed has them, in any order.
      places: of each image its row; None of one that is no good.
      errors: why an image is refused for its objects, by its place in the batch.
    """

    rows: pa.RecordBatch
    places: Sequence[int | None]
    errors: Mapping[int, ImageError]


class _Kind(NamedTuple):
    """How something is stored, and what Arrow holds it as."""

    dtype: DType
    kind: Kind
    arrow: pa.DataType


_INTEGERS, _FLAGS = _Kind("int64", "tensor", pa.int64()), _Kind("int64", "bool", pa.int64())
_NUMBERS, _TEXTS = _Kind("float32", "tensor", pa.float32()), _Kind("bytes", "text", pa.binary())
_KINDS: dict[Part, _Kind] = {
    "area": _NUMBERS,
    "bbox": _Kind("float32", "bbox", pa.float32()),
    "id": _INTEGERS,
    "is_crowd": _FLAGS,
    "is_difficult": _FLAGS,
    "is_truncated": _FLAGS,
    "label": _Kind("int64", "class_label", pa.int64()),
    "pose": _TEXTS,
    "text": _TEXTS,
    "top": _NUMBERS,
    "left": _NUMBERS,
    "bottom": _NUMBERS,
    "right": _NUMBERS,
}


def object_features(members: Iterable[Member], class_names: Sequence[str], names: ObjectNames = TFDS) -> Features:
    """The features of objects, in the order in which they are written."""
    return tuple(
        Feature(
            item.name,
            _KINDS[item.part].dtype,
            _KINDS[item.part].kind,
            (None, 4) if item.part == "bbox" else (None,),
            class_names=names.classes(class_names) if item.part == "label" else (),
            sequence=names.sequence,
        )
        for item in names.stored(members)
    )


@dataclass(frozen=True)
class ObjectEncoder:
    """Encodes the objects in images.

    Attributes:
      members: what is said of each.
      on_bad_box: whether an object whose box is no good makes its image a `reject`, or is left out: `drop`.
      boxes_seen: whether boxes of images that EXIF turns are of the `stored` or the `upright` picture, where the
        annotation's size does not tell; "" makes these images rejects.
      renames: what the features are called instead of what `names` calls them.
      names: of what is said of objects.
      class_names: by the ids that are planned, where names of classes are stored too.
    """

    members: tuple[Member, ...]
    on_bad_box: str = "reject"
    boxes_seen: str = ""
    renames: Renames = NO_RENAMES
    names: ObjectNames = TFDS
    class_names: tuple[str, ...] = ()

    @property
    def _stored(self) -> tuple[Stored, ...]:
        return self.names.stored(self.members)

    def place(self, noted: NotedObjects, pictures: Sequence[Picture], how: Reencode | None) -> Placed:
        """The objects where they are in images as these will be stored.

        Args:
          noted: them, as they are annotated.
          pictures: the images as they were found.
          how: they are re-encoded; None where they are stored as they are.
        """
        lists, placing = self.features(noted, pictures, how)
        named = lists.rename_columns(list(map(self.renames, lists.schema.names)))
        columns = [encode_entries(named), *map(pa.array, placing.changed.values()), *lists.columns]
        names = [_ENTRIES, *placing.changed, *lists.schema.names]
        return Placed(pa.RecordBatch.from_arrays(columns, names), placing.errors)

    def features(
        self, noted: NotedObjects, pictures: Sequence[Picture], how: Reencode | None
    ) -> tuple[pa.RecordBatch, Placing]:
        """As `place`: a list for each feature and image, before anything is renamed, and what became of the objects."""
        placing = place(noted, pictures, how, self.boxes_seen, self.on_bad_box == "drop")
        offsets = np.zeros(len(pictures) + 1, np.int64)
        np.cumsum(placing.lengths, out=offsets[1:])
        stored = self._stored
        lists = [_list(item.part, self._values(item.part, noted, placing), offsets) for item in stored]
        return pa.RecordBatch.from_arrays(lists, [item.name for item in stored]), placing

    def prepare(self, batch: pa.RecordBatch, how: Reencode | None) -> pa.RecordBatch:
        """A planned batch with where its objects are if its images are what is said of them; see `usual`.

        That is to say at once of many images, where those that are read and stored at once are few.
        """
        noted = noted_objects(batch)
        pictures = [Picture(*(size or RELATIVE)) for size in noted.sizes]
        placed = self.place(noted, pictures, how)
        known = np.array([self._says_all(size, how) for size in noted.sizes], bool)
        known[list(placed.errors)] = False
        rows = pa.StructArray.from_arrays(placed.rows.columns, placed.rows.schema.names, mask=pa.array(~known))
        return batch.append_column(_PREPARED, rows)

    def note(self, batch: pa.RecordBatch, pictures: Sequence[Picture | None], how: Reencode | None) -> "Noted":
        """What becomes of the objects of a batch from `prepare`, once its images are read.

        Args:
          batch: some of it.
          pictures: the images as they were found; None for one that is no good.
          how: as there.
        """
        prepared = batch[_PREPARED]
        usual = [
            picture is not None and there and _is_usual(size, picture)
            for picture, there, size in zip(pictures, prepared.is_valid().to_pylist(), sizes_of(batch), strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(prepared.flatten(), [field.name for field in prepared.type])
        places: list[int | None] = [place if fine else None for place, fine in enumerate(usual)]
        errors: dict[int, ImageError] = {}
        odd = [(place, picture) for place, picture in enumerate(pictures) if picture is not None and not usual[place]]
        if odd:
            others = noted_objects(batch.take(pa.array([place for place, _ in odd])))
            placed = self.place(others, [picture for _, picture in odd], how)
            rows = pa.concat_batches([rows, placed.rows])
            for number, (place, _) in enumerate(odd):
                places[place] = len(batch) + number
            errors = {odd[number][0]: error for number, error in placed.errors.items()}
        return Noted(rows, places, errors)

    def _says_all(self, size: tuple[int, int] | None, how: Reencode | None) -> bool:
        """Whether where the objects will be depends on nothing but what is said of an image that EXIF does not turn."""
        return size is not None and (size != RELATIVE or how is None)

    def _values(self, part: Part, noted: NotedObjects, placing: Placing) -> Any:
        """What is stored of all objects that are kept."""
        if part == "bbox":
            return np.stack(placing.boxes, axis=1).ravel().astype(np.float32)
        if part == "top" or part == "left" or part == "bottom" or part == "right":
            return getattr(placing.boxes, part).astype(np.float32)
        values = noted.columns["label" if part == "text" else part].take(pa.array(placing.kept))
        if part == "area":
            return (values.fill_null(0.0).to_numpy() * placing.scales).astype(np.float32)
        if part == "text":
            return pa.array(self.class_names, pa.string()).take(values).cast(_KINDS[part].arrow)
        if part == "label" and (first := len(self.names.classes(self.class_names)) - len(self.class_names)):
            return pc.add(values, first)
        return values.cast(_KINDS[part].arrow)

    def stats(self, rows: pa.RecordBatch, names: Sequence[str]) -> GatheredStats:
        """The statistics of the objects in images of which `rows` are those of Placed; `names` are theirs."""
        columns = rows.select([item.name for item in self._stored])
        labels = [item.name for item in self._stored if item.part == "label"]
        return GatheredStats.of(columns, hash_strings(names, 0), labels)


def _list(part: Part, values: Any, offsets: NDArray[np.int64]) -> pa.LargeListArray:
    if part == "bbox":
        offsets = 4 * offsets
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values, _KINDS[part].arrow))


def _is_usual(size: tuple[int, int] | None, picture: Picture) -> bool:
    """Whether an image is what is said of it."""
    return picture.orientation == UPRIGHT and size in (RELATIVE, (picture.width, picture.height))
