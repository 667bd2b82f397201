"""Distances: hand-computed values, and the cases of tensorflow_data_validation/anomalies/metrics_test.cc."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.quality.distances import (
    Frequencies,
    Histogram,
    Interval,
    jensen_shannon,
    jensen_shannon_lower_bound,
    jensen_shannon_of_counts,
    l_infinity_lower_bound,
)


def histogram(*buckets: tuple[float, float, float], apart: float = 0.0) -> Histogram:
    return Histogram(tuple(Interval(*bucket) for bucket in buckets), nan_count=apart)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({}, {}, ("", 0.0)),
        ({"hello": 1, "world": 9}, {"hello": 3, "world": 7}, ("hello", 0.2)),
        ({"b": 0.9, "c": 0.1}, {"a": 0.3, "b": 0.7}, ("a", 0.3)),
        ({"a": 0.3, "b": 0.7}, {"b": 0.9, "c": 0.1}, ("a", 0.3)),
        ({"a": 1}, {"b": 5}, ("a", 1.0)),
    ],
)
def test_l_infinity_is_that_of_tfdv(
    one: dict[str, float], other: dict[str, float], expected: tuple[str, float]
) -> None:
    value, distance = l_infinity_lower_bound(*(Frequencies(counts, sum(counts.values())) for counts in (one, other)))

    assert distance == pytest.approx(expected[1])
    assert value == expected[0] or expected[1] == pytest.approx(0.2)  # of two values, either


def test_values_that_are_not_on_record_are_taken_to_be_as_in_the_other() -> None:
    one = Frequencies({"a": 50, "b": 30}, 100, unseen=10)
    other = Frequencies({"a": 50, "c": 15}, 100, unseen=15)

    # "b" is not on record in the other: 15 of 100 at most; "c" is not in the first: at most 10.
    value, distance = l_infinity_lower_bound(one, other)
    assert value == "b"
    assert distance == pytest.approx(0.15)


TFDV = [
    (histogram((1, 2, 2), (2, 3, 2)), histogram((2, 4, 2), (4, 6, 2)), 0.65563906222),
    (histogram((0, 1, 2), (1, 2, 2)), histogram((3, 4, 2), (4, 6, 2)), 1.0),
    (histogram((1, 1, 4)), histogram((2, 4, 2), (4, 6, 2)), 1.0),
    (histogram((1, 1, 4)), histogram((2.33, 2.33, 4)), 1.0),
    (histogram((10, 10, 21)), histogram((0, 4, 150), (4, 12, 200), (12, 20, 20)), 1.0),
    (histogram(apart=1), histogram(apart=1), 1.0),
    (histogram((1, 2, 3), apart=1), histogram((1, 2, 4)), 0.13792538096),
    (histogram((0, 0, 1), (1, 1, 1)), histogram((0, 0, 1), (2, 2, 1)), 0.5),
    (histogram((0, 0, 1), (1, 2, 1)), histogram((1, 1, 1), (2, 2, 1)), 1.0),
    (
        histogram((-math.inf, 0, 1), (math.inf, math.inf, 1)),
        histogram((-math.inf, 0, 1), (math.inf, math.inf, 1)),
        1.0,
    ),
    (histogram((1, 2.5, 3), (2.5, 5, 2)), histogram((1, 2.5, 3), (2.5, 5, 2)), 0.0),
]


@pytest.mark.parametrize(("one", "other", "expected"), TFDV)
def test_jensen_shannon_is_that_of_tfdv(one: Histogram, other: Histogram, expected: float) -> None:
    assert jensen_shannon(one, other) == pytest.approx(expected, abs=1e-9)
    assert jensen_shannon(other, one) == pytest.approx(expected, abs=1e-9)


def test_the_divergence_of_ranked_values_is_that_of_tfdv() -> None:
    assert jensen_shannon_of_counts([2, 2, 1, 0, 0, 0], [2, 0, 0, 1, 1, 1]) == pytest.approx(0.6)


@pytest.mark.parametrize("empty", [histogram(), histogram((0, 4, 0))])
def test_nothing_is_no_distribution(empty: Histogram) -> None:
    for measure in (jensen_shannon, jensen_shannon_lower_bound):
        with pytest.raises(ValueError, match="counts nothing"):
            measure(empty, histogram((0, 4, 10)))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (histogram((0, 0, 1), (1, 1, 1)), histogram((0, 0, 1), (2, 2, 1)), 0.5),  # points: exact
        (histogram((0, 1, 2), (1, 2, 2)), histogram((3, 4, 2), (4, 6, 2)), 1.0),
        (
            histogram((0, 1, 3), (1, 2, 1)),
            histogram((0, 1, 1), (1, 2, 3)),
            jensen_shannon_of_counts([3, 1], [1, 3]),
        ),  # same bounds
        # Below 2 a half of the first and none of the other, below 4 all and a half; 3 is within a bucket
        (
            histogram((1, 2, 2), (2, 3, 2)),
            histogram((2, 4, 2), (4, 6, 2)),
            jensen_shannon_of_counts([1, 1, 0], [0, 1, 1]),
        ),
        (histogram((1, 1, 4)), histogram((0, 2, 4)), 0.0),  # all may be 1
        (histogram((1, 2, 3), apart=1), histogram((1, 2, 4)), 0.13792538096),
        (histogram(apart=1), histogram(apart=1), 0.0),  # so many are NaN in both
        (
            histogram((-2, -1, 3), (-1, 0, 1)),
            histogram((-2, -1, 1), (-1, 0, 3)),
            jensen_shannon_of_counts([3, 1], [1, 3]),
        ),
    ],
)
def test_the_least_divergence(one: Histogram, other: Histogram, expected: float) -> None:
    assert jensen_shannon_lower_bound(one, other).value == pytest.approx(expected, abs=1e-9)
    assert jensen_shannon_lower_bound(other, one).value == pytest.approx(expected, abs=1e-9)


def test_quantiles_say_where_in_a_bucket_numbers_are() -> None:
    one = Histogram((Interval(0, 100, 4),), ((10, 10, 0.5),))
    other = Histogram((Interval(0, 100, 4),), ((60, 60, 0.5),))

    assert jensen_shannon_lower_bound(*(Histogram(each.buckets) for each in (one, other))).value == 0
    # Up to 10 a half of the first, of the other at most a half
    assert jensen_shannon_lower_bound(one, other).value == 0
    far = Histogram((Interval(0, 100, 4),), ((60, 60, 0.25),))
    # Up to 10 a half against at most a quarter
    assert jensen_shannon_lower_bound(one, far).value == pytest.approx(jensen_shannon_of_counts([1, 1], [1, 3]))


def test_a_number_on_a_border_is_in_the_bucket_farther_from_zero() -> None:
    wide = histogram((0, 12, 5), (12, 20, 5))  # five numbers are 12, which counts as 12 to 20
    points = histogram((6, 6, 5), (12, 12, 5))

    assert jensen_shannon_lower_bound(wide, points).value == pytest.approx(0)
    mirrored = histogram((-20, -12, 5), (-12, 0, 5)), histogram((-12, -12, 5), (-6, -6, 5))
    assert jensen_shannon_lower_bound(*mirrored).value == pytest.approx(0)


numbers = st.lists(st.integers(0, 40), min_size=1, max_size=60)
widths = st.sampled_from([1, 3, 7, 10])


def bucketed(values: list[int], width: int) -> Histogram:
    """A histogram whose buckets are of whole numbers, both bounds included."""
    counts: dict[int, int] = {}
    for value in values:
        counts[value // width] = counts.get(value // width, 0) + 1
    return histogram(*((key * width, key * width + width - 1, count) for key, count in sorted(counts.items())))


@settings(max_examples=300, deadline=None)
@given(numbers, numbers, widths, widths)
def test_the_least_divergence_is_never_more_than_that_of_the_numbers(
    one: list[int], other: list[int], width: int, other_width: int
) -> None:
    values = sorted({*one, *other})
    exact = jensen_shannon_of_counts([one.count(value) for value in values], [other.count(value) for value in values])

    assert jensen_shannon_lower_bound(bucketed(one, width), bucketed(other, other_width)).value <= exact + 1e-9


def test_nan_that_is_a_bin_is_like_nan() -> None:
    """Of columns of nothing but NaN, or of as much of it, nothing differs; of other shares no more than these do."""
    none, half = histogram(apart=3), histogram((1, 2, 3), apart=3)
    assert jensen_shannon(none, histogram(apart=70), nan_is_a_bin=True) == 0
    assert jensen_shannon(half, histogram((1, 2, 30), apart=30), nan_is_a_bin=True) == pytest.approx(0, abs=1e-9)
    assert jensen_shannon(none, half, nan_is_a_bin=True) == pytest.approx(jensen_shannon_of_counts([1, 0], [1, 1]))
    assert jensen_shannon(none, none) == 1  # as TFDV has it
