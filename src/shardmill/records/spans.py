"""Checksums, hashes and copies of many spans of a buffer in one call: no Python call for each record.

`shardmill._native` does it, several times as fast as Python and beside other threads; where that could not be compiled,
for want of a C compiler, `shardmill.records.python_spans` gives the same results.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    from shardmill import _native as _spans
except ImportError:
    from shardmill.records import python_spans as _spans  # type: ignore[no-redef]

Places = NDArray[np.int64]
COMPILED = _spans.__name__.endswith("._native")


def checksums(data: Any, starts: Places, ends: Places) -> NDArray[np.uint32]:
    """crc32c of each `data[start:end]`: shape (n,).

    Args:
      data: a contiguous buffer.
      starts, ends: of the spans, each shape (n,).

    Raises:
      ValueError: a span is not within the buffer.
    """
    crcs = np.empty(len(starts), np.uint32)
    _spans.checksums(data, _places(starts), _places(ends), crcs)
    return crcs


def hashes(data: Any, starts: Places, ends: Places, seed: int = 0) -> NDArray[np.uint64]:
    """xxh3_64 (https://xxhash.com) of each `data[start:end]`: shape (n,); else as `checksums`."""
    found = np.empty(len(starts), np.uint64)
    _spans.hashes(data, _places(starts), _places(ends), seed, found)
    return found


def hashes_by_seed(data: Any, starts: Places, ends: Places, seeds: Sequence[int]) -> NDArray[np.uint64]:
    """For each seed the xxh3_64 of each `data[start:end]`, read once: shape (seeds, n); else as `checksums`."""
    found = np.empty((len(seeds), len(starts)), np.uint64)
    _spans.hashes_by_seed(data, _places(starts), _places(ends), np.array(seeds, np.uint64), found)
    return found


def frame(data: Any, offsets: Places) -> None:
    """Write the lengths and checksums of TFRecords (see `tfrecord`) around payloads that stand in `data` already.

    Args:
      data: a writable buffer.
      offsets: where records begin, and where the last one ends: each is 12 bytes of anything, a payload, 4 bytes of
        anything.

    Raises:
      ValueError: a record is not within the buffer, or has no room for 16 bytes.
    """
    _spans.frame(data, _places(offsets))


def copy(data: Any, starts: Places, sizes: Places, target: Any, places: Places) -> None:
    """Copy `sizes` bytes each from `starts` in `data` to `places` in `target`, a writable buffer, and not a byte more.

    Raises:
      ValueError: a span is not within its buffer.
    """
    _spans.copy(data, _places(starts), _places(sizes), target, _places(places))


def count(data: Any, byte: int) -> int:
    """How many bytes of `data` are `byte`."""
    return _spans.count(data, byte)


def find(data: Any, byte: int) -> Places:
    """Where in `data` `byte` stands, ascending: shape (n,)."""
    places = np.empty(count(data, byte), np.int64)
    _spans.find(data, byte, places)
    return places


def chain(data: Any, head: int, at: int, least: int) -> Places:
    """Where in `data` heads of `head` bytes begin, one behind the other with what follows each, of which the head says
    the size in bytes, a uint32 at `at`: ascending.

    Args:
      least: that follows any of them, in bytes; of fewer there may be more heads than there is room for.

    Raises:
      ValueError: the last does not end where `data` does, or too little follows some.
    """
    places = np.empty(len(data) // (head + least), np.int64)
    return places[: _spans.chain(data, head, at, places)]


def find_before(data: Any, first: int, last: int, byte: int, after: bytes) -> list[int]:
    """Where in data[first:last] `byte` stands before one for which `after`, a table of 256 bytes, has not 0: ascending.

    The last byte of `data` counts as standing before itself.

    Raises:
      ValueError: there is no such span, or no such table.
    """
    return _spans.find_before(data, first, last, byte, after)


def gather(data: Any, starts: Places, sizes: Places) -> tuple[NDArray[np.uint8], Places]:
    """Spans of `data` one after the other, and where each begins and the last one ends: shapes (bytes,) and (n + 1,).

    Raises:
      ValueError: a span is not within the buffer.
    """
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    copy(data, starts, sizes, out, offsets[:-1])
    return out, offsets


def _places(values: Places) -> Places:
    return np.ascontiguousarray(values, np.int64)
