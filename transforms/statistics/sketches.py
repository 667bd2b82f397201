"""Sketches of a column: which values it has, from the smallest hashes. What they keep depends on the values alone.

A set's `n` smallest hashes are among the `n` smallest of each part that has them: merged in any order, the same are
left.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmill.statistics.values import SAMPLED

KEPT = 1024  # hashes: so many distinct values are counted, of more 3 % (1 / sqrt(1022)) is the standard error
_LARGEST = (1 << 64) - 1  # the largest uint64, as hashes are

Hashes = NDArray[np.uint64]
Counts = NDArray[np.int64]


def _no_hashes() -> Hashes:
    return np.empty(0, np.uint64)


def _no_counts() -> Counts:
    return np.empty(0, np.int64)


@dataclass(slots=True)
class DistinctValues:
    """The distinct values of a column by hash: all of them with exact counts up to 1,024, else their number, estimated.

    The estimate is that of Bar-Yossef et al., "Counting distinct elements in a data stream" (RANDOM 2002), as made
    unbiased by Beyer et al., "On synopses for distinct-value estimation under multiset operations" (SIGMOD 2007): of
    hashes spread evenly over [0, 1), the k-th smallest stands near k/n.

    Attributes:
      hashes: the 1,024 smallest hashes, ascending.
      counts: how often each of these values occurs; None where there are more values than are kept.
    """

    hashes: Hashes = field(default_factory=_no_hashes)
    counts: Counts | None = field(default_factory=_no_counts)

    def add(self, hashes: Hashes, counts: Counts | None) -> None:
        """Count values.

        Args:
          hashes: the hash of each distinct value, in any order.
          counts: how often each occurs. None where there are known to be more than 1,024; then hashes may also repeat.
        """
        if self.counts is not None and counts is not None and len(hashes) <= KEPT:
            both, places = np.unique(np.concatenate([self.hashes, hashes]), return_inverse=True)
            if len(both) <= KEPT:
                summed = np.zeros(len(both), np.int64)
                np.add.at(summed, places, np.concatenate([self.counts, counts]))
                self.hashes, self.counts = both, summed
                return
        if self.counts is None:
            nearest = unique_hashes(hashes[hashes < self.hashes[-1]])
        else:
            # Of many hashes, about the smallest 4,096, found without sorting them; few of these if most are repeated.
            nearest = unique_hashes(hashes[hashes <= np.uint64(_LARGEST // max(1, len(hashes) // (4 * KEPT)))])
            if len(nearest) < KEPT:
                nearest = unique_hashes(hashes)
        self.hashes, self.counts = unique_hashes(np.concatenate([self.hashes, nearest]))[:KEPT], None

    def merge(self, other: "DistinctValues") -> None:
        """Add what `other` counted."""
        self.add(other.hashes, other.counts)

    def number(self) -> int:
        """How many distinct values there are: exact while `counts` is there."""
        if self.counts is not None:
            return len(self.hashes)
        return max(KEPT + 1, ((KEPT - 1) << 64) // (int(self.hashes[-1]) + 1))

    def relative_error(self) -> float:
        """The standard error of `number`, as a share of it."""
        return 0.0 if self.counts is not None else 1 / math.sqrt(KEPT - 2)


@dataclass(slots=True)
class Sample:
    """A uniform sample of values: the 1,024 with the smallest ties, ties being random numbers that go with the values.

    Attributes:
      ties: the smallest ties, ascending.
      hashes: the hash of each one's value.
    """

    ties: Hashes = field(default_factory=_no_hashes)
    hashes: Hashes = field(default_factory=_no_hashes)

    def add(self, ties: Hashes, hashes: Hashes) -> None:
        """Offer values: a tie and a hash for each, in any order."""
        near = self.near(ties)
        ties, hashes = np.concatenate([self.ties, ties[near]]), np.concatenate([self.hashes, hashes[near]])
        order = np.lexsort((hashes, ties))[:SAMPLED]  # by hash where ties are equal: still no matter which came first
        self.ties, self.hashes = ties[order], hashes[order]

    def near(self, ties: Hashes) -> Counts:
        """Which of these values may be sampled: all that `add` would keep, and few more."""
        if len(self.ties) == SAMPLED:
            return np.flatnonzero(ties <= self.ties[-1])
        if len(ties) <= SAMPLED:
            return np.arange(len(ties))
        near = np.flatnonzero(ties <= np.uint64(_LARGEST // (len(ties) // SAMPLED) * 2 & _LARGEST))
        few = ties if len(near) < SAMPLED else ties[near]
        return np.flatnonzero(ties <= np.partition(few, SAMPLED - 1)[SAMPLED - 1])

    def merge(self, other: "Sample") -> None:
        """Add what `other` sampled."""
        self.add(other.ties, other.hashes)


def unique_hashes(hashes: Hashes) -> Hashes:
    """As np.unique, which hashes what is hashed already and takes several times as long."""
    hashes = np.sort(hashes)
    return hashes[run_starts(hashes)]


def run_starts(values: NDArray[Any]) -> NDArray[np.int64]:
    """The index of the first of each run of equal values."""
    starts = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=starts[1:])
    return np.flatnonzero(starts)
