"""How numbers are distributed: exact counts in bins that are as narrow as a bounded number of them allows."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shardmill.statistics.numbers import Bucket
from shardmill.transforms.statistics.sketches import run_starts

MOST_BINS = 2048  # of one feature while it is counted
MOST_BUCKETS = 32  # of its histogram in stats.json
_SIGN = 1 << 63  # of a float64 as bits (IEEE 754)
_MANTISSA_BITS = 52  # of a float64

Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]
Counts = NDArray[np.int64]


def _no_keys() -> Keys:
    return np.empty(0, np.uint64)


def _no_counts() -> Counts:
    return np.empty(0, np.int64)


@dataclass(slots=True)
class ValueBins:
    """Counts of numbers by the leading bits of their float64 form.

    All bins leave out the same number of bits, the smallest with which at most 2,048 bins are occupied. That number
    follows from the set of values alone, and no part of a set needs more than the whole: bins merged in any order are
    the same. Up to 2,048 distinct numbers therefore have a bin each. Otherwise bins grow with their distance from zero,
    for numbers of a few orders of magnitude by less than 1% of it, and far less where numbers lie close together, such
    as times.

    Attributes:
      shift: how many bits are left out.
      keys: the smallest key of each occupied bin, ascending; see `_keys`.
      counts: how many numbers are in each.
    """

    shift: int = 0
    keys: Keys = field(default_factory=_no_keys)
    counts: Counts = field(default_factory=_no_counts)

    def add(self, values: Floats, counts: Counts) -> None:
        """Count integers or finite float32 numbers, ascending, none of them -0.0; `counts` says how often each
        occurs."""
        self._add(_keys(values), counts, 0)

    def merge(self, other: "ValueBins") -> None:
        """Add what `other` counted."""
        self._add(other.keys, other.counts, other.shift)

    def _add(self, keys: Keys, counts: Counts, shift: int) -> None:
        shift = max(shift, self.shift)
        keys, counts, shift = _fit(keys, counts, shift)
        if len(self.keys):
            keys, counts = np.concatenate([self.keys, keys]), np.concatenate([self.counts, counts])
            order = np.argsort(keys, kind="stable")
            keys, counts, shift = _fit(keys[order], counts[order], shift)
        self.keys, self.counts, self.shift = keys, counts, shift

    def relative_error(self) -> float:
        """By what share of itself a value of `quantiles` may differ from the exact one."""
        return 2.0 ** (self.shift - _MANTISSA_BITS - 1) if self.shift else 0.0

    def edges(self) -> tuple[Floats, Floats]:
        """The bounds of each bin; both are the number itself where a bin holds a single one."""
        if not self.shift:
            return _values(self.keys), _values(self.keys)
        # Bins below zero are mirrored: the border that is a round number belongs to them at their lower end.
        low = self.keys - (self.keys < _SIGN).astype(np.uint64)
        high = low + np.uint64(1 << self.shift)
        high[self.keys == _SIGN] = _SIGN  # a bin of zero alone: neither integers nor float32 come nearer to it
        return _values(low), _values(high)

    def ranked(self, percents: list[int]) -> list[int]:
        """The index of the bin that holds the value which `percent` % of the numbers do not exceed, for each
        percent."""
        reached = np.cumsum(self.counts)
        ranks = [max(1, -(-int(reached[-1]) * percent // 100)) for percent in percents]
        return [int(index) for index in np.searchsorted(reached, ranks)]

    def buckets(self) -> list[Bucket]:
        """A histogram of at most 32 buckets: of about equal width, or of about equal counts where one would hold over
        half. A number that is on the border of two counts with the one farther from zero."""
        if not len(self.keys):
            return []
        low, high = self.edges()
        group = np.arange(len(low))
        if len(low) > MOST_BUCKETS:
            middle = low / 2 + high / 2
            group = np.floor((middle - middle[0]) / (middle[-1] - middle[0]) * MOST_BUCKETS)
            group = np.minimum(group, MOST_BUCKETS - 1).astype(np.int64)
            if 2 * np.bincount(group, weights=self.counts).max() > self.counts.sum():
                below = np.cumsum(self.counts) - self.counts
                group = below * MOST_BUCKETS // int(self.counts.sum())
        firsts = np.flatnonzero(np.diff(group, prepend=-1))
        lasts = np.append(firsts[1:], len(group)) - 1
        totals = np.add.reduceat(self.counts, firsts)
        return [Bucket(*bucket) for bucket in zip(low[firsts].tolist(), high[lasts].tolist(), totals.tolist())]


def _keys(values: Floats) -> Keys:
    """Unsigned integers in the order of ascending numbers: their bits, the sign flipped, below zero all of them
    flipped."""
    keys = values.view(np.uint64).copy()
    positive = int(np.searchsorted(values, 0.0))
    np.invert(keys[:positive], out=keys[:positive])
    keys[positive:] ^= np.uint64(_SIGN)
    return keys


def _values(keys: Keys) -> Floats:
    """The numbers of these keys."""
    # No -0.0
    return (keys ^ np.where(keys >= _SIGN, np.uint64(_SIGN), np.uint64((1 << 64) - 1))).view(np.float64) + 0.0


def _fit(keys: Keys, counts: Counts, shift: int) -> tuple[Keys, Counts, int]:
    """Bins of ascending keys that leave out `shift` bits, or as many more as it takes to be at most 2,048."""
    if len(keys) > 4 * MOST_BINS:
        # Some of the keys need no more bits left out than all of them.
        shift = max(shift, _least_shift(keys[:: len(keys) // (2 * MOST_BINS)]))
    keys, counts = _collapse(keys, counts, shift)
    if len(keys) > MOST_BINS:
        shift = _least_shift(keys)
        keys, counts = _collapse(keys, counts, shift)
    return keys, counts, shift


def _least_shift(keys: Keys) -> int:
    """How many bits to leave out for at most 2,048 bins of more than 2,048 ascending, different keys."""
    # Neighbours stay apart as long as a bit is left in which they differ; all but 2,047 pairs have to fall together.
    return int(np.partition(keys[1:] ^ keys[:-1], -MOST_BINS)[-MOST_BINS]).bit_length()


def _collapse(keys: Keys, counts: Counts, shift: int) -> tuple[Keys, Counts]:
    if not len(keys):
        return keys, counts
    keys = keys & np.uint64((1 << 64) - (1 << shift))
    firsts = run_starts(keys)
    return (keys, counts) if len(firsts) == len(keys) else (keys[firsts], np.add.reduceat(counts, firsts))
