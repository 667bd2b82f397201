"""The bins of a histogram that hold a cut, and the keys in them: the pure twins of what FindExampleCuts does on
workers."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from transforms.sharding.divisions import Grouped
from transforms.sharding.key_histogram import Histogram, bin_of, histogram

BinRanks = dict[Any, dict[int, list[int]]]  # group -> bin, or key -> ranks in it at which the group is cut
RanksOf = Callable[[Any, int, int], list[int]]  # (group, examples, size in bytes) -> ranks at which it is cut


@dataclass(frozen=True, slots=True)
class Located:
    """Where groups are cut: group -> bin -> ranks within the bin.

    Attributes:
      few: of bins whose keys can be gathered.
      many: of the others.
    """

    few: BinRanks = field(default_factory=dict)
    many: BinRanks = field(default_factory=dict)


def locate(histograms: dict[Any, Histogram], ranks_of: RanksOf, most_keys: int) -> Located:
    """Where each group is cut; a cut at the group's end cuts nothing off."""
    located = Located()
    for group, counted in histograms.items():
        ranks = [rank for rank in ranks_of(group, counted.total, counted.size_bytes) if rank < counted.total]
        _locate_in(located, group, counted, ranks, most_keys)
    return located


def locate_ties(histograms: dict[Any, Histogram], repeated: BinRanks) -> Located:
    """As `locate`, of the ties of keys that are cut, by (group, key): ties differ, so that there are never many in a
    bin."""
    located = Located()
    for (group, key), counted in histograms.items():
        _locate_in(located, (group, key), counted, repeated[group][key], counted.total)
    return located


def _locate_in(located: Located, group: Any, counted: Histogram, ranks: list[int], most_keys: int) -> None:
    for key_bin, rank, keys in counted.locate(ranks) if ranks else []:
        bins = located.few if keys <= most_keys else located.many
        bins.setdefault(group, {}).setdefault(key_bin, []).append(rank)


def keys_in_bins(group: Callable[[Any], Grouped], keyed: Any, located: Located) -> list[Any]:
    """((group, bin, ranks), (keys, ties)) of the bins whose keys can be gathered."""
    if not located.few:
        return []
    return _in_bins({name: (keys, ties) for name, (keys, ties, _) in group(keyed).items()}, located.few)


def count_repeats(group: Callable[[Any], Grouped], keyed: Any, located: Located) -> list[Any]:
    """((group, bin, ranks), (distinct keys, how often each is there)) of the other bins."""
    if not located.many:
        return []
    found = _in_bins({name: (keys,) for name, (keys, _, _) in group(keyed).items()}, located.many)
    return [(name, np.unique(keys, return_counts=True)) for name, (keys,) in found]


def tie_histograms(group: Callable[[Any], Grouped], keyed: Any, repeated: BinRanks) -> list[dict[Any, Histogram]]:
    """(group, key) -> the histogram of its ties, of the keys that are cut."""
    if not repeated:
        return []
    found = _of_keys(group(keyed), repeated)
    return [{name: histogram(ties, np.zeros(len(ties), np.int64)) for name, ties in found.items()}]


def ties_in_bins(group: Callable[[Any], Grouped], keyed: Any, located: Located) -> list[Any]:
    """(((group, key), bin of ties, ranks), (ties, ties)) of the keys that are cut."""
    if not located.few:
        return []
    keys: dict[Any, list[int]] = {}
    for name, key in located.few:
        keys.setdefault(name, []).append(key)
    return _in_bins({name: (ties, ties) for name, ties in _of_keys(group(keyed), keys).items()}, located.few)


def _of_keys(grouped: Grouped, keys_of: Mapping[Any, Iterable[int]]) -> dict[Any, np.ndarray]:
    """(group, key) -> the ties of that key's records."""
    return {
        (name, key): ties[keys == np.uint64(key)]
        for name, (keys, ties, _) in grouped.items()
        for key in keys_of.get(name, ())
    }


def _in_bins(grouped: Mapping[Any, tuple[np.ndarray, ...]], bins_of: BinRanks) -> list[Any]:
    """((group, bin, ranks), arrays) of the rows whose key, in the first array of their group, is in one of the bins."""
    found: list[Any] = []
    for name, arrays in grouped.items():
        wanted = np.array(sorted(bins_of.get(name, ())), np.uint32)
        bins = bin_of(arrays[0])
        rows = np.flatnonzero(np.isin(bins, wanted))
        rows = rows[np.argsort(bins[rows], kind="stable")]
        starts = np.flatnonzero(np.diff(bins[rows], prepend=-1))
        for part in np.split(rows, starts[1:]) if len(rows) else []:
            key_bin = int(bins[part[0]])
            found.append(((name, key_bin, tuple(bins_of[name][key_bin])), tuple(array[part] for array in arrays)))
    return found
