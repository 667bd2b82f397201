"""Bins against the numbers they count: any parts in any order give the same, and no quantile is further off than they
say."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.quality.stats_values import Bucket
from shardmill.transforms.statistics.sketches import MAX_BINS, MAX_BUCKETS, ValueBins

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


def bins_of(*parts: np.ndarray) -> ValueBins:
    """Counted part after part."""
    bins = ValueBins()
    for part in parts:
        bins.add(*np.unique(part.astype(np.float64) + 0.0, return_counts=True))
    return bins


def same(one: ValueBins, other: ValueBins) -> bool:
    return (
        one.shift == other.shift and np.array_equal(one.keys, other.keys) and np.array_equal(one.counts, other.counts)
    )


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(sorted(SAMPLES)),
    st.sampled_from([0, 1, 100, MAX_BINS, MAX_BINS + 1, 9000, 50_000]),
    st.lists(st.integers(0, 50_000), max_size=5),
    st.randoms(use_true_random=False),
)
def test_parts_in_any_order(name: str, size: int, cuts: list[int], order: Any) -> None:
    numbers = SAMPLES[name][:size]
    pieces = np.split(numbers, sorted(cuts))
    order.shuffle(pieces)
    merged = ValueBins()
    for piece in pieces:
        merged.merge(bins_of(piece))

    assert same(bins_of(*pieces), bins_of(numbers))
    assert same(merged, bins_of(numbers))


@pytest.mark.parametrize("name", SAMPLES)
def test_as_narrow_as_2048_bins_allow(name: str) -> None:
    bins = bins_of(SAMPLES[name])
    # What one bit more would have cost, from the numbers themselves.
    bits = np.unique((SAMPLES[name].astype(np.float64) + 0.0).view(np.uint64))
    occupied = [1 + np.count_nonzero(np.diff(bits >> np.uint64(shift))) for shift in range(64)]

    assert len(bins.keys) == occupied[bins.shift] <= MAX_BINS
    assert bins.shift == 0 or occupied[bins.shift - 1] > MAX_BINS
    assert bins.counts.sum() == len(SAMPLES[name])


@pytest.mark.parametrize("name", SAMPLES)
def test_edges_hold_the_numbers(name: str) -> None:
    bins, numbers = bins_of(SAMPLES[name]), np.sort(SAMPLES[name].astype(np.float64))
    low, high = bins.edges()
    bounds = np.cumsum(bins.counts)

    for first, last, lowest, highest in zip([0, *bounds[:-1]], bounds - 1, low, high):
        assert lowest <= numbers[first] <= numbers[last] <= highest
        if bins.shift and (lowest or highest):  # on a border, the bin farther from zero has it
            assert numbers[last] < highest if numbers[last] >= 0 else lowest < numbers[first]
    assert (low[1:] >= high[:-1]).all()


@pytest.mark.parametrize("name", SAMPLES)
def test_quantiles(name: str) -> None:
    bins, numbers = bins_of(SAMPLES[name]), SAMPLES[name].astype(np.float64)
    low, high = bins.edges()
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

    assert 1 < len(buckets) <= MAX_BUCKETS
    assert sum(bucket.count for bucket in buckets) == len(numbers)
    for bucket in buckets:
        inside = (numbers >= bucket.low) & (numbers <= bucket.high)
        borders = (numbers == bucket.low) | (numbers == bucket.high)
        assert inside.sum() - borders.sum() <= bucket.count <= inside.sum()


def test_a_histogram_of_few_numbers_has_each() -> None:
    assert bins_of(np.array([3, -1, 3, 7])).buckets() == [Bucket(-1, -1, 1), Bucket(3, 3, 2), Bucket(7, 7, 1)]
    assert bins_of(np.array([])).buckets() == []


def test_a_histogram_is_even_unless_one_bucket_would_hold_over_half() -> None:
    widths = [bucket.high - bucket.low for bucket in bins_of(SAMPLES["times"]).buckets()]
    counts = [bucket.count for bucket in bins_of(SAMPLES["skewed"]).buckets()]

    assert max(widths) < 1.2 * min(widths)
    assert max(counts) < 1.2 * min(counts)


@pytest.mark.parametrize(("percent", "index"), [(1, 0), (25, 0), (26, 1), (50, 1), (75, 2), (76, 3), (99, 3)])
def test_ranks(percent: int, index: int) -> None:
    assert bins_of(np.array([1, 2, 3, 4])).percentile_bins([percent]) == [index]
