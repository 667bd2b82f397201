"""Bytes that may be held at once, by whatever threads there are. Pure."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Budget:
    """Gives out bytes in the order in which they were asked for, so that what asks for many has its turn too.

    Whoever holds some must not ask for more: two of them could wait for each other.
    """

    def __init__(self, size_bytes: int) -> None:
        """Raises ValueError if `size_bytes` are none."""
        if size_bytes <= 0:
            raise ValueError(f"a budget of {size_bytes} bytes; expected some")
        self._size_bytes = self._left = size_bytes
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @property
    def size_bytes(self) -> int:
        """Of all that is held at once."""
        return self._size_bytes

    @contextmanager
    def take(self, size_bytes: int) -> Iterator[None]:
        """Hold so many bytes, once they are there; what is more than all there is, is held when nothing else is."""
        wanted, turn = min(max(size_bytes, 0), self._size_bytes), object()
        with self._changed:
            self._waiting.append(turn)
            try:
                self._changed.wait_for(lambda: self._waiting[0] is turn and self._left >= wanted)
                self._left -= wanted
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._left += wanted
                self._changed.notify_all()
