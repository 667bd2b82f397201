"""PTransforms that find the keys at which shards begin and end."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import AsIter, AsList, AsSingleton, TaggedOutput

from shardmill.transforms.execution.running import INLINE, ThreadedFlatMap, Threads
from shardmill.transforms.findings import merge_all
from shardmill.transforms.shards.divisions import (
    BinRanks,
    Divisions,
    Grouped,
    Histogram,
    LocatedBins,
    RanksOf,
    count_repeats,
    divide,
    gather_keys,
    locate,
    locate_ties,
    make_histogram,
    merge_histograms,
    pick_cuts,
    pick_keys,
    select_keys_in_bins,
    select_ties_in_bins,
    tie_histograms,
)

_REPEATED = "repeated"
KEYS_AT_ONCE = 1 << 16  # with ties and sizes: 1.5 MB
MOST_KEYS = 1 << 18  # of a bin that are gathered on one worker: 4 MB, where 10^9 keys that differ leave 15,000 in each


@dataclass(eq=False)
class FindExampleCuts(beam.PTransform):
    """Find the cuts of each group at given ranks of its keys: batches or runs -> one Divisions.

    Keys are counted by prefix. Only the keys in bins that hold a cut are read again, some megabytes of them on each
    worker. Keys are hashes, so a bin of very many keys holds equal ones; their ties are counted by prefix in turn.
    """

    group: Callable[[Any], Grouped]  # returns the keys of a batch or run by group
    ranks_of: RanksOf  # ranks at which a group is cut, from its examples and bytes
    threads: Threads = INLINE  # that call `group`
    most_keys: int = MOST_KEYS  # largest number of keys in a gathered bin
    # False if few records share a key, as for files: half as many steps, each of which costs time at a job's start. A
    # key that does repeat then only takes memory where its bin is gathered.
    repeats: bool = True

    def expand(self, pcoll: beam.PCollection[Any]) -> beam.PCollection[Divisions]:
        """Count keys in histograms, find the bins in which shards begin, and choose the first keys in them."""
        histograms = (
            pcoll
            | "Histogram" >> self._make_par_do(_make_histograms).with_output_types(Any)
            | "Merge" >> beam.CombineGlobally(_merge_by_group)
        )
        most = self.most_keys if self.repeats else sys.maxsize
        located = histograms | "Locate" >> beam.Map(locate, self.ranks_of, most).with_output_types(Any)
        look = self._make_par_do(_look_in_bins, AsSingleton(located))
        found = pcoll | "LookInCutBins" >> look.with_output_types(Any)
        picked = found | "Pick" >> PickRanks(located if self.repeats else None)
        cuts = [AsIter(picked["cuts"])]
        if self.repeats:
            cuts.append(AsIter(self._find_cuts_among_equals(found, AsList(picked[_REPEATED]))))
        divide_all = beam.Map(lambda counted, *cuts: divide(counted, chain.from_iterable(chain(*cuts))), *cuts)
        return histograms | "Divide" >> divide_all.with_output_types(Any)

    def _find_cuts_among_equals(self, found: beam.PCollection[Any], repeated: AsList) -> beam.PCollection[Any]:
        """Find the cuts among records with equal keys, by the records' tie-breakers. Usually there are none."""
        count = self._make_par_do(partial(_refine, _count_ties), repeated)
        histograms = (
            found
            | "HistogramOfTies" >> count.with_output_types(Any)
            | "MergeTies" >> beam.CombineGlobally(_merge_by_group).without_defaults()
        )
        locate = beam.Map(lambda counted, parts: locate_ties(counted, merge_all(parts, dict)), repeated)
        located = histograms | "LocateTies" >> locate.with_output_types(Any)
        select = partial(_refine, lambda *read: [((False, bin_), keys) for bin_, keys in select_ties_in_bins(*read)])
        look = self._make_par_do(select, AsSingleton(located))
        ties = found | "TiesInCutBins" >> look.with_output_types(Any)
        picked = ties | "PickTies" >> PickRanks()
        # They are of ties, grouped by (group, key), and become those of groups by (key, tie)
        regroup = beam.Map(lambda cuts: [(group, (key, tie)) for (group, key), (tie, _) in cuts])
        return picked["cuts"] | "OfGroup" >> regroup.with_output_types(Any)

    def _make_par_do(self, function: Callable[..., Any], *side: Any) -> beam.ParDo:
        return beam.ParDo(ThreadedFlatMap(partial(function, self.group), self.threads), *side)


@dataclass(eq=False)
class DivideKeys(beam.PTransform):
    """Divide groups whose keys are gathered on one worker, 24 bytes each: batches or runs -> one Divisions."""

    group: Callable[[Any], Grouped]  # returns the keys of a batch or run by group
    divide: Callable[..., Divisions]  # divides the keys of all groups, as `gather_keys` returns them
    threads: Threads = INLINE  # that call `group`
    bytes_of: beam.PCollection[Mapping[Any, int]] | None = None  # singleton: a further argument of `divide`

    def expand(self, pcoll: beam.PCollection[Any]) -> beam.PCollection[Divisions]:
        """Gather the keys and cut the groups."""
        split = beam.ParDo(ThreadedFlatMap(partial(_split_groups, self.group), self.threads))
        grouped = AsIter(pcoll | "Group" >> split.with_output_types(Any))
        side = [] if self.bytes_of is None else [AsSingleton(self.bytes_of)]
        cut = beam.Map(lambda _, divide, parts, *side: divide(gather_keys(parts), *side), self.divide, grouped, *side)
        return pcoll.pipeline | "Once" >> beam.Create([None]) | "CutKeys" >> cut.with_output_types(Any)


@dataclass(frozen=True, slots=True)
class _Refine:
    """A request to read a batch or run again, because some of its histogram bins hold the first key of a shard."""

    # A separate output would be one more step on clusters, and two more that hold their memory at once.
    keyed: Any


def _make_histograms(group: Callable[[Any], Grouped], keyed: Any) -> list[dict[Any, Histogram]]:
    return [{name: make_histogram(keys, sizes) for name, (keys, _, sizes) in group(keyed).items()}]


def _look_in_bins(group: Callable[[Any], Grouped], keyed: Any, located: LocatedBins) -> list[Any]:
    """Return those keys of a batch or run that may be the first of a shard, and itself if its ties are needed."""
    if not (located.small_bins or located.large_bins):
        return []
    grouped = group(keyed)
    counted = count_repeats(grouped, located)
    found = [((False, number), keys) for number, keys in select_keys_in_bins(grouped, located)]
    if not counted:
        return found
    return [*found, *(((True, *name), arrays) for name, arrays in counted), _Refine(keyed)]


def _refine(function: Callable[..., Any], group: Callable[[Any], Grouped], item: Any, *side: Any) -> list[Any]:
    return list(function(group(item.keyed), *side)) if isinstance(item, _Refine) else []


def _split_groups(group: Callable[[Any], Grouped], keyed: Any) -> list[Grouped]:
    return [
        {name: (keys[start:stop], ties[start:stop], sizes[start:stop])}
        for name, (keys, ties, sizes) in group(keyed).items()
        for start in range(0, len(keys), KEYS_AT_ONCE)
        for stop in (start + KEYS_AT_ONCE,)
    ]


def _merge_by_group(parts: Iterable[Any]) -> Any:  # Histograms, several at once: one by one would take longer
    found: dict[Any, list[Histogram]] = {}
    for part in parts:
        for group, counted in part.items():
            found.setdefault(group, []).append(counted)
    return {group: counted[0] if len(counted) == 1 else merge_histograms(counted) for group, counted in found.items()}


@dataclass(eq=False)
class PickRanks(beam.PTransform):
    """Choose the keys at the wanted ranks among the keys found -> `cuts`, lists of (group, (key, tie)).

    For bins whose repeated keys were counted, the output `repeated` has group -> key -> [rank among its equals].

    A runner does not fuse a step that waits for `located` with the step before it. That step then has a single output,
    which all its readers share.
    """

    located: beam.PCollection[Any] | None = None  # singleton that must exist before the input is read; see below

    # Two PCollections; Beam wants one in an annotation
    def expand(self, pcoll: beam.PCollection[Any]) -> Any:
        """Gather the keys of each histogram bin on one worker, or of many small bins together."""
        apart = () if self.located is None else (AsSingleton(self.located),)
        drop = beam.FlatMap(lambda item, *_: [] if isinstance(item, _Refine) else [item], *apart)
        binned = pcoll | "Pair" >> drop.with_output_types(tuple[Any, Any])
        pick = beam.FlatMap(_pick).with_outputs(_REPEATED, main="cuts")
        return binned | "ByBin" >> beam.GroupByKey() | "PickOfBin" >> pick


def _pick(element: tuple[Any, Iterable[Any]]) -> Iterator[Any]:
    (is_counted, *name), parts = element
    if not is_counted:
        yield pick_cuts(parts)
        return
    group, _, ranks = name
    keys, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    for key, rank in pick_keys(keys, counts, ranks):
        yield TaggedOutput(_REPEATED, {group: {key: [rank]}})


def _count_ties(grouped: Grouped, parts: Iterable[BinRanks]) -> list[dict[Any, Histogram]]:
    return tie_histograms(grouped, merge_all(parts, dict))
