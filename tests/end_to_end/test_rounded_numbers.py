"""Numbers in a column of float32: large ones that it changes, and different ones that become one, are counted."""

import json
import random
import re
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shardmill
from tests.support.command import Run, image

BIG = [16_777_217, 33_554_432, -20_000_001, 123_456_789_012_345_679, 5]  # three of them are none of float32
SAID = (
    "column 'id' is stored as float32, which changes {} above 16,777,216, such as {}; --types id=bytes keeps the digits"
    " as text, and --drop id leaves the column out"
)
# Two pairs become one number each; a pair that is short does not, and another differs by more
NEAR = ["52.5200066", "52.5200067", "-0.123456781", "-0.123456782", "52.52", "52.53", "7.123456", "7.123457"]
MERGED = (
    "column 'lat' is stored as float32: 2 stored numbers each replace several different numbers of the input, such as"
    " -0.123456782 and -0.123456781, which both become -0.12345678; --types lat=bytes keeps the digits as text"
)
ROUTES = ["csv", "jsonl", "parquet", "avro"]


def write(command: str, folder: Path, name: str, values: list[Any]) -> None:
    folder.mkdir()
    numbers = [float(value) if isinstance(value, str) else value for value in values]
    rows = [{name: value} for value in numbers]
    if command == "csv":
        (folder / "a.csv").write_text(f"{name},name\n" + "".join(f"{value},x\n" for value in values))
    elif command == "jsonl":
        (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif command == "avro":
        field = {"name": name, "type": "double"}
        with (folder / "a.avro").open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "r", "fields": [field]}, rows)
    else:
        whole = [value for value in numbers if not isinstance(value, float)]
        floats = [value for value in numbers if isinstance(value, float)]
        pq.write_table(pa.table({name: pa.array(whole, pa.int64())}), folder / "a.parquet")
        pq.write_table(pa.table({name: pa.array(floats, pa.float64())}), folder / "b.parquet")


def convert(run: Run, command: str, folder: Path, *flags: object) -> str:
    result = run(command, "--input", folder / "in", "--output", folder / "out", "--name", "t", "--overwrite", *flags)
    assert result.status == 0, result.err
    return result.err + result.out


@pytest.mark.parametrize("command", ["csv", "jsonl", "parquet"])
def test_large_numbers_beside_a_fraction(command: str, tmp_path: Path, run: Run) -> None:
    write(command, tmp_path / "in", "id", [*BIG, 0.5])
    said = convert(run, command, tmp_path)

    assert SAID.format("3 numbers", "-20000001") in said
    assert "is stored as float32" not in convert(run, command, tmp_path, "--types", "id=bytes")
    assert b"16777217" in [row["id"] for row in shardmill.examples(tmp_path / "out/t/1.0.0", split="train")]


@pytest.mark.parametrize("command", ["csv", "jsonl", "parquet"])
def test_large_fractions(command: str, tmp_path: Path, run: Run) -> None:
    write(command, tmp_path / "in", "id", [0.5, 1_700_000_000.25])
    assert SAID.format("1 number", "1700000000.25") in convert(run, command, tmp_path)


@pytest.mark.parametrize("command", ["csv", "jsonl", "parquet"])
def test_numbers_that_float32_holds_have_no_notice(command: str, tmp_path: Path, run: Run) -> None:
    write(command, tmp_path / "in", "id", [1 << 24, 1 << 40, 0.1, 1.7e30, 0.3])
    assert "is stored as float32" not in convert(run, command, tmp_path)


@pytest.mark.parametrize("command", ROUTES)
def test_different_numbers_that_become_one(command: str, tmp_path: Path, run: Run) -> None:
    write(command, tmp_path / "in", "lat", NEAR * 3)

    assert MERGED in convert(run, command, tmp_path)
    assert "is stored as float32" not in convert(run, command, tmp_path, "--types", "lat=bytes")
    stored = {row["lat"] for row in shardmill.examples(tmp_path / "out/t/1.0.0", split="train")}
    assert stored == {text.encode() for text in NEAR}


def test_a_schema_is_named_in_place_of_types(tmp_path: Path, run: Run) -> None:
    schema, text = tmp_path / "s.pbtxt", 'feature {{ name: "lat" type: {} shape {{}} }}'
    write("csv", tmp_path / "in", "lat", NEAR)
    schema.write_text(text.format("FLOAT"))
    assert "BYTES in --schema keeps the digits" in convert(run, "csv", tmp_path, "--schema", schema)

    schema.write_text(text.format("BYTES"))
    assert "is stored as float32" not in convert(run, "csv", tmp_path, "--schema", schema)


@pytest.mark.parametrize("command", ["csv", "jsonl", "parquet"])
def test_any_block_size_counts_the_same(command: str, tmp_path: Path, run: Run) -> None:
    draw = random.Random(5)
    values = [f"{52 + draw.random() / 8:.8f}" for _ in range(9000)]
    write(command, tmp_path / "in", "lat", values)
    flags = [("--block_size", size) for size in ("16KiB", "1MiB")] if command != "parquet" else [()]
    found = {re.search(r"about [\d,]+ stored numbers", convert(run, command, tmp_path, *flag)) for flag in flags}
    counts = {match[0] for match in found if match}
    cells: dict[float, set[str]] = {}
    for value in values:
        cells.setdefault(float(pa.array([float(value)]).cast(pa.float32(), safe=False)[0].as_py()), set()).add(value)
    several = sum(len(texts) > 1 for texts in cells.values())

    assert len(counts) == 1
    assert abs(int(re.sub(r"\D", "", counts.pop())) - several) < several / 5


def test_columns_that_are_many_share_a_notice(tmp_path: Path, run: Run) -> None:
    (tmp_path / "in").mkdir()
    columns = [f"x{number}" for number in range(9)]
    rows = [",".join([value] * len(columns)) for value in NEAR]
    (tmp_path / "in/a.csv").write_text("\n".join([",".join(columns), *rows]) + "\n")
    said = convert(run, "csv", tmp_path)

    assert said.count("stored numbers each replace") == 4
    assert "5 more columns have stored numbers that replace several different numbers of the input" in said


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_columns_of_a_manifest(suffix: str, tmp_path: Path, run: Run) -> None:
    rows: list[dict[str, Any]] = [
        {"file_name": f"{n}.png", "lat": float(value), "t": 1_700_000_000.5} for n, value in enumerate(NEAR)
    ]
    for row in rows:
        (tmp_path / row["file_name"]).write_bytes(image(image_format="PNG"))
    manifest = tmp_path / f"m.{suffix}"

    def say(rows: list[dict[str, Any]]) -> str:
        lines = [json.dumps(row) if suffix == "jsonl" else ",".join(map(str, row.values())) for row in rows]
        manifest.write_text("\n".join([*([",".join(rows[0])] if suffix == "csv" else []), *lines]))
        result = run("images", "--manifest", manifest, "--output", tmp_path / "out", "--name", "t", "--overwrite")
        assert result.status == 0, result.err
        return result.err + result.out

    said = say(rows)
    assert "column 't' is stored as float32, which changes 8 numbers above 16,777,216, such as 1700000000.5" in said
    assert "column 'lat' is stored as float32: 2 stored numbers each replace several different" in said
    assert "a manifest of JSON lines keeps the digits of numbers in quotes" in said
    if suffix == "jsonl":
        assert "stored as float32" not in say([row | {"lat": str(row["lat"]), "t": str(row["t"])} for row in rows])


def test_integers_that_pandas_wrote_as_floats(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.csv").write_text("id,name\n" + "16777217.0,x\n" * 70_000 + ",y\n1e9,z\n1.00000001e9,z\n")
    (tmp_path / "a.jsonl").write_text('{"id": [16777217.0, 2]}\n{"id": [1, 0.5]}\n')
    pq.write_table(pa.table({"id": [16777217.0, None, 0.1]}), tmp_path / "a.parquet")
    for command, said in (("csv", "70,000 numbers"), ("jsonl", "1 number"), ("parquet", "1 number")):
        out = tmp_path / f"out-{command}"
        result = run(command, "--input", tmp_path / f"a.{command}", "--output", out, "--name", "t")
        assert result.status == 0, result.err
        assert f"which changes {said} above 16,777,216, such as 16777217" in result.err + result.out, command
