"""Values in stats.json: counts, numbers, histograms, extremes and frequent values."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple, overload

from shardmill.metadata.json_values import (
    MAX_INTEGER,
    Json,
    JsonObject,
    Value,
    changed_fields,
    is_plain_count,
    is_plain_integer,
    is_plain_number,
    to_plain,
)


@dataclass(frozen=True, slots=True)
class JsonMember:
    """A member of a JSON object."""

    attribute: str  # name of the attribute that holds it
    take: Callable[[Value], Any]  # parses and checks the value
    is_plain: Callable[[Any], bool] | None = None  # True for values that need no parsing
    plain: Callable[[Any], Any] | None = None  # quick parser; returns None for values that `take` must check


def write_attributes(attributes: Mapping[str, Any], members: Mapping[str, JsonMember]) -> Json:
    """Return the JSON object of attributes by name, in the order of `members`; absent ones are left out."""
    return {
        key: to_plain(attributes[member.attribute]) for key, member in members.items() if member.attribute in attributes
    }


def parse_attributes(value: Value, members: Mapping[str, JsonMember]) -> dict[str, Any]:
    """Return the attributes that are present, by name; raise ValueError if one is invalid."""
    found: dict[str, Any] = {}
    for key, item in value.mapping().items():
        member = members.get(key)
        if member is None:
            continue
        if member.is_plain is not None and member.is_plain(item):
            found[member.attribute] = item
        elif member.plain is not None and (made := member.plain(item)) is not None:
            found[member.attribute] = made
        else:
            found[member.attribute] = member.take(value[key])
    return found


def parse_counts_by_integer(value: Value) -> dict[int, int]:
    """Parse counts by nonnegative integers, which are text in JSON; raise ValueError if one is invalid."""
    for name in value.mapping():
        if not (name.isascii() and name.isdecimal()):
            raise ValueError(f"{value.where} counts {name!r}; expected integers")
    return {int(name): count.integer() for name, count in value.entries().items()}


@dataclass(frozen=True, slots=True)
class Extreme(JsonObject):
    """One of the smallest, largest or most elongated images."""

    file: str  # name of the image
    width: int  # in pixels
    height: int  # in pixels
    shard: str = ""  # name of its shard file
    offset: int = 0  # of the framed record in the uncompressed shard, in bytes
    length: int = 0  # of the framed record, in bytes


Number = int | float


class Bucket(NamedTuple):
    """The count of values from `low` to `high`, both included; those by powers of 2 are stored by the next power."""

    low: Number
    high: Number
    count: int  # type: ignore[assignment]  # a tuple's own `count` is of no use here
    by_powers: bool = False

    @classmethod
    def of_bits(cls, bits: int, count: int) -> "Bucket":
        """Return the bucket of the integers with exactly `bits` bits."""
        return cls((1 << bits) >> 1, (1 << bits) - 1, count, by_powers=True)

    def to_json(self) -> Json:
        """Return the JSON object."""
        if self.by_powers:
            return {"below": int(self.high) + 1, "count": self.count}
        return {"low": self.low, "high": self.high, "count": self.count}

    @classmethod
    def from_json(cls, value: Value) -> "Bucket":
        """Parse the JSON object; raise ValueError if it is invalid."""
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
    quantiles: Mapping[str, Number] | None = None  # by fraction as text: `0.5` is the median
    relative_error: Number | None = None  # bound of each quantile's relative error
    histogram: Sequence[Bucket] | None = None  # ascending; empty buckets are left out

    def to_json(self) -> Json:
        """Return the JSON object."""
        return write_attributes(changed_fields(self), _MEMBERS)

    @classmethod
    def from_json(cls, value: Value) -> "Numbers":
        """Parse the JSON object; raise ValueError if it is invalid."""
        return cls(**parse_attributes(value, _MEMBERS))


def _buckets_from_json(value: Value) -> Sequence[Bucket]:
    return tuple(map(Bucket.from_json, value.items()))


def _plain_buckets(value: Any) -> BucketColumns | None:
    """Return the buckets of plain objects with three valid members, checked column by column; None for others."""
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
    if not are_bounds or set(map(type, numbers)) != {int} or min(numbers) < 0 or max(numbers) > MAX_INTEGER:
        return None
    return BucketColumns(lows, highs, numbers)


def _numbers_by_name(value: Value) -> dict[str, Number]:
    return {name: number.number() for name, number in value.entries().items()}


def _plain_numbers(value: Any) -> dict[str, Number] | None:
    """Return the numbers by name if `value` is plain, else None."""
    return value if type(value) is dict and all(map(is_plain_number, value.values())) else None


# Members of a feature's own numbers in stats.json; other numbers also have `count`.
NUMBERS_MEMBERS: Mapping[str, JsonMember] = {
    "min": JsonMember("minimum", Value.number, is_plain_number),
    "max": JsonMember("maximum", Value.number, is_plain_number),
    "mean": JsonMember("mean", Value.number, is_plain_number),
    "std_dev": JsonMember("std_dev", Value.number, is_plain_number),
    "zeros": JsonMember("zeros", Value.integer, is_plain_count),
    "nan": JsonMember("nan", Value.integer, is_plain_count),
    "infinity": JsonMember("infinity", Value.integer, is_plain_count),
    "quantiles": JsonMember("quantiles", _numbers_by_name, plain=_plain_numbers),
    "quantiles_relative_error": JsonMember("relative_error", Value.number, is_plain_number),
    "histogram": JsonMember("histogram", _buckets_from_json, plain=_plain_buckets),
}
_MEMBERS: Mapping[str, JsonMember] = {"count": JsonMember("count", Value.integer, is_plain_count), **NUMBERS_MEMBERS}


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

    def to_json(self) -> Json:
        """Return the JSON object."""
        error = {} if self.relative_error is None else {"relative_error": self.relative_error}
        return {"count": self.count, "exact": self.is_exact, **error}

    @classmethod
    def from_json(cls, value: Value) -> "Distinct":
        """Parse the JSON object; raise ValueError if it is invalid."""
        return cls(value["count"].integer(), None if value["exact"].flag() else value["relative_error"].number())

    @classmethod
    def from_plain(cls, value: Any) -> "Distinct | None":
        """Return the parsed object if it is plain, else None."""
        if type(value) is not dict or not is_plain_count(value.get("count")):
            return None
        count: int = value["count"]
        exact, error = value.get("exact"), value.get("relative_error")
        if exact is True:
            return cls(count)
        return cls(count, error) if exact is False and is_plain_number(error) else None


def _parse_top_value(value: Value) -> int | str:
    return value.text() if isinstance(value.value, str) else value.integer(_LEAST_INTEGER)


@dataclass(frozen=True, slots=True)
class TopValue(JsonObject):
    """A frequent value and its count. Strings may be cut, and bytes that are not UTF-8 are shown as numbers."""

    value: int | str = field(metadata={"parse": _parse_top_value})
    count: int


def parse_top_values(value: Value) -> tuple[TopValue, ...]:
    """Parse the frequent values, in order; raise ValueError if one is invalid."""
    found = value.value
    if isinstance(found, list) and all(map(_is_plain_top_value, found)):
        return tuple([TopValue(item["value"], item["count"]) for item in found])
    return tuple(map(TopValue.from_json, value.items()))


def _is_plain_top_value(item: Any) -> bool:
    return (
        type(item) is dict
        and is_plain_count(item.get("count"))
        and (_is_unicode(shown) if type(shown := item.get("value")) is str else is_plain_integer(shown))
    )


def _is_unicode(text: str) -> bool:
    """Return True if `text` has no lone surrogates, which JSON can spell and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
