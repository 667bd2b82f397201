"""Text files with one record a line, alone or as parallel files in several languages."""

import codecs
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.text import plural
from shardmill.transforms.columns.arrow import distinct_texts, missing_values, slices, to_batch
from shardmill.transforms.columns.types import ColumnType, Inferred, ValuesOf
from shardmill.transforms.formats.format import BlockRef, FileRef, KeyColumn, Rows, empty_rows
from shardmill.transforms.formats.line_blocks import (
    MARK_ERRORS,
    STAGE,
    Flags,
    LineWalker,
    Piece,
    Positions,
    blank_lines,
    count_lines,
    encoding_name,
    index_lines,
    invalid_lines,
    is_utf8,
    line_ranges,
    read_pieces,
)
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.streams import is_compressed

TEXT, LINE_NUMBER = "text", "line_number"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class LinesFormat:
    """A row for each line that is not blank: column `text`, as UTF-8, without LF or CR LF.

    A line of nothing but white space, as defined by str.isspace, is blank. A line that is not valid in the encoding is
    a reject.

    Raises:
        ValueError: if no such encoding of text files exists.
    """

    block_size: int  # approximate bytes of a block and of a piece
    encoding: str = "utf-8"  # Python's name; a byte order mark is not text
    with_numbers: bool = False  # add the int64 column line_number, from 1

    def __post_init__(self) -> None:
        encoding_name(self.encoding)  # raises the ValueError of a name that is none

    def index(self, file: FileRef) -> Iterator[BlockRef | Reject]:
        """Yield blocks of lines; one block if a byte LF may be half of another character, as in UTF-16."""
        if self.has_plain_ends:
            yield from index_lines(file, self.block_size)
        elif file.size_bytes:
            yield BlockRef(file, 0, file.size_bytes)

    def header(self, file: FileRef) -> tuple[str, ...]:
        return ()

    def infer(
        self, block: BlockRef, columns: Iterable[str] | None, values_of: Sequence[ValuesOf]
    ) -> Iterator[Inferred]:
        """Count the rows, and collect the distinct lines if requested."""
        names = [TEXT, LINE_NUMBER] if self.with_numbers else [TEXT]
        wanted = [name for name in names if columns is None or name in set(columns)]
        for lines in self._lines(block):
            if isinstance(lines, Reject) or not lines.rows:
                continue
            values = {}
            for column in values_of:
                if column.name in names:
                    held = lines.texts() if column.name == TEXT else pa.array(lines.numbers())
                    values[column.name] = distinct_texts(held, column.separator)
            types = {name: ColumnType("bytes" if name == TEXT else "int64", None, lines.rows) for name in wanted}
            yield Inferred(types, lines.rows, values)

    def read(self, block: BlockRef, types: Mapping[str, ColumnType], keys: Sequence[KeyColumn] = ()) -> Iterator[Rows]:
        """Yield the lines in pieces; columns other than `text` and `line_number` are null."""
        for lines in self._lines(block):
            if isinstance(lines, Reject):
                yield empty_rows(types, [lines])
                continue
            numbers = lines.numbers()
            arrays = {name: missing_values(column, lines.rows) for name, column in types.items()}
            if TEXT in types:
                arrays[TEXT] = lines.texts()
            if LINE_NUMBER in types and self.with_numbers:
                arrays[LINE_NUMBER] = pa.array(numbers)
            yield Rows(to_batch(arrays, lines.rows), numbers, lines.rejects, lines.blank_lines)

    @property
    def has_plain_ends(self) -> bool:
        """True if every byte LF ends a line, so that lines are found without decoding."""
        return _keeps_ascii(self.encoding)

    def pieces(self, block: BlockRef) -> Iterator[Piece | Reject]:
        """Yield the lines of a block like read_pieces, as UTF-8 except for invalid lines."""
        transcode = None if self.has_plain_ends else self._transcode
        for piece in self._pieces(block, transcode):
            if isinstance(piece, Piece) and not transcode:
                piece = Piece(_as_utf8(piece.data, self.encoding), piece.first_line)
            yield piece

    def check_start(self, data: bytes, name: str) -> None:
        """Check that `data`, the start of a file whose lines are found without decoding, is not UTF-16.

        Raises:
            UserError: if it is.
        """
        if data.startswith(_UTF16):
            raise UserError(f"{name} begins like UTF-16; give --encoding utf-16")

    def _lines(self, block: BlockRef) -> Iterator["_Lines | Reject"]:
        for piece in self.pieces(block):
            yield _Lines.from_piece(piece, block.file.name, self.encoding) if isinstance(piece, Piece) else piece

    def _pieces(
        self, block: BlockRef, transcode: Callable[[Iterator[bytes]], Iterator[bytes]] | None
    ) -> Iterator[Piece | Reject]:
        try:
            for piece in read_pieces(block, self.block_size, transcode):
                if isinstance(piece, Piece) and piece.first_line == 1 and not transcode:
                    self.check_start(piece.data, block.file.name)
                yield piece
        except UnicodeError as error:  # UTF-16 without a byte order mark, say
            raise UserError(
                f"{block.file.name} is not {self.encoding}: {error}; give the encoding of the file with --encoding"
            ) from None

    def _transcode(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(self.encoding)(MARK_ERRORS)
        for chunk in chunks:
            yield decoder.decode(chunk).encode("utf-8", "surrogatepass")
        yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")


def _keeps_ascii(encoding: str) -> bool:
    """Return True if ASCII bytes always mean ASCII characters in this encoding, so that every byte LF ends a line."""
    ascii_bytes = bytes(range(128))
    try:
        return ascii_bytes.decode(encoding) == ascii_bytes.decode("ascii")
    except UnicodeError:
        return False


def _as_utf8(data: bytes, encoding: str) -> bytes:
    """Convert whole lines to UTF-8; invalid lines stay invalid."""
    if codecs.lookup(encoding).name in ("utf-8", "utf-8-sig"):
        return data
    try:
        return data.decode(encoding).encode()
    except UnicodeError:
        lines = (line.decode(encoding, MARK_ERRORS).encode("utf-8", "surrogatepass") for line in data.split(b"\n"))
        return b"\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False)
class _Lines:
    """The lines of a piece.

    Attributes:
        starts, stops: int64 (lines,), each line without its end
    """

    data: bytes  # UTF-8, except for lines that are rejects
    starts: Positions
    stops: Positions
    kept: Flags  # bool (lines,), lines that are rows
    rows: int  # number of rows
    first_line: int  # number of the first line
    rejects: list[Reject]  # invalid lines
    blank_lines: int  # number of blank lines

    @classmethod
    def from_piece(cls, piece: Piece, name: str, encoding: str) -> "_Lines":
        """Find the lines of `piece`, which belongs to the file `name`."""
        data = piece.data
        if not data or data.isspace():
            nothing = np.zeros(0, np.int64)
            return cls(b"", nothing, nothing, np.zeros(0, bool), 0, piece.first_line, [], count_lines(data))
        starts, stops = line_ranges(data)
        invalid = np.zeros(len(starts), bool)
        rejects = []
        if not is_utf8(data):
            for row, reason in invalid_lines(data, starts, stops, encoding):
                invalid[row] = True
                rejects.append(Reject(name, piece.first_line + row, STAGE, reason))
        blank = blank_lines(data, starts, stops, ~invalid)
        kept = ~(blank | invalid)
        return cls(data, starts, stops, kept, int(kept.sum()), piece.first_line, rejects, int(blank.sum()))

    def texts(self) -> pa.LargeBinaryArray:
        """Return the text of each row."""
        return slices(self.data, self.starts, self.stops, self.kept)

    def numbers(self) -> Positions:
        """Return the line number of each row: int64, shape (rows,)."""
        return np.flatnonzero(self.kept) + self.first_line


@dataclass(frozen=True)
class ParallelFormat:
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
                LineWalker(stack.enter_context(storage.open_read(part.path, part.size_bytes))) for part in file.parts
            ]
            for part, walker in zip(file.parts, walkers, strict=True):
                self.lines.check_start(walker.peek(), part.name)
            yield from self._cut(file, walkers)

    def _cut(self, file: FileRef, walkers: Sequence[LineWalker]) -> Iterator[BlockRef]:
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

    def header(self, file: FileRef) -> tuple[str, ...]:
        return ()

    def infer(
        self, block: BlockRef, columns: Iterable[str] | None, values_of: Sequence[ValuesOf]
    ) -> Iterator[Inferred]:
        """Count the rows."""
        names = [name for name in self.names if columns is None or name in set(columns)]
        for rows in self.read(block, {}):
            number = len(rows.lines)
            yield Inferred({name: ColumnType("bytes", None, number) for name in names}, number)

    def read(self, block: BlockRef, types: Mapping[str, ColumnType], keys: Sequence[KeyColumn] = ()) -> Iterator[Rows]:
        """Yield the lines in pieces; columns other than `names` and `line_number` are null.

        Raises:
            UserError: if a part has more lines than another.
        """
        streams = [self._texts(part) for part in block.parts]
        texts: list[_Texts | Reject | None] = [next(stream, None) for stream in streams]
        while any(text is not None for text in texts):
            lost = next((text for text in texts if isinstance(text, Reject)), None)
            if lost is not None:  # all that follows is, for nobody knows what belongs together
                yield empty_rows(types, [lost])
                return
            found = [text for text in texts if isinstance(text, _Texts)]
            if len(found) < len(texts):
                ends = [_last_line(text, stream) for text, stream in zip(texts, streams, strict=True)]
                raise _uneven_error(block.file, self.names, [end or _last_common_line(block, found) for end in ends])
            size = min(len(text.starts) for text in found)
            yield self._rows([text.head(size) for text in found], block.file.name, types)
            rests = [text.tail(size) for text in found]
            texts = [rest or next(stream, None) for rest, stream in zip(rests, streams, strict=True)]

    def _texts(self, block: BlockRef) -> Iterator["_Texts | Reject"]:
        """Yield the lines of a part; a Reject if all that follows is lost, and nothing after it."""
        for piece in self.lines.pieces(block):
            if isinstance(piece, Piece):
                if piece.data:
                    yield _Texts.from_piece(piece, self.lines.encoding)
            elif piece.is_loss:
                yield piece
                return
            else:
                assert piece.line is not None
                yield _Texts.rejected_line(piece.line, piece.reason)

    def _rows(self, texts: Sequence["_Texts"], source: str, types: Mapping[str, ColumnType]) -> Rows:
        blank, wrong = np.array([text.is_blank for text in texts]), np.array([text.is_invalid for text in texts])
        kept = ~(blank | wrong).any(axis=0)
        empty = blank.all(axis=0)
        first_line = texts[0].first_line
        rejects = [
            Reject(source, first_line + row, STAGE, self._reason(texts, row))
            for row in np.flatnonzero(~kept & ~empty).tolist()
        ]
        numbers = np.flatnonzero(kept) + first_line
        arrays = {name: missing_values(column, len(numbers)) for name, column in types.items()}
        for name, text in zip(self.names, texts, strict=True):
            if name in types:
                arrays[name] = slices(text.data, text.starts, text.stops, kept)
        if LINE_NUMBER in types and self.lines.with_numbers:
            arrays[LINE_NUMBER] = pa.array(numbers)
        return Rows(to_batch(arrays, len(numbers)), numbers, rejects, int(empty.sum()))

    def _reason(self, texts: Sequence["_Texts"], row: int) -> str:
        """Return the reason to reject a line, from its first invalid or blank text."""
        for name, text in zip(self.names, texts, strict=True):
            if text.is_invalid[row]:
                return f"{name!r}: {text.reasons[text.first_line + row]}"
        blank = {name: bool(text.is_blank[row]) for name, text in zip(self.names, texts, strict=True)}
        empty = next(name for name, is_blank in blank.items() if is_blank)
        full = next(name for name, is_blank in blank.items() if not is_blank)
        return f"an empty text: the line is blank in {empty!r}, and not in {full!r}"


@dataclass(frozen=True, slots=True, eq=False)
class _Texts:
    """Consecutive lines of one part.

    Attributes:
        starts, stops: int64 (lines,), each line without its end
        is_blank, is_invalid: bool (lines,); no line is both
    """

    data: bytes  # UTF-8, except for invalid lines
    starts: Positions
    stops: Positions
    is_blank: Flags
    is_invalid: Flags
    first_line: int  # number of the first line
    reasons: dict[int, str]  # reasons of invalid lines, by line number

    @classmethod
    def from_piece(cls, piece: Piece, encoding: str) -> "_Texts":
        """Find the lines of `piece`, which has at least one."""
        starts, stops = line_ranges(piece.data)
        wrong = np.zeros(len(starts), bool)
        reasons = {}
        if not is_utf8(piece.data):
            for row, reason in invalid_lines(piece.data, starts, stops, encoding):
                wrong[row] = True
                reasons[piece.first_line + row] = reason
        blank = blank_lines(piece.data, starts, stops, ~wrong)
        return cls(piece.data, starts, stops, blank, wrong, piece.first_line, reasons)

    @classmethod
    def rejected_line(cls, line: int, reason: str) -> "_Texts":
        """Return one line that was not read and is rejected."""
        nothing = np.zeros(1, np.int64)
        return cls(b"", nothing, nothing, np.zeros(1, bool), np.ones(1, bool), line, {line: reason})

    def head(self, size: int) -> "_Texts":
        """Return the first `size` lines."""
        return self._part(slice(0, size))

    def tail(self, size: int) -> "_Texts | None":
        """Return the lines after the first `size`; None if there are none."""
        return self._part(slice(size, None)) if size < len(self.starts) else None

    def _part(self, rows: slice) -> "_Texts":
        first = self.first_line + rows.start
        return _Texts(
            self.data,
            self.starts[rows],
            self.stops[rows],
            self.is_blank[rows],
            self.is_invalid[rows],
            first,
            self.reasons,
        )


def _block(file: FileRef, parts: Sequence[BlockRef]) -> BlockRef:
    offset, length = sum(part.offset for part in parts), sum(part.length for part in parts)
    return BlockRef(file, offset, length, parts[0].first_line, parts=tuple(parts))


def _last_line(text: "_Texts | Reject | None", stream: Iterator["_Texts | Reject"]) -> int:
    """Return the number of the last line in the rest of a part, `text` and `stream`; 0 if nothing is left."""
    last = 0
    while isinstance(text, _Texts):
        last = text.first_line + len(text.starts) - 1
        text = next(stream, None)
    return last


def _last_common_line(block: BlockRef, found: Sequence["_Texts"]) -> int:
    """Return the number of the last line that was read from all parts."""
    return min((text.first_line for text in found), default=block.first_line) - 1


def _uneven_error(file: FileRef, names: Sequence[str], lines: Sequence[int]) -> UserError:
    counts = [
        f"{name}={part.name} has {plural(number, 'line')}"
        for name, part, number in zip(names, file.parts, lines, strict=True)
    ]
    return UserError(
        f"{' and '.join(counts)}: line n of the one belongs to line n of the other, so they must have as many lines"
        " each"
    )
