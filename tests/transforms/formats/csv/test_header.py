"""Headers, and what is taken for CSV and is not. What a file with such a header is, test_format.py has."""

import pytest

from shardmill.errors import UserError
from shardmill.transforms.formats.conventions import Dialect
from shardmill.transforms.formats.csv_doubts import header_problem
from shardmill.transforms.formats.csv_parse import (
    START_BYTES,
    check_start,
    column_problem,
    header_columns,
)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (["a"], None),
        (["a", "A", " a"], None),
        ([], "names no columns"),
        (["a", ""], "has no name for column 2 of 2; give every column a name"),
        (["a", "b", "b", "b", "a"], "names the column 'a' 2 times; rename all but one"),
    ],
)
def test_names_of_columns(columns: list[str], problem: str | None) -> None:
    assert column_problem(columns) == problem


@pytest.mark.parametrize(
    ("columns", "delimiter", "words"),
    [
        (["a;b"], ",", "--delimiter ';' if that separates columns, or --delimiter ',' if it is one column"),
        (["a\tb"], ",", "--delimiter tab if that"),
        (["a|b"], "\t", "--delimiter '|' if that separates columns, or --delimiter tab if it is one column"),
        (["a,b"], "\t", "--delimiter ',' if that"),
    ],
)
def test_a_header_that_is_one_column_with_what_may_divide_it(columns: list[str], delimiter: str, words: str) -> None:
    said = header_problem(columns[0], 1, Dialect(delimiter.encode()), is_delimiter_given=False)
    assert said is not None
    assert said.startswith(f"the header is one column, {columns[0]!r}; give {words}")


@pytest.mark.parametrize("columns", [["a"], ["a b"], ["a;b", "c"], []])
def test_a_header_that_may_well_be_one_column(columns: list[str]) -> None:
    assert header_problem(",".join(columns), 1, Dialect(), is_delimiter_given=False) is None


@pytest.mark.parametrize("start", [b"", b"PAR1,PAR2"[:START_BYTES], b"BZh9,a\n", b"a,b\n", "é,b\n".encode()])
def test_text_is_no_other_format(start: bytes) -> None:
    check_start(start, "a.csv", "utf-8")


def test_a_byte_order_mark_is_fine_in_its_encoding() -> None:
    check_start(b"\xff\xfea\0", "a.csv", "utf-16")
    with pytest.raises(UserError, match=r"^a.csv is not CSV; it begins like UTF-16"):
        check_start(b"\xff\xfea\0", "a.csv", "utf-8")


def test_a_parquet_file() -> None:
    with pytest.raises(UserError, match=r"^a.csv is not CSV; it begins like a Parquet file"):
        check_start(b"PAR1\x15\x04\x15\x10", "a.csv", "utf-8")


def test_where_and_what() -> None:
    assert header_columns(b'a,"b"\n', Dialect(), "a.csv, line 1", "utf-8") == ("a", "b")
    assert header_columns(b"", Dialect(), "a.csv, line 1", "utf-8") == ()
    with pytest.raises(UserError, match=r"^a.csv, line 3: the header is not cp1252; give the encoding"):
        header_columns(b"a,\xff", Dialect(), "a.csv, line 3", "cp1252")
