"""The table of what is in the features of a split."""

from pathlib import Path

from shardmill.filesystem import LocalFiles
from shardmill.metadata.manifest import Manifest
from shardmill.pipelines.reports.inspection import column_lines, statistics_table
from shardmill.quality.stats_file import FeatureSummary, SplitSummary
from shardmill.quality.stats_values import Distinct, Numbers
from shardmill.reading.dataset import Dataset


def test_a_row_a_feature() -> None:
    age = Numbers(minimum=0, maximum=1_999, quantiles={"0.05": 3, "0.25": 9, "0.5": 31, "0.95": 90})
    table = statistics_table(
        SplitSummary(
            4_000,
            1,
            0,
            features={
                "age": FeatureSummary(count=3_000, missing=1_000, distinct=Distinct(100), numbers=age),
                "id": FeatureSummary(distinct=Distinct(4_003, 0.03), numbers=Numbers(minimum=-0.5, maximum=0.25)),
                "note": FeatureSummary(missing=0, length_bytes=Numbers(minimum=2, maximum=70)),
                "label": FeatureSummary(classes={"cat": 4_000}),
            },
        )
    )

    assert [line.split() for line in table.splitlines()] == [
        ["feature", "missing", "distinct", "min", "5", "%", "50", "%", "95", "%", "max", "of"],
        ["age", "1,000", "100", "0", "3", "31", "90", "1,999"],
        ["id", "~4,003", "-0.5", "0.25"],
        ["note", "0", "2", "70", "length", "in", "bytes"],
    ]


def test_nothing_to_say() -> None:
    assert statistics_table(SplitSummary(1, 1, 0, features={"label": FeatureSummary(classes={"cat": 1})})) == ""


def test_names_of_features_are_not_markup() -> None:
    summary = FeatureSummary(missing=7)

    assert "[red]x :cat: \\x1b  " in statistics_table(SplitSummary(1, 1, 0, features={"[red]x :cat: \x1b": summary}))


def test_records_that_are_not_parsed_have_no_columns(tmp_path: Path) -> None:
    assert column_lines(Dataset(str(tmp_path), Manifest("n", "1.0.0", "", (), ()), LocalFiles()), None) == []
