"""Read, write, list, lock and rename files by path or URL, whichever store holds them."""

import errno
import fcntl
import io
import os
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any, BinaryIO

import numpy as np

from shardmill.filesystem import LocalFiles
from shardmill.metadata.file_names import TEMP_SUFFIX
from shardmill.transforms.stores import local, protocol
from shardmill.transforms.stores.clients import object_store, prepare_clients

_RANGE_BYTES = 8 << 20  # a request takes some ten milliseconds, in which as much could be read


_WRITERS = 16  # threads: a write of a small object is a wait of some tens of milliseconds


def is_local(path: str) -> bool:
    """Return True if `path` is a local path rather than a URL such as `gs://…`."""
    return "://" not in path


def join(directory: str, *names: str) -> str:
    """Return the path of a file in `directory`; the names before its own are of folders."""
    return "/".join([directory.rstrip("/"), *names])


def open_read(path: str, end: int | None = None, range_bytes: int = _RANGE_BYTES) -> BinaryIO:
    """Open `path` for reading its raw bytes; raise OSError if it cannot be opened, FileNotFoundError if it is missing.

    With `end`, nothing from that offset on is needed, and a store is not asked for the size. If little more than the
    first `range_bytes` will be read, this makes for small requests.
    """
    if is_local(path):
        return open(path, "rb")
    from shardmill.transforms.stores.prefetch import RangeReader, ReadAhead

    size_bytes = object_store(path).size(path) if end is None else end
    range_bytes = max(range_bytes, 1)

    def read_range(offset: int, length: int) -> bytes:
        return object_store(path).read_range(path, offset, length)  # of the thread that reads

    ranges = ReadAhead(read_range, size_bytes, range_bytes)
    return io.BufferedReader(RangeReader(ranges.read, size_bytes, ranges.close), range_bytes)


def read_bytes(path: str) -> bytes:
    """Read the bytes of `path`; raises as `open_read` does."""
    if is_local(path):
        return local.read_bytes(path)
    objects: dict[str, protocol.FileStat] | None = getattr(_noted, "objects", None)
    if objects is None:
        return object_store(path).read(path)
    data, stamp = object_store(path).read_with_stamp(path)
    if stamp:
        objects[path] = protocol.FileStat(path, len(data), stamp, 0.0)
    return data


_noted = threading.local()


@contextmanager
def note_objects() -> Iterator[dict[str, protocol.FileStat]]:
    """Yield a dictionary that receives the size and stamp of each object that this thread reads as a whole, by URL."""
    before = getattr(_noted, "objects", None)
    _noted.objects = {}
    try:
        yield _noted.objects
    finally:
        _noted.objects = before


def read_small(paths: list[str]) -> tuple[list[bytes | None], np.ndarray]:
    """Read several small local files in one call: the bytes of each, None for any file that must be read alone.

    Also return the size, mtime in ns and inode of each after it was read: int64, shape (n, 3).
    """
    if all(map(is_local, paths)):
        return local.read_small(paths)
    return [None] * len(paths), np.zeros((len(paths), 3), np.int64)


def read_range(path: str, offset: int, length: int) -> bytes:
    """Read exactly `length` bytes of `path` from `offset`; raise EOFError if it ends too early."""
    if not length:
        return b""
    read = local.read_range if is_local(path) else object_store(path).read_range
    data = read(path, offset, length)
    if len(data) < length:
        raise EOFError(f"{path}: {len(data)} bytes at {offset}, expected {length}")
    return data


def read_into(path: str, offset: int, target: memoryview) -> None:
    """Fill the byte buffer `target` from `path` at `offset`; raises as `read_range`."""
    if is_local(path):
        local.read_into(path, offset, target)
    else:
        target[:] = read_range(path, offset, len(target))


def exists(path: str) -> bool:
    """Return True if `path` is a file, or a local directory."""
    if is_local(path):
        return os.path.exists(path)
    try:
        size(path)
    except FileNotFoundError:
        return False
    return True


def size(path: str) -> int:
    """Return the size of a file in bytes; raises OSError if it is missing or no file."""
    return local.stat_file(path).size_bytes if is_local(path) else object_store(path).size(path)


def stat_file(path: str) -> protocol.FileStat:
    """Return the metadata of a file; raises OSError if it is missing or no file."""
    return local.stat_file(path) if is_local(path) else object_store(path).stat(path)


def read_revision(path: str) -> str:
    """Return what changes with a file's content: its size, with time and inode on a disk or the stamp of its store.

    Raises OSError if the file is missing.
    """
    return stat_file(path).revision


def is_unchanged(path: str, revision: str) -> bool:
    """Return True if a file has this revision, or is missing, which reading it reports."""
    try:
        return read_revision(path) == revision
    except FileNotFoundError:
        return True


@contextmanager
def check_unchanged(path: str) -> Iterator[None]:
    """Raise JobError on leaving this context if the file at `path` was written or replaced within it."""
    before = ""
    with suppress(OSError):  # reading it says so
        before = read_revision(path)
    yield
    if before and not is_unchanged(path, before):
        raise protocol.changed_error(path)


def list_files(directory: str) -> Iterator[tuple[str, int]]:
    """Yield (relative name, size in bytes) of all files below `directory`, unordered; none if only it is missing."""
    root = directory.rstrip("/") or "/"
    if is_local(root):
        yield from local.list_files(root)
        return
    for found in object_store(root).stats(f"{root}/"):
        if not found.path.endswith("/"):  # a "folder" object of the cloud console
            yield found.path[len(root) + 1 :], found.size_bytes


def stat_files(directory: str) -> Iterator[protocol.FileStat]:
    """Yield the metadata of all files below `directory`; skip files that are deleted meanwhile."""
    if not is_local(directory):
        yield from object_store(directory).stats(f"{directory.rstrip('/')}/")
        return
    for name, _ in local.list_files(directory):
        with suppress(FileNotFoundError, protocol.NotAFileError):
            yield local.stat_file(join(directory, name))


def list_folders(directory: str) -> list[str]:
    """Return the sorted names of the folders in `directory`, including empty local ones; none if it is missing."""
    if is_local(directory):
        if not os.path.isdir(directory):
            return []
        return sorted(entry.name for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=False))
    return list(object_store(directory).folders(f"{directory.rstrip('/')}/"))


def make_directory(path: str) -> None:
    """Create `path` and its parents, and sync their names to disk; do nothing on an object store."""
    if is_local(path):
        local.make_directory(path)


def write_parts(path: str, parts: Sequence[Any]) -> None:
    """Write a new file, a temporary one, from bytes-like `parts`: a local file exists before it is complete."""
    if is_local(path):
        local.write_parts(path, parts)
    else:
        object_store(path).write(path, b"".join(parts))


def upload(path: str) -> protocol.Upload | None:
    """Start a new object to write as its bytes arrive; None on a local disk, and if Beam's file systems write it."""
    return None if is_local(path) else object_store(path).upload(path)


@contextmanager
def open_write(path: str) -> Iterator[Any]:
    """Open a new file, a temporary one, for writing: an interruption may leave part of it, on object stores too."""
    if is_local(path):
        with local.open_new(path) as file:
            yield file
        return
    if (own := upload(path)) is not None:
        try:
            yield own
            own.close()
        except BaseException:
            own.abandon()
            raise
        return
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    prepare_clients()
    with FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        yield file


def write_text(path: str, text: str, temporary: str | None = None, sync: bool = True) -> None:
    """Write `text` as UTF-8, like `write_bytes`."""
    write_bytes(path, text.encode(), temporary, sync)


def write_bytes(path: str, data: bytes, temporary: str | None = None, sync: bool = True) -> None:
    """Write `data` atomically, and sync a local file to disk if `sync`; object stores are always durable.

    For `temporary`, which only local disks use, see `local.write_bytes`.
    """
    if is_local(path):
        local.write_bytes(path, data, temporary, sync)
    else:
        object_store(path).write(path, data)


def write_all(files: Mapping[str, bytes]) -> None:
    """Write several files like `write_bytes`, without syncing; in parallel on object stores."""
    for path in filter(is_local, files):
        write_bytes(path, files[path], sync=False)
    remote = [path for path in files if not is_local(path)]
    with ThreadPoolExecutor(_WRITERS, "shardmill-write") as pool:
        list(pool.map(write_bytes, remote, map(files.__getitem__, remote)))


def create_text(path: str, text: str, temporary: str) -> None:
    """Write a file like `write_text`, but raise FileExistsError if it exists; of several processes, one succeeds."""
    if is_local(path):
        local.create(path, text.encode(), temporary)
    else:
        object_store(path).create(path, text.encode())


def remove_empty(folder: str) -> None:
    """Remove a local folder if it is empty; do nothing on an object store."""
    if is_local(folder):
        with suppress(OSError):
            os.rmdir(folder)


def sync_files(paths: Iterable[str]) -> None:
    """Sync local files to disk, including those of other processes; object stores have acknowledged durable writes."""
    local.sync_files(filter(is_local, paths))


def sync_directories(paths: Iterable[str]) -> None:
    """Sync the names in local directories to disk."""
    local.sync_directories(filter(is_local, paths))


def delete(paths: Iterable[str]) -> None:
    """Delete the files at exactly these paths, on any store; a missing one is no error."""
    remote = defaultdict(list)
    for path in paths:
        if is_local(path):
            local.remove(path)
        else:
            remote[bucket_url(path)].append(path)
    for urls in remote.values():
        object_store(urls[0]).delete(urls)


def bucket_url(url: str) -> str:
    """Return the scheme and bucket (or host) of a URL, to which one request is limited."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def delete_tree(directory: str) -> None:
    """Delete `directory` and everything below it; a missing one is no error."""
    if is_local(directory):
        local.delete_tree(directory)
    else:
        delete([found.path for found in stat_files(directory)])


@contextmanager
def cleaning_up(clean_up: Callable[[], Any]) -> Iterator[None]:
    """Call `clean_up` on leaving the block. If both fail, raise the error of the block, with a note of the other."""
    try:
        yield
    except BaseException as error:
        try:
            clean_up()
        except Exception as failed:
            error.add_note(f"what it left could not be deleted: {protocol.error_text(failed)}")
        raise
    clean_up()


def abort_uploads(prefix: str) -> None:
    """Abort incomplete uploads to names that start with `prefix`; do nothing on local disks."""
    if not is_local(prefix):
        object_store(prefix).abort_uploads(prefix)


class StorageFiles:
    """The readers' file interface (shardmill.filesystem.Files), for every store."""

    def open(self, path: str) -> BinaryIO:
        return open_read(path)

    def read(self, path: str) -> bytes:
        """Read a file, in one request of an object store."""
        if is_local(path) and not LocalFiles().exists(path):  # in a file, too
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return read_bytes(path)

    def read_range(self, path: str, start: int, size: int) -> bytes:
        """Read a range of a file, in one request of an object store; it is shorter at the end of the file."""
        return (local.read_range if is_local(path) else object_store(path).read_range)(path, start, size)

    def exists(self, path: str) -> bool:
        return LocalFiles().exists(path) if is_local(path) else exists(path)

    def size(self, path: str) -> int:
        """Return the size of a file in bytes; raise FileNotFoundError if it does not exist."""
        return LocalFiles().size(path) if is_local(path) else size(path)

    def folders(self, path: str) -> list[str]:
        """Return the names in `path` that may be folders; raises OSError."""
        return LocalFiles().folders(path) if is_local(path) else list_folders(path)


_ANSWERS = (
    FileNotFoundError,
    PermissionError,
    protocol.NotAFileError,
)  # 404, 403, and a member of an archive that is no good


# Errors of a disk or of its network, not of a file; see errno(3)
_DISK_ERRORS = (errno.EIO, errno.ENODEV, errno.ENXIO, errno.ESTALE, errno.ETIMEDOUT)


def raise_if_store_failed(error: OSError, path: str) -> None:
    """Raise the `error` of reading the file or folder `path` again if a disk or a store failed: a retry may help."""
    if not isinstance(error, _ANSWERS) and (error.errno in _DISK_ERRORS or not is_local(path)):
        raise error


_shared_lock = threading.Lock()
_shared: dict[Hashable, tuple[ExitStack, list[None]]] = {}  # contexts that are entered, with an item for each user


@contextmanager
def hold_shared(key: Hashable, context: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
    """Hold a context that changes settings of the process, together with all other threads that hold that of `key`.

    The first thread enters the context and the last one leaves it, in whatever order they come and go.
    """
    with _shared_lock:
        if key not in _shared:
            stack = ExitStack()
            stack.enter_context(context())
            _shared[key] = stack, []
        stack, users = _shared[key]
        users.append(None)
    try:
        yield
    finally:
        with _shared_lock:
            users.pop()
            if not users:
                del _shared[key]
                stack.close()


def run_concurrently(directory: str, *calls: Callable[[], Any]) -> list[Any]:
    """Return the results of `calls`, in order. They run concurrently if `directory` is on an object store, one by one
    on a local disk. All have ended when this returns. If several fail, the error of the first in order is raised.
    """
    if is_local(directory):
        return [call() for call in calls]
    with ThreadPoolExecutor(len(calls), "shardmill-together") as pool:
        futures = [pool.submit(call) for call in calls]
    return [future.result() for future in futures]


@contextmanager
def locked(directory: str, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of an existing `directory`, and yield True if it was obtained. With `wait` it always is.

    Object stores and some file systems have no locks: there it counts as obtained at once.
    """
    descriptor, is_held = None, False
    with suppress(BlockingIOError):
        descriptor = _lock_file(directory, wait) if is_local(directory) else None
        is_held = True
    try:
        yield is_held
    finally:
        release_lock(descriptor)


def hold_lock(path: str, wait: bool = False) -> int | None:
    """Hold the lock of a file until `release_lock` or the end of the process; return None if that is not possible."""
    with suppress(BlockingIOError):
        return _lock_file(path, wait)
    return None


def create_locked(path: str, text: str) -> int | None:
    """Create a file in an existing folder, and lock it like `hold_lock` before its text is written."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    kept = False
    try:
        kept = _try_lock(descriptor, wait=True)  # another process may look at this moment if it is held
        os.write(descriptor, text.encode())
    finally:
        if not kept:
            os.close(descriptor)
    return descriptor if kept else None


def is_locked(path: str) -> bool:
    """Return True if a living process holds the lock of a local file."""
    try:
        with suppress(FileNotFoundError):
            release_lock(_lock_file(path, wait=False))
    except BlockingIOError:
        return True
    return False


def release_lock(descriptor: int | None) -> None:
    """Release a lock that `hold_lock` or `create_locked` returned."""
    if descriptor is not None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # not by closing alone: a process forked meanwhile has it open, too
        with suppress(OSError):  # of a text that nobody needs any more
            os.close(descriptor)


def _lock_file(path: str, wait: bool) -> int | None:
    """Lock a file; return None if its disk has no locks, raise BlockingIOError if another process holds it."""
    while True:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        kept = False
        try:
            if not _try_lock(descriptor, wait):
                return None
            with suppress(FileNotFoundError):
                # Else deleted, and perhaps made anew, meanwhile
                kept = os.path.samestat(os.fstat(descriptor), os.stat(path))
            if kept:
                return descriptor
        finally:
            if not kept:
                os.close(descriptor)


def _try_lock(descriptor: int, wait: bool) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EBADF, errno.EINVAL):
            raise
        return False
    return True


def read(path: str) -> protocol.StoredFile | None:
    """Read the file at `path` with its revision; return None if it does not exist."""
    try:
        return _read_local(path) if is_local(path) else object_store(path).read_with_revision(path)
    except FileNotFoundError:
        return None


def create(path: str, text: str, temporary: str | None = None) -> None:
    """Write a file, but raise FileExistsError if it exists; of several processes, one succeeds.

    A local file is written first as `temporary`: a name on the same disk, by default a random one, that only this
    process uses.
    """
    with _hold_temporary_name(path, temporary) as name:
        create_text(path, text, name)


def replace(path: str, text: str, previous: protocol.StoredFile, temporary: str | None = None) -> None:
    """Replace a file if it is still as `previous`, else raise ChangedError; `temporary` as in `create`."""
    if not is_local(path):
        object_store(path).replace(path, text.encode(), previous.revision)
        return
    with _hold_temporary_name(path, temporary) as name, _locked_unchanged(path, previous):
        write_text(path, text, name)


def delete_if_unchanged(path: str, previous: protocol.StoredFile) -> None:
    """Delete a file if it is still as `previous`, else raise ChangedError."""
    if not is_local(path):
        object_store(path).delete_unchanged(path, previous.revision)
        return
    with _locked_unchanged(path, previous):
        delete([path])


@contextmanager
def _locked_unchanged(path: str, previous: protocol.StoredFile) -> Iterator[None]:
    try:
        with locked(path):
            if _read_local(path) != previous:
                raise protocol.ChangedError(f"{path} was changed by another process")
            yield
    except FileNotFoundError as error:
        if error.filename not in (None, path):
            raise
        raise protocol.ChangedError(f"{path} was deleted by another process") from None


def _read_local(path: str) -> protocol.StoredFile:
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        revision = f"{status.st_dev}:{status.st_ino}:{status.st_mtime_ns}"
        return protocol.StoredFile(file.read(), revision, status.st_mtime)


@contextmanager
def _hold_temporary_name(path: str, temporary: str | None) -> Iterator[str]:
    name = temporary or f"{path}.{uuid.uuid4().hex}{TEMP_SUFFIX}"
    with cleaning_up(lambda: delete([name]) if is_local(path) else None):
        yield name


def rename(sources: Sequence[str], destinations: Sequence[str], *, sizes: Mapping[str, int] | None = None) -> None:
    """Rename each source to its destination, replacing it; skip sources that an earlier attempt has renamed. Raise
    FileNotFoundError if neither a source nor its destination exists.

    Args:
        sizes: bytes of each existing source by path; None to look them up.
    """
    there = _find_existing(sources) if sizes is None else sizes
    moves = []
    for source, destination in zip(sources, destinations, strict=True):
        if source in there:
            moves.append(protocol.Rename(source, destination, there[source]))
        elif not exists(destination):
            raise FileNotFoundError(f"neither {source} nor {destination} exists")
    remote = defaultdict(list)
    for move in moves:
        if is_local(move.source):
            local.move(move.source, move.destination)
        else:
            remote[bucket_url(move.source)].append(move)
    for renamed in remote.values():
        object_store(renamed[0].source).rename(renamed)


def _find_existing(paths: Sequence[str]) -> dict[str, int]:
    """Return the sizes in bytes of those `paths` that exist; one listing finds all objects below one folder."""
    found = {path: os.path.getsize(path) for path in paths if is_local(path) and os.path.exists(path)}
    outer = ""
    for folder in sorted({f"{path.rpartition('/')[0]}/" for path in paths if not is_local(path)}):
        if not outer or not folder.startswith(outer):
            outer = folder
            found.update((item.path, item.size_bytes) for item in object_store(folder).stats(folder))
    return found


def copy(source: str, destination: str) -> None:
    """Copy a file within a store; on a local disk by a hard link, if the file system has them."""
    if is_local(destination):
        local.make_directory(os.path.dirname(destination))
        with suppress(OSError):
            os.link(source, destination)
            return
    with open_read(source) as file, open_write(destination) as out:
        while block := file.read(_COPY_BYTES):
            out.write(block)


_COPY_BYTES = 8 << 20  # at once


def put_in_place(source: str, destination: str) -> bool:
    """Rename a small file, replacing `destination`; return False if `source` is missing, as after an earlier attempt.

    On an object store, where this is a copy, the source is left for the cleanup of its folder.
    """
    if is_local(source):
        if not os.path.exists(source):
            return False
        local.move(source, destination)
        sync_directories([os.path.dirname(destination)])
        return True
    try:
        data = read_bytes(source)
    except FileNotFoundError:
        return False
    write_bytes(destination, data)
    return True
