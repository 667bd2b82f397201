"""The rows of features: what shares are of."""

from shardmill.pipelines.reports.rows import FeatureRow, feature_row
from shardmill.quality.stats_file import FeatureSummary
from shardmill.quality.stats_values import Numbers, TopValue

FEATURE = {"name": "x", "kind": "tensor", "dtype": "int64", "alerts": []}


def row(summary: FeatureSummary) -> FeatureRow:
    return feature_row(FEATURE, {"train": summary}, 3, 5, 24)


def test_zeros_and_values_of_lists_are_shares_of_all_values() -> None:
    numbers = Numbers(minimum=0, maximum=9, zeros=30)
    top = (TopValue(0, 30), TopValue(7, 10))
    one = row(FeatureSummary(count=40, missing=0, numbers=numbers, top_values=top))
    lists = row(FeatureSummary(count=20, missing=0, numbers=numbers, top_values=top, per_example=Numbers(mean=5.0)))

    assert one.columns[1] == ("75.0 %",)
    assert lists.columns[1] == ("30.0 %",)
    assert lists.top == [("0", 30, "30.0 %"), ("7", 10, "10.0 %")]


def test_values_of_a_sample_have_no_share() -> None:
    found = row(FeatureSummary(count=20, missing=0, top_values=(TopValue("a", 9),), top_values_from="a sample"))

    assert found.top == [("a", 9, "")]


def test_rates_and_channels_of_audio_are_shown() -> None:
    rates = row(FeatureSummary(frames_by_rate={8_000: 300, 44_100: 100}))
    channels = row(FeatureSummary(files_by_channels={1: 2}))

    assert (rates.of, rates.top) == ("frames", [("8,000", 300, "75.0 %"), ("44,100", 100, "25.0 %")])
    assert (channels.of, channels.top) == ("files", [("1", 2, "100 %")])
    assert rates.filled
