"""Text lines as rows: beside a reader that goes line by line in Python, in every encoding and block size."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.types import MAX_VALUES, ColumnType, Inferred
from shardmill.transforms.formats.format import FileRef, describe_cut_end
from shardmill.transforms.formats.lines import LinesFormat
from tests.support import format_files
from tests.support.format_files import file_ref, infer

TEXT = ColumnType("bytes", None, 0)
NUMBER = ColumnType("int64", None, 0)
TYPES = {"text": TEXT, "line_number": NUMBER}
Found = tuple[list[tuple[int, bytes]], list[Reject], int]


def read(format_: LinesFormat, file: FileRef) -> Found:
    """Lines with their numbers, rejects, blank lines."""
    rows, lines, rejects, blank = format_files.read(format_, file, TYPES)
    assert [row["line_number"] for row in rows] == (lines if format_.with_numbers else [None] * len(lines))
    return [(line, row["text"]) for line, row in zip(lines, rows)], rejects, blank


def expected(data: bytes) -> tuple[list[tuple[int, bytes]], list[int], int]:
    """What the lines of UTF-8 `data` are: rows, numbers of rejects, blank lines."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    ended, last = lines[:-1], lines[-1]
    found = [line.removesuffix(b"\r") for line in ended] + ([last] if last else [])
    rows, rejects, blank = [], [], 0
    for number, line in enumerate(found, 1):
        try:
            if not line.decode().strip():
                blank += 1
            else:
                rows.append((number, line))
        except UnicodeDecodeError:
            rejects.append(number)
    return rows, rejects, blank


PARTS = [
    *(b"\n", b"\n", b"\r\n", b"\r", b" ", b"\t", b"a", b"word and word", b"\0", b"\xff", b"\xe3\x80"),
    *("ä日本".encode(), "\u3000\xa0".encode()),
]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=40).map(b"".join)


@given(TEXTS, st.integers(1, 60), st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_any_block_size_gives_the_lines(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, block_size: int, zipped: bool, with_numbers: bool
) -> None:
    name, stored = ("file.txt.gz", gzip.compress(data)) if zipped else ("file.txt", data)
    file = file_ref(tmp_path_factory.mktemp("lines"), stored, name)
    format_ = LinesFormat(block_size, with_numbers=with_numbers)
    rows, rejects, blank = read(format_, file)

    assert (rows, [reject.line for reject in rejects], blank) == expected(data)
    inferred = infer(format_, file, values_of="text")
    assert inferred.rows == len(rows)
    assert inferred.values.get("text", frozenset()) == frozenset(text.decode() for _, text in rows)
    names = ["text", "line_number"] if with_numbers else ["text"]
    assert inferred.types == ({name: ColumnType(TYPES[name].dtype, None, len(rows)) for name in names} if rows else {})


@pytest.mark.parametrize("character", [chr(code) for code in range(0x10000) if chr(code).isspace()])
def test_white_space(tmp_path: Path, character: str) -> None:
    data = f"a\n {character}\nb{character}\n".encode()
    _, rejects, blank = read(LinesFormat(100), file_ref(tmp_path, data))

    assert (rejects, blank) == ([], 3 if character == "\n" else 1)


ENCODINGS = [
    *("utf-8", "utf-8-sig", "latin-1", "cp1252", "shift_jis", "gb18030", "utf-16", "utf-16-le", "utf-16-be", "utf-32"),
    "cp037",
]


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(st.text(st.sampled_from("ab \n\r\x00zé~{}"), max_size=60), st.integers(1, 50), st.booleans())
@settings(max_examples=40, deadline=None)
def test_every_encoding_gives_utf8(
    tmp_path_factory: pytest.TempPathFactory, encoding: str, text: str, block_size: int, zipped: bool
) -> None:
    text = text.encode(encoding, "ignore").decode(encoding)  # without what the encoding does not have
    stored = text.encode(encoding)
    name = "file.txt.gz" if zipped else "file.txt"
    file = file_ref(tmp_path_factory.mktemp("lines"), gzip.compress(stored) if zipped else stored, name)
    rows, rejects, blank = read(LinesFormat(block_size, encoding), file)

    assert rejects == []
    assert (rows, [], blank) == expected(text.encode())


@pytest.mark.parametrize("size", [1, 5, 100])
def test_a_byte_order_mark_of_utf16_is_no_text(tmp_path: Path, size: int) -> None:
    for encoding in ("utf-16", "utf-16-le"):
        rows, _, _ = read(LinesFormat(size, encoding), file_ref(tmp_path, b"\xff\xfe" + "one\ntwo".encode("utf-16-le")))

        assert rows == [(1, b"one"), (2, b"two")]


@pytest.mark.parametrize("size", [1, 5, 100])
def test_what_is_not_valid_is_a_reject(tmp_path: Path, size: int) -> None:
    file = file_ref(tmp_path, b"one\nt\xffwo\nthree\n\xe3\x80")
    rows, rejects, blank = read(LinesFormat(size), file)

    assert (rows, blank) == ([(1, b"one"), (3, b"three")], 0)
    last = f"not utf-8: byte 0xe3 (ã in cp1252) at position 1 of the line{describe_cut_end(bytes([0x80]))}"
    assert rejects == [
        Reject("file.txt", 2, "read", "not utf-8: byte 0xff (ÿ in cp1252) at position 2 of the line"),
        Reject("file.txt", 4, "read", last),
    ]


@pytest.mark.parametrize("size", [1, 5, 100])
@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("utf-16-le", "one\n".encode("utf-16-le") + b"x\0\0\xd8y\0\n\0" + "three".encode("utf-16-le")),
        ("cp1252", b"one\nx\x81y\nthree"),
        ("gb18030", b"one\nx\xffy\nthree"),
        ("ascii", b"one\nx\x80y\nthree"),
    ],
)
def test_what_is_not_valid_in_another_encoding(tmp_path: Path, size: int, encoding: str, data: bytes) -> None:
    rows, rejects, _ = read(LinesFormat(size, encoding), file_ref(tmp_path, data))

    assert rows == [(1, b"one"), (3, b"three")]
    assert rejects == [Reject("file.txt", 2, "read", f"not {encoding}: what follows character 1 of the line")]


def test_a_utf16_file_that_ends_within_a_character(tmp_path: Path) -> None:
    rows, rejects, _ = read(LinesFormat(100, "utf-16-le"), file_ref(tmp_path, "one\ntwo".encode("utf-16-le")[:-1]))

    assert rows == [(1, b"one")]
    assert [reject.line for reject in rejects] == [2]


def test_the_line_ends_are_lf_and_cr_lf(tmp_path: Path) -> None:
    data = "a\r\n\r\rb\r\nc\x85d\u2028e\fg\r".encode()
    rows, _, _ = read(LinesFormat(100), file_ref(tmp_path, data))

    assert rows == [(1, b"a"), (2, b"\r\rb"), (3, "c\x85d\u2028e\fg\r".encode())]


def test_infer_looks_at_the_columns_asked_for(tmp_path: Path) -> None:
    file = file_ref(tmp_path, b"one\n\ntwo\n")
    format_ = LinesFormat(100, with_numbers=True)

    assert infer(format_, file, ["line_number"]).types == {"line_number": ColumnType("int64", None, 2)}
    assert infer(format_, file, [], "line_number") == Inferred({}, 2, {"line_number": frozenset({"1", "3"})})


def test_infer_gives_up_on_too_many_values(tmp_path: Path) -> None:
    lines = [b"%d\n" % number for number in range(MAX_VALUES + 1)]

    for block_size in (1 << 16, 1 << 24):
        assert infer(LinesFormat(block_size), file_ref(tmp_path, b"".join(lines)), None, "text").values == {
            "text": None
        }
        fewer = infer(LinesFormat(block_size), file_ref(tmp_path, b"".join(lines[1:])), None, "text").values["text"]
        assert len(fewer or ()) == MAX_VALUES


def test_the_columns_come_in_the_order_of_the_types(tmp_path: Path) -> None:
    file = file_ref(tmp_path, b"one\n")
    format_ = LinesFormat(100, with_numbers=True)
    (block,) = format_.index(file)
    assert not isinstance(block, Reject)
    types: dict[str, Any] = {"line_number": NUMBER, "more": ColumnType("float32", -1, 0), "text": TEXT}
    (rows,) = format_.read(block, types)

    assert rows.batch.to_pylist() == [{"line_number": 1, "more": [], "text": b"one"}]
    assert rows.batch.schema.names == list(types)


def test_an_empty_file_has_no_blocks(tmp_path: Path) -> None:
    for encoding in ("utf-8", "utf-16"):
        assert list(LinesFormat(10, encoding).index(file_ref(tmp_path, b""))) == []
