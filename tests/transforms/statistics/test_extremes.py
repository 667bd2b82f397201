"""Which images are extreme, whoever counts them in whatever order, and where they lie."""

import pickle
import random
from collections.abc import Sequence

import pytest

from shardmill.quality.stats_values import Extreme
from shardmill.transforms.statistics.images import ELONGATED, EXTREMES_KEPT, LARGEST, SMALLEST, Extremes, MeasuredImages


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


def test_which_they_are() -> None:
    images = [Extreme("a", 10, 10), Extreme("b", 1, 50), Extreme("c", 30, 30), Extreme("d", 80, 2), Extreme("e", 9, 9)]
    found = extremes(images).by_kind()

    assert [image.file for image in found[SMALLEST]] == ["b", "e", "a", "d"]
    assert [image.file for image in found[LARGEST]] == ["c", "d", "a", "e"]
    assert [image.file for image in found[ELONGATED]][:2] == ["b", "d"]


def test_any_order_of_merging_gives_the_same() -> None:
    whole = extremes(IMAGES).by_kind()
    for seed in range(5):
        shuffled = random.Random(seed).sample(IMAGES, len(IMAGES))
        merged = Extremes()
        for start in range(0, len(shuffled), 7):
            merged.merge(extremes(shuffled[start : start + 7]))
        assert merged.by_kind() == whole
    assert {len(images) for images in whole.values()} == {EXTREMES_KEPT}


def test_where_they_lie() -> None:
    one, other = extremes(IMAGES[:1]), extremes(IMAGES[1:2])
    one.move_to_shard("shard", 1_000)
    other.move_to_shard("shard", 1_100)
    one.merge(other)

    assert {(image.file, image.shard, image.offset) for image in one.by_kind()[SMALLEST]} == {
        ("0.png", "shard", 1_000),
        ("1.png", "shard", 1_200),
    }


def test_none() -> None:
    assert extremes([]).summary() is None


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
