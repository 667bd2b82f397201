"""Shards of transformed examples: records that lie in runs, merged by key, and put through the transform graph, a
segment at a time."""

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from shardmill.metadata.rejects import Reject
from shardmill.printable import printable
from shardmill.records.example import decode_example
from shardmill.transforms.columns.buffers import data_of
from shardmill.transforms.examples.encode import encode_framed
from shardmill.transforms.preprocessing.materialize import Apply, StagedGraph, transformed
from shardmill.transforms.records.merge import Piece, RunShards, merged
from shardmill.transforms.records.payloads import payloads
from shardmill.transforms.statistics.tables import TableStats
from shardmill.transforms.workers.memory import budget
from shardmill.transforms.writing.source import EncodedChunk

_HELD = 10  # times the size of a segment: records as read, in order and apart, tensors, and the examples of them
_SHOWN = 120  # letters of an example that the graph does not take
_lock = threading.Lock()
_held: dict[str, Apply] = {}  # in this process: one, by its folder


@dataclass(frozen=True)
class TransformedShards:
    """A shardmill.transforms.writing.source.ShardSource over SLICE batches.

    Attributes:
      graph: what examples are put through.
      source: what a reject is said to be of, for a run does not know its files.
      runs: where raw records lie.
    """

    graph: StagedGraph
    source: str
    runs: RunShards = field(default_factory=RunShards)

    def plan(self, parts: Iterable[pa.RecordBatch]) -> tuple[int, Iterable[list[Piece]]]:
        """As RunShards."""
        return self.runs.plan(parts)

    def encode(self, task: Sequence[Piece]) -> EncodedChunk:
        """Read, merge, and transform one segment."""
        with budget().take(_HELD * sum(piece.size_bytes for piece in task)):
            return self._encode(task)

    def _encode(self, task: Sequence[Piece]) -> EncodedChunk:
        data, order = merged(task)
        sizes = np.concatenate([piece.sizes for piece in task]).astype(np.int64)[order]
        ties = np.concatenate([piece.ties for piece in task])[order]
        records = payloads(data.tobytes(), sizes)
        batches, failed = transformed(records, _loaded(self.graph))
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
            Reject(self._said(records[place]), None, "transform", f"the transform graph fails: {why}")
            for place, why in sorted(failed.items())
        ]
        return EncodedChunk(np.concatenate([*framed, np.empty(0, np.uint8)]), start, rejects, stats)

    def _said(self, record: bytes) -> str:
        shown = ", ".join(f"{name}={values}" for name, values in decode_example(record).items())
        return printable(f"{self.source}: {shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + '…'}")


def _loaded(graph: StagedGraph) -> Apply:
    """The graph, which a worker loads once; raises OSError where it cannot be read."""
    with _lock:
        if graph.folder not in _held:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what it says of processors, as it is imported
            from shardmill.transforms.preprocessing.tensorflow_apply import SavedGraph

            _held.clear()
            _held[graph.folder] = SavedGraph(graph.folder, graph.features)
        return _held[graph.folder]
