"""Choose the columns of a table and their types and declared feature kinds."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from glob import escape
from typing import Any

from shardmill.data.features import Feature, Features, features_of_kind
from shardmill.data.kinds import kind_of
from shardmill.errors import UserError
from shardmill.flag_values import assign, quote, quote_item
from shardmill.metadata.labels import check_label_name
from shardmill.text import describe_place, did_you_mean, listed, plural
from shardmill.transforms.columns.nested import dotted_prefixes
from shardmill.transforms.columns.types import (
    MAX_VALUES,
    ColumnType,
    DeclaredColumn,
    Inferred,
    ScalarType,
    common_type,
    format_shape,
)
from shardmill.transforms.inputs.folders import quote_names
from shardmill.transforms.inputs.summary import InputSummary, compared_columns, describe_columns, usual_columns
from shardmill.transforms.layout.options import TableOptions
from shardmill.transforms.options.job_options import CONTENT, Stack

_MAX_LISTED_COLUMNS = 20  # columns that an error lists


def common_header(summary: InputSummary, options: TableOptions) -> tuple[str, ...]:
    """Return the columns in the order of the first file by name, or (); with --on_other_columns union, of all files.

    Raise a UserError, which names a flag that helps, if the columns that are read are not the same in all files.
    """
    if not summary.headers:
        return ()

    def read_columns(columns: Sequence[str]) -> frozenset[str]:
        return compared_columns(columns, options.drop, options.only)

    ordered = sorted(summary.headers.items(), key=lambda item: (item[1][1], item[0]))
    if options.on_other_columns == "reject":
        usual = usual_columns(summary.headers, options.drop, options.only)
        ordered = [item for item in ordered if usual is not None and read_columns(item[0]) == usual.columns]
    first, (_, first_name) = ordered[0]
    if options.on_other_columns == "union":
        return tuple(dict.fromkeys(name for columns, _ in ordered for name in columns))
    shared = frozenset.intersection(*(read_columns(columns) for columns, _ in ordered))
    dropped = sorted(frozenset().union(*(read_columns(columns) for columns, _ in ordered)) - shared)
    remedy = ""
    if shared:
        names = "the column" if len(dropped) == 1 else "these columns"
        remedy = f"; --drop {quote(*options.drop, *dropped)} leaves {names} out"
    if options.on_other_columns:
        remedy += "; --on_other_columns union takes the columns of all files, reject leaves out the files that differ"
    for columns, (number, name) in ordered[1:]:
        if difference := describe_columns(read_columns(columns), read_columns(first)):
            more = f", as {number - 1} more file{'s do' if number > 2 else ' does'}" if number > 1 else ""
            raise UserError(
                f"{options.source}: headers differ: {name!r} {difference} what {first_name!r} has{more}{remedy}"
            )
    elsewhere = {name for columns, _ in ordered for name in columns if name in options.drop}
    return (*first, *sorted(elsewhere - set(first)))


def check_columns(known: Sequence[str], options: TableOptions) -> None:
    """Raise a UserError if a column that a flag names is not among those `known`, or has two contradictory roles."""
    flags = {
        "--label": options.label_columns,
        options.key_flag: [options.key] if options.key else [],
        "--group_by": [options.split.group_by] if options.split.group_by else [],
        "--stratify_by": [options.split.stratify_by] if options.split.stratify_by else [],
        "--image": options.image,
        **options.columns_by_flag,
        "--types": dict(options.types),
        "--drop": options.drop,
        "--json_columns": options.json_columns,
        "--only": options.only,
        "--fill": [column for column, _ in options.fill if not has_column(options.schema, column)],
    }
    for flag, columns in flags.items():
        for column in columns:
            if column not in known and (flag, column) != ("--group_by", CONTENT):
                is_alias = flag in options.label_alias_flags
                hint = "it means the column of --label, which is not given; " if is_alias else ""
                hint += suggest_column(column, known)
                raise UserError(f"{flag} {column}: no such column in {options.source}; {hint}")
    for flag in options.label_alias_flags:
        if options.label_columns and "label" not in options.label_columns and "label" in known:
            label = options.label_columns[0]
            raise UserError(
                f"{flag} label is ambiguous: there is a column 'label', and --label is {label}; "
                f"give {flag} {label}, or rename the column 'label'"
            )
    kept = ("--image", "--label", *options.columns_by_flag, "--json_columns")
    for flag, other in (("--image", "--label"), *((flag, "--drop") for flag in kept)):
        for column in flags[flag]:
            if column in flags[other]:
                raise UserError(f"{flag} {column} is also in {other}; drop the one or the other")


def has_column(schema: Features | None, column: str) -> bool:
    """Return True if a schema has a feature called `column`."""
    return any(feature.name == column for feature in schema or ())


def suggest_column(column: str, known: Sequence[str]) -> str:
    """Return the end of a message about an unknown column: the nearest name and the known columns."""
    names = list(map(quote_item, known))
    hint = did_you_mean(column, names, "did you mean {}? ")
    return f"{hint}the columns are {listed(names, _MAX_LISTED_COLUMNS, ' and {} more')}"


_INT64 = 1 << 63  # from minus this to below it reach 64 bits


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that become features."""

    types: dict[str, ColumnType]  # types as read, in feature order
    features: Features  # as published
    notices: tuple[str, ...] = ()  # messages about columns left out


def choose_columns(header: Sequence[str], inferred: Inferred, options: TableOptions) -> Columns:
    """Choose the columns of a table whose files have `header`, or () without headers."""
    if options.nesting is not None and options.nesting.flatten:  # fields of objects are columns
        prefixes = {prefix for name in inferred.types for prefix in dotted_prefixes(name)}
        types = inferred.types.items()  # of which some may be empty lists of objects alone
        kept = {name: column for name, column in types if name not in prefixes or column.length != 0}
        inferred = replace(inferred, types=kept)
    known = list(header or _sort_columns(inferred, options.column_order))
    notices = _check_known(known, bool(header), inferred, options)
    _check_nested(inferred, options)
    columns = (
        _columns_from_schema(known, header, options) if options.schema else _columns_from_data(known, inferred, options)
    )
    if not columns.features and (options.schema is not None or inferred.rows):
        raise UserError(f"no column of {options.source} is left, or none has a value; change --drop or --only")
    if any(not feature.name for feature in columns.features):
        raise UserError(f"{options.source} has a column without a name; name all, or choose some with --only")
    _check_fill(options)
    return Columns(columns.types, columns.features, (*notices, *columns.notices))


def _sort_columns(inferred: Inferred, order: Sequence[str]) -> list[str]:
    """Return the columns by `order`, in which a field has its object's place, and others by name after these.

    Those of `order` that have no value in any row are there, too.
    """
    prefixes = {prefix for name in inferred.types for prefix in dotted_prefixes(name)}
    names = {*inferred.types, *((name for name in order if name not in prefixes) if inferred.rows else ())}
    places = {name: place for place, name in enumerate(order)}

    def place(name: str) -> tuple[int, str]:
        found = (places[part] for part in (name, *dotted_prefixes(name)) if part in places)
        return next(found, len(places)), name

    return sorted(names, key=place)


def _check_nested(inferred: Inferred, options: TableOptions) -> None:
    if options.schema is not None or options.nesting is None:
        return
    found = {
        name: nested
        for name in _selected_columns(sorted(inferred.nested), options)
        if (nested := inferred.nested[name]).count >= inferred.types[name].present
    }
    if found:
        columns = "; ".join(
            f"column {name!r} in {plural(nested.count, 'row')}, the first of them"
            f" {describe_place(*nested.first[:2])}: {nested.first[2]}"
            for name, nested in found.items()
        )
        remedy = options.nesting.remedy({name: nested.has_objects for name, nested in found.items()})
        raise UserError(f"{options.source}: no feature can hold the nested values of {columns}. {remedy}")


def _check_known(known: Sequence[str], headed: bool, inferred: Inferred, options: TableOptions) -> list[str]:
    """Check the columns that flags name; return a notice of columns that --drop names in vain."""
    if not headed and not (inferred.rows and options.schema is None):
        return []
    # A key that no row has today may be there tomorrow: of files without headers that is no mistake.
    check_columns(known if headed else [*known, *options.drop], options)
    unknown = [name for name in options.drop if name not in known]
    if headed or wanted_columns(options) is not None or not unknown:
        return []
    return [f"no row has {quote_names(unknown)}, which --drop leaves out; {suggest_column(unknown[0], known)}"]


def wanted_columns(options: TableOptions) -> list[str] | None:
    """Return the columns whose types must be inferred; None for all columns (--drop is applied later)."""
    if options.needs_classes:
        return options.needs_classes
    if options.only and not options.stack:
        return list(dict.fromkeys([*options.only, *options.label_columns, *options.image, *options.helper_columns]))
    return None


def is_declared_number(options: TableOptions, column: str) -> bool:
    """Return True if --schema or --types declares the column as numbers."""
    has_type = dict(options.types).get(column) in ("int64", "float32")
    return has_type or any(feature.name == column and _holds_numbers(feature) for feature in options.schema or ())


def _holds_numbers(feature: Feature) -> bool:
    kind = kind_of(feature)
    return kind.column_type(feature) in ("int64", "float32") and not kind.has_classes


def _check_fill(options: TableOptions) -> None:
    for column, text in options.fill:
        for feature in options.schema or ():
            holds = _holds_numbers(feature) and column not in options.flagged
            if feature.name == column and holds and not _fits(text, feature.dtype):
                raise UserError(
                    f"--fill {assign(column, text)}: {options.schema_name} says that {column!r} holds {feature.dtype};"
                    " give one"
                )


def _fits(text: str, dtype: str) -> bool:
    try:
        number = int(text) if dtype == "int64" else float(text)
    except ValueError:
        return False
    return isinstance(number, float) or -_INT64 <= number < _INT64


def _selected_columns(known: Iterable[str], options: TableOptions) -> list[str]:
    chosen = options.only and {*options.only, *options.label_columns, *options.image}
    return [name for name in known if (not chosen or name in chosen) and name not in options.drop]


def _columns_from_data(known: Sequence[str], inferred: Inferred, options: TableOptions) -> Columns:
    types: dict[str, ColumnType] = {}
    declared: dict[str, Any] = dict(options.types)
    notices = []
    for name in _selected_columns(known, options):
        column = inferred.types.get(name)
        if column is not None:
            column = column.settle()
            types[name] = replace(column, dtype=declared.get(name, column.dtype))
        if inferred.rows and (column is None or not column.present):
            notices.append(
                f"column {name!r} has no value in any row{' that can be read' if column else ''}, and was left out"
            )
    features = tuple(column.feature(name, inferred.rows) for name, column in types.items() if column.present)
    return Columns(types, features, tuple(notices))


def _columns_from_schema(known: Sequence[str], header: Sequence[str], options: TableOptions) -> Columns:
    assert options.schema is not None
    kept = _selected_columns([feature.name for feature in options.schema], options)
    features = tuple(feature for feature in options.schema if feature.name in kept)
    for feature in features:
        if not kind_of(feature).in_columns and feature.name not in [stack.name for stack in options.stack]:
            raise UserError(
                f"{options.schema_name} says that {feature.name!r} is an {kind_of(feature).display_name},"
                f" which no column holds; --drop {quote(feature.name)} leaves it out"
            )
        if header and feature.name not in known and feature.required:
            raise UserError(
                f"{options.schema_name} wants column {feature.name!r}, which {options.source} lacks;"
                f" {suggest_column(feature.name, known)}"
            )
    types = {feature.name: _column_type(feature) for feature in features}
    for name, dtype in options.types:
        if name in types and name not in options.label_columns and types[name].dtype != dtype:
            raise UserError(
                f"--types {assign(name, dtype)}: {options.schema_name} says that it holds {types[name].dtype}; change"
                " the schema, or leave --types out"
            )
    return Columns(types, features, tuple(options.extra_column_notices(header)))


def _column_type(feature: Feature) -> ColumnType:
    dtype = kind_of(feature).column_type(feature)
    if not feature.shape:
        return ColumnType(dtype, None, 0)
    size, *inner = feature.shape
    return ColumnType(dtype, -1 if size is None else size, 0, tuple(filter(None, inner)))


def stack_columns(
    header: Sequence[str], inferred: Inferred, options: TableOptions
) -> tuple[tuple[str, ...], Inferred, dict[str, tuple[str, ...]]]:
    """Return header and types with one column in place of those that --stack joins, and the latter by its name."""
    known, types, members = tuple(header), dict(inferred.types), dict[str, tuple[str, ...]]()
    others = {*options.label_columns, *options.helper_columns, *options.image, *options.drop, *options.flagged}
    for stack in options.stack:
        before = known or tuple(sorted(types, key=_natural_order))  # such files name columns in any order
        if not before:
            return known, inferred, members  # no row can be read
        joined = tuple(name for name in before if fnmatchcase(name, stack.pattern) and name not in others)
        if not joined:
            raise UserError(f"--stack {stack}: no column has such a name; {suggest_column(stack.pattern, before)}")
        if stack.name in before and stack.name not in joined:
            raise UserError(f"--stack {stack}: there is a column {stack.name!r}; give another name, or --drop it")
        if stack.shape and math.prod(stack.shape) != len(joined):
            raise UserError(f"--stack {stack}: the shape has {math.prod(stack.shape):,} values, not {len(joined):,}")
        members[stack.name] = joined
        known = tuple(dict.fromkeys(stack.name if name in joined else name for name in known))
        if inferred.rows and options.schema is None:
            column = _stacked_type(stack, joined, inferred)
            types = {**{name: types[name] for name in types if name not in joined}, stack.name: column}
    return known, replace(inferred, types=types), members


def _natural_order(name: str) -> list[tuple[int, str]]:
    parts = re.split(r"([0-9]+)", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _stacked_type(stack: Stack, members: Sequence[str], inferred: Inferred) -> ColumnType:
    is_whole = stack.dtype in ("int64", "uint8")
    dtype: ScalarType = "float32" if stack.dtype == "float32" else "int64"
    for name in members:
        column = inferred.types.get(name, ColumnType("bytes", None, 0)).settle()
        if column.length is not None or column.dtype not in ("int64", *(() if is_whole else ("float32",))):
            holds = f"lists of {column.dtype}" if column.length is not None else column.dtype
            holds = holds if column.present else "no value in any row"
            raise UserError(
                f"--stack {stack}: column {name!r} holds {holds}; expected {'integers' if is_whole else 'numbers'};"
                f" leave it out with --drop {quote(name)}"
            )
        dtype = common_type(dtype, column.dtype)
    size, *inner = stack.shape or (len(members),)
    return ColumnType(dtype, size, inferred.rows, tuple(inner))


def join_members(columns: Columns, members: Mapping[str, tuple[str, ...]], options: TableOptions) -> Columns:
    """Set which columns are joined to one, and make arrays of those of uint8."""
    stacks, types, features = {stack.name: stack for stack in options.stack}, dict(columns.types), []
    for feature in columns.features:
        if (joined := members.get(feature.name)) is not None:
            stack = stacks[feature.name]
            if None in feature.shape or math.prod(map(int, filter(None, feature.shape))) != len(joined):
                raise UserError(
                    f"--stack {stack}: {options.schema_name} has the shape {format_shape(feature.shape)}, and"
                    f" {plural(len(joined), 'column has', 'columns have')} such a name"
                )
            if stack.dtype == "uint8":
                feature = replace(feature, dtype="bytes", kind="array", element="uint8")
            plain = ColumnType("bytes", None, 0) if feature.dtype == "bytes" else types[feature.name]
            types[feature.name] = replace(plain, members=joined)
        features.append(feature)
    return replace(columns, types=types, features=tuple(features))


_NUMBERED = re.compile(r"(.*?)[0-9]+", re.DOTALL)
_LEAST_NUMBERED = 100  # columns with one name and running numbers from which --stack is suggested


def numbered_notices(features: Features) -> list[str]:
    """Return a notice of each name that more than 100 columns of numbers share, with a running number."""
    names = (_NUMBERED.fullmatch(item.name) for item in features if not item.shape and item.dtype != "bytes")
    found = Counter(name[1] for name in names if name)
    return [
        f"{number:,} columns are called {name!r} and a number, and each is a feature; --stack"
        f" {assign(stack, pattern)} makes one feature of them"
        for name, number in found.items()
        for stack, pattern in [(f"{name.strip('_.- ') or 'value'}s", f"{escape(name)}[0-9]*")]
        if _LEAST_NUMBERED < number == sum(item.name == stack or fnmatchcase(item.name, pattern) for item in features)
    ]


@dataclass(frozen=True, slots=True)
class MarkedColumns:
    """The columns of a table with images and classes marked."""

    columns: Columns  # all columns, images and classes as published
    images: tuple[str, ...] = ()  # columns of images
    classes: tuple[str, ...] = ()  # columns of ids whose class names are known
    required: tuple[str, ...] = ()  # columns in which a missing value is a mistake
    notices: tuple[str, ...] = ()  # messages about guesses


def mark_columns(columns: Columns, inferred: Inferred, options: TableOptions) -> MarkedColumns:
    """Mark the columns of images or class ids, using flags, --schema and metadata."""
    declarations: Mapping[str, DeclaredColumn] = {
        **inferred.declared,
        **{feature.name: DeclaredColumn("image") for feature in features_of_kind(options.schema or (), "image")},
        **{name: DeclaredColumn("image") for name in options.image},
    }
    _check_embedded(columns, inferred, options)
    features, images, classes, required, notices = [], [], [], [], []
    for feature in columns.features:
        declared = declarations.get(feature.name, DeclaredColumn("text"))
        if declared.kind == "image":
            feature = _image(feature, f"--image {quote(feature.name)}" if feature.name in options.image else "")
            images.append(feature.name)
        elif declared.kind == "class_label" and feature.dtype == "int64" and not feature.class_names:
            feature, class_notices = _classes(feature, declared, options)
            classes += [feature.name] * (feature.kind == "class_label")
            required += [feature.name] * (declared.is_required or feature.name in options.label_columns)
            notices += class_notices
        if declared.message:
            notices.append(declared.message)
        features.append(replace(feature, role="source") if feature.name == options.row_name_column else feature)
    if options.pictures.first_given_flag and not images:
        raise UserError(
            f"{options.pictures.first_given_flag} is about columns of images, and none is one; --image says which are"
        )
    marked = tuple(replace(item, required=True) if item.name in required else item for item in features)
    columns = replace(columns, features=marked)
    return MarkedColumns(columns, tuple(images), tuple(classes), tuple(required), tuple(notices))


def _check_embedded(columns: Columns, inferred: Inferred, options: TableOptions) -> None:
    present = {feature.name for feature in columns.features}
    for name, declared in sorted(inferred.declared.items()):
        if declared.path and name not in present and name not in options.drop:
            raise UserError(
                f"{options.source}: column {name!r} names files, such as {declared.path!r}, and holds none of them;"
                " embed them, as datasets does where it can open them, give the files with `shardmill images"
                f" --manifest`, or leave the column out with --drop {quote(name)}"
            )


def _image(feature: Feature, flag: str) -> Feature:
    if feature.shape or feature.dtype != "bytes":
        what = f"lists of {feature.dtype}" if feature.shape else feature.dtype
        raise UserError(
            f"{flag or f'column {feature.name!r} is declared as images'}: it holds {what}; expected the bytes of one"
            " encoded image in each row"
        )
    return Feature(feature.name, "bytes", "image")


def _classes(feature: Feature, declared: DeclaredColumn, options: TableOptions) -> tuple[Feature, list[str]]:
    name = feature.name
    given_names = options.classes.class_names(name, options.label_columns) if name in options.label_columns else None
    check_same_classes(name, declared, options)
    declared_names = next(iter(declared.class_names), None)
    count = declared.num_classes if declared_names is None else len(declared_names)
    if given_names is not None and len(given_names) < count:
        most = f"an id {declared.num_classes - 1:,}" if declared_names is None else f"{len(declared_names):,} classes"
        raise UserError(
            f"{options.classes.source} has {len(given_names):,} names, but {name!r} has {most}; give all names"
        )
    if given_names is None and declared_names is None and declared.num_classes > MAX_VALUES:
        said = f"{name!r} has ids up to {declared.num_classes - 1:,}, too many without names, so they stay numbers"
        return feature, [f"{said}; --label {quote(name)} --labels_file names.txt names their classes"]
    check_label_name(name)
    names = given_names or declared_names
    notices = []
    if names is None:
        names = tuple(map(str, range(declared.num_classes)))
        notices = [
            f"the classes of {name!r} are called by their ids, 0 to {declared.num_classes - 1}; --label {quote(name)}"
            " --labels_file names.txt names them"
        ]
    return Feature(name, "int64", "class_label", feature.shape, feature.required, class_names=names), notices


def check_same_classes(name: str, declared: DeclaredColumn, options: TableOptions, remedy: str = "") -> None:
    """Raise a UserError if files declare different class names for a column; `remedy` is another one than files."""
    if len(declared.class_names) > 1:
        one, other, *_ = sorted(declared.class_names, key=lambda names: (len(names), names))
        raise UserError(
            f"{options.source}: files name different classes of {name!r}: one has {_count_and_first(one)}, another"
            f" {_count_and_first(other)}; give {remedy}--input files that agree"
        )


def _count_and_first(names: tuple[str, ...]) -> str:
    return f"{len(names):,}, {names[0]!r} first" if names else "0, none"
