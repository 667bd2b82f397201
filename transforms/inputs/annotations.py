"""Objects in images, as every annotation format is converted to, and the base of such formats."""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeGuard

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.inputs.folders import FileKind
from shardmill.transforms.inputs.found_files import FOUND
from shardmill.transforms.inputs.listing import Skipped, list_input, list_singly
from shardmill.transforms.inputs.summary import InputSummary, object_labels
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import FileStat

ObjectField = Literal["area", "bbox", "id", "is_crowd", "is_difficult", "is_truncated", "label", "pose"]


class Object(NamedTuple):
    """One object in an image. Edges are measured from the image's upper left corner, in the unit of its size."""

    label: Any  # class name; the class id once planned
    top: float  # upper edge of its bounding box
    left: float  # left edge
    bottom: float  # lower edge
    right: float  # right edge
    id: int  # annotation id; the line number in files without ids
    area: float | None = None  # of the object itself, in square pixels
    is_crowd: bool | None = None
    is_difficult: bool | None = None
    is_truncated: bool | None = None
    pose: str | None = None


class AnnotatedImage(NamedTuple):
    """An image and the objects in it. A frozen dataclass would take three times as long to create."""

    name: str  # file name relative to the input's root, or a path outside it
    position: int  # position in the annotations, from 1
    size: tuple[int, int] | None  # (width, height) in the boxes' unit: (1, 1) for fractions, None if unknown pixels
    objects: Sequence[Object] = ()
    split: str | None = None  # None if the annotations name none
    id: int | None = None  # None if the annotations have none
    ignored_properties: Sequence[str] = ()  # names of annotated facts that no example holds, one entry an object
    label: str | None = None  # class of the whole image, or an encoded list of classes
    shapes: str = ""  # text that masks of its objects are drawn from, see AddedCompanions


class AnnotatedImages(NamedTuple):
    """Many images at once; their objects are in `objects`, one list for each image, not in `images`."""

    images: Sequence[AnnotatedImage]
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
# Columns of annotated files in addition to FOUND, and to the planned columns of other files
OBJECTS = pa.schema([*_SIZE, pa.field("objects", pa.list_(_OBJECT))])
PLANNED_OBJECTS = pa.schema([*_SIZE, pa.field("objects", pa.list_(_PLANNED_OBJECT))])
ANNOTATED = pa.schema([*FOUND, *OBJECTS])


def plan_objects(batch: pa.RecordBatch, ids: Mapping[str, int]) -> pa.RecordBatch:
    """Convert the objects of annotated images: class names become ids, -1 for unknown classes."""
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


def find_unknown_classes(batch: pa.RecordBatch, planned: pa.RecordBatch, source: str) -> dict[int, str]:
    """Return why to reject images that have an object of a class which `source` does not name, by row."""
    ids = planned["objects"].flatten().flatten()[0].to_numpy()
    rows, labels = planned["objects"].value_parent_indices(), object_labels(batch)
    return {
        rows[index].as_py(): f"class {labels[index].as_py()!r} of an object is not in {source}"
        for index in np.flatnonzero(ids < 0)[::-1].tolist()
    }


class PlannedObjects(NamedTuple):
    """The objects of a batch of images, with class ids."""

    sizes: list[tuple[int, int] | None]  # (width, height) of each image in the unit of its boxes, or None
    lengths: NDArray[np.int64]  # number of objects in each image
    columns: dict[str, pa.Array]  # values of all objects by field of Object; `label` holds class ids


def read_planned_objects(batch: pa.RecordBatch) -> PlannedObjects:
    """Return the objects in a batch of planned images."""
    lists = batch["objects"]
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    columns = dict(zip(Object._fields, lists.flatten().flatten(), strict=True))
    return PlannedObjects(image_sizes(batch), lengths, columns)


def image_sizes(batch: pa.RecordBatch) -> list[tuple[int, int] | None]:
    """Return (width, height) of each image in the unit of its boxes; None if unknown."""
    sides = zip(batch["box_width"].to_pylist(), batch["box_height"].to_pylist(), strict=True)
    return [None if None in size else size for size in sides]


def build_object_lists(objects: Sequence[Sequence[Object]]) -> pa.ListArray:
    """Build the `objects` column of a batch of annotated images from each image's objects."""
    columns = zip(*chain.from_iterable(objects), strict=True) if any(objects) else [[]] * len(_TYPES)
    return build_lists_of_columns(columns, [len(image_objects) for image_objects in objects])


def build_lists_of_columns(columns: Iterable[Any], lengths: Sequence[int] | NDArray[np.int64]) -> pa.ListArray:
    """Build the `objects` column of a batch of annotated images from a column for each field of Object."""
    arrays = [
        column.cast(dtype) if isinstance(column, pa.Array) else pa.array(column, dtype)
        for column, dtype in zip(columns, _TYPES.values(), strict=True)
    ]
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(arrays, fields=list(_OBJECT)))


def is_integer(value: Any) -> TypeGuard[int]:
    """Return True if a JSON value is an integer of 64 bits; a float without fraction, such as 640.0, counts.

    A float beyond 2^53 does not: orjson reads integers beyond 64 bits as floats, which are then other numbers.
    """
    if isinstance(value, float):
        return value.is_integer() and abs(value) <= 1 << 53
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63


def is_number(value: Any) -> bool:
    """Return True if a JSON value is a finite number that fits a float, or NaN."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and not (isinstance(value, int) and abs(value) > 1 << 63)
        and not math.isinf(value)
    )


def is_finite_number(value: Any) -> bool:
    """Return True if a JSON value is a finite number that fits a float."""
    return is_number(value) and not math.isnan(value)


def list_files_below(root: str, masks: str | None) -> list[str]:
    """Return the sorted names of all files below a folder, except those in the folder `masks`.

    Local links are followed, as in folders without annotations. Raise a UserError if a folder cannot be listed.
    """
    if storage.is_local(root):
        names = sorted(_list_local_files(root)) if os.path.isdir(root) else []
    else:
        names = sorted(name for name, _ in storage.list_files(root))
    if masks is None:
        return names
    if storage.is_local(root) and storage.is_local(masks):
        root, masks = os.path.abspath(root), os.path.abspath(masks)
    return [name for name in names if not storage.join(root, name).startswith(storage.join(masks, ""))]


def _list_local_files(root: str) -> Iterator[str]:
    for item in list_singly(list_input(root, _EveryFile("files", "", is_listable=True))):
        if isinstance(item, FileStat):
            yield item.path
        elif isinstance(item, Reject):
            if item.count == "at least":
                raise UserError(f"{storage.join(root, item.source)}: {item.reason}")
            yield item.source  # reading it says so


class _EveryFile(FileKind):
    __slots__ = ()

    def accepts(self, name: str) -> bool:
        return True


class ListedImage(NamedTuple):
    """An image whose annotation is a file of its own."""

    image: str  # name of the image file, relative to the root
    annotation: str  # name of the annotation file, relative to the root
    position: int  # position among all listed images, from 1
    split: str | None = None  # None if unknown


class AnnotationSource(ABC):
    """An annotation format with the location of its files."""

    members: ClassVar[tuple[ObjectField, ...]]  # fields of Object that the format provides
    has_labels: ClassVar[bool] = False  # True if images may have labels of their own
    root: str  # folder that file names are relative to

    @abstractmethod
    def list_extra_files(self) -> Iterator[str]:
        """Yield the paths of the files read in addition to images and their own annotation files."""

    @abstractmethod
    def list_images(self) -> Iterator[AnnotatedImages | ListedImage | InputSummary | Reject | Skipped | str]:
        """List the input on one worker: images with their objects, or with the names of their annotation files.

        Also yield parts of the summary, such as declared classes, and notices for the end of the job. Raise a UserError
        if the input is missing or not of this format. Raise an OSError if a store failed.
        """

    def check_summary(self, summary: InputSummary) -> list[str]:
        """Return notices about all annotations together; raise a UserError if they show that something is wrong."""
        return []


class AnnotationFileSource(AnnotationSource):
    """An annotation source whose images have annotation files of their own."""

    def prepare(self) -> Self:
        """Return the source with everything that `parse_annotation` needs; each worker calls this once."""
        return self

    @abstractmethod
    def parse_annotation(self, data: bytes, listed_image: ListedImage) -> AnnotatedImage | Reject:
        """Parse the bytes of an image's annotation file."""
