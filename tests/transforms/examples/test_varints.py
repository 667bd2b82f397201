"""Varints of arrays: those of shardmill.data.example, one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data.example import encode_varint
from shardmill.transforms.columns.example_bytes import encode_varints, max_size, varint_widths

LIMITS = [*(1 << bits for bits in range(0, 64, 7)), (1 << 32), (1 << 64) - 1]
NUMBERS = st.one_of(
    st.integers(0, (1 << 64) - 1),
    st.integers(0, 64).map(lambda bits: (1 << bits) - 1),
    st.sampled_from(LIMITS),
)


def beginnings(items: np.ndarray, lengths: list[int]) -> list[bytes]:
    return [item.tobytes()[:length] for item, length in zip(items, lengths)]


@given(st.one_of(st.lists(NUMBERS, min_size=1, max_size=20), NUMBERS.map(lambda number: [number] * 3)))
@settings(max_examples=200, deadline=None)
def test_those_of_one_number_each(numbers: list[int]) -> None:
    values = np.array(numbers, np.uint64)
    expected = [encode_varint(number) for number in numbers]
    lengths = list(map(len, expected))
    widths = varint_widths(values)

    assert np.broadcast_to(widths, len(values)).tolist() == lengths
    assert isinstance(widths, int) == (len(set(lengths)) == 1)
    assert max_size(widths) == max(lengths)
    assert beginnings(encode_varints(values, widths), lengths) == expected


@pytest.mark.parametrize("length", range(1, 11))
def test_each_length_alone_and_beside_shorter_ones(length: int) -> None:
    first, last = 1 << 7 * (length - 1) if length > 1 else 0, min((1 << 7 * length) - 1, (1 << 64) - 1)
    alone, beside = np.array([first, last], np.uint64), np.array([0, first, 127, last], np.uint64)

    assert varint_widths(alone) == length
    assert beginnings(encode_varints(alone, length), [length] * 2) == [encode_varint(first), encode_varint(last)]
    lengths = [1, length, 1, length]
    assert beginnings(encode_varints(beside, varint_widths(beside)), lengths) == [
        encode_varint(number) for number in beside.tolist()
    ]


@given(st.lists(st.integers(0, (1 << 63) - 1), min_size=1, max_size=10))
@settings(max_examples=100, deadline=None)
def test_widths_of_signed_numbers(numbers: list[int]) -> None:
    widths = varint_widths(np.array(numbers, np.int64))

    assert np.broadcast_to(widths, len(numbers)).tolist() == [len(encode_varint(number)) for number in numbers]


@pytest.mark.parametrize("number", [0, 127, 128, 1 << 35, (1 << 64) - 1])
def test_the_width_of_one_number(number: int) -> None:
    assert varint_widths(number) == len(encode_varint(number))


def test_no_numbers() -> None:
    none = np.zeros(0, np.uint64)

    assert encode_varints(none, varint_widths(none)).shape == (0,)
