"""TFRecord framing of many records at once, in NumPy; `shardmill.tfrecord` frames one and has the format's sources."""

from functools import lru_cache
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa

from shardmill import spans
from shardmill.tfrecord import OVERHEAD

HEADER_BYTES = 12  # before a payload: 8 of length, 4 of checksum
FOOTER_BYTES = OVERHEAD - HEADER_BYTES
_MASK_DELTA = np.uint32(0xA282EAD8)
_HEADER = np.dtype([("length", "<u8"), ("crc", "<u4")])
_FOOTER = np.dtype("<u4")
_OPAQUE = np.dtype((np.void, _HEADER.itemsize))  # NumPy copies these several times faster than structures


def frame(records: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Each of `records` as it stands in a TFRecord file: length, masked crc32c of it, payload, masked crc32c of the payload."""
    offsets = binary_offsets(records)
    sizes = np.diff(offsets)
    framed = np.zeros(len(records) + 1, np.int64)
    np.cumsum(sizes + OVERHEAD, out=framed[1:])
    data = pa.allocate_buffer(int(framed[-1]))
    out = np.frombuffer(data, np.uint8)
    spans.copy(records.buffers()[2] or b"", offsets[:-1], sizes, out, framed[:-1] + HEADER_BYTES)
    fill_frames(out, framed)
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(records), [None, pa.py_buffer(framed), data])


def fill_frames(data: np.ndarray, offsets: np.ndarray) -> None:
    """Write lengths and checksums around the payloads that stand in `data`, uint8, already.

    Args:
      offsets: where records begin and end: 12 bytes of anything, a payload, 4 bytes of anything.
    """
    starts, ends = offsets[:-1] + HEADER_BYTES, offsets[1:] - FOOTER_BYTES
    if len(starts):
        windows(data, _OPAQUE)[offsets[:-1]] = _headers(ends - starts).view(_OPAQUE)
        windows(data, _FOOTER)[ends] = _mask(spans.checksums(data, starts, ends))


def payload_hashes(framed: pa.LargeBinaryArray, seed: int) -> np.ndarray:
    """The 64-bit xxh3 of each payload in framed records, as uint64 (rows,)."""
    offsets = binary_offsets(framed)
    return spans.hashes(framed.buffers()[2] or b"", offsets[:-1] + HEADER_BYTES, offsets[1:] - FOOTER_BYTES, seed)


def binary_offsets(array: pa.LargeBinaryArray) -> np.ndarray:
    """Where the values of `array` begin and end in its buffer, as int64 (rows + 1,)."""
    buffer = array.buffers()[1]
    if buffer is None or buffer.size == 0:  # Arrow permits it where there are no rows
        return np.zeros(1, np.int64)
    return np.ndarray(len(array) + 1, np.int64, buffer, 8 * array.offset)


def windows(data: Any, dtype: np.dtype) -> np.ndarray:
    """`data` as overlapping items of `dtype`, one that begins at each byte: indexing copies many short pieces in one call."""
    size = memoryview(data).nbytes
    return np.ndarray(max(size - dtype.itemsize + 1, 0), dtype, data, 0, (1,))


def _headers(sizes: np.ndarray) -> np.ndarray:
    headers = np.empty(len(sizes), _HEADER)
    headers["length"] = sizes
    headers["crc"] = _mask(_length_crcs(sizes))
    return headers


def _mask(crcs: np.ndarray) -> np.ndarray:
    return ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + _MASK_DELTA


def _length_crcs(sizes: np.ndarray) -> np.ndarray:
    """crc32c of each size as eight bytes.

    A checksum of fixed length is affine: what a byte adds does not depend on the other bytes, so that a table a byte will do.
    """
    crcs = np.full(len(sizes), google_crc32c.value(bytes(8)), np.uint32)
    for position in range((int(sizes.max(initial=0)).bit_length() + 7) // 8):
        crcs ^= _length_table(position)[sizes >> 8 * position & 0xFF]
    return crcs


@lru_cache(maxsize=8)
def _length_table(position: int) -> np.ndarray:
    alone = (google_crc32c.value((value << 8 * position).to_bytes(8, "little")) for value in range(256))
    return np.fromiter(alone, np.uint32, 256) ^ np.uint32(google_crc32c.value(bytes(8)))
