"""Sums without rounding, against Python's own integers and fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from shardmill.transforms.statistics.sketches import FLOAT32_FRACTION_BITS, ExactSums

INTEGERS = st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-100, 100), min_size=1, max_size=50)
FLOATS = arrays.arrays(
    np.float32, st.integers(1, 50), elements=st.floats(allow_nan=False, allow_infinity=False, width=32)
)


def sums_of(values: list[int] | np.ndarray) -> ExactSums:
    if isinstance(values, list):
        sums = ExactSums()
        sums.add_integers(np.array(values, np.int64))
    else:
        sums = ExactSums(FLOAT32_FRACTION_BITS)
        sums.add_floats(values)
    return sums


def nearest_root(square: Fraction) -> float:
    """The float nearest to the root: of the neighbours of an approximation, by exact comparison with what lies between
    them."""
    scale = 1 << 1100
    guess = math.isqrt(square.numerator * scale**2 // square.denominator) / scale
    for low in (math.nextafter(guess, 0), guess):
        high = math.nextafter(low, math.inf)
        if Fraction(low) ** 2 <= square <= Fraction(high) ** 2:
            return low if square < ((Fraction(low) + Fraction(high)) / 2) ** 2 else high
    raise AssertionError(f"no root of {square}")


def check(sums: ExactSums, values: list[Fraction]) -> None:
    mean = sum(values, Fraction(0)) / len(values)
    variance = sum((value**2 for value in values), Fraction(0)) / len(values) - mean**2

    assert sums.count == len(values)
    assert sums.mean() == float(mean)
    assert sums.std_dev() == nearest_root(variance)


@settings(deadline=None)
@given(INTEGERS)
def test_integers(values: list[int]) -> None:
    sums = sums_of(values)

    assert (sums.total, sums.squares) == (sum(values), sum(value * value for value in values))
    check(sums, [Fraction(value) for value in values])


@settings(deadline=None)
@given(FLOATS)
def test_floats(values: np.ndarray) -> None:
    check(sums_of(values), [Fraction(value) for value in values.tolist()])


@pytest.mark.parametrize("size", [100_000, 65_537])
def test_no_sum_overflows(size: int) -> None:
    lowest, largest = -(1 << 63), np.finfo(np.float32).max

    assert sums_of([lowest] * size).squares == size << 126
    assert sums_of([(1 << 63) - 1] * size).total == size * ((1 << 63) - 1)
    assert sums_of(np.full(size, largest)).std_dev() == 0
    assert sums_of(np.full(size, -largest)).mean() == -float(largest)


def test_many_floats_of_all_sizes_sum_as_fsum_does() -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 32, 200_000, dtype=np.uint32)
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    sums = sums_of(np.sort(values))

    assert sums == sums_of(values)  # in any order
    assert sums.mean() == pytest.approx(math.fsum(values.tolist()) / len(values), rel=1e-15)
    assert sums.squares == pytest.approx(math.fsum((values.astype(np.float64) ** 2).tolist()) * 2.0**298, rel=1e-15)


def test_no_digits_cancel() -> None:
    assert sums_of([10**18, 10**18 + 2]).std_dev() == 1
    assert sums_of(np.array([2**24 - 1, 2**24 - 3], np.float32)).std_dev() == 1
    assert sums_of(np.array([1e-45, -1e-45], np.float32)).std_dev() == 2.0**-149


@settings(deadline=None)
@given(INTEGERS, INTEGERS)
def test_merging_adds(one: list[int], other: list[int]) -> None:
    merged = sums_of(one)
    merged.merge(sums_of(other))

    assert merged == sums_of(one + other)


def test_sums_of_integers_and_of_floats_do_not_mix() -> None:
    with pytest.raises(ValueError, match=r"2\*\*-0 cannot take sums in units of 2\*\*-149"):
        ExactSums().merge(ExactSums(FLOAT32_FRACTION_BITS))
