"""An object of an object store as a file to read: ranges of some megabytes at a time, by the object's exact name."""

import io
from typing import Any

from transforms.stores.clients import object_store

_RANGE_BYTES = 8 << 20  # a request takes some ten milliseconds, in which as much could be read


class _ObjectReader(io.RawIOBase):
    def __init__(self, url: str, size_bytes: int | None) -> None:
        self._url, self._position = url, 0
        self._size = object_store(url).size(url) if size_bytes is None else size_bytes

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size - self._position)
        if length <= 0:
            return 0
        try:
            data = object_store(self._url).read_range(self._url, self._position, length)  # of this thread
        except EOFError:  # it is smaller than it was
            return 0
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


def open_object(url: str, size_bytes: int | None = None, range_bytes: int = _RANGE_BYTES) -> io.BufferedReader:
    """Open an object.

    Args:
      url: of it.
      size_bytes: its size, or of its first bytes that are wanted; None to ask for it.
      range_bytes: asked for at once.

    Raises:
      FileNotFoundError, OSError: here or as it is read.
    """
    return io.BufferedReader(_ObjectReader(url, size_bytes), range_bytes)
