"""Sketches against what they sketch: exact where they say so, close where not, and the same for any parts in any
order."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.quality.stats_values import SAMPLE_SIZE
from shardmill.transforms.statistics.sketches import HASHES_KEPT, DistinctValues, Sample, mix, run_starts


def hashes_of(numbers: np.ndarray) -> np.ndarray:
    return mix(numbers.astype(np.uint64))


def distinct_of(*parts: np.ndarray) -> DistinctValues:
    """Counted part after part."""
    sketch = DistinctValues()
    for part in parts:
        sketch.add(*np.unique(hashes_of(part), return_counts=True))
    return sketch


def sample_of(*parts: np.ndarray) -> Sample:
    sample = Sample()
    for part in parts:
        sample.add(*part)
    return sample


def same(one: DistinctValues | Sample, other: DistinctValues | Sample) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in one.__slots__)


@st.composite
def parts(draw: st.DrawFn) -> list[np.ndarray]:
    """Numbers of which many, few or about as many as are kept differ, in parts."""
    size, kinds = (
        draw(st.integers(0, 6000)),
        draw(st.sampled_from([1, 30, HASHES_KEPT - 1, HASHES_KEPT, HASHES_KEPT + 1, 5000, 1 << 60])),
    )
    numbers = np.random.default_rng(draw(st.integers(0, 99))).integers(0, kinds, size)
    return np.split(numbers, sorted(draw(st.lists(st.integers(0, size), max_size=4))))


@settings(deadline=None, max_examples=60)
@given(parts(), st.randoms(use_true_random=False))
def test_distinct_values_of_parts_in_any_order(pieces: list[np.ndarray], order: Any) -> None:
    whole = distinct_of(np.concatenate(pieces))
    order.shuffle(pieces)
    merged = DistinctValues()
    for piece in pieces:
        merged.merge(distinct_of(piece))

    assert same(distinct_of(*pieces), whole)
    assert same(merged, whole)


@pytest.mark.parametrize("kinds", [0, 1, 2, HASHES_KEPT - 1, HASHES_KEPT])
def test_up_to_1024_values_are_counted(kinds: int) -> None:
    numbers = np.arange(3 * kinds) % max(kinds, 1)
    sketch = distinct_of(numbers[::2], numbers[1::2])

    assert sketch.counts is not None
    assert dict(zip(sketch.hashes.tolist(), sketch.counts.tolist())) == Counter(hashes_of(numbers).tolist())
    assert (sketch.number(), sketch.relative_error()) == (kinds, 0)


@pytest.mark.parametrize("kinds", [HASHES_KEPT + 1, 2 * HASHES_KEPT, 10_000, 1_000_000])
def test_more_values_are_estimated_within_four_standard_errors(kinds: int) -> None:
    sketch = distinct_of(np.arange(kinds), np.arange(kinds // 2))

    assert sketch.counts is None
    assert len(sketch.hashes) == HASHES_KEPT
    assert sketch.relative_error() == pytest.approx(0.0313, abs=1e-4)
    assert sketch.number() == pytest.approx(kinds, rel=4 * sketch.relative_error())


def test_hashes_of_many_values_may_repeat() -> None:
    hashes = hashes_of(np.arange(60_000) % 1500)
    sketch = DistinctValues()
    sketch.add(hashes, None)

    assert same(sketch, distinct_of(np.arange(1500)))


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 5000), st.sampled_from([3, 2000, 1 << 62]), st.lists(st.integers(0, 5000), max_size=4), st.booleans()
)
def test_a_sample_of_parts_in_any_order(size: int, ties: int, cuts: list[int], backwards: bool) -> None:
    """Even where ties are equal, or not spread at all."""
    generator = np.random.default_rng(size)
    offered = np.stack([generator.integers(0, ties, size), generator.integers(0, 50, size)]).astype(np.uint64)
    pieces = np.split(offered, sorted(cuts), axis=1)
    whole, merged = sample_of(offered), Sample()
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
    assert run_starts(np.array(values)).tolist() == starts
