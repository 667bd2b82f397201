"""Spans of a buffer come out as they are, however many, however long."""

import numpy as np
import pyarrow as pa
import pytest

from transforms.byte_pieces import cut_pieces


@pytest.mark.parametrize("longest", [0, 1, 100, 2_000, 70_000])
def test_spans_with_gaps(longest: int) -> None:
    rng = np.random.default_rng(longest)
    sizes = rng.integers(0, longest, 500, endpoint=True)
    ends = np.cumsum(sizes + rng.integers(0, 9, 500))
    data = rng.bytes(int(ends[-1]))

    cut = list(cut_pieces(pa.py_buffer(data), ends - sizes, ends))

    expected = [data[end - size : end] for size, end in zip(sizes.tolist(), ends.tolist())]
    assert [bytes(piece) for _, pieces in cut for piece in pieces] == expected
    assert [row for rows, _ in cut for row in range(*rows.indices(500))] == list(range(500))


def test_nothing() -> None:
    assert list(cut_pieces(None, np.zeros(0, np.int64), np.zeros(0, np.int64))) == []
