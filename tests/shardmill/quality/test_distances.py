"""Tests of src/shardmill/quality/distances.py, and of differences between versions."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.quality.difference import describe_changes, find_differences
from shardmill.quality.distances import (
    Frequencies,
    Histogram,
    Interval,
    divergence_floor,
    jensen_shannon,
    jensen_shannon_lower_bound,
    jensen_shannon_of_counts,
    l_infinity_lower_bound,
    ratio_ceiling,
    ratio_floor,
    share_floor,
)
from shardmill.quality.profile import Profile
from tests.support.later import Later
from tests.support.profiles import profile

stats = Later("scipy.stats")


@pytest.mark.parametrize("examples", [100, 1_000, 10_000])
@pytest.mark.parametrize("bins", [2, 5, 20])
def test_two_samples_of_the_same_do_not_reach_the_floors(examples: int, bins: int) -> None:
    random = np.random.default_rng(bins)
    shares = random.dirichlet(np.full(bins, 0.5))
    drawn = random.multinomial(examples, shares, size=(2, 500))
    floor = divergence_floor(bins, examples, examples)
    widest = max(share_floor(share, examples, examples, bins) for share in shares)

    divergences = [jensen_shannon_of_counts(one.tolist(), other.tolist()) for one, other in zip(*drawn)]
    assert max(divergences) < floor
    assert np.abs(drawn[0] - drawn[1]).max() / examples < widest


def test_the_floors_are_not_far_above_what_chance_does() -> None:
    random = np.random.default_rng(0)
    drawn = random.multinomial(1000, [0.05] * 20, size=(2, 2000))
    largest = max(jensen_shannon_of_counts(one.tolist(), other.tolist()) for one, other in zip(*drawn))

    assert divergence_floor(20, 1000, 1000) < 2.5 * largest
    assert share_floor(0.05, 1000, 1000, 20) < 2.5 * np.abs(drawn[0] - drawn[1]).max() / 1000


@pytest.mark.parametrize("freedom", [1, 4, 19, 63])
def test_chi_squared_is_that_of_scipy(freedom: int) -> None:
    expected = stats.chi2.isf(1e-4, freedom) * (1 / 10_000 + 1 / 20_000) / 4

    assert divergence_floor(freedom + 1, 10_000, 20_000) == pytest.approx(expected, rel=0.03)


def test_floors_by_hand() -> None:
    # ln(2 / 1e-4) = 9.9035; sqrt(2 * 0.25 * (1/100 + 1/100) * 9.9035) + 9.9035 / 300
    assert share_floor(0.5, 100, 100) == pytest.approx(0.31470 + 0.03301, abs=1e-4)
    assert share_floor(0.5, 1, 1) == 1
    assert divergence_floor(1, 5, 5) == 0
    assert (ratio_floor(0), ratio_ceiling(0)) == (0, math.inf)


@pytest.mark.parametrize("examples", [20, 1_000, 100_000])
def test_how_many_a_hash_deals_out(examples: int) -> None:
    """A difference of 3.719 standard deviations, sqrt(one + other)."""
    for share in (ratio_floor(examples), ratio_ceiling(examples)):
        difference = abs(share - 1) * examples
        assert difference == pytest.approx(3.719 * math.sqrt(examples * (1 + share)), rel=1e-3)


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
def test_l_infinity_is_that_of_tfdv(one: dict[str, float], other: dict[str, float], expected: Any) -> None:
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


INFINITE = histogram((-math.inf, 0, 1), (math.inf, math.inf, 1))
PAIRS = (histogram((1, 2, 2), (2, 3, 2)), histogram((2, 4, 2), (4, 6, 2)))
APART = (histogram((0, 1, 2), (1, 2, 2)), histogram((3, 4, 2), (4, 6, 2)))
SOME_NAN = (histogram((1, 2, 3), apart=1), histogram((1, 2, 4)))
ALL_NAN = (histogram(apart=1), histogram(apart=1))
POINTS = (histogram((0, 0, 1), (1, 1, 1)), histogram((0, 0, 1), (2, 2, 1)))
# The distance that TFDV finds
TFDV = [
    (PAIRS, 0.65563906222),
    (APART, 1.0),
    ((histogram((1, 1, 4)), PAIRS[1]), 1.0),
    ((histogram((1, 1, 4)), histogram((2.33, 2.33, 4))), 1.0),
    ((histogram((10, 10, 21)), histogram((0, 4, 150), (4, 12, 200), (12, 20, 20))), 1.0),
    (ALL_NAN, 1.0),
    (SOME_NAN, 0.13792538096),
    (POINTS, 0.5),
    ((histogram((0, 0, 1), (1, 2, 1)), histogram((1, 1, 1), (2, 2, 1))), 1.0),
    ((INFINITE, INFINITE), 1.0),
    ((histogram((1, 2.5, 3), (2.5, 5, 2)), histogram((1, 2.5, 3), (2.5, 5, 2))), 0.0),
]


@pytest.mark.parametrize(("pair", "expected"), TFDV)
def test_jensen_shannon_is_that_of_tfdv(pair: tuple[Histogram, Histogram], expected: float) -> None:
    assert jensen_shannon(*pair) == pytest.approx(expected, abs=1e-9)
    assert jensen_shannon(*pair[::-1]) == pytest.approx(expected, abs=1e-9)


def test_the_divergence_of_ranked_values_is_that_of_tfdv() -> None:
    assert jensen_shannon_of_counts([2, 2, 1, 0, 0, 0], [2, 0, 0, 1, 1, 1]) == pytest.approx(0.6)


@pytest.mark.parametrize("empty", [histogram(), histogram((0, 4, 0))])
def test_nothing_is_no_distribution(empty: Histogram) -> None:
    for measure in (jensen_shannon, jensen_shannon_lower_bound):
        with pytest.raises(ValueError, match="counts nothing"):
            measure(empty, histogram((0, 4, 10)))


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (POINTS, 0.5),  # exact
        (APART, 1.0),
        # Below 2 a half of the first and none of the other, below 4 all and a half; 3 is within a bucket
        (PAIRS, jensen_shannon_of_counts([1, 1, 0], [0, 1, 1])),
        # The same bounds
        ((histogram((0, 1, 3), (1, 2, 1)), histogram((0, 1, 1), (1, 2, 3))), jensen_shannon_of_counts([3, 1], [1, 3])),
        (
            (histogram((-2, -1, 3), (-1, 0, 1)), histogram((-2, -1, 1), (-1, 0, 3))),
            jensen_shannon_of_counts([3, 1], [1, 3]),
        ),
        ((histogram((1, 1, 4)), histogram((0, 2, 4))), 0.0),  # all may be 1
        (SOME_NAN, 0.13792538096),
        (ALL_NAN, 0.0),  # so many are NaN in both
        # A number on a border is in the bucket farther from zero: five numbers are 12, which counts as 12 to 20
        ((histogram((0, 12, 5), (12, 20, 5)), histogram((6, 6, 5), (12, 12, 5))), 0.0),
        ((histogram((-20, -12, 5), (-12, 0, 5)), histogram((-12, -12, 5), (-6, -6, 5))), 0.0),
    ],
)
def test_the_least_divergence(pair: tuple[Histogram, Histogram], expected: float) -> None:
    assert jensen_shannon_lower_bound(*pair).value == pytest.approx(expected, abs=1e-9)
    assert jensen_shannon_lower_bound(*pair[::-1]).value == pytest.approx(expected, abs=1e-9)


def test_quantiles_say_where_in_a_bucket_numbers_are() -> None:
    one, other, far = (
        Histogram((Interval(0, 100, 4),), (at,)) for at in ((10, 10, 0.5), (60, 60, 0.5), (60, 60, 0.25))
    )

    assert jensen_shannon_lower_bound(*(Histogram(each.buckets) for each in (one, far))).value == 0
    # Up to 10 a half of the first, of the other at most a half
    assert jensen_shannon_lower_bound(one, other).value == 0
    # Up to 10 a half against at most a quarter
    assert jensen_shannon_lower_bound(one, far).value == pytest.approx(jensen_shannon_of_counts([1, 1], [1, 3]))


numbers = st.lists(st.integers(0, 40), min_size=1, max_size=60)
widths = st.sampled_from([1, 3, 7, 10])


def bucketed(values: list[int], width: int) -> Histogram:
    """A histogram whose buckets are of whole numbers, both bounds included."""
    counts: dict[int, int] = {}
    for value in values:
        counts[value // width] = counts.get(value // width, 0) + 1
    return histogram(*((key * width, key * width + width - 1, count) for key, count in sorted(counts.items())))


@settings(max_examples=300)
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


CLASSES = {"action": ["buy", "click", "view"]}


def night(examples: int, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        "action": random.choice(3, examples, p=[0.1, 0.3, 0.6]).tolist(),
        "amount": random.normal(9.9, 1, examples).tolist(),
        "country": random.choice(["de", "fr"], examples).tolist(),
    }


def of(columns: dict[str, Any], version: str = "1.0.2", classes: Any = CLASSES, **changes: Any) -> Profile:
    return profile({"train": columns}, classes, version, **changes)


OLD = night(20_000)


@pytest.fixture(scope="module")
def old() -> Profile:
    return of(OLD, "1.0.1", format="csv")


def test_a_bad_night(old: Profile) -> None:
    kept = [index for index, action in enumerate(OLD["action"]) if action == 1 or action == 2][:11_886]
    columns = {name: [values[index] for index in kept] for name, values in OLD.items()}
    columns |= {
        "action": [action - 1 for action in columns["action"]],
        "amount": [100.5 * amount for amount in columns["amount"]],
        "campaign": ["x"] * len(kept),
    }
    new = of(columns, classes={"action": ["click", "view"]}, format="csv")

    assert describe_changes(new, old) == (
        "since 1.0.1: 20,000 -> 11,886 rows; class buy gone; ids moved: 'click' from 1 to 0, 'view' from 2 to 1;"
        " column campaign new; amount mean 9.9 -> 995"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (night(20_000, 7), "since 1.0.1: 20,000 rows, as before; nothing else changed in its statistics"),
        ({"country": ["de"] * 20_000}, "country de 50.13% -> 100.00% of train"),
        ({"amount": [None, *OLD["amount"][1:4]] * 5_000}, "amount in 100.00% -> 75.00% of them"),
        ({"amount": list(range(20_000))}, "column amount float32 -> int64"),
        ({"country": [["de"]] * 20_000}, "column country bytes text -> bytes text[-1]"),
    ],
)
def test_a_feature_changed(old: Profile, changes: dict[str, Any], words: str) -> None:
    assert words in describe_changes(of(OLD | changes, format="csv"), old)


def test_what_differs_has_values(old: Profile) -> None:
    (found, *_) = find_differences(of(night(10_000)), old)

    assert (found.what, found.before, found.after) == ("examples", 20_000, 10_000)


def test_a_column_and_a_split_are_gone() -> None:
    both = profile({"train": {"x": [1], "y": [1]}, "test": {"x": [1], "y": [2]}}, version="1.0.0")
    one = profile({"train": {"x": [1]}}, rejected=3)
    words = "since 1.0.0: 2 -> 1 examples; 0 -> 3 rejected; split test gone; column y gone"

    assert describe_changes(one, both) == words
    assert describe_changes(both, one).endswith("1 -> 2 examples; 3 -> 0 rejected; split test new; column y new")
