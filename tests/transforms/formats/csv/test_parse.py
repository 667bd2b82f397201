"""A piece of CSV as columns of text."""

import pytest

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
