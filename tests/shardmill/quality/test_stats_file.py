"""stats.json: what is read is what was written, and what is no good is named."""

import json
import re
from functools import reduce
from operator import getitem
from typing import Any

import numpy as np
import pytest

from shardmill.errors import CorruptDataError
from shardmill.metadata.tfds_metadata import dump_json
from shardmill.quality.duplicates import Conflict, Conflicts, Duplicates, ExampleSource, Pair, RepeatedContents
from shardmill.quality.stats_file import FeatureSummary, SplitSummary, StatsFile
from shardmill.quality.stats_values import Bucket, BucketColumns, Distinct, Numbers, TopValue

LENGTHS = Numbers(minimum=1, maximum=4, mean=2.5, std_dev=0.5)
SIZES = Numbers(2, 3, 9, 6.0, 3.0, histogram=(Bucket.of_bits(2, 1), Bucket.of_bits(4, 1)))
FEATURES = {
    "price": FeatureSummary(
        count=9,
        missing=1,
        distinct=Distinct(8, 0.0221),
        numbers=Numbers(
            None, -1.5, 4.0, 2.0, 1.0, 0, 3, 1, {"0.5": 2.0}, 0.25, (Bucket(-1.5, 0.0, 2), Bucket(3.0, 4.0, 3))
        ),
    ),
    "nothing": FeatureSummary(count=0, missing=10),
    "odd": FeatureSummary(count=2, missing=8, numbers=Numbers(nan=2)),
    "tags": FeatureSummary(
        count=10,
        missing=0,
        per_example=LENGTHS,
        distinct=Distinct(2),
        length_bytes=LENGTHS,
        top_values=(TopValue("räv", 9), TopValue(r"\xff", 1)),
        top_values_from="a sample",
    ),
    "ids": FeatureSummary(count=10, missing=0, distinct=Distinct(1), top_values=(TopValue(-(1 << 63), 10),)),
    "mixed": FeatureSummary(count=4, missing=6, is_mixed=True),
    "label": FeatureSummary(classes={"cat": 10, "dog": 0}, without_name=3),
    "image": FeatureSummary(formats={}, size_bytes=Numbers(count=0), turned_by_exif=1),
    "height": FeatureSummary(count=2, numbers=Numbers(None, 0, 9, 4.5, 4.5, histogram=(Bucket.of_bits(0, 2),))),
    "scan": FeatureSummary(size_bytes=SIZES, values=Numbers(minimum=0, maximum=(1 << 64) - 1, nan=1)),
    "audio": FeatureSummary(encodings={"pcm16": 2}, seconds=1.5, size_bytes=SIZES),
    "sample_rate": FeatureSummary(frames_by_rate={8000: 12000, 44100: 0}),
    "channels": FeatureSummary(files_by_channels={1: 2}),
}
DUPLICATES = Duplicates(
    "records",
    {"train": {"test": 3}, "test": {"train": 1}},
    {"test": 1, "train": 3},
    {"train": RepeatedContents(4, 2)},
    (Pair(ExampleSource("test", "a.csv", 0), ExampleSource("train", "b.png")),),
    Conflicts(1, {"train": 2}, (Conflict(ExampleSource("train", "a"), ExampleSource("train", "b"), ("cat", "dog")),)),
)
STATS = StatsFile({"train": SplitSummary(10, 999, 1, features=FEATURES), "test": SplitSummary(0, 0, 0)}, DUPLICATES)


def test_what_is_read_is_what_was_written() -> None:
    assert StatsFile.from_json(STATS.to_json(), "stats.json") == STATS
    assert StatsFile.from_json(STATS.to_json().encode(), "stats.json").to_json() == STATS.to_json()


def test_the_text_of_features() -> None:
    text = json.loads(STATS.to_json())["splits"]["train"]["features"]
    assert text["nothing"] == {"count": 0, "missing": 10}
    assert text["odd"] == {"count": 2, "missing": 8, "nan": 2}
    assert text["mixed"] == {"count": 4, "missing": 6, "kind": "mixed"}
    assert text["label"] == {"classes": {"cat": 10, "dog": 0}, "ids_without_a_name": 3}
    assert text["image"] == {"formats": {}, "size_bytes": {"count": 0}, "turned_by_exif": 1}
    assert text["height"]["histogram"] == [{"below": 1, "count": 2}]
    assert text["scan"]["size_bytes"]["histogram"] == [{"below": 4, "count": 1}, {"below": 16, "count": 1}]
    assert text["price"]["distinct"] == {"count": 8, "exact": False, "relative_error": 0.0221}
    assert text["sample_rate"] == {"frames": {"8000": 12000, "44100": 0}}


@pytest.mark.parametrize(("bits", "low", "high"), [(0, 0, 0), (1, 1, 1), (2, 2, 3), (9, 256, 511)])
def test_buckets_by_powers(bits: int, low: int, high: int) -> None:
    bucket = Bucket.of_bits(bits, 5)
    assert (bucket.low, bucket.high) == (low, high)
    assert bucket.low.bit_length() == bucket.high.bit_length() == bits  # type: ignore[union-attr]


def test_keys_of_later_versions_are_passed_over() -> None:
    content = json.loads(STATS.to_json())
    content["more"] = content["splits"]["train"]["more"] = content["splits"]["train"]["features"]["ids"]["more"] = [7]
    assert StatsFile.from_json(json.dumps(content), "stats.json") == STATS


FAULTS = [
    ("", [], "the file is a list; expected an object"),
    ("", {}, "splits is missing"),
    ("examples", -1, "splits.train.examples is -1; expected an integer from 0 to"),
    ("features", 7, "splits.train.features is 7; expected an object"),
    ("features price min", "x", 'features.price.min is "x"; expected a finite number'),
    ("features price max", True, "features.price.max is true; expected a finite number"),
    ("features price mean", float("nan"), "features.price.mean is NaN"),
    ("features price histogram", [{}], "features.price.histogram[0].low is missing"),
    ("features height histogram", [{"below": 3, "count": 1}], "is 3; expected a power of 2"),
    ("features label classes cat", 1.5, "features.label.classes.cat is 1.5"),
    ("features price histogram", 7, "features.price.histogram is 7; expected a list"),
    ("features tags top_values", {}, "features.tags.top_values is an object; expected a"),
    ("features ids distinct exact", 1, "distinct.exact is 1; expected true or false"),
    ("features ids distinct count", -1, "distinct.count is -1; expected an integer"),
    ("features price distinct relative_error", "x", 'relative_error is "x"; expected'),
    ("features price quantiles 0.5", None, "quantiles.0.5 is null; expected a finite"),
    ("features channels files", {"two": 1}, "files counts 'two'; expected integers"),
]


@pytest.mark.parametrize(("path", "value", "message"), FAULTS)
def test_what_is_no_good_is_named(path: str, value: Any, message: str) -> None:
    content: Any = {"": json.loads(STATS.to_json())}
    *keys, last = ["", "splits", "train", *path.split()] if path else [""]
    reduce(getitem, keys, content)[last] = value
    with pytest.raises(CorruptDataError, match=re.escape(message)) as error:
        StatsFile.from_json(json.dumps(content[""]), "d/1.0.0/stats.json")
    assert str(error.value).startswith("d/1.0.0/stats.json is damaged: ")


@pytest.mark.parametrize("labels", [["cat"], ["cat", "dog", "cow"]])
def test_a_conflict_is_of_two_labels(labels: list[str]) -> None:
    content = json.loads(STATS.to_json())
    content["duplicates"]["conflicts"]["pairs"][0]["labels"] = labels
    with pytest.raises(CorruptDataError, match=rf"labels has {len(labels)} labels; expected 2"):
        StatsFile.from_json(json.dumps(content), "stats.json")


def test_not_json() -> None:
    with pytest.raises(CorruptDataError, match=r"^s is damaged: "):
        StatsFile.from_json("{", "s")


def test_buckets_as_columns_are_those_buckets() -> None:
    buckets = (Bucket(-1.5, 0, 2), Bucket(0.5, 1.0, 3), Bucket(7, 7, 1))
    columns = BucketColumns((-1.5, 0.5, 7), (0, 1.0, 7), (2, 3, 1))

    assert columns == buckets
    assert columns != buckets[:2]
    assert hash(columns) == hash(buckets)
    assert (len(columns), columns[1], columns[-1]) == (3, buckets[1], buckets[2])
    assert columns[1:] == buckets[1:]
    assert Numbers(histogram=columns) == Numbers(histogram=buckets)


ODD = [
    ("histogram", {"low": 0, "high": 1, "count": True}, "histogram[1].count is true; expected an integer from 0"),
    ("histogram", {"low": 0, "high": float("nan"), "count": 1}, "histogram[1].high is NaN; expected a finite number"),
    ("histogram", {"low": 0, "count": 1}, "histogram[1].high is missing"),
    ("histogram", [], "histogram[1] is a list; expected an object"),
    ("histogram", {"low": 0, "high": True, "count": 1}, "histogram[1].high is true; expected a finite number"),
    ("histogram", {"low": 0, "high": "1", "count": 1}, 'histogram[1].high is "1"; expected a finite number'),
    ("histogram", {"low": 0, "high": 1, "count": 1 << 63}, "histogram[1].count is 9223372036854775808; expected"),
    ("histogram", {"low": 0, "high": 1, "count": 1.0}, "histogram[1].count is 1.0; expected an integer"),
    ("histogram", {"low": 0, "low_too": 0, "count": 1}, "histogram[1].high is missing"),
    ("top_values", {"value": 1.5, "count": 1}, "top_values[1].value is 1.5; expected an integer"),
    ("top_values", {"value": "a", "count": -1}, "top_values[1].count is -1; expected an integer from 0"),
    ("top_values", {"value": "\ud800", "count": 1}, "top_values[1].value is "),
]


@pytest.mark.parametrize(("key", "odd", "said"), ODD)
def test_one_odd_value_among_plain_ones_is_named(key: str, odd: Any, said: str) -> None:
    plain = {"low": 0.5, "high": 1, "count": 2} if key == "histogram" else {"value": "ü", "count": 2}
    members = {"min": 0, "max": 1, key: [plain, odd, plain]}
    split = {"examples": 1, "size_bytes": 1, "rejected": 0, "features": {"a": members}}

    with pytest.raises(CorruptDataError, match=re.escape(said)):
        StatsFile.from_json(json.dumps({"splits": {"train": split}}), "stats.json")


def test_numbers_are_spelled_as_python_spells_them() -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 63, 20_000, np.int64)
    wide = bits.view(np.float64)
    numbers = [
        *wide[np.isfinite(wide)].tolist(),
        *(bits % 100_000 / 1e9).tolist(),
        *[0.0, -0.0, 1e-4, 1e-5, -1.5e-5, 10.00001, 1e15, 1e16, 123456789012345678.0, 1e22, 5e-324],
    ]
    content = {"0.00001": numbers, "é\x7f\n": "1e5", "1e5": [], "x": {"0.00001,": None, "y": (True, 1e-5)}}

    assert dump_json(content) == json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    beyond: dict[Any, Any] = {"beyond": 1 << 70, 3: 1e-5}
    assert dump_json(beyond) == json.dumps(beyond, indent=2, ensure_ascii=False) + "\n"
