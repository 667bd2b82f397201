"""Types of columns, their lines in the summary, and the flags that notices recommend, each tried."""

import json
import shlex
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shardmill
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run


def convert(
    run: Run, folder: Path, text: str, *flags: str, suffix: str = "csv"
) -> tuple[int, str, list[dict[str, Any]]]:
    """The exit status, what is printed, and the examples as they were stored."""
    (folder / f"rows.{suffix}").write_text(text)
    source = (suffix, "--input", folder / f"rows.{suffix}", "--output", folder / "out", "--name", "n", "--overwrite")
    result = run(*source, *flags)
    examples = list(shardmill.examples(folder / "out/n/1.0.0", split="train")) if result.status == 0 else []
    return result.status, result.out + result.err, examples


def test_the_summary_shows_each_column(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"{n}, {n}5,{'' if n % 2 else n / 2},{'ab'[n % 2]}\n" for n in range(9))
    said = convert(run, tmp_path, f"age, fnlwgt,share,class\n{rows}", "--label", "class")[1].splitlines()
    at = next(number for number, line in enumerate(said) if line.startswith("feature"))
    columns = [line.split(maxsplit=2) for line in said[at : at + 5]]

    assert [words[0] for words in columns] == ["feature", "age", "'", "share", "class"]
    assert columns[2][1:] == ["fnlwgt'", said[at + 2].split(maxsplit=2)[2]]
    assert '" ' in said[at + 2]  # quotes show the space
    assert columns[3][1:2] == ["float32"]
    assert columns[3][2].startswith("4 ")
    assert "int64 (class_label, 2 classes)" in said[at + 4]


def test_the_summary_of_a_wide_table_is_a_screen(run: Run, tmp_path: Path) -> None:
    names = [f"gene{n}" for n in range(50)]
    said = convert(run, tmp_path, ",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")[1]

    assert "gene29 " in said
    assert "gene30 " not in said
    assert "… and 20 more; shardmill inspect" in said


def dtypes(folder: Path) -> dict[str, str]:
    """The types of the features that `convert` published."""
    return {feature.name: feature.dtype for feature in open_dataset(str(folder / "out/n")).manifest.features}


def test_codes_and_ids_keep_their_digits(run: Run, tmp_path: Path) -> None:
    rows = "1E10,68e12345,1234567001.0,1e5\n12E3,7,,0.5\n"
    status, said, examples = convert(run, tmp_path, f"room,hash,id,x\n{rows}")

    assert status == 0, said
    assert dtypes(tmp_path) == {"room": "bytes", "hash": "bytes", "id": "int64", "x": "float32"}
    assert sorted((row["room"], row["hash"], row.get("id"), row["x"]) for row in examples) == [
        (b"12E3", b"7", None, 0.5),
        (b"1E10", b"68e12345", 1_234_567_001, 100_000.0),
    ]


def test_whole_floats_of_json_are_integers(run: Run, tmp_path: Path) -> None:
    convert(run, tmp_path, '{"id": 1234567001.0, "x": 2.0}\n{"id": 7, "x": 0.5}\n', suffix="jsonl")

    assert dtypes(tmp_path) == {"id": "int64", "x": "float32"}
    assert sorted(row["id"] for row in shardmill.examples(tmp_path / "out/n", split="train")) == [7, 1_234_567_001]


def test_a_schema_with_integers_takes_whole_floats(run: Run, tmp_path: Path) -> None:
    (tmp_path / "s.pbtxt").write_text('feature { name: "id" type: INT shape {} }')
    flags = ("--schema", str(tmp_path / "s.pbtxt"))
    status, said, examples = convert(run, tmp_path, "id\n1234567001.0\n7.\n8\n", *flags)

    assert status == 0, said
    assert sorted(row["id"] for row in examples) == [7, 8, 1_234_567_001]


MIXED = "zip,n,x\n10001,1,7\n02134,2,8\n94105,3,9\n"


def test_types_of_single_columns(run: Run, tmp_path: Path) -> None:
    flags = ("--types", "zip=bytes,n=float32", "--types", "x=bytes")
    status, said, examples = convert(run, tmp_path, MIXED, *flags)

    assert status == 0, said
    assert dtypes(tmp_path) == {"zip": "bytes", "n": "float32", "x": "bytes"}
    assert sorted((row["zip"], row["n"], row["x"]) for row in examples)[0] == (b"02134", 2.0, b"8")

    status, said, examples = convert(
        run, tmp_path, '{"n": 7, "x": [1, 2]}\n', "--types", "n=bytes,x=float32", suffix="jsonl"
    )
    assert status == 0, said
    assert examples[0]["n"] == b"7"
    assert examples[0]["x"].tolist() == [1.0, 2.0]


ABSENT = "a,b,c\n1, ?,NA\n NA,7,n/a\n3,?,NA\t\n4,8,x\n5,?,\n"
TAKEN = "taken as missing values: in column {}"
BY_DEFAULT = "'a' 'NA' 1 time, 'c' 'NA' 2 times and 'n/a' 1 time; --missing '' takes empty fields alone as missing"


@pytest.mark.parametrize(
    ("flags", "words", "types", "missing"),
    [
        ((), BY_DEFAULT, "int64 bytes bytes", 5),
        (("--missing", ""), "", "bytes bytes bytes", 1),
        (("--missing", "?"), "'b' '?' 3 times", "bytes int64 bytes", 4),
        (
            ("--missing", "?,NA", "--strip"),
            "'a' 'NA' 1 time, 'b' '?' 3 times, 'c' 'NA' 2 times",
            "int64 int64 bytes",
            7,
        ),
        (("--missing", "?", "--only", "a"), "", "bytes", 0),
        (("--missing", "?", "--drop", "b"), "", "bytes bytes", 1),
    ],
)
def test_texts_that_are_taken_as_missing(
    run: Run, tmp_path: Path, flags: tuple[str, ...], words: str, types: str, missing: int
) -> None:
    status, said, examples = convert(run, tmp_path, ABSENT, *flags)

    assert status == 0, said
    assert (TAKEN.format(words) in said) if words else "taken as missing" not in said
    assert list(dtypes(tmp_path).values()) == types.split()
    assert sum(len(dtypes(tmp_path)) - len(row) for row in examples) == missing


def notices(folder: Path) -> str:
    """The notices of the data set, which are in the summary, too, but shorter."""
    return "\n".join(open_dataset(str(folder / "out/n")).manifest.notices)


def test_columns_with_missing_texts_are_a_screen(run: Run, tmp_path: Path) -> None:
    text = ",".join(f"c{n}" for n in range(30)) + "\n" + ",".join(["NA"] * 30) + "\n" + ",".join(["1"] * 30) + "\n"
    convert(run, tmp_path, text, "--block_size", "1KiB")

    assert "'c26' 'NA' 1 time, 10 more columns; --missing ''" in notices(tmp_path)


def test_a_value_of_another_type_is_a_reject(run: Run, tmp_path: Path) -> None:
    text = "n\n1\n?\n3\n"
    status, said, examples = convert(run, tmp_path, text, "--types", "n=int64", "--max_reject_fraction", "0.5")

    assert status == 0, said
    assert sorted(row["n"] for row in examples) == [1, 3]
    assert "'?' is not an integer (int64)" in said


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--types zipp=bytes", "--types zipp: no such column"),
        ("--types zip=text", "--types: zip=text is not column=type, such as zip=bytes; types are int64, float32"),
        ("--types zip=bytes --types zip=int64", "zip=… is given twice"),
        ("--types n=float32 --schema s.pbtxt", "--types n=float32: --schema says that it holds int64"),
    ],
)
def test_types_that_cannot_be(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.pbtxt").write_text('feature { name: "n" type: INT shape {} }')
    status, said, _ = convert(run, tmp_path, MIXED, *flags.split())

    assert status == 2
    assert words in said
    assert not (tmp_path / "out").exists()
    if "schema" in flags:
        assert convert(run, tmp_path, MIXED, *flags.replace("float32", "int64").split())[0] == 0


def numbers_and(*odd: str) -> str:
    """Text with 40 numbers in a column `x`, among which are `odd` values."""
    values = [str(n) for n in range(1, 41)]
    values[20:20] = odd
    return "n,x\n" + "".join(f"{n},{value}\n" for n, value in enumerate(values))


@pytest.mark.parametrize(
    ("text", "words", "flags", "rows"),
    [
        (
            numbers_and("?", "?"),
            "40 of its 42 values are numbers, the first other one is '?' (rows.csv, line 22)",
            "--missing '?,NA,N/A,n/a,NULL,null,#N/A,<NA>'",
            42,
        ),
        (numbers_and("?"), "", "--types x=int64 rejects", None),  # so few that no limit need be raised
        (numbers_and(*["?"] * 4), "", "--types x=int64 --max_reject_fraction 0.1", 40),
        (numbers_and('"a, b"', "1.5"), "", """--missing '"a, b",NA,""", None),
        (numbers_and('"1,000"', "0.5"), "numbers with commas", "--thousands ,", 42),
        (
            numbers_and("50%", "x", "9" * 30, "y"),
            "the first other one is '50%'",
            "--types x=int64 --max_reject_fraction",
            None,
        ),
        (
            numbers_and(" 7", "?"),
            "1 of its values are numbers with spaces around them, the first ' 7'",
            "--strip",
            None,
        ),
        (numbers_and(" 7", "? "), "", "--strip --missing '?,NA,N/A,n/a,NULL,null,#N/A,<NA>'", 42),
        (numbers_and().replace(",", ", "), "40 of its values are numbers with spaces", "--strip", 40),
        ("room,n\n1E10,1\n2E05,2\n12,3\n", "such as 1E10, have exponents but no sign", "--types room=float32", 3),
    ],
)
def test_text_that_is_mostly_numbers(
    run: Run, tmp_path: Path, text: str, words: str, flags: str, rows: int | None
) -> None:
    convert(run, tmp_path, text)
    said = notices(tmp_path)
    assert words in said
    assert flags in said
    if rows is not None:
        status, said, examples = convert(run, tmp_path, text, *shlex.split(flags))
        assert (status, len(examples)) == (0, rows), said
        assert "is text:" not in said
        assert set(dtypes(tmp_path).values()) <= {"int64", "float32"}


QUOTED = [*map(str, range(20)), "?", *map(str, range(20, 40))]  # numbers in quotes, and one other text


def write_texts(folder: Path, suffix: str, columns: dict[str, list[Any]]) -> None:
    """Write a file of columns that its format knows to be texts."""
    rows = [dict(zip(columns, values)) for values in zip(*columns.values())]
    if suffix == "jsonl":
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif suffix == "parquet":
        pq.write_table(pa.table(columns), folder / "rows.parquet")
    else:
        fields = [{"name": name, "type": "string"} for name in columns]
        with (folder / "rows.avro").open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, rows)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "avro"])
def test_texts_of_typed_files_that_are_numbers(run: Run, tmp_path: Path, suffix: str) -> None:
    columns = {"n": QUOTED, "x": [f"{n}.5" for n in range(41)], "zip": ["02134"] * 41, "word": ["a b"] * 41}
    write_texts(tmp_path, suffix, columns)
    source = (suffix, "--input", tmp_path / f"rows.{suffix}", "--output", tmp_path / "out", "--name", "n")
    result = run(*source)
    said = result.out + result.err

    place = f"(rows.{suffix}, {'line' if suffix == 'jsonl' else 'row'} 21)"
    assert f"'n' is text: 40 of its 41 values are numbers, the first other one is '?' {place}; --types n=int64" in said
    assert "column 'x' is text, and its 41 values are numbers; --types x=float32 stores numbers" in said
    assert said.count("is text") == 2

    advised = ("--types", "n=int64", "--types", "x=float32", "--max_reject_fraction", "0.1")
    result = run(*source, "--overwrite", *advised)
    examples = list(shardmill.examples(tmp_path / "out/n", split="train"))
    assert "is text" not in result.out + result.err
    assert sorted((row["n"], row["x"]) for row in examples) == [(n, n + 0.5 + (n > 19)) for n in range(40)]


def test_decimals_of_parquet_become_numbers(run: Run, tmp_path: Path) -> None:
    pq.write_table(pa.table({"price": [Decimal("1.25"), None, Decimal("7.50")]}), tmp_path / "rows.parquet")
    source = ("parquet", "--input", tmp_path / "rows.parquet", "--output", tmp_path / "out", "--name", "n")
    result = run(*source)
    assert "column 'price' is text, and its 2 values are numbers; --types price=float32" in result.out + result.err

    run(*source, "--overwrite", "--types", "price=float32")
    assert sorted(row.get("price", 0) for row in shardmill.examples(tmp_path / "out/n", split="train")) == [
        0,
        1.25,
        7.5,
    ]


MIXED_KINDS = [
    {"list": [0, 4, "Bio"], "pairs": [["a", 1]], "value": True, "n": 1, "texts": ["a", "b"]},
    {"list": ["a"], "pairs": [["b", "c"]], "value": "yes", "n": "x", "texts": []},
    {"list": [7, 8], "pairs": [["d", "e"]], "value": None, "n": 5, "texts": ["1"]},
]


def test_numbers_of_json_that_become_texts(run: Run, tmp_path: Path) -> None:
    text = "".join(json.dumps(row) + "\n" for row in MIXED_KINDS)
    status, said, _ = convert(run, tmp_path, text, suffix="jsonl")
    words = "column {!r} is text: numbers and booleans become texts in {}, the first {} (rows.jsonl, line 1);"

    assert status == 0, said
    for name, rows, first in (
        ("list", "2 rows", '[0, 4, "Bio"]'),
        ("pairs", "1 row", '[["a", 1]]'),
        ("value", "1 row", "true"),
        ("n", "2 rows", "1"),
    ):
        assert f"{words.format(name, rows, first)} --json_columns {name} stores the JSON text of all" in said
    assert "column 'texts'" not in said

    status, said, examples = convert(run, tmp_path, text, "--json_columns", "list,pairs,value,n", suffix="jsonl")
    assert "is text" not in said
    assert {json.dumps(json.loads(row["list"])) for row in examples} == {json.dumps(row["list"]) for row in MIXED_KINDS}


@pytest.mark.parametrize("odd", [["007", "010"], ["a"] * 9, []])
def test_codes_and_texts_are_not_doubted(run: Run, tmp_path: Path, odd: list[str]) -> None:
    assert "is text" not in convert(run, tmp_path, numbers_and(*odd))[1]


@pytest.mark.parametrize("block", ["1KiB", "1MiB"])
@pytest.mark.parametrize("header", ["n,x", '"n","x"'])
def test_a_header_among_the_rows_is_not_data(run: Run, tmp_path: Path, header: str, block: str) -> None:
    part = f"{header}\n" + "".join(f"{n},{n / 2}\n" for n in range(200))
    status, said, examples = convert(run, tmp_path, part * 3, "--block_size", block)

    assert (status, len(examples)) == (0, 600)
    assert dtypes(tmp_path) == {"n": "int64", "x": "float32"}
    assert "2 rows repeat the header and are left out; the first is rows.csv, line 202" in said


@pytest.mark.parametrize("flags", ["", "--strip", "--schema s.pbtxt", "--types n=int64", "--only x"])
def test_a_header_among_the_rows_has_any_spaces_and_quotes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{n},{n / 2}\n" for n in range(3))
    again = ("n,x", '"n","x"', " n , x ", '"n",x', 'n,\t"x" ')
    schema = 'feature {{ name: "{}" type: {} shape {{}} }}'
    Path("s.pbtxt").write_text(schema.format("n", "INT") + schema.format("x", "FLOAT"))
    status, said, examples = convert(
        run, tmp_path, f"n,x\n{rows}" + "".join(f"{one}\n{rows}" for one in again), *flags.split()
    )

    assert (status, len(examples)) == (0, 18), said
    assert dtypes(tmp_path)["x"] == "float32"
    assert said.count("5 rows repeat the header and are left out; the first is rows.csv, line 5") == 1
    assert "rejected; see" not in said


def test_rows_that_only_resemble_the_header_are_rows(run: Run, tmp_path: Path) -> None:
    text = "name,city\n" + "".join(f"{name},{city}\n" for name in ("nama", "name", "names") for city in ("x", "cit"))
    text += "name,other\n,city\nname,city\n"
    status, said, examples = convert(run, tmp_path, text, "--header", "first")

    assert (status, len(examples)) == (0, 8)
    assert "1 row repeats the header" in said


def test_a_class_with_spaces_names_strip(run: Run, tmp_path: Path) -> None:
    (tmp_path / "l.txt").write_text("ant\nbee\n")
    flags = ("--label", "kind", "--labels_file", str(tmp_path / "l.txt"))
    status, said, _ = convert(run, tmp_path, "n,kind\n1, ant\n2, bee\n", *flags)

    assert status == 2
    assert "or --strip removes the spaces around values" in said
    assert convert(run, tmp_path, "n,kind\n1, ant\n2, bee\n", *flags, "--strip")[0] == 0
