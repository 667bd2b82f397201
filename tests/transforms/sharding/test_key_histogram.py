"""Exact quantiles: whatever the batches and the order of merging, the cuts are those of a plain sort."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.transforms.shards.balance import example_cuts
from shardmill.transforms.shards.divisions import (
    BIN_BITS,
    Cuts,
    FoundKeys,
    Grouped,
    Histogram,
    compute_bins,
    keys_in_bins,
    locate,
    make_histogram,
    merge_histograms,
    pick_cuts,
    to_cuts,
)

TOP = (1 << 64) - 1
BIN = 1 << 64 - BIN_BITS

Pair = tuple[int, int]

# Keys where bins meet, at both ends of the range, and anywhere.
BORDERS = [0, 1, BIN - 1, BIN, BIN + 1, 7 * BIN, 7 * BIN - 1, TOP - BIN, TOP - BIN + 1, TOP - 1, TOP]
KEYS = st.one_of(st.sampled_from(BORDERS), st.integers(0, TOP), st.integers(0, 3))
PAIRS = st.lists(
    st.tuples(KEYS, st.one_of(st.integers(0, TOP), st.integers(0, 9))), min_size=1, max_size=120, unique=True
)


def arrays(pairs: list[Pair]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([key for key, _ in pairs], np.uint64), np.array([tie for _, tie in pairs], np.uint64)


def cuts_in_batches(batches: list[list[Pair]], order: list[int], shards: int) -> Cuts:
    """What FindExampleCuts does, without Beam: histograms merged in `order`, then the keys of the bins that are cut."""
    counted = [make_histogram(keys, np.ones(len(keys), np.int64)) for keys, _ in map(arrays, batches)]
    merged = Histogram(np.empty(0, np.uint32), np.empty(0, np.int64), 0)
    for index in order:
        merged = merge_histograms([counted[index], merged])
    located = locate({"all": merged}, lambda _, examples, __: example_cuts(examples, shards), merged.total)
    found: dict[int, list[FoundKeys]] = {}
    for index in order:
        for number, keys in keys_in_bins(grouped(batches[index]), located):
            found.setdefault(number, []).append(keys)
    return to_cuts(reversed([pair for parts in found.values() for _, pair in pick_cuts(parts)]))


def grouped(pairs: list[Pair]) -> Grouped:
    return {"all": (*arrays(pairs), np.ones(len(pairs), np.int64))}


def as_pairs(cuts: Cuts) -> list[Pair]:
    return list(zip(cuts.keys.tolist(), cuts.ties.tolist(), strict=True))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_cuts_are_those_of_a_sort_for_any_batches_and_order(data: st.DataObject) -> None:
    pairs = data.draw(PAIRS)
    borders = sorted(data.draw(st.sets(st.integers(1, len(pairs)), max_size=6)) | {len(pairs)})
    batches = [pairs[start:stop] for start, stop in zip([0, *borders], borders)]
    order = data.draw(st.permutations(range(len(batches))))
    shards = data.draw(st.integers(1, len(pairs)))

    cuts = cuts_in_batches(batches, order, shards)

    assert as_pairs(cuts) == [sorted(pairs)[rank] for rank in example_cuts(len(pairs), shards)]
    shares = np.bincount(cuts.find_parts(*arrays(pairs)), minlength=shards)
    assert len(shares) == shards
    assert shares.max() - shares.min() <= 1


@pytest.mark.parametrize("key", [0, BIN - 1, BIN, TOP])
def test_equal_keys_are_cut_by_their_ties(key: int) -> None:
    pairs = [(key, (tie * 0x9E3779B97F4A7C15) & TOP) for tie in range(1000)]

    cuts = cuts_in_batches([pairs[:400], pairs[400:]], [1, 0], 7)

    assert set(cuts.keys.tolist()) == {key}
    assert sorted(np.bincount(cuts.find_parts(*arrays(pairs)))) == [142, 143, 143, 143, 143, 143, 143]


def test_a_million_keys() -> None:
    random = np.random.default_rng(3)
    keys = random.integers(0, TOP, 1_281_167, np.uint64, endpoint=True)
    ties = np.zeros_like(keys)
    counted = make_histogram(keys, np.ones(len(keys), np.int64))
    located = locate({"all": counted}, lambda *_: example_cuts(len(keys), 1024), len(keys))
    found = keys_in_bins({"all": (keys, ties, ties.astype(np.int64))}, located)
    assert {number for number, _ in found} == {0}
    pairs = [pair for _, pair in pick_cuts([part for _, part in found])]

    shares = np.bincount(to_cuts(pairs).find_parts(keys, ties))

    assert np.array_equal(np.unique(shares, return_counts=True), ([1251, 1252], [881, 143]))


def test_bins_are_the_leading_bits() -> None:
    keys = np.array([0, BIN - 1, BIN, TOP - BIN, TOP - BIN + 1, TOP], np.uint64)

    assert compute_bins(keys).tolist() == [0, 0, 1, (1 << BIN_BITS) - 2, (1 << BIN_BITS) - 1, (1 << BIN_BITS) - 1]
    assert compute_bins(keys).dtype == np.uint32


@given(st.lists(st.lists(st.tuples(KEYS, st.integers(0, 10**12)), max_size=20), max_size=5), st.randoms())
@settings(max_examples=60, deadline=None)
def test_merge_knows_no_order(batches: list[list[tuple[int, int]]], random: object) -> None:
    def of(rows: list[tuple[int, int]]) -> Histogram:
        return make_histogram(
            np.array([key for key, _ in rows], np.uint64), np.array([size for _, size in rows], np.int64)
        )

    whole = of([row for batch in batches for row in batch])
    shuffled = list(batches)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    merged = merge_histograms(map(of, shuffled))
    nested = merge_histograms([merge_histograms(map(of, batches[:2])), merge_histograms(map(of, batches[2:]))])

    for other in (merged, nested):
        assert other.bins.tolist() == whole.bins.tolist()
        assert other.counts.tolist() == whole.counts.tolist()
        assert other.size_bytes == whole.size_bytes
        assert other.total == sum(map(len, batches))


def test_merge_of_nothing_is_empty() -> None:
    assert merge_histograms([]).total == 0
    assert merge_histograms([]).size_bytes == 0


def test_no_cuts_put_all_in_one_part() -> None:
    assert to_cuts([]).find_parts(*arrays([(0, 0), (5, 5), (TOP, TOP)])).tolist() == [0, 0, 0]


def test_a_cut_starts_the_next_part() -> None:
    cuts = to_cuts([(10, 5), (10, 7), (20, 0)])
    pairs = [(9, TOP), (10, 0), (10, 4), (10, 5), (10, 6), (10, 7), (10, TOP), (11, 0), (19, 9), (20, 0), (TOP, 0)]

    assert cuts.find_parts(*arrays(pairs)).tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3]


def test_equal_cuts_leave_the_part_between_them_empty() -> None:
    assert to_cuts([(10, 5), (10, 5)]).find_parts(*arrays([(10, 4), (10, 5), (10, 6)])).tolist() == [0, 2, 2]


@pytest.mark.parametrize("number", [100, 100_000])
def test_merged_histograms_are_that_of_all_keys(number: int) -> None:
    rng = np.random.default_rng(number)
    keys, sizes = rng.integers(0, TOP, number, np.uint64, endpoint=True), rng.integers(1, 99, number)
    whole = make_histogram(keys, sizes)
    merged = merge_histograms(make_histogram(keys[part], sizes[part]) for part in np.array_split(np.arange(number), 7))

    assert (merged.bins.tolist(), merged.counts.tolist()) == (whole.bins.tolist(), whole.counts.tolist())
    assert (merged.bins.dtype, merged.counts.dtype, merged.size_bytes) == (
        whole.bins.dtype,
        whole.counts.dtype,
        int(sizes.sum()),
    )
