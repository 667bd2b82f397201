"""Which columns become features, and of which types: those of all rows, or of --schema."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shardmill.errors import UserError
from shardmill.features.feature import Feature, Features
from shardmill.kinds.registry import kind_of
from shardmill.transforms.columns.inferred import Inferred
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.inputs.folders import quoted
from shardmill.transforms.layout.column_names import check_columns, nearest
from shardmill.transforms.layout.table_options import TableOptions

_INT64 = 1 << 63  # from minus this to below it reach 64 bits


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that become features.

    Attributes:
      types: as they are read, in the order of the features.
      features: as published.
      notices: what the user must be told of those that were left out.
    """

    types: dict[str, ColumnType]
    features: Features
    notices: tuple[str, ...] = ()


def choose_columns(header: Sequence[str], inferred: Inferred, options: TableOptions) -> Columns:
    """Choose the columns of a table whose files have `header`, () where they have none.

    Raises:
      UserError: a column that a flag or --schema names does not exist; no column is left; one has no name; or --fill
        fits no type of --schema.
    """
    known = list(header or sorted(inferred.types))
    notices = _check_known(known, bool(header), inferred, options)
    columns = _from_schema(known, header, options) if options.schema else _from_data(known, inferred, options)
    if not columns.features and (options.schema is not None or inferred.rows):
        raise UserError(
            f"no column of {options.source} is left, or has a value in any row; is too much in --drop, or not in"
            " --only?"
        )
    if any(not feature.name for feature in columns.features):
        raise UserError(
            f"{options.source} has a column without a name; give every column a name, or choose some with --only"
        )
    _check_fill(options)
    return Columns(columns.types, columns.features, (*notices, *columns.notices))


def _check_known(known: Sequence[str], headed: bool, inferred: Inferred, options: TableOptions) -> list[str]:
    """Check that the columns that flags name are there; a notice of those that --drop names in vain.

    Beside --schema no other column than the label was looked at.
    """
    if not headed and not (inferred.rows and options.schema is None):
        return []
    # A key that no row has today may be there tomorrow: of files without headers that is no mistake.
    check_columns(known if headed else [*known, *options.drop], options)
    unknown = [name for name in options.drop if name not in known]
    if headed or wanted_columns(options) is not None or not unknown:
        return []
    return [f"no row has {quoted(unknown)}, which --drop leaves out; {nearest(unknown[0], known)}"]


def wanted_columns(options: TableOptions) -> list[str] | None:
    """The columns whose types must be inferred; None stands for all, of which --drop is left out later."""
    if options.needs_classes:
        return options.needs_classes
    if options.only:
        return list(dict.fromkeys([*options.only, *options.label_columns, *options.images, *options.helpers]))
    return None


def holds_numbers_by(schema: Features | None, column: str) -> bool:
    """Whether --schema says that the column is numbers."""
    return any(feature.name == column and _holds_numbers(feature) for feature in schema or ())


def _holds_numbers(feature: Feature) -> bool:
    """Whether what stands in the column are numbers, rather than names of classes, or true and false."""
    kind = kind_of(feature)
    return kind.column_type(feature) in ("int64", "float32") and not kind.has_classes


def _check_fill(options: TableOptions) -> None:
    """Check that --fill fits --schema; without one, the values decide the types."""
    for column, text in options.fill:
        for feature in options.schema or ():
            holds = _holds_numbers(feature) and column not in options.times
            if feature.name == column and holds and not _fits(text, feature.dtype):
                raise UserError(
                    f"--fill {column}={text}: {options.schema_said} says that {column!r} holds {feature.dtype};"
                    " give one"
                )


def _fits(text: str, dtype: str) -> bool:
    """Whether a text is a number of a type, int64 or float32."""
    try:
        number = int(text) if dtype == "int64" else float(text)
    except ValueError:
        return False
    return isinstance(number, float) or -_INT64 <= number < _INT64


def _kept(known: Iterable[str], options: TableOptions) -> list[str]:
    """The columns that --only and --drop leave; --only need not name labels and images."""
    chosen = options.only and {*options.only, *options.label_columns, *options.images}
    return [name for name in known if (not chosen or name in chosen) and name not in options.drop]


def _from_data(known: Sequence[str], inferred: Inferred, options: TableOptions) -> Columns:
    types: dict[str, ColumnType] = {}
    notices = []
    for name in _kept(known, options):
        column = inferred.types.get(name)
        if column is not None:
            types[name] = column
        if inferred.rows and (column is None or not column.present):
            notices.append(
                f"column {name!r} has no value in any row{' that can be read' if column else ''}, and was left out"
            )
    features = tuple(column.feature(name, inferred.rows) for name, column in types.items() if column.present)
    return Columns(types, features, tuple(notices))


def _from_schema(known: Sequence[str], header: Sequence[str], options: TableOptions) -> Columns:
    assert options.schema is not None
    kept = _kept([feature.name for feature in options.schema], options)
    features = tuple(feature for feature in options.schema if feature.name in kept)
    for feature in features:
        if not kind_of(feature).in_columns:
            raise UserError(
                f"{options.schema_said} says that {feature.name!r} is an {kind_of(feature).own_name},"
                f" which no column holds; --drop {feature.name} leaves it out"
            )
        if header and feature.name not in known and feature.required:
            raise UserError(
                f"{options.schema_said} wants column {feature.name!r}, which {options.source} lacks;"
                f" {nearest(feature.name, known)}"
            )
    types = {feature.name: _column_type(feature) for feature in features}
    return Columns(types, features, beside_schema(header, options.schema, options))


def beside_schema(header: Iterable[str], schema: Features, options: TableOptions) -> tuple[str, ...]:
    """A notice of the columns that nobody asked for and nobody left out."""
    named = {feature.name for feature in schema} | {*options.drop, *options.helpers}
    extra = [name for name in header if name not in named]
    if not extra or options.only:
        return ()
    columns = f"{'column' if len(extra) == 1 else 'columns'} {quoted(extra)}"
    return (f"left out what {options.schema_said} does not have: {columns}",)


def _column_type(feature: Feature) -> ColumnType:
    dtype = kind_of(feature).column_type(feature)
    if not feature.shape:
        return ColumnType(dtype, None, 0)
    size, *inner = feature.shape
    return ColumnType(dtype, -1 if size is None else size, 0, tuple(filter(None, inner)))
