"""Compressed files as streams of what is in them: gzip, bzip2 and Zstandard, by the name's suffix, or any by its kind.

Python's own file objects lose what they had read when they meet the end of a file that was cut short; here all that can
be decompressed is handed out before the error is.
"""

import bz2
import io
import zlib
from collections.abc import Callable
from typing import BinaryIO, Protocol, cast

import zstandard

from shardmill.transforms.stores import storage
from shardmill.transforms.stores.error_text import error_text

_INPUT = 16 << 10  # bytes given to a decompressor at once: zstd makes up to 128 KiB of four, and cannot be told to stop
_OUTPUT = 1 << 20  # bytes asked of one at once, where it can be told


class TruncatedError(OSError):
    """Compressed data that ends too early or is damaged: the message says how far it could be read, and names no file.

    Attributes:
      good_bytes: of the compressed file, before those that are damaged.
      made_bytes: of contents.
      promised_bytes: of contents, if a header says how many there are; else 0.
      is_cut: whether the file ends too early; else it is damaged.
    """

    def __init__(
        self, message: str, good_bytes: int = 0, made_bytes: int = 0, promised_bytes: int = 0, is_cut: bool = False
    ) -> None:
        super().__init__(message)
        self.good_bytes = good_bytes
        self.made_bytes = made_bytes
        self.promised_bytes = promised_bytes
        self.is_cut = is_cut


class _Member(Protocol):
    """One member of a compressed file, of which there may be several, one after the other."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def promised_bytes(self) -> int: ...

    def decompress(self, data: bytes) -> bytes: ...


class _Zlib:
    WBITS = 15  # a header and a checksum of zlib's
    promised_bytes = 0

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=self.WBITS)
        self._full = False

    def decompress(self, data: bytes) -> bytes:
        made = self._zlib.decompress(self._zlib.unconsumed_tail + data, _OUTPUT)
        self._full = len(made) == _OUTPUT
        return made

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._full  # zlib may hold output back even when it has consumed all input


class _Gzip(_Zlib):
    WBITS = 31  # of gzip's


class _Bzip2:
    promised_bytes = 0

    def __init__(self) -> None:
        self._bz2 = bz2.BZ2Decompressor()

    def decompress(self, data: bytes) -> bytes:
        return self._bz2.decompress(data, _OUTPUT)

    @property
    def eof(self) -> bool:
        return self._bz2.eof

    @property
    def unused_data(self) -> bytes:
        return self._bz2.unused_data

    @property
    def needs_input(self) -> bool:
        return self._bz2.needs_input


class _Zstandard:
    needs_input = True

    def __init__(self) -> None:
        self._zstd = zstandard.ZstdDecompressor().decompressobj()
        self._begun = False
        self.promised_bytes = 0

    def decompress(self, data: bytes) -> bytes:
        if not self._begun and data:
            self._begun = True
            self.promised_bytes = _zstd_content_size(data)
        return self._zstd.decompress(data)

    @property
    def eof(self) -> bool:
        return self._zstd.eof

    @property
    def unused_data(self) -> bytes:
        return self._zstd.unused_data


def _zstd_content_size(data: bytes) -> int:
    """How many bytes a frame that begins with `data` says it holds; 0 if it does not."""
    try:
        return max(zstandard.frame_content_size(data), 0)
    except zstandard.ZstdError:
        return 0


_KINDS: dict[str, tuple[str, Callable[[], _Member]]] = {
    ".gz": ("gzip", _Gzip),
    ".tgz": ("gzip", _Gzip),
    ".bz2": ("bzip2", _Bzip2),
    ".zst": ("zstd", _Zstandard),
}
_DAMAGE = (zlib.error, zstandard.ZstdError, OSError, ValueError, EOFError)  # what the three raise; bz2: OSError


def is_compressed(name: str) -> bool:
    """Whether a file of this name is compressed: it ends in .gz, .tgz, .bz2 or .zst, in any case."""
    return _kind(name) is not None


def open_decompressed(path: str, name: str, end: int | None = None) -> BinaryIO:
    """Open `path` for reading once, forwards, what is in it; `name`, by its suffix, says how it is compressed, if at
    all. Its bytes from `end` on, as they are stored, are not wanted.

    Reading raises TruncatedError where the compressed data ends too early or is damaged, after all that precedes has
    been read.

    Raises:
      OSError: it cannot be opened; FileNotFoundError if it does not exist.
    """
    raw = storage.open_read(path, end)
    kind = _kind(name)
    return raw if kind is None else cast(BinaryIO, Decompressed(raw, *kind))


def open_gzip(path: str) -> "Decompressed":
    """Open a gzip file, whatever its name; otherwise as open_decompressed."""
    return Decompressed(storage.open_read(path), "gzip", _Gzip)


def open_zlib(path: str) -> "Decompressed":
    """Open a file that zlib compressed, RFC 1950; otherwise as open_decompressed."""
    return Decompressed(storage.open_read(path), "zlib", _Zlib)


def _kind(name: str) -> tuple[str, Callable[[], _Member]] | None:
    return next((kind for suffix, kind in _KINDS.items() if name.lower().endswith(suffix)), None)


class Decompressed(io.BufferedIOBase):
    """A stream of the contents of `raw`; the error of damaged data is raised by the first read that has nothing else to
    give."""

    def __init__(self, raw: BinaryIO, kind: str, make: Callable[[], _Member]) -> None:
        self._raw = raw
        self._kind = kind
        self._make = make
        self._member: _Member | None = None
        self._members = 0
        self._input = b""
        self._ready = memoryview(b"")
        self._read_bytes = 0
        self._made_bytes = 0
        self._good_bytes = 0
        self._member_start = 0  # of its contents
        self._error: TruncatedError | None = None

    @property
    def good_bytes(self) -> int:
        """How much of the compressed file has been decompressed, ahead of what has been read."""
        return self._good_bytes

    @property
    def made_bytes(self) -> int:
        """How many bytes of contents that made."""
        return self._made_bytes

    def readable(self) -> bool:
        """Yes."""
        return True

    def close(self) -> None:
        """Close the file below too."""
        self._raw.close()
        super().close()

    def peek(self, size: int = 0) -> bytes:
        """Some of what comes next; with this, `readline` does not go byte by byte."""
        if not self._ready:
            self._ready = memoryview(self._next())
        return bytes(self._ready[: max(size, 8 << 10)])

    def read(self, size: int | None = -1) -> bytes:
        """`size` bytes, all there are if negative; fewer only at the end, and right before data that is damaged."""
        parts: list[memoryview] = []
        left = -1 if size is None or size < 0 else size
        while left:
            try:
                self._ready = self._ready or memoryview(self._next())
            except TruncatedError:
                if parts:
                    break
                raise
            if not self._ready:
                break
            part = self._ready if left < 0 else self._ready[:left]
            self._ready = self._ready[len(part) :]
            parts.append(part)
            left -= len(part) if left > 0 else 0
        return b"".join(parts)

    read1 = read

    def _next(self) -> bytes:
        """Some more of the contents, b"" at the end; after an error, the same error."""
        if self._error:
            raise self._error
        while self._member or self._start():
            member = cast(_Member, self._member)
            made = self._decompress(member)
            if member.eof:
                self._input = member.unused_data
                self._member = None
            if made:
                self._made_bytes += len(made)
                return made
        return b""

    def _decompress(self, member: _Member) -> bytes:
        """What `member` makes of its next bytes."""
        if member.needs_input and not self._input and not self._fill():
            promised = member.promised_bytes and self._member_start + member.promised_bytes
            raise self._fail(f"the {self._kind} data ends too early", promised, is_cut=True)
        data = self._input if member.needs_input else b""
        self._input = self._input[len(data) :]
        try:
            made = member.decompress(data)
            self._good_bytes += len(data) - len(member.unused_data)
            return made
        except _DAMAGE as error:
            raise self._fail(f"the {self._kind} data is damaged ({error_text(error)})") from error

    def _start(self) -> bool:
        """Start on the next member, if there is one; zeros between them are padding, as of tapes."""
        while self._input or self._fill():
            if self._members:
                self._input = self._input.lstrip(b"\0")
            if self._input:
                self._member = self._make()
                self._members += 1
                self._member_start = self._made_bytes
                return True
        if not self._members:
            raise self._fail(f"the file is empty, without even a {self._kind} header", is_cut=True)
        return False

    def _fill(self) -> bool:
        self._input = self._raw.read(_INPUT)
        self._read_bytes += len(self._input)
        return bool(self._input)

    def _fail(self, what: str, promised_bytes: int = 0, is_cut: bool = False) -> TruncatedError:
        at = f"at byte {self._read_bytes:,} of the compressed file, after {self._made_bytes:,} bytes of contents"
        self._error = TruncatedError(f"{what}, {at}", self._good_bytes, self._made_bytes, promised_bytes, is_cut)
        return self._error
