"""Rows of CSV files that no table has: each is a reject that says its line and why, and the others are read."""

from pathlib import Path

import pytest

from shardmill.errors import UserError
from shardmill.transforms.columns.types import Inferred
from shardmill.transforms.formats.csv import CsvFormat
from shardmill.transforms.formats.format import describe_cut_end
from tests.support.csv_files import CSV, SIZES, reasons, types, write
from tests.support.format_files import infer, read


def test_values_that_do_not_fit(tmp_path: Path) -> None:
    some = "i,f,b\n1,1,true\nabc,1,true\n1,x,yes\n99999999999999999999,1,true\n1,1e39,true\n"
    file = write(tmp_path, some + "1,1,1\n 1,1,true\n0x10,1,true\n1,nan(1),\n1,1e400,\n2,2,\n")

    rows, lines, rejects, _ = read(CSV, file, types(b="bool", i="int64", f="float32"))

    assert lines == [2, 12]
    assert rows == [{"b": 1, "i": 1, "f": 1.0}, {"b": None, "i": 2, "f": 2.0}]
    assert reasons(rejects) == [
        (3, "column 'i': 'abc' is not an integer (int64)"),
        (4, "column 'b': 'yes' is neither true nor false (bool)"),
        (5, "column 'i': '99999999999999999999' is beyond the range of int64"),
        (6, "column 'f': '1e39' is beyond the range of float32"),
        (7, "column 'b': '1' is neither true nor false (bool)"),
        (8, "column 'i': ' 1' is not an integer (int64)"),
        (9, "column 'i': '0x10' is not an integer (int64)"),
        (10, "column 'f': 'nan(1)' is not a number (float32)"),
        (11, "column 'f': '1e400' is beyond the range of float32"),
    ]


def test_ragged_rows(tmp_path: Path) -> None:
    file = write(tmp_path, 'a,b\n1,2\n3\n"4,\n",5,6,7\n\n8,9\n,')

    for size in SIZES:
        rows, lines, rejects, blank = read(CsvFormat(block_size=size), file, types(a="int64"))

        assert ([row["a"] for row in rows], lines, blank) == ([1, 8, None], [2, 7, 8], 1)
        assert reasons(rejects) == [
            (3, "the row has 1 field; expected 2, one for each column"),
            (4, "the row has 4 fields; expected 2, one for each column"),
        ]


def test_only_ragged_rows(tmp_path: Path) -> None:
    file = write(tmp_path, "a,b\n1\n2\n3,4,5\n")
    names = CsvFormat(header_line="first")

    assert [reject.line for reject in read(names, file, types(a="int64"))[2]] == [2, 3, 4]
    assert infer(names, file) == Inferred({}, 0)
    file = write(tmp_path, "a,b\n1\n2\n")
    with pytest.raises(UserError, match="line 1: the header has 2 fields, and the rows have 1; give --skip_lines 1"):
        read(CSV, file, types(a="int64"))


def test_a_stray_quote_that_swallows_rows(tmp_path: Path) -> None:
    file = write(tmp_path, 'a,b\n1,"x\n2,y\n3,"z"\n4,""w\n5,v\n6,"u"t')

    for size in SIZES:
        rows, lines, rejects, _ = read(CsvFormat(block_size=size), file, types(a="int64"))

        assert (rows, lines) == ([{"a": 2}, {"a": 3}, {"a": 5}], [3, 4, 6])
        flag = "is a quote stray? --quote '' turns quoting off"
        opens = (
            f"a field opens with a quote that its line does not close; the lines after it are read on their own; {flag}"
        )
        what = f"text goes on after the quote that closes a field; expected the delimiter or the line's end; {flag}"
        assert reasons(rejects) == [(2, opens), (5, what), (7, what + describe_cut_end(b"t"))]


@pytest.mark.parametrize("size", SIZES)
def test_one_stray_quote_costs_one_row(tmp_path: Path, size: int) -> None:
    rows = [f"{number},item{number},{2 * number}" for number in range(2000)]
    rows[150], rows[1900] = '150,"MEGA,30', '1900,12" pipe,630'
    file = write(tmp_path, "id,name,price\n" + "\n".join(rows) + "\n")

    found, _, rejects, _ = read(CsvFormat(block_size=size), file, types(id="int64"))

    assert [row["id"] for row in found] == [number for number in range(2000) if number != 150]
    assert [reject.line for reject in rejects] == [152]
    assert infer(CSV, file).rows == 1999


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = write(tmp_path, b'a,b\nx,\xc3\xa9\n\xff,y\nx,"\n\xe9"\nx,y,\xff\nz,z\n')

    for size in SIZES:
        rows, lines, rejects, _ = read(CsvFormat(block_size=size), file, types(b="bytes"))

        assert ([row["b"] for row in rows], lines) == (["é".encode(), b"z"], [2, 7])
        assert reasons(rejects) == [
            (3, "column 'a': byte 0xff (ÿ in cp1252) is not utf-8"),
            (4, "column 'b': byte 0xe9 (é in cp1252) is not utf-8"),
            (6, "field 3: byte 0xff (ÿ in cp1252) is not utf-8"),
        ]


def test_nul_bytes_are_data(tmp_path: Path) -> None:
    file = write(tmp_path, b"a,b\nx\0y,1\nz,2\0\n")

    rows, _, rejects, _ = read(CSV, file, types(a="bytes", b="int64"))

    assert rows == [{"a": b"x\0y", "b": 1}]
    assert reasons(rejects) == [(3, "column 'b': '2\\x00' is not an integer (int64)")]
