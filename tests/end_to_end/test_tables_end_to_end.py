"""Tables end to end: every format, and every option of columns by what changes in the data set."""

import bz2
import gzip
import json
import math
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.support.command import Run, check_mistake, tree_bytes, write_files
from tests.support.table_results import CITIES, CITY_HEADER, CITY_ROWS, CITY_SPLITS, Table, contents, convert, to_csv


def test_every_row_comes_out_with_its_values(city_table: Table) -> None:
    assert city_table.features == {
        "id": "int64",
        "age": "int64?",
        "score": "float32",
        "city": "bytes",
        "ok": "int64",
        "code": "bytes",  # 007 is no number
    }
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


def test_a_label_of_strings(city_rows: Path, tmp_path: Path, run: Run) -> None:
    table = convert("csv", city_rows, tmp_path / "a", "--label", "city")
    assert (table.directory / "city.labels.txt").read_text() == "Bern\nLima\nOslo\nRome\n"
    assert all(sorted(CITIES)[found["city"]] == CITIES[found["id"] % 4] for found in table.rows)
    assert table.stats()["city"]["classes"] == dict.fromkeys(sorted(CITIES), 250)

    labels = tmp_path / "labels.txt"
    labels.write_text("Rome\nOslo\nBern\n")
    flags = ("--label", "city", "--labels_file", labels)
    mistake = run("csv", "--input", city_rows, "--output", tmp_path / "b", "--name", "n", *flags)
    check_mistake(mistake, "class 'Lima' is in the input but not in --labels_file")
    assert not (tmp_path / "b").exists()
    appended = convert("csv", city_rows, tmp_path / "b", *flags, "--on_new_label", "append")
    assert (appended.directory / "city.labels.txt").read_text() == "Rome\nOslo\nBern\nLima\n"
    rejected = convert(
        "csv", city_rows, tmp_path / "c", *flags, "--on_new_label", "reject", "--max_reject_fraction", 0.3
    )
    assert len(rejected.rows) == 750
    assert {(r["stage"], r["reason"]) for r in rejected.rejects()} == {
        ("encode", "class 'Lima' is not in --labels_file")
    }
    assert sorted((r["source"], r["line"]) for r in rejected.rejects())[0] == ("a.csv", 5)


def test_a_label_of_integers_stays(city_rows: Path, tmp_path: Path) -> None:
    table = convert("csv", city_rows, tmp_path, "--label", "ok")
    assert all(found["ok"] == int(found["id"] % 3 > 0) for found in table.rows)
    assert not list(table.directory.glob("*.labels.txt"))


def test_chosen_columns(city_rows: Path, tmp_path: Path) -> None:
    assert list(convert("csv", city_rows, tmp_path / "a", "--drop", "id,ok").features) == [
        "age",
        "score",
        "city",
        "code",
    ]
    assert list(convert("csv", city_rows, tmp_path / "b", "--only", "code,id").features) == ["id", "code"]


def test_fill_makes_a_column_dense(city_rows: Path, tmp_path: Path) -> None:
    filled = convert("csv", city_rows, tmp_path / "a", "--fill", "age=-1")
    assert filled.features["age"] == "int64"
    assert sum(found["age"] == -1 for found in filled.rows) == len(range(0, 1000, 7))
    words = convert("csv", city_rows, tmp_path / "b", "--fill", "age=unknown")
    assert words.features["age"] == "bytes"
    assert {found["age"] for found in words.rows} >= {b"unknown", b"1"}


def test_spellings_of_missing_values(tmp_path: Path) -> None:
    data = b'a,b\n1,NA\n2,-\n,x\nnull,\n5,"NA"\n'
    source = write_files(tmp_path / "in", {"a.csv": data})
    table = convert("csv", source, tmp_path / "a")
    assert (table.features, sorted(table.column("b"))) == ({"a": "int64?", "b": "bytes?"}, [b"-", b"x"])
    other = convert("csv", source, tmp_path / "b", "--missing=-,null")
    assert sorted(other.column("b")) == [b"NA", b"NA", b"x"]


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (["1", "2", "3.5"], "float32", [1.0, 2.0, 3.5]),
        (["1", "007", "3"], "bytes", [b"007", b"1", b"3"]),
        (["1", "x", "3.50"], "bytes", [b"1", b"3.50", b"x"]),
        (["true", "FALSE"], "int64", [0, 1]),
        (["true", "1"], "bytes", [b"1", b"true"]),
        (["9223372036854775807", "-9223372036854775808"], "int64", [-(2**63), 2**63 - 1]),
        (["9223372036854775808", "1"], "bytes", [b"1", b"9223372036854775808"]),
        (["inf", "-inf", "1"], "float32", [-math.inf, 1.0, math.inf]),
        ([" 1", "2"], "bytes", [b" 1", b"2"]),
    ],
)
def test_types_come_from_all_rows(tmp_path: Path, values: list[str], dtype: str, expected: list[object]) -> None:
    source = write_files(
        tmp_path / "in", {f"{n}.csv": to_csv(("k", "v"), [(n, value)]) for n, value in enumerate(values)}
    )
    table = convert("csv", source, tmp_path)
    assert table.features["v"] == dtype
    assert sorted(table.column("v")) == expected


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
    assert [(r["source"], r["line"]) for r in table.rejects()] == [
        ("today.csv", 202),
        ("today.csv", 203),
        ("today.csv", 204),
    ]
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


def test_dialects(tmp_path: Path) -> None:
    files = {
        "tabs.tsv": b"id\ttext\n1\ta,b\n2\tc\n",
        "semicolons.csv": b"id;text\r\n1;'a;''b'\r\n2;c\r\n",
        "bare.csv": b'1,"a\n2,b"\n',
        "latin.csv": "id,text\n1,café\n2,œ\n".encode("cp1252"),
        "wide.csv": "\ufeffid,text\n1,日本\n2,é\n".encode("utf-16"),
        "bom.csv": "\ufeffid,text\n1,a\n2,b\n".encode(),
        "quoted.csv": b'id,text\n1,"line\nbreak, and ""quotes"""\n2,\n',
    }
    root = write_files(tmp_path / "in", files)
    expected: dict[str, tuple[tuple[str, ...], list[bytes]]] = {
        "tabs.tsv": ((), [b"a,b", b"c"]),
        "semicolons.csv": (("--delimiter", ";", "--quote", "'"), [b"a;'b", b"c"]),
        "bare.csv": (("--columns", "id,text", "--quote", ""), [b'"a', b'b"']),
        "latin.csv": (("--encoding", "cp1252"), ["café".encode(), "œ".encode()]),
        "wide.csv": (("--encoding", "utf-16"), ["日本".encode(), "é".encode()]),
        "bom.csv": ((), [b"a", b"b"]),
        "quoted.csv": ((), [b'line\nbreak, and "quotes"']),
    }
    for name, (flags, texts) in expected.items():
        table = convert("csv", root / name, tmp_path / name, *flags)
        assert sorted(table.column("id")) == [1, 2], name
        assert sorted(table.column("text")) == sorted(texts), name


def test_a_folder_of_tabs(tmp_path: Path) -> None:
    table = convert("csv", write_files(tmp_path / "in", {"a.tsv": b"x\ty\n1\t2\n", "b.csv": b"x,y\n3,4\n"}), tmp_path)
    assert sorted((found["x"], found["y"]) for found in table.rows) == [(1, 2), (3, 4)]


def test_compressed_files(city_table: Table, tmp_path: Path) -> None:
    files = {
        "a.csv.gz": gzip.compress(to_csv(CITY_HEADER, CITY_ROWS[:300])),
        "b.csv.bz2": bz2.compress(to_csv(CITY_HEADER, CITY_ROWS[300:700])),
        "c.csv.zst": zstandard.compress(to_csv(CITY_HEADER, CITY_ROWS[700:])),
    }
    table = convert(
        "csv", write_files(tmp_path / "in", files), tmp_path, *CITY_SPLITS, "--num_shards", 3, "--block_size", "4KiB"
    )
    for name, data in contents(city_table.directory).items():
        if "tfrecord" in name:
            assert contents(table.directory)[name] == data


def test_json_lines(tmp_path: Path) -> None:
    lines = [
        {"id": 1, "text": "a “b”", "tags": ["x", "y"], "box": [0.5, 1, 2, 3], "flag": True, "mixed": 1},
        {"id": 2, "text": None, "tags": [], "box": [1, 2, 3, 4.5], "flag": False, "mixed": "one", "rare": 7},
    ]
    source = write_files(tmp_path / "in", {"a.jsonl": "".join(f"{json.dumps(line)}\n" for line in lines).encode()})
    table = convert("jsonl", source, tmp_path)
    assert table.features == {
        "box": "float32[4]",
        "flag": "int64",
        "id": "int64",
        "mixed": "bytes",
        "rare": "int64?",
        "tags": "bytes[]",
        "text": "bytes?",
    }
    first, second = sorted(table.rows, key=lambda found: found["id"])
    assert (first["text"], first["tags"], first["box"], first["flag"]) == (
        "a “b”".encode(),
        [b"x", b"y"],
        [0.5, 1, 2, 3],
        1,
    )
    assert (second["tags"], second["mixed"], second["rare"], first["mixed"]) == ([], b"one", 7, b"1")
    assert "text" not in second


def test_parquet(tmp_path: Path) -> None:
    columns = {
        "id": pa.array(range(1000), pa.int32()),
        "x": pa.array([None if n % 5 == 0 else n / 4 for n in range(1000)], pa.float64()),
        "city": pa.array([CITIES[n % 4] for n in range(1000)]).dictionary_encode(),
        "tags": pa.array([list(range(n % 3)) for n in range(1000)], pa.list_(pa.int16())),
        "ok": pa.array([n % 2 == 0 for n in range(1000)]),
    }
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "in" / "a.parquet", row_group_size=150)
    table = convert("parquet", tmp_path / "in", tmp_path, "--label", "city", *CITY_SPLITS)
    assert table.features == {"id": "int64", "x": "float32?", "city": "int64", "tags": "int64[]", "ok": "int64"}
    for found in table.rows:
        number = found["id"]
        assert found.get("x") == (None if number % 5 == 0 else number / 4)
        assert (found["tags"], found["ok"]) == (list(range(number % 3)), int(number % 2 == 0))
        assert sorted(CITIES)[found["city"]] == CITIES[number % 4]


def test_dry_run_writes_nothing(city_rows: Path, tmp_path: Path, run: Run) -> None:
    result = run(
        "csv", "--input", city_rows, "--output", tmp_path / "out", "--name", "n", "--label", "city", "--dry_run"
    )
    assert result.status == 0
    assert "3 files, " in result.out
    assert "1,000 rows" in result.out
    for line in (
        "  age: int64, may be missing",
        "  city: int64, 4 classes: Bern, Lima, Oslo, Rome",
        "  score: float32",
        "  code: bytes",
    ):
        assert line in result.out.splitlines()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("flag", ["--parallelism", "--max_num_workers", "--num_workers", "--direct_num_workers"])
def test_dry_run_warns_of_too_few_shards_for_a_cluster(city_rows: Path, tmp_path: Path, run: Run, flag: str) -> None:
    words = ("csv", "--input", city_rows, "--output", tmp_path / "out", "--name", "n", "--num_shards", "9", "--dry_run")
    for slots, warns in (("2", False), ("3", True)):
        said = run(*words, flag, slots).out
        assert ", about 9 shards\n" in said
        assert ("9 shards for 3 workers at once: expected 12 at least" in said) == warns


def test_gzip_output_reads_back(city_rows: Path, tmp_path: Path) -> None:
    table = convert("csv", city_rows, tmp_path, "--compression", "gzip")
    assert sorted(table.column("id")) == list(range(1000))
    assert not (table.directory / "dataset_info.json").exists()


def test_small_and_wide_tables(tmp_path: Path) -> None:
    names = [f"c{n}" for n in range(10_000)]
    wide = write_files(
        tmp_path / "wide", {"a.csv": to_csv(names, [[n * k % 50 for n in range(10_000)] for k in range(3)])}
    )
    table = convert("csv", wide, tmp_path / "a")
    assert len(table.features) == 10_000
    assert sorted(found["c9999"] for found in table.rows) == [0, 48, 49]
    seven = write_files(tmp_path / "seven", {"a.csv": to_csv(CITY_HEADER, CITY_ROWS[:7])})
    assert convert("csv", seven, tmp_path / "b", "--num_shards", 16).sizes == {"train": [1] * 7}


def test_a_field_of_a_hundred_megabytes(tmp_path: Path) -> None:
    big = b"x" * 100_000_000
    source = write_files(tmp_path / "in", {"a.csv": b"id,text\n1,small\n2," + big + b"\n3,small\n"})
    table = convert("csv", source, tmp_path)
    assert {found["id"]: len(found["text"]) for found in table.rows} == {1: 5, 2: 100_000_000, 3: 5}
    assert next(found["text"] for found in table.rows if found["id"] == 2) == big
