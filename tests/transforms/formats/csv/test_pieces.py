"""A CSV text read forwards: its head, and pieces of whole records."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.errors import UserError
from shardmill.transforms.formats import csv_parse as csv_pieces
from shardmill.transforms.formats.conventions import Dialect
from shardmill.transforms.formats.csv_parse import (
    MAX_PIECE,
    CsvPiece,
    Head,
    LostRecords,
    check_length,
    read_head,
    read_pieces,
    read_ranges,
    split_piece,
)
from shardmill.transforms.formats.csv_scan import find_records, line_ends
from shardmill.transforms.stores.streams import TruncatedError

CSV = Dialect()
NOTHING = Head(b"", 1, 0, 1, b"")
RAW = st.lists(
    st.sampled_from([b'"', b'""', b",", b"\n", b"\r\n", b"\r", b"a", b',"', b'",', b'"\n']), max_size=40
).map(b"".join)


class Dribble:
    """A stream that gives a few bytes at a time, whatever it is asked for, and perhaps fails at the end."""

    def __init__(self, data: bytes, size: int, fails: bool = False) -> None:
        self._data, self._size, self._fails = io.BytesIO(data), size, fails

    def read(self, size: int, /) -> bytes:
        data = self._data.read(min(size, self._size))
        if self._fails and not data:
            raise TruncatedError("cut")
        return data


@pytest.mark.parametrize(
    ("text", "head"),
    [
        (b"", Head(b"", 1, 0, 1, b"")),
        (b"\n\r\n", Head(b"", 3, 3, 3, b"")),
        (b"a", Head(b"a", 1, 1, 1, b"")),
        (b"a\nb", Head(b"a\n", 1, 2, 2, b"b")),
        (b"a\r\nb", Head(b"a\r\n", 1, 3, 2, b"b")),
        (b"a\r", Head(b"a\r", 1, 2, 2, b"")),
        (b'\r\n\n"a\n"\n\nb', Head(b'"a\n"\n', 3, 8, 5, b"\nb")),
    ],
)
def test_head(text: bytes, head: Head) -> None:
    assert read_head(io.BytesIO(text), CSV, "a.csv") == head


@given(RAW, st.integers(1, 5))
def test_the_head_does_not_depend_on_how_it_is_read(text: bytes, size: int) -> None:
    def head(stream: Dribble) -> tuple[object, ...]:
        try:
            found = read_head(stream, CSV, "a.csv")
        except UserError as error:
            return (str(error),)
        return found.record, found.line, found.stop, found.next_line

    assert head(Dribble(text, size)) == head(Dribble(text, 1000))


@given(RAW, st.integers(1, 9), st.integers(0, 9), st.integers(1, 9))
def test_ranges_hold_the_text(text: bytes, size: int, rest: int, dribble: int) -> None:
    found = list(read_ranges(Dribble(text[rest:], dribble), CSV, size, 100, text[:rest]))

    assert b"".join(data for data, _ in found) == text
    assert [part.stop for _, part in found] == [
        100 + sum(len(data) for data, _ in found[: n + 1]) for n in range(len(found))
    ]


@given(RAW, st.integers(1, 9))
def test_pieces_are_whole_records(text: bytes, size: int) -> None:
    try:
        found = list(read_pieces(io.BytesIO(text), CSV, size, "a.csv", NOTHING))
    except UserError as error:
        assert str(error).startswith("a.csv, line ")  # noqa: PT017
        return

    whole = find_records(text, CSV)
    lines = dict(zip(whole.starts.tolist(), (whole.lines + 1).tolist()))
    at = 0
    for piece in found:
        assert isinstance(piece, CsvPiece)
        assert lines[at] == piece.line
        at += len(piece.text)
    assert b"".join(piece.text for piece in found if isinstance(piece, CsvPiece)) == text


@given(RAW, st.integers(1, 9))
def test_what_is_lost(text: bytes, size: int) -> None:
    *pieces, lost = read_pieces(Dribble(text, size, fails=True), CSV, size, "a.csv", NOTHING)

    assert isinstance(lost, LostRecords)
    assert str(lost.error) == "cut"
    kept = b"".join(piece.text for piece in pieces if isinstance(piece, CsvPiece))
    assert text.startswith(kept)
    assert lost.line == len(line_ends(kept)) + 1


@given(RAW, st.integers(1, 9))
@settings(max_examples=200, deadline=None)
def test_pieces_of_few_lines_are_the_same_records(text: bytes, most: int) -> None:
    whole = find_records(text, CSV)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_pieces, "MAX_LINES", most)
        try:
            found = list(split_piece(CsvPiece(text, 5), CSV, "a.csv"))
        except UserError as error:
            assert "is never closed" in str(error)  # noqa: PT017
            return

    lines = dict(zip(whole.starts.tolist(), (whole.lines + 5).tolist()))
    at = 0
    for piece in found:
        assert lines[at] == piece.line if text else piece.line == 5
        at += len(piece.text)
        of_piece = find_records(piece.text, CSV)
        assert (
            len(line_ends(piece.text)) <= 3 * most
            or of_piece.is_blank.all()
            or len(of_piece.starts) < len(line_ends(piece.text))
        )
    assert b"".join(piece.text for piece in found) == text


def test_blank_lines_before_the_header_are_read_little_by_little() -> None:
    sizes: list[int] = []

    class Watched(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            sizes.append(size or 0)
            return super().read(size)

    text = b"\n\r\n" * 2_000_000

    assert read_head(Watched(text + b"a,b\n"), CSV, "a.csv").line == 4_000_001
    assert max(sizes) <= 2 << 20


def test_lines_that_end_in_cr_are_not_held_back() -> None:
    assert max(len(data) for data, _ in read_ranges(io.BytesIO(b"\r" * 1000), CSV, 10, 0)) <= 11


def test_a_piece_that_is_too_long() -> None:
    check_length(MAX_PIECE, 1, "a.csv")
    with pytest.raises(UserError, match=r"^a.csv, line 7: 2,147,418,113 bytes cannot be parsed at once"):
        check_length(MAX_PIECE + 1, 7, "a.csv")


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_blank_lines_are_one_piece_however_many_there_are(monkeypatch: pytest.MonkeyPatch, newline: bytes) -> None:
    monkeypatch.setattr(csv_pieces, "MAX_LINES", 10)
    (piece,) = split_piece(CsvPiece(newline * 1000, 1), CSV, "a.csv")
    assert (piece.text, piece.line) == (newline * 1000, 1)
    assert len(list(split_piece(CsvPiece(b"a\n" * 1000, 1), CSV, "a.csv"))) >= 50
