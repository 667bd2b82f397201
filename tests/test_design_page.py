"""docs/benchmarks.md names its commands, and its table of a tebibyte is what the planning code computes."""

import re
from fractions import Fraction

import pytest

from shardmill.transforms.options.job_options import DEFAULT_SHARD_SIZE
from shardmill.transforms.records.staging import MAX_SLICES
from tests.support.command import REPOSITORY
from tests.support.tebibyte import TOTAL, planned, rows_of, table

MOST_BYTES = 64 << 20  # of side inputs, all together: what a worker holds of them for as long as the job takes


PAGE = (REPOSITORY / "docs" / "benchmarks.md").read_text()


def test_the_table() -> None:
    assert table() in PAGE


def test_every_measurement_names_its_command() -> None:
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
    losses = sections.pop("Where shardmill loses")

    assert [name for name, text in sections.items() if not re.search(r"python (benchmarks/|-m tests)", text)] == []
    assert losses.count("\n- **") >= 5
    assert [name for name in re.findall(r"benchmarks/\w+\.py", PAGE) if not (REPOSITORY / name).exists()] == []


@pytest.mark.parametrize("growth", [1, 3])
def test_side_inputs_are_small(growth: int) -> None:
    _, sides = planned(TOTAL * growth, TOTAL * growth // DEFAULT_SHARD_SIZE)
    assert 0 < sum(sides.values()) < MOST_BYTES


def test_slices() -> None:
    number, size = dict(rows_of(Fraction(1)))["slices"].split(" of ")
    assert int(number.replace(",", "")) <= 1.01 * MAX_SLICES
    assert float(size.removesuffix(" kB")) >= 64
