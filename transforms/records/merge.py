"""Shards of records that lie in runs: slices of many runs merged by key, a segment of some megabytes at a time.

On a local disk each segment reads its pieces of the slices where they lie. Each would be a request of its own to an
object store, so there a shard's slices are fetched whole first, one request each, for their records have their entries
before them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from shardmill.records import spans
from shardmill.transforms.records.fetch import Range, fetch
from shardmill.transforms.records.run_file import columns_of, key_order
from shardmill.transforms.records.self_contained import ENTRY, entries_of
from shardmill.transforms.records.slice import Slice, to_slices
from shardmill.transforms.sharding.key_histogram import Cuts
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.ranges import read_ranges
from shardmill.transforms.workers.batches import concatenate
from shardmill.transforms.workers.memory import budget
from shardmill.transforms.writing.source import EncodedChunk

SEGMENT_BYTES = 8 << 20  # of a shard, merged at once
_HELD = 2  # times the size of a segment: as it was read, and in order


class Source(Protocol):
    """Where the records of a piece lie."""

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill `target` with the bytes at `offset`; raises OSError."""


@dataclass(frozen=True, slots=True)
class RunFile:
    """A run where it was written.

    Attributes:
      path: of the run.
    """

    path: str

    def read_into(self, offset: int, target: memoryview) -> None:
        """As Source says."""
        storage.read_into(self.path, offset, target)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Consecutive records of one run, in the order of their keys.

    Attributes:
      source: of their bytes.
      offset: of their first byte, or that of the entry before.
      keys, ties: uint64, shape (n,).
      sizes: framed, in bytes, uint32, shape (n,).
      gap: bytes before each record that are not of it.
    """

    source: Source
    offset: int
    keys: np.ndarray
    ties: np.ndarray
    sizes: np.ndarray
    gap: int = 0

    @property
    def record_bytes(self) -> int:
        """The bytes of its records."""
        return int(self.sizes.sum(dtype=np.int64))

    @property
    def size_bytes(self) -> int:
        """The bytes that it takes where it lies."""
        return self.record_bytes + self.gap * len(self.sizes)


@dataclass(frozen=True)
class RunShards:
    """A shardmill.transforms.writing.source.ShardSource over SLICE batches.

    The keys of a shard are held at once, 20 bytes a record; its records only in as many segments as its writer has
    under way.

    Attributes:
      segment_bytes: of a segment, about.
    """

    segment_bytes: int = SEGMENT_BYTES

    def plan(self, parts: Iterable[pa.RecordBatch]) -> tuple[int, Iterable[list[Piece]]]:
        """The number of records, and the pieces of each segment."""
        pieces = pieces_of(to_slices(concatenate(parts)))
        return sum(len(piece.keys) for piece in pieces), segments(pieces, self.segment_bytes)

    def encode(self, task: Sequence[Piece]) -> EncodedChunk:
        """Read and merge one segment."""
        with budget().take(_HELD * sum(piece.size_bytes for piece in task)):
            data, order = merged(task)
        return EncodedChunk(data, len(order))


def pieces_of(slices: Sequence[Slice]) -> list[Piece]:
    """The records of some slices, those of an object store fetched."""
    pieces = _in_place([part for part in slices if part.entries_at is not None])
    return pieces + _fetched([part for part in slices if part.entries_at is None])


def merged(pieces: Sequence[Piece]) -> tuple[Any, np.ndarray]:
    """The framed records of all pieces in the order of (key, tie), and that order: indices of the records of the first
    piece, then of the next."""
    order = key_order(
        *(np.concatenate(arrays) for arrays in zip(*((piece.keys, piece.ties) for piece in pieces), strict=True))
    )
    sizes = np.concatenate([piece.sizes for piece in pieces]).astype(np.int64)
    gaps = np.repeat([piece.gap for piece in pieces], [len(piece.sizes) for piece in pieces])
    ends = np.cumsum(sizes + gaps)
    data = np.empty(int(ends[-1]), np.uint8)
    places = np.concatenate(([0], ends[np.cumsum([len(piece.sizes) for piece in pieces]) - 1]))
    _read(pieces, data, places)
    return spans.gather(data, (ends - sizes).take(order), sizes.take(order))[0], order


def _read(pieces: Sequence[Piece], target: np.ndarray, places: np.ndarray) -> None:
    """Fill `target` with the bytes of pieces, whose places begin at `places`."""
    files = [piece.source.path for piece in pieces if isinstance(piece.source, RunFile)]
    if len(files) == len(pieces):
        read_ranges(files, np.array([piece.offset for piece in pieces], np.int64), target, places)
        return
    for piece, start, stop in zip(pieces, places[:-1], places[1:], strict=True):
        piece.source.read_into(piece.offset, target[start:stop].data)


def _in_place(slices: Sequence[Slice]) -> list[Piece]:
    """The records of slices whose entries lie behind them all."""
    if not slices:
        return []
    ends = np.cumsum([0, *(part.rows for part in slices)])
    entries = np.empty(ends[-1], ENTRY)
    offsets = np.array([part.entries_at for part in slices], np.int64)
    read_ranges([part.path for part in slices], offsets, entries.view(np.uint8), ends * ENTRY.itemsize)
    keys, ties, sizes = columns_of(entries)
    return [
        Piece(RunFile(part.path), part.offset, keys[start:stop], ties[start:stop], sizes[start:stop])
        for part, (start, stop) in zip(slices, pairwise(ends.tolist()), strict=True)
    ]


def _fetched(slices: Sequence[Slice]) -> list[Piece]:
    if not slices:
        return []
    spool, offsets = fetch([Range(part.path, part.offset, part.size_bytes) for part in slices])
    pieces = []
    for part, offset in zip(slices, offsets, strict=True):
        data = bytearray(part.size_bytes)
        spool.read_into(offset, memoryview(data))
        pieces.append(Piece(spool, offset, *columns_of(entries_of(data)), ENTRY.itemsize))
    return pieces


def segments(pieces: Sequence[Piece], segment_bytes: int, whole_keys: bool = False) -> Iterator[list[Piece]]:
    """The pieces cut into segments of about `segment_bytes` that follow each other in the order of (key, tie); with
    `whole_keys` all records of a key are in one, however many they are.

    The cuts are found in a sample of the keys, so that nothing is sorted but within a segment.
    """
    total = sum(piece.record_bytes for piece in pieces)
    if total <= segment_bytes:
        if pieces:
            yield list(pieces)
        return
    cuts = _sampled_cuts(pieces, -(-total // segment_bytes))
    if whole_keys:
        at = np.unique(cuts.keys)
        cuts = Cuts(at, np.zeros(len(at), np.uint64))
    parts = [_cut(piece, cuts) for piece in pieces]
    for segment in zip(*parts, strict=True):
        if present := [part for part in segment if len(part.keys)]:
            yield present


def _cut(piece: Piece, cuts: Cuts) -> Iterator[Piece]:
    offset = piece.offset
    for start, stop in pairwise(cuts.bounds(piece.keys, piece.ties).tolist()):
        keys, ties, sizes = (array[start:stop] for array in (piece.keys, piece.ties, piece.sizes))
        part = replace(piece, offset=offset, keys=keys, ties=ties, sizes=sizes)
        yield part
        offset += part.size_bytes


def _sampled_cuts(pieces: Sequence[Piece], number: int) -> Cuts:
    rows = sum(len(piece.keys) for piece in pieces)
    # 32 keys a segment: it is a sixth larger or smaller than meant, by the root of that
    step = max(1, rows // (32 * number))
    keys = np.concatenate([piece.keys[::step] for piece in pieces])
    ties = np.concatenate([piece.ties[::step] for piece in pieces])
    weights = np.concatenate(
        [np.add.reduceat(piece.sizes, np.arange(0, len(piece.sizes), step), dtype=np.int64) for piece in pieces]
    )
    order = np.lexsort((ties, keys))
    before = np.cumsum(weights[order]) - weights[order]
    at = np.unique(np.searchsorted(before, np.arange(1, number) * (before[-1] + weights[order][-1]) // number))
    at = order[at[at < len(order)]]
    return Cuts(keys[at], ties[at])
