"""How far two distributions lie apart, as TensorFlow Data Validation measures it.

The formulas are those of tensorflow_data_validation/anomalies/metrics.cc: L-infinity is the largest difference between
the shares of a value; the Jensen-Shannon divergence is in bits, from 0 to 1, numbers being spread evenly over each
bucket. What is on record is less than TFDV has: the 20 most frequent values and 32 buckets whose bounds follow the
data. So what is not on record is taken to be as in the other distribution, and `least_…` says that the two are at least
so far apart.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Counts = Mapping[str, float]
Numbers = NDArray[np.float64]
_FEWEST_SHARE = 1 / 20  # of the numbers, in a bin of `least_jensen_shannon`: more bins only let more chance in
_ROUNDED = 1e-12  # shares that differ by less are the same


class Interval(NamedTuple):
    """How many numbers lie from `low` to `high`; at a point where the two are equal."""

    low: float
    high: float
    numbers: float


@dataclass(frozen=True, slots=True)
class Frequencies:
    """How often values occur.

    Attributes:
      counts: of the values that are on record.
      total: of all values.
      unseen: how often one that is not on record occurs at most; 0 where all are on record.
    """

    counts: Counts
    total: float
    unseen: float = 0.0

    def share(self, value: str) -> tuple[float, float]:
        """Between what shares of all values lies that of `value`."""
        if value in self.counts:
            return self.counts[value] / self.total, self.counts[value] / self.total
        return 0.0, min(self.unseen / self.total, 1.0)


def least_l_infinity(one: Frequencies, other: Frequencies) -> tuple[str, float]:
    """TFDV's L-infinity distance, where not every value is on record: the value whose shares differ most, and by how
    much at least; ("", 0.0) of none."""
    differences = {}
    for value in {**one.counts, **other.counts}:
        (low, high), (other_low, other_high) = one.share(value), other.share(value)
        differences[value] = max(low - other_high, other_low - high, 0.0)
    return max(differences.items(), key=lambda item: item[1], default=("", 0.0))


def most_l_infinity(one: Frequencies, other: Frequencies) -> float:
    """At most so much do the shares of a value differ, whether it is on record or not."""
    differences = [one.unseen / one.total, other.unseen / other.total]
    for value in {**one.counts, **other.counts}:
        (low, high), (other_low, other_high) = one.share(value), other.share(value)
        differences.append(max(high - other_low, other_high - low))
    return min(max(differences), 1.0)


def divergence(one: Sequence[float], other: Sequence[float]) -> float:
    """The Jensen-Shannon divergence, in bits, of counts in the same bins; each has some."""
    shares = np.array([one, other], float)
    shares /= np.array([[math.fsum(one)], [math.fsum(other)]])
    return min(max(math.fsum(_bits(shares).ravel().tolist()) / 2, 0.0), 1.0)


def _bits(shares: Numbers) -> Numbers:
    """What each share adds to twice the divergence of the two rows, in bits: shape (2, n)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(shares > 0, shares * np.log2(shares / shares.mean(axis=0)), 0.0)


@dataclass(frozen=True, slots=True)
class Histogram:
    """How numbers are distributed.

    Attributes:
      buckets: ascending; no number is in two.
      quantiles: (low, high, share): this share of the finite numbers does not exceed some number from `low` to `high`.
      apart: how many numbers are NaN.
    """

    buckets: tuple[Interval, ...]
    quantiles: tuple[tuple[float, float, float], ...] = ()
    apart: float = 0.0

    @property
    def total(self) -> float:
        """How many numbers there are."""
        return math.fsum(bucket.numbers for bucket in self.buckets) + self.apart


def jensen_shannon(one: Histogram, other: Histogram, nan_is_a_bin: bool = False) -> float:
    """TFDV's Jensen-Shannon divergence of two histograms, in bits.

    Points are bins of their own, and so are all bounds that either has. What has an infinite bound is unlike any
    number; so is NaN, NaN too, unless it is a bin.

    Raises:
      ValueError: one of them counts nothing.
    """
    buckets = [*one.buckets, *other.buckets]
    bounds = sorted({bound for bucket in buckets if _is_wide(bucket) for bound in (bucket.low, bucket.high)})
    points = sorted({bucket.low for bucket in buckets if _is_point(bucket)})
    rows = []
    for histogram in (one, other):
        if not histogram.total:
            raise ValueError("a histogram that counts nothing is no distribution")
        at_points = dict.fromkeys(points, 0.0)  # weights may be fractions
        for bucket in filter(_is_point, histogram.buckets):
            at_points[bucket.low] += bucket.numbers
        rows.append([*_spread(histogram.buckets, bounds), *at_points.values()])
    if nan_is_a_bin:
        rows = [[*row, histogram.apart] for row, histogram in zip(rows, (one, other), strict=True)]
    unlike = [histogram.total - math.fsum(row) for histogram, row in zip((one, other), rows, strict=True)]
    return divergence([*rows[0], unlike[0], 0.0], [*rows[1], 0.0, unlike[1]])


def _is_point(bucket: Interval) -> bool:
    return bucket.low == bucket.high and math.isfinite(bucket.low)


def _is_wide(bucket: Interval) -> bool:
    return bucket.low < bucket.high and math.isfinite(bucket.low) and math.isfinite(bucket.high)


def _spread(buckets: Iterable[Interval], bounds: Sequence[float]) -> list[float]:
    """The counts between bounds, among them those of all buckets, over each of which numbers are spread evenly."""
    counts = [0.0] * max(len(bounds) - 1, 0)
    for bucket in filter(_is_wide, buckets):
        for place in range(bisect_left(bounds, bucket.low), bisect_left(bounds, bucket.high)):
            counts[place] += (bounds[place + 1] - bounds[place]) / (bucket.high - bucket.low) * bucket.numbers
    return counts


class Divergence(NamedTuple):
    """A divergence in bits, how many bins it is of, and among how many such divergences it is the largest."""

    value: float
    bins: int = 1
    tried: int = 1


def least_jensen_shannon(one: Histogram, other: Histogram) -> Divergence:
    """At least how far apart two histograms are, in bits, wherever in its bucket a number lies.

    It is the divergence of counts between the bounds at which both know how many numbers are below: of points, or of
    the same buckets, all of them. Or that of the numbers below and above one bound, of which both know it within
    limits; whichever is more, for bins that are laid together are never farther apart. NaN is a bin.

    Raises:
      ValueError: one of them counts nothing.
    """
    if not one.total or not other.total:
        raise ValueError("a histogram that counts nothing is no distribution")
    known = (_Cumulative(one), _Cumulative(other))
    borders = known[0].borders | known[1].borders
    bounds = sorted(known[0].bounds | known[1].bounds)
    strictly = np.array([bound > 0 and bound in borders for bound in bounds], bool)
    (low, high), (other_low, other_high) = (each.below(np.array(bounds, float), strictly) for each in known)
    shares = _nearest(low, high, other_low, other_high)
    cuts = _cuts(shares)
    farthest = int(cuts.argmax()) if len(cuts) else -1
    cut = Divergence(float(cuts[farthest]), 2, len(bounds)) if farthest >= 0 else Divergence(0.0)
    is_exact = (high - low < _ROUNDED) & (other_high - other_low < _ROUNDED)
    sums = [(0.0, 0.0)]
    for place in np.flatnonzero(is_exact).tolist():
        here = (float(shares[0, place]), float(shares[1, place]))
        if sum(here) - sum(sums[-1]) >= 2 * _FEWEST_SHARE or place == len(bounds) - 1:
            sums.append(here)
    sums.append((1.0, 1.0))  # NaN
    bins = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(sums)]
    bins = [pair for pair in bins if max(pair) > _ROUNDED]
    exact = Divergence(divergence([p for p, _ in bins], [q for _, q in bins]), len(bins))
    return max([exact, Divergence(0.0), cut], key=lambda found: found.value)


def _cuts(shares: Numbers) -> Numbers:
    """`divergence` of the numbers below and above each bound, of which these are the shares below: shape (n,)."""
    whole = shares + (1 - shares)
    bits = _bits(shares / whole).sum(axis=0) + _bits((1 - shares) / whole).sum(axis=0)
    found: Numbers = np.where(shares[0] == shares[1], 0.0, np.clip(bits / 2, 0.0, 1.0))
    return found


def _nearest(low: Numbers, high: Numbers, other_low: Numbers, other_high: Numbers) -> Numbers:
    """Two numbers in each two ranges that are as near as can be: shape (2, n)."""
    least, most = np.maximum(low, other_low), np.minimum(high, other_high)
    middle = (least + most) / 2
    below, above = high < other_low, other_high < low
    one = np.where(below, high, np.where(above, low, middle))
    other = np.where(below, other_low, np.where(above, other_high, middle))
    return np.stack([one, other])


class _Cumulative:
    """Between what shares of a histogram's numbers lie below a bound.

    Where a bucket begins at the bound where another ends, a number on that border is in the one farther from zero.
    """

    def __init__(self, histogram: Histogram) -> None:
        buckets, total = sorted(histogram.buckets), histogram.total
        self._lows, self._highs = [bucket.low for bucket in buckets], [bucket.high for bucket in buckets]
        self._sums = [0.0, *(numbers / total for numbers in accumulate(bucket.numbers for bucket in buckets))]
        quantiles = [(low, high, share * self._sums[-1]) for low, high, share in histogram.quantiles if buckets]
        by_high = sorted((high, share) for _, high, share in quantiles)
        self._reached = [high for high, _ in by_high]
        self._at_least = [0.0, *accumulate((share for _, share in by_high), max)]
        by_low = sorted((low, share) for low, _, share in quantiles)
        self._ahead = [low for low, _ in by_low]
        self._at_most = [*accumulate((share for _, share in reversed(by_low)), min, initial=math.inf)][::-1]
        self.bounds = {*self._highs, *self._reached}
        self.borders = {low for low, high in zip(self._lows[1:], self._highs) if low == high}

    def below(self, bounds: Numbers, strictly: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        """At least these shares, at most those; of numbers on a bound, none if `strictly`, or all."""
        is_border = np.isin(bounds, list(self.borders)) if self.borders else np.zeros(len(bounds), bool)
        whole = _places(self._highs, bounds, ~is_border & strictly)
        begun = _places(self._lows, bounds, is_border | strictly)
        reached = np.array(self._at_least)[_places(self._reached, bounds, strictly)]
        ahead = np.array(self._at_most)[np.searchsorted(np.array(self._ahead, float), bounds, "right")]
        sums = np.array(self._sums)
        least, most = np.maximum(sums[whole], reached), np.minimum(sums[np.maximum(whole, begun)], ahead)
        return np.minimum(least, most), most  # what is rounded may cross


def _places(values: Sequence[float], bounds: Numbers, left: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Before how many of the sorted `values` each bound stands, before or behind those that are equal to it."""
    known = np.array(values, float)
    return np.where(left, np.searchsorted(known, bounds, "left"), np.searchsorted(known, bounds, "right"))
