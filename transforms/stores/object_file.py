"""An object of an object store as a file to read: ranges of some megabytes at a time, by the object's exact name, and
some of them ahead where it is read from one end to the other."""

import io

from shardmill.transforms.stores.clients import object_store
from shardmill.transforms.stores.range_reader import RangeReader
from shardmill.transforms.stores.read_ahead import ReadAhead

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

    ranges = ReadAhead(read_range, size, range_bytes)
    return io.BufferedReader(RangeReader(ranges.read, size, ranges.close), range_bytes)
