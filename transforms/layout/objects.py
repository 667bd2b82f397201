"""Columns that hold the objects of images, and coordinates that follow resized images."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from shardmill.data.features import Feature, Features
from shardmill.errors import UserError
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
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.columns import check_same_classes
from shardmill.transforms.layout.files import object_classes
from shardmill.transforms.layout.options import (
    FileLayoutOptions,
    TableOptions,
    is_objects_column,
    unnamed_classes_notice,
)
from shardmill.transforms.options.image_options import BoxOptions, LabelOptions

LABEL = "objects/label"  # the feature of their classes, and what --labels_file calls these by beside other labels


@dataclass(frozen=True, slots=True)
class RowObjects:
    """The objects in the images of a table's rows."""

    column: ObjectsColumn  # how the column holds them
    image: str  # column of the images that they are in
    sides: tuple[str, ...]  # columns of the image size that boxes refer to; () if none
    classes: ClassNames  # class table of objects
    boxes: BoxOptions  # handling of invalid boxes
    notices: tuple[str, ...] = ()  # messages for the end of the job


def declared_objects(inferred: Inferred) -> DeclaredColumn | None:
    """Return the files' metadata about a column of objects in images; None if there is none."""
    told = inferred.told.get(COLUMN)
    return told if told is not None and told.kind == "bbox" else None


def find_objects(
    inferred: Inferred, features: Features, images: tuple[str, ...], options: TableOptions
) -> RowObjects | None:
    """Find the objects in the images of a table; None if the files declare none.

    Args:
        inferred: of the columns.
        features: the features that are read.
        images: the columns of images.

    Raises:
        UserError: if the image column or the classes of the objects are ambiguous, or a flag gives the column another
            role.
    """
    there = next((feature for feature in features if feature.name == COLUMN), None)
    told = declared_objects(inferred) if there is not None else None
    if told is None:
        _check_declared(there, inferred, options)
        return None
    asked = {"--label": options.label_columns, "--image": options.images, "--timestamp": options.times}
    for flag, columns in asked.items():
        if COLUMN in columns:
            raise UserError(
                f"{flag} {COLUMN}: the column is of boxes in images, as Hugging Face has them; leave it out"
            )
    check_same_classes(COLUMN, told, options)
    keys = _keys(told, options)
    given, own = _given_names(options), next(iter(told.names), ())
    column = ObjectsColumn.of(keys, own or (given if keys.numbered and given else ()), options.source)
    column = _limit_to_schema(column, options)
    numbered = column.numbered and not column.names
    classes = _classes(_found_classes(column, inferred, options), own, given, numbered, options)
    known = next((len(item.class_names) for item in options.objects if item.name == LABEL), 0)
    if len(classes) < known:
        raise UserError(
            f"{options.schema_said} says that {LABEL!r} holds ids of {known:,} classes, and {options.source} has"
            f" {len(classes):,}; give their names with --labels_file, the "
            f"{file_names.labels_file(LABEL.replace('/', '-'))}"
            " that stands beside the schema"
        )
    notices = [] if not numbered else [unnamed_classes_notice(len(classes))]
    sides = SIZE_COLUMNS if _whole_numbers(features).issuperset(SIZE_COLUMNS) else ()
    return RowObjects(column, _image(images), sides, classes, options.boxes, tuple(notices))


def _keys(told: DeclaredColumn, options: TableOptions) -> DeclaredObjects:
    """Return the keys of objects that the files agree on; if metadata comes from rows, some may lack a key."""
    every = {key for item in told.objects for key in item.keys}
    common = every.intersection(*(item.keys for item in told.objects))
    kinds = {item.numbered for item in told.objects} - {None}
    by_rows = all(item.by_rows for item in told.objects)
    odd = sorted(every - common) if not by_rows else []
    if odd or len(kinds) > 1:
        if odd:
            there, lacks = (
                _place(item for item in told.objects if (odd[0] in item.keys) == has) for has in (True, False)
            )
            what = f"{there} has {odd[0]!r}, and {lacks} has not"
        else:
            ids, names = (_place(item for item in told.objects if item.numbered is kind) for kind in (True, False))
            what = f"classes are ids in {ids} and names in {names}"
        raise UserError(
            f"{options.source}: files say different things of {COLUMN!r}: {what}; give --input files that agree"
        )
    return DeclaredObjects(tuple(sorted(every)), next(iter(kinds), None), by_rows)


def _place(items: Iterable[DeclaredObjects]) -> str:
    """Return the first place, by name, that has such metadata."""
    return min(item.place for item in items)


def _check_declared(column: Feature | None, inferred: Inferred, options: TableOptions) -> None:
    """Raise a UserError if the schema or a flag expects objects in images and no file has any."""
    if column is not None and is_objects_column(column) and inferred.rows:
        raise UserError(
            f"{options.schema_said} has objects in images, and {options.source} has no column {COLUMN!r} of such as"
            f" Hugging Face has it; --drop {COLUMN} leaves them out"
        )
    if options.boxes.asked and inferred.rows:
        raise UserError(f"{options.boxes.asked} is about boxes in images, and there is no column {COLUMN!r} of such")


def _whole_numbers(features: Features) -> set[str]:
    return {item.name for item in features if item.dtype == "int64" and item.kind == "tensor" and not item.shape}


def _limit_to_schema(column: ObjectsColumn, options: TableOptions) -> ObjectsColumn:
    """Limit the fields of objects to those of --schema; raise a UserError if the schema has one that the input
    lacks.
    """
    if not options.objects:
        return column
    asked = [item.name.removeprefix(f"{COLUMN}/") for item in options.objects]
    for member in asked:
        if member not in column.members:
            raise UserError(
                f"{options.schema_said} wants {COLUMN}/{member} of each object, which {options.source} lacks; it has"
                f" {', '.join(key for _, key in column.keys)}"
            )
    return replace(column, keys=tuple((member, key) for member, key in column.keys if member in asked))


def _given_names(options: TableOptions) -> tuple[str, ...] | None:
    """Return the class names that the user gave for objects: all names if there is no label, or those given for
    LABEL.
    """
    labels = options.classes.labels
    if isinstance(labels, Mapping):
        return labels.get(LABEL)
    return None if options.label_columns else labels


def _found_classes(column: ObjectsColumn, inferred: Inferred, options: TableOptions) -> frozenset[str]:
    """Return the classes found in the input."""
    found = inferred.values.get(COLUMN, frozenset())
    if found is None:
        raise UserError(f"{options.source}: objects are of more than {MAX_VALUES:,} different classes; are they ones?")
    if not column.numbered:
        return found - {""}
    ids = [int(text) for text in found if not text.startswith("-") and int(text) < MAX_VALUES]  # no others are classes
    return frozenset(column.names[index] if index < len(column.names) else str(index) for index in ids)


def _classes(
    found: frozenset[str], own: tuple[str, ...], given: tuple[str, ...] | None, numbered: bool, options: TableOptions
) -> ClassNames:
    """Return the class table of objects, by the rules for image files."""
    said = LabelOptions() if given is None else replace(options.classes, labels=given)
    categories = {own: (1, f"the metadata of {options.source}")} if own else {}
    return object_classes(
        InputSummary(objects=Counter(found), categories=categories),
        FileLayoutOptions(options.source, classes=said, numbered=numbered),
    )


def _image(images: tuple[str, ...]) -> str:
    """Return the column of the images that objects are in; raise a UserError if it is ambiguous."""
    if len(images) == 1:
        return images[0]
    if "image" in images:
        return "image"
    what = f"{', '.join(map(repr, images))} are such" if images else "none is known to be such"
    raise UserError(
        f"column {COLUMN!r} is of boxes as Hugging Face has them, in the pictures of a column of images, and {what};"
        + (" leave all but one out with --drop" if images else " --image names the column")
        + f", or leave the boxes out with --drop {COLUMN}"
    )


KINDS = ("none", "relative", "pixels")
_SIDES = (2, 4)  # numbers of a point, of a box
_NAMES = re.compile(
    r"(?i)(^|[_./"
    r" -])(b?box(es)?|bbox(es)?|bndbox|[xy](_?(min|max|center|centre|\d))?|[cwh]|c[xy]|left|top|right|bottom|polygons?|"
    r"segmentations?|keypoints?|landmarks?|corners?|points?|rects?|rois?)\d*([_./ -]|$)"
)


def check_coordinates(columns: Mapping[str, ColumnType], declared: Mapping[str, str], mode: str) -> None:
    """Check that changing images leaves the coordinates in a manifest's columns valid.

    Args:
        columns: of the manifest.
        declared: by column, `none` (no coordinates), `relative` (fractions of width and height) or `pixels`.
        mode: the resize mode `exact`, `cover` or `contain`; "" if images are re-encoded in their own size.

    Raises:
        UserError: if a column may hold coordinates and is not declared, or its coordinates would become wrong.
    """
    for name in declared:
        if name not in columns:
            raise UserError(f"--coordinates {name}: no such column; the columns are {', '.join(columns) or 'none'}")
    unknown = [
        name for name, column in columns.items() if name not in declared and looks_like_coordinates(name, column)
    ]
    if unknown:
        what = f"--resize_mode {mode}" if mode else "--image_format, which turns photos upright by EXIF,"
        shown = ", ".join(f"{name!r}{_shape(columns[name])}" for name in unknown)
        flags = ",".join(f"{name}=…" for name in unknown)
        raise UserError(
            f"{what} changes where things are in a picture, and these columns of the manifest would not follow:"
            f" {shown}; say what they hold: --coordinates {flags}, each one of relative (fractions of width and"
            " height), pixels, or none (no places in the picture)"
        )
    untrue = {"exact": ("pixels",), "cover": ("pixels", "relative"), "contain": ("pixels", "relative")}.get(mode, ())
    wrong = [name for name, kind in declared.items() if kind in untrue]
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


def coordinate_columns(declared: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns declared to hold coordinates."""
    return tuple(name for name, kind in declared.items() if kind != "none")


def turned_reason(orientation: int, names: Sequence[str]) -> str:
    """Return the reason to reject an image that EXIF turns."""
    shown = ", ".join(map(repr, names))
    return (
        f"EXIF (orientation {orientation}) would turn the picture, but not the coordinates in {shown}; turn both"
        " beforehand"
    )


def _shape(column: ColumnType) -> str:
    return f" ({format_shape(column.shape)})" if column.shape else ""
