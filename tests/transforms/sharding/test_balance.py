"""Shard arithmetic at real scales."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shardmill.transforms.options.job_options import MAX_SHARDS
from shardmill.transforms.shards.balance import ShardCount, byte_cuts, example_cuts


def parts(examples: int, cuts: list[int]) -> list[int]:
    """The examples in each shard."""
    return [int(part) for part in np.diff([0, *cuts, examples])]


@pytest.mark.parametrize(
    ("examples", "shards", "sizes"),
    [
        (7, 3, {2: 2, 3: 1}),
        (1, 1, {1: 1}),
        (10, 10, {1: 10}),
        (1797, 4, {449: 3, 450: 1}),
        (50_000, 128, {390: 48, 391: 80}),
        (1_281_167, 1024, {1251: 881, 1252: 143}),
        (1_000_000_000, 99_999, {10_000: 89_999, 10_001: 10_000}),
    ],
)
def test_example_cuts_at_real_scales(examples: int, shards: int, sizes: dict[int, int]) -> None:
    counted = parts(examples, example_cuts(examples, shards))

    assert {size: counted.count(size) for size in set(counted)} == sizes


def test_example_cuts_of_seven_in_three() -> None:
    assert example_cuts(7, 3) == [2, 4]


@pytest.mark.parametrize(("examples", "shards"), [(0, 0), (0, 1), (5, 1)])
def test_one_shard_or_none_has_no_cut(examples: int, shards: int) -> None:
    assert example_cuts(examples, shards) == []


@given(st.integers(1, 10**9), st.integers(1, 2000))
@settings(max_examples=100, deadline=None)
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
@settings(max_examples=300, deadline=None)
def test_bytes_differ_by_at_most_the_largest_record(data: st.DataObject) -> None:
    size = st.one_of(st.integers(1, 10), st.integers(1, 10**7), st.just(1), st.just(10**9))
    sizes = data.draw(st.lists(size, min_size=1, max_size=80))
    shards = data.draw(st.integers(1, len(sizes)))

    check_bytes(np.array(sizes, np.int64), shards)


@given(st.integers(1, 200), st.integers(1, 200))
@example(1_281, 1024)
@settings(max_examples=50, deadline=None)
def test_equal_sizes_are_cut_as_examples_are(examples: int, shards: int) -> None:
    shards = min(shards, examples)
    counted = parts(examples, byte_cuts(np.full(examples, 25_000, np.int64), shards))

    assert max(counted) - min(counted) <= 1


def test_bytes_of_a_million_records() -> None:
    random = np.random.default_rng(7)
    sizes = (random.lognormal(10, 1.5, 10**6) + 106).astype(np.int64)

    check_bytes(sizes, 1024)


@pytest.mark.parametrize("giant_at", [0, 500, 999])
def test_one_giant_among_small_records(giant_at: int) -> None:
    sizes = np.full(1000, 100, np.int64)
    sizes[giant_at] = 10**12

    check_bytes(sizes, 10)


def test_bytes_beyond_32_bits_do_not_overflow() -> None:
    check_bytes(np.full(3000, 1 << 40, np.int64), 7)
