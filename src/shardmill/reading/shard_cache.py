"""Keep parts of shards in a local folder, which several processes and versions may share."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import google_crc32c

from shardmill.errors import UserError
from shardmill.metadata.manifest import ShardEntry
from shardmill.reading.dataset import Dataset
from shardmill.reading.shard_ranges import OpenFile, OpenFiles, Range, ShardRanges

PART_BYTES = 1 << 20  # a store sends as much in little more than the time of an answer
_PARTS_AT_ONCE = 32  # fetched
LEAST_BYTES = 64 << 20  # of a limit
_FULL = 0.9  # share of the limit that is kept when parts are deleted
_USAGE = "usage"  # holds the number of bytes, and is locked while it changes
_PART, _TEMPORARY = ".part", ".tmp"
_ABANDONED_S = 3600.0  # age of a temporary file whose process has died
_Key = tuple[ShardEntry, int]


class CachedRanges(ShardRanges):
    """Reads ranges of shards through a folder that holds parts of them.

    A part is a file of a mebibyte, which ends with its checksum. The name of its folder has the checksum of the
    version's manifest. A damaged part is fetched anew. If the folder is full, the parts that were not opened for the
    longest time are deleted.
    """

    is_concurrent = True

    def __init__(self, dataset: Dataset, ranges: ShardRanges, folder: str, limit: int | None) -> None:
        """Set up the cache; `ranges` reads what the folder does not hold, and `limit` is in bytes.

        Raise a UserError if the folder cannot be written, or the limit is too small.
        """
        super().__init__(dataset)
        if limit is not None and limit < LEAST_BYTES:
            raise UserError(f"cache_limit is {limit:,} bytes; expected at least {LEAST_BYTES:,}")
        manifest = dataset.manifest
        self._ranges, self._root, self._limit = ranges, Path(folder).absolute(), limit
        self._folder = self._root / f"{manifest.name}-{manifest.version}-{dataset.manifest_crc32c}"
        self._open = OpenFiles()
        with self._writing():
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._locked_usage():
                pass

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": OpenFiles()}

    def _read(self, shard: ShardEntry, start: int, size: int) -> bytes:
        """Return bytes of a shard; raise a UserError if the folder cannot be written."""
        stop = start + size
        first, last = start // PART_BYTES, max(stop - 1, start) // PART_BYTES
        pieces = []
        for number in range(first, last + 1):
            low, high = max(start - number * PART_BYTES, 0), min(stop - number * PART_BYTES, PART_BYTES)
            file = self._find((shard, number))
            if file is None:
                (data,) = self._fetch([(shard, number)])
                pieces.append(data[low:high])
            else:
                pieces.append(os.pread(file.descriptor, high - low, low))
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_all(self, wanted: Sequence[Range]) -> list[bytes]:
        """Return the bytes of several ranges, in order; missing parts are fetched concurrently."""
        needed = dict.fromkeys(
            (shard, number)
            for shard, start, stop, _ in wanted
            for number in range(start // PART_BYTES, max(stop - 1, start) // PART_BYTES + 1)
        )
        missing = [key for key in needed if self._find(key) is None]
        for first in range(0, len(missing), _PARTS_AT_ONCE):
            self._fetch(missing[first : first + _PARTS_AT_ONCE])
        return super().read_all(wanted)

    def _path(self, key: _Key) -> Path:
        return self._folder / f"{key[0].file}.{key[1]}{_PART}"

    def _find(self, key: _Key) -> OpenFile | None:
        file = self._open.get(key)
        if file is not None:
            return file
        path = self._path(key)
        with self._writing():
            try:
                file = OpenFile(str(path))
            except FileNotFoundError:
                return None
            data = os.pread(file.descriptor, PART_BYTES + 5, 0)
        if len(data) != self._size(key) + 4 or data[-4:] != _checksum(data[:-4]):
            with self._writing():
                path.unlink(missing_ok=True)
            return None
        with suppress(OSError):  # deleted by another process
            os.utime(path)
        self._open.keep(key, file)
        return file

    def _size(self, key: _Key) -> int:
        shard, number = key
        return min(shard.size_bytes - number * PART_BYTES, PART_BYTES)

    def _fetch(self, keys: Sequence[_Key]) -> list[bytes]:
        starts = [number * PART_BYTES for _, number in keys]
        parts = self._ranges.read_all(
            [Range(key[0], start, start + self._size(key)) for key, start in zip(keys, starts, strict=True)]
        )
        for key, data in zip(keys, parts, strict=True):
            path = self._path(key)
            temporary = path.with_name(f"{path.name}.{os.getpid()}-{id(data)}{_TEMPORARY}")
            with self._writing():
                self._reserve(len(data) + 4)
                try:
                    temporary.write_bytes(data + _checksum(data))
                    os.replace(temporary, path)
                except OSError:
                    temporary.unlink(missing_ok=True)
                    raise
        return parts

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(
                f"cache_dir {self._root} cannot be written: {error.strerror or error}; give another folder, or a"
                " smaller cache_limit if its disk is full"
            ) from error

    @contextmanager
    def _locked_usage(self) -> Iterator[int]:
        """Yield a descriptor of the file that holds the number of bytes, which no other process changes meanwhile."""
        import fcntl

        descriptor = os.open(self._root / _USAGE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def _reserve(self, size: int) -> None:
        """Count a new part of `size` bytes; delete others if there would be more than the limit."""
        with self._locked_usage() as descriptor:
            text = os.pread(descriptor, 32, 0)
            total = int(text) if text.isdigit() else None
            if total is None or (self._limit is not None and total + size > self._limit):
                total = self._delete_oldest(size)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(total + size).encode(), 0)

    def _delete_oldest(self, size: int) -> int:
        """Delete the oldest parts if there is no room for `size` bytes; return the number of bytes that are left."""
        found = []
        for path in self._root.glob("*/*"):
            with suppress(FileNotFoundError):
                stat = path.stat()
                if path.suffix == _PART:
                    found.append((stat.st_mtime, stat.st_size, path))
                elif path.suffix == _TEMPORARY and time.time() - stat.st_mtime > _ABANDONED_S:
                    path.unlink()
        total = sum(one_size for _, one_size, _ in found)
        if self._limit is not None and total + size > self._limit:
            for _, one_size, path in sorted(found):
                if total + size <= self._limit * _FULL:
                    break
                path.unlink(missing_ok=True)
                total -= one_size
        return total


def _checksum(data: bytes) -> bytes:
    return int(google_crc32c.value(data)).to_bytes(4, "little")
