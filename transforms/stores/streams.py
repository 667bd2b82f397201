"""Read and write large or compressed files as streams, read parts of many files, and detect changed files."""

import bz2
import io
import os
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, BinaryIO, cast

import numpy as np
import xxhash
import zstandard

from shardmill.data.spans import Positions
from shardmill.metadata.file_names import TEMP_SUFFIX
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import TIME_STAMP, changed_error, error_text
from shardmill.transforms.stores.storage import raise_if_store_failed

_SINGLE_REQUEST_BYTES = 8 << 20  # in one request of an object store


def write_stream(path: str, chunks: Iterable[bytes], size_bytes: int) -> None:
    """Write `size_bytes` from `chunks` atomically, replacing an existing file; only one process may do so at a time.

    A local file is not yet synced. If writing fails, nothing of it is left.
    """
    if size_bytes <= _SINGLE_REQUEST_BYTES:
        storage.write_bytes(path, b"".join(chunks), sync=False)
        return
    temporary = path + TEMP_SUFFIX if storage.is_local(path) else path
    try:
        with suppress(FileNotFoundError):  # of an attempt that was killed
            os.unlink(temporary)
        with storage.open_write(temporary) as file:
            for chunk in chunks:
                file.write(chunk)
        if temporary != path:
            os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise


_INPUT = 16 << 10  # bytes given to a decompressor at once
_ZSTD_INPUT = 128, 2 << 10  # least and most to that of zstd, which makes up to 128 KiB of four, without a limit
_OUTPUT = 1 << 20  # bytes asked of one at once, if it takes a limit


class TruncatedError(OSError):
    """Compressed data that ends too early or is damaged. The message gives the position, but no file name."""

    def __init__(
        self,
        message: str,
        good_bytes: int = 0,
        decompressed_bytes: int = 0,
        promised_bytes: int = 0,
        is_cut: bool = False,
    ) -> None:
        super().__init__(message)
        self.good_bytes = good_bytes  # compressed bytes before the damage
        self.decompressed_bytes = decompressed_bytes
        self.promised_bytes = promised_bytes  # decompressed size that the header gives; 0 if none
        self.is_cut = is_cut  # the file ends too early; if not, it is damaged


class _Member(ABC):
    """A decompressor of one gzip, bzip2 or zstd member; a compressed file may hold several."""

    needs_input = True  # False if it holds output back
    input_bytes = _INPUT  # that it takes at once
    promised_bytes = 0  # decompressed size that the header gives; 0 if none

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    @abstractmethod
    def decompress(self, data: bytes) -> bytes: ...


class _Zlib(_Member):
    def decompress(self, data: bytes) -> bytes:
        output: bytes = self._stream.decompress(self._stream.unconsumed_tail + data, _OUTPUT)
        self.needs_input = len(output) < _OUTPUT  # zlib may hold output back even when it has consumed all input
        return output


class _Bzip2(_Member):
    def decompress(self, data: bytes) -> bytes:
        output: bytes = self._stream.decompress(data, _OUTPUT)
        self.needs_input = self._stream.needs_input
        return output


class _Zstandard(_Member):
    input_bytes = _ZSTD_INPUT[0]
    _has_begun = False

    def decompress(self, data: bytes) -> bytes:
        if not self._has_begun and data:
            self._has_begun = True
            with suppress(zstandard.ZstdError):
                self.promised_bytes = max(zstandard.frame_content_size(data), 0)
        output: bytes = self._stream.decompress(data)
        self.input_bytes = min(2 * self.input_bytes, _ZSTD_INPUT[1]) if len(output) < _OUTPUT else _ZSTD_INPUT[0]
        return output


_Kind = tuple[str, Callable[[], _Member]]  # name and maker of a decompressor
_GZIP: _Kind = ("gzip", lambda: _Zlib(zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)))
_ZLIB: _Kind = ("zlib", lambda: _Zlib(zlib.decompressobj()))
_KINDS: dict[str, _Kind] = {
    ".gz": _GZIP,
    ".tgz": _GZIP,
    ".bz2": ("bzip2", lambda: _Bzip2(bz2.BZ2Decompressor())),
    ".zst": ("zstd", lambda: _Zstandard(zstandard.ZstdDecompressor().decompressobj())),
}
_DAMAGE = (zlib.error, zstandard.ZstdError, OSError, ValueError, EOFError)  # what the three raise; bz2: OSError


def is_compressed(name: str) -> bool:
    """Return True if `name` ends in .gz, .tgz, .bz2 or .zst, in any case."""
    return _find_kind(name) is not None


def open_decompressed(path: str, name: str, end: int | None = None) -> BinaryIO:
    """Open `path` for one forward read of its decompressed contents.

    Reading raises TruncatedError where the compressed data ends too early or is damaged, after all data before that
    point has been returned.

    The suffix of `name` selects the compression, if any. Nothing is needed from offset `end` of the stored bytes on.
    """
    raw = storage.open_read(path, end)
    kind = _find_kind(name)
    return raw if kind is None else cast(BinaryIO, Decompressed(raw, *kind))


def open_gzip(path: str) -> "Decompressed":
    """Open a gzip file of any name; otherwise like open_decompressed."""
    return Decompressed(storage.open_read(path), *_GZIP)


def open_zlib(path: str) -> "Decompressed":
    """Open a file in zlib format (RFC 1950); otherwise like open_decompressed."""
    return Decompressed(storage.open_read(path), *_ZLIB)


def _find_kind(name: str) -> _Kind | None:
    return next((kind for suffix, kind in _KINDS.items() if name.lower().endswith(suffix)), None)


class Decompressed(io.BufferedIOBase):
    """A stream of the decompressed contents of `raw`.

    The first read that has nothing else to return raises the error of damaged data.
    """

    def __init__(self, raw: BinaryIO, kind: str, make: Callable[[], _Member]) -> None:
        self.good_bytes = 0  # compressed bytes that are decompressed, which may be ahead of reading
        self.decompressed_bytes = 0
        self._raw, self._kind, self._make = raw, kind, make
        self._member: _Member | None = None
        self._members = 0
        self._input = b""
        self._ready = memoryview(b"")
        self._read_bytes = 0
        self._member_start = 0  # of its contents
        self._error: TruncatedError | None = None

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._raw.close()
        super().close()

    def peek(self, size: int = 0) -> bytes:
        """Return some of the next bytes without consuming them; without it, `readline` would read single bytes."""
        if not self._ready:
            self._ready = memoryview(self._read_more())
        return bytes(self._ready[: max(size, 8 << 10)])

    def read(self, size: int | None = -1) -> bytes:
        """Read `size` bytes, or all if negative. Return fewer only at the end, and just before damaged data."""
        parts: list[memoryview] = []
        left = -1 if size is None or size < 0 else size
        while left:
            try:
                self._ready = self._ready or memoryview(self._read_more())
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

    def _read_more(self) -> bytes:
        """Return more of the contents, b"" at the end. After an error, raise the same error again."""
        if self._error:
            raise self._error
        while self._member or self._start():
            member = cast(_Member, self._member)
            output = self._decompress(member)
            if member.eof:
                self._input = member.unused_data + self._input
                self._member = None
            if output:
                self.decompressed_bytes += len(output)
                return output
        return b""

    def _decompress(self, member: _Member) -> bytes:
        if member.needs_input and not self._input and not self._fill():
            promised = member.promised_bytes and self._member_start + member.promised_bytes
            raise self._fail(f"the {self._kind} data ends too early", promised, is_cut=True)
        data = self._input[: member.input_bytes] if member.needs_input else b""
        self._input = self._input[len(data) :]
        try:
            output = member.decompress(data)
            self.good_bytes += len(data) - len(member.unused_data)
            return output
        except _DAMAGE as error:
            if self._members > 1 and self.decompressed_bytes == self._member_start:
                raise self._fail(f"what follows the {self._kind} data is no {self._kind} data", is_cut=True) from error
            raise self._fail(f"the {self._kind} data is damaged ({error_text(error)})") from error

    def _start(self) -> bool:
        """Start the next compressed member, after zeros, which pad tapes; return False at the end."""
        while self._input or self._fill():
            if self._members:
                self._input = self._input.lstrip(b"\0")
            if self._input:
                self._member = self._make()
                self._members += 1
                self._member_start = self.decompressed_bytes
                return True
        if not self._members:
            raise self._fail(f"the file is empty, without even a {self._kind} header", is_cut=True)
        return False

    def _fill(self) -> bool:
        self._input = self._raw.read(_INPUT)
        self._read_bytes += len(self._input)
        return bool(self._input)

    def _fail(self, problem: str, promised_bytes: int = 0, is_cut: bool = False) -> TruncatedError:
        at = f"at byte {self._read_bytes:,} of the compressed file, after {self.decompressed_bytes:,} bytes of contents"
        reason = f"{problem}, {at}"
        self._error = TruncatedError(reason, self.good_bytes, self.decompressed_bytes, promised_bytes, is_cut)
        return self._error


try:
    from shardmill._native import read_spans as _read_some
except ImportError:  # not compiled

    def _read_some(
        paths: list[str], files: Positions, offsets: Positions, sizes: Positions, target: Any, places: Positions
    ) -> int:
        """Replace the C extension if it is not compiled: return 0, so that every span is read alone."""
        return 0


def read_ranges(paths: list[str], offsets: Positions, target: Any, target_offsets: Positions) -> None:
    """Fill `target[target_offsets[n]:target_offsets[n + 1]]` from `paths[n]` at `offsets[n]`, for each n.

    `target` is uint8. Raise an OSError if a file cannot be read, an EOFError if it ends too early.
    """
    sizes, done = np.diff(target_offsets), 0
    if all(map(storage.is_local, paths)):
        done = _read_some(paths, np.arange(len(paths)), offsets, sizes, target, target_offsets[:-1])
    for n in range(done, len(paths)):
        storage.read_into(paths[n], int(offsets[n]), memoryview(target)[target_offsets[n] : target_offsets[n + 1]])


def read_spans(
    paths: list[str], files: Positions, offsets: Positions, sizes: Positions, target: Any, places: Positions
) -> None:
    """Copy spans of local files to their places in `target`, uint8; they are sorted by file, and by offset in a file.

    `files` has the index in `paths` of each span's file. Raise a JobError if a file is shorter than the spans say, an
    OSError if it cannot be read.
    """
    done = _read_some(paths, files, offsets, sizes, target, places)
    for n in range(done, len(files)):
        path, place = paths[files[n]], int(places[n])
        try:
            storage.read_into(path, int(offsets[n]), memoryview(target)[place : place + int(sizes[n])])
        except EOFError:
            raise changed_error(path) from None


_THREADS, _REMOTE_THREADS = 8, 32  # that read files: a disk has a queue, a store answers late
_BLOCK_BYTES = 8 << 20  # read at once
UNREADABLE = "reject:"  # the text before the reason, for a file that cannot be read


def checksums(paths: Iterable[str]) -> list[str]:
    """Return the XXH3-128 of each file, `xxh3:` and 32 hex digits, or UNREADABLE and the reason. Reads in parallel."""
    wanted = list(paths)
    threads = _THREADS if all(map(storage.is_local, wanted)) else _REMOTE_THREADS
    with ThreadPoolExecutor(threads, "shardmill-read") as pool:
        return list(pool.map(_compute_checksum, wanted))


def _compute_checksum(path: str) -> str:
    digest = xxhash.xxh3_128()
    try:
        with storage.open_read(path) as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    except OSError as error:
        raise_if_store_failed(error, path)
        return f"{UNREADABLE}{error_text(error)}"
    return f"xxh3:{digest.hexdigest()}"


# Within one tick of a disk's clock, 2 s on FAT, a file may change again without a trace.
_TICK_SECONDS = 2.0


def file_identity(size: int, stamp: str, modified: float, now: float | None = None) -> int | None:
    """Return a hash that changes whenever the file of a FileStat does; None if a change might go unnoticed.

    `now` is in seconds since 1970, by default the current time.
    """
    moment = time.time() if now is None else now
    if stamp.startswith(TIME_STAMP) and not 0 < modified <= moment - _TICK_SECONDS:
        return None
    return xxhash.xxh3_64_intdigest(f"{size}\0{stamp}".encode())


def combined_identity(identity: int | None, parallel_files: Iterable[tuple[str, int | None]]) -> int | None:
    """Return a hash that changes whenever a file, or one of its `parallel_files` (path, identity), does; None if a
    change might go unnoticed. Without parallel files it is the file's `identity`.
    """
    files = list(parallel_files)
    if any(of_other is None for _, of_other in files):
        return None
    if not files or identity is None:
        return identity
    return xxhash.xxh3_64_intdigest("\0".join([str(identity), *(f"{path}\0{other}" for path, other in files)]).encode())
