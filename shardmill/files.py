"""What readers ask of a file system, and the local one."""

import os
from typing import BinaryIO, Protocol, runtime_checkable


class Files(Protocol):
    """The two operations a reader needs of a file system; see transforms.stores.storage for object stores."""

    def open(self, path: str) -> BinaryIO:
        """Open `path` for reading; raises FileNotFoundError."""

    def exists(self, path: str) -> bool:
        """Whether there is a file at `path`."""


@runtime_checkable
class Folders(Protocol):
    """A further operation, with which an error can say which versions are there; files need not have it."""

    def folders(self, path: str) -> list[str]:
        """The names in `path` that may be folders, in any order; raises OSError."""


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
