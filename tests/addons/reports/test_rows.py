"""Tests of rows.py: charts and histograms, and the rows of checks, builds, features and labels."""

from typing import Any

import pytest

from shardmill.addons.reports import rows as report_rows
from shardmill.quality.limits import CheckResult, Severity
from shardmill.quality.stats_file import FeatureSummary
from shardmill.quality.stats_values import Bucket, Numbers, TopValue


def test_bars() -> None:
    assert report_rows.bars_path([1, 2, 0, 2]) == "M0 24H0V12H24V0H48V24H72V0H96V24"
    assert report_rows.bars_path([1, 1], top=2) == "M0 24H0V12H96V24"
    assert report_rows.bars_path([1_000_000, 1]) == "M0 24H0V0H48V23H96V24"  # what is there is seen
    assert report_rows.bars_path([]) == report_rows.bars_path([0, 0]) == ""


def histogram(*buckets: Bucket) -> Numbers:
    return Numbers(histogram=buckets)


@pytest.mark.parametrize(
    ("numbers", "bins", "shares"),
    [
        (
            [histogram(Bucket(0.0, 2.0, 4), Bucket(3.0, 4.0, 4)), histogram(Bucket(2.0, 2.0, 5)), None],
            4,
            [[0.25, 0.25, 0, 0.5], [0, 0, 1, 0], []],
        ),
        # Powers of two are bins
        (
            [histogram(Bucket.of_bits(7, 3), Bucket.of_bits(9, 1)), histogram(Bucket.of_bits(8, 2))],
            24,
            [[0.75, 0, 0.25], [0, 1, 0]],
        ),
        *(([histogram(Bucket(value, value, 3))], 5, [[0, 0, 1, 0, 0]]) for value in (0, 7, -1.5, 1.7e308)),
        ([histogram(Bucket(0, 2, 1), Bucket(2, 4, 1), Bucket(4, 100, 0))], 2, [[0.5, 0.5]]),  # an empty one is no part
    ],
)
def test_histograms_of_splits_over_the_same_bins(numbers: list[Numbers | None], bins: int, shares: Any) -> None:
    assert report_rows.compute_bin_shares(numbers, bins) == shares


def test_the_widest_range_there_is() -> None:
    (found,) = report_rows.compute_bin_shares([histogram(Bucket(-1.7e308, -1.0, 1), Bucket(1.0, 1.7e308, 1))], 4)

    assert sum(found) == pytest.approx(1)


def rows(*results: CheckResult) -> list[dict[str, str]]:
    return report_rows.check_rows([result.to_json() for result in results])


def of(severity: Severity, number: int = 0) -> CheckResult:
    return CheckResult("skew", severity, f"sentence {number}", f"column {number}", "test")


def test_hundreds_that_are_unknown_are_one_line() -> None:
    (row,) = rows(*(of("unknown", number) for number in range(1_234)))

    words = {"feature": "1,234: column 0, column 1, column 2, …", "sentence": "1,234 times, such as: sentence 0"}
    assert row == {"severity": "unknown", "check": "skew", "split": "test", **words}


def test_a_few_stand_alone_and_the_gravest_first() -> None:
    found = rows(of("unknown"), of("ok"), of("warn", 1), of("unknown", 2), of("error", 3))

    shown = [f"{row['severity']} {row['sentence']}" for row in found]
    assert shown == ["error sentence 3", "warn sentence 1", "unknown sentence 0", "unknown sentence 2"]


def test_each_check_has_its_own_line() -> None:
    other = [CheckResult("drift", "unknown", "nobody knows") for _ in range(4)]

    assert [row["check"] for row in rows(*other, *(of("unknown", n) for n in range(5)))] == ["drift", "skew"]
    assert rows(*other)[0]["feature"] == ""


SHOWN: dict[str, tuple[Any, str]] = {
    "records": (3_000_000, "3,000,000"),
    "in_examples": (1_000, "1,000"),
    "size_bytes": (43_567, "43.6 kB"),
    "shard_size": (134_217_728, "134.2 MB"),
    "splits": ({"train": "4/5", "test": "1/5"}, "train 4/5, test 1/5"),
    "missing": (["", "NA"], '"", NA'),
    "drop": ([], "none"),
    "fill": ({}, "none"),
    "key": (None, "none"),
    "no_shuffle": (False, "no"),
    "line_numbers": (True, "yes"),
    "max_reject_fraction": (0.01, "0.01"),
    "tokenizer": ({"name": "t.json", "sha256": "43"}, "name t.json, sha256 43"),
    "pattern": ("in/*.csv", "in/*.csv"),
}


def test_counts_and_options_are_words() -> None:
    names = {"in_examples": "records in examples", "size_bytes": "size"}
    expected = [(names.get(name, name), words) for name, (_, words) in SHOWN.items()]

    assert report_rows.make_build_rows({name: value for name, (value, _) in SHOWN.items()}) == expected


FEATURE = {"name": "x", "kind": "tensor", "dtype": "int64", "alerts": []}


def row(summary: FeatureSummary) -> report_rows.FeatureRow:
    return report_rows.feature_row(FEATURE, {"train": summary}, 3, 5, 24)


def test_zeros_and_values_of_lists_are_shares_of_all_values() -> None:
    numbers = Numbers(minimum=0, maximum=9, zeros=30)
    top = (TopValue(0, 30), TopValue(7, 10))
    one = row(FeatureSummary(count=40, missing=0, numbers=numbers, top_values=top))
    lists = row(FeatureSummary(count=20, missing=0, numbers=numbers, top_values=top, per_example=Numbers(mean=5.0)))
    sample = row(FeatureSummary(count=20, missing=0, top_values=(TopValue("a", 9),), top_values_from="a sample"))

    assert one.columns[1] == ("75.0 %",)
    assert lists.columns[1] == ("30.0 %",)
    assert lists.top == [("0", 30, "30.0 %"), ("7", 10, "10.0 %")]
    assert sample.top == [("a", 9, "")]


def test_rates_and_channels_of_audio_are_shown() -> None:
    rates = row(FeatureSummary(frames_by_rate={8_000: 300, 44_100: 100}))
    channels = row(FeatureSummary(files_by_channels={1: 2}))

    assert (rates.of, rates.top) == ("frames", [("8,000", 300, "75.0 %"), ("44,100", 100, "25.0 %")])
    assert (channels.of, channels.top) == ("files", [("1", 2, "100 %")])
    assert rates.filled


def test_classes_that_are_gone_come_first_in_their_order() -> None:
    classes, splits = ["ant", "bee", "cat"], {"train": {"bee": 4, "cat": 7}}
    before = {"version": "1.0.0", "classes": {"ant": 3, "bee": 9, "cat": 7, "dog": 5}}
    rows = report_rows.label_rows(
        {"name": "pet", "of": "examples", "classes": classes, "splits": splits, "before": before}
    )["rows"]

    assert [(row["name"], row["counts"], row["change"]) for row in rows] == [
        ("ant", [0], "gone"),
        ("dog", [0], "gone"),
        ("bee", [4], "-55.6 %"),
        ("cat", [7], "0 %"),
    ]
