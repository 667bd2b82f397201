"""Pieces of many records: what stands in memory is each record's pieces joined, and nothing around them has changed."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data.example import encode_varint
from shardmill.transforms.columns.example_bytes import PieceWriter, tiles

# On both sides of each limit: items NumPy copies fast, padded values, values similar in size, copies one by one.
LENGTHS = st.sampled_from([0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 100, 127, 128, 129, 255, 256, 600, 1024, 2047, 2048, 5000])
NUMBERS = st.one_of(st.integers(0, 300), st.integers(0, 63).map(lambda bits: (1 << bits) - 1))
UNTOUCHED = 0xEE


@dataclass(frozen=True)
class Piece:
    """What `write` has the writer do, and the bytes that it adds to each row."""

    write: Callable[[PieceWriter], None]
    rows: list[bytes]


@st.composite
def pieces(draw: st.DrawFn, rows: int) -> Piece:
    kind = draw(st.sampled_from(["literal", "field", "part", "varint", "same varint", "ragged", "block"]))
    if kind == "literal":
        piece = bytes(range(draw(st.sampled_from([0, 1, 5, 30]))))
        return Piece(lambda writer: writer.write_literal(piece), [piece] * rows)
    if kind == "same varint":
        number = draw(NUMBERS)
        return Piece(lambda writer: writer.write_varint(number), [encode_varint(number)] * rows)
    if kind == "varint":
        numbers = draw(st.lists(NUMBERS, min_size=rows, max_size=rows))
        return Piece(lambda writer: writer.write_varint(np.array(numbers, np.int64)), list(map(encode_varint, numbers)))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    if kind in ("field", "part"):
        items = rng.integers(0, 200, rows).astype(draw(st.sampled_from([np.uint8, np.float32, np.uint64])))
        width = draw(st.integers(1, items.itemsize))
        if kind == "field":
            return Piece(lambda writer: writer.write_field(items, width), [item.tobytes()[:width] for item in items])
        sizes = rng.integers(0, width, rows, endpoint=True)
        return Piece(
            lambda writer: writer.write_field(items, width, sizes),
            [item.tobytes()[:size] for item, size in zip(items, sizes)],
        )
    if kind == "block":
        size = draw(LENGTHS)
        data, starts = rng.integers(0, 256, size + 3 * rows).astype(np.uint8), 3 * np.arange(rows)
        return Piece(
            lambda writer: writer.write_ragged(data, starts, size),
            [data[start : start + size].tobytes() for start in starts],
        )
    sizes = np.array(draw(st.lists(draw(st.sampled_from([LENGTHS, st.integers(0, 20)])), min_size=rows, max_size=rows)))
    data, starts = rng.integers(0, 256, int(sizes.sum())).astype(np.uint8), np.cumsum(sizes) - sizes
    expected = [data[start : start + size].tobytes() for start, size in zip(starts, sizes)]
    return Piece(lambda writer: writer.write_ragged(data, starts, sizes), expected)


@st.composite
def masked(draw: st.DrawFn, rows: int) -> Piece:
    """Some pieces, in some rows only."""
    mask = np.array(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)))
    parts = draw(st.lists(pieces(rows), max_size=3))

    def write(writer: PieceWriter) -> None:
        writer.select_rows(mask)
        for part in parts:
            part.write(writer)
        writer.select_rows(None)

    return Piece(write, [b"".join(part.rows[row] for part in parts) if mask[row] else b"" for row in range(rows)])


@given(st.data(), st.integers(1, 9), st.integers(0, 40), st.integers(0, 300))
@settings(max_examples=150, deadline=None)
def test_pieces_stand_side_by_side(data: st.DataObject, rows: int, gap: int, slack: int) -> None:
    parts = data.draw(st.lists(st.one_of(pieces(rows), masked(rows)), max_size=8))
    expected = [b"".join(part.rows[row] for part in parts) for row in range(rows)]
    sizes = np.array(list(map(len, expected)))
    starts = gap + np.cumsum(sizes + gap + slack) - (sizes + gap + slack)
    out = np.full(int(starts[-1] + sizes[-1]) + slack + gap, UNTOUCHED, np.uint8)
    writer = PieceWriter(out, starts, starts + sizes + slack)
    for part in parts:
        part.write(writer)
    writer.flush()

    assert [out[start : start + size].tobytes() for start, size in zip(starts, sizes)] == expected
    for start, size in zip(starts, sizes):
        out[start : start + size + slack] = UNTOUCHED
    assert (out == UNTOUCHED).all()


def test_more_pieces_than_a_matrix_holds() -> None:
    rows = 300
    out = np.zeros(rows * 4 * 700, np.uint8)
    starts = 4 * 700 * np.arange(rows)
    writer = PieceWriter(out, starts, starts + 4 * 700)
    for number in range(700):
        writer.write_field(np.arange(number, number + rows, dtype="<u4"), 4)
    writer.flush()

    assert (out.view("<u4").reshape(rows, 700) == np.arange(rows)[:, None] + np.arange(700)).all()


@pytest.mark.parametrize("rows", [0, 1, 9, 10, 11, 20])
def test_tiles_are_all_rows_in_their_order(rows: int) -> None:
    parts = [list(range(rows))[tile] for tile in tiles(rows, 10)]

    assert list(chain.from_iterable(parts)) == list(range(rows))
    assert all(1 <= len(part) <= 10 for part in parts)
    assert len(parts) == -(-rows // 10)
