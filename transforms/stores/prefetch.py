"""Request pages and byte ranges of an object store before they are needed."""

import io
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from shardmill.transforms.stores.protocol import FileStat

Item = TypeVar("Item")


def prefetch_one(items: Iterable[Item]) -> Iterator[Item]:
    """Yield `items`, producing each in a thread while the caller works on the one before it."""
    iterator = iter(items)
    with ThreadPoolExecutor(1, "shardmill-ahead") as pool:
        following = pool.submit(_next, iterator)
        while found := following.result():
            following = pool.submit(_next, iterator)
            yield found[0]


def _next(iterator: Iterator[Item]) -> tuple[Item] | None:
    for item in iterator:
        return (item,)
    return None


# Read ahead and held: at most this many ranges with this many pages each, some ten megabytes
_RANGES, _PAGES = 8, 4

Page = Sequence[FileStat]
Pages = Callable[[str, str], Iterator[Page]]


def list_concurrently(pages: Pages, folders: Callable[[str], Sequence[str]], prefix: str) -> Iterator[FileStat]:
    """Yield each object whose URL starts with `prefix`, sorted as in a sequential listing.

    Names are divided at folder boundaries into ranges of some pages, estimated from the first two pages.

    Args:
        pages: (first, end) -> pages of the objects below `prefix` with first <= URL < end; "" for no bound.
        folders: (prefix) -> sorted names of the folders directly below it, all or only the first ones.
    """
    first = pages("", "")
    head = list(itertools.islice(first, 2))
    for page in head:
        yield from page
    if len(head) < 2:
        return
    cuts = find_range_bounds(prefix, head[-1][-1].path, folders) if head[-1] else []
    if not cuts:
        following = prefetch_one(first)
    else:
        following = _fetch_in_order(
            [partial(_pages_before, first, cuts[0])] + [partial(pages, *cut) for cut in itertools.pairwise([*cuts, ""])]
        )
    for page in following:
        yield from page


def find_range_bounds(prefix: str, last: str, folders: Callable[[str], Sequence[str]]) -> list[str]:
    """Return the sorted folders after `last`, the end of two pages, that divide the rest into ranges of some pages."""
    path = last[len(prefix) :].split("/")[:-1]
    above = [prefix + "".join(f"{name}/" for name in path[:depth]) for depth in range(max(1, len(path)))]
    found = sorted(f"{folder}{name}/" for folder in above for name in folders(folder))
    listed = sum(folder <= last for folder in found)
    return found[listed :: max(1, listed * _PAGES // 2)]


def _pages_before(pages: Iterator[Page], end: str) -> Iterator[Page]:
    for page in pages:
        yield [found for found in page if found.path < end]
        if page and page[-1].path >= end:
            return


def _fetch_in_order(ranges: Sequence[Callable[[], Iterator[Page]]]) -> Iterator[Page]:
    with ThreadPoolExecutor(_RANGES, "shardmill-list") as pool:
        waiting = iter(ranges)
        running: deque[Future[tuple[list[Page], Iterator[Page]]]] = deque()
        try:
            running.extend(pool.submit(_fetch_first_pages, some) for some in itertools.islice(waiting, _RANGES))
            while running:
                pages, rest = running.popleft().result()
                running.extend(pool.submit(_fetch_first_pages, some) for some in itertools.islice(waiting, 1))
                yield from pages
                yield from prefetch_one(rest) if len(pages) == _PAGES else ()
        finally:
            for future in running:
                future.cancel()


def _fetch_first_pages(some: Callable[[], Iterator[Page]]) -> tuple[list[Page], Iterator[Page]]:
    pages = some()
    return list(itertools.islice(pages, _PAGES)), pages


class RangeReader(io.RawIOBase):
    """A seekable, read-only file whose bytes come from a function."""

    def __init__(
        self, read_range: Callable[[int, int], bytes], size_bytes: int, end: Callable[[], None] = lambda: None
    ) -> None:
        """Create a file whose bytes are read by calls of `read_range`.

        Args:
            read_range: (offset, length) -> at least one and at most `length` bytes; raises EOFError if there are none.
            end: called when the file is closed.
        """
        self._read_range, self._size, self._end, self._position = read_range, size_bytes, end, 0

    def close(self) -> None:
        if not self.closed:
            self._end()
        super().close()

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
            data = self._read_range(self._position, length)
        except EOFError:  # it is smaller than it was
            return 0
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


_AHEAD = 3  # ranges, each of which is held once it came


class ReadAhead:
    """A reader of ranges that prefetches the following ones once two consecutive ranges have been read."""

    def __init__(self, read_range: Callable[[int, int], bytes], size_bytes: int, range_bytes: int) -> None:
        """Create a reader of an object that requests ranges ahead of the caller.

        Args:
            read_range: (offset, length) -> bytes; raises OSError, or EOFError if the object ends before.
            size_bytes: size of the object, or of the leading part that is needed; nothing beyond is requested.
            range_bytes: bytes per request.
        """
        self._ask, self._size, self._range_bytes = read_range, size_bytes, range_bytes
        self._pool: ThreadPoolExecutor | None = None
        self._next: deque[tuple[int, Future[bytes]]] = deque()  # by their offsets, which follow each other
        self._end: int | None = None  # of what was read last
        self._rest = b""  # which came with that

    def read(self, offset: int, length: int) -> bytes:
        """Return between one and `length` bytes at `offset`; raises as `read_range` does."""
        follows = offset == self._end
        if not follows:
            self._drop_requests()
        if self._rest:
            data = self._rest
        elif self._next:
            data = self._next.popleft()[1].result()
        else:
            data = self._ask(offset, length)
        self._rest, data = data[length:], data[:length]
        self._end = offset + len(data)
        if follows:
            self._prefetch()
        return data

    def close(self) -> None:
        """Wait for running requests, and start no more."""
        self._drop_requests()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _prefetch(self) -> None:
        assert self._end is not None
        while len(self._next) < _AHEAD:
            start = self._next[-1][0] + self._range_bytes if self._next else self._end + len(self._rest)
            if start >= self._size:
                return
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_AHEAD, "shardmill-read-ahead")
            self._next.append((start, self._pool.submit(self._ask, start, min(self._range_bytes, self._size - start))))

    def _drop_requests(self) -> None:
        while self._next:
            self._next.popleft()[1].cancel()
        self._rest = b""
