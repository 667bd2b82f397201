"""Objects in the images of rows: read, placed in their picture, and features of it. Pure."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardmill.errors import UserError
from shardmill.transforms.files.images.boxes import Picture
from shardmill.transforms.files.images.features import box_notices
from shardmill.transforms.files.images.objects import ObjectEncoder, object_features
from shardmill.transforms.formats.parquet.huggingface import OBJECTS as COLUMN
from shardmill.transforms.inputs.annotations.huggingface import check_sides, objects_batch
from shardmill.transforms.inputs.annotations.objects import Object, noted_objects, planned_objects, unknown_classes
from shardmill.transforms.layout.notices import left_out_notices
from shardmill.transforms.layout.objects import LABEL, RowObjects
from shardmill.transforms.layout.table_layout import TableLayout
from shardmill.transforms.records.images import pictures_column

_BOXES, _LEFT_OUT = "boxes", "left out"  # of what is counted: boxes that changed, and what no example holds
_NO_SIZE = (None, None)
_NO_PICTURE = Picture(1, 1)


@dataclass(frozen=True, slots=True, eq=False)
class PlacedObjects:
    """The objects in the images of some rows.

    Attributes:
      batch: the rows, with the features of the objects in the place of their column.
      bad: the rows that are refused for them: bool, shape (rows,).
      reasons: why, of each of these.
      changed: of each row, how many boxes were changed, by what was done to them.
      left_out: of each row, what is said of objects and no example holds, once for each.
    """

    batch: pa.RecordBatch
    bad: npt.NDArray[np.bool_]
    reasons: Mapping[int, str]
    changed: Mapping[str, npt.NDArray[np.int64]]
    left_out: Sequence[Sequence[str]]

    def counts(self, good: npt.NDArray[np.bool_]) -> Counter[tuple[str, str]]:
        """What there is to say of the rows that are `good`, as `object_notices` takes it."""
        found = Counter({(what, _BOXES): int(number[good].sum()) for what, number in self.changed.items()})
        found.update((what, _LEFT_OUT) for row in np.flatnonzero(good).tolist() for what in self.left_out[row])
        return found


def objects_layout(layout: TableLayout) -> TableLayout:
    """The layout with the features of objects in the place of their column; raises a UserError if there is another
    column that is called as one of them."""
    if layout.objects is None:
        return layout
    told = object_features(layout.objects.column.members, layout.objects.classes.names)
    for feature in told:
        if any(feature.name == other.name for other in layout.features):
            raise UserError(
                f"column {feature.name!r} is called as a feature of the column {COLUMN!r}; leave one of them out with"
                " --drop"
            )
    features = [item for feature in layout.features for item in (told if feature.name == COLUMN else (feature,))]
    return replace(layout, features=tuple(features), labels=(*layout.labels, LABEL))


def place_objects(batch: pa.RecordBatch, how: RowObjects) -> PlacedObjects:
    """Read the objects of rows whose images were looked at."""
    texts = batch[COLUMN].to_pylist()
    sizes = list(zip(*(batch[side].to_pylist() for side in how.sides), strict=True)) or [_NO_SIZE] * len(batch)
    objects: list[list[Object]] = []
    left_out: list[list[str]] = []
    reasons: dict[int, str] = {}
    for row, text in enumerate(texts):
        try:
            check_sides(sizes[row])
            value = _parsed(text)
            objects.append(how.column.objects(value))
            left_out.append(list(how.column.left_out(value)))
        except ValueError as error:
            reasons[row] = f"column {COLUMN!r}: {error}"
            objects.append([])
            left_out.append([])
            sizes[row] = _NO_SIZE
    found = objects_batch(sizes, objects)
    planned = planned_objects(found, how.classes.ids)
    for row, reason in unknown_classes(found, planned, how.classes.source).items():
        reasons.setdefault(row, reason)
    encoder = ObjectEncoder(how.column.members, how.boxes.on_bad_box, how.boxes.boxes_seen)
    pictures = [
        _NO_PICTURE if seen is None else Picture(seen["width"], seen["height"], seen["orientation"])
        for seen in batch[pictures_column(how.image)].to_pylist()
    ]
    features, placing = encoder.features(noted_objects(planned), pictures, None)
    for row, refusal in placing.errors.items():
        reasons.setdefault(row, str(refusal))
    bad = np.zeros(len(batch), bool)
    bad[list(reasons)] = True
    batch = batch.drop_columns([COLUMN])
    columns, names = [*batch.columns, *features.columns], [*batch.schema.names, *features.schema.names]
    return PlacedObjects(pa.RecordBatch.from_arrays(columns, names), bad, reasons, placing.changed, left_out)


def _parsed(text: bytes | None) -> Any:
    """What a text says of objects; itself, where it is another text that stands there."""
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text.decode(errors="replace")


def object_notices(odd: Mapping[tuple[str, str], int]) -> list[str]:
    """What must be said of objects, by what was counted."""
    boxes = {what: number for (what, kind), number in sorted(odd.items()) if kind == _BOXES}
    left_out = {what: number for (what, kind), number in odd.items() if kind == _LEFT_OUT}
    return [*box_notices(boxes), *left_out_notices(left_out)]
