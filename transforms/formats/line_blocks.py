"""Text files as blocks of whole lines."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.data import spans
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import slices
from shardmill.transforms.encodings import BOM, encoding_name, invalid_byte
from shardmill.transforms.findings import Remarks
from shardmill.transforms.formats import format as formats
from shardmill.transforms.formats.format import BlockRef
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import error_text
from shardmill.transforms.stores.storage import raise_if_store_failed
from shardmill.transforms.stores.streams import TruncatedError, is_compressed, open_decompressed

_LF, _CR = 10, 13  # as bytes
_INDEX_BYTES = 1 << 20  # read at once: more falls out of the processor's cache before its newlines are counted

Transcode = Callable[[Iterator[bytes]], Iterator[bytes]]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Consecutive whole lines of a text file."""

    data: bytes  # the lines with their ends; a file's last line may have none
    first_line: int  # number of the first line, from 1
    remarks: Remarks = field(default_factory=Remarks)  # on lines without the byte order marks that they had


def index_lines(file: formats.FileRef, block_size: int) -> Iterator[BlockRef]:
    """Cut a file into blocks of whole lines, of `block_size` bytes or a few lines more.

    A line longer than that forms one block with the lines before it. A compressed file is one block.
    """
    if is_compressed(file.name):
        yield BlockRef(file, 0, file.size_bytes)
        return
    start = position = 0
    first_line = line = 1
    with storage.open_read(file.path, file.size_bytes) as stream:
        while chunk := stream.read(min(block_size, _INDEX_BYTES)):
            line += spans.count(chunk, _LF)
            whole = chunk.rfind(b"\n") + 1
            end = position + whole
            position += len(chunk)
            if whole and end - start >= block_size:
                yield BlockRef(file, start, end - start, first_line)
                start, first_line = end, line
    if position > start:
        yield BlockRef(file, start, position - start, first_line)


def read_pieces(block: BlockRef, piece_size: int, transcode: Transcode | None = None) -> Iterator[Piece | Reject]:
    """Yield the lines of a block in pieces of about `piece_size` bytes, without the file's byte order mark.

    A line longer than that forms one piece with the lines before it. A line that `is_long_text` is a Reject. If
    compressed data is damaged, the whole lines before the damage are returned, then one Reject for the rest.

    `transcode` converts the bytes to UTF-8 as they are read.

    Raises:
        OSError: if an object store failed, so that the runner retries.
    """

    # No line within a chunk is too long, in any encoding
    reader = _Reader(block, min(piece_size, max(formats.max_text_bytes() // 8, 1)))
    chunks: Iterator[bytes] = iter(reader)
    line = block.first_line
    carry: list[bytes] = []  # the start of a line whose end was not read yet
    carried = 0  # its bytes, which are counted only once they are too many
    at_start = block.offset == 0
    for chunk in transcode(chunks) if transcode else chunks:
        end = chunk.rfind(b"\n") + 1
        first_end = chunk.find(b"\n") + 1 or len(chunk)
        if formats.is_long_text(carried + first_end):
            carry.clear()
            if not end:
                carried += len(chunk)
                continue
            yield formats.reject_long(block.file.name, line, carried + first_end)
            chunk, end, line, carried, at_start = chunk[first_end:], end - first_end, line + 1, 0, False
        if not end:
            carry.append(chunk)
            carried += len(chunk)
            continue
        data = b"".join([*carry, chunk[:end]])
        carry = [chunk[end:]] if end < len(chunk) else []
        carried = len(chunk) - end
        yield from _bounded(Piece(data.removeprefix(BOM) if at_start else data, line))
        at_start = False
        line += spans.count(data, _LF)
    if reader.damage is not None:
        reason = f"{reader.damage.reason}; all from line {line:,} on is lost"
        yield reader.damage.make_reject(block.file.name, line, reason, line - block.first_line, block.length)
    elif formats.is_long_text(carried):
        yield formats.reject_long(block.file.name, line, carried)
    elif rest := b"".join(carry).removeprefix(BOM if at_start else b""):
        yield Piece(rest, line)


def _bounded(piece: Piece) -> Iterator[Piece]:
    """Split a piece into pieces of at most MAX_LINES lines; a piece of blank lines may have more."""
    data = piece.data
    if len(data) <= formats.MAX_LINES or spans.count(data, _LF) <= formats.MAX_LINES or data.isspace():
        yield piece
        return
    middle = data.rfind(b"\n", 0, len(data) // 2) + 1 or data.find(b"\n") + 1
    first = Piece(data[:middle], piece.first_line)
    yield from _bounded(first)
    yield from _bounded(Piece(data[middle:], piece.first_line + count_lines(first.data)))


def count_lines(data: bytes) -> int:
    """Count the lines; the last one may have no end."""
    return spans.count(data, _LF) + (data != b"" and not data.endswith(b"\n"))


class _Reader:
    def __init__(self, block: BlockRef, chunk_size: int) -> None:
        self._block, self._chunk_size, self._read_bytes = block, chunk_size, 0
        self.damage: formats.Damage | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            with open_decompressed(self._block.file.path, self._block.file.name, self._block.end) as stream:
                if self._block.offset:
                    stream.seek(self._block.offset)
                yield from self._chunks(stream)
        except TruncatedError as error:
            self.damage = formats.compressed_damage(error, self._block.file.size_bytes)
        except OSError as error:
            raise_if_store_failed(error, self._block.file.path)
            self._lose(f"cannot be read after {self._read_bytes:,} bytes: {error_text(error)}")

    def _chunks(self, stream: BinaryIO) -> Iterator[bytes]:
        if is_compressed(self._block.file.name):
            while chunk := stream.read(self._chunk_size):
                self._read_bytes += len(chunk)
                yield chunk
            return
        while left := self._block.length - self._read_bytes:
            chunk = stream.read(left if left < 2 * self._chunk_size else self._chunk_size)
            if not chunk:
                self._lose(f"ends {left:,} bytes earlier than when it was indexed; do not change files during a run")
                return
            self._read_bytes += len(chunk)
            yield chunk

    def _lose(self, reason: str) -> None:
        left = self._block.length - self._read_bytes
        self.damage = formats.Damage(reason, left, left / max(self._read_bytes, 1))


class LineWalker:
    """Steps through a file line by line with one mebibyte in memory; the last line may have no end.

    Attributes:
        offset: offset after the passed lines: a line start or the file's end
        lines: number of lines passed
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._chunk = b""
        self._at = 0  # in the chunk
        self._is_open = False  # whether what was passed last is a line without an end
        self.offset = 0
        self.lines = 0

    def peek(self) -> bytes:
        """Return the bytes that follow, at least one unless the file ends."""
        self._fill()
        return self._chunk[self._at :]

    def pass_bytes(self, size: int) -> bool:
        """Pass lines of at least `size` bytes in total; return False if the file ends before or with them."""
        target = self.offset + size
        while self._fill():
            least = min(max(target - self.offset - 1, 0), len(self._chunk) - self._at)
            end = self._chunk.find(b"\n", self._at + least) + 1
            self._pass(end or len(self._chunk))
            if end:
                return self._fill()
        return False

    def pass_lines(self, number: int | None) -> None:
        """Pass `number` lines, None for all, or as many as there are."""
        while number != 0 and self._fill():
            rest = self._chunk[self._at :]
            inside = spans.count(rest, _LF)
            if number is not None and inside >= number:
                self._pass(self._at + int(spans.find(rest, _LF)[number - 1]) + 1)
                return
            self._pass(len(self._chunk))
            number = None if number is None else number - inside

    def _fill(self) -> bool:
        if self._at == len(self._chunk):
            self._chunk, self._at = self._stream.read(_INDEX_BYTES), 0
        return bool(self._chunk)

    def _pass(self, end: int) -> None:
        """Pass the bytes of the chunk before `end`; a line is counted as soon as its first byte is passed."""
        data = self._chunk[self._at : end]
        self.lines += count_lines(data) - self._is_open
        self._is_open = not data.endswith(b"\n")
        self.offset += len(data)
        self._at = end


Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def line_ranges(data: bytes) -> tuple[Positions, Positions]:
    """Return the start and end of each line, without LF or CR LF: int64, shape (lines,) each."""
    if not data:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
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
    return starts, stops


def invalid_lines(data: bytes, starts: Positions, stops: Positions, encoding: str) -> Iterator[tuple[int, str]]:
    """Yield each line that is not UTF-8, with a reason worded for the file's original encoding."""
    codes = np.frombuffer(data, np.uint8)
    suspects = np.unique(np.searchsorted(starts, np.flatnonzero(codes >= 0x80), "right") - 1)
    for row in suspects.tolist():
        line = data[starts[row] : stops[row]]
        try:
            line.decode()
        except UnicodeDecodeError as error:
            if encoding_name(encoding) == "utf-8":
                yield row, f"not {encoding}: {invalid_byte(error)} at position {error.start + 1:,} of the line"
            else:
                before = len(line[: error.start].decode())
                yield row, f"not {encoding}: what follows character {before:,} of the line"


def blank_lines(data: bytes, starts: Positions, stops: Positions, valid: Flags) -> Flags:
    """Flag the lines that are empty or white space as defined by str.isspace; invalid lines are not blank."""
    blank = starts == stops
    # Only lines that do not start with a visible ASCII character can be white space.
    codes = np.frombuffer(data, np.uint8)
    first = codes[np.minimum(starts, len(codes) - 1)]
    suspects = np.flatnonzero(~blank & valid & ((first <= 0x20) | (first >= 0x80)))
    if len(suspects):
        texts = slices(data, starts[suspects], stops[suspects])
        strings = pa.Array.from_buffers(pa.large_string(), len(texts), texts.buffers())
        blank[suspects] = pc.utf8_is_space(strings).to_numpy(zero_copy_only=False)
    return blank
