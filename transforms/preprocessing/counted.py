"""How often each value occurs, as an Arrow table of values and counts, ordered by hash so that a part of all tables is
merged at a time."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.records import spans
from shardmill.transforms.columns.buffers import data_of, offsets_of
from shardmill.transforms.preprocessing.steps import NOT_IN_A_VOCABULARY

PARTS = 64
_SHIFT = np.uint64(58)  # of a hash, so that 6 bits are left
_SEED = 0x7E11  # any
_LINES = 1 << 20  # that are written at once
SCHEMA = pa.schema([("value", pa.large_binary()), ("count", pa.int64())])


def count(values: pa.Array) -> pa.Table:
    """How often each of `values`, texts or integers, occurs."""
    counted = pc.value_counts(values)
    return pa.table([as_texts(counted.field("values")), counted.field("counts")], schema=SCHEMA)


def as_texts(values: pa.Array) -> pa.LargeBinaryArray:
    """Values as a vocabulary has them: integers in decimal."""
    if pa.types.is_integer(values.type):
        return values.cast(pa.large_string()).view(pa.large_binary())
    return values.cast(pa.large_binary())


def merged(tables: Sequence[pa.Table]) -> pa.Table:
    """The counts of all tables together, in no particular order."""
    table = pa.concat_tables([SCHEMA.empty_table(), *tables])
    if len(tables) < 2:
        return table
    grouped = table.group_by("value", use_threads=False).aggregate([("count", "sum")])
    return pa.table([grouped["value"], grouped["count_sum"]], schema=SCHEMA)


def parted(table: pa.Table) -> list[pa.Table]:
    """The table in PARTS, by the hashes of values."""
    values = table["value"].combine_chunks()
    parts = part_of(values)
    order = np.argsort(parts, kind="stable")  # of bytes, a radix sort
    ends = np.cumsum(np.bincount(parts, minlength=PARTS))
    ordered = table.take(pa.array(order))
    return [ordered.slice(start, end - start) for start, end in zip([0, *ends[:-1].tolist()], ends.tolist())]


def joined(tables: list[pa.Table]) -> pa.Table:
    """All of the tables in one, of which each is let go: they are held twice no longer than it takes."""
    table = pa.concat_tables(tables).combine_chunks()
    tables.clear()
    return table


def part_of(values: pa.LargeBinaryArray) -> np.ndarray:
    """The part of each value: uint8, shape (n,)."""
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    offsets = offsets_of(values)
    return (spans.hashes(data_of(values), offsets[:-1], offsets[1:], _SEED) >> _SHIFT).astype(np.uint8)


def can_be_entries(table: pa.Table) -> pa.Table:
    """The values that can be lines of a vocabulary's file."""
    values = table["value"]
    good = pc.not_equal(pc.binary_length(values), 0)
    for odd in filter(None, NOT_IN_A_VOCABULARY):
        good = pc.and_(good, pc.equal(pc.find_substring(values, odd), -1))
    return table.filter(good)


def most_frequent(table: pa.Table, top_k: int | None = None, threshold: int | None = None) -> pa.Table:
    """The entries by falling count, and those of one count by their bytes."""
    if threshold is not None:
        table = table.filter(pc.greater_equal(table["count"], threshold))
    table = table.combine_chunks()
    order = pc.sort_indices(table, sort_keys=[("count", "descending"), ("value", "ascending")])[:top_k]
    # In parts: to take all at once needs them once more
    parts = [table.take(order[start : start + _LINES]) for start in range(0, len(order), _LINES)]
    return pa.concat_tables(parts) if parts else SCHEMA.empty_table()


def lines(table: pa.Table) -> Iterator[pa.Buffer]:
    """The values as the lines of a file, in parts of it."""
    for batch in table.to_batches(max_chunksize=_LINES):
        ended = pc.binary_join_element_wise(
            batch["value"], pa.scalar(b"", pa.large_binary()), pa.scalar(b"\n", pa.large_binary())
        )
        yield pa.py_buffer(data_of(ended))
