"""Scan blocks of TFRecords and Examples for the spans of their payloads and values.

Positions are int64, and a span, from start to end, must be within its contiguous buffer; else it is a ValueError.
"""

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from shardmill.data.tfrecord import OVERHEAD, mask_crcs, record_header
from shardmill.errors import CorruptDataError

try:
    from shardmill import _native as _spans
except ImportError:
    from shardmill.data import tfrecord as _spans  # type: ignore[no-redef]

Positions = NDArray[np.int64]
COMPILED = _spans.__name__.endswith("._native")


def checksums(data: Any, starts: Positions, ends: Positions) -> NDArray[np.uint32]:
    """Return the crc32c of each `data[start:end]`, shape (n,)."""
    crcs = np.empty(len(starts), np.uint32)
    _spans.checksums(data, _as_positions(starts), _as_positions(ends), crcs)
    return crcs


def hashes(data: Any, starts: Positions, ends: Positions, seed: int = 0) -> NDArray[np.uint64]:
    """Return the xxh3_64 (https://xxhash.com) of each `data[start:end]`, shape (n,)."""
    found = np.empty(len(starts), np.uint64)
    _spans.hashes(data, _as_positions(starts), _as_positions(ends), seed, found)
    return found


def hashes_by_seed(data: Any, starts: Positions, ends: Positions, seeds: Sequence[int]) -> NDArray[np.uint64]:
    """Return the xxh3_64 of each `data[start:end]` for each seed, shape (seeds, n); the data are read once."""
    found = np.empty((len(seeds), len(starts)), np.uint64)
    _spans.hashes_by_seed(data, _as_positions(starts), _as_positions(ends), np.array(seeds, np.uint64), found)
    return found


def frame(data: Any, offsets: Positions) -> None:
    """Write the lengths and checksums of TFRecords around payloads that are already in `data`.

    `offsets` are the start of each record and the end of the last. A record is 12 arbitrary bytes, a payload and 4
    arbitrary bytes.
    """
    _spans.frame(data, _as_positions(offsets))


def copy(data: Any, starts: Positions, sizes: Positions, target: Any, places: Positions) -> None:
    """Copy `sizes` bytes each from `starts` in `data` to `places` in `target`, a writable buffer, and no other byte."""
    _spans.copy(data, _as_positions(starts), _as_positions(sizes), target, _as_positions(places))


def count(data: Any, byte: int) -> int:
    """Count the bytes of `data` that equal `byte`."""
    return _spans.count(data, byte)


def find(data: Any, byte: int) -> Positions:
    """Return the positions of `byte` in `data`, ascending, shape (n,)."""
    places = np.empty(count(data, byte), np.int64)
    _spans.find(data, byte, places)
    return places


def chain(data: Any, head: int, at: int, least: int) -> Positions:
    """Return the starts, ascending, of heads that are linked by the sizes of the data between them.

    Each head has `head` bytes, of which the uint32 at `at` is the size of the data between it and the next head, at
    least `least` bytes. The last head's data must end where `data` ends; else it is a ValueError.
    """
    places = np.empty(len(data) // (head + least), np.int64)
    return places[: _spans.chain(data, head, at, places)]


def find_before(data: Any, first: int, last: int, byte: int, after: bytes) -> list[int]:
    """Return the positions of `byte` in data[first:last] whose next byte has a nonzero entry in the table `after`.

    The last byte of `data` counts as its own next byte.
    """
    return _spans.find_before(data, first, last, byte, after)


def gather(data: Any, starts: Positions, sizes: Positions) -> tuple[NDArray[np.uint8], Positions]:
    """Concatenate spans of `data`; return the bytes, and the start of each span with the end of the last, (n + 1,)."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    copy(data, starts, sizes, out, offsets[:-1])
    return out, offsets


def _as_positions(values: Positions) -> Positions:
    return np.ascontiguousarray(values, np.int64)


# Read at once: enough to outweigh the calls, few enough for the cache and for memory that is used again
_BLOCK_BYTES = 256 << 10
_HEADER_BYTES, _FOOTER_BYTES = 12, 4  # of a TFRecord
_FOOTER = np.dtype("<u4")
_KNOWN_HEADERS = 1 << 16  # remembered, by the records' lengths: some megabytes at most


def read_blocks(file: BinaryIO, name: str, block_bytes: int = _BLOCK_BYTES) -> Iterator[list[bytes]]:
    """Yield the payloads of an uncompressed TFRecord `file`, some at a time, and verify every checksum.

    Raises:
        CorruptDataError: if a record is cut short or fails its checksum, after all records before it were yielded; the
            message names `name`, record and offset.
    """
    headers: dict[int, bytes] = {}
    rest, index, offset = b"", 0, 0
    wanted = block_bytes
    while more := file.read(wanted):
        data = rest + more if rest else more
        payloads, ends, wanted, fault = _split_records(data, headers)
        good = _count_intact(data, payloads, ends)
        if good < len(payloads):
            payloads, ends, fault = payloads[:good], ends[:good], "fails its checksum"
        if payloads:
            yield payloads
        index += len(payloads)
        position = ends[-1] + _FOOTER_BYTES if ends else 0
        offset += position
        if fault:
            raise CorruptDataError(f"{name}: record {index} at byte {offset} {fault}")
        rest = data[position:]
        wanted = max(wanted, block_bytes)
    if rest:
        cut = f"{name}: record {index} at byte {offset} is cut short"
        if len(rest) < _HEADER_BYTES:
            raise CorruptDataError(f"{cut}: {len(rest)} of {_HEADER_BYTES} header bytes")
        size = int.from_bytes(rest[:8], "little")
        if rest[:_HEADER_BYTES] != record_header(size):
            raise CorruptDataError(f"{name}: record {index} at byte {offset} has a length that fails its checksum")
        raise CorruptDataError(f"{cut}: {len(rest) - _HEADER_BYTES} of {size + _FOOTER_BYTES} bytes")


def _split_records(data: bytes, headers: dict[int, bytes]) -> tuple[list[bytes], list[int], int, str]:
    """Return the payloads of complete records, their ends, the bytes missing of the last, and a fault in a length."""
    payloads: list[bytes] = []
    ends: list[int] = []
    start, size = _HEADER_BYTES, len(data)
    while start <= size:
        head = data[start - _HEADER_BYTES : start]
        length = int.from_bytes(head[:8], "little")
        known = headers.get(length)
        if known is None:
            if len(headers) >= _KNOWN_HEADERS:
                headers.clear()
            known = headers[length] = record_header(length)
        if head != known:
            return payloads, ends, 0, "has a length that fails its checksum"
        end = start + length
        if end + _FOOTER_BYTES > size:
            return payloads, ends, end + _FOOTER_BYTES - size, ""
        payloads.append(data[start:end])
        ends.append(end)
        start = end + OVERHEAD
    return payloads, ends, 0, ""


def _count_intact(data: bytes, payloads: list[bytes], ends: list[int]) -> int:
    """Return the number of payloads before the first that fails its checksum."""
    if not payloads:
        return 0
    stops = np.array(ends, np.int64)
    crcs = checksums(data, stops - np.fromiter(map(len, payloads), np.int64, len(payloads)), stops)
    footers: Any = np.ndarray(len(data) - _FOOTER_BYTES + 1, _FOOTER, data, 0, (1,))  # one that begins at each byte
    wrong = np.flatnonzero(mask_crcs(crcs) != footers[stops])
    return int(wrong[0]) if len(wrong) else len(payloads)
