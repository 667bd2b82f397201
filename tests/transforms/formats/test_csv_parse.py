"""A CSV text read forwards, its head, and pieces of whole records as columns of text."""

import io
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from shardmill.errors import UserError
from shardmill.transforms.findings import JoinedRows
from shardmill.transforms.formats import csv_parse
from shardmill.transforms.formats.conventions import Dialect

DIALECT = Dialect()


@pytest.mark.parametrize(
    ("text", "head"),
    [
        (b"", csv_parse.Head(b"", 1, 0, 1, b"")),
        (b"\n\r\n", csv_parse.Head(b"", 3, 3, 3, b"")),
        (b"a", csv_parse.Head(b"a", 1, 1, 1, b"")),
        (b"a\nb", csv_parse.Head(b"a\n", 1, 2, 2, b"b")),
        (b"a\r\nb", csv_parse.Head(b"a\r\n", 1, 3, 2, b"b")),
        (b"a\r", csv_parse.Head(b"a\r", 1, 2, 2, b"")),
        (b'\r\n\n"a\n"\n\nb', csv_parse.Head(b'"a\n"\n', 3, 8, 5, b"\nb")),
    ],
)
def test_head(text: bytes, head: csv_parse.Head) -> None:
    assert csv_parse.read_head(io.BytesIO(text), DIALECT, "a.csv") == head


def test_blank_lines_before_the_header_are_read_little_by_little() -> None:
    sizes: list[int] = []

    class Watched(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            sizes.append(size or 0)
            return super().read(size)

    text = b"\n\r\n" * 2_000_000

    assert csv_parse.read_head(Watched(text + b"a,b\n"), DIALECT, "a.csv").line == 4_000_001
    assert max(sizes) <= 2 << 20


def test_lines_that_end_in_cr_are_not_held_back() -> None:
    assert max(len(data) for data, _ in csv_parse.read_ranges(io.BytesIO(b"\r" * 1000), DIALECT, 10, 0)) <= 11


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_blank_lines_are_one_piece_however_many_there_are(monkeypatch: pytest.MonkeyPatch, newline: bytes) -> None:
    monkeypatch.setattr("shardmill.transforms.formats.format.MAX_LINES", 10)
    (piece,) = csv_parse.split_piece(csv_parse.CsvPiece(newline * 1000, 1), DIALECT, "a.csv")
    assert (piece.text, piece.line) == (newline * 1000, 1)
    assert len(list(csv_parse.split_piece(csv_parse.CsvPiece(b"a\n" * 1000, 1), DIALECT, "a.csv"))) >= 50


TABLE = csv_parse.Table("a.csv", ("a", "b"), Dialect(), ("", "NA"), "utf-8")


@pytest.mark.parametrize("text", [b"1,x\n2,y\n", b'1,"x"\n\n2,y', b'1,x\n3\n"4"5,6\n\xff,7\n2,y\n'])
def test_without_lines_it_is_the_same_but_for_the_lines(text: bytes) -> None:
    one, other = (
        csv_parse.parse_piece(csv_parse.CsvPiece(text, 1), TABLE, ["a", "b"], with_lines)
        for with_lines in (True, False)
    )

    assert one.columns == other.columns
    assert (one.rows, other.rows) == (2, 2)
    assert other.rejects == []


def joined_rows(rows: list[str], delimiter: str = ",", width: int = 2) -> list[str]:
    table = replace(TABLE, columns=tuple("abcde"[:width]), dialect=Dialect(delimiter.encode()))
    piece = csv_parse.CsvPiece("\n".join(rows).encode(), 2)
    return csv_parse.parse_piece(piece, table, ["a"], False).findings.find(JoinedRows).notices()


@pytest.mark.parametrize("key", ["", "w"])
@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("width", [2, 3, 5])
@pytest.mark.parametrize("delimiter", "\t,;|")
def test_whole_rows_within_quotes_have_a_notice(delimiter: str, width: int, number: int, key: str) -> None:
    rows, rest = [delimiter.join([f"{key}{n}", *[f"x{n}"] * (width - 1)]) for n in range(300)], delimiter * (width - 1)
    joined = [f'"a\n{rows[n]}\nb"{rest}' for n in range(number)]
    honest = [f'"{text}"{rest}' for text in ("one\ntwo", f"one\n{rest}{delimiter}\ntwo")]
    are = "1 record has" if number == 1 else f"{number} records have"
    words = f"{are} lines within quotes that have the {width} fields of a row, the first in a.csv, lines 302 to 304; "
    (notice,) = joined_rows([*rows, *joined, *honest], delimiter, width)
    assert (notice.startswith(words), joined_rows(rows + honest, delimiter, width)) == (True, [])


@pytest.mark.parametrize("key", ["{}", "song {}"])
def test_texts_of_several_lines_are_no_rows(key: str) -> None:
    rows = [f"{key.format(n)},x{n}" for n in range(300)]
    texts = [
        "Hello, you\nfoo, bar",
        "la\nla\nla, la",
        "oh\n\nno, no\noh",
        "la\nla, la\n,la",
        "a\nb, c",
    ]  # one may be a row
    assert joined_rows([*rows, *(f'{n if key == "{}" else key},"{texts[n % 5]}"' for n in range(300))]) == []
    if key == "{}":  # the first column tells that these are none, and that one more is
        rows += [f'{n},"la\nla, la\nla"' for n in range(40)]
        assert joined_rows(rows) == []
        assert joined_rows([*rows, '"a\n7,x7\nb",c'])[0].startswith("1 record has lines within quotes")


@pytest.mark.parametrize("with_lines", [True, False])
@pytest.mark.parametrize("text", [b"", b"\n\n", b"1\n", b"\xff,1\n", b'"a"b,1\n'])
def test_no_rows(text: bytes, with_lines: bool) -> None:
    found = csv_parse.parse_piece(csv_parse.CsvPiece(text, 1), TABLE, ["a"], with_lines)

    assert (found.rows, len(found.columns[0]), len(found.lines)) == (0, 0, 0)


def test_a_record_with_more_than_one_fault_is_one_reject() -> None:
    found = csv_parse.parse_piece(csv_parse.CsvPiece(b'"a"b\xff\n"c"\xff,d,e\n\xff\n1,2\n', 1), TABLE, ["a"], True)

    assert [reject.line for reject in found.rejects] == [1, 2, 3]
    assert found.rows == 1


@pytest.mark.parametrize(
    "start",
    [b"", b"PAR1,PAR", b"BZh9,a\n", b"a,b\n", "é,b\n".encode(), b"a,b\0\n", b"a\0\0\0\0,", b"a,b\0" * 9, bytes(9)],
)
def test_text_is_no_other_format(start: bytes) -> None:
    csv_parse.check_start(start, "a.csv", "utf-8")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_wide_characters_are_fine_in_their_encoding_alone(encoding: str, mark: str) -> None:
    start, named = f"{mark}a,ö,b\n".encode(encoding), encoding[:6] if mark else encoding
    csv_parse.check_start(start, "a.csv", named)
    with pytest.raises(UserError, match=rf"^a.csv begins like {encoding[:6].upper()}; give --encoding {named}$"):
        csv_parse.check_start(start, "a.csv", "utf-8")


WIDE = csv_parse.Table("a.csv", tuple(f"c{number}" for number in range(300)), Dialect(), ("",), "utf-8")
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
    monkeypatch.setattr(csv_parse, "FEW_WIDE_ROWS", 0)
    assert found == parse()
    if lines == ROWS:
        assert found[0][2] == [None if not row * 7 % 7 else b"" for row in (1, 2, 3)]
