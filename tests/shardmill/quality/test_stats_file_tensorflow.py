"""FeatureStats.pb, parsed by tensorflow-metadata's own proto, against values computed by hand."""

from typing import Any

import pytest
from tensorflow_metadata.proto.v0 import statistics_pb2 as pb

from shardmill.data.features import Feature
from shardmill.quality.feature_stats import to_bytes
from shardmill.quality.stats_file import FeatureSummary, SplitSummary, StatsFile
from shardmill.quality.stats_values import Bucket, Distinct, Numbers, TopValue

FEATURES = (
    Feature("image", "bytes", "image"),
    Feature("label", "int64", "class_label", class_names=("ant", "bee", "cow")),
    Feature("age", "float32", required=False),
    Feature("city", "bytes", "text"),
    Feature("boxes", "int64", shape=(None, 4)),
    Feature("vector", "float32", shape=(3,)),
    Feature("ids", "int64"),
    Feature("note", "bytes", "text", required=False),
)
AGE_BUCKETS = (Bucket(-1.0, 2.0, 5), Bucket(4.0, 8.0, 4))
AGE = Numbers(None, -1.0, 8.0, 2.5, 1.5, 2, 1, 0, {"0.25": 0.0, "0.5": 2.0}, histogram=AGE_BUCKETS)
SUMMARIES = {
    "image": FeatureSummary(
        formats={"png": 8, "jpeg": 4}, size_bytes=Numbers(count=12, minimum=70, maximum=90, mean=80.5)
    ),
    "label": FeatureSummary(classes={"ant": 3, "bee": 9, "cow": 0}),
    "age": FeatureSummary(count=10, missing=2, numbers=AGE),
    "city": FeatureSummary(
        distinct=Distinct(5),
        length_bytes=Numbers(minimum=1, maximum=9, mean=4.5),
        top_values=(TopValue("Genf", 7), TopValue("Zürich", 2)),
    ),
    "boxes": FeatureSummary(
        count=12, missing=0, per_example=Numbers(minimum=0, maximum=8, mean=3.0), numbers=Numbers(minimum=1)
    ),
    "vector": FeatureSummary(count=12, missing=0, numbers=Numbers(minimum=0.5)),
    "ids": FeatureSummary(top_values=(TopValue(1, 20),), top_values_from="1024 values"),
}
TRAIN = SplitSummary(12, 1000, 0, features=SUMMARIES)
STATS = StatsFile({"train": TRAIN, "test": SplitSummary(0, 0, 0)})


@pytest.fixture(scope="module")
def parsed() -> Any:
    return pb.DatasetFeatureStatisticsList.FromString(to_bytes(STATS, FEATURES))


@pytest.fixture(scope="module")
def by_name(parsed: Any) -> dict[str, Any]:
    return {feature.path.step[0]: feature for feature in parsed.datasets[0].features}


def test_a_data_set_a_split(parsed: Any) -> None:
    assert [(one.name, one.num_examples, len(one.features)) for one in parsed.datasets] == [
        ("train", 12, 7),  # nobody counted how often there is a note
        ("test", 0, 0),
    ]


def test_types(by_name: dict[str, Any]) -> None:
    names = {name: pb.FeatureNameStatistics.Type.Name(feature.type) for name, feature in by_name.items()}
    strings = {"image": "BYTES", "city": "STRING"}
    assert names == {**strings, "age": "FLOAT", "vector": "FLOAT", **dict.fromkeys(("label", "boxes", "ids"), "INT")}


@pytest.mark.parametrize(
    ("name", "missing", "values"),
    [("image", 0, (1, 1, 1, 12)), ("age", 2, (1, 1, 1, 10)), ("boxes", 0, (0, 8, 3, 36)), ("vector", 0, (3, 3, 3, 36))],
)
def test_presence(by_name: dict[str, Any], name: str, missing: int, values: tuple[int, ...]) -> None:
    found = getattr(by_name[name], by_name[name].WhichOneof("stats")).common_stats
    assert (found.num_non_missing, found.num_missing) == (12 - missing, missing)
    assert (found.min_num_values, found.max_num_values, found.avg_num_values, found.tot_num_values) == values


def test_numbers(by_name: dict[str, Any]) -> None:
    stats = by_name["age"].num_stats
    assert (stats.mean, stats.std_dev, stats.num_zeros, stats.min, stats.median, stats.max) == (2.5, 1.5, 2, -1, 2, 8)
    standard, quantiles = (
        [(one.low_value, one.high_value, one.sample_count) for one in histogram.buckets]
        for histogram in stats.histograms
    )
    assert [histogram.type for histogram in stats.histograms] == [pb.Histogram.STANDARD, pb.Histogram.QUANTILES]
    assert stats.histograms[0].num_nan == 1
    assert standard == [(-1, 2, 5), (2, 4, 0), (4, 8, 4)]  # buckets meet
    assert quantiles == [(-1, 0, 2.25), (0, 2, 2.25), (2, 8, 4.5)]  # a quarter of the nine that are numbers


def test_classes_are_categorical_integers(by_name: dict[str, Any]) -> None:
    stats = by_name["label"].string_stats
    ranks = [(one.low_rank, one.high_rank, one.label, one.sample_count) for one in stats.rank_histogram.buckets]
    assert (stats.unique, [(one.value, one.frequency) for one in stats.top_values]) == (2, [("1", 9), ("0", 3)])
    assert ranks == [(0, 0, "1", 9), (1, 1, "0", 3)]
    assert custom(by_name["label"]) == ("classes", [("ant", 3), ("bee", 9)])


def custom(feature: Any) -> tuple[str, list[tuple[str, float]]]:
    (one,) = feature.custom_stats
    return one.name, [(bucket.label, bucket.sample_count) for bucket in one.rank_histogram.buckets]


def test_strings(by_name: dict[str, Any]) -> None:
    stats = by_name["city"].string_stats
    assert (stats.unique, stats.avg_length) == (5, 4.5)
    assert [(one.value, one.frequency) for one in stats.top_values] == [("Genf", 7), ("Zürich", 2)]


def test_files(by_name: dict[str, Any]) -> None:
    stats = by_name["image"].bytes_stats
    sizes = stats.avg_num_bytes, stats.min_num_bytes, stats.max_num_bytes, stats.max_num_bytes_int
    assert sizes == (80.5, 70, 90, 90)
    assert custom(by_name["image"]) == ("formats", [("png", 8), ("jpeg", 4)])


def test_a_sample_is_no_count(by_name: dict[str, Any]) -> None:
    """Frequencies among 1,024 values that were drawn would be read as those of all."""
    assert by_name["ids"].WhichOneof("stats") == "num_stats"
    city = TRAIN.features["city"]
    drawn = FeatureSummary(top_values=city.top_values, top_values_from="1024 values")
    stats = StatsFile({"train": SplitSummary(12, 1, 0, features={"city": drawn})})
    (feature,) = pb.DatasetFeatureStatisticsList.FromString(to_bytes(stats, (FEATURES[3],))).datasets[0].features
    assert (len(feature.string_stats.top_values), len(feature.string_stats.rank_histogram.buckets)) == (0, 0)


def test_the_same_bytes() -> None:
    again = StatsFile.from_json(STATS.to_json(), "stats.json")
    assert to_bytes(again, FEATURES) == to_bytes(STATS, FEATURES)
