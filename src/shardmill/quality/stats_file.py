"""The stats.json file: statistics of each split and feature."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shardmill.errors import CorruptDataError
from shardmill.metadata.json_values import Value, parse_large_json
from shardmill.metadata.tfds_metadata import dump_json
from shardmill.quality.duplicates import Duplicates, NearDuplicates
from shardmill.quality.stats_values import (
    NUMBERS_MEMBERS,
    Distinct,
    Extreme,
    Json,
    JsonMember,
    Number,
    Numbers,
    TopValue,
    drop_none,
    is_plain_count,
    is_plain_number,
    parse_attributes,
    parse_counts,
    parse_counts_by_integer,
    parse_optional,
    parse_top_values,
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
        return drop_none(
            count=self.count,
            missing=self.missing,
            values_per_example=_to_json(self.per_example),
            kind=_MIXED if self.is_mixed else None,
            distinct=_to_json(self.distinct),
            **(_to_json(self.numbers) or {}),
            formats=self.formats,
            encodings=self.encodings,
            seconds=self.seconds,
            size_bytes=_to_json(self.size_bytes),
            width=_to_json(self.width),
            height=_to_json(self.height),
            turned_by_exif=self.turned_by_exif or None,
            extremes=self.extremes and {what: _to_json_list(images) for what, images in self.extremes.items()},
            values=_to_json(self.values),
            length_bytes=_to_json(self.length_bytes),
            classes=self.classes,
            ids_without_a_name=self.without_name or None,
            frames=_with_text_keys(self.frames_by_rate),
            files=_with_text_keys(self.files_by_channels),
            top_values=_to_json_list(self.top_values),
            top_values_from=self.top_values_from or None,
            label_association=self.label_association,
        )

    @classmethod
    def from_json(cls, value: Value) -> "FeatureSummary":
        """Parse the JSON object; raise ValueError if it is invalid."""
        found = parse_attributes(value, _MEMBERS)
        own = {name: found.pop(name) for name in _NUMBERS_ATTRIBUTES if name in found}
        return cls(**found, numbers=Numbers(**own) if own else None)


def _to_json(part: Numbers | Distinct | None) -> Json | None:
    return None if part is None else part.to_json()


def _to_json_list(parts: Iterable[TopValue | Extreme] | None) -> list[Json] | None:
    return None if parts is None else [part.to_json() for part in parts]


def _with_text_keys(counts: Mapping[int, int] | None) -> dict[str, int] | None:
    return None if counts is None else {str(key): count for key, count in counts.items()}


def _parse_extremes(value: Value) -> dict[str, tuple[Extreme, ...]]:
    return {what: tuple(map(Extreme.from_json, images.items())) for what, images in value.entries().items()}


def _is_mixed(value: Value) -> bool:
    return bool(value.value == _MIXED)


_COUNT_PARSERS = (Value.integer, is_plain_count)
_MEMBERS: Mapping[str, JsonMember] = {
    "count": JsonMember("count", *_COUNT_PARSERS),
    "missing": JsonMember("missing", *_COUNT_PARSERS),
    "values_per_example": JsonMember("per_example", Numbers.from_json),
    "kind": JsonMember("is_mixed", _is_mixed),
    "distinct": JsonMember("distinct", Distinct.from_json, plain=Distinct.from_plain),
    "formats": JsonMember("formats", parse_counts),
    "encodings": JsonMember("encodings", parse_counts),
    "seconds": JsonMember("seconds", Value.number),
    "size_bytes": JsonMember("size_bytes", Numbers.from_json),
    "width": JsonMember("width", Numbers.from_json),
    "height": JsonMember("height", Numbers.from_json),
    "turned_by_exif": JsonMember("turned_by_exif", *_COUNT_PARSERS),
    "extremes": JsonMember("extremes", _parse_extremes),
    "values": JsonMember("values", Numbers.from_json),
    "length_bytes": JsonMember("length_bytes", Numbers.from_json),
    "classes": JsonMember("classes", parse_counts),
    "ids_without_a_name": JsonMember("without_name", *_COUNT_PARSERS),
    "frames": JsonMember("frames_by_rate", parse_counts_by_integer),
    "files": JsonMember("files_by_channels", parse_counts_by_integer),
    "top_values": JsonMember("top_values", parse_top_values),
    "top_values_from": JsonMember("top_values_from", Value.text),
    "label_association": JsonMember("label_association", Value.number, is_plain_number),
    **NUMBERS_MEMBERS,
}
_NUMBERS_ATTRIBUTES = tuple(member.attribute for member in NUMBERS_MEMBERS.values())


@dataclass(frozen=True, slots=True)
class SplitSummary:
    """Statistics of a split: examples, size on disk, rejected records, features in the manifest's order, and tokens
    (None if no text was tokenized).
    """

    examples: int
    size_bytes: int
    rejected: int
    features: Mapping[str, FeatureSummary] = field(default_factory=dict)
    tokens: int | None = None

    def to_json(self) -> Json:
        """Return the JSON object."""
        return {
            "examples": self.examples,
            "size_bytes": self.size_bytes,
            "rejected": self.rejected,
            **drop_none(tokens=self.tokens),
            "features": {name: feature.to_json() for name, feature in self.features.items()},
        }

    @classmethod
    def from_json(cls, value: Value) -> "SplitSummary":
        """Parse the JSON object; raise ValueError if it is invalid."""
        examples, size_bytes, rejected = (value[key].integer() for key in ("examples", "size_bytes", "rejected"))
        features = {name: FeatureSummary.from_json(found) for name, found in value["features"].entries().items()}
        return cls(examples, size_bytes, rejected, features, parse_optional(value, "tokens", Value.integer))


@dataclass(frozen=True, slots=True)
class StatsFile:
    """The content of stats.json: splits by name, duplicates and near duplicates; None if these were not searched
    for.
    """

    splits: Mapping[str, SplitSummary]
    duplicates: Duplicates | None = None
    near_duplicates: NearDuplicates | None = None

    def to_json(self) -> str:
        """Return the text of the file."""
        splits = {name: split.to_json() for name, split in self.splits.items()}
        found = drop_none(
            duplicates=self.duplicates and self.duplicates.to_json(),
            near_duplicates=self.near_duplicates and self.near_duplicates.to_json(),
        )
        return dump_json({"splits": splits, **found})

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> "StatsFile":
        """Parse the text of the file `name`. Unknown keys are ignored: later versions may add some.

        Raises:
            CorruptDataError: if it is invalid; the message names the file and the field.
        """
        try:
            content = parse_large_json(text)
            splits = {split: SplitSummary.from_json(found) for split, found in content["splits"].entries().items()}
            duplicates = parse_optional(content, "duplicates", Duplicates.from_json)
            return cls(splits, duplicates, parse_optional(content, "near_duplicates", NearDuplicates.from_json))
        except ValueError as error:
            raise CorruptDataError(f"{name} is damaged: {error}") from error
