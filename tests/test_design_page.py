"""The table of a tebibyte in docs/benchmarks.md is what the planning code computes."""

from fractions import Fraction

import pytest

from shardmill.transforms.options.job_options import DEFAULT_SHARD_SIZE
from shardmill.transforms.records.staging import MAX_SLICES
from tests.support.command import REPOSITORY
from tests.support.tebibyte import TOTAL, planned, rows_of, table

MOST_BYTES = 64 << 20  # of side inputs, all together: what a worker holds of them for as long as the job takes


def test_the_table() -> None:
    assert table() in (REPOSITORY / "docs" / "benchmarks.md").read_text()


@pytest.mark.parametrize("growth", [1, 3])
def test_side_inputs_are_small(growth: int) -> None:
    _, sides = planned(TOTAL * growth, TOTAL * growth // DEFAULT_SHARD_SIZE)
    assert 0 < sum(sides.values()) < MOST_BYTES


def test_slices() -> None:
    number, size = dict(rows_of(Fraction(1)))["slices"].split(" of ")
    assert int(number.replace(",", "")) <= 1.01 * MAX_SLICES
    assert float(size.removesuffix(" kB")) >= 64
