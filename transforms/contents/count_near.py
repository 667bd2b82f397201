"""How many pictures look like another, within splits and across them, and the nearest pairs: exact, whatever the order
in which shards come."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from shardmill.statistics.duplicates import SHOWN
from shardmill.transforms.contents.hashes import Hashes
from shardmill.transforms.contents.near import near_pairs

Key = TypeVar("Key", int, tuple[int, int])

Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]


class Pictures(NamedTuple):
    """Pictures to compare: hashes, hashes of contents and places (uint64), and the number of the split of each, shape
    (n,) each."""

    hashes: Hashes
    contents: Hashes
    places: Hashes
    splits: Numbers


class Two(NamedTuple):
    """Two pictures by their rows, in two splits if they can be; such two sort first, then the nearest."""

    within: bool
    distance: int
    hash_of_one: int
    hash_of_other: int
    one: int
    other: int


@dataclass(slots=True)
class Near:
    """What was counted, as shardmill.statistics.near_duplicates.NearDuplicates has it, by the numbers of splits."""

    number_of_pairs: int = 0
    within: Counter[int] = field(default_factory=Counter)
    across: Counter[tuple[int, int]] = field(default_factory=Counter)
    elsewhere: Counter[int] = field(default_factory=Counter)
    pairs: list[Two] = field(default_factory=list)


class _Grouped:
    """Pictures in the order of their hashes, contents, splits and places.

    Attributes:
      order: the row of each.
      first_of_content, first_of_hash: where the pictures of each content begin, and the contents of each hash.
      present: of each content, shape (contents, splits): how many pictures of it a split has.
    """

    def __init__(self, pictures: Pictures, splits: int) -> None:
        self.order = np.lexsort((pictures.places, pictures.splits, pictures.contents, pictures.hashes))
        hashes, contents = pictures.hashes[self.order], pictures.contents[self.order]
        self.splits = pictures.splits[self.order]
        new_hash = np.concatenate(([True], hashes[1:] != hashes[:-1]))
        new_content = new_hash | np.concatenate(([True], contents[1:] != contents[:-1]))
        self.first_of_content = np.flatnonzero(new_content)
        self.first_of_hash = np.flatnonzero(new_hash[self.first_of_content])
        self.hashes = hashes[new_hash]
        self.present = np.zeros((len(self.first_of_content), splits), np.int32)
        np.add.at(self.present, (np.cumsum(new_content) - 1, self.splits), 1)

    def contents_of(self, group: int) -> range:
        """The contents of one hash."""
        stop = self.first_of_hash[group + 1] if group + 1 < len(self.first_of_hash) else len(self.first_of_content)
        return range(int(self.first_of_hash[group]), int(stop))

    def picture(self, content: int, split: int) -> int:
        """The row of the first picture of a content in a split that has it."""
        before = int((self.present[content, :split]).sum())
        return int(self.order[self.first_of_content[content] + before])


def count_near(pictures: Pictures, splits: int, distance: int) -> Near:
    """What looks alike among some pictures of so many splits; hashes that differ in `distance` bits or fewer do."""
    if not len(pictures.hashes):
        return Near()
    grouped = _Grouped(pictures, splits)
    here = np.add.reduceat((grouped.present > 0).astype(np.int32), grouped.first_of_hash)  # contents, by hash and split
    sizes = np.diff(np.append(grouped.first_of_hash, len(grouped.first_of_content)))
    near = np.zeros(here.shape, bool)  # by hash and split: whether it has pictures of another hash that is near
    found = Near(number_of_pairs=int((sizes * (sizes - 1) // 2).sum()))
    chosen = _Chosen(grouped, here > 0)
    chosen.add(np.flatnonzero(sizes > 1))
    for one, other, apart in near_pairs(grouped.hashes, distance):
        found.number_of_pairs += int((sizes[one] * sizes[other]).sum())
        for part in range(splits):
            near[one[here[other, part] > 0], part] = True
            near[other[here[one, part] > 0], part] = True
        chosen.add(one, other, apart)
    found.pairs = chosen.pairs()
    group_of = np.repeat(np.arange(len(sizes)), sizes)
    # Of each content, by split: whether another content that looks like it is there
    others = near[group_of] | (here[group_of] - (grouped.present > 0) > 0)
    for split in range(splits):
        mine = grouped.present[:, split]
        _put(found.within, split, mine[others[:, split]])
        elsewhere = np.zeros(len(mine), bool)
        for there in range(splits):
            if there != split:
                _put(found.across, (split, there), mine[others[:, there]])
                elsewhere |= others[:, there]
        _put(found.elsewhere, split, mine[elsewhere])
    return found


def _put(counter: "Counter[Key]", key: Key, examples: NDArray[np.int32]) -> None:
    if number := int(examples.sum()):
        counter[key] = number


class _Chosen:
    """The pairs that are listed: at most SHOWN of any number."""

    def __init__(self, grouped: _Grouped, here: Flags) -> None:
        self._grouped, self._here = grouped, here
        self._alone = here.sum(axis=1) == 1
        self._first = here.argmax(axis=1)
        self._kept: list[tuple[bool, int, int, int, int, int]] = []

    def add(self, one: Numbers, other: Numbers | None = None, apart: NDArray[np.uint8] | None = None) -> None:
        """Take pairs of hashes, or of each of some hashes two contents."""
        if not len(one):
            return
        other = one if other is None else other
        apart = np.zeros(len(one), np.uint8) if apart is None else apart
        swap = self._grouped.hashes[one] > self._grouped.hashes[other]
        one, other = np.where(swap, other, one), np.where(swap, one, other)
        within = self._alone[one] & self._alone[other] & (self._first[one] == self._first[other])
        low, high = self._grouped.hashes[one], self._grouped.hashes[other]
        best = np.lexsort((high, low, apart, within))[:SHOWN]
        columns = (column[best].tolist() for column in (within, apart, low, high, one, other))
        self._kept = sorted([*self._kept, *zip(*columns, strict=True)])[:SHOWN]

    def pairs(self) -> list[Two]:
        """Those chosen, each with the pictures that stand for it."""
        return [
            Two(within, apart, low, high, *self._two(one, other)) for within, apart, low, high, one, other in self._kept
        ]

    def _two(self, one: int, other: int) -> tuple[int, int]:
        """The rows of two pictures of different contents, of two splits if there are such."""
        mine = self._contents(one)
        theirs = self._contents(other)
        ranked = (
            (split == split_of_other, split, split_of_other, content, content_of_other)
            for split, content in mine
            for split_of_other, content_of_other in theirs
            if content != content_of_other
        )
        _, split, split_of_other, content, content_of_other = min(ranked)
        return self._grouped.picture(content, split), self._grouped.picture(content_of_other, split_of_other)

    def _contents(self, group: int) -> list[tuple[int, int]]:
        """(split, content): of each split the first two contents of a hash; one of two is always another than its
        twin."""
        contents = self._grouped.contents_of(group)
        present = self._grouped.present[contents.start : contents.stop] > 0
        return [
            (split, contents.start + int(row))
            for split in range(present.shape[1])
            for row in np.flatnonzero(present[:, split])[:2]
        ]
