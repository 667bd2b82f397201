"""Columns that are images or ids of named classes, as flags, --schema or the files themselves say."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from shardmill.errors import UserError
from shardmill.features.feature import Feature, Features, of_kind
from shardmill.metadata.labels import check_label_name
from shardmill.transforms.columns.inferred import MAX_VALUES, Inferred, Told
from shardmill.transforms.layout.columns import Columns
from shardmill.transforms.layout.table_options import TableOptions


@dataclass(frozen=True, slots=True)
class Marked:
    """The columns of a table with what is told of them.

    Attributes:
      columns: all, those that are images or classes as published.
      images: the columns of images.
      classes: those of ids whose names are known.
      complete: those in which a row without a value is a mistake.
      notices: what was guessed.
    """

    columns: Columns
    images: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    complete: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


def mark_columns(columns: Columns, inferred: Inferred, options: TableOptions) -> Marked:
    """The columns, those that are images or ids of classes as such; labels by names are transforms.layout.label's.

    Raises:
      UserError: one that is said to be images cannot be, or the names of classes differ, or are too few.
    """
    told: Mapping[str, Told] = {
        **inferred.told,
        **{feature.name: Told("image") for feature in of_kind(options.schema or (), "image")},
        **{name: Told("image") for name in options.images},
    }
    _check_held(columns, inferred, options)
    features, images, classes, complete, notices = [], [], [], [], []
    for feature in columns.features:
        found = told.get(feature.name)
        if found is not None and found.kind == "image":
            feature = _image(feature, f"--image {feature.name}" if feature.name in options.images else "")
            images.append(feature.name)
        elif found is not None and found.kind == "class_label" and feature.dtype == "int64" and not feature.class_names:
            feature, called = _classes(feature, found, options)
            classes += [feature.name] * (feature.kind == "class_label")
            complete += [feature.name] * (found.is_complete or feature.name in options.label_columns)
            notices += called
        if found is not None and found.said:
            notices.append(found.said)
        features.append(replace(feature, role="source") if feature.name == options.calls_rows else feature)
    if options.pictures.asked and not images:
        raise UserError(f"{options.pictures.asked} is about columns of images, and none is one; --image says which are")
    marked = replace(columns, features=_required(features, complete))
    return Marked(marked, tuple(images), tuple(classes), tuple(complete), tuple(notices))


def _check_held(columns: Columns, inferred: Inferred, options: TableOptions) -> None:
    """Check that files that are named are held, too."""
    there = {feature.name for feature in columns.features}
    for name, told in sorted(inferred.told.items()):
        if told.path and name not in there and name not in options.drop:
            raise UserError(
                f"{options.source}: column {name!r} names files, such as {told.path!r}, and holds none of them; embed"
                " them, as datasets does where it can open them, give the files with `shardmill images --manifest`, or"
                f" leave the column out with --drop {name}"
            )


def _required(features: list[Feature], complete: list[str]) -> Features:
    return tuple(replace(item, required=True) if item.name in complete else item for item in features)


def _image(feature: Feature, flag: str) -> Feature:
    if feature.shape or feature.dtype != "bytes":
        what = f"lists of {feature.dtype}" if feature.shape else feature.dtype
        raise UserError(
            f"{flag or f'column {feature.name!r} is told to be images'}: it holds {what}; expected the bytes of one"
            " encoded image in each row"
        )
    return Feature(feature.name, "bytes", "image")


def _classes(feature: Feature, told: Told, options: TableOptions) -> tuple[Feature, list[str]]:
    """The ids with the names of their classes, and what must be said of these."""
    name = feature.name
    given = options.classes.names_of(name, options.label_columns) if name in options.label_columns else None
    check_agree(name, told, options)
    own = next(iter(told.names), None)
    if given is not None and len(given) < (told.classes if own is None else len(own)):
        most = f"an id {told.classes - 1:,}" if own is None else f"{len(own):,} classes"
        raise UserError(f"{options.classes.source} has {len(given):,} names, but {name!r} has {most}; give all names")
    if given is None and own is None and told.classes > MAX_VALUES:
        said = f"{name!r} has ids up to {told.classes - 1:,}: more than classes can be, so they stay numbers"
        return feature, [f"{said}; --label {name} --labels_file names.txt names their classes"]
    check_label_name(name)
    names = given or own
    notices = []
    if names is None:
        names = tuple(map(str, range(told.classes)))
        notices = [
            f"the classes of {name!r} are called by their ids, 0 to {told.classes - 1}; --label {name} --labels_file"
            " names.txt names them"
        ]
    return Feature(name, "int64", "class_label", feature.shape, feature.required, class_names=names), notices


def check_agree(name: str, told: Told, options: TableOptions) -> None:
    """Raise a UserError if files name different classes of a column."""
    if len(told.names) > 1:
        one, other, *_ = sorted(told.names, key=lambda names: (len(names), names))
        raise UserError(
            f"{options.source}: files name different classes of {name!r}: one has {len(one):,}, {_listed(one)}, another"
            f" {len(other):,}, {_listed(other)}; give --input files that agree"
        )


def _listed(names: tuple[str, ...]) -> str:
    return f"{names[0]!r} first" if names else "none"
