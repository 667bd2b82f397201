"""Examples of equal content, within a split and in several, as stats.json has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shardmill.metadata.json_values import Value
from shardmill.statistics.members import Json, counts

SHOWN = 100  # pairs that stats.json lists


@dataclass(frozen=True, slots=True)
class Member:
    """An example: its split, the file it was made of, and its line or record there, None where the file is all of
    it."""

    split: str
    name: str
    line: int | None = None

    def __str__(self) -> str:
        """As a text shows it."""
        return self.name if self.line is None else f"{self.name}:{self.line}"

    def to_json(self) -> Json:
        """As the file has it."""
        return {"split": self.split, "name": self.name, **({} if self.line is None else {"line": self.line})}

    @classmethod
    def from_json(cls, value: Value) -> "Member":
        """What the file has; raises ValueError."""
        line = value["line"].integer() if "line" in value.mapping() else None
        return cls(value["split"].text(), value["name"].text(), line)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two examples of equal content."""

    one: Member
    other: Member

    def to_json(self) -> Json:
        """As the file has it."""
        return {"one": self.one.to_json(), "other": self.other.to_json()}

    @classmethod
    def from_json(cls, value: Value) -> "Pair":
        """What the file has; raises ValueError."""
        return cls(Member.from_json(value["one"]), Member.from_json(value["other"]))


@dataclass(frozen=True, slots=True)
class Repeated:
    """The examples of a split that equal another one of it, and how many contents these have."""

    examples: int
    contents: int

    def to_json(self) -> Json:
        """As the file has it."""
        return {"examples": self.examples, "contents": self.contents}

    @classmethod
    def from_json(cls, value: Value) -> "Repeated":
        """What the file has; raises ValueError."""
        return cls(value["examples"].integer(), value["contents"].integer())


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two examples of equal content, and the classes that they have."""

    one: Member
    other: Member
    labels: tuple[str, str]

    def to_json(self) -> Json:
        """As the file has it."""
        return {"one": self.one.to_json(), "other": self.other.to_json(), "labels": list(self.labels)}

    @classmethod
    def from_json(cls, value: Value) -> "Conflict":
        """What the file has; raises ValueError."""
        labels = [label.text() for label in value["labels"].items()]
        if len(labels) != 2:
            raise ValueError(f"{value['labels'].where} has {len(labels)} labels; expected 2")
        return cls(Member.from_json(value["one"]), Member.from_json(value["other"]), (labels[0], labels[1]))


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Examples of equal content and of different classes: how many contents, by split how many examples, and a pair of
    each content, at most SHOWN."""

    contents: int
    examples: Mapping[str, int]
    pairs: tuple[Conflict, ...]

    def to_json(self) -> Json:
        """As the file has it."""
        pairs = [pair.to_json() for pair in self.pairs]
        return {"contents": self.contents, "examples": dict(self.examples), "pairs": pairs}

    @classmethod
    def from_json(cls, value: Value) -> "Conflicts":
        """What the file has; raises ValueError."""
        pairs = tuple(map(Conflict.from_json, value["pairs"].items()))
        return cls(value["contents"].integer(), counts(value["examples"]), pairs)

    def sentence(self) -> str:
        """How many there are, with two of them."""
        pair, contents = self.pairs[0], f"{self.contents:,} content{'' if self.contents == 1 else 's'}"
        such = f"{str(pair.one)!r} ({pair.labels[0]}) and {str(pair.other)!r} ({pair.labels[1]})"
        return (
            f"{sum(self.examples.values()):,} examples, of {contents}, have equal content and different labels, such as"
            f" {such}"
        )


@dataclass(frozen=True, slots=True)
class Duplicates:
    """What is known of equal contents: every count is exact.

    Attributes:
      content: what was compared, in words.
      within: by split; one without any is left out.
      across: by split and other split, how many examples of the first have the content of an example of the other.
      elsewhere: by split, how many of its examples have the content of an example of any other split.
      pairs: one of each content, at most SHOWN, those in two splits first.
      conflicts: those whose labels differ, if any do; of rows without images the label is part of the content.
      documents: by split, how many documents there are, where these were compared and counted and not examples, which
        have parts of several.
    """

    content: str
    within: Mapping[str, Repeated] = field(default_factory=dict)
    across: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    elsewhere: Mapping[str, int] = field(default_factory=dict)
    pairs: tuple[Pair, ...] = ()
    conflicts: Conflicts | None = None
    documents: Mapping[str, int] | None = None

    @property
    def compared(self) -> str:
        """What one of those that were compared is called."""
        return "example" if self.documents is None else "document"

    def to_json(self) -> Json:
        """As the file has it."""
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
        """What the file has; raises ValueError."""
        across = {split: counts(others) for split, others in value["across"].entries().items()}
        within = {split: Repeated.from_json(found) for split, found in value["within"].entries().items()}
        pairs = tuple(map(Pair.from_json, value["pairs"].items()))
        conflicts = Conflicts.from_json(value["conflicts"]) if "conflicts" in value.mapping() else None
        documents = counts(value["documents"]) if "documents" in value.mapping() else None
        return cls(value["content"].text(), within, across, counts(value["elsewhere"]), pairs, conflicts, documents)

    def sentences(self) -> list[str]:
        """What is said of each two splits that share contents, those that share most first."""
        found = crossings(self.across, [(two.one, two.other) for two in self.pairs])
        return [_sentence(crossing, self.compared) for crossing in found]


@dataclass(frozen=True, slots=True)
class Crossing:
    """Two splits that share something: so many examples of `split` have it in `other` too; `names` are those of two,
    if any are known."""

    split: str
    other: str
    examples: int
    names: str


def crossings(across: Mapping[str, Mapping[str, int]], pairs: Sequence[tuple[Member, Member]]) -> list[Crossing]:
    """Each two splits that share something, those that share most first; `train` is always the other."""
    found = []
    for split, others in across.items():
        for other, examples in others.items():
            if (split == "train", split) <= (other == "train", other):
                found.append(Crossing(split, other, examples, _example(split, other, pairs)))
    return sorted(found, key=lambda crossing: (-crossing.examples, crossing.split, crossing.other))


def _example(split: str, other: str, pairs: Sequence[tuple[Member, Member]]) -> str:
    for one, two in pairs:
        by_split = {one.split: one, two.split: two}
        if by_split.keys() == {split, other}:
            return f"{str(by_split[split])!r} and {str(by_split[other])!r}"
    return ""


def _sentence(crossing: Crossing, compared: str) -> str:
    one = crossing.examples == 1
    have = f"{compared}{'' if one else 's'} of {crossing.split!r} {'has' if one else 'have'}"
    such = f", such as {crossing.names}" if crossing.names else ""
    return f"{crossing.examples:,} {have} equal content in {crossing.other!r}{such}"
