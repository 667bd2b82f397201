"""Find examples with equal contents, within splits and across them."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from shardmill.quality.duplicates import (
    MAX_PAIRS,
    Conflict,
    Conflicts,
    Duplicates,
    ExampleSource,
    Pair,
    RepeatedContents,
)
from shardmill.transforms.findings import Mergeable
from shardmill.transforms.statistics.contents import PART_BITS, Contents, Hashes, Section, count_ranges, range_bounds

_ALL_HASHES = range_bounds(0, 1)
_BEGIN_BITS = 16  # of a hash
_SORTED_AT_ONCE = 1 << 15  # values at once, about: few enough to stay in a processor's cache

_NO_LABEL = np.uint64((1 << 64) - 1)  # more than any


@dataclass(frozen=True, slots=True, order=True)
class ExamplePosition:
    """The position of an example as a hash, with the section that can find its file's name."""

    split: str
    position: int
    section: Section = field(compare=False)


@dataclass(frozen=True, slots=True, order=True)
class EqualPair:
    """Two examples of equal content, from two splits if it occurs in several."""

    is_within_split: bool
    high: int
    low: int
    one: ExamplePosition
    other: ExamplePosition


@dataclass(frozen=True, slots=True, order=True)
class ConflictingPair:
    """Two examples of equal content with different class ids."""

    high: int
    low: int
    one: ExamplePosition
    other: ExamplePosition
    labels: tuple[int, int] = field(compare=False)


@dataclass(slots=True)
class DuplicateCounts(Mergeable):
    """Counts of repeated contents, mergeable in any order."""

    within_splits: Counter[str] = field(default_factory=Counter)  # by split, examples equal to another in the split
    repeated_contents: Counter[str] = field(default_factory=Counter)  # by split, distinct contents of these
    # by (split, other split), examples of the first whose content occurs in the other
    across_splits: Counter[tuple[str, str]] = field(default_factory=Counter)
    in_other_splits: Counter[str] = field(default_factory=Counter)  # by split, of content that another split has
    equal_pairs: list[EqualPair] = field(default_factory=list)  # first pairs, in order
    # by split, examples whose content occurs with several classes
    conflicting_examples: Counter[str] = field(default_factory=Counter)
    conflicting_contents: int = 0  # distinct contents of these
    conflicting_pairs: list[ConflictingPair] = field(default_factory=list)  # first pairs of different classes, in order

    def merge(self, other: Self) -> None:
        Mergeable.merge(self, other)
        self.equal_pairs = sorted(self.equal_pairs)[:MAX_PAIRS]
        self.conflicting_pairs = sorted(self.conflicting_pairs)[:MAX_PAIRS]


def count_duplicates_in_range(
    bounds: tuple[int, int], sections: Sequence[Section], map_: Callable[..., Iterable[Any]] = map
) -> DuplicateCounts:
    """Count repeated contents whose hashes have upper halves within `bounds`, both inclusive."""
    contents, owners = read_repeated(bounds, sections, map_)
    return count_duplicates(contents, owners, sections) if len(contents) else DuplicateCounts()


def read_repeated(
    bounds: tuple[int, int], sections: Sequence[Section], map_: Callable[..., Iterable[Any]] = map
) -> tuple[Contents, NDArray[np.int64]]:
    """Return the contents within `bounds` whose upper halves repeat, and the index of the section of each.

    Only the high halves of all contents are held at once, and the rest of those that repeat.
    """
    repeated = find_repeated(list(map_(partial(_read_high_halves, bounds=bounds), sections)), bounds)
    contents: list[Contents] = []
    owners: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    if len(repeated):
        for number, part in enumerate(map_(partial(_read_repeated, bounds=bounds, repeated=repeated), sections)):
            if part is not None:
                contents.append(part)
                owners.append(np.full(len(part), number))
    return Contents.concatenate(contents or [Contents()]), np.concatenate(owners)


def _read_repeated(section: Section, bounds: tuple[int, int], repeated: Hashes) -> Contents | None:
    rows, high = _read_rows_in_range(section, bounds)
    rows = rows[_find_wanted(high, repeated)]
    return section.read_contents(int(rows[0]), int(rows[-1]) + 1).take(rows - rows[0]) if len(rows) else None


def _read_high_halves(section: Section, bounds: tuple[int, int]) -> Hashes:
    if bounds == _ALL_HASHES:  # of most data sets all are looked through at once
        return section.read_high_halves(0, section.examples)
    return _read_rows_in_range(section, bounds)[1]


def _read_rows_in_range(section: Section, bounds: tuple[int, int]) -> tuple[NDArray[np.int64], Hashes]:
    first, last = bounds[0] >> (64 - PART_BITS), (bounds[1] >> (64 - PART_BITS)) + 1
    start, stop = section.rows(first, last)
    high = section.read_high_halves(start, stop)
    if bounds[1] - bounds[0] >= 1 << (64 - PART_BITS):  # several of the parts that sections have, all of each
        return np.arange(start, stop), high
    within = (high >= np.uint64(bounds[0])) & (high <= np.uint64(bounds[1]))
    return np.flatnonzero(within) + start, high[within]


def find_repeated(parts: Sequence[Hashes], bounds: tuple[int, int] = _ALL_HASHES) -> Hashes:
    """Return the values that occur more than once, ascending.

    They are sorted in small ranges, which takes a third of the time of sorting all at once. Each of `parts` is ordered
    by its first PART_BITS bits, as in sections. `bounds` span whole parts by these bits, or a range within one part.
    """
    low, high = bounds
    most = max(1, (high - low + 1) >> (64 - PART_BITS))
    number = min(most, count_ranges(sum(map(len, parts)), _SORTED_AT_ONCE))
    firsts = np.array([low + index * ((high - low + 1) // number) for index in range(number)], np.uint64)
    cuts = [[*np.searchsorted(part, firsts).tolist(), len(part)] for part in parts]
    found = [np.empty(0, np.uint64)]
    for index in range(number):
        values = np.concatenate([found[0], *(part[at[index] : at[index + 1]] for part, at in zip(parts, cuts))])
        values.sort()
        found.append(values[1:][values[1:] == values[:-1]])
    return np.unique(np.concatenate(found))


def _find_wanted(values: Hashes, wanted: Hashes) -> NDArray[np.int64]:
    begins = np.zeros(1 << _BEGIN_BITS, np.bool_)
    begins[wanted >> np.uint64(64 - _BEGIN_BITS)] = True
    # Most values begin as none that is wanted, which is seen at a glance
    likely = np.flatnonzero(begins[values >> np.uint64(64 - _BEGIN_BITS)])
    found = values[likely]
    indices = np.minimum(np.searchsorted(wanted, found), len(wanted) - 1)
    return likely[wanted[indices] == found]


def count_duplicates(contents: Contents, owners: NDArray[np.int64], sections: Sequence[Section]) -> DuplicateCounts:
    """Count repeated contents given in any order; `owners` is the section of each, as an index into `sections`."""
    names = sorted({section.split for section in sections})
    splits = np.array([names.index(section.split) for section in sections])[owners]
    order = np.lexsort((contents.positions, splits, contents.low, contents.high))
    contents, splits, owners = contents.take(order), splits[order], owners[order]
    same = (contents.high[1:] == contents.high[:-1]) & (contents.low[1:] == contents.low[:-1])
    groups = np.concatenate(([0], np.cumsum(~same))) if len(contents) else np.empty(0, np.int64)
    counts = np.zeros((int(groups[-1]) + 1 if len(groups) else 0, len(names)), np.int64)
    np.add.at(counts, (groups, splits), 1)
    present = counts > 0
    shared = present.sum(axis=1) > 1
    across = counts.T @ present
    found = DuplicateCounts()
    for index, name in enumerate(names):
        mine = counts[:, index]
        set_positive(found.within_splits, name, int(mine[mine > 1].sum()))
        set_positive(found.repeated_contents, name, int(np.count_nonzero(mine > 1)))
        set_positive(found.in_other_splits, name, int(mine[shared].sum()))
        for other, their in enumerate(names):
            if other != index:
                set_positive(found.across_splits, (name, their), int(across[index, other]))
    repeated = np.flatnonzero(counts.sum(axis=1) > 1)
    chosen = [*repeated[shared[repeated]][:MAX_PAIRS], *repeated[~shared[repeated]][:MAX_PAIRS]][:MAX_PAIRS]
    starts = np.searchsorted(groups, chosen)

    def place(row: int) -> ExamplePosition:
        return ExamplePosition(names[splits[row]], int(contents.positions[row]), sections[owners[row]])

    for group, start in zip(chosen, starts.tolist(), strict=True):
        # Sorted by split, then place: the first of all, and the first of the next split, or the second without one
        first = int(np.argmax(present[group]))
        other = start + int(counts[group, first]) if shared[group] else start + 1
        key = int(contents.high[start]), int(contents.low[start])
        found.equal_pairs.append(EqualPair(not shared[group], *key, place(start), place(other)))
    if contents.labels is not None and len(contents):
        _count_conflicts(found, contents, contents.labels, groups, counts, names, place)
    return found


def _count_conflicts(
    found: DuplicateCounts,
    contents: Contents,
    labels: Hashes,
    groups: NDArray[np.int64],
    counts: NDArray[np.int64],
    names: Sequence[str],
    place: Callable[[int], ExamplePosition],
) -> None:
    starts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
    greatest = np.maximum.reduceat(labels, starts)
    least = np.minimum.reduceat(np.where(labels == 0, _NO_LABEL, labels), starts)
    disputed = np.flatnonzero((greatest > 0) & (least < greatest))
    if not len(disputed):
        return
    found.conflicting_contents = len(disputed)
    labelled = labels > 0
    for index, name in enumerate(names):
        set_positive(found.conflicting_examples, name, int(counts[disputed, index].sum()))
    ends = np.append(starts[1:], len(labels))
    for group in disputed[:MAX_PAIRS].tolist():
        rows = np.arange(starts[group], ends[group])
        rows = rows[labelled[rows]]
        one, other = int(rows[0]), int(rows[np.argmax(labels[rows] != labels[rows[0]])])
        ids = int(labels[one]) - 1, int(labels[other]) - 1
        key = int(contents.high[one]), int(contents.low[one])
        found.conflicting_pairs.append(ConflictingPair(*key, place(one), place(other), ids))


def set_positive(counter: Counter[Any], key: Any, number: int) -> None:
    """Set a counter's value, unless it is 0."""
    if number:
        counter[key] = number


CONTENTS_AT_ONCE = 1 << 23  # looked through at once: 64 MB of halves, and as much while they are sorted
MAX_READERS = 32  # at once, for each may be a request to a store


def find_duplicates(content: str, sections: Sequence[Section], class_names: Sequence[str] = ()) -> Duplicates:
    """Find contents that occur more than once, with the file names of some of their examples.

    `content` says what was compared, and `class_names` are in the order of ids.
    """
    number = count_ranges(sum(section.examples for section in sections), CONTENTS_AT_ONCE)
    counted = DuplicateCounts()
    with ThreadPoolExecutor(MAX_READERS, "shardmill-contents") as pool:
        for index in range(number):
            counted.merge(count_duplicates_in_range(range_bounds(index, number), sections, pool.map))
        members = _find_members([*counted.equal_pairs, *counted.conflicting_pairs], pool.map)
    pairs = []
    for twins in counted.equal_pairs:
        one, other = sorted((members[twins.one], members[twins.other]), key=member_order)
        pairs.append((twins.is_within_split, Pair(one, other)))
    pairs.sort(key=lambda found: (found[0], member_order(found[1].one), member_order(found[1].other)))
    within = sorted(counted.within_splits.items())
    return Duplicates(
        content,
        nest_by_split(counted.across_splits),
        dict(sorted(counted.in_other_splits.items())),
        {split: RepeatedContents(examples, counted.repeated_contents[split]) for split, examples in within},
        tuple(pair for _, pair in pairs),
        _describe_conflicts(counted, members, class_names),
    )


def nest_by_split(across_splits: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """Return counts by (split, other split) as dictionaries by split and other split, both ascending."""
    nested: dict[str, dict[str, int]] = {}
    for (split, other), examples in sorted(across_splits.items()):
        nested.setdefault(split, {})[other] = examples
    return nested


def _describe_conflicts(
    counted: DuplicateCounts, members: Mapping[ExamplePosition, ExampleSource], class_names: Sequence[str]
) -> Conflicts | None:
    if not counted.conflicting_contents:
        return None
    pairs = []
    for quarrel in counted.conflicting_pairs:
        names = [class_names[label] if label < len(class_names) else str(label) for label in quarrel.labels]
        sides = zip((members[quarrel.one], members[quarrel.other]), names, strict=True)
        (one, its_class), (other, other_class) = sorted(sides, key=lambda side: member_order(side[0]))
        pairs.append(Conflict(one, other, (its_class, other_class)))
    pairs.sort(key=lambda pair: (member_order(pair.one), member_order(pair.other)))
    return Conflicts(counted.conflicting_contents, dict(sorted(counted.conflicting_examples.items())), tuple(pairs))


def member_order(member: ExampleSource) -> tuple[str, str, int]:
    """Return the sort key of an example among duplicates: split, file and line."""
    return member.split, member.name, member.line or 0


def _find_members(
    pairs: Iterable[EqualPair | ConflictingPair], map_: Callable[..., Iterable[Any]]
) -> dict[ExamplePosition, ExampleSource]:
    positions: dict[Section, set[int]] = defaultdict(set)
    members = [member for pair in pairs for member in (pair.one, pair.other)]
    for member in members:
        positions[member.section].add(member.position)
    found = dict(zip(positions, map_(Section.find_sources, positions.keys(), positions.values()), strict=True))
    return {member: ExampleSource(member.split, *found[member.section][member.position]) for member in members}
