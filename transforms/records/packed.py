"""Shards of packed tokens: documents that lie in runs, merged by key, and cut into blocks, some megabytes at a time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from shardmill.records import spans
from shardmill.records.tfrecord import OVERHEAD
from shardmill.transforms.columns.buffers import data_of
from shardmill.transforms.examples.encode import encode_framed
from shardmill.transforms.examples.framing import HEADER_BYTES
from shardmill.transforms.records.merge import SEGMENT_BYTES, Piece, merged, pieces_of
from shardmill.transforms.records.run_file import key_order
from shardmill.transforms.records.slice import to_slices
from shardmill.transforms.statistics.hashes import mix
from shardmill.transforms.statistics.tables import TableStats
from shardmill.transforms.tokens.pack import token_ids, tokens_of
from shardmill.transforms.tokens.tokenize import INPUT_IDS
from shardmill.transforms.workers.batches import concatenate
from shardmill.transforms.workers.memory import budget
from shardmill.transforms.writing.source import EncodedChunk

_HELD = 10  # times the size of a segment: documents in order, tokens of 8 bytes, and the examples of them


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Some consecutive blocks of a shard.

    Attributes:
      pieces: the documents that have tokens in them.
      skip: tokens of the first of these that come before.
      blocks: how many.
      begun: how many documents begin in them, or behind the last block of all.
    """

    pieces: list[Piece]
    skip: int
    blocks: int
    begun: int


@dataclass(frozen=True)
class PackedShards:
    """A shardmill.transforms.writing.source.ShardSource over SLICE batches.

    Attributes:
      block: tokens of an example.
      name: of its one feature.
      segment_bytes: of documents that are packed at once, about.
    """

    block: int
    name: str = INPUT_IDS
    segment_bytes: int = SEGMENT_BYTES

    def plan(self, parts: Iterable[pa.RecordBatch]) -> tuple[int, Iterable[Segment]]:
        """The number of documents that begin in the shard, and the segments of its blocks."""
        slices = to_slices(concatenate(parts))
        skip, blocks = slices[0].skip, slices[0].blocks
        return sum(part.rows for part in slices) - (skip > 0), self._segments(pieces_of(slices), skip, blocks)

    def _segments(self, pieces: Sequence[Piece], skip: int, blocks: int) -> Iterator[Segment]:
        order = key_order(
            *(np.concatenate(arrays) for arrays in zip(*((piece.keys, piece.ties) for piece in pieces), strict=True))
        )
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        ranks = np.split(rank, np.cumsum([len(piece.keys) for piece in pieces])[:-1])
        tokens = tokens_of(np.concatenate([piece.sizes for piece in pieces])[order])
        ends = np.cumsum(tokens) - skip  # counted from the shard's first token
        starts = ends - tokens
        most = max(1, self.segment_bytes // (4 * self.block))
        for first, after in pairwise([*range(0, blocks, most), blocks]):
            begin, end = first * self.block, after * self.block
            low, high = np.searchsorted(ends, begin, side="right"), np.searchsorted(starts, end, side="left")
            part = [_cut(piece, *np.searchsorted(of, (low, high)).tolist()) for piece, of in zip(pieces, ranks)]
            # What is left behind the last block counts here, too
            stop = len(starts) if after == blocks else int(high)
            begun = stop - int(np.searchsorted(starts, begin, side="left"))
            yield Segment([each for each in part if len(each.keys)], int(begin - starts[low]), after - first, begun)

    def encode(self, task: Segment) -> EncodedChunk:
        """Read, merge and pack one segment."""
        with budget().take(_HELD * sum(piece.size_bytes for piece in task.pieces)):
            return self._encode(task)

    def _encode(self, task: Segment) -> EncodedChunk:
        data, order = merged(task.pieces)
        sizes = np.concatenate([piece.sizes for piece in task.pieces])[order].astype(np.int64)
        bare, _ = spans.gather(data, np.cumsum(sizes) - sizes + HEADER_BYTES, sizes - OVERHEAD)
        ids = token_ids(bare)[task.skip : task.skip + task.blocks * self.block]
        offsets = np.arange(task.blocks + 1, dtype=np.int64) * self.block
        lists = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(ids))
        batch = pa.RecordBatch.from_arrays([lists], names=[INPUT_IDS])
        stats = TableStats.of(batch, _ties(task, order, tokens_of(sizes), offsets[:-1] + task.skip))
        framed = encode_framed(batch.rename_columns([self.name]))
        return EncodedChunk(data_of(framed), task.blocks, stats=stats, made_of=task.begun)


def _ties(task: Segment, order: np.ndarray, tokens: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """What samples are drawn by: of each block, a hash of the document that it begins in, and of the token there."""
    ends = np.cumsum(tokens)
    document = np.searchsorted(ends, starts, side="right")
    keys = np.concatenate([piece.keys for piece in task.pieces])[order][document]
    within = (starts - (ends - tokens)[document]).astype(np.uint64)
    return mix(keys + mix(within))


def _cut(piece: Piece, start: int, stop: int) -> Piece:
    """The documents of a piece from the one to before the other."""
    before = int(piece.sizes[:start].sum(dtype=np.int64)) + piece.gap * start
    keys, ties, sizes = (array[start:stop] for array in (piece.keys, piece.ties, piece.sizes))
    return replace(piece, offset=piece.offset + before, keys=keys, ties=ties, sizes=sizes)
