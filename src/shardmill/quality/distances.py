"""Distances between distributions, and how far samples differ by chance."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Counts = Mapping[str, float]
FloatArray = NDArray[np.float64]
_FEWEST_SHARE = 1 / 20  # of the numbers, in a bin of `jensen_shannon_lower_bound`: more bins only let more chance in
_ROUNDED = 1e-12  # shares that differ by less are the same


class Interval(NamedTuple):
    """The number of values from `low` to `high`; the two are equal if all these values are equal."""

    low: float
    high: float
    numbers: float


@dataclass(frozen=True, slots=True)
class Frequencies:
    """The counts of the most frequent values of a feature, with bounds for all others."""

    counts: Counts  # of recorded values
    total: float  # count of all values
    unseen: float = 0.0  # largest count of an unrecorded value; 0 if all are recorded

    def share(self, value: str) -> tuple[float, float]:
        """Return the least and greatest possible share of `value`."""
        if value in self.counts:
            return self.counts[value] / self.total, self.counts[value] / self.total
        return 0.0, min(self.unseen / self.total, 1.0)


def l_infinity_lower_bound(one: Frequencies, other: Frequencies) -> tuple[str, float]:
    """Return the value whose shares differ most, and a lower bound of TFDV's L-infinity; ("", 0.0) without values."""
    differences = {}
    for value in {**one.counts, **other.counts}:
        (low, high), (other_low, other_high) = one.share(value), other.share(value)
        differences[value] = max(low - other_high, other_low - high, 0.0)
    return max(differences.items(), key=lambda item: item[1], default=("", 0.0))


def l_infinity_upper_bound(one: Frequencies, other: Frequencies) -> float:
    """Return an upper bound of the L-infinity distance, including unrecorded values."""
    differences = [one.unseen / one.total, other.unseen / other.total]
    for value in {**one.counts, **other.counts}:
        (low, high), (other_low, other_high) = one.share(value), other.share(value)
        differences.append(max(high - other_low, other_high - low))
    return min(max(differences), 1.0)


def jensen_shannon_of_counts(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the Jensen-Shannon divergence, in bits, of two rows of counts in the same bins, neither of them empty."""
    shares = np.array([one, other], float)
    shares /= np.array([[math.fsum(one)], [math.fsum(other)]])
    return min(max(math.fsum(_divergence_terms(shares).ravel().tolist()) / 2, 0.0), 1.0)


def _divergence_terms(shares: FloatArray) -> FloatArray:
    """Return each share's contribution to twice the divergence of the two rows, in bits, shape (2, n)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(shares > 0, shares * np.log2(shares / shares.mean(axis=0)), 0.0)


@dataclass(frozen=True, slots=True)
class Histogram:
    """A distribution of numbers."""

    buckets: tuple[Interval, ...]  # ascending, disjoint
    # (low, high, share): that share of finite numbers is at most some number from low to high
    quantiles: tuple[tuple[float, float, float], ...] = ()
    nan_count: float = 0.0  # number of NaNs
    total: float = field(init=False, compare=False)  # number of values

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", math.fsum(bucket.numbers for bucket in self.buckets) + self.nan_count)


def jensen_shannon(one: Histogram, other: Histogram, nan_is_a_bin: bool = False) -> float:
    """Return TFDV's Jensen-Shannon divergence of two histograms, in bits.

    Points are bins of their own, and the bounds of both histograms delimit the other bins. Numbers in buckets with an
    infinite bound differ from all others. So do NaNs, even from each other, unless `nan_is_a_bin`. Raise a ValueError
    if a histogram is empty.
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
        rows.append([*_spread_evenly(histogram.buckets, bounds), *at_points.values()])
    if nan_is_a_bin:
        rows = [[*row, histogram.nan_count] for row, histogram in zip(rows, (one, other), strict=True)]
    unlike = [histogram.total - math.fsum(row) for histogram, row in zip((one, other), rows, strict=True)]
    return jensen_shannon_of_counts([*rows[0], unlike[0], 0.0], [*rows[1], 0.0, unlike[1]])


def _is_point(bucket: Interval) -> bool:
    return bucket.low == bucket.high and math.isfinite(bucket.low)


def _is_wide(bucket: Interval) -> bool:
    return bucket.low < bucket.high and math.isfinite(bucket.low) and math.isfinite(bucket.high)


def _spread_evenly(buckets: Iterable[Interval], bounds: Sequence[float]) -> list[float]:
    counts = [0.0] * max(len(bounds) - 1, 0)
    for bucket in filter(_is_wide, buckets):
        for place in range(bisect_left(bounds, bucket.low), bisect_left(bounds, bucket.high)):
            counts[place] += (bounds[place + 1] - bounds[place]) / (bucket.high - bucket.low) * bucket.numbers
    return counts


class Divergence(NamedTuple):
    """A Jensen-Shannon divergence in bits, with the numbers that tell how large it may be by chance."""

    value: float
    bins: int = 1
    tried: int = 1


def jensen_shannon_lower_bound(one: Histogram, other: Histogram) -> Divergence:
    """Return a lower bound of the divergence of two histograms, in bits, wherever numbers are within their buckets.

    It is the larger of two divergences, because merging bins never increases it. The first uses all bounds at which
    both histograms know exactly how many numbers are below. The second uses a single bound, below which both know the
    number within limits. NaN is a bin. Raise a ValueError if a histogram is empty.
    """
    if not one.total or not other.total:
        raise ValueError("a histogram that counts nothing is no distribution")
    known = (_Cumulative(one), _Cumulative(other))
    borders = known[0].borders | known[1].borders
    bounds = sorted(known[0].bounds | known[1].bounds)
    strictly = np.array([bound > 0 and bound in borders for bound in bounds], bool)
    (low, high), (other_low, other_high) = (each.below(np.array(bounds, float), strictly) for each in known)
    shares = _find_nearest(low, high, other_low, other_high)
    cuts = _cut_divergences(shares)
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
    exact = Divergence(jensen_shannon_of_counts([p for p, _ in bins], [q for _, q in bins]), len(bins))
    return max([exact, Divergence(0.0), cut], key=lambda found: found.value)


def _cut_divergences(shares: FloatArray) -> FloatArray:
    """Return the divergence of the numbers below and above each bound, given the shares below, shape (n,)."""
    whole = shares + (1 - shares)
    bits = _divergence_terms(shares / whole).sum(axis=0) + _divergence_terms((1 - shares) / whole).sum(axis=0)
    return np.asarray(np.where(shares[0] == shares[1], 0.0, np.clip(bits / 2, 0.0, 1.0)))


def _find_nearest(low: FloatArray, high: FloatArray, other_low: FloatArray, other_high: FloatArray) -> FloatArray:
    """For each pair of ranges, return the two numbers in them that are closest to each other, shape (2, n)."""
    least, most = np.maximum(low, other_low), np.minimum(high, other_high)
    middle = (least + most) / 2
    below, above = high < other_low, other_high < low
    one = np.where(below, high, np.where(above, low, middle))
    other = np.where(below, other_low, np.where(above, other_high, middle))
    return np.stack([one, other])


class _Cumulative:
    """The least and greatest share of a histogram's numbers below any value.

    If one bucket ends where another begins, a number on that border is in the bucket farther from zero.
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

    def below(self, bounds: FloatArray, strictly: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """Return the least and greatest share below each bound; numbers on a bound count unless `strictly`."""
        is_border = np.isin(bounds, list(self.borders)) if self.borders else np.zeros(len(bounds), bool)
        complete = _search_sorted(self._highs, bounds, ~is_border & strictly)
        started = _search_sorted(self._lows, bounds, is_border | strictly)
        reached = np.array(self._at_least)[_search_sorted(self._reached, bounds, strictly)]
        ahead = np.array(self._at_most)[np.searchsorted(np.array(self._ahead, float), bounds, "right")]
        sums = np.array(self._sums)
        least, most = np.maximum(sums[complete], reached), np.minimum(sums[np.maximum(complete, started)], ahead)
        return np.minimum(least, most), most  # what is rounded may cross


def _search_sorted(values: Sequence[float], bounds: FloatArray, left: NDArray[np.bool_]) -> NDArray[np.int64]:
    known = np.array(values, float)
    return np.where(left, np.searchsorted(known, bounds, "left"), np.searchsorted(known, bounds, "right"))


_PROBABILITY = 1e-4  # of one comparison of two samples of the same data to be beyond the floor


def share_floor(share: float, one: float, other: float, values: int = 1) -> float:
    """Return the noise floor of the difference between one value's shares in two samples.

    It uses Bernstein's inequality, which holds for few examples, too; the normal distribution does not.

    Args:
        share: the value's share in both samples together.
        one, other: sizes of the samples, at least 1.
        values: the number of values compared, if the largest difference is used.
    """
    bound = math.log(2 * max(values, 1) / _PROBABILITY)
    variance = share * (1 - share) * (1 / one + 1 / other)
    return min(math.sqrt(2 * variance * bound) + bound / (3 * min(one, other)), 1.0)


def divergence_floor(bins: int, one: float, other: float, tried: int = 1) -> float:
    """Return the noise floor of the Jensen-Shannon divergence of two samples, in bits.

    For well-filled bins it is chi-squared with `bins - 1` degrees of freedom, times (1/one + 1/other) / (8 ln 2). For
    bins of single examples it is larger by a factor of at most 2 ln 2, which is always applied.

    `one` and `other` are the sizes of the samples, at least 1. `tried` is the number of divergences of which the
    largest is used.
    """
    if bins < 2:
        return 0.0
    return min(_chi_squared_quantile(bins - 1, _PROBABILITY / max(tried, 1)) * (1 / one + 1 / other) / 4, 1.0)


def _chi_squared_quantile(freedom: int, chance: float) -> float:
    """Return the value that chi-squared exceeds with this probability, by Wilson and Hilferty's approximation."""
    if freedom == 1:
        return _normal_quantile(1 - chance / 2) ** 2
    spread = 2 / (9 * freedom)
    return float(freedom * (1 - spread + _normal_quantile(1 - chance) * math.sqrt(spread)) ** 3)


def ratio_floor(examples: float) -> float:
    """Return the share to which a number of `examples` falls by chance, if a hash assigns them anew."""
    if not examples:
        return 0.0
    reach = _normal_quantile(1 - _PROBABILITY) ** 2 / examples
    return max(1 - (math.sqrt(reach * (reach + 8)) - reach) / 2, 0.0)


def ratio_ceiling(examples: float) -> float:
    """Return the multiple to which a number of `examples` rises by chance, the counterpart of `ratio_floor`."""
    if not examples:
        return math.inf
    reach = _normal_quantile(1 - _PROBABILITY) ** 2 / examples
    return 1 + (math.sqrt(reach * (reach + 8)) + reach) / 2


def _normal_quantile(share: float) -> float:
    from statistics import NormalDist  # whose module takes longer to import than most pages, which ask for none

    return NormalDist().inv_cdf(share)
