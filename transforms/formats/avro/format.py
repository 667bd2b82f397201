"""Avro container files as typed rows: some blocks of a file are read at once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shardmill.metadata.rejects import Reject
from shardmill.transforms.columns.arrow import to_batch
from shardmill.transforms.columns.arrow_values import spelled_type
from shardmill.transforms.columns.inferred import Inferred, ValuesOf
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats.arrow_rows import (
    STAGE,
    distinct_values,
    merge_present,
    parse_fills,
    present_type,
    spelled_fill,
    typed_rows,
    unsupported,
)
from shardmill.transforms.formats.avro.container import CutError, frames_of, read_header
from shardmill.transforms.formats.base import BlockRef, FileRef, KeyColumn, Rows, no_rows
from shardmill.transforms.formats.damage import Damage, UnreadableError, unread_file, why_unreadable
from shardmill.transforms.stores import storage

_BATCH_BYTES = 256 << 10  # of records decoded at once, about: as Python objects they are some twenty times larger
_BATCH_ROWS = 1 << 16  # likewise, where they are tiny


@dataclass(frozen=True)
class AvroFormat:
    """A row for each record of an Avro container file.

    Ints and longs become int64, floats and doubles float32, strings, bytes, fixed and enums bytes; dates, times,
    timestamps and decimals become text as Arrow casts them to strings; arrays of these become lists, and arrays of
    arrays too. A null of a union is a missing value. Records, maps and other unions cannot be read, only dropped. The
    lines are the records' numbers in their file, from 1. A block that cannot be decoded loses the records that its
    header counts.

    Attributes:
      block_size: bytes of a BlockRef, about: of as many blocks of the file as that takes.
      fill: columns, and the text of the value that stands in them for a missing one, as parse_fill has it.
      drop: columns that are not looked at where the types of all are asked for.
    """

    block_size: int
    fill: tuple[tuple[str, str], ...] = ()
    drop: tuple[str, ...] = ()

    def index(self, file: FileRef) -> Iterator[BlockRef | Reject]:
        """Blocks of the file, some together; what is wrong with them is left to `read`: the last one ends where the
        file does.

        Raises:
          UserError: a column is there twice, or the file holds no records but other values.
          OSError: the file cannot be read.
        """
        with storage.open_read(file.path, file.size_bytes) as stream:
            try:
                header = read_header(stream, file)
            except UnreadableError as error:
                yield unread_file(file.name, file.size_bytes, "index", str(error))
                return
            start, first, row = header.size_bytes, 1, 1
            whole = False
            frames = frames_of(stream, header, start, file.size_bytes, with_data=False)
            while not whole:
                try:
                    frame = next(frames, None)
                except UnreadableError:
                    break
                whole = frame is None
                row += frame.records if frame is not None else 0
                if frame is not None and frame.end - start >= self.block_size:
                    yield BlockRef(file, start, frame.end - start, first, header.columns, row - first)
                    start, first = frame.end, row
            if start < file.size_bytes:
                yield BlockRef(
                    file, start, file.size_bytes - start, first, header.columns, row - first if whole else None
                )

    def header(self, file: FileRef) -> tuple[str, ...]:
        """The fields of the file's schema; () if that cannot be read."""
        try:
            with storage.open_read(file.path, file.size_bytes) as stream:
                return read_header(stream, file).columns
        except UnreadableError:
            return ()

    def infer(
        self, block: BlockRef, columns: Iterable[str] | None, values_of: Sequence[ValuesOf]
    ) -> Iterator[Inferred]:
        """The types, from the schema; how many values there are, and of what length, from all records.

        Rows that `read` will reject for a value that does not fit are among them.

        Raises:
          UserError: one of `columns` is a record, a map or a union of several types.
        """
        fills = parse_fills(self.fill)
        every = [name for name in (*block.columns, *fills) if name not in self.drop]
        wanted = list(dict.fromkeys(every if columns is None else columns))
        merged = Inferred()
        for part in _parts(block, [*wanted, *(column.name for column in values_of)]):
            if isinstance(part, _Part):
                types = {name: found for name in wanted if (found := part.infer(name, fills)) is not None}
                values = distinct_values(part.batch, values_of, fills)
                merged = merged.merge(Inferred(types, len(part.numbers), values))
        yield merged

    def read(self, block: BlockRef, types: Mapping[str, ColumnType], keys: Sequence[KeyColumn] = ()) -> Iterator[Rows]:
        """The rows, some blocks of the file at a time; one that is damaged is one reject.

        Raises:
          UserError: one of `types` is a record, a map or a union of several types.
        """
        fills = parse_fills(self.fill)
        for part in _parts(block, [*types, *(key.name for key in keys)]):
            if isinstance(part, Reject):
                yield no_rows(types, [part], keys)
            else:
                yield typed_rows(block.file.name, part.batch, part.numbers, types, keys, fills)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Some records: the columns asked for, as the schema types them, and their numbers in the file."""

    batch: pa.RecordBatch
    numbers: np.ndarray

    def infer(self, name: str, fills: Mapping[str, Any]) -> ColumnType | None:
        """The type of a column; None if it has no value."""
        found, missing = None, len(self.numbers)
        if name in self.batch.schema.names:
            array = self.batch[name]
            found, missing = present_type(array, spelled_type(array.type)), array.null_count
        if name in fills and missing:
            found = merge_present(found, ColumnType(spelled_fill(fills[name]), None, missing))
        return found


def _parts(block: BlockRef, names: Iterable[str]) -> Iterator[_Part | Reject]:
    """The records of a block with their columns `names`; what cannot be read is a Reject."""
    names = list(dict.fromkeys(names))
    offset, row = block.offset, block.first_line  # of the next block of the file
    parts: list[_Part] = []
    size_bytes = rows = 0  # of `parts`
    problem: Exception | None = None
    try:
        with storage.open_read(block.file.path, block.end) as stream:
            header = read_header(stream, block.file)
            for name in names:
                kind = header.kinds.get(name)
                if isinstance(kind, str):
                    raise unsupported(block.file.name, name, kind)
            for frame in frames_of(stream, header, offset, block.end, with_data=True):
                try:
                    parts.append(_Part(header.decode(frame, names), np.arange(row, row + frame.records)))
                except UnreadableError as error:
                    yield Reject(block.file.name, row, STAGE, str(error), frame.records, frame.end - frame.start)
                size_bytes, rows = size_bytes + len(frame.data), rows + frame.records
                offset, row = frame.end, row + frame.records
                if parts and (size_bytes >= _BATCH_BYTES or rows >= _BATCH_ROWS):
                    yield from _joined(parts)
                    parts, size_bytes, rows = [], 0, 0
    except (UnreadableError, OSError) as error:
        problem = error
    if parts:
        yield from _joined(parts)
    if problem is not None:
        yield _lost(block, offset, row, problem)


def _joined(parts: Sequence[_Part]) -> Iterator[_Part]:
    """All rows of `parts`, at least one, in parts of the size that is typed at once."""
    numbers = np.concatenate([part.numbers for part in parts])
    whole = (
        pa.concat_batches([part.batch for part in parts]) if parts[0].batch.num_columns else to_batch({}, len(numbers))
    )
    for start in range(0, len(numbers), _BATCH_ROWS):
        yield _Part(whole.slice(start, _BATCH_ROWS), numbers[start : start + _BATCH_ROWS])


def _lost(block: BlockRef, offset: int, row: int, problem: Exception) -> Reject:
    """The Reject of all records from `row` on, whose block starts at `offset`."""
    name, left = block.file.name, block.end - offset
    reason = f"{why_unreadable(problem, block.file.path)}; all from row {row:,} on is lost"
    if isinstance(problem, CutError):
        return Reject(name, row, STAGE, reason, problem.records, left, "at least")
    if block.records is not None:  # the file was whole when it was indexed
        return Reject(name, row, STAGE, reason, max(block.records - (row - block.first_line), 1), left)
    return Damage(reason, left, left / max(offset, 1)).reject(name, row, STAGE, reason, row - 1, left)
