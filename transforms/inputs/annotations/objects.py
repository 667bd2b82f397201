"""The one form that all annotations are brought to: an image's file, and a list of typed objects in it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shardmill.transforms.inputs.found import FOUND

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


class AnnotatedFiles(NamedTuple):
    """Images and what is in them, many at once: that of each is not in `images` but in `objects`, a list for each, as
    `lists_of` makes them."""

    images: Sequence[Annotated]
    objects: pa.ListArray


IMAGE_ID = "image/id"  # the column of the ids that images have in their annotations
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


def unknown_classes(batch: pa.RecordBatch, planned: pa.RecordBatch, source: str) -> dict[int, str]:
    """Why images with an object of a class that has no id are rejects, by their rows in an ANNOTATED batch, of whose
    objects `planned` is what `planned_objects` makes; the names of classes are those of `source`."""
    ids = planned["objects"].flatten().flatten()[0].to_numpy()
    rows, labels = planned["objects"].value_parent_indices(), labels_of(batch)
    return {
        rows[place].as_py(): f"class {labels[place].as_py()!r} of an object is not in {source}"
        for place in np.flatnonzero(ids < 0)[::-1].tolist()
    }


class NotedObjects(NamedTuple):
    """What is planned of the objects in some images.

    Attributes:
      sizes: of each picture, (width, height) in the unit of its boxes; None where nothing says it.
      lengths: how many objects each image has.
      columns: of all objects, a field of Object each: `label` the id of the class.
    """

    sizes: list[tuple[int, int] | None]
    lengths: NDArray[np.int64]
    columns: dict[str, pa.Array]


def noted_objects(batch: pa.RecordBatch) -> NotedObjects:
    """What a batch with PLANNED_OBJECTS says of the objects in its images."""
    lists = batch["objects"]
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    return NotedObjects(sizes_of(batch), lengths, dict(zip(Object._fields, lists.flatten().flatten(), strict=True)))


def sizes_of(batch: pa.RecordBatch) -> list[tuple[int, int] | None]:
    """As NotedObjects has them."""
    widths, heights = batch["box_width"].to_pylist(), batch["box_height"].to_pylist()
    return [
        None if width is None or height is None else (width, height)
        for width, height in zip(widths, heights, strict=True)
    ]


def object_lists(objects: Sequence[Sequence[Object]]) -> pa.ListArray:
    """Objects of some images, as an ANNOTATED batch has them."""
    columns = zip(*chain.from_iterable(objects), strict=True) if any(objects) else [[]] * len(_TYPES)
    return lists_of(columns, [len(each) for each in objects])


def lists_of(columns: Iterable[Any], lengths: Sequence[int] | NDArray[np.int64]) -> pa.ListArray:
    """As `object_lists`, from the columns of all objects in the order of Object's fields, and how many of them each
    image has."""
    arrays = [
        column.cast(dtype) if isinstance(column, pa.Array) else pa.array(column, dtype)
        for column, dtype in zip(columns, _TYPES.values(), strict=True)
    ]
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(arrays, fields=list(_OBJECT)))
