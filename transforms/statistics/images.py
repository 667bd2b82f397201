"""Statistics of images: sizes, dimensions, formats and extremes."""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest, nsmallest
from itertools import accumulate, chain
from operator import mul
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shardmill.quality.stats_file import FeatureSummary
from shardmill.quality.stats_values import Bucket, Extreme, Numbers
from shardmill.transforms.findings import Mergeable
from shardmill.transforms.statistics.values import DistinctCodes, Ties


@dataclass(slots=True)
class NumberStats:
    """Count, range, mean and standard deviation of integers, and a histogram by bit length (powers of 2)."""

    count: int = 0
    minimum: int = 0
    maximum: int = 0
    total: int = 0
    squares: int = 0
    bit_lengths: Counter[int] = field(default_factory=Counter)

    def add(self, values: Iterable[int]) -> None:
        """Count non-negative integers."""
        counted = list(values)
        if not counted:
            return
        low, high = min(counted), max(counted)
        self.minimum = min(self.minimum, low) if self.count else low
        self.maximum = max(self.maximum, high)
        self.count += len(counted)
        self.total += sum(counted)
        self.squares += sum(map(mul, counted, counted))
        self.bit_lengths.update(map(int.bit_length, counted))

    def merge(self, other: "NumberStats") -> None:
        if not other.count:
            return
        self.minimum = min(self.minimum, other.minimum) if self.count else other.minimum
        self.maximum = max(self.maximum, other.maximum)
        self.count += other.count
        self.total += other.total
        self.squares += other.squares
        self.bit_lengths.update(other.bit_lengths)

    def summary(self) -> Numbers:
        """Return the numbers for stats.json, as one of several properties of a feature."""
        if not self.count:
            return Numbers(count=0)
        variance = (self.count * self.squares - self.total**2) / self.count**2
        return Numbers(
            count=self.count,
            minimum=self.minimum,
            maximum=self.maximum,
            mean=self.total / self.count,
            std_dev=math.sqrt(variance),
            histogram=tuple(Bucket.of_bits(bits, self.bit_lengths[bits]) for bits in sorted(self.bit_lengths)),
        )

    def feature_summary(self) -> FeatureSummary:
        """Return the numbers for stats.json, as a feature of their own."""
        return FeatureSummary(count=self.count, numbers=replace(self.summary(), count=None))


_UPRIGHT = 1  # the orientation by EXIF of what need not be turned
IMAGE_METADATA = pa.struct(
    {
        "size_bytes": pa.int64(),
        "width": pa.int32(),
        "height": pa.int32(),
        "format": pa.string(),
        "orientation": pa.int8(),
    }
)


def image_metadata_array(columns: Sequence[Any], missing: np.ndarray) -> pa.StructArray:
    """Return sizes, formats and orientations of images as one Arrow array, null where `missing`."""
    arrays = [pa.array(values, kind.type) for values, kind in zip(columns, IMAGE_METADATA, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(IMAGE_METADATA), mask=pa.array(missing))


@dataclass(slots=True)
class ImageColumnStats(Mergeable):
    """Statistics of the images in a column, from their sizes and formats."""

    kind: ClassVar[str] = "images"
    sizes: NumberStats = field(default_factory=NumberStats)
    widths: NumberStats = field(default_factory=NumberStats)
    heights: NumberStats = field(default_factory=NumberStats)
    formats: Counter[str] = field(default_factory=Counter)
    rotated: int = 0

    def add(self, values: pa.Array, ties: Ties) -> DistinctCodes | None:
        """Count images, given as an array of their sizes and formats."""
        sizes, widths, heights, formats, orientations = (part.to_pylist() for part in values.flatten())
        self.sizes.add(sizes)
        self.widths.add(widths)
        self.heights.add(heights)
        self.formats.update(formats)
        self.rotated += sum(orientation != _UPRIGHT for orientation in orientations)
        return None

    def summary(self, class_names: Sequence[str] | None) -> FeatureSummary:
        return FeatureSummary(
            formats=dict(sorted(self.formats.items())),
            size_bytes=self.sizes.summary(),
            width=self.widths.summary(),
            height=self.heights.summary(),
            turned_by_exif=self.rotated,
        )


EXTREMES_KEPT = 4  # of each
SMALLEST, LARGEST, ELONGATED = "smallest", "largest", "most elongated"
_IMAGES_AT_ONCE = 4096  # images that are looked through at once: to look through forty takes as long
_ExtremesByKind = dict[str, list[Extreme]]


class MeasuredImages(NamedTuple):
    """Images of one chunk."""

    files: Sequence[str]
    widths: Sequence[int]  # in pixels
    heights: Sequence[int]
    offsets: Sequence[int]  # of records, from byte `start` of `shard`
    lengths: Sequence[int]  # of records, in bytes
    shard: str = ""
    start: int = 0

    def extreme(self, index: int) -> Extreme:
        sides, offset = (self.widths[index], self.heights[index]), self.start + self.offsets[index]
        return Extreme(self.files[index], *sides, self.shard, offset, self.lengths[index])


@dataclass(slots=True)
class Extremes:
    """The extreme images among some images."""

    examined: _ExtremesByKind = field(default_factory=dict)  # by kind of extreme, most extreme first
    pending: list[MeasuredImages] = field(default_factory=list)  # images not yet examined
    num_pending: int = 0  # number of pending images

    @classmethod
    def from_images(cls, images: MeasuredImages) -> "Extremes":
        return cls(pending=[images], num_pending=len(images.files)) if images.files else cls()

    def merge(self, other: "Extremes") -> None:
        self.examined = _merge_extremes(self.examined, other.examined)
        self.pending += other.pending
        self.num_pending += other.num_pending
        if self.num_pending >= _IMAGES_AT_ONCE:
            self._examine_pending()

    def move_to_shard(self, shard: str, start: int) -> None:
        """Set the shard of a chunk's images and the chunk's start in it; chunks of worker processes are examined."""
        self.pending = [images._replace(shard=shard, start=start) for images in self.pending]
        self.examined = {
            kind: [replace(image, shard=shard, offset=start + image.offset) for image in images]
            for kind, images in self.examined.items()
        }

    def by_kind(self) -> _ExtremesByKind:
        """Return the extreme images by kind of extreme, such as the largest file, most extreme first."""
        return self._examine_pending().examined

    def summary(self) -> dict[str, tuple[Extreme, ...]] | None:
        """Return the extremes for stats.json, or None if there are no images."""
        return {what: tuple(images) for what, images in self.by_kind().items()} or None

    def __getstate__(self) -> _ExtremesByKind:
        return self.by_kind()

    def __setstate__(self, state: _ExtremesByKind) -> None:
        self.examined, self.pending, self.num_pending = state, [], 0

    def _examine_pending(self) -> "Extremes":
        if self.pending:
            self.examined = _merge_extremes(self.examined, _find_extremes(self.pending))
            self.pending, self.num_pending = [], 0
        return self


def _find_extremes(parts: Sequence[MeasuredImages]) -> _ExtremesByKind:
    """Return the images with the largest and smallest values, such as width; there must be at least one image."""
    files = list(chain.from_iterable(part.files for part in parts))
    widths = np.array(list(chain.from_iterable(part.widths for part in parts)), np.int64)
    heights = np.array(list(chain.from_iterable(part.heights for part in parts)), np.int64)
    shorter, longer = np.minimum(widths, heights), np.maximum(widths, heights)
    areas, ratios = widths * heights, np.divide(longer, shorter, out=np.zeros(len(longer)), where=shorter > 0)
    firsts = [0, *accumulate(len(part.files) for part in parts)]

    def image(place: int) -> Extreme:
        part = bisect_right(firsts, place) - 1
        return parts[part].extreme(place - firsts[part])

    return {
        what: _choose_most_extreme(what, list(map(image, _choose_candidates(ranks, files, what != SMALLEST))))
        for what, ranks in ((SMALLEST, areas), (LARGEST, areas), (ELONGATED, ratios))
    }


def _choose_candidates(
    ranks: NDArray[np.int64] | NDArray[np.float64], files: Sequence[str], descending: bool
) -> list[int]:
    """Return the indices of images that may be among the most extreme, at least EXTREMES_KEPT or all.

    If `descending`, those with the highest ranks and the last names.
    """
    if len(files) <= EXTREMES_KEPT:
        return list(range(len(files)))
    values = -ranks if descending else ranks
    last = np.partition(values, EXTREMES_KEPT - 1)[EXTREMES_KEPT - 1]
    tied = np.flatnonzero(values == last).tolist()
    choose = nlargest if descending else nsmallest
    chosen = choose(EXTREMES_KEPT, tied, key=lambda place: (files[place], place))
    return [*np.flatnonzero(values < last).tolist(), *chosen]


def _merge_extremes(one: _ExtremesByKind, other: _ExtremesByKind) -> _ExtremesByKind:
    if not one or not other:
        return dict(one or other)
    return {what: _choose_most_extreme(what, [*one[what], *images]) for what, images in other.items()}


def _choose_most_extreme(kind: str, images: Sequence[Extreme]) -> list[Extreme]:

    def rank(image: Extreme) -> tuple[float, str, str, int]:
        short, long = sorted((image.width, image.height))
        value = short * long if kind != ELONGATED else long / short if short else 0.0
        return value, image.file, image.shard, image.offset

    return (nsmallest if kind == SMALLEST else nlargest)(EXTREMES_KEPT, images, key=rank)
