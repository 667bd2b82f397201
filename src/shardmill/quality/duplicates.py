"""Equal examples in stats.json, within and across splits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shardmill.metadata.json_values import OPTIONAL, JsonObject, Value
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
class LocatedExample(ExampleSource):
    """An example, and the place of its framed record in an uncompressed shard."""

    shard: str = ""  # name of the file
    offset: int = 0  # in bytes
    length: int = 0  # in bytes


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
        return describe_overlaps(
            self.across, pairs, f"{noun} of {{}} has equal content", f"{noun}s of {{}} have equal content"
        )


_MAX_SPLIT_PAIRS = 3  # that notices tell one by one


def shorten_overlaps(sentences: Sequence[str], share: str) -> list[str]:
    """Return the first sentences about two splits, and the number of other pairs, which `share` something."""
    more = len(sentences) - _MAX_SPLIT_PAIRS
    return [*sentences[:_MAX_SPLIT_PAIRS], *([f"{more} more pairs of splits {share}"] if more > 0 else [])]


def describe_overlaps(
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
