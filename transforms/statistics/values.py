"""Statistics of a column's values: numbers, class ids and strings."""

import codecs
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shardmill.quality.stats_file import FeatureSummary
from shardmill.quality.stats_values import MAX_TOP_VALUES, MIN_SAMPLED, SAMPLE_SIZE, Bucket, Distinct, Numbers, TopValue
from shardmill.transforms.columns.arrow import offsets_of
from shardmill.transforms.statistics.sketches import (
    FLOAT32_FRACTION_BITS,
    HASHES_KEPT,
    DistinctValues,
    ExactSums,
    Mergeable,
    Sample,
    ValueBins,
    hash_bytes,
    mix,
    run_starts,
    unique_hashes,
    unmix,
)

_PERCENTS = [1, 5, 10, 25, 50, 75, 90, 95, 99]  # of the quantiles in stats.json

Ties = NDArray[np.uint64]


class DistinctCodes(NamedTuple):
    """The equality of a column's values: each value's index into `hashes`, the hashes of the distinct ones."""

    codes: NDArray[np.int64]
    hashes: NDArray[np.uint64]


class ValueStats(Protocol):
    """Interface of the statistics of a column's values."""

    @property
    def kind(self) -> str:
        """The type of the counted values, in a word."""

    def add(self, values: pa.Array, ties: Ties) -> DistinctCodes | None:
        """Count at most 2**16 values without nulls, and return which are equal, if that was computed.

        Samples are drawn by `ties`, random numbers of the values.
        """

    def merge(self, other: Self) -> None:
        """Add the counts of `other`."""

    def summary(self, class_names: Sequence[str] | None) -> FeatureSummary:
        """Return the statistics for stats.json; `class_names` are given if the values are ids of named classes."""


@dataclass(slots=True)
class RangeStats:
    """Range, mean and standard deviation of numbers."""

    low: int | float = math.inf
    high: int | float = -math.inf
    sums: ExactSums = field(default_factory=ExactSums)

    def add(self, numbers: NDArray[Any]) -> None:
        """Count int64 numbers, or finite float32 ones, which are added fastest if ascending."""
        if len(numbers):
            self.low, self.high = min(self.low, numbers.min().item()), max(self.high, numbers.max().item())
            if numbers.dtype == np.float32:
                self.sums.add_floats(numbers)
            else:
                self.sums.add_integers(numbers)

    def merge(self, other: "RangeStats") -> None:
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.sums.merge(other.sums)

    def summary(self) -> Numbers:
        """Return the statistics of at least one number, for stats.json."""
        return Numbers(minimum=self.low, maximum=self.high, mean=self.sums.mean(), std_dev=self.sums.std_dev())


@dataclass(slots=True)
class NumericStats(Mergeable):
    """Statistics of int64 or float32 numbers; all but the counts of NaN and infinity are those of finite numbers."""

    range: RangeStats = field(default_factory=RangeStats)
    zeros: int = 0
    nan: int = 0
    infinity: int = 0
    distinct: DistinctValues = field(default_factory=DistinctValues)
    bins: ValueBins = field(default_factory=ValueBins)

    @classmethod
    def for_floats(cls) -> "NumericStats":
        """Return empty statistics for float32."""
        return cls(RangeStats(sums=ExactSums(FLOAT32_FRACTION_BITS)))

    @property
    def kind(self) -> str:
        return "int64" if self._is_integer else "float32"

    def add(self, values: pa.Array, ties: Ties) -> None:
        """Count numbers; no sample is drawn."""
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
        numbers, counts = _count_numbers(numbers)
        self.range.low = min(self.range.low, numbers[0].item())
        self.range.high = max(self.range.high, numbers[-1].item())
        self.zeros += int(counts[numbers == 0].sum())
        bits = numbers.view(np.uint32).astype(np.uint64) if numbers.dtype == np.float32 else numbers.view(np.uint64)
        self.distinct.add(mix(bits), counts)
        self.bins.add(numbers.astype(np.float64), counts)

    def summary(self, class_names: Sequence[str] | None) -> FeatureSummary:
        """Return the statistics for stats.json, with counts of NaN and infinity if there are any."""
        if not self.range.sums.count:
            odd = Numbers(nan=self.nan, infinity=self.infinity)
            return FeatureSummary(numbers=None if odd == Numbers() else odd)
        bounds = [self._find_bounds(low, high) for low, high in zip(*(edges.tolist() for edges in self.bins.edges()))]
        numbers = replace(
            self.range.summary(),
            zeros=self.zeros,
            nan=self.nan,
            infinity=self.infinity,
            quantiles={
                str(percent / 100): _compute_midpoint(*bounds[index])
                for percent, index in zip(_PERCENTS, self.bins.percentile_bins(_PERCENTS))
            },
            relative_error=self.bins.relative_error(),
            histogram=tuple(
                Bucket(*self._find_bounds(each.low, each.high), each.count) for each in self.bins.buckets()
            ),
        )
        return FeatureSummary(
            distinct=summarize_distinct(self.distinct, self.range.sums.count),
            numbers=numbers,
            top_values=self._top_values(),
        )

    def _top_values(self) -> tuple[TopValue, ...] | None:
        if not self._is_integer or self.distinct.counts is None:
            return None
        counted = zip(self.integers().tolist(), self.distinct.counts.tolist())
        return tuple(TopValue(*value) for value in most_frequent(counted))

    def integers(self) -> NDArray[np.int64]:
        """Return the integers whose hashes are in `distinct`, in their order."""
        return unmix(self.distinct.hashes).view(np.int64)

    @property
    def _is_integer(self) -> bool:
        return not self.range.sums.fraction_bits

    def _find_bounds(self, low: float, high: float) -> tuple[int | float, int | float]:
        """Return the bounds of a bin within the range of the numbers; for integers, the least and greatest in it."""
        if self._is_integer and not self.bins.shift:  # the bounds are numbers that there are
            low, high = int(low), int(high)
        elif self._is_integer and low != high:  # a bound between two bins is of the one farther from zero
            low = math.ceil(low) if low >= 0 else math.floor(low) + 1
            high = math.ceil(high) - 1 if high > 0 else math.floor(high)
        elif self._is_integer:
            low = high = int(low)
        return max(low, self.range.low), min(high, self.range.high)


@dataclass(slots=True)
class ClassStats(Mergeable):
    """Exact counts of class ids, however many there are."""

    kind: ClassVar[str] = "label"
    counts: Counter[int] = field(default_factory=Counter)

    def add(self, values: pa.Array, ties: Ties) -> None:
        """Count int64 ids."""
        ids, counts = np.unique(values.to_numpy(), return_counts=True)
        self.counts.update(dict(zip(ids.tolist(), counts.tolist())))

    def summary(self, class_names: Sequence[str] | None) -> FeatureSummary:
        """Return the count of each class by name for stats.json; without names, counts of the most frequent ids."""
        if class_names is None:
            top = tuple(TopValue(*counted) for counted in most_frequent(self.counts.items()))
            return FeatureSummary(distinct=Distinct(len(self.counts)), top_values=top)
        classes = {name: self.counts[index] for index, name in enumerate(class_names)}
        return FeatureSummary(classes=classes, without_name=self.counts.total() - sum(classes.values()))


class MixedStats:
    """Empty statistics of values of different types; this can happen in existing records, which have no schema."""

    kind = "mixed"

    def add(self, values: pa.Array, ties: Ties) -> None:
        """Count nothing, since the values have different types."""

    def merge(self, other: "MixedStats") -> None:
        """Add nothing, since the values have different types."""

    def summary(self, class_names: Sequence[str] | None) -> FeatureSummary:
        return FeatureSummary(is_mixed=True)


def _count_numbers(numbers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct values of at least one number, ascending, and their counts."""
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


def summarize_distinct(distinct: DistinctValues, values: int) -> Distinct:
    """Return the number of distinct values among `values` values, with its standard error if it is an estimate."""
    if distinct.counts is not None:
        return Distinct(distinct.number())
    return Distinct(min(distinct.number(), values), round(distinct.relative_error(), 4))


def most_frequent(counted: Iterable[tuple[Any, int]]) -> list[tuple[Any, int]]:
    """Return the most frequent values with their counts; those that occur once only if there are few in all."""
    ordered = sorted(counted, key=lambda item: (-item[1], item[0]))
    return [(value, count) for value, count in ordered[:MAX_TOP_VALUES] if count > 1 or len(ordered) <= MAX_TOP_VALUES]


def _compute_midpoint(low: int | float, high: int | float) -> int | float:
    if isinstance(low, int) and isinstance(high, int):
        return (low + high) // 2
    return low if low == high else (low + high) / 2


MAX_SHOWN_BYTES = 48  # of a string, in stats.json
_PROBED_VALUES = 2048  # values looked at to tell whether finding equal ones pays


@dataclass(slots=True)
class StringStats:
    """Statistics of byte strings."""

    kind: ClassVar[str] = "bytes"
    lengths: RangeStats = field(default_factory=RangeStats)  # in bytes
    distinct: DistinctValues = field(default_factory=DistinctValues)  # values by hash
    sample: Sample = field(default_factory=Sample)  # for the most frequent values if there are too many to count
    texts: dict[int, bytes] = field(
        default_factory=dict
    )  # by hash, first 49 bytes of each value that `_keep_texts` needs

    def add(self, values: pa.Array, ties: Ties) -> DistinctCodes | None:
        """Count values of type large_binary; return which are equal, if that was computed."""
        if not len(values):
            return None
        self.lengths.add(np.diff(offsets_of(values)))
        # Where a part shows that there are too many values to count each, hashing all of them is cheaper than finding
        # equal ones.
        many = len(values[:_PROBED_VALUES].dictionary_encode().dictionary) > HASHES_KEPT
        encoded = None if many else values.dictionary_encode()
        named = values if encoded is None else encoded.dictionary
        hashes = hash_bytes(named)
        near = self.sample.select_candidates(ties)
        if encoded is None:
            self.distinct.add(hashes, None)
            rows = near
        else:
            indices = encoded.indices.to_numpy()
            self.distinct.add(hashes, np.bincount(indices))
            rows = indices[near]
        self.sample.add(ties[near], hashes[rows])
        if encoded is not None and self.distinct.counts is not None:
            rows = np.arange(len(hashes))
        texts = (text[: MAX_SHOWN_BYTES + 1] for text in named.take(pa.array(rows)).to_pylist())
        self._keep_texts(self.texts | dict(zip(hashes[rows].tolist(), texts)))
        return None if encoded is None else DistinctCodes(indices.astype(np.int64), hashes)

    def merge(self, other: "StringStats") -> None:
        self.lengths.merge(other.lengths)
        self.distinct.merge(other.distinct)
        self.sample.merge(other.sample)
        self._keep_texts(self.texts | other.texts)

    def _keep_texts(self, texts: dict[int, bytes]) -> None:
        """Keep the texts of sampled strings, and of the distinct ones unless there are too many to count."""
        counted = [] if self.distinct.counts is None else [self.distinct.hashes]
        needed = unique_hashes(np.concatenate([self.sample.hashes, *counted]))
        self.texts = {hashed: texts[hashed] for hashed in needed.tolist()}

    def summary(self, class_names: Sequence[str] | None) -> FeatureSummary:
        """Return the statistics for stats.json; long values are truncated."""
        count = self.lengths.sums.count
        if not count:
            return FeatureSummary()
        strings = FeatureSummary(distinct=summarize_distinct(self.distinct, count), length_bytes=self.lengths.summary())
        if self.distinct.counts is not None:
            counted = zip(self.distinct.hashes.tolist(), self.distinct.counts.tolist())
            return replace(strings, top_values=self._find_top_values(counted))
        sampled = Counter(self.sample.hashes.tolist()).items()
        scaled = [(hashed, round(found * count / SAMPLE_SIZE)) for hashed, found in sampled if found >= MIN_SAMPLED]
        return replace(
            strings,
            top_values=self._find_top_values(scaled),
            top_values_from=f"a sample of {SAMPLE_SIZE:,} values, counts scaled up",
        )

    def _find_top_values(self, counted: Iterable[tuple[int, int]]) -> tuple[TopValue, ...]:
        ordered = most_frequent(((self.texts[hashed], hashed), count) for hashed, count in counted)
        return tuple(TopValue(_format_string(text), count) for (text, _), count in ordered)


def _format_string(text: bytes) -> str:
    """Return a string for stats.json, cut between characters, with bytes that are not UTF-8 escaped."""
    if len(text) <= MAX_SHOWN_BYTES:
        return text.decode(errors="backslashreplace")
    return codecs.getincrementaldecoder("utf-8")("backslashreplace").decode(text[:MAX_SHOWN_BYTES]) + "…"
