"""Text files with documents of several lines, which a separator or blank lines divide."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from shardmill.data import spans
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import missing_values, slices, to_batch
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.encodings import BOM, encoding_name, is_ascii_transparent, is_utf8, remove_marks
from shardmill.transforms.findings import Findings, PassedOver, Remarks
from shardmill.transforms.formats import format as formats
from shardmill.transforms.formats import line_blocks
from shardmill.transforms.formats.format import STAGE, BlockRef, FileRef, KeyColumn, RecordNotice, Rows
from shardmill.transforms.formats.lines import LINE_NUMBER, TEXT, LinesFormat
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.streams import is_compressed

_INDEX_BYTES = 1 << 20  # read at once
_LF = ord("\n")
_BLANK_LINES = (b"\n\n", b"\n\r\n")  # ends of lines with a blank line between them
NO_SEPARATOR = "no --separator in its file, which is one document"


class _Documents(NamedTuple):
    """Consecutive documents: where their texts start and stop, and the number of those without text."""

    starts: list[int]
    stops: list[int]
    empty: int


@dataclass(frozen=True)
class DocumentsFormat(LinesFormat):
    """A row for each document: column `text`, as UTF-8, without the blank lines and the line end around it.

    The number of a row is the line where its text starts. Paragraphs are lines between blank lines. Documents
    with a separator may be empty; they are counted, except behind the last separator.
    """

    separator: str = ""  # text between documents; "" for blank lines
    is_whole_file: bool = False  # True if each file is one document

    def index(self, file: FileRef) -> Iterator[BlockRef | Reject | RecordNotice]:  # type: ignore[override]
        """Yield blocks of whole documents; one block if the bytes do not show where documents end."""
        if self.is_whole_file or not self._has_plain_separators or is_compressed(file.name):
            if (size := file.size_bytes) or self.is_whole_file:
                yield BlockRef(file, 0, size) if size else Reject(file.name, None, "index", "the file is empty")
            return
        start, first_line, is_divided = 0, 1, False
        position, line, tail = 0, 1, b""  # of `tail`, the bytes that were read and may belong to a separator
        with storage.open_read(file.path, file.size_bytes) as stream:
            while chunk := stream.read(min(self.block_size, _INDEX_BYTES)):
                data = tail + chunk
                end = self._last_end(data)
                is_divided |= end > 0
                if end and position + end - start >= self.block_size:
                    yield BlockRef(file, start, position + end - start, first_line)
                    start, first_line = position + end, line + spans.count(data[:end], _LF)
                passed = max(end, len(data) - max(len(self.separator.encode()), 3) + 1, 0)
                line += spans.count(data[:passed], _LF)
                position, tail = position + passed, data[passed:]
        if position + len(tail) > start:
            yield BlockRef(file, start, position + len(tail) - start, first_line)
        if self.separator and file.size_bytes and not is_divided:
            yield RecordNotice(NO_SEPARATOR, file.name, 1)

    def read(self, block: BlockRef, types: Mapping[str, ColumnType], keys: Sequence[KeyColumn] = ()) -> Iterator[Rows]:
        name, held, line = block.file.name, b"", block.first_line
        is_lost = False  # the start of the document that is being read
        for piece in self.pieces(block, keep_marks=True):
            if isinstance(piece, Reject):
                rejects = [piece]
                if held.strip():
                    rejects.insert(0, Reject(name, line, STAGE, f"a document that is not whole: {piece.reason}"))
                yield formats.empty_rows(types, rejects)
                held, is_lost = b"", True
                continue
            line = line if held else piece.first_line
            data = held + piece.data
            if is_lost:
                first = min((data.find(text) + len(text) for text in self._separators if text in data), default=0)
                is_lost = not first
                line += spans.count(data[:first], _LF)
                data = data[first:] if first else b""
            end = self._last_end(data)
            if end:
                yield self._rows(data[:end], line, name, types)
            line += spans.count(data[:end], _LF)
            held = data[end:]
            if formats.is_long_text(len(held)):
                yield formats.empty_rows(types, [formats.reject_long(name, line, len(held))])
                held, is_lost = b"", True
        if held or (self.is_whole_file and not is_lost):
            yield self._rows(held, line, name, types)

    @property
    def _has_plain_separators(self) -> bool:
        encoding = encoding_name(self.encoding)
        if encoding == "utf-8" or not self.separator:
            return self.has_plain_ends
        return self.separator.isascii() and is_ascii_transparent(encoding, self.separator.encode())

    def _last_end(self, data: bytes) -> int:
        if self.separator:
            rest = data.split(self._separators[0])[-1]
            return len(data) - len(rest) if len(rest) < len(data) else 0
        return max((data.rfind(text) + len(text) for text in self._separators if text in data), default=0)

    @property
    def _separators(self) -> tuple[bytes, ...]:
        return (self.separator.encode(),) if self.separator else () if self.is_whole_file else _BLANK_LINES

    def _rows(self, data: bytes, first_line: int, name: str, types: Mapping[str, ColumnType]) -> Rows:
        remarks = Remarks()
        if BOM in data:
            ends = [found.end() for mark in self._separators for found in re.finditer(re.escape(mark), data)]
            begins = np.union1d(line_blocks.line_ranges(data)[0], np.array(ends, np.int64))
            at = np.searchsorted(spans.find(data, _LF), begins)
            data, remarks = remove_marks(data, begins, first_line + at, name)
        documents = self._separate(data) if self.separator or self.is_whole_file else _paragraphs(data)
        starts, stops = np.array(documents.starts, np.int64), np.array(documents.stops, np.int64)
        lines = first_line + np.searchsorted(spans.find(data, _LF), starts)
        kept, rejects = np.ones(len(starts), bool), list[Reject]()
        if self.is_whole_file and not documents.starts:
            rejects.append(
                Reject(name, None, STAGE, f"the file {'holds nothing but white space' if data else 'is empty'}")
            )
        bounds = zip(starts.tolist(), stops.tolist(), strict=True)
        for row, (start, stop) in enumerate(() if is_utf8(data) else bounds):
            try:
                data[start:stop].decode()
            except UnicodeDecodeError as error:
                kept[row] = False
                bad = first_line + spans.count(data[: start + error.start], _LF)
                rejects.append(Reject(name, int(lines[row]), STAGE, f"not {self.encoding}: line {bad:,}"))
        numbers = lines[kept]
        arrays = {column: missing_values(kind, len(numbers)) for column, kind in types.items()}
        if TEXT in arrays:
            arrays[TEXT] = slices(data, starts, stops, kept)
        if LINE_NUMBER in types and self.with_numbers:
            arrays[LINE_NUMBER] = pa.array(numbers)
        findings = Findings.of(PassedOver({"empty document": documents.empty}), remarks)
        if rejects:
            findings.add(self.count_encodings(line_blocks.Piece(data, first_line), name))
        return Rows(to_batch(arrays, len(numbers)), numbers, rejects, findings)

    def _separate(self, data: bytes) -> _Documents:
        """Return the documents between separators; the last one counts only if it has text."""
        documents, separator = _Documents([], [], 0), self.separator.encode()
        position, parts = 0, data.split(separator) if separator else [data]
        for part in parts:
            text = part.strip()
            if text and max(text[0], text[-1]) >= 0x80:  # which may be white space, too
                text = text.decode(errors="surrogateescape").strip().encode(errors="surrogateescape")
            if text:
                first = part.index(text)
                start = part.rfind(b"\n", 0, first) + 1  # 0 without
                stop = part.find(b"\n", first + len(text))
                stop = len(part) if stop < 0 else stop - part[:stop].endswith(b"\r")
                documents.starts.append(position + start)
                documents.stops.append(position + stop)
            position += len(part) + len(separator)
        return documents._replace(empty=len(parts) - len(documents.starts) - (not text))


def _paragraphs(data: bytes) -> _Documents:
    starts, stops = line_blocks.line_ranges(data)
    valid = np.ones(len(starts), bool)
    if not is_utf8(data):
        valid[[row for row, _ in line_blocks.invalid_lines(data, starts, stops, "utf-8")]] = False
    blank = line_blocks.blank_lines(data, starts, stops, valid)
    is_first = ~blank & np.concatenate(([True], blank[:-1]))
    is_last = ~blank & np.concatenate((blank[1:], [True]))
    return _Documents(starts[is_first].tolist(), stops[is_last].tolist(), 0)
