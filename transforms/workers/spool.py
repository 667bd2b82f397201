"""A file without a name on the worker's disk, for what is more than a worker should hold."""

import os
import tempfile
import weakref
from collections.abc import Iterator

from shardmill.transforms.stores import local


class Spool:
    """A file without a name, on the worker's disk for temporary files; gone with the last who refers to it."""

    def __init__(self) -> None:
        """Raises OSError: there is no folder for temporary files."""
        self._descriptor, path = tempfile.mkstemp(prefix="shardmill-")
        self._folder = os.path.dirname(path)
        os.unlink(path)
        weakref.finalize(self, os.close, self._descriptor)

    def write(self, offset: int, data: bytes) -> None:
        """Write `data` at `offset`; raises OSError, as where the disk is full."""
        view = memoryview(data).cast("B")
        with local.writing(self._folder):
            while view:
                count = os.pwrite(self._descriptor, view[: local.PIECE_BYTES], offset)
                view, offset = view[count:], offset + count

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill `target`, of bytes, from `offset`, all of which was written."""
        while target:
            count = os.preadv(self._descriptor, [target], offset)
            if not count:
                raise EOFError(f"{len(target)} bytes fewer at {offset} than were written")
            target, offset = target[count:], offset + count

    def chunks(self, offset: int, length: int, most: int) -> Iterator[bytes]:
        """`length` bytes from `offset`, all of which was written, `most` at a time."""
        for start in range(offset, offset + length, most):
            chunk = bytearray(min(most, offset + length - start))
            self.read_into(start, memoryview(chunk))
            yield bytes(chunk)
