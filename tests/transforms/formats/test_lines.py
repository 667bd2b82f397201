"""Text lines and parallel files as rows: beside readers that go line by line, in any encoding and block size."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.types import ColumnType, Inferred
from shardmill.transforms.formats.format import FileRef, describe_cut_end
from shardmill.transforms.formats.lines import LinesFormat, ParallelFormat
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
    mark = b"\xef\xbb\xbf"
    lines = [line.removeprefix(mark) for line in data.removeprefix(mark).split(b"\n")]
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
    *(b"\n", b"\n", b"\r\n", b"\r", b" ", b"\t", b"a", b"word and word", b"\0" * 4, b"\xff", b"\xe3\x80"),
    *("ä日本".encode(), "\u3000\xa0".encode(), b"\xef\xbb\xbf"),
]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=40).map(b"".join)


@given(TEXTS, st.integers(1, 60), st.booleans(), st.booleans())
@settings(max_examples=200)
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
@given(st.lists(st.sampled_from([*"ab \n\rzé~{}", "\0" * 4])).map("".join), st.integers(1, 50), st.booleans())
@settings(max_examples=40)
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


PAIR = {name: ColumnType("bytes", None, 0) for name in ("de", "en")} | {"line_number": ColumnType("int64", None, 0)}
Pair = tuple[int, bytes, bytes]

CHARACTERS = st.characters(codec="utf-8", exclude_characters="\n\r\ufeff")
PAIRS = st.lists(
    st.tuples(*[st.one_of(st.text(CHARACTERS, max_size=30), st.sampled_from(("", " ", "\xa0")))] * 2), max_size=40
)


def refs(folder: Path, *files: bytes, suffixes: tuple[str, ...] = ("de", "en")) -> FileRef:
    parts = [file_ref(folder, data, f"f.{suffix}") for data, suffix in zip(files, suffixes, strict=True)]
    return FileRef(parts[0].name, parts[0].path, sum(map(len, files)), parts=tuple(parts))


def read_pairs(file: FileRef, size: int, encoding: str = "utf-8") -> tuple[list[Pair], list[Reject], int]:
    format_ = ParallelFormat(LinesFormat(size, encoding, True), ("de", "en"))
    rows, lines, rejects, blank = format_files.read(format_, file, PAIR)
    assert [row["line_number"] for row in rows] == lines
    return [(row["line_number"], row["de"], row["en"]) for row in rows], rejects, blank


@given(lines=PAIRS, size=st.integers(1, 200), ends=st.tuples(*[st.sampled_from(("\n", "\r\n"))] * 2))
def test_lines_belong_together(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[str, str]], size: int, ends: tuple[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("parallel")
    files = ["".join(f"{line[part]}{ends[part]}" for line in lines).encode() for part in range(2)]
    both = [(number, de, en) for number, (de, en) in enumerate(lines, 1)]

    rows, rejects, blank = read_pairs(refs(folder, *files), size)

    assert rows == [(n, de.encode(), en.encode()) for n, de, en in both if de.strip() and en.strip()]
    assert [reject.line for reject in rejects] == [n for n, de, en in both if bool(de.strip()) != bool(en.strip())]
    assert blank == sum(not de.strip() and not en.strip() for de, en in lines)


def test_what_is_wrong_with_a_line(tmp_path: Path) -> None:
    file = refs(tmp_path, b"a\n\n\xff\nd\n\n", b"A\nB\nC\n\xff\xfe\n \n")

    rows, rejects, blank = read_pairs(file, 1 << 20)

    assert (rows, blank) == ([(1, b"a", b"A")], 1)
    assert [(reject.source, reject.line, reject.reason) for reject in rejects] == [
        ("f.de", 2, "an empty text: the line is blank in 'de', and not in 'en'"),
        ("f.de", 3, "'de': not utf-8: byte 0xff (ÿ in cp1252) at position 1 of the line"),
        ("f.de", 4, "'en': not utf-8: byte 0xff (ÿ in cp1252) at position 1 of the line"),
    ]


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
@pytest.mark.parametrize(
    ("de", "en", "said"),
    [
        (b"a\nb\nc\n", b"A\nB\n", "de=f.de has 3 lines and en=f.en has 2 lines: line n of the one"),
        (b"a\n", b"A\nB\nC", "de=f.de has 1 line and en=f.en has 3 lines"),
        (b"", b"A\n", "de=f.de has 0 lines and en=f.en has 1 line"),
        (b"a\nb", b"A", "de=f.de has 2 lines and en=f.en has 1 line"),
    ],
)
def test_different_numbers_of_lines(tmp_path: Path, size: int, de: bytes, en: bytes, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_pairs(refs(tmp_path, de, en), size)
    packed = refs(tmp_path, gzip.compress(de), gzip.compress(en), suffixes=("de.gz", "en.gz"))
    with pytest.raises(UserError, match=said.replace("f.de", "f.de.gz").replace("f.en", "f.en.gz")):
        read_pairs(packed, size)


def test_one_compressed_and_one_not(tmp_path: Path) -> None:
    lines = [b"%d" % number * (number % 7 + 1) for number in range(500)]
    file = refs(tmp_path, b"\n".join(lines), gzip.compress(b"\r\n".join(lines)), suffixes=("de", "en.gz"))

    rows, rejects, _ = read_pairs(file, 64)

    assert rows == [(number, line, line) for number, line in enumerate(lines, 1)]
    assert not rejects


def test_another_encoding(tmp_path: Path) -> None:
    file = refs(tmp_path, "über\nalle".encode("utf-16"), "above\nall".encode("utf-16"))

    assert read_pairs(file, 8, "utf-16")[0] == [(1, "über".encode(), b"above"), (2, b"alle", b"all")]
    with pytest.raises(UserError, match=r"f\.de begins like UTF-16; give --encoding utf-16"):
        read_pairs(file, 8)


def test_byte_order_marks(tmp_path: Path) -> None:
    assert read_pairs(refs(tmp_path, b"\xef\xbb\xbfa\nb\n", b"A\nB\n"), 1)[0] == [(1, b"a", b"A"), (2, b"b", b"B")]


def test_a_compressed_file_that_is_cut(tmp_path: Path) -> None:
    lines = b"".join(b"%d\n" % (number * 7919 % 100_003) for number in range(20_000))
    packed = gzip.compress(lines)
    file = refs(tmp_path, packed[: len(packed) // 2], packed, suffixes=("de.gz", "en.gz"))

    rows, (reject,), _ = read_pairs(file, 4096)

    assert rows
    assert rows == [(n, line, line) for n, line in enumerate(lines.splitlines()[: len(rows)], 1)]
    assert reject.source == "f.de.gz"
    assert reject.is_loss
    assert "all from line" in reject.reason


def test_a_line_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmill.transforms.formats.format.MAX_TEXT_BYTES", 100)
    file = refs(tmp_path, b"a\n" + b"x" * 300 + b"\nc\n", b"A\nB\nC\n")

    rows, (reject,), _ = read_pairs(file, 1 << 20)

    assert rows == [(1, b"a", b"A"), (3, b"c", b"C")]
    assert reject.line == 2
    assert reject.reason.startswith("'de': a record of 301 bytes of text; expected 100 at most")
