"""Tests of transforms/statistics/sketches.py."""

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from shardmill.quality.stats_values import SAMPLE_SIZE, Bucket
from shardmill.transforms.statistics import sketches as sketching

GENERATOR = np.random.default_rng(0)
SAMPLES: dict[str, Any] = {
    "normal": GENERATOR.normal(size=50_000).astype(np.float32),
    "skewed": np.exp(3 * GENERATOR.normal(size=50_000)).astype(np.float32),
    "times": 1_700_000_000 + GENERATOR.integers(0, 40_000_000, 50_000),
    "few": GENERATOR.integers(-5, 6, 50_000),
    "mostly zero": np.where(GENERATOR.random(50_000) < 0.9, 0, GENERATOR.normal(size=50_000)).astype(np.float32),
    "outlier": np.append(GENERATOR.normal(size=50_000), 1e30).astype(np.float32),
    "any bits": GENERATOR.integers(0, 0x7F7FFFFF, 50_000, dtype=np.uint32).view(np.float32)
    * GENERATOR.choice([-1, 1], 50_000).astype(np.float32),
    "huge": GENERATOR.integers(-(1 << 63), (1 << 63) - 1, 50_000),
    "denormal": GENERATOR.integers(0, 1 << 20, 50_000, dtype=np.uint32).view(np.float32),
}
PERCENTS = [1, 5, 25, 50, 75, 95, 99]


def bins_of(*parts: np.ndarray) -> sketching.ValueBins:
    """Counted part after part."""
    bins = sketching.ValueBins()
    for part in parts:
        bins.add(*np.unique(part.astype(np.float64) + 0.0, return_counts=True))
    return bins


@pytest.mark.parametrize("name", SAMPLES)
def test_bins_are_as_narrow_as_2048_allow_and_hold_their_numbers(name: str) -> None:
    bins, numbers = bins_of(SAMPLES[name]), np.sort(SAMPLES[name].astype(np.float64) + 0.0)
    # What one bit more would have cost, from the numbers themselves.
    bits = np.unique(numbers.view(np.uint64))
    occupied = [1 + np.count_nonzero(np.diff(bits >> np.uint64(shift))) for shift in range(64)]
    assert len(bins.keys) == occupied[bins.shift] <= sketching.MAX_BINS
    assert bins.shift == 0 or occupied[bins.shift - 1] > sketching.MAX_BINS
    assert bins.counts.sum() == len(numbers)

    low, high = bins.edges()
    bounds = np.cumsum(bins.counts)
    for first, last, lowest, highest in zip([0, *bounds[:-1]], bounds - 1, low, high):
        assert lowest <= numbers[first] <= numbers[last] <= highest
        if bins.shift and (lowest or highest):  # on a border, the bin farther from zero has it
            assert numbers[last] < highest if numbers[last] >= 0 else lowest < numbers[first]
    assert (low[1:] >= high[:-1]).all()

    found = [(low[index] + high[index]) / 2 for index in bins.percentile_bins(PERCENTS)]
    expected = np.percentile(numbers, PERCENTS, method="inverted_cdf")
    assert found == pytest.approx(expected, rel=2 * bins.relative_error(), abs=0)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("normal", 0.008),
        ("skewed", 0.008),
        ("times", 2e-5),
        ("few", 0),
        ("huge", 0.008),
        ("outlier", 0.008),
        ("any bits", 0.25),
    ],
)
def test_errors(name: str, error: float) -> None:
    assert bins_of(SAMPLES[name]).relative_error() <= error


@pytest.mark.parametrize("name", SAMPLES)
def test_histograms(name: str) -> None:
    numbers, buckets = SAMPLES[name].astype(np.float64), bins_of(SAMPLES[name]).buckets()

    assert 1 < len(buckets) <= sketching.MAX_BUCKETS
    assert sum(bucket.count for bucket in buckets) == len(numbers)
    for bucket in buckets:
        inside = (numbers >= bucket.low) & (numbers <= bucket.high)
        borders = (numbers == bucket.low) | (numbers == bucket.high)
        assert inside.sum() - borders.sum() <= bucket.count <= inside.sum()


def test_a_histogram_of_few_numbers_has_each() -> None:
    assert bins_of(np.array([3, -1, 3, 7])).buckets() == [Bucket(-1, -1, 1), Bucket(3, 3, 2), Bucket(7, 7, 1)]
    most = bins_of(np.append(np.arange(sketching.MAX_BUCKETS - 1), 1000)).buckets()
    assert [bucket.count for bucket in most] == [1] * sketching.MAX_BUCKETS
    assert bins_of(np.array([])).buckets() == []
    with np.errstate(all="raise"):  # numbers that are one float64
        assert sum(bucket.count for bucket in bins_of(np.arange(60) + 10**18).buckets()) == 60


def test_a_histogram_is_even_unless_one_bucket_would_hold_over_half() -> None:
    widths = [bucket.high - bucket.low for bucket in bins_of(SAMPLES["times"]).buckets()]
    counts = [bucket.count for bucket in bins_of(SAMPLES["skewed"]).buckets()]

    assert max(widths) < 1.2 * min(widths)
    assert max(counts) < 1.2 * min(counts)


INTEGERS = st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-100, 100), min_size=1, max_size=50)
FLOATS = arrays.arrays(
    np.float32, st.integers(1, 50), elements=st.floats(allow_nan=False, allow_infinity=False, width=32)
)


def sums_of(values: list[int] | np.ndarray) -> sketching.ExactSums:
    if isinstance(values, list):
        sums = sketching.ExactSums()
        sums.add_integers(np.array(values, np.int64))
    else:
        sums = sketching.ExactSums(sketching.FLOAT32_FRACTION_BITS)
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


def check(sums: sketching.ExactSums, values: list[Fraction]) -> None:
    mean = sum(values, Fraction(0)) / len(values)
    variance = sum((value**2 for value in values), Fraction(0)) / len(values) - mean**2

    assert sums.count == len(values)
    assert sums.mean() == float(mean)
    assert sums.std_dev() == nearest_root(variance)


@given(INTEGERS)
def test_integers(values: list[int]) -> None:
    sums = sums_of(values)

    assert (sums.total, sums.squares) == (sum(values), sum(value * value for value in values))
    check(sums, [Fraction(value) for value in values])


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


def test_sums_of_integers_and_of_floats_do_not_mix() -> None:
    with pytest.raises(ValueError, match=r"2\*\*-0 cannot take sums in units of 2\*\*-149"):
        sketching.ExactSums().merge(sketching.ExactSums(sketching.FLOAT32_FRACTION_BITS))


VALUES = st.lists(st.binary(max_size=300) | st.binary(max_size=2), max_size=30)


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=20))
def test_mixed_integers_come_back(values: list[int]) -> None:
    numbers = np.array(values, np.uint64)

    assert sketching.unmix(sketching.mix(numbers)).tolist() == values


@given(VALUES, st.integers(0, 10), st.integers(0, 10))
def test_a_hash_is_xxh3_of_the_value_alone(values: list[bytes], skip: int, length: int) -> None:
    array = pa.array(values, pa.large_binary())
    expected = [xxhash.xxh3_64_intdigest(value) for value in values]

    assert sketching.hash_bytes(array).tolist() == expected
    assert sketching.hash_bytes(array.slice(skip, length)).tolist() == expected[skip : skip + length]


def test_hashes_never_change() -> None:
    """Statistics of parts that were made by different versions are merged."""
    assert sketching.mix(np.array([0, 1, 2**63], np.uint64)).tolist() == [0, 6238072750845405662, 2720858780677600448]


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
    """All differ, and are as even over 256 parts of their range as random numbers: a chi-squared of at most 7
    deviations."""
    hashes = sketching.mix(SERIES[name].astype(np.int64).view(np.uint64))
    counts = np.bincount((hashes >> np.uint64(56)).astype(np.int64), minlength=256)
    expected = len(hashes) / 256

    assert len(np.unique(hashes)) == len(hashes)
    assert ((counts - expected) ** 2 / expected).sum() < 255 + 7 * np.sqrt(2 * 255)
    smallest = np.sort(hashes)[1023]  # what distinct values are estimated from
    assert 1023 * 2**64 / float(smallest) == pytest.approx(len(hashes), rel=0.15)


def hashes_of(numbers: np.ndarray) -> np.ndarray:
    return sketching.mix(numbers.astype(np.uint64))


def distinct_of(*parts: np.ndarray) -> sketching.DistinctValues:
    """Counted part after part."""
    sketch = sketching.DistinctValues()
    for part in parts:
        sketch.add(*np.unique(hashes_of(part), return_counts=True))
    return sketch


def sample_of(*parts: np.ndarray) -> sketching.Sample:
    sample = sketching.Sample()
    for part in parts:
        sample.add(*part)
    return sample


def same(one: sketching.DistinctValues | sketching.Sample, other: sketching.DistinctValues | sketching.Sample) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in one.__slots__)


@pytest.mark.parametrize("kinds", [0, 1, 2, sketching.HASHES_KEPT - 1, sketching.HASHES_KEPT])
def test_up_to_1024_values_are_counted(kinds: int) -> None:
    numbers = np.arange(3 * kinds) % max(kinds, 1)
    sketch = distinct_of(numbers[::2], numbers[1::2])

    assert sketch.counts is not None
    assert dict(zip(sketch.hashes.tolist(), sketch.counts.tolist())) == Counter(hashes_of(numbers).tolist())
    assert (sketch.number(), sketch.relative_error()) == (kinds, 0)


@pytest.mark.parametrize("kinds", [sketching.HASHES_KEPT + 1, 2 * sketching.HASHES_KEPT, 10_000, 1_000_000])
def test_more_values_are_estimated_within_four_standard_errors(kinds: int) -> None:
    sketch = distinct_of(np.arange(kinds), np.arange(kinds // 2))

    assert sketch.counts is None
    assert len(sketch.hashes) == sketching.HASHES_KEPT
    assert sketch.relative_error() == pytest.approx(0.0313, abs=1e-4)
    assert sketch.number() == pytest.approx(kinds, rel=4 * sketch.relative_error())


def test_hashes_of_many_values_may_repeat() -> None:
    hashes = hashes_of(np.arange(60_000) % 1500)
    sketch = sketching.DistinctValues()
    sketch.add(hashes, None)

    assert same(sketch, distinct_of(np.arange(1500)))


@settings(max_examples=40)
@given(
    st.integers(0, 5000), st.sampled_from([3, 2000, 1 << 62]), st.lists(st.integers(0, 5000), max_size=4), st.booleans()
)
def test_a_sample_of_parts_in_any_order(size: int, ties: int, cuts: list[int], backwards: bool) -> None:
    """Even where ties are equal, or not spread at all."""
    generator = np.random.default_rng(size)
    offered = np.stack([generator.integers(0, ties, size), generator.integers(0, 50, size)]).astype(np.uint64)
    pieces = np.split(offered, sorted(cuts), axis=1)
    whole, merged = sample_of(offered), sketching.Sample()
    for piece in pieces[::-1] if backwards else pieces:
        merged.merge(sample_of(piece))

    assert sorted(zip(whole.ties.tolist(), whole.hashes.tolist())) == sorted(zip(*offered.tolist()))[:SAMPLE_SIZE]
    assert same(merged, whole)
    assert same(sample_of(*pieces), whole)


def test_a_sample_has_values_as_often_as_there_are() -> None:
    values = np.arange(100_000) % 10
    sample = sample_of(np.stack([hashes_of(np.arange(100_000)), values.astype(np.uint64)]))

    assert np.bincount(sample.hashes.astype(np.int64)) == pytest.approx(SAMPLE_SIZE / 10, abs=50)


@pytest.mark.parametrize(("values", "starts"), [([], []), ([5], [0]), ([1, 1, 2, 3, 3], [0, 2, 3])])
def test_runs(values: list[int], starts: list[int]) -> None:
    assert sketching.run_starts(np.array(values)).tolist() == starts
