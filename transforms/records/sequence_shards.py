"""Shards of sequences: rows that lie in runs, merged by id and time, and gathered, some megabytes at a time."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.errors import UserError
from shardmill.features.feature import Feature, Features
from shardmill.features.renames import NO_RENAMES, Renames
from shardmill.metadata.rejects import Reject
from shardmill.transforms.columns.arrow import as_text
from shardmill.transforms.columns.buffers import data_of
from shardmill.transforms.contents.hashes import SEEDS
from shardmill.transforms.contents.of_files import FileContents
from shardmill.transforms.examples.encode import MAX_RECORD_BYTES, encode_framed, example_sizes
from shardmill.transforms.examples.framing import HEADER_BYTES
from shardmill.transforms.records.held import record_hashes
from shardmill.transforms.records.merge import SEGMENT_BYTES, Piece, merged, pieces_of, segments
from shardmill.transforms.records.slice import to_slices
from shardmill.transforms.sequences.options import Sequencing
from shardmill.transforms.sequences.rows import ReadRows, items_of, widths_of
from shardmill.transforms.statistics.hashes import mix
from shardmill.transforms.statistics.tables import TableStats
from shardmill.transforms.workers.batches import concatenate
from shardmill.transforms.workers.memory import budget
from shardmill.transforms.writing.source import EncodedChunk

STAGE = "sequence"
SAME_TIME = "same time"  # what is counted: rows that have the time of another of their sequence
MAX_SEQUENCE_BYTES = 256 << 20  # of the rows of one sequence, which are held at once, several times
_HELD = 8  # times the size of a segment


@dataclass(frozen=True)
class SequenceShards:
    """A shardmill.transforms.writing.source.ShardSource over SLICE batches.

    Attributes:
      features: as published, by the names of the input; those without a shape are constant in a sequence.
      sequencing: what rows are gathered by.
      apart: features that say which sequence it is, and not what it holds.
      labels: the features that hold ids of classes.
      target: the feature that is to be predicted; None where there is none.
      renames: what features are called in examples.
      segment_bytes: of rows that are gathered at once, about.
    """

    features: Features
    sequencing: Sequencing
    apart: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    target: str | None = None
    renames: Renames = NO_RENAMES
    segment_bytes: int = SEGMENT_BYTES

    def plan(self, parts: Iterable[pa.RecordBatch]) -> tuple[int, Iterable[list[Piece]]]:
        """The number of rows, and the pieces of each segment, in which all rows of an id are."""
        pieces = pieces_of(to_slices(concatenate(parts)))
        return sum(len(piece.keys) for piece in pieces), self._segments(pieces)

    def _segments(self, pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
        for segment in segments(pieces, self.segment_bytes, whole_keys=True):
            if sum(piece.record_bytes for piece in segment) > MAX_SEQUENCE_BYTES:
                self._check(segment)
            yield segment

    def _check(self, segment: Sequence[Piece]) -> None:
        keys, which = np.unique(np.concatenate([piece.keys for piece in segment]), return_inverse=True)
        sizes = np.bincount(which, np.concatenate([piece.sizes for piece in segment]), len(keys))
        if sizes.max() > MAX_SEQUENCE_BYTES:
            rows = int(np.bincount(which)[sizes.argmax()])
            raise UserError(
                f"--sequence_by {self.sequencing.id}: one sequence has {rows:,} rows of {int(sizes.max()):,} bytes;"
                f" expected {MAX_SEQUENCE_BYTES:,} at most, for an example is held in memory by whoever writes or reads"
                " it: is it an id? Or leave columns out by --drop"
            )

    def encode(self, task: Sequence[Piece]) -> EncodedChunk:
        """Read, merge and gather one segment."""
        with budget().take(_HELD * sum(piece.size_bytes for piece in task)):
            return self._encode(task)

    def _encode(self, task: Sequence[Piece]) -> EncodedChunk:
        data, order = merged(task)
        sizes = np.concatenate([piece.sizes for piece in task])[order].astype(np.int64)
        keys = np.concatenate([piece.keys for piece in task])[order]
        times = np.concatenate([piece.ties for piece in task])[order]
        found = ReadRows.of(
            np.frombuffer(data, np.uint8), np.cumsum(sizes) - sizes + HEADER_BYTES, widths_of(self.features)
        )
        ids = _ranks(found.ids)
        # Two ids may have one hash; rows of one time are in the order of their files and lines
        rows = np.lexsort((found.lines, _ranks(found.files), times, ids, keys))
        is_first = np.ones(len(rows), bool)
        is_first[1:] = (keys[rows][1:] != keys[rows][:-1]) | (ids[rows][1:] != ids[rows][:-1])
        is_same = ~is_first
        is_same[1:] &= times[rows][1:] == times[rows][:-1]
        starts = np.flatnonzero(is_first)
        lengths = np.diff(np.append(starts, len(rows)))
        reasons = self._reasons(found, rows, starts, lengths)
        batch = self._batch(found, rows, starts, lengths)
        if batch.nbytes > MAX_RECORD_BYTES // 2:
            for place in np.flatnonzero(example_sizes(batch) > MAX_RECORD_BYTES).tolist():
                reasons[place] = "a sequence of more than 2 GB; protobuf holds no more"
        rejects = list(self._rejects(found, rows, starts, lengths, reasons))
        good = np.ones(len(starts), bool)
        good[list(reasons)] = False
        batch = batch.filter(pa.array(good))
        ties = mix(keys[rows][starts] + mix(ids[rows][starts].astype(np.uint64)))[good]
        stats = TableStats.of(batch, ties, self.labels, self.target)
        contents = self._contents(batch, found, rows[starts][good])
        framed = encode_framed(batch.rename_columns(list(map(self.renames, batch.schema.names))))
        noted = Counter({SAME_TIME: int(is_same[np.repeat(good, lengths)].sum())})
        made_of = int(lengths[good].sum())
        return EncodedChunk(
            data_of(framed), len(batch), rejects, stats, made_of=made_of, noted=noted, contents=contents
        )

    def _contents(self, batch: pa.RecordBatch, found: ReadRows, firsts: np.ndarray) -> FileContents | None:
        """What the sequences of `batch` hold, each in the place of its first row."""
        held = [name for name in batch.schema.names if name not in self.apart]
        if not len(batch):
            return None
        hashes = record_hashes(batch.select(held or batch.schema.names), SEEDS)
        files = found.files.take(pa.array(firsts)).dictionary_encode()
        return FileContents.of_hashes(
            hashes,
            [name.decode() for name in files.dictionary.to_pylist()],
            files.indices.to_numpy(),
            found.lines[firsts],
        )

    def _batch(self, found: ReadRows, rows: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> pa.RecordBatch:
        columns = []
        for place, feature in enumerate(self.features):
            if not feature.shape:
                columns.append(found.column(place, feature.dtype, rows[starts]))
                continue
            items = items_of(feature.shape)
            offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths) * items))
            values = found.column(place, feature.dtype, rows)
            columns.append(pa.LargeListArray.from_arrays(pa.array(offsets), values))
        return pa.RecordBatch.from_arrays(columns, names=[feature.name for feature in self.features])

    def _reasons(self, found: ReadRows, rows: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> dict[int, str]:
        """Why sequences are left out, by their places: a label is not the same in all their rows."""
        reasons: dict[int, str] = {}
        for place, feature in enumerate(self.features):
            if feature.shape or feature.name == self.sequencing.id:
                continue
            values = found.column(place, feature.dtype, rows)
            codes = values.dictionary_encode().indices.to_numpy(zero_copy_only=False)
            differs = np.flatnonzero(codes != np.repeat(codes[starts], lengths))
            which = np.searchsorted(starts, differs, side="right") - 1
            for row, sequence in zip(differs[::-1].tolist(), which[::-1].tolist(), strict=True):
                name = as_text(found.ids[int(rows[starts[sequence]])].as_py())
                one, other = (self._shown(feature, values[int(at)].as_py()) for at in (starts[sequence], row))
                reasons[sequence] = (
                    f"{feature.name!r} is not the same in all rows of {self.sequencing.id} {name}: {one}, then {other};"
                    " a sequence has one label"
                )
        return reasons

    def _shown(self, feature: Feature, value: object) -> str:
        names = feature.class_names
        return repr(names[value]) if isinstance(value, int) and value < len(names) else as_text(value)

    def _rejects(
        self,
        found: ReadRows,
        rows: np.ndarray,
        starts: np.ndarray,
        lengths: np.ndarray,
        reasons: dict[int, str],
    ) -> Iterator[Reject]:
        for sequence, reason in sorted(reasons.items()):
            for row in rows[starts[sequence] : starts[sequence] + lengths[sequence]].tolist():
                yield Reject(found.files[row].as_py().decode(), int(found.lines[row]), STAGE, reason)


def _ranks(texts: pa.LargeBinaryArray) -> np.ndarray:
    """The rank of each text among those that differ: int64, shape (n,)."""
    encoded = texts.dictionary_encode()
    rank = np.empty(len(encoded.dictionary), np.int64)
    rank[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(rank))
    return rank[encoded.indices.to_numpy()]
