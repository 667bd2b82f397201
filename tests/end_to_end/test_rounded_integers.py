"""Integers in a column of float32, which changes those above 2^24: they are counted and said."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.command import Run

BIG = [16_777_217, 16_777_216, -20_000_001, 123_456_789_012_345_679, 5]  # three of them are none of float32
SAID = (
    "column 'id' is stored as float32, which changes {} above 16,777,216, such as {}; a --schema with type INT leaves"
    " out the rows with fractions, with BYTES it keeps the digits, and --drop id leaves the column out"
)


def write(command: str, folder: Path, ids: list[Any]) -> None:
    folder.mkdir()
    if command == "csv":
        (folder / "a.csv").write_text("id,name\n" + "".join(f"{value},x\n" for value in ids))
    elif command == "jsonl":
        (folder / "a.jsonl").write_text("".join(json.dumps({"id": value}) + "\n" for value in ids))
    else:
        whole = [value for value in ids if not isinstance(value, float)]
        pq.write_table(pa.table({"id": pa.array(whole, pa.int64())}), folder / "a.parquet")
        pq.write_table(pa.table({"id": pa.array([0.5])}), folder / "b.parquet")


@pytest.mark.parametrize("command", ["csv", "jsonl", "parquet"])
def test_integers_beside_a_fraction(command: str, tmp_path: Path, run: Run) -> None:
    write(command, tmp_path / "in", [*BIG, 0.5])
    result = run(command, "--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "t")
    assert result.status == 0, result.err
    assert SAID.format("3 integers", "-20000001") in result.err + result.out


@pytest.mark.parametrize("command", ["csv", "jsonl", "parquet"])
def test_what_float32_holds_and_fractions_are_not_told(command: str, tmp_path: Path, run: Run) -> None:
    write(command, tmp_path / "in", [1 << 24, 1 << 40, 0.1, 1_700_000_000.25])
    result = run(command, "--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "t")
    assert result.status == 0, result.err
    assert "is stored as float32" not in result.err + result.out


def test_integers_that_pandas_wrote_as_floats(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.csv").write_text("id,name\n" + "16777217.0,x\n" * 70_000 + ",y\n1e9,z\n1.00000001e9,z\n")
    (tmp_path / "a.jsonl").write_text('{"id": [16777217.0, 2]}\n{"id": [1, 0.5]}\n')
    pq.write_table(pa.table({"id": [16777217.0, None, 0.1]}), tmp_path / "a.parquet")
    for command, said in (("csv", "70,000 integers"), ("jsonl", "1 integer"), ("parquet", "1 integer")):
        out = tmp_path / f"out-{command}"
        result = run(command, "--input", tmp_path / f"a.{command}", "--output", out, "--name", "t")
        assert result.status == 0, result.err
        assert f"which changes {said} above 16,777,216, such as 16777217" in result.err + result.out, command


def test_the_remedy_helps(tmp_path: Path, run: Run) -> None:
    write("csv", tmp_path / "in", [16_777_217, 0.5])
    texts = ("id", "name")
    schema = "".join(f'feature {{ name: "{name}" type: BYTES shape {{}} }}\n' for name in texts)
    (tmp_path / "s.pbtxt").write_text(schema)
    flags = ("--schema", tmp_path / "s.pbtxt")
    result = run("csv", "--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "t", *flags)
    assert result.status == 0, result.err
    assert "is stored as float32" not in result.err + result.out
