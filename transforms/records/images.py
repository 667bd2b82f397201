"""Images in the columns of rows, and the objects in them."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardmill.errors import UserError
from shardmill.transforms.columns.arrow import data_of, offsets_of
from shardmill.transforms.features.rows import PICTURES, RowBatch
from shardmill.transforms.files.image_codec import check_image
from shardmill.transforms.files.image_features import box_notices
from shardmill.transforms.files.image_geometry import UPRIGHT, ImageError, Picture
from shardmill.transforms.files.image_headers import plain_sizes
from shardmill.transforms.files.image_objects import ObjectEncoder, object_features
from shardmill.transforms.findings import Finding
from shardmill.transforms.formats.format import OBJECTS as COLUMN
from shardmill.transforms.inputs.annotations import Object, find_unknown_classes, plan_objects, read_planned_objects
from shardmill.transforms.inputs.manifest_files import build_objects_batch, check_image_size
from shardmill.transforms.layout.objects import RowObjects
from shardmill.transforms.layout.options import OBJECT_LABEL, TableOptions, ignored_value_notices
from shardmill.transforms.layout.tables import TableLayout
from shardmill.transforms.options.image_options import PictureOptions
from shardmill.transforms.statistics.images import image_metadata_array

NO_IMAGE = "no image"


@dataclass(frozen=True, slots=True, eq=False)
class CheckedImages:
    """The result of checking a column of images."""

    bad: npt.NDArray[np.bool_]  # bool, shape (rows,): image is missing or rejected
    reasons: dict[int, str]  # reason by bad row
    pictures: pa.Array  # image metadata, null for bad rows


def check_images(column: pa.Array, options: PictureOptions) -> CheckedImages:
    """Check the images in a large_binary column like image files; plain JPEGs, the usual case, all at once."""
    rows, offsets = len(column), offsets_of(column)
    pixels = np.zeros((rows, 2), np.int64)
    if options.verify != "decode":
        pixels = plain_sizes(data_of(column), offsets[:-1], offsets[1:])
        pixels[pixels.prod(1) > options.max_pixels] = 0
    sizes, formats, orientations = np.diff(offsets), ["jpeg"] * rows, np.full(rows, UPRIGHT, np.int8)
    reasons: dict[int, str] = {}
    for row in np.flatnonzero(~pixels.all(1)).tolist():
        data = column[row].as_py()
        try:
            if data is None:
                raise ImageError(NO_IMAGE)
            header = check_image(data, options.verify, options.max_pixels)
            pixels[row] = header.width, header.height
            formats[row], orientations[row] = header.format, header.orientation
        except ImageError as error:
            reasons[row] = str(error)
    bad = np.zeros(rows, bool)
    bad[list(reasons)] = True
    pictures = image_metadata_array((sizes, pixels[:, 0], pixels[:, 1], formats, orientations), bad)
    return CheckedImages(bad, reasons, pictures)


_NO_SIZE = (None, None)
_NO_PICTURE = Picture(1, 1)


@dataclass(frozen=True, slots=True, eq=False)
class PlacedObjects:
    """The objects in the images of some rows, placed in the stored images."""

    batch: pa.RecordBatch  # rows, with object features in place of the objects column
    bad: npt.NDArray[np.bool_]  # bool, shape (rows,): rows rejected for their objects
    reasons: Mapping[int, str]  # reason by bad row
    changed: Mapping[str, npt.NDArray[np.int64]]  # number of changed boxes in each row, by kind of change
    ignored_keys: Sequence[Sequence[str]]  # of each row, annotated properties that no example holds

    def find_changes(self, good: npt.NDArray[np.bool_]) -> "ObjectChanges":
        """Return the changed boxes and dropped properties in the rows for which `good` is true."""
        boxes = {kind: number for kind, changes in self.changed.items() if (number := int(changes[good].sum()))}
        dropped = Counter(kind for row in np.flatnonzero(good).tolist() for kind in self.ignored_keys[row])
        return ObjectChanges(boxes, dropped)


def add_object_features(layout: TableLayout, row_objects: RowObjects) -> TableLayout:
    """Return the layout with the features of objects in place of their column; raise a UserError on equal names."""
    object_columns = object_features(row_objects.column.members, row_objects.classes.names)
    names = {feature.name for feature in layout.features}
    if taken := [feature.name for feature in object_columns if feature.name in names]:
        raise UserError(
            f"column {taken[0]!r} is called as a feature of the column {COLUMN!r}; leave one of them out with --drop"
        )
    features = [
        item for feature in layout.features for item in (object_columns if feature.name == COLUMN else (feature,))
    ]
    return replace(layout, features=tuple(features), labels=(*layout.labels, OBJECT_LABEL))


def place_objects(batch: pa.RecordBatch, row_objects: RowObjects) -> PlacedObjects:
    """Read the objects of rows whose images have been checked."""
    texts = batch[COLUMN].to_pylist()
    sides = (batch[side].to_pylist() for side in row_objects.size_columns)
    sizes = list(zip(*sides, strict=True)) or [_NO_SIZE] * len(batch)
    objects: list[list[Object]] = [[] for _ in texts]
    ignored_keys: list[list[str]] = [[] for _ in texts]
    reasons: dict[int, str] = {}
    for row, text in enumerate(texts):
        try:
            check_image_size(sizes[row])
            value = _parse_cell(text)
            objects[row] = row_objects.column.parse_objects(value)
            ignored_keys[row] = list(row_objects.column.find_ignored_keys(value))
        except ValueError as error:
            reasons[row] = f"column {COLUMN!r}: {error}"
            objects[row], sizes[row] = [], _NO_SIZE
    found = build_objects_batch(sizes, objects)
    planned = plan_objects(found, row_objects.classes.ids)
    for row, reason in find_unknown_classes(found, planned, row_objects.classes.source).items():
        reasons.setdefault(row, reason)
    encoder = ObjectEncoder(row_objects.column.members, row_objects.boxes.on_bad_box, row_objects.boxes.boxes_seen)
    pictures = [
        _NO_PICTURE if seen is None else Picture(seen["width"], seen["height"], seen["orientation"])
        for seen in batch[f"{PICTURES}{row_objects.image}"].to_pylist()
    ]
    features, placing = encoder.features(read_planned_objects(planned), pictures, None)
    for row, refusal in placing.errors.items():
        reasons.setdefault(row, str(refusal))
    bad = np.zeros(len(batch), bool)
    bad[list(reasons)] = True
    batch = batch.drop_columns([COLUMN])
    columns, names = [*batch.columns, *features.columns], [*batch.schema.names, *features.schema.names]
    return PlacedObjects(pa.RecordBatch.from_arrays(columns, names), bad, reasons, placing.change_counts, ignored_keys)


def check_rows(rows: RowBatch, layout: TableLayout) -> None:
    """Reject rows without a good image or good objects; add metadata of images, and features of objects."""
    for name in layout.images:
        checked = check_images(rows.batch[name], layout.pictures)
        rows.reject(checked.bad, lambda row, name=name, checked=checked: f"column {name!r}: {checked.reasons[row]}")
        rows.batch = rows.batch.append_column(f"{PICTURES}{name}", checked.pictures)
    if layout.objects is not None:
        placed = place_objects(rows.batch, layout.objects)
        rows.reject(placed.bad, lambda row: placed.reasons[row])
        rows.batch = placed.batch
        rows.counters.append(placed.find_changes)


def _parse_cell(text: bytes | None) -> Any:
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class ObjectChanges(Finding):
    """The changed boxes and dropped properties of objects in images."""

    rank: ClassVar[int] = 11
    boxes: dict[str, int] = field(default_factory=dict)  # changed boxes by kind of change
    dropped: dict[str, int] = field(default_factory=dict)  # objects by property

    def notices(self, flags: TableOptions, rows: int) -> list[str]:
        return [*box_notices(self.boxes), *ignored_value_notices(self.dropped)]
