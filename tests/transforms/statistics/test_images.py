"""Which images are extreme, whoever counts them in whatever order, and where they lie; statistics."""

import math
import pickle
import random
import statistics
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.quality.stats_values import Extreme
from shardmill.transforms.statistics.files import ImageStats, merge_by_split
from shardmill.transforms.statistics.images import (
    ELONGATED,
    EXTREMES_KEPT,
    LARGEST,
    SMALLEST,
    Extremes,
    MeasuredImages,
    NumberStats,
)
from tests.support.profiles import as_json


def extremes(images: Sequence[Extreme]) -> Extremes:
    """Those of a chunk, whose records lie as the images say."""
    sides = [image.width for image in images], [image.height for image in images]
    offsets, lengths = [image.offset for image in images], [image.length for image in images]
    return Extremes.from_images(MeasuredImages([image.file for image in images], *sides, offsets, lengths))


def in_turn(images: Sequence[Extreme], what: str) -> list[Extreme]:
    """The extreme ones, by sorting all of them."""
    ratio = what == ELONGATED

    def key(image: Extreme) -> tuple[float, str, int]:
        sides = sorted((image.width, image.height))
        return (sides[1] / sides[0] if ratio else sides[0] * sides[1]), image.file, image.offset

    return sorted(images, key=key, reverse=what != SMALLEST)[:EXTREMES_KEPT]


IMAGES = [Extreme(f"{n}.png", 10 + 7 * n % 50, 10 + 13 * n % 40, "", 100 * n, 100) for n in range(60)]


def test_where_they_lie() -> None:
    one, other = extremes(IMAGES[:1]), extremes(IMAGES[1:2])
    one.move_to_shard("shard", 1_000)
    other.move_to_shard("shard", 1_100)
    one.merge(other)

    assert {(image.file, image.shard, image.offset) for image in one.by_kind()[SMALLEST]} == {
        ("0.png", "shard", 1_000),
        ("1.png", "shard", 1_200),
    }


@pytest.mark.parametrize("sides", [1, 3, 400])
def test_however_many_wait_and_are_equal(sides: int) -> None:
    """Ten thousand, of many sizes or of one: those of one are told by their names, which some share."""
    chance = random.Random(sides)
    images = [
        Extreme(f"{chance.randrange(5_000)}", 9 + chance.randrange(sides), 9 + chance.randrange(sides), "", n, 1)
        for n in range(10_000)
    ]
    merged = Extremes()
    for start in range(0, len(images), 900):
        merged.merge(extremes(images[start : start + 900]))

    passed = pickle.loads(pickle.dumps(merged)).summary()

    assert passed == merged.summary() == {what: tuple(in_turn(images, what)) for what in (SMALLEST, LARGEST, ELONGATED)}


NUMBERS = st.lists(st.integers(0, 1 << 40), max_size=30)


def number_stats(values: list[int]) -> NumberStats:
    stats = NumberStats()
    stats.add(values)
    return stats


@given(st.lists(NUMBERS, max_size=5), st.randoms())
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
@settings(max_examples=50)
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


def test_nothing_and_equal_values() -> None:
    assert extremes([]).summary() is None
    assert number_stats([]).summary().to_json() == {"count": 0}
    found = number_stats([1_234_567] * 1000).summary().to_json()

    assert found["std_dev"] == 0.0
    assert not math.isnan(found["mean"])


def image_stats(size: int, format_: str, label: int) -> ImageStats:
    stats = ImageStats(formats=Counter([format_]), labels=Counter([label]))
    for numbers, value in ((stats.sizes, size), (stats.heights, size // 2), (stats.widths, size // 3)):
        numbers.add([value])
    return stats


def test_images_of_a_split_are_merged() -> None:
    unmeasured = ImageStats()
    unmeasured.sizes.add([5])
    assert list(unmeasured.summary({})) == ["image"]
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
