"""The stats.json file: statistics of each split and feature."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shardmill.errors import CorruptDataError
from shardmill.metadata.json_values import (
    OPTIONAL,
    Json,
    JsonObject,
    Value,
    changed_fields,
    is_plain_count,
    is_plain_number,
    parse_counts,
    parse_fields,
    parse_large_json,
    parser_of,
    write_fields,
)
from shardmill.metadata.tfds_metadata import dump_json
from shardmill.quality.duplicates import Duplicates, NearDuplicates
from shardmill.quality.stats_values import (
    NUMBERS_MEMBERS,
    Distinct,
    Extreme,
    JsonMember,
    Number,
    Numbers,
    TopValue,
    parse_attributes,
    parse_counts_by_integer,
    parse_top_values,
    write_attributes,
)

_MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class FeatureSummary:
    """Statistics of a feature in the examples of one split."""

    count: int | None = None  # examples that have it; None if all do, except for height, width and frames of files
    missing: int | None = None  # examples that lack it; None as for `count`
    per_example: Numbers | None = None  # lengths of lists
    is_mixed: bool = False  # has different kinds in different examples; no other statistics
    distinct: Distinct | None = None  # number of distinct values
    numbers: Numbers | None = None  # of a numeric feature
    formats: Mapping[str, int] | None = None  # files by format
    encodings: Mapping[str, int] | None = None  # files by encoding
    seconds: Number | None = None  # total duration of audio
    size_bytes: Numbers | None = None  # of the files
    width: Numbers | None = None  # in pixels, of images in a table's column; `shardmill images` has features for it
    height: Numbers | None = None  # in pixels, as `width`
    turned_by_exif: int = 0  # images with an EXIF rotation, which readers do not apply
    extremes: Mapping[str, tuple[Extreme, ...]] | None = None  # images by `smallest`, `largest`, `most elongated`
    values: Numbers | None = None  # of the numbers in all arrays
    length_bytes: Numbers | None = None  # of strings or whole texts
    classes: Mapping[str, int] | None = None  # examples by class name in id order, including 0
    without_name: int = 0  # values that are no class id
    frames_by_rate: Mapping[int, int] | None = None  # of audio, by rate in Hz
    files_by_channels: Mapping[int, int] | None = None  # of audio
    top_values: tuple[TopValue, ...] | None = None  # most frequent first; None if there are too many integers to count
    top_values_from: str = ""  # source of a sample, if not from all values
    # Goodman and Kruskal's lambda, 0 to 1: reduction of label errors by knowing the value; None without label or with
    # too many values
    label_association: Number | None = None

    def to_json(self) -> Json:
        """Return the JSON object."""
        numbers = {} if self.numbers is None else changed_fields(self.numbers)
        kind = {"is_mixed": _MIXED} if self.is_mixed else {}
        return write_attributes({**changed_fields(self), **numbers, **kind}, _MEMBERS)

    @classmethod
    def from_json(cls, value: Value) -> "FeatureSummary":
        """Parse the JSON object; raise ValueError if it is invalid."""
        found = parse_attributes(value, _MEMBERS)
        own = {name: found.pop(name) for name in _NUMBERS_ATTRIBUTES if name in found}
        return cls(**found, numbers=Numbers(**own) if own else None)


def _is_mixed(value: Value) -> bool:
    return bool(value.value == _MIXED)


_COUNT_PARSERS = (Value.integer, is_plain_count)
_MEMBERS: Mapping[str, JsonMember] = {
    "count": JsonMember("count", *_COUNT_PARSERS),
    "missing": JsonMember("missing", *_COUNT_PARSERS),
    "values_per_example": JsonMember("per_example", Numbers.from_json),
    "kind": JsonMember("is_mixed", _is_mixed),
    "distinct": JsonMember("distinct", Distinct.from_json, plain=Distinct.from_plain),
    **NUMBERS_MEMBERS,
    "formats": JsonMember("formats", parse_counts),
    "encodings": JsonMember("encodings", parse_counts),
    "seconds": JsonMember("seconds", Value.number),
    "size_bytes": JsonMember("size_bytes", Numbers.from_json),
    "width": JsonMember("width", Numbers.from_json),
    "height": JsonMember("height", Numbers.from_json),
    "turned_by_exif": JsonMember("turned_by_exif", *_COUNT_PARSERS),
    "extremes": JsonMember("extremes", parser_of(Mapping[str, tuple[Extreme, ...]])),
    "values": JsonMember("values", Numbers.from_json),
    "length_bytes": JsonMember("length_bytes", Numbers.from_json),
    "classes": JsonMember("classes", parse_counts),
    "ids_without_a_name": JsonMember("without_name", *_COUNT_PARSERS),
    "frames": JsonMember("frames_by_rate", parse_counts_by_integer),
    "files": JsonMember("files_by_channels", parse_counts_by_integer),
    "top_values": JsonMember("top_values", parse_top_values),
    "top_values_from": JsonMember("top_values_from", Value.text),
    "label_association": JsonMember("label_association", Value.number, is_plain_number),
}
_NUMBERS_ATTRIBUTES = tuple(member.attribute for member in NUMBERS_MEMBERS.values())


@dataclass(frozen=True, slots=True)
class SplitSummary(JsonObject):
    """Statistics of a split."""

    examples: int
    size_bytes: int  # on disk
    rejected: int  # number of records
    tokens: int | None = field(default=None, metadata=OPTIONAL)  # None if no text was tokenized
    features: Mapping[str, FeatureSummary] = field(default_factory=dict)  # in the manifest's order


@dataclass(frozen=True, slots=True)
class StatsFile:
    """The content of stats.json."""

    splits: Mapping[str, SplitSummary]
    duplicates: Duplicates | None = field(default=None, metadata=OPTIONAL)  # None if not searched for
    near_duplicates: NearDuplicates | None = field(default=None, metadata=OPTIONAL)  # None if not searched for

    def to_json(self) -> str:
        """Return the text of the file."""
        return dump_json(write_fields(self))

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> "StatsFile":
        """Parse the text of the file `name`. Unknown keys are ignored: later versions may add some.

        Raises:
            CorruptDataError: if it is invalid; the message names the file and the field.
        """
        try:
            return cls(**parse_fields(cls, parse_large_json(text)))
        except ValueError as error:
            raise CorruptDataError(f"{name} is damaged: {error}") from error
