"""Runs: records of some blocks, framed and sorted by split and key, in a file of the job's temporary directory.

The file is the framed records (a TFRecord file in itself), then an entry of 20 bytes for each: its key, its tie and its
framed size. A shard is a range of keys of one split, so its part of a run is one range of bytes among the records, and
one among the entries. In an object store each record has its entry before it, too, so there the former is enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shardmill.records import spans
from shardmill.transforms.columns.buffers import data_of, offsets_of
from shardmill.transforms.columns.codes import narrow
from shardmill.transforms.records.self_contained import ENTRY, with_entries
from shardmill.transforms.sharding.divisions import Grouped
from shardmill.transforms.stores import storage


@dataclass(frozen=True, slots=True)
class Part:
    """A run's records of one split (or of one stratum): `rows` of them, `size_bytes` in all."""

    group: str
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Run:
    """A run on disk.

    Attributes:
      path: of the file.
      index_offset: where the keys begin; the records lie before, unless the run has keys alone.
      parts: of each split, in their order in the file.
      self_contained: whether each record has its entry before it; see shardmill.transforms.records.self_contained.
    """

    path: str
    index_offset: int
    parts: tuple[Part, ...]
    self_contained: bool = False

    @property
    def rows(self) -> int:
        """Records in all."""
        return sum(part.rows for part in self.parts)


@dataclass(frozen=True, slots=True, eq=False)
class KeyedRecords:
    """Framed records in any order.

    Attributes:
      framed: as they stand in a TFRecord file.
      keys, ties: uint64, shape (rows,).
      groups: int64, shape (rows,), of each, the index in `names`.
      names: of the groups.
    """

    framed: pa.LargeBinaryArray
    keys: np.ndarray
    ties: np.ndarray
    groups: np.ndarray
    names: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class SortedRecords:
    """Records as a run holds them.

    Attributes:
      data: framed, one behind the other.
      index: of dtype ENTRY, shape (rows,).
      parts: of each group, in their order.
    """

    data: Any  # a bytes-like object
    index: np.ndarray
    parts: tuple[Part, ...]


def sort_records(records: KeyedRecords) -> SortedRecords:
    """At least one record, in the order of (group, key, tie)."""
    order = key_order(records.keys, records.ties, records.groups)
    starts, sizes = offsets_of(records.framed).take(order), sizes_of(records.framed).take(order)
    data, _ = spans.gather(data_of(records.framed), starts, sizes)
    return SortedRecords(data, _index(records, order, sizes), _parts(records, sizes))


def write_sorted(path: str, records: SortedRecords, self_contained: bool = False) -> Run:
    """Write records that are sorted, each behind its entry if `self_contained`."""
    data = with_entries(records.data, records.index) if self_contained else records.data
    storage.write_parts(path, [data, records.index])
    return Run(path, len(data), records.parts, self_contained)


def write_keys(path: str, records: KeyedRecords, weights: np.ndarray | None = None) -> Run:
    """As `write_sorted` of `records`, sorted, but of the keys alone, which is all that finding cuts takes; in the place
    of their sizes stand `weights`, int64 of shape (rows,), if they are given."""
    order = key_order(records.keys, records.ties, records.groups)
    sizes = (sizes_of(records.framed) if weights is None else weights).take(order)
    storage.write_parts(path, [_index(records, order, sizes)])
    return Run(path, 0, _parts(records, sizes))


def read_keys(run: Run) -> Grouped:
    """The keys, ties and sizes of a run's records by split: shardmill.transforms.sharding.cuts groups a run by it."""
    keys, ties, sizes = read_keys_at(run.path, run.index_offset, run.rows)
    grouped: Grouped = {}
    start = 0
    for part in run.parts:
        stop = start + part.rows
        grouped[part.group] = keys[start:stop], ties[start:stop], sizes[start:stop].astype(np.int64)
        start = stop
    return grouped


def read_distinct_keys(run: Run) -> Grouped:
    """The different keys of a run's records by split, how many records have each, and the bytes of these."""
    found: Grouped = {}
    for group, (keys, _, sizes) in read_keys(run).items():
        first = np.flatnonzero(np.diff(keys, prepend=~keys[:1]))
        counts = np.diff(np.append(first, len(keys)))
        found[group] = keys[first], counts.astype(np.uint64), np.add.reduceat(sizes, first)
    return found


def read_keys_at(path: str, offset: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys, ties and framed sizes from the entries of `rows` records, the first of which lies at `offset`."""
    return columns_of(np.frombuffer(storage.read_range(path, offset, rows * ENTRY.itemsize), ENTRY))


def columns_of(entries: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys, ties and framed sizes of entries."""
    keys, ties, sizes = (np.ascontiguousarray(entries[name]) for name in ENTRY.names or ())
    return keys, ties, sizes


def key_order(keys: np.ndarray, ties: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
    """The order of (group, key, tie): int64, shape (rows,).

    Keys are hashes, so hardly two are equal: sorting by them alone and mending the rest is three times as fast as a
    sort by all.
    """
    order = np.argsort(keys)  # `take` is twice as fast as indexing by an array
    if groups is not None and len(groups) and groups.min() != (most := groups.max()):
        groups = narrow(groups, int(most) + 1)
        order = order.take(np.argsort(groups.take(order), kind="stable"))
        same = _is_as_before(keys.take(order)) & _is_as_before(groups.take(order))
    else:
        same = _is_as_before(keys.take(order))
    if same.any():
        if groups is None:
            return np.lexsort((ties, keys))
        return np.lexsort((ties, keys, groups))
    return order


def _is_as_before(values: np.ndarray) -> np.ndarray:
    """Of each value but the first, whether it is that before it."""
    equal: np.ndarray = values[1:] == values[:-1]
    return equal


def sizes_of(framed: pa.LargeBinaryArray) -> np.ndarray:
    """The size in bytes of each record: int64, shape (rows,)."""
    return np.diff(offsets_of(framed))


def _index(records: KeyedRecords, order: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    index = np.empty(len(order), ENTRY)
    index["key"], index["tie"], index["size"] = records.keys.take(order), records.ties.take(order), sizes
    return index


def _parts(records: KeyedRecords, sizes: np.ndarray) -> tuple[Part, ...]:
    rows = np.bincount(records.groups)
    present = np.flatnonzero(rows).tolist()
    stops = np.cumsum(rows)[present].tolist()
    return tuple(
        Part(records.names[group], stop - start, int(sizes[start:stop].sum()))
        for group, start, stop in zip(present, [0, *stops[:-1]], stops, strict=True)
    )
