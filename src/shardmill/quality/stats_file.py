"""The stats.json file: statistics of each split and feature."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from io import BytesIO
from typing import NamedTuple

from shardmill.addons.registry import ADD_ONS
from shardmill.errors import CorruptDataError
from shardmill.metadata import json_values
from shardmill.metadata.tfds_metadata import dump_json_bytes
from shardmill.quality.duplicates import Duplicates, LocatedExample
from shardmill.quality.limits import CheckResult, LimitsByCheck
from shardmill.quality.stats_values import (
    NUMBERS_MEMBERS,
    Distinct,
    Extreme,
    Number,
    Numbers,
    TopValue,
    members_of,
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
    # has different kinds in different examples; no other statistics
    is_mixed: bool = field(default=False, metadata={"parse": lambda value: bool(value.value == _MIXED)})
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
    # of audio, by rate in Hz, and by number of channels
    frames_by_rate: Mapping[int, int] | None = field(default=None, metadata={"parse": parse_counts_by_integer})
    files_by_channels: Mapping[int, int] | None = field(default=None, metadata={"parse": parse_counts_by_integer})
    # most frequent first; None if there are too many integers to count
    top_values: tuple[TopValue, ...] | None = field(default=None, metadata={"parse": parse_top_values})
    top_values_from: str = ""  # source of a sample, if not from all values
    # Goodman and Kruskal's lambda, 0 to 1: reduction of label errors by knowing the value; None without label or with
    # too many values
    label_association: Number | None = None

    def to_json(self) -> json_values.Json:
        """Return the feature's statistics as a JSON object."""
        numbers = {} if self.numbers is None else json_values.changed_fields(self.numbers)
        kind = {"is_mixed": _MIXED} if self.is_mixed else {}
        return write_attributes({**json_values.changed_fields(self), **numbers, **kind}, _MEMBERS)

    @classmethod
    def from_json(cls, value: json_values.Value) -> "FeatureSummary":
        """Parse a feature's statistics from a JSON object; raise ValueError if it is invalid."""
        found = parse_attributes(value, _MEMBERS)
        own = {name: found.pop(name) for name, _ in NUMBERS_MEMBERS.values() if name in found}
        return cls(**found, numbers=Numbers(**own) if own else None)


_KEYS = {
    "per_example": "values_per_example",
    "is_mixed": "kind",
    "without_name": "ids_without_a_name",
    "frames_by_rate": "frames",
    "files_by_channels": "files",
}
# The members of `numbers` are members of the feature's own object.
_MEMBERS = {
    key: member
    for field_key, own_member in members_of(FeatureSummary, _KEYS).items()
    for key, member in (NUMBERS_MEMBERS if field_key == "numbers" else {field_key: own_member}).items()
}


@dataclass(frozen=True, slots=True)
class SplitSummary:
    """Statistics of a split."""

    examples: int
    size_bytes: int  # on disk
    rejected: int  # number of records
    features: Mapping[str, FeatureSummary] = field(default_factory=dict)  # in the manifest's order
    counts: Mapping[str, int] = field(default_factory=dict)  # of further units, such as tokens

    def to_json(self) -> json_values.Json:
        """Return the split as a JSON object, whose members are the further counts, too."""
        known = json_values.write_fields(self)
        features, counts = known.pop("features"), known.pop("counts")
        return {**known, **counts, "features": features}

    @classmethod
    def from_json(cls, value: json_values.Value) -> "SplitSummary":
        """Parse a split from a JSON object; raise ValueError if it is invalid."""
        found = value.mapping()
        known = {item.name for item in fields(cls)}
        counts = {
            name: count for name, count in found.items() if name not in known and json_values.is_plain_count(count)
        }
        return cls(**json_values.parse_fields(cls, json_values.Value({**found, "counts": counts}, value.where)))


class ShownPair(NamedTuple):
    """Two images to show next to each other."""

    title: str
    facts: Mapping[str, int]  # of the pair, in the JSON form of a report
    images: tuple[LocatedExample, LocatedExample]


class StatsSection(json_values.JsonObject, ABC):
    """A member of stats.json that an add-on writes, and its part of reports; the registry has its key."""

    @property
    @abstractmethod
    def shown_pairs(self) -> Sequence[ShownPair]:
        """Return pairs of images that the page of a build shows."""

    @abstractmethod
    def notices(self) -> list[str]:
        """Return the notices of the build."""

    @abstractmethod
    def report_lines(self) -> Iterator[str]:
        """Yield the lines that `shardmill inspect` prints."""

    @abstractmethod
    def checks(self, splits: Mapping[str, int], limits: LimitsByCheck) -> Iterator[CheckResult]:
        """Yield the results of checks; `splits` has the number of examples of each split that has any."""


SECTIONS = {add_on.stats_section: add_on for add_on in ADD_ONS if add_on.stats_section}  # by key


def _parse_sections(content: json_values.Value) -> dict[str, StatsSection]:
    known = {key: add_on for key, add_on in SECTIONS.items() if key in content.mapping()}
    return {key: import_module(add_on.module("stats")).SECTION.from_json(content[key]) for key, add_on in known.items()}


_INDENT = 6  # of the features of a split in stats.json
_NO_FEATURES = b'"features": {}'


@dataclass(frozen=True, slots=True)
class StatsFile:
    """The content of stats.json."""

    splits: Mapping[str, SplitSummary]
    duplicates: Duplicates | None = field(default=None, metadata=json_values.OPTIONAL)  # None if not searched for
    sections: Mapping[str, StatsSection] = field(
        default_factory=dict, metadata=json_values.OPTIONAL
    )  # those of add-ons, by key

    def sections_json(self) -> dict[str, json_values.Json | None]:
        """Return the section of each add-on for reports, None if a version has none."""
        return {key: json_values.to_plain(self.sections.get(key)) for key in SECTIONS}

    def to_json(self) -> str:
        """Return the text of stats.json."""
        return self.to_bytes().decode()

    def to_bytes(self) -> bytes:
        """Return the bytes of stats.json."""
        # Each feature on its own: a wide table has a million numbers, whose dictionaries take a gigabyte.
        splits = {name: replace(split, features={}) for name, split in self.splits.items()}
        content = {
            **json_values.write_fields(replace(self, splits=splits, sections={})),
            **json_values.to_plain(self.sections),
        }
        first, *parts = dump_json_bytes(content).split(_NO_FEATURES)
        out = BytesIO()
        out.write(first)
        for split, part in zip(self.splits.values(), parts, strict=True):
            separator = _NO_FEATURES[:-1]
            for name, summary in split.features.items():
                text = dump_json_bytes({name: summary.to_json()})[1:-3]
                out.write(separator + text.replace(b"\n", b"\n" + b" " * _INDENT))
                separator = b","
            out.write((b"\n" + b" " * _INDENT + b"}" if split.features else _NO_FEATURES) + part)
        return out.getvalue()

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> "StatsFile":
        """Parse the text of a stats.json, called `name` in errors; unknown keys are ignored.

        Raise a CorruptDataError if it is invalid; the message names the file and the field.
        """
        try:
            content = json_values.parse_large_json(text)
            return cls(**{**json_values.parse_fields(cls, content), "sections": _parse_sections(content)})
        except ValueError as error:
            raise CorruptDataError(f"{name} is damaged: {error}") from error
