"""An object of an object store as a file to read: ranges of some megabytes at a time, by the object's exact name."""

import io

from transforms.stores.clients import object_store
from transforms.stores.range_reader import RangeReader

_RANGE_BYTES = 8 << 20  # a request takes some ten milliseconds, in which as much could be read


def open_object(url: str, size_bytes: int | None = None, range_bytes: int = _RANGE_BYTES) -> io.BufferedReader:
    """Open an object.

    Args:
      url: of it.
      size_bytes: its size, or of its first bytes that are wanted; None to ask for it.
      range_bytes: asked for at once.

    Raises:
      FileNotFoundError, OSError: here or as it is read.
    """
    size = object_store(url).size(url) if size_bytes is None else size_bytes

    def read_range(offset: int, length: int) -> bytes:
        return object_store(url).read_range(url, offset, length)  # of the thread that reads

    return io.BufferedReader(RangeReader(read_range, size), range_bytes)
