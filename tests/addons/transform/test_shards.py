"""Tests of addons/transform/analyses.py and shards.py: staged records that are analyzed and transformed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.addons.transform import analyses, shards
from shardmill.addons.transform.analyses import check_examples, read_record_batches
from shardmill.addons.transform.shards import TransformedShards
from shardmill.data import tfrecord
from shardmill.data.features import Feature
from shardmill.errors import JobError
from shardmill.transforms.analysis import StagedFiles
from shardmill.transforms.columns.example_encoding import encode_framed
from shardmill.transforms.records.merging import Piece
from shardmill.transforms.records.run_file import KeyedRecords, sort_records, write_sorted
from shardmill.transforms.records.staging import StagedFindings
from shardmill.transforms.statistics.tables import TableStats
from shardmill.transforms.workers.resources import Budget, Spool

NAMES = ("test", "train", "validation")


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.binary(max_size=40), st.integers(0, 2)), min_size=1, max_size=30),
    st.sets(st.sampled_from(NAMES)),
    st.integers(1, 200),
    st.integers(1, 9),
    st.booleans(),
)
def test_records_are_those_of_the_splits(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[bytes, int]],
    splits: set[str],
    at_once: int,
    most: int,
    self_contained: bool,
) -> None:
    numbers = np.arange(len(rows), dtype=np.uint64)
    framed = pa.array([tfrecord.frame_record(record) for record, _ in rows], pa.large_binary())
    groups = np.array([group for _, group in rows], np.int64)
    keyed = KeyedRecords(framed, numbers, numbers, groups, NAMES)
    run = write_sorted(str(tmp_path_factory.mktemp("runs") / "run"), sort_records(keyed), self_contained)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analyses, "BATCH_BYTES", at_once)
        patch.setattr(analyses, "BATCH_ROWS", most)
        batches = list(read_record_batches(run, splits))

    expected = [record for name in NAMES for record, group in rows if NAMES[group] == name and name in splits]
    assert [record for batch in batches for record in batch] == expected
    assert all(1 <= len(batch) <= most for batch in batches)


def test_there_must_be_examples_that_are_analyzed() -> None:
    staged = StagedFindings(record_count=7, stats={"train": TableStats(examples=0), "test": TableStats(examples=5)})

    assert check_examples(staged, ("train", "test")) == {"train": 0, "test": 5}
    with pytest.raises(JobError) as caught:
        check_examples(staged, ("train",))
    assert str(caught.value) == (
        "--module_file: no example is in split 'train', which is analyzed; those that have examples are test, of 7"
        " records that were read; --analyze_splits names others"
    )


def test_a_segment_is_within_the_memory_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [scalar.as_py() for scalar in encode_framed(pa.RecordBatch.from_pydict({"x": [1, 2, 3]}))]
    sizes = np.array([len(record) for record in records], np.uint32)
    numbers = np.arange(3, dtype=np.uint64)
    graph = StagedFiles("folder", features=(Feature("x", "int64"),))
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
    monkeypatch.setitem(shards._held, "folder", apply)

    spool = Spool()
    spool.write(0, b"".join(records))
    chunk = TransformedShards(graph, "x.csv").encode([Piece(spool, 0, numbers, numbers, sizes)])

    assert (chunk.examples, len(taken)) == (3, 2)
