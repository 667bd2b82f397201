"""Rows that are in no file: the temporary files that they are written to first, and how these are read."""

import marshal
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shardmill.metadata.manifest import Reject
from shardmill.text import FIRST_UNORDERED
from shardmill.transforms.columns.arrow import to_batch
from shardmill.transforms.columns.conversion import as_unicode
from shardmill.transforms.columns.nested import NO_NESTING, Nesting
from shardmill.transforms.columns.types import ColumnNames, ColumnTypes, Inferred, ValuesOf
from shardmill.transforms.findings import Findings, OddTexts
from shardmill.transforms.formats import format as formats
from shardmill.transforms.formats.json_lines import (
    ColumnRows,
    JsonObjects,
    ObjectFields,
    ObjectsFormat,
    is_objects_value,
    with_nesting,
)
from shardmill.transforms.formats.parquet import OpenedParquet, ParquetFormat
from shardmill.transforms.formats.tfrecords import RECORD, TFRecordFormat
from shardmill.transforms.rows.values import RefusedRow, describe_record, describe_row, plain_columns, to_plain_rows
from shardmill.transforms.stores import storage

ROWS = "rows"  # the name of each file of spooled rows in messages
BATCH_SUFFIX, ROW_SUFFIX, RECORD_SUFFIX = ".parquet", ".rows", ".tfrecord"  # of files by the kind of their rows
_HEAD = struct.Struct("<II")  # of some rows in a file of dictionaries: their bytes and their number
_OUTPUT_BYTES = 4 << 20  # of the batches that are made of these, see transforms.formats.json_lines


def encode_rows(rows: Sequence[Mapping[Any, Any]]) -> bytes:
    """Return dictionaries as a part of a file; the parts of a file are concatenated.

    Rows of scalars with the same keys are stored by columns, which are made once and read twice.
    """
    part: Any
    if (columns := plain_columns(rows)) is not None:
        part = tuple(columns), tuple(columns.values())
    else:
        part = [tuple(row) if isinstance(row, RefusedRow) else row for row in to_plain_rows(rows)]
    data = marshal.dumps(part)
    return _HEAD.pack(len(data), len(rows)) + data


@dataclass(frozen=True)
class DictionariesFormat(ObjectsFormat):
    """A row for each dictionary in a spooled file."""

    def index(self, file: formats.FileRef) -> Iterator[formats.BlockRef]:
        start = offset = 0
        first = row = 1
        with storage.open_read(file.path, file.size_bytes) as stream:
            while offset < file.size_bytes:
                stream.seek(offset)
                size, rows = _HEAD.unpack(stream.read(_HEAD.size))
                offset, row = offset + _HEAD.size + size, row + rows
                if offset - start >= self.block_size or offset >= file.size_bytes:
                    yield formats.BlockRef(file, start, offset - start, first, records=row - first)
                    start, first = offset, row

    def parts(self, block: formats.BlockRef) -> Iterator[tuple[JsonObjects, ObjectFields]]:
        """Yield the rows of each part, and the objects in images among them, which become JSON."""
        fill, name = formats.parse_fills(self.fill), block.file.name
        for first, found in _read_parts(block):
            numbers, rejects, seen = np.arange(first, first + len(found)), list[Reject](), ObjectFields()
            if isinstance(found, ColumnRows):
                yield with_nesting(JsonObjects(name, found, (), numbers, fill, rejects), self.nesting), seen
                continue
            if tuple in set(map(type, found)):
                refused = {number: RefusedRow(*each) for number, each in enumerate(found) if type(each) is tuple}
                rejects = [Reject(name, first + number, formats.STAGE, each.reason) for number, each in refused.items()]
                numbers = np.delete(numbers, list(refused))
                found = [each for each in found if type(each) is dict]
            found = [_with_objects(row, seen, name) if formats.OBJECTS in row else row for row in found]
            yield with_nesting(JsonObjects(name, found, (), numbers, fill, rejects), self.nesting), seen


def _with_objects(row: dict[str, Any], seen: ObjectFields, name: str) -> dict[str, Any]:
    if not is_objects_value(row[formats.OBJECTS]):
        return row
    try:
        return {**row, formats.OBJECTS: seen.add(row[formats.OBJECTS], name)}
    except TypeError:  # bytes, or a number of more than 64 bits, which no objects have
        return row


def _read_parts(block: formats.BlockRef) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield the parts of a block of dictionaries: the number of the first row, and the rows."""
    row, left = block.first_line, block.length
    with storage.open_read(block.file.path, block.end) as stream:
        stream.seek(block.offset)
        while left > 0:
            size, rows = _HEAD.unpack(stream.read(_HEAD.size))
            found = marshal.loads(stream.read(size))
            yield row, ColumnRows(*found) if isinstance(found, tuple) else found
            row, left = row + rows, left - _HEAD.size - size


@dataclass(frozen=True)
class SpooledFormat(formats.RecordFormat):
    """Rows of spooled files, each read by the format of its kind; the rows of all files are numbered through."""

    block_size: int  # approximate bytes of a block
    fill: tuple[tuple[str, str], ...] = ()  # (column, text) of fill values: JSON scalar or any text
    nesting: Nesting = NO_NESTING  # how nested values are stored
    images: tuple[str, ...] = ()  # columns known to be images
    is_raw: bool = False  # records of any kind, which are not parsed

    def format_of(self, file: formats.FileRef) -> formats.RecordFormat:
        """Return the format of a file's rows."""
        if file.path.endswith(BATCH_SUFFIX):
            return ParquetFormat(self.fill, self.nesting, self.images)
        if file.path.endswith(RECORD_SUFFIX):
            return TFRecordFormat(self.block_size, self.is_raw)
        return DictionariesFormat(self.block_size, self.fill, self.nesting)

    def index(
        self, file: formats.FileRef
    ) -> Iterator[formats.BlockRef | Reject | formats.SkippedItems | formats.RecordNotice]:
        for item in self.format_of(file).index(file):
            if isinstance(item, formats.BlockRef):
                yield replace(item, first_line=item.first_line + file.first_line - 1)
            else:
                yield item

    def header(self, file: formats.FileRef) -> tuple[str, ...]:
        return self.format_of(file).header(file)

    def infer(self, block: formats.BlockRef, columns: ColumnNames, values_of: Sequence[ValuesOf]) -> Iterator[Inferred]:
        for found in self.format_of(block.file).infer(block, columns, values_of):
            nested = {name: replace(each, first=_without_line(each.first)) for name, each in found.nested.items()}
            yield found if block.file.is_ordered else replace(found, nested=nested)

    def read(self, block: formats.BlockRef, types: ColumnTypes, keys: formats.Keys = ()) -> Iterator[formats.Rows]:
        for rows in self.format_of(block.file).read(block, types, keys):
            yield rows if block.file.is_ordered else replace(rows, findings=_without_lines(rows.findings))


def _without_line(place: tuple[str, int, str]) -> tuple[str, int, str]:
    return place[0], FIRST_UNORDERED, place[2]


def _without_lines(findings: Findings) -> Findings:
    odd = {
        name: replace(each, firsts={kind: _without_line(place) for kind, place in each.firsts.items()})
        for name, each in findings.find(OddTexts).columns.items()
    }
    return Findings({**findings, OddTexts: OddTexts(odd)})


def name_rejects(block: formats.BlockRef, rejects: Sequence[Reject]) -> list[Reject]:
    """Return rejects of rows without an order, with the beginning of each row in place of its number."""
    numbers = {reject.line for reject in rejects}
    texts = dict(_describe_rows(block, numbers)) if numbers else {}
    named = []
    for reject in rejects:
        line = reject.line or 0
        reason = reject.reason.removeprefix(f"record {line:,} ")
        named.append(replace(reject, source=texts.get(line, reject.source), line=None, reason=reason))
    return named


def _describe_rows(block: formats.BlockRef, numbers: Collection[int | None]) -> Iterator[tuple[int, str]]:
    if block.file.path.endswith(RECORD_SUFFIX):
        for rows in TFRecordFormat(_OUTPUT_BYTES, is_raw=True).read(block, {}):
            for row, number in enumerate(rows.lines.tolist()):
                if number in numbers:
                    yield number, describe_record(rows.batch[RECORD][row].as_py())
    elif block.file.path.endswith(ROW_SUFFIX):
        for first, found in _read_parts(block):
            for number, row in enumerate(found, first):
                if number in numbers:
                    yield number, RefusedRow(*row).text if type(row) is tuple else describe_row(row)
    else:
        number = block.first_line
        with OpenedParquet(block.file) as opened:
            for batch in opened.batches(block, opened.columns):
                batch = to_batch({name: as_unicode(batch[name])[0] for name in batch.schema.names}, len(batch))
                for row in range(len(batch)):
                    if number + row in numbers:
                        yield number + row, describe_row(batch.slice(row, 1).to_pylist()[0])
                number += len(batch)
