"""Gather the rows of sequences from the records of runs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.addons.sequences.records import DecodedRows, order_texts, row_widths, values_per_row
from shardmill.data.features import NO_RENAMES, Feature, Features, Renames
from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.text import shown_line
from shardmill.transforms.columns.arrow import as_text, concatenate, data_of
from shardmill.transforms.columns.example_bytes import HEADER_BYTES
from shardmill.transforms.columns.example_encoding import MAX_RECORD_BYTES, encode_framed, example_sizes
from shardmill.transforms.columns.text import NumberStyle
from shardmill.transforms.records import merging
from shardmill.transforms.records.keys import hash_records
from shardmill.transforms.records.run_file import to_slices
from shardmill.transforms.shards.sources import EncodedChunk
from shardmill.transforms.statistics.contents import SEEDS, FileContents
from shardmill.transforms.statistics.sketches import mix
from shardmill.transforms.statistics.tables import TableStats
from shardmill.transforms.workers.resources import memory_budget

SEQUENCE_STAGE = "sequence"
SAME_TIME = "same time"  # what is counted: rows that have the time of another of their sequence
MAX_SEQUENCE_BYTES = 256 << 20  # of the rows of one sequence, which are held at once, several times
_GATHERING_COPIES = 8  # times the size of a segment


@dataclass(frozen=True)
class SequenceShards:
    """A ShardSource that gathers the rows of each id in slices of runs as one sequence example."""

    features: Features  # published features by input name; those of shape () are constant in a sequence
    id: str  # column whose equal values form a sequence
    time: str  # column that orders the rows
    numbers: NumberStyle  # of texts that order the rows
    non_content: tuple[str, ...] = ()  # features that identify a sequence but are not content
    labels: tuple[str, ...] = ()  # features that hold class ids
    target: str | None = None  # feature to predict, or None
    renames: Renames = NO_RENAMES  # names of the features in examples
    segment_bytes: int = merging.SEGMENT_BYTES  # approximate bytes of rows gathered at once

    def plan(self, parts: Iterable[pa.RecordBatch]) -> tuple[int, Iterable[list[merging.Piece]]]:
        """Return the number of a shard's rows, and the tasks; the rows of one id are in one task."""
        pieces = merging.read_pieces(to_slices(concatenate(parts)))
        return sum(len(piece.keys) for piece in pieces), self._make_segments(pieces)

    def _make_segments(self, pieces: Sequence[merging.Piece]) -> Iterator[list[merging.Piece]]:
        for segment in merging.cut_into_segments(pieces, self.segment_bytes, whole_keys=True):
            if sum(piece.record_bytes for piece in segment) > MAX_SEQUENCE_BYTES:
                self._check(segment)
            yield segment

    def _check(self, segment: Sequence[merging.Piece]) -> None:
        keys, which = np.unique(merging.concatenate_column(segment, "keys"), return_inverse=True)
        sizes = np.bincount(which, merging.concatenate_column(segment, "sizes"), len(keys))
        if sizes.max() > MAX_SEQUENCE_BYTES:
            rows = int(np.bincount(which)[sizes.argmax()])
            raise UserError(
                f"--sequence_by {self.id}: one sequence has {rows:,} rows of {int(sizes.max()):,} bytes;"
                f" expected {MAX_SEQUENCE_BYTES:,} at most, because its writers and readers hold an example in"
                " memory: is it an id? Or leave columns out by --drop"
            )

    def encode(self, task: Sequence[merging.Piece]) -> EncodedChunk:
        """Read, merge and gather the rows of one task."""
        with memory_budget().take(_GATHERING_COPIES * sum(piece.size_bytes for piece in task)):
            return self._encode(task)

    def _encode(self, task: Sequence[merging.Piece]) -> EncodedChunk:
        data, order = merging.merge_pieces(task)
        keys, times, sizes = (merging.concatenate_column(task, name)[order] for name in ("keys", "ties", "sizes"))
        sizes = sizes.astype(np.int64)
        decoded = DecodedRows.decode(
            np.frombuffer(data, np.uint8), np.cumsum(sizes) - sizes + HEADER_BYTES, row_widths(self.features)
        )
        ids, files = (np.array(pc.rank(each, tiebreaker="dense")) for each in (decoded.ids, decoded.files))
        place = [feature.name for feature in self.features].index(self.time)
        fractions, misfits = np.zeros(len(ids), np.int64), np.zeros(len(ids), bool)
        if self.features[place].dtype == "bytes":
            column = decoded.column(place, "bytes", np.arange(len(ids)))
            times, fractions, misfits = order_texts(column, ids, self.numbers)
        # Two ids may have one hash; rows of one time are in the order of their files and lines
        rows = np.lexsort((decoded.lines, files, fractions, times, ids, keys))
        is_first = np.diff(ids[rows], prepend=np.uint64(0)) > 0  # ranks start at 1, and an id has one key
        is_same = ~is_first
        is_same[1:] &= (np.diff(times[rows]) == 0) & (np.diff(fractions[rows]) == 0)
        starts = np.flatnonzero(is_first)
        lengths = np.diff(np.append(starts, len(rows)))
        reasons = self._find_reasons(decoded, rows, starts, lengths, misfits)
        batch = self._batch(decoded, rows, starts, lengths)
        if batch.nbytes > MAX_RECORD_BYTES // 2:
            for place in np.flatnonzero(example_sizes(batch) > MAX_RECORD_BYTES).tolist():
                reasons[place] = "a sequence of more than 2 GB; protobuf holds no more"
        rejects = [
            Reject(decoded.files[row].as_py().decode(), shown_line(int(decoded.lines[row])), SEQUENCE_STAGE, reason)
            for sequence, reason in sorted(reasons.items())
            for row in rows[starts[sequence] : starts[sequence] + lengths[sequence]].tolist()
        ]
        good = ~np.isin(np.arange(len(starts)), list(reasons))
        batch = batch.filter(pa.array(good))
        ties = mix(keys[rows][starts] + mix(ids[rows][starts] - np.uint64(1)))[good]
        stats = TableStats.from_batch(batch, ties, self.labels, self.target)
        contents = self._hash_contents(batch, decoded, rows[starts][good])
        framed = encode_framed(batch.rename_columns(list(map(self.renames, batch.schema.names))))
        chunk = EncodedChunk(data_of(framed), len(batch), rejects, stats, contents=contents)
        chunk.input_records = int(lengths[good].sum())
        chunk.notice_counts = Counter({SAME_TIME: int(is_same[np.repeat(good, lengths)].sum())})
        return chunk

    def _hash_contents(self, batch: pa.RecordBatch, decoded: DecodedRows, firsts: np.ndarray) -> FileContents | None:
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
        self, decoded: DecodedRows, rows: np.ndarray, starts: np.ndarray, lengths: np.ndarray, misfits: np.ndarray
    ) -> dict[int, str]:
        """Return the reason, by index, to reject each sequence whose label, or kind of order, differs in its rows."""
        reasons: dict[int, str] = {}
        for place, feature in enumerate(self.features):
            is_order = feature.name == self.time and misfits.any()
            if (feature.shape and not is_order) or feature.name == self.id:
                continue
            values = decoded.column(place, feature.dtype, rows)
            codes = misfits[rows] if is_order else values.dictionary_encode().indices.to_numpy(zero_copy_only=False)
            differs = np.flatnonzero(codes != np.repeat(codes[starts], lengths))
            which = np.searchsorted(starts, differs, side="right") - 1
            for row, sequence in zip(differs[::-1].tolist(), which[::-1].tolist(), strict=True):
                name = as_text(decoded.ids[int(rows[starts[sequence]])].as_py())
                one, other = (self._format_value(feature, values[int(at)].as_py()) for at in (starts[sequence], row))
                is_not, one_of = ("of one kind", "order, of numbers or times") if is_order else ("the same", "label")
                said = f"{feature.name!r} is not {is_not} in all rows of {self.id} {name}: {one}, then {other}"
                reasons[sequence] = f"{said}; a sequence has one {one_of}"
        return reasons

    def _format_value(self, feature: Feature, value: object) -> str:
        names = feature.class_names
        return repr(names[value]) if isinstance(value, int) and value < len(names) else as_text(value)
