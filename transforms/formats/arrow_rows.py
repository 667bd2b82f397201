"""Rows that a library hands over as Arrow's columns, brought to the types asked for: what Parquet and its like
share."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.errors import UserError
from shardmill.metadata.rejects import Reject
from shardmill.transforms.columns.arrow import as_text, distinct_texts, parse_fill, to_batch
from shardmill.transforms.columns.arrow_lists import is_list, list_type
from shardmill.transforms.columns.arrow_values import Converted, convert_column, is_moment, is_span
from shardmill.transforms.columns.inferred import Values, ValuesOf
from shardmill.transforms.columns.key_texts import key_texts, key_texts_of_values
from shardmill.transforms.columns.types import ColumnType, Spelled
from shardmill.transforms.formats.base import KeyColumn, Rows, key_column

STAGE = "read"


def parse_fills(fill: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """What stands for a missing value, by column, from its text."""
    return {column: parse_fill(text) for column, text in fill}


def check_names(source: str, columns: Sequence[str]) -> None:
    """Raise a UserError if file `source` has a column twice."""
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{source}: column {twice!r} is there twice; expected names that differ")


def unsupported(source: str, name: str, what: str) -> UserError:
    """The error of a column of file `source` whose values are `what`, which no feature can hold."""
    return UserError(
        f"{source}: column {name!r} is {what}; expected numbers, strings or lists of them, so leave it out with --drop"
        f" {name}"
    )


def typed_rows(
    source: str,
    batch: pa.RecordBatch,
    numbers: np.ndarray,
    types: Mapping[str, ColumnType],
    keys: Sequence[KeyColumn],
    fills: Mapping[str, Any],
) -> Rows:
    """The rows of `batch` that fit `types`, the others as rejects of file `source`; a column that is not there is
    missing.

    Args:
      source: the file's name.
      batch: the columns as the file types them.
      numbers: of the rows in the file.
      types, keys: as RecordFormat.read has them.
      fills: what stands for a missing value, by column.

    Raises:
      UserError: integers are asked for, as --schema may, of a column of dates or times, of which no row has one; or
        points in time of one of durations or times of day.
    """
    problems: dict[int, str] = {}
    columns: dict[str, Converted] = {}
    arrays: dict[str, pa.Array] = {}
    for name, column in types.items():
        values = batch[name] if name in batch.schema.names else pa.nulls(len(batch))
        if column.dtype == "int64" and is_moment(values.type):
            raise UserError(
                f"{source}: column {name!r} holds dates or times, where integers are asked for; --timestamp {name}=s"
                " makes seconds since 1970 of them, and so do ms, us and ns"
            )
        if column.is_time and is_span(values.type):
            raise UserError(
                f"{source}: column {name!r} holds {values.type}, where --timestamp or a schema's time_domain asks for"
                " points in time; expected dates or times since 1970; without the flag, or as BYTES of a schema, it is"
                " stored as texts"
            )
        converted = convert_column(values, column, fills.get(name))
        for row, reason in converted.problems.items():
            problems.setdefault(row, f"column {name!r}: {reason}")
        columns[name], arrays[name] = converted, converted.array
    for key in keys:
        texts = (
            key_texts(batch[key.name]) if key.name in batch.schema.names else pa.nulls(len(batch), pa.large_binary())
        )
        fill = key_texts_of_values([fills.get(key.name)])[0]
        arrays[key_column(key.name)] = pc.fill_null(texts, fill) if fill.is_valid else texts
    typed = to_batch(arrays, len(numbers))
    good = np.ones(len(numbers), bool)
    good[list(problems)] = False
    rounded = {name: found for name, converted in columns.items() if (found := converted.rounded(good))}
    if not problems:
        return Rows(typed, numbers, rounded=rounded)
    rejects = [Reject(source, int(numbers[row]), STAGE, reason) for row, reason in sorted(problems.items())]
    return Rows(typed.filter(pa.array(good)), numbers[good], rejects, rounded=rounded)


def present_type(array: pa.Array, dtype: Spelled | None) -> ColumnType | None:
    """The type of a column of `dtype` over the rows of `array`; None if it has no value in any."""
    present = len(array) - array.null_count
    if dtype is None or not present:
        return None
    if not is_list(array.type):
        return ColumnType(dtype, None, present)
    return list_type(array, dtype)


def merge_present(one: ColumnType | None, other: ColumnType | None) -> ColumnType | None:
    """The type over both sets of rows, of which either may have no value."""
    return one.merge(other) if one is not None and other is not None else one or other


def distinct_values(batch: pa.RecordBatch, columns: Sequence[ValuesOf], fills: Mapping[str, Any]) -> Values:
    """The texts that the values of each column are where it is one of strings."""
    return {column.name: _distinct(batch, column, fills.get(column.name)) for column in columns}


def _distinct(batch: pa.RecordBatch, wanted: ValuesOf, fill: Any) -> frozenset[str] | None:
    if wanted.name not in batch.schema.names:
        return distinct_texts(pa.array([] if fill is None else [as_text(fill)], pa.string()), wanted.separator)
    column = ColumnType("bytes", -1 if is_list(batch[wanted.name].type) else None, 0)
    array = convert_column(batch[wanted.name], column, fill).array
    return distinct_texts(array.flatten() if column.is_variable else array, wanted.separator)


def spelled_fill(fill: Any) -> Spelled:
    """The type of a value that stands for missing ones."""
    if isinstance(fill, bool):
        return "bool"
    return "int64" if isinstance(fill, int) else "float32" if isinstance(fill, float) else "bytes"
