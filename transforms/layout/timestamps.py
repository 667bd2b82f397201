"""What becomes of the columns of --timestamp."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from shardmill.errors import UserError
from shardmill.features.feature import Feature
from shardmill.transforms.columns.inferred import Inferred
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.layout.columns import Columns
from shardmill.transforms.layout.table_options import TableOptions

NAIVE, CUT = "naive", "cut"  # what is counted of times, by column


def with_times(columns: Columns, inferred: Inferred, options: TableOptions) -> Columns:
    """The columns, those of times read as texts and published as int64: those of --timestamp, and of a schema, which
    says the unit of numbers and not what rows have. What orders sequences is read as texts, too, if it has fractions.

    Raises:
      UserError: a column holds something else, or is said to be something else, too.
    """
    types, features = dict(columns.types), []
    order = types.get(options.order_by)
    if order is not None and order.dtype == "float32" and order.length is None:
        types[options.order_by] = ColumnType("bytes", None, 0)  # a time since 1970 has more digits than float32
    for feature in columns.features:
        if feature.name in options.times:
            _check(feature, columns.types[feature.name], inferred, options)
            feature = replace(feature, dtype="int64", kind="tensor", time=options.times[feature.name])
        if is_time(feature, options):
            types[feature.name] = ColumnType("bytes", None, 0, is_time=True)
        features.append(feature)
    return replace(columns, types=types, features=tuple(features))


def is_time(feature: Feature, options: TableOptions) -> bool:
    """Whether a feature of rows is read as a time; the numbers of a label are what they are."""
    named = (*options.label_columns, *options.images)
    return bool(feature.time) and not feature.shape and feature.kind == "tensor" and feature.name not in named


def _check(feature: Feature, column: ColumnType, inferred: Inferred, options: TableOptions) -> None:
    said = f"--timestamp {feature.name}={options.times[feature.name]}"
    for flag, names in (("--label", options.label_columns), ("--image", options.images)):
        if feature.name in names:
            raise UserError(f"{said} is also in {flag}; drop the one or the other")
    if feature.time not in ("", options.times[feature.name]):
        raise UserError(f"{said}: {options.schema_said} says that its times are in {feature.time}")
    told = inferred.told.get(feature.name)
    wanted = "bytes" if options.schema is None else "int64"
    if feature.shape or column.dtype != wanted or feature.kind == "class_label" or (told and told.kind == "image"):
        holds = f"lists of {column.dtype}" if feature.shape else told.kind if told else column.dtype
        if options.schema is not None:
            raise UserError(f"{said}: {options.schema_said} says that it holds {holds}; expected int64")
        raise UserError(
            f"{said}: the column holds {holds}; expected one date or time in each row, as ISO 8601 has them or as times"
            " of the file's own"
        )


def time_notices(odd: Counter[tuple[str, str]], times: Mapping[str, str]) -> list[str]:
    """What must be said of times that became numbers.

    Args:
      odd: by column, how many name no zone (NAIVE), and how many are more exact than the unit (CUT).
      times: the columns, and the unit of each.
    """
    said = []
    for name, unit in times.items():
        if naive := odd[name, NAIVE]:
            were = "value without a zone was" if naive == 1 else "values without a zone were"
            said.append(f"column {name!r}: {naive:,} {were} taken for UTC")
        if cut := odd[name, CUT]:
            have = "value is" if cut == 1 else "values are"
            said.append(f"column {name!r}: {cut:,} {have} more exact than {unit}; the whole {unit} before is stored")
    return said
