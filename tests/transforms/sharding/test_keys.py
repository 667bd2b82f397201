"""Order keys and splits: stable as data grows, exact within strata."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.transforms.shards import balance

EIGHTY_TEN_TEN = (Fraction(8, 10), Fraction(1, 10), Fraction(1, 10))
NAMES = [f"class/{index:06}.jpg" for index in range(20_000)]


def test_hashes_are_xxh3_of_utf_8() -> None:
    assert balance.hash_strings(["", "rösti"], 5).tolist() == [
        xxhash.xxh3_64_intdigest(text.encode(), 5) for text in ("", "rösti")
    ]
    assert balance.hash_strings(["a"], 0).dtype == np.uint64


def test_golden_keys() -> None:
    # A change here reshuffles and re-splits every data set there is.
    key, tie = balance.order_keys(["cats/1.jpg"], ["cats/1.jpg\x000"], 0)

    assert (key.tolist(), tie.tolist()) == ([3742271551841914611], [4398226311948931262])
    assert balance.split_keys(["cats/1.jpg"], 0).tolist() == [2173400002212778565]


def test_one_identity_at_two_positions_differs_by_its_tie_only() -> None:
    key, tie = balance.order_keys(["a", "a"], ["a\x001", "a\x002"], 0)

    assert key[0] == key[1]
    assert tie[0] != tie[1]


@pytest.mark.parametrize("seed", [0, 1, (1 << 64) - 1])
def test_a_seed_moves_the_order_but_not_the_split(seed: int) -> None:
    order, _ = balance.order_keys(NAMES[:100], NAMES[:100], seed)
    other, _ = balance.order_keys(NAMES[:100], NAMES[:100], seed ^ 2)

    assert np.argsort(order).tolist() != np.argsort(other).tolist()
    assert not np.array_equal(balance.split_keys(NAMES[:100], seed), order)


@pytest.mark.parametrize(
    ("fractions", "bounds"),
    [
        ((Fraction(1),), []),
        ((Fraction(1, 2), Fraction(1, 2)), [1 << 63]),
        ((Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)), [1 << 62, 1 << 63]),
        ((Fraction((1 << 64) - 1, 1 << 64), Fraction(1, 1 << 64)), [(1 << 64) - 1]),
    ],
)
def test_thresholds(fractions: tuple[Fraction, ...], bounds: list[int]) -> None:
    assert balance.split_thresholds(fractions).tolist() == bounds


@pytest.mark.parametrize("splits", [1, 3, 5, 6, 20])
def test_the_bounds_belong_to_the_next_split(splits: int) -> None:
    bounds = balance.split_thresholds([Fraction(1, splits)] * splits)
    at = [key for bound in bounds.tolist() for key in (bound - 1, bound)]

    found = balance.assign_splits(np.array([0, *at, (1 << 64) - 1], np.uint64), bounds)

    assert found.tolist() == [split for split in range(splits) for _ in range(2)]


def test_shares_are_about_the_fractions() -> None:
    split = balance.assign_splits(balance.split_keys(NAMES, 0), balance.split_thresholds(EIGHTY_TEN_TEN))

    assert np.abs(np.bincount(split) / len(NAMES) - [0.8, 0.1, 0.1]).max() < 0.01


def test_a_record_keeps_its_split_as_data_grows() -> None:
    bounds = balance.split_thresholds(EIGHTY_TEN_TEN)
    few = balance.assign_splits(balance.split_keys(NAMES[:1000], 3), bounds)
    many = balance.assign_splits(balance.split_keys(NAMES, 3), bounds)

    assert np.array_equal(few, many[:1000])


@pytest.mark.parametrize(
    ("size", "fractions", "cuts"),
    [
        (10, EIGHTY_TEN_TEN, [8, 9]),
        (100, EIGHTY_TEN_TEN, [80, 90]),
        (5, EIGHTY_TEN_TEN, [4, 5]),
        (1, EIGHTY_TEN_TEN, [1, 1]),
        (0, EIGHTY_TEN_TEN, [0, 0]),
        (3, (Fraction(1, 2), Fraction(1, 2)), [2]),
        (7, (Fraction(1),), []),
        (10**9 + 1, (Fraction(1, 3), Fraction(2, 3)), [333_333_334]),
    ],
)
def test_stratum_cuts(size: int, fractions: tuple[Fraction, ...], cuts: list[int]) -> None:
    assert balance.stratum_cuts(size, fractions) == cuts


@given(st.integers(0, 10**6), st.lists(st.integers(1, 1000), min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_stratum_shares_are_within_one_of_exact(size: int, weights: list[int]) -> None:
    fractions = [Fraction(weight, sum(weights)) for weight in weights]
    ends = [0, *balance.stratum_cuts(size, fractions), size]

    assert ends == sorted(ends)
    for (start, stop), fraction in zip(pairwise(ends), fractions, strict=True):
        assert abs(stop - start - fraction * size) <= 1
