"""Tests of pipelines/reports/content.py.

* What is odd about a feature, in words
* Which shards are not what was written, in the verdict of the page
"""

import json
from pathlib import Path

import pytest

from shardmill.pipelines.cli import main
from shardmill.pipelines.reports.content import alerts, damaged_shards
from shardmill.quality.stats_file import FeatureSummary
from shardmill.quality.stats_values import Distinct, Numbers
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run


@pytest.mark.parametrize(
    ("train", "test", "said"),
    [
        (FeatureSummary(missing=0), FeatureSummary(missing=0), []),
        (FeatureSummary(distinct=Distinct(1)), FeatureSummary(distinct=Distinct(1)), ["constant"]),
        (
            FeatureSummary(distinct=Distinct(1), numbers=Numbers(infinity=3)),
            FeatureSummary(distinct=Distinct(1), numbers=Numbers(nan=1)),
            ["3 infinite in train", "1 NaN in test"],
        ),
        (FeatureSummary(distinct=Distinct(7)), FeatureSummary(distinct=Distinct(1)), ["one value in test"]),
        (
            FeatureSummary(distinct=Distinct(100)),
            FeatureSummary(distinct=Distinct(50)),
            ["unique: every value differs"],
        ),
        (FeatureSummary(distinct=Distinct(99)), FeatureSummary(distinct=Distinct(50)), []),
        (
            FeatureSummary(distinct=Distinct(97, 0.03)),
            FeatureSummary(distinct=Distinct(50)),
            ["unique or nearly so, by an estimate"],
        ),
        (
            FeatureSummary(distinct=Distinct(100), numbers=Numbers(minimum=0.5)),  # fractions
            FeatureSummary(distinct=Distinct(50), numbers=Numbers(minimum=0.5)),
            [],
        ),
        (FeatureSummary(missing=51), FeatureSummary(missing=25), ["mostly missing: 51.0 % of train"]),
        (FeatureSummary(missing=0), FeatureSummary(missing=50), ["missing in all of test"]),
        (FeatureSummary(missing=100), FeatureSummary(missing=50), ["missing everywhere"]),
        (
            FeatureSummary(numbers=Numbers(nan=2)),
            FeatureSummary(numbers=Numbers(infinity=1)),
            ["2 NaN in train", "1 infinite in test"],
        ),
        (
            FeatureSummary(is_mixed=True),
            FeatureSummary(without_name=1_000),
            ["of different types in train", "1,000 ids without a name in test"],
        ),
    ],
)
def test_alerts(train: FeatureSummary, test: FeatureSummary, said: list[str]) -> None:
    assert alerts({"train": (100, train), "test": (50, test)}) == said


@pytest.fixture
def version(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text("a\n" + "".join(f"{n}\n" for n in range(40)))
    flags = ["--output", str(tmp_path), "--name", "n", "--num_shards", "4"]
    assert main(["csv", "--input", str(tmp_path / "rows.csv"), *flags]) == 0
    return tmp_path / "n/1.0.0"


def test_shards_as_they_were_written(version: Path) -> None:
    assert damaged_shards(open_dataset(version), {}) == []


def test_what_is_missing_cut_or_cannot_be_read_is_named(version: Path) -> None:
    gone, cut, bad, _ = sorted(version.glob("*.tfrecord*"))
    size = cut.stat().st_size
    gone.unlink()
    cut.write_bytes(cut.read_bytes()[:99])

    (found,) = damaged_shards(open_dataset(version), {bad.name: "it fails its checksum"})
    assert (found.check, found.severity, found.value) == ("damaged_shards", "error", 3.0)
    assert found.sentence == (
        f"3 of 4 shards are not what was written: {gone.name} is missing, {cut.name} has 99 bytes, not {size:,},"
        f" {bad.name} cannot be read (it fails its checksum)"
    )


@pytest.mark.parametrize("against", [(), ("--against", "1.0.0")])
def test_the_verdict_of_a_table_with_a_missing_shard_is_bad(version: Path, run: Run, against: tuple[str, ...]) -> None:
    """Whose shards a page does not read."""
    next(version.glob("*.tfrecord*")).unlink()

    result = run("report", version, "--json", *against)
    verdict = json.loads(result.out)["verdict"]
    assert (result.status, verdict["severity"]) == (0, "error")
    assert verdict["checks"][0]["sentence"].startswith("1 of 4 shards are not what was written: ")
