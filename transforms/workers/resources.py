"""Memory, cores and temporary files that a worker process may use, and columns that take little memory."""

import ctypes
import math
import os
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pyarrow as pa

from shardmill.transforms.stores import local


class Budget:
    """A number of bytes granted in the order of requests, so that large requests are not starved.

    A thread that holds bytes must not request more: two such threads could wait for each other.
    """

    def __init__(self, size_bytes: int) -> None:
        """Create the budget; raises ValueError unless `size_bytes` is positive."""
        if size_bytes <= 0:
            raise ValueError(f"a budget of {size_bytes} bytes; expected some")
        self.size_bytes = self._left = size_bytes
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def take(self, size_bytes: int) -> Iterator[None]:
        """Wait until `size_bytes` are free, and hold them within this context.

        A request larger than the budget waits until nothing else is held.
        """
        wanted, turn = min(max(size_bytes, 0), self.size_bytes), object()
        with self._changed:
            self._waiting.append(turn)
            try:
                self._changed.wait_for(lambda: self._waiting[0] is turn and self._left >= wanted)
                self._left -= wanted
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._left += wanted
                self._changed.notify_all()


CGROUPS = Path("/sys/fs/cgroup")  # mount point of the control groups
PROCESS_CGROUPS = Path("/proc/self/cgroup")  # lists those of this process


def cgroup_settings(controller: str, unified: str, single: Sequence[str]) -> Iterator[list[str]]:
    """Yield the words of one setting, for the process's control group and each of its ancestors.

    Args:
        controller: name in cgroup version 1, such as `cpu`.
        unified: file name in version 2 (docs.kernel.org/admin-guide/cgroup-v2.html).
        single: file names in version 1, whose words are joined.
    """
    for line in _read_lines(PROCESS_CGROUPS):
        _, controllers, name = line.split(":", 2)
        path = PurePosixPath(name.lstrip("/"))
        # In a container the group's own folder may be mounted in place of all, under which its name is not there.
        groups = dict.fromkeys([path, *path.parents, PurePosixPath(".")])
        if not controllers:
            mounts, files = (CGROUPS, CGROUPS / "unified"), [unified]
        elif controller in controllers.split(","):
            mounts, files = (CGROUPS / controllers, CGROUPS / controller), list(single)
        else:
            continue
        for mount in mounts:
            for group in groups:
                yield [word for file in files for word in " ".join(_read_lines(mount / group / file)).split()]


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


@cache
def core_count() -> int:
    """Return the number of cores that this process may use, at least one.

    It is the least of the CPU affinity and the quotas of the process's control group and its ancestors, as Docker and
    Kubernetes set them: `cpu.max` in version 2, `cpu.cfs_quota_us` and `cpu.cfs_period_us` in version 1
    (docs.kernel.org/admin-guide/cgroup-v2.html, docs.kernel.org/scheduler/sched-bwc.html). The result is cached,
    because it is read from kernel files and needed for each block.
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found = cgroup_settings("cpu", "cpu.max", ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
    # Time and period, both in microseconds; a time of `max` or -1 is no limit
    limits = [words for words in found if len(words) == 2 and all(map(str.isdigit, words)) and int(words[1])]
    return max(1, min([bound, *(math.ceil(int(time) / int(period)) for time, period in limits)]))


sharing = SimpleNamespace(processes=1)  # worker processes that share the container's memory
BASE_BYTES = 300 << 20  # of Python, Beam, Arrow and what describes the work, before any record is read
LEAST_BYTES = 64 << 20  # that are held at once, or nothing would go on


def memory_budget() -> Budget:
    """Return the budget from which readers, encoders and mergers of this process take bytes for their records."""
    from shardmill.transforms.workers.memory_options import worker_memory_bytes  # which imports Beam

    return _budget(worker_memory_bytes() or container_bytes() // max(core_count(), sharing.processes))


def find_memory_problem(size_bytes: int, copies: int) -> str:
    """Return why a file or record is not read if `copies` of it, which are held at once, are more than the memory of
    this process; "" if they fit. Without --worker_memory it is the container's.
    """
    if size_bytes <= LEAST_BYTES // copies:  # as nearly all are
        return ""
    most = most_bytes(copies)
    if size_bytes <= most:
        return ""
    needed = math.ceil((copies * size_bytes + BASE_BYTES) / (1 << 20))
    return (
        f"{size_bytes:,} bytes, and the memory of a worker is enough for {most:,}; --worker_memory {needed}MiB reads"
        " it, on a machine that has as much"
    )


def most_bytes(copies: int) -> int:
    """Return the size of the largest file or record of which `copies` fit into the memory of this process."""
    from shardmill.transforms.workers.memory_options import worker_memory_bytes  # which imports Beam

    return max((worker_memory_bytes() or container_bytes()) - BASE_BYTES, LEAST_BYTES) // copies


def release_freed_memory() -> None:
    """Return freed memory to the system, before a phase that needs much memory in blocks of other sizes."""
    pa.default_memory_pool().release_unused()
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:  # glibc's
        trim(0)


@cache
def _budget(process_bytes: int) -> Budget:
    return Budget(max(process_bytes - BASE_BYTES, LEAST_BYTES))


@cache
def container_bytes() -> int:
    """Return the memory in bytes available to all processes of this container.

    It is the least of the machine's memory and the limits of the process's control group and its ancestors:
    `memory.max` in version 2, `memory.limit_in_bytes` in version 1, where a huge number means no limit.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = cgroup_settings("memory", "memory.max", ("memory.limit_in_bytes",))
    return min([machine, *(int(words[0]) for words in found if len(words) == 1 and words[0].isdigit())])


class Spool:
    """An unnamed temporary file on the worker's disk, deleted with the last reference to it."""

    def __init__(self) -> None:
        """Create the file, on Linux without a name: a kill leaves nothing. Raises OSError without a folder for it."""
        self._folder, self.size_bytes, self._lock = tempfile.gettempdir(), 0, threading.Lock()
        with local.add_path_to_errors(self._folder), tempfile.TemporaryFile(buffering=0) as file:
            self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)

    def append(self, data: bytes | bytearray) -> int:
        """Write `data` at the end, from any thread, and return its offset; raises as `write`."""
        with self._lock:
            offset, self.size_bytes = self.size_bytes, self.size_bytes + memoryview(data).nbytes
        self.write(offset, data)
        return offset

    def write(self, offset: int, data: bytes | bytearray) -> None:
        """Write `data` at `offset`; raises OSError, for example if the disk is full."""
        view = memoryview(data).cast("B")
        with local.add_path_to_errors(self._folder):
            while view:
                count = os.pwrite(self._descriptor, view[: local.PIECE_BYTES], offset)
                view, offset = view[count:], offset + count

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill the byte buffer `target` from `offset`; raises EOFError if fewer bytes were written."""
        while target:
            count = os.preadv(self._descriptor, [target], offset)
            if not count:
                raise EOFError(f"{len(target)} bytes fewer at {offset} than were written")
            target, offset = target[count:], offset + count

    def chunks(self, offset: int, length: int, chunk_bytes: int) -> Iterator[bytes]:
        """Yield the `length` bytes from `offset` in chunks of at most `chunk_bytes` bytes."""
        for start in range(offset, offset + length, chunk_bytes):
            chunk = bytearray(min(chunk_bytes, offset + length - start))
            self.read_into(start, memoryview(chunk))
            yield bytes(chunk)


def null_columns(kinds: Iterable[pa.DataType], rows: int) -> list[pa.Array]:
    """Return a column of nulls of each type, which must be numbers, texts or bytes.

    All share one buffer of zeros, where `pa.nulls` would fill buffers for each.
    """
    zeros = pa.py_buffer(bytes(8 * (rows + 1)))
    return [pa.Array.from_buffers(kind, rows, [zeros] * kind.num_buffers, null_count=rows) for kind in kinds]
