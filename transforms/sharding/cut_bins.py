"""The bins of a histogram that hold a cut, and the keys in them: the pure twins of what FindExampleCuts does on
workers.

Bins are gathered by their keys, together as many as have some megabytes of these: a runner's cost is per element, and
a table of millions of rows that becomes thousands of shards has thousands of bins of a few keys each.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from shardmill.transforms.sharding.divisions import Grouped
from shardmill.transforms.sharding.key_histogram import Histogram, bin_of, histogram, pick_in_bins

BinRanks = dict[Any, dict[int, list[int]]]  # group -> bin, or key -> ranks in it at which the group is cut
RanksOf = Callable[[Any, int, int], list[int]]  # (group, examples, size in bytes) -> ranks at which it is cut
GATHERED_KEYS = 1 << 20  # of some bins, gathered together: 20 MB with their ties and bins
_KEYS_AT_ONCE = 1 << 17  # of these, in one element


class CutBin(NamedTuple):
    """A bin that is cut.

    Attributes:
      group: whose keys it has.
      key_bin: of the group's histogram.
      ranks: in the bin, at which the group is cut.
    """

    group: Any
    key_bin: int
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Located:
    """Where groups are cut.

    Attributes:
      few: bins whose keys can be gathered, those together that are: the same ones, in the same order, wherever this is
        found.
      many: of the others, group -> bin -> ranks within the bin.
    """

    few: tuple[tuple[CutBin, ...], ...] = ()
    many: BinRanks = field(default_factory=dict)


class FoundKeys(NamedTuple):
    """What a batch or a run has of the keys in bins that are gathered together.

    Attributes:
      bins: these.
      which: of each key, the index of its bin: uint32, shape (n,).
      keys, ties: uint64, shape (n,).
    """

    bins: tuple[CutBin, ...]
    which: np.ndarray
    keys: np.ndarray
    ties: np.ndarray


def locate(histograms: dict[Any, Histogram], ranks_of: RanksOf, most_keys: int) -> Located:
    """Where each group is cut; a cut at the group's end cuts nothing off. A bin of more than `most_keys` is not
    gathered."""
    few: list[tuple[CutBin, int]] = []
    many: BinRanks = {}
    for group, counted in histograms.items():
        ranks = [rank for rank in ranks_of(group, counted.total, counted.size_bytes) if rank < counted.total]
        for cut, keys in _cut_bins(group, counted, ranks):
            if keys <= most_keys:
                few.append((cut, keys))
            else:
                many.setdefault(group, {})[cut.key_bin] = list(cut.ranks)
    return Located(tuple(_gathered(few)), many)


def locate_ties(histograms: dict[Any, Histogram], repeated: BinRanks) -> Located:
    """As `locate`, of the ties of keys that are cut, by (group, key): ties differ, so that there are never many in a
    bin."""
    return Located(
        tuple(
            _gathered(
                cut
                for (group, key), counted in histograms.items()
                for cut in _cut_bins((group, key), counted, repeated[group][key])
            )
        )
    )


def _cut_bins(group: Any, counted: Histogram, ranks: list[int]) -> Iterator[tuple[CutBin, int]]:
    """The bins of one group that are cut, and how many keys each has."""
    found: dict[int, tuple[list[int], int]] = {}
    for key_bin, rank, keys in counted.locate(ranks) if ranks else []:
        found.setdefault(key_bin, ([], keys))[0].append(rank)
    return ((CutBin(group, key_bin, tuple(ranks)), keys) for key_bin, (ranks, keys) in found.items())


def _gathered(bins: Iterable[tuple[CutBin, int]]) -> Iterator[tuple[CutBin, ...]]:
    """Bins, and how many keys each has, in an order that is theirs, in as few parts as have at most GATHERED_KEYS each,
    or one bin."""
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


def keys_in_bins(group: Callable[[Any], Grouped], keyed: Any, located: Located) -> list[tuple[int, FoundKeys]]:
    """What there is of the bins that are gathered, by the number of those together."""
    if not located.few:
        return []
    return _in_gathered({name: (keys, ties) for name, (keys, ties, _) in group(keyed).items()}, located)


def pick_cuts(parts: Iterable[FoundKeys]) -> list[tuple[Any, tuple[int, int]]]:
    """(group, (key, tie)) of all cuts in the bins that some parts, all there are of these bins, were found in."""
    bins, *columns = zip(*parts, strict=True)
    which, keys, ties = map(np.concatenate, columns)
    ranks = [(index, rank) for index, cut in enumerate(bins[0]) for rank in cut.ranks]
    pairs = pick_in_bins(which, keys, ties, ranks)
    return [(bins[0][index].group, pair) for (index, _), pair in zip(ranks, pairs, strict=True)]


def count_repeats(group: Callable[[Any], Grouped], keyed: Any, located: Located) -> list[Any]:
    """((group, bin, ranks), (distinct keys, how often each is there)) of the other bins."""
    if not located.many:
        return []
    found = _in_bins({name: keys for name, (keys, _, _) in group(keyed).items()}, located.many)
    return [(name, np.unique(keys, return_counts=True)) for name, keys in found]


def tie_histograms(group: Callable[[Any], Grouped], keyed: Any, repeated: BinRanks) -> list[dict[Any, Histogram]]:
    """(group, key) -> the histogram of its ties, of the keys that are cut."""
    if not repeated:
        return []
    found = _of_keys(group(keyed), repeated)
    return [{name: histogram(ties, np.zeros(len(ties), np.int64)) for name, ties in found.items()}]


def ties_in_bins(group: Callable[[Any], Grouped], keyed: Any, located: Located) -> list[tuple[int, FoundKeys]]:
    """As `keys_in_bins`, of the ties of the keys that are cut, which stand for keys too."""
    if not located.few:
        return []
    keys: dict[Any, set[int]] = {}
    for name, key in (cut.group for part in located.few for cut in part):
        keys.setdefault(name, set()).add(key)
    return _in_gathered({name: (ties, ties) for name, ties in _of_keys(group(keyed), keys).items()}, located)


def _of_keys(grouped: Grouped, keys_of: Mapping[Any, Iterable[int]]) -> dict[Any, np.ndarray]:
    """(group, key) -> the ties of that key's records."""
    return {
        (name, key): ties[keys == np.uint64(key)]
        for name, (keys, ties, _) in grouped.items()
        for key in keys_of.get(name, ())
    }


def _in_gathered(grouped: Mapping[Any, tuple[np.ndarray, np.ndarray]], located: Located) -> list[tuple[int, FoundKeys]]:
    """The rows of each group, (keys, ties), whose key is in one of the bins that are gathered."""
    cuts = [cut for part in located.few for cut in part]
    starts = np.cumsum([0, *map(len, located.few)])
    of_group: dict[Any, list[int]] = {}
    for index, cut in enumerate(cuts):
        of_group.setdefault(cut.group, []).append(index)
    parts = []
    for name, (keys, ties) in grouped.items():
        if name in of_group and len(keys):
            wanted = np.array([cuts[index].key_bin for index in of_group[name]], np.uint32)
            bins = bin_of(keys)
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
        for number, part in enumerate(located.few)
        for start in range(bounds[number], bounds[number + 1], _KEYS_AT_ONCE)
        for rows in (order[start : min(start + _KEYS_AT_ONCE, bounds[number + 1])],)
    ]


def _in_bins(grouped: Mapping[Any, np.ndarray], bins_of: BinRanks) -> list[tuple[Any, np.ndarray]]:
    """((group, bin, ranks), keys) of the keys of each group that are in one of the bins."""
    found: list[Any] = []
    for name, keys in grouped.items():
        bins = bin_of(keys)
        for key_bin, ranks in bins_of.get(name, {}).items():
            if len(inside := keys[bins == np.uint32(key_bin)]):
                found.append(((name, key_bin, tuple(ranks)), inside))
    return found
