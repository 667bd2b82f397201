"""Files of lines as blocks and pieces: whatever the sizes, every byte is in one piece, under its line."""

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.metadata.manifest import Reject
from shardmill.transforms.formats import line_blocks
from shardmill.transforms.formats.format import FileRef
from shardmill.transforms.formats.line_blocks import BOM, Piece, index_lines, read_pieces
from tests.support.format_files import file_ref

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
TEXTS = st.lists(st.sampled_from([b"\n", b"\r\n", b"a", b"bcd", b"\r", b"\xff\x00", b"long " * 9]), max_size=30).map(
    b"".join
)


def pieces(file: FileRef, block_size: int, piece_size: int) -> list[Piece | Reject]:
    return [piece for block in index_lines(file, block_size) for piece in read_pieces(block, piece_size)]


def lines_of(found: list[Piece | Reject]) -> list[tuple[int, bytes]]:
    """Each line with its number."""
    lines = []
    for piece in found:
        assert isinstance(piece, Piece), piece
        lines += list(enumerate(_split(piece.data), piece.first_line))
    return lines


def _split(data: bytes) -> list[bytes]:
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


@given(TEXTS, st.integers(1, 40), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_any_sizes_give_the_same_lines(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, block_size: int, piece_size: int
) -> None:
    file = file_ref(tmp_path_factory.mktemp("lines"), data)
    blocks = list(index_lines(file, block_size))
    found = pieces(file, block_size, piece_size)

    assert lines_of(found) == list(enumerate(_split(data), 1))
    assert all(isinstance(piece, Piece) and piece.data.endswith(b"\n") for piece in found[:-1])
    assert [block.offset for block in blocks] == [sum(block.length for block in blocks[:i]) for i in range(len(blocks))]
    assert sum(block.length for block in blocks) == len(data)
    longest = max(map(len, _split(data)), default=0)
    assert all(block_size <= block.length < block_size + longest for block in blocks[:-1])
    assert [block.first_line for block in blocks] == [data[: block.offset].count(b"\n") + 1 for block in blocks]


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_byte_order_mark_is_stripped_at_the_start_of_the_file_only(tmp_path: Path, suffix: str, size: int) -> None:
    data = BOM + b"one\n" + BOM + b"two"
    file = file_ref(tmp_path, COMPRESS[suffix](data) if suffix else data, f"file.txt{suffix}")

    assert lines_of(pieces(file, size, size)) == [(1, b"one\n"), (2, BOM + b"two")]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_compressed_file_cut_short_anywhere(tmp_path: Path, suffix: str) -> None:
    data = b"".join(b"line %d of some\n" % number for number in range(1, 40))
    whole = COMPRESS[suffix](data)
    for size in range(len(whole)):
        *found, last = pieces(file_ref(tmp_path, whole[:size], f"file.txt{suffix}"), 10, 50)

        assert isinstance(last, Reject), size
        lines = lines_of(found)
        assert lines == list(enumerate(_split(data), 1))[: len(lines)]
        assert (last.source, last.line, last.stage) == (f"file.txt{suffix}", len(lines) + 1, "read")
        assert last.reason.endswith(f"; all from line {len(lines) + 1} on is lost")


def test_the_sentence_of_a_truncated_gzip_file(tmp_path: Path) -> None:
    (reject,) = pieces(file_ref(tmp_path, gzip.compress(b"text\n")[:-3], "file.txt.gz"), 10, 10)[1:]

    assert isinstance(reject, Reject)
    assert (
        reject.reason
        == "the gzip data ends too early, at byte 22 of the compressed file, after 5 bytes of contents; all from line 2"
        " on is lost"
    )


def test_a_file_that_shrank_after_it_was_indexed(tmp_path: Path) -> None:
    file = file_ref(tmp_path, b"one\ntwo\nthree\n")
    (block,) = index_lines(file, 100)
    (tmp_path / "file.txt").write_bytes(b"one\ntw")
    piece, reject = read_pieces(block, 4)

    assert isinstance(piece, Piece)
    assert piece.data == b"one\n"
    assert isinstance(reject, Reject)
    assert reject.line == 2
    assert reject.reason.startswith("ends 8 bytes earlier than it did when it was indexed")


def test_a_file_that_vanished_after_it_was_indexed(tmp_path: Path) -> None:
    file = file_ref(tmp_path, b"one\n")
    (block,) = index_lines(file, 100)
    (tmp_path / "file.txt").unlink()

    assert list(read_pieces(block, 4)) == [
        Reject(
            "file.txt",
            1,
            "read",
            "cannot be read after 0 bytes: No such file or directory; all from line 1 on is lost",
            None,
            4,
            "estimated",
        )
    ]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b" \n"])
def test_blank_lines_are_one_piece_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newline: bytes
) -> None:
    """What is done for each piece would be done for every few of a gigabyte of them."""
    monkeypatch.setattr(line_blocks, "MAX_LINES", 10)
    (piece,) = pieces(file_ref(tmp_path, newline * 1000), 1 << 20, 1 << 20)
    assert isinstance(piece, Piece)
    assert (piece.data, piece.first_line) == (newline * 1000, 1)
    assert len(pieces(file_ref(tmp_path, b"a\n" * 1000), 1 << 20, 1 << 20)) >= 100
