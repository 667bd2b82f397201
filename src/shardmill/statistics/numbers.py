"""How numbers are distributed, as stats.json has it: range, mean, quantiles, histogram."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple, overload

from shardmill.metadata.json_values import MAX_INTEGER, Value
from shardmill.statistics.members import Json, Member, attributes, is_plain_count, is_plain_number, present

Number = int | float


class Bucket(NamedTuple):
    """How many values lie from `low` to `high`, both included; the file has one of a histogram by powers of 2 as
    `below`, the power above it."""

    low: Number
    high: Number
    count: int  # type: ignore[assignment]  # a tuple's own `count` is of no use here
    by_powers: bool = False

    @classmethod
    def of_bits(cls, bits: int, count: int) -> "Bucket":
        """The integers of so many bits."""
        return cls((1 << bits) >> 1, (1 << bits) - 1, count, by_powers=True)

    def to_json(self) -> Json:
        """As the file has it."""
        if self.by_powers:
            return {"below": int(self.high) + 1, "count": self.count}
        return {"low": self.low, "high": self.high, "count": self.count}

    @classmethod
    def from_json(cls, value: Value) -> "Bucket":
        """What the file has; raises ValueError."""
        if "below" in value.mapping():
            below = value["below"].integer(1)
            if below & (below - 1):
                raise value["below"].wrong("a power of 2")
            return cls.of_bits(below.bit_length() - 1, value["count"].integer())
        return cls(value["low"].number(), value["high"].number(), value["count"].integer())


@dataclass(frozen=True, slots=True, eq=False)
class Buckets(Sequence[Bucket]):
    """Buckets as columns, none of them by powers of 2: a wide table has a hundred thousand, and who reads its
    statistics looks at few."""

    lows: tuple[Number, ...]
    highs: tuple[Number, ...]
    counts: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.counts)

    @overload
    def __getitem__(self, index: int) -> Bucket: ...
    @overload
    def __getitem__(self, index: slice) -> "Buckets": ...
    def __getitem__(self, index: int | slice) -> "Bucket | Buckets":
        if isinstance(index, slice):
            return Buckets(self.lows[index], self.highs[index], self.counts[index])
        return Bucket(self.lows[index], self.highs[index], self.counts[index])

    def __iter__(self) -> Iterator[Bucket]:
        return map(Bucket, self.lows, self.highs, self.counts)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, (tuple, Buckets)) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))


@dataclass(frozen=True, slots=True)
class Numbers:
    """How some numbers are distributed.

    Attributes:
      count: how many; None where that of the feature says it, or of the examples.
      minimum, maximum, mean, std_dev: of those that are finite; None where none is, or (mean and std_dev) where nobody
        added them up.
      zeros: how many are 0; None where nobody counted.
      nan, infinity: how many are not finite.
      quantiles: values by the fraction of all that does not exceed them, as text: `0.5` is the median.
      relative_error: by what share of itself each of `quantiles` may be off.
      histogram: ascending; empty ones between are left out.
    """

    count: int | None = None
    minimum: Number | None = None
    maximum: Number | None = None
    mean: Number | None = None
    std_dev: Number | None = None
    zeros: int | None = None
    nan: int = 0
    infinity: int = 0
    quantiles: Mapping[str, Number] | None = None
    relative_error: Number | None = None
    histogram: Sequence[Bucket] | None = None

    def to_json(self) -> Json:
        """As the file has it."""
        return present(
            count=self.count,
            min=self.minimum,
            max=self.maximum,
            mean=self.mean,
            std_dev=self.std_dev,
            zeros=self.zeros,
            nan=self.nan or None,
            infinity=self.infinity or None,
            quantiles=self.quantiles,
            quantiles_relative_error=self.relative_error,
            histogram=None if self.histogram is None else [bucket.to_json() for bucket in self.histogram],
        )

    @classmethod
    def from_json(cls, value: Value) -> "Numbers":
        """What the file has; raises ValueError."""
        return cls(**attributes(value, _MEMBERS))


def _buckets_from_json(value: Value) -> Sequence[Bucket]:
    return tuple(map(Bucket.from_json, value.items()))


def _plain_buckets(found: Any) -> Buckets | None:
    """The buckets of a list in which each has three members that are no other than they should be, looked at a member
    at a time; None of any other."""
    if type(found) is not list or not found:
        return None
    if set(map(type, found)) != {dict} or set(map(len, found)) != {3}:
        return None
    try:
        lows, highs, numbers = zip(*map(itemgetter("low", "high", "count"), found), strict=True)
        bounds = (*lows, *highs)
        are_bounds = {int, float}.issuperset(map(type, bounds)) and all(map(math.isfinite, bounds))
    except (KeyError, OverflowError):  # a member is missing, or has more digits than any number
        return None
    if not are_bounds or set(map(type, numbers)) != {int} or min(numbers) < 0 or max(numbers) > MAX_INTEGER:
        return None
    return Buckets(lows, highs, numbers)


def _numbers_by_name(value: Value) -> dict[str, Number]:
    return {name: number.number() for name, number in value.entries().items()}


def _plain_numbers(found: Any) -> dict[str, Number] | None:
    """The numbers by name that `found` is; None where it is no such thing."""
    return found if type(found) is dict and all(map(is_plain_number, found.values())) else None


# How a feature's own numbers stand in the file, beside what else is said of it; of other numbers, `count` too.
OF_NUMBERS: Mapping[str, Member] = {
    "min": Member("minimum", Value.number, is_plain_number),
    "max": Member("maximum", Value.number, is_plain_number),
    "mean": Member("mean", Value.number, is_plain_number),
    "std_dev": Member("std_dev", Value.number, is_plain_number),
    "zeros": Member("zeros", Value.integer, is_plain_count),
    "nan": Member("nan", Value.integer, is_plain_count),
    "infinity": Member("infinity", Value.integer, is_plain_count),
    "quantiles": Member("quantiles", _numbers_by_name, plain=_plain_numbers),
    "quantiles_relative_error": Member("relative_error", Value.number, is_plain_number),
    "histogram": Member("histogram", _buckets_from_json, plain=_plain_buckets),
}
_MEMBERS: Mapping[str, Member] = {"count": Member("count", Value.integer, is_plain_count), **OF_NUMBERS}
