"""CSV files as blocks and rows: every record is a row, a reject or a blank line, whatever the block size."""

import bz2
import codecs
import csv
import gzip
import io
import pickle
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardmill.errors import JobError, UserError
from shardmill.rejects import Reject
from transforms.columns.inferred import MAX_VALUES, Inferred
from transforms.columns.types import ColumnType, Spelled
from transforms.formats.base import BlockRef, FileRef
from transforms.formats.csv.dialect import MISSING
from transforms.formats.csv.format import CsvFormat
from transforms.stores.compressed import TruncatedError

CSV = CsvFormat()
SIZES = [1, 7, 30, 1 << 20]
Read = tuple[list[dict[str, Any]], list[int], list[Reject], int]


def write(folder: Path, data: str | bytes, name: str = "a.csv") -> FileRef:
    content = data.encode() if isinstance(data, str) else data
    (folder / name).write_bytes(content)
    return FileRef(name, str(folder / name), len(content))


def types(**dtypes: Spelled) -> dict[str, ColumnType]:
    return {name: ColumnType(dtype, None, 1) for name, dtype in dtypes.items()}


def blocks(found: CsvFormat, file: FileRef) -> list[BlockRef]:
    indexed = list(found.index(file))
    assert all(isinstance(block, BlockRef) for block in indexed), indexed
    return [block for block in indexed if isinstance(block, BlockRef)]


def read(found: CsvFormat, file: FileRef, wanted: Mapping[str, ColumnType]) -> Read:
    """All rows, their lines, the rejects, and how many lines are blank."""
    rows, lines, rejects, blank = [], [], [], 0
    for block in blocks(found, file):
        for part in found.read(block, wanted):
            assert part.batch.num_rows == len(part.lines) or not wanted
            rows += part.batch.to_pylist()
            lines += part.lines.tolist()
            rejects += part.rejects
            blank += part.blank
    return rows, lines, rejects, blank


def infer(found: CsvFormat, file: FileRef, columns: list[str] | None = None, values_of: str | None = None) -> Inferred:
    parts = [part for block in blocks(found, file) for part in found.infer(block, columns, values_of)]
    return reduce(Inferred.merge, parts, Inferred())


def reasons(rejects: list[Reject]) -> list[tuple[int | None, str]]:
    assert all(reject.source == "a.csv" and reject.stage == "read" for reject in rejects)
    return [(reject.line, reject.reason) for reject in rejects]


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
    file = write(tmp_path, end.join(["", "a,b", "1,x", f'2,"{end}y"', "", "3,z", ""]))

    for size in SIZES:
        rows, lines, rejects, blank = read(CsvFormat(block_size=size), file, types(a="int64"))

        assert [row["a"] for row in rows] == [1, 2, 3]
        assert (lines, rejects, blank) == ([3, 4, 7], [], 1)


def test_mixed_line_ends(tmp_path: Path) -> None:
    file = write(tmp_path, "a\r1\r\n2\n3\r\r\n4\n\r5")

    for size in SIZES:
        assert read(CsvFormat(block_size=size), file, types(a="int64"))[1:] == ([2, 3, 4, 6, 8], [], 2)


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
    ],
)
@pytest.mark.parametrize("rest", ["", "\n", "\r\nx\n"])
def test_headers(tmp_path: Path, header: str, columns: tuple[str, ...], rest: str) -> None:
    assert CSV.header(write(tmp_path, header + rest)) == columns


def test_the_header_is_that_of_blocks(tmp_path: Path) -> None:
    file = write(tmp_path, '\ufeff\n"x\ny",b\n1,2\n')

    assert blocks(CSV, file) == [BlockRef(file, 12, 4, 4, ("x\ny", "b"))]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"a,b,a\n", "a.csv, line 1: the header names the column 'a' 2 times; rename or drop all but one"),
        (b"\na,,b\n", "a.csv, line 2: the header has no name for column 2 of 3; give every column a name"),
        (b"a,\n", "a.csv, line 1: the header has no name for column 2 of 2"),
        (b'""\n', "a.csv, line 1: the header has no name for column 1 of 1"),
        (b"a\0b,c\n", "a.csv, line 1: there is a NUL byte in the header"),
        (b"a,\xe9\n", "a.csv, line 1: the header is not utf-8; give the encoding of the file with --encoding"),
        (b'a,"b"c\n1,2\n', "a.csv, line 1: in the header, text goes on after the quote that closes a name"),
        (b'a,"b\n1,2\n', "a.csv, line 1: a field opens with \" there and is never closed; .*--quote ''"),
        (b'\n\na,"b', "a.csv, line 3: a field opens with"),
        (b'a,b\n1,"2\n3,4\n', "a.csv, line 2: a field opens with"),
        (b'a,b\n"1\n",2\n3,"4\n\n\n', "a.csv, line 4: a field opens with"),
        (gzip.compress(b"a,b\n", mtime=0), "a.csv is not CSV; it begins like gzip data: name it .csv.gz"),
        (zstandard.compress(b"a,b\n"), "a.csv is not CSV; it begins like zstd data"),
        (bz2.compress(b"a,b\n"), "a.csv is not CSV; it begins like bzip2 data"),
        (b"PK\3\4 ...", "a.csv is not CSV; it begins like a zip archive or a spreadsheet"),
        ("a,b\n".encode("utf-16"), "a.csv is not CSV; it begins like UTF-16: give --encoding utf-16"),
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

    assert list(CSV.index(FileRef("b.csv", str(tmp_path / "b.csv"), 1))) == [
        Reject("b.csv", None, "index", "cannot be read: No such file or directory", None, 1, "estimated")
    ]
    assert list(CSV.index(FileRef("c.csv", str(tmp_path / "folder.csv"), 1))) == [
        Reject("c.csv", None, "index", "cannot be read: Is a directory", None, 1, "estimated")
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
        list(CSV.infer(block, None, None))


# Infer


def test_infer(tmp_path: Path) -> None:
    file = write(tmp_path, 'i,f,b,t,m,"q q"\n1,1,true,x,,007\n-2,1.5,FALSE,y,NA,8\n\n3,nan,True,,"",9\n')

    for size in SIZES:
        assert infer(CsvFormat(block_size=size), file, values_of="t") == Inferred(
            {
                "i": ColumnType("int64", None, 3),
                "f": ColumnType("float32", None, 3),
                "b": ColumnType("bool", None, 3),
                "t": ColumnType("bytes", None, 2),
                "q q": ColumnType("bytes", None, 3),
            },
            3,
            frozenset({"x", "y"}),
        )


def test_infer_some_columns(tmp_path: Path) -> None:
    file = write(tmp_path, "a,b,c\n1,x,2\n1.5,y,3\n")

    assert infer(CSV, file, ["c", "a"], "b") == Inferred(
        {"c": ColumnType("int64", None, 2), "a": ColumnType("float32", None, 2)}, 2, frozenset({"x", "y"})
    )
    assert infer(CSV, file, []) == Inferred({}, 2, frozenset())
    assert infer(CSV, file, ["z"], "z") == Inferred({}, 2, frozenset())


def test_a_row_that_is_rejected_says_nothing(tmp_path: Path) -> None:
    file = write(tmp_path, b'a,b\n1,2\nx\n3,4,5\n"y"z,6\nw,\xff\n7,8\n')

    assert infer(CSV, file, values_of="a") == Inferred(
        {"a": ColumnType("int64", None, 2), "b": ColumnType("int64", None, 2)}, 2, frozenset({"1", "7"})
    )


def test_too_many_values_are_none(tmp_path: Path) -> None:
    file = write(tmp_path, "a\n" + "".join(f"{row}\n" for row in range(MAX_VALUES + 1)))

    assert infer(CSV, file, values_of="a").values is None


def test_missing(tmp_path: Path) -> None:
    text = "a,b\n" + "".join(f'{value},"{value}"\n' for value in MISSING)
    file = write(tmp_path, text)

    assert infer(CSV, file) == Inferred({}, len(MISSING))
    assert read(CSV, file, types(a="int64", b="bytes"))[0] == [{"a": None, "b": None}] * len(MISSING)


def test_missing_is_what_is_said_to_be(tmp_path: Path) -> None:
    file = write(tmp_path, "a,b\n-,NA\n?,\n")

    assert read(CsvFormat(missing=("-", "?")), file, types(a="int64", b="bytes"))[0] == [
        {"a": None, "b": b"NA"},
        {"a": None, "b": b""},
    ]
    assert read(CsvFormat(missing=()), file, types(b="bytes", a="bytes"))[0] == [
        {"b": b"NA", "a": b"-"},
        {"b": b"", "a": b"?"},
    ]
    assert infer(CsvFormat(missing=()), file).types["b"] == ColumnType("bytes", None, 2)


@pytest.mark.parametrize("fill", [{"a": "0", "b": "", "c": "z"}, (("a", "0"), ("b", ""), ("c", "z"))])
def test_fill(tmp_path: Path, fill: Any) -> None:
    found = CsvFormat(fill=fill)
    file = write(tmp_path, "a,b\n1,x\n,\nNA,y\n")

    assert infer(found, file, ["a", "b", "c"], "b") == Inferred(
        {"a": ColumnType("int64", None, 3), "b": ColumnType("bytes", None, 3), "c": ColumnType("bytes", None, 3)},
        3,
        frozenset({"x", "", "y"}),
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
    file = write(tmp_path, "a,b\n1\n2\n")

    assert [reject.line for reject in read(CSV, file, types(a="int64"))[2]] == [2, 3]
    assert infer(CSV, file) == Inferred({}, 0)


def test_a_stray_quote_that_swallows_rows(tmp_path: Path) -> None:
    file = write(tmp_path, 'a,b\n1,"x\n2,y\n3,"z"\n4,""w\n5,v\n6,"u"t')

    for size in SIZES:
        rows, lines, rejects, _ = read(CsvFormat(block_size=size), file, types(a="int64"))

        assert (rows, lines) == ([{"a": 5}], [6])
        what = (
            "text goes on after the quote that closes a field; expected the delimiter or the line's end: is a quote"
            " stray?"
        )
        assert reasons(rejects) == [(2, f"lines 2 to 4: {what}"), (5, what), (7, what)]


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = write(tmp_path, b'a,b\nx,\xc3\xa9\n\xff,y\nx,"\n\xe9"\nx,y,\xff\nz,z\n')

    for size in SIZES:
        rows, lines, rejects, _ = read(CsvFormat(block_size=size), file, types(b="bytes"))

        assert ([row["b"] for row in rows], lines) == (["é".encode(), b"z"], [2, 7])
        assert reasons(rejects) == [
            (3, "column 'a': the text is not utf-8"),
            (4, "column 'b': the text is not utf-8"),
            (6, "field 3: the text is not utf-8"),
        ]


def test_nul_bytes_are_data(tmp_path: Path) -> None:
    file = write(tmp_path, b"a,b\nx\0y,1\nz,2\0\n")

    rows, _, rejects, _ = read(CSV, file, types(a="bytes", b="int64"))

    assert rows == [{"a": b"x\0y", "b": 1}]
    assert reasons(rejects) == [(3, "column 'b': '2\\x00' is not an integer (int64)")]


def test_a_byte_order_mark_is_data_but_at_the_start(tmp_path: Path) -> None:
    file = write(tmp_path, "\ufeffa,b\n\ufeffx,1\n\ufeffy,2\n")

    for size in SIZES:
        assert [row["a"].decode() for row in read(CsvFormat(block_size=size), file, types(a="bytes"))[0]] == [
            "\ufeffx",
            "\ufeffy",
        ]


def test_types_of_lists(tmp_path: Path) -> None:
    (block,) = blocks(CSV, write(tmp_path, "a\n1\n"))

    with pytest.raises(UserError, match=r"column 'a' is to hold lists, and a.csv is CSV, which holds none"):
        list(CSV.read(block, {"a": ColumnType("int64", 3, 1)}))


# Dialects


def test_without_a_header(tmp_path: Path) -> None:
    found = CsvFormat(columns=("x", "y"))
    file = write(tmp_path, "\ufeff\n1,a\n2,b\n")

    assert found.header(file) == ("x", "y")
    for size in SIZES:
        assert read(replace(found, block_size=size), file, types(x="int64"))[:2] == ([{"x": 1}, {"x": 2}], [2, 3])
    assert list(found.index(write(tmp_path, ""))) == []
    assert read(found, write(tmp_path, gzip.compress(b"1,a\n"), "a.csv.gz"), types(x="int64"))[:2] == ([{"x": 1}], [1])
    assert list(found.index(write(tmp_path, gzip.compress(b""), "a.csv.gz"))) == []


def test_tsv_and_other_quotes(tmp_path: Path) -> None:
    file = write(tmp_path, "a\t'b\tc'\n1\t'x\n''y\"'\n", "a.tsv")

    assert read(CsvFormat("\t", "'"), file, {"b\tc": ColumnType("bytes", None, 1)})[:2] == ([{"b\tc": b"x\n'y\""}], [2])


def test_without_quotes(tmp_path: Path) -> None:
    file = write(tmp_path, 'a,b\n"1,2\n5" disk,"\n')

    for size in SIZES:
        rows, lines, rejects, _ = read(CsvFormat(quote="", block_size=size), file, types(a="bytes", b="bytes"))
        assert rows == [{"a": b'"1', "b": b"2"}, {"a": b'5" disk', "b": b'"'}]
        assert (lines, rejects) == ([2, 3], [])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"delimiter": "ab"}, "the delimiter 'ab'"),
        ({"delimiter": "x"}, "the delimiter 'x'"),
        ({"delimiter": "§"}, "the delimiter '§'"),
        ({"delimiter": "\n"}, r"the delimiter '\\n'"),
        ({"quote": "''"}, "the quote \"''\""),
        ({"delimiter": '"'}, "the delimiter and the quote are both"),
        ({"columns": ()}, "the columns given for files without a header: names no columns"),
        ({"columns": ("a", "a")}, "the columns given for files without a header: names the column 'a' 2 times"),
        ({"columns": ("a", "")}, "the columns given for files without a header: has no name for column 2 of 2"),
        ({"encoding": "utf-9"}, "unknown encoding 'utf-9'"),
        ({"encoding": "base64"}, "'base64' is no encoding of text files"),
        ({"block_size": 0}, "a block size of 0 bytes"),
        ({"block_size": 1 << 31}, "a block size of 2147483648 bytes"),
    ],
)
def test_options_that_are_no_good(options: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=f"^{error}"):
        CsvFormat(**options)


def test_a_format_is_a_value() -> None:
    assert pickle.loads(pickle.dumps(CsvFormat(fill={"a": "1"}))) == CsvFormat(fill=(("a", "1"),))
    assert len({CsvFormat(), CsvFormat(encoding="UTF8"), CsvFormat(encoding="utf-8-sig")}) == 1


# Encodings and compression

WORDS = 'naïve,Ünï\r\n1,é\r\n2,"ü\nß"\r\n\r\n3,ä\r\n'


@pytest.mark.parametrize(
    "encoding",
    [
        "utf-8",
        "latin-1",
        "cp1252",
        "utf-8-sig",
        "utf-16",
        "utf-16-le",
        "utf-16-be",
        "utf-32",
        "mac_roman",
        "cp037",
        "utf-7",
    ],
)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_encodings(tmp_path: Path, encoding: str, size: int, name: str) -> None:
    data = WORDS.encode(encoding)
    file = write(tmp_path, gzip.compress(data) if name.endswith("gz") else data, name)
    found = CsvFormat(encoding=encoding, block_size=size)

    rows, lines, rejects, blank = read(
        found, file, {"Ünï": ColumnType("bytes", None, 1), "naïve": ColumnType("int64", None, 1)}
    )

    assert found.header(file) == ("naïve", "Ünï")
    assert [(row["naïve"], row["Ünï"].decode()) for row in rows] == [(1, "é"), (2, "ü\nß"), (3, "ä")]
    assert (lines, rejects, blank) == ([2, 3, 6], [], 1)
    assert infer(found, file, values_of="Ünï").values == frozenset({"é", "ü\nß", "ä"})


@pytest.mark.parametrize("encoding", ["shift_jis", "gb18030", "big5", "euc_jp", "iso2022_jp"])
@pytest.mark.parametrize("delimiter", [",", "|", "\\", "~"])
def test_characters_that_hold_the_bytes_of_others(tmp_path: Path, encoding: str, delimiter: str) -> None:
    letters = "".join(char for char in map(chr, range(0x4E00, 0x5200)) if char.encode(encoding, "ignore"))
    text = f"a{delimiter}b\n" + "".join(f'{char}{delimiter}"{char}\n"\n' for char in letters)
    file = write(tmp_path, text.encode(encoding))
    if text.encode(encoding).decode(encoding) != text:
        pytest.skip("the encoding has no such delimiter")

    rows, lines, rejects, _ = read(
        CsvFormat(delimiter, encoding=encoding, block_size=50), file, types(a="bytes", b="bytes")
    )

    assert rejects == []
    assert [row["a"].decode() for row in rows] == list(letters)
    assert [row["b"].decode() for row in rows] == [f"{letter}\n" for letter in letters]
    assert lines == list(range(2, 2 + 2 * len(letters), 2))


def test_bytes_that_are_not_in_the_encoding(tmp_path: Path) -> None:
    for encoding, bad in (("cp1252", b"\x81"), ("ascii", b"\xe9"), ("shift_jis", b"\x81"), ("euc_kr", b"\xff")):
        file = write(tmp_path, b"a,b\nx,1\ny" + bad + b",2\nz,3\n")

        rows, _, rejects, _ = read(CsvFormat(encoding=encoding), file, types(b="int64"))

        assert [row["b"] for row in rows] == [1, 3]
        assert reasons(rejects) == [(3, f"column 'a': the text is not {encoding}")]


def test_half_a_character_at_the_end(tmp_path: Path) -> None:
    file = write(tmp_path, "a\n1\n2".encode("utf-16-le") + b"3")

    rows, _, rejects, _ = read(CsvFormat(encoding="utf-16-le"), file, types(a="int64"))

    assert rows == [{"a": 1}]
    assert reasons(rejects) == [(3, "column 'a': the text is not utf-16-le")]


COMPRESS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstandard.compress}
NUMBERS = b"n,r\n" + b"".join(b"%d,%d\n" % (row, random.Random(row).getrandbits(30)) for row in range(30_000))


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("size", [5_000, 16 << 20])
def test_compressed(tmp_path: Path, suffix: str, size: int) -> None:
    file = write(tmp_path, COMPRESS[suffix](NUMBERS[:99_999]) + COMPRESS[suffix](NUMBERS[99_999:]), f"a.csv{suffix}")
    found = CsvFormat(block_size=size)

    (block,) = blocks(found, file)
    pieces = list(found.read(block, types(n="int64")))

    assert block == BlockRef(file, 0, file.size_bytes, 2, ("n", "r"))
    assert [n for piece in pieces for n in piece.batch["n"].to_pylist()] == list(range(30_000))
    assert [line for piece in pieces for line in piece.lines.tolist()] == list(range(2, 30_002))
    assert max(len(piece.lines) for piece in pieces) < max(size // 5, 2)
    assert infer(found, file).rows == 30_000


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_compressed_file_that_was_cut_short(tmp_path: Path, suffix: str) -> None:
    whole = COMPRESS[suffix](NUMBERS[:200_000]) + COMPRESS[suffix](NUMBERS[200_000:])
    file = write(tmp_path, whole[: len(whole) * 3 // 4], f"a.csv{suffix}")

    rows, lines, rejects, _ = read(CSV, file, types(n="int64"))

    assert len(rows) > NUMBERS[:200_000].count(b"\n") - 2
    assert [row["n"] for row in rows] == list(range(len(rows)))
    (reject,) = rejects
    assert (reject.source, reject.line, reject.stage) == (file.name, lines[-1] + 1, "read")
    assert f"; the records from line {lines[-1] + 1} on are lost" in reject.reason
    assert "data ends too early, at byte" in reject.reason
    assert infer(CSV, file).rows == len(rows)


def test_a_compressed_file_that_is_cut_short_in_its_header(tmp_path: Path) -> None:
    file = write(tmp_path, gzip.compress(b"a,b\n1,2\n")[:12], "a.csv.gz")

    (reject,) = CSV.index(file)

    assert isinstance(reject, Reject)
    assert (reject.source, reject.line, reject.stage) == ("a.csv.gz", None, "index")
    assert "the gzip data ends too early" in reject.reason
    with pytest.raises(TruncatedError):
        CSV.header(file)


def test_a_quote_that_is_never_closed_in_a_compressed_file(tmp_path: Path) -> None:
    file = write(tmp_path, gzip.compress(b'a\n"\n"\n1\n"2\n3\n'), "a.csv.gz")
    for size in SIZES:
        found = CsvFormat(block_size=size)
        (block,) = blocks(found, file)
        with pytest.raises(UserError, match=r"^a.csv.gz, line 5: a field opens with"):
            list(found.read(block, types(a="bytes")))
        with pytest.raises(UserError, match=r"^a.csv.gz, line 5: a field opens with"):
            list(found.infer(block, None, None))


# Sizes


def test_a_field_of_100_megabytes(tmp_path: Path) -> None:
    field = b'abcdefghijklm"\n,' * 6_250_000
    file = write(tmp_path, b'a,b\n1,"' + field.replace(b'"', b'""') + b'"\n2,y\n')

    rows, lines, rejects, _ = read(CSV, file, types(a="int64", b="bytes"))

    assert [row["a"] for row in rows] == [1, 2]
    assert rows[0]["b"] == field
    assert (rows[1]["b"], lines, rejects) == (b"y", [2, 3 + 6_250_000], [])


def test_ten_thousand_columns(tmp_path: Path) -> None:
    names = [f"c{column}" for column in range(10_000)]
    file = write(tmp_path, "\n".join([",".join(names), *[",".join([str(row)] * len(names)) for row in range(7)]]))

    found = infer(CSV, file)

    assert found.rows == 7
    assert set(found.types.values()) == {ColumnType("int64", None, 7)}
    rows, lines, rejects, _ = read(CSV, file, found.types)
    assert rows == [dict.fromkeys(names, row) for row in range(7)]
    assert (lines, rejects) == ([2, 3, 4, 5, 6, 7, 8], [])


# Properties

FIELDS = st.one_of(
    st.text(st.sampled_from(' ,"\n\r;ab1é'), max_size=6), st.sampled_from(["1", "-2", "1.5", "true", "NA", "", "007"])
)
RAW = st.lists(
    st.sampled_from(
        ['"', '""', '"""', ",", "\n", "\r\n", "\r", "a", "1", "é", " ", ',"', '",', '"\n', '\n"', "\n,", "1,2\n", "\0"]
    ),
    max_size=40,
).map("".join)
SMALL = st.integers(1, 20)
many = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@many
@given(
    st.lists(st.tuples(FIELDS, FIELDS)),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    SMALL,
)
def test_what_the_csv_module_writes(
    tmp_path: Path, fields: list[tuple[str, str]], end: str, quoting: Any, size: int
) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end, quoting=quoting).writerows([("a", "b"), *fields])
    file = write(tmp_path, text.getvalue())

    rows, _, rejects, blank = read(CsvFormat(block_size=size, missing=()), file, types(a="bytes", b="bytes"))

    assert [(row["a"].decode(), row["b"].decode()) for row in rows] == fields
    assert (rejects, blank) == ([], 0)


def outcome(found: CsvFormat, file: FileRef) -> Any:
    """All that a file says but for its name, or the error."""
    try:
        rows, lines, rejects, blank = read(found, file, types(a="bytes", b="int64"))
        return rows, lines, [replace(reject, source="") for reject in rejects], blank, infer(found, file, values_of="a")
    except UserError as error:
        return str(error).removeprefix(file.name)


@many
@given(RAW, SMALL, st.sampled_from([("utf-8", '"'), ("utf-8", ""), ("utf-16", '"'), ("latin-1", '"')]))
def test_any_block_size_finds_the_same(tmp_path: Path, text: str, size: int, dialect: tuple[str, str]) -> None:
    encoding, quote = dialect
    file = write(tmp_path, ("a,b\n" + text).encode(encoding))
    found = CsvFormat(encoding=encoding, quote=quote)

    assert outcome(replace(found, block_size=size), file) == outcome(found, file)


@many
@given(RAW, SMALL)
def test_a_compressed_file_is_as_one_that_is_not(tmp_path: Path, text: str, size: int) -> None:
    plain = write(tmp_path, "a,b\n" + text)
    compressed = write(tmp_path, gzip.compress(("a,b\n" + text).encode()), "b.csv.gz")

    assert outcome(CsvFormat(block_size=size), compressed) == outcome(CSV, plain)


@many
@given(RAW, SMALL)
def test_every_record_is_a_row_a_reject_or_blank(tmp_path: Path, text: str, size: int) -> None:
    file = write(tmp_path, "a,b\n" + text)
    try:
        rows, lines, rejects, blank = read(CsvFormat(block_size=size), file, types(a="bytes", b="int64"))
    except UserError:  # a quote that is never closed
        return

    reader = csv.reader(io.StringIO(text, newline=""))
    starts, records, before = [], [], 0
    for record in reader:
        starts.append(before + 2)
        records.append(record)
        before = reader.line_num
    if "\r" not in text.replace("\r\n", ""):  # the module counts lines otherwise where a lone CR is quoted
        assert sorted([*lines, *[reject.line or 0 for reject in rejects]]) == [
            start for start, record in zip(starts, records) if record
        ]
    assert len(rows) + len(rejects) + blank == len(records)
    if not rejects:
        assert [row["a"] for row in rows] == [
            None if record[0] in MISSING else record[0].encode() for record in records if record
        ]


@many
@given(RAW)
def test_rows_inferred_are_rows_read_as_text(tmp_path: Path, text: str) -> None:
    file = write(tmp_path, "a,b\n" + text)
    try:
        found = infer(CSV, file)
    except UserError:
        return

    rows, _, _, _ = read(CSV, file, {**types(a="bytes", b="bytes"), **found.types})

    assert len(rows) == found.rows  # what a type was inferred from fits it
    assert {name: sum(row[name] is not None for row in rows) for name in found.types} == {
        name: column.present for name, column in found.types.items()
    }
