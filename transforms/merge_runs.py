"""Shards of records that lie in runs: slices of many runs merged by key, a segment of some megabytes at a time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from transforms import storage
from transforms.refs import concatenate
from transforms.runs import key_order, read_key_range
from transforms.shard_source import EncodedChunk

SEGMENT_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Consecutive records of one run, in the order of their keys.

    Attributes:
      path: of the run.
      offset: of their first byte.
      keys, ties: uint64, shape (n,).
      sizes: framed, in bytes, uint32, shape (n,).
    """

    path: str
    offset: int
    keys: np.ndarray
    ties: np.ndarray
    sizes: np.ndarray


@dataclass(frozen=True)
class RunShards:
    """A transforms.shard_source.ShardSource over SLICE batches.

    The keys of a shard are held at once, 20 bytes a record; its records only as many segments as there are threads.

    Attributes:
      segment_bytes: of a segment, about.
    """

    segment_bytes: int = SEGMENT_BYTES

    def plan(self, parts: Iterable[pa.RecordBatch]) -> tuple[int, Iterable[list[Piece]]]:
        """The number of records, and the pieces of each segment."""
        pieces = [_load(*row) for row in zip(*(column.to_pylist() for column in concatenate(parts).columns), strict=True)]
        return sum(len(piece.keys) for piece in pieces), segments(pieces, self.segment_bytes)

    def encode(self, task: Sequence[Piece]) -> EncodedChunk:
        """Read and merge one segment."""
        order = key_order(*(np.concatenate(arrays) for arrays in zip(*((piece.keys, piece.ties) for piece in task), strict=True)))
        data = b"".join(storage.read_range(piece.path, piece.offset, int(piece.sizes.sum(dtype=np.int64))) for piece in task)
        offsets = np.zeros(len(order) + 1, np.int64)
        np.cumsum(np.concatenate([piece.sizes for piece in task]), out=offsets[1:])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        merged = pa.Array.from_buffers(pa.large_binary(), len(order), buffers).take(pa.array(order))
        return EncodedChunk(np.frombuffer(merged.buffers()[2], np.uint8, len(data)), len(order))


def _load(path: str, index_offset: int, rows: int, start: int, stop: int, offset: int, size: int) -> Piece:
    return Piece(path, offset, *read_key_range(path, index_offset, rows, start, stop))


def segments(pieces: Sequence[Piece], segment_bytes: int) -> Iterator[list[Piece]]:
    """The pieces cut into segments of about `segment_bytes` that follow each other in the order of (key, tie).

    The cuts are found in a sample of the keys, so that nothing is sorted but within a segment.
    """
    total = sum(int(piece.sizes.sum(dtype=np.int64)) for piece in pieces)
    number = -(-total // segment_bytes)
    cuts = _sampled_cuts(pieces, number) if number > 1 else []
    starts = [0] * len(pieces)
    offsets = [piece.offset for piece in pieces]
    for cut in [*cuts, None]:
        segment = []
        for index, piece in enumerate(pieces):
            start = starts[index]
            stop = len(piece.keys) if cut is None else max(start, _rank(piece, *cut))
            if start < stop:
                sizes = piece.sizes[start:stop]
                segment.append(Piece(piece.path, offsets[index], piece.keys[start:stop], piece.ties[start:stop], sizes))
                starts[index] = stop
                offsets[index] += int(sizes.sum(dtype=np.int64))
        if segment:
            yield segment


def _sampled_cuts(pieces: Sequence[Piece], number: int) -> list[tuple[int, int]]:
    rows = sum(len(piece.keys) for piece in pieces)
    step = max(1, rows // (32 * number))  # 32 keys a segment: it is a sixth larger or smaller than meant, by the root of that
    keys = np.concatenate([piece.keys[::step] for piece in pieces])
    ties = np.concatenate([piece.ties[::step] for piece in pieces])
    weights = np.concatenate(
        [np.add.reduceat(piece.sizes, np.arange(0, len(piece.sizes), step), dtype=np.int64) for piece in pieces]
    )
    order = np.lexsort((ties, keys))
    before = np.cumsum(weights[order]) - weights[order]
    at = np.unique(np.searchsorted(before, np.arange(1, number) * (before[-1] + weights[order][-1]) // number))
    at = order[at[at < len(order)]]
    return list(zip(keys[at].tolist(), ties[at].tolist(), strict=True))


def _rank(piece: Piece, key: int, tie: int) -> int:
    """How many of the piece's records come before (key, tie)."""
    low, high = np.searchsorted(piece.keys, np.uint64(key), "left"), np.searchsorted(piece.keys, np.uint64(key), "right")
    return int(low + np.searchsorted(piece.ties[low:high], np.uint64(tie), "left")) if low < high else int(low)
