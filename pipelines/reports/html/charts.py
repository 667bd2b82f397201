"""Small charts as the paths of an SVG: digits alone, for the template to draw. Pure."""

import math
from collections.abc import Sequence
from functools import lru_cache

from shardmill.statistics.numbers import Bucket, Buckets, Number, Numbers

WIDTH, HEIGHT = 96, 24  # of a chart, in units of its view box


def bars(series: Sequence[float], top: float | None = None) -> str:
    """The path of an outline over bars, one for each number, from the left to the right; "" where all are 0.

    Args:
      series: not negative.
      top: what reaches the upper edge; the largest of them if None.
    """
    top = max(series, default=0.0) if top is None else top
    if not top:
        return ""
    path, level = f"M0 {HEIGHT}", 0
    for number, left in zip(series, _lefts(len(series))):
        # What is there has a height, however small.
        height = (round(number / top * HEIGHT) or 1) if number > 0 else 0
        if height > HEIGHT:
            height = HEIGHT
        if height != level:
            path += left + _UP_TO[height]
            level = height
    return f"{path}H{WIDTH}V{HEIGHT}"


_UP_TO = tuple(f"V{HEIGHT - height}" for height in range(HEIGHT + 1))  # an edge, by the height that it ends at


@lru_cache(maxsize=64)
def _lefts(number: int) -> tuple[str, ...]:
    """The lines to the left edges of so many bars."""
    return tuple("H" + f"{index * WIDTH / number:.1f}".removesuffix(".0") for index in range(number))


def shares_of_bins(all_numbers: Sequence[Numbers | None], bins: int) -> list[list[float]]:
    """Histograms of one feature in several splits over the same bins, each as the share of its numbers in every bin; a
    split without a histogram has none.

    Bins are equally wide, or powers of 2 where the histograms are by them.
    """
    histograms = [_filled(numbers.histogram or () if numbers is not None else ()) for numbers in all_numbers]
    some = [histogram for histogram in histograms if len(histogram)]
    if not some:
        return [[] for _ in histograms]
    if not any(isinstance(histogram, Buckets) for histogram in some):
        every = [bucket for histogram in some for bucket in histogram]
        if all(bucket.by_powers for bucket in every):
            return [_by_powers(histogram, every) for histogram in histograms]
    columns = [_columns(histogram) for histogram in histograms]
    low = float(min(min(lows) for lows, _, _ in columns if lows))
    high = float(max(max(highs) for _, highs, _ in columns if highs))
    return [_spread(*one, low, high, bins) for one in columns]


def _filled(histogram: Sequence[Bucket]) -> Sequence[Bucket]:
    """The buckets that are not empty."""
    if isinstance(histogram, Buckets) and all(histogram.counts):  # as nearly every one is
        return histogram
    return [bucket for bucket in histogram if bucket.count]


def _columns(histogram: Sequence[Bucket]) -> tuple[Sequence[Number], Sequence[Number], Sequence[int]]:
    """The lower bounds, the upper ones and the counts."""
    if isinstance(histogram, Buckets):
        return histogram.lows, histogram.highs, histogram.counts
    return [one.low for one in histogram], [one.high for one in histogram], [one.count for one in histogram]


def _by_powers(histogram: Sequence[Bucket], every: Sequence[Bucket]) -> list[float]:
    bits = [int(bucket.high).bit_length() for bucket in every]
    found = [0.0] * (max(bits) - min(bits) + 1)
    for bucket in histogram:
        found[int(bucket.high).bit_length() - min(bits)] += bucket.count
    return _shares(found)


def _spread(
    lows: Sequence[Number], highs: Sequence[Number], counts: Sequence[int], low: float, high: float, bins: int
) -> list[float]:
    """The counts of buckets spread evenly over their width."""
    found = [0.0] * bins
    width = high / bins - low / bins
    if not width or not math.isfinite(width):
        found[bins // 2] = math.fsum(counts)
        return _shares(found)
    base = low / width
    for lower, upper, count in zip(lows, highs, counts):
        first, last = lower / width - base, upper / width - base
        index = int(first)
        if last <= index + 1 <= bins:  # as most do
            found[index] += count
            continue
        index, end = index if index < bins else bins - 1, math.ceil(last)
        if end > bins:
            end = bins
        if end <= index + 1 or last - first < 1e-9:
            found[index] += count
            continue
        if last > end:
            last = end
        each = count / (last - first)
        found[index] += each * (index + 1 - first)
        for between in range(index + 1, end - 1):
            found[between] += each
        found[end - 1] += each * (last - (end - 1))
    return _shares(found)


def _shares(counts: Sequence[float]) -> list[float]:
    total = math.fsum(counts)
    return [count / total for count in counts] if total else []
