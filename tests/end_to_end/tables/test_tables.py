"""Tables end to end: every format, every option of columns by what changes in the data set, and one rule for values by
every route: what true is beside a number, and which numbers float32 changes, makes one or does not hold."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from shardmill.transforms.columns.example_encoding import example_sizes
from tests.support.command import Run, image, tree_bytes, write_files
from tests.support.jobs import Jobs
from tests.support.table_results import (
    CITIES,
    CITY_HEADER,
    CITY_ROWS,
    CITY_SPLITS,
    Table,
    contents,
    convert,
    encode_rows,
    parquet,
    to_csv,
)


def test_every_row_comes_out_with_its_values(city_table: Table) -> None:
    numbers = {"id": "int64", "age": "int64?", "score": "float32", "ok": "int64"}
    assert city_table.features == numbers | {"city": "bytes", "code": "bytes"}  # 007 is no number
    by_id = {found["id"]: found for found in city_table.rows}
    assert sorted(by_id) == list(range(1000))
    for number, found in by_id.items():
        age = {} if number % 7 == 0 else {"age": number % 90}
        expected = {"id": number, **age, "score": number / 8 - 20, "city": CITIES[number % 4].encode()}
        assert found == {**expected, "ok": int(number % 3 > 0), "code": f"{number % 50:03d}".encode()}
        assert list(found) == [name for name in CITY_HEADER if name in found]


def test_statistics_are_those_of_the_rows(city_table: Table) -> None:
    for split, rows in city_table.splits.items():
        stats = city_table.stats(split)
        ages = [found["age"] for found in rows if "age" in found]
        assert (stats["age"]["count"], stats["age"]["missing"]) == (len(ages), len(rows) - len(ages))
        assert (stats["age"]["min"], stats["age"]["max"]) == (min(ages), max(ages))
        assert stats["age"]["mean"] == pytest.approx(sum(ages) / len(ages))
        assert stats["age"]["distinct"]["count"] == len(set(ages))
        cities = Counter(found["city"].decode() for found in rows)
        assert {entry["value"]: entry["count"] for entry in stats["city"]["top_values"]} == cities
        assert stats["ok"]["zeros"] == sum(found["ok"] == 0 for found in rows)


def test_nothing_is_left_behind(city_table: Table) -> None:
    shards = [f"n-{split}.tfrecord-{n:05d}-of-00003" for split in ("train", "test") for n in range(3)]
    described = ["FeatureStats.pb", "dataset_info.json", "features.json", "manifest.json", "schema.pbtxt", "stats.json"]
    assert sorted(tree_bytes(city_table.directory)) == sorted([*shards, *described, "_SUCCESS"])
    assert sorted(path.name for path in city_table.directory.iterdir()) == sorted([*shards, *described, "_SUCCESS"])


def test_a_schema_holds_today_s_rows_against_it(city_table: Table, tmp_path: Path) -> None:
    bad: list[list[object]] = [
        ["x7", 3, "1.5", "Bern", "true", "001"],
        [8, "old", "1.5", "Bern", "true", "001"],
        [9, 1, None, "Bern", "true", "001"],
    ]
    rows = [[*values, 1] for values in (*CITY_ROWS[:200], *bad)]
    source = write_files(tmp_path / "in", {"today.csv": to_csv((*CITY_HEADER, "new"), rows)})
    schema = ("--schema", city_table.directory / "schema.pbtxt")
    table = convert("csv", source, tmp_path, *schema, "--max_reject_fraction", 0.1)
    assert table.features == city_table.features
    assert len(table.rows) == 200
    assert [(r["source"], r["line"]) for r in table.rejects()] == [("today.csv", line) for line in (202, 203, 204)]
    reasons = [r["reason"] for r in table.rejects()]
    assert "column 'id': 'x7' is not an integer" in reasons[0]
    assert "column 'age': 'old' is not an integer" in reasons[1]
    assert reasons[2] == "column 'score' has no value, which --schema wants in every row"
    assert "left out what --schema does not have: column 'new'" in table.dataset.manifest.notices


def test_a_schema_gives_the_bytes_of_inference(city_rows: Path, city_table: Table, tmp_path: Path) -> None:
    table = convert(
        "csv", city_rows, tmp_path, *CITY_SPLITS, "--num_shards", 3, "--schema", city_table.directory / "schema.pbtxt"
    )
    names = list(contents(city_table.directory))
    assert {n: contents(table.directory)[n] for n in names} == contents(city_table.directory)


def test_a_folder_of_tabs(tmp_path: Path) -> None:
    table = convert("csv", write_files(tmp_path / "in", {"a.tsv": b"x\ty\n1\t2\n", "b.csv": b"x,y\n3,4\n"}), tmp_path)
    assert sorted((found["x"], found["y"]) for found in table.rows) == [(1, 2), (3, 4)]


def test_dry_run_writes_nothing(city_rows: Path, tmp_path: Path, run: Run) -> None:
    result = run(
        "csv", "--input", city_rows, "--output", tmp_path / "out", "--name", "n", "--label", "city", "--dry_run"
    )
    assert result.status == 0
    assert "3 files, " in result.out
    assert "1,000 rows" in result.out
    types = {"age": "int64, may be missing", "city": "int64, 4 classes: Bern, Lima, Oslo, Rome", "score": "float32"}
    assert {f"  {name}: {kind}" for name, kind in (types | {"code": "bytes"}).items()} <= set(result.out.splitlines())
    assert not (tmp_path / "out").exists()


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
TABLES = ["csv", "jsonl", "parquet"]


def numbers(command: str, name: str, values: list[Any]) -> dict[str, bytes]:
    """Files of a column of numbers, or in CSV of their texts."""
    if command == "csv":
        return {"a.csv": encode_rows(command, [{name: value, "name": "x"} for value in values])}
    rows = [{name: float(value) if isinstance(value, str) else value} for value in values]
    if command != "parquet":
        return {f"a.{command}": encode_rows(command, rows)}
    by_type = {kind.__name__: [row for row in rows if isinstance(row[name], kind)] for kind in (int, float)}
    return {f"{kind}.parquet": encode_rows(command, some) for kind, some in by_type.items() if some}


@pytest.mark.parametrize("command", ["csv", "parquet"])
def test_large_numbers_beside_a_fraction(command: str, jobs: Jobs) -> None:
    said = jobs.build(command, files=numbers(command, "id", [*BIG, 0.5])).said
    assert SAID.format("3 numbers", "-20000001") in said
    built = jobs.build(f"{command} --types id=bytes --output b")
    assert "is stored as float32" not in built.said
    assert b"16777217" in built.table.column("id")


@pytest.mark.parametrize("command", ["csv", "jsonl"])
def test_large_fractions_and_numbers_that_float32_holds(command: str, jobs: Jobs) -> None:
    said = jobs.build(command, files=numbers(command, "id", [0.5, 1_700_000_000.25])).said
    assert SAID.format("1 number", "1700000000.25") in said
    jobs.write(numbers(command, "id", [1 << 24, 1 << 40, 0.1, 1.7e30, 0.3]))
    assert "is stored as float32" not in jobs.build(f"{command} --output b").said


@pytest.mark.parametrize("command", ["jsonl", "avro"])
def test_different_numbers_that_become_one(command: str, jobs: Jobs) -> None:
    assert MERGED in jobs.build(command, files=numbers(command, "lat", NEAR * 3)).said
    built = jobs.build(f"{command} --types lat=bytes --output b")
    assert "is stored as float32" not in built.said
    assert set(built.table.column("lat")) == {text.encode() for text in NEAR}


def test_a_schema_is_named_in_place_of_types(jobs: Jobs) -> None:
    jobs.write(numbers("csv", "lat", NEAR))
    for kind, is_said in (("FLOAT", True), ("BYTES", False)):
        schema = {"../s.pbtxt": f'feature {{ name: "lat" type: {kind} shape {{}} }}'}
        said = jobs.build(f"csv --schema s.pbtxt --output {kind}", files=schema).said
        assert ("BYTES in --schema keeps the digits" in said) == ("is stored as float32" in said) == is_said


def test_a_row_has_as_many_bytes_as_a_record_holds(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    (size,) = example_sizes(pa.RecordBatch.from_pydict({"x": [b"a" * 100]})).tolist()
    monkeypatch.setattr("shardmill.transforms.records.encoding.MAX_RECORD_BYTES", size)
    built = jobs.build("csv --max_reject_fraction 0.9", files={"a.csv": f"x\n{'a' * 100}\n{'a' * 101}\n"})
    assert built.reasons == {"a.csv:3": f"a record of {size + 1} bytes; protobuf holds 2 GB at most"}


def test_what_is_said_of_columns(jobs: Jobs) -> None:
    said = jobs.build("csv", files={"a.csv": '" n",x\n1,2\n'}).said
    assert "\n' n'     int64        0  1\nx        int64        0  2\n\nRead it:" in said


def test_columns_that_are_many_share_a_notice(jobs: Jobs) -> None:
    rows = [dict.fromkeys([f"x{number}" for number in range(9)], value) for value in NEAR]
    said = jobs.build("csv", files={"a.csv": encode_rows("csv", rows)}).said
    assert said.count("stored numbers each replace") == 4
    assert "5 more columns have stored numbers that replace several different numbers of the input" in said


@pytest.mark.parametrize(
    ("command", "content", "said"),
    [
        ("csv", "id,name\n" + "16777217.0,x\n" * 70_000 + ",y\n1e9,z\n1.00000001e9,z\n", "70,000 numbers"),
        ("jsonl", '{"id": [16777217.0, 2]}\n{"id": [1, 0.5]}\n', "1 number"),
        ("parquet", parquet(pa.table({"id": [16777217.0, None, 0.1]})), "1 number"),
    ],
    ids=TABLES,
)
def test_integers_that_pandas_wrote_as_floats(command: str, content: str | bytes, said: str, jobs: Jobs) -> None:
    built = jobs.build(command, files={f"a.{command}": content})
    assert f"which changes {said} above 16,777,216, such as 16777217" in built.said


# In the last row, a number that float32 does not hold.
ROWS: list[dict[str, Any]] = [
    {"flag": True, "mixed": True, "real": True, "size": 0.5},
    {"flag": False, "mixed": 1, "real": 0.5, "size": 1e38},
    {"flag": True, "mixed": 0, "real": 2.5, "size": 1e39},
]
NAMED = [{"file_name": f"{number}.jpg", **row} for number, row in enumerate(ROWS)]
PICTURES = {f"{number}.jpg": image(number) for number in range(3)}


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("csv", {"a.csv": encode_rows("csv", ROWS)}),
        ("jsonl", {"a.jsonl": encode_rows("jsonl", ROWS)}),
        ("parquet", {f"{n}.parquet": encode_rows("parquet", [row]) for n, row in enumerate(ROWS)}),
        *(
            (f"images --manifest in/m.{suffix}", PICTURES | {f"m.{suffix}": encode_rows(suffix, NAMED)})
            for suffix in ("csv", "jsonl")
        ),
    ],
    ids=["csv", "jsonl", "parquet", "manifest in CSV", "manifest in JSON lines"],
)
def test_values_of_tables_and_manifests(jobs: Jobs, line: str, files: dict[str, bytes]) -> None:
    built = jobs.build(f"{line} --max_reject_fraction 1", files=files)
    features = {feature.name: feature for feature in built.manifest.features}
    assert (features["flag"].dtype, features["flag"].kind) == ("int64", "bool")
    assert [(features[name].dtype, features[name].shape) for name in ("mixed", "real", "size")] == [
        ("bytes", ()),
        ("bytes", ()),
        ("float32", ()),
    ]
    rows = sorted((row["flag"], row["mixed"].lower(), row["real"].lower()) for row in built.table.rows)
    assert rows == [(0, b"1", b"0.5"), (1, b"true", b"true")]
    (reject,) = built.rejects
    assert reject["reason"].startswith("column 'size': ")
    assert reject["reason"].endswith(" is beyond the range of float32")
