"""Encode the objects of an image, placed in the image as it is stored."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shardmill.data.features import (
    BACKGROUND_CLASS,
    NO_RENAMES,
    OBJECT_DETECTION_KEYS,
    DType,
    Feature,
    Features,
    Kind,
    Renames,
)
from shardmill.errors import UserError
from shardmill.transforms.columns.example_encoding import encode_entries
from shardmill.transforms.files.image_codec import Reencode
from shardmill.transforms.files.image_geometry import (
    FAULTS,
    REACHES_OUT,
    UPRIGHT,
    Box,
    Fitting,
    ImageError,
    Picture,
    box_frame,
    clip_box,
    find_faults,
    fit_image,
    inverse_orientation,
    turn_box,
)
from shardmill.transforms.inputs.annotations import (
    RELATIVE,
    ObjectField,
    PlannedObjects,
    image_sizes,
    read_planned_objects,
)
from shardmill.transforms.shards.balance import hash_strings
from shardmill.transforms.statistics.tables import TableStats

ObjectPart = ObjectField | Literal["top", "left", "bottom", "right", "text"]


class ObjectFeature(NamedTuple):
    """A feature of objects: its name, the part of an object that it holds, and the field that this is derived from."""

    name: str
    part: ObjectPart
    member: ObjectField


@dataclass(frozen=True)
class ObjectNames:
    """A naming scheme for the features of objects: that of TFDS, or of TensorFlow's Object Detection API.

    The API reads keys of its own (object_detection/data_decoders/tf_example_decoder.py): edges and classes are separate
    lists, and class names are stored. Its label maps reserve the id 0 for `background` (utils/label_map_util.py).
    """

    sequence: str  # name of the list of objects, prefix of all others
    all: tuple[ObjectFeature, ...]  # all possible features, in writing order
    # True for the API's: class id 0 is background; image id, format and SHA-256 are stored too
    is_detection_api: bool = False

    @property
    def image_id(self) -> str:
        """Feature of a text that identifies every image, its id or file name; "" if only numeric ids are stored."""
        return OBJECT_DETECTION_KEYS.source_id if self.is_detection_api else ""

    def stored_features(self, members: Iterable[ObjectField]) -> tuple[ObjectFeature, ...]:
        """Return the features stored for objects that have `members`."""
        available = set(members)
        return tuple(item for item in self.all if item.member in available)

    def classes(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the class names by stored id."""
        adds_background = self.is_detection_api and tuple(names[:1]) != (BACKGROUND_CLASS,)
        return (BACKGROUND_CLASS, *names) if adds_background else tuple(names)

    def check(self, found: Iterable[str], names: Sequence[str]) -> None:
        """Raise a UserError if a class has the name that the API reserves for the background."""
        if self.is_detection_api and (BACKGROUND_CLASS in found or BACKGROUND_CLASS in names[1:]):
            raise UserError(
                f"--feature_names object_detection: a class is called {BACKGROUND_CLASS!r}, which the Object Detection"
                " API keeps for what is in no box, by the id 0; rename the class"
            )


_MEMBERS: tuple[ObjectField, ...] = ("area", "bbox", "id", "is_crowd", "is_difficult", "is_truncated", "label", "pose")
TFDS_NAMES = ObjectNames("objects", tuple(ObjectFeature(f"objects/{name}", name, name) for name in _MEMBERS))
OBJECT_DETECTION_NAMES = ObjectNames(
    OBJECT_DETECTION_KEYS.objects,
    (
        ObjectFeature(OBJECT_DETECTION_KEYS.area, "area", "area"),
        ObjectFeature(OBJECT_DETECTION_KEYS.edges[3], "right", "bbox"),
        ObjectFeature(OBJECT_DETECTION_KEYS.edges[1], "left", "bbox"),
        ObjectFeature(OBJECT_DETECTION_KEYS.edges[2], "bottom", "bbox"),
        ObjectFeature(OBJECT_DETECTION_KEYS.edges[0], "top", "bbox"),
        ObjectFeature(OBJECT_DETECTION_KEYS.label, "label", "label"),
        ObjectFeature(OBJECT_DETECTION_KEYS.text, "text", "label"),
        ObjectFeature(OBJECT_DETECTION_KEYS.difficult, "is_difficult", "is_difficult"),
        ObjectFeature(OBJECT_DETECTION_KEYS.id, "id", "id"),
        ObjectFeature(OBJECT_DETECTION_KEYS.is_crowd, "is_crowd", "is_crowd"),
        ObjectFeature(OBJECT_DETECTION_KEYS.truncated, "is_truncated", "is_truncated"),
        ObjectFeature(OBJECT_DETECTION_KEYS.view, "pose", "pose"),
    ),
    is_detection_api=True,
)


_EDGE = 1e-6  # of a side: less beyond it is a matter of rounding
_UNCHANGED = Fitting()


class Placing(NamedTuple):
    """The objects of several images, with boxes as placed in the stored images."""

    errors: Mapping[int, ImageError]  # reason to reject an image, by its position; none of its objects is kept
    kept_objects: NDArray[np.int64]  # indices of the objects kept, in order
    lengths: NDArray[np.int64]  # number of objects kept in each image
    boxes: Box  # boxes of the objects kept
    scales: NDArray[np.float64]  # growth of each object's area
    # per image, boxes `clipped` at the edge, objects `dropped` for invalid boxes or `cropped` away
    change_counts: Mapping[str, NDArray[np.int64]]


class _BoxTransform(NamedTuple):
    unit: tuple[int, int]  # (width, height) of the image in the unit of its boxes
    orientation: int = UPRIGHT  # by which boxes are turned
    fit: Fitting = _UNCHANGED  # resizing after that
    area_factor: float = 1.0  # factor of the area of an uncropped object


def place_objects(
    planned: PlannedObjects, pictures: Sequence[Picture], settings: Reencode | None, default_frame: str, action: str
) -> Placing:
    """Place objects in the stored images: check, turn, crop, pad and scale their boxes.

    `pictures` are the images as found; `action` is that of --on_bad_box. Images of invalid boxes are errors by default.
    """
    errors: dict[int, ImageError] = {}
    transforms = [_BoxTransform(RELATIVE)] * len(pictures)
    for image in np.flatnonzero(planned.lengths).tolist():
        try:
            transforms[image] = _find_box_transform(planned.sizes[image], pictures[image], settings, default_frame)
        except ImageError as error:
            errors[image] = error
    owners = np.repeat(np.arange(len(pictures)), planned.lengths)
    units = np.array([transform.unit for transform in transforms], np.float64).reshape(-1, 2)
    edges = np.array([planned.columns[edge].to_numpy(zero_copy_only=False) for edge in Box._fields])
    boxes = Box(*(edges / units[owners][:, [1, 0, 1, 0]].T))
    sizes = np.array([picture[:2] for picture in pictures], np.float64).reshape(-1, 2)
    faults = find_faults(boxes, np.where(units == 1, sizes, units)[owners])
    if action == "clip":
        faults[faults == FAULTS.index(REACHES_OUT)] = 0
    if action != "drop":
        faulty = np.flatnonzero(faults)
        for image, first in zip(*np.unique(owners[faulty], return_index=True), strict=True):
            message = _describe_fault(planned, int(faulty[first]), FAULTS[faults[faulty[first]]], planned.sizes[image])
            errors.setdefault(int(image), ImageError(message))
    inside = clip_box(boxes)
    is_clipped = np.max(np.abs(np.subtract(inside, boxes)), axis=0, initial=0) > _EDGE
    moved = _move_boxes(inside, transforms, owners)
    stored_boxes = clip_box(moved)
    is_valid, is_cropped = faults == 0, (faults == 0) & stored_boxes.is_empty
    is_rejected = np.zeros(len(pictures), bool)
    is_rejected[list(errors)] = True
    kept = np.flatnonzero(is_valid & ~is_cropped & ~is_rejected[owners])
    factors = np.array([transform.area_factor for transform in transforms])[owners]
    left = inside.area / np.where(is_valid, boxes.area, 1.0)  # the part of a box that is in its picture
    scales = factors * left * stored_boxes.area / np.where(moved.area == 0, 1.0, moved.area)

    def counted(which: Any) -> NDArray[np.int64]:
        return np.bincount(owners[which], minlength=len(pictures))

    changed = {"clipped": counted(is_valid & is_clipped), "dropped": counted(~is_valid), "cropped": counted(is_cropped)}
    return Placing(errors, kept, counted(kept), Box(*(edge[kept] for edge in stored_boxes)), scales[kept], changed)


def _move_boxes(boxes: Box, transforms: Sequence[_BoxTransform], owners: NDArray[np.int64]) -> Box:
    groups: dict[tuple[int, Fitting], int] = {(UPRIGHT, _UNCHANGED): 0}
    group = np.array(
        [groups.setdefault((transform.orientation, transform.fit), len(groups)) for transform in transforms], np.int64
    )
    if len(groups) == 1:
        return boxes
    moved, group = np.array(boxes), group[owners]
    for (orientation, fit), number in groups.items():
        if number and len(of_group := np.flatnonzero(group == number)):
            moved[:, of_group] = fit(turn_box(Box(*moved[:, of_group]), orientation))
    return Box(*moved)


@lru_cache(maxsize=4096)
def _find_box_transform(
    size: tuple[int, int] | None, picture: Picture, settings: Reencode | None, default_frame: str
) -> _BoxTransform:
    """Return how boxes of an image move; raise an ImageError if the annotated `size` is not the image's."""
    frame = box_frame(picture, None if size == RELATIVE else size, default_frame)
    unit = RELATIVE
    if size != RELATIVE:
        unit = picture.upright if frame == "upright" else (picture.width, picture.height)
    pixels = picture.width * picture.height if size == RELATIVE else 1  # of which an area is a fraction
    if settings is None:
        orientation = inverse_orientation(picture.orientation) if frame == "upright" else UPRIGHT
        return _BoxTransform(unit, orientation, area_factor=pixels)
    target = settings.size or picture.upright
    fit = fit_image(picture.upright, settings.size, settings.mode)
    area_factor = (target[0] * target[1] * fit.target_box.area) / (picture.width * picture.height * fit.source_box.area)
    return _BoxTransform(unit, picture.orientation if frame == "stored" else UPRIGHT, fit, area_factor * pixels)


def _describe_fault(planned: PlannedObjects, index: int, problem: str, size: tuple[int, int] | None) -> str:
    edges = ", ".join(f"{planned.columns[edge][index].as_py():g}" for edge in ("left", "top", "right", "bottom"))
    size_text = "" if size is None or size == RELATIVE else f" of {size[0]} x {size[1]} pixels"
    fault = f"{problem}{size_text}" if problem.endswith("the picture") else problem
    remedy = "--on_bad_box clip clips it" if problem == REACHES_OUT else "--on_bad_box drop leaves the object out"
    number = planned.columns["id"][index].as_py()
    return f"object {number}: the box from left, top to right, bottom {edges} {fault}; {remedy}"


_ENTRIES = "entries"
_PREPARED = "prepared"  # in addition to the planned columns of an image


_KINDS: dict[ObjectPart, tuple[DType, Kind]] = {
    **dict.fromkeys(("area", "top", "left", "bottom", "right"), ("float32", "tensor")),
    **dict.fromkeys(("is_crowd", "is_difficult", "is_truncated"), ("int64", "bool")),
    **dict.fromkeys(("pose", "text"), ("bytes", "text")),
    "bbox": ("float32", "bbox"),
    "id": ("int64", "tensor"),
    "label": ("int64", "class_label"),
}
_ARROW: dict[DType, pa.DataType] = {"int64": pa.int64(), "float32": pa.float32(), "bytes": pa.binary()}
_ARROW_TYPES = {part: _ARROW[dtype] for part, (dtype, _) in _KINDS.items()}


def object_features(
    members: Iterable[ObjectField], class_names: Sequence[str], names: ObjectNames = TFDS_NAMES
) -> Features:
    """Return the features of objects, in writing order."""
    return tuple(
        Feature(
            item.name,
            *_KINDS[item.part],
            (None, 4) if item.part == "bbox" else (None,),
            class_names=names.classes(class_names) if item.part == "label" else (),
            sequence=names.sequence,
        )
        for item in names.stored_features(members)
    )


@dataclass(frozen=True)
class ObjectEncoder:
    """Encoder of the objects in images."""

    members: tuple[ObjectField, ...]  # fields of each object that are annotated
    on_bad_box: str = "reject"  # `reject` the image, `drop` the object, or `clip` a box that reaches out
    boxes_seen: str = ""  # orientation of boxes if EXIF makes it ambiguous: `stored`, `upright` or "" to reject
    renames: Renames = NO_RENAMES  # of features, applied after `names`
    names: ObjectNames = TFDS_NAMES  # naming scheme of features
    class_names: tuple[str, ...] = ()  # by planned id, if names are stored too

    @property
    def _stored(self) -> tuple[ObjectFeature, ...]:
        return self.names.stored_features(self.members)

    def place(
        self, planned: PlannedObjects, pictures: Sequence[Picture], settings: Reencode | None
    ) -> tuple[pa.RecordBatch, Mapping[int, ImageError]]:
        """Return the encoded objects of each image, counts of changed boxes, and errors of images."""
        lists, placing = self.features(planned, pictures, settings)
        named = lists.rename_columns(list(map(self.renames, lists.schema.names)))
        columns = [encode_entries(named), *map(pa.array, placing.change_counts.values()), *lists.columns]
        names = [_ENTRIES, *placing.change_counts, *lists.schema.names]
        return pa.RecordBatch.from_arrays(columns, names), placing.errors

    def features(
        self, planned: PlannedObjects, pictures: Sequence[Picture], settings: Reencode | None
    ) -> tuple[pa.RecordBatch, Placing]:
        """Return a list for each feature and image, and the placed objects; arguments as of `place`."""
        placing = place_objects(planned, pictures, settings, self.boxes_seen, self.on_bad_box)
        offsets = np.zeros(len(pictures) + 1, np.int64)
        np.cumsum(placing.lengths, out=offsets[1:])
        stored = self._stored
        lists = [_list(item.part, self._compute_values(item.part, planned, placing), offsets) for item in stored]
        return pa.RecordBatch.from_arrays(lists, [item.name for item in stored]), placing

    def prepare(self, batch: pa.RecordBatch, settings: Reencode | None) -> pa.RecordBatch:
        """Add encoded objects to a batch of planned images, if these are upright and have the annotated size."""
        # This is for many images at once, because few are read and stored at once. `annotate` handles the others.
        planned = read_planned_objects(batch)
        pictures = [Picture(*(size or RELATIVE)) for size in planned.sizes]
        placed, errors = self.place(planned, pictures, settings)
        # Is the annotated size alone enough to place objects in an image without EXIF rotation?
        fractions = settings is None and "area" not in self.members
        is_enough = [size is not None and (size != RELATIVE or fractions) for size in planned.sizes]
        is_known = np.array(is_enough, bool)
        is_known[list(errors)] = False
        rows = pa.StructArray.from_arrays(placed.columns, placed.schema.names, mask=pa.array(~is_known))
        return batch.append_column(_PREPARED, rows)

    def annotate(
        self, batch: pa.RecordBatch, pictures: Sequence[Picture | None], settings: Reencode | None
    ) -> tuple[pa.RecordBatch, Sequence[int | None], Mapping[int, ImageError]]:
        """Return the encoded objects of a batch from `prepare`, each image's row among them, and errors."""
        prepared = batch[_PREPARED]
        known = zip(pictures, prepared.is_valid().to_pylist(), image_sizes(batch), strict=True)
        is_prepared = [  # the image is upright and has the annotated size
            is_encoded
            and picture is not None
            and picture.orientation == UPRIGHT
            and size in (RELATIVE, (picture.width, picture.height))
            for picture, is_encoded, size in known
        ]
        rows = pa.RecordBatch.from_arrays(prepared.flatten(), [field.name for field in prepared.type])
        object_rows: list[int | None] = [place if is_row else None for place, is_row in enumerate(is_prepared)]
        errors: dict[int, ImageError] = {}
        unprepared = [
            (place, picture) for place, picture in enumerate(pictures) if picture is not None and not is_prepared[place]
        ]
        if unprepared:
            planned = read_planned_objects(batch.take(pa.array([place for place, _ in unprepared])))
            placed, placed_errors = self.place(planned, [picture for _, picture in unprepared], settings)
            rows = pa.concat_batches([rows, placed])
            for number, (place, _) in enumerate(unprepared):
                object_rows[place] = len(batch) + number
            errors = {unprepared[number][0]: error for number, error in placed_errors.items()}
        return rows, object_rows, errors

    def _compute_values(self, part: ObjectPart, planned: PlannedObjects, placing: Placing) -> Any:
        if part == "bbox":
            return np.stack(placing.boxes, axis=1).ravel().astype(np.float32)
        if part == "top" or part == "left" or part == "bottom" or part == "right":
            return getattr(placing.boxes, part).astype(np.float32)
        values = planned.columns["label" if part == "text" else part].take(pa.array(placing.kept_objects))
        if part == "area":
            return (values.fill_null(0.0).to_numpy() * placing.scales).astype(np.float32)
        if part == "text":
            return pa.array(self.class_names, pa.string()).take(values).cast(_ARROW_TYPES[part])
        if part == "label" and (first := len(self.names.classes(self.class_names)) - len(self.class_names)):
            return pc.add(values, first)
        return values.cast(_ARROW_TYPES[part])

    def stats(self, rows: pa.RecordBatch, names: Sequence[str]) -> TableStats:
        """Return the statistics of objects, from rows of `place` and the names of their images."""
        columns = rows.select([item.name for item in self._stored])
        labels = [item.name for item in self._stored if item.part == "label"]
        return TableStats.from_batch(columns, hash_strings(names, 0), labels)


def take_rows(rows: pa.RecordBatch, places: Sequence[int | None]) -> pa.RecordBatch:
    """Return rows of `annotate`; if these are all, as in most batches, nothing is copied."""
    return rows if places == list(range(len(rows))) else rows.take(pa.array(places, pa.int64()))


def _list(part: ObjectPart, values: Any, offsets: NDArray[np.int64]) -> pa.LargeListArray:
    bounds = pa.array(4 * offsets if part == "bbox" else offsets)
    return pa.LargeListArray.from_arrays(bounds, pa.array(values, _ARROW_TYPES[part]))
