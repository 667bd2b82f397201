"""Text files with one record a line, alone or as parallel files in several languages."""

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np
import pyarrow as pa

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.text import END_MARKS, plural
from shardmill.transforms.columns.arrow import distinct_texts, missing_values, slices, to_batch
from shardmill.transforms.columns.types import ColumnNames, ColumnType, ColumnTypes, Inferred, ValuesOf
from shardmill.transforms.encodings import BOM, MARK_ERRORS, encoding_name, is_utf8, not_encoded_error, remove_marks
from shardmill.transforms.findings import Findings, Occurrences, PassedOver, Remarks, Undecodable
from shardmill.transforms.formats import format as formats
from shardmill.transforms.formats import line_blocks
from shardmill.transforms.formats.format import STAGE, BlockRef, FileRef, Keys, Rows
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.streams import is_compressed

TEXT, LINE_NUMBER = "text", "line_number"
_ASCII = bytes(range(128))  # every character of it
_END_LINES = frozenset(mark.encode() for mark in END_MARKS)
_MARK_STARTS = np.frombuffer(b"<[ \t", np.uint8)
_LONGEST_MARK = 24  # bytes, with some spaces around it
_TABLE = re.compile(r"\.(?:(csv|tsv)|json|jsonl|ndjson)(?:\.\w+)?$", re.IGNORECASE)


@dataclass(frozen=True)
class LinesFormat(formats.RecordFormat):
    """A row for each line that is not blank: column `text`, as UTF-8, without LF or CR LF.

    A line of nothing but white space, as defined by str.isspace, is blank. A line that is not valid in the encoding is
    a reject.

    Raises:
        ValueError: if no such encoding of text files exists.
    """

    block_size: int  # approximate bytes of a block and of a piece
    encoding: str = "utf-8"  # Python's name; a byte order mark is not text
    with_numbers: bool = False  # add the int64 column line_number, from 1
    are_texts: bool = True  # False to doubt lines: an end-of-text token is a UserError, a table's line a remark

    def __post_init__(self) -> None:
        encoding_name(self.encoding)  # raises the ValueError of a name that is none

    def index(self, file: FileRef) -> Iterator[BlockRef | Reject]:
        """Yield blocks of lines; one block if a byte LF may be half of another character, as in UTF-16."""
        if self.has_plain_ends:
            yield from line_blocks.index_lines(file, self.block_size)
        elif file.size_bytes:
            yield BlockRef(file, 0, file.size_bytes)

    def infer(self, block: BlockRef, columns: ColumnNames, values_of: Sequence[ValuesOf]) -> Iterator[Inferred]:
        types = {TEXT: ColumnType("bytes", None, 0)}
        types |= {LINE_NUMBER: ColumnType("int64", None, 0)} if self.with_numbers else {}
        collected = [column for column in values_of if column.name in types]
        wanted = [name for name in types if columns is None or name in set(columns)]
        for rows in self.read(block, {column.name: types[column.name] for column in collected}):
            if present := len(rows.lines):
                values = {
                    column.name: distinct_texts(rows.batch[column.name], column.separator) for column in collected
                }
                yield Inferred({name: replace(types[name], present=present) for name in wanted}, present, values)

    def read(self, block: BlockRef, types: ColumnTypes, keys: Keys = ()) -> Iterator[Rows]:
        """Yield the lines in pieces; columns other than `text` and `line_number` are null."""
        for piece in self.pieces(block):
            if isinstance(piece, Reject):
                yield formats.empty_rows(types, [piece])
            elif piece.data.isspace():  # which may be many lines
                blank = PassedOver({"blank line": line_blocks.count_lines(piece.data)})
                yield replace(formats.empty_rows(types, []), findings=Findings.of(blank, piece.remarks))
            else:
                lines = _Lines.from_piece(piece, self.encoding)
                of_table = Remarks() if self.are_texts else _check_texts(lines, block.file.name)
                last, cut = lines.first_line + len(lines.starts) - 1, formats.describe_cut_end(piece.data)
                rejects = [
                    Reject(block.file.name, line, STAGE, f"{reason}{cut if line == last else ''}")
                    for line, reason in lines.reasons.items()
                ]
                kept = ~lines.is_blank & ~lines.is_invalid
                rows = self.make_rows({TEXT: lines}, types, kept, lines.is_blank, rejects)
                rows.findings.add(lines.encodings(block.file.name, self.encoding))
                rows.findings.add(of_table)
                yield rows

    def make_rows(
        self,
        lines: Mapping[str, "_Lines"],
        types: ColumnTypes,
        kept: line_blocks.Flags,
        blank: line_blocks.Flags,
        rejects: list[Reject],
    ) -> Rows:
        """Return the `kept` lines as rows; `lines` are the texts of each column."""
        numbers = np.flatnonzero(kept) + next(iter(lines.values())).first_line
        arrays = {name: missing_values(column, len(numbers)) for name, column in types.items()}
        for name in arrays.keys() & lines.keys():
            arrays[name] = slices(lines[name].data, lines[name].starts, lines[name].stops, kept)
        if LINE_NUMBER in types and self.with_numbers:
            arrays[LINE_NUMBER] = pa.array(numbers)
        remarks = reduce(Remarks.merge, (text.remarks for text in lines.values()))
        findings = Findings.of(PassedOver({"blank line": int(blank.sum())}), remarks)
        return Rows(to_batch(arrays, len(numbers)), numbers, rejects, findings)

    @property
    def has_plain_ends(self) -> bool:
        """True if ASCII bytes always mean ASCII characters, so that lines are found without decoding."""
        return _ASCII.decode(self.encoding, "replace") == _ASCII.decode()

    def pieces(self, block: BlockRef, keep_marks: bool = False) -> Iterator[line_blocks.Piece | Reject]:
        """Yield the lines of a block like read_pieces, as UTF-8 except for invalid lines, without byte order marks."""
        plain, name = self.has_plain_ends, block.file.name
        try:
            for piece in line_blocks.read_pieces(block, self.block_size, None if plain else self._transcode):
                if isinstance(piece, line_blocks.Piece) and plain:
                    if piece.first_line == 1:
                        formats.check_start(piece.data, name, self.encoding)
                    piece = line_blocks.Piece(_as_utf8(piece.data, self.encoding), piece.first_line)
                if isinstance(piece, line_blocks.Piece) and BOM in piece.data and not keep_marks:
                    starts = line_blocks.line_ranges(piece.data)[0]
                    lines = piece.first_line + np.arange(len(starts))
                    data, remarks = remove_marks(piece.data, starts, lines, name)
                    piece = line_blocks.Piece(data, piece.first_line, remarks)
                yield piece
        except UnicodeError as error:  # UTF-16 without a byte order mark, say
            raise not_encoded_error(name, self.encoding, error) from None

    def count_encodings(self, piece: line_blocks.Piece, name: str) -> Undecodable:
        """Return how the lines of a piece of file `name` can be decoded."""
        return _Lines.from_piece(piece, self.encoding).encodings(name, self.encoding)

    def _transcode(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(self.encoding)(MARK_ERRORS)
        for chunk in chunks:
            yield decoder.decode(chunk).encode("utf-8", "surrogatepass")
        yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")


def _check_texts(lines: "_Lines", name: str) -> Remarks:
    """Check that no line is an end-of-text token alone, which ends a document of several lines; count those of tables.

    The name of a file says whether it is a table.
    """
    codes = np.frombuffer(lines.data, np.uint8)
    sizes = lines.stops - lines.starts
    begins = np.isin(codes[np.minimum(lines.starts, len(codes) - 1)], _MARK_STARTS)
    for row in np.flatnonzero((sizes > 0) & (sizes <= _LONGEST_MARK) & begins).tolist():
        line = lines.data[lines.starts[row] : lines.stops[row]].strip()
        if line in _END_LINES:
            mark = line.decode()
            raise UserError(
                f"{name}, line {lines.first_line + row:,} is {mark} alone, so documents have several lines; give"
                f" --separator '{mark}' for an example of each document, or --record line for one of each line"
            )
    table = _TABLE.search(name)
    if table is None:
        return Remarks()
    use = f"`shardmill {'csv' if table[1] else 'jsonl'}` with the same --input reads columns, --record line keeps texts"
    text = f"line of a table is a text here: {use}\nlines of tables are texts here: {use}"
    return Remarks({text: Occurrences(int((~lines.is_blank).sum()), (name, lines.first_line))})


def _as_utf8(data: bytes, encoding: str) -> bytes:
    """Convert whole lines to UTF-8; invalid lines stay invalid, and no others become so."""
    if encoding_name(encoding) == "utf-8":
        return data
    try:
        return data.decode(encoding).encode()
    except UnicodeError:
        lines = (line.decode(encoding, MARK_ERRORS).encode("utf-8", "surrogatepass") for line in data.split(b"\n"))
        return b"\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False)
class _Lines:
    """Consecutive lines of a text file.

    Attributes:
        starts, stops: int64 (lines,), each line without its end
        is_blank, is_invalid: bool (lines,); no line is both
    """

    data: bytes  # UTF-8, except for invalid lines
    starts: line_blocks.Positions
    stops: line_blocks.Positions
    is_blank: line_blocks.Flags
    is_invalid: line_blocks.Flags
    first_line: int  # number of the first line
    reasons: Mapping[int, str]  # reasons of invalid lines, by line number
    remarks: Remarks = field(default_factory=Remarks)

    @classmethod
    def from_piece(cls, piece: line_blocks.Piece, encoding: str) -> "_Lines":
        starts, stops = line_blocks.line_ranges(piece.data)
        invalid = np.zeros(len(starts), bool)
        found = {} if is_utf8(piece.data) else dict(line_blocks.invalid_lines(piece.data, starts, stops, encoding))
        invalid[list(found)] = True
        reasons = {piece.first_line + row: reason for row, reason in found.items()}
        blank = line_blocks.blank_lines(piece.data, starts, stops, ~invalid)
        return cls(piece.data, starts, stops, blank, invalid, piece.first_line, reasons, piece.remarks)

    def encodings(self, name: str, encoding: str) -> Undecodable:
        """Return how the lines of file `name` can be decoded, if they are read as UTF-8."""
        if encoding_name(encoding) != "utf-8" or self.data.isascii():
            return Undecodable()
        if not self.reasons:
            return Undecodable(has_utf8=True)
        bad = np.flatnonzero(self.is_invalid).tolist()
        lines = (self.data[self.starts[row] : self.stops[row]] for row in bad)
        found = (Undecodable.of_record(line, name, self.first_line + row) for row, line in zip(bad, lines))
        codes = np.frombuffer(self.data, np.uint8)
        high = np.unique(np.searchsorted(self.starts, np.flatnonzero(codes >= 0x80), "right") - 1)
        return reduce(Undecodable.merge, found, Undecodable(has_utf8=len(high) > len(bad)))

    @classmethod
    def rejected_line(cls, line: int, reason: str) -> "_Lines":
        nothing = np.zeros(1, np.int64)
        return cls(b"", nothing, nothing, np.zeros(1, bool), np.ones(1, bool), line, {line: reason})

    def part(self, start: int, stop: int | None) -> "_Lines":
        rows = slice(start, stop)
        ranges, flags = (self.starts[rows], self.stops[rows]), (self.is_blank[rows], self.is_invalid[rows])
        remarks = Remarks() if start else self.remarks
        return _Lines(self.data, *ranges, *flags, self.first_line + start, self.reasons, remarks)


@dataclass(frozen=True)
class ParallelFormat(formats.RecordFormat):
    """A row for each line, with one column for each of several files that are read together.

    A line is blank if it is blank in all files. A line that is blank or invalid in only some files is a reject.
    """

    lines: LinesFormat  # how each file is read; its block size is that of one file
    names: tuple[str, ...]  # column names, in the order of each file's parts

    def index(self, file: FileRef) -> Iterator[BlockRef]:
        """Yield blocks of the same lines in every part; one block if a part must be decoded to find its lines.

        Raises:
            UserError: if the parts have different numbers of lines; for a single block, `read` detects this.
        """
        if not self.lines.has_plain_ends or any(is_compressed(part.name) for part in file.parts):
            if file.size_bytes:
                yield _block(file, [BlockRef(part, 0, part.size_bytes) for part in file.parts])
            return
        with ExitStack() as stack:
            walkers = [
                line_blocks.LineWalker(stack.enter_context(storage.open_read(part.path, part.size_bytes)))
                for part in file.parts
            ]
            for part, walker in zip(file.parts, walkers, strict=True):
                formats.check_start(walker.peek(), part.name, self.lines.encoding)
            yield from self._cut(file, walkers)

    def _cut(self, file: FileRef, walkers: Sequence[line_blocks.LineWalker]) -> Iterator[BlockRef]:
        first, *others = walkers
        more = True
        while more:
            starts, line = [walker.offset for walker in walkers], first.lines + 1
            more = first.pass_bytes(self.lines.block_size)
            for walker in others:
                walker.pass_lines(first.lines - walker.lines if more else None)
            if any(walker.lines != first.lines for walker in others):
                for walker in walkers:
                    walker.pass_lines(None)
                raise _uneven_error(file, self.names, [walker.lines for walker in walkers])
            blocks = [
                BlockRef(part, start, walker.offset - start, line)
                for part, start, walker in zip(file.parts, starts, walkers, strict=True)
            ]
            if any(block.length for block in blocks):
                yield _block(file, blocks)

    def infer(self, block: BlockRef, columns: ColumnNames, values_of: Sequence[ValuesOf]) -> Iterator[Inferred]:
        names = [name for name in self.names if columns is None or name in set(columns)]
        for rows in self.read(block, {}):
            number = len(rows.lines)
            yield Inferred({name: ColumnType("bytes", None, number) for name in names}, number)

    def read(self, block: BlockRef, types: ColumnTypes, keys: Keys = ()) -> Iterator[Rows]:
        streams = [self._lines(part) for part in block.parts]
        texts: list[_Lines | Reject | None] = [next(stream, None) for stream in streams]
        while any(text is not None for text in texts):
            lost = next((text for text in texts if isinstance(text, Reject)), None)
            if lost is not None:  # all that follows is, for nobody knows what belongs together
                yield formats.empty_rows(types, [lost])
                return
            found = [text for text in texts if isinstance(text, _Lines)]
            if len(found) < len(texts):
                ends = [_last_line(text, stream) for text, stream in zip(texts, streams, strict=True)]
                common = min((text.first_line for text in found), default=block.first_line) - 1  # read from all parts
                raise _uneven_error(block.file, self.names, [end or common for end in ends])
            size = min(len(text.starts) for text in found)
            heads = {name: text.part(0, size) for name, text in zip(self.names, found, strict=True)}
            yield self._rows(heads, block.file.name, types)
            rests = [text.part(size, None) if size < len(text.starts) else None for text in found]
            texts = [rest or next(stream, None) for rest, stream in zip(rests, streams, strict=True)]

    def _lines(self, block: BlockRef) -> Iterator[_Lines | Reject]:
        """Yield the lines of a part; a Reject if all that follows is lost, and nothing after it."""
        for piece in self.lines.pieces(block):
            if isinstance(piece, line_blocks.Piece):
                if piece.data:
                    yield _Lines.from_piece(piece, self.lines.encoding)
            elif piece.is_loss:
                yield piece
                return
            else:
                assert piece.line is not None
                yield _Lines.rejected_line(piece.line, piece.reason)

    def _rows(self, texts: Mapping[str, _Lines], source: str, types: ColumnTypes) -> Rows:
        blank = np.array([text.is_blank for text in texts.values()])
        kept = ~(blank | np.array([text.is_invalid for text in texts.values()])).any(axis=0)
        empty = np.logical_and.reduce(blank)
        first_line = next(iter(texts.values())).first_line
        rejects = [
            Reject(source, first_line + row, STAGE, _reason(texts, row))
            for row in np.flatnonzero(~kept & ~empty).tolist()
        ]
        return self.lines.make_rows(texts, types, kept, empty, rejects)


def _reason(texts: Mapping[str, _Lines], row: int) -> str:
    for name, text in texts.items():
        if text.is_invalid[row]:
            return f"{name!r}: {text.reasons[text.first_line + row]}"
    empty = next(name for name, text in texts.items() if text.is_blank[row])
    full = next(name for name, text in texts.items() if not text.is_blank[row])
    return f"an empty text: the line is blank in {empty!r}, and not in {full!r}"


def _block(file: FileRef, parts: Sequence[BlockRef]) -> BlockRef:
    offset, length = sum(part.offset for part in parts), sum(part.length for part in parts)
    return BlockRef(file, offset, length, parts[0].first_line, parts=tuple(parts))


def _last_line(text: _Lines | Reject | None, stream: Iterator[_Lines | Reject]) -> int:
    last = 0
    while isinstance(text, _Lines):
        last = text.first_line + len(text.starts) - 1
        text = next(stream, None)
    return last


def _uneven_error(file: FileRef, names: Sequence[str], lines: Sequence[int]) -> UserError:
    counts = [
        f"{name}={part.name} has {plural(number, 'line')}"
        for name, part, number in zip(names, file.parts, lines, strict=True)
    ]
    return UserError(
        f"{' and '.join(counts)}: line n of the one belongs to line n of the other, so they must have as many lines"
        " each"
    )
