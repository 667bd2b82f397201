"""Exact and near duplicates in stats.json, within and across splits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardmill.metadata.json_values import Value
from shardmill.quality.stats_values import Json, parse_counts
from shardmill.text import plural

MAX_PAIRS = 100  # pairs that stats.json lists


@dataclass(frozen=True, slots=True)
class ExampleSource:
    """An example: its split, source file, and line or record in it; None if the file is one example."""

    split: str
    name: str
    line: int | None = None

    def __str__(self) -> str:
        """Return the file's name, with the line if there is one."""
        return self.name if self.line is None else f"{self.name}:{self.line}"

    def to_json(self) -> Json:
        """Return the JSON object."""
        return {"split": self.split, "name": self.name, **({} if self.line is None else {"line": self.line})}

    @classmethod
    def from_json(cls, value: Value) -> "ExampleSource":
        """Parse the JSON object; raise ValueError if it is invalid."""
        line = value["line"].integer() if "line" in value.mapping() else None
        return cls(value["split"].text(), value["name"].text(), line)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two examples of equal content."""

    one: ExampleSource
    other: ExampleSource

    def to_json(self) -> Json:
        """Return the JSON object."""
        return {"one": self.one.to_json(), "other": self.other.to_json()}

    @classmethod
    def from_json(cls, value: Value) -> "Pair":
        """Parse the JSON object; raise ValueError if it is invalid."""
        return cls(ExampleSource.from_json(value["one"]), ExampleSource.from_json(value["other"]))


@dataclass(frozen=True, slots=True)
class RepeatedContents:
    """The number of a split's examples that equal another one in it, and of their distinct contents."""

    examples: int
    contents: int

    def to_json(self) -> Json:
        """Return the JSON object."""
        return {"examples": self.examples, "contents": self.contents}

    @classmethod
    def from_json(cls, value: Value) -> "RepeatedContents":
        """Parse the JSON object; raise ValueError if it is invalid."""
        return cls(value["examples"].integer(), value["contents"].integer())


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two examples of equal content and different classes."""

    one: ExampleSource
    other: ExampleSource
    labels: tuple[str, str]

    def to_json(self) -> Json:
        """Return the JSON object."""
        return {"one": self.one.to_json(), "other": self.other.to_json(), "labels": list(self.labels)}

    @classmethod
    def from_json(cls, value: Value) -> "Conflict":
        """Parse the JSON object; raise ValueError if it is invalid."""
        labels = [label.text() for label in value["labels"].items()]
        if len(labels) != 2:
            raise ValueError(f"{value['labels'].where} has {len(labels)} labels; expected 2")
        return cls(
            ExampleSource.from_json(value["one"]), ExampleSource.from_json(value["other"]), (labels[0], labels[1])
        )


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Examples of equal content and different classes: the number of contents, the examples by split, and a pair per
    content, at most SHOWN.
    """

    contents: int
    examples: Mapping[str, int]
    pairs: tuple[Conflict, ...]

    def to_json(self) -> Json:
        """Return the JSON object."""
        pairs = [pair.to_json() for pair in self.pairs]
        return {"contents": self.contents, "examples": dict(self.examples), "pairs": pairs}

    @classmethod
    def from_json(cls, value: Value) -> "Conflicts":
        """Parse the JSON object; raise ValueError if it is invalid."""
        pairs = tuple(map(Conflict.from_json, value["pairs"].items()))
        return cls(value["contents"].integer(), parse_counts(value["examples"]), pairs)

    def describe(self) -> str:
        """Return a sentence with the number of conflicts and one pair."""
        pair, contents = self.pairs[0], plural(self.contents, "content")
        such = f"{str(pair.one)!r} ({pair.labels[0]}) and {str(pair.other)!r} ({pair.labels[1]})"
        return (
            f"{sum(self.examples.values()):,} examples, of {contents}, have equal content and different labels, such as"
            f" {such}"
        )


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Examples of equal content; every count is exact."""

    content: str  # compared content, as text
    within: Mapping[str, RepeatedContents] = field(default_factory=dict)  # by split; only splits that have any
    # by split and other split: examples of the first with a duplicate in the other
    across: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    elsewhere: Mapping[str, int] = field(default_factory=dict)  # by split: examples with a duplicate in any other split
    pairs: tuple[Pair, ...] = ()  # one per content, at most SHOWN, those across splits first
    # with different labels; for rows without images the label is part of the content
    conflicts: Conflicts | None = None
    # by split: number of documents, if these were compared, because examples hold parts of several
    documents: Mapping[str, int] | None = None

    @property
    def compared(self) -> str:
        """Return the noun for a compared item: example or document."""
        return "example" if self.documents is None else "document"

    def to_json(self) -> Json:
        """Return the JSON object."""
        return {
            "content": self.content,
            "across": {split: dict(others) for split, others in self.across.items()},
            "elsewhere": dict(self.elsewhere),
            "within": {split: found.to_json() for split, found in self.within.items()},
            "pairs": [pair.to_json() for pair in self.pairs],
            **({} if self.conflicts is None else {"conflicts": self.conflicts.to_json()}),
            **({} if self.documents is None else {"documents": dict(self.documents)}),
        }

    @classmethod
    def from_json(cls, value: Value) -> "Duplicates":
        """Parse the JSON object; raise ValueError if it is invalid."""
        across = {split: parse_counts(others) for split, others in value["across"].entries().items()}
        within = {split: RepeatedContents.from_json(found) for split, found in value["within"].entries().items()}
        pairs = tuple(map(Pair.from_json, value["pairs"].items()))
        conflicts = Conflicts.from_json(value["conflicts"]) if "conflicts" in value.mapping() else None
        documents = parse_counts(value["documents"]) if "documents" in value.mapping() else None
        return cls(
            value["content"].text(), within, across, parse_counts(value["elsewhere"]), pairs, conflicts, documents
        )

    def describe(self) -> list[str]:
        """Return a sentence for each two splits with duplicates, those with most first."""
        found = split_overlaps(self.across, [(two.one, two.other) for two in self.pairs])
        return [_duplicates_sentence(crossing, self.compared) for crossing in found]


@dataclass(frozen=True, slots=True)
class SplitOverlap:
    """Two splits with duplicates: the number of examples of `split` that are in `other`, and the `names` of one pair,
    if known.
    """

    split: str
    other: str
    examples: int
    names: str


def split_overlaps(
    across: Mapping[str, Mapping[str, int]], pairs: Sequence[tuple[ExampleSource, ExampleSource]]
) -> list[SplitOverlap]:
    """Return each two splits with duplicates, those with most first; `train` is always the other."""
    found = []
    for split, others in across.items():
        for other, examples in others.items():
            if (split == "train", split) <= (other == "train", other):
                found.append(SplitOverlap(split, other, examples, _pair_names(split, other, pairs)))
    return sorted(found, key=lambda crossing: (-crossing.examples, crossing.split, crossing.other))


def _pair_names(split: str, other: str, pairs: Sequence[tuple[ExampleSource, ExampleSource]]) -> str:
    for one, two in pairs:
        by_split = {one.split: one, two.split: two}
        if by_split.keys() == {split, other}:
            return f"{str(by_split[split])!r} and {str(by_split[other])!r}"
    return ""


def _duplicates_sentence(crossing: SplitOverlap, compared: str) -> str:
    one = crossing.examples == 1
    have = f"{compared}{'' if one else 's'} of {crossing.split!r} {'has' if one else 'have'}"
    such = f", such as {crossing.names}" if crossing.names else ""
    return f"{crossing.examples:,} {have} equal content in {crossing.other!r}{such}"


# Every report adds this to the counts: they are exact, what they count is a guess
NEAR_DUPLICATES_CAVEAT = "hashes that are near are no proof: some of these are different pictures"


@dataclass(frozen=True, slots=True)
class LocatedImage:
    """An image of a pair, and the position of its record."""

    member: ExampleSource  # the image's example
    shard: str  # name of its shard file
    offset: int  # of the framed record in the uncompressed shard, in bytes
    length: int  # of the framed record, in bytes

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {**self.member.to_json(), "shard": self.shard, "offset": self.offset, "length": self.length}

    @classmethod
    def from_json(cls, value: Value) -> "LocatedImage":
        """Parse the JSON object; raise ValueError if it is invalid."""
        place = (value["shard"].text(), value["offset"].integer(), value["length"].integer())
        return cls(ExampleSource.from_json(value), *place)


@dataclass(frozen=True, slots=True)
class NearPair:
    """Two images whose hashes differ in `distance` bits."""

    one: LocatedImage
    other: LocatedImage
    distance: int

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"one": self.one.to_json(), "other": self.other.to_json(), "distance": self.distance}

    @classmethod
    def from_json(cls, value: Value) -> "NearPair":
        """Parse the JSON object; raise ValueError if it is invalid."""
        return cls(
            LocatedImage.from_json(value["one"]), LocatedImage.from_json(value["other"]), value["distance"].integer()
        )


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """Images that look alike but are not equal; every count is exact."""

    method: str  # of hashing, as text
    distance: int  # most bits in which near hashes differ
    compared: int = 0  # images whose hashes were compared
    flat: int = 0  # images of nearly one colour; they all hash alike and were not compared
    undecodable: int = 0  # images that do not decode and were not compared
    number_of_pairs: int = 0  # of different contents that are near each other
    within: Mapping[str, int] = field(default_factory=dict)  # by split: images that look like another in it
    # by split and other split: images of the first that look like one in the other
    across: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    elsewhere: Mapping[str, int] = field(default_factory=dict)  # by split: images that look like one in any other split
    # at most shardmill.quality.duplicates.MAX_PAIRS; across splits first, nearest first
    pairs: tuple[NearPair, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "method": self.method,
            "distance": self.distance,
            "compared": self.compared,
            "flat": self.flat,
            "undecodable": self.undecodable,
            "number_of_pairs": self.number_of_pairs,
            "across": {split: dict(others) for split, others in self.across.items()},
            "elsewhere": dict(self.elsewhere),
            "within": dict(self.within),
            "pairs": [pair.to_json() for pair in self.pairs],
        }

    @classmethod
    def from_json(cls, value: Value) -> "NearDuplicates":
        """Parse the JSON object; raise ValueError if it is invalid."""
        names = ("distance", "compared", "flat", "undecodable", "number_of_pairs")
        distance, compared, flat, undecodable, number_of_pairs = (value[name].integer() for name in names)
        return cls(
            value["method"].text(),
            distance,
            compared,
            flat,
            undecodable,
            number_of_pairs,
            within=parse_counts(value["within"]),
            across={split: parse_counts(others) for split, others in value["across"].entries().items()},
            elsewhere=parse_counts(value["elsewhere"]),
            pairs=tuple(map(NearPair.from_json, value["pairs"].items())),
        )

    def describe(self) -> list[str]:
        """Return a sentence for each two splits with images that look alike, those with most first."""
        pairs = [(pair.one.member, pair.other.member) for pair in self.pairs]
        return [_near_duplicates_sentence(crossing) for crossing in split_overlaps(self.across, pairs)]

    def describe_skipped_images(self) -> str:
        """Describe which images were not compared, and why; "" if all were."""
        sentences = []
        if self.flat:
            sentences.append(f"{self.flat:,} of nearly one colour, which all hash alike")
        if self.undecodable:
            sentences.append(f"{self.undecodable:,} that do not decode")
        return f"not compared: {' and '.join(sentences)}" if sentences else ""


def _near_duplicates_sentence(crossing: SplitOverlap) -> str:
    look = "picture of {!r} looks" if crossing.examples == 1 else "pictures of {!r} look"
    such = f", such as {crossing.names}" if crossing.names else ""
    return f"{crossing.examples:,} {look.format(crossing.split)} like another in {crossing.other!r}{such}"
