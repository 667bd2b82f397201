"""TFRecord framing of many records at once; `shardmill.records.tfrecord` frames one and has the format's sources."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from shardmill.records import spans
from shardmill.records.tfrecord import OVERHEAD
from shardmill.transforms.columns.buffers import data_of, offsets_of

HEADER_BYTES = 12  # before a payload: 8 of length, 4 of checksum
FOOTER_BYTES = OVERHEAD - HEADER_BYTES
_HEADER_ROOM, _FOOTER_ROOM = bytes(HEADER_BYTES), bytes(FOOTER_BYTES)


def frame(records: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Each of `records` as it stands in a TFRecord file: length, masked crc32c of it, payload, masked crc32c of the
    payload."""
    offsets = offsets_of(records)
    sizes = np.diff(offsets)
    framed = np.zeros(len(records) + 1, np.int64)
    np.cumsum(sizes + OVERHEAD, out=framed[1:])
    data = pa.allocate_buffer(int(framed[-1]))
    out = np.frombuffer(data, np.uint8)
    spans.copy(data_of(records), offsets[:-1], sizes, out, framed[:-1] + HEADER_BYTES)
    spans.frame(out, framed)
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(records), [None, pa.py_buffer(framed), data])


class Framing:
    """Gathers records in parts, and frames all of them at once: no part, which may be many megabytes, is copied
    twice."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._offsets = [0]

    def add(self, record: Sequence[bytes]) -> int:
        """Take the parts of one more record; the bytes that it has with its frame."""
        size = OVERHEAD + sum(map(len, record))
        self._parts += (_HEADER_ROOM, *record, _FOOTER_ROOM)
        self._offsets.append(self._offsets[-1] + size)
        return size

    def framed(self) -> np.ndarray:
        """All records as they stand in a TFRecord file: uint8, shape (bytes,)."""
        data = bytearray().join(self._parts)
        spans.frame(data, np.array(self._offsets, np.int64))
        return np.frombuffer(data, np.uint8)


def payload_hashes(framed: pa.LargeBinaryArray, seeds: Sequence[int]) -> np.ndarray:
    """For each seed the 64-bit xxh3 of each payload in framed records, as uint64 (seeds, rows)."""
    offsets = offsets_of(framed)
    starts, ends = offsets[:-1] + HEADER_BYTES, offsets[1:] - FOOTER_BYTES
    return spans.hashes_by_seed(data_of(framed), starts, ends, seeds)


def windows(data: Any, dtype: np.dtype) -> np.ndarray:
    """`data` as overlapping items of `dtype`, one that begins at each byte: indexing copies many short pieces in one
    call."""
    size = memoryview(data).nbytes
    return np.ndarray(max(size - dtype.itemsize + 1, 0), dtype, data, 0, (1,))
