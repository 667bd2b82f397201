"""The smallest, the largest and the most elongated images, and where their records lie: a page shows them, and nobody
looks for them among a million others. Which they are depends on the images alone, in whatever order they are merged."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import nlargest, nsmallest
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardmill.statistics.extremes import Extreme

KEPT = 4  # of each
SMALLEST, LARGEST, ELONGATED = "smallest", "largest", "most elongated"
_AT_ONCE = 4096  # images that are looked through at once: to look through forty takes as long
_Found = dict[str, list[Extreme]]


class Measured(NamedTuple):
    """Some images of one chunk: by image its file, its sides in pixels, where its record lies from `start` of `shard`
    on, and how long that is, in bytes."""

    files: Sequence[str]
    widths: Sequence[int]
    heights: Sequence[int]
    offsets: Sequence[int]
    lengths: Sequence[int]
    shard: str = ""
    start: int = 0

    def image(self, place: int) -> Extreme:
        """One of them."""
        sides, offset = (self.widths[place], self.heights[place]), self.start + self.offsets[place]
        return Extreme(self.files[place], *sides, self.shard, offset, self.lengths[place])


@dataclass(slots=True)
class Extremes:
    """The extreme ones of some images.

    Attributes:
      known: of those that were looked through, by what is extreme of them, that first which is most so.
      waiting: the others.
      rows: how many wait.
    """

    known: _Found = field(default_factory=dict)
    waiting: list[Measured] = field(default_factory=list)
    rows: int = 0

    @classmethod
    def of(cls, images: Measured) -> "Extremes":
        """Those of some images."""
        return cls(waiting=[images], rows=len(images.files)) if images.files else cls()

    def merge(self, other: "Extremes") -> None:
        """Add those of others; `other` stays as it is."""
        self.known = _merged(self.known, other.known)
        self.waiting += other.waiting
        self.rows += other.rows
        if self.rows >= _AT_ONCE:
            self._look()

    def lie_in(self, shard: str, start: int) -> None:
        """Say that the records of a chunk, of which none was looked at yet, lie in a shard, from this byte of it on."""
        self.waiting = [images._replace(shard=shard, start=start) for images in self.waiting]

    def found(self) -> _Found:
        """By what is extreme of them, that first which is most so."""
        return self._look().known

    def summary(self) -> dict[str, tuple[Extreme, ...]] | None:
        """What stands in stats.json; None where nothing was measured."""
        return {what: tuple(images) for what, images in self.found().items()} or None

    def __getstate__(self) -> _Found:
        return self.found()

    def __setstate__(self, state: _Found) -> None:
        self.known, self.waiting, self.rows = state, [], 0

    def _look(self) -> "Extremes":
        if self.waiting:
            self.known = _merged(self.known, _among(self.waiting))
            self.waiting, self.rows = [], 0
        return self


def _among(parts: Sequence[Measured]) -> _Found:
    """The extreme ones of images, at least one: these are made, and nothing of the others."""
    files = list(chain.from_iterable(part.files for part in parts))
    widths = np.array(list(chain.from_iterable(part.widths for part in parts)), np.int64)
    heights = np.array(list(chain.from_iterable(part.heights for part in parts)), np.int64)
    shorter, longer = np.minimum(widths, heights), np.maximum(widths, heights)
    areas, ratios = widths * heights, np.divide(longer, shorter, out=np.zeros(len(longer)), where=shorter > 0)
    firsts = [0, *accumulate(len(part.files) for part in parts)]

    def image(place: int) -> Extreme:
        part = bisect_right(firsts, place) - 1
        return parts[part].image(place - firsts[part])

    return {
        what: _first(what, list(map(image, _chosen(ranks, files, what != SMALLEST))))
        for what, ranks in ((SMALLEST, areas), (LARGEST, areas), (ELONGATED, ratios))
    }


def _chosen(ranks: NDArray[np.int64] | NDArray[np.float64], files: Sequence[str], most: bool) -> list[int]:
    """The places of at least KEPT images, or all, among them those of the least ranks, or the most; of equal ranks
    those whose files come first, or last."""
    if len(files) <= KEPT:
        return list(range(len(files)))
    values = -ranks if most else ranks
    last = np.partition(values, KEPT - 1)[KEPT - 1]
    tied = np.flatnonzero(values == last).tolist()
    choose = nlargest if most else nsmallest
    return [*np.flatnonzero(values < last).tolist(), *choose(KEPT, tied, key=lambda place: (files[place], place))]


def _merged(one: _Found, other: _Found) -> _Found:
    if not one or not other:
        return dict(one or other)
    return {what: _first(what, [*one[what], *images]) for what, images in other.items()}


def _first(what: str, images: Sequence[Extreme]) -> list[Extreme]:
    """KEPT of them; by name, and by place, where two are as extreme."""
    choose = nsmallest if what == SMALLEST else nlargest
    return choose(KEPT, images, key=_elongation if what == ELONGATED else _area)


def _area(image: Extreme) -> tuple[int, str, str, int]:
    return image.width * image.height, image.file, image.shard, image.offset


def _elongation(image: Extreme) -> tuple[float, str, str, int]:
    wide, high = image.width, image.height
    ratio = (wide / high if wide > high else high / wide) if wide and high else 0.0
    return ratio, image.file, image.shard, image.offset
