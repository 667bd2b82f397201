"""`shardmill._native` in Python, for where there is no C compiler: a call of a library for each span, copies in
NumPy."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from struct import Struct
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import xxhash

from shardmill.records.tfrecord import mask_all

_TILE_BYTES = 1 << 17  # cut at a time, so that they stay in the processor's cache
_SHORT_BYTES = 2048  # up to here, copying a span is faster than pointing at it
_COPY_BYTES = 1 << 18  # gathered at a time, likewise
_WRONG = "a span lies outside its buffer, or a buffer is not as long as it has to be"
_HEADER, _FOOTER = np.dtype([("length", "<u8"), ("crc", "<u4")]), np.dtype("<u4")  # of a TFRecord
_LARGE_BYTES = 2048  # from which a copy is worth a Python call of its own


def checksums(data: Any, starts: np.ndarray, ends: np.ndarray, out: np.ndarray) -> None:
    """crc32c of each `data[start:end]` into `out`, uint32."""
    for rows, pieces in _cut(data, starts, ends):
        out[rows] = np.fromiter(map(google_crc32c.value, pieces), np.uint32, len(pieces))


def hashes(data: Any, starts: np.ndarray, ends: np.ndarray, seed: int, out: np.ndarray) -> None:
    """xxh3_64 of each `data[start:end]` into `out`, uint64."""
    for rows, pieces in _cut(data, starts, ends):
        out[rows] = np.fromiter(map(xxhash.xxh3_64_intdigest, pieces, repeat(seed)), np.uint64, len(pieces))


def hashes_by_seed(data: Any, starts: np.ndarray, ends: np.ndarray, seeds: np.ndarray, out: np.ndarray) -> None:
    """The same for each of `seeds`, into `out`, uint64, shape (seeds, n)."""
    for seed, found in zip(seeds.tolist(), out, strict=True):
        hashes(data, starts, ends, seed, found)


def frame(data: Any, offsets: np.ndarray) -> None:
    """Lengths and checksums around the payloads of records in `data`."""
    starts, ends = offsets[:-1] + _HEADER.itemsize, offsets[1:] - _FOOTER.itemsize
    _check(data, offsets[:-1], offsets[1:])
    _check(data, starts, ends)
    if not len(starts):
        return
    headers, crcs = np.empty(len(starts), _HEADER), np.empty(len(starts), _FOOTER)
    headers["length"] = ends - starts
    headers["crc"] = mask_all(_length_crcs(ends - starts))
    checksums(data, starts, ends, crcs)
    _windows(data, _HEADER.itemsize)[offsets[:-1]] = headers.view(np.dtype((np.void, _HEADER.itemsize)))
    _windows(data, _FOOTER.itemsize)[ends] = mask_all(crcs).view(np.dtype((np.void, _FOOTER.itemsize)))


def copy(data: Any, starts: np.ndarray, sizes: np.ndarray, target: Any, places: np.ndarray) -> None:
    """Each `data[start:start + size]` to its place in `target`."""
    _check(data, starts, starts + sizes)
    _check(target, places, places + sizes)
    large, small = int(sizes.max(initial=0)), int(sizes.min(initial=_LARGE_BYTES))
    if not large:
        return
    if large <= min(2 * small, _LARGE_BYTES):
        _copy_similar(data, starts, sizes, target, places, small)
        return
    for bits in range(max(small.bit_length(), 1), min(large, _LARGE_BYTES - 1).bit_length() + 1):
        rows = np.flatnonzero(sizes >> (bits - 1) == 1)
        _copy_similar(data, starts[rows], sizes[rows], target, places[rows], 1 << bits - 1)
    rows = np.flatnonzero(sizes >= _LARGE_BYTES)
    from_view, to_view = memoryview(data).cast("B"), memoryview(target).cast("B")
    for start, place, size in zip(starts[rows].tolist(), places[rows].tolist(), sizes[rows].tolist()):
        to_view[place : place + size] = from_view[start : start + size]


def count(data: Any, byte: int) -> int:
    """How many bytes of `data` are `byte`."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == byte))


def find(data: Any, byte: int, out: np.ndarray) -> None:
    """Where in `data` `byte` stands, into `out`, int64, which is as long as there are."""
    found = np.flatnonzero(np.frombuffer(data, np.uint8) == byte)
    if len(out) != len(found):
        raise ValueError(_WRONG)
    out[:] = found


def chain(data: Any, head: int, at: int, out: np.ndarray) -> int:
    """Where heads begin, into `out`, int64, whose uint32 at `at` says what follows each; how many."""
    count = place = 0
    unpack = Struct("<I").unpack_from
    if not (0 <= at <= head - 4):
        raise ValueError(_WRONG)
    while place + head <= len(data):
        if count == len(out):
            raise ValueError(_WRONG)
        out[count] = place
        count += 1
        place += head + unpack(data, place + at)[0]
    if place != len(data):
        raise ValueError(_WRONG)
    return count


def find_before(data: Any, first: int, last: int, byte: int, after: bytes) -> list[int]:
    """Where in data[first:last] `byte` stands before one for which the table `after` has not 0."""
    every = np.frombuffer(data, np.uint8)
    if not 0 <= first <= last <= len(every) or len(after) != 256:
        raise ValueError(_WRONG)
    places = np.flatnonzero(every[first:last] == byte) + first
    wanted = np.frombuffer(after, np.uint8)
    found: list[int] = places[wanted[every.take(places + 1, mode="clip")] != 0].tolist() if len(every) else []
    return found


def _check(data: Any, starts: np.ndarray, ends: np.ndarray) -> None:
    size = memoryview(data).nbytes
    if len(starts) != len(ends) or ((starts < 0) | (ends < starts) | (ends > size)).any():
        raise ValueError(_WRONG)


def _cut(data: Any, starts: np.ndarray, ends: np.ndarray) -> Iterator[tuple[slice, Sequence[Any]]]:
    """Some rows at a time, `data[start:end]` each as bytes or an array of uint8."""
    _check(data, starts, ends)
    mean = max(int((ends - starts).mean()), 1) if len(starts) else 1
    step = max(_TILE_BYTES // mean, 1)
    cut = _short_pieces if mean <= _SHORT_BYTES and (starts[1:] >= ends[:-1]).all() else _long_pieces
    for row in range(0, len(starts), step):
        rows = slice(row, row + step)
        yield rows, cut(data, starts[rows], ends[rows])


def _short_pieces(data: Any, starts: np.ndarray, ends: np.ndarray) -> list[bytes]:
    """Copies, which Arrow makes several times faster than slices are taken: as an array with a null for each gap."""
    offsets = np.empty(2 * len(starts), np.int64)
    offsets[::2], offsets[1::2] = starts, ends
    valid = np.full(len(starts) // 4 + 1, 0b01010101, np.uint8)
    buffers = [pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    array = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    return array.to_numpy(zero_copy_only=False)[::2].tolist()


def _long_pieces(data: Any, starts: np.ndarray, ends: np.ndarray) -> list[np.ndarray]:
    """Slices of an array, for google_crc32c takes no memoryview."""
    view = np.frombuffer(data, np.uint8)
    return [view[start:end] for start, end in zip(starts.tolist(), ends.tolist())]


def _copy_similar(
    data: Any, starts: np.ndarray, sizes: np.ndarray, target: Any, places: np.ndarray, width: int
) -> None:
    """As `copy`, where every size is from `width` to twice that: the first `width` bytes and the last, which may
    overlap."""
    from_windows, to_windows = _windows(data, width), _windows(target, width)
    rest = sizes - width
    step = max(_COPY_BYTES // width, 1)
    for row in range(0, len(sizes), step):
        rows = slice(row, row + step)
        to_windows[places[rows]] = from_windows[starts[rows]]
        if rest[rows].any():
            to_windows[(places + rest)[rows]] = from_windows[(starts + rest)[rows]]


def _length_crcs(sizes: np.ndarray) -> np.ndarray:
    """crc32c of each size as eight bytes.

    A checksum of fixed length is affine: what a byte adds does not depend on the other bytes, so that a table a byte
    will do.
    """
    crcs = np.full(len(sizes), google_crc32c.value(bytes(8)), np.uint32)
    for position in range((int(sizes.max(initial=0)).bit_length() + 7) // 8):
        crcs ^= _length_table(position)[sizes >> 8 * position & 0xFF]
    return crcs


@lru_cache(maxsize=8)
def _length_table(position: int) -> np.ndarray:
    alone = (google_crc32c.value((value << 8 * position).to_bytes(8, "little")) for value in range(256))
    return np.fromiter(alone, np.uint32, 256) ^ np.uint32(google_crc32c.value(bytes(8)))


def _windows(data: Any, width: int) -> np.ndarray:
    """`data` as overlapping items of `width` bytes, one that begins at each byte: indexing copies many in one call."""
    return np.ndarray(max(memoryview(data).nbytes - width + 1, 0), np.dtype((np.void, width)), data, 0, (1,))
