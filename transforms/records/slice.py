"""A shard's part of a run: what describes it, and how a run is cut into such."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from shardmill.transforms.records.run_file import Run, read_keys
from shardmill.transforms.records.self_contained import ENTRY
from shardmill.transforms.sharding.divisions import Division, Divisions
from shardmill.transforms.sharding.shards import ShardKey
from shardmill.transforms.tokens.pack import Share

_WHOLE = Share(0, 0)


class Slice(NamedTuple):
    """A shard's part of a run.

    Attributes:
      path: of the run.
      entries_at: the offset of its first entry; None where its records have their entries before them.
      rows: its records.
      offset: of their first byte, or that of the entry before.
      size_bytes: of all of them, and the entries between.
      skip, blocks: what the shard has of packed tokens, see shardmill.transforms.tokens.pack; 0 of all other records.
    """

    path: str
    entries_at: int | None
    rows: int
    offset: int
    size_bytes: int
    skip: int = 0
    blocks: int = 0


SLICE = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("entries_at", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("size_bytes", pa.int64()),
        pa.field("skip", pa.int64()),
        pa.field("blocks", pa.int64()),
    ]
)


def to_slices(batch: pa.RecordBatch) -> list[Slice]:
    """The rows of a SLICE batch."""
    return [Slice(*values) for values in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


def bounds_of(division: Division, keys: np.ndarray, ties: np.ndarray) -> Iterator[tuple[int, int]]:
    """The rows of each part among (key, tie) that are sorted. Parts of packed tokens may end within the document that
    the next begins in, which is then in both."""
    cuts = division.cuts
    for part, (start, stop) in enumerate(pairwise(cuts.bounds(keys, ties).tolist())):
        ends_within = part + 1 < len(division.shares) and division.shares[part + 1].skip > 0
        if ends_within and stop < len(keys) and (keys[stop], ties[stop]) == (cuts.keys[part], cuts.ties[part]):
            stop += 1
        yield start, stop


def slice_run(run: Run, divisions: Divisions) -> list[tuple[ShardKey, Slice]]:
    """A run's slices, by shard."""
    slices: list[tuple[ShardKey, Slice]] = []
    between = ENTRY.itemsize if run.self_contained else 0
    first = offset = 0
    for split, (keys, ties, sizes) in read_keys(run).items():
        ends = offset + np.concatenate(([0], np.cumsum(sizes + between)))
        for shard, (start, stop) in enumerate(bounds_of(divisions[split], keys, ties)):
            if start < stop:
                entries_at = None if run.self_contained else run.index_offset + (first + start) * ENTRY.itemsize
                begin, end = int(ends[start]), int(ends[stop])
                share = divisions[split].shares[shard] if divisions[split].shares else _WHOLE
                part = Slice(run.path, entries_at, stop - start, begin, end - begin, share.skip, share.blocks)
                slices.append(((split, shard), part))
        first += len(keys)
        offset = int(ends[-1])
    return slices
