"""File operations that take names as they are, on local disks and on object stores.

Beam's FileSystems treats a name as a glob in `match` and `delete`, so local paths go to transforms.stores.local, and
URLs to shardmill.transforms.stores.clients, which take exact names both.
"""

import errno
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from shardmill.filesystems.local import LocalFiles
from shardmill.transforms.stores import local
from shardmill.transforms.stores.clients import object_store, prepare_clients
from shardmill.transforms.stores.error_text import NotAFileError, error_text
from shardmill.transforms.stores.object_file import open_object
from shardmill.transforms.stores.protocol import FileStat, Upload

_WRITERS = 16  # threads: a write of a small object is a wait of some tens of milliseconds


def is_local(path: str) -> bool:
    """Whether `path` is a local path rather than a URL (`gs://…`)."""
    return "://" not in path


def join(directory: str, name: str) -> str:
    """`name` under `directory`."""
    return f"{directory.rstrip('/')}/{name}" if directory != "/" else f"/{name}"


def open_read(path: str, end: int | None = None) -> BinaryIO:
    """Open `path` for reading its bytes as they are; those from `end` on, where it is given, are not wanted: a store is
    neither asked for them nor for how many there are.

    Raises:
      OSError: it cannot be opened; FileNotFoundError if it does not exist.
    """
    return open(path, "rb") if is_local(path) else open_object(path, end)


def open_beginning(path: str, size_bytes: int, range_bytes: int) -> BinaryIO:
    """As `open_read` of a file of `size_bytes`, of which hardly more than the first `range_bytes` are wanted."""
    return open(path, "rb") if is_local(path) else open_object(path, size_bytes, max(range_bytes, 1))


def read_bytes(path: str) -> bytes:
    """The bytes of `path`; raises as `open_read` does."""
    return local.read_bytes(path) if is_local(path) else object_store(path).read(path)


def read_small(paths: list[str]) -> list[bytes | None]:
    """The bytes of some files, as far as they are small and on a local disk, all read at once; None of any other, and
    of one that cannot be read: `read_bytes` says why."""
    found: list[bytes | None] = [None] * len(paths)
    places = [place for place, path in enumerate(paths) if is_local(path)]
    for place, data in zip(places, local.read_small([paths[place] for place in places]), strict=True):
        found[place] = data
    return found


def read_range(path: str, offset: int, length: int) -> bytes:
    """`length` bytes of `path` from `offset`, all of which must be there.

    Raises:
      OSError: it cannot be read; EOFError if it ends before.
    """
    if not length:
        return b""
    read = local.read_range if is_local(path) else object_store(path).read_range
    data = read(path, offset, length)
    if len(data) < length:
        raise EOFError(f"{path}: {len(data)} bytes at {offset}, expected {length}")
    return data


def read_into(path: str, offset: int, target: memoryview) -> None:
    """Fill `target`, of bytes, from `path` at `offset`; raises as `read_range`."""
    if is_local(path):
        local.read_into(path, offset, target)
    else:
        target[:] = read_range(path, offset, len(target))


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
    return local.stat_file(path).size_bytes if is_local(path) else object_store(path).size(path)


def stat_file(path: str) -> FileStat:
    """What the store says of the file at `path`; raises OSError if there is none, or something that is not a file."""
    return local.stat_file(path) if is_local(path) else object_store(path).stat(path)


def list_files(directory: str) -> Iterator[tuple[str, int]]:
    """All files below `directory`, as (name relative to it, bytes), in no particular order; none if it is missing.

    Raises:
      OSError: there is no such bucket, or it cannot be listed.
    """
    root = directory.rstrip("/") or "/"
    if is_local(root):
        yield from local.list_files(root)
        return
    for url, size_bytes in object_store(root).list(f"{root}/"):
        if not url.endswith("/"):  # a "folder" object of the cloud console
            yield url[len(root) + 1 :], size_bytes


def stat_files(directory: str) -> Iterator[FileStat]:
    """As `list_files`, with what the store says of each file; those that go meanwhile are left out."""
    if not is_local(directory):
        yield from object_store(directory).stats(f"{directory.rstrip('/')}/")
        return
    for name, _ in local.list_files(directory):
        with suppress(FileNotFoundError, NotAFileError):
            yield local.stat_file(join(directory, name))


def list_folders(directory: str) -> list[str]:
    """The names of the folders in `directory`, empty ones too where there are such; none if it is missing."""
    if is_local(directory):
        return local.list_folders(directory)
    return list(object_store(directory).folders(f"{directory.rstrip('/')}/"))


def make_directory(path: str) -> None:
    """Make `path` and its parents, and wait until their names are on their disk; nothing to do on an object store."""
    if is_local(path):
        local.make_directory(path)


def write_parts(path: str, parts: Sequence[Any]) -> None:
    """Write a new file from bytes-like `parts`; a temporary one, since a local file is there before it is whole."""
    if is_local(path):
        local.write_parts(path, parts)
    else:
        object_store(path).write(path, b"".join(parts))


def upload(path: str) -> Upload | None:
    """A new object, to be written as its bytes come and then closed, where the store has a way of its own; None on a
    local disk, and where Beam's file systems write it."""
    return None if is_local(path) else object_store(path).upload(path)


@contextmanager
def open_write(path: str) -> Iterator[Any]:
    """A new file that takes bytes by `write`, as they come; as `write_parts`, a temporary one: what is interrupted may
    leave part of it, on an object store too."""
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
    """Write `text`, as UTF-8, as write_bytes does."""
    write_bytes(path, text.encode(), temporary, sync)


def write_bytes(path: str, data: bytes, temporary: str | None = None, sync: bool = True) -> None:
    """Write `data` whole or not at all, and wait until it is on its disk if `sync`; object stores do all that anyway.

    `temporary` and what it is for on a local disk: see `local.write_bytes`.
    """
    if is_local(path):
        local.write_bytes(path, data, temporary, sync)
    else:
        object_store(path).write(path, data)


def write_all(files: Mapping[str, bytes]) -> None:
    """Write the files at several paths, as `write_bytes` does but for the wait; many at once on object stores."""
    with ThreadPoolExecutor(_WRITERS, "shardmill-write") as pool:
        remote = [path for path in files if not is_local(path)]
        written = [pool.submit(write_bytes, path, files[path]) for path in remote]
        for path in filter(is_local, files):
            write_bytes(path, files[path], sync=False)
        for future in written:
            future.result()


def create_text(path: str, text: str, temporary: str) -> None:
    """As `write_text`, but of a file that is not there yet: of several processes, one succeeds.

    Raises:
      FileExistsError: it is there.
    """
    if is_local(path):
        local.create(path, text.encode(), temporary)
    else:
        object_store(path).create(path, text.encode())


def remove_empty(folder: str) -> None:
    """Remove a local folder if nothing is in it; nothing to do on an object store."""
    if is_local(folder):
        local.remove_empty(folder)


def sync_files(paths: Iterable[str]) -> None:
    """Wait until local files are on their disks, whoever wrote them; what an object store has acknowledged, it has."""
    local.sync_files(filter(is_local, paths))


def sync_directories(paths: Iterable[str]) -> None:
    """Wait until the names in local directories are on their disks."""
    local.sync_directories(filter(is_local, paths))


def delete(paths: Iterable[str]) -> None:
    """Delete the files at exactly these paths, wherever each lies; one that is gone already is no error."""
    remote = defaultdict(list)
    for path in paths:
        if is_local(path):
            local.remove(path)
        else:
            remote[bucket_of(path)].append(path)
    for urls in remote.values():
        object_store(urls[0]).delete(urls)


def bucket_of(url: str) -> str:
    """Scheme and bucket, or host: what one request of an object store is about."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def delete_tree(directory: str) -> None:
    """Delete `directory` and all below it; no error if there is none."""
    if is_local(directory):
        local.delete_tree(directory)
    else:
        delete([url for url, _ in object_store(directory).list(f"{directory.rstrip('/')}/")])


@contextmanager
def cleaning_up(clean_up: Callable[[], Any]) -> Iterator[None]:
    """Call `clean_up` on leaving the block. If both fail, raise the error of the block, with a note of the other."""
    try:
        yield
    except BaseException as error:
        try:
            clean_up()
        except Exception as failed:
            error.add_note(f"what it left could not be deleted: {error_text(failed)}")
        raise
    clean_up()


def abort_uploads(prefix: str) -> None:
    """Forget what was being uploaded to names that start with `prefix`; nothing to do on local disks."""
    if not is_local(prefix):
        object_store(prefix).abort_uploads(prefix)


class StorageFiles:
    """These operations, as shardmill.filesystems.local.Files asks for them."""

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
