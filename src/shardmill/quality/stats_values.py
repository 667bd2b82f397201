"""Values in stats.json: counts, numbers, histograms, extremes and frequent values."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar, overload

from shardmill.metadata.json_values import MAX_INTEGER, Value

Json = dict[str, Any]
T = TypeVar("T")


def drop_none(**members: Any) -> Json:
    """Return the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def parse_optional(value: Value, key: str, take: Callable[[Value], T]) -> T | None:
    """Return a member parsed by `take`, or None if it is absent; raise ValueError if `take` does."""
    return take(value[key]) if key in value.mapping() else None


@dataclass(frozen=True, slots=True)
class JsonMember:
    """A member of a JSON object."""

    attribute: str  # name of the attribute that holds it
    take: Callable[[Value], Any]  # parses and checks the value
    is_plain: Callable[[Any], bool] | None = None  # True for values that need no parsing
    plain: Callable[[Any], Any] | None = None  # quick parser; returns None for values that `take` must check


def parse_attributes(value: Value, members: Mapping[str, JsonMember]) -> dict[str, Any]:
    """Return an object's attributes by name; unknown members are ignored.

    Only present members are visited: most features have a third of all possible ones.

    Raises:
        ValueError: if a member is invalid.
    """
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


def is_plain_integer(value: Any) -> bool:
    """Return True for a 64-bit integer."""
    return type(value) is int and -MAX_INTEGER <= value <= MAX_INTEGER


def is_plain_number(value: Any) -> bool:
    """Return True for a finite number."""
    return type(value) in (int, float) and -math.inf < value < math.inf


def is_plain_count(value: Any) -> bool:
    """Return True for a 64-bit integer that is not negative."""
    return is_plain_integer(value) and value >= 0


def parse_counts(value: Value) -> dict[str, int]:
    """Parse counts by name; raise ValueError if one is invalid."""
    found = value.value
    if isinstance(found, dict) and all(map(is_plain_count, found.values())):
        return dict(found)
    return {name: count.integer() for name, count in value.entries().items()}


def parse_counts_by_integer(value: Value) -> dict[int, int]:
    """Parse counts by nonnegative integers, which are text in JSON; raise ValueError if one is invalid."""
    for name in value.mapping():
        if not (name.isascii() and name.isdecimal()):
            raise ValueError(f"{value.where} counts {name!r}; expected integers")
    return {int(name): count.integer() for name, count in value.entries().items()}


@dataclass(frozen=True, slots=True)
class Extreme:
    """One of the smallest, largest or most elongated images."""

    file: str  # name of the image
    width: int  # in pixels
    height: int  # in pixels
    shard: str = ""  # name of its shard file
    offset: int = 0  # of the framed record in the uncompressed shard, in bytes
    length: int = 0  # of the framed record, in bytes

    def to_json(self) -> Json:
        """Return the JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Value) -> "Extreme":
        """Parse the JSON object; raise ValueError if it is invalid."""
        numbers = (value[key].integer() for key in ("width", "height", "offset", "length"))
        width, height, offset, length = numbers
        return cls(value["file"].text(), width, height, value["shard"].text(), offset, length)


Number = int | float


class Bucket(NamedTuple):
    """The count of values from `low` to `high`, both included. In histograms by powers of 2, JSON holds `below`, the
    next power above.
    """

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
    """Buckets as columns, none by powers of 2.

    A wide table has a hundred thousand buckets, of which readers use few.
    """

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
        return drop_none(
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
        """Parse the JSON object; raise ValueError if it is invalid."""
        return cls(**parse_attributes(value, _MEMBERS))


def _buckets_from_json(value: Value) -> Sequence[Bucket]:
    return tuple(map(Bucket.from_json, value.items()))


def _plain_buckets(value: Any) -> BucketColumns | None:
    """Return the buckets of a list of plain objects with exactly three valid members, checked column by column; None
    otherwise.
    """
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
        return {"count": self.count, "exact": self.is_exact, **drop_none(relative_error=self.relative_error)}

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


@dataclass(frozen=True, slots=True)
class TopValue:
    """A frequent value and its count. Strings may be cut, and bytes that are not UTF-8 are shown as numbers."""

    value: int | str
    count: int

    def to_json(self) -> Json:
        """Return the JSON object."""
        return {"value": self.value, "count": self.count}

    @classmethod
    def from_json(cls, value: Value) -> "TopValue":
        """Parse the JSON object; raise ValueError if it is invalid."""
        shown = value["value"]
        return cls(
            shown.text() if isinstance(shown.value, str) else shown.integer(_LEAST_INTEGER), value["count"].integer()
        )


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
