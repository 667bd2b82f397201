"""What readers ask of a file system, and the local one."""

import os
from typing import BinaryIO, Protocol, runtime_checkable


class Files(Protocol):
    """The two operations a reader needs of a file system; see shardmill.transforms.stores.storage for object stores."""

    def open(self, path: str) -> BinaryIO:
        """Open `path` for reading; raises FileNotFoundError."""

    def exists(self, path: str) -> bool:
        """Whether there is a file at `path`."""


@runtime_checkable
class Folders(Protocol):
    """A further operation, with which an error can say which versions are there; files need not have it."""

    def folders(self, path: str) -> list[str]:
        """The names in `path` that may be folders, in any order; raises OSError."""


@runtime_checkable
class Whole(Protocol):
    """A further operation, for stores where to open a file is a request and to read it another; files need not have
    it."""

    def read(self, path: str) -> bytes:
        """The bytes of a small file; raises FileNotFoundError."""


def read_whole(files: Files, path: str) -> bytes:
    """The bytes of a small file, in one request where `files` can; raises FileNotFoundError."""
    if isinstance(files, Whole):
        return files.read(path)
    with files.open(path) as file:
        return file.read()


def read_if_there(files: Files, path: str) -> bytes | None:
    """As `read_whole`; None if there is no such file."""
    if not isinstance(files, Whole):
        return read_whole(files, path) if files.exists(path) else None
    try:
        return files.read(path)
    except FileNotFoundError:
        return None


class LocalFiles:
    """The local file system."""

    def open(self, path: str) -> BinaryIO:
        """Open `path` for reading."""
        return open(path, "rb")

    def exists(self, path: str) -> bool:
        """Whether there is a file at `path`."""
        return os.path.isfile(path)

    def size(self, path: str) -> int:
        """The size of a file in bytes; raises FileNotFoundError."""
        return os.stat(path).st_size

    def folders(self, path: str) -> list[str]:
        """The names in a folder; raises OSError."""
        return os.listdir(path)
