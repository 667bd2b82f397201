"""Exact and near duplicates in stats.json, within and across splits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shardmill.metadata.json_values import OPTIONAL, Json, JsonObject, Value
from shardmill.text import plural

MAX_PAIRS = 100  # pairs that stats.json lists


@dataclass(frozen=True, slots=True)
class ExampleSource(JsonObject):
    """An example: its split, source file, and line or record in it; None if the file is one example."""

    split: str
    name: str
    line: int | None = field(default=None, metadata=OPTIONAL)

    def __str__(self) -> str:
        """Return the file's name, with the line if there is one."""
        return self.name if self.line is None else f"{self.name}:{self.line}"


@dataclass(frozen=True, slots=True)
class Pair(JsonObject):
    """Two examples of equal content."""

    one: ExampleSource
    other: ExampleSource


@dataclass(frozen=True, slots=True)
class RepeatedContents(JsonObject):
    """The number of a split's examples that equal another one in it, and of their distinct contents."""

    examples: int
    contents: int


def _parse_labels(value: Value) -> tuple[str, str]:
    labels = [label.text() for label in value.items()]
    if len(labels) != 2:
        raise ValueError(f"{value.where} has {len(labels)} labels; expected 2")
    return labels[0], labels[1]


@dataclass(frozen=True, slots=True)
class Conflict(JsonObject):
    """Two examples of equal content and different classes."""

    one: ExampleSource
    other: ExampleSource
    labels: tuple[str, str] = field(metadata={"parse": _parse_labels})


@dataclass(frozen=True, slots=True)
class Conflicts(JsonObject):
    """Examples of equal content and different classes, by split."""

    contents: int
    examples: Mapping[str, int]  # by split
    pairs: tuple[Conflict, ...]  # one per content, at most MAX_PAIRS

    def describe(self) -> str:
        """Return a sentence with the number of conflicts and one pair."""
        pair, contents = self.pairs[0], plural(self.contents, "content")
        such = f"{str(pair.one)!r} ({pair.labels[0]}) and {str(pair.other)!r} ({pair.labels[1]})"
        return (
            f"{sum(self.examples.values()):,} examples, of {contents}, have equal content and different labels, such as"
            f" {such}"
        )


@dataclass(frozen=True, slots=True)
class Duplicates(JsonObject):
    """Examples of equal content; every count is exact."""

    content: str  # compared content, as text
    # by split and other split: examples of the first with a duplicate in the other
    across: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    elsewhere: Mapping[str, int] = field(default_factory=dict)  # by split: examples with a duplicate in any other split
    within: Mapping[str, RepeatedContents] = field(default_factory=dict)  # by split; only splits that have any
    pairs: tuple[Pair, ...] = ()  # one per content, at most MAX_PAIRS, those across splits first
    # with different labels; for rows without images the label is part of the content
    conflicts: Conflicts | None = field(default=None, metadata=OPTIONAL)
    # by split: number of documents, if these were compared, because examples hold parts of several
    documents: Mapping[str, int] | None = field(default=None, metadata=OPTIONAL)

    @property
    def compared(self) -> str:
        """Return the noun for a compared item: example or document."""
        return "example" if self.documents is None else "document"

    def describe(self) -> list[str]:
        """Return a sentence for each two splits with duplicates, those with most first."""
        pairs = [(pair.one, pair.other) for pair in self.pairs]
        noun = self.compared
        return _describe_overlaps(
            self.across, pairs, f"{noun} of {{}} has equal content", f"{noun}s of {{}} have equal content"
        )


def _describe_overlaps(
    across: Mapping[str, Mapping[str, int]],
    pairs: Sequence[tuple[ExampleSource, ExampleSource]],
    one: str,
    several: str,
) -> list[str]:
    """Return a sentence for each two splits with duplicates, those with most first; `train` is always the other.

    The words `one` and `several` have {} for the name of the split. The first of its `pairs` is named.
    """
    overlaps = [
        (-examples, split, other)
        for split, others in across.items()
        for other, examples in others.items()
        if (split == "train", split) <= (other == "train", other)
    ]
    sentences = []
    for negative, split, other in sorted(overlaps):
        by_split = [{pair[0].split: pair[0], pair[1].split: pair[1]} for pair in pairs]
        named = next((pair for pair in by_split if pair.keys() == {split, other}), None)
        such = f", such as {str(named[split])!r} and {str(named[other])!r}" if named else ""
        words = (one if negative == -1 else several).format(repr(split))
        sentences.append(f"{-negative:,} {words} in {other!r}{such}")
    return sentences


# Every report adds this to the counts: they are exact, what they count is a guess
NEAR_DUPLICATES_CAVEAT = "hashes that are near are no proof: some of these are different pictures"


@dataclass(frozen=True, slots=True)
class LocatedImage:
    """An image of a pair, and the position of its record."""

    member: ExampleSource  # the image's example
    shard: str  # name of its shard file
    offset: int  # of the framed record in the uncompressed shard, in bytes
    length: int  # of the framed record, in bytes

    def to_json(self) -> Json:
        """Return the image and position as a JSON object."""
        return {**self.member.to_json(), "shard": self.shard, "offset": self.offset, "length": self.length}

    @classmethod
    def from_json(cls, value: Value) -> "LocatedImage":
        """Parse an image and position from a JSON object; raise ValueError if it is invalid."""
        place = (value["shard"].text(), value["offset"].integer(), value["length"].integer())
        return cls(ExampleSource.from_json(value), *place)


@dataclass(frozen=True, slots=True)
class NearPair(JsonObject):
    """Two images whose hashes differ in `distance` bits."""

    one: LocatedImage
    other: LocatedImage
    distance: int


@dataclass(frozen=True, slots=True)
class NearDuplicates(JsonObject):
    """Images that look alike but are not equal; every count is exact."""

    method: str  # of hashing, as text
    distance: int  # most bits in which near hashes differ
    compared: int = 0  # images whose hashes were compared
    flat: int = 0  # images of nearly one colour; they all hash alike and were not compared
    undecodable: int = 0  # images that do not decode and were not compared
    number_of_pairs: int = 0  # of different contents that are near each other
    # by split and other split: images of the first that look like one in the other
    across: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    elsewhere: Mapping[str, int] = field(default_factory=dict)  # by split: images that look like one in any other split
    within: Mapping[str, int] = field(default_factory=dict)  # by split: images that look like another in it
    pairs: tuple[NearPair, ...] = ()  # at most MAX_PAIRS; across splits first, nearest first

    def describe(self) -> list[str]:
        """Return a sentence for each two splits with images that look alike, those with most first."""
        pairs = [(pair.one.member, pair.other.member) for pair in self.pairs]
        one, several = "picture of {} looks like another", "pictures of {} look like another"
        return _describe_overlaps(self.across, pairs, one, several)

    def describe_skipped_images(self) -> str:
        """Describe which images were not compared, and why; "" if all were."""
        flat = f"{self.flat:,} of nearly one colour, which all hash alike" if self.flat else ""
        undecodable = f"{self.undecodable:,} that do not decode" if self.undecodable else ""
        skipped = " and ".join(filter(None, (flat, undecodable)))
        return f"not compared: {skipped}" if skipped else ""
