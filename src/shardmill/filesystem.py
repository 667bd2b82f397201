"""Files that readers open: on local disks, or elsewhere through TensorFlow's gfile."""

import io
import os
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast, runtime_checkable

from shardmill.errors import UserError
from shardmill.installed import tf

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


Paths = str | os.PathLike[str] | Sequence[str]  # of a data set, or of one or several files


class Files(Protocol):
    """The two operations that readers need of a file system; see transforms.stores.storage for object stores."""

    def open(self, path: str) -> BinaryIO:
        """Open `path` for reading; raise FileNotFoundError if it does not exist."""

    def exists(self, path: str) -> bool:
        """Return True if there is a file at `path`."""


@runtime_checkable
class FolderLister(Protocol):
    """An optional operation of files: list folders, so that an error can list the published versions."""

    def folders(self, path: str) -> list[str]:
        """Return the names in `path` that may be folders, in any order; raise OSError on failure."""


@runtime_checkable
class SmallFileReader(Protocol):
    """An optional operation of files: read a small file in one request, where opening and reading would take two."""

    def read(self, path: str) -> bytes:
        """Return the bytes of a small file; raise FileNotFoundError if it does not exist."""


@runtime_checkable
class RangeFiles(Protocol):
    """An optional operation of files: read a range of bytes in one request, without the size of the file."""

    def read_range(self, path: str, start: int, size: int) -> bytes:
        """Return `size` bytes from `start` on, fewer at the file's end; raise FileNotFoundError if it is missing."""


def read_range(files: Files, path: str, start: int, size: int) -> bytes:
    """Return `size` bytes of a file from `start` on, fewer at its end; in one request if `files` supports that.

    Raises:
        FileNotFoundError: if the file does not exist.
    """
    if isinstance(files, RangeFiles):
        return files.read_range(path, start, size)
    with files.open(path) as file:
        file.seek(start)
        return file.read(size)


def read_small_file(files: Files, path: str) -> bytes:
    """Return the bytes of a small file, in one request if `files` supports that.

    Raises:
        FileNotFoundError: if the file does not exist.
    """
    if isinstance(files, SmallFileReader):
        return files.read(path)
    with files.open(path) as file:
        return file.read()


def read_if_exists(files: Files, path: str) -> bytes | None:
    """Return the bytes of a small file, or None if it does not exist."""
    if not isinstance(files, SmallFileReader):
        return read_small_file(files, path) if files.exists(path) else None
    try:
        return files.read(path)
    except FileNotFoundError:
        return None


class ChecksummedFile(io.RawIOBase):
    """A file that counts and checksums its bytes while they are read."""

    def __init__(self, file: BinaryIO) -> None:
        from google_crc32c import extend  # late: most commands begin without it

        self._file, self._extend = file, extend
        self.size_bytes = self.crc32c = 0

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.size_bytes += len(data)
        self.crc32c = self._extend(self.crc32c, data)
        return data

    def readinto(self, buffer: "WriteableBuffer") -> int:
        target = memoryview(buffer)
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)


class LocalFiles:
    """The local file system."""

    def open(self, path: str) -> BinaryIO:
        return open(path, "rb")

    def exists(self, path: str) -> bool:
        """Return True if there is a file at `path`; raise PermissionError if its folder may not be searched."""
        try:
            return stat.S_ISREG(os.stat(path).st_mode)
        except PermissionError:
            raise
        except (OSError, ValueError):
            return False

    def size(self, path: str) -> int:
        """Return the size of a file in bytes; raise FileNotFoundError if it does not exist."""
        return os.stat(path).st_size

    def folders(self, path: str) -> list[str]:
        return os.listdir(path)


class GFiles:
    """Files through `tf.io.gfile`; TensorFlow is imported at the first call."""

    def open(self, path: str) -> BinaryIO:
        if not self.exists(path):
            raise FileNotFoundError(path)
        return cast(BinaryIO, tf.io.gfile.GFile(path, "rb"))

    def exists(self, path: str) -> bool:
        """Return True if there is a file at `path`; raise UserError if TensorFlow has no file system for its scheme."""
        try:
            return tf.io.gfile.exists(path)
        except tf.errors.UnimplementedError as error:
            scheme = path.split("://")[0]
            raise UserError(
                f"{path}: TensorFlow has no file system for {scheme}://; import tensorflow_io first, which adds some"
            ) from error

    def size(self, path: str) -> int:
        """Return the size of a file in bytes; raise FileNotFoundError if it does not exist."""
        try:
            return tf.io.gfile.stat(path).length
        except tf.errors.NotFoundError as error:
            raise FileNotFoundError(path) from error

    def folders(self, path: str) -> list[str]:
        try:
            return [name.rstrip("/") for name in tf.io.gfile.listdir(path)]
        except tf.errors.NotFoundError as error:
            raise FileNotFoundError(path) from error
        except tf.errors.OpError as error:
            raise OSError(f"{path} cannot be listed: {error.message}") from error
