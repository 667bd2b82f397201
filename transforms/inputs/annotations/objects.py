"""The one form that all annotations are brought to: an image's file, and a list of typed objects in it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from transforms.inputs.found import FOUND

Member = Literal["area", "bbox", "id", "is_crowd", "is_difficult", "is_truncated", "label", "pose"]


class Object(NamedTuple):
    """One thing in an image. Edges are counted from the upper left corner of the picture, in the unit of its size.

    Attributes:
      label: the name of its class; once planned, the id.
      top, left, bottom, right: edges of the box around it.
      id: the annotation's, for errors too; its line in a file that has no ids.
      area: of the thing itself, in square pixels.
    """

    label: Any
    top: float
    left: float
    bottom: float
    right: float
    id: int
    area: float | None = None
    is_crowd: bool | None = None
    is_difficult: bool | None = None
    is_truncated: bool | None = None
    pose: str | None = None


@dataclass(frozen=True, slots=True)
class Annotated:
    """An image and what is in it.

    Attributes:
      name: its file's, relative to the root of the input, or where it lies elsewhere.
      place: from 1, in the file or folder of annotations.
      size: (width, height) of the picture in the unit of the boxes; (1, 1) where they are fractions of it; None where
        they are pixels, and nothing says of how many.
      split: None where nothing says it.
      columns: what else is said of the image, by the name of its feature.
      left_out: what is said of its objects and no example holds, as the format calls it, once for each object.
    """

    name: str
    place: int
    size: tuple[int, int] | None
    objects: Sequence[Object] = ()
    split: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    left_out: Sequence[str] = ()


RELATIVE = (1, 1)  # the size of a picture whose boxes are fractions of it

_TYPES = {
    "label": pa.string(),
    **dict.fromkeys(("top", "left", "bottom", "right"), pa.float64()),
    "id": pa.int64(),
    "area": pa.float64(),
    **dict.fromkeys(("is_crowd", "is_difficult", "is_truncated"), pa.bool_()),
    "pose": pa.string(),
}
# A list of these is what the objects of an image travel as; once planned, `label` is the id of the class.
_OBJECT = pa.struct(list(_TYPES.items()))
_PLANNED_OBJECT = pa.struct(list((_TYPES | {"label": pa.int64()}).items()))
_SIZE = [pa.field("box_width", pa.int64()), pa.field("box_height", pa.int64())]
# What annotated files have beside FOUND, and beside what is planned of others
OBJECTS = pa.schema([*_SIZE, pa.field("objects", pa.list_(_OBJECT))])
PLANNED_OBJECTS = pa.schema([*_SIZE, pa.field("objects", pa.list_(_PLANNED_OBJECT))])
ANNOTATED = pa.schema([*FOUND, *OBJECTS])


def labels_of(batch: pa.RecordBatch) -> pa.Array:
    """The names of the classes of all objects of an ANNOTATED batch."""
    return batch["objects"].flatten().flatten()[0]


def planned_objects(batch: pa.RecordBatch, ids: Mapping[str, int]) -> pa.RecordBatch:
    """What is planned of the objects of an ANNOTATED batch: classes by their ids, -1 of one that has none."""
    objects = batch["objects"]
    lengths = np.asarray(objects.value_lengths().fill_null(0))
    label, *others = objects.flatten().flatten()
    coded = label.dictionary_encode()
    table = np.array([ids.get(name, -1) for name in coded.dictionary.to_pylist()], np.int64)
    labels = pa.array(table[coded.indices.to_numpy()] if len(label) else np.zeros(0, np.int64))
    items = pa.StructArray.from_arrays([labels, *others], fields=list(_PLANNED_OBJECT))
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
    lists = pa.ListArray.from_arrays(offsets, items)
    return pa.RecordBatch.from_arrays([batch["box_width"], batch["box_height"], lists], schema=PLANNED_OBJECTS)


class Noted(NamedTuple):
    """What is planned of one image: the size of the picture in the unit of its boxes, and its objects, their classes by
    id."""

    size: tuple[int, int] | None
    objects: list[Object]


def noted(batch: pa.RecordBatch) -> Iterator[Noted | None]:
    """What is planned of the objects of each image of a batch; None of all where none are annotated."""
    if "objects" not in batch.schema.names:
        yield from [None] * len(batch)
        return
    lists = batch["objects"]
    items = list(map(Object, *(column.to_pylist() for column in lists.flatten().flatten())))
    start = 0
    for width, height, length in zip(
        batch["box_width"].to_pylist(), batch["box_height"].to_pylist(), lists.value_lengths().to_pylist(), strict=True
    ):
        size = None if width is None or height is None else (width, height)
        yield Noted(size, items[start : start + length])
        start += length
