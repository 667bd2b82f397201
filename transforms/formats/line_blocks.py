"""Files of lines as blocks, and blocks as pieces of whole lines; a line ends in LF, wherever that stands."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from shardmill.metadata.rejects import Reject
from shardmill.records import spans
from shardmill.transforms.formats.base import MAX_LINES, MAX_TEXT_BYTES, BlockRef, FileRef, too_long
from shardmill.transforms.formats.damage import Damage, of_compressed
from shardmill.transforms.formats.encodings import BOM
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.compressed import TruncatedError, is_compressed, open_decompressed
from shardmill.transforms.stores.error_text import error_text
from shardmill.transforms.stores.failures import raise_if_store_failed

STAGE = "read"
_LF = 10  # as a byte
_INDEX_BYTES = 1 << 20  # read at once: more falls out of the processor's cache before its newlines are counted

Transcode = Callable[[Iterator[bytes]], Iterator[bytes]]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Consecutive whole lines.

    Attributes:
      data: the lines with their ends; the last line of a file may have none.
      first_line: the number, from 1, of the first.
    """

    data: bytes
    first_line: int


def index_lines(file: FileRef, block_size: int) -> Iterator[BlockRef]:
    """Cut a file into blocks that end where a line does, of `block_size` bytes or the next few lines more.

    A line longer than that is a block of its own with what precedes it. A compressed file is one block.

    Raises:
      OSError: the file cannot be read.
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
    """The lines of a block in pieces of about `piece_size` bytes, without a byte order mark at the start of the file.

    A line longer than that is a piece of its own with what precedes it; one of more than MAX_TEXT_BYTES is a Reject.
    Where compressed data is damaged, what precedes it is given up to its last whole line, then one Reject for all the
    rest.

    Args:
      block: of an uncompressed file, or all of a compressed one.
      piece_size: bytes of a piece, about.
      transcode: makes UTF-8 of the bytes as they are read.

    Raises:
      OSError: an object store failed; a runner tries again.
    """
    # No line within a chunk is too long, in any encoding
    reader = _Reader(block, min(piece_size, max(MAX_TEXT_BYTES // 8, 1)))
    chunks: Iterator[bytes] = iter(reader)
    line = block.first_line
    carry: list[bytes] = []  # the start of a line whose end was not read yet
    carried = 0  # its bytes, which are counted only once they are too many
    at_start = block.offset == 0
    for chunk in transcode(chunks) if transcode else chunks:
        end = chunk.rfind(b"\n") + 1
        first_end = chunk.find(b"\n") + 1 or len(chunk)
        if carried + first_end > MAX_TEXT_BYTES:
            carry.clear()
            if not end:
                carried += len(chunk)
                continue
            yield _too_long(block, line, carried + first_end)
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
        yield reader.damage.reject(block.file.name, line, STAGE, reason, line - block.first_line, block.length)
    elif carried > MAX_TEXT_BYTES:
        yield _too_long(block, line, carried)
    elif rest := b"".join(carry):
        rest = rest.removeprefix(BOM) if at_start else rest
        if rest:
            yield Piece(rest, line)


def _too_long(block: BlockRef, line: int, size_bytes: int) -> Reject:
    return Reject(block.file.name, line, STAGE, too_long(size_bytes, MAX_TEXT_BYTES))


def _bounded(piece: Piece) -> Iterator[Piece]:
    """The lines of `piece` in pieces of MAX_LINES at most, or of nothing but blank ones."""
    data = piece.data
    if len(data) <= MAX_LINES or spans.count(data, _LF) <= MAX_LINES or data.isspace():
        yield piece
        return
    middle = data.rfind(b"\n", 0, len(data) // 2) + 1 or data.find(b"\n") + 1
    first = Piece(data[:middle], piece.first_line)
    yield from _bounded(first)
    yield from _bounded(Piece(data[middle:], piece.first_line + line_count(first.data)))


def line_count(data: bytes) -> int:
    """How many lines there are; the last may have no end."""
    return spans.count(data, _LF) + (data != b"" and not data.endswith(b"\n"))


class _Reader:
    """The bytes of a block in chunks, and why they end too early, if they do."""

    def __init__(self, block: BlockRef, chunk_size: int) -> None:
        self._block = block
        self._chunk_size = chunk_size
        self._read_bytes = 0
        self.damage: Damage | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            with open_block(self._block) as stream:
                yield from self._chunks(stream)
        except TruncatedError as error:
            self.damage = of_compressed(error, self._block.file.size_bytes)
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
                self._lose(
                    f"ends {left:,} bytes earlier than it did when it was indexed; do not change files during a run"
                )
                return
            self._read_bytes += len(chunk)
            yield chunk

    def _lose(self, reason: str) -> None:
        left = self._block.length - self._read_bytes
        self.damage = Damage(reason, left, left / max(self._read_bytes, 1))


def open_block(block: BlockRef) -> BinaryIO:
    """The contents of a block's file from the block's start on, decompressed.

    Raises:
      OSError: it cannot be opened.
    """
    stream = open_decompressed(block.file.path, block.file.name, block.end)
    if block.offset:
        stream.seek(block.offset)
    return stream


class LineWalker:
    """Goes through a file from line to line, a mebibyte in memory; the last line may have no end.

    Attributes:
      offset: of the first byte that was not passed, the start of a line or the end of the file.
      lines: how many were passed.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._chunk = b""
        self._at = 0  # in the chunk
        self._is_open = False  # whether what was passed last is a line without an end
        self.offset = 0
        self.lines = 0

    def peek(self) -> bytes:
        """The bytes that follow, some at least unless the file ends."""
        self._fill()
        return self._chunk[self._at :]

    def pass_bytes(self, size: int) -> bool:
        """Pass lines until they have `size` bytes; False where the file ends before, or with them."""
        target = self.offset + size
        while self._fill():
            least = min(max(target - self.offset - 1, 0), len(self._chunk) - self._at)
            end = self._chunk.find(b"\n", self._at + least) + 1
            self._pass(end or len(self._chunk))
            if end:
                return self._fill()
        return False

    def pass_lines(self, number: int | None) -> None:
        """Pass so many lines, None for all, or as many as there are."""
        while number != 0 and self._fill():
            rest = self._chunk[self._at :]
            inside = spans.count(rest, _LF)
            if number is not None and inside >= number:
                self._pass(self._at + int(spans.find(rest, _LF)[number - 1]) + 1)
                return
            self._pass(len(self._chunk))
            number = None if number is None else number - inside

    def _fill(self) -> bool:
        """Whether there are bytes to be passed."""
        if self._at == len(self._chunk):
            self._chunk, self._at = self._stream.read(_INDEX_BYTES), 0
        return bool(self._chunk)

    def _pass(self, end: int) -> None:
        """Pass the bytes of the chunk before `end`; a line counts as passed with its first byte that is."""
        data = self._chunk[self._at : end]
        self.lines += line_count(data) - self._is_open
        self._is_open = not data.endswith(b"\n")
        self.offset += len(data)
        self._at = end
