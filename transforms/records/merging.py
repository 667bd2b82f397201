"""Write runs and merge their slices by key, one segment at a time."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from shardmill.data import spans
from shardmill.transforms.columns.arrow import concatenate
from shardmill.transforms.formats.format import FileRef, check_unchanged
from shardmill.transforms.records import run_file
from shardmill.transforms.shards.divisions import Cuts
from shardmill.transforms.shards.sources import EncodedChunk
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import changed_error
from shardmill.transforms.stores.streams import read_ranges, read_spans
from shardmill.transforms.workers.resources import Spool, memory_budget

MAX_REQUESTS = 32  # what a store at some distance answers while the first of them is on its way
_MAX_REQUEST_BYTES = 2 << 20  # of a request: so much is held by each of those under way
Range = tuple[str, int, int]  # path, offset and length


def fetch_ranges(ranges: Sequence[Range]) -> tuple[Spool, list[int]]:
    """Read ranges of objects in many parallel requests into a temporary file; return it and their offsets in it."""
    spool = Spool()
    offsets = list(accumulate((length for _, _, length in ranges), initial=0))

    def fetch_part(target: int, path: str, offset: int, length: int) -> None:
        with memory_budget().take(length):
            spool.write(target, storage.read_range(path, offset, length))

    parts = [
        (target + start, path, offset + start, min(_MAX_REQUEST_BYTES, length - start))
        for (path, offset, length), target in zip(ranges, offsets)
        for start in range(0, length, _MAX_REQUEST_BYTES)
    ]
    with ThreadPoolExecutor(MAX_REQUESTS, "shardmill-fetch") as pool:
        try:
            list(pool.map(fetch_part, *zip(*parts, strict=True)))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return spool, offsets[:-1]


SEGMENT_BYTES = 8 << 20  # of a shard, merged at once
_GOLDEN_RATIO = 0.6180339887498949  # whose multiples are spread evenly between whole numbers
_MERGE_COPIES = 2  # times the size of a segment: as it was read, and in order


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Consecutive records of one run (a sorted temporary file)."""

    source: str | Spool  # path of the run file that is read in place, or the spool that holds its bytes
    offset: int  # of the first record, or of the entry before it
    keys: np.ndarray  # uint64, shape (n,)
    ties: np.ndarray  # uint64, shape (n,)
    sizes: np.ndarray  # framed sizes in bytes, uint32, shape (n,)
    gap: int = 0  # bytes before each record to skip
    references: np.ndarray | None = None  # dtype REFERENCE, shape (n,): values that are in `files` instead
    files: tuple[run_file.InputFile, ...] = ()  # files that `references` number

    @property
    def record_bytes(self) -> int:
        """The size of the framed records in bytes."""
        return int(self.sizes.sum(dtype=np.int64))

    @property
    def size_bytes(self) -> int:
        """The size in bytes in the source, including gaps between records."""
        return int(self.stored_sizes.sum()) + self.gap * len(self.sizes)

    @property
    def stored_sizes(self) -> np.ndarray:
        """The bytes of each record in the source, without values that are left out: int64, shape (n,)."""
        sizes = self.sizes.astype(np.int64)
        return sizes if self.references is None else sizes - self.references["length"]

    def slice(self, start: int, stop: int, offset: int) -> "Piece":
        """Return the records from `start` to before `stop`, of which the first is at `offset`."""
        keys, ties, sizes = (array[start:stop] for array in (self.keys, self.ties, self.sizes))
        references = None if self.references is None else self.references[start:stop]
        return replace(self, offset=offset, keys=keys, ties=ties, sizes=sizes, references=references)


def concatenate_column(pieces: Sequence[Piece], name: str) -> np.ndarray:
    """Return one column (the keys, ties or sizes of records) of all pieces, joined."""
    return np.concatenate([getattr(piece, name) for piece in pieces])


@dataclass(frozen=True)
class RunShards:
    """A ShardSource that merges slices of sorted runs; it holds all keys of a shard, 20 bytes each, but few records."""

    segment_bytes: int = SEGMENT_BYTES  # approximate size of a segment

    def plan(self, parts: Iterable[pa.RecordBatch]) -> tuple[int, Iterable[list[Piece]]]:
        """Return the number of a shard's records, and the slices' pieces to merge in each task."""
        pieces = read_pieces(run_file.to_slices(concatenate(parts)))
        return sum(len(piece.keys) for piece in pieces), cut_into_segments(pieces, self.segment_bytes)

    def encode(self, task: Sequence[Piece]) -> EncodedChunk:
        """Read and merge the pieces of one task."""
        has_references = any(piece.references is not None for piece in task)
        framed_bytes = sum(piece.record_bytes for piece in task) if has_references else 0
        with memory_budget().take(_MERGE_COPIES * sum(piece.size_bytes for piece in task) + framed_bytes):
            data, order = merge_pieces(task)
            if has_references:
                data = _read_references(data, task, order)
        return EncodedChunk(data, len(order))


def join_references(pieces: Sequence[Piece], files: dict[run_file.InputFile, int]) -> np.ndarray:
    """Return the references of all pieces with the files' numbers in `files`, to which new files are added."""
    joined = np.zeros(sum(len(piece.keys) for piece in pieces), run_file.REFERENCE)
    start = 0
    for piece in pieces:
        part = joined[start : start + len(piece.keys)]
        start += len(piece.keys)
        if piece.references is not None:
            part[:] = piece.references
            numbers = np.array([files.setdefault(file, len(files)) for file in piece.files], np.uint32)
            part["file"] = numbers[part["file"]]
    return joined


def _read_references(data: Any, pieces: Sequence[Piece], order: np.ndarray) -> np.ndarray:
    """Return merged records with the values that are in input files; raise a JobError if one of those has changed."""
    files: dict[run_file.InputFile, int] = {}
    references = join_references(pieces, files).take(order)
    sizes = concatenate_column(pieces, "sizes").take(order).astype(np.int64)
    at, lengths = references["at"].astype(np.int64), references["length"].astype(np.int64)
    ends, stored_ends = np.cumsum(sizes), np.cumsum(sizes - lengths)
    starts, stored_starts = ends - sizes, stored_ends - (sizes - lengths)
    framed = np.empty(int(ends[-1]), np.uint8)
    spans.copy(data, stored_starts, at, framed, starts)
    spans.copy(data, stored_starts + at, sizes - lengths - at, framed, starts + at + lengths)
    rows = np.flatnonzero(lengths)
    rows = rows.take(np.lexsort((references["offset"].take(rows), references["file"].take(rows))))
    offsets, numbers = (references[name].take(rows).astype(np.int64) for name in ("offset", "file"))
    paths = [path for path, _ in files]
    read_spans(paths, numbers, offsets, lengths.take(rows), framed, (starts + at).take(rows))
    check_unchanged(FileRef("", path, 0, revision=revision) for path, revision in files)
    is_whole = spans.are_whole(framed, starts.take(rows), ends.take(rows))
    if not is_whole.all():
        raise changed_error(paths[numbers[int(is_whole.argmin())]])
    return framed


def read_pieces(slices: Sequence[run_file.Slice]) -> list[Piece]:
    """Return the records of slices as pieces; slices in an object store are downloaded."""
    local = [part for part in slices if part.entries_at is not None]
    pieces = _make_local_pieces([part for part in local if not part.files_at], run_file.ENTRY)
    pieces += _make_local_pieces([part for part in local if part.files_at], run_file.REFERRING_ENTRY)
    return pieces + _fetch_pieces([part for part in slices if part.entries_at is None])


def merge_pieces(pieces: Sequence[Piece]) -> tuple[Any, np.ndarray]:
    """Return the framed records of all pieces, sorted, and the order in which the joined pieces were taken.

    Values that are in input files are left out.
    """
    order = run_file.sort_order(concatenate_column(pieces, "keys"), concatenate_column(pieces, "ties"))
    sizes = concatenate_column(pieces, "stored_sizes")
    gaps = np.repeat([piece.gap for piece in pieces], [len(piece.sizes) for piece in pieces])
    ends = np.cumsum(sizes + gaps)
    data = np.empty(int(ends[-1]), np.uint8)
    places = np.concatenate(([0], ends[np.cumsum([len(piece.sizes) for piece in pieces]) - 1]))
    _read_bytes_of_pieces(pieces, data, places)
    return spans.gather(data, (ends - sizes).take(order), sizes.take(order))[0], order


def _read_bytes_of_pieces(pieces: Sequence[Piece], target: np.ndarray, places: np.ndarray) -> None:
    files = [piece.source for piece in pieces if isinstance(piece.source, str)]
    if len(files) == len(pieces):
        read_ranges(files, np.array([piece.offset for piece in pieces], np.int64), target, places)
        return
    for piece, start, stop in zip(pieces, places[:-1], places[1:], strict=True):
        if isinstance(piece.source, str):
            storage.read_into(piece.source, piece.offset, target[start:stop].data)
        else:
            piece.source.read_into(piece.offset, target[start:stop].data)


def _make_local_pieces(slices: Sequence[run_file.Slice], dtype: np.dtype) -> list[Piece]:
    """Return the records of slices of runs on a disk, whose keys follow all records."""
    if not slices:
        return []
    ends = np.cumsum([0, *(part.rows for part in slices)])
    entries = np.empty(ends[-1], dtype)
    offsets = np.array([part.entries_at for part in slices], np.int64)
    read_ranges([part.path for part in slices], offsets, entries.view(np.uint8), ends * dtype.itemsize)
    pieces = []
    for part, (start, stop) in zip(slices, pairwise(ends.tolist()), strict=True):
        piece = _make_piece(part.path, part.offset, entries[start:stop], ())
        pieces.append(replace(piece, files=run_file.read_files(part.path, part.files_at)) if part.files_at else piece)
    return pieces


def _make_piece(source: str | Spool, offset: int, entries: np.ndarray, files: tuple[run_file.InputFile, ...]) -> Piece:
    references = entries["reference"] if entries.dtype == run_file.REFERRING_ENTRY else None
    return Piece(source, offset, *run_file.entry_columns(entries), references=references, files=files)


def _fetch_pieces(slices: Sequence[run_file.Slice]) -> list[Piece]:
    if not slices:
        return []
    spool, offsets = fetch_ranges([(part.path, part.offset, part.size_bytes) for part in slices])
    pieces = []
    for part, offset in zip(slices, offsets, strict=True):
        data = bytearray(part.size_bytes)
        spool.read_into(offset, memoryview(data))
        pieces.append(
            Piece(spool, offset, *run_file.entry_columns(run_file.extract_entries(data)), run_file.ENTRY.itemsize)
        )
    return pieces


def cut_into_segments(pieces: Sequence[Piece], segment_bytes: int, whole_keys: bool = False) -> Iterator[list[Piece]]:
    """Yield, in key order, groups of pieces of about `segment_bytes` that can be merged one after the other.

    The cuts are found in a sample of the keys, so sorting is only needed within a segment. With `whole_keys`, all
    records of a key are in one segment, however many they are.
    """
    total = sum(piece.record_bytes for piece in pieces)
    if total <= segment_bytes:
        if pieces:
            yield list(pieces)
        return
    cuts = _sample_cuts(pieces, -(-total // segment_bytes))
    if whole_keys:
        at = np.unique(cuts.keys)
        cuts = Cuts(at, np.zeros(len(at), np.uint64))
    parts = [_cut_piece(piece, cuts) for piece in pieces]
    for segment in zip(*parts, strict=True):
        if present := [part for part in segment if len(part.keys)]:
            yield present


def _cut_piece(piece: Piece, cuts: Cuts) -> Iterator[Piece]:
    offset = piece.offset
    for start, stop in pairwise(cuts.bounds(piece.keys, piece.ties).tolist()):
        part = piece.slice(start, stop, offset)
        yield part
        offset += part.size_bytes


def _sample_cuts(pieces: Sequence[Piece], number: int) -> Cuts:
    keys, ties, sizes = (concatenate_column(pieces, name) for name in ("keys", "ties", "sizes"))
    # 32 keys a segment: it is a sixth larger or smaller than meant, by the root of that
    step = max(1, len(keys) // (32 * number))
    starts = np.arange(0, len(keys), step)
    # One key of each stretch of rows, at places without a pattern. Keys of a piece are sorted: of many pieces as long
    # as a stretch, the first keys are all small.
    places = starts + (np.arange(len(starts)) * _GOLDEN_RATIO % 1 * step).astype(np.int64)
    places = np.minimum(places, len(keys) - 1)
    keys, ties, weights = keys.take(places), ties.take(places), np.add.reduceat(sizes, starts, dtype=np.int64)
    order = np.lexsort((ties, keys))
    before = np.cumsum(weights[order]) - weights[order]
    at = np.unique(np.searchsorted(before, np.arange(1, number) * (before[-1] + weights[order][-1]) // number))
    at = order[at[at < len(order)]]
    return Cuts(keys[at], ties[at])


class RunWriter:
    """Writer of one run: it sorts each batch of records in a temporary file, and merges all of them on closing."""

    def __init__(self, path: str, self_contained: bool = False, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Create a writer without records; if self-contained, as for an object store, each record follows its entry."""
        self._path, self._self_contained, self._segment_bytes = path, self_contained, segment_bytes
        self._first: run_file.SortedRecords | None = None
        self._spool: Spool | None = None
        self._pieces: dict[str, list[Piece]] = {}

    def add(self, records: run_file.KeyedRecords) -> None:
        """Add a batch of at least one record; raise OSError if it cannot be spooled, for example on a full disk."""
        batch = run_file.sort_records(records)
        if self._first is None and self._spool is None:
            self._first = batch
            return
        if self._first is not None:
            self._put_aside(self._first)
            self._first = None
        self._put_aside(batch)

    def close(self) -> run_file.Run | None:
        """Write the run and return it, or None if there are no records."""
        if self._first is not None:
            return run_file.write_sorted(self._path, self._first, self._self_contained)
        return self._merge() if self._pieces else None

    def _put_aside(self, batch: run_file.SortedRecords) -> None:
        self._spool = self._spool or Spool()
        start, offset = 0, self._spool.append(batch.data)
        for part in batch.parts:
            stop = start + part.rows
            piece = _make_piece(self._spool, offset, batch.index[start:stop], batch.files)
            self._pieces.setdefault(part.group, []).append(piece)
            offset += piece.size_bytes
            start = stop

    def _merge(self) -> run_file.Run:
        parts, index, written = [], [], 0
        files: dict[run_file.InputFile, int] | None = None
        if any(piece.references is not None for pieces in self._pieces.values() for piece in pieces):
            files = {}
        with storage.open_write(self._path) as file:
            for group, pieces in sorted(self._pieces.items()):
                for records, entries in self._merge_segments(pieces, files):
                    data = run_file.interleave_entries(records, entries) if self._self_contained else records
                    file.write(data)
                    index.append(entries)
                    written += len(data)
                rows = sum(len(piece.keys) for piece in pieces)
                parts.append(run_file.RunPart(group, rows, sum(piece.record_bytes for piece in pieces)))
            for entries in index:
                file.write(entries.tobytes())
            if files is not None:
                file.write(run_file.encode_files(list(files)))
        return run_file.Run(self._path, written, tuple(parts), self._self_contained, files is not None)

    def _merge_segments(
        self, pieces: Sequence[Piece], files: dict[run_file.InputFile, int] | None
    ) -> Iterator[tuple[memoryview, np.ndarray]]:
        """Yield sorted records some megabytes at a time, with their entries, and with references if there are files."""
        for segment in cut_into_segments(pieces, self._segment_bytes):
            data, order = merge_pieces(segment)
            entries = np.empty(len(order), run_file.ENTRY)
            for name, column in (("key", "keys"), ("tie", "ties"), ("size", "sizes")):
                entries[name] = concatenate_column(segment, column)[order]
            if files is not None:
                entries = run_file.with_references(entries, join_references(segment, files).take(order))
            yield data, entries
