"""Tests of transforms/shards/balance.py."""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.transforms.options.job_options import MAX_SHARDS
from shardmill.transforms.shards import balance
from shardmill.transforms.shards.balance import ShardCount, byte_cuts, count_shared_keys, example_cuts, rows_by_group


def parts(examples: int, cuts: list[int]) -> list[int]:
    """The examples in each shard."""
    return [int(part) for part in np.diff([0, *cuts, examples])]


@pytest.mark.parametrize(("examples", "shards", "cuts"), [(7, 3, [2, 4]), (0, 0, []), (0, 1, []), (5, 1, [])])
def test_example_cuts(examples: int, shards: int, cuts: list[int]) -> None:
    assert example_cuts(examples, shards) == cuts


@given(st.integers(1, 10**9), st.integers(1, 2000))
def test_example_cuts_differ_by_at_most_one(examples: int, shards: int) -> None:
    counted = parts(examples, example_cuts(examples, min(shards, examples)))

    assert sum(counted) == examples
    assert len(counted) == min(shards, examples)
    assert min(counted) >= 1
    assert max(counted) - min(counted) <= 1


@pytest.mark.parametrize(
    ("count", "examples", "size_bytes", "shards"),
    [
        (ShardCount(8), 1000, 10**9, 8),
        (ShardCount(1000), 7, 700, 7),  # more shards than examples: fewer shards, none empty
        (ShardCount(8), 0, 0, 0),
        (ShardCount(1), 1, 100, 1),
        (ShardCount(size_bytes=100), 50, 1000, 10),
        (ShardCount(size_bytes=100), 50, 1001, 11),  # rounded up: about the size asked for, not more
        (ShardCount(size_bytes=1 << 30), 50, 1000, 1),
        (ShardCount(size_bytes=1), 50, 1000, 50),
        (ShardCount(size_bytes=100), 0, 0, 0),
        (ShardCount(size_bytes=128 << 20), 1_281_167, 150 * 10**9, 1118),
        (ShardCount(size_bytes=1), 10**9, 10**12, MAX_SHARDS),
        (ShardCount(10**6), 10**9, 10**12, MAX_SHARDS),
    ],
)
def test_number_of_shards(count: ShardCount, examples: int, size_bytes: int, shards: int) -> None:
    assert count.resolve(examples, size_bytes) == shards


@pytest.mark.parametrize("count", [{}, {"number": 3, "size_bytes": 100}])
def test_shard_count_wants_one_of_two(count: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="either a number of shards or a size"):
        ShardCount(**count)


def check_bytes(sizes: np.ndarray, shards: int) -> None:
    cuts = byte_cuts(sizes, shards)
    runs = np.diff([0, *cuts, len(sizes)])
    weights = np.add.reduceat(sizes, [0, *cuts])

    assert len(cuts) == shards - 1
    assert runs.min() >= 1
    assert weights.sum() == sizes.sum()
    assert weights.max() - weights.min() <= sizes.max()


@given(st.data())
@settings(max_examples=300)
def test_bytes_differ_by_at_most_the_largest_record(data: st.DataObject) -> None:
    size = st.one_of(st.integers(1, 10), st.integers(1, 10**7), st.just(1), st.just(10**9))
    sizes = data.draw(st.lists(size, min_size=1, max_size=80))
    shards = data.draw(st.integers(1, len(sizes)))

    check_bytes(np.array(sizes, np.int64), shards)


GIANT = 10**12


@pytest.mark.parametrize(
    ("sizes", "shards"),
    [
        ((np.random.default_rng(7).lognormal(10, 1.5, 10**6) + 106).astype(np.int64), 1024),
        *((np.where(np.arange(1000) == giant_at, GIANT, 100), 10) for giant_at in (0, 500, 999)),
        (np.full(3000, 1 << 40, np.int64), 7),
    ],
    ids=["a million", "a giant first", "a giant", "a giant last", "beyond 32 bits"],
)
def test_bytes_of_all_sizes(sizes: np.ndarray, shards: int) -> None:
    check_bytes(sizes, shards)


@given(st.lists(st.integers(0, 4)), st.integers(5, 7))
def test_rows_are_those_with_the_code(codes: list[int], groups: int) -> None:
    found = rows_by_group(np.array(codes, np.int64), groups)
    assert [rows.tolist() for rows in found] == [
        [row for row, code in enumerate(codes) if code == group] for group in range(groups)
    ]


class Counted(np.ndarray):
    """An array that counts the values that are computed with."""

    values = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **more: Any) -> Any:
        Counted.values += sum(map(np.size, inputs))
        return getattr(ufunc, method)(*map(np.asarray, inputs), **more)


def test_a_thousand_groups_cost_what_one_does() -> None:
    codes = np.arange(1000).view(Counted)
    assert (codes == 1).sum() == 1
    assert Counted.values == 1001
    rows_by_group(codes, 1000)
    assert Counted.values <= 10 * 1000  # a look at all rows for each group is a million


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
    assert balance.cut_stratum(fractions, "", size) == cuts


@given(st.integers(0, 10**6), st.lists(st.integers(1, 1000), min_size=1, max_size=6))
def test_stratum_shares_are_within_one_of_exact(size: int, weights: list[int]) -> None:
    fractions = [Fraction(weight, sum(weights)) for weight in weights]
    ends = [0, *balance.cut_stratum(fractions, "", size), size]

    assert ends == sorted(ends)
    for (start, stop), fraction in zip(pairwise(ends), fractions, strict=True):
        assert abs(stop - start - fraction * size) <= 1


def keys_of(*keys: int) -> np.ndarray:
    return np.array(keys, np.uint64)


def by_python(groups: list[np.ndarray]) -> int:
    found: dict[int, set[int]] = {}
    for number, keys in enumerate(groups):
        for key in keys.tolist():
            found.setdefault(key, set()).add(number)
    return sum(len(of) > 1 for of in found.values())


def test_a_key_of_several_groups_counts_once() -> None:
    rng = np.random.default_rng(3)
    few = rng.integers(0, 1 << 64, 500, np.uint64)
    groups = [rng.choice(few, size) for size in (60, 300, 0, 200, 1)]
    assert by_python(groups) > 50
    assert sum(count_shared_keys(groups)) == by_python(groups)


@pytest.mark.parametrize(
    ("groups", "shared"),
    [
        (
            [keys_of(1, 2, 2**64 - 1), keys_of(2, 0), keys_of(2, 1, 2**64 - 1)],
            [0, 1, 2],
        ),  # where it comes a second time
        ([keys_of(1, 1, 2, 2)], [0]),
        ([keys_of(1, 1), keys_of(0, 0)], [0, 0]),
        ([], []),
        ([keys_of(), keys_of()], [0, 0]),
    ],
)
def test_where_shared_keys_are_counted(groups: list[np.ndarray], shared: list[int]) -> None:
    assert count_shared_keys(groups) == shared
