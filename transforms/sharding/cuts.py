"""PTransforms that find where each group of keys is cut: exact, by count or by bytes."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import AsSingleton, TaggedOutput

from shardmill.transforms.sharding.cut_bins import (
    BinRanks,
    FoundKeys,
    Located,
    RanksOf,
    count_repeats,
    keys_in_bins,
    locate,
    locate_ties,
    pick_cuts,
    tie_histograms,
    ties_in_bins,
)
from shardmill.transforms.sharding.divisions import Division, Divisions, Grouped, divide, divide_by_bytes
from shardmill.transforms.sharding.key_histogram import Histogram, histogram, merge, pick_keys
from shardmill.transforms.sharding.shared_keys import shared_keys
from shardmill.transforms.workers.memory import return_freed
from shardmill.transforms.workers.threads import ThreadedFlatMap

_REPEATED = "repeated"
_AT_ONCE = 16  # histograms that are merged at once
_KEYS_AT_ONCE = 1 << 16  # with ties and sizes: 1.5 MB
MOST_KEYS = 1 << 18  # of a bin that are gathered on one worker: 4 MB, where 10^9 keys that differ leave 15,000 in each


@dataclass(eq=False)
class FindExampleCuts(beam.PTransform):
    """Batches, or runs, -> one Divisions, cutting each group at the given ranks of its keys.

    Keys are counted by prefix; only those in bins that hold a cut are looked at again, some megabytes of them on a
    worker.
    A bin of very many keys holds equal ones, for keys are hashes: of these the ties are counted by prefix in their
    turn.

    Attributes:
      group: the keys of a batch or a run by group.
      ranks_of: the ranks at which a group is cut, given its examples and bytes.
      threads: that call `group` in each worker, which reads files where these are runs; see ThreadedFlatMap.
      most_keys: of a bin that are gathered.
      repeats: whether very many records may share a key. Where it is said that they do not, as of files, whose keys
        are those of their names, the cuts are the same in half as many steps, each of which costs a job's start-up; a
        key that did repeat would only take memory where its bin is gathered.
    """

    group: Callable[[Any], Grouped]
    ranks_of: RanksOf
    threads: int = 1
    most_keys: int = MOST_KEYS
    repeats: bool = True

    def expand(self, pcoll: beam.PCollection[Any]) -> beam.PCollection[Divisions]:
        """Count, locate the bins that are cut, pick the cuts in them."""
        histograms = (
            pcoll
            | "Histogram" >> self._look(_histograms).with_output_types(Any)
            | "Merge" >> beam.CombineGlobally(_MergeHistograms())
        )
        most = self.most_keys if self.repeats else sys.maxsize
        located = histograms | "Locate" >> beam.Map(_locate, self.ranks_of, most).with_output_types(Any)
        look = self._look(_look_in_bins, AsSingleton(located))
        found = pcoll | "LookInCutBins" >> look.with_output_types(Any)
        if not self.repeats:
            cuts = (found | "Pick" >> PickRanks())["cuts"]
        else:
            picked = found | "Pick" >> PickRanks(apart=located)
            cuts = (picked["cuts"], self._cuts_among_equals(found, picked[_REPEATED])) | "Picked" >> beam.Flatten()
        return histograms | "Divide" >> beam.Map(_divide, beam.pvalue.AsIter(cuts)).with_output_types(Any)

    def _cuts_among_equals(self, found: beam.PCollection[Any], cut: beam.PCollection[Any]) -> beam.PCollection[Any]:
        """The cuts in the bins of very many keys, by the ties of the records that share the key; there are none,
        mostly, and nothing is made of nothing."""
        repeated = cut | "GatherKeys" >> beam.CombineGlobally(_gather_ranks).without_defaults()
        histograms = (
            found
            | "HistogramOfTies" >> self._look_again(tie_histograms, AsSingleton(repeated)).with_output_types(Any)
            | "MergeTies" >> beam.CombineGlobally(_MergeHistograms()).without_defaults()
        )
        located = histograms | "LocateTies" >> beam.Map(locate_ties, AsSingleton(repeated)).with_output_types(Any)
        ties = found | "TiesInCutBins" >> self._look_again(_ties_in_bins, AsSingleton(located)).with_output_types(Any)
        picked = ties | "PickTies" >> PickRanks()
        return picked["cuts"] | "OfGroup" >> beam.Map(_of_groups).with_output_types(Any)

    def _look(self, function: Callable[..., Any], *side: Any) -> beam.ParDo:
        """What `function` finds in each batch or run, given the side inputs."""
        return beam.ParDo(ThreadedFlatMap(partial(function, self.group), self.threads), *side)

    def _look_again(self, function: Callable[..., Any], *side: Any) -> beam.ParDo:
        """What `function` finds in each batch or run that is to be looked at again."""
        return self._look(partial(_again, function), *side)


@dataclass(eq=False)
class FindByteCuts(beam.PTransform):
    """Batches, or runs, -> one Divisions, cutting each group into parts that differ by at most one record's bytes.

    All keys and sizes meet on one worker, 24 bytes a record: no local rule can give that guarantee.

    Attributes:
      group: the keys of a batch or a run by group.
      parts_of: the number of parts of a group, given the group, its examples and bytes.
      threads: that call `group` in each worker, which reads files where these are runs; see ThreadedFlatMap.
      divide: the division of a group by its keys, ties, sizes and number of parts, where it is not by bytes.
      bytes_of: a collection of one: the bytes of each group, where `group` gives other sizes.
      counts_shared: whether keys that several groups have are counted.
    """

    group: Callable[[Any], Grouped]
    parts_of: Callable[[Any, int, int], int]
    threads: int = 1
    divide: Callable[[np.ndarray, np.ndarray, np.ndarray, int], Division] = divide_by_bytes
    bytes_of: beam.PCollection[Mapping[Any, int]] | None = None
    counts_shared: bool = False

    def expand(self, pcoll: beam.PCollection[Any]) -> beam.PCollection[Divisions]:
        """Gather and cut."""
        grouped = pcoll | "Group" >> beam.ParDo(
            ThreadedFlatMap(partial(_grouped, self.group), self.threads)
        ).with_output_types(Any)
        side = [] if self.bytes_of is None else [AsSingleton(self.bytes_of)]
        gathered = beam.pvalue.AsIter(grouped)
        return (
            pcoll.pipeline
            | "Once" >> beam.Create([None])
            | "CutByBytes"
            >> beam.Map(
                _divide_gathered, gathered, self.parts_of, self.divide, self.counts_shared, *side
            ).with_output_types(Any)
        )


@dataclass(frozen=True, slots=True)
class _Again:
    """A batch or a run, among what was found in others. An output of its own would be a step more on clusters, and two
    more that hold their memory at once."""

    keyed: Any


def _histograms(group: Callable[[Any], Grouped], keyed: Any) -> list[dict[Any, Histogram]]:
    return [{name: histogram(keys, sizes) for name, (keys, _, sizes) in group(keyed).items()}]


def _locate(histograms: dict[Any, Histogram], ranks_of: RanksOf, most_keys: int) -> Located:
    return_freed()  # of what was staged: references to slices need memory of another shape
    return locate(histograms, ranks_of, most_keys)


def _look_in_bins(group: Callable[[Any], Grouped], keyed: Any, located: Located) -> list[Any]:
    """Of one batch or run, what lies in the bins that are cut; itself again where ties will have to be looked at."""
    if not (located.few or located.many):
        return []
    grouped = group(keyed)
    counted = count_repeats(lambda _: grouped, keyed, located)
    found = _named(keys_in_bins(lambda _: grouped, keyed, located))
    if not counted:
        return found
    return [*found, *(((True, *name), arrays) for name, arrays in counted), _Again(keyed)]


def _again(function: Callable[..., Any], group: Callable[[Any], Grouped], item: Any, *side: Any) -> list[Any]:
    return list(function(group, item.keyed, *side)) if isinstance(item, _Again) else []


def _ties_in_bins(group: Callable[[Any], Grouped], keyed: Any, located: Located) -> list[Any]:
    return _named(ties_in_bins(group, keyed, located))


def _named(found: list[tuple[int, FoundKeys]]) -> list[Any]:
    return [((False, number), keys) for number, keys in found]


def _grouped(group: Callable[[Any], Grouped], keyed: Any) -> list[Grouped]:
    """Some keys of one group at a time, for a run may have millions."""
    return [
        {name: (keys[start:stop], ties[start:stop], sizes[start:stop])}
        for name, (keys, ties, sizes) in group(keyed).items()
        for start in range(0, len(keys), _KEYS_AT_ONCE)
        for stop in (start + _KEYS_AT_ONCE,)
    ]


class _MergeHistograms(beam.CombineFn):
    """Several at a time: merging each of 20,000 strata with what is known of it, run by run, takes longer than all
    else."""

    def create_accumulator(self) -> list[dict[Any, Histogram]]:
        return []

    def add_input(
        self, accumulator: list[dict[Any, Histogram]], element: dict[Any, Histogram]
    ) -> list[dict[Any, Histogram]]:
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


@dataclass(eq=False)
class PickRanks(beam.PTransform):
    """What was found in bins, with the ranks at which they are cut -> `cuts`, lists of (group, (key, tie)).

    Of bins of which the repeats of keys were counted it is (group, (key, rank among its equals)), `repeated`.

    Attributes:
      apart: a collection of one; what is found is read where it is there. A runner does not fuse such a step with the
        one that has found it, of whose output there is then but one, for all that read it.
    """

    apart: beam.PCollection[Any] | None = None

    # Two PCollections; Beam wants one in an annotation
    def expand(self, pcoll: beam.PCollection[Any]) -> Any:
        """The bins that are gathered together, and each of the others, on a worker of their own."""
        apart = () if self.apart is None else (AsSingleton(self.apart),)
        binned = pcoll | "Pair" >> beam.FlatMap(_pairs, *apart).with_output_types(tuple[Any, Any])
        return (
            binned
            | "ByBin" >> beam.GroupByKey()
            | "PickOfBin" >> beam.FlatMap(_pick).with_outputs(_REPEATED, main="cuts")
        )


def _pairs(item: Any, *_: Any) -> list[Any]:
    return [] if isinstance(item, _Again) else [item]


def _pick(element: tuple[Any, Iterable[Any]]) -> Iterator[Any]:
    (is_counted, *name), parts = element
    if not is_counted:
        yield pick_cuts(parts)
        return
    group, _, ranks = name
    keys, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    for item in pick_keys(keys, counts, ranks):
        yield TaggedOutput(_REPEATED, (group, item))


def _divide(histograms: dict[Any, Histogram], picked: Iterable[list[tuple[Any, tuple[int, int]]]]) -> Divisions:
    return divide(histograms, chain.from_iterable(picked))


def _gather_ranks(picked: Iterable[Any]) -> Any:  # BinRanks, whose keys Beam would take for signed
    """group -> key -> ranks among the records of that key, from (group, (key, rank)) and from what this makes of
    them."""
    gathered: BinRanks = {}
    for item in picked:
        for group, (key, rank) in [item] if isinstance(item, tuple) else _items(item):
            gathered.setdefault(group, {}).setdefault(key, []).append(rank)
    return gathered


def _items(gathered: BinRanks) -> Iterator[tuple[Any, tuple[int, int]]]:
    return ((group, (key, rank)) for group, keys in gathered.items() for key, ranks in keys.items() for rank in ranks)


def _of_groups(cuts: list[tuple[tuple[Any, int], tuple[int, int]]]) -> list[tuple[Any, tuple[int, int]]]:
    """Cuts of ties as those of keys and ties."""
    return [(group, (key, tie)) for (group, key), (tie, _) in cuts]


def _divide_gathered(
    _: None,
    grouped: Iterable[Grouped],
    parts_of: Callable[[Any, int, int], int],
    divide: Callable[[np.ndarray, np.ndarray, np.ndarray, int], Division],
    counts_shared: bool,
    bytes_of: Mapping[Any, int] | None = None,
) -> Divisions:
    gathered: dict[Any, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
    for groups in grouped:
        for group, arrays in groups.items():
            gathered.setdefault(group, []).append(arrays)
    divisions = {}
    for group, parts in gathered.items():
        keys, ties, sizes = (np.concatenate(column) for column in zip(*parts, strict=True))
        size_bytes = int(sizes.sum()) if bytes_of is None else bytes_of[group]
        divisions[group] = divide(keys, ties, sizes, parts_of(group, len(keys), size_bytes))
    if not counts_shared:
        return divisions
    shared = shared_keys([np.concatenate([keys for keys, *_ in parts]) for parts in gathered.values()])
    return {group: replace(divisions[group], shared=count) for group, count in zip(gathered, shared, strict=True)}
