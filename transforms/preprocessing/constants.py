"""The constants of analyzers, from what was gathered of all examples."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.errors import JobError
from shardmill.transforms.preprocessing import counted, quantiles
from shardmill.transforms.preprocessing.declaration import Chain
from shardmill.transforms.preprocessing.gather import Analysis, Gathered
from shardmill.transforms.preprocessing.spill import Spilled, merged_counts, ranges
from shardmill.transforms.preprocessing.steps import Bucketize, Vocabulary
from shardmill.transforms.statistics.values import RangeStats
from shardmill.transforms.workers.memory import return_freed

_AT_ONCE = 1 << 25  # bytes of counts, as they lie compressed, that are merged at once


@dataclass(frozen=True, slots=True)
class Constants:
    """What was found for one output.

    Attributes:
      numbers: by name, as they stand in transform.json.
      entries: of a vocabulary, the most frequent first, with their counts.
      unknown: of a vocabulary, by split: how many values there are, and how many of them are no entries.
    """

    numbers: Mapping[str, Any] = field(default_factory=dict)
    entries: pa.Table | None = None
    unknown: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def find_constants(analysis: Analysis, gathered: Gathered) -> dict[str, Constants]:
    """The constants of each output that has an analyzer.

    Raises:
      JobError: there are no examples, or no values, that they could be taken of, or all values are one.
    """
    chains = analysis.declaration.analyzed
    return_freed()  # of what was staged: a vocabulary may need as much
    if analysis.former is not None:
        return dict(_where_there_are(chains, analysis, gathered))
    if chains and not any(gathered.examples[split] for split in analysis.splits):
        having = ", ".join(split for split, examples in gathered.examples.items() if examples) or "none"
        named = " or ".join(repr(split) for split in analysis.splits)
        raise JobError(
            f"--transform: no example is in split {named}, which constants are taken of; those that have examples are"
            f" {having}; --analyze_splits names others"
        )
    return {chain.name: _of(chain, analysis, gathered) for chain in chains}


def _where_there_are(
    chains: Sequence[Chain], analysis: Analysis, gathered: Gathered
) -> Iterator[tuple[str, Constants]]:
    """The constants that can be taken, where nothing hangs on them."""
    for chain in chains:
        with suppress(JobError):
            yield chain.name, _of(chain, analysis, gathered)


def _of(chain: Chain, analysis: Analysis, gathered: Gathered) -> Constants:
    sections = [section for section in gathered.spilled if section.output == chain.name]
    mine = [section for section in sections if section.split in analysis.splits]
    if isinstance(chain.analyzer, Vocabulary):
        return _vocabulary(chain, chain.analyzer, mine, sections)
    if isinstance(chain.analyzer, Bucketize):
        found = quantiles.boundaries(chain.analyzer.num_buckets, lambda: _keys(mine))
        if not found:
            raise _no_values(chain)
        return Constants({"boundaries": found})
    stats = gathered.numbers.get(chain.name, RangeStats())
    if not stats.sums.count:
        raise _no_values(chain)
    if stats.low == stats.high:
        raise _failed(
            chain, f"all {stats.sums.count:,} values are {stats.low:g}, which cannot be scaled; drop the feature"
        )
    if chain.needs == "moments":
        return Constants({"mean": stats.sums.mean(), "std_dev": stats.sums.std_dev(), "values": stats.sums.count})
    return Constants({"minimum": stats.low, "maximum": stats.high, "values": stats.sums.count})


def _keys(sections: Sequence[Spilled]) -> Iterator[quantiles.Keys]:
    for section in sections:
        yield from section.keys()


def _vocabulary(chain: Chain, step: Vocabulary, mine: Sequence[Spilled], sections: Sequence[Spilled]) -> Constants:
    found: list[pa.Table] = []
    distinct = 0
    for first, last in ranges(mine, _AT_ONCE):
        table = merged_counts(mine, first, last)
        distinct += len(table)
        table = counted.can_be_entries(table)
        if step.top_k is not None or step.frequency_threshold is not None:
            table = counted.most_frequent(table, step.top_k, step.frequency_threshold)
        found.append(table)
        del table
        return_freed()
    if not distinct:
        raise _no_values(chain)
    entries = counted.most_frequent(counted.joined(found), step.top_k)
    if not len(entries):
        raise _failed(
            chain,
            f"none of {distinct:,} values is a vocabulary's entry"
            + (f" at frequency_threshold {step.frequency_threshold}" if step.frequency_threshold else ""),
        )
    return Constants({"entries": len(entries), "distinct": distinct}, entries, _unknown(entries, sections))


def _unknown(entries: pa.Table, sections: Sequence[Spilled]) -> dict[str, tuple[int, int]]:
    """By split how many values there are, and how many are no entries."""
    parts = np.concatenate([counted.part_of(chunk) for chunk in entries["value"].chunks])
    found = {}
    for split in sorted({section.split for section in sections}):
        values = out = 0
        mine = [section for section in sections if section.split == split]
        for first, last in ranges(mine, _AT_ONCE):
            table = merged_counts(mine, first, last)
            known = entries["value"].filter(pa.array((parts >= first) & (parts < last))).combine_chunks()
            is_out = pc.invert(pc.is_in(table["value"], value_set=known))
            values += pc.sum(table["count"]).as_py() or 0
            out += pc.sum(table["count"].filter(is_out)).as_py() or 0
        found[split] = (values, out)
    return found


def _no_values(chain: Chain) -> JobError:
    return _failed(chain, "no example of the analyzed splits has a value")


def _failed(chain: Chain, sentence: str) -> JobError:
    assert chain.analyzer is not None
    return JobError(f"{chain.where}: feature {chain.feature!r}: {chain.analyzer.name}: {sentence}")
