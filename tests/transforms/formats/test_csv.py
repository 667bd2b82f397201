"""CSV files as blocks and rows: every record is a row, a reject or a blank line, whatever the block size."""

import bz2
import codecs
import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import zstandard

from shardmill.errors import JobError, UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.types import MAX_VALUES, ColumnType, Inferred, ScalarType
from shardmill.transforms.findings import MISSING, Undecodable
from shardmill.transforms.formats.csv import CsvFormat
from shardmill.transforms.formats.format import BlockRef, FileRef, RecordNotice, describe_cut_end
from tests.support.csv_files import CSV, SIZES, read_each_size, reasons, types, write
from tests.support.format_files import blocks, infer, read

# Index


def test_blocks_lie_between_records(tmp_path: Path) -> None:
    text = 'a,b\n1,x\n2,"\n\n"\n3,y\n\n4,z'
    file = write(tmp_path, text)

    found = blocks(CsvFormat(block_size=6), file)

    assert [(text[block.offset : block.offset + block.length], block.first_line) for block in found] == [
        ("1,x\n", 2),
        ('2,"\n\n"\n', 3),
        ("3,y\n\n", 6),
        ("4,z", 8),
    ]
    assert {(block.file, block.columns) for block in found} == {(file, ("a", "b"))}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_count_whatever_ends_them(tmp_path: Path, end: str) -> None:
    text = end.join(["", "a,b", "1,x", f'2,"{end}y"', "", "3,z", ""])
    rows, *others = read_each_size(tmp_path, text, types(a="int64"))

    assert ([row["a"] for row in rows], others) == ([1, 2, 3], [[3, 4, 7], [], 1])


def test_mixed_line_ends(tmp_path: Path) -> None:
    text = "a\r1\r\n2\n3\r\r\n4\n\r5"
    assert read_each_size(tmp_path, text, types(a="int64"))[1:] == ([2, 3, 4, 6, 8], [], 2)


def test_a_large_file_is_cut_into_blocks_of_about_the_size(tmp_path: Path) -> None:
    file = write(tmp_path, "n,text\n" + "".join(f"{row},{'x' * (row % 100)}\n" for row in range(10_000)))

    found = blocks(CsvFormat(block_size=10_000), file)

    assert all(9_000 < block.length < 11_000 for block in found[:-1])
    assert sum(block.length for block in found) == file.size_bytes - len("n,text\n")


@pytest.mark.parametrize("data", [b"", codecs.BOM_UTF8, b"\n\r\n\n"])
def test_an_empty_file(tmp_path: Path, data: bytes) -> None:
    file = write(tmp_path, data)

    assert list(CSV.index(file)) == [Reject("a.csv", None, "index", "the file is empty: no header")]
    assert CSV.header(file) == ()


@pytest.mark.parametrize("data", ["a,b", "a,b\n", "a,b\r\n", '\n\n"a",b\n'])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_header_alone(tmp_path: Path, data: str, name: str) -> None:
    file = write(tmp_path, gzip.compress(data.encode()) if name.endswith("gz") else data, name)

    assert list(CSV.index(file)) == []
    assert CSV.header(file) == ("a", "b")


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("a", ("a",)),
        (" a ,b", (" a ", "b")),
        ('"a ""1""","b,\nc"', ('a "1"', "b,\nc")),
        ("1,02,true", ("1", "02", "true")),
        ("é,日本", ("é", "日本")),
        ('a"b,c', ('a"b', "c")),
        ('\ufeff"a",b', ("a", "b")),
        (",a,b", ("index", "a", "b")),
        ('"",index,b', ("column_1", "index", "b")),
        ("a,,b,", ("a", "column_2", "b", "column_4")),
    ],
)
@pytest.mark.parametrize("rest", ["", "\n", "\r\nx\n"])
def test_headers(tmp_path: Path, header: str, columns: tuple[str, ...], rest: str) -> None:
    assert CSV.header(write(tmp_path, header + rest)) == columns


def test_columns_without_names_are_noticed(tmp_path: Path) -> None:
    notices = [item for item in CSV.index(write(tmp_path, "\n,a,\n1,2,\n")) if isinstance(item, RecordNotice)]

    assert notices == [
        RecordNotice("the header has no name for column 1, which is called 'index'", "a.csv, line 2", 1),
        RecordNotice("the header has no name for column 3, which is called 'column_3'", "a.csv, line 2", 1),
    ]


def test_the_header_is_that_of_blocks(tmp_path: Path) -> None:
    file = write(tmp_path, '\ufeff\n"x\ny",b\n1,2\n')

    assert blocks(CSV, file) == [BlockRef(file, 12, 4, 4, ("x\ny", "b"))]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"a,b,a\n", "a.csv, line 1: the header names the column 'a' 2 times; rename all but one; is line 1 a row\\?"),
        (b"a\0b,c\n", "a.csv, line 1: there is a NUL byte in the header"),
        (
            b"a,\xe9\n",
            "a.csv, line 1: the header is not utf-8; as cp1252, it is 'a,é': if that is right, give --encoding cp1252,"
            " and otherwise the encoding of the file",
        ),
        (b'a,"b"c\n1,2\n', "a.csv, line 1: in the header, text goes on after the quote that closes a name"),
        (b'a,"b\n1,2\n', "a.csv, line 1: a field opens with \" there and is never closed; .*--quote ''"),
        (b'\n\na,"b', "a.csv, line 3: a field opens with"),
        (b'a,b\n1,"2\n3,4\n', "a.csv, line 2: a field opens with"),
        (b'a,b\n"1\n",2\n3,"4\n\n\n', "a.csv, line 4: a field opens with"),
        (gzip.compress(b"a,b\n", mtime=0), "a.csv is not CSV; it begins like gzip data: name it .csv.gz"),
        (zstandard.compress(b"a,b\n"), "a.csv is not CSV; it begins like zstd data"),
        (bz2.compress(b"a,b\n"), "a.csv is not CSV; it begins like bzip2 data"),
        (b"PK\3\4 ...", "a.csv is not CSV; it begins like a zip archive or a spreadsheet"),
        (b"PAR1\x15\x04\x15\x10", "a.csv is not CSV; it begins like a Parquet file"),
        (b"\x89PNG\r\n", "a.csv, line 1: the header is not utf-8"),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_what_makes_the_whole_input_suspect(tmp_path: Path, data: bytes, error: str, size: int) -> None:
    with pytest.raises(UserError, match=f"^{error}"):
        list(CsvFormat(block_size=size).index(write(tmp_path, data)))


def test_a_file_without_lines(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a.csv: no record ends within the first"):
        list(CSV.index(write(tmp_path, b"x" * (70 << 20))))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()

    for name, reason in (("b.csv", "No such file or directory"), ("folder.csv", "Is a directory")):
        assert list(CSV.index(FileRef(name, str(tmp_path / name), 1))) == [
            Reject(name, None, "index", f"cannot be read: {reason}", None, 1, "estimated")
        ]


def test_a_file_that_changed_since_it_was_indexed(tmp_path: Path) -> None:
    file = write(tmp_path, "a\n1\n2\n")
    (block,) = blocks(CSV, file)
    write(tmp_path, "a\n1\n")
    with pytest.raises(
        JobError, match=r"a.csv can no longer be read: it has 4 bytes instead of 6 or more; leave the input"
    ):
        list(CSV.read(block, types(a="int64")))
    Path(file.path).unlink()
    with pytest.raises(JobError, match=r"a.csv can no longer be read: No such file or directory; leave the input"):
        list(CSV.infer(block, None, ()))


# Infer


def test_infer(tmp_path: Path) -> None:
    file = write(tmp_path, 'i,f,b,t,m,"q q"\n1,1,true,x,,007\n-2,1.5,FALSE,y,NA,8\n\n3,nan,True,,"",9\n')

    expected: dict[str, ScalarType] = {"i": "int64", "f": "float32", "b": "bool", "t": "bytes", "q q": "bytes"}
    found = {name: ColumnType(dtype, None, 2 if name == "t" else 3) for name, dtype in expected.items()}
    for size in SIZES:
        inferred = infer(CsvFormat(block_size=size), file, values_of="t")
        assert inferred == Inferred(found, 3, {"t": frozenset({"x", "y"})})


def test_infer_some_columns(tmp_path: Path) -> None:
    file = write(tmp_path, "a,b,c\n1,x,2\n1.5,y,3\n")

    assert infer(CSV, file, ["c", "a"], "b") == Inferred(
        {"c": ColumnType("int64", None, 2), "a": ColumnType("float32", None, 2)}, 2, {"b": frozenset({"x", "y"})}
    )
    assert infer(CSV, file, []) == Inferred({}, 2, {})
    assert infer(CSV, file, ["z"], "z") == Inferred({}, 2, {"z": frozenset()})


def test_a_row_that_is_rejected_says_nothing(tmp_path: Path) -> None:
    file = write(tmp_path, b'a,b\n1,2\nx\n3,4,5\n"y"z,6\nw,\xff\n7,8\n')

    types = {"a": ColumnType("int64", None, 2), "b": ColumnType("int64", None, 2)}
    inferred = infer(CSV, file, values_of="a")
    assert inferred == Inferred(types, 2, {"a": frozenset({"1", "7"})})
    assert inferred.findings.find(Undecodable) == Undecodable(neither=1)


def test_too_many_values_are_none(tmp_path: Path) -> None:
    file = write(tmp_path, "a\n" + "".join(f"{row}\n" for row in range(MAX_VALUES + 1)))

    assert infer(CSV, file, values_of="a").values == {"a": None}


@pytest.mark.parametrize("names", [["a", "b"], ["a"], []])
@pytest.mark.parametrize("strip", [True, False])
def test_rows_without_a_value_are_passed_over(tmp_path: Path, strip: bool, names: list[str]) -> None:
    empty = ['"",""', *(f'{value},"{value}"' for value in MISSING), "NA, null", *([" ,\t"] if strip else [])]
    file = write(tmp_path, "\n".join(["a,b", ",x", *empty, "y,NA\n"]))

    rows = read(replace(CSV, strip=strip), file, {name: ColumnType("bytes", None, 0) for name in names})
    assert (rows.blank, rows.lines) == (len(empty), [2, len(empty) + 3])
    assert [row.get("a") for row in rows.rows] == [None, b"y" if names else None]
    assert infer(replace(CSV, strip=strip), file, names).rows == 2
    one = write(tmp_path, "a\nNA\n", "one.csv")
    assert read(CSV, one, types(a="bytes"))[0] == [{"a": None}]


def test_missing_is_what_is_said_to_be(tmp_path: Path) -> None:
    file = write(tmp_path, "a,b\n-,NA\n?,\n")

    marks, none = CsvFormat(missing=("-", "?")), CsvFormat(missing=())
    assert read(marks, file, types(a="int64", b="bytes")).rows == [{"a": None, "b": b"NA"}, {"a": None, "b": b""}]
    assert read(none, file, types(b="bytes", a="bytes")).rows == [{"b": b"NA", "a": b"-"}, {"b": b"", "a": b"?"}]
    assert infer(none, file).types["b"] == ColumnType("bytes", None, 2)


@pytest.mark.parametrize("fill", [{"a": "0", "b": "", "c": "z"}, (("a", "0"), ("b", ""), ("c", "z"))])
def test_fill(tmp_path: Path, fill: Any) -> None:
    found = CsvFormat(fill=fill)
    file = write(tmp_path, "a,b,d\n1,x,\nNA,,5\nNA,y,\n,,\n")

    assert infer(found, file, ["a", "b", "c"], "b") == Inferred(
        {"a": ColumnType("int64", None, 3), "b": ColumnType("bytes", None, 3), "c": ColumnType("bytes", None, 3)},
        3,
        {"b": frozenset({"x", "", "y"})},
    )
    assert read(found, file, types(c="bytes", a="int64", b="bytes"))[0] == [
        {"c": b"z", "a": 1, "b": b"x"},
        {"c": b"z", "a": 0, "b": b""},
        {"c": b"z", "a": 0, "b": b"y"},
    ]


def test_what_fills_has_a_type_too(tmp_path: Path) -> None:
    found = CsvFormat(fill={"a": "none"})
    file = write(tmp_path, "a\n1\nNA\n")

    assert infer(found, file).types == {"a": ColumnType("bytes", None, 2)}
    assert reasons(read(found, file, types(a="int64"))[2]) == [(3, "column 'a': 'none' is not an integer (int64)")]


# Read


def test_types(tmp_path: Path) -> None:
    file = write(tmp_path, 'i,f,b,t\n+1,1,true,"x, ""y"""\n007,1e3,FALSE, z \n,-inf,True,\n')

    for part in CSV.read(blocks(CSV, file)[0], types(t="bytes", b="bool", f="float32", i="int64")):
        assert part.batch.schema == pa.schema(
            [("t", pa.large_binary()), ("b", pa.int64()), ("f", pa.float32()), ("i", pa.int64())]
        )
        assert part.batch.to_pylist() == [
            {"t": b'x, "y"', "b": 1, "f": 1.0, "i": 1},
            {"t": b" z ", "b": 0, "f": 1000.0, "i": 7},
            {"t": None, "b": 1, "f": -float("inf"), "i": None},
        ]


def test_a_column_that_the_file_lacks_is_missing(tmp_path: Path) -> None:
    file = write(tmp_path, "a\n1\n2\n")

    assert read(CSV, file, types(z="float32", a="int64", y="bytes"))[0] == [
        {"z": None, "a": n, "y": None} for n in (1, 2)
    ]
    assert read(CSV, file, types(z="float32"))[0] == [{"z": None}] * 2
    assert read(CSV, file, {})[1] == [2, 3]


def test_byte_order_marks_of_joined_files_are_left_out(tmp_path: Path) -> None:
    text = '\ufeffa,b\n\ufeffx,1\n\ufeffa,b\n\ufeff"y\n\ufeff,",\ufeff2\n'
    found = read_each_size(tmp_path, text, types(a="bytes", b="bytes"))

    assert [row["a"].decode() + row["b"].decode() for row in found.rows] == ["x1", "y\n\ufeff,\ufeff2"]
    assert (found.lines, found.rejects) == ([2, 4], [])


def test_types_of_lists(tmp_path: Path) -> None:
    (block,) = blocks(CSV, write(tmp_path, "a\n1\n"))

    with pytest.raises(UserError, match=r"column 'a' is to hold lists, and a.csv is CSV, which holds none"):
        list(CSV.read(block, {"a": ColumnType("int64", 3, 1)}))


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
    text = 'a,b\n1,2\n3\n"4,\n",5,6,7\n\n8,9\n,'
    rows, lines, rejects, blank = read_each_size(tmp_path, text, types(a="int64"))

    assert ([row["a"] for row in rows], lines, blank) == ([1, 8], [2, 7], 2)
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
    text = 'a,b\n1,"x\n2,y\n3,"z"\n4,""w\n5,v\n6,"u"t'
    rows, lines, rejects, _ = read_each_size(tmp_path, text, types(a="int64"))

    assert (rows, lines) == ([{"a": 2}, {"a": 3}, {"a": 5}], [3, 4, 6])
    flag = "is a quote stray? --quote '' turns quoting off"
    opens = f"a field opens with a quote that its line does not close; the lines after it are read on their own; {flag}"
    what = f"text goes on after the quote that closes a field; expected the delimiter or the line's end; {flag}"
    assert reasons(rejects) == [(2, opens), (5, what), (7, what + describe_cut_end(b"t"))]


def test_one_stray_quote_costs_one_row(tmp_path: Path) -> None:
    rows = [f"{number},item{number},{2 * number}" for number in range(2000)]
    rows[150], rows[1900] = '150,"MEGA,30', '1900,12" pipe,630'
    text = "id,name,price\n" + "\n".join(rows) + "\n"
    found, _, rejects, _ = read_each_size(tmp_path, text, types(id="int64"))

    assert [row["id"] for row in found] == [number for number in range(2000) if number != 150]
    assert [reject.line for reject in rejects] == [152]
    assert infer(CSV, write(tmp_path, text)).rows == 1999


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    data = b'a,b\nx,\xc3\xa9\n\xff,y\nx,"\n\xe9"\nx,y,\xff\nz,z\n'
    rows, lines, rejects, _ = read_each_size(tmp_path, data, types(b="bytes"))

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
