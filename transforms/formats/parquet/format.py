"""Parquet files as typed rows: a row group is a block."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.rejects import Reject
from transforms.columns.arrow import as_text, distinct_texts, parse_fill, to_batch
from transforms.columns.arrow_lists import is_list, list_type
from transforms.columns.arrow_values import convert_column
from transforms.columns.inferred import MAX_VALUES, Inferred
from transforms.columns.key_texts import key_texts, key_texts_of_values
from transforms.columns.types import ColumnType, Spelled
from transforms.formats.base import BlockRef, FileRef, KeyColumn, Rows, key_column, no_rows
from transforms.formats.damage import unread_file
from transforms.formats.parquet.file import OpenedParquet, UnreadableError, why_unreadable

_STAGE = "read"


@dataclass(frozen=True)
class ParquetFormat:
    """A row for each row of a Parquet file.

    Integers become int64, floats float32, strings and binary bytes; dates, times, timestamps, durations and decimals become text as
    Arrow casts them to strings; lists of these become lists, and lists of lists too. A row with a value that does not fit, such as
    an unsigned integer beyond int64, a finite number beyond float32 or inner lists of two lengths, is a reject. Structs and maps
    cannot be read, only dropped.

    Attributes:
      fill: columns, and the text of the value that stands in them for a missing one: JSON of a number or a string, true or false,
        or any text.
      drop: columns that are not looked at where the types of all are asked for.
    """

    fill: tuple[tuple[str, str], ...] = ()
    drop: tuple[str, ...] = ()

    def index(self, file: FileRef) -> Iterator[BlockRef | Reject]:
        """The row groups: `offset` is the number of one, `first_line` that of its first row, `length` its compressed bytes.

        Raises:
          UserError: a column is there twice.
          OSError: the file cannot be read.
        """
        try:
            opened = OpenedParquet(file)
        except UnreadableError as error:
            yield unread_file(file.name, file.size_bytes, "index", str(error))
            return
        with opened:
            row = 1
            for number in range(opened.metadata.num_row_groups):
                group = opened.metadata.row_group(number)
                if group.num_rows:
                    yield BlockRef(file, number, opened.size_bytes(number), row, opened.columns, group.num_rows)
                row += group.num_rows

    def header(self, file: FileRef) -> tuple[str, ...]:
        """The columns of the file's schema; () if that cannot be read."""
        try:
            with OpenedParquet(file) as opened:
                return opened.columns
        except UnreadableError:
            return ()

    def infer(self, block: BlockRef, columns: Iterable[str] | None, values_of: str | None) -> Iterator[Inferred]:
        """The types, from the schema; only lists, columns whose nulls were not counted, and `values_of` are read.

        Rows that `read` will reject for a value that does not fit are among them.

        Raises:
          UserError: one of `columns` is a struct or a map.
        """
        try:
            with OpenedParquet(block.file) as opened:
                yield self._infer(opened, block, columns, values_of)
        except (UnreadableError, OSError) as error:
            why_unreadable(error, block.file)  # `read` rejects the rows

    def read(self, block: BlockRef, types: Mapping[str, ColumnType], keys: Sequence[KeyColumn] = ()) -> Iterator[Rows]:
        """The rows, in batches that fit into memory; what cannot be decoded is one reject.

        Raises:
          UserError: one of `types` is a struct or a map.
        """
        row = block.first_line
        try:
            with OpenedParquet(block.file) as opened:
                wanted = list(dict.fromkeys([*types, *(key.name for key in keys)]))
                for name in wanted:
                    opened.spelled(name)
                fills = self._fills()
                for batch in opened.batches(block, wanted):
                    numbers = np.arange(row, row + len(batch))
                    yield _rows(block, batch, numbers, types, keys, fills)
                    row += len(batch)
                rows, expected = row - block.first_line, opened.metadata.row_group(block.offset).num_rows
                if rows != expected:
                    raise UnreadableError(f"there are {rows:,} rows in it, where the footer says {expected:,}")
        except (UnreadableError, OSError) as error:
            why = why_unreadable(error, block.file)
            reason = f"row group {block.offset} cannot be read from row {row:,} on, all of which is lost: {why}"
            yield no_rows(types, [_lost_rows(block, row, reason)], keys)

    def _fills(self) -> dict[str, Any]:
        return {column: parse_fill(text) for column, text in self.fill}

    def _infer(self, opened: "OpenedParquet", block: BlockRef, columns: Iterable[str] | None, values_of: str | None) -> Inferred:
        fills = self._fills()
        every = [name for name in (*opened.columns, *fills) if name not in self.drop]
        wanted = list(dict.fromkeys(every if columns is None else columns))
        group = opened.metadata.row_group(block.offset)
        found: dict[str, ColumnType | None] = dict.fromkeys(wanted)
        nulls = dict.fromkeys(wanted, group.num_rows)
        unknown = []
        for name in wanted:
            dtype, count = opened.spelled(name), opened.null_count(block, name)
            if dtype is None:
                continue
            if count is None:
                unknown.append(name)
            elif count < group.num_rows:
                found[name] = ColumnType(dtype, None, group.num_rows - count)
                nulls[name] = count
        values: frozenset[str] | None = frozenset()
        try:
            read = [*unknown, *([values_of] if values_of is not None else [])]
            for batch in opened.batches(block, read) if read else ():
                for name in unknown:
                    found[name] = _merge(found[name], _list_type(batch[name], opened.spelled(name)))
                    nulls[name] -= len(batch) - batch[name].null_count
                if values_of is not None:
                    values = _join(values, _distinct(batch, values_of, fills.get(values_of)))
        except UnreadableError:  # the columns must be asked for nevertheless, so that `read` rejects the rows
            for name in unknown:
                found[name] = _merge(found[name], opened.guess(name, nulls[name]))
        for name, fill in fills.items():
            if nulls.get(name):
                found[name] = _merge(found[name], ColumnType(_spelled_fill(fill), None, nulls[name]))
        return Inferred({name: column for name, column in found.items() if column is not None}, group.num_rows, values)


def _lost_rows(block: BlockRef, row: int, reason: str) -> Reject:
    """The Reject of the rows of a row group from `row` on, as many as the footer promises."""
    promised = block.records or 1
    lost = max(promised - (row - block.first_line), 1)
    return Reject(block.file.name, row, _STAGE, reason, lost, max(block.length * lost // promised, 1))


def _rows(
    block: BlockRef,
    batch: pa.RecordBatch,
    numbers: np.ndarray,
    types: Mapping[str, ColumnType],
    keys: Sequence[KeyColumn],
    fills: Mapping[str, Any],
) -> Rows:
    """The rows of `batch` that fit `types`."""
    problems: dict[int, str] = {}
    arrays: dict[str, pa.Array] = {}
    for name, column in types.items():
        values = batch[name] if name in batch.schema.names else pa.nulls(len(batch))
        converted = convert_column(values, column, fills.get(name))
        for row, reason in converted.problems.items():
            problems.setdefault(row, f"column {name!r}: {reason}")
        arrays[name] = converted.array
    for key in keys:
        texts = key_texts(batch[key.name]) if key.name in batch.schema.names else pa.nulls(len(batch), pa.large_binary())
        fill = key_texts_of_values([fills.get(key.name)])[0]
        arrays[key_column(key.name)] = pc.fill_null(texts, fill) if fill.is_valid else texts
    typed = to_batch(arrays, len(numbers))
    if not problems:
        return Rows(typed, numbers)
    good = np.ones(len(numbers), bool)
    good[list(problems)] = False
    rejects = [Reject(block.file.name, int(numbers[row]), _STAGE, reason) for row, reason in sorted(problems.items())]
    return Rows(typed.filter(pa.array(good)), numbers[good], rejects)


def _list_type(array: pa.Array, dtype: Spelled | None) -> ColumnType | None:
    present = len(array) - array.null_count
    if dtype is None or not present:
        return None
    if not is_list(array.type):
        return ColumnType(dtype, None, present)
    return list_type(array, dtype)


def _merge(one: ColumnType | None, other: ColumnType | None) -> ColumnType | None:
    return one.merge(other) if one is not None and other is not None else one or other


def _distinct(batch: pa.RecordBatch, name: str, fill: Any) -> frozenset[str] | None:
    """The texts that the values of a column are where it is one of strings."""
    if name not in batch.schema.names:
        return frozenset() if fill is None else frozenset([as_text(fill)])
    column = ColumnType("bytes", -1 if is_list(batch[name].type) else None, 0)
    array = convert_column(batch[name], column, fill).array
    return distinct_texts(array.flatten() if column.is_variable else array)


def _join(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    joined = None if one is None or other is None else one | other
    return joined if joined is None or len(joined) <= MAX_VALUES else None


def _spelled_fill(fill: Any) -> Spelled:
    if isinstance(fill, bool):
        return "bool"
    return "int64" if isinstance(fill, int) else "float32" if isinstance(fill, float) else "bytes"
