"""TFRecord framing, and the pure Python twin of the C extension that scans records."""

import os
import struct
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

OVERHEAD = 16  # bytes of framing a record: 8 of length, 4 and 4 of checksums
_MASK_DELTA = 0xA282EAD8  # kMaskDelta of tsl/lib/hash/crc32c.h, by which a stored checksum is masked
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")


def mask_crc(crc: int) -> int:
    """Mask a crc32c as TFRecord files do, so that checksums of data that contain checksums stay reliable."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def mask_crcs(crcs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return many checksums masked as TFRecord files store them, shape (n,)."""
    return ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + np.uint32(_MASK_DELTA)


def record_header(size: int) -> bytes:
    """Return the 12 bytes before a payload of `size` bytes."""
    length = _LENGTH.pack(size)
    return length + _CRC.pack(mask_crc(google_crc32c.value(length)))


def record_footer(pieces: Sequence[bytes]) -> bytes:
    """Return the 4 bytes after a payload that is the concatenation of `pieces`."""
    crc = 0
    for piece in pieces:
        crc = google_crc32c.extend(crc, piece)
    return _CRC.pack(mask_crc(crc))


def frame_record(record: bytes) -> bytes:
    """Return `record` framed as in a TFRecord file."""
    return b"".join((record_header(len(record)), record, record_footer((record,))))


def is_valid_record(framed: bytes) -> bool:
    """Return True if `framed` is exactly one framed record and both of its checksums are right."""
    payload = framed[12:-4]
    return (
        len(framed) >= OVERHEAD
        and framed[:12] == record_header(len(payload))
        and framed[-4:] == record_footer((payload,))
    )


_TILE_BYTES = 1 << 17  # cut at a time, so that they stay in the processor's cache
_SHORT_BYTES = 2048  # up to here, copying a span is faster than pointing at it
_COPY_BYTES = 1 << 18  # gathered at a time, for the same reason
_INVALID_SPAN = "a span lies outside its buffer, or a buffer is not as long as it has to be"
_HEADER, _FOOTER = np.dtype([("length", "<u8"), ("crc", "<u4")]), np.dtype("<u4")  # of a TFRecord
_LARGE_BYTES = 2048  # from which a copy is worth a Python call of its own


def checksums(data: Any, starts: np.ndarray, ends: np.ndarray, out: np.ndarray) -> None:
    """Write the crc32c of each `data[start:end]` into `out`, uint32."""
    for rows, pieces in _cut(data, starts, ends):
        out[rows] = np.fromiter(map(google_crc32c.value, pieces), np.uint32, len(pieces))


def hashes_by_seed(data: Any, starts: np.ndarray, ends: np.ndarray, seeds: np.ndarray, out: np.ndarray) -> None:
    """Write the xxh3_64 of each `data[start:end]`, for each of `seeds`, into `out`, uint64, shape (seeds, n)."""
    import xxhash  # late: a host that only reads has none

    for rows, pieces in _cut(data, starts, ends):
        for seed, found in zip(seeds.tolist(), out, strict=True):
            found[rows] = np.fromiter(map(xxhash.xxh3_64_intdigest, pieces, repeat(seed)), np.uint64, len(pieces))


def frame(data: Any, offsets: np.ndarray) -> None:
    """Write lengths and checksums around the payloads of records in `data`."""
    starts, ends = offsets[:-1] + _HEADER.itemsize, offsets[1:] - _FOOTER.itemsize
    _check(data, offsets[:-1], offsets[1:])
    _check(data, starts, ends)
    if not len(starts):
        return
    headers, crcs = np.empty(len(starts), _HEADER), np.empty(len(starts), _FOOTER)
    headers["length"] = ends - starts
    headers["crc"] = mask_crcs(_length_crcs(ends - starts))
    checksums(data, starts, ends, crcs)
    _windows(data, _HEADER.itemsize)[offsets[:-1]] = headers.view(np.dtype((np.void, _HEADER.itemsize)))
    _windows(data, _FOOTER.itemsize)[ends] = mask_crcs(crcs).view(np.dtype((np.void, _FOOTER.itemsize)))


def split_records(data: bytes, at: int, starts: np.ndarray, ends: np.ndarray) -> tuple[int, int, int, int]:
    """Write the spans of the payloads of sound records from `at` on into `starts` and `ends`, as many as fit.

    Return their number, the end of the last, the bytes that are missing of the next record, and the next record's
    fault: 1 for a length that fails its checksum, 2 for a payload that does, else 0.
    """
    for count in range(len(starts)):
        if len(data) - at < _HEADER.itemsize:
            return count, at, 0, 0
        length, start = int.from_bytes(data[at : at + 8], "little"), at + _HEADER.itemsize
        if data[at:start] != record_header(length):
            return count, at, 0, 1
        end = start + length
        if end + _FOOTER.itemsize > len(data):
            return count, at, min(end + _FOOTER.itemsize - len(data), sys.maxsize // 2), 0
        if data[end : end + _FOOTER.itemsize] != record_footer((data[start:end],)):
            return count, at, 0, 2
        starts[count], ends[count], at = start, end, end + _FOOTER.itemsize
    return len(starts), at, 0, 0


def scan_examples(
    data: Any, starts: np.ndarray, ends: np.ndarray, names: list[bytes], tags: bytes, out: np.ndarray, plain: np.ndarray
) -> None:
    """Leave every record to `decode_example`, which is as fast as any other code in Python."""
    _check(data, starts, ends)
    plain[:] = 0
    out[:] = -1


def take_examples(
    data: bytes,
    starts: np.ndarray,
    ends: np.ndarray,
    names: list[bytes],
    tags: bytes,
    columns: list[Any],
    rest: list[bytes | None],
) -> None:
    """Put the payloads of records in `data` into `rest`."""
    _check(data, starts, ends)
    rest[:] = [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def read_example(file: int, start: int, stop: int, names: list[bytes], tags: bytes, wanted: list[int]) -> bytes | None:
    """Return the payload of the framed record file[start:stop], or None without a record, or if a checksum fails.

    The compiled twin returns the values of the `wanted` features instead, int, float or bytes, unless the record is
    unusual or a value is missing. `names` and `tags` are those of `spans.scan_examples`.
    """
    framed = os.pread(file, stop - start, start) if 0 <= start <= stop else b""
    return framed[_HEADER.itemsize : -_FOOTER.itemsize] if is_valid_record(framed) else None


def read_examples(
    files: np.ndarray,
    starts: np.ndarray,
    stops: np.ndarray,
    names: list[bytes],
    tags: bytes,
    columns: list[Any],
    rest: list[bytes | None],
) -> int:
    """Put the payloads of records into `rest`, and return the number of sound ones before the first that is not."""
    for row, (file, start, stop) in enumerate(zip(files.tolist(), starts.tolist(), stops.tolist(), strict=True)):
        rest[row] = read_example(file, start, stop, names, tags, [])
        if rest[row] is None:
            return row
    return len(rest)


def copy(data: Any, starts: np.ndarray, sizes: np.ndarray, target: Any, places: np.ndarray) -> None:
    """Copy each `data[start:start + size]` to its place in `target`."""
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
    """Count the bytes of `data` that equal `byte`."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == byte))


def find(data: Any, byte: int, out: np.ndarray) -> None:
    """Write the positions of `byte` in `data` into `out`, int64; its length must equal their number."""
    found = np.flatnonzero(np.frombuffer(data, np.uint8) == byte)
    if len(out) != len(found):
        raise ValueError(_INVALID_SPAN)
    out[:] = found


def chain(data: Any, head: int, at: int, out: np.ndarray) -> int:
    """Write the starts of linked heads into `out`, int64, and return their number; see `spans.chain`."""
    count = place = 0
    unpack = _CRC.unpack_from
    if not (0 <= at <= head - 4):
        raise ValueError(_INVALID_SPAN)
    while place + head <= len(data):
        if count == len(out):
            raise ValueError(_INVALID_SPAN)
        out[count] = place
        count += 1
        place += head + unpack(data, place + at)[0]
    if place != len(data):
        raise ValueError(_INVALID_SPAN)
    return count


def find_before(data: Any, first: int, last: int, byte: int, after: bytes) -> list[int]:
    """Return the positions of `byte` in data[first:last] whose next byte has a nonzero entry in the table `after`.

    The last byte of `data` counts as its own next byte.
    """
    every = np.frombuffer(data, np.uint8)
    if not 0 <= first <= last <= len(every) or len(after) != 256:
        raise ValueError(_INVALID_SPAN)
    places = np.flatnonzero(every[first:last] == byte) + first
    wanted = np.frombuffer(after, np.uint8)
    found: list[int] = places[wanted[every.take(places + 1, mode="clip")] != 0].tolist() if len(every) else []
    return found


def _check(data: Any, starts: np.ndarray, ends: np.ndarray) -> None:
    size = memoryview(data).nbytes
    if len(starts) != len(ends) or ((starts < 0) | (ends < starts) | (ends > size)).any():
        raise ValueError(_INVALID_SPAN)


def _cut(data: Any, starts: np.ndarray, ends: np.ndarray) -> Iterator[tuple[slice, Sequence[Any]]]:
    _check(data, starts, ends)
    mean = max(int((ends - starts).mean()), 1) if len(starts) else 1
    step = max(_TILE_BYTES // mean, 1)
    cut = _short_pieces if mean <= _SHORT_BYTES and (starts[1:] >= ends[:-1]).all() else _long_pieces
    for row in range(0, len(starts), step):
        rows = slice(row, row + step)
        yield rows, cut(data, starts[rows], ends[rows])


def _short_pieces(data: Any, starts: np.ndarray, ends: np.ndarray) -> list[bytes]:
    """Copy short spans through an Arrow array with a null for each gap: several times faster than slicing."""
    import pyarrow as pa  # late: a host that only reads has none

    offsets = np.empty(2 * len(starts), np.int64)
    offsets[::2], offsets[1::2] = starts, ends
    valid = np.full(len(starts) // 4 + 1, 0b01010101, np.uint8)
    buffers = [pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    array = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    return array.to_numpy(zero_copy_only=False)[::2].tolist()


def _long_pieces(data: Any, starts: np.ndarray, ends: np.ndarray) -> list[np.ndarray]:
    """Return slices of an array, because google_crc32c takes no memoryview."""
    view = np.frombuffer(data, np.uint8)
    return [view[start:end] for start, end in zip(starts.tolist(), ends.tolist())]


def _copy_similar(
    data: Any, starts: np.ndarray, sizes: np.ndarray, target: Any, places: np.ndarray, width: int
) -> None:
    from_windows, to_windows = _windows(data, width), _windows(target, width)
    rest = sizes - width
    step = max(_COPY_BYTES // width, 1)
    for row in range(0, len(sizes), step):
        rows = slice(row, row + step)
        to_windows[places[rows]] = from_windows[starts[rows]]
        if rest[rows].any():
            to_windows[(places + rest)[rows]] = from_windows[(starts + rest)[rows]]


def _length_crcs(sizes: np.ndarray) -> np.ndarray:
    """Return the crc32c of each size encoded as eight bytes; it is affine, so one table for each byte suffices."""
    crcs = np.full(len(sizes), google_crc32c.value(bytes(8)), np.uint32)
    for position in range((int(sizes.max(initial=0)).bit_length() + 7) // 8):
        crcs ^= _length_table(position)[sizes >> 8 * position & 0xFF]
    return crcs


@lru_cache(maxsize=8)
def _length_table(position: int) -> np.ndarray:
    alone = (google_crc32c.value((value << 8 * position).to_bytes(8, "little")) for value in range(256))
    return np.fromiter(alone, np.uint32, 256) ^ np.uint32(google_crc32c.value(bytes(8)))


def _windows(data: Any, width: int) -> np.ndarray:
    """Return `data` as overlapping items of `width` bytes, one from each byte: one call of indexing copies many."""
    return np.ndarray(max(memoryview(data).nbytes - width + 1, 0), np.dtype((np.void, width)), data, 0, (1,))
