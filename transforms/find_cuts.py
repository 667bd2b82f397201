"""PTransforms that find where each group of keys is cut: exact, by count or by bytes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np

from transforms import balance
from transforms.key_histogram import Cuts, Histogram, bin_of, histogram, merge, pick, to_cuts
from transforms.threaded import ThreadedFlatMap

# The keys of a batch or a run by group: group -> (keys, ties, sizes), arrays of shape (n,).
Grouped = dict[Any, tuple[np.ndarray, np.ndarray, np.ndarray]]
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

    Keys are counted by prefix; only those in bins that hold a cut are looked at again, each bin on a worker of its own.

    Attributes:
      group: the keys of a batch or a run by group.
      ranks_of: the ranks at which a group is cut, given its examples and bytes.
      threads: that call `group` in each worker, which reads files where these are runs; see ThreadedFlatMap.
    """

    group: Callable[[Any], Grouped]
    ranks_of: RanksOf
    threads: int = 1

    def expand(self, pcoll: beam.PCollection[Any]) -> beam.PCollection[Divisions]:
        """Count, locate the bins that are cut, pick the cuts in them."""
        histograms = (
            pcoll
            | "Histogram" >> beam.ParDo(ThreadedFlatMap(partial(_histograms, self.group), self.threads)).with_output_types(Any)
            | "Merge" >> beam.CombineGlobally(_MergeHistograms()).with_output_types(Any)
        )
        located = histograms | "Locate" >> beam.Map(_locate, self.ranks_of).with_output_types(Any)
        picked = (
            pcoll
            | "KeysInCutBins"
            >> beam.ParDo(
                ThreadedFlatMap(partial(_keys_in_bins, self.group), self.threads), beam.pvalue.AsSingleton(located)
            ).with_output_types(tuple[Any, Any])
            | "ByBin" >> beam.GroupByKey()
            | "Pick" >> beam.FlatMap(_pick, beam.pvalue.AsSingleton(located)).with_output_types(Any)
        )
        return histograms | "Divide" >> beam.Map(_divide, beam.pvalue.AsIter(picked)).with_output_types(Any)


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
    def create_accumulator(self) -> dict[Any, Histogram]:
        return {}

    def add_input(self, accumulator: dict[Any, Histogram], element: dict[Any, Histogram]) -> dict[Any, Histogram]:
        return self.merge_accumulators([accumulator, element])

    def merge_accumulators(self, accumulators: Iterable[dict[Any, Histogram]]) -> dict[Any, Histogram]:
        parts = list(accumulators)
        groups = {group: None for part in parts for group in part}
        return {group: merge(part[group] for part in parts if group in part) for group in groups}

    def extract_output(self, accumulator: dict[Any, Histogram]) -> dict[Any, Histogram]:
        return accumulator


def _locate(histograms: dict[Any, Histogram], ranks_of: RanksOf) -> dict[Any, dict[int, list[int]]]:
    """group -> bin -> ranks within the bin at which the group is cut; a cut at the group's end cuts nothing off."""
    located: dict[Any, dict[int, list[int]]] = {}
    for group, counted in histograms.items():
        ranks = [rank for rank in ranks_of(group, counted.total, counted.size_bytes) if rank < counted.total]
        for key_bin, rank in counted.locate(ranks) if ranks else []:
            located.setdefault(group, {}).setdefault(key_bin, []).append(rank)
    return located


def _keys_in_bins(
    group: Callable[[Any], Grouped], keyed: Any, located: dict[Any, dict[int, list[int]]]
) -> list[tuple[tuple[Any, int], tuple[np.ndarray, np.ndarray]]]:
    found = []
    for name, (keys, ties, _) in group(keyed).items():
        wanted = np.array(sorted(located.get(name, ())), np.uint32)
        bins = bin_of(keys)
        rows = np.flatnonzero(np.isin(bins, wanted))
        rows = rows[np.argsort(bins[rows], kind="stable")]
        starts = np.flatnonzero(np.diff(bins[rows], prepend=-1))
        for part in np.split(rows, starts[1:]) if len(rows) else []:
            found.append(((name, int(bins[part[0]])), (keys[part], ties[part])))
    return found


def _pick(
    element: tuple[tuple[Any, int], Iterable[tuple[np.ndarray, np.ndarray]]], located: dict[Any, dict[int, list[int]]]
) -> Iterator[tuple[Any, tuple[int, int]]]:
    (group, key_bin), parts = element
    arrays = list(parts)
    keys = np.concatenate([keys for keys, _ in arrays])
    ties = np.concatenate([ties for _, ties in arrays])
    for pair in pick(keys, ties, located[group][key_bin]):
        yield group, pair


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
