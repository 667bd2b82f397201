"""Text files whose records are their lines."""

import codecs
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shardmill.errors import UserError
from shardmill.metadata.rejects import Reject
from shardmill.transforms.columns.arrow import distinct_texts, missing_values, slices, to_batch
from shardmill.transforms.columns.inferred import Inferred, ValuesOf
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats.base import BlockRef, FileRef, KeyColumn, Rows, no_rows
from shardmill.transforms.formats.encodings import MARK_ERRORS, encoding_name, is_utf8
from shardmill.transforms.formats.line_blocks import STAGE, Piece, index_lines, line_count, read_pieces
from shardmill.transforms.formats.line_ranges import Flags, Positions, blank_lines, invalid_lines, line_ranges

TEXT, LINE_NUMBER = "text", "line_number"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class LinesFormat:
    """A row for each line that is not blank: column `text`, without the line's end (LF or CR LF), as UTF-8.

    A line of nothing but white space, as str.isspace has it, is blank. One that is not valid in the encoding is a
    reject.

    Attributes:
      block_size: bytes of a block, and of a piece of one, about.
      encoding: of the files, as Python names it; a byte order mark at the start of a file is no text.
      with_numbers: whether there is a column `line_number` too, int64, from 1.

    Raises:
      ValueError: there is no such encoding of text files.
    """

    block_size: int
    encoding: str = "utf-8"
    with_numbers: bool = False

    def __post_init__(self) -> None:
        encoding_name(self.encoding)  # raises the ValueError of a name that is none

    def index(self, file: FileRef) -> Iterator[BlockRef | Reject]:
        """Blocks of lines; all of the file where a byte LF may be half of another character, as in UTF-16."""
        if self.has_plain_ends:
            yield from index_lines(file, self.block_size)
        elif file.size_bytes:
            yield BlockRef(file, 0, file.size_bytes)

    def header(self, file: FileRef) -> tuple[str, ...]:
        """None."""
        return ()

    def infer(
        self, block: BlockRef, columns: Iterable[str] | None, values_of: Sequence[ValuesOf]
    ) -> Iterator[Inferred]:
        """The rows, counted; the distinct lines if asked for."""
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
        """The lines, a piece at a time; a column that is neither `text` nor `line_number` is null."""
        for lines in self._lines(block):
            if isinstance(lines, Reject):
                yield no_rows(types, [lines])
                continue
            numbers = lines.numbers()
            arrays = {name: missing_values(column, lines.rows) for name, column in types.items()}
            if TEXT in types:
                arrays[TEXT] = lines.texts()
            if LINE_NUMBER in types and self.with_numbers:
                arrays[LINE_NUMBER] = pa.array(numbers)
            yield Rows(to_batch(arrays, lines.rows), numbers, lines.rejects, lines.blank)

    @property
    def has_plain_ends(self) -> bool:
        """Whether a byte LF is always the end of a line, so that lines are found without decoding."""
        return _keeps_ascii(self.encoding)

    def pieces(self, block: BlockRef) -> Iterator[Piece | Reject]:
        """The lines of a block, as read_pieces has them, as UTF-8 but for those that are not valid."""
        transcode = None if self.has_plain_ends else self._transcode
        for piece in self._pieces(block, transcode):
            if isinstance(piece, Piece) and not transcode:
                piece = Piece(_as_utf8(piece.data, self.encoding), piece.first_line)
            yield piece

    def check_start(self, data: bytes, name: str) -> None:
        """Check that `data`, with which a file begins whose lines are found without decoding, is not UTF-16.

        Raises:
          UserError: it is.
        """
        if data.startswith(_UTF16):
            raise UserError(f"{name} begins like UTF-16; give --encoding utf-16")

    def _lines(self, block: BlockRef) -> Iterator["_Lines | Reject"]:
        for piece in self.pieces(block):
            yield _Lines.of(piece, block.file.name, self.encoding) if isinstance(piece, Piece) else piece

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
    """Whether ASCII is itself in this encoding, so that a byte LF is always a line's end."""
    ascii_bytes = bytes(range(128))
    try:
        return ascii_bytes.decode(encoding) == ascii_bytes.decode("ascii")
    except UnicodeError:
        return False


def _as_utf8(data: bytes, encoding: str) -> bytes:
    """Whole lines in UTF-8; what is not valid is not valid there either."""
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
      data: UTF-8, but for the lines that are rejects.
      starts, stops: int64, shape (lines,), of each line without its end.
      kept: bool, shape (lines,), those that are rows.
      rows: how many they are.
      first_line: the number of the first line.
      rejects: lines that are not valid.
      blank: how many are.
    """

    data: bytes
    starts: Positions
    stops: Positions
    kept: Flags
    rows: int
    first_line: int
    rejects: list[Reject]
    blank: int

    @classmethod
    def of(cls, piece: Piece, name: str, encoding: str) -> "_Lines":
        """Find the lines of `piece`, which belongs to the file `name`."""
        data = piece.data
        if not data or data.isspace():
            nothing = np.zeros(0, np.int64)
            return cls(b"", nothing, nothing, np.zeros(0, bool), 0, piece.first_line, [], line_count(data))
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
        """The rows."""
        return slices(self.data, self.starts, self.stops, self.kept)

    def numbers(self) -> Positions:
        """The line of each row: int64, shape (rows,)."""
        return np.flatnonzero(self.kept) + self.first_line
