"""Tests of transforms/records/staging.py."""

import copy
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.example_decoding import KindCount
from shardmill.transforms.columns.types import ColumnType, Inferred
from shardmill.transforms.findings import Findings, PassedOver
from shardmill.transforms.formats.format import Rows, split_rows, widen_block
from shardmill.transforms.records import staging as stage_runs
from shardmill.transforms.records.run_file import Run, SortedRecords, write_sorted
from shardmill.transforms.records.staging import MAX_RUN_BYTES, MAX_SLICES, RunSize, StagedFindings
from shardmill.transforms.shards.balance import ShardCount, estimate_shard_count
from shardmill.transforms.statistics.tables import TableStats
from shardmill.transforms.workers.elements import MergeFn
from tests.support.command import write_files
from tests.support.table_results import contents, convert

MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40
DEFAULT = 4 * MIB


def run_size(count: ShardCount, remote: bool = False) -> RunSize:
    return RunSize(DEFAULT, partial(estimate_shard_count, {"": count}), remote)


@pytest.mark.parametrize("total", [0, 1, MIB, 200 * MIB, 2 * GIB, 30 * GIB])
@pytest.mark.parametrize("remote", [False, True])
def test_runs_are_blocks_as_long_as_there_are_few_shards(total: int, remote: bool) -> None:
    assert run_size(ShardCount(size_bytes=128 * MIB), remote)(total) == (4 * DEFAULT if remote else DEFAULT)


@pytest.mark.parametrize("total", [GIB, 10 * GIB, 100 * GIB, TIB])
@pytest.mark.parametrize("shards", [10, 1000, 10_000])
def test_slices_are_worth_a_request_or_there_are_hardly_runs_enough(total: int, shards: int) -> None:
    size = run_size(ShardCount(number=shards), remote=True)(total)
    assert size / shards >= 64 << 10 or total / size <= 65 or size == MAX_RUN_BYTES
    assert total / size >= 64 or size == 4 * DEFAULT


@pytest.mark.parametrize("remote", [False, True])
def test_a_tebibyte_has_ten_million_slices(remote: bool) -> None:
    count = ShardCount(size_bytes=128 * MIB)
    size = run_size(count, remote)(TIB)
    slices = -(-TIB // size) * count.resolve(TIB, TIB)
    assert slices <= MAX_SLICES
    assert DEFAULT < size <= MAX_RUN_BYTES


@pytest.mark.parametrize(("columns", "factor"), [(0, 1), (4096, 1), (4097, 4), (20_000, 4)])
def test_blocks_of_tables_of_thousands_of_columns_are_larger(columns: int, factor: int) -> None:
    assert widen_block(DEFAULT, columns) == factor * DEFAULT


def test_shards_are_those_of_all_splits() -> None:
    assert estimate_shard_count({"": ShardCount(7), "train": ShardCount(size_bytes=MIB)}, 10 * MIB) == 17


def staged(value: int) -> StagedFindings:
    batch = pa.RecordBatch.from_pydict({"x": pa.array([value], pa.int64())})
    stats = {"train": TableStats.from_batch(batch, np.array([value], np.uint64))}
    inferred = Inferred({"x": ColumnType("int64", None, 1)}, 1)
    return StagedFindings(1, stats, inferred, {"x": {"int64": KindCount(1, ("a", value))}})


def test_merging_changes_no_element() -> None:
    elements = [staged(value) for value in range(4)]
    before = copy.deepcopy(elements)
    combine = MergeFn(StagedFindings)
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
    rejects, blank = [Reject("a", 8, "read", "why")], Findings.of(PassedOver({"blank line": 2}))
    rows = Rows(pa.RecordBatch.from_pydict({"x": pa.array(range(7), pa.int64())}), np.arange(1, 8), rejects, blank)
    parts = list(split_rows(rows, most))
    assert [len(part.lines) for part in parts[:-1]] == [most] * (len(parts) - 1)
    assert [value for part in parts for value in part.batch["x"].to_pylist()] == list(range(7))
    assert np.concatenate([part.lines for part in parts]).tolist() == list(range(1, 8))
    assert [reject for part in parts for reject in part.rejects] == rejects
    assert [part.findings for part in parts] == [blank, *[Findings()] * (len(parts) - 1)]
    empty = split_rows(Rows(rows.batch[:0], rows.lines[:0], rejects, blank), most)
    assert [part.rejects for part in empty] == [rejects]


def test_runs_of_many_tiny_rows_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of bytes may hold any number of rows; a run does not, and what comes out is the same."""
    source = write_files(tmp_path / "in", {"a.csv": b"x,y\n" + b"0,0\n" * 5000})
    one = convert("csv", source, tmp_path / "one", "--num_shards", 3)
    rows: list[int] = []

    def counting(path: str, records: SortedRecords, self_contained: bool) -> Run:
        rows.append(len(records.index))
        return write_sorted(path, records, self_contained)

    monkeypatch.setattr("shardmill.transforms.records.run_file.write_sorted", counting)
    monkeypatch.setattr(stage_runs, "MAX_RUN_ROWS", 1000)
    other = convert("csv", source, tmp_path / "other", "--num_shards", 3)
    assert rows == [1000] * 5
    assert contents(one.directory) == contents(other.directory)
