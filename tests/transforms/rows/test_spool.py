"""Spooled rows: the files that hold them, and what is read of these."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shardmill.errors import UserError
from shardmill.transforms.formats.format import BlockRef, FileRef
from shardmill.transforms.inputs.folders import IMAGES
from shardmill.transforms.inputs.record_blocks import SpooledFiles
from shardmill.transforms.rows.formats import SpooledFormat
from shardmill.transforms.rows.sources import RowSource
from shardmill.transforms.rows.spool import RowSpool, spool_rows

ROWS: list[dict[str, Any]] = [{"id": number, "word": f"w{number % 3}", "x": number / 4} for number in range(600)]


def _read(files: list[FileRef]) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the rows of spooled files as their formats read them, and the numbers of the rows."""
    rows, numbers = [], list[int]()
    for file in files:
        format_ = SpooledFormat(1 << 12)
        for block in format_.index(file):
            assert isinstance(block, BlockRef)
            types = next(iter(format_.infer(block, None, ()))).types
            for found in format_.read(block, types):
                rows += found.batch.to_pylist()
                numbers += found.lines.tolist()
    return rows, numbers


def test_rows_and_batches_are_read_as_they_were_written(tmp_path: Path) -> None:
    expected = [{**row, "word": row["word"].encode()} for row in ROWS]
    of_rows, of_batches = RowSpool(str(tmp_path)), RowSpool(str(tmp_path))
    for row in ROWS:
        of_rows.add_row(row)
    of_batches.add_batch(pa.RecordBatch.from_pylist(ROWS[:200]))
    of_batches.add_batch(pa.Table.from_pylist(ROWS[200:]))
    for spool in (of_rows, of_batches):
        (file,) = spool.close()
        assert file.records == len(ROWS)
        rows, numbers = _read([replace(file, first_line=1001)])
        assert sorted(rows, key=lambda row: row["id"]) == expected
        assert numbers == list(range(1001, 1001 + len(ROWS)))


def test_rows_are_read_as_they_were_written_however_they_are_stored(tmp_path: Path) -> None:
    """Columns, rows of other keys, of lists, and of values that are converted."""
    spool = RowSpool(str(tmp_path))
    given: list[dict[str, Any]] = [{"n": number, "x": None if number % 5 else 1.5} for number in range(40)]
    given += [{"x": 0.5, "n": number} if number % 2 else {"n": number} for number in range(40, 80)]
    given += [{"n": np.int64(number), "x": 2.5} for number in range(80, 100)]
    for row in given:
        spool.add_row(row)
    rows, numbers = _read(spool.close())
    assert rows == [{"n": int(row["n"]), "x": row.get("x")} for row in given]
    assert numbers == list(range(1, 101))


def test_batches_of_other_columns_are_in_another_file(tmp_path: Path) -> None:
    spool = RowSpool(str(tmp_path))
    spool.add_batch(pa.RecordBatch.from_pylist([{"a": 1}]))
    spool.add_batch(pa.RecordBatch.from_pylist([{"a": "x"}]))
    assert [row for file in spool.close() for row in _read([file])[0]] == [{"a": 1}, {"a": b"x"}]


def test_rows_of_two_kinds_are_refused(tmp_path: Path) -> None:
    spool = RowSpool(str(tmp_path))
    spool.add_row({"a": 1})
    with pytest.raises(UserError, match=r"dictionaries and record batches; expected one kind"):
        spool.add_batch(pa.RecordBatch.from_pylist([{"a": 1}]))


def test_nothing_is_written_of_no_rows(tmp_path: Path) -> None:
    assert RowSpool(str(tmp_path)).close() == []
    assert list(tmp_path.iterdir()) == []


def test_files_of_one_spool_are_numbered_through_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmill.transforms.rows.spool.FILE_BYTES", 1 << 12)
    monkeypatch.setattr("shardmill.transforms.rows.spool.MOST_ROWS", 32)
    files = []
    for split in ("train", "test"):
        spool = RowSpool(str(tmp_path), f"{split}/rows", is_ordered=True)
        for row in ROWS:
            spool.add_row(row)
        files += spool.close()
    assert len(files) > 4

    listed = list(SpooledFiles(tuple(reversed(files))).list_files(IMAGES))

    for split in ("train", "test"):
        rows, numbers = _read([file for file in listed if file.name == f"{split}/rows"])
        assert [row["id"] for row in rows] == list(range(len(ROWS)))
        assert numbers == list(range(1, len(ROWS) + 1))


def test_a_generator_may_change_what_it_yielded(tmp_path: Path) -> None:
    def same(has_array: bool) -> Iterator[Any]:
        row: dict[str, Any] = {}
        array = np.zeros(2, int)
        for number in range(20):
            array[:] = number
            row.update(n=number, **({"x": array} if has_array else {}))
            yield row

    for has_array in (False, True):
        source = RowSource("the generator", "rows", {"": same(has_array)})
        files, columns = spool_rows(source, str(tmp_path), False, lambda: None)
        rows, _ = _read(list(files))
        assert columns == (("n", "x") if has_array else ("n",))
        assert rows == [{"n": number} | ({"x": [number] * 2} if has_array else {}) for number in range(20)]
