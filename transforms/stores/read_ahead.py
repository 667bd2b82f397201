"""Ranges of an object that follow each other: the next are asked for while one is used."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

_AHEAD = 3  # ranges, each of which is held once it came


class ReadAhead:
    """Reads ranges; from the second on that begins where the one before ended, those behind it are under way."""

    def __init__(self, read_range: Callable[[int, int], bytes], size_bytes: int, range_bytes: int) -> None:
        """Args:

        read_range: the bytes at an offset, of a length; raises OSError, EOFError where the object ends before.
        size_bytes: of the object, or of what is wanted of it: nothing behind is asked for.
        range_bytes: that are asked for at once.
        """
        self._ask, self._size, self._range_bytes = read_range, size_bytes, range_bytes
        self._pool: ThreadPoolExecutor | None = None
        self._next: deque[tuple[int, Future[bytes]]] = deque()  # by their offsets, which follow each other
        self._end: int | None = None  # of what was read last
        self._rest = b""  # which came with that

    def read(self, offset: int, length: int) -> bytes:
        """At least a byte at `offset`, and at most `length`; raises as `read_range` does."""
        follows = offset == self._end
        if not follows:
            self._forget()
        if self._rest:
            data = self._rest
        elif self._next:
            data = self._next.popleft()[1].result()
        else:
            data = self._ask(offset, length)
        self._rest, data = data[length:], data[:length]
        self._end = offset + len(data)
        if follows:
            self._ask_ahead()
        return data

    def close(self) -> None:
        """Wait for what is under way, and ask for no more."""
        self._forget()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _ask_ahead(self) -> None:
        assert self._end is not None
        while len(self._next) < _AHEAD:
            start = self._next[-1][0] + self._range_bytes if self._next else self._end + len(self._rest)
            if start >= self._size:
                return
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_AHEAD, "shardmill-read-ahead")
            self._next.append((start, self._pool.submit(self._ask, start, min(self._range_bytes, self._size - start))))

    def _forget(self) -> None:
        while self._next:
            self._next.popleft()[1].cancel()
        self._rest = b""
