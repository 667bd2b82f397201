"""How numbers are distributed, as stats.json has it: range, mean, quantiles, histogram."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardmill.metadata.json_values import Value
from shardmill.statistics.members import Json, is_plain_count, is_plain_number, optional, present

Number = int | float


@dataclass(frozen=True, slots=True)
class Bucket:
    """How many values lie from `low` to `high`, both included; the file has one of a histogram by powers of 2 as
    `below`, the power above it."""

    low: Number
    high: Number
    count: int
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
    histogram: tuple[Bucket, ...] | None = None

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
        return cls(
            count=optional(value, "count", Value.integer),
            minimum=optional(value, "min", Value.number),
            maximum=optional(value, "max", Value.number),
            mean=optional(value, "mean", Value.number),
            std_dev=optional(value, "std_dev", Value.number),
            zeros=optional(value, "zeros", Value.integer),
            nan=value.get("nan", 0).integer(),
            infinity=value.get("infinity", 0).integer(),
            quantiles=optional(value, "quantiles", _numbers_by_name),
            relative_error=optional(value, "quantiles_relative_error", Value.number),
            histogram=optional(value, "histogram", _buckets_from_json),
        )


def _buckets_from_json(value: Value) -> tuple[Bucket, ...]:
    found = value.value
    if isinstance(found, list) and all(map(_is_plain_bucket, found)):
        return tuple([Bucket(item["low"], item["high"], item["count"]) for item in found])
    return tuple(map(Bucket.from_json, value.items()))


def _is_plain_bucket(item: Any) -> bool:
    return (
        type(item) is dict
        and is_plain_count(item.get("count"))
        and "below" not in item
        and is_plain_number(item.get("low"))
        and is_plain_number(item.get("high"))
    )


def _numbers_by_name(value: Value) -> dict[str, Number]:
    found = value.value
    if isinstance(found, dict) and all(map(is_plain_number, found.values())):
        return dict(found)
    return {name: number.number() for name, number in value.entries().items()}
