"""Small charts as the paths of an SVG: digits alone, for the template to draw. Pure."""

import math
from collections.abc import Sequence
from functools import lru_cache

from shardmill.statistics.numbers import Bucket, Numbers

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
    path, level = [f"M0 {HEIGHT}"], 0
    for number, left in zip(series, _lefts(len(series))):
        # What is there has a height, however small.
        height = min(round(number / top * HEIGHT) or 1, HEIGHT) if number > 0 else 0
        if height != level:
            path.append(f"H{left}V{HEIGHT - height}")
            level = height
    return f"{''.join(path)}H{WIDTH}V{HEIGHT}"


@lru_cache(maxsize=64)
def _lefts(number: int) -> tuple[str, ...]:
    """The left edges of so many bars."""
    return tuple(f"{index * WIDTH / number:.1f}".removesuffix(".0") for index in range(number))


def shares_of_bins(all_numbers: Sequence[Numbers | None], bins: int) -> list[list[float]]:
    """Histograms of one feature in several splits over the same bins, each as the share of its numbers in every bin; a
    split without a histogram has none.

    Bins are equally wide, or powers of 2 where the histograms are by them.
    """
    histograms = [numbers.histogram or () if numbers is not None else () for numbers in all_numbers]
    every = [bucket for histogram in histograms for bucket in histogram if bucket.count]
    if not every:
        return [[] for _ in histograms]
    if all(bucket.by_powers for bucket in every):
        return [_by_powers(histogram, every) for histogram in histograms]
    low, high = float(min(bucket.low for bucket in every)), float(max(bucket.high for bucket in every))
    return [_spread(histogram, low, high, bins) for histogram in histograms]


def _by_powers(histogram: Sequence[Bucket], every: Sequence[Bucket]) -> list[float]:
    bits = [int(bucket.high).bit_length() for bucket in every]
    found = [0.0] * (max(bits) - min(bits) + 1)
    for bucket in histogram:
        if bucket.count:
            found[int(bucket.high).bit_length() - min(bits)] += bucket.count
    return _shares(found)


def _spread(histogram: Sequence[Bucket], low: float, high: float, bins: int) -> list[float]:
    """The counts of buckets spread evenly over their width."""
    found = [0.0] * bins
    width = high / bins - low / bins
    if not width or not math.isfinite(width):
        found[bins // 2] = math.fsum(bucket.count for bucket in histogram)
        return _shares(found)
    base = low / width
    for bucket in histogram:
        first, last = bucket.low / width - base, bucket.high / width - base
        index = int(first)
        if last <= index + 1 <= bins:  # as most do
            found[index] += bucket.count
            continue
        index = min(index, bins - 1)
        end = min(math.ceil(last), bins)
        if end <= index + 1 or last - first < 1e-9:
            found[index] += bucket.count
            continue
        each = bucket.count / (min(last, bins) - first)
        found[index] += each * (index + 1 - first)
        for between in range(index + 1, end - 1):
            found[between] += each
        found[end - 1] += each * (min(last, end) - (end - 1))
    return _shares(found)


def _shares(counts: Sequence[float]) -> list[float]:
    total = math.fsum(counts)
    return [count / total for count in counts] if total else []
