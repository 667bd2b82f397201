"""Tests of content.py: what is odd about a feature, and which shards are not what was written."""

import json
from pathlib import Path
from typing import Any

import pytest

from shardmill.addons.reports.content import alerts, damaged_shards
from shardmill.quality.stats_file import FeatureSummary
from shardmill.quality.stats_values import Distinct, Numbers
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run
from tests.support.reading import make


def distinct(count: int, error: float | None = None, **more: Any) -> FeatureSummary:
    return FeatureSummary(distinct=Distinct(count) if error is None else Distinct(count, error), **more)


def numbers(**values: Any) -> FeatureSummary:
    return FeatureSummary(numbers=Numbers(**values))


HALVES = Numbers(minimum=0.5)
INFINITE, NAN = distinct(1, numbers=Numbers(infinity=3)), distinct(1, numbers=Numbers(nan=1))
ODD_TYPES = ["of different types in train", "1,000 ids without a name in test"]


@pytest.mark.parametrize(
    ("train", "test", "said"),
    [
        (FeatureSummary(missing=0), FeatureSummary(missing=0), []),
        (distinct(1), distinct(1), ["constant"]),
        (INFINITE, NAN, ["3 infinite in train", "1 NaN in test"]),
        (distinct(7), distinct(1), ["one value in test"]),
        (distinct(100), distinct(50), ["unique: every value differs"]),
        (distinct(99), distinct(50), []),
        (distinct(97, 0.03), distinct(50), ["unique or nearly so, by an estimate"]),
        (distinct(100, numbers=HALVES), distinct(50, numbers=HALVES), []),  # fractions
        (FeatureSummary(missing=51), FeatureSummary(missing=25), ["mostly missing: 51.0 % of train"]),
        (FeatureSummary(missing=0), FeatureSummary(missing=50), ["missing in all of test"]),
        (FeatureSummary(missing=100), FeatureSummary(missing=50), ["missing everywhere"]),
        (numbers(nan=2), numbers(infinity=1), ["2 NaN in train", "1 infinite in test"]),
        (FeatureSummary(is_mixed=True), FeatureSummary(without_name=1_000), ODD_TYPES),
    ],
)
def test_alerts(train: FeatureSummary, test: FeatureSummary, said: list[str]) -> None:
    assert alerts({"train": (100, train), "test": (50, test)}) == said


def test_what_is_missing_cut_or_cannot_be_read_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a\n" + "".join(f"{n}\n" for n in range(40)))
    version = make("csv", tmp_path / "rows.csv", tmp_path, "--num_shards", 4)
    assert damaged_shards(open_dataset(version), {}) == []

    gone, cut, bad, _ = sorted(version.glob("*.tfrecord*"))
    size = cut.stat().st_size
    gone.unlink()
    for against in ((), ("--against", "1.0.0")):  # a page does not read the shards of a table
        result = run("report", version, "--json", *against)
        verdict = json.loads(result.out)["verdict"]
        assert (result.status, verdict["severity"]) == (0, "error")
        assert verdict["checks"][0]["sentence"].startswith("1 of 4 shards are not what was written: ")

    cut.write_bytes(cut.read_bytes()[:99])
    (found,) = damaged_shards(open_dataset(version), {bad.name: "it fails its checksum"})
    assert (found.check, found.severity, found.value) == ("damaged_shards", "error", 3.0)
    assert found.sentence == (
        f"3 of 4 shards are not what was written: {gone.name} is missing, {cut.name} has 99 bytes, not {size:,},"
        f" {bad.name} cannot be read (it fails its checksum)"
    )
