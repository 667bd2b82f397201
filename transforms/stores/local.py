"""Read, write and list files on local disks."""

import errno
import io
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

import numpy as np

from shardmill.metadata.file_names import TEMP_SUFFIX
from shardmill.transforms.stores.protocol import TIME_STAMP, FileStat, NotAFileError, changed_error, writing_error

try:
    from shardmill._native import read_whole_files
except ImportError:  # not compiled

    def read_whole_files(paths: list[str], most: int, statuses: Any) -> list[bytes | None]:
        """Replace the C extension if it is not compiled: return None for each file, so that it is read alone."""
        return [None] * len(paths)


_SMALL_BYTES = 1 << 20  # of a file that is read with others: a larger one takes longer than a thread waits for its turn
_SYNCERS = 8  # threads: a disk orders what it is asked to write at once
_DELETERS = 4  # threads: to give back the blocks of a large file, a file system waits for its disk
_REST_BYTES = 1 << 20  # read at once of a file that is longer than the system says, such as those of /proc
# Written at once. The kernel allocates pages in blocks as large as one write, up to 2 MiB. A virtual machine returns
# free blocks of 2 MiB to its host (virtio-balloon's page reporting), and each must then be found again. 2.5 GB took
# 0.6 to 1.1 s in pieces up to 512 KiB, and 0.7 to 7.5 s in pieces of 2 MiB and more.
PIECE_BYTES = 1 << 18


def read_small(paths: list[str]) -> tuple[list[bytes | None], np.ndarray]:
    """Read several small files in one call: the bytes of each, None of a large file or if reading fails.

    Also return the size, mtime in ns and inode of each after it was read: int64, shape (n, 3).
    """
    statuses = np.zeros((len(paths), 3), np.int64)
    return read_whole_files(paths, _SMALL_BYTES, statuses), statuses


def read_bytes(path: str) -> bytes:
    """Read a file; raises OSError, or JobError if it is written meanwhile."""
    # Two system calls fewer than a file object: this is the inner loop of a job over small images.
    # Without O_NONBLOCK a named pipe that took the place of a file would be waited on for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        data = os.read(descriptor, status.st_size + 1)
        if len(data) != status.st_size:
            parts = [data]
            while data := os.read(descriptor, _REST_BYTES):
                parts.append(data)
            data = b"".join(parts)
        if os.fstat(descriptor).st_mtime_ns != status.st_mtime_ns and stat.S_ISREG(status.st_mode):
            raise changed_error(path)
        return data
    finally:
        os.close(descriptor)


def read_range(path: str, offset: int, length: int) -> bytes:
    """Read `length` bytes of a file from `offset`, fewer at its end; raises OSError."""
    with open(path, "rb", buffering=0) as file:
        file.seek(offset)
        data = file.read(length)
        while len(data) < length and (more := file.read(length - len(data))):  # the kernel gives 2 GiB at most
            data += more
    return data


def read_into(path: str, offset: int, target: memoryview) -> None:
    """Fill the byte buffer `target` from a file at `offset`; raises OSError, or EOFError if the file is too short."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while target:
            count = os.preadv(descriptor, [target], offset)
            if not count:
                raise EOFError(
                    f"{path}: {len(target)} bytes are missing at byte {offset}: the file became shorter while"
                    " it was read; run the job again"
                )
            target, offset = target[count:], offset + count
    finally:
        os.close(descriptor)


def stat_plain_file(path: str) -> os.stat_result | None:
    """Return the status of a regular file that is no link; None if it is something else, or missing."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def stat_file(path: str) -> FileStat:
    """Return the metadata of a file; raises OSError, or NotAFileError if it is no regular file."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise NotAFileError(errno.EINVAL, "not a regular file", path)
    return FileStat(path, status.st_size, f"{TIME_STAMP}{status.st_mtime_ns}", status.st_mtime, status.st_ino)


def list_files(directory: str) -> Iterator[tuple[str, int]]:
    """Yield (relative name, size in bytes) of all files below `directory`, unordered; none if it is missing."""
    for folder, _, files in os.walk(directory, onerror=_raise_unless_gone):
        for file in files:
            path = os.path.join(folder, file)
            with suppress(FileNotFoundError):  # deleted by another since it was listed
                yield os.path.relpath(path, directory), os.lstat(path).st_size


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def make_directory(path: str) -> None:
    """Create `path` and its parents, and sync their names to disk."""
    made, folder = list[str](), path.rstrip("/")
    while folder and not os.path.isdir(folder):
        made.append(folder)
        folder = os.path.dirname(folder)
    with add_path_to_errors(path):
        try:
            os.makedirs(path or ".", exist_ok=True)
        except FileExistsError as error:  # as something else than a folder, which is no reason to take it for made
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), error.filename) from None
    sync_directories(map(os.path.dirname, made))


@contextmanager
def add_path_to_errors(path: str) -> Iterator[None]:
    """Add the file name to errors of writing to `path`, and the free space if the disk is full."""
    try:
        yield
    except OSError as error:
        detailed_error = writing_error(error, path)
        if detailed_error is error:
            raise
        raise detailed_error from error


class _File(io.FileIO):
    """A file opened for writing that writes at most PIECE_BYTES per system call."""

    def write(self, data: Any) -> int:
        """Write the beginning of bytes-like `data` and return the number of bytes written."""
        return super().write(memoryview(data)[:PIECE_BYTES])

    def write_all(self, data: Any) -> None:
        """Write all of `data`."""
        view = memoryview(data).cast("B")
        while view:
            view = view[self.write(view) :]


@contextmanager
def open_new(path: str) -> Iterator[BinaryIO]:
    """Open a file that must not exist yet for writing, and create its folder; raises OSError."""
    make_directory(os.path.dirname(path))
    with add_path_to_errors(path), io.BufferedWriter(_File(path, "xb")) as file:
        yield file


def write_parts(path: str, parts: Sequence[Any], mode: str = "xb", sync: bool = False) -> None:
    """Write a file from bytes-like `parts`, and sync it to disk if `sync`; raises OSError.

    It must not exist yet, unless the mode is "wb".
    """
    make_directory(os.path.dirname(path))
    with add_path_to_errors(path), _File(path, mode) as file:
        for part in parts:
            file.write_all(part)
        if sync:
            os.fsync(file.fileno())


def write_bytes(path: str, data: bytes, temporary: str | None = None, sync: bool = True) -> None:
    """Write `data` atomically, and sync it to disk if `sync`.

    It is written to `temporary` (by default `path` with a suffix) and renamed. If several processes may write to one
    path, each needs its own temporary name. If writing fails, the temporary file is removed.
    """
    temporary = temporary or path + TEMP_SUFFIX
    try:
        write_parts(temporary, [data], "wb", sync)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    if sync:
        sync_directories([os.path.dirname(path)])


def create(path: str, data: bytes, temporary: str) -> None:
    """Write a file like `write_bytes`, but raise FileExistsError if it exists."""
    write_parts(temporary, [data], "wb", sync=True)
    link(temporary, path)
    sync_directories([os.path.dirname(path)])


def link(temporary: str, path: str) -> None:
    """Give a file a new name by a hard link, or by renaming it; raises FileExistsError if the name exists."""
    try:
        os.link(temporary, path)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError:  # a file system without links: of two at once, who comes later wins
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, "it is there already", path) from None
        os.replace(temporary, path)


def move(source: str, destination: str) -> None:
    """Rename a file, replacing any file at `destination`, and create the destination folder if needed."""
    make_directory(os.path.dirname(destination))
    os.replace(source, destination)


def sync_files(paths: Iterable[str]) -> None:
    """Sync files to disk, including those that other processes wrote."""
    with ThreadPoolExecutor(_SYNCERS, "shardmill-sync") as pool:
        for _ in pool.map(_sync, paths):
            pass


def sync_directories(paths: Iterable[str]) -> None:
    """Sync the names in directories to disk."""
    for path in paths:
        try:
            _sync(path or ".")
        except OSError as error:
            # Of file systems that sync no directories, and directories that may be written to, but not be read
            if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES):
                raise


def _sync(path: str) -> None:
    with add_path_to_errors(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove(path: str) -> None:
    """Delete a file; a missing one is no error."""
    with suppress(FileNotFoundError):
        os.remove(path)


def delete_tree(directory: str) -> None:
    """Delete `directory` and everything below it, without following links; a missing one is no error."""
    if not os.path.isdir(directory):
        return
    with ThreadPoolExecutor(_DELETERS, "shardmill-delete") as pool:
        list(pool.map(remove, [os.path.join(directory, name) for name, _ in list_files(directory)]))
    for folder, folders, _ in os.walk(directory, topdown=False):
        for linked in filter(os.path.islink, [os.path.join(folder, name) for name in folders]):
            remove(linked)
        with suppress(FileNotFoundError):
            os.rmdir(folder)


class LinksInside:
    """Predicate for paths: `LinksInside(root)(path)` is True if `path`, with links followed, lies below `root`.

    Each folder is resolved once; a file that is no link costs one `lstat`. A missing file counts as inside, because
    others report it.
    """

    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root)
        self._folders: dict[str, bool] = {}

    def __call__(self, path: str) -> bool:
        """Return True if `path`, with links followed, lies inside the root."""
        return self._is_inside(path) if os.path.islink(path) else self.has_folder_of(path)

    def has_folder_of(self, path: str) -> bool:
        """Return True if the folder of `path`, with links followed, lies inside the root."""
        folder = path[: path.rfind("/") + 1]
        known = self._folders.get(folder)
        if known is None:
            known = self._folders[folder] = self._is_inside(folder or ".")
        return known

    def _is_inside(self, path: str) -> bool:
        return f"{os.path.realpath(path)}/".startswith(f"{self._root.rstrip('/')}/")
