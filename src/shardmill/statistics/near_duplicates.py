"""Pictures that look alike without being equal, within a split and in several, as stats.json has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shardmill.metadata.json_values import Value
from shardmill.statistics.duplicates import Crossing, Member, crossings
from shardmill.statistics.members import counts

# What every report says beside the counts: they are exact, what they count is a guess
CAVEAT = "hashes that are near are no proof: some of these are different pictures"


@dataclass(frozen=True, slots=True)
class Seen:
    """A picture of a pair, and where its record lies.

    Attributes:
      member: which it is.
      shard: the name of the file that its record is in.
      offset, length: in bytes, of the record with its frame, in the shard before that is compressed.
    """

    member: Member
    shard: str
    offset: int
    length: int

    def to_json(self) -> dict[str, Any]:
        """As the file has it."""
        return {**self.member.to_json(), "shard": self.shard, "offset": self.offset, "length": self.length}

    @classmethod
    def from_json(cls, value: Value) -> "Seen":
        """What the file has; raises ValueError."""
        place = (value["shard"].text(), value["offset"].integer(), value["length"].integer())
        return cls(Member.from_json(value), *place)


@dataclass(frozen=True, slots=True)
class NearPair:
    """Two pictures whose hashes differ in `distance` bits."""

    one: Seen
    other: Seen
    distance: int

    def to_json(self) -> dict[str, Any]:
        """As the file has it."""
        return {"one": self.one.to_json(), "other": self.other.to_json(), "distance": self.distance}

    @classmethod
    def from_json(cls, value: Value) -> "NearPair":
        """What the file has; raises ValueError."""
        return cls(Seen.from_json(value["one"]), Seen.from_json(value["other"]), value["distance"].integer())


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """What is known of pictures that look alike; every count is exact. Equal pictures are no pair here.

    Attributes:
      method: how a picture is hashed, in words.
      distance: the most bits in which two hashes differ that are near.
      compared: pictures whose hashes were compared.
      flat: pictures of nearly one colour, which all hash alike and were not compared.
      undecodable: pictures that do not decode, and were not compared.
      number_of_pairs: of two different contents that are near each other.
      within: by split, how many of its pictures look like another of it.
      across: by split and other split, how many pictures of the first look like one of the other.
      elsewhere: by split, how many of its pictures look like one of any other split.
      pairs: some, at most shardmill.statistics.duplicates.SHOWN, those in two splits first, the nearest first.
    """

    method: str
    distance: int
    compared: int = 0
    flat: int = 0
    undecodable: int = 0
    number_of_pairs: int = 0
    within: Mapping[str, int] = field(default_factory=dict)
    across: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    elsewhere: Mapping[str, int] = field(default_factory=dict)
    pairs: tuple[NearPair, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As the file has it."""
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
        """What the file has; raises ValueError."""
        names = ("distance", "compared", "flat", "undecodable", "number_of_pairs")
        distance, compared, flat, undecodable, number_of_pairs = (value[name].integer() for name in names)
        return cls(
            value["method"].text(),
            distance,
            compared,
            flat,
            undecodable,
            number_of_pairs,
            within=counts(value["within"]),
            across={split: counts(others) for split, others in value["across"].entries().items()},
            elsewhere=counts(value["elsewhere"]),
            pairs=tuple(map(NearPair.from_json, value["pairs"].items())),
        )

    def sentences(self) -> list[str]:
        """What is said of each two splits that share pictures that look alike, those that share most first."""
        pairs = [(pair.one.member, pair.other.member) for pair in self.pairs]
        return [_sentence(crossing) for crossing in crossings(self.across, pairs)]

    def left_out(self) -> str:
        """Which pictures were not compared, and why; "" if all were."""
        told = []
        if self.flat:
            told.append(f"{self.flat:,} of nearly one colour, which all hash alike")
        if self.undecodable:
            told.append(f"{self.undecodable:,} that do not decode")
        return f"not compared: {' and '.join(told)}" if told else ""


def _sentence(crossing: Crossing) -> str:
    look = "picture of {!r} looks" if crossing.examples == 1 else "pictures of {!r} look"
    such = f", such as {crossing.names}" if crossing.names else ""
    return f"{crossing.examples:,} {look.format(crossing.split)} like another in {crossing.other!r}{such}"
