"""Columns that hold the objects of images, and coordinates that follow resized images."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from shardmill.data.features import Feature, Features
from shardmill.errors import UserError
from shardmill.flag_values import quote
from shardmill.metadata import file_names
from shardmill.metadata.labels import ClassNames
from shardmill.transforms.columns.types import (
    MAX_VALUES,
    ColumnType,
    DeclaredColumn,
    DeclaredObjects,
    Inferred,
    format_shape,
)
from shardmill.transforms.formats.format import OBJECTS as COLUMN
from shardmill.transforms.inputs.manifest_files import SIZE_COLUMNS, ObjectsColumn
from shardmill.transforms.inputs.summary import REACHING, InputSummary
from shardmill.transforms.layout.columns import check_same_classes
from shardmill.transforms.layout.files import resolve_object_classes
from shardmill.transforms.layout.options import (
    OBJECT_LABEL,
    TableOptions,
    declared_objects,
    is_objects_column,
    unnamed_classes_notice,
)
from shardmill.transforms.options.image_options import BoxOptions, LabelOptions


@dataclass(frozen=True, slots=True)
class RowObjects:
    """The objects in the images of a table's rows."""

    column: ObjectsColumn  # how the column holds them
    image: str  # column of the images that they are in
    size_columns: tuple[str, ...]  # columns of the image size that boxes refer to; () if none
    classes: ClassNames  # class table of objects
    boxes: BoxOptions  # handling of invalid boxes
    notices: tuple[str, ...] = ()  # messages for the end of the job


def find_objects(
    inferred: Inferred, features: Features, images: tuple[str, ...], options: TableOptions
) -> RowObjects | None:
    """Find the objects in the images of a table; None if the files declare none."""
    objects_feature = next((feature for feature in features if feature.name == COLUMN), None)
    declared = declared_objects(inferred) if objects_feature is not None else None
    if declared is None:
        _check_declared(objects_feature, inferred, options)
        return None
    columns_by_flag = {"--label": options.label_columns, "--image": options.image, **options.columns_by_flag}
    for flag, columns in columns_by_flag.items():
        if COLUMN in columns:
            raise UserError(f"{flag} {COLUMN}: the column is of boxes in images, as in Hugging Face; leave it out")
    check_same_classes(COLUMN, declared, options)
    keys = _keys(declared, options)
    labels, declared_names = options.classes.labels, next(iter(declared.class_names), ())
    given_names = labels.get(OBJECT_LABEL) if isinstance(labels, Mapping) else None if options.label_columns else labels
    column = ObjectsColumn.from_declaration(
        keys, declared_names or (given_names if keys.has_class_ids and given_names else ()), options.source
    )
    column = _limit_to_schema(column, options)
    found = _found_classes(column, inferred, options)
    tables = {declared_names: (1, f"the metadata of {options.source}")} if declared_names else {}
    label_options = LabelOptions() if given_names is None else replace(options.classes, labels=given_names)
    classes = resolve_object_classes(found, tables, label_options, options.source, column)
    schema_classes = next((len(item.class_names) for item in options.objects if item.name == OBJECT_LABEL), 0)
    if len(classes) < schema_classes:
        raise UserError(
            f"{options.schema_name} says that {OBJECT_LABEL!r} holds ids of {schema_classes:,} classes, and"
            f" {options.source} has {len(classes):,}; give their names with --labels_file, the"
            f" {file_names.labels_file(OBJECT_LABEL.replace('/', '-'))} that is next to the schema"
        )
    notices = [unnamed_classes_notice(len(classes))] if column.has_unnamed_ids else []
    integers = {item.name for item in features if item.dtype == "int64" and item.kind == "tensor" and not item.shape}
    size_columns = SIZE_COLUMNS if integers.issuperset(SIZE_COLUMNS) else ()
    return RowObjects(column, _image(images), size_columns, classes, options.boxes, tuple(notices))


def _keys(declared: DeclaredColumn, options: TableOptions) -> DeclaredObjects:
    all_keys = {key for item in declared.objects for key in item.field_names}
    common = all_keys.intersection(*(item.field_names for item in declared.objects))
    kinds = {item.has_class_ids for item in declared.objects} - {None}
    by_rows = all(item.varies_by_row for item in declared.objects)
    uncommon = sorted(all_keys - common) if not by_rows else []
    if not uncommon and len(kinds) < 2:
        return DeclaredObjects(tuple(sorted(all_keys)), next(iter(kinds), None), by_rows)
    by_place = sorted(declared.objects, key=lambda item: item.location, reverse=True)  # so that the first one stays
    if uncommon:
        places = {uncommon[0] in item.field_names: item.location for item in by_place}
        difference = f"{places[True]} has {uncommon[0]!r}, and {places[False]} has not"
    else:
        numbered = {item.has_class_ids: item.location for item in by_place}
        difference = f"classes are ids in {numbered[True]} and names in {numbered[False]}"
    raise UserError(
        f"{options.source}: files say different things of {COLUMN!r}: {difference}; give --input files that agree"
    )


def _check_declared(column: Feature | None, inferred: Inferred, options: TableOptions) -> None:
    if column is not None and is_objects_column(column) and inferred.rows:
        raise UserError(
            f"{options.schema_name} has objects in images, and {options.source} has no column {COLUMN!r} of such as"
            f" Hugging Face has it; --drop {quote(COLUMN)} leaves them out"
        )
    if options.boxes.first_given_flag and inferred.rows:
        raise UserError(
            f"{options.boxes.first_given_flag} is about boxes in images, and there is no column {COLUMN!r} of such"
        )


def _limit_to_schema(column: ObjectsColumn, options: TableOptions) -> ObjectsColumn:
    if not options.objects:
        return column
    members = [item.name.removeprefix(f"{COLUMN}/") for item in options.objects]
    for member in members:
        if member not in column.members:
            raise UserError(
                f"{options.schema_name} wants {COLUMN}/{member} of each object, which {options.source} lacks; it has"
                f" {', '.join(key for _, key in column.keys)}"
            )
    return replace(column, keys=tuple((member, key) for member, key in column.keys if member in members))


def _found_classes(column: ObjectsColumn, inferred: Inferred, options: TableOptions) -> frozenset[str]:
    if (found := inferred.values.get(COLUMN, frozenset())) is None:
        raise UserError(
            f"{options.source}: objects are of more than {MAX_VALUES:,} different classes; leave that column"
            " out with --drop if it holds no classes"
        )
    if not column.has_class_ids:
        return found - {""}
    ids = [int(text) for text in found if not text.startswith("-") and int(text) < MAX_VALUES]  # no others are classes
    return frozenset(column.names[index] if index < len(column.names) else str(index) for index in ids)


def _image(images: tuple[str, ...]) -> str:
    """Return the column of the images that objects are in; raise a UserError if it is ambiguous."""
    if len(images) == 1:
        return images[0]
    if "image" in images:
        return "image"
    several = f"{', '.join(map(repr, images))} are such; leave all but one out with --drop"
    raise UserError(
        f"column {COLUMN!r} is of boxes as Hugging Face has them, in the pictures of a column of images, and"
        f" {several if images else 'none is known to be such; --image names the column'}, or leave the boxes out with"
        f" --drop {quote(COLUMN)}"
    )


KINDS = ("none", "relative", "pixels")
_SIDES = (2, 4)  # numbers of a point, of a box
_NAMES = re.compile(
    r"(?i)(^|[_./"
    r" -])(b?box(es)?|bbox(es)?|bndbox|[xy](_?(min|max|center|centre|\d))?|[cwh]|c[xy]|left|top|right|bottom|polygons?|"
    r"segmentations?|keypoints?|landmarks?|corners?|points?|rects?|rois?)\d*([_./ -]|$)"
)


def check_boxes(summary: InputSummary, source: str, action: str) -> None:
    """Raise a UserError if more than a twentieth of the boxes have another unit or order than their format says.

    `action` is the value of --on_bad_box: boxes may reach out of their pictures if it is not `reject`.
    """
    total = sum(summary.objects.values())
    for fault, (number, name) in summary.boxes.items():
        if 20 * number > total and (fault != REACHING or (action == "reject" and number > 1)):
            raise UserError(f"{source}: {number:,} of {total:,} boxes, such as in {name!r}, {fault}")


def check_coordinates(columns: Mapping[str, ColumnType], declared: Mapping[str, str], mode: str) -> None:
    """Check that changing images leaves the coordinates in a manifest's columns valid; raise a UserError otherwise.

    Args:
        declared: by column, `none` (no coordinates), `relative` (fractions of width and height) or `pixels`.
        mode: the resize mode `exact`, `cover` or `contain`; "" if images are re-encoded in their own size.
    """
    for name in declared:
        if name not in columns:
            raise UserError(f"--coordinates {name}: no such column; the columns are {', '.join(columns) or 'none'}")
    unknown = [
        name for name, column in columns.items() if name not in declared and looks_like_coordinates(name, column)
    ]
    if unknown:
        change = f"--resize_mode {mode}" if mode else "--image_format, which turns photos upright by EXIF,"
        shapes = {name: columns[name].shape for name in unknown}
        shown = ", ".join(f"{name!r}{f' ({format_shape(shape)})' if shape else ''}" for name, shape in shapes.items())
        flags = ",".join(f"{name}=…" for name in unknown)
        raise UserError(
            f"{change} changes where things are in a picture, and these columns of the manifest would not follow:"
            f" {shown}; say what they hold: --coordinates {flags}, each one of relative (fractions of width and"
            " height), pixels, or none (no places in the picture)"
        )
    invalid = {"exact": ("pixels",), "cover": ("pixels", "relative"), "contain": ("pixels", "relative")}
    wrong = [name for name, kind in declared.items() if kind in invalid.get(mode, ())]
    if wrong:
        raise UserError(
            f"--resize_mode {mode} would leave the coordinates in {', '.join(map(repr, wrong))} where they were; "
            "fractions of width and height stay true with --resize_mode exact, pixels only without --resize"
        )


def looks_like_coordinates(name: str, column: ColumnType) -> bool:
    """Return True if a column holds lists of 2 or 4 numbers, or has a name that coordinates usually have."""
    shape = column.shape
    if column.dtype in ("int64", "float32") and shape and shape[-1] in _SIDES:
        return True
    return column.dtype != "bool" and _NAMES.search(name) is not None


def rotation_reason(orientation: int, names: Sequence[str]) -> str:
    """Return the reason to reject an image that EXIF turns."""
    shown = ", ".join(map(repr, names))
    return (
        f"EXIF (orientation {orientation}) would turn the picture, but not the coordinates in {shown}; turn both"
        " beforehand"
    )
