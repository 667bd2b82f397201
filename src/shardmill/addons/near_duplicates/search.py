"""Find images that look alike, by perceptual hashes."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from shardmill.addons.near_duplicates.stats import NearDuplicates, NearPair
from shardmill.quality.duplicates import MAX_PAIRS, LocatedExample
from shardmill.transforms.statistics.contents import Hashes, combine_with_lines, hash_file_names
from shardmill.transforms.statistics.duplicates import MAX_READERS, member_order, nest_by_split, set_positive
from shardmill.transforms.statistics.observations import ObservedShard

FLAT, UNDECODABLE = "flat", "undecodable"  # in place of a hash of 16 hexadecimal digits

Rows = NDArray[np.int64]
MAX_DISTANCE = 4  # bits, at most, in which hashes of pictures that look alike differ
_BITS = 64
_MIN_BANDS = 6  # at least: of two, 22 bits
_ROW_BITS = 40  # of a row's number, in addition to the 22 of its key


def bit_distances(one: Hashes, other: Hashes) -> NDArray[np.uint8]:
    """Return the number of differing bits of each two hashes: shape (n,)."""
    bits = one ^ other
    for shift, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        low = np.uint64(mask)
        bits = (bits & low) + ((bits >> np.uint64(shift)) & low)
    return ((bits * np.uint64(0x0101010101010101)) >> np.uint64(56)).astype(np.uint8)


def find_near_pairs(hashes: Hashes, distance: int = MAX_DISTANCE) -> Iterator[tuple[Rows, Rows, NDArray[np.uint8]]]:
    """Yield all pairs of distinct hashes that differ in `distance` bits or fewer, each pair once, in batches.

    Yields:
        Rows of the first, rows of the second, and their distances: shape (n,) each.
    """
    number = max(distance + 2, _MIN_BANDS)
    edges = [round(band * _BITS / number) for band in range(number + 1)]
    bands = list(pairwise(edges))
    for first, second in combinations(range(len(bands)), 2):
        low, high = bands[second]
        keys = (_extract_band(hashes, bands[first]) << np.uint64(high - low)) | _extract_band(hashes, bands[second])
        # Key and row in one number: sorted as they are, in a third of the time that an order of keys takes
        keys = (keys << np.uint64(_ROW_BITS)) | np.arange(len(hashes), dtype=np.uint64)
        keys.sort()
        order = (keys & np.uint64((1 << _ROW_BITS) - 1)).astype(np.int64)
        ordered, keys = hashes[order], keys >> np.uint64(_ROW_BITS)
        rows, step = np.flatnonzero(keys[1:] == keys[:-1]), 1
        while len(rows):
            one, other = ordered[rows], ordered[rows + step]
            apart = bit_distances(one, other)
            near = np.flatnonzero(apart <= distance)
            near = near[_is_first_match(one[near] ^ other[near], bands, first, second)]
            if len(near):
                yield order[rows[near]], order[rows[near] + step], apart[near]
            step += 1
            rows = rows[: np.searchsorted(rows, len(order) - step)]
            rows = rows[keys[rows] == keys[rows + step]]


def _extract_band(hashes: Hashes, band: tuple[int, int]) -> Hashes:
    start, stop = band
    return (hashes >> np.uint64(start)) & np.uint64((1 << (stop - start)) - 1)


def _is_first_match(differing_bits: Hashes, bands: list[tuple[int, int]], first: int, second: int) -> NDArray[np.bool_]:
    found = np.ones(len(differing_bits), bool)
    for number, band in enumerate(bands[:second]):
        if number != first:
            found &= _extract_band(differing_bits, band) != 0
    return found


Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]


class ComparedImages(NamedTuple):
    """Images to compare: columns of shape (n,)."""

    hashes: Hashes  # perceptual
    contents: Hashes  # hashes of contents
    positions: Hashes
    splits: Numbers


class SimilarPair(NamedTuple):
    """A pair of images by their rows, from two splits if possible. Such pairs sort first, then nearer ones."""

    is_within_split: bool
    distance: int
    one_hash: int
    other_hash: int
    one: int
    other: int


@dataclass(slots=True)
class SimilarCounts:
    """Counts by split number, see shardmill.addons.near_duplicates.stats.NearDuplicates."""

    number_of_pairs: int = 0
    within_splits: Counter[int] = field(default_factory=Counter)
    across_splits: Counter[tuple[int, int]] = field(default_factory=Counter)
    in_other_splits: Counter[int] = field(default_factory=Counter)
    pairs: list[SimilarPair] = field(default_factory=list)


class _GroupedImages:
    def __init__(self, images: ComparedImages, splits: int) -> None:
        self.order = np.lexsort((images.positions, images.splits, images.contents, images.hashes))  # row of each image
        hashes, contents = images.hashes[self.order], images.contents[self.order]
        splits_in_order = images.splits[self.order]
        new_hash = np.concatenate(([True], hashes[1:] != hashes[:-1]))
        new_content = new_hash | np.concatenate(([True], contents[1:] != contents[:-1]))
        self.first_of_content = np.flatnonzero(new_content)  # first image of each content
        self.first_of_hash = np.flatnonzero(new_hash[self.first_of_content])  # first content of each hash
        self.hashes = hashes[new_hash]
        self.counts = np.zeros((len(self.first_of_content), splits), np.int32)  # images, by content and split
        np.add.at(self.counts, (np.cumsum(new_content) - 1, splits_in_order), 1)

    def contents_of(self, group: int) -> range:
        stop = self.first_of_hash[group + 1] if group + 1 < len(self.first_of_hash) else len(self.first_of_content)
        return range(int(self.first_of_hash[group]), int(stop))

    def first_image(self, content: int, split: int) -> int:
        """Return the row of the first image of a content in a split that has it."""
        before = int((self.counts[content, :split]).sum())
        return int(self.order[self.first_of_content[content] + before])


def count_similar(images: ComparedImages, splits: int, distance: int) -> SimilarCounts:
    """Count images that look alike: those whose hashes differ in `distance` bits or fewer, in `splits` splits."""
    if not len(images.hashes):
        return SimilarCounts()
    grouped = _GroupedImages(images, splits)
    here = np.add.reduceat((grouped.counts > 0).astype(np.int32), grouped.first_of_hash)  # contents, by hash and split
    sizes = np.diff(np.append(grouped.first_of_hash, len(grouped.first_of_content)))
    near = np.zeros(here.shape, bool)  # by hash and split: whether it has pictures of another hash that is near
    found = SimilarCounts(number_of_pairs=int((sizes * (sizes - 1) // 2).sum()))
    chosen = _ListedPairs(grouped, here > 0)
    chosen.add(np.flatnonzero(sizes > 1))
    for one, other, apart in find_near_pairs(grouped.hashes, distance):
        found.number_of_pairs += int((sizes[one] * sizes[other]).sum())
        for part in range(splits):
            near[one[here[other, part] > 0], part] = True
            near[other[here[one, part] > 0], part] = True
        chosen.add(one, other, apart)
    found.pairs = chosen.pairs()
    group_of = np.repeat(np.arange(len(sizes)), sizes)
    # Of each content, by split: whether another content that looks like it is there
    others = near[group_of] | (here[group_of] - (grouped.counts > 0) > 0)
    for split in range(splits):
        mine = grouped.counts[:, split]
        set_positive(found.within_splits, split, int(mine[others[:, split]].sum()))
        elsewhere = np.zeros(len(mine), bool)
        for there in range(splits):
            if there != split:
                set_positive(found.across_splits, (split, there), int(mine[others[:, there]].sum()))
                elsewhere |= others[:, there]
        set_positive(found.in_other_splits, split, int(mine[elsewhere].sum()))
    return found


class _ListedPairs:
    """The pairs of similar images to list in stats.json, at most SHOWN."""

    def __init__(self, grouped: _GroupedImages, here: Flags) -> None:
        self._grouped, self._here = grouped, here
        self._alone = here.sum(axis=1) == 1
        self._first = here.argmax(axis=1)
        self._kept: list[tuple[bool, int, int, int, int, int]] = []

    def add(self, one: Numbers, other: Numbers | None = None, distances: NDArray[np.uint8] | None = None) -> None:
        """Add pairs of hashes; without `other`, pairs of two contents with the same hash."""
        if not len(one):
            return
        other = one if other is None else other
        distances = np.zeros(len(one), np.uint8) if distances is None else distances
        swap = self._grouped.hashes[one] > self._grouped.hashes[other]
        one, other = np.where(swap, other, one), np.where(swap, one, other)
        within = self._alone[one] & self._alone[other] & (self._first[one] == self._first[other])
        low, high = self._grouped.hashes[one], self._grouped.hashes[other]
        best = np.lexsort((high, low, distances, within))[:MAX_PAIRS]
        columns = (column[best].tolist() for column in (within, distances, low, high, one, other))
        self._kept = sorted([*self._kept, *zip(*columns, strict=True)])[:MAX_PAIRS]

    def pairs(self) -> list[SimilarPair]:
        """Return the chosen pairs, each with two images that represent it."""
        return [
            SimilarPair(within, apart, low, high, *self._choose_images(one, other))
            for within, apart, low, high, one, other in self._kept
        ]

    def _choose_images(self, one: int, other: int) -> tuple[int, int]:
        mine = self._find_representatives(one)
        theirs = self._find_representatives(other)
        ranked = (
            (split == split_of_other, split, split_of_other, content, content_of_other)
            for split, content in mine
            for split_of_other, content_of_other in theirs
            if content != content_of_other
        )
        _, split, split_of_other, content, content_of_other = min(ranked)
        return self._grouped.first_image(content, split), self._grouped.first_image(content_of_other, split_of_other)

    def _find_representatives(self, group: int) -> list[tuple[int, int]]:
        """Return (split, content) of the first two contents of a hash in each split, of which one at least differs from
        any given content.
        """
        contents = self._grouped.contents_of(group)
        present = self._grouped.counts[contents.start : contents.stop] > 0
        return [
            (split, contents.start + int(row))
            for split in range(present.shape[1])
            for row in np.flatnonzero(present[:, split])[:2]
        ]


@dataclass(frozen=True, slots=True, eq=False)
class _HashedShard:
    source: ObservedShard
    rows: Rows  # of the shard's observations
    images: ComparedImages
    counts: Counter[str]  # images without a hash, by reason

    @classmethod
    def read(cls, source: ObservedShard, split: int) -> "_HashedShard":
        table = source.read(["text", "digest", "name", "line"])
        texts = table["text"].to_pylist()
        rows = np.flatnonzero([text not in (FLAT, UNDECODABLE) for text in texts])
        hashed = table.take(rows)
        contents = np.frombuffer(b"".join(digest[:8] for digest in hashed["digest"].to_pylist()), ">u8")
        lines = pc.fill_null(pc.add(hashed["line"], 1), 0).to_numpy()
        images = ComparedImages(
            np.array([int(text, 16) for text in hashed["text"].to_pylist()], np.uint64),
            contents.astype(np.uint64),
            combine_with_lines(hash_file_names(hashed["name"].to_pylist()), lines),
            np.full(len(rows), split),
        )
        return cls(source, rows, images, Counter(texts))


def find_near_duplicates(method: str, shards: Iterable[ObservedShard], distance: int = MAX_DISTANCE) -> NearDuplicates:
    """Find images that look alike: those whose hashes, made by `method`, differ in `distance` bits or fewer."""
    known = sorted(shards, key=lambda shard: (shard.split, shard.shard))
    if not known:
        return NearDuplicates(method, distance)
    splits = sorted({shard.split for shard in known})
    with ThreadPoolExecutor(MAX_READERS, "shardmill-looks") as pool:
        hashed = list(pool.map(_HashedShard.read, known, (splits.index(shard.split) for shard in known)))
        images = ComparedImages(*map(np.concatenate, zip(*(shard.images for shard in hashed), strict=True)))
        found = count_similar(images, len(splits), distance)
        seen = _locate_images({row for pair in found.pairs for row in (pair.one, pair.other)}, hashed, pool.map)
    pairs = []
    for two in found.pairs:
        one, other = sorted((seen[two.one], seen[two.other]), key=member_order)
        rank = (two.is_within_split, two.distance, member_order(one), member_order(other))
        pairs.append((rank, NearPair(one, other, two.distance)))
    return NearDuplicates(
        method,
        distance,
        compared=len(images.hashes),
        flat=sum(shard.counts[FLAT] for shard in hashed),
        undecodable=sum(shard.counts[UNDECODABLE] for shard in hashed),
        number_of_pairs=found.number_of_pairs,
        within={splits[split]: number for split, number in sorted(found.within_splits.items())},
        across=nest_by_split(
            {(splits[split], splits[other]): number for (split, other), number in found.across_splits.items()}
        ),
        elsewhere={splits[split]: number for split, number in sorted(found.in_other_splits.items())},
        pairs=tuple(pair for _, pair in sorted(pairs, key=itemgetter(0))),
    )


def _locate_images(
    rows: Iterable[int], shards: Sequence[_HashedShard], map_: Callable[..., Iterable[dict[int, LocatedExample]]]
) -> dict[int, LocatedExample]:
    starts = np.cumsum([0, *(len(shard.rows) for shard in shards)])
    groups: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        groups[int(np.searchsorted(starts, row, side="right")) - 1].append(row)

    def locate(owner: int, mine: list[int]) -> dict[int, LocatedExample]:
        source, rows = shards[owner].source, shards[owner].rows[np.array(mine) - starts[owner]]
        found = source.read(["name", "line", "offset", "length"]).take(rows).to_pylist()
        return {row: LocatedExample(source.split, shard=source.shard, **image) for row, image in zip(mine, found)}

    return {row: image for images in map_(locate, groups, groups.values()) for row, image in images.items()}
