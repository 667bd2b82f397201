"""First rows of CSV files that are read the wrong way, and those that are not."""

import random

import pytest

from shardmill.transforms.formats.conventions import Dialect
from shardmill.transforms.formats.csv_doubts import header_problem

RANDOM = random.Random(1)
IRIS = [f"{5 + i / 10:.1f},{3 + i % 7 / 10:.1f},1.{i % 9},0.{i % 4},Iris-setosa" for i in range(20)]
ADULT = [f"{20 + i}, Private, {10000 + 7 * i}, HS-grad, {i % 16}, Male" for i in range(20)]
MUSHROOM = [",".join(RANDOM.choice(letters) for letters in ("pe", "xbf", "sfy", "nwy", "tf")) for _ in range(60)]
GENES = [f"gene{i},{i / 7:.3f},{i / 9:.3f},{i / 11:.3f}" for i in range(20)]
PEOPLE = [f"{name},{age}" for name, age in zip(("Ann", "Bob", "Cid", "Dot"), (31, 42, 27, 35))]


def problem(header: str, rows: list[str], delimiter: str = ",", given: bool = False, line: int = 1) -> str | None:
    sample = "\n".join([*([header] if header else []), *rows]) + "\n"
    return header_problem(sample, line, Dialect(delimiter.encode()), given)


@pytest.mark.parametrize(
    ("header", "rows", "delimiter", "expected"),
    [
        *(("", rows, ",", "looks like data") for rows in (IRIS, ADULT, MUSHROOM, PEOPLE)),
        ("", ["0 qid:1 1:0.3 2:0.1", "1 qid:1 1:0.4"], ",", "looks like data"),
        *(("", rows, ",", "looks like data") for rows in (["1 1:0.3 2:0.1", "0 1:0.4"], ["5", "6", "9"])),
        ("", ["1,Rome", "2,Paris", "3,Oslo"], ",", "looks like data"),
        ("", ["2024-01-01,Berlin", "2024-01-02,Paris"], ",", "looks like data"),
        ("", ["1.5\tx", "2.5\ty"], "\t", "looks like data"),
        ("sep=;", ["a;b", "1;2"], ",", "--skip_lines 1 --delimiter ';'"),
        ("# exported 2024-01-31, sensor 7", ["time,temp", "1,2.5", "2,3.5"], ",", "--comment '#'"),
        ("# one\n# two", ["time,temp", "1,2.5", "2,3.5"], ",", "--skip_lines 2"),
        ("%", ["time,temp", "1,2.5", "2,3.5"], ",", "--comment '%'"),
        ("#version 2", ["time,temp", "1,2.5", "2,3.5"], ",", "--comment '#'"),
        ('"fixed acidity";"volatile acidity"', ["7;0.1", "8;0.2"], ",", "--delimiter ';'"),
        (
            *("a;b", ["1,5;2,5", "2,5;3,5"], ","),
            "the header is one column, 'a;b'; give --delimiter ';' if that separates columns, or --delimiter ',' if it",
        ),
        ("a\tb", ["1\t2", "3\t4"], ",", "--delimiter tab"),
        ("a,b,c", ["1|2|3", "4|5|6"], ",", "--skip_lines 1 --delimiter '|' --columns a,b,c"),
        ("569,3,malignant,benign", ["1,2,3,4,0", "5,6,7,8,1"], ",", "column_5 (5 names)"),
        ("Report of sales", ["", "id,region,sum", "1,north,2", "2,south,3"], ",", "--skip_lines 2"),
        ("Sales, all regions", ["id,region,sum", "1,north,2", "2,south,3"], ",", "--skip_lines 1"),
        ("a,b", ["x,1,2", "y,3,4"], ",", "has 2 fields, and the rows have 3"),
    ],
)
def test_doubtful(header: str, rows: list[str], delimiter: str, expected: str) -> None:
    assert expected in str(problem(header, rows, delimiter))


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("id,1990,1991", ["1,2,3", "2,4,5"]),
        ("country,1990,1991", ["France,2,3", "Spain,4,5"]),
        ("gene,TCGA-01,TCGA-02,TCGA-03", GENES),
        (",".join(map(str, range(16))), [",".join(str(RANDOM.randint(0, 255)) for _ in range(16)) for _ in range(9)]),
        ("label," + ",".join(map(str, range(9))), [",".join(["7", *map(str, range(10, 19))])]),
        ("0,1", ["2.5,3.5"]),
        ("Country,1/22/20,1/23/20", ["France,0,2", "Spain,0,1"]),
        ("name,city", ["Ann,Berlin", "Bob,Paris"]),
        ("name,age", PEOPLE),
        ("#chrom,start,end", ["chr1,5,9", "chr2,7,8"]),
        (",a,b", ["0,1,2", "1,3,4"]),
        ("a,b", ["1,2,", "3,4,"]),
        ("a,b", []),
        ("text", ["hello, world", "good morning"]),
        ("text", ["one; two", "three; four"]),
        ("id,text", ["1,a", "2,b", "id,text", "3,c"]),
        ("x,y,z", ["1,2", "3,4,5", "6,7,8,9", "1,2,3"]),
        ('a,"b;c"', ["1,2", "3,4"]),
        ("full name", ["Ada Lovelace"] * 9),
        ("a b", ["c", "1 2"]),
        ("one two", ["1 2 3 4", "4 5 6 7"]),
    ],
)
def test_plausible(header: str, rows: list[str]) -> None:
    assert problem(header, rows) is None


def test_first_row_of_many_columns_is_not_written_out() -> None:
    found = problem("", [",".join(f"{RANDOM.random():.3f}" for _ in range(785)) for _ in range(3)])
    assert "--columns column_1,column_2,… (785 names), or --header none" in str(found)


def test_line_numbers_go_on_after_skipped_lines() -> None:
    found = problem("Sales, all regions", ["id,region,sum", "1,north,2", "2,south,3"], line=4)
    assert "in line 5: give --skip_lines 4" in str(found)


def test_a_delimiter_that_was_given_is_not_doubted() -> None:
    assert problem("a;b", ["1;2", "3;4"], given=True) is None
