"""Arrow arrays: their buffers, codes in few bytes, and texts that hold several values."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from shardmill.transforms.columns.arrow import data_of, narrow_codes, offsets_of, split_text, split_texts, text_buffers


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


@pytest.mark.parametrize(("groups", "size"), [(0, 1), (1, 1), (256, 1), (257, 2), (1 << 16, 2), ((1 << 16) + 1, 4)])
def test_codes_stay_and_take_as_few_bytes_as_hold_them(groups: int, size: int) -> None:
    codes = np.array([0, groups - 1] if groups else [], np.int64)

    assert narrow_codes(codes, groups).tolist() == codes.tolist()
    assert narrow_codes(codes, groups).itemsize == size


def test_parts_are_stripped_and_none_is_empty() -> None:
    assert split_text(" red; green;;\t; red", ";") == ["red", "green", "red"]
    assert split_text("a, b and c", " and ") == ["a, b", "c"]
    assert split_text("", ";") == split_text(" ; ", ";") == []


def test_texts_are_split_where_they_stand() -> None:
    texts = pa.array([b"b;a", None, b"", b"b;a", b"\xff;\xc3\xa4"], pa.large_binary()).slice(1)

    lists = split_texts(texts, ";")

    assert lists.to_pylist() == [[], [], [b"b", b"a"], [b"\xff", "ä".encode()]]
    assert lists.type == pa.large_list(pa.large_binary())
    assert split_texts(texts[:0], ";").to_pylist() == []
