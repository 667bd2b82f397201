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
from shardmill.quality.stats_values import (
    MAX_TOP_VALUES,
    MIN_SAMPLED,
    SAMPLE_SIZE,
    BucketColumns,
    Distinct,
    Numbers,
    TopValue,
)
from shardmill.transforms.columns.arrow import offsets_of
from shardmill.transforms.findings import Mergeable
from shardmill.transforms.statistics import sketches

_PERCENTS = [1, 5, 10, 25, 50, 75, 90, 95, 99]  # of the quantiles in stats.json
_QUANTILES = [str(percent / 100) for percent in _PERCENTS]

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
    sums: sketches.ExactSums = field(default_factory=sketches.ExactSums)

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
    distinct: sketches.DistinctValues = field(default_factory=sketches.DistinctValues)
    bins: sketches.ValueBins = field(default_factory=sketches.ValueBins)

    @classmethod
    def for_floats(cls) -> "NumericStats":
        """Return empty statistics for float32."""
        return cls(RangeStats(sums=sketches.ExactSums(sketches.FLOAT32_FRACTION_BITS)))

    @property
    def kind(self) -> str:
        return "int64" if self.is_integer else "float32"

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
        self.distinct.add(sketches.mix(bits), counts)
        self.bins.add(numbers.astype(np.float64), counts)

    def summary(self, class_names: Sequence[str] | None) -> FeatureSummary:
        """Return the statistics for stats.json, with counts of NaN and infinity if there are any."""
        return summarize_numbers([self])[0]

    def top_values(self) -> tuple[TopValue, ...] | None:
        """Return the most frequent integers; None if there are too many to count."""
        if not self.is_integer or self.distinct.counts is None:
            return None
        values, counts = self.integers(), self.distinct.counts
        order = np.lexsort((values, -counts))
        if len(order) > MAX_TOP_VALUES:
            order = order[:MAX_TOP_VALUES]
            order = order[counts[order] > 1]
        return tuple(map(TopValue, values[order].tolist(), counts[order].tolist()))

    def integers(self) -> NDArray[np.int64]:
        """Return the integers whose hashes are in `distinct`, in their order."""
        return sketches.unmix(self.distinct.hashes).view(np.int64)

    @property
    def is_integer(self) -> bool:
        """True for statistics of int64."""
        return not self.range.sums.fraction_bits


def count_columns(features: Sequence[NumericStats], numbers: NDArray[Any]) -> None:
    """Count the numbers of several features at once, as `NumericStats.add` does, which takes longer for few examples.

    Args:
        features: statistics of numbers of one type.
        numbers: int64, or finite float32, of shape (features, examples); at most 2**16 examples.
    """
    ordered = np.sort(numbers + numbers.dtype.type(0), axis=1)  # -0.0 becomes 0.0
    is_first = np.ones(ordered.shape, np.bool_)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=is_first[:, 1:])
    firsts = np.flatnonzero(is_first)
    counts, values = np.diff(firsts, append=ordered.size), ordered.ravel()[firsts]
    bits = values.view(np.uint32).astype(np.uint64) if values.dtype == np.float32 else values.view(np.uint64)
    hashes, wide = sketches.mix(bits), values.astype(np.float64)
    bounds = np.append(0, np.cumsum(np.count_nonzero(is_first, axis=1))).tolist()
    zeros = np.add.reduceat(counts * (values == 0), bounds[:-1]).tolist()
    sketches.add_to_sums([feature.range.sums for feature in features], ordered)
    for feature, start, stop, zero in zip(features, bounds, bounds[1:], zeros):
        part = slice(start, stop)
        feature.range.low = min(feature.range.low, values[start].item())
        feature.range.high = max(feature.range.high, values[stop - 1].item())
        feature.zeros += zero
        feature.distinct.add(hashes[part], counts[part])
        feature.bins.add(wide[part], counts[part])


_SUMMARIZED_AT_ONCE = 256  # features, whose bins take a few megabytes


def summarize_numbers(features: Sequence[NumericStats]) -> list[FeatureSummary]:
    """Return the statistics for stats.json of several features of one type, of many at once."""
    if len(features) > _SUMMARIZED_AT_ONCE:
        parts = (features[at : at + _SUMMARIZED_AT_ONCE] for at in range(0, len(features), _SUMMARIZED_AT_ONCE))
        return [summary for part in parts for summary in summarize_numbers(part)]
    counted = [stats for stats in features if stats.range.sums.count]
    bins = sketches.BinColumns.of([stats.bins for stats in counted])
    firsts, lasts, counts, sizes = bins.buckets()
    bucket_bounds = _find_bounds(counted, sizes, bins.low[firsts], bins.high[lasts])
    places = bins.percentile_bins(_PERCENTS).ravel()
    low, high = _find_bounds(counted, np.full(len(counted), len(_PERCENTS)), bins.low[places], bins.high[places])
    is_whole = low.dtype == np.int64
    quantiles = low + (high - low) // 2 if is_whole else np.where(low == high, low, (low + high) / 2)
    buckets = tuple(column.tolist() for column in (*bucket_bounds, counts))
    ends = np.cumsum(sizes).tolist()
    found = iter(
        Numbers(
            minimum=stats.range.low,
            maximum=stats.range.high,
            mean=stats.range.sums.mean(),
            std_dev=stats.range.sums.std_dev(),
            zeros=stats.zeros,
            nan=stats.nan,
            infinity=stats.infinity,
            quantiles=dict(zip(_QUANTILES, of_feature)),
            relative_error=stats.bins.relative_error(),
            histogram=BucketColumns(*(tuple(column[end - size : end]) for column in buckets)),
        )
        for stats, of_feature, size, end in zip(
            counted, quantiles.reshape(-1, len(_PERCENTS)).tolist(), sizes.tolist(), ends
        )
    )
    return [
        FeatureSummary(
            distinct=summarize_distinct(stats.distinct, stats.range.sums.count),
            numbers=next(found),
            top_values=stats.top_values(),
        )
        if stats.range.sums.count
        else FeatureSummary(
            numbers=Numbers(nan=stats.nan, infinity=stats.infinity) if stats.nan or stats.infinity else None
        )
        for stats in features
    ]


def _find_bounds(
    features: Sequence[NumericStats], sizes: NDArray[np.int64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the bounds of bins, of which each feature has so many, within the range of its numbers.

    For integers these are the least and greatest in each bin.
    """
    feature = np.repeat(np.arange(len(features)), sizes)
    is_integer = bool(features) and features[0].is_integer
    if is_integer:
        # The bounds are numbers that there are; or else a bound between two bins is of the one farther from zero.
        is_border = (np.array([stats.bins.shift for stats in features])[feature] > 0) & (low != high)
        more = _to_integers(np.where(low < 0, np.floor(low), np.ceil(low)))
        less = _to_integers(np.where(high > 0, np.ceil(high), np.floor(high)))
        is_within = (low >= -(2.0**63)) & (low < 0), (high < 2.0**63) & (high > 0)
        low, high = more + (is_border & is_within[0]), less - (is_border & is_within[1])
    dtype = np.int64 if is_integer else np.float64
    least, greatest = (np.array([getattr(stats.range, end) for stats in features], dtype) for end in ("low", "high"))
    return np.maximum(low, least[feature]), np.minimum(high, greatest[feature])


def _to_integers(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    is_beyond = numbers >= 2.0**63
    fitting = np.maximum(np.where(is_beyond, 0, numbers), -(2.0**63)).astype(np.int64)
    return np.where(is_beyond, np.iinfo(np.int64).max, fitting)


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
    if numbers.dtype == np.int64:
        low, high = int(numbers.min()), int(numbers.max())
        if high - low <= 2 * len(numbers):  # ids of tokens, say: counted faster than they are sorted
            counts = np.bincount(numbers - low)
            found = np.flatnonzero(counts)
            return found + low, counts[found]
        numbers = np.sort(numbers)
    firsts = sketches.run_starts(numbers)
    counts = np.empty(len(firsts), np.int64)
    np.subtract(firsts[1:], firsts[:-1], out=counts[:-1])
    counts[-1] = len(numbers) - firsts[-1]
    return numbers[firsts], counts


def summarize_distinct(distinct: sketches.DistinctValues, values: int) -> Distinct:
    """Return the number of distinct values among `values` values, with its standard error if it is an estimate."""
    if distinct.counts is not None:
        return Distinct(distinct.number())
    return Distinct(min(distinct.number(), values), round(distinct.relative_error(), 4))


def most_frequent(counted: Iterable[tuple[Any, int]]) -> list[tuple[Any, int]]:
    """Return the most frequent values with their counts; those that occur once only if there are few in all."""
    ordered = sorted(counted, key=lambda item: (-item[1], item[0]))
    return [(value, count) for value, count in ordered[:MAX_TOP_VALUES] if count > 1 or len(ordered) <= MAX_TOP_VALUES]


MAX_SHOWN_BYTES = 48  # of a string, in stats.json
_PROBED_VALUES = 2048  # values looked at to tell whether finding equal ones pays


@dataclass(slots=True)
class StringStats:
    """Statistics of byte strings."""

    kind: ClassVar[str] = "bytes"
    lengths: RangeStats = field(default_factory=RangeStats)  # in bytes
    distinct: sketches.DistinctValues = field(default_factory=sketches.DistinctValues)  # values by hash
    sample: sketches.Sample = field(
        default_factory=sketches.Sample
    )  # for the most frequent values if there are too many to count
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
        many = len(values[:_PROBED_VALUES].dictionary_encode().dictionary) > sketches.HASHES_KEPT
        encoded = None if many else values.dictionary_encode()
        named = values if encoded is None else encoded.dictionary
        hashes = sketches.hash_bytes(named)
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
        needed = sketches.unique_hashes(np.concatenate([self.sample.hashes, *counted]))
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
