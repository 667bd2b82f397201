"""Temporary files with what a function made of records, and how these are read; each row keeps its record's place."""

import marshal
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.types import ColumnNames, ColumnType, ColumnTypes, DeclaredColumn, Inferred, ValuesOf
from shardmill.transforms.formats.format import BlockRef, FileRef, Keys, RecordFormat, Rows, parse_fills
from shardmill.transforms.formats.json_lines import JsonObjects, ObjectFields, with_nesting
from shardmill.transforms.formats.parquet import ParquetFormat
from shardmill.transforms.options.job_options import ROW_KEY
from shardmill.transforms.rows.formats import BATCH_SUFFIX, ROW_SUFFIX, DictionariesFormat, SpooledFormat
from shardmill.transforms.rows.spool import RowSpool
from shardmill.transforms.stores import storage

FOLDER = "mapped"  # in the job's temporary directory
_LINE = "\0line"  # the column of a batch that holds the line of each row's record
_LINE_TYPE = ColumnType("int64", None, 1)
_SIZE_BYTES = 8  # before some dictionaries in a file: their size
_GROUP_BYTES = 16 << 20  # of a row group, which is read at once
_GROUP_ROWS = 1 << 18
_PART_ROWS = 256  # dictionaries that are read at once
_BLOCK_BYTES = 8 << 20  # of dictionaries that are a block


class MappedSpool:
    """A writer of rows to a temporary file, of one task; close it to get its blocks.

    A block has rows of one file of the input, and is called by that file's name. The file's name is random, so attempts
    that are repeated never read each other's.
    """

    def __init__(self, temporary: str) -> None:
        self._folder = storage.join(temporary, FOLDER)
        self._opened = ExitStack()
        self._sink: Any = None
        self._path = ""
        self._writer: pq.ParquetWriter | None = None
        self._place: FileRef | None = None  # of the rows that are held
        self._lines: list[np.ndarray] = []
        self._rows: list[Any] = []  # dictionaries, or batches, that are held
        self._images: set[str] = set()
        self._size = self._groups = self._start = self._offset = self._count = 0
        self._blocks: list[BlockRef] = []

    def add_rows(self, file: FileRef, line: int, rows: Sequence[Any], images: Iterable[str] = ()) -> None:
        """Add dictionaries of plain values, made of the record at `line` of a file; `images` are columns of images."""
        if self._place is not file:
            self._flush()
            self._place = file
        self._rows += rows
        self._lines.append(np.full(len(rows), line, np.int64))
        self._images.update(images)
        if len(self._rows) >= _PART_ROWS:
            self._write_rows()

    def add_batch(self, file: FileRef, lines: np.ndarray, batch: pa.RecordBatch) -> None:
        """Add a batch, with the lines of its rows' records in a file."""
        is_other = bool(self._rows) and not self._rows[0].schema.equals(batch.schema, check_metadata=True)
        if self._place is not file or is_other:
            self._flush()
            self._place = file
        self._rows.append(batch)
        self._lines.append(lines)
        self._size += batch.nbytes
        self._count += len(batch)
        if self._size >= _GROUP_BYTES or self._count >= _GROUP_ROWS:
            self._write_group()

    def close(self) -> list[BlockRef]:
        """Write what is held, and return all blocks; raises OSError."""
        self._flush()
        self._end_file()
        return self._blocks

    def _flush(self) -> None:
        if self._place is None:
            return
        if self._rows and isinstance(self._rows[0], pa.RecordBatch):
            self._write_group()
        else:
            self._write_rows()
            self._end_block()

    def _write_rows(self) -> None:
        if not self._rows:
            return
        if self._sink is None:
            self._begin_file(ROW_SUFFIX)
        lines = np.concatenate(self._lines)
        data = marshal.dumps((lines.tobytes(), self._rows))
        self._sink.write(len(data).to_bytes(_SIZE_BYTES, "little") + data)
        self._offset += _SIZE_BYTES + len(data)
        self._count += len(self._rows)
        self._rows, self._lines = [], []
        if self._offset - self._start >= _BLOCK_BYTES:
            self._end_block()

    def _end_block(self) -> None:
        if self._offset > self._start:
            assert self._place is not None
            file = replace(self._place, path=self._path, revision="", parts=())
            size, images = self._offset - self._start, tuple(sorted(self._images))
            self._blocks.append(BlockRef(file, self._start, size, columns=images, records=self._count))
        self._start, self._count, self._images = self._offset, 0, set()

    def _write_group(self) -> None:
        table = pa.Table.from_batches(self._rows)
        table = table.append_column(_LINE, pa.array(np.concatenate(self._lines), pa.int64()))
        if self._writer is None or not self._writer.schema.equals(table.schema, check_metadata=True):
            self._end_file()
            self._begin_file(BATCH_SUFFIX)
            options = {"compression": "none", "use_dictionary": False}
            self._writer = pq.ParquetWriter(pa.PythonFile(self._sink, "w"), table.schema, **options)
        self._writer.write_table(table, row_group_size=max(len(table), 1))
        assert self._place is not None
        file = replace(self._place, path=self._path, revision="", parts=())
        self._blocks.append(BlockRef(file, self._groups, max(self._size, 1), records=len(table)))
        self._groups += 1
        self._rows, self._lines, self._size, self._count = [], [], 0, 0

    def _begin_file(self, suffix: str) -> None:
        self._path = storage.join(self._folder, f"{uuid.uuid4().hex}{suffix}")
        self._sink = self._opened.enter_context(storage.open_write(self._path))

    def _end_file(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._opened.close()
        self._writer = self._sink = None
        self._groups = self._start = self._offset = 0


class UnorderedSpool:
    """A MappedSpool of rows without an order, which are spooled as the records of the input are."""

    def __init__(self, temporary: str, format_: RecordFormat, task: Sequence[BlockRef]) -> None:
        """Write files that `format_`, a SpooledFormat, reads, with the part of the key space of the task's file."""
        self._spool, self._format, self._first = RowSpool(temporary), format_, task[0]

    def add_rows(self, _: FileRef, line: int, rows: Iterable[Any], images: Iterable[str] = ()) -> None:
        """Add dictionaries of plain values."""
        for row in rows:
            self._spool.add_row(row)

    def add_batch(self, _: FileRef, lines: np.ndarray, batch: pa.RecordBatch) -> None:
        """Add a batch."""
        self._spool.add_batch(batch)

    def close(self) -> list[BlockRef]:
        """Write what is held, and return all blocks; raises OSError."""
        blocks, line = list[BlockRef](), self._first.first_line
        for made in self._spool.close():
            place = {"path": made.path, "size_bytes": made.size_bytes, "records": made.records, "first_line": line}
            file = replace(self._first.file, **place)  # type: ignore[arg-type]
            blocks += (item for item in self._format.index(file) if isinstance(item, BlockRef))
            line += made.records
        return blocks


def make_key(name: str, line: int, number: int) -> str:
    """Return the identity of a row: its file, the line of the manifest, 0 without one, and its number among several."""
    return f"{name}\0{line}" + (f"\0{number}" if number else "")


def name_file(reject: Reject, key: str) -> Reject:
    """Return the reject of a row with the file, and the line of the manifest, that its key names."""
    name, line, *_ = key.split("\0")
    return replace(reject, source=name, line=int(line) or None)


@dataclass(frozen=True)
class MappedFormat(SpooledFormat):
    """The rows of a MappedSpool; rows and their rejects have the line of the record that they were made of."""

    def format_of(self, file: FileRef) -> RecordFormat:
        if file.path.endswith(BATCH_SUFFIX):
            nesting = replace(self.nesting, drop=(*self.nesting.drop, _LINE))
            return _MappedBatches(self.fill, nesting, self.images)
        return _MappedRows(self.block_size, self.fill, self.nesting)


@dataclass(frozen=True)
class _MappedRows(DictionariesFormat):
    """Dictionaries with the lines of their records; the columns of a block are those that hold images."""

    def infer(self, block: BlockRef, columns: ColumnNames, values_of: Sequence[ValuesOf]) -> Iterator[Inferred]:
        for found in super().infer(block, columns, values_of):
            image = DeclaredColumn("image", is_required=True)
            images = {name: image for name in block.columns if name in found.types}
            yield replace(found, declared={**found.declared, **images})

    def read(self, block: BlockRef, types: ColumnTypes, keys: Keys = ()) -> Iterator[Rows]:
        for rows in super().read(block, types, keys):
            if not rows.rejects or all(key.name != ROW_KEY for key in keys):
                yield rows
                continue
            names = dict[int | None, str]()
            for objects, _ in self.parts(block):
                names.update(zip(objects.line_numbers.tolist(), (row[ROW_KEY] for row in objects.objects), strict=True))
            yield replace(rows, rejects=[name_file(each, names[each.line]) for each in rows.rejects])

    def parts(self, block: BlockRef) -> Iterator[tuple[JsonObjects, ObjectFields]]:
        fill, left = parse_fills(self.fill), block.length
        with storage.open_read(block.file.path, block.end) as stream:
            stream.seek(block.offset)
            while left > 0:
                size = int.from_bytes(stream.read(_SIZE_BYTES), "little")
                lines, rows = marshal.loads(stream.read(size))
                numbers = np.frombuffer(lines, np.int64)
                objects = JsonObjects(block.file.name, rows, (), numbers, fill, [])
                yield with_nesting(objects, self.nesting), ObjectFields()
                left -= _SIZE_BYTES + size


@dataclass(frozen=True)
class _MappedBatches(ParquetFormat):
    def infer(self, block: BlockRef, columns: ColumnNames, values_of: Sequence[ValuesOf]) -> Iterator[Inferred]:
        for found in super().infer(block, columns, values_of):
            yield replace(found, types={name: kind for name, kind in found.types.items() if name != _LINE})

    def read(self, block: BlockRef, types: ColumnTypes, keys: Keys = ()) -> Iterator[Rows]:
        for rows in super().read(block, {**types, _LINE: _LINE_TYPE}, keys):
            lines = rows.batch[_LINE].to_numpy()
            rejects = self._with_lines(rows.rejects, block) if rows.rejects else []
            yield replace(rows, batch=rows.batch.drop_columns([_LINE]), lines=lines, rejects=rejects)

    def _with_lines(self, rejects: Iterable[Reject], block: BlockRef) -> list[Reject]:
        parts = super().read(block, {_LINE: _LINE_TYPE})
        lines = np.concatenate([part.batch[_LINE].to_numpy() for part in parts]).tolist()
        return [replace(reject, line=lines[(reject.line or 1) - 1]) for reject in rejects]
