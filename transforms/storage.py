"""File operations that take names as they are, on local disks and on whatever Beam's FileSystems opens.

FileSystems treats a name as a glob in `match` and `delete`, and a local name may hold `[`, `*` or bytes that are not
UTF-8; so local names go to `os`, and only URLs to FileSystems, by exact match.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, cast

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from shardmill.naming import TEMP_SUFFIX


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
    try:
        return cast(BinaryIO, FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED))
    except Exception as error:
        raise _as_os_error(path, error) from error


def _as_os_error(path: str, error: Exception) -> OSError:
    """`error` as an OSError: each cloud client raises errors of its own for a missing object."""
    missing = isinstance(error, FileNotFoundError) or not FileSystems.exists(path)
    return FileNotFoundError(f"no such object: {path}") if missing else OSError(f"{path}: {error}")


def read_bytes(path: str) -> bytes:
    """The bytes of `path`; raises as `open_read` does."""
    if is_local(path):
        # Two system calls fewer than a file object: this is the inner loop of a job over small images.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _read_all(descriptor, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)
    try:
        with open_read(path) as file:
            return file.read()
    except OSError:
        raise
    except Exception as error:
        raise _as_os_error(path, error) from error


def _read_all(descriptor: int, size: int) -> bytes:
    data = os.read(descriptor, size + 1)
    if len(data) == size:
        return data
    parts = [data]
    while data := os.read(descriptor, 1 << 20):
        parts.append(data)
    return b"".join(parts)


def exists(path: str) -> bool:
    """Whether there is a file or a local directory at `path`."""
    return os.path.exists(path) if is_local(path) else FileSystems.exists(path)


def size(path: str) -> int:
    """The size in bytes of the file at `path`; raises OSError if there is none."""
    if is_local(path):
        return os.stat(path).st_size
    for name, size_bytes in match(path):
        if name == path:
            return size_bytes
    raise FileNotFoundError(f"no such file: {path}")


def list_files(directory: str) -> Iterator[tuple[str, int]]:
    """All files below `directory`, as (name relative to it, bytes), in no particular order; none if it is missing."""
    root = directory.rstrip("/") or "/"
    if is_local(root):
        for folder, _, files in os.walk(root):
            for file in files:
                path = os.path.join(folder, file)
                yield os.path.relpath(path, root), os.lstat(path).st_size
        return
    for path, size_bytes in match(f"{root}/**"):
        if not path.endswith("/"):  # a "folder" object of the cloud console
            yield path[len(root) + 1 :], size_bytes


def list_folders(directory: str) -> list[str]:
    """The names of the folders in `directory`, empty ones too where there are such; none if it is missing."""
    if not is_local(directory):
        return sorted({name.split("/")[0] for name, _ in list_files(directory) if "/" in name})
    if not os.path.isdir(directory):
        return []
    return sorted(entry.name for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=False))


def match(pattern: str) -> Iterator[tuple[str, int]]:
    """The objects whose URL matches a glob, as (URL, bytes)."""
    for result in FileSystems.match([pattern]):
        for metadata in result.metadata_list:
            yield metadata.path, metadata.size_in_bytes


def make_directory(path: str) -> None:
    """Make `path` and its parents; nothing to do on an object store."""
    if is_local(path):
        os.makedirs(path, exist_ok=True)


def write_text(path: str, text: str) -> None:
    """Write `text`, as UTF-8, whole or not at all: to a temporary name that is then renamed; object stores do that anyway."""
    if is_local(path):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        temporary = path + TEMP_SUFFIX
        with open(temporary, "wb") as file:
            file.write(text.encode())
        os.replace(temporary, path)
        return
    with FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        file.write(text.encode())


def rename(sources: Sequence[str], destinations: Sequence[str]) -> None:
    """Rename each source to its destination, replacing it; a source already renamed by an earlier attempt is passed over.

    Raises:
      FileNotFoundError: neither a source nor its destination exists.
    """
    moves = []
    for source, destination in zip(sources, destinations, strict=True):
        if exists(source):
            moves.append((source, destination))
        elif not exists(destination):
            raise FileNotFoundError(f"neither {source} nor {destination} exists")
    for source, destination in moves:
        if is_local(source):
            os.replace(source, destination)
    remote = [move for move in moves if not is_local(move[0])]
    if remote:
        FileSystems.rename([source for source, _ in remote], [destination for _, destination in remote])


def delete(paths: Iterable[str]) -> None:
    """Delete the files at exactly these paths; one that is gone already is no error."""
    remote = []
    for path in paths:
        if not is_local(path):
            remote.append(path)
        elif os.path.lexists(path):
            os.remove(path)
    if remote:
        try:
            FileSystems.delete(remote)
        except BeamIOError:
            left = [path for path in remote if FileSystems.exists(path)]
            if left:
                raise


def delete_tree(directory: str) -> None:
    """Delete `directory` and all below it; no error if there is none."""
    if is_local(directory):
        if os.path.isdir(directory):
            shutil.rmtree(directory)
    else:
        delete([join(directory, name) for name, _ in list_files(directory)])


class BeamFiles:
    """shardmill.dataset.Files for whatever Beam opens."""

    def open(self, path: str) -> BinaryIO:
        """Open `path` for reading."""
        return open_read(path)

    def exists(self, path: str) -> bool:
        """Whether there is a file at `path`."""
        return exists(path)
