"""Images that look alike in stats.json and in reports."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shardmill.metadata.json_values import JsonObject
from shardmill.quality.duplicates import LocatedExample, describe_overlaps, shorten_overlaps
from shardmill.quality.limits import CheckResult, LimitsByCheck, check_shares
from shardmill.quality.stats_file import ShownPair, StatsSection
from shardmill.text import plural

# Every report adds this to the counts: they are exact, what they count is a guess
_CAVEAT = "hashes that are near are no proof: some of these are different pictures"


@dataclass(frozen=True, slots=True)
class NearPair(JsonObject):
    """Two images whose hashes differ in `distance` bits."""

    one: LocatedExample
    other: LocatedExample
    distance: int


@dataclass(frozen=True, slots=True)
class NearDuplicates(StatsSection):
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
        pairs = [(pair.one, pair.other) for pair in self.pairs]
        one, several = "picture of {} looks like another", "pictures of {} look like another"
        return describe_overlaps(self.across, pairs, one, several)

    def describe_skipped_images(self) -> str:
        """Describe which images were not compared, and why; "" if all were."""
        flat = f"{self.flat:,} of nearly one colour, which all hash alike" if self.flat else ""
        undecodable = f"{self.undecodable:,} that do not decode" if self.undecodable else ""
        skipped = " and ".join(filter(None, (flat, undecodable)))
        return f"not compared: {skipped}" if skipped else ""

    @property
    def shown_pairs(self) -> Sequence[ShownPair]:
        titles = [f"look alike, {plural(pair.distance, 'bit')} apart" for pair in self.pairs]
        pairs = zip(titles, self.pairs, strict=True)
        return [ShownPair(title, {"bits": pair.distance}, (pair.one, pair.other)) for title, pair in pairs]

    def notices(self) -> list[str]:
        notices = shorten_overlaps(self.describe(), "share pictures that look alike")
        if notices:
            notices[-1] += f"; {_CAVEAT}: look at the pairs on the page of the build"
        return [*notices, *(f"near duplicates: {left}" for left in (self.describe_skipped_images(),) if left)]

    def report_lines(self) -> Iterator[str]:
        pairs = f"{plural(self.number_of_pairs, 'pair')}; {_CAVEAT}"
        yield f"Pictures that look alike ({self.method}, at most {self.distance} bits apart): {pairs}"
        yield from (f"  {sentence}" for sentence in self.describe())
        alike = "look like another of it"
        yield from (f"  {number:,} pictures of {split!r} {alike}" for split, number in self.within.items())
        yield from (f"  {left}" for left in (self.describe_skipped_images(),) if left)

    def checks(self, splits: Mapping[str, int], limits: LimitsByCheck) -> Iterator[CheckResult]:
        words = "pictures of {} look like one of another split"
        return check_shares("similar_contents", limits, splits, self.elsewhere, words)


SECTION = NearDuplicates
