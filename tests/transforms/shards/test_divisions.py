"""Cuts found by the graph are those of a sort, for any batches; exact quantiles."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.pipelines.jobs.runner import make_runner
from shardmill.transforms.execution.running import Threads
from shardmill.transforms.findings import merge_all
from shardmill.transforms.shards import cuts as find_cuts
from shardmill.transforms.shards import divisions
from shardmill.transforms.shards.balance import example_cuts
from shardmill.transforms.shards.cuts import DivideKeys, FindExampleCuts
from shardmill.transforms.shards.divisions import (
    BIN_BITS,
    Cuts,
    Division,
    Divisions,
    FoundKeys,
    Grouped,
    Histogram,
    compute_bins,
    divide_by_bytes,
    divide_into_parts,
    locate,
    make_histogram,
    merge_histograms,
    pick_cuts,
    pick_keys,
    select_keys_in_bins,
    to_cuts,
)

Rows = list[tuple[str, int, int, int]]  # (group, key, tie, size)

RANDOM = random.Random(11)
SPREAD: Rows = [
    (group, RANDOM.getrandbits(64), index, 100 + index % 7) for index in range(3000) for group in ("train", "test")
]
TIED: Rows = [("train", 42, index * 7919 % 3001, 100) for index in range(3000)]
# All in one bin of the histogram
DENSE: Rows = [("train", 1 << 63 | index, 0, 1 + index % 90) for index in range(3000)]


def group(rows: Rows) -> Grouped:
    arrays: Grouped = {}
    for name in dict.fromkeys(row[0] for row in rows):
        keys, ties, sizes = zip(*[row[1:] for row in rows if row[0] == name], strict=True)
        arrays[name] = np.array(keys, np.uint64), np.array(ties, np.uint64), np.array(sizes, np.int64)
    return arrays


def batches(rows: Rows, size: int) -> list[Rows]:
    shuffled = random.Random(size).sample(rows, len(rows))
    return [shuffled[start : start + size] for start in range(0, len(rows), size)]


def run(transform: beam.PTransform[Any, Any], parts: list[Rows], check: Callable[[Divisions], None]) -> None:
    def checked(found: list[Divisions]) -> None:
        (divisions,) = found
        check(divisions)

    with beam.Pipeline(runner=make_runner(PipelineOptions([]))) as pipeline:
        rows = pipeline | beam.Create(range(len(parts))) | beam.Map(parts.__getitem__).with_output_types(Any)
        divisions = rows | transform
        assert_that(divisions, checked)


def as_pairs(cuts: Cuts) -> list[tuple[int, int]]:
    return list(zip(cuts.keys.tolist(), cuts.ties.tolist(), strict=True))


def five(_: str, examples: int, __: int) -> list[int]:
    return example_cuts(examples, min(5, examples))


REPEATED: Rows = [("train", (index % 7) << 40, RANDOM.getrandbits(64), 1 + index % 3) for index in range(3000)]


@pytest.mark.parametrize(
    ("most_keys", "size", "repeats", "gathered"),
    [
        *((1, 370, True, gathered) for gathered in (1, 700, divisions.GATHERED_KEYS)),
        *((1 << 18, 370, True, 700), (100, 10_000, True, 1), (1, 370, False, 700)),
    ],
)
@pytest.mark.parametrize("rows", [SPREAD, TIED, DENSE, REPEATED], ids=["spread", "tied", "dense", "repeated"])
def test_example_cuts_are_those_of_a_sort(
    rows: Rows, size: int, most_keys: int, repeats: bool, gathered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(divisions, "GATHERED_KEYS", gathered)
    monkeypatch.setattr(divisions, "KEYS_AT_ONCE", max(1, gathered // 7))

    def check(divisions: Divisions) -> None:
        assert divisions.keys() == {row[0] for row in rows}
        for name, division in divisions.items():
            ordered = sorted(row[1:3] for row in rows if row[0] == name)
            assert division.examples == len(ordered) == 3000
            assert division.parts == 5
            assert as_pairs(division.cuts) == [ordered[rank] for rank in example_cuts(3000, 5)]

    find = FindExampleCuts(group, five, Threads(2), most_keys, repeats)
    run(find, batches(rows, size), check)


def test_equal_keys_are_not_gathered() -> None:
    """Of a million equal rows, no more travels to where cuts are picked than a histogram's bin for each."""
    ties = np.random.default_rng(5).integers(0, 1 << 63, 1 << 20, np.uint64) * np.uint64(2)
    arrays = {"train": (np.full(1 << 20, 42, np.uint64), ties, np.ones(1 << 20, np.int64))}

    located = divisions.locate(find_cuts._make_histograms(dict, arrays)[0], five, 1 << 10)
    assert divisions.select_keys_in_bins(arrays, located) == []
    ((name, (keys, counts)),) = divisions.count_repeats(arrays, located)
    assert (keys.tolist(), counts.tolist()) == ([42], [1 << 20])
    repeated = merge_all(({"train": {key: [rank]}} for key, rank in pick_keys(keys, counts, name[-1])), dict)
    in_ties = divisions.locate_ties(divisions.tie_histograms(arrays, repeated)[0], repeated)
    found = divisions.select_ties_in_bins(arrays, in_ties)
    assert sum(len(part.keys) for _, part in found) < 400
    cuts = [tie for _, part in found for _, (tie, _) in divisions.pick_cuts([part])]
    assert sorted(cuts) == [int(np.sort(ties)[rank]) for rank in example_cuts(1 << 20, 5)]


def test_bins_of_few_keys_are_gathered_together() -> None:
    """A table of some thousand shards has as many bins of some keys: they travel as a few elements of each run."""
    random = np.random.default_rng(6)
    runs = [
        {"train": (random.integers(0, 1 << 63, 50_000, np.uint64) * np.uint64(2), *np.zeros((2, 50_000), np.int64))}
        for _ in range(4)
    ]
    histograms = find_cuts._merge_by_group([find_cuts._make_histograms(dict, run)[0] for run in runs])
    located = divisions.locate(histograms, lambda *_: example_cuts(200_000, 4_000), 1 << 18)
    assert sum(map(len, located.small_bins)) > 3_000
    assert len(located.small_bins) == 1
    found = [divisions.select_keys_in_bins(run, located) for run in runs]
    assert [len(parts) for parts in found] == [1] * len(runs)
    cuts = divisions.pick_cuts([keys for parts in found for _, keys in parts])
    every = np.sort(np.concatenate([run["train"][0] for run in runs]))
    assert sorted(key for _, (key, _) in cuts) == every[example_cuts(200_000, 4_000)].tolist()


def test_what_is_gathered_does_not_hang_on_what_was_counted_first() -> None:
    """A step may run again, on histograms that were merged in another order: its bins must be called the same."""
    keys = {name: np.arange(300, dtype=np.uint64) << np.uint64(55) for name in ("train", "test", "validation")}
    counted = {name: make_histogram(found, np.ones(300, np.int64)) for name, found in keys.items()}
    one = divisions.locate(counted, five, 1 << 18)
    other = divisions.locate(dict(reversed(counted.items())), five, 1 << 18)
    assert one == other


def uneven(name: str, examples: int, _: int) -> list[int]:
    return {"none": [], "first": [0], "twice": [2, 2], "end": [examples], "all": [1, 1, examples]}[name]


def test_what_is_gathered_on_one_worker_is_megabytes() -> None:
    """Of a bin with more keys, equal ones therefore, the ties are counted: see above."""
    assert FindExampleCuts(group, five).most_keys * 16 <= 8 << 20  # a key and a tie, of 8 bytes each


def test_cuts_at_the_ends_and_equal_ones() -> None:
    rows = [(name, key, 0, 10) for name in ("none", "first", "twice", "end", "all") for key in range(3)]
    keys, ties = np.arange(3, dtype=np.uint64), np.zeros(3, np.uint64)

    def check(divisions: Divisions) -> None:
        parts = {name: division.cuts.find_parts(keys, ties).tolist() for name, division in divisions.items()}
        assert parts == {"none": [0, 0, 0], "first": [1, 1, 1], "twice": [0, 0, 2], "end": [0, 0, 0], "all": [0, 2, 2]}

    run(FindExampleCuts(group, uneven), batches(rows, 4), check)


def three(_: str, examples: int, __: int) -> int:
    return min(3, examples)


@pytest.mark.parametrize("size", [370, 10_000])
@pytest.mark.parametrize("rows", [SPREAD, TIED, DENSE], ids=["spread", "tied", "dense"])
def test_byte_cuts_balance_bytes(rows: Rows, size: int) -> None:
    def check(divisions: Divisions) -> None:
        for name, (keys, ties, sizes) in group(rows).items():
            division = divisions[name]
            assert as_pairs(division.cuts) == as_pairs(divide_by_bytes(keys, ties, sizes, 3).cuts)
            weights = np.bincount(division.cuts.find_parts(keys, ties), sizes)
            assert len(weights) == division.parts == 3
            assert weights.max() - weights.min() <= sizes.max()

    run(DivideKeys(group, partial(divide_into_parts, three)), batches(rows, size), check)


@pytest.mark.parametrize(
    "transform", [FindExampleCuts(group, five), DivideKeys(group, partial(divide_into_parts, three))]
)
def test_nothing_to_divide(transform: beam.PTransform[Any, Any]) -> None:
    def check(divisions: Divisions) -> None:
        assert divisions == {}

    run(transform, [], check)


def test_parts_of_a_division() -> None:
    assert Division(0, to_cuts([])).parts == 0
    assert Division(5, to_cuts([])).parts == 1
    assert Division(5, to_cuts([(1, 0), (2, 0)])).parts == 3


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
        for number, keys in select_keys_in_bins(grouped(batches[index]), located):
            found.setdefault(number, []).append(keys)
    return to_cuts(reversed([pair for parts in found.values() for _, pair in pick_cuts(parts)]))


def grouped(pairs: list[Pair]) -> Grouped:
    return {"all": (*arrays(pairs), np.ones(len(pairs), np.int64))}


@given(st.data())
@settings(max_examples=150)
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


def test_bins_are_the_leading_bits() -> None:
    keys = np.array([0, BIN - 1, BIN, TOP - BIN, TOP - BIN + 1, TOP], np.uint64)

    assert compute_bins(keys).tolist() == [0, 0, 1, (1 << BIN_BITS) - 2, (1 << BIN_BITS) - 1, (1 << BIN_BITS) - 1]
    assert compute_bins(keys).dtype == np.uint32


@given(st.lists(st.lists(st.tuples(KEYS, st.integers(0, 10**12)), max_size=20), max_size=5), st.randoms())
@settings(max_examples=60)
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


@pytest.mark.parametrize(
    ("cuts", "pairs", "parts"),
    [
        ([], [(0, 0), (5, 5), (TOP, TOP)], [0, 0, 0]),
        ([(10, 5), (10, 5)], [(10, 4), (10, 5), (10, 6)], [0, 2, 2]),  # equal cuts leave a part empty
        (
            [(10, 5), (10, 7), (20, 0)],
            [(9, TOP), *((10, tie) for tie in (0, 4, 5, 6, 7, TOP)), (11, 0), (19, 9), (20, 0), (TOP, 0)],
            [0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3],
        ),
    ],
)
def test_a_cut_starts_the_next_part(cuts: list[Pair], pairs: list[Pair], parts: list[int]) -> None:
    assert to_cuts(cuts).find_parts(*arrays(pairs)).tolist() == parts


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
