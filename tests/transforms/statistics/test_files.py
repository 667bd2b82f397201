"""Statistics: exact, and the same in any order of merging."""

import math
import statistics
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.transforms.statistics.files import ImageStats, merge_by_split
from shardmill.transforms.statistics.images import NumberStats
from tests.support.summaries import as_json

NUMBERS = st.lists(st.integers(0, 1 << 40), max_size=30)


def number_stats(values: list[int]) -> NumberStats:
    stats = NumberStats()
    stats.add(values)
    return stats


@given(st.lists(NUMBERS, max_size=5), st.randoms())
@settings(max_examples=100, deadline=None)
def test_numbers_know_no_order(parts: list[list[int]], random: st.DataObject) -> None:
    whole = number_stats([value for part in parts for value in part])
    merged = NumberStats()
    shuffled = [number_stats(part) for part in parts]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for part in shuffled:
        merged.merge(part)

    assert merged == whole
    assert merged.summary().to_json() == whole.summary().to_json()


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=50))
@settings(max_examples=50, deadline=None)
def test_numbers_are_those_of_the_statistics_module(values: list[int]) -> None:
    found = number_stats(values).summary().to_json()

    assert (found["count"], found["min"], found["max"]) == (len(values), min(values), max(values))
    assert found["mean"] == pytest.approx(statistics.fmean(values))
    assert found["std_dev"] == pytest.approx(statistics.pstdev(values), rel=1e-9, abs=1e-6)


def test_histogram_is_by_powers_of_two() -> None:
    assert number_stats([0, 1, 2, 3, 4, 255, 256]).summary().to_json()["histogram"] == [
        {"below": 1, "count": 1},
        {"below": 2, "count": 1},
        {"below": 4, "count": 2},
        {"below": 8, "count": 1},
        {"below": 256, "count": 1},
        {"below": 512, "count": 1},
    ]


def test_nothing_counted() -> None:
    assert number_stats([]).summary().to_json() == {"count": 0}


def test_equal_values_have_no_deviation() -> None:
    found = number_stats([1_234_567] * 1000).summary().to_json()

    assert found["std_dev"] == 0.0
    assert not math.isnan(found["mean"])


def image_stats(size: int, format_: str, label: int) -> ImageStats:
    stats = ImageStats(formats=Counter([format_]), labels=Counter([label]))
    for numbers, value in ((stats.sizes, size), (stats.heights, size // 2), (stats.widths, size // 3)):
        numbers.add([value])
    return stats


def test_images_of_a_split_are_merged() -> None:
    parts = [
        ("train", image_stats(600, "jpeg", 0)),
        ("test", image_stats(12, "gif", 1)),
        ("train", image_stats(60, "png", 0)),
    ]
    merged = merge_by_split(parts)

    assert merged == merge_by_split(
        [("train", image_stats(60, "png", 0)), ("train", image_stats(600, "jpeg", 0)), parts[1]]
    )
    train = as_json(merged["train"].summary({"label": ("ant", "bee")}))
    assert train["image"]["formats"] == {"jpeg": 1, "png": 1}
    assert train["image"]["size_bytes"]["mean"] == 330
    assert train["label"] == {"classes": {"ant": 2, "bee": 0}}
    assert (train["height"]["max"], train["width"]["max"]) == (300, 200)


def test_unlabelled_and_unmeasured_images() -> None:
    stats = ImageStats()
    stats.sizes.add([5])

    assert list(stats.summary({})) == ["image"]
