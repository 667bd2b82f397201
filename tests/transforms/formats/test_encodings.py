"""Encodings to UTF-8, whole and in pieces."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.transforms.formats.line_blocks import Utf8Stream, encoding_name, is_ascii_transparent, is_utf8, to_utf8
from tests.support.command import REPOSITORY, Run, check_mistake, write_files

ENCODINGS = [
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
        ("utf-8", b',"\r\n', True),
        ("ascii", b',"\r\n', True),
        ("iso8859-1", b',"\r\n', True),
        ("cp1252", b'|"\r\n', True),
        ("euc_kr", b'|"\r\n', True),
        ("shift_jis", b',"\r\n', True),
        ("shift_jis", b'|"\r\n', False),
        ("big5", b'\\"\r\n', False),
        ("utf-16", b",\n", False),
        ("utf-32-be", b",\n", False),
        ("utf-7", b",\n", False),
        ("iso2022_jp", b",\n", False),
        ("hz", b",\n", False),
        ("cp037", b",\n", False),
    ],
)
def test_keeps_bytes(encoding: str, special: bytes, keeps: bool) -> None:
    assert is_ascii_transparent(encoding, special) is keeps


def test_is_utf8() -> None:
    assert all(map(is_utf8, (b"", b"a\0", "é日😀".encode())))
    assert not any(map(is_utf8, (b"\xff", b"a\xc3", b"\xed\xb3\xbf", b"\xc0\x80")))


@given(st.binary(max_size=60), st.sampled_from(ENCODINGS))
def test_what_cannot_be_decoded_is_no_utf8(data: bytes, encoding: str) -> None:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        assert not is_utf8(to_utf8(data, encoding))
    else:
        if not any("\ud800" <= char <= "\udfff" for char in text):  # utf-7 can hold lone surrogates
            assert to_utf8(data, encoding) == text.encode()


@given(
    st.binary(max_size=60), st.sampled_from(["cp1252", "utf-16-le", "gb18030", "shift_jis", "cp037"]), st.integers(3, 9)
)
def test_a_stream_that_is_not_in_its_encoding(data: bytes, encoding: str, size: int) -> None:
    stream = Utf8Stream(io.BytesIO(data), encoding)

    parts = list(iter(lambda: stream.read(size), b""))

    assert is_utf8(b"".join(parts)) == is_utf8(to_utf8(data, encoding).removeprefix(b"\xef\xbb\xbf"))


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
