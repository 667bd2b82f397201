"""Pack tokenized documents into blocks of equal length: their records in runs, cuts between shards, and examples.

A split is one stream of tokens, with documents in the order of their keys. A shard may begin and end within a document.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.data import spans
from shardmill.data.tfrecord import OVERHEAD
from shardmill.errors import UserError
from shardmill.transforms.columns.arrow import buffer_items, concatenate, data_of, offsets_of
from shardmill.transforms.columns.example_bytes import HEADER_BYTES, frame
from shardmill.transforms.columns.example_encoding import encode_framed
from shardmill.transforms.features.rows import EncodedRows
from shardmill.transforms.layout.tables import TableLayout
from shardmill.transforms.records import merging
from shardmill.transforms.records.run_file import sort_order, to_slices
from shardmill.transforms.shards.balance import ShardCount, shard_count
from shardmill.transforms.shards.divisions import Division, ShardShare, to_cuts
from shardmill.transforms.shards.sources import EncodedChunk
from shardmill.transforms.statistics.sketches import mix
from shardmill.transforms.statistics.tables import TableStats
from shardmill.transforms.workers.resources import memory_budget

INPUT_IDS = "input_ids"  # as Hugging Face's models call them
_DTYPE = np.dtype("<u4")  # vocabularies have far fewer than 2**32 tokens


def document_records(ids: pa.LargeListArray, end: int | None) -> pa.LargeBinaryArray:
    """Return the record of each document: the ids in its list, followed by `end` unless None.

    A token takes four bytes, so a record's framed size, which is in the keys of a run, gives its number of tokens.
    """
    offsets = offsets_of(ids)
    values = buffer_items(ids.values.buffers()[1], np.int64, ids.values.offset, len(ids.values))
    values = values[offsets[0] : offsets[-1]]
    if end is not None:
        values = np.insert(values, offsets[1:] - offsets[0], end)
        offsets = offsets + np.arange(len(offsets))
    data = values.astype(_DTYPE)
    bounds = (offsets - offsets[0]) * _DTYPE.itemsize
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(ids), buffers)


def token_counts(sizes: np.ndarray) -> np.ndarray:
    """Return the number of tokens of each document, given the framed sizes of their records: int64, shape (n,)."""
    return (sizes.astype(np.int64) - OVERHEAD) // _DTYPE.itemsize


def total_tokens(documents: int, size_bytes: int) -> int:
    """Return the total number of tokens of documents whose framed records have `size_bytes` in all."""
    return (size_bytes - documents * OVERHEAD) // _DTYPE.itemsize


def token_ids(data: np.ndarray) -> np.ndarray:
    """Return the tokens in the bytes of some unframed records: int64, shape (n,)."""
    return data.view(_DTYPE).astype(np.int64)


def divide_tokens(tokens: np.ndarray, block: int, shards: int) -> tuple[list[int], list[ShardShare]]:
    """Divide a split's stream of tokens among shards; tokens after the last block are in no shard.

    A split is one stream of tokens, with documents in the order of their keys, cut into blocks of equal size. The
    shards' numbers of blocks differ by at most one. A shard may begin and end within a document.

    Args:
        tokens: tokens of each document in key order, int64, shape (documents,), positive.
        block: tokens of a block.
        shards: number of shards, at most the number of blocks.

    Returns:
        The index of the first document of each shard but the first, and each shard's part.
    """
    ends = np.cumsum(tokens)
    blocks = int(ends[-1]) // block
    firsts = [index * blocks // shards for index in range(shards + 1)]
    starts = np.array(firsts[:-1], np.int64) * block
    at = np.searchsorted(ends, starts, side="right")
    skips = starts - (ends - tokens)[at]
    each = [
        ShardShare(skip, after - first) for skip, first, after in zip(skips.tolist(), firsts, firsts[1:], strict=False)
    ]
    return at[1:].tolist(), each


_PACKING_COPIES = 10  # times the size of a segment: documents in order, tokens of 8 bytes, and the examples of them


@dataclass(frozen=True, slots=True, eq=False)
class PackedSegment:
    """Consecutive blocks of tokens of a shard, which one task encodes."""

    pieces: list[merging.Piece]  # documents that have tokens in the blocks
    skip: int  # tokens of the first document to skip
    blocks: int  # number of blocks
    begun: int  # documents that begin in the blocks; for the last segment also those that begin after them


@dataclass(frozen=True)
class PackedShards:
    """A ShardSource that packs the tokens of documents in slices of runs into blocks of equal length."""

    block: int  # tokens of an example
    name: str = INPUT_IDS  # name of the only feature
    segment_bytes: int = merging.SEGMENT_BYTES  # approximate bytes of documents packed at once

    def plan(self, parts: Iterable[pa.RecordBatch]) -> tuple[int, Iterable[PackedSegment]]:
        """Return the number of documents that begin in a shard, and the tasks that encode its blocks."""
        slices = to_slices(concatenate(parts))
        skip, blocks = slices[0].skip, slices[0].examples
        return sum(part.rows for part in slices) - (skip > 0), self._make_segments(
            merging.read_pieces(slices), skip, blocks
        )

    def _make_segments(self, pieces: Sequence[merging.Piece], skip: int, blocks: int) -> Iterator[PackedSegment]:
        order = sort_order(merging.concatenate_column(pieces, "keys"), merging.concatenate_column(pieces, "ties"))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        ranks = np.split(rank, np.cumsum([len(piece.keys) for piece in pieces])[:-1])
        tokens = token_counts(merging.concatenate_column(pieces, "sizes")[order])
        ends = np.cumsum(tokens) - skip  # counted from the shard's first token
        starts = ends - tokens
        most = max(1, self.segment_bytes // (4 * self.block))
        for first, after in pairwise([*range(0, blocks, most), blocks]):
            begin, end = first * self.block, after * self.block
            low, high = np.searchsorted(ends, begin, side="right"), np.searchsorted(starts, end, side="left")
            part = [_slice_piece(piece, *np.searchsorted(of, (low, high)).tolist()) for piece, of in zip(pieces, ranks)]
            # What is left behind the last block counts here, too
            stop = len(starts) if after == blocks else int(high)
            begun = stop - int(np.searchsorted(starts, begin, side="left"))
            present = [each for each in part if len(each.keys)]
            yield PackedSegment(present, int(begin - starts[low]), after - first, begun)

    def encode(self, task: PackedSegment) -> EncodedChunk:
        """Read and merge the documents of one task, and pack their tokens."""
        with memory_budget().take(_PACKING_COPIES * sum(piece.size_bytes for piece in task.pieces)):
            return self._encode(task)

    def _encode(self, task: PackedSegment) -> EncodedChunk:
        data, order = merging.merge_pieces(task.pieces)
        sizes = merging.concatenate_column(task.pieces, "sizes")[order].astype(np.int64)
        bare, _ = spans.gather(data, np.cumsum(sizes) - sizes + HEADER_BYTES, sizes - OVERHEAD)
        ids = token_ids(bare)[task.skip : task.skip + task.blocks * self.block]
        offsets = np.arange(task.blocks + 1, dtype=np.int64) * self.block
        lists = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(ids))
        batch = pa.RecordBatch.from_arrays([lists], names=[INPUT_IDS])
        stats = TableStats.from_batch(
            batch, _make_block_ties(task, order, token_counts(sizes), offsets[:-1] + task.skip)
        )
        framed = encode_framed(batch.rename_columns([self.name]))
        return EncodedChunk(data_of(framed), task.blocks, stats=stats, input_records=task.begun)


def _make_block_ties(task: PackedSegment, order: np.ndarray, tokens: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return a random number per block: a hash of the document in which it begins and its first token's place."""
    ends = np.cumsum(tokens)
    document = np.searchsorted(ends, starts, side="right")
    keys = merging.concatenate_column(task.pieces, "keys")[order][document]
    within = (starts - (ends - tokens)[document]).astype(np.uint64)
    return mix(keys + mix(within))


def _slice_piece(piece: merging.Piece, start: int, stop: int) -> merging.Piece:
    before = int(piece.sizes[:start].sum(dtype=np.int64)) + piece.gap * start
    return piece.slice(start, stop, piece.offset + before)


_ID_BYTES = 3  # of a token's id in an example, at most: vocabularies have fewer than 2**21 tokens


@dataclass(frozen=True)
class Packing:
    """The Assembly of blocks of tokens from the texts of a split."""

    block: int  # tokens of an example
    end_id: int  # of the token after each text
    name: str  # of the only feature of examples
    contents: ClassVar[str] = "documents"
    cuts_records: ClassVar[bool] = True
    key: ClassVar[None] = None

    def encode(self, batch: pa.RecordBatch, helpers: Mapping[str, pa.Array], layout: TableLayout) -> EncodedRows:
        ids, features = batch[INPUT_IDS], batch.select([INPUT_IDS])
        lengths = pa.RecordBatch.from_arrays([pc.list_value_length(ids)], names=[INPUT_IDS])
        return EncodedRows(frame(document_records(ids, self.end_id)), features, helpers, partial_columns=lengths)

    def count_shards(self, counts: Mapping[str, ShardCount], split: str, records: int, size_bytes: int) -> int:
        tokens = total_tokens(records, size_bytes)
        if tokens < self.block:
            raise UserError(
                f"--pack_to {self.block}: split {split!r} has {tokens:,} tokens in all, fewer than one block; give a"
                " smaller number, or more text"
            )
        blocks = tokens // self.block
        return shard_count(counts, split, blocks, blocks * self.block * _ID_BYTES)

    def divide(self, keys: np.ndarray, ties: np.ndarray, sizes: np.ndarray, shards: int) -> Division:
        """Divide documents into shards whose numbers of blocks differ by at most one."""
        order = np.lexsort((ties, keys))
        first, each = divide_tokens(token_counts(sizes[order]), self.block, shards)
        at = order[np.array(first, np.int64)]
        cuts = to_cuts(zip(keys[at].tolist(), ties[at].tolist(), strict=True))
        return Division(sum(share.examples for share in each), cuts, tuple(each))

    def make_shards(self, layout: TableLayout) -> PackedShards:
        return PackedShards(self.block, self.name)
