"""Which images are extreme, whoever counts them in whatever order, and where they lie."""

import random

from shardmill.statistics.extremes import Extreme
from transforms.statistics.extremes import ELONGATED, KEPT, LARGEST, SMALLEST, Extremes

IMAGES = [Extreme(f"{n}.png", 10 + 7 * n % 50, 10 + 13 * n % 40, "", 100 * n, 100) for n in range(60)]


def test_which_they_are() -> None:
    images = [Extreme("a", 10, 10), Extreme("b", 1, 50), Extreme("c", 30, 30), Extreme("d", 80, 2), Extreme("e", 9, 9)]
    found = Extremes.of(images).found

    assert [image.file for image in found[SMALLEST]] == ["b", "e", "a", "d"]
    assert [image.file for image in found[LARGEST]] == ["c", "d", "a", "e"]
    assert [image.file for image in found[ELONGATED]][:2] == ["b", "d"]


def test_any_order_of_merging_gives_the_same() -> None:
    whole = Extremes.of(IMAGES).found
    for seed in range(5):
        shuffled = random.Random(seed).sample(IMAGES, len(IMAGES))
        merged = Extremes()
        for start in range(0, len(shuffled), 7):
            merged.merge(Extremes.of(shuffled[start : start + 7]))
        assert merged.found == whole
    assert {len(images) for images in whole.values()} == {KEPT}


def test_where_they_lie() -> None:
    one, other = Extremes.of(IMAGES[:1]), Extremes.of(IMAGES[1:2])
    one.lie_in("shard", 1_000)
    other.lie_in("shard", 1_100)
    one.merge(other)

    assert {(image.file, image.shard, image.offset) for image in one.found[SMALLEST]} == {
        ("0.png", "shard", 1_000),
        ("1.png", "shard", 1_200),
    }


def test_none() -> None:
    assert Extremes.of([]).summary() is None
