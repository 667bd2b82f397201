"""Read ranges of bytes of a version's shards, from local disks and from stores."""

import errno
import os
import resource
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar, NamedTuple
from weakref import WeakValueDictionary

from shardmill.data.array_record import descriptor_path, open_reader, read_record
from shardmill.data.tfrecord import frame_record
from shardmill.errors import CorruptDataError, UserError
from shardmill.filesystem import LocalFiles, read_range
from shardmill.metadata.manifest import ShardEntry
from shardmill.reading.dataset import Dataset

_THREADS = 32  # an object store answers a request in some 50 ms
GAP_BYTES = 128 << 10  # between ranges of one request; a store sends as much while it would answer another one
REQUEST_BYTES = 8 << 20  # of several ranges at most; one range may have more
AHEAD_BYTES = 16 << 20  # that are fetched ahead, about
GROUP_BYTES = 4 << 20  # of batches that are fetched together, so that they share requests
_GROUPS = 4  # fetched at once, each with several requests


class Range(NamedTuple):
    """A range of bytes of a shard."""

    shard: ShardEntry
    start: int
    stop: int
    record: int = 0  # number of the record that it holds, for errors


class ShardRanges(ABC):
    """Reads ranges of shards. It is picklable, and one object may be used by threads and by forked processes."""

    is_concurrent = False  # True if reading several ranges together is faster than one by one

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def read(self, shard: ShardEntry, start: int, stop: int) -> bytes:
        """Return the bytes of a shard from `start` to before `stop`.

        Raises:
            CorruptDataError: if the shard is missing, shorter than the range, or known to be another file than before.
            UserError: if the shard may not be read.
        """
        size = stop - start
        try:
            data = self._read(shard, start, size)
        except EOFError:
            data = b""
        except FileNotFoundError:
            raise CorruptDataError(f"{self._dataset.path(shard)} is missing; the manifest lists it") from None
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) and not isinstance(error, PermissionError):
                raise
            advice = "" if isinstance(error, PermissionError) else "; `ulimit -n` raises the limit of open files"
            raise UserError(f"{self._dataset.path(shard)} cannot be read: {error.strerror or error}{advice}") from None
        if len(data) != size:
            raise CorruptDataError(
                f"{self._dataset.path(shard)} was cut short while it was read: it has {len(data)} of {size} bytes from"
                f" byte {start} on"
            )
        return data

    def read_all(self, wanted: Sequence[Range]) -> list[bytes]:
        """Return the bytes of several ranges, in order; raise the errors of `read`."""
        return [self.read(one.shard, one.start, one.stop) for one in wanted]

    @abstractmethod
    def _read(self, shard: ShardEntry, start: int, size: int) -> bytes:
        """Return `size` bytes, or fewer at the end of the shard."""


class OpenFile:
    """A file descriptor, closed when nobody uses it anymore."""

    __slots__ = ("descriptor",)

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # `os` may be gone when Python ends
        if hasattr(self, "descriptor"):
            close(self.descriptor)


def most_open_files() -> int:
    """Return how many files the readers of this process keep open: a quarter of what `ulimit -n` allows."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 16 if limit == resource.RLIM_INFINITY else max(limit // 4, 1)


class OpenFiles(dict[Any, Any]):
    """Files that a reader keeps open. All readers of a process share `most_open_files`."""

    _lock = threading.Lock()
    _all: ClassVar["WeakValueDictionary[int, OpenFiles]"] = WeakValueDictionary()

    def __init__(self) -> None:
        super().__init__()
        self._all[id(self)] = self

    def keep(self, key: Any, file: Any) -> None:
        """Keep a file, and close others in its place: the oldest of the reader that has the most."""
        with self._lock:
            readers = list(self._all.values())
            while sum(map(len, readers)) >= most_open_files():
                most = max(readers, key=len)
                most.pop(next(iter(most), None), None)
            self[key] = file


class LocalRanges(ShardRanges):
    """Reads ranges of files on a local disk, with `pread`: no position is shared."""

    def __init__(self, dataset: Dataset) -> None:
        super().__init__(dataset)
        self._open = OpenFiles()
        self._identities: dict[str, tuple[int, int]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"_dataset": self._dataset, "_identities": self._identities}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_dataset"])  # type: ignore[misc]
        self._identities = state["_identities"]

    def open_file(self, shard: ShardEntry) -> OpenFile | None:
        """Return a shard's file; None if it cannot be opened. Raise a CorruptDataError if it is another than before."""
        try:
            return self._open.get(shard.file) or self._open_shard(shard)
        except OSError:
            return None

    def _read(self, shard: ShardEntry, start: int, size: int) -> bytes:
        file = self._open.get(shard.file) or self._open_shard(shard)
        return os.pread(file.descriptor, size, start)

    def _open_shard(self, shard: ShardEntry) -> OpenFile:
        path = self._dataset.path(shard)
        file = OpenFile(path)
        found = os.fstat(file.descriptor)
        identity = (found.st_ino, found.st_mtime_ns)
        if found.st_size != shard.size_bytes:
            raise CorruptDataError(
                f"{path} has {found.st_size:,} bytes; the manifest says {shard.size_bytes:,}: it was cut short or"
                " replaced"
            )
        if self._identities.setdefault(shard.file, identity) != identity:
            raise CorruptDataError(f"{path} was replaced or changed while it was read; open the data set again")
        self._open.keep(shard.file, file)
        return file


class ArrayRecordRanges(LocalRanges):
    """Reads records of ArrayRecord files on a local disk. Their positions are their numbers in the shard.

    It keeps the library's readers open, by shard and process: none works after a fork.
    """

    def read(self, shard: ShardEntry, start: int, stop: int) -> bytes:
        """Return the record `start` of a shard, framed as in a TFRecord file; raise as for TFRecord shards."""
        path = self._dataset.path(shard)
        reader = self._open.get((shard.file, os.getpid())) or self._open_reader(shard, path)
        return frame_record(read_record(reader, start, path))

    def _open_reader(self, shard: ShardEntry, path: str) -> Any:
        super().read(shard, 0, 0)  # which opens the file, and checks that it is the one of the manifest
        file = self._open.pop(shard.file, None) or self._open_shard(shard)
        reader = open_reader(descriptor_path(file.descriptor), path)
        if reader.num_records() != shard.examples:
            raise CorruptDataError(f"{path} holds {reader.num_records()} records; the manifest says {shard.examples}")
        self._open.keep((shard.file, os.getpid()), reader)
        return reader


class StoreRanges(ShardRanges):
    """Reads ranges of objects in a store: neighbouring ones in one request, and requests concurrently."""

    is_concurrent = True

    def read_all(self, wanted: Sequence[Range]) -> list[bytes]:
        """Return the bytes of several ranges, in order; raise the errors of `read`."""
        requests = list(_merge_ranges(wanted))
        if len(requests) == 1:
            answers = [self.read(*requests[0][0][:3])]
        else:
            with ThreadPoolExecutor(min(_THREADS, len(requests)) or 1, "shardmill-ranges") as pool:
                answers = list(pool.map(lambda request: self.read(*request[0][:3]), requests))
        found = [b""] * len(wanted)
        for (request, rows), answer in zip(requests, answers, strict=True):
            for row in rows:
                _, start, stop, _ = wanted[row]
                found[row] = answer[start - request.start : stop - request.start]
        return found

    def _read(self, shard: ShardEntry, start: int, size: int) -> bytes:
        return read_range(self._dataset.files, self._dataset.path(shard), start, size)


def _merge_ranges(wanted: Sequence[Range]) -> Iterator[tuple[Range, list[int]]]:
    rows: list[int] = []
    merged, start, stop = None, 0, 0
    for row in sorted(range(len(wanted)), key=[(one.shard.file, one.start) for one in wanted].__getitem__):
        shard, first, end, _ = wanted[row]
        if shard is merged and first - stop <= GAP_BYTES and max(end, stop) - start <= REQUEST_BYTES:
            stop = max(end, stop)
            rows.append(row)
            continue
        if merged is not None:
            yield Range(merged, start, stop), rows
        merged, start, stop, rows = shard, first, end, [row]
    if merged is not None:
        yield Range(merged, start, stop), rows


def fetch_ahead(
    ranges: ShardRanges, batches: Iterable[Sequence[Range]]
) -> Iterator[tuple[Sequence[Range], Sequence[bytes]]]:
    """Yield each batch of ranges with their bytes; the next batches are fetched meanwhile.

    About 16 MiB are fetched ahead, and at least one batch. Groups of batches grow from one batch to 4 MiB, so that the
    first is there soon. An error is raised before the first batch of its group.
    """
    process, left = os.getpid(), iter(batches)
    waiting: deque[tuple[Future[list[bytes]], list[Sequence[Range]], int]] = deque()
    pool = ThreadPoolExecutor(_GROUPS, "shardmill-ahead")
    least, held = 1, 0  # bytes of the next group, and of all that wait

    def submit() -> bool:
        nonlocal least, held
        group, size = [], 0
        for batch in left:
            group.append(batch)
            size += sum(one.stop - one.start for one in batch)
            if size >= least:
                break
        least, held = min(2 * size, GROUP_BYTES), held + size
        if group:
            waiting.append((pool.submit(ranges.read_all, [one for batch in group for one in batch]), group, size))
        return bool(group)

    try:
        while waiting or submit():
            future, group, size = waiting.popleft()
            found, row = future.result(), 0
            held -= size
            while (not waiting or held < AHEAD_BYTES) and submit():
                pass
            for batch in group:
                yield batch, found[row : row + len(batch)]
                row += len(batch)
    finally:
        if os.getpid() == process:  # a process that was forked meanwhile has none of the threads
            pool.shutdown(wait=False, cancel_futures=True)


def shard_ranges(dataset: Dataset) -> ShardRanges:
    """Return a reader of ranges of the data set's shards."""
    if dataset.manifest.codec.has_index:
        return ArrayRecordRanges(dataset)
    return LocalRanges(dataset) if isinstance(dataset.files, LocalFiles) else StoreRanges(dataset)
