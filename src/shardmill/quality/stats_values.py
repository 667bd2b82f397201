"""Values in stats.json: counts, numbers, histograms, extremes and frequent values."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple, overload

from shardmill.metadata import json_values
from shardmill.text import is_unicode

Number = int | float
Parse = Callable[[json_values.Value], Any]
Members = Mapping[str, tuple[str, Parse]]  # by key in JSON: name of the attribute, and its parser
_PLAIN: Mapping[Parse, Callable[[Any], bool]] = {
    json_values.Value.integer: json_values.is_plain_count,
    json_values.Value.number: json_values.is_plain_number,
}


def members_of(cls: type, keys: Mapping[str, str]) -> dict[str, tuple[str, Parse]]:
    """Return the members of a dataclass's JSON object; `keys` are those that differ from the name of the field."""
    return {keys.get(name, name): (name, parse) for name, parse in json_values.field_parsers(cls).items()}


def write_attributes(attributes: Mapping[str, Any], members: Members) -> json_values.Json:
    """Return a JSON object of the attributes in `members`, in that order; absent ones are left out."""
    return {key: json_values.to_plain(attributes[name]) for key, (name, _) in members.items() if name in attributes}


def parse_attributes(value: json_values.Value, members: Members) -> dict[str, Any]:
    """Return an object's attributes that its JSON has, by name; raise ValueError if one is invalid."""
    found: dict[str, Any] = {}
    for key, item in value.mapping().items():
        if key in members:
            name, parse = members[key]
            is_plain = _PLAIN.get(parse)
            found[name] = item if is_plain is not None and is_plain(item) else parse(value[key])
    return found


def parse_counts_by_integer(value: json_values.Value) -> dict[int, int]:
    """Parse counts by nonnegative integers, which are text in JSON; raise ValueError if one is invalid."""
    for name in value.mapping():
        if not (name.isascii() and name.isdecimal()):
            raise ValueError(f"{value.where} counts {name!r}; expected integers")
    return {int(name): count.integer() for name, count in value.entries().items()}


@dataclass(frozen=True, slots=True)
class Extreme(json_values.JsonObject):
    """One of the smallest, largest or most elongated images."""

    file: str  # name of the image
    width: int  # in pixels
    height: int  # in pixels
    shard: str = ""  # name of its shard file
    offset: int = 0  # of the framed record in the uncompressed shard, in bytes
    length: int = 0  # of the framed record, in bytes


class Bucket(NamedTuple):
    """A histogram bucket: the count of values from `low` to `high`, both included; or of integers of so many bits."""

    low: Number
    high: Number
    count: int  # type: ignore[assignment]  # a tuple's own `count` is of no use here
    by_powers: bool = False

    @classmethod
    def of_bits(cls, bits: int, count: int) -> "Bucket":
        """Return the bucket of the integers with exactly `bits` bits."""
        return cls((1 << bits) >> 1, (1 << bits) - 1, count, by_powers=True)

    def to_json(self) -> json_values.Json:
        """Return the bucket as a JSON object."""
        if self.by_powers:
            return {"below": int(self.high) + 1, "count": self.count}
        return {"low": self.low, "high": self.high, "count": self.count}

    @classmethod
    def from_json(cls, value: json_values.Value) -> "Bucket":
        """Parse a bucket from a JSON object; raise ValueError if it is invalid."""
        if "below" in value.mapping():
            below = value["below"].integer(1)
            if below & (below - 1):
                raise value["below"].wrong("a power of 2")
            return cls.of_bits(below.bit_length() - 1, value["count"].integer())
        return cls(value["low"].number(), value["high"].number(), value["count"].integer())


@dataclass(frozen=True, slots=True, eq=False)
class BucketColumns(Sequence[Bucket]):
    """Buckets as columns, none by powers of 2: a wide table has a hundred thousand, of which readers use few."""

    lows: tuple[Number, ...]
    highs: tuple[Number, ...]
    counts: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.counts)

    def to_json(self) -> list[json_values.Json]:
        """Return the buckets as JSON objects."""
        buckets = zip(self.lows, self.highs, self.counts)
        return [{"low": low, "high": high, "count": count} for low, high, count in buckets]

    @overload
    def __getitem__(self, index: int) -> Bucket: ...
    @overload
    def __getitem__(self, index: slice) -> "BucketColumns": ...
    def __getitem__(self, index: int | slice) -> "Bucket | BucketColumns":
        if isinstance(index, slice):
            return BucketColumns(self.lows[index], self.highs[index], self.counts[index])
        return Bucket(self.lows[index], self.highs[index], self.counts[index])

    def __iter__(self) -> Iterator[Bucket]:
        return map(Bucket, self.lows, self.highs, self.counts)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, (tuple, BucketColumns)) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))


def columns_of(histogram: Sequence[Bucket]) -> tuple[Sequence[Number], Sequence[Number], Sequence[int]]:
    """Return the lower bounds, upper bounds and counts of a histogram's buckets."""
    if isinstance(histogram, BucketColumns):
        return histogram.lows, histogram.highs, histogram.counts
    return [one.low for one in histogram], [one.high for one in histogram], [one.count for one in histogram]


def _parse_quantiles(value: json_values.Value) -> dict[str, Number]:
    found = value.value
    if type(found) is dict and all(map(json_values.is_plain_number, found.values())):
        return found
    return {name: number.number() for name, number in value.entries().items()}


def _parse_buckets(value: json_values.Value) -> Sequence[Bucket]:
    found = _plain_buckets(value.value)
    return tuple(map(Bucket.from_json, value.items())) if found is None else found


def _plain_buckets(value: Any) -> BucketColumns | None:
    """Return histogram buckets parsed column by column if all are plain JSON objects with three members; else None."""
    if type(value) is not list or not value:
        return None
    if set(map(type, value)) != {dict} or set(map(len, value)) != {3}:
        return None
    try:
        lows, highs, numbers = zip(*map(itemgetter("low", "high", "count"), value), strict=True)
        bounds = (*lows, *highs)
        are_bounds = {int, float}.issuperset(map(type, bounds)) and all(map(math.isfinite, bounds))
    except (KeyError, OverflowError):  # a member is missing, or has more digits than any number
        return None
    if not are_bounds or set(map(type, numbers)) != {int} or min(numbers) < 0 or max(numbers) > json_values.MAX_INTEGER:
        return None
    return BucketColumns(lows, highs, numbers)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The distribution of numbers."""

    count: int | None = None  # None if the feature or split holds it
    minimum: Number | None = None  # of finite numbers; None if there are none
    maximum: Number | None = None  # of finite numbers; None if there are none
    mean: Number | None = None  # of finite numbers; None if not computed
    std_dev: Number | None = None  # of finite numbers; None if not computed
    zeros: int | None = None  # None if not counted
    nan: int = 0  # number of NaNs
    infinity: int = 0  # number of infinities
    # by fraction as text: `0.5` is the median
    quantiles: Mapping[str, Number] | None = field(default=None, metadata={"parse": _parse_quantiles})
    relative_error: Number | None = None  # bound of each quantile's relative error
    # ascending; empty buckets are left out
    histogram: Sequence[Bucket] | None = field(default=None, metadata={"parse": _parse_buckets})

    def to_json(self) -> json_values.Json:
        """Return the numbers' distribution as a JSON object."""
        return write_attributes(json_values.changed_fields(self), _MEMBERS)

    @classmethod
    def from_json(cls, value: json_values.Value) -> "Numbers":
        """Parse a distribution of numbers from a JSON object; raise ValueError if it is invalid."""
        return cls(**parse_attributes(value, _MEMBERS))


_MEMBERS = members_of(Numbers, {"minimum": "min", "maximum": "max", "relative_error": "quantiles_relative_error"})
# A feature's own numbers have no `count`.
NUMBERS_MEMBERS = {key: member for key, member in _MEMBERS.items() if key != "count"}


MAX_TOP_VALUES = 20  # the most frequent ones, that stats.json has of a feature
SAMPLE_SIZE = 1024  # values drawn, from which the most frequent of many are determined
MIN_SAMPLED = 8  # of these, for a value to be listed: none that is as rare as 1,024 others gets there by chance
_LEAST_INTEGER = -1 << 63  # of an int64


@dataclass(frozen=True, slots=True)
class Distinct:
    """The number of distinct values; `relative_error` is the relative standard error of an estimate."""

    count: int
    relative_error: Number | None = None

    @property
    def is_exact(self) -> bool:
        """Return True if the values were counted rather than estimated."""
        return self.relative_error is None

    def to_json(self) -> json_values.Json:
        """Return the number of distinct values as a JSON object."""
        error = {} if self.relative_error is None else {"relative_error": self.relative_error}
        return {"count": self.count, "exact": self.is_exact, **error}

    @classmethod
    def from_json(cls, value: json_values.Value) -> "Distinct":
        """Parse a number of distinct values from a JSON object; raise ValueError if it is invalid."""
        return cls(value["count"].integer(), None if value["exact"].flag() else value["relative_error"].number())


@dataclass(frozen=True, slots=True)
class TopValue(json_values.JsonObject):
    """A frequent value and its count. Strings may be cut, and bytes that are not UTF-8 are shown as numbers."""

    value: int | str = field(
        metadata={"parse": lambda of: of.text() if isinstance(of.value, str) else of.integer(_LEAST_INTEGER)}
    )
    count: int


def parse_top_values(value: json_values.Value) -> tuple[TopValue, ...]:
    """Parse the frequent values, in order; raise ValueError if one is invalid."""
    found = value.value
    if isinstance(found, list) and all(map(_is_plain_top_value, found)):
        return tuple([TopValue(item["value"], item["count"]) for item in found])
    return tuple(map(TopValue.from_json, value.items()))


def _is_plain_top_value(item: Any) -> bool:
    return (
        type(item) is dict
        and json_values.is_plain_count(item.get("count"))
        and (is_unicode(shown) if type(shown := item.get("value")) is str else json_values.is_plain_integer(shown))
    )
