"""Samples of the numbers that float32 merges."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.transforms.columns.conversion import FloatSample, sample_limit, sample_numbers


def sample_of(values: np.ndarray, limit: int) -> FloatSample:
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    return sample_numbers(narrow, lambda rows: np.unique(values) if rows is None else values[rows], limit)


@given(st.integers(1, 40), st.integers(1, 3000), st.integers(0, 1000), st.permutations(range(5)))
def test_parts_in_any_order_make_the_sample_of_the_whole(
    limit: int, different: int, seed: int, order: list[int]
) -> None:
    draw = np.random.default_rng(seed)
    values = draw.choice(52 + draw.random(different) / 1000, 6000)
    ends = np.sort(draw.integers(0, len(values), 4))
    parts = [sample_of(part, limit) for part in np.split(values, ends)]
    whole, merged = sample_of(values, limit).reduce(), reduce(FloatSample.merge, [parts[n] for n in order]).reduce()

    assert merged.level == whole.level
    assert merged.values.tolist() == whole.values.tolist()
    assert len(np.unique(whole.values.astype(np.float32))) <= limit


def test_a_sample_of_few_different_numbers_is_exact() -> None:
    values = np.repeat([0.1, 0.5, 0.50000001, -0.0, 0.0, 1e300, np.nan, np.inf, 0.500000011], 9)
    assert sample_of(values, 16).describe() == (
        "1 stored number replaces several different numbers of the input, such as 0.5 and 0.500000011, which both"
        " become 0.5"
    )
    assert sample_of(values[:18], 16).describe() == ""
    assert FloatSample(np.zeros(0)).describe() == ""


@pytest.mark.parametrize(("columns", "limit"), [(0, 2048), (64, 2048), (1000, 131), (20_000, 16)])
def test_wide_tables_have_smaller_samples(columns: int, limit: int) -> None:
    assert sample_limit(columns) == limit
