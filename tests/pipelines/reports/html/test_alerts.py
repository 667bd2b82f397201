"""What is odd about a feature, in words."""

import pytest

from shardmill.pipelines.reports.content import alerts
from shardmill.quality.stats_file import FeatureSummary
from shardmill.quality.stats_values import Distinct, Numbers


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
