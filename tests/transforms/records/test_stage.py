"""What staging saw, merged without a change to elements that a runner may hand out again; and runs of a bounded number
of rows."""

import copy
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.example_decoding import KindCount
from shardmill.transforms.columns.types import ColumnType, Inferred
from shardmill.transforms.formats.format import Rows, split_rows
from shardmill.transforms.records import merging
from shardmill.transforms.records import staging as stage_runs
from shardmill.transforms.records.run_file import Run, SortedRecords, write_sorted
from shardmill.transforms.records.staging import StagedFindings
from shardmill.transforms.statistics.tables import TableStats
from shardmill.transforms.workers.elements import MergeFn
from tests.support.command import write_files
from tests.support.table_results import contents, convert


def staged(value: int) -> StagedFindings:
    batch = pa.RecordBatch.from_pydict({"x": pa.array([value], pa.int64())})
    stats = {"train": TableStats.from_batch(batch, np.array([value], np.uint64))}
    inferred = Inferred({"x": ColumnType("int64", None, 1)}, 1)
    return StagedFindings(1, 0, stats, inferred, {"x": {"int64": KindCount(1, ("a", value))}})


def test_merging_changes_no_element() -> None:
    elements = [staged(value) for value in range(4)]
    before = copy.deepcopy(elements)
    combine = MergeFn(StagedFindings, StagedFindings.merge)
    merged = combine.create_accumulator()
    for element in elements:
        merged = combine.add_input(merged, element)
    assert elements == before
    assert merged.stats["train"].examples == 4
    assert merged.kinds == {"x": {"int64": KindCount(4, ("a", 0))}}
    again = combine.create_accumulator()
    for element in elements:
        again = combine.add_input(again, element)
    assert again.stats["train"].summary() == merged.stats["train"].summary()


def test_what_nobody_else_holds_is_taken_as_it_is() -> None:
    elements = [staged(value) for value in range(3)]
    first = elements[0].stats["train"]
    merged, taken = StagedFindings(), StagedFindings()
    for element in elements:
        merged.merge(element)
    for element in elements:
        taken.absorb(element)
    assert taken.stats["train"].summary() == merged.stats["train"].summary()
    assert (taken.record_count, taken.kinds) == (merged.record_count, merged.kinds)
    assert taken.stats["train"] is first
    assert merged.stats["train"] is not first


@pytest.mark.parametrize("most", [1, 3, 7, 100])
def test_rows_are_split_into_runs_of_so_many(most: int) -> None:
    rejects = [Reject("a", 8, "read", "why")]
    rows = Rows(pa.RecordBatch.from_pydict({"x": pa.array(range(7), pa.int64())}), np.arange(1, 8), rejects, 2)
    parts = list(split_rows(rows, most))
    assert [len(part.lines) for part in parts[:-1]] == [most] * (len(parts) - 1)
    assert [value for part in parts for value in part.batch["x"].to_pylist()] == list(range(7))
    assert np.concatenate([part.lines for part in parts]).tolist() == list(range(1, 8))
    assert [reject for part in parts for reject in part.rejects] == rejects
    assert sum(part.blank_lines for part in parts) == 2
    empty = split_rows(Rows(rows.batch[:0], rows.lines[:0], rejects, 2), most)
    assert [part.rejects for part in empty] == [rejects]


def test_runs_of_many_tiny_rows_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of bytes may hold any number of rows; a run does not, and what comes out is the same."""
    source = write_files(tmp_path / "in", {"a.csv": b"x,y\n" + b"0,0\n" * 5000})
    one = convert("csv", source, tmp_path / "one", "--num_shards", 3)
    rows: list[int] = []

    def counting(path: str, records: SortedRecords, self_contained: bool) -> Run:
        rows.append(len(records.index))
        return write_sorted(path, records, self_contained)

    monkeypatch.setattr(merging, "write_sorted", counting)
    monkeypatch.setattr(stage_runs, "MAX_RUN_ROWS", 1000)
    other = convert("csv", source, tmp_path / "other", "--num_shards", 3)
    assert rows == [1000] * 5
    assert contents(one.directory) == contents(other.directory)
