"""Sources of shards that make transformed examples from the records of runs."""

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from shardmill.addons.transform.transform_graph import Apply, transform_records
from shardmill.data.example import decode_example
from shardmill.metadata.manifest import Reject
from shardmill.text import to_printable
from shardmill.transforms.analysis import StagedFiles
from shardmill.transforms.columns.arrow import data_of
from shardmill.transforms.columns.example_encoding import encode_framed
from shardmill.transforms.records.merging import Piece, RunShards, concatenate_column, merge_pieces
from shardmill.transforms.records.run_file import strip_frames
from shardmill.transforms.shards.sources import EncodedChunk
from shardmill.transforms.statistics.tables import TableStats
from shardmill.transforms.workers.resources import memory_budget

_HELD = 10  # times the size of a segment: records as read, in order and apart, tensors, and the examples of them
_MAX_SHOWN = 120  # letters of an example that the graph does not take
_lock = threading.Lock()
_held: dict[str, Apply] = {}  # in this process: one, by its folder


@dataclass(frozen=True)
class TransformedShards:
    """A ShardSource that applies a transform graph to the examples in slices of runs."""

    graph: StagedFiles  # transform graph to apply
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


def _load_graph(graph: StagedFiles) -> Apply:
    """Return the transform graph, which a worker process loads once; raise OSError if it cannot be read."""
    with _lock:
        if graph.folder not in _held:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what it says of processors, as it is imported
            from shardmill.addons.transform.tensorflow_apply import SavedGraph

            _held.clear()
            _held[graph.folder] = SavedGraph(graph.folder, graph.features)
        return _held[graph.folder]
