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
AGE = Numbers(
    minimum=-1.0,
    maximum=8.0,
    mean=2.5,
    std_dev=1.5,
    zeros=2,
    nan=1,
    quantiles={"0.25": 0.0, "0.5": 2.0},
    histogram=(Bucket(-1.0, 2.0, 5), Bucket(4.0, 8.0, 4)),
)
TRAIN = SplitSummary(
    12,
    1000,
    0,
    features={
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
    },
)
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
    names = pb.FeatureNameStatistics.Type.Name
    assert {name: names(feature.type) for name, feature in by_name.items()} == {
        "image": "BYTES",
        "label": "INT",
        "age": "FLOAT",
        "city": "STRING",
        "boxes": "INT",
        "vector": "FLOAT",
        "ids": "INT",
    }


def test_presence(by_name: dict[str, Any]) -> None:
    found = {
        name: getattr(feature, feature.WhichOneof("stats")).common_stats
        for name, feature in by_name.items()
        if name in ("image", "age", "boxes", "vector")
    }
    assert {name: (one.num_non_missing, one.num_missing) for name, one in found.items()} == {
        "image": (12, 0),
        "age": (10, 2),
        "boxes": (12, 0),
        "vector": (12, 0),
    }
    assert {
        name: (one.min_num_values, one.max_num_values, one.avg_num_values, one.tot_num_values)
        for name, one in found.items()
    } == {"image": (1, 1, 1, 12), "age": (1, 1, 1, 10), "boxes": (0, 8, 3, 36), "vector": (3, 3, 3, 36)}


def test_numbers(by_name: dict[str, Any]) -> None:
    stats = by_name["age"].num_stats
    assert (stats.mean, stats.std_dev, stats.num_zeros, stats.min, stats.median, stats.max) == (2.5, 1.5, 2, -1, 2, 8)
    standard, quantiles = stats.histograms
    assert (standard.type, quantiles.type) == (pb.Histogram.STANDARD, pb.Histogram.QUANTILES)
    assert standard.num_nan == 1
    assert [(one.low_value, one.high_value, one.sample_count) for one in standard.buckets] == [
        (-1, 2, 5),
        (2, 4, 0),  # buckets meet
        (4, 8, 4),
    ]
    assert [(one.low_value, one.high_value, one.sample_count) for one in quantiles.buckets] == [
        (-1, 0, 2.25),  # a quarter of the nine that are numbers
        (0, 2, 2.25),
        (2, 8, 4.5),
    ]


def test_classes_are_categorical_integers(by_name: dict[str, Any]) -> None:
    stats = by_name["label"].string_stats
    assert (stats.unique, [(one.value, one.frequency) for one in stats.top_values]) == (2, [("1", 9), ("0", 3)])
    assert [(one.low_rank, one.high_rank, one.label, one.sample_count) for one in stats.rank_histogram.buckets] == [
        (0, 0, "1", 9),
        (1, 1, "0", 3),
    ]
    (custom,) = by_name["label"].custom_stats
    assert custom.name == "classes"
    assert [(one.label, one.sample_count) for one in custom.rank_histogram.buckets] == [("ant", 3), ("bee", 9)]


def test_strings(by_name: dict[str, Any]) -> None:
    stats = by_name["city"].string_stats
    assert (stats.unique, stats.avg_length) == (5, 4.5)
    assert [(one.value, one.frequency) for one in stats.top_values] == [("Genf", 7), ("Zürich", 2)]


def test_files(by_name: dict[str, Any]) -> None:
    stats = by_name["image"].bytes_stats
    assert (stats.avg_num_bytes, stats.min_num_bytes, stats.max_num_bytes, stats.max_num_bytes_int) == (
        80.5,
        70,
        90,
        90,
    )
    (custom,) = by_name["image"].custom_stats
    assert (custom.name, [(one.label, one.sample_count) for one in custom.rank_histogram.buckets]) == (
        "formats",
        [("png", 8), ("jpeg", 4)],
    )


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
