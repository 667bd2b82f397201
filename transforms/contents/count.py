"""Which contents are there more than once, among those whose hashes are in one range: exact, in little memory."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmill.statistics.duplicates import SHOWN
from shardmill.transforms.contents.hashes import Contents, Hashes
from shardmill.transforms.contents.section import BITS, Section, number_of_ranges, range_of

_ALL = range_of(0, 1)
_BEGIN_BITS = 16  # of a hash
_SORTED = 1 << 15  # values at once, about: few enough to stay in a processor's cache

_NO_LABEL = np.uint64((1 << 64) - 1)  # more than any


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """An example, of which its section knows the name."""

    split: str
    place: int
    section: Section = field(compare=False)


@dataclass(frozen=True, slots=True, order=True)
class Twins:
    """Two examples of one content, in two splits if it is in more than one."""

    within: bool
    high: int
    low: int
    one: Place
    other: Place


@dataclass(frozen=True, slots=True, order=True)
class Quarrel:
    """Two examples of one content and of two classes, by their ids."""

    high: int
    low: int
    one: Place
    other: Place
    labels: tuple[int, int] = field(compare=False)


@dataclass(slots=True)
class Counted:
    """What was counted; mergeable in any order.

    Attributes:
      within: by split, examples that equal another of it.
      contents: by split, how many contents these have.
      across: by (split, other split), examples of the first whose content the other has too.
      elsewhere: by split, examples whose content any other has too.
      twins: the first of them, in their order.
      disputed: by split, examples whose content another example of another class has, wherever.
      disputes: how many contents these have.
      quarrels: the first of them, in their order.
    """

    within: Counter[str] = field(default_factory=Counter)
    contents: Counter[str] = field(default_factory=Counter)
    across: Counter[tuple[str, str]] = field(default_factory=Counter)
    elsewhere: Counter[str] = field(default_factory=Counter)
    twins: list[Twins] = field(default_factory=list)
    disputed: Counter[str] = field(default_factory=Counter)
    disputes: int = 0
    quarrels: list[Quarrel] = field(default_factory=list)

    def merge(self, other: "Counted") -> "Counted":
        """Add what `other` counted, and return this; `other` stays as it is."""
        self.within.update(other.within)
        self.contents.update(other.contents)
        self.across.update(other.across)
        self.elsewhere.update(other.elsewhere)
        self.twins = sorted([*self.twins, *other.twins])[:SHOWN]
        self.disputed.update(other.disputed)
        self.disputes += other.disputes
        self.quarrels = sorted([*self.quarrels, *other.quarrels])[:SHOWN]
        return self


def count_range(
    bounds: tuple[int, int], sections: Sequence[Section], map_: Callable[..., Iterable[Any]] = map
) -> Counted:
    """What is there more than once of the contents whose high halves are within `bounds`, both included.

    Only the high halves of all are held at once, and of those that repeat the rest.
    """
    repeated = repeated_values(list(map_(partial(_halves, bounds=bounds), sections)), bounds)
    if not len(repeated):
        return Counted()
    held: list[Contents] = []
    owners: list[int] = []
    for number, part in enumerate(map_(partial(_held, bounds=bounds, repeated=repeated), sections)):
        if part is not None:
            held.append(part)
            owners += [number] * len(part)
    return count(Contents.joined(held), np.array(owners), sections)


def _held(section: Section, bounds: tuple[int, int], repeated: Hashes) -> Contents | None:
    """The contents of a section whose high halves are among those that repeat; None of none."""
    rows, high = _high(section, bounds)
    mine = rows[_among(high, repeated)]
    return section.contents(int(mine[0]), int(mine[-1]) + 1).take(mine - mine[0]) if len(mine) else None


def _halves(section: Section, bounds: tuple[int, int]) -> Hashes:
    """The high halves of a section that are within `bounds`."""
    if bounds == _ALL:  # of most data sets all are looked through at once
        return section.high(0, section.examples)
    return _high(section, bounds)[1]


def _high(section: Section, bounds: tuple[int, int]) -> tuple[NDArray[np.int64], Hashes]:
    """The rows of a section whose high halves are within `bounds`, and these."""
    first, last = bounds[0] >> (64 - BITS), (bounds[1] >> (64 - BITS)) + 1
    start, stop = section.rows(first, last)
    high = section.high(start, stop)
    if bounds[1] - bounds[0] >= 1 << (64 - BITS):  # several of the parts that sections have, all of each
        return np.arange(start, stop), high
    within = (high >= np.uint64(bounds[0])) & (high <= np.uint64(bounds[1]))
    return np.flatnonzero(within) + start, high[within]


def repeated_values(parts: Sequence[Hashes], bounds: tuple[int, int] = _ALL) -> Hashes:
    """The values that are there more than once, ascending.

    They are sorted a few at a time, which takes a third of what sorting all of them at once takes.

    Args:
      parts: values, each in the order of their first BITS bits, as sections have them.
      bounds: the least and the greatest that there can be: all of some values of these bits, or some of one.
    """
    low, high = bounds
    most = max(1, (high - low + 1) >> (64 - BITS))
    number = min(most, number_of_ranges(sum(map(len, parts)), _SORTED))
    firsts = np.array([low + index * ((high - low + 1) // number) for index in range(number)], np.uint64)
    cuts = [[*np.searchsorted(part, firsts).tolist(), len(part)] for part in parts]
    found = [np.empty(0, np.uint64)]
    for index in range(number):
        values = np.concatenate([found[0], *(part[at[index] : at[index + 1]] for part, at in zip(parts, cuts))])
        values.sort()
        found.append(values[1:][values[1:] == values[:-1]])
    return np.unique(np.concatenate(found))


def _among(values: Hashes, wanted: Hashes) -> NDArray[np.int64]:
    """Which of `values` are wanted, by their places; `wanted` ascends."""
    begins = np.zeros(1 << _BEGIN_BITS, np.bool_)
    begins[wanted >> np.uint64(64 - _BEGIN_BITS)] = True
    # Most values begin as none that is wanted, which is seen at a glance
    likely = np.flatnonzero(begins[values >> np.uint64(64 - _BEGIN_BITS)])
    found = values[likely]
    places = np.minimum(np.searchsorted(wanted, found), len(wanted) - 1)
    return likely[wanted[places] == found]


def count(contents: Contents, owners: NDArray[np.int64], sections: Sequence[Section]) -> Counted:
    """What is there more than once among some contents.

    Args:
      contents: any.
      owners: the section of each, by its index in `sections`, shape (n,).
    """
    names = sorted({section.split for section in sections})
    splits = np.array([names.index(section.split) for section in sections])[owners]
    order = np.lexsort((contents.places, splits, contents.low, contents.high))
    contents, splits, owners = contents.take(order), splits[order], owners[order]
    same = (contents.high[1:] == contents.high[:-1]) & (contents.low[1:] == contents.low[:-1])
    groups = np.concatenate(([0], np.cumsum(~same))) if len(contents) else np.empty(0, np.int64)
    counts = np.zeros((int(groups[-1]) + 1 if len(groups) else 0, len(names)), np.int64)
    np.add.at(counts, (groups, splits), 1)
    present = counts > 0
    shared = present.sum(axis=1) > 1
    across = counts.T @ present
    found = Counted()
    for index, name in enumerate(names):
        mine = counts[:, index]
        _put(found.within, name, int(mine[mine > 1].sum()))
        _put(found.contents, name, int(np.count_nonzero(mine > 1)))
        _put(found.elsewhere, name, int(mine[shared].sum()))
        for other, their in enumerate(names):
            if other != index:
                _put(found.across, (name, their), int(across[index, other]))
    repeated = np.flatnonzero(counts.sum(axis=1) > 1)
    chosen = [*repeated[shared[repeated]][:SHOWN], *repeated[~shared[repeated]][:SHOWN]][:SHOWN]
    starts = np.searchsorted(groups, chosen)
    for group, start in zip(chosen, starts.tolist(), strict=True):
        # Sorted by split, then place: the first of all, and the first of the next split, or the second where there is
        # none
        first = int(np.argmax(present[group]))
        other = start + int(counts[group, first]) if shared[group] else start + 1
        pair = [Place(names[splits[row]], int(contents.places[row]), sections[owners[row]]) for row in (start, other)]
        found.twins.append(Twins(not shared[group], int(contents.high[start]), int(contents.low[start]), *pair))
    if contents.labels is not None and len(contents):

        def place(row: int) -> Place:
            return Place(names[splits[row]], int(contents.places[row]), sections[owners[row]])

        _quarrel(found, contents, contents.labels, groups, counts, names, place)
    return found


def _quarrel(
    found: Counted,
    contents: Contents,
    labels: Hashes,
    groups: NDArray[np.int64],
    counts: NDArray[np.int64],
    names: Sequence[str],
    place: Callable[[int], Place],
) -> None:
    """Count the contents that have labels of several classes; what has no label quarrels with none."""
    starts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
    greatest = np.maximum.reduceat(labels, starts)
    least = np.minimum.reduceat(np.where(labels == 0, _NO_LABEL, labels), starts)
    disputed = np.flatnonzero((greatest > 0) & (least < greatest))
    if not len(disputed):
        return
    found.disputes = len(disputed)
    labelled = labels > 0
    for index, name in enumerate(names):
        _put(found.disputed, name, int(counts[disputed, index].sum()))
    ends = np.append(starts[1:], len(labels))
    for group in disputed[:SHOWN].tolist():
        rows = np.arange(starts[group], ends[group])
        rows = rows[labelled[rows]]
        one, other = int(rows[0]), int(rows[np.argmax(labels[rows] != labels[rows[0]])])
        ids = int(labels[one]) - 1, int(labels[other]) - 1
        key = int(contents.high[one]), int(contents.low[one])
        found.quarrels.append(Quarrel(*key, place(one), place(other), ids))


def _put(counter: Counter[Any], key: Any, number: int) -> None:
    if number:
        counter[key] = number
