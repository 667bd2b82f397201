"""Text encodings, and text files as blocks of whole lines."""

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.data import spans
from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import slices
from shardmill.transforms.findings import Undecodable
from shardmill.transforms.formats.format import (
    MAX_LINES,
    BlockRef,
    Damage,
    FileRef,
    compressed_damage,
    is_long_text,
    max_text_bytes,
    reject_long,
)
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import error_text
from shardmill.transforms.stores.storage import raise_if_store_failed
from shardmill.transforms.stores.streams import TruncatedError, is_compressed, open_decompressed

BOM = codecs.BOM_UTF8  # U+FEFF, which some editors write before everything else
_NOT_FOR_FILES = ("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape")
MARK_ERRORS = "shardmill_mark"  # the name of the error handler that marks what cannot be decoded
_MARK = "\udcff"  # a lone surrogate: no decoder makes one, and no UTF-8 holds one
_ASCII = bytes(range(128))  # every character of it


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return _MARK, error.end


codecs.register_error(MARK_ERRORS, _mark)


def encoding_name(encoding: str) -> str:
    """Return Python's name of an encoding; utf-8 for UTF-8 with a byte order mark.

    Raises:
        ValueError: if no such encoding of text files exists.
    """
    try:
        found = codecs.lookup(encoding)
    except (LookupError, ValueError):  # a NUL in the name is a ValueError
        raise ValueError(
            f"unknown encoding {encoding!r}; expected one such as utf-8, latin-1, cp1252 or utf-16"
        ) from None
    if not getattr(found, "_is_text_encoding", True) or found.name.replace("_", "-") in _NOT_FOR_FILES:
        raise ValueError(
            f"{encoding!r} is no encoding of text files; expected one such as utf-8, latin-1, cp1252 or utf-16"
        )
    return "utf-8" if found.name == "utf-8-sig" else found.name


def not_encoded_error(name: str, encoding: str, error: UnicodeError) -> UserError:
    """Return the error for a file that cannot be decoded at all, for example UTF-16 without a byte order mark."""
    return UserError(f"{name} is not {encoding}: {error}; give the encoding of the file with --encoding")


def is_ascii_transparent(encoding: str, special: bytes) -> bool:
    """Return True if the ASCII bytes `special` always encode these characters in this encoding.

    False for UTF-16, and for | in Shift JIS, where the byte may be half of a character.
    """
    if encoding == "utf-8":
        return True
    # What a byte is depends on what precedes it
    if encoding.startswith(("iso2022", "hz", "utf-7", "utf-16", "utf-32")):
        return False
    if _ASCII.decode(encoding, "replace").encode("utf-8") != _ASCII:
        return False
    after = (bytes([lead, byte]).decode(encoding, "replace") for lead in range(128, 256) for byte in special)
    return all(text.endswith(chr(byte)) for text, byte in zip(after, special * 128))


def to_utf8(data: bytes, encoding: str) -> bytes:
    """Convert `data` to UTF-8, with invalid bytes in place of undecodable ones; UTF-8 is returned unchanged."""
    if encoding == "utf-8":
        return data
    return data.decode(encoding, MARK_ERRORS).encode("utf-8", "surrogatepass")


def is_utf8(data: bytes) -> bool:
    """Return True if `data` is UTF-8, in a third of the time of decoding and without its memory."""
    if data.isascii():
        return True
    offsets = pa.py_buffer(memoryview(b"\0" * 8 + len(data).to_bytes(8, "little")))
    try:
        pa.LargeBinaryArray.from_buffers(pa.large_binary(), 1, [None, offsets, pa.py_buffer(data)]).cast(
            pa.large_string()
        )
    except pa.ArrowInvalid:
        return False
    return True


class Stream(Protocol):
    """A source of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return about `size` bytes; no bytes only at the end."""


class Utf8Stream:
    """A stream of UTF-8 without byte order mark, decoded from `raw`; undecodable bytes are handled as in `to_utf8`."""

    def __init__(self, raw: Stream, encoding: str) -> None:
        self._raw = raw
        self._decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)(MARK_ERRORS)
        self._at_start = True
        self._at_end = False

    def read(self, size: int) -> bytes:
        """Return about `size` bytes; no bytes only at the end."""
        data = b""
        while not data and not self._at_end:
            data = self._raw.read(size)
            self._at_end = not data
            if self._decoder:
                data = self._decoder.decode(data, final=self._at_end).encode("utf-8", "surrogatepass")
            if self._at_start and data:
                data = data.removeprefix(BOM)
                self._at_start = False
        return data


_LF, _CR = 10, 13  # as bytes
_INDEX_BYTES = 1 << 20  # read at once: more falls out of the processor's cache before its newlines are counted

Transcode = Callable[[Iterator[bytes]], Iterator[bytes]]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Consecutive whole lines of a text file."""

    data: bytes  # the lines with their ends; a file's last line may have none
    first_line: int  # number of the first line, from 1


def index_lines(file: FileRef, block_size: int) -> Iterator[BlockRef]:
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
    reader = _Reader(block, min(piece_size, max(max_text_bytes() // 8, 1)))
    chunks: Iterator[bytes] = iter(reader)
    line = block.first_line
    carry: list[bytes] = []  # the start of a line whose end was not read yet
    carried = 0  # its bytes, which are counted only once they are too many
    at_start = block.offset == 0
    for chunk in transcode(chunks) if transcode else chunks:
        end = chunk.rfind(b"\n") + 1
        first_end = chunk.find(b"\n") + 1 or len(chunk)
        if is_long_text(carried + first_end):
            carry.clear()
            if not end:
                carried += len(chunk)
                continue
            yield reject_long(block.file.name, line, carried + first_end)
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
    elif is_long_text(carried):
        yield reject_long(block.file.name, line, carried)
    elif rest := b"".join(carry).removeprefix(BOM if at_start else b""):
        yield Piece(rest, line)


def _bounded(piece: Piece) -> Iterator[Piece]:
    """Split a piece into pieces of at most MAX_LINES lines; a piece of blank lines may have more."""
    data = piece.data
    if len(data) <= MAX_LINES or spans.count(data, _LF) <= MAX_LINES or data.isspace():
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
        self.damage: Damage | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            with open_decompressed(self._block.file.path, self._block.file.name, self._block.end) as stream:
                if self._block.offset:
                    stream.seek(self._block.offset)
                yield from self._chunks(stream)
        except TruncatedError as error:
            self.damage = compressed_damage(error, self._block.file.size_bytes)
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


_ODD = frozenset("ÿ¤¦¨¬¯¶·¸×÷ˆ˜†‡\x81\x8d\x8f\x90\x9d")  # of cp1252, but hardly in any text


def examine_bytes(record: bytes, name: str, line: int) -> Undecodable:
    """Return how a record of file `name` that is not UTF-8 can be decoded."""
    text = record.decode("cp1252", "replace").strip()
    has_utf8 = not record.decode(errors="ignore").isascii()
    if has_utf8 or "\ufffd" in text or not _ODD.isdisjoint(text):
        return Undecodable(neither=1)
    return Undecodable(cp1252=1, first=(name, line, text))


def invalid_byte(error: UnicodeDecodeError) -> str:
    """Return the first byte that is not UTF-8, with the character that it is in cp1252."""
    byte = error.object[error.start : error.start + 1]
    return f"byte 0x{byte.hex()} ({byte.decode('cp1252', 'replace')} in cp1252)"


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
