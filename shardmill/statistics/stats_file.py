"""stats.json: what the examples of each split hold, feature by feature; the writer makes it of these types, and readers
get them.

Which members a feature has follows from what it is: numbers have a range and a histogram, strings lengths, both
distinct and top values; images, audio, arrays
and whole texts have the sizes of their files; class labels have the count of each class. What a feature has not is
None, and does not stand in the file.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from shardmill.errors import CorruptDataError
from shardmill.metadata.json_values import MAX_INTEGER, Value, parse_json
from shardmill.metadata.tfds_metadata import dump_json
from shardmill.statistics.duplicates import Duplicates

Number = int | float
Json = dict[str, Any]
T = TypeVar("T")


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
            return cls.of_bits(value["below"].integer(1).bit_length() - 1, value["count"].integer())
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
        return _there(
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
            histogram=_list(self.histogram),
        )

    @classmethod
    def from_json(cls, value: Value) -> "Numbers":
        """What the file has; raises ValueError."""
        return cls(
            count=_maybe(value, "count", Value.integer),
            minimum=_maybe(value, "min", Value.number),
            maximum=_maybe(value, "max", Value.number),
            mean=_maybe(value, "mean", Value.number),
            std_dev=_maybe(value, "std_dev", Value.number),
            zeros=_maybe(value, "zeros", Value.integer),
            nan=value.get("nan", 0).integer(),
            infinity=value.get("infinity", 0).integer(),
            quantiles=_maybe(value, "quantiles", _numbers_by_name),
            relative_error=_maybe(value, "quantiles_relative_error", Value.number),
            histogram=_maybe(value, "histogram", _buckets),
        )


@dataclass(frozen=True, slots=True)
class Distinct:
    """How many values differ; of an estimate, `relative_error` is its standard error as a share of it."""

    count: int
    relative_error: Number | None = None

    @property
    def is_exact(self) -> bool:
        """Whether each was counted."""
        return self.relative_error is None

    def to_json(self) -> Json:
        """As the file has it."""
        return {"count": self.count, "exact": self.is_exact, **_there(relative_error=self.relative_error)}

    @classmethod
    def from_json(cls, value: Value) -> "Distinct":
        """What the file has; raises ValueError."""
        return cls(value["count"].integer(), None if value["exact"].flag() else value["relative_error"].number())


@dataclass(frozen=True, slots=True)
class TopValue:
    """A value that is frequent, and how often it occurs; a string may be cut, and its bytes that are not UTF-8 are
    shown by number."""

    value: int | str
    count: int

    def to_json(self) -> Json:
        """As the file has it."""
        return {"value": self.value, "count": self.count}

    @classmethod
    def from_json(cls, value: Value) -> "TopValue":
        """What the file has; raises ValueError."""
        shown = value["value"]
        return cls(shown.text() if isinstance(shown.value, str) else shown.integer(-1 << 63), value["count"].integer())


@dataclass(frozen=True, slots=True)
class Extreme:
    """An image that is the smallest, the largest or the most elongated, or nearly so.

    Attributes:
      file: its name.
      width, height: in pixels.
      shard: the name of the file that its record is in.
      offset, length: in bytes, of the record with its frame, in the shard before that is compressed.
    """

    file: str
    width: int
    height: int
    shard: str = ""
    offset: int = 0
    length: int = 0

    def to_json(self) -> Json:
        """As the file has it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Value) -> "Extreme":
        """What the file has; raises ValueError."""
        numbers = (value[key].integer() for key in ("width", "height", "offset", "length"))
        width, height, offset, length = numbers
        return cls(value["file"].text(), width, height, value["shard"].text(), offset, length)


@dataclass(frozen=True, slots=True)
class FeatureSummary:
    """What is known of a feature in the examples of one split.

    Attributes:
      count, missing: examples that have it, and that lack it; None where every example has it, but for the heights,
        widths and frames of files: those are counted.
      per_example: the lengths of lists.
      is_mixed: of different kinds in different examples, of which nothing more is said.
      distinct: how many values differ.
      numbers: of a feature that is numbers.
      formats, encodings: files by theirs.
      seconds: of audio, in all.
      size_bytes: of the files.
      turned_by_exif: images that EXIF says to turn, which readers do not do.
      extremes: the images that are most so, by what is extreme of them: `smallest`, `largest`, `most elongated`.
      values: of the numbers in all arrays.
      length_bytes: of strings, or of whole texts.
      classes: examples by the name of their class, in the order of ids; 0 is said too.
      without_name: values that are no id of a class.
      frames_by_rate, files_by_channels: of audio; the rate is in Hz.
      top_values: the most frequent values, that first which is most so; None where there are too many integers to count
        each.
      top_values_from: what those were drawn from, where that is not every value.
    """

    count: int | None = None
    missing: int | None = None
    per_example: Numbers | None = None
    is_mixed: bool = False
    distinct: Distinct | None = None
    numbers: Numbers | None = None
    formats: Mapping[str, int] | None = None
    encodings: Mapping[str, int] | None = None
    seconds: Number | None = None
    size_bytes: Numbers | None = None
    turned_by_exif: int = 0
    extremes: Mapping[str, tuple[Extreme, ...]] | None = None
    values: Numbers | None = None
    length_bytes: Numbers | None = None
    classes: Mapping[str, int] | None = None
    without_name: int = 0
    frames_by_rate: Mapping[int, int] | None = None
    files_by_channels: Mapping[int, int] | None = None
    top_values: tuple[TopValue, ...] | None = None
    top_values_from: str = ""

    def to_json(self) -> Json:
        """As the file has it."""
        return _there(
            count=self.count,
            missing=self.missing,
            values_per_example=_object(self.per_example),
            kind=_MIXED if self.is_mixed else None,
            distinct=_object(self.distinct),
            **(_object(self.numbers) or {}),
            formats=self.formats,
            encodings=self.encodings,
            seconds=self.seconds,
            size_bytes=_object(self.size_bytes),
            turned_by_exif=self.turned_by_exif or None,
            extremes=self.extremes and {what: _list(images) for what, images in self.extremes.items()},
            values=_object(self.values),
            length_bytes=_object(self.length_bytes),
            classes=self.classes,
            ids_without_a_name=self.without_name or None,
            frames=_by_text(self.frames_by_rate),
            files=_by_text(self.files_by_channels),
            top_values=_list(self.top_values),
            top_values_from=self.top_values_from or None,
        )

    @classmethod
    def from_json(cls, value: Value) -> "FeatureSummary":
        """What the file has; raises ValueError."""
        own = Value({key: found for key, found in value.mapping().items() if key in _OF_NUMBERS}, value.where)
        return cls(
            count=_maybe(value, "count", Value.integer),
            missing=_maybe(value, "missing", Value.integer),
            per_example=_maybe(value, "values_per_example", Numbers.from_json),
            is_mixed=value.get("kind", "").value == _MIXED,
            distinct=_maybe(value, "distinct", Distinct.from_json),
            numbers=Numbers.from_json(own) if own.value else None,
            formats=_maybe(value, "formats", _counts),
            encodings=_maybe(value, "encodings", _counts),
            seconds=_maybe(value, "seconds", Value.number),
            size_bytes=_maybe(value, "size_bytes", Numbers.from_json),
            turned_by_exif=value.get("turned_by_exif", 0).integer(),
            extremes=_maybe(value, "extremes", _extremes),
            values=_maybe(value, "values", Numbers.from_json),
            length_bytes=_maybe(value, "length_bytes", Numbers.from_json),
            classes=_maybe(value, "classes", _counts),
            without_name=value.get("ids_without_a_name", 0).integer(),
            frames_by_rate=_maybe(value, "frames", _counts_by_integer),
            files_by_channels=_maybe(value, "files", _counts_by_integer),
            top_values=_maybe(value, "top_values", _top_values),
            top_values_from=value.get("top_values_from", "").text(),
        )


@dataclass(frozen=True, slots=True)
class SplitSummary:
    """A split: its examples, the size on disk of its shards, the records planned for it that were rejected, and its
    features by name, in the manifest's order."""

    examples: int
    size_bytes: int
    rejected: int
    features: Mapping[str, FeatureSummary] = field(default_factory=dict)

    def to_json(self) -> Json:
        """As the file has it."""
        return {
            "examples": self.examples,
            "size_bytes": self.size_bytes,
            "rejected": self.rejected,
            "features": {name: feature.to_json() for name, feature in self.features.items()},
        }

    @classmethod
    def from_json(cls, value: Value) -> "SplitSummary":
        """What the file has; raises ValueError."""
        examples, size_bytes, rejected = (value[key].integer() for key in ("examples", "size_bytes", "rejected"))
        features = {name: FeatureSummary.from_json(found) for name, found in value["features"].entries().items()}
        return cls(examples, size_bytes, rejected, features)


@dataclass(frozen=True, slots=True)
class StatsFile:
    """The whole file: splits by name, and which examples have equal content; None where nobody looked."""

    splits: Mapping[str, SplitSummary]
    duplicates: Duplicates | None = None

    def to_json(self) -> str:
        """The text of the file."""
        splits = {name: split.to_json() for name, split in self.splits.items()}
        return dump_json({"splits": splits, **_there(duplicates=_object(self.duplicates))})

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> "StatsFile":
        """Parse the text of the file called `name`. Keys that are not known here are passed over: a later version may
        add some.

        Raises:
          CorruptDataError: it is not such a file; the message names the file and the field.
        """
        try:
            content = parse_json(text)
            splits = {split: SplitSummary.from_json(found) for split, found in content["splits"].entries().items()}
            return cls(splits, _maybe(content, "duplicates", Duplicates.from_json))
        except ValueError as error:
            raise CorruptDataError(f"{name} is damaged: {error}") from error


_MIXED = "mixed"
# Of a feature, these stand beside what is not said of other numbers
_OF_NUMBERS = frozenset(
    ("min", "max", "mean", "std_dev", "zeros", "nan", "infinity", "quantiles", "quantiles_relative_error", "histogram")
)


def _there(**members: Any) -> Json:
    return {name: value for name, value in members.items() if value is not None}


def _object(part: Numbers | Distinct | Duplicates | None) -> Json | None:
    return None if part is None else part.to_json()


def _list(parts: Iterable[Bucket | TopValue | Extreme] | None) -> list[Json] | None:
    return None if parts is None else [part.to_json() for part in parts]


def _by_text(counts: Mapping[int, int] | None) -> dict[str, int] | None:
    return None if counts is None else {str(key): count for key, count in counts.items()}


def _extremes(value: Value) -> dict[str, tuple[Extreme, ...]]:
    return {what: tuple(map(Extreme.from_json, images.items())) for what, images in value.entries().items()}


def _maybe(value: Value, key: str, take: Callable[[Value], T]) -> T | None:
    return take(value[key]) if key in value.mapping() else None


# A wide table has a hundred thousand buckets and top values. Plain ones are taken as they are; as soon as one is not,
# each is looked at, for the error says which.


def _buckets(value: Value) -> tuple[Bucket, ...]:
    found = value.value
    if isinstance(found, list) and all(map(_is_plain_bucket, found)):
        return tuple([Bucket(item["low"], item["high"], item["count"]) for item in found])
    return tuple(map(Bucket.from_json, value.items()))


def _is_plain_bucket(item: Any) -> bool:
    return (
        type(item) is dict
        and type(item.get("count")) is int
        and 0 <= item["count"] <= MAX_INTEGER
        and "below" not in item
        and _is_plain_number(item.get("low"))
        and _is_plain_number(item.get("high"))
    )


def _top_values(value: Value) -> tuple[TopValue, ...]:
    found = value.value
    if isinstance(found, list) and all(map(_is_plain_top_value, found)):
        return tuple([TopValue(item["value"], item["count"]) for item in found])
    return tuple(map(TopValue.from_json, value.items()))


def _is_plain_top_value(item: Any) -> bool:
    return (
        type(item) is dict
        and type(item.get("count")) is int
        and 0 <= item["count"] <= MAX_INTEGER
        and (_is_whole(shown) if type(shown := item.get("value")) is str else _is_plain_integer(shown))
    )


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_plain_integer(found: Any) -> bool:
    return type(found) is int and -MAX_INTEGER <= found <= MAX_INTEGER


def _is_plain_number(found: Any) -> bool:
    return type(found) in (int, float) and -math.inf < found < math.inf


def _counts(value: Value) -> dict[str, int]:
    found = value.value
    if isinstance(found, dict) and all(_is_plain_integer(count) and count >= 0 for count in found.values()):
        return dict(found)
    return {name: count.integer() for name, count in value.entries().items()}


def _numbers_by_name(value: Value) -> dict[str, Number]:
    found = value.value
    if isinstance(found, dict) and all(map(_is_plain_number, found.values())):
        return dict(found)
    return {name: number.number() for name, number in value.entries().items()}


def _counts_by_integer(value: Value) -> dict[int, int]:
    for name in value.mapping():
        if not (name.isascii() and name.isdecimal()):
            raise ValueError(f"{value.where} counts {name!r}; expected integers")
    return {int(name): count.integer() for name, count in value.entries().items()}
