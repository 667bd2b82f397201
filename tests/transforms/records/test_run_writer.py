"""A run of many batches is the run of all their records at once, to the byte."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data import tfrecord
from shardmill.transforms.records import staging
from shardmill.transforms.records.merging import RunWriter
from shardmill.transforms.records.run_file import KeyedRecords, sort_records, write_sorted
from tests.support.command import write_files
from tests.support.table_results import contents, convert

Row = tuple[int, int, int]  # key, tie, group

NAMES = ("test", "train")


def records(rows: list[Row]) -> KeyedRecords:
    framed = pa.array([tfrecord.frame_record(f"{row}".encode()) for row in rows], pa.large_binary())
    keys, ties, groups = (np.array([row[i] for row in rows], np.uint64) for i in range(3))
    return KeyedRecords(framed, keys, ties, groups.astype(np.int64), NAMES)


rows_of = st.lists(
    st.tuples(st.integers(0, 3) | st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 1)),
    min_size=1,
    max_size=30,
    unique_by=lambda row: row[1],
)


@settings(max_examples=60)
@given(rows_of, st.integers(1, 6), st.integers(1, 300), st.booleans())
def test_batches_are_merged(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], step: int, segment_bytes: int, self_contained: bool
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    expected = write_sorted(str(folder / "whole"), sort_records(records(rows)), self_contained)
    writer = RunWriter(str(folder / "merged"), self_contained, segment_bytes)
    for start in range(0, len(rows), step):
        writer.add(records(rows[start : start + step]))
    run = writer.close()

    assert run is not None
    assert run == replace(expected, path=run.path)
    assert (folder / "merged").read_bytes() == (folder / "whole").read_bytes()


def test_a_run_without_records_is_none(tmp_path: Path) -> None:
    assert RunWriter(str(tmp_path / "run")).close() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["csv", "text"])
def test_larger_runs_give_the_same_shards(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"{name}.{'csv' if command == 'csv' else 'txt'}": b"x,y\n" + _lines(name) for name in "abc"}
    source = write_files(tmp_path / "in", files)
    flags = ("--block_size", "1KiB", "--num_shards", 3)
    small = convert(command, source, tmp_path / "small", *flags)
    runs: list[int] = []
    close = RunWriter.close

    def counting(writer: RunWriter) -> object:
        run = close(writer)
        runs.extend([run.rows] if run is not None else [])
        return run

    monkeypatch.setattr(RunWriter, "close", counting)
    monkeypatch.setattr(staging, "_MIN_SLICE_BYTES", 1 << 20)
    monkeypatch.setattr(staging, "_MIN_RUNS", 2)
    large = convert(command, source, tmp_path / "large", *flags)
    assert len(runs) < 8
    assert sum(runs) == 3 * 400 + (3 if command == "text" else 0)
    assert contents(small.directory) == contents(large.directory)


def _lines(name: str) -> bytes:
    return b"".join(b"%d,%s%d\n" % (n, name.encode(), n * n) for n in range(400))
