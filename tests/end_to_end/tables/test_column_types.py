"""Types of columns, their lines in the summary, flags that notices recommend, each tried, and what --schema asks."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from tests.support.command import Run
from tests.support.jobs import Built, Jobs
from tests.support.table_results import numbers_and


def dtypes(made: Built) -> dict[str, str]:
    return {feature.name: feature.dtype for feature in made.manifest.features}


def test_the_summary_shows_each_column(jobs: Jobs) -> None:
    rows = "".join(f"{n}, {n}5,{'' if n % 2 else n / 2},{'ab'[n % 2]}\n" for n in range(9))
    said = jobs.build("csv --label class", files={"a.csv": f"age, fnlwgt,share,class\n{rows}"}).said.splitlines()
    at = next(number for number, line in enumerate(said) if line.startswith("feature"))
    columns = [line.split(maxsplit=2) for line in said[at : at + 5]]
    assert [words[0] for words in columns] == ["feature", "age", "'", "share", "class"]
    assert columns[2][1:] == ["fnlwgt'", said[at + 2].split(maxsplit=2)[2]]
    assert '" ' in said[at + 2]  # quotes show the space
    assert columns[3][1:2] == ["float32"]
    assert columns[3][2].startswith("4 ")
    assert "int64 (class_label, 2 classes)" in said[at + 4]


def test_the_summary_of_a_wide_table_is_a_screen(jobs: Jobs) -> None:
    table = ",".join(f"gene{n}" for n in range(50)) + "\n" + ",".join("1" * 50) + "\n"
    said = jobs.build("csv", files={"a.csv": table}).said
    assert "gene29 " in said
    assert "gene30 " not in said
    assert "… and 20 more; shardmill inspect" in said


MIXED = "zip,n,x\n10001,1,7\n02134,2,8\n94105,3,9\n"
_SCHEMA = 'feature { name: "id" type: INT shape {} }'


@pytest.mark.parametrize(
    ("line", "text", "types", "values"),
    [
        (
            "csv",
            "room,hash,id,x\n1E10,68e12345,1234567001.0,1e5\n12E3,7,,0.5\n",
            "bytes bytes int64 float32",
            {"room": [b"1E10", b"12E3"], "hash": [b"68e12345", b"7"], "id": [1_234_567_001], "x": [100_000.0, 0.5]},
        ),
        ("jsonl", '{"id": 1234567001.0, "x": 2.0}\n{"id": 7, "x": 0.5}\n', "int64 float32", {"id": [1_234_567_001, 7]}),
        ("csv --schema in/s", "id\n1234567001.0\n7.\n8\n", "int64", {"id": [1_234_567_001, 7, 8]}),
        ("csv --schema in/s --types id=int64", "id\n7.\n8\n", "int64", {"id": [7, 8]}),
        (
            "csv --types zip=bytes,n=float32 --types x=bytes",
            MIXED,
            "bytes float32 bytes",
            {"zip": [b"10001", b"02134", b"94105"], "n": [1.0, 2.0, 3.0], "x": [b"7", b"8", b"9"]},
        ),
        (
            "jsonl --types n=bytes,x=float32",
            '{"n": 7, "x": [1, 2]}\n',
            "bytes float32",
            {"n": [b"7"], "x": [[1.0, 2.0]]},
        ),
        ("csv --types n=int64 --max_reject_fraction 0.5", "n\n1\n?\n3\n", "int64", {"n": [1, 3]}),
    ],
)
def test_types_and_values(jobs: Jobs, line: str, text: str, types: str, values: dict[str, list[Any]]) -> None:
    suffix = line.split()[0]
    made = jobs.build(f"{line} --input in/a.{suffix} --no_shuffle", files={f"a.{suffix}": text, "s": _SCHEMA})
    assert list(dtypes(made).values()) == types.split()
    assert {name: made.table.column(name) for name in values} == values
    assert list(made.reasons.values()) == ["column 'n': '?' is not an integer (int64)"] * ("?" in text)


ABSENT = "a,b,c\n1, ?,NA\n NA,7,n/a\n3,?,NA\t\n4,8,x\n5,?,\n"
BY_DEFAULT = "'a' 'NA' 1 time, 'c' 'NA' 2 times and 'n/a' 1 time; --missing '' takes empty fields alone as missing"
TOGETHER = "'a' 'NA' 1 time, 'b' '?' 3 times, 'c' 'NA' 2 times"


@pytest.mark.parametrize(
    ("flags", "words", "types", "missing"),
    [
        ("", BY_DEFAULT, "int64 bytes bytes", 5),
        ("--missing ''", "", "bytes bytes bytes", 1),
        ("--missing ?,NA --strip", TOGETHER, "int64 int64 bytes", 7),
        ("--missing ? --drop b", "", "bytes bytes", 1),
    ],
)
def test_texts_that_are_taken_as_missing(jobs: Jobs, flags: str, words: str, types: str, missing: int) -> None:
    made = jobs.build(f"csv {flags}", files={"a.csv": ABSENT})
    assert (
        (f"taken as missing values: in column {words}" in made.said) if words else "taken as missing" not in made.said
    )
    assert list(dtypes(made).values()) == types.split()
    assert sum(len(dtypes(made)) - len(row) for row in made.examples()) == missing


def test_columns_with_missing_texts_are_a_screen(jobs: Jobs) -> None:
    lines = (",".join(f"c{n}" for n in range(30)), ",".join(["NA"] * 30), ",".join(["1"] * 30), "")
    made = jobs.build("csv --block_size 1KiB", files={"a.csv": "\n".join(lines)})
    assert "'c26' 'NA' 1 time, 10 more columns; --missing ''" in "\n".join(made.notices)


ALL_MISSING = "--missing '?,NA,N/A,n/a,NULL,null,#N/A,<NA>'"


@pytest.mark.parametrize(
    ("text", "words", "flags", "rows"),
    [
        (
            numbers_and("?", "?"),
            "40 of its 42 values are numbers, the first other one is '?' (a.csv, line 22)",
            ALL_MISSING,
            42,
        ),
        (numbers_and(*["?"] * 4), "", "--types x=int64 --max_reject_fraction 0.1", 40),
        (numbers_and(" 7", "? "), "", f"--strip {ALL_MISSING}", 42),
        (numbers_and().replace(",", ", "), "40 of its values are numbers with spaces", "--strip", 40),
    ],
)
def test_text_that_is_mostly_numbers(jobs: Jobs, text: str, words: str, flags: str, rows: int) -> None:
    notices = "\n".join(jobs.build("csv", files={"a.csv": text}).notices)
    assert words in notices
    assert flags in notices
    made = jobs.build(f"csv {flags} --overwrite")
    assert len(made.examples()) == rows
    assert "is stored as text:" not in made.said
    assert set(dtypes(made).values()) <= {"int64", "float32"}


MIXED_KINDS = [
    {"list": [0, 4, "Bio"], "pairs": [["a", 1]], "value": True, "n": 1, "texts": ["a", "b"], "tel": "+491"},
    {"list": ["a"], "pairs": [["b", "c"]], "value": "yes", "n": "x", "texts": [], "tel": "+492"},
    {"list": [7, 8], "pairs": [["d", "e"]], "value": None, "n": 5, "texts": ["1"], "tel": "7"},
]


def test_numbers_of_json_that_become_texts(jobs: Jobs) -> None:
    said = jobs.build("jsonl", files={"a.jsonl": "".join(f"{json.dumps(row)}\n" for row in MIXED_KINDS)}).said
    words = "column {!r} is stored as text: numbers and booleans become texts in {}, the first {} (a.jsonl, line 1);"
    for name, rows, first in (
        ("list", "2 rows", '[0, 4, "Bio"]'),
        ("pairs", "1 row", '[["a", 1]]'),
        ("value", "1 row", "true"),
        ("n", "2 rows", "1"),
    ):
        assert f"{words.format(name, rows, first)} --json_columns {name} stores the JSON text of all" in said
    assert not any(f"column '{name}'" in said for name in ("texts", "tel"))  # +491 is no number to advise --types for

    made = jobs.build("jsonl --overwrite --json_columns list,pairs,value,n")
    assert "is stored as text" not in made.said
    lists = {json.dumps(json.loads(row["list"])) for row in made.examples()}
    assert lists == {json.dumps(row["list"]) for row in MIXED_KINDS}


@pytest.mark.parametrize(("header", "block"), [("n,x", "1KiB"), ('"n","x"', "1MiB")])
def test_a_header_among_the_rows_is_not_data(jobs: Jobs, header: str, block: str) -> None:
    part = f"{header}\n" + "".join(f"{n},{n / 2}\n" for n in range(200))
    made = jobs.build(f"csv --block_size {block}", files={"a.csv": part * 3})
    assert (len(made.examples()), dtypes(made)) == (600, {"n": "int64", "x": "float32"})
    assert "2 rows repeat the header and are left out; the first is a.csv, line 202" in made.said


@pytest.mark.parametrize("flags", ["", "--strip", "--schema s"])
def test_a_header_among_the_rows_has_any_spaces_and_quotes(jobs: Jobs, tmp_path: Path, flags: str) -> None:
    rows = "".join(f"{n},{n / 2}\n" for n in range(3))
    again = ("n,x", '"n","x"', " n , x ", '"n",x', 'n,\t"x" ')
    schema = 'feature {{ name: "{}" type: {} shape {{}} }}'
    (tmp_path / "s").write_text(schema.format("n", "INT") + schema.format("x", "FLOAT"))
    made = jobs.build(f"csv {flags}", files={"a.csv": f"n,x\n{rows}" + "".join(f"{one}\n{rows}" for one in again)})
    assert (len(made.examples()), dtypes(made)["x"]) == (18, "float32")
    assert made.said.count("5 rows repeat the header and are left out; the first is a.csv, line 5") == 1
    assert "rejected; see" not in made.said


def test_rows_that_only_resemble_the_header_are_rows(jobs: Jobs) -> None:
    text = "name,city\n" + "".join(f"{name},{city}\n" for name in ("nama", "name", "names") for city in ("x", "cit"))
    made = jobs.build("csv --header first", files={"a.csv": f"{text}name,other\n,city\nname,city\n"})
    assert len(made.examples()) == 8
    assert "1 row repeats the header" in made.said


def test_a_class_with_spaces_names_strip(jobs: Jobs) -> None:
    files = {"a.csv": "n,kind\n1, ant\n2, bee\n", "l": "ant\nbee\n"}
    jobs.refuse("csv --label kind --labels_file in/l", "or --strip removes the spaces around values", files=files)
    jobs.build("csv --label kind --labels_file in/l --strip")


ASKED = """
feature {
  name: "x" type: INT presence { min_fraction: 1 min_count: 1 } shape {}
  drift_comparator { jensen_shannon_divergence { threshold: 0.25 } }
  int_domain { min: 0 max: 9 }
}
dataset_constraints { min_examples_count: 2 }
"""
FILES = {"a.csv": "x\n1\n2\n", "s": ASKED}


@pytest.mark.parametrize("line", ["csv", "reshard --input out/first/1.0.0"])
def test_it_is_published_again(run: Run, jobs: Jobs, line: str) -> None:
    jobs.build("csv --input in/a.csv --name first", files=FILES)
    made = jobs.build(f"{line} --schema in/s")
    text = (made.directory / "schema.pbtxt").read_text()
    assert text_format.Parse(text, schema_pb2.Schema()) == text_format.Parse(ASKED, schema_pb2.Schema())
    assert run("verify", made.directory).status == 0
