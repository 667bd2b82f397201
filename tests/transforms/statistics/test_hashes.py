"""Hashes of values: the same for a value wherever it stands, spread evenly, and, of integers, invertible."""

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.transforms.statistics.sketches import hash_bytes, mix, unmix

VALUES = st.lists(st.binary(max_size=80) | st.binary(min_size=0, max_size=2), max_size=30)


def hashes_of(values: list[bytes]) -> list[int]:
    return hash_bytes(pa.array(values, pa.large_binary())).tolist()


@settings(deadline=None)
@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=20))
def test_mixed_integers_come_back(values: list[int]) -> None:
    numbers = np.array(values, np.uint64)

    assert unmix(mix(numbers)).tolist() == values


@settings(deadline=None)
@given(VALUES, st.integers(0, 10), st.integers(0, 10))
def test_a_hash_is_that_of_the_value_alone(values: list[bytes], skip: int, length: int) -> None:
    alone = [hashes_of([value])[0] for value in values]

    assert hashes_of(values) == alone
    assert hash_bytes(pa.array(values, pa.large_binary()).slice(skip, length)).tolist() == alone[skip : skip + length]


@settings(deadline=None)
@given(st.sets(st.binary(max_size=80) | st.binary(max_size=20).map(lambda value: value + bytes(8)), max_size=50))
def test_values_differ_by_hash(values: set[bytes]) -> None:
    assert len(set(hashes_of(list(values)))) == len(values)


@pytest.mark.parametrize("long", [1, 8, 20, 64, 65, 200])
@pytest.mark.parametrize("short", [0, 3, 40])
def test_few_long_values_among_short_ones(long: int, short: int) -> None:
    values = [bytes([number % 256]) * (long if number % 7 == 0 else short) for number in range(20_000)]

    assert hashes_of(values)[:1000] == [hashes_of([value])[0] for value in values[:1000]]
    assert hashes_of(values)[-1000:] == [hashes_of([value])[0] for value in values[-1000:]]


def test_zeros_words_and_their_order_count() -> None:
    values = [bytes(length) for length in range(100)] + [b"a" * 8 + b"b" * 8, b"b" * 8 + b"a" * 8, b"a" * 16, b"b" * 16]

    assert len(set(hashes_of(values))) == len(values)


def test_hashes_never_change() -> None:
    """Statistics of parts that were made by different versions are merged."""
    assert mix(np.array([0, 1, 2**63], np.uint64)).tolist() == [0, 6238072750845405662, 2720858780677600448]
    values = [b"", b"rose", b"forget-me-not", b"x" * 100]
    assert hashes_of(values) == [xxhash.xxh3_64_intdigest(value) for value in values]


SERIES = {
    "ascending": np.arange(100_000),
    "thousands": np.arange(100_000) * 1000,
    "times": 1_700_000_000_000_000_000 + np.arange(100_000) * 60_000_000_000,
    "powers": np.arange(100_000) << 40,
    "negative": -np.arange(100_000),
    "floats": np.arange(100_000).astype(np.float32).view(np.uint32),
    "fractions": (np.arange(100_000) / 1000).astype(np.float32).view(np.uint32),
}


@pytest.mark.parametrize("name", SERIES)
def test_regular_numbers_spread_evenly(name: str) -> None:
    check_even(mix(SERIES[name].astype(np.int64).view(np.uint64)))


@pytest.mark.parametrize(
    "form", ["{}", "{:08d}", "user-{}", "{:020d}", "{:x}", "https://example.com/images/{}.jpg", "{:>70}"]
)
def test_regular_strings_spread_evenly(form: str) -> None:
    check_even(np.array(hashes_of([form.format(number).encode() for number in range(100_000)]), np.uint64))


def check_even(hashes: np.ndarray) -> None:
    """All different, and as even over 256 parts of their range as random numbers: a chi-squared of at most 7
    deviations."""
    counts = np.bincount((hashes >> np.uint64(56)).astype(np.int64), minlength=256)
    expected = len(hashes) / 256

    assert len(np.unique(hashes)) == len(hashes)
    assert ((counts - expected) ** 2 / expected).sum() < 255 + 7 * np.sqrt(2 * 255)
    smallest = np.sort(hashes)[1023]  # what distinct values are estimated from
    assert 1023 * 2**64 / float(smallest) == pytest.approx(len(hashes), rel=0.15)
