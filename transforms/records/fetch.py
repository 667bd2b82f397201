"""Parts of files in an object store, fetched whole before they are read a piece at a time: a request takes some ten
milliseconds, whatever it brings, and a disk of the worker's none."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import NamedTuple

from shardmill.transforms.stores import storage
from shardmill.transforms.workers.memory import budget
from shardmill.transforms.workers.spool import Spool

REQUESTS_AT_ONCE = 32  # what a store at some distance answers while the first of them is on its way
_MOST_BYTES = 2 << 20  # of a request: so much is held by each of those under way


class Range(NamedTuple):
    """`length` bytes at `offset` of the file at `path`."""

    path: str
    offset: int
    length: int


class _Request(NamedTuple):
    """What is read at once, and where it is put."""

    read: Range
    target: int


def fetch(ranges: Sequence[Range]) -> tuple[Spool, list[int]]:
    """Read ranges of objects, many at once; the spool that holds them, and the offset of each in it.

    Raises:
      OSError: one cannot be read.
    """
    spool = Spool()
    offsets = list(accumulate((asked.length for asked in ranges), initial=0))

    def fetch_part(request: _Request) -> None:
        with budget().take(request.read.length):
            spool.write(request.target, storage.read_range(*request.read))

    parts = [
        _Request(Range(asked.path, asked.offset + start, min(_MOST_BYTES, asked.length - start)), target + start)
        for asked, target in zip(ranges, offsets, strict=False)
        for start in range(0, asked.length, _MOST_BYTES)
    ]
    with ThreadPoolExecutor(REQUESTS_AT_ONCE, "shardmill-fetch") as pool:
        try:
            list(pool.map(fetch_part, parts))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return spool, offsets[:-1]
