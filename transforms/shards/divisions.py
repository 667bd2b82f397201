"""Histograms of keys, and the division of their records into shards."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from shardmill.transforms.shards import balance

# 65,536 bins: 10^9 keys leave 15,000 in a bin, and a full histogram, of which a runner holds copies, is 0.8 MB
BIN_BITS = 16
_SHIFT = np.uint64(64 - BIN_BITS)  # of a key of 64 bits to its bin
_MANY = 1 << 12  # keys, or bins, from which adding them up in place is faster than sorting them


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Counts of 64-bit keys by their highest bits."""

    bins: np.ndarray  # prefixes that occur, ascending: uint32, shape (b,)
    counts: np.ndarray  # keys in each bin: int64, shape (b,)
    size_bytes: int  # total size of the records

    @property
    def total(self) -> int:
        """The number of keys."""
        return int(self.counts.sum())

    def locate(self, ranks: Sequence[int]) -> list[tuple[int, int, int]]:
        """Return (bin, rank within the bin, keys in the bin) for each rank from 0 to total - 1."""
        ends = np.cumsum(self.counts)
        index = np.searchsorted(ends, ranks, side="right")
        starts = ends[index] - self.counts[index]
        return [
            (int(self.bins[i]), int(rank - start), int(self.counts[i]))
            for i, rank, start in zip(index, ranks, starts, strict=True)
        ]


def make_histogram(keys: np.ndarray, sizes: np.ndarray) -> Histogram:
    """Return the histogram of `keys`, uint64 of shape (n,), for records of `sizes` bytes, int64 of shape (n,)."""
    if len(keys) > _MANY:
        return _from_all_bins(np.bincount(compute_bins(keys), minlength=1 << BIN_BITS), int(sizes.sum()))
    bins, counts = np.unique(compute_bins(keys), return_counts=True)
    return Histogram(bins, counts.astype(np.int64), int(sizes.sum()))


def compute_bins(keys: np.ndarray) -> np.ndarray:
    """Return the histogram bin of each key: uint32, shape (n,)."""
    return (keys >> _SHIFT).astype(np.uint32)


def merge_histograms(histograms: Iterable[Histogram]) -> Histogram:
    """Merge histograms; associative and commutative."""
    parts = list(histograms)
    if not parts:
        return Histogram(np.empty(0, np.uint32), np.empty(0, np.int64), 0)
    size_bytes = sum(part.size_bytes for part in parts)
    if sum(len(part.bins) for part in parts) > _MANY:
        every = np.zeros(1 << BIN_BITS, np.int64)
        for part in parts:
            every[part.bins] += part.counts
        return _from_all_bins(every, size_bytes)
    bins, inverse = np.unique(np.concatenate([part.bins for part in parts]), return_inverse=True)
    counts = np.zeros(len(bins), np.int64)
    np.add.at(counts, inverse, np.concatenate([part.counts for part in parts]))
    return Histogram(bins, counts, size_bytes)


def _from_all_bins(counts: np.ndarray, size_bytes: int) -> Histogram:
    bins = np.flatnonzero(counts).astype(np.uint32)
    return Histogram(bins, counts[bins], size_bytes)


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """The first (key, tie) of every part but the first, ascending: uint64 of shape (parts - 1,)."""

    keys: np.ndarray
    ties: np.ndarray

    def find_parts(self, keys: np.ndarray, ties: np.ndarray) -> np.ndarray:
        """Return the number of the part that each (key, tie) falls in: int64, shape (n,)."""
        low = np.searchsorted(self.keys, keys, side="left")
        high = np.searchsorted(self.keys, keys, side="right")
        part = low.copy()
        on_cut = np.flatnonzero(low != high)  # the key equals a cut's: its tie decides
        for start, stop in set(zip(low[on_cut].tolist(), high[on_cut].tolist(), strict=True)):
            rows = on_cut[low[on_cut] == start]
            part[rows] += np.searchsorted(self.ties[start:stop], ties[rows], side="right")
        return part

    def bounds(self, keys: np.ndarray, ties: np.ndarray) -> np.ndarray:
        """Return the first row of each part of sorted (key, tie), then the number of rows: int64, (parts + 1,)."""
        low = np.searchsorted(keys, self.keys, side="left")
        high = np.searchsorted(keys, self.keys, side="right")
        for part in np.flatnonzero(low < high).tolist():  # a key equals the cut's: its tie decides
            low[part] += np.searchsorted(ties[low[part] : high[part]], self.ties[part], side="left")
        return np.concatenate(([0], low, [len(keys)]))


def pick_keys(keys: np.ndarray, counts: np.ndarray, ranks: Sequence[int]) -> list[tuple[int, int]]:
    """Return the key at each rank and its rank among equal keys; each key counts `counts` times."""
    order = np.argsort(keys, kind="stable")
    keys, ends = keys[order], np.cumsum(counts[order])
    first = np.flatnonzero(np.diff(keys, prepend=~keys[:1]))  # a key may come from several runs
    last = np.append(first[1:], len(keys)) - 1
    index = np.searchsorted(ends[last], ranks, side="right")
    starts = ends[first] - counts[order][first]
    return [(int(keys[first[i]]), int(rank - starts[i])) for i, rank in zip(index, ranks, strict=True)]


def to_cuts(pairs: Iterable[tuple[int, int]]) -> Cuts:
    """Make Cuts from (key, tie) pairs in any order."""
    ordered = sorted(pairs)
    return Cuts(np.array([key for key, _ in ordered], np.uint64), np.array([tie for _, tie in ordered], np.uint64))


# The keys of a batch or a run by group: group -> (keys, ties, sizes), arrays of shape (n,).
Grouped = dict[Any, tuple[np.ndarray, np.ndarray, np.ndarray]]


@dataclass(frozen=True, slots=True)
class ShardShare:
    """A shard's part of records that are cut into examples, of which one may begin in the shard before."""

    skip: int  # units of its first record that belong to the shard before
    examples: int  # number of its examples


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """The division of one group of records, such as a split, into parts, such as shards."""

    examples: int
    cuts: Cuts  # keys at which parts begin
    shares: tuple[ShardShare, ...] = ()  # each part's share of records that are cut; () if records are whole
    notices: tuple[str, ...] = ()  # about all groups, if their parts are not as even as they should be
    shared: int = 0  # if counted, keys that exactly one earlier group has too; the sum is those of several groups

    @property
    def parts(self) -> int:
        """The number of parts; 0 for an empty group."""
        return len(self.cuts.keys) + 1 if self.examples else 0


Divisions = dict[Any, Division]


def divide(histograms: dict[Any, Histogram], picked: Iterable[tuple[Any, tuple[int, int]]]) -> Divisions:
    """Return how groups of records are divided, given histograms of their keys and each part's first (key, tie)."""
    cuts: dict[Any, list[tuple[int, int]]] = {group: [] for group in histograms}
    for group, pair in picked:
        cuts[group].append(pair)
    return {group: Division(counted.total, to_cuts(cuts[group])) for group, counted in histograms.items()}


def divide_by_keys(keys: np.ndarray, rows: np.ndarray, sizes: np.ndarray, parts: int, by_bytes: bool) -> Division:
    """Divide one group into parts of whole keys, which may be repeated, as even in keys or bytes as these allow."""
    every, which = np.unique(keys, return_inverse=True)
    parts = min(parts, len(every))
    weights = np.bincount(which, sizes, len(every)).astype(np.int64)
    ranks = balance.byte_cuts(weights, parts) if by_bytes else balance.example_cuts(len(every), parts)
    cuts = to_cuts((key, 0) for key in every[np.array(ranks, np.int64)].tolist())
    return Division(len(every), cuts)


DISPUTED = None  # the group of the keys that several groups have


def count_keys(read: Callable[[Any], Grouped], keyed: Any) -> Grouped:
    """Read the distinct keys of a batch or run by group, with the number of records and the bytes of each key."""
    found: Grouped = {}
    for group, (keys, _, sizes) in read(keyed).items():
        order = np.argsort(keys, kind="stable")
        first = np.flatnonzero(np.diff(keys[order], prepend=~keys[order[:1]]))
        counts = np.diff(np.append(first, len(keys)))
        found[group] = keys[order[first]], counts.astype(np.uint64), np.add.reduceat(sizes[order], first)
    return found


def gather_keys(grouped: Iterable[Grouped]) -> Grouped:
    """Return the keys of all batches or runs by group, in any order."""
    parts: dict[Any, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
    for groups in grouped:
        for group, arrays in groups.items():
            parts.setdefault(group, []).append(arrays)
    each = ((group, map(np.concatenate, zip(*arrays, strict=True))) for group, arrays in parts.items())
    return {group: (keys, ties, sizes) for group, (keys, ties, sizes) in each}


def divide_distinct_keys(ranks_of: "RanksOf", gathered: Grouped) -> Divisions:
    """Cut each group at ranks of its distinct keys; keys of several groups are left out, and are those of DISPUTED."""
    distinct = {group: np.unique(keys) for group, (keys, *_) in gathered.items()}
    every, counts = np.unique(np.concatenate([*distinct.values(), np.empty(0, np.uint64)]), return_counts=True)
    disputed = every[counts > 1]
    divisions = {DISPUTED: Division(len(disputed), to_cuts((key, 0) for key in disputed.tolist()))}
    for group, keys in distinct.items():
        kept = np.setdiff1d(keys, disputed, assume_unique=True)
        ranks = [rank for rank in ranks_of(group, len(kept), 0) if rank < len(kept)]
        cuts = to_cuts((key, 0) for key in kept[np.array(ranks, np.int64)].tolist())
        divisions[group] = Division(len(kept), cuts)
    return divisions


def divide_by_bytes(keys: np.ndarray, ties: np.ndarray, sizes: np.ndarray, parts: int) -> Division:
    """Divide one group into `parts` by bytes, given all its keys, ties and sizes of shape (n,)."""
    order = np.lexsort((ties, keys))
    at = order[np.array(balance.byte_cuts(sizes[order], parts), np.int64)]
    cuts = to_cuts(zip(keys[at].tolist(), ties[at].tolist(), strict=True))
    return Division(len(sizes), cuts)


def divide_into_parts(
    parts_of: Callable[[Any, int, int], int],
    gathered: Grouped,
    bytes_of: Mapping[Any, int] | None = None,
    *,
    divide: Callable[[np.ndarray, np.ndarray, np.ndarray, int], Division] = divide_by_bytes,
    counts_shared: bool = False,
) -> Divisions:
    """Divide groups into parts that differ by at most one record's bytes, or as `divide` does.

    `parts_of` returns the number of parts, given a group, its examples and its bytes; `bytes_of` has its bytes if they
    are not the sum of sizes. With `counts_shared`, keys that several groups have are counted.
    """
    divisions = {}
    for group, (keys, ties, sizes) in gathered.items():
        size_bytes = int(sizes.sum()) if bytes_of is None else bytes_of[group]
        divisions[group] = divide(keys, ties, sizes, parts_of(group, len(keys), size_bytes))
    if not counts_shared:
        return divisions
    shared = balance.count_shared_keys([keys for keys, *_ in gathered.values()])
    return {group: replace(divisions[group], shared=count) for group, count in zip(gathered, shared, strict=True)}


BinRanks = dict[Any, dict[int, list[int]]]  # group -> bin, or key -> ranks in it at which the group is cut
RanksOf = Callable[[Any, int, int], list[int]]  # (group, examples, size in bytes) -> ranks at which it is cut
GATHERED_KEYS = 1 << 20  # of some bins, gathered together: 20 MB with their ties and bins
KEYS_AT_ONCE = 1 << 17  # of these, in one element


class CutBin(NamedTuple):
    """A histogram bin in which a shard begins."""

    group: Any  # group of the keys
    key_bin: int  # bin in the group's histogram
    ranks: tuple[int, ...]  # ranks within the bin at which the group is cut


@dataclass(frozen=True, slots=True)
class LocatedBins:
    """The histogram bins in which shards begin, of all groups."""

    small_bins: tuple[tuple[CutBin, ...], ...] = ()  # bins with few keys, batched for gathering, in a fixed order
    large_bins: BinRanks = field(default_factory=dict)  # the other bins, as group -> bin -> ranks within the bin


class FoundKeys(NamedTuple):
    """The keys of one batch or run that are in histogram bins in which shards begin."""

    bins: tuple[CutBin, ...]  # the batched bins
    bin_indices: np.ndarray  # index of each key's bin: uint32, shape (n,)
    keys: np.ndarray  # uint64, shape (n,)
    ties: np.ndarray  # uint64, shape (n,)


def locate(histograms: dict[Any, Histogram], ranks_of: RanksOf, most_keys: int) -> LocatedBins:
    """Return the histogram bins in which shards begin, of at most `most_keys` keys or more."""
    few: list[tuple[CutBin, int]] = []
    many: BinRanks = {}
    for group, counted in histograms.items():
        ranks = [rank for rank in ranks_of(group, counted.total, counted.size_bytes) if rank < counted.total]
        for cut, keys in _find_cut_bins(group, counted, ranks):
            if keys <= most_keys:
                few.append((cut, keys))
            else:
                many.setdefault(group, {})[cut.key_bin] = list(cut.ranks)
    return LocatedBins(tuple(_batch_bins(few)), many)


def locate_ties(histograms: dict[Any, Histogram], repeated: BinRanks) -> LocatedBins:
    """Return the bins of tie-breakers in which shards begin, by (group, key), like `locate`."""
    bins = (_find_cut_bins(name, counted, repeated[name[0]][name[1]]) for name, counted in histograms.items())
    return LocatedBins(tuple(_batch_bins(chain.from_iterable(bins))))


def _find_cut_bins(group: Any, counted: Histogram, ranks: list[int]) -> Iterator[tuple[CutBin, int]]:
    found: dict[int, tuple[list[int], int]] = {}
    for key_bin, rank, keys in counted.locate(ranks) if ranks else []:
        found.setdefault(key_bin, ([], keys))[0].append(rank)
    return ((CutBin(group, key_bin, tuple(ranks)), keys) for key_bin, (ranks, keys) in found.items())


def _batch_bins(bins: Iterable[tuple[CutBin, int]]) -> Iterator[tuple[CutBin, ...]]:
    """Yield histogram bins in a fixed order, in batches of one bin or of at most GATHERED_KEYS keys."""
    part: list[CutBin] = []
    size = 0
    for cut, keys in sorted(bins, key=lambda found: (repr(found[0].group), found[0].key_bin)):
        if part and size + keys > GATHERED_KEYS:
            yield tuple(part)
            part, size = [], 0
        part.append(cut)
        size += keys
    if part:
        yield tuple(part)


def pick_cuts(parts: Iterable[FoundKeys]) -> list[tuple[Any, tuple[int, int]]]:
    """Return the first (key, tie) of each shard that begins in one batch of bins, given all keys in these bins."""
    bins, *columns = zip(*parts, strict=True)
    which, keys, ties = map(np.concatenate, columns)
    ranks = [(index, rank) for index, cut in enumerate(bins[0]) for rank in cut.ranks]
    order = np.lexsort((ties, keys, which))
    wanted = np.array(ranks, np.int64).reshape(-1, 2)
    order = order[np.searchsorted(which[order], wanted[:, 0]) + wanted[:, 1]]
    found = zip(ranks, keys[order].tolist(), ties[order].tolist(), strict=True)
    return [(bins[0][index].group, (key, tie)) for (index, _), key, tie in found]


def count_repeats(grouped: Grouped, located: LocatedBins) -> list[Any]:
    """Count the keys of histogram bins that hold too many to be gathered: ((group, bin, ranks), (keys, counts))."""
    found: list[Any] = []
    for name, bins_of_group in located.large_bins.items():
        keys = grouped[name][0] if name in grouped else np.empty(0, np.uint64)
        bins = compute_bins(keys)
        for key_bin, ranks in bins_of_group.items():
            if len(inside := keys[bins == np.uint32(key_bin)]):
                found.append(((name, key_bin, tuple(ranks)), np.unique(inside, return_counts=True)))
    return found


def tie_histograms(grouped: Grouped, repeated: BinRanks) -> list[dict[Any, Histogram]]:
    """Return histograms of the tie-breakers of keys that two shards share, by (group, key)."""
    found = _select_ties(grouped, repeated)
    return [{name: make_histogram(ties, np.zeros(len(ties), np.int64)) for name, ties in found.items()}]


def select_ties_in_bins(grouped: Grouped, located: LocatedBins) -> list[tuple[int, FoundKeys]]:
    """Return, of keys that two shards share, the tie-breakers in the histogram bins to gather."""
    keys: dict[Any, set[int]] = {}
    for name, key in (cut.group for part in located.small_bins for cut in part):
        keys.setdefault(name, set()).add(key)
    return select_keys_in_bins({name: (ties, ties) for name, ties in _select_ties(grouped, keys).items()}, located)


def _select_ties(grouped: Grouped, keys_of: Mapping[Any, Iterable[int]]) -> dict[Any, np.ndarray]:
    return {
        (name, key): ties[keys == np.uint64(key)]
        for name, (keys, ties, _) in grouped.items()
        for key in keys_of.get(name, ())
    }


def select_keys_in_bins(
    grouped: Mapping[Any, tuple[np.ndarray, ...]], located: LocatedBins
) -> list[tuple[int, FoundKeys]]:
    """Return (index of the batch of bins, keys found) for the histogram bins to gather, given each group's keys."""
    cuts = [cut for part in located.small_bins for cut in part]
    starts = np.cumsum([0, *map(len, located.small_bins)])
    of_group: dict[Any, list[int]] = {}
    for index, cut in enumerate(cuts):
        of_group.setdefault(cut.group, []).append(index)
    parts = []
    for name, (keys, ties, *_) in grouped.items():
        if name in of_group and len(keys):
            wanted = np.array([cuts[index].key_bin for index in of_group[name]], np.uint32)
            bins = compute_bins(keys)
            at = np.minimum(np.searchsorted(wanted, bins), len(wanted) - 1)
            rows = np.flatnonzero(wanted[at] == bins)
            parts.append((np.array(of_group[name])[at[rows]], keys[rows], ties[rows]))
    if not parts:
        return []
    cut_of, keys, ties = (np.concatenate(column) for column in zip(*parts, strict=True))
    number_of = np.searchsorted(starts, cut_of, side="right") - 1
    order = np.argsort(number_of, kind="stable")
    bounds = np.searchsorted(number_of[order], np.arange(len(starts)))
    return [
        (number, FoundKeys(part, (cut_of[rows] - starts[number]).astype(np.uint32), keys[rows], ties[rows]))
        for number, part in enumerate(located.small_bins)
        for start in range(bounds[number], bounds[number + 1], KEYS_AT_ONCE)
        for rows in (order[start : min(start + KEYS_AT_ONCE, bounds[number + 1])],)
    ]
