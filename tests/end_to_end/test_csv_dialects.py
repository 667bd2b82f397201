"""CSV as other programs write it: escapes, marks in numbers, lists in fields, separators of several characters."""

from typing import Any

import pyarrow as pa
import pytest

from tests.support.jobs import Jobs
from tests.support.reading import plain
from tests.support.table_results import parquet

SPARK = 'n,text\n1,"a \\"b\\", c"\n2,"back\\\\slash"\n3,"\\"\\\\"\n4,"two\n\\"lines\\""\n5,x\n'
SPARK_TEXTS = ['a "b", c', "back\\slash", '"\\', 'two\n"lines"', "x"]
LISTS = "n,pixels,emb,tags,wide\n" + "".join(
    f"{n},{n} 80  82,\"[0.5, {n}, 1e3]\",\"['a', 'b{n}']\",{';'.join(map(str, range(n)))}\n" for n in range(1, 6)
)
OF_LISTS = "--list_separator 'pixels= ' --list_separator emb=, --list_separator tags=, --list_separator 'wide=;'"
PRICES = "name;price\na;1.234,50\nb;12,00\nc;7\n"


@pytest.mark.parametrize(
    ("text", "flags", "expected"),
    [
        (SPARK, r"--escape '\'", {"n": [1, 2, 3, 4, 5], "text": SPARK_TEXTS}),
        ("a;b\n1,5;x\n-2;y\n,25;1,5\n", "--delimiter ';' --decimal ,", {"a": [1.5, -2, 0.25], "b": ["x", "y", "1,5"]}),
        (
            "a;b\n1.234,5;1.5\n2;2,5\n",
            "--delimiter ';' --decimal , --thousands .",
            {"a": [1234.5, 2], "b": ["1.5", "2,5"]},
        ),
        (PRICES, "--delimiter ';' --decimal , --thousands .", {"price": [1234.5, 12.0, 7.0]}),
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
        ('u::t\n1::"a\\"::b"\n2::c\n', "--delimiter :: --escape '\\'", {"u": [1, 2], "t": ['a"::b', "c"]}),
        (
            'ip  req  n\n1.2.3.4 "GET / HTTP"   200\n5.6  - 404  \n',
            r"--delimiter '\s+'",
            {"ip": ["1.2.3.4", "5.6"], "req": ["GET / HTTP", "-"], "n": [200, 404]},
        ),
        (" x   y \n 1.5\t 2\n3    4  \n", r"--delimiter '\s+'", {"x": [1.5, 3], "y": [2, 4]}),
    ],
)
def test_dialect(jobs: Jobs, text: str, flags: str, expected: dict[str, list[Any]]) -> None:
    for block in ("", "--block_size 1KiB"):
        made = jobs.build(f"csv --no_shuffle --overwrite {flags} {block}", files={"a.csv": text})
        assert {name: [plain(row[name]) for row in made.examples()] for name in expected} == expected


def test_escapes_at_the_ends_of_chunks(jobs: Jobs) -> None:
    rows = [f'{n},"{chr(92) * 2 * (n % 7)}{chr(92)}" {n}"' for n in range(30_000)]
    flags = r"csv --escape '\' --block_size 1KiB --no_shuffle"
    made = jobs.build(flags, files={"a.csv": "\n".join(["n,text", *rows])})
    assert [row["text"].decode() for row in made.examples()] == [f'{chr(92) * (n % 7)}" {n}' for n in range(30_000)]


def test_lists(jobs: Jobs) -> None:
    made = jobs.build(f"csv --no_shuffle {OF_LISTS}", files={"a.csv": LISTS})
    columns = {name: [plain(row[name]) for row in made.examples()] for name in ("pixels", "emb", "tags", "wide")}
    assert columns == {
        "pixels": [[n, 80, 82] for n in range(1, 6)],
        "emb": [[0.5, n, 1000] for n in range(1, 6)],
        "tags": [["a", f"b{n}"] for n in range(1, 6)],
        "wide": [list(range(n)) for n in range(1, 6)],
    }
    assert {feature.name: feature.dtype for feature in made.manifest.features}["pixels"] == "int64"
    more = {"a.csv": LISTS + '6,1 2,"[1,x]","[]",\n'}
    flags = f"csv {OF_LISTS} --max_reject_fraction 1 --version"
    assert len(jobs.build(f"{flags} 1.0.1", files=more).examples()) == 6
    more = {"a.csv": LISTS + '6,1 2,"[1,2,x]","[]",\n'}
    jobs.build(f"{flags} 1.0.2 --schema out/n/1.0.1/schema.pbtxt", files=more)


STORED = "stored as texts"


@pytest.mark.parametrize(
    ("text", "flags", "notices"),
    [
        (
            PRICES,
            "--delimiter ';'",
            [f"numbers with a decimal comma and points, {STORED}; --decimal , --thousands . makes numbers"],
        ),
        (
            LISTS,
            "",
            [
                f"5 values of column 'pixels' are lists of numbers, {STORED}; --list_separator 'pixels= ' makes",
                f"5 values of column 'emb' are lists of numbers, {STORED}; --list_separator 'emb=,' makes",
            ],
        ),
        ('name,x\na,"1,000"\nb,5\nc,"-12,345.5"\n', "", ["--thousands , makes numbers"]),
        ('name,x\na,7\nb,"1,5"\nc,"0,25"\n', "", ["--decimal , makes numbers"]),
        ("name,x\na,$5\nb,$10\nc,-$7.5\n", "", [f"numbers with a sign such as $ or %, {STORED}; numbers have none"]),
        ("name,x\na,€50\nb,7€\nc,8%\n", "", ["numbers with a sign such as $ or %"]),
        ("name,x\na,007\nb,12\nc,5\n", "", []),
        ("name,x\na,2024-01-01\nb,12\nc,5\n", "", []),
    ],
)
def test_values_that_are_stored_as_texts_are_told(jobs: Jobs, text: str, flags: str, notices: list[str]) -> None:
    made = jobs.build(f"csv {flags}", files={"a.csv": text})
    assert (STORED in made.said, "column 'tags' are" in made.said) == (bool(notices), False)
    for notice in notices:
        assert notice in made.said
    if notices and notices[0].startswith("--"):
        examples = jobs.build(f"csv --overwrite {notices[0].partition(' makes')[0]}").examples()
        assert all(isinstance(plain(example["x"]), int | float) for example in examples)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_hive_partitions(jobs: Jobs, kind: str) -> None:
    rows = [f"n\n{number}\n" if kind == "csv" else f'{{"n": {number}}}\n' for number in (0, 1)]
    folders = ("year=2023/city=New%20York", "year=2024/city=__HIVE_DEFAULT_PARTITION__")
    made = jobs.build(kind, files={f"{folder}/a.{kind}": row for folder, row in zip(folders, rows, strict=True)})
    assert "files lie in folders such as 'year=2023/city=New%20York', which are no columns; --hive_" in made.said
    made = jobs.build(f"{kind} --overwrite --no_shuffle --hive_partitioning --group_by year --splits train=1")
    assert {row["n"]: (row["year"], row.get("city")) for row in made.examples()} == {
        0: (2023, b"New York"),
        1: (2024, None),
    }
    sentence = "no folder such as year=2024"
    jobs.refuse(f"{kind} --overwrite --input in/year=2023/city=New%20York --hive_partitioning", sentence)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_column_that_is_also_a_folder_is_said(jobs: Jobs, kind: str) -> None:
    data = b"n,year\n1,1999\n" if kind == "csv" else parquet(pa.table({"n": [1], "year": [1999]}))
    found = jobs.build(f"{kind} --hive_partitioning", files={f"year=2024/a.{kind}": data})
    assert f"passed over 1 file column whose folder says its value, such as 'year=2024/a.{kind}: year'" in found.said
    assert [example["year"] for example in found.examples()] == [2024]
    assert [example["year"] for example in jobs.build(f"{kind} --overwrite").examples()] == [1999]
