"""The buffers of Arrow arrays: of slices too, of any width, and of no rows at all."""

from itertools import pairwise

import pyarrow as pa
import pytest

from shardmill.transforms.columns.arrow import data_of, offsets_of, text_buffers


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_text_buffers(kind: pa.DataType) -> None:
    codes, offsets = text_buffers(pa.array([b"x", b"ab", b"", b"c"], kind)[1:])

    assert (codes.tobytes(), offsets.tolist()) == (b"abc", [0, 2, 2, 3])
    assert text_buffers(pa.array([], kind))[1].tolist() == [0]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()])
def test_offsets_lie_in_the_data(kind: pa.DataType) -> None:
    array = pa.array(["x", "ab", "", "c"], kind)[1:]
    offsets, data = offsets_of(array), data_of(array).tobytes()

    assert [data[start:stop] for start, stop in pairwise(offsets)] == [b"ab", b"", b"c"]


def test_offsets_of_lists_and_of_no_rows() -> None:
    assert offsets_of(pa.array([[1], [2, 3]], pa.list_(pa.int64()))).tolist() == [0, 1, 3]
    assert offsets_of(pa.array([[1], [2, 3]], pa.large_list(pa.int64()))[1:]).tolist() == [1, 3]
    assert offsets_of(pa.Array.from_buffers(pa.large_binary(), 0, [None, None, pa.py_buffer(b"")])).tolist() == [0]
