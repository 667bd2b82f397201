"""File operations that take names as they are, on local disks and on object stores.

Beam's FileSystems treats a name as a glob in `match` and `delete`, and a local name may hold `[`, `*` or bytes that are
not UTF-8; so local names go to `os`, and URLs to transforms.stores.clients, which takes exact names too.
"""

import errno
import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from shardmill.filesystems.local import LocalFiles
from shardmill.metadata.naming import TEMP_SUFFIX
from transforms.stores.clients import object_store, prepare_clients
from transforms.stores.error_text import NotAFileError, of_writing
from transforms.stores.object_file import open_object
from transforms.stores.protocol import TIME_STAMP, FileStat, Rename

_WRITERS = 16  # a write of a small object is a wait of some tens of milliseconds
_SYNCERS = 8  # a disk orders what it is asked to write at once
_DELETERS = 4  # to give back the blocks of a large file, a file system waits for its disk


def is_local(path: str) -> bool:
    """Whether `path` is a local path rather than a URL (`gs://…`)."""
    return "://" not in path


def join(directory: str, name: str) -> str:
    """`name` under `directory`."""
    return f"{directory.rstrip('/')}/{name}" if directory != "/" else f"/{name}"


def open_read(path: str) -> BinaryIO:
    """Open `path` for reading its bytes as they are.

    Raises:
      OSError: it cannot be opened; FileNotFoundError if it does not exist.
    """
    if is_local(path):
        return open(path, "rb")
    return open_object(path)


def read_bytes(path: str) -> bytes:
    """The bytes of `path`; raises as `open_read` does."""
    if is_local(path):
        # Two system calls fewer than a file object: this is the inner loop of a job over small images.
        # Without O_NONBLOCK a named pipe that took the place of a file would be waited on for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return _read_all(descriptor, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)
    return object_store(path).read(path)


def _read_all(descriptor: int, size: int) -> bytes:
    data = os.read(descriptor, size + 1)
    if len(data) == size:
        return data
    parts = [data]
    while data := os.read(descriptor, 1 << 20):
        parts.append(data)
    return b"".join(parts)


def read_range(path: str, offset: int, length: int) -> bytes:
    """`length` bytes of `path` from `offset`, all of which must be there.

    Raises:
      OSError: it cannot be read; EOFError if it ends before.
    """
    if not length:
        return b""
    if is_local(path):
        with open(path, "rb", buffering=0) as file:
            file.seek(offset)
            data = file.read(length)
            while len(data) < length and (more := file.read(length - len(data))):  # the kernel gives 2 GiB at most
                data += more
    else:
        data = object_store(path).read_range(path, offset, length)
    if len(data) < length:
        raise EOFError(f"{path}: {len(data)} bytes at {offset}, expected {length}")
    return data


def read_into(path: str, offset: int, target: memoryview) -> None:
    """Fill `target`, of bytes, from `path` at `offset`; raises as `read_range`."""
    if not is_local(path):
        target[:] = read_range(path, offset, len(target))
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while target:
            count = os.preadv(descriptor, [target], offset)
            if not count:
                raise EOFError(f"{path}: {len(target)} bytes fewer at {offset} than expected")
            target, offset = target[count:], offset + count
    finally:
        os.close(descriptor)


def exists(path: str) -> bool:
    """Whether there is a file or a local directory at `path`."""
    if is_local(path):
        return os.path.exists(path)
    try:
        size(path)
    except FileNotFoundError:
        return False
    return True


def size(path: str) -> int:
    """The size in bytes of the file at `path`; raises OSError if there is none, or something that is not a file."""
    if not is_local(path):
        return object_store(path).size(path)
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise NotAFileError(errno.EINVAL, "not a regular file", path)
    return status.st_size


def stat_file(path: str) -> FileStat:
    """What the store says of the file at `path`; raises OSError if there is none, or something that is not a file."""
    if not is_local(path):
        return object_store(path).stat(path)
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise NotAFileError(errno.EINVAL, "not a regular file", path)
    return FileStat(path, status.st_size, f"{TIME_STAMP}{status.st_mtime_ns}", status.st_mtime)


def list_files(directory: str) -> Iterator[tuple[str, int]]:
    """All files below `directory`, as (name relative to it, bytes), in no particular order; none if it is missing.

    Raises:
      OSError: there is no such bucket, or it cannot be listed.
    """
    root = directory.rstrip("/") or "/"
    if is_local(root):
        for folder, _, files in os.walk(root, onerror=_raise_unless_gone):
            for file in files:
                path = os.path.join(folder, file)
                with suppress(FileNotFoundError):  # deleted by another since it was listed
                    yield os.path.relpath(path, root), os.lstat(path).st_size
        return
    for url, size_bytes in object_store(root).list(f"{root}/"):
        if not url.endswith("/"):  # a "folder" object of the cloud console
            yield url[len(root) + 1 :], size_bytes


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def list_folders(directory: str) -> list[str]:
    """The names of the folders in `directory`, empty ones too where there are such; none if it is missing."""
    if not is_local(directory):
        return list(object_store(directory).folders(f"{directory.rstrip('/')}/"))
    if not os.path.isdir(directory):
        return []
    return sorted(entry.name for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=False))


def make_directory(path: str) -> None:
    """Make `path` and its parents, and wait until their names are on their disk; nothing to do on an object store."""
    if is_local(path):
        made = list(_missing(path.rstrip("/")))
        with writing(path):
            os.makedirs(path or ".", exist_ok=True)
        sync_directories(map(os.path.dirname, made))


def _missing(folder: str) -> Iterator[str]:
    """A local folder and those that it lies in, as far as there are none."""
    while folder and not os.path.isdir(folder):
        yield folder
        folder = os.path.dirname(folder)


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Have an error of writing to `path` say that it is about that file, and how much is free where it must."""
    try:
        yield
    except OSError as error:
        told = of_writing(error, path)
        if told is error:
            raise
        raise told from error


def write_parts(path: str, parts: Sequence[Any]) -> None:
    """Write a new file from bytes-like `parts`; a temporary one, since a local file is there before it is whole."""
    if is_local(path):
        make_directory(os.path.dirname(path))
        with writing(path), open(path, "xb", buffering=0) as file:
            for part in parts:
                view = memoryview(part).cast("B")
                while view:
                    view = view[file.write(view) :]
        return
    object_store(path).write(path, b"".join(parts))


@contextmanager
def open_write(path: str) -> Iterator[Any]:
    """A new file that takes bytes by `write`, as they come; as `write_parts`, a temporary one: what is interrupted may
    leave part of it, on an object store too."""
    if is_local(path):
        make_directory(os.path.dirname(path))
        with writing(path), open(path, "xb") as file:
            yield file
        return
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    prepare_clients()
    with FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        yield file


def write_text(path: str, text: str, temporary: str | None = None, sync: bool = True) -> None:
    """Write `text`, as UTF-8, as write_bytes does."""
    write_bytes(path, text.encode(), temporary, sync)


def write_bytes(path: str, data: bytes, temporary: str | None = None, sync: bool = True) -> None:
    """Write `data` whole or not at all, and wait until it is on its disk if `sync`; object stores do all that anyway.

    A local file is written to `temporary`, by default its name with a suffix, and renamed; where several processes may
    write to one path, each needs one of its own. Nothing is left of it where that fails.
    """
    if not is_local(path):
        object_store(path).write(path, data)
        return
    temporary = temporary or path + TEMP_SUFFIX
    try:
        _write(temporary, data, sync)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    if sync:
        sync_directories([os.path.dirname(path)])


def write_all(files: Mapping[str, bytes]) -> None:
    """Write the files at several paths, as `write_bytes` does but for the wait; many at once on object stores."""
    with ThreadPoolExecutor(_WRITERS, "shardmill-write") as pool:
        local = [path for path in files if is_local(path)]
        written = [pool.submit(write_bytes, path, files[path]) for path in files if path not in local]
        for path in local:
            write_bytes(path, files[path], sync=False)
        for future in written:
            future.result()


def create_text(path: str, text: str, temporary: str) -> None:
    """As `write_text`, but of a file that is not there yet: of several processes, one succeeds.

    Raises:
      FileExistsError: it is there.
    """
    if not is_local(path):
        object_store(path).create(path, text.encode())
        return
    _write(temporary, text.encode(), sync=True)
    link(temporary, path)
    sync_directories([os.path.dirname(path)])


def link(temporary: str, path: str) -> None:
    """Give a local file a name that is not there yet, as well or instead; raises FileExistsError if it is."""
    try:
        os.link(temporary, path)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError:  # a file system without links: of two at once, who comes later wins
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, "it is there already", path) from None
        os.replace(temporary, path)


def move(source: str, destination: str) -> None:
    """Rename a local file; one of the other name is replaced."""
    os.replace(source, destination)


def touch(path: str) -> None:
    """Let a local file be as if it were written now, by the clock of its disk."""
    os.utime(path)


def remove_empty(folder: str) -> None:
    """Remove a local folder if nothing is in it."""
    if is_local(folder):
        with suppress(OSError):
            os.rmdir(folder)


def _write(path: str, data: bytes, sync: bool) -> None:
    make_directory(os.path.dirname(path))
    with writing(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            while data:
                data = data[os.write(descriptor, data) :]
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_files(paths: Iterable[str]) -> None:
    """Wait until local files are on their disks, whoever wrote them; what an object store has acknowledged, it has."""
    with ThreadPoolExecutor(_SYNCERS, "shardmill-sync") as pool:
        for _ in pool.map(_sync, filter(is_local, paths)):
            pass


def sync_directories(paths: Iterable[str]) -> None:
    """Wait until the names in local directories are on their disks."""
    for path in filter(is_local, paths):
        try:
            _sync(path or ".")
        except OSError as error:
            # Of file systems that sync no directories, and directories that may be written to, but not be read
            if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES):
                raise


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with writing(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(sources: Sequence[str], destinations: Sequence[str]) -> None:
    """Rename each source to its destination, replacing it; a source already renamed by an earlier attempt is passed
    over.

    Raises:
      FileNotFoundError: neither a source nor its destination exists.
    """
    there = _existing(sources)
    moves = []
    for source, destination in zip(sources, destinations, strict=True):
        if source in there:
            moves.append(Rename(source, destination, there[source]))
        elif not exists(destination):
            raise FileNotFoundError(f"neither {source} nor {destination} exists")
    remote = defaultdict(list)
    for move in moves:
        if is_local(move.source):
            make_directory(os.path.dirname(move.destination))
            os.replace(move.source, move.destination)
        else:
            remote[_bucket(move.source)].append(move)
    for renamed in remote.values():
        object_store(renamed[0].source).rename(renamed)


def _existing(paths: Sequence[str]) -> dict[str, int]:
    """Those of `paths` that exist, and their sizes in bytes; objects below one folder are found with one listing, not
    with a request each."""
    found = {path: os.path.getsize(path) for path in paths if is_local(path) and os.path.exists(path)}
    outer = ""
    for folder in sorted({f"{path.rpartition('/')[0]}/" for path in paths if not is_local(path)}):
        if not outer or not folder.startswith(outer):
            outer = folder
            found.update(object_store(folder).list(folder))
    return found


def put_in_place(source: str, destination: str) -> bool:
    """Let a small file have another name, replacing what has it; whether it was there, for an earlier attempt may have
    done so already.

    On an object store, where that is a copy, the first is left for whoever clears its folder.
    """
    if is_local(source):
        if not os.path.exists(source):
            return False
        make_directory(os.path.dirname(destination))
        os.replace(source, destination)
        sync_directories([os.path.dirname(destination)])
        return True
    try:
        data = read_bytes(source)
    except FileNotFoundError:
        return False
    write_bytes(destination, data)
    return True


def delete(paths: Iterable[str]) -> None:
    """Delete the files at exactly these paths, wherever each lies; one that is gone already is no error."""
    remote = defaultdict(list)
    for path in paths:
        if is_local(path):
            with suppress(FileNotFoundError):
                os.remove(path)
        else:
            remote[_bucket(path)].append(path)
    for urls in remote.values():
        object_store(urls[0]).delete(urls)


def _bucket(url: str) -> str:
    """Scheme and bucket, or host: what one request of an object store is about."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.remove(path)


def delete_tree(directory: str) -> None:
    """Delete `directory` and all below it; no error if there is none."""
    if is_local(directory):
        if os.path.isdir(directory):
            with ThreadPoolExecutor(_DELETERS, "shardmill-delete") as pool:
                list(pool.map(_remove, [join(directory, name) for name, _ in list_files(directory)]))
            for folder, folders, _ in os.walk(directory, topdown=False):
                for link in filter(os.path.islink, [join(folder, name) for name in folders]):
                    _remove(link)
                with suppress(FileNotFoundError):
                    os.rmdir(folder)
    else:
        delete([url for url, _ in object_store(directory).list(f"{directory.rstrip('/')}/")])


def abort_uploads(prefix: str) -> None:
    """Forget what was being uploaded to names that start with `prefix`; nothing to do on local disks."""
    if not is_local(prefix):
        object_store(prefix).abort_uploads(prefix)


class BeamFiles:
    """shardmill.filesystems.local.Files for whatever Beam opens."""

    def open(self, path: str) -> BinaryIO:
        """Open `path` for reading."""
        return open_read(path)

    def read(self, path: str) -> bytes:
        """The bytes of a file, in one request of an object store."""
        if is_local(path) and not os.path.exists(path):  # in a file, or in a folder that may not be searched, too
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return read_bytes(path)

    def exists(self, path: str) -> bool:
        """Whether there is a file at `path`."""
        return exists(path)

    def folders(self, path: str) -> list[str]:
        """The names in `path` that may be folders; raises OSError."""
        return LocalFiles().folders(path) if is_local(path) else list_folders(path)
