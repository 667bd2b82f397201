"""Any number of lines in order: what is more than a worker should hold waits, sorted, on its disk."""

import heapq
from collections.abc import Callable, Iterator
from typing import Any

from shardmill.transforms.rejects.part import lines
from shardmill.transforms.workers.spool import Spool

_HELD_BYTES = 8 << 20  # of lines that are sorted at once, which are ten times as much with their keys
_READ_BYTES = 4 << 20  # of all that is merged, read ahead
_LEAST_BYTES = 4 << 10  # of each


class SortedLines:
    """Takes lines without their ends, in any order, and gives them sorted."""

    def __init__(self, key: Callable[[bytes], Any], held_bytes: int = _HELD_BYTES) -> None:
        """Args:

        key: of a line; lines of one key are in the order of their bytes.
        held_bytes: of lines, until they are put aside.
        """
        self._key, self._held_bytes = key, held_bytes
        self._held: list[bytes] = []
        self._size = self._spooled = 0
        self._spool: Spool | None = None
        self._parts: list[tuple[int, int]] = []  # offset and length of what was put aside

    def add(self, line: bytes) -> None:
        """Take one; raises OSError, as where the disk is full."""
        self._held.append(line)
        self._size += len(line) + 1
        if self._size >= self._held_bytes:
            self._put_aside()

    def __iter__(self) -> Iterator[bytes]:
        if not self._parts:
            yield from sorted(self._held, key=self._order)
            return
        if self._held:
            self._put_aside()
        assert self._spool is not None
        most = max(_READ_BYTES // len(self._parts), _LEAST_BYTES)
        parts = [lines(self._spool.chunks(offset, length, most)) for offset, length in self._parts]
        yield from heapq.merge(*parts, key=self._order)

    def _put_aside(self) -> None:
        self._spool = self._spool or Spool()
        data = b"".join(line + b"\n" for line in sorted(self._held, key=self._order))
        self._spool.write(self._spooled, data)
        self._parts.append((self._spooled, len(data)))
        self._spooled += len(data)
        self._held, self._size = [], 0

    def _order(self, line: bytes) -> tuple[Any, bytes]:
        return self._key(line), line
