"""How a table is to be read, decided from all of it: features and their types, classes, splits."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from shardmill.errors import UserError
from shardmill.features.feature import DType, Feature, Features
from shardmill.kinds.registry import kind_of
from shardmill.metadata import naming
from shardmill.metadata.labels import ClassNames, check_label_name, resolve_class_names
from transforms.columns.inferred import MAX_VALUES, Inferred
from transforms.columns.types import ColumnType
from transforms.formats.base import KeyColumn
from transforms.inputs.folders import SPLITS, FolderRoles
from transforms.inputs.summary import InputSummary
from transforms.layout.notices import skipped_notices
from transforms.layout.splits import check_split_shards, splits_of_tables
from transforms.options.labels import LabelOptions
from transforms.options.splits import CONTENT, SplitOptions


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What the user said about columns, labels and splits.

    Attributes:
      source: how errors call the input.
      schema: the features of --schema, None if not given.
      drop, only: columns that are left out, or alone kept.
      fill: (column, text) of what stands for missing values.
      label: the column that is the label.
      key: the column that is a record's identity, which need not be a feature.
      split: how records are dealt out to splits; its columns need not be features either.
      classes: the names there may be.
      split_shards: the splits that --num_shards names.
      folders: what those of the files mean, as --folders says; None where that is guessed.
      plural: how errors call the files.
      says_label: the flags that were given as `label`, which is the column of --label.
    """

    source: str
    schema: Features | None = None
    drop: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    fill: tuple[tuple[str, str], ...] = ()
    label: str | None = None
    key: str | None = None
    split: SplitOptions = field(default_factory=SplitOptions)
    classes: LabelOptions = field(default_factory=LabelOptions)
    split_shards: tuple[str, ...] = ()
    folders: FolderRoles | None = None
    plural: str = "files"
    says_label: tuple[str, ...] = ()

    @property
    def helpers(self) -> list[str]:
        """The columns that are read although they may be no features."""
        columns = (self.key, self.split.group_by, self.split.stratify_by)
        return list(dict.fromkeys(name for name in columns if name is not None))

    @property
    def needs_classes(self) -> bool:
        """Whether class names must be found in the data although --schema says the types.

        Beside frozen names too: only all rows say whether there is a new one. Where new ones are rejected, each row
          says it itself.
        """
        if (
            self.schema is None
            or self.label is None
            or (self.classes.labels is not None and self.classes.on_new_label == "reject")
        ):
            return False
        feature = next((feature for feature in self.schema if feature.name == self.label), None)
        is_class = feature is not None and kind_of(feature).has_classes and self.classes.labels is not None
        return is_class or (feature is not None and feature.dtype == "bytes")

    @property
    def needs_inference(self) -> bool:
        """Whether a pass over the data comes before it is encoded."""
        return self.schema is None or self.needs_classes


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The reading of a table.

    Attributes:
      types: of the columns to read as features, in their order.
      features: as published, in the order in which they are encoded.
      label: the label's column if its values are class names, else None.
      class_names: its class table.
      splits: split names by id.
      fractions: theirs, or None where the folders of the files say the split.
      notices: what the user must be told at the end.
      required_label: a label's column whose rows without a value are rejected.
      kinds: of existing records' features, where a record with another kind of one is rejected.
      folders: what those of the files mean.
      keys: the columns to read as keys, groups and strata, which need not be features; not those of lines and existing
        records.
    """

    types: Mapping[str, ColumnType]
    features: Features
    label: str | None
    class_names: ClassNames | None
    splits: tuple[str, ...]
    fractions: tuple[Fraction, ...] | None
    notices: tuple[str, ...] = ()
    required_label: str | None = None
    kinds: Mapping[str, DType] = field(default_factory=dict)
    folders: FolderRoles = SPLITS
    keys: tuple[KeyColumn, ...] = ()


# How a route decides upon its layout; whether an example of a line has its number concerns lines alone.
MakeLayout = Callable[[InputSummary, Inferred, TableOptions, bool], TableLayout]


def make_table_layout(summary: InputSummary, inferred: Inferred, options: TableOptions, _: bool = False) -> TableLayout:
    """Decide how to read the table that `summary` and `inferred` describe.

    Args:
      summary: of the files.
      inferred: of their columns; nothing where --schema makes inference needless.

    Raises:
      UserError: a column that does not exist, headers that differ, a new class, or no rows.
    """
    notices = skipped_notices(summary)
    header = _check_headers(summary, options)
    # Where there are bytes but no rows, staging finds out why of each.
    if options.schema is None and not inferred.rows and not summary.rejected and not summary.size_bytes:
        raise UserError(f"{options.source} has no rows")
    known = list(header or sorted(inferred.types))
    # Beside --schema no other column than the label is looked at
    if header or (inferred.rows and options.schema is None):
        # A key that no row has today may be there tomorrow: of files without headers that is no mistake.
        check_columns(known if header else [*known, *options.drop], options)
        if (
            not header
            and wanted_columns(options) is None
            and (unknown := [name for name in options.drop if name not in known])
        ):
            notices.append(f"no row has {_quoted(unknown)}, which --drop leaves out; {_hint(unknown[0], known)}")
    types, features = (
        _from_schema(known, header, options, notices)
        if options.schema
        else _from_data(known, inferred, options, notices)
    )
    if not features and (options.schema is not None or inferred.rows):
        raise UserError(
            f"no column of {options.source} is left, or has a value in any row; is too much in --drop, or not in"
            " --only?"
        )
    if any(not feature.name for feature in features):
        raise UserError(
            f"{options.source} has a column without a name; give every column a name, or choose some with --only"
        )
    _check_fill(options)
    types, features, class_names = _resolve_label(types, features, inferred, options)
    splits = splits_of_tables(summary, options.source, options.split.splits)
    check_split_shards(splits.names, options.split_shards)
    notices += splits.notices
    label = options.label if class_names is not None else None
    required = options.label if options.label in types else None  # there is no such column where no row could be read
    helpers = [name for name in options.helpers if not header or name in header]  # of `content` there may be none
    keys = tuple(KeyColumn(name, _is_number(options.schema, name)) for name in helpers)
    return TableLayout(
        types, tuple(features), label, class_names, splits.names, splits.fractions, tuple(notices), required, keys=keys
    )


def wanted_columns(options: TableOptions) -> list[str] | None:
    """The columns whose types must be inferred; None stands for all, of which --drop is left out later."""
    if options.needs_classes:
        assert options.label is not None
        return [options.label]
    if options.only:
        return list(dict.fromkeys([*options.only, *([options.label] if options.label else []), *options.helpers]))
    return None


def _check_headers(summary: InputSummary, options: TableOptions) -> tuple[str, ...]:
    """The columns in the order of the first file; () where files have no headers."""
    if not summary.headers:
        return ()
    ordered = sorted(summary.headers.items(), key=lambda item: item[1][1])
    first, (_, first_name) = ordered[0]
    for columns, (number, name) in ordered[1:]:
        if set(columns) == set(first):
            continue
        missing, extra = sorted(set(first) - set(columns)), sorted(set(columns) - set(first))
        parts = [
            *([f"lacks {_quoted(missing)}"] if missing else []),
            *([f"has {_quoted(extra)} beside"] if extra else []),
        ]
        more = f", as {number - 1} more file{'s do' if number > 2 else ' does'}" if number > 1 else ""
        raise UserError(
            f"{options.source}: headers differ: {name!r} {' and '.join(parts)} what {first_name!r} has{more}"
        )
    return first


def check_columns(known: Sequence[str], options: TableOptions) -> None:
    """Check that the columns that flags name are among those `known`.

    Raises:
      UserError: one is not, or means two things at once; the flag, and the nearest name.
    """
    flags = {
        "--label": [options.label] if options.label else [],
        "--key": [options.key] if options.key else [],
        "--group_by": [options.split.group_by] if options.split.group_by else [],
        "--stratify_by": [options.split.stratify_by] if options.split.stratify_by else [],
        "--drop": options.drop,
        "--only": options.only,
        "--fill": [column for column, _ in options.fill if not _has(options.schema, column)],
    }
    for flag, columns in flags.items():
        for column in columns:
            if column not in known and (flag, column) != ("--group_by", CONTENT):
                hint = "it stands for the column of --label, which is not given; " if flag in options.says_label else ""
                raise UserError(f"{flag} {column}: no such column in {options.source}; {hint}{_hint(column, known)}")
    for flag in options.says_label:
        if options.label not in (None, "label") and "label" in known:
            raise UserError(
                f"{flag} label is ambiguous: there is a column 'label', and --label is {options.label}; "
                f"give {flag} {options.label}, or rename the column 'label'"
            )
    if options.label in options.drop:
        raise UserError(f"--label {options.label} is also in --drop; drop the one or the other")


def _has(schema: Features | None, column: str) -> bool:
    return any(feature.name == column for feature in schema or ())


def _is_number(schema: Features | None, column: str) -> bool:
    return any(feature.name == column and _holds_numbers(feature) for feature in schema or ())


def _holds_numbers(feature: Feature) -> bool:
    """Whether what stands in the column are numbers, rather than names of classes, or true and false."""
    kind = kind_of(feature)
    return kind.column_type(feature) in ("int64", "float32") and not kind.has_classes


def _check_fill(options: TableOptions) -> None:
    """Check that --fill fits --schema; without one, the values decide the types."""
    for column, text in options.fill:
        for feature in options.schema or ():
            if feature.name == column and _holds_numbers(feature) and not _fits(text, feature.dtype):
                raise UserError(f"--fill {column}={text}: --schema says that {column!r} holds {feature.dtype}")


def _fits(text: str, dtype: str) -> bool:
    try:
        number = int(text) if dtype == "int64" else float(text)
    except ValueError:
        return False
    return isinstance(number, float) or -(1 << 63) <= number < 1 << 63


def _hint(column: str, known: Sequence[str]) -> str:
    """What follows an error that `column` is none of those that are `known`."""
    near = difflib.get_close_matches(column, known, 1)
    listed = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
    return (f"did you mean {near[0]}? " if near else "") + f"the columns are {listed}"


def _quoted(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _kept(known: Iterable[str], options: TableOptions) -> list[str]:
    chosen = options.only and {*options.only, *([options.label] if options.label else [])}
    return [name for name in known if (not chosen or name in chosen) and name not in options.drop]


def _from_data(
    known: Sequence[str], inferred: Inferred, options: TableOptions, notices: list[str]
) -> tuple[dict[str, ColumnType], list[Feature]]:
    types: dict[str, ColumnType] = {}
    for name in _kept(known, options):
        column = inferred.types.get(name)
        if column is not None:
            types[name] = column
        if inferred.rows and (column is None or not column.present):
            notices.append(
                f"column {name!r} has no value in any row{' that can be read' if column else ''}, and was left out"
            )
    return types, [column.feature(name, inferred.rows) for name, column in types.items() if column.present]


def _from_schema(
    known: Sequence[str], header: tuple[str, ...], options: TableOptions, notices: list[str]
) -> tuple[dict[str, ColumnType], list[Feature]]:
    assert options.schema is not None
    kept = _kept([feature.name for feature in options.schema], options)
    features = [feature for feature in options.schema if feature.name in kept]
    for feature in features:
        if not kind_of(feature).in_columns:
            raise UserError(
                f"--schema says that {feature.name!r} is an {kind_of(feature).own_name}, which no column holds; "
                f"--drop {feature.name} leaves it out"
            )
        if header and feature.name not in known and feature.required:
            raise UserError(
                f"--schema wants column {feature.name!r}, which {options.source} lacks; {_hint(feature.name, known)}"
            )
    names = {feature.name for feature in options.schema}
    extra = [name for name in header if name not in names and name not in options.drop and name not in options.helpers]
    if extra and not options.only:
        notices.append(
            f"left out what --schema does not have: {'column' if len(extra) == 1 else 'columns'} {_quoted(extra)}"
        )
    return {feature.name: _column_type(feature) for feature in features}, features


def _column_type(feature: Feature) -> ColumnType:
    dtype = kind_of(feature).column_type(feature)
    if not feature.shape:
        return ColumnType(dtype, None, 0)
    size, *inner = feature.shape
    return ColumnType(dtype, -1 if size is None else size, 0, tuple(filter(None, inner)))


def _resolve_label(
    types: dict[str, ColumnType], features: list[Feature], inferred: Inferred, options: TableOptions
) -> tuple[dict[str, ColumnType], list[Feature], ClassNames | None]:
    """The label's class names, if its values are strings, and its feature as published."""
    if options.label is None:
        if options.classes.labels is not None:
            raise UserError(f"{options.classes.given}, but no --label; name the column")
        return types, features, None
    feature = next((feature for feature in features if feature.name == options.label), None)
    if feature is None:
        if not inferred.rows and options.schema is None:
            return types, features, None
        if options.schema is not None and not _has(options.schema, options.label):
            raise UserError(
                f"--label {options.label}: --schema has no such feature; {_hint(options.label, _names(options.schema))}"
            )
        raise UserError(f"--label {options.label} has no value in any row")
    if types[options.label].length is not None:
        raise UserError(f"--label {options.label} holds lists; expected one value in each row")
    is_class = kind_of(feature).has_classes
    if is_class and options.classes.labels is None:
        raise UserError(
            f"--schema says that {options.label!r} holds ids of {_class_count(feature)} classes; give their names with "
            f"--labels_file {naming.labels_file(options.label)}, which stands beside the schema"
        )
    if not is_class and feature.dtype != "bytes":
        if options.classes.labels is not None:
            raise UserError(
                f"{options.classes.given}, but --label {options.label} holds numbers, which stay as they are"
            )
        return types, [_required(feature, options.label) for feature in features], None
    check_label_name(options.label)
    check_labels_file(feature, options.classes.labels)
    if inferred.values is None:
        raise UserError(f"--label {options.label} has more than {MAX_VALUES:,} different values; is it a label?")
    found = inferred.values if options.needs_inference else frozenset()
    class_names = resolve_class_names(
        found, options.classes.labels, options.classes.on_new_label, options.classes.source
    )
    types = {**types, options.label: ColumnType("bytes", None, 0)}
    label = Feature(options.label, "int64", "class_label", class_names=class_names.names)
    return types, [label if feature.name == options.label else feature for feature in features], class_names


def check_labels_file(feature: Feature, frozen: Sequence[str] | None) -> None:
    """Check that `frozen`, the names of --labels_file, name every class that --schema knows of; there may be more,
    added since.

    Raises:
      UserError: there are fewer, so that the file is not the one beside the schema, and ids would mean other classes.
    """
    if kind_of(feature).has_classes and frozen is not None and len(frozen) < len(feature.class_names):
        raise UserError(
            f"--labels_file has {len(frozen):,} names, but --schema says that {feature.name!r} holds ids of"
            f" {len(feature.class_names):,} classes; give the {naming.labels_file(feature.name)} that stands beside the"
            " schema"
        )


def _names(features: Features) -> list[str]:
    return [feature.name for feature in features]


def _class_count(feature: Feature) -> str:
    return f"{len(feature.class_names):,}" if feature.class_names else "some"


def _required(feature: Feature, label: str) -> Feature:
    return replace(feature, required=True) if feature.name == label else feature
