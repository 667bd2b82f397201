"""Analyzers of preprocessing: gather values from all examples and compute the constants of steps."""

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shardmill.addons.transform import preprocessing_declaration
from shardmill.data import spans
from shardmill.errors import JobError
from shardmill.transforms.columns.arrow import data_of, is_list, offsets_of
from shardmill.transforms.findings import Mergeable, merged
from shardmill.transforms.statistics.sketches import FLOAT32_FRACTION_BITS, ExactSums
from shardmill.transforms.statistics.tables import TableStats
from shardmill.transforms.statistics.values import RangeStats
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.resources import release_freed_memory

PARTS = 64
_SHIFT = np.uint64(58)  # of a hash, so that 6 bits are left
_SEED = 0x7E11  # any
_LINES_AT_ONCE = 1 << 20  # that are written at once
COUNT_SCHEMA = pa.schema([("value", pa.large_binary()), ("count", pa.int64())])


def count_values(values: pa.Array) -> pa.Table:
    """Count the occurrences of each distinct value; `values` are texts, or integers, which become decimal texts."""
    counted = pc.value_counts(values)
    entries = counted.field("values")
    if pa.types.is_integer(entries.type):
        entries = entries.cast(pa.large_string())
    return pa.table([entries.cast(pa.large_binary()), counted.field("counts")], schema=COUNT_SCHEMA)


def merge_counts(tables: Sequence[pa.Table]) -> pa.Table:
    """Add up the counts of all tables, in no particular order."""
    table = pa.concat_tables([COUNT_SCHEMA.empty_table(), *tables])
    if len(tables) < 2:
        return table
    grouped = table.group_by("value", use_threads=False).aggregate([("count", "sum")])
    return pa.table([grouped["value"], grouped["count_sum"]], schema=COUNT_SCHEMA)


def divide_by_hash(table: pa.Table) -> list[pa.Table]:
    """Divide a table into PARTS tables by the hashes of its values."""
    values = table["value"].combine_chunks()
    parts = part_of(values)
    order = np.argsort(parts, kind="stable")  # of bytes, a radix sort
    ends = np.cumsum(np.bincount(parts, minlength=PARTS))
    ordered = table.take(pa.array(order))
    return [ordered.slice(start, end - start) for start, end in zip([0, *ends[:-1].tolist()], ends.tolist())]


def concatenate_and_clear(tables: list[pa.Table]) -> pa.Table:
    """Concatenate tables and clear the list, so that memory holds them twice only while they are copied."""
    table = pa.concat_tables(tables).combine_chunks()
    tables.clear()
    return table


def part_of(values: pa.LargeBinaryArray) -> np.ndarray:
    """Return the number of the part, by its hash, in which each value is counted: uint8, shape (n,)."""
    offsets = offsets_of(values)
    return (spans.hashes(data_of(values), offsets[:-1], offsets[1:], _SEED) >> _SHIFT).astype(np.uint8)


def filter_valid_entries(table: pa.Table) -> pa.Table:
    """Return the rows whose value can be a line of a vocabulary file."""
    values = table["value"]
    good = pc.not_equal(pc.binary_length(values), 0)
    for odd in filter(None, preprocessing_declaration.INVALID_IN_VOCABULARY):
        good = pc.and_(good, pc.equal(pc.find_substring(values, odd), -1))
    return table.filter(good)


def most_frequent(table: pa.Table, top_k: int | None = None, threshold: int | None = None) -> pa.Table:
    """Sort entries by descending count, then bytes; keep `top_k` of those that occur `threshold` times or more."""
    if threshold is not None:
        table = table.filter(pc.greater_equal(table["count"], threshold))
    table = table.combine_chunks()
    order = pc.sort_indices(table, sort_keys=[("count", "descending"), ("value", "ascending")])[:top_k]
    # In parts: to take all at once needs them once more
    parts = [table.take(order[start : start + _LINES_AT_ONCE]) for start in range(0, len(order), _LINES_AT_ONCE)]
    return pa.concat_tables(parts) if parts else COUNT_SCHEMA.empty_table()


def vocabulary_lines(table: pa.Table) -> Iterator[pa.Buffer]:
    """Yield the values as the lines of a file, in large buffers."""
    for batch in table.to_batches(max_chunksize=_LINES_AT_ONCE):
        ended = pc.binary_join_element_wise(
            batch["value"], pa.scalar(b"", pa.large_binary()), pa.scalar(b"\n", pa.large_binary())
        )
        yield pa.py_buffer(data_of(ended))


_HALF_BITS = 16  # bits
_SIGN = np.uint32(1 << 31)

QuantileKeys = NDArray[np.uint32]


def numbers_to_keys(numbers: NDArray[np.float32]) -> QuantileKeys:
    """Return integers that sort like the numbers."""
    bits = np.ascontiguousarray(numbers).view(np.uint32)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def keys_to_numbers(keys: QuantileKeys) -> NDArray[np.float32]:
    """Return the numbers that `numbers_to_keys` converted to these keys."""
    bits = np.where(keys & _SIGN, keys ^ _SIGN, ~keys)
    return bits.astype(np.uint32).view(np.float32)


def quantile_boundaries(number: int, read: Callable[[], Iterable[QuantileKeys]]) -> tuple[float, ...]:
    """Return the boundaries of `number` buckets of about equal size: of n sorted numbers those at n * i // number.

    tft.quantiles gives the same as long as it is exact. `read` is called twice; it returns the keys of all numbers, in
    any order and parts. Without numbers there are no boundaries.
    """
    high = np.zeros(1 << _HALF_BITS, np.int64)
    for keys in read():
        high += np.bincount(keys >> np.uint32(_HALF_BITS), minlength=1 << _HALF_BITS)
    total = int(high.sum())
    if not total:
        return ()
    ends = np.cumsum(high)
    ranks = [total * index // number for index in range(1, number)]
    halves = [int(np.searchsorted(ends, rank, "right")) for rank in ranks]
    low = _count_low_halves(sorted(set(halves)), read)
    within = {half: np.cumsum(counts) for half, counts in low.items()}
    found = [
        half << _HALF_BITS | int(np.searchsorted(within[half], rank - int(ends[half] - high[half]), "right"))
        for rank, half in zip(ranks, halves, strict=True)
    ]
    return tuple(keys_to_numbers(np.array(found, np.uint32)).tolist())


def _count_low_halves(
    places: Sequence[int], read: Callable[[], Iterable[QuantileKeys]]
) -> dict[int, NDArray[np.int64]]:
    """Count the 32-bit keys by their lower 16 bits, for each value of the upper 16 bits in `places`."""
    counts = {place: np.zeros(1 << _HALF_BITS, np.int64) for place in places}
    wanted = np.zeros(1 << _HALF_BITS, bool)
    wanted[places] = True
    for keys in read():
        mine = keys[wanted[keys >> np.uint32(_HALF_BITS)]]
        upper = mine >> np.uint32(_HALF_BITS)
        for place in np.unique(upper).tolist():
            lower = mine[upper == place] & np.uint32((1 << _HALF_BITS) - 1)
            counts[place] += np.bincount(lower, minlength=1 << _HALF_BITS)
    return counts


_KEY_BYTES_AT_ONCE = 1 << 24  # bytes that are read of keys at once
_IPC_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


@dataclass(frozen=True, slots=True)
class SpilledSection:
    """A part of a temporary file with keys or counts of the values of one output and split."""

    output: str  # output that the values are of
    split: str  # split of the examples
    path: str
    starts: tuple[int, ...]  # offsets of its parts in the file, and the end of the last

    @property
    def size_bytes(self) -> int:
        return self.starts[-1] - self.starts[0]

    def read_keys(self) -> Iterator[QuantileKeys]:
        for start in range(self.starts[0], self.starts[-1], _KEY_BYTES_AT_ONCE):
            size = min(_KEY_BYTES_AT_ONCE, self.starts[-1] - start)
            yield np.frombuffer(storage.read_range(self.path, start, size), "<u4")

    def read_counts(self, first: int, last: int) -> list[pa.Table]:
        """Read the counts of the parts from `first` to before `last`."""
        start, end = self.starts[first], self.starts[last]
        source = pa.BufferReader(storage.read_range(self.path, start, end - start))
        return [pa.ipc.open_stream(source).read_all() for _ in range(first, last)]


def part_ranges(sections: Sequence[SpilledSection], bytes_at_once: int) -> list[tuple[int, int]]:
    """Return ranges of the parts that counts are divided into, of about `bytes_at_once` bytes in all files each."""
    number = 1
    while number < PARTS and sum(section.size_bytes for section in sections) > number * bytes_at_once:
        number *= 2
    step = PARTS // number
    return [(first, first + step) for first in range(0, PARTS, step)]


def read_merged_counts(sections: Sequence[SpilledSection], first: int, last: int) -> pa.Table:
    """Return the counts of a range of parts, added up over all sections."""
    return merge_counts([table for section in sections for table in section.read_counts(first, last)])


def spill_sections(folder: str, sections: Iterable[tuple[str, str, Sequence[bytes]]]) -> list[SpilledSection]:
    """Write sections, each an output, a split and its parts, to one file in `folder`, and return their locations."""
    # A random name keeps attempts apart
    path, offset = storage.join(folder, uuid.uuid4().hex), 0
    written: list[bytes] = []
    spilled: list[SpilledSection] = []
    for output, split, parts in sections:
        starts = tuple(accumulate(map(len, parts), initial=offset))
        offset = starts[-1]
        written += parts
        spilled.append(SpilledSection(output, split, path, starts))
    if spilled:
        storage.write_parts(path, written)
    return spilled


def _to_ipc_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, COUNT_SCHEMA, options=_IPC_OPTIONS) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


_TOKEN_SEPARATOR = "\0"  # tokens, once what a pattern matches is replaced; the graph does the same


def values_before_analyzer(column: pa.Array, chain: preprocessing_declaration.Chain) -> pa.Array:
    """Return the values of `column` after the steps before the analyzer of `chain`, flat and without nulls."""
    if is_list(column.type):
        column = column.flatten()
    for step in chain.steps_before_analyzer:
        column = _apply_step(column, step)
    return column.drop_null() if column.null_count else column


def finite_floats(values: pa.Array) -> NDArray[np.float32]:
    """Return the finite numbers as float32, with -0.0 as 0.0."""
    numbers = values.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return numbers[np.isfinite(numbers)] + np.float32(0)


def _apply_step(column: pa.Array, step: preprocessing_declaration.Step) -> pa.Array:
    if isinstance(step, preprocessing_declaration.Fill):
        is_integer, is_float = pa.types.is_integer(column.type), pa.types.is_floating(column.type)
        value = step.parse_value("int64" if is_integer else "float32" if is_float else "bytes")
        return pc.fill_null(column, pa.scalar(value, column.type))
    if isinstance(step, preprocessing_declaration.Lower):
        return pc.ascii_lower(_view_as_texts(column)).view(pa.large_binary())
    if isinstance(step, preprocessing_declaration.Tokenize):
        return _tokenize(_view_as_texts(column.drop_null()), step.pattern).view(pa.large_binary())
    # Of float32, as in the graph, but in float64 and rounded once: that gives the same digits on every machine
    with np.errstate(invalid="ignore", divide="ignore"):
        logarithms = np.log1p(column.drop_null().to_numpy(zero_copy_only=False).astype(np.float32).astype(np.float64))
    return pa.array(logarithms.astype(np.float32), pa.float32())


def _tokenize(texts: pa.LargeStringArray, pattern: str) -> pa.LargeStringArray:
    if pattern:
        lists = pc.split_pattern(pc.replace_substring_regex(texts, pattern, _TOKEN_SEPARATOR), _TOKEN_SEPARATOR)
    else:
        lists = pc.ascii_split_whitespace(texts)
    tokens = lists.flatten()
    return tokens.filter(pc.not_equal(pc.binary_length(tokens), 0))


def _view_as_texts(column: pa.Array) -> pa.LargeStringArray:
    """View bytes as texts without checking that they are UTF-8; the kernels that follow accept any bytes."""
    return column.cast(pa.large_binary()).view(pa.large_string())


GATHERED_FOLDER = "gathered"  # in the job's temporary directory
MAX_COUNTS_HELD = 1 << 20  # of counts that are held of one output and split
MAX_KEY_BYTES_HELD = 1 << 26  # of keys that are held


@dataclass(slots=True)
class Gathered(Mergeable):
    """Values of some examples from which the constants of a transform are computed."""

    examples: Counter[str] = field(default_factory=Counter)  # number by split, of all splits
    # range and exact sums of finite values by output, of the analyzed splits
    numbers: dict[str, RangeStats] = field(default_factory=dict)
    # files of keys and counts; counts are of all splits, which each report unknown values
    spilled: list[SpilledSection] = field(default_factory=list)


class Gatherer:
    """Collector of the analyzers' input from the examples of one task, which writes files to `folder`."""

    def __init__(self, declaration: preprocessing_declaration.Declaration, splits: Sequence[str], folder: str) -> None:
        self._declaration, self._splits, self._folder = declaration, splits, folder
        self._gathered = Gathered()
        self._counts: dict[tuple[str, str], list[pa.Table]] = defaultdict(list)
        self._keys: dict[tuple[str, str], list[QuantileKeys]] = defaultdict(list)
        self._bytes = 0

    def add(
        self, features: pa.RecordBatch | None, split: str, examples: int, table_stats: TableStats | None = None
    ) -> None:
        """Add `examples` of one split by their features, if any; `table_stats` are statistics computed already."""
        self._gathered.examples[split] += examples
        if features is None:
            return
        is_analyzed = split in self._splits
        for chain in self._declaration.analyzed_chains:
            if not is_analyzed and chain.needs != "vocabulary":
                continue
            numbers = table_stats.numeric_range(chain.feature) if table_stats is not None else None
            has_range = numbers is not None and not chain.steps_before_analyzer and chain.needs in ("moments", "range")
            values = None if has_range else values_before_analyzer(features[chain.feature], chain)
            if chain.needs == "vocabulary":
                self._count(chain, split, count_values(values))
            elif chain.needs == "quantiles":
                self._add_keys(chain, split, numbers_to_keys(finite_floats(values)))
            else:
                held = self._gathered.numbers
                held[chain.name] = merged(held.get(chain.name), numbers if has_range else _range_of(values))

    def add_groups(
        self,
        features: pa.RecordBatch,
        groups: NDArray[np.int64],
        splits: tuple[str, ...],
        table_stats: Mapping[str, TableStats] = {},
    ) -> None:
        """Add examples of several splits; `groups` are indices into `splits`, `table_stats` statistics by split."""
        present = np.unique(groups).tolist()
        for code in present:
            group_features = features if len(present) == 1 else features.filter(pa.array(groups == code))
            self.add(group_features, splits[code], len(group_features), table_stats.get(splits[code]))

    def close(self) -> Gathered:
        """Write the values still held, and return all that was gathered."""
        self._write()
        return self._gathered

    def _count(self, chain: preprocessing_declaration.Chain, split: str, table: pa.Table) -> None:
        table_list = self._counts[chain.name, split]
        table_list.append(table)
        if sum(map(len, table_list)) > MAX_COUNTS_HELD:
            table_list[:] = [merge_counts(table_list)]
            if len(table_list[0]) > MAX_COUNTS_HELD // 2:
                self._write()

    def _add_keys(self, chain: preprocessing_declaration.Chain, split: str, keys: QuantileKeys) -> None:
        self._keys[chain.name, split].append(keys)
        self._bytes += keys.nbytes
        if self._bytes > MAX_KEY_BYTES_HELD:
            self._write()

    def _write(self) -> None:
        counts = (
            (*of, [_to_ipc_stream(part) for part in divide_by_hash(merge_counts(tables))])
            for of, tables in self._counts.items()
        )
        keys = ((*of, [np.concatenate(held).astype("<u4", copy=False).tobytes()]) for of, held in self._keys.items())
        self._gathered.spilled += spill_sections(self._folder, [*counts, *keys])
        self._counts.clear()
        self._keys.clear()
        self._bytes = 0


def _range_of(values: pa.Array) -> RangeStats:
    is_integer = pa.types.is_integer(values.type)
    stats = RangeStats(sums=ExactSums(0 if is_integer else FLOAT32_FRACTION_BITS))
    stats.add(values.to_numpy(zero_copy_only=False) if is_integer else np.sort(finite_floats(values)))
    return stats


COUNT_BYTES_AT_ONCE = 1 << 25  # bytes of counts, as they lie compressed, that are merged at once


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants that an analysis found for one output of a transform."""

    numbers: Mapping[str, Any] = field(default_factory=dict)  # by name, as in transform.json
    entries: pa.Table | None = None  # vocabulary entries with counts, most frequent first
    # of a vocabulary: (values, values that are no entry) by split
    unknown_counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def find_constants(analysis: Any, gathered: Gathered) -> dict[str, Constants]:
    """Return the constants of each output that has an analyzer; `analysis` is a DeclaredAnalysis.

    Raises:
        JobError: if there are no examples or no values to analyze, or if all values to scale are equal.
    """
    chains = analysis.declaration.analyzed_chains
    release_freed_memory()  # of what was staged: a vocabulary may need as much
    if analysis.previous_graph is not None:
        possible = {}
        for chain in chains:
            with suppress(JobError):  # the constants of the previous version are used anyway
                possible[chain.name] = _find_constants_of(chain, analysis, gathered)
        return possible
    if chains and not any(gathered.examples[split] for split in analysis.splits):
        having = ", ".join(split for split, examples in gathered.examples.items() if examples) or "none"
        named = " or ".join(repr(split) for split in analysis.splits)
        raise JobError(
            f"--transform: no example is in split {named}, from which constants are computed; splits with examples are"
            f" {having}; --analyze_splits names others"
        )
    return {chain.name: _find_constants_of(chain, analysis, gathered) for chain in chains}


def _find_constants_of(chain: preprocessing_declaration.Chain, analysis: Any, gathered: Gathered) -> Constants:
    sections = [section for section in gathered.spilled if section.output == chain.name]
    analyzed_sections = [section for section in sections if section.split in analysis.splits]
    if isinstance(chain.analyzer, preprocessing_declaration.Vocabulary):
        return _find_vocabulary(chain, chain.analyzer, analyzed_sections, sections)
    if isinstance(chain.analyzer, preprocessing_declaration.Bucketize):
        found = quantile_boundaries(
            chain.analyzer.num_buckets, lambda: (keys for section in analyzed_sections for keys in section.read_keys())
        )
        if not found:
            raise _no_values_error(chain)
        return Constants({"boundaries": found})
    stats = gathered.numbers.get(chain.name, RangeStats())
    if not stats.sums.count:
        raise _no_values_error(chain)
    if stats.low == stats.high:
        raise _analyzer_error(
            chain, f"all {stats.sums.count:,} values are {stats.low:g}, which cannot be scaled; drop the feature"
        )
    if chain.needs == "moments":
        return Constants({"mean": stats.sums.mean(), "std_dev": stats.sums.std_dev(), "values": stats.sums.count})
    return Constants({"minimum": stats.low, "maximum": stats.high, "values": stats.sums.count})


def _find_vocabulary(
    chain: preprocessing_declaration.Chain,
    step: preprocessing_declaration.Vocabulary,
    analyzed_sections: Sequence[SpilledSection],
    sections: Sequence[SpilledSection],
) -> Constants:
    found: list[pa.Table] = []
    distinct = 0
    for first, last in part_ranges(analyzed_sections, COUNT_BYTES_AT_ONCE):
        table = read_merged_counts(analyzed_sections, first, last)
        distinct += len(table)
        table = filter_valid_entries(table)
        if step.top_k is not None or step.frequency_threshold is not None:
            table = most_frequent(table, step.top_k, step.frequency_threshold)
        found.append(table)
        del table
        release_freed_memory()
    if not distinct:
        raise _no_values_error(chain)
    entries = most_frequent(concatenate_and_clear(found), step.top_k)
    if not len(entries):
        raise _analyzer_error(
            chain,
            f"none of {distinct:,} values is a vocabulary's entry"
            + (f" at frequency_threshold {step.frequency_threshold}" if step.frequency_threshold else ""),
        )
    return Constants({"entries": len(entries), "distinct": distinct}, entries, _count_unknown(entries, sections))


def _count_unknown(entries: pa.Table, sections: Sequence[SpilledSection]) -> dict[str, tuple[int, int]]:
    """Return, by split, the number of values and the number of values that are no entry."""
    parts = np.concatenate([part_of(chunk) for chunk in entries["value"].chunks])
    found = {}
    for split in sorted({section.split for section in sections}):
        values = out = 0
        split_sections = [section for section in sections if section.split == split]
        for first, last in part_ranges(split_sections, COUNT_BYTES_AT_ONCE):
            table = read_merged_counts(split_sections, first, last)
            known = entries["value"].filter(pa.array((parts >= first) & (parts < last))).combine_chunks()
            is_out = pc.invert(pc.is_in(table["value"], value_set=known))
            values += pc.sum(table["count"]).as_py() or 0
            out += pc.sum(table["count"].filter(is_out)).as_py() or 0
        found[split] = (values, out)
    return found


def _no_values_error(chain: preprocessing_declaration.Chain) -> JobError:
    return _analyzer_error(chain, "no example of the analyzed splits has a value")


def _analyzer_error(chain: preprocessing_declaration.Chain, sentence: str) -> JobError:
    assert chain.analyzer is not None
    return JobError(f"{chain.location}: feature {chain.feature!r}: {chain.analyzer.name}: {sentence}")
