"""Runs, the sorted records of a task in a temporary file, and their slices, one for each shard.

A run may leave out the largest value of a record, such as an image, if the value is in an input file as it is. The
run then has a reference to it, and the value is read when the shard is written. The frame of the record has the
checksum of all its bytes, so a value that has changed is noticed.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from shardmill.data import spans
from shardmill.data.tfrecord import OVERHEAD
from shardmill.transforms.columns.arrow import data_of, narrow_codes, offsets_of
from shardmill.transforms.columns.example_bytes import FOOTER_BYTES, HEADER_BYTES
from shardmill.transforms.shards.balance import ShardKey
from shardmill.transforms.shards.divisions import Division, Divisions, Grouped, ShardShare
from shardmill.transforms.stores import storage

# Of a record: its key, its tie (uint64) and its framed size (uint32); packed: 20 bytes
ENTRY = np.dtype([("key", "<u8"), ("tie", "<u8"), ("size", "<u4")])
_SIZE_OFFSET = ENTRY.itemsize - 4
# Of a value that is in an input file: the file's number, the value's offset and length there, and its offset in the
# framed record. A record without such a value has length 0.
REFERENCE = np.dtype([("file", "<u4"), ("offset", "<u8"), ("length", "<u4"), ("at", "<u4")])
REFERRING_ENTRY = np.dtype([*ENTRY.descr, ("reference", REFERENCE)])

InputFile = tuple[str, str]  # path and revision, see `storage.read_revision`


def interleave_entries(data: Any, entries: np.ndarray) -> np.ndarray:
    """Return framed records, each after its entry of key, tie and size: uint8, shape (bytes,)."""
    each = np.full(len(entries), ENTRY.itemsize, np.int64)
    sizes = entries["size"].astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    places = starts + np.arange(1, len(entries) + 1) * ENTRY.itemsize  # of records
    out = np.empty(int(sizes.sum()) + int(each.sum()), np.uint8)
    spans.copy(entries.view(np.uint8), np.cumsum(each) - each, each, out, places - ENTRY.itemsize)
    spans.copy(data, starts, sizes, out, places)
    return out


def extract_entries(data: bytes | bytearray) -> np.ndarray:
    """Return the entries between records that `interleave_entries` joined; raise a ValueError if data is missing."""
    try:
        starts = spans.chain(data, ENTRY.itemsize, _SIZE_OFFSET, OVERHEAD)
    except ValueError as error:
        raise ValueError(f"{len(data):,} bytes of a run, which do not end with a record") from error
    return spans.gather(data, starts, np.full(len(starts), ENTRY.itemsize, np.int64))[0].view(ENTRY)


def strip_frames(framed: bytes, sizes: np.ndarray, gap: int = 0) -> list[bytes]:
    """Return the payloads of consecutive framed records, given their framed sizes and the bytes to skip before each."""
    ends = np.cumsum(sizes + gap)
    starts = ends - sizes + HEADER_BYTES
    return [framed[start:end] for start, end in zip(starts.tolist(), (ends - FOOTER_BYTES).tolist(), strict=True)]


@dataclass(frozen=True, slots=True)
class RunPart:
    """The records of one split or stratum in a run: `rows` framed records of `size_bytes` in all."""

    group: str
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Run:
    """A run: a temporary file with sorted records, split by split."""

    path: str  # path of the file
    index_offset: int  # start of the entries; records come before, unless the run holds only keys
    parts: tuple[RunPart, ...]  # of each split, in file order
    self_contained: bool = False  # each record follows its entry, see transforms.records.run_file
    has_references: bool = False  # entries are REFERRING_ENTRY, and the input files' names follow them

    @property
    def rows(self) -> int:
        """Number of records."""
        return sum(part.rows for part in self.parts)

    @property
    def entry_dtype(self) -> np.dtype:
        """The type of the entries."""
        return REFERRING_ENTRY if self.has_references else ENTRY


@dataclass(frozen=True, slots=True, eq=False)
class KeyedRecords:
    """Framed records with keys, in any order."""

    framed: pa.LargeBinaryArray  # records as in a TFRecord file
    keys: np.ndarray  # uint64, shape (rows,)
    ties: np.ndarray  # uint64, shape (rows,)
    groups: np.ndarray  # int64, shape (rows,): indices into `names`
    names: Sequence[str]  # names of the groups
    references: np.ndarray | None = None  # dtype REFERENCE, shape (rows,): values to leave in `files`
    files: tuple[InputFile, ...] = ()  # files that `references` number


@dataclass(frozen=True, slots=True, eq=False)
class SortedRecords:
    """Records sorted by key, as a run holds them."""

    data: Any  # consecutive framed records without the values that are left out, a bytes-like object
    index: np.ndarray  # dtype ENTRY or REFERRING_ENTRY, shape (rows,)
    parts: tuple[RunPart, ...]  # of each group, in order
    files: tuple[InputFile, ...] = ()  # files that references number


def sort_records(records: KeyedRecords) -> SortedRecords:
    """Sort at least one record by (group, key, tie)."""
    order = sort_order(records.keys, records.ties, records.groups)
    starts, sizes = offsets_of(records.framed).take(order), framed_sizes(records.framed).take(order)
    entries, parts = _make_entries(records, order, sizes), _make_parts(records, sizes)
    if records.references is None:
        data, _ = spans.gather(data_of(records.framed), starts, sizes)
        return SortedRecords(data, entries, parts)
    left_out = records.references.take(order)
    entries = with_references(entries, left_out)
    at, length = left_out["at"].astype(np.int64), left_out["length"].astype(np.int64)
    both = np.stack((starts, starts + at + length), axis=1), np.stack((at, sizes - at - length), axis=1)
    data, _ = spans.gather(data_of(records.framed), both[0].ravel(), both[1].ravel())
    return SortedRecords(data, entries, parts, records.files)


def with_references(entries: np.ndarray, references: np.ndarray) -> np.ndarray:
    """Return entries with a reference each: dtype REFERRING_ENTRY, shape (rows,)."""
    index = np.empty(len(entries), REFERRING_ENTRY)
    for name in ENTRY.names or ():
        index[name] = entries[name]
    index["reference"] = references
    return index


def write_sorted(path: str, records: SortedRecords, self_contained: bool = False) -> Run:
    """Write sorted records as a run; if `self_contained`, each after its entry of key, tie and size."""
    data = interleave_entries(records.data, records.index) if self_contained else records.data
    has_references = records.index.dtype == REFERRING_ENTRY
    names = [encode_files(records.files)] if has_references else []
    storage.write_parts(path, [data, records.index, *names])
    return Run(path, len(data), records.parts, self_contained, has_references)


def encode_files(files: Sequence[InputFile]) -> bytes:
    """Return the paths and revisions of input files as the end of a run."""
    return json.dumps(files).encode()


@lru_cache(maxsize=256)
def read_files(path: str, offset: int) -> tuple[InputFile, ...]:
    """Read the paths and revisions of input files from the end of the run at `path`, from `offset` on."""
    names = json.loads(storage.read_range(path, offset, storage.size(path) - offset))
    return tuple((name, revision) for name, revision in names)


def write_keys(path: str, records: KeyedRecords, weights: np.ndarray | None = None) -> Run:
    """Sort records, and write a run of only their keys, ties and sizes, or `weights` in place of sizes."""
    order = sort_order(records.keys, records.ties, records.groups)
    sizes = (framed_sizes(records.framed) if weights is None else weights).take(order)
    storage.write_parts(path, [_make_entries(records, order, sizes)])
    return Run(path, 0, _make_parts(records, sizes))


def read_keys(run: Run) -> Grouped:
    """Read the keys, ties and sizes of a run's records by split, to find where shards begin."""
    keys, ties, sizes = entry_columns(_read_entries(run))
    bounds = pairwise(accumulate((part.rows for part in run.parts), initial=0))
    return {
        part.group: (keys[start:stop], ties[start:stop], sizes[start:stop].astype(np.int64))
        for part, (start, stop) in zip(run.parts, bounds, strict=True)
    }


def _read_entries(run: Run) -> np.ndarray:
    size = run.rows * run.entry_dtype.itemsize
    return np.frombuffer(storage.read_range(run.path, run.index_offset, size), run.entry_dtype)


def read_keys_at(path: str, offset: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read keys, ties and framed sizes from the `rows` entries that begin at `offset`."""
    return entry_columns(np.frombuffer(storage.read_range(path, offset, rows * ENTRY.itemsize), ENTRY))


def entry_columns(entries: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the keys, ties and framed sizes in some entries of a run."""
    keys, ties, sizes = (np.ascontiguousarray(entries[name]) for name in ENTRY.names or ())
    return keys, ties, sizes


def stored_sizes(entries: np.ndarray) -> np.ndarray:
    """Return the bytes of each record in its run, without values that are left out: int64, shape (rows,)."""
    sizes = entries["size"].astype(np.int64)
    return sizes - entries["reference"]["length"] if entries.dtype == REFERRING_ENTRY else sizes


def sort_order(keys: np.ndarray, ties: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
    """Return the order of records by (group, key, tie): int64, shape (rows,).

    Keys are hashes, so equal ones are rare. Sorting by key alone, with a full sort only if there are equal keys, is
    three times as fast as always sorting by all three.
    """
    order = np.argsort(keys)  # `take` is twice as fast as indexing by an array
    if groups is not None and len(groups) and groups.min() != (most := groups.max()):
        groups = narrow_codes(groups, int(most) + 1)
        order = order.take(np.argsort(groups.take(order), kind="stable"))
        same = _compare_to_previous(keys.take(order)) & _compare_to_previous(groups.take(order))
    else:
        same = _compare_to_previous(keys.take(order))
    if same.any():
        return np.lexsort((ties, keys) if groups is None else (ties, keys, groups))
    return order


def _compare_to_previous(values: np.ndarray) -> Any:
    return values[1:] == values[:-1]


def framed_sizes(framed: pa.LargeBinaryArray) -> np.ndarray:
    """Return the size in bytes of each record: int64, shape (rows,)."""
    return np.diff(offsets_of(framed))


def _make_entries(records: KeyedRecords, order: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    index = np.empty(len(order), ENTRY)
    index["key"], index["tie"], index["size"] = records.keys.take(order), records.ties.take(order), sizes
    return index


def _make_parts(records: KeyedRecords, sizes: np.ndarray) -> tuple[RunPart, ...]:
    rows = np.bincount(records.groups)
    present = np.flatnonzero(rows).tolist()
    stops = np.cumsum(rows)[present].tolist()
    return tuple(
        RunPart(records.names[group], stop - start, int(sizes[start:stop].sum()))
        for group, start, stop in zip(present, [0, *stops[:-1]], stops, strict=True)
    )


_NO_SHARE = ShardShare(0, 0)


class Slice(NamedTuple):
    """The part of a run whose records belong to one shard."""

    path: str  # path of the run
    entries_at: int | None  # offset of the first entry; None if records follow their entries
    rows: int  # number of records
    offset: int  # of the first record, or of the entry before it
    size_bytes: int  # of all records and the entries between them
    skip: int = 0  # as in ShardShare
    examples: int = 0  # as in ShardShare
    files_at: int = 0  # of the input files' names, if the run has references; else 0


SLICE = pa.schema([(name, pa.string() if name == "path" else pa.int64()) for name in Slice._fields])


def to_slices(batch: pa.RecordBatch) -> list[Slice]:
    """Return the slices of runs in a batch of schema SLICE."""
    return [Slice(*values) for values in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


def slice_bounds(division: Division, keys: np.ndarray, ties: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield the first row and the end of each part of a group's sorted (key, tie)."""
    cuts = division.cuts
    for part, (start, stop) in enumerate(pairwise(cuts.bounds(keys, ties).tolist())):
        # A part may end within the record in which the next part begins. Both then include it.
        ends_within = part + 1 < len(division.shares) and division.shares[part + 1].skip > 0
        if ends_within and stop < len(keys) and (keys[stop], ties[stop]) == (cuts.keys[part], cuts.ties[part]):
            stop += 1
        yield start, stop


def slice_run(run: Run, divisions: Divisions) -> list[tuple[ShardKey, Slice]]:
    """Return the slices of a run, each with its shard."""
    slices: list[tuple[ShardKey, Slice]] = []
    between = ENTRY.itemsize if run.self_contained else 0
    entries, each = _read_entries(run), run.entry_dtype.itemsize
    files_at = run.index_offset + run.rows * each if run.has_references else 0
    first = offset = 0
    for rows in run.parts:
        split, of_split = rows.group, entries[first : first + rows.rows]
        keys, ties, _ = entry_columns(of_split)
        ends = offset + np.concatenate(([0], np.cumsum(stored_sizes(of_split) + between)))
        for shard, (start, stop) in enumerate(slice_bounds(divisions[split], keys, ties)):
            if start < stop:
                entries_at = None if run.self_contained else run.index_offset + (first + start) * each
                begin, end = int(ends[start]), int(ends[stop])
                share = divisions[split].shares[shard] if divisions[split].shares else _NO_SHARE
                part = Slice(
                    run.path, entries_at, stop - start, begin, end - begin, share.skip, share.examples, files_at
                )
                slices.append(((split, shard), part))
        first += len(keys)
        offset = int(ends[-1])
    return slices
