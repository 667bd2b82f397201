"""Segments of transformed examples, without TensorFlow: the graph is a function."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest

from shardmill.data.features import Feature
from shardmill.transforms.columns.example_encoding import encode_framed
from shardmill.transforms.records import shard_sources
from shardmill.transforms.records.merging import Piece
from shardmill.transforms.records.shard_sources import TransformedShards
from shardmill.transforms.values.transform_graph import StagedGraph
from shardmill.transforms.workers.resources import Budget, Spool


def test_a_segment_is_within_the_memory_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [scalar.as_py() for scalar in encode_framed(pa.RecordBatch.from_pydict({"x": [1, 2, 3]}))]
    sizes = np.array([len(record) for record in records], np.uint32)
    numbers = np.arange(3, dtype=np.uint64)
    graph = StagedGraph("folder", features=(Feature("x", "int64"),))
    taken: list[int] = []

    @contextmanager
    def take(_: Budget, size_bytes: int) -> Iterator[None]:
        taken.append(size_bytes)
        yield
        taken.append(-size_bytes)

    def apply(some: Sequence[bytes]) -> pa.RecordBatch:
        assert sum(taken) >= 2 * sizes.sum()  # held while the graph works
        return pa.RecordBatch.from_pydict({"x": list(range(len(some)))})

    monkeypatch.setattr(Budget, "take", take)
    monkeypatch.setitem(shard_sources._held, "folder", apply)

    spool = Spool()
    spool.write(0, b"".join(records))
    chunk = TransformedShards(graph, "x.csv").encode([Piece(spool, 0, numbers, numbers, sizes)])

    assert (chunk.examples, len(taken)) == (3, 2)
