"""PTransforms that find where each group of keys is cut: exact, by count or by bytes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np

from transforms.sharding import balance
from transforms.sharding.key_histogram import Cuts, Histogram, bin_of, histogram, merge, pick, pick_keys, to_cuts
from transforms.workers.threads import ThreadedFlatMap

_AT_ONCE = 16  # histograms that are merged at once
MOST_KEYS = 1 << 18  # of a bin that are gathered on one worker: 4 MB, where 10^9 keys that differ leave 15,000 in each

# The keys of a batch or a run by group: group -> (keys, ties, sizes), arrays of shape (n,).
Grouped = dict[Any, tuple[np.ndarray, np.ndarray, np.ndarray]]
BinRanks = dict[Any, dict[int, list[int]]]  # group -> bin, or key -> ranks in it at which the group is cut
RanksOf = Callable[[Any, int, int], list[int]]  # (group, examples, size in bytes) -> ranks at which it is cut


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """How one group is divided: its examples, their size in bytes, and the cuts."""

    examples: int
    size_bytes: int
    cuts: Cuts

    @property
    def parts(self) -> int:
        """The number of parts; none of an empty group."""
        return len(self.cuts.keys) + 1 if self.examples else 0


Divisions = dict[Any, Division]


@dataclass(eq=False)
class FindExampleCuts(beam.PTransform):
    """Batches, or runs, -> one Divisions, cutting each group at the given ranks of its keys.

    Keys are counted by prefix; only those in bins that hold a cut are looked at again, each bin on a worker of its own. A bin of
    very many keys holds equal ones, for keys are hashes: of these the ties are counted by prefix in their turn.

    Attributes:
      group: the keys of a batch or a run by group.
      ranks_of: the ranks at which a group is cut, given its examples and bytes.
      threads: that call `group` in each worker, which reads files where these are runs; see ThreadedFlatMap.
      most_keys: of a bin that are gathered.
    """

    group: Callable[[Any], Grouped]
    ranks_of: RanksOf
    threads: int = 1
    most_keys: int = MOST_KEYS

    def expand(self, pcoll: beam.PCollection[Any]) -> beam.PCollection[Divisions]:
        """Count, locate the bins that are cut, pick the cuts in them."""
        histograms = self._look(pcoll, "Histogram", _histograms) | "Merge" >> beam.CombineGlobally(_MergeHistograms())
        located = histograms | "Locate" >> beam.Map(_locate, self.ranks_of, self.most_keys).with_output_types(Any)
        few = self._look(pcoll, "KeysInCutBins", _keys_in_bins, located) | "Pick" >> PickRanks(pick, located)
        cut = self._look(pcoll, "CountRepeats", _count_repeats, located) | "PickKeys" >> PickRanks(pick_keys, located)
        repeated = cut | "GatherKeys" >> beam.CombineGlobally(_gather_ranks)
        ties = self._look(pcoll, "HistogramOfTies", _tie_histograms, repeated) | "MergeTies" >> beam.CombineGlobally(
            _MergeHistograms()
        )
        in_ties = ties | "LocateTies" >> beam.Map(_locate_ties, beam.pvalue.AsSingleton(repeated)).with_output_types(Any)
        many = self._look(pcoll, "TiesInCutBins", _ties_in_bins, in_ties) | "PickTies" >> PickRanks(pick, in_ties)
        picked = (few, many | "OfGroup" >> beam.MapTuple(_of_group).with_output_types(Any)) | "Picked" >> beam.Flatten()
        return histograms | "Divide" >> beam.Map(_divide, beam.pvalue.AsIter(picked)).with_output_types(Any)

    def _look(self, pcoll: beam.PCollection[Any], label: str, function: Callable[..., Any], *side: Any) -> beam.PCollection[Any]:
        """What `function` finds in each batch or run, given the side inputs."""
        look = ThreadedFlatMap(partial(function, self.group), self.threads)
        return pcoll | label >> beam.ParDo(look, *map(beam.pvalue.AsSingleton, side)).with_output_types(Any)


@dataclass(eq=False)
class FindByteCuts(beam.PTransform):
    """Batches, or runs, -> one Divisions, cutting each group into parts that differ by at most one record's bytes.

    All keys and sizes meet on one worker, 24 bytes a record: no local rule can give that guarantee.

    Attributes:
      group: the keys of a batch or a run by group.
      parts_of: the number of parts of a group, given the group, its examples and bytes.
      threads: that call `group` in each worker, which reads files where these are runs; see ThreadedFlatMap.
    """

    group: Callable[[Any], Grouped]
    parts_of: Callable[[Any, int, int], int]
    threads: int = 1

    def expand(self, pcoll: beam.PCollection[Any]) -> beam.PCollection[Divisions]:
        """Gather and cut."""
        grouped = pcoll | "Group" >> beam.ParDo(ThreadedFlatMap(partial(_grouped, self.group), self.threads)).with_output_types(Any)
        return (
            pcoll.pipeline
            | "Once" >> beam.Create([None])
            | "CutByBytes" >> beam.Map(_divide_by_bytes, beam.pvalue.AsIter(grouped), self.parts_of).with_output_types(Any)
        )


def _histograms(group: Callable[[Any], Grouped], keyed: Any) -> list[dict[Any, Histogram]]:
    return [{name: histogram(keys, sizes) for name, (keys, _, sizes) in group(keyed).items()}]


def _grouped(group: Callable[[Any], Grouped], keyed: Any) -> list[Grouped]:
    return [group(keyed)]


class _MergeHistograms(beam.CombineFn):
    """Several at a time: merging each of 20,000 strata with what is known of it, run by run, takes longer than all else."""

    def create_accumulator(self) -> list[dict[Any, Histogram]]:
        return []

    def add_input(self, accumulator: list[dict[Any, Histogram]], element: dict[Any, Histogram]) -> list[dict[Any, Histogram]]:
        return self.merge_accumulators([accumulator, [element]])

    def merge_accumulators(self, accumulators: Iterable[list[dict[Any, Histogram]]]) -> list[dict[Any, Histogram]]:
        parts = [part for accumulator in accumulators for part in accumulator]
        return [_merged(parts)] if len(parts) >= _AT_ONCE else parts

    def extract_output(self, accumulator: list[dict[Any, Histogram]]) -> dict[Any, Histogram]:
        return _merged(accumulator)


def _merged(parts: list[dict[Any, Histogram]]) -> dict[Any, Histogram]:
    found: dict[Any, list[Histogram]] = {}
    for part in parts:
        for group, counted in part.items():
            found.setdefault(group, []).append(counted)
    return {group: counted[0] if len(counted) == 1 else merge(counted) for group, counted in found.items()}


@dataclass(frozen=True, slots=True)
class Located:
    """Where groups are cut: group -> bin -> ranks within the bin.

    Attributes:
      few: of bins whose keys can be gathered.
      many: of the others.
    """

    few: BinRanks = field(default_factory=dict)
    many: BinRanks = field(default_factory=dict)

    def ranks(self, group: Any, key_bin: int) -> list[int]:
        """The ranks at which a bin is cut."""
        return (self.few if key_bin in self.few.get(group, ()) else self.many)[group][key_bin]


@dataclass(eq=False)
class PickRanks(beam.PTransform):
    """((group, bin), arrays) -> (group, what `pick` finds at a rank) for each rank at which a bin is cut.

    Attributes:
      pick: from all arrays of a bin, joined, and ranks.
      located: side input, Located.
    """

    pick: Callable[..., Iterable[Any]]
    located: beam.PCollection[Located]

    def expand(self, pcoll: beam.PCollection[Any]) -> beam.PCollection[Any]:
        """Each bin on a worker of its own."""
        binned = pcoll | "Pair" >> beam.Map(lambda pair: pair).with_output_types(tuple[Any, Any])
        picked = beam.FlatMap(_pick, beam.pvalue.AsSingleton(self.located), self.pick).with_output_types(Any)
        return binned | "ByBin" >> beam.GroupByKey() | "PickOfBin" >> picked


def _locate(histograms: dict[Any, Histogram], ranks_of: RanksOf, most_keys: int) -> Located:
    """Where each group is cut; a cut at the group's end cuts nothing off."""
    located = Located()
    for group, counted in histograms.items():
        ranks = [rank for rank in ranks_of(group, counted.total, counted.size_bytes) if rank < counted.total]
        _locate_in(located, group, counted, ranks, most_keys)
    return located


def _locate_ties(histograms: dict[Any, Histogram], repeated: BinRanks) -> Located:
    """As _locate, of the ties of keys that are cut, by (group, key): ties differ, so that there are never many in a bin."""
    located = Located()
    for (group, key), counted in histograms.items():
        _locate_in(located, (group, key), counted, repeated[group][key], counted.total)
    return located


def _locate_in(located: Located, group: Any, counted: Histogram, ranks: list[int], most_keys: int) -> None:
    for key_bin, rank, keys in counted.locate(ranks) if ranks else []:
        bins = located.few if keys <= most_keys else located.many
        bins.setdefault(group, {}).setdefault(key_bin, []).append(rank)


def _keys_in_bins(group: Callable[[Any], Grouped], keyed: Any, located: Located) -> list[Any]:
    """((group, bin), (keys, ties)) of the bins whose keys can be gathered."""
    if not located.few:
        return []
    return _in_bins({name: (keys, ties) for name, (keys, ties, _) in group(keyed).items()}, located.few)


def _count_repeats(group: Callable[[Any], Grouped], keyed: Any, located: Located) -> list[Any]:
    """((group, bin), (distinct keys, how often each is there)) of the other bins."""
    if not located.many:
        return []
    found = _in_bins({name: (keys,) for name, (keys, _, _) in group(keyed).items()}, located.many)
    return [(name, np.unique(keys, return_counts=True)) for name, (keys,) in found]


def _tie_histograms(group: Callable[[Any], Grouped], keyed: Any, repeated: BinRanks) -> list[dict[Any, Histogram]]:
    """(group, key) -> the histogram of its ties, of the keys that are cut."""
    if not repeated:
        return []
    found = _of_keys(group(keyed), repeated)
    return [{name: histogram(ties, np.zeros(len(ties), np.int64)) for name, ties in found.items()}]


def _ties_in_bins(group: Callable[[Any], Grouped], keyed: Any, located: Located) -> list[Any]:
    """(((group, key), bin of ties), (ties, ties)) of the keys that are cut."""
    if not located.few:
        return []
    keys: dict[Any, list[int]] = {}
    for name, key in located.few:
        keys.setdefault(name, []).append(key)
    return _in_bins({name: (ties, ties) for name, ties in _of_keys(group(keyed), keys).items()}, located.few)


def _of_keys(grouped: Grouped, keys_of: Mapping[Any, Iterable[int]]) -> dict[Any, np.ndarray]:
    """(group, key) -> the ties of that key's records."""
    return {(name, key): ties[keys == np.uint64(key)] for name, (keys, ties, _) in grouped.items() for key in keys_of.get(name, ())}


def _in_bins(grouped: Mapping[Any, tuple[np.ndarray, ...]], bins_of: BinRanks) -> list[Any]:
    """((group, bin), arrays) of the rows whose key, in the first array of their group, lies in one of the bins."""
    found: list[Any] = []
    for name, arrays in grouped.items():
        wanted = np.array(sorted(bins_of.get(name, ())), np.uint32)
        bins = bin_of(arrays[0])
        rows = np.flatnonzero(np.isin(bins, wanted))
        rows = rows[np.argsort(bins[rows], kind="stable")]
        starts = np.flatnonzero(np.diff(bins[rows], prepend=-1))
        for part in np.split(rows, starts[1:]) if len(rows) else []:
            found.append(((name, int(bins[part[0]])), tuple(array[part] for array in arrays)))
    return found


def _pick(
    element: tuple[tuple[Any, int], Iterable[tuple[np.ndarray, ...]]], located: Located, pick_at: Callable[..., Iterable[Any]]
) -> Iterator[tuple[Any, Any]]:
    (group, key_bin), parts = element
    arrays = (np.concatenate(column) for column in zip(*parts, strict=True))
    for item in pick_at(*arrays, located.ranks(group, key_bin)):
        yield group, item


def _gather_ranks(picked: Iterable[Any]) -> Any:  # BinRanks, whose keys Beam would take for signed
    """group -> key -> ranks among the records of that key, from (group, (key, rank)) and from what this makes of them."""
    gathered: BinRanks = {}
    for item in picked:
        for group, (key, rank) in [item] if isinstance(item, tuple) else _items(item):
            gathered.setdefault(group, {}).setdefault(key, []).append(rank)
    return gathered


def _items(gathered: BinRanks) -> Iterator[tuple[Any, tuple[int, int]]]:
    return ((group, (key, rank)) for group, keys in gathered.items() for key, ranks in keys.items() for rank in ranks)


def _of_group(name: tuple[Any, int], pair: tuple[int, int]) -> tuple[Any, tuple[int, int]]:
    """A cut of ties as one of keys and ties."""
    group, key = name
    return group, (key, pair[1])


def _divide(histograms: dict[Any, Histogram], picked: Iterable[tuple[Any, tuple[int, int]]]) -> Divisions:
    cuts: dict[Any, list[tuple[int, int]]] = {group: [] for group in histograms}
    for group, pair in picked:
        cuts[group].append(pair)
    return {group: Division(counted.total, counted.size_bytes, to_cuts(cuts[group])) for group, counted in histograms.items()}


def _divide_by_bytes(_: None, grouped: Iterable[Grouped], parts_of: Callable[[Any, int, int], int]) -> Divisions:
    gathered: dict[Any, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
    for groups in grouped:
        for group, arrays in groups.items():
            gathered.setdefault(group, []).append(arrays)
    divisions = {}
    for group, parts in gathered.items():
        keys, ties, sizes = (np.concatenate(column) for column in zip(*parts, strict=True))
        divisions[group] = divide_by_bytes(keys, ties, sizes, parts_of(group, len(keys), int(sizes.sum())))
    return divisions


def divide_by_bytes(keys: np.ndarray, ties: np.ndarray, sizes: np.ndarray, parts: int) -> Division:
    """The division of one group into `parts` by bytes, from all its keys, ties and sizes, each of shape (n,)."""
    order = np.lexsort((ties, keys))
    at = order[np.array(balance.byte_cuts(sizes[order], parts), np.int64)]
    cuts = to_cuts(zip(keys[at].tolist(), ties[at].tolist(), strict=True))
    return Division(len(sizes), int(sizes.sum()), cuts)
