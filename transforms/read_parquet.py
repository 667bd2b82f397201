"""Parquet files as typed rows: a row group is a block."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shardmill.errors import UserError
from transforms import storage
from transforms.arrow_columns import UnsupportedTypeError, convert_column, is_list, spelled_type
from transforms.blocks import MAX_VALUES, BlockRef, FileRef, Inferred, Rows
from transforms.columns import ColumnType, Spelled
from transforms.refs import Reject
from transforms.typed_columns import as_text, distinct_texts, no_rows, parse_fill

_STAGE = "read"
_BATCH_BYTES = 16 << 20  # of values that are decoded at once
_BATCH_ROWS = 1 << 16  # at most: what is repeated is many times larger than it is in the file
_BUFFER_BYTES = 1 << 20  # read ahead of each column; without a buffer, all of its bytes in a row group would be


@dataclass(frozen=True)
class ParquetFormat:
    """A row for each row of a Parquet file.

    Integers become int64, floats float32, strings and binary bytes; dates, times, timestamps, durations and decimals become text as
    Arrow casts them to strings; lists of these become lists. A row with a value that does not fit, such as an unsigned integer
    beyond int64 or a finite number beyond float32, is a reject. Structs, maps and nested lists cannot be read, only dropped.

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
            opened = _Opened(file)
        except _UnreadableError as error:
            yield Reject(file.name, None, "index", str(error))
            return
        with opened:
            row = 1
            for number in range(opened.metadata.num_row_groups):
                group = opened.metadata.row_group(number)
                length = sum(group.column(index).total_compressed_size for index in range(group.num_columns))
                if group.num_rows:
                    yield BlockRef(file, number, length, row, opened.columns)
                row += group.num_rows

    def header(self, file: FileRef) -> tuple[str, ...]:
        """The columns of the file's schema; () if that cannot be read."""
        try:
            with _Opened(file) as opened:
                return opened.columns
        except _UnreadableError:
            return ()

    def infer(self, block: BlockRef, columns: Iterable[str] | None, values_of: str | None) -> Iterator[Inferred]:
        """The types, from the schema; only lists, columns whose nulls were not counted, and `values_of` are read.

        Rows that `read` will reject for a value that does not fit are among them.

        Raises:
          UserError: one of `columns` is a struct, a map or a nested list.
        """
        try:
            with _Opened(block.file) as opened:
                yield self._infer(opened, block, columns, values_of)
        except _UnreadableError:
            return  # `read` rejects the rows

    def read(self, block: BlockRef, types: Mapping[str, ColumnType]) -> Iterator[Rows]:
        """The rows, in batches that fit into memory; what cannot be decoded is one reject.

        Raises:
          UserError: one of `types` is a struct, a map or a nested list.
        """
        row = block.first_line
        try:
            with _Opened(block.file) as opened:
                for name in types:
                    opened.spelled(name)
                fills = self._fills()
                for batch in opened.batches(block, list(types)):
                    numbers = np.arange(row, row + len(batch))
                    yield _rows(block, batch, numbers, types, fills)
                    row += len(batch)
        except _UnreadableError as error:
            reason = f"row group {block.offset} cannot be read from row {row:,} on, all of which is lost: {error}"
            yield no_rows(types, [Reject(block.file.name, row, _STAGE, reason)])

    def _fills(self) -> dict[str, Any]:
        words = {"true": True, "false": False}
        return {column: words.get(text, parse_fill(text)) for column, text in self.fill}

    def _infer(self, opened: "_Opened", block: BlockRef, columns: Iterable[str] | None, values_of: str | None) -> Inferred:
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
            for batch in opened.batches(block, [*unknown, *([values_of] if values_of is not None else [])]):
                for name in unknown:
                    found[name] = _merge(found[name], _list_type(batch[name], opened.spelled(name)))
                    nulls[name] -= len(batch) - batch[name].null_count
                if values_of is not None:
                    values = _join(values, _distinct(batch, values_of, fills.get(values_of)))
        except _UnreadableError:
            pass  # what was read of the lists will do: `read` rejects the rest
        for name, fill in fills.items():
            if nulls.get(name):
                found[name] = _merge(found[name], ColumnType(_spelled_fill(fill), None, nulls[name]))
        return Inferred({name: column for name, column in found.items() if column is not None}, group.num_rows, values)


class _UnreadableError(Exception):
    """What is not Parquet, or damaged: why."""


class _Opened:
    """A Parquet file that is open."""

    def __init__(self, file: FileRef) -> None:
        """Read the footer; raises _UnreadableError, or UserError if a column is there twice."""
        self._file = file
        self._source = _Source(file.path)
        try:
            self._parquet = self._source.checked(
                lambda: pq.ParquetFile(self._source.file, buffer_size=_BUFFER_BYTES, pre_buffer=False), "not a Parquet file: "
            )
            self.metadata = self._parquet.metadata
            self._schema = self._source.checked(lambda: self._parquet.schema_arrow, "its schema: ")
            self.columns = tuple(self._schema.names)
            twice = next((name for name in self.columns if self.columns.count(name) > 1), None)
            if twice is not None:
                raise UserError(f"{file.name}: column {twice!r} is there twice; expected names that differ")
        except BaseException:
            self._source.close()
            raise

    def __enter__(self) -> "_Opened":
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def spelled(self, name: str) -> Spelled | None:
        """The type of a column's values; None if there are none. Raises UserError for one that cannot be read."""
        if name not in self.columns:
            return None
        try:
            return spelled_type(self._schema.field(name).type)
        except UnsupportedTypeError as error:
            raise UserError(
                f"{self._file.name}: column {name!r} is {error}; expected numbers, strings or flat lists of them, so leave it out "
                f"with --drop {name}"
            ) from None

    def null_count(self, block: BlockRef, name: str) -> int | None:
        """How many rows of a row group have no value in a column that holds no lists, if the file says it."""
        kind = self._schema.field(name).type if name in self.columns else pa.null()
        if is_list(kind):
            return None
        leaf = 0
        for field in self._schema:
            if field.name == name:
                break
            leaf += _leaves(field.type)
        else:
            return None
        chunk = self.metadata.row_group(block.offset).column(leaf)
        statistics = chunk.statistics if chunk.is_stats_set else None
        return statistics.null_count if statistics is not None and statistics.has_null_count else None

    def batches(self, block: BlockRef, names: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Those of the columns `names` that there are, a part of the row group at a time; no batches if `names` is empty."""
        names = list(dict.fromkeys(names))
        there = [name for name in names if name in self.columns]
        if not names:
            return
        group = self.metadata.row_group(block.offset)
        if not there:
            yield pa.RecordBatch.from_struct_array(pa.array([{}] * group.num_rows, pa.struct([])))
            return
        row_bytes = max(group.total_byte_size / max(group.num_rows, 1), 1)
        rows = min(max(int(_BATCH_BYTES / row_bytes), 1), _BATCH_ROWS)
        batches = self._source.checked(
            lambda: self._parquet.iter_batches(batch_size=rows, row_groups=[block.offset], columns=there, use_threads=False)
        )
        while (batch := self._source.checked(lambda: next(batches, None))) is not None:
            yield batch.select(there)


class _Source:
    """A file as Arrow reads it, which tells a store that fails from data that are damaged."""

    def __init__(self, path: str) -> None:
        self._local = storage.is_local(path)
        self._error: BaseException | None = None
        self._stream = None if self._local else storage.open_read(path)
        self.file = pa.OSFile(path) if self._local else pa.PythonFile(self, "r")
        self.closed = False

    def checked(self, function: Any, what: str = "") -> Any:
        """What `function` returns; raises _UnreadableError where Arrow refuses the data, or the error of an object store."""
        try:
            return function()
        except (pa.ArrowException, OSError, ValueError) as error:
            if self._error is not None:
                raise self._error from error
            raise _UnreadableError(what + str(error).split("\n")[0]) from None

    def read(self, size: int = -1) -> bytes:
        """As files have it, for Arrow."""
        return self._call("read", size)

    def seek(self, offset: int, whence: int = 0) -> int:
        """As files have it, for Arrow."""
        return self._call("seek", offset, whence)

    def tell(self) -> int:
        """As files have it, for Arrow."""
        return self._call("tell")

    def close(self) -> None:
        """Close the file below."""
        self.closed = True
        if self._stream is None:
            self.file.close()
        else:
            self._stream.close()

    def _call(self, method: str, *arguments: int) -> Any:
        try:
            return getattr(self._stream, method)(*arguments)
        except Exception as error:
            self._error = error
            raise


def _rows(
    block: BlockRef, batch: pa.RecordBatch, numbers: np.ndarray, types: Mapping[str, ColumnType], fills: Mapping[str, Any]
) -> Rows:
    """The rows of `batch` that fit `types`."""
    problems: dict[int, str] = {}
    arrays = []
    for name, column in types.items():
        values = batch[name] if name in batch.schema.names else pa.nulls(len(batch))
        converted = convert_column(values, column, fills.get(name))
        for row, reason in converted.problems.items():
            problems.setdefault(row, f"column {name!r}: {reason}")
        arrays.append(converted.array)
    typed = pa.RecordBatch.from_arrays(arrays, names=list(types))
    if not problems:
        return Rows(typed, numbers)
    good = np.ones(len(numbers), bool)
    good[list(problems)] = False
    rejects = [Reject(block.file.name, int(numbers[row]), _STAGE, reason) for row, reason in sorted(problems.items())]
    return Rows(typed.filter(pa.array(good)), numbers[good], rejects)


def _leaves(kind: pa.DataType) -> int:
    """How many columns of a Parquet file hold a field of this type."""
    if isinstance(kind, pa.BaseExtensionType):
        return _leaves(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _leaves(kind.value_type)
    return sum(_leaves(kind.field(index).type) for index in range(kind.num_fields)) or 1


def _list_type(array: pa.Array, dtype: Spelled | None) -> ColumnType | None:
    present = len(array) - array.null_count
    if dtype is None or not present:
        return None
    if not is_list(array.type):
        return ColumnType(dtype, None, present)
    lengths = pc.list_value_length(array).drop_null().to_numpy()
    return ColumnType(dtype, int(lengths[0]) if (lengths == lengths[0]).all() else -1, present)


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
