"""The column of objects in the images of a table, as its files tell of it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from shardmill.errors import UserError
from shardmill.features.feature import Feature, Features
from shardmill.metadata import naming
from shardmill.metadata.labels import ClassNames
from shardmill.transforms.columns.inferred import MAX_VALUES, Inferred, Told, ToldObjects
from shardmill.transforms.formats.parquet.huggingface import OBJECTS as COLUMN
from shardmill.transforms.inputs.annotations.huggingface import SIDES, ObjectsColumn
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.file_options import LayoutOptions
from shardmill.transforms.layout.files import object_classes
from shardmill.transforms.layout.notices import numbered_notice
from shardmill.transforms.layout.table_options import TableOptions, is_of_objects
from shardmill.transforms.layout.told import check_agree
from shardmill.transforms.options.boxes import BoxOptions
from shardmill.transforms.options.labels import LabelOptions

LABEL = "objects/label"  # the feature of their classes, and what --labels_file calls these by beside other labels


@dataclass(frozen=True, slots=True)
class RowObjects:
    """The objects in the images of rows.

    Attributes:
      column: what is said of each.
      image: the column of the images that they are in.
      sides: the columns that say the size that boxes are counted in; () where none do.
      classes: theirs.
      boxes: what becomes of boxes that are no good.
      notices: what the user must be told of them.
    """

    column: ObjectsColumn
    image: str
    sides: tuple[str, ...]
    classes: ClassNames
    boxes: BoxOptions
    notices: tuple[str, ...] = ()


def told_of_objects(inferred: Inferred) -> Told | None:
    """What the files tell of their column of objects in images; None where there is none."""
    told = inferred.told.get(COLUMN)
    return told if told is not None and told.kind == "bbox" else None


def find_objects(
    inferred: Inferred, features: Features, images: tuple[str, ...], options: TableOptions
) -> RowObjects | None:
    """The objects in the images of a table; None where nothing tells of any.

    Args:
      inferred: of the columns.
      features: these, as far as they are read.
      images: those that are images.
      options: what the user said.

    Raises:
      UserError: it is not known in which images they are, or of which classes, or a flag takes them for something else.
    """
    there = next((feature for feature in features if feature.name == COLUMN), None)
    told = told_of_objects(inferred) if there is not None else None
    if told is None:
        _check_told(there, inferred, options)
        return None
    asked = {"--label": options.label_columns, "--image": options.images, "--timestamp": options.times}
    for flag, columns in asked.items():
        if COLUMN in columns:
            raise UserError(
                f"{flag} {COLUMN}: the column is of boxes in images, as Hugging Face has them; leave it out"
            )
    check_agree(COLUMN, told, options)
    keys = _keys(told, options)
    given, own = _given(options), next(iter(told.names), ())
    column = ObjectsColumn.of(keys, own or (given if keys.numbered and given else ()), options.source)
    column = _as_asked(column, options)
    numbered = column.numbered and not column.names
    classes = _classes(_found(column, inferred, options), own, given, numbered, options)
    known = next((len(item.class_names) for item in options.objects if item.name == LABEL), 0)
    if len(classes) < known:
        raise UserError(
            f"{options.schema_said} says that {LABEL!r} holds ids of {known:,} classes, and {options.source} has"
            f" {len(classes):,}; give their names with --labels_file, the {naming.labels_file(LABEL.replace('/', '-'))}"
            " that stands beside the schema"
        )
    notices = [] if not numbered else [numbered_notice(len(classes))]
    sides = SIDES if _whole_numbers(features).issuperset(SIDES) else ()
    return RowObjects(column, _image(images), sides, classes, options.boxes, tuple(notices))


def _keys(told: Told, options: TableOptions) -> ToldObjects:
    """What is said of each object: by all files alike, or by rows, which may lack some of it."""
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
    return ToldObjects(tuple(sorted(every)), next(iter(kinds), None), by_rows)


def _place(items: Iterable[ToldObjects]) -> str:
    """Where some of that is said, the first by name."""
    return min(item.place for item in items)


def _check_told(column: Feature | None, inferred: Inferred, options: TableOptions) -> None:
    """Raise a UserError if somebody says that there are objects, and no file tells of any."""
    if column is not None and is_of_objects(column) and inferred.rows:
        raise UserError(
            f"{options.schema_said} has objects in images, and {options.source} has no column {COLUMN!r} of such as"
            f" Hugging Face has it; --drop {COLUMN} leaves them out"
        )
    if options.boxes.asked and inferred.rows:
        raise UserError(f"{options.boxes.asked} is about boxes in images, and there is no column {COLUMN!r} of such")


def _whole_numbers(features: Features) -> set[str]:
    return {item.name for item in features if item.dtype == "int64" and item.kind == "tensor" and not item.shape}


def _as_asked(column: ObjectsColumn, options: TableOptions) -> ObjectsColumn:
    """What is said of each object, as far as --schema has it; raises a UserError if it has more."""
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


def _given(options: TableOptions) -> tuple[str, ...] | None:
    """The names of classes of objects that the user gave: all names where there is no label, or those that are called
    as they are."""
    labels = options.classes.labels
    if isinstance(labels, Mapping):
        return labels.get(LABEL)
    return None if options.label_columns else labels


def _found(column: ObjectsColumn, inferred: Inferred, options: TableOptions) -> frozenset[str]:
    """The classes that are in the input and whose names no metadata says."""
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
    """As image files have them."""
    said = LabelOptions() if given is None else replace(options.classes, labels=given)
    categories = {own: (1, f"the metadata of {options.source}")} if own else {}
    return object_classes(
        InputSummary(objects=Counter(found), categories=categories),
        LayoutOptions(options.source, classes=said, numbered=numbered),
    )


def _image(images: tuple[str, ...]) -> str:
    """The column of images that objects are in."""
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
