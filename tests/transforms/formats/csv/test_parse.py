"""A piece of CSV as columns of text."""

from typing import Any

import pyarrow as pa
import pytest

from shardmill.transforms.formats import csv_parse
from shardmill.transforms.formats.conventions import Dialect
from shardmill.transforms.formats.csv_parse import CsvPiece, Table, parse_header, parse_piece, row_lines

TABLE = Table("a.csv", ("a", "b"), Dialect(), ("", "NA"), "utf-8")


def test_columns_in_the_order_wanted() -> None:
    found = parse_piece(CsvPiece(b'1,x\n\n2,""\n', 5), TABLE, ["b", "a"], True)

    assert [column.to_pylist() for column in found.columns] == [[b"x", None], [b"1", b"2"]]
    assert (found.rows, found.lines.tolist(), found.rejects, found.blank_lines) == (2, [5, 7], [], 1)


@pytest.mark.parametrize("text", [b"1,x\n2,y\n", b'1,"x"\n\n2,y', b'1,x\n3\n"4"5,6\n\xff,7\n2,y\n'])
def test_without_lines_it_is_the_same_but_for_the_lines(text: bytes) -> None:
    one, other = (parse_piece(CsvPiece(text, 1), TABLE, ["a", "b"], with_lines) for with_lines in (True, False))

    assert one.columns == other.columns
    assert (one.rows, other.rows) == (2, 2)
    assert (other.rejects, other.blank_lines) == ([], 0)
    assert row_lines(CsvPiece(text, 1), other, Dialect()).tolist() == one.lines.tolist()


@pytest.mark.parametrize("with_lines", [True, False])
@pytest.mark.parametrize("text", [b"", b"\n\n", b"1\n", b"\xff,1\n", b'"a"b,1\n'])
def test_no_rows(text: bytes, with_lines: bool) -> None:
    found = parse_piece(CsvPiece(text, 1), TABLE, ["a"], with_lines)

    assert (found.rows, len(found.columns[0]), len(found.lines)) == (0, 0, 0)


def test_no_columns_wanted() -> None:
    found = parse_piece(CsvPiece(b"1,2\n3,4\n", 1), TABLE, [], True)

    assert (found.rows, found.columns) == (2, [])


def test_a_record_with_more_than_one_fault_is_one_reject() -> None:
    found = parse_piece(CsvPiece(b'"a"b\xff\n"c"\xff,d,e\n\xff\n1,2\n', 1), TABLE, ["a"], True)

    assert [reject.line for reject in found.rejects] == [1, 2, 3]
    assert found.rows == 1


@pytest.mark.parametrize(
    ("text", "dialect", "columns"),
    [
        (b"a", Dialect(), ("a",)),
        (b'a,"b, ""c"""\r\n', Dialect(), ("a", 'b, "c"')),
        (b'"a\n",b\n', Dialect(), ("a\n", "b")),
        (b"\"a\";'b;'\n", Dialect(b";", b"'"), ('"a"', "b;")),
        (b'"a,b\n', Dialect(quote=b""), ('"a', "b")),
        (b"a,a,", Dialect(), ("a", "a", "")),
    ],
)
def test_headers(text: bytes, dialect: Dialect, columns: tuple[str, ...]) -> None:
    assert parse_header(text, dialect) == columns


WIDE = Table("a.csv", tuple(f"c{number}" for number in range(300)), Dialect(), ("",), "utf-8")
ROWS = [",".join(str(row * number % 7 or "") for number in range(300)) for row in (1, 2, 3)]


@pytest.mark.parametrize(
    "lines",
    [ROWS, [*ROWS, ""], [*ROWS[:1], "", *ROWS[1:]], [*ROWS[:1], "1,2", *ROWS[1:]], ['"a' + ROWS[0][1:]], ["x,y" * 150]],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_wide_rows_are_parsed_as_arrow_parses_them(
    lines: list[str], newline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, wanted = newline.join(lines).encode(), ["c299", "c0", "c7"]

    def parse() -> Any:
        try:
            columns, rows = csv_parse._parse(text, WIDE, wanted)
        except pa.ArrowInvalid:
            return "invalid"
        return [column.to_pylist() for column in columns], rows, [column.null_count for column in columns]

    found = parse()
    monkeypatch.setattr(csv_parse, "_FEW_ROWS", 0)
    assert found == parse()
    if lines == ROWS:
        assert found[0][2] == [None if not row * 7 % 7 else b"" for row in (1, 2, 3)]
