"""Parallel files as rows: beside a reader that goes line by line in Python, in every block size."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats.format import FileRef
from shardmill.transforms.formats.lines import LinesFormat, ParallelFormat
from tests.support import format_files
from tests.support.format_files import file_ref

TYPES = {name: ColumnType("bytes", None, 0) for name in ("de", "en")} | {"line_number": ColumnType("int64", None, 0)}
Row = tuple[int, bytes, bytes]

CHARACTERS = st.characters(codec="utf-8", exclude_characters="\n\r\ufeff")
LINES = st.lists(
    st.tuples(*[st.one_of(st.text(CHARACTERS, max_size=30), st.sampled_from(("", " ", "\xa0")))] * 2), max_size=40
)


def refs(folder: Path, *files: bytes, suffixes: tuple[str, ...] = ("de", "en")) -> FileRef:
    parts = [file_ref(folder, data, f"f.{suffix}") for data, suffix in zip(files, suffixes, strict=True)]
    return FileRef(parts[0].name, parts[0].path, sum(map(len, files)), parts=tuple(parts))


def read(file: FileRef, size: int, encoding: str = "utf-8") -> tuple[list[Row], list[Reject], int]:
    format_ = ParallelFormat(LinesFormat(size, encoding, True), ("de", "en"))
    rows, lines, rejects, blank = format_files.read(format_, file, TYPES)
    assert [row["line_number"] for row in rows] == lines
    return [(row["line_number"], row["de"], row["en"]) for row in rows], rejects, blank


@settings(deadline=None)
@given(lines=LINES, size=st.integers(1, 200), ends=st.tuples(*[st.sampled_from(("\n", "\r\n"))] * 2))
def test_lines_belong_together(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[str, str]], size: int, ends: tuple[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("parallel")
    files = ["".join(f"{line[part]}{ends[part]}" for line in lines).encode() for part in range(2)]
    both = [(number, de, en) for number, (de, en) in enumerate(lines, 1)]

    rows, rejects, blank = read(refs(folder, *files), size)

    assert rows == [(n, de.encode(), en.encode()) for n, de, en in both if de.strip() and en.strip()]
    assert [reject.line for reject in rejects] == [n for n, de, en in both if bool(de.strip()) != bool(en.strip())]
    assert blank == sum(not de.strip() and not en.strip() for de, en in lines)


def test_what_is_wrong_with_a_line(tmp_path: Path) -> None:
    file = refs(tmp_path, b"a\n\n\xff\nd\n\n", b"A\nB\nC\n\xff\xfe\n \n")

    rows, rejects, blank = read(file, 1 << 20)

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
        read(refs(tmp_path, de, en), size)
    packed = refs(tmp_path, gzip.compress(de), gzip.compress(en), suffixes=("de.gz", "en.gz"))
    with pytest.raises(UserError, match=said.replace("f.de", "f.de.gz").replace("f.en", "f.en.gz")):
        read(packed, size)


def test_one_compressed_and_one_not(tmp_path: Path) -> None:
    lines = [b"%d" % number * (number % 7 + 1) for number in range(500)]
    file = refs(tmp_path, b"\n".join(lines), gzip.compress(b"\r\n".join(lines)), suffixes=("de", "en.gz"))

    rows, rejects, _ = read(file, 64)

    assert rows == [(number, line, line) for number, line in enumerate(lines, 1)]
    assert not rejects


def test_another_encoding(tmp_path: Path) -> None:
    file = refs(tmp_path, "über\nalle".encode("utf-16"), "above\nall".encode("utf-16"))

    assert read(file, 8, "utf-16")[0] == [(1, "über".encode(), b"above"), (2, b"alle", b"all")]
    with pytest.raises(UserError, match=r"f\.de begins like UTF-16; give --encoding utf-16"):
        read(file, 8)


def test_byte_order_marks(tmp_path: Path) -> None:
    assert read(refs(tmp_path, b"\xef\xbb\xbfa\nb\n", b"A\nB\n"), 1)[0] == [(1, b"a", b"A"), (2, b"b", b"B")]


def test_a_compressed_file_that_is_cut(tmp_path: Path) -> None:
    lines = b"".join(b"%d\n" % (number * 7919 % 100_003) for number in range(20_000))
    packed = gzip.compress(lines)
    file = refs(tmp_path, packed[: len(packed) // 2], packed, suffixes=("de.gz", "en.gz"))

    rows, (reject,), _ = read(file, 4096)

    assert rows
    assert rows == [(n, line, line) for n, line in enumerate(lines.splitlines()[: len(rows)], 1)]
    assert reject.source == "f.de.gz"
    assert reject.is_loss
    assert "all from line" in reject.reason


def test_a_line_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmill.transforms.formats.format.MAX_TEXT_BYTES", 100)
    file = refs(tmp_path, b"a\n" + b"x" * 300 + b"\nc\n", b"A\nB\nC\n")

    rows, (reject,), _ = read(file, 1 << 20)

    assert rows == [(1, b"a", b"A"), (3, b"c", b"C")]
    assert reject.line == 2
    assert reject.reason.startswith("'de': a record of 301 bytes of text; expected 100 at most")
