"""Dialects, encodings and compression of CSV files."""

import gzip
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.text import NumberStyle
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.findings import OddTexts
from shardmill.transforms.formats.csv import CsvFormat
from shardmill.transforms.formats.format import describe_cut_end
from shardmill.transforms.stores.streams import TruncatedError
from tests.support.csv_files import CSV, SIZES, read_each_size, reasons, types, write
from tests.support.format_files import blocks, infer, read
from tests.support.reading import plain

# Dialects

SPARK = 'n,text\n1,"a \\"b\\", c"\n2,"back\\\\slash"\n3,"\\"\\\\"\n4,"two\n\\"lines\\""\n5,x\n'
SPARK_TEXTS = ['a "b", c', "back\\slash", '"\\', 'two\n"lines"', "x"]


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


@pytest.mark.parametrize(
    ("delimiter", "text"),
    [
        ("||", 'a||b\n1||x\n2||"y||  z"\n'),
        ("::", 'a::b\n1::x\n2::"y||  z"\n'),
        (r"\s+", 'a \t b\n 1   x\n2\t"y||  z" \n'),
    ],
)
def test_delimiters_of_several_characters(tmp_path: Path, delimiter: str, text: str) -> None:
    found = read_each_size(tmp_path, text, types(a="int64", b="bytes"), delimiter=delimiter)
    assert found == ([{"a": 1, "b": b"x"}, {"a": 2, "b": b"y||  z"}], [2, 3], [], 0)


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (SPARK, {"escape": "\\"}, {"n": [1, 2, 3, 4, 5], "text": SPARK_TEXTS}),
        (
            "a;b\n1,5;x\n-2;y\n,25;1,5\n",
            {"delimiter": ";", "numbers": NumberStyle(",")},
            {"a": [1.5, -2, 0.25], "b": ["x", "y", "1,5"]},
        ),
        (
            "a;b\n1.234,5;1.5\n2;2,5\n",
            {"delimiter": ";", "numbers": NumberStyle(",", ".")},
            {"a": [1234.5, 2], "b": ["1.5", "2,5"]},
        ),
        (
            'u::t\n1::"a::b"\n2::"say ""x""::y\nand::z"\n3::4" pipe\n',
            {"delimiter": "::"},
            {"u": [1, 2, 3], "t": ["a::b", 'say "x"::y\nand::z', '4" pipe']},
        ),
        ('u::t\n1::"a\\"::b"\n2::c\n', {"delimiter": "::", "escape": "\\"}, {"u": [1, 2], "t": ['a"::b', "c"]}),
        (
            'ip  req  n\n1.2.3.4 "GET / HTTP"   200\n5.6  - 404  \n',
            {"delimiter": r"\s+"},
            {"ip": ["1.2.3.4", "5.6"], "req": ["GET / HTTP", "-"], "n": [200, 404]},
        ),
    ],
)
def test_dialect(tmp_path: Path, text: str, options: dict[str, Any], expected: dict[str, list[Any]]) -> None:
    inferred = infer(CsvFormat(**options), write(tmp_path, text)).types
    rows, *_ = read_each_size(tmp_path, text, inferred, **options)
    assert {name: [plain(row[name]) for row in rows] for name in expected} == expected


def test_values_that_are_no_numbers_of_a_spelling_are_counted(tmp_path: Path) -> None:
    file = write(tmp_path, "n\n?\n" + "1.000,5\n" * 9)
    format_ = CsvFormat(";", numbers=NumberStyle(",", "."))
    (rows,) = format_.read(blocks(format_, file)[0], types(n="bytes"))
    found = rows.findings.find(OddTexts).columns["n"]

    assert (found.count, found.firsts["odd"]) == (1, ("a.csv", 2, "?"))


def test_escapes_at_the_ends_of_chunks(tmp_path: Path) -> None:
    lines = [f'{n},"{chr(92) * 2 * (n % 7)}{chr(92)}" {n}"' for n in range(6_000)]
    file = write(tmp_path, "\n".join(["n,text", *lines]))
    found = read(CsvFormat(escape="\\", block_size=1024), file, types(text="bytes"))
    assert [row["text"].decode() for row in found.rows] == [f'{chr(92) * (n % 7)}" {n}' for n in range(6_000)]


def test_quotes_at_the_ends_of_chunks(tmp_path: Path) -> None:
    texts = [f'a::{n}\n"b"::c\nd' for n in range(6_000)]
    lines = [f'{n}::"{text.replace(chr(34), 2 * chr(34))}"' for n, text in enumerate(texts)]
    file = write(tmp_path, "\n".join(["n::text", *lines]))
    found = read(CsvFormat("::", block_size=1024), file, types(text="bytes"))
    assert [row["text"].decode() for row in found.rows] == texts


def test_comments(tmp_path: Path) -> None:
    found = read_each_size(tmp_path, "# one\na,b\n1,2\n# two\n3,#4\n", types(a="int64", b="bytes"), comment="#")
    assert found == ([{"a": 1, "b": b"2"}, {"a": 3, "b": b"#4"}], [3, 5], [], 0)


def test_types_of_separated_lists(tmp_path: Path) -> None:
    file = write(tmp_path, "a,b,c\n1;2,x y,1;2\n3;4,z,3;4\n")
    types = infer(CsvFormat(list_separators=(("a", ";"), ("b", " "))), file).types
    assert {name: (found.dtype, found.length) for name, found in types.items()} == {
        "a": ("int64", 2),
        "b": ("bytes", -1),
        "c": ("bytes", None),
    }


def test_without_quotes(tmp_path: Path) -> None:
    found = read_each_size(tmp_path, 'a,b\n"1,2\n5" disk,"\n', types(a="bytes", b="bytes"), quote="")
    assert found[:3] == ([{"a": b'"1', "b": b"2"}, {"a": b'5" disk', "b": b'"'}], [2, 3], [])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"delimiter": "ab"}, "the delimiter 'ab'"),
        ({"delimiter": "x"}, "the delimiter 'x'"),
        ({"delimiter": "é"}, "the delimiter 'é'"),
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
        *("utf-8", "latin-1", "cp1252", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "mac_roman"),
        *("cp037", "utf-7"),
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
    assert infer(found, file, values_of="Ünï").values == {"Ünï": frozenset({"é", "ü\nß", "ä"})}


@pytest.mark.parametrize("encoding", ["shift_jis", "gb18030", "big5", "euc_jp", "iso2022_jp"])
@pytest.mark.parametrize("delimiter", [",", "|", "\\", "~"])
def test_characters_that_hold_the_bytes_of_others(tmp_path: Path, encoding: str, delimiter: str) -> None:
    letters = "".join(char for char in map(chr, range(0x4E00, 0x5200)) if char.encode(encoding, "ignore"))
    text = f"a{delimiter}b\n" + "".join(f'{char}{delimiter}"{char}\n"\n' for char in letters)
    file = write(tmp_path, text.encode(encoding))

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
    assert reasons(rejects) == [(3, f"column 'a': the text is not utf-16-le{describe_cut_end(b'3')}")]


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
            list(found.infer(block, None, ()))
