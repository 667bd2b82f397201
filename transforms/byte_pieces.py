"""Spans of a buffer as objects that checksums and hashes take, some thousands at a time."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

_TILE_BYTES = 1 << 17  # cut at a time, so that they stay in the processor's cache
_SHORT_BYTES = 2048  # up to here, copying a span is faster than pointing at it


def cut_pieces(data: pa.Buffer | None, starts: np.ndarray, ends: np.ndarray) -> Iterator[tuple[slice, Sequence[Any]]]:
    """Some rows at a time, `data[start:end]` each as bytes or an array of uint8; the spans ascend and do not overlap."""
    mean = max(int((ends - starts).mean()), 1) if len(starts) else 1
    step = max(_TILE_BYTES // mean, 1)
    cut = _short_pieces if mean <= _SHORT_BYTES else _long_pieces
    for row in range(0, len(starts), step):
        rows = slice(row, row + step)
        yield rows, cut(data, starts[rows], ends[rows])


def _short_pieces(data: pa.Buffer | None, starts: np.ndarray, ends: np.ndarray) -> list[bytes]:
    """Copies, which Arrow makes several times faster than slices are taken: as an array with a null for each gap."""
    offsets = np.empty(2 * len(starts), np.int64)
    offsets[::2], offsets[1::2] = starts, ends
    valid = np.full(len(starts) // 4 + 1, 0b01010101, np.uint8)
    buffers = [pa.py_buffer(valid), pa.py_buffer(offsets), data]
    array = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    return array.to_numpy(zero_copy_only=False)[::2].tolist()


def _long_pieces(data: pa.Buffer, starts: np.ndarray, ends: np.ndarray) -> list[np.ndarray]:
    """Slices of an array, for google_crc32c takes no memoryview."""
    view = np.frombuffer(data, np.uint8)
    return [view[start:end] for start, end in zip(starts.tolist(), ends.tolist())]
