"""Whole groups in splits: never less even than by their hashes, in any order of input."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.transforms import strata
from shardmill.transforms.options.job_options import parse_splits
from shardmill.transforms.shards.balance import assign_splits, split_thresholds
from shardmill.transforms.shards.divisions import Divisions, Grouped, count_keys, gather_keys

THREE = parse_splits("train=0.7,validation=0.2,test=0.1")
FRACTIONS = np.array([0.7, 0.2, 0.1])
Table = dict[int, list[int]]  # examples of each class by the hash of a group


def to_grouped(table: Table) -> Grouped:
    """Return one record for each example, as a batch has them: keys by class, in an order of the first group."""
    keys, counts = np.array(list(table), np.uint64), np.array(list(table.values()), np.int64)
    columns = list(enumerate(counts.T))[:: -1 if int(keys[:1].sum()) % 2 else 1]
    each = {f"c{index}": np.repeat(keys, column) for index, column in columns if column.any()}
    return {
        name: (found, np.zeros(len(found), np.uint64), np.ones(len(found), np.int64)) for name, found in each.items()
    }


def divide(*tables: Table) -> Divisions:
    """Divide groups whose examples are in several batches."""
    batches = map(partial(count_keys, to_grouped), tables)
    return strata.divide_groups(THREE, "y", gather_keys(batches))


def parts_of(divisions: Divisions, table: Table) -> np.ndarray:
    """Return the part of each group, which all classes must agree about."""
    keys = np.array(list(table), np.uint64)
    first, *others = (division.cuts.find_parts(keys, keys) for division in divisions.values())
    assert all((parts == first).all() for parts in others)
    return first


def measure_unevenness(table: Table, parts: np.ndarray) -> float:
    """Return the sum of the squares by which classes miss the fractions, each by its fraction."""
    counts = np.array(list(table.values()), np.float64)
    shares = np.array([counts[parts == part].sum(axis=0) for part in range(3)]) / np.maximum(counts.sum(axis=0), 1)
    return float((((shares.T - FRACTIONS) ** 2)[counts.any(axis=0)] / FRACTIONS).sum())


KEYS = st.integers(0, 2) | st.integers(0, (1 << 64) - 1)
COUNTS = st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any)


@given(st.dictionaries(KEYS, COUNTS, min_size=1, max_size=30), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_groups_are_no_less_even_than_their_hashes_in_any_order(table: Table, random: Any) -> None:
    divisions = divide(table)
    parts = parts_of(divisions, table)
    hashed = assign_splits(np.array(list(table), np.uint64), split_thresholds([fraction for _, fraction in THREE]))
    assert measure_unevenness(table, parts) <= measure_unevenness(table, hashed) + 1e-9
    totals = np.array(list(table.values())).sum(axis=0)
    assert {name: division.examples for name, division in divisions.items()} == {
        f"c{index}": total for index, total in enumerate(totals) if total
    }

    keys = random.sample(list(table), len(table))
    halves = [{key: [count // 2 + odd * (count % 2) for count in table[key]] for key in keys} for odd in (0, 1)]
    other = divide(*random.sample(halves, 2))
    assert (parts_of(other, table) == parts).all()
    assert [division.notices for division in other.values()] == [division.notices for division in divisions.values()]


def test_all_groups_are_tried_until_none_moves_for_the_better() -> None:
    bits = np.random.default_rng(7)
    table = {int(bits.integers(0, 1 << 64, dtype=np.uint64)): bits.integers(0, 4, 3).tolist() for _ in range(3000)}
    parts = parts_of(divide(table), table)
    least = measure_unevenness(table, parts)
    assert least < 1e-6
    for group in range(0, len(parts), 97):
        for part in range(3):
            moved = parts.copy()
            moved[group] = part
            assert measure_unevenness(table, moved) >= least - 1e-9


def test_most_groups_keep_their_split_when_groups_are_added() -> None:
    bits = np.random.default_rng(8)
    keys = bits.integers(0, 1 << 64, 1020, dtype=np.uint64).tolist()
    table = {key: bits.integers(0, 9, 3).tolist() for key in keys}
    before = dict(list(table.items())[:1000])
    kept = parts_of(divide(before), before) == parts_of(divide(table), table)[:1000]
    assert 0.95 < kept.mean() < 1


FEW = "--stratify_by y: {} in fewer groups than there are splits, so not in all splits, such as {}"
MISSED = "--stratify_by y with whole groups: {} the fractions of --splits by more than 0.1%; the farthest is {}"
FAR = MISSED.format("1 class misses", "'c0', of which train has 90.0% in place of 70.0%")


@pytest.mark.parametrize(
    ("table", "notices"),
    [
        ({1: [7, 0, 0], 2: [2, 0, 0], 3: [1, 0, 0]}, []),
        ({1: [9, 0, 0], 2: [0, 0, 0], 3: [1, 0, 0]}, [FAR, FEW.format("1 class is", "'c0' in 2 groups")]),
        ({1: [7, 7, 1], 2: [2, 2, 0], 3: [1, 1, 0]}, [FEW.format("1 class is", "'c2' in 1 group")]),
        ({1: [1, 0, 0], 2: [1, 0, 0], 3: [1, 0, 0]}, []),  # rounded, as without groups
        ({}, []),
    ],
)
def test_notices(table: Table, notices: list[str]) -> None:
    found = {notice for division in divide(table).values() for notice in division.notices}
    assert found == set(notices)
