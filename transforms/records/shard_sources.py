"""Sources of shards that make sequences, packed tokens or transformed examples from the records of runs."""

import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.data import spans
from shardmill.data.example import decode_example
from shardmill.data.features import NO_RENAMES, Feature, Features, Renames
from shardmill.data.tfrecord import OVERHEAD
from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.text import shown_line, to_printable
from shardmill.transforms.columns.arrow import as_text, concatenate, data_of
from shardmill.transforms.columns.example_bytes import HEADER_BYTES
from shardmill.transforms.columns.example_encoding import MAX_RECORD_BYTES, encode_framed, example_sizes
from shardmill.transforms.records.keys import hash_records
from shardmill.transforms.records.merging import (
    SEGMENT_BYTES,
    Piece,
    RunShards,
    concatenate_column,
    cut_into_segments,
    merge_pieces,
    read_pieces,
)
from shardmill.transforms.records.run_file import sort_order, strip_frames, to_slices
from shardmill.transforms.shards.sources import EncodedChunk
from shardmill.transforms.statistics.contents import SEEDS, FileContents
from shardmill.transforms.statistics.sketches import mix
from shardmill.transforms.statistics.tables import TableStats
from shardmill.transforms.values.options import Sequencing
from shardmill.transforms.values.sequences import DecodedRows, row_widths, values_per_row
from shardmill.transforms.values.tokens_encoding import INPUT_IDS, token_counts, token_ids
from shardmill.transforms.values.transform_graph import Apply, StagedGraph, transform_records
from shardmill.transforms.workers.resources import memory_budget

SEQUENCE_STAGE = "sequence"
SAME_TIME = "same time"  # what is counted: rows that have the time of another of their sequence
MAX_SEQUENCE_BYTES = 256 << 20  # of the rows of one sequence, which are held at once, several times
_GATHERING_COPIES = 8  # times the size of a segment


@dataclass(frozen=True)
class SequenceShards:
    """A ShardSource that gathers the rows of each id in slices of runs as one sequence example."""

    features: Features  # published features by input name; those of shape () are constant in a sequence
    sequencing: Sequencing  # how rows are gathered
    non_content: tuple[str, ...] = ()  # features that identify a sequence but are not content
    labels: tuple[str, ...] = ()  # features that hold class ids
    target: str | None = None  # feature to predict, or None
    renames: Renames = NO_RENAMES  # names of the features in examples
    segment_bytes: int = SEGMENT_BYTES  # approximate bytes of rows gathered at once

    def plan(self, parts: Iterable[pa.RecordBatch]) -> tuple[int, Iterable[list[Piece]]]:
        """Return the number of a shard's rows, and the tasks; the rows of one id are in one task."""
        pieces = read_pieces(to_slices(concatenate(parts)))
        return sum(len(piece.keys) for piece in pieces), self._make_segments(pieces)

    def _make_segments(self, pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
        for segment in cut_into_segments(pieces, self.segment_bytes, whole_keys=True):
            if sum(piece.record_bytes for piece in segment) > MAX_SEQUENCE_BYTES:
                self._check(segment)
            yield segment

    def _check(self, segment: Sequence[Piece]) -> None:
        keys, which = np.unique(concatenate_column(segment, "keys"), return_inverse=True)
        sizes = np.bincount(which, concatenate_column(segment, "sizes"), len(keys))
        if sizes.max() > MAX_SEQUENCE_BYTES:
            rows = int(np.bincount(which)[sizes.argmax()])
            raise UserError(
                f"--sequence_by {self.sequencing.id}: one sequence has {rows:,} rows of {int(sizes.max()):,} bytes;"
                f" expected {MAX_SEQUENCE_BYTES:,} at most, because its writers and readers hold an example in memory"
                " it: is it an id? Or leave columns out by --drop"
            )

    def encode(self, task: Sequence[Piece]) -> EncodedChunk:
        """Read, merge and gather the rows of one task."""
        with memory_budget().take(_GATHERING_COPIES * sum(piece.size_bytes for piece in task)):
            return self._encode(task)

    def _encode(self, task: Sequence[Piece]) -> EncodedChunk:
        data, order = merge_pieces(task)
        keys, times, sizes = (concatenate_column(task, name)[order] for name in ("keys", "ties", "sizes"))
        sizes = sizes.astype(np.int64)
        decoded = DecodedRows.decode(
            np.frombuffer(data, np.uint8), np.cumsum(sizes) - sizes + HEADER_BYTES, row_widths(self.features)
        )
        ids = _rank_texts(decoded.ids)
        # Two ids may have one hash; rows of one time are in the order of their files and lines
        rows = np.lexsort((decoded.lines, _rank_texts(decoded.files), times, ids, keys))
        is_first = np.ones(len(rows), bool)
        is_first[1:] = (keys[rows][1:] != keys[rows][:-1]) | (ids[rows][1:] != ids[rows][:-1])
        is_same = ~is_first
        is_same[1:] &= times[rows][1:] == times[rows][:-1]
        starts = np.flatnonzero(is_first)
        lengths = np.diff(np.append(starts, len(rows)))
        reasons = self._find_reasons(decoded, rows, starts, lengths)
        batch = self._batch(decoded, rows, starts, lengths)
        if batch.nbytes > MAX_RECORD_BYTES // 2:
            for place in np.flatnonzero(example_sizes(batch) > MAX_RECORD_BYTES).tolist():
                reasons[place] = "a sequence of more than 2 GB; protobuf holds no more"
        rejects = [
            Reject(decoded.files[row].as_py().decode(), shown_line(int(decoded.lines[row])), SEQUENCE_STAGE, reason)
            for sequence, reason in sorted(reasons.items())
            for row in rows[starts[sequence] : starts[sequence] + lengths[sequence]].tolist()
        ]
        good = np.ones(len(starts), bool)
        good[list(reasons)] = False
        batch = batch.filter(pa.array(good))
        ties = mix(keys[rows][starts] + mix(ids[rows][starts].astype(np.uint64)))[good]
        stats = TableStats.from_batch(batch, ties, self.labels, self.target)
        contents = self._hash_contents(batch, decoded, rows[starts][good])
        framed = encode_framed(batch.rename_columns(list(map(self.renames, batch.schema.names))))
        chunk = EncodedChunk(data_of(framed), len(batch), rejects, stats, contents=contents)
        chunk.input_records = int(lengths[good].sum())
        chunk.notice_counts = Counter({SAME_TIME: int(is_same[np.repeat(good, lengths)].sum())})
        return chunk

    def _hash_contents(self, batch: pa.RecordBatch, decoded: DecodedRows, firsts: np.ndarray) -> FileContents | None:
        """Return the content hashes of the sequences of `batch`, each with the file and line of its first row."""
        content_features = [name for name in batch.schema.names if name not in self.non_content]
        if not len(batch):
            return None
        hashes = hash_records(batch.select(content_features or batch.schema.names), SEEDS)
        files = decoded.files.take(pa.array(firsts)).dictionary_encode()
        names = [name.decode() for name in files.dictionary.to_pylist()]
        return FileContents.from_hashes(hashes, names, files.indices.to_numpy(), decoded.lines[firsts])

    def _batch(self, decoded: DecodedRows, rows: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> pa.RecordBatch:
        columns = []
        for place, feature in enumerate(self.features):
            if not feature.shape:
                columns.append(decoded.column(place, feature.dtype, rows[starts]))
                continue
            items = values_per_row(feature.shape)
            offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths) * items))
            values = decoded.column(place, feature.dtype, rows)
            columns.append(pa.LargeListArray.from_arrays(pa.array(offsets), values))
        return pa.RecordBatch.from_arrays(columns, names=[feature.name for feature in self.features])

    def _find_reasons(
        self, decoded: DecodedRows, rows: np.ndarray, starts: np.ndarray, lengths: np.ndarray
    ) -> dict[int, str]:
        """Return the reason, by index, to reject each sequence whose label differs between its rows."""
        reasons: dict[int, str] = {}
        for place, feature in enumerate(self.features):
            if feature.shape or feature.name == self.sequencing.id:
                continue
            values = decoded.column(place, feature.dtype, rows)
            codes = values.dictionary_encode().indices.to_numpy(zero_copy_only=False)
            differs = np.flatnonzero(codes != np.repeat(codes[starts], lengths))
            which = np.searchsorted(starts, differs, side="right") - 1
            for row, sequence in zip(differs[::-1].tolist(), which[::-1].tolist(), strict=True):
                name = as_text(decoded.ids[int(rows[starts[sequence]])].as_py())
                one, other = (self._format_value(feature, values[int(at)].as_py()) for at in (starts[sequence], row))
                reasons[sequence] = (
                    f"{feature.name!r} is not the same in all rows of {self.sequencing.id} {name}: {one}, then {other};"
                    " a sequence has one label"
                )
        return reasons

    def _format_value(self, feature: Feature, value: object) -> str:
        names = feature.class_names
        return repr(names[value]) if isinstance(value, int) and value < len(names) else as_text(value)


def _rank_texts(texts: pa.LargeBinaryArray) -> np.ndarray:
    """Return the rank of each text among the distinct texts: int64, shape (n,)."""
    encoded = texts.dictionary_encode()
    rank = np.empty(len(encoded.dictionary), np.int64)
    rank[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(rank))
    return rank[encoded.indices.to_numpy()]


_PACKING_COPIES = 10  # times the size of a segment: documents in order, tokens of 8 bytes, and the examples of them


@dataclass(frozen=True, slots=True, eq=False)
class PackedSegment:
    """Consecutive blocks of tokens of a shard, which one task encodes."""

    pieces: list[Piece]  # documents that have tokens in the blocks
    skip: int  # tokens of the first document to skip
    blocks: int  # number of blocks
    begun: int  # documents that begin in the blocks; for the last segment also those that begin after them


@dataclass(frozen=True)
class PackedShards:
    """A ShardSource that packs the tokens of documents in slices of runs into blocks of equal length."""

    block: int  # tokens of an example
    name: str = INPUT_IDS  # name of the only feature
    segment_bytes: int = SEGMENT_BYTES  # approximate bytes of documents packed at once

    def plan(self, parts: Iterable[pa.RecordBatch]) -> tuple[int, Iterable[PackedSegment]]:
        """Return the number of documents that begin in a shard, and the tasks that encode its blocks."""
        slices = to_slices(concatenate(parts))
        skip, blocks = slices[0].skip, slices[0].blocks
        return sum(part.rows for part in slices) - (skip > 0), self._make_segments(read_pieces(slices), skip, blocks)

    def _make_segments(self, pieces: Sequence[Piece], skip: int, blocks: int) -> Iterator[PackedSegment]:
        order = sort_order(concatenate_column(pieces, "keys"), concatenate_column(pieces, "ties"))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        ranks = np.split(rank, np.cumsum([len(piece.keys) for piece in pieces])[:-1])
        tokens = token_counts(concatenate_column(pieces, "sizes")[order])
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
        data, order = merge_pieces(task.pieces)
        sizes = concatenate_column(task.pieces, "sizes")[order].astype(np.int64)
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
    keys = concatenate_column(task.pieces, "keys")[order][document]
    within = (starts - (ends - tokens)[document]).astype(np.uint64)
    return mix(keys + mix(within))


def _slice_piece(piece: Piece, start: int, stop: int) -> Piece:
    before = int(piece.sizes[:start].sum(dtype=np.int64)) + piece.gap * start
    return piece.slice(start, stop, piece.offset + before)


_HELD = 10  # times the size of a segment: records as read, in order and apart, tensors, and the examples of them
_MAX_SHOWN = 120  # letters of an example that the graph does not take
_lock = threading.Lock()
_held: dict[str, Apply] = {}  # in this process: one, by its folder


@dataclass(frozen=True)
class TransformedShards:
    """A ShardSource that applies a transform graph to the examples in slices of runs."""

    graph: StagedGraph  # transform graph to apply
    source: str  # named in rejects, because a run does not know its files
    runs: RunShards = field(default_factory=RunShards)  # reader of raw records

    def plan(self, parts: Iterable[pa.RecordBatch]) -> tuple[int, Iterable[list[Piece]]]:
        return self.runs.plan(parts)

    def encode(self, task: Sequence[Piece]) -> EncodedChunk:
        """Read, merge and transform the examples of one task."""
        with memory_budget().take(_HELD * sum(piece.size_bytes for piece in task)):
            return self._encode(task)

    def _encode(self, task: Sequence[Piece]) -> EncodedChunk:
        data, order = merge_pieces(task)
        sizes = concatenate_column(task, "sizes").astype(np.int64)[order]
        ties = concatenate_column(task, "ties")[order]
        records = strip_frames(data.tobytes(), sizes)
        batches, failed = transform_records(records, _load_graph(self.graph))
        labels = [
            each.name
            for each in self.graph.features
            if each.dtype == "int64" and (each.role == "label" or each.kind == "class_label")
        ]
        stats, framed, start = TableStats(), [], 0
        kept = np.delete(ties, list(failed))
        for batch in batches:
            stats.add(batch, kept[start : start + batch.num_rows], labels)
            framed.append(data_of(encode_framed(batch)))
            start += batch.num_rows
        rejects = [
            Reject(self._format_record(records[place]), None, "transform", f"the transform graph fails: {why}")
            for place, why in sorted(failed.items())
        ]
        return EncodedChunk(np.concatenate([*framed, np.empty(0, np.uint8)]), start, rejects, stats)

    def _format_record(self, record: bytes) -> str:
        shown = ", ".join(f"{name}={values}" for name, values in decode_example(record).items())
        return to_printable(f"{self.source}: {shown if len(shown) <= _MAX_SHOWN else shown[: _MAX_SHOWN - 1] + '…'}")


def _load_graph(graph: StagedGraph) -> Apply:
    """Return the transform graph, which a worker process loads once; raise OSError if it cannot be read."""
    with _lock:
        if graph.folder not in _held:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what it says of processors, as it is imported
            from shardmill.transforms.values.tensorflow_apply import SavedGraph

            _held.clear()
            _held[graph.folder] = SavedGraph(graph.folder, graph.features)
        return _held[graph.folder]
