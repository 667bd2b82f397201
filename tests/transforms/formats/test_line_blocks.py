"""Files of lines as blocks and pieces, whatever the sizes, and encodings to UTF-8."""

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from shardmill.metadata.manifest import Reject
from shardmill.transforms.encodings import encoding_name, is_ascii_transparent, is_utf8, to_utf8
from shardmill.transforms.formats import line_blocks
from shardmill.transforms.formats.format import FileRef
from tests.support.command import REPOSITORY, Run, check_mistake, write_files
from tests.support.format_files import file_ref

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def pieces(file: FileRef, block_size: int, piece_size: int) -> tuple[list[line_blocks.Piece], list[Reject]]:
    items = [
        piece
        for block in line_blocks.index_lines(file, block_size)
        for piece in line_blocks.read_pieces(block, piece_size)
    ]
    found, line = [item for item in items if isinstance(item, line_blocks.Piece)], 1
    for piece in found:
        assert piece.first_line == line
        line += piece.data.count(b"\n")
    return found, [item for item in items if isinstance(item, Reject)]


def test_blocks_have_about_the_size_asked_for(tmp_path: Path) -> None:
    first, second = line_blocks.index_lines(file_ref(tmp_path, b"line\n" * 1_000_000), 3 << 20)
    assert 3 << 20 <= first.length <= 4 << 20
    assert (first.offset, second.offset, second.offset + second.length) == (0, first.length, 5_000_000)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_compressed_file_cut_short_anywhere(tmp_path: Path, suffix: str) -> None:
    data = b"".join(b"line %d of some\n" % number for number in range(1, 40))
    whole = COMPRESS[suffix](data)
    for size in range(len(whole)):
        found, (reject,) = pieces(file_ref(tmp_path, whole[:size], f"file.txt{suffix}"), 10, 50)

        kept = b"".join(piece.data for piece in found)
        line = kept.count(b"\n") + 1
        assert data.startswith(kept), size
        assert kept.endswith(b"\n") or not kept
        assert (reject.source, reject.line, reject.stage) == (f"file.txt{suffix}", line, "read")
        assert reject.reason.endswith(f"; all from line {line} on is lost")


def test_the_sentence_of_a_truncated_gzip_file(tmp_path: Path) -> None:
    _, (reject,) = pieces(file_ref(tmp_path, gzip.compress(b"text\n")[:-3], "file.txt.gz"), 10, 10)

    where = "at byte 22 of the compressed file, after 5 bytes of contents"
    assert reject.reason == f"the gzip data ends too early, {where}; all from line 2 on is lost"


def test_a_file_that_shrank_after_it_was_indexed(tmp_path: Path) -> None:
    file = file_ref(tmp_path, b"one\ntwo\nthree\n")
    (block,) = line_blocks.index_lines(file, 100)
    (tmp_path / "file.txt").write_bytes(b"one\ntw")
    piece, reject = line_blocks.read_pieces(block, 4)

    assert isinstance(piece, line_blocks.Piece)
    assert piece.data == b"one\n"
    assert isinstance(reject, Reject)
    assert reject.line == 2
    assert reject.reason.startswith("ends 8 bytes earlier than when it was indexed")


def test_a_file_that_vanished_after_it_was_indexed(tmp_path: Path) -> None:
    (block,) = line_blocks.index_lines(file_ref(tmp_path, b"one\n"), 100)
    (tmp_path / "file.txt").unlink()

    reason = "cannot be read after 0 bytes: No such file or directory; all from line 1 on is lost"
    assert list(line_blocks.read_pieces(block, 4)) == [Reject("file.txt", 1, "read", reason, None, 4, "estimated")]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b" \n"])
def test_blank_lines_are_one_piece_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newline: bytes
) -> None:
    """What is done for each piece would be done for every few of a gigabyte of them."""
    monkeypatch.setattr("shardmill.transforms.formats.format.MAX_LINES", 10)
    (piece,), _ = pieces(file_ref(tmp_path, newline * 1000), 1 << 20, 1 << 20)
    assert (piece.data, piece.first_line) == (newline * 1000, 1)
    found, _ = pieces(file_ref(tmp_path, b"a\n" * 1000), 1 << 20, 1 << 20)
    assert len(found) >= 100


CODECS = [
    *("utf-8", "iso8859-1", "cp1252", "utf-16", "utf-16-be", "utf-32", "utf-7", "shift_jis", "gb18030", "iso2022_jp"),
    "cp037",
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("UTF8", "utf-8"), ("utf-8-sig", "utf-8"), ("latin-1", "iso8859-1"), ("Windows-1252", "cp1252")],
)
def test_names(name: str, expected: str) -> None:
    assert encoding_name(name) == expected


@pytest.mark.parametrize(
    "name", ["", "utf-9", "a\0b", "rot13", "zip", "idna", "punycode", "unicode_escape", "raw_unicode_escape"]
)
def test_names_that_are_no_good(name: str) -> None:
    with pytest.raises(ValueError, match=r"expected one such as utf-8"):
        encoding_name(name)


@pytest.mark.parametrize(
    ("encoding", "special", "keeps"),
    [
        *((encoding, b',"\r\n', True) for encoding in ("utf-8", "ascii", "iso8859-1", "shift_jis")),
        *((encoding, b'|"\r\n', True) for encoding in ("cp1252", "euc_kr")),
        *(("shift_jis", b'|"\r\n', False), ("big5", b'\\"\r\n', False)),
        *((encoding, b",\n", False) for encoding in ("utf-16", "utf-32-be", "utf-7", "iso2022_jp", "hz", "cp037")),
    ],
)
def test_keeps_bytes(encoding: str, special: bytes, keeps: bool) -> None:
    assert is_ascii_transparent(encoding, special) is keeps


def test_is_utf8() -> None:
    assert all(map(is_utf8, (b"", b"a\0", "é日😀".encode())))
    assert not any(map(is_utf8, (b"\xff", b"a\xc3", b"\xed\xb3\xbf", b"\xc0\x80")))


@given(st.binary(max_size=60), st.sampled_from(CODECS))
def test_what_cannot_be_decoded_is_no_utf8(data: bytes, encoding: str) -> None:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        assert not is_utf8(to_utf8(data, encoding))
    else:
        if not any("\ud800" <= char <= "\udfff" for char in text):  # utf-7 can hold lone surrogates
            assert to_utf8(data, encoding) == text.encode()


@pytest.mark.parametrize("command", [("csv",), ("text",), ("text", "--record", "file")], ids=" ".join)
def test_an_encoding_of_no_files_is_refused_by_every_route(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    suffix = "csv" if command == ("csv",) else "txt"
    folder = write_files(tmp_path / "in", {f"a.{suffix}": b"id,path\n1,C:\\new\\table\n"})
    result = run(*command, "--input", folder, "--output", tmp_path / "out", "--name", "n", "--encoding", "rot13")
    check_mistake(result, "rot13", "expected one such as utf-8")
    assert not (tmp_path / "out").exists()


def test_one_name_stands_for_one_error_handler() -> None:
    """A handler is the whole process's: a second one registered under its name would take the place of the first."""
    sources = [
        path.read_text()
        for folder in ("src/shardmill", "transforms", "pipelines")
        for path in (REPOSITORY / folder).rglob("*.py")
    ]

    assert sum(text.count("codecs.register_error(") for text in sources) == 1
