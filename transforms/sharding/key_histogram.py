"""Exact quantiles of 128-bit order keys without gathering them: a histogram of prefixes, then only the bins that are
cut.

A key is a pair (key, tie) of uint64; a cut is the key that starts the next part. Everything here is pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

# 65,536 bins: 10^9 keys leave 15,000 in a bin, and a full histogram, of which a runner holds copies, is 0.8 MB
BIN_BITS = 16
_SHIFT = np.uint64(64 - BIN_BITS)  # of a key of 64 bits to its bin
_MANY = 1 << 12  # keys, or bins, from which adding them up where they stand is faster than sorting them


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Keys by prefix.

    Attributes:
      bins: uint32, shape (b,), the prefixes that occur, ascending.
      counts: int64, shape (b,), the keys of each.
      size_bytes: the sum of the sizes of the records behind the keys.
    """

    bins: np.ndarray
    counts: np.ndarray
    size_bytes: int

    @property
    def total(self) -> int:
        """The number of keys."""
        return int(self.counts.sum())

    def locate(self, ranks: Sequence[int]) -> list[tuple[int, int, int]]:
        """For each rank, from 0 to total - 1: its bin, its rank among the keys of that bin, and how many these are."""
        ends = np.cumsum(self.counts)
        index = np.searchsorted(ends, ranks, side="right")
        starts = ends[index] - self.counts[index]
        return [
            (int(self.bins[i]), int(rank - start), int(self.counts[i]))
            for i, rank, start in zip(index, ranks, starts, strict=True)
        ]


def histogram(keys: np.ndarray, sizes: np.ndarray) -> Histogram:
    """The histogram of `keys`, uint64 of shape (n,), of records of `sizes` bytes, int64 of shape (n,)."""
    if len(keys) > _MANY:
        return _of_every_bin(np.bincount(bin_of(keys), minlength=1 << BIN_BITS), int(sizes.sum()))
    bins, counts = np.unique(bin_of(keys), return_counts=True)
    return Histogram(bins, counts.astype(np.int64), int(sizes.sum()))


def bin_of(keys: np.ndarray) -> np.ndarray:
    """The bin of each key: uint32, shape (n,)."""
    return (keys >> _SHIFT).astype(np.uint32)


def merge(histograms: Iterable[Histogram]) -> Histogram:
    """The histogram of all keys; associative and commutative."""
    parts = list(histograms)
    if not parts:
        return Histogram(np.empty(0, np.uint32), np.empty(0, np.int64), 0)
    size_bytes = sum(part.size_bytes for part in parts)
    if sum(len(part.bins) for part in parts) > _MANY:
        every = np.zeros(1 << BIN_BITS, np.int64)
        for part in parts:
            every[part.bins] += part.counts
        return _of_every_bin(every, size_bytes)
    bins, inverse = np.unique(np.concatenate([part.bins for part in parts]), return_inverse=True)
    counts = np.zeros(len(bins), np.int64)
    np.add.at(counts, inverse, np.concatenate([part.counts for part in parts]))
    return Histogram(bins, counts, size_bytes)


def _of_every_bin(counts: np.ndarray, size_bytes: int) -> Histogram:
    bins = np.flatnonzero(counts).astype(np.uint32)
    return Histogram(bins, counts[bins], size_bytes)


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """The first keys of every part but the first, ascending: `keys` and `ties`, uint64 of shape (parts - 1,)."""

    keys: np.ndarray
    ties: np.ndarray

    def part_of(self, keys: np.ndarray, ties: np.ndarray) -> np.ndarray:
        """The part of each (key, tie): int64, shape (n,)."""
        low = np.searchsorted(self.keys, keys, side="left")
        high = np.searchsorted(self.keys, keys, side="right")
        part = low.copy()
        on_cut = np.flatnonzero(low != high)  # the key equals a cut's: its tie decides
        for start, stop in set(zip(low[on_cut].tolist(), high[on_cut].tolist(), strict=True)):
            rows = on_cut[low[on_cut] == start]
            part[rows] += np.searchsorted(self.ties[start:stop], ties[rows], side="right")
        return part

    def bounds(self, keys: np.ndarray, ties: np.ndarray) -> np.ndarray:
        """The row at which each part begins, from 0, and the number of rows, of (key, tie) that are sorted: int64."""
        low = np.searchsorted(keys, self.keys, side="left")
        high = np.searchsorted(keys, self.keys, side="right")
        for part in np.flatnonzero(low < high).tolist():  # a key equals the cut's: its tie decides
            low[part] += np.searchsorted(ties[low[part] : high[part]], self.ties[part], side="left")
        return np.concatenate(([0], low, [len(keys)]))


def pick_in_bins(
    bins: np.ndarray, keys: np.ndarray, ties: np.ndarray, ranks: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The (key, tie) at each of some (bin, rank in it), in ascending order within the bin; `bins` of shape (n,)."""
    order = np.lexsort((ties, keys, bins))
    wanted = np.array(ranks, np.int64).reshape(-1, 2)
    order = order[np.searchsorted(bins[order], wanted[:, 0]) + wanted[:, 1]]
    return list(zip(keys[order].tolist(), ties[order].tolist(), strict=True))


def pick_keys(keys: np.ndarray, counts: np.ndarray, ranks: Sequence[int]) -> list[tuple[int, int]]:
    """The key at each of `ranks` in ascending order of keys, each there `counts` times, and the rank among its
    equals."""
    order = np.argsort(keys, kind="stable")
    keys, ends = keys[order], np.cumsum(counts[order])
    first = np.flatnonzero(np.diff(keys, prepend=~keys[:1]))  # a key may come from several runs
    last = np.append(first[1:], len(keys)) - 1
    index = np.searchsorted(ends[last], ranks, side="right")
    starts = ends[first] - counts[order][first]
    return [(int(keys[first[i]]), int(rank - starts[i])) for i, rank in zip(index, ranks, strict=True)]


def to_cuts(pairs: Iterable[tuple[int, int]]) -> Cuts:
    """Cuts from (key, tie) pairs in any order."""
    ordered = sorted(pairs)
    return Cuts(np.array([key for key, _ in ordered], np.uint64), np.array([tie for _, tie in ordered], np.uint64))
