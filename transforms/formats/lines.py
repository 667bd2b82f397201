"""Text files whose records are their lines."""

import codecs
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.errors import UserError
from shardmill.metadata.rejects import Reject
from shardmill.records import spans
from transforms.columns.arrow import distinct_texts, missing_values, slices, to_batch
from transforms.columns.inferred import Inferred, ValuesOf
from transforms.columns.types import ColumnType
from transforms.formats.base import BlockRef, FileRef, KeyColumn, Rows, no_rows
from transforms.formats.encodings import MARK_ERRORS, encoding_name, is_utf8
from transforms.formats.line_blocks import STAGE, Piece, index_lines, line_count, read_pieces

TEXT, LINE_NUMBER = "text", "line_number"
_LF, _CR = 10, 13  # as bytes
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


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
        if _keeps_ascii(self.encoding):
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

    def _lines(self, block: BlockRef) -> Iterator["_Lines | Reject"]:
        transcode: Callable[[Iterator[bytes]], Iterator[bytes]] | None = None
        if not _keeps_ascii(self.encoding):
            transcode = self._transcode
        for piece in self._pieces(block, transcode):
            if isinstance(piece, Piece):
                if not transcode:
                    piece = Piece(_as_utf8(piece.data, self.encoding), piece.first_line)
                yield _Lines.of(piece, block.file.name, self.encoding)
            else:
                yield piece

    def _pieces(
        self, block: BlockRef, transcode: Callable[[Iterator[bytes]], Iterator[bytes]] | None
    ) -> Iterator[Piece | Reject]:
        try:
            for piece in read_pieces(block, self.block_size, transcode):
                if (
                    isinstance(piece, Piece)
                    and piece.first_line == 1
                    and not transcode
                    and piece.data.startswith(_UTF16)
                ):
                    raise UserError(f"{block.file.name} begins like UTF-16; give --encoding utf-16")
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
        codes = np.frombuffer(data, np.uint8)
        ends = spans.find(data, _LF)
        if not data.endswith(b"\n"):
            ends = np.append(ends, len(data))
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1))
        stops = ends
        if b"\r" in data:
            stops = ends - (codes[ends - 1] == _CR) * (ends > starts)
        if data.endswith(b"\r"):  # the end of a file, not of a line
            stops[-1] = len(data)
        invalid = np.zeros(len(starts), bool)
        rejects = []
        if not is_utf8(data):
            for row, reason in _invalid_lines(codes, data, starts, stops, encoding):
                invalid[row] = True
                rejects.append(Reject(name, piece.first_line + row, STAGE, reason))
        blank = _blank(data, codes, starts, stops, ~invalid)
        kept = ~(blank | invalid)
        return cls(data, starts, stops, kept, int(kept.sum()), piece.first_line, rejects, int(blank.sum()))

    def texts(self) -> pa.LargeBinaryArray:
        """The rows."""
        return slices(self.data, self.starts, self.stops, self.kept)

    def numbers(self) -> Positions:
        """The line of each row: int64, shape (rows,)."""
        return np.flatnonzero(self.kept) + self.first_line


def _invalid_lines(
    codes: npt.NDArray[np.uint8], data: bytes, starts: Positions, stops: Positions, encoding: str
) -> Iterator[tuple[int, str]]:
    suspects = np.unique(np.searchsorted(starts, np.flatnonzero(codes >= 0x80), "right") - 1)
    for row in suspects.tolist():
        line = data[starts[row] : stops[row]]
        try:
            line.decode()
        except UnicodeDecodeError as error:
            if codecs.lookup(encoding).name in ("utf-8", "utf-8-sig"):
                yield row, f"not {encoding}: byte 0x{line[error.start]:02x} at position {error.start + 1:,} of the line"
            else:
                before = len(line[: error.start].decode())
                yield row, f"not {encoding}: what follows character {before:,} of the line"


def _blank(data: bytes, codes: npt.NDArray[np.uint8], starts: Positions, stops: Positions, valid: Flags) -> Flags:
    """Which lines are empty, or white space only; none that is not valid."""
    blank = starts == stops
    # Only lines that do not start with a visible ASCII character can be white space.
    first = codes[np.minimum(starts, len(codes) - 1)]
    suspects = np.flatnonzero(~blank & valid & ((first <= 0x20) | (first >= 0x80)))
    if len(suspects):
        texts = slices(data, starts[suspects], stops[suspects])
        strings = pa.Array.from_buffers(pa.large_string(), len(texts), texts.buffers())
        blank[suspects] = pc.utf8_is_space(strings).to_numpy(zero_copy_only=False)
    return blank
