"""Mergeable statistics: sketches of distinct values, exact sums and histograms."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shardmill.data import spans
from shardmill.quality.stats_values import SAMPLE_SIZE, Bucket
from shardmill.transforms.columns.arrow import data_of, offsets_of

HASHES_KEPT = 1024  # hashes: so many distinct values are counted, of more 3 % (1 / sqrt(1022)) is the standard error
_MAX_HASH = (1 << 64) - 1  # the largest uint64, as hashes are

Hashes = NDArray[np.uint64]
Counts = NDArray[np.int64]


def make_empty_hashes() -> Hashes:
    """Return an empty array of hashes: uint64, shape (0,)."""
    return np.empty(0, np.uint64)


def make_empty_counts() -> Counts:
    """Return an empty array of counts: int64, shape (0,)."""
    return np.empty(0, np.int64)


@dataclass(slots=True)
class DistinctValues:
    """The distinct values of a column by hash: exact counts of all up to 1,024 values, else an estimate of their
    number.

    The estimate is that of Bar-Yossef et al., "Counting distinct elements in a data stream" (RANDOM 2002), as made
    unbiased by Beyer et al., "On synopses for distinct-value estimation under multiset operations" (SIGMOD 2007). If
    hashes are uniform in [0, 1), the k-th smallest is near k/n.
    """

    hashes: Hashes = field(default_factory=make_empty_hashes)  # the 1,024 smallest hashes, ascending
    # occurrences of each value; None if there are more values than are kept
    counts: Counts | None = field(default_factory=make_empty_counts)

    def add(self, hashes: Hashes, counts: Counts | None) -> None:
        """Count values, given the hash of each distinct value, in any order, and its occurrences.

        `counts` is None if there are more than 1,024 values; then hashes may also repeat.
        """
        if self.counts is not None and counts is not None and len(hashes) <= HASHES_KEPT:
            if not len(self.hashes):
                order = np.argsort(hashes)
                self.hashes, self.counts = hashes[order], counts[order]
                return
            both, places = np.unique(np.concatenate([self.hashes, hashes]), return_inverse=True)
            if len(both) <= HASHES_KEPT:
                summed = np.zeros(len(both), np.int64)
                np.add.at(summed, places, np.concatenate([self.counts, counts]))
                self.hashes, self.counts = both, summed
                return
        if self.counts is None:
            nearest = unique_hashes(hashes[hashes < self.hashes[-1]])
        else:
            # Of many hashes, about the smallest 4,096, found without sorting them; few of these if most are repeated.
            nearest = unique_hashes(hashes[hashes <= np.uint64(_MAX_HASH // max(1, len(hashes) // (4 * HASHES_KEPT)))])
            if len(nearest) < HASHES_KEPT:
                nearest = unique_hashes(hashes)
        self.hashes, self.counts = unique_hashes(np.concatenate([self.hashes, nearest]))[:HASHES_KEPT], None

    def merge(self, other: "DistinctValues") -> None:
        self.add(other.hashes, other.counts)

    def number(self) -> int:
        """Return the number of distinct values, which is exact while `counts` is not None."""
        if self.counts is not None:
            return len(self.hashes)
        return max(HASHES_KEPT + 1, ((HASHES_KEPT - 1) << 64) // (int(self.hashes[-1]) + 1))

    def relative_error(self) -> float:
        """Return the standard error of `number`, relative to it."""
        return 0.0 if self.counts is not None else 1 / math.sqrt(HASHES_KEPT - 2)


@dataclass(slots=True)
class Sample:
    """A uniform sample of values: the 1,024 with the smallest random numbers (ties) among all."""

    ties: Hashes = field(default_factory=make_empty_hashes)  # smallest ties, ascending
    hashes: Hashes = field(default_factory=make_empty_hashes)  # hashes of their values
    # largest tie that can be in a sample that this one is merged into; None if unknown
    bound: np.uint64 | None = None

    def add(self, ties: Hashes, hashes: Hashes) -> None:
        """Add values to the sample, each with its random number (tie) and hash, in any order."""
        near = self.select_candidates(ties)
        ties, hashes = np.concatenate([self.ties, ties[near]]), np.concatenate([self.hashes, hashes[near]])
        # By hash where ties are equal: still no matter which came first
        order = np.lexsort((hashes, ties))[:SAMPLE_SIZE]
        self.ties, self.hashes = ties[order], hashes[order]

    def select_candidates(self, ties: Hashes) -> Counts:
        """Return the indices of values that may enter the sample: all that `add` would keep, and few more."""
        if len(self.ties) == SAMPLE_SIZE:
            return np.flatnonzero(ties <= self.ties[-1])
        if self.bound is not None:
            return np.flatnonzero(ties <= self.bound)
        if len(ties) <= SAMPLE_SIZE:
            return np.arange(len(ties))
        near = np.flatnonzero(ties <= np.uint64(_MAX_HASH // (len(ties) // SAMPLE_SIZE) * 2 & _MAX_HASH))
        few = ties if len(near) < SAMPLE_SIZE else ties[near]
        return np.flatnonzero(ties <= np.partition(few, SAMPLE_SIZE - 1)[SAMPLE_SIZE - 1])

    def merge(self, other: "Sample") -> None:
        self.add(other.ties, other.hashes)


def unique_hashes(hashes: Hashes) -> Hashes:
    """Return the sorted distinct hashes. np.unique takes several times as long, because it hashes them again."""
    hashes = np.sort(hashes)
    return hashes[run_starts(hashes)]


def run_starts(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the index of the first value in each run of equal values."""
    starts = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=starts[1:])
    return np.flatnonzero(starts)


# Of the finalizer of splitmix64 (https://prng.di.unimi.it/splitmix64.c). Its last step, which spreads what is in the
# highest bits, is left out: hashes are compared, and the highest bits decide.
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = (30, 27)  # bits, before each multiplication
_NUMBERS_AT_ONCE = 1 << 13  # numbers mixed at once: few enough to stay in a processor's nearest cache through all steps


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Map 64-bit integers one-to-one to others that look random, above all in their highest bits."""
    mixed = values.copy()
    for start in range(0, len(mixed), _NUMBERS_AT_ONCE):
        part = mixed[start : start + _NUMBERS_AT_ONCE]
        for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS):
            part ^= part >> np.uint64(shift)
            part *= np.uint64(multiplier)
    return mixed


def unmix(mixed: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the integers that `mix` maps to `mixed`."""
    for shift, multiplier in zip(reversed(_SHIFTS), reversed(_MULTIPLIERS)):
        mixed = mixed * np.uint64(pow(multiplier, -1, 1 << 64))
        # Undoes x ^ x >> shift: 3 * shift is above 64
        mixed ^= (mixed >> np.uint64(shift)) ^ (mixed >> np.uint64(2 * shift))
    return mixed


def hash_values(values: pa.Array) -> NDArray[np.uint64]:
    """Return the hash of each value; nulls are not allowed. Types: int64, float32 or large_binary. Both zeros have one
    hash, and so do all NaNs.
    """
    if not (pa.types.is_int64(values.type) or pa.types.is_float32(values.type)):
        return hash_bytes(values)
    numbers = values.to_numpy()
    if numbers.dtype == np.float32:
        numbers = np.where(np.isnan(numbers), np.float32(np.nan), numbers + np.float32(0))
        return mix(numbers.view(np.uint32).astype(np.uint64))
    return mix(numbers.view(np.uint64))


def hash_bytes(values: pa.LargeBinaryArray) -> NDArray[np.uint64]:
    """Return the hash of each value; nulls are not allowed."""
    offsets = offsets_of(values)
    return spans.hashes(data_of(values), offsets[:-1], offsets[1:])


# Every float32 is a whole multiple of 2**-149, its smallest denormal (IEEE 754 binary32).
FLOAT32_FRACTION_BITS = 149
_FLOAT32_MANTISSA_BITS = 23  # of a float32, without the one that is not written
# Sign, exponent, and the first 12 bits of the mantissa, the one that is not written among them
_FIRST_HALF_MASK = 0xFFFFF000
_AT_ONCE = 1 << 13  # numbers added at once: at most 2**16; of these, what is computed stays in a processor's cache
# Integers are squared in limbs: a product of two stays within 2**44, so that 2**16 of them fit an int64.
_LIMB_BITS = 22


@dataclass(slots=True)
class ExactSums:
    """Count, sum and sum of squares of numbers."""

    fraction_bits: int = 0  # the unit is 2**-fraction_bits; 0 for integers
    count: int = 0  # number of numbers
    total: int = 0  # sum, in units
    squares: int = 0  # sum of squares, in squared units

    def add_integers(self, values: NDArray[np.int64]) -> None:
        """Add integers to the sums, whose unit must be 1."""
        for start in range(0, len(values), _AT_ONCE):
            add_to_sums([self], values[None, start : start + _AT_ONCE])

    def add_floats(self, values: NDArray[np.float32]) -> None:
        """Add finite float32 numbers to the sums, in any order, fastest if ascending; their unit must be 2**-149."""
        for start in range(0, len(values), _AT_ONCE):
            part = np.ascontiguousarray(values[start : start + _AT_ONCE])
            wide, *squares = _sum_floats(part, run_starts(part.view(np.uint32) >> np.uint32(_FLOAT32_MANTISSA_BITS)))
            self.total += _sum_exactly(wide.tolist(), self.fraction_bits)
            self.squares += sum(_sum_exactly(parts.tolist(), 2 * self.fraction_bits) for parts in squares)
        self.count += len(values)

    def merge(self, other: "ExactSums") -> None:
        """Add the sums of `other`, which must have the same unit."""
        if self.fraction_bits != other.fraction_bits:
            raise ValueError(
                f"sums in units of 2**-{self.fraction_bits} cannot take sums in units of 2**-{other.fraction_bits}"
            )
        self.count += other.count
        self.total += other.total
        self.squares += other.squares

    def mean(self) -> float:
        """Return the mean of at least one number, as the nearest float."""
        return self.total / (self.count << self.fraction_bits)

    def std_dev(self) -> float:
        """Return the population standard deviation of at least one number, as the nearest float."""
        square, divisor = self.count * self.squares - self.total**2, self.count << self.fraction_bits
        # 64 bits of the root, and one more that says whether anything follows: so the division rounds as if it saw all.
        shift = max(0, 64 + divisor.bit_length() - square.bit_length() // 2)
        quotient, rest = divmod(square << 2 * shift, divisor**2)
        root = math.isqrt(quotient)
        return (2 * root + (rest > 0 or root * root != quotient)) / (1 << shift + 1)


def add_to_sums(sums: Sequence[ExactSums], numbers: NDArray[Any]) -> None:
    """Add int64 or float32 numbers to several sums, as `add_integers` and `add_floats` do.

    Args:
        sums: sums of equal units.
        numbers: numbers for each of the sums, fastest if ascending: shape (sums, numbers), at most 2**16 of each.
    """
    for each in sums:
        each.count += numbers.shape[1]
    if numbers.dtype == np.int64:
        limbs = _split_into_limbs(numbers)
        for place, limb in enumerate(limbs):
            for each, total in zip(sums, limb.sum(axis=1).tolist()):
                each.total += total << _LIMB_BITS * place
            for lower in range(place + 1):
                shift = _LIMB_BITS * (place + lower) + (lower < place)
                for each, product in zip(sums, np.einsum("ij,ij->i", limb, limbs[lower]).tolist()):
                    each.squares += product << shift
        return
    powers = numbers.view(np.uint32) >> np.uint32(_FLOAT32_MANTISSA_BITS)
    is_first = np.ones(powers.shape, np.bool_)
    np.not_equal(powers[:, 1:], powers[:, :-1], out=is_first[:, 1:])
    parts = [part.tolist() for part in _sum_floats(numbers.ravel(), np.flatnonzero(is_first))]
    stop = 0
    for each, runs in zip(sums, np.count_nonzero(is_first, axis=1).tolist()):
        start, stop = stop, stop + runs
        each.total += _sum_exactly(parts[0][start:stop], each.fraction_bits)
        each.squares += sum(_sum_exactly(part[start:stop], 2 * each.fraction_bits) for part in parts[1:])


def _sum_floats(
    numbers: NDArray[np.float32], runs: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return exact sums of each run of numbers, and two sums that make up its squares.

    Where all have one exponent, sums of 2**16 mantissas of 24 bits are exact in float64. So are those of squares once
    they are split: the square of a mantissa's first half has 24 bits, and what it lacks has 37.
    """
    wide = numbers.astype(np.float64)
    heads = (numbers.view(np.uint32) & np.uint32(_FIRST_HALF_MASK)).view(np.float32).astype(np.float64)
    heads *= heads
    rests = wide * wide
    rests -= heads
    return np.add.reduceat(wide, runs), np.add.reduceat(heads, runs), np.add.reduceat(rests, runs)


def _sum_exactly(parts: list[float], fraction_bits: int) -> int:
    return sum(int(math.ldexp(part, fraction_bits)) for part in parts)


def _split_into_limbs(values: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Split integers into limbs of 22 bits, lowest first; only the last limb is signed."""
    bits = max(int(values.max()).bit_length(), int(~values.min()).bit_length())
    limbs = []
    while bits > _LIMB_BITS:
        limbs.append(values & ((1 << _LIMB_BITS) - 1))
        values = values >> _LIMB_BITS
        bits -= _LIMB_BITS
    return [*limbs, values]


MAX_BINS = 2048  # of one feature while it is counted
MAX_BUCKETS = 32  # of its histogram in stats.json
_FLOAT64_SIGN = 1 << 63  # of a float64 as bits (IEEE 754)
_FLOAT64_MANTISSA_BITS = 52  # of a float64

Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]


@dataclass(slots=True)
class ValueBins:
    """Counts of numbers by the leading bits of their float64 form.

    All bins drop the same number of low bits, the smallest with which at most 2,048 bins are occupied. That number
    follows from the set of values alone, and no part of a set needs more than the whole. Bins are therefore the same in
    whatever order they are merged.

    Up to 2,048 distinct numbers have a bin each. Otherwise bins grow with their distance from zero. For numbers of a
    few orders of magnitude they are less than 1% of it wide, and far less where numbers are close together, such as
    times.
    """

    shift: int = 0  # number of bits dropped
    keys: Keys = field(default_factory=make_empty_hashes)  # smallest key of each occupied bin, ascending, see `add`
    counts: Counts = field(default_factory=make_empty_counts)  # numbers in each bin

    def add(self, values: Floats, counts: Counts) -> None:
        """Count ascending integers or finite float32 numbers without -0.0, each `counts` times."""
        bits = values.view(np.uint64)
        # Integers that sort like the numbers: bits with the sign flipped, or all bits flipped if below zero
        self._add(np.where(values < 0, ~bits, bits ^ np.uint64(_FLOAT64_SIGN)), counts, 0)

    def merge(self, other: "ValueBins") -> None:
        self._add(other.keys, other.counts, other.shift)

    def _add(self, keys: Keys, counts: Counts, shift: int) -> None:
        shift = max(shift, self.shift)
        if shift or len(keys) > MAX_BINS:
            keys, counts, shift = _fit_bins(keys, counts, shift)
        if len(self.keys):
            keys, counts = np.concatenate([self.keys, keys]), np.concatenate([self.counts, counts])
            order = np.argsort(keys, kind="stable")
            keys, counts, shift = _fit_bins(keys[order], counts[order], shift)
        self.keys, self.counts, self.shift = keys, counts, shift

    def relative_error(self) -> float:
        """Return the maximum relative error of a quantile that is taken from the middle of its bin."""
        return 2.0 ** (self.shift - _FLOAT64_MANTISSA_BITS - 1) if self.shift else 0.0

    def edges(self) -> tuple[Floats, Floats]:
        """Return the lower and upper bounds of all bins; both are the number itself if a bin holds only one."""
        return _find_edges(self.keys, np.full(len(self.keys), self.shift, np.uint64))

    def percentile_bins(self, percents: Sequence[int]) -> list[int]:
        """Return, for each percent, the index of the bin that holds this percentile."""
        found: list[int] = BinColumns.of([self]).percentile_bins(percents)[0].tolist()
        return found

    def buckets(self) -> list[Bucket]:
        """Return a histogram of at most 32 buckets, see `BinColumns.buckets`."""
        columns = BinColumns.of([self])
        firsts, lasts, counts, _ = columns.buckets()
        return list(map(Bucket, columns.low[firsts].tolist(), columns.high[lasts].tolist(), counts.tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class BinColumns:
    """The bins of several features, each of which has some: their statistics are computed at once."""

    low: Floats  # lower bound of each bin, of one feature after the other
    high: Floats  # upper bound
    counts: Counts  # numbers in each bin
    bounds: Counts  # first bin of each feature, and the number of all bins

    @classmethod
    def of(cls, features: Sequence[ValueBins]) -> "BinColumns":
        """Return the bins of features; those without a number are left out."""
        features = [bins for bins in features if len(bins.keys)]
        bounds = np.cumsum([0, *(len(bins.keys) for bins in features)])
        keys = np.concatenate([make_empty_hashes(), *(bins.keys for bins in features)])
        counts = np.concatenate([make_empty_counts(), *(bins.counts for bins in features)])
        shifts = np.repeat(np.array([bins.shift for bins in features], np.uint64), np.diff(bounds))
        return cls(*_find_edges(keys, shifts), counts, bounds)

    def percentile_bins(self, percents: Sequence[int]) -> NDArray[np.int64]:
        """Return the index of the bin that holds each percentile: shape (features, percents)."""
        reached = np.cumsum(self.counts)
        before = reached[self.bounds[:-1]] - self.counts[self.bounds[:-1]]
        totals = reached[self.bounds[1:] - 1] - before
        ranks = np.maximum(1, -(-totals[:, None] * np.array(percents) // 100))
        return np.searchsorted(reached, before[:, None] + ranks)

    def buckets(self) -> tuple[Counts, Counts, Counts, Counts]:
        """Return a histogram of each feature: at most 32 buckets of about equal width, or of about equal counts if one
        would hold over half.

        A number on the border of two buckets is counted in the one farther from zero.

        Returns:
            Index of each bucket's first and last bin, its count, and the number of buckets of each feature.
        """
        if not len(self.counts):
            return (make_empty_counts(),) * 4
        sizes, starts = np.diff(self.bounds), self.bounds[:-1]
        feature = np.repeat(np.arange(len(sizes)), sizes)
        group = np.arange(len(self.counts)) - starts[feature]
        middle = self.low / 2 + self.high / 2
        first, width = middle[starts], middle[self.bounds[1:] - 1] - middle[starts]
        is_wide = sizes > MAX_BUCKETS
        width[~is_wide | (width == 0)] = 1  # of different numbers that are one float64
        even = np.floor((middle - first[feature]) / width[feature] * MAX_BUCKETS)
        group = np.where(is_wide[feature], np.clip(even, 0, MAX_BUCKETS - 1).astype(np.int64), group)
        # By counts, where a bucket of these would hold over half
        ends = np.cumsum(self.counts)
        below = ends - self.counts
        below -= below[starts][feature]
        totals = np.add.reduceat(self.counts, starts)
        firsts = run_starts(feature * MAX_BUCKETS + group)
        most = np.maximum.reduceat(np.add.reduceat(self.counts, firsts), np.searchsorted(firsts, starts))
        is_uneven = is_wide & (2 * most > totals)
        group = np.where(is_uneven[feature], below * MAX_BUCKETS // totals[feature], group)
        firsts = run_starts(feature * MAX_BUCKETS + group)
        lasts = np.append(firsts[1:], len(group)) - 1
        return firsts, lasts, np.add.reduceat(self.counts, firsts), np.bincount(feature[firsts], minlength=len(sizes))


def _find_edges(keys: Keys, shifts: NDArray[np.uint64]) -> tuple[Floats, Floats]:
    """Return the lower and upper bounds of bins, of each of which so many bits are dropped."""
    if not shifts.any():
        numbers = _convert_keys_to_numbers(keys)
        return numbers, numbers
    # Bins below zero are mirrored: the border that is a round number belongs to them at their lower end.
    is_exact = shifts == 0
    low = np.where(is_exact, keys, keys - (keys < _FLOAT64_SIGN).astype(np.uint64))
    # A bin of zero alone: neither integers nor float32 come nearer to it
    high = np.where(is_exact | (keys == _FLOAT64_SIGN), keys, low + (np.uint64(1) << shifts))
    return _convert_keys_to_numbers(low), _convert_keys_to_numbers(high)


def _convert_keys_to_numbers(keys: Keys) -> Floats:
    flipped = np.where(keys >= _FLOAT64_SIGN, np.uint64(_FLOAT64_SIGN), np.uint64(_MAX_HASH))
    return (keys ^ flipped).view(np.float64) + 0.0  # no -0.0


def _fit_bins(keys: Keys, counts: Counts, shift: int) -> tuple[Keys, Counts, int]:
    """Return bins of ascending keys by their leading bits, few enough to be at most 2,048."""
    if len(keys) > 4 * MAX_BINS:
        # Some of the keys need no more bits left out than all of them.
        shift = max(shift, _find_least_shift(keys[:: len(keys) // (2 * MAX_BINS)]))
    keys, counts = _merge_bins(keys, counts, shift)
    if len(keys) > MAX_BINS:
        shift = _find_least_shift(keys)
        keys, counts = _merge_bins(keys, counts, shift)
    return keys, counts, shift


def _find_least_shift(keys: Keys) -> int:
    """Return the number of bits to drop so that more than 2,048 ascending, distinct keys give at most 2,048 bins."""
    # Neighbours stay apart as long as a bit is left in which they differ; all but 2,047 pairs have to fall together.
    return int(np.partition(keys[1:] ^ keys[:-1], -MAX_BINS)[-MAX_BINS]).bit_length()


def _merge_bins(keys: Keys, counts: Counts, shift: int) -> tuple[Keys, Counts]:
    if not len(keys):
        return keys, counts
    keys = keys & np.uint64((1 << 64) - (1 << shift))
    firsts = run_starts(keys)
    return (keys, counts) if len(firsts) == len(keys) else (keys[firsts], np.add.reduceat(counts, firsts))
