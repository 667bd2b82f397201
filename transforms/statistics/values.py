"""Statistics of a column's values, mergeable in any order: of numbers, of ids of classes, and what those of strings
share."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shardmill.statistics.feature_summary import FeatureSummary
from shardmill.statistics.numbers import Bucket, Numbers
from shardmill.statistics.values import TOP_VALUES, Distinct, TopValue
from shardmill.transforms.statistics.bins import ValueBins
from shardmill.transforms.statistics.exact_sums import FLOAT32_FRACTION_BITS, ExactSums
from shardmill.transforms.statistics.hashes import mix, unmix
from shardmill.transforms.statistics.sketches import DistinctValues, run_starts

_PERCENTS = [1, 5, 10, 25, 50, 75, 90, 95, 99]  # of the quantiles in stats.json

Ties = NDArray[np.uint64]


class Codes(NamedTuple):
    """Which of some values are equal: by value its index in `hashes`, which has each different value's once."""

    codes: NDArray[np.int64]
    hashes: NDArray[np.uint64]


class ValueStats(Protocol):
    """What a column knows of its values."""

    @property
    def kind(self) -> str:
        """What the values are, in a word."""

    def add(self, values: pa.Array, ties: Ties) -> Codes | None:
        """Count values, at most 2**16 and none of them null, each with its tie: random numbers that samples are drawn
        by. Returns which of them are equal, if that was found on the way."""

    def merge(self, other: Self) -> None:
        """Add what `other` counted."""

    def summary(self, class_names: Sequence[str] | None) -> FeatureSummary:
        """What stands in stats.json of them; `class_names` where the values are ids of classes that have names."""


@dataclass(slots=True)
class RangeStats:
    """Range, mean and standard deviation of numbers that are not kept otherwise: lengths."""

    low: int | float = math.inf
    high: int | float = -math.inf
    sums: ExactSums = field(default_factory=ExactSums)

    def add(self, lengths: NDArray[np.int64]) -> None:
        """Count `lengths`."""
        if len(lengths):
            self.low, self.high = min(self.low, int(lengths.min())), max(self.high, int(lengths.max()))
            self.sums.add_integers(lengths)

    def merge(self, other: "RangeStats") -> None:
        """Add what `other` counted."""
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.sums.merge(other.sums)

    def summary(self) -> Numbers:
        """What stands in stats.json, of at least one number."""
        return Numbers(minimum=self.low, maximum=self.high, mean=self.sums.mean(), std_dev=self.sums.std_dev())


@dataclass(slots=True)
class NumericStats:
    """Statistics of int64 or float32 numbers. All but the counts of NaN and infinity are of the finite ones."""

    range: RangeStats = field(default_factory=RangeStats)
    zeros: int = 0
    nan: int = 0
    infinity: int = 0
    distinct: DistinctValues = field(default_factory=DistinctValues)
    bins: ValueBins = field(default_factory=ValueBins)

    @classmethod
    def of_floats(cls) -> "NumericStats":
        """Statistics that take float32."""
        return cls(RangeStats(sums=ExactSums(FLOAT32_FRACTION_BITS)))

    @property
    def kind(self) -> str:
        """The type of the numbers."""
        return "int64" if self._is_integer else "float32"

    def add(self, values: pa.Array, ties: Ties) -> None:
        """Count values; no sample is drawn of them."""
        numbers = values.to_numpy()
        if numbers.dtype == np.float32:
            finite = np.isfinite(numbers)
            if not finite.all():
                nan = int(np.count_nonzero(np.isnan(numbers)))
                self.nan += nan
                self.infinity += int(np.count_nonzero(~finite)) - nan
                numbers = numbers[finite]
            numbers = numbers + np.float32(0)  # -0.0 becomes 0.0
        if not len(numbers):
            return
        if numbers.dtype == np.float32:
            numbers = np.sort(numbers)
            self.range.sums.add_floats(numbers)
        else:
            self.range.sums.add_integers(numbers)
        numbers, counts = _counted(numbers)
        self.range.low, self.range.high = (
            min(self.range.low, numbers[0].item()),
            max(self.range.high, numbers[-1].item()),
        )
        self.zeros += int(counts[numbers == 0].sum())
        bits = numbers.view(np.uint32).astype(np.uint64) if numbers.dtype == np.float32 else numbers.view(np.uint64)
        self.distinct.add(mix(bits), counts)
        self.bins.add(numbers.astype(np.float64), counts)

    def merge(self, other: "NumericStats") -> None:
        """Add what `other` counted."""
        self.range.merge(other.range)
        self.zeros += other.zeros
        self.nan += other.nan
        self.infinity += other.infinity
        self.distinct.merge(other.distinct)
        self.bins.merge(other.bins)

    def summary(self, class_names: Sequence[str] | None) -> FeatureSummary:
        """What stands in stats.json; the counts of NaN and infinity where there are any."""
        if not self.range.sums.count:
            odd = Numbers(nan=self.nan, infinity=self.infinity)
            return FeatureSummary(numbers=None if odd == Numbers() else odd)
        bounds = [self._bounds(low, high) for low, high in zip(*(edges.tolist() for edges in self.bins.edges()))]
        numbers = replace(
            self.range.summary(),
            zeros=self.zeros,
            nan=self.nan,
            infinity=self.infinity,
            quantiles={
                str(percent / 100): _middle(*bounds[index])
                for percent, index in zip(_PERCENTS, self.bins.ranked(_PERCENTS))
            },
            relative_error=self.bins.relative_error(),
            histogram=tuple(Bucket(*self._bounds(each.low, each.high), each.count) for each in self.bins.buckets()),
        )
        return FeatureSummary(
            distinct=distinct_of(self.distinct, self.range.sums.count), numbers=numbers, top_values=self._top_values()
        )

    def _top_values(self) -> tuple[TopValue, ...] | None:
        if not self._is_integer or self.distinct.counts is None:
            return None
        counted = zip(self.integers().tolist(), self.distinct.counts.tolist())
        return tuple(TopValue(*value) for value in most_frequent(counted))

    def integers(self) -> NDArray[np.int64]:
        """The integers that `distinct` holds the hashes of, in their order."""
        return unmix(self.distinct.hashes).view(np.int64)

    @property
    def _is_integer(self) -> bool:
        return not self.range.sums.fraction_bits

    def _bounds(self, low: float, high: float) -> tuple[int | float, int | float]:
        """The bounds of a bin or bucket: among the numbers there are; of integers, the smallest and the largest it
        holds."""
        if self._is_integer and not self.bins.shift:  # the bounds are numbers that there are
            low, high = int(low), int(high)
        elif self._is_integer and low != high:  # a bound between two bins is of the one farther from zero
            low = math.ceil(low) if low >= 0 else math.floor(low) + 1
            high = math.ceil(high) - 1 if high > 0 else math.floor(high)
        elif self._is_integer:
            low = high = int(low)
        return max(low, self.range.low), min(high, self.range.high)


@dataclass(slots=True)
class ClassStats:
    """Exact counts of ids of classes, however many there are."""

    counts: Counter[int] = field(default_factory=Counter)

    @property
    def kind(self) -> str:
        """A word for ids of classes."""
        return "label"

    def add(self, values: pa.Array, ties: Ties) -> None:
        """Count ids, of type int64."""
        ids, counts = np.unique(values.to_numpy(), return_counts=True)
        self.counts.update(dict(zip(ids.tolist(), counts.tolist())))

    def merge(self, other: "ClassStats") -> None:
        """Add what `other` counted."""
        self.counts.update(other.counts)

    def summary(self, class_names: Sequence[str] | None) -> FeatureSummary:
        """What stands in stats.json: the count of each class by name, where they have names; else of the most frequent
        ids."""
        if class_names is None:
            top = tuple(TopValue(*counted) for counted in most_frequent(self.counts.items()))
            return FeatureSummary(distinct=Distinct(len(self.counts)), top_values=top)
        classes = {name: self.counts[index] for index, name in enumerate(class_names)}
        return FeatureSummary(classes=classes, without_name=self.counts.total() - sum(classes.values()))


class MixedStats:
    """Nothing of values that are of one kind here and of another there: existing records have no schema."""

    kind = "mixed"

    def add(self, values: pa.Array, ties: Ties) -> None:
        """Count nothing."""

    def merge(self, other: "MixedStats") -> None:
        """Add nothing."""

    def summary(self, class_names: Sequence[str] | None) -> FeatureSummary:
        """What stands in stats.json."""
        return FeatureSummary(is_mixed=True)


def _counted(numbers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The different ones of at least one number, ascending, and how often each occurs."""
    if numbers.dtype == np.int64:
        low, high = int(numbers.min()), int(numbers.max())
        if high - low <= 2 * len(numbers):  # ids of tokens, say: counted faster than they are sorted
            counts = np.bincount(numbers - low)
            found = np.flatnonzero(counts)
            return found + low, counts[found]
        numbers = np.sort(numbers)
    firsts = run_starts(numbers)
    counts = np.empty(len(firsts), np.int64)
    np.subtract(firsts[1:], firsts[:-1], out=counts[:-1])
    counts[-1] = len(numbers) - firsts[-1]
    return numbers[firsts], counts


def distinct_of(distinct: DistinctValues, values: int) -> Distinct:
    """How many of `values` values differ, and, where that is an estimate, its standard error."""
    if distinct.counts is not None:
        return Distinct(distinct.number())
    return Distinct(min(distinct.number(), values), round(distinct.relative_error(), 4))


def most_frequent(counted: Iterable[tuple[Any, int]]) -> list[tuple[Any, int]]:
    """The most frequent values, each with its count. Those that occur once say nothing, unless there are few values at
    all."""
    ordered = sorted(counted, key=lambda item: (-item[1], item[0]))
    return [(value, count) for value, count in ordered[:TOP_VALUES] if count > 1 or len(ordered) <= TOP_VALUES]


def _middle(low: int | float, high: int | float) -> int | float:
    if isinstance(low, int) and isinstance(high, int):
        return (low + high) // 2
    return low if low == high else (low + high) / 2
