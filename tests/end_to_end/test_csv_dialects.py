"""CSV as other programs write it: escapes, marks in numbers, lists in fields, separators of several characters."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shardmill
from tests.support.command import Run

SPARK = 'n,text\n1,"a \\"b\\", c"\n2,"back\\\\slash"\n3,"\\"\\\\"\n4,"two\n\\"lines\\""\n5,x\n'
SPARK_TEXTS = ['a "b", c', "back\\slash", '"\\', 'two\n"lines"', "x"]
LISTS = "n,pixels,emb,tags,wide\n" + "".join(
    f"{n},{n} 80  82,\"[0.5, {n}, 1e3]\",\"['a', 'b{n}']\",{';'.join(map(str, range(n)))}\n" for n in range(1, 6)
)


def convert(run: Run, folder: Path, text: str, *flags: str) -> tuple[int, str, list[dict[str, Any]]]:
    (folder / "rows.csv").write_text(text)
    common = ("--input", folder / "rows.csv", "--output", folder / "out", "--name", "n", "--overwrite", "--no_shuffle")
    result = run("csv", *common, *flags)
    examples = list(shardmill.examples(folder / "out/n/1.0.0", split="train")) if result.status == 0 else []
    return result.status, result.out + result.err, examples


@pytest.mark.parametrize(
    ("text", "flags", "expected"),
    [
        (
            SPARK,
            r"--escape '\'",
            {"n": [1, 2, 3, 4, 5], "text": SPARK_TEXTS},
        ),
        ("a;b\n1,5;x\n-2;y\n,25;1,5\n", "--delimiter ';' --decimal ,", {"a": [1.5, -2, 0.25], "b": ["x", "y", "1,5"]}),
        (
            "a;b\n1.234,5;1.5\n2;2,5\n",
            "--delimiter ';' --decimal , --thousands .",
            {"a": [1234.5, 2], "b": ["1.5", "2,5"]},
        ),
        (
            'a,b\n"1,000",x\n"-12,345,678",y\n7,"1,0"\n',
            "--thousands ,",
            {"a": [1000, -12345678, 7], "b": ["x", "y", "1,0"]},
        ),
        ("a;b\n1'000;1 000,5\n2;3\n", "--delimiter ';' --thousands \"'\"", {"a": [1000, 2], "b": ["1 000,5", "3"]}),
        ("u::item::r\n1::1193::5\n2::a:b::4\n", "--delimiter ::", {"u": [1, 2], "item": ["1193", "a:b"], "r": [5, 4]}),
        (
            'u::t\n1::"a::b"\n2::"say ""x""::y\nand::z"\n3::4" pipe\n',
            "--delimiter ::",
            {"u": [1, 2, 3], "t": ["a::b", 'say "x"::y\nand::z', '4" pipe']},
        ),
        (
            'u::t\n1::"a\\"::b"\n2::c\n',
            "--delimiter :: --escape '\\'",
            {"u": [1, 2], "t": ['a"::b', "c"]},
        ),
        (
            'ip  req  n\n1.2.3.4 "GET / HTTP"   200\n5.6  - 404  \n',
            r"--delimiter '\s+'",
            {"ip": ["1.2.3.4", "5.6"], "req": ["GET / HTTP", "-"], "n": [200, 404]},
        ),
        (" x   y \n 1.5\t 2\n3    4  \n", r"--delimiter '\s+'", {"x": [1.5, 3], "y": [2, 4]}),
    ],
)
def test_dialect(run: Run, tmp_path: Path, text: str, flags: str, expected: dict[str, list[Any]]) -> None:
    for block in ((), ("--block_size", "1KiB")):
        status, said, examples = convert(run, tmp_path, text, *shlex.split(flags), *block)
        assert status == 0, said
        for name, values in expected.items():
            found = [example[name] for example in examples]
            assert [value.decode() if isinstance(value, bytes) else value for value in found] == values


def test_escapes_at_the_ends_of_chunks(run: Run, tmp_path: Path) -> None:
    rows = [f'{n},"{chr(92) * 2 * (n % 7)}{chr(92)}" {n}"' for n in range(30_000)]

    examples = convert(run, tmp_path, "\n".join(["n,text", *rows]), "--escape", "\\", "--block_size", "1KiB")[2]

    assert [row["text"].decode() for row in examples] == [f'{chr(92) * (n % 7)}" {n}' for n in range(30_000)]


def test_lists(run: Run, tmp_path: Path) -> None:
    flags = "--list_separator 'pixels= ' --list_separator emb=, --list_separator tags=, --list_separator 'wide=;'"

    status, said, examples = convert(run, tmp_path, LISTS, *shlex.split(flags))

    assert status == 0, said
    assert (np.array([row["pixels"] for row in examples]) == [[n, 80, 82] for n in range(1, 6)]).all()
    assert examples[0]["pixels"].dtype == np.int64
    assert (np.array([row["emb"] for row in examples]) == [[0.5, n, 1000] for n in range(1, 6)]).all()
    assert list(examples[1]["tags"]) == [b"a", b"b2"]
    assert [list(row["wide"]) for row in examples] == [list(range(n)) for n in range(1, 6)]
    flags += " --max_reject_fraction 1"
    assert len(convert(run, tmp_path, LISTS + '6,1 2,"[1,x]","[]",\n', *shlex.split(flags))[2]) == 6
    flags += f" --schema {tmp_path / 'out/n/1.0.0/schema.pbtxt'} --version 1.0.1"
    status, said, _ = convert(run, tmp_path, LISTS + '6,1 2,"[1,2,x]","[]",\n', *shlex.split(flags))
    assert status == 0, said


def test_numbers_of_another_country_are_told(run: Run, tmp_path: Path) -> None:
    table = "name;price\na;1.234,50\nb;12,00\nc;7\n"
    status, said, _ = convert(run, tmp_path, table, "--delimiter", ";")
    assert status == 0
    assert "numbers with a decimal comma and points, stored as texts; --decimal , --thousands . makes numbers" in said
    flags = ("--delimiter", ";", "--decimal", ",", "--thousands", ".")
    status, said, examples = convert(run, tmp_path, table, *flags)
    assert (status, sorted(float(row["price"]) for row in examples)) == (0, [7.0, 12.0, 1234.5]), said


def test_lists_that_are_texts_are_told(run: Run, tmp_path: Path) -> None:
    status, said, examples = convert(run, tmp_path, LISTS)

    assert (status, examples[0]["pixels"]) == (0, b"1 80  82")
    assert (
        "5 values of column 'pixels' are lists of numbers, stored as texts; --list_separator 'pixels= ' makes" in said
    )
    assert "5 values of column 'emb' are lists of numbers, stored as texts; --list_separator 'emb=,' makes" in said
    assert "column 'tags' are" not in said


@pytest.mark.parametrize(
    ("values", "remedy"),
    [
        ('"1,000" 5 "-12,345.5"', "--thousands , makes numbers"),
        ('7 "1,5" "0,25"', "--decimal , makes numbers"),
        ("$5 $10 -$7.5", "numbers with a sign such as $ or %, stored as texts; numbers have none"),
        ("€50 7€ 8%", "numbers with a sign such as $ or %"),
        ("007 12 5", ""),
        ("2024-01-01 12 5", ""),
    ],
)
def test_numbers_that_are_texts_are_told(run: Run, tmp_path: Path, values: str, remedy: str) -> None:
    text = "".join(f"n{n},{value}\n" for n, value in enumerate(values.split()))

    status, said, _ = convert(run, tmp_path, f"name,x\n{text}")

    assert (status, "stored as texts" in said, remedy in said) == (0, bool(remedy), True), said
    if remedy.startswith("--"):
        flags = remedy.split(" makes")[0].split()
        examples = convert(run, tmp_path, f"name,x\n{text}", *flags)[2]
        assert all(isinstance(float(example["x"]), float) for example in examples)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_hive_partitions(run: Run, tmp_path: Path, kind: str) -> None:
    for number, folder in enumerate(("year=2023/city=New%20York", "year=2024/city=__HIVE_DEFAULT_PARTITION__")):
        path = tmp_path / "in" / folder / f"a.{kind}"
        path.parent.mkdir(parents=True)
        path.write_text(f"n\n{number}\n" if kind == "csv" else f'{{"n": {number}}}\n')
    common = (kind, "--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "n", "--overwrite")

    plain = run(*common)
    found = run(*common, "--hive_partitioning", "--group_by", "year", "--splits", "train=1")

    assert "files lie in folders such as 'year=2023/city=New%20York', which are no columns; --hive_" in plain.out
    assert found.status == 0, found.err
    examples = sorted(shardmill.examples(tmp_path / "out/n/1.0.0", split="train"), key=lambda row: int(row["n"]))
    assert [(row["year"], row.get("city")) for row in examples] == [(2023, b"New York"), (2024, None)]
    assert (
        "no folder such as year=2024"
        in run(*common[:2], tmp_path / "in/year=2023/city=New%20York", *common[3:], "--hive_partitioning").err
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_column_that_is_also_a_folder_is_said(run: Run, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"in/year=2024/a.{kind}"
    path.parent.mkdir(parents=True)
    if kind == "csv":
        path.write_text("n,year\n1,1999\n")
    else:
        pq.write_table(pa.table({"n": [1], "year": [1999]}), path)
    common = (kind, "--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "n", "--overwrite")

    found = run(*common, "--hive_partitioning")

    assert f"passed over 1 file column whose folder says its value, such as 'year=2024/a.{kind}: year'" in found.out
    assert [example["year"] for example in shardmill.examples(tmp_path / "out/n")] == [2024]
    assert run(*common).status == 0
    assert [example["year"] for example in shardmill.examples(tmp_path / "out/n")] == [1999]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--thousands .", "it is the decimal mark, too; give --decimal ,"),
        ("--escape '\"'", "it is the quote or the delimiter, too"),
        ("--escape '\\' --quote ''", "there are no quotes to escape"),
        ("--delimiter , --decimal ,", "it is a mark in numbers, too"),
        ("--list_separator a=", "expected the text between two values"),
        ("--delimiter 'a|b\\d'", "expected a character, several that are no letters"),
    ],
)
def test_mistakes(run: Run, tmp_path: Path, flags: str, message: str) -> None:
    status, said, _ = convert(run, tmp_path, "a,b\n1,2\n", *shlex.split(flags))
    assert (status, message in said) == (2, True), said
