"""What analyzers need of some examples, gathered as they are encoded; the same however examples are batched, and merged
in any order."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shardmill.transforms.options.splits import TRAINING
from shardmill.transforms.preprocessing import counted, quantiles
from shardmill.transforms.preprocessing.declaration import Chain, Declaration
from shardmill.transforms.preprocessing.spill import Spilled, SpillFile
from shardmill.transforms.preprocessing.values import analyzed_values, finite_floats
from shardmill.transforms.statistics.exact_sums import FLOAT32_FRACTION_BITS, ExactSums
from shardmill.transforms.statistics.tables import TableStats
from shardmill.transforms.statistics.values import RangeStats

FOLDER = "gathered"  # in the job's temporary directory
_MOST_ENTRIES = 1 << 20  # of counts that are held of one output and split
_MOST_BYTES = 1 << 26  # of keys that are held


@dataclass(frozen=True, slots=True)
class Analysis:
    """What is analyzed.

    Attributes:
      declaration: of all features.
      splits: whose examples constants are taken of; each that there is, in the order of the user.
      former: whose constants stay as they are; None where they are taken of the examples.
    """

    declaration: Declaration
    splits: tuple[str, ...] = (TRAINING,)
    former: Any = None  # a FormerGraph, which knows what is made of what is gathered


@dataclass(slots=True)
class Gathered:
    """What some examples gave.

    Attributes:
      examples: by split, of all splits.
      numbers: range and exact sums of finite values by output, of the analyzed splits.
      spilled: where keys and counts lie: counts of all splits, for what is out of a vocabulary is told of each.
    """

    examples: Counter[str] = field(default_factory=Counter)
    numbers: dict[str, RangeStats] = field(default_factory=dict)
    spilled: list[Spilled] = field(default_factory=list)

    def merge(self, other: "Gathered") -> None:
        """Add what `other` has, which stays as it is."""
        self.examples.update(other.examples)
        for output, numbers in other.numbers.items():
            self.add_numbers(output, numbers)
        self.spilled += other.spilled

    def add_numbers(self, output: str, found: RangeStats) -> None:
        """Add range and sums of values of an output, which stay as they are."""
        self.numbers.setdefault(output, replace(found, sums=ExactSums(found.sums.fraction_bits))).merge(found)


class Gatherer:
    """Gathers what analyzers need of the examples of one task."""

    def __init__(self, analysis: Analysis, folder: str) -> None:
        """Args:

        analysis: what is asked for.
        folder: that files are written to.
        """
        self._analysis, self._folder = analysis, folder
        self._gathered = Gathered()
        self._counts: dict[tuple[str, str], list[pa.Table]] = defaultdict(list)
        self._keys: dict[tuple[str, str], list[quantiles.Keys]] = defaultdict(list)
        self._bytes = 0

    def add_columns(self, columns: pa.RecordBatch | None, examples: int, split: str) -> None:
        """Take so many examples of one split, by the columns they were made of, if there are any."""
        if columns is not None:
            self.add(columns, split)
        else:
            self._gathered.examples[split] += examples

    def add(self, features: pa.RecordBatch, split: str, counted_before: TableStats | None = None) -> None:
        """Take examples of one split; `counted_before` are their statistics, where these are known already."""
        self._gathered.examples[split] += features.num_rows
        is_analyzed = split in self._analysis.splits
        for chain in self._analysis.declaration.analyzed:
            if not is_analyzed and chain.needs != "vocabulary":
                continue
            numbers = counted_before.numbers_of(chain.feature) if counted_before is not None else None
            if numbers is not None and not chain.before and chain.needs in ("moments", "range"):
                self._gathered.add_numbers(chain.name, numbers)
                continue
            values = analyzed_values(features[chain.feature], chain)
            if chain.needs == "vocabulary":
                self._count(chain, split, counted.count(values))
            elif chain.needs == "quantiles":
                self._add_keys(chain, split, quantiles.keys_of(finite_floats(values)))
            else:
                _add_numbers(self._gathered.numbers, chain, values)

    def add_groups(
        self,
        features: pa.RecordBatch,
        groups: NDArray[np.int64],
        splits: tuple[str, ...],
        counted_before: Mapping[str, TableStats] = {},
    ) -> None:
        """Take examples of several splits, each by its number; `counted_before` are their statistics by split."""
        present = np.unique(groups).tolist()
        for code in present:
            mine = features if len(present) == 1 else features.filter(pa.array(groups == code))
            self.add(mine, splits[code], counted_before.get(splits[code]))

    def close(self) -> Gathered:
        """All of it."""
        self._write()
        return self._gathered

    def _count(self, chain: Chain, split: str, table: pa.Table) -> None:
        held = self._counts[chain.name, split]
        held.append(table)
        if sum(map(len, held)) > _MOST_ENTRIES:
            held[:] = [counted.merged(held)]
            if len(held[0]) > _MOST_ENTRIES // 2:
                self._write()

    def _add_keys(self, chain: Chain, split: str, keys: quantiles.Keys) -> None:
        self._keys[chain.name, split].append(keys)
        self._bytes += keys.nbytes
        if self._bytes > _MOST_BYTES:
            self._write()

    def _write(self) -> None:
        file = SpillFile(self._folder)
        for (output, split), tables in self._counts.items():
            file.add_counts(output, split, counted.merged(tables))
        for (output, split), keys in self._keys.items():
            file.add_keys(output, split, np.concatenate(keys))
        self._gathered.spilled += file.close()
        self._counts.clear()
        self._keys.clear()
        self._bytes = 0


def _add_numbers(numbers: dict[str, RangeStats], chain: Chain, values: Any) -> None:
    is_integer = pa.types.is_integer(values.type)
    stats = numbers.setdefault(chain.name, RangeStats(sums=ExactSums(0 if is_integer else FLOAT32_FRACTION_BITS)))
    found: Any = values.to_numpy(zero_copy_only=False) if is_integer else np.sort(finite_floats(values))
    if not len(found):
        return
    stats.low, stats.high = min(stats.low, found.min().item()), max(stats.high, found.max().item())
    if is_integer:
        stats.sums.add_integers(found)
    else:
        stats.sums.add_floats(found)
