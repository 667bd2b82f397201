"""What is read by ranges as a file to read."""

import io
from collections.abc import Callable
from typing import Any


class RangeReader(io.RawIOBase):
    """A file of which ranges are asked for."""

    def __init__(
        self, read_range: Callable[[int, int], bytes], size_bytes: int, end: Callable[[], None] = lambda: None
    ) -> None:
        """Args:

        read_range: at least a byte from an offset, and at most so many; raises EOFError where there are none.
        size_bytes: of the file.
        end: called once no more is asked for.
        """
        self._read_range, self._size, self._end, self._position = read_range, size_bytes, end, 0

    def close(self) -> None:
        """As of any file."""
        if not self.closed:
            self._end()
        super().close()

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As of any file."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        """As of any file."""
        return self._position

    def readinto(self, buffer: Any) -> int:
        """As of any file."""
        length = min(len(buffer), self._size - self._position)
        if length <= 0:
            return 0
        try:
            data = self._read_range(self._position, length)
        except EOFError:  # it is smaller than it was
            return 0
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
