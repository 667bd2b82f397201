"""Chunks of a shard of files, encoded from the files or copied from a previous version's shards."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.data import tfrecord
from shardmill.transforms.files.encoding import MEMORY_FACTOR, FileEncoder, RecordPlace, StoredFile
from shardmill.transforms.files.references import sort_by_key
from shardmill.transforms.shards import sources
from shardmill.transforms.shards.balance import hash_strings
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.storage import raise_if_store_failed
from shardmill.transforms.workers.elements import RecordBatchCoder
from shardmill.transforms.workers.resources import memory_budget, null_columns

_PIECES = 64  # kept by a process: where the order is another than it was, a shard takes of all

# A file's record in an older version: `shard` is the index of its shard, null where the file has to be read; else as
# PIECE_SCHEMA, `offset` null and `reason` set of one that was rejected.
STORED = pa.schema(
    [
        pa.field("shard", pa.int32()),
        *(
            sources.PIECE_SCHEMA.field(name)
            for name in ("offset", "length", "value_offset", "value_length", "seen", "reason")
        ),
    ]
)


@dataclass(frozen=True)
class PreviousVersion:
    """A published version and the index of its files."""

    version: str  # name in messages
    directory: str  # folder of its shards
    folder: str  # folder of the index's pieces
    index: sources.FileIndex  # of the files in its shards

    def find(self, batch: pa.RecordBatch, encoding: str, reason_options: str, max_bytes: int) -> pa.RecordBatch:
        """Return where a previous version stored the record of each file, as a batch of schema STORED.

        Files of another `encoding`, rejects of other `reason_options`, and files whose planned records have more than
        `max_bytes` are not found.
        """
        found = [make_empty_stored(len(batch))]
        rows = [np.arange(len(batch))]
        for number, piece, part, keys in self._find_candidate_pieces(batch, max_bytes):
            table = _load(storage.join(self.folder, piece.file), piece.crc32c)
            if table is None or table.encoding != encoding:
                continue
            table_rows = table.find_rows(batch, part, keys, table.reason_options == reason_options)
            hits = np.flatnonzero(table_rows >= 0)
            if len(hits):
                of_piece = table.rows.take(pa.array(table_rows[hits]))
                columns = [pa.array(np.full(len(hits), number, np.int32)), *of_piece.select(STORED.names[1:]).columns]
                found.append(pa.RecordBatch.from_arrays(columns, schema=STORED))
                rows.append(part[hits])
        if len(found) == 1:
            return found[0]
        # The last of each row's is what was found of it, the first is a placeholder
        source = np.zeros(len(batch), np.int64)
        source[np.concatenate(rows)] = np.arange(sum(map(len, rows)))
        return pa.concat_batches(found).take(pa.array(source))

    def _find_candidate_pieces(
        self, batch: pa.RecordBatch, max_bytes: int
    ) -> Iterator[tuple[int, sources.IndexedPiece, np.ndarray, np.ndarray]]:
        """Yield the parts of the file index that may hold files of `batch`: (index, part, rows, their keys)."""
        keys = hash_strings(batch["name"], self.index.seed)
        known = batch["identity"].is_valid().to_numpy(zero_copy_only=False)
        known &= batch["size"].to_numpy() <= max_bytes
        rows = np.flatnonzero(known)
        rows = rows[np.argsort(keys[rows], kind="stable")]
        ordered = keys[rows]
        lows = np.array([piece.low for piece in self.index.pieces], np.uint64)
        highs = np.array([piece.high for piece in self.index.pieces], np.uint64)
        starts, stops = np.searchsorted(ordered, lows, "left"), np.searchsorted(ordered, highs, "right")
        for number, (piece, start, stop) in enumerate(zip(self.index.pieces, starts, stops, strict=True)):
            if start < stop:
                yield number, piece, rows[start:stop], ordered[start:stop]


@dataclass(frozen=True)
class _Table:
    keys: np.ndarray
    rows: pa.RecordBatch
    encoding: str
    reason_options: str

    def find_rows(self, batch: pa.RecordBatch, part: np.ndarray, keys: np.ndarray, rejects: bool) -> np.ndarray:
        """Return the index row of each file in rows `part` of `batch`, -1 for none: int64, shape (n,)."""
        if not len(self.keys):
            return np.full(len(part), -1, np.int64)
        index = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        stored = self.rows.select(["name", "identity", "offset"]).take(pa.array(index))
        requested = batch.select(["name", "identity"]).take(pa.array(part))
        is_match = pc.and_(
            pc.equal(stored["name"], requested["name"]), pc.equal(stored["identity"], requested["identity"])
        )
        if not rejects:
            is_match = pc.and_(is_match, stored["offset"].is_valid())
        return np.where(is_match.to_numpy(zero_copy_only=False), index, -1)


@lru_cache(maxsize=_PIECES)
def _load(path: str, crc32c: int) -> _Table | None:
    found = sources.read_piece(path, crc32c)
    if found is None:
        return None
    metadata = {key.decode(): value.decode() for key, value in (found.schema.metadata or {}).items()}
    found = found.sort_by("key").combine_chunks()
    (rows,) = found.to_batches() or [pa.RecordBatch.from_pylist([], sources.PIECE_SCHEMA)]
    return _Table(rows["key"].to_numpy(), rows, metadata.get("encoding", ""), metadata.get("refusing", ""))


def make_empty_stored(rows: int) -> pa.RecordBatch:
    """Return a batch of schema STORED that says of no file that a previous version stored it."""
    return pa.RecordBatch.from_arrays(null_columns(STORED.types, rows), schema=STORED)


_GAP_BYTES = 256 << 10  # between two records: to read that much costs less than to ask again
_CHUNK_BYTES = 1 << 20  # of files encoded at once, about
_TASK_BYTES = 2 << 20  # of records read by one task, about
# Of files that are encoded in compiled calls: so many that what Python does for a chunk is little for each
_COMPILED_BYTES, _COMPILED_FILES = 4 << 20, 256
_ROWS_AT_ONCE = 4096  # of which the numbers are Python objects

Task = tuple[pa.RecordBatch, pa.RecordBatch]


@dataclass(slots=True)
class _Read:
    """One request for bytes of a shard, and the records in them: (row, offset in the shard, length)."""

    shard: int
    start: int
    stop: int
    rows: list[tuple[int, int, int]]

    def can_include(self, shard: int, offset: int) -> bool:
        """Return True if the record at `offset` is close enough to be read in the same request."""
        return shard == self.shard and 0 <= offset - self.stop <= _GAP_BYTES


def split_into_tasks(
    batch: pa.RecordBatch, stored: pa.RecordBatch, max_reads: int, max_bytes: int = _TASK_BYTES
) -> Iterator[Task]:
    """Divide a shard's files into tasks of about `max_bytes` and at most `max_reads` requests."""
    start = reads = size = 0
    last: _Read | None = None
    if stored["shard"].null_count == len(batch):  # one request a file
        ends = np.cumsum(batch["size"].to_numpy())
        while start < len(batch):
            most = int(np.searchsorted(ends, (int(ends[start - 1]) if start else 0) + max_bytes, "right"))
            stop = min(max(most, start + 1), start + max_reads, len(batch))
            yield batch.slice(start, stop - start), stored.slice(start, stop - start)
            start = stop
        return
    columns = (stored["shard"], stored["offset"], stored["length"], stored["reason"], batch["size"])
    files = chain.from_iterable(
        zip(*(column.slice(start, _ROWS_AT_ONCE).to_pylist() for column in columns), strict=True)
        for start in range(0, len(batch), _ROWS_AT_ONCE)
    )
    for row, (shard, offset, length, reason, planned) in enumerate(files):
        row_bytes = _count_read_bytes(shard, length, reason, planned)
        is_near = offset is not None and last is not None and last.can_include(shard, offset)
        added = int(reason is None and not is_near)
        if row > start and (reads + added > max_reads or size + row_bytes > max_bytes):
            yield batch.slice(start, row - start), stored.slice(start, row - start)
            start, reads, size, last, added = row, 0, 0, None, int(reason is None)
        if offset is not None:
            last = _Read(shard, offset, offset + length, [])
        reads += added
        size += row_bytes
    yield batch.slice(start), stored.slice(start)


def size_bytes(task: Task) -> int:
    """Return the bytes of the files and records that are read for `task`."""
    batch, stored = task
    if stored["shard"].null_count == len(batch):
        return int(batch["size"].to_numpy().sum())
    columns = (stored["shard"], stored["length"], stored["reason"], batch["size"])
    return sum(map(_count_read_bytes, *(column.to_pylist() for column in columns)))


def _count_read_bytes(shard: int | None, length: int, reason: str | None, planned: int) -> int:
    """Return the bytes that are read for one file: its own, those of its record, or none for a known reject."""
    if shard is None:
        return planned
    return length if reason is None else 0


def read_stored(previous: PreviousVersion, stored: pa.RecordBatch) -> tuple[list[StoredFile | None], int]:
    """Read the records that a previous version stored, many in one request; raise OSError if a store failed.

    Return each file as stored, None if it must be read, and the number of missing or damaged records.
    """
    reasons = stored["reason"].to_pylist()
    known = [None if reason is None else StoredFile(reason=reason) for reason in reasons]
    values = list(zip(*(stored[name].to_pylist() for name in ("value_offset", "value_length", "seen")), strict=True))
    damaged = 0
    for read in _plan_reads(stored):
        shard = storage.join(previous.directory, previous.index.pieces[read.shard].shard)
        data = _read_range(shard, read.start, read.stop - read.start)
        for row, offset, length in read.rows:
            record = data[offset - read.start : offset - read.start + length]
            start, size, seen = values[row]
            if len(record) == length and tfrecord.is_valid_record(record) and start + size <= length:
                known[row] = StoredFile(record[start : start + size], seen, record=record)
            else:
                damaged += 1
    return known, damaged


def _plan_reads(stored: pa.RecordBatch) -> Sequence[_Read]:
    reads: list[_Read] = []
    columns = (stored[name].to_pylist() for name in ("shard", "offset", "length"))
    for row, (shard, offset, length) in enumerate(zip(*columns, strict=True)):
        if shard is None or offset is None:
            continue
        if not reads or not reads[-1].can_include(shard, offset):
            reads.append(_Read(shard, offset, offset, []))
        reads[-1].rows.append((row, offset, length))
        reads[-1].stop = offset + length
    return reads


def _read_range(path: str, offset: int, length: int) -> bytes:
    try:
        return storage.read_range(path, offset, length)
    except (FileNotFoundError, EOFError):
        return b""
    except OSError as error:
        raise_if_store_failed(error, path)
        return b""


@dataclass(frozen=True)
class FileShards:
    """A ShardSource over planned files; it copies the records of files that a previous version stored."""

    encoder: FileEncoder
    files_per_task: int = 64  # maximal reads of a task, of files or ranges
    seed: int = 0  # of the name hashes by which the next build finds the files
    versions: Mapping[str, str] | None = None  # of what encodes, by name; None to reuse and index nothing
    writes_index: bool = True  # True to index the files for the next build
    previous: PreviousVersion | None = None  # previous version; None to read all files

    def plan(self, parts: Iterable[bytes]) -> tuple[int, Iterable[Task]]:
        """Return the number of files of a shard, given encoded batches, and its tasks in key order."""
        batch = self.encoder.prepare(sort_by_key(map(RecordBatchCoder().decode, parts)))
        if self.previous is None:
            stored = make_empty_stored(len(batch))
        else:
            stored = self.previous.find(batch, self._encoding, self._reason_options, self.encoder.max_bytes)
        max_bytes, most_files = _CHUNK_BYTES if self.versions is None else _TASK_BYTES, self.files_per_task
        if self.encoder.is_compiled and self.previous is None:
            max_bytes, most_files = _COMPILED_BYTES, max(most_files, _COMPILED_FILES)
        return len(batch), split_into_tasks(batch, stored, most_files, max_bytes)

    def encode(self, task: Task) -> sources.EncodedChunk:
        """Encode or copy the records of one task."""
        with memory_budget().take(MEMORY_FACTOR * size_bytes(task)):
            return self._encode(*task)

    def _encode(self, batch: pa.RecordBatch, stored: pa.RecordBatch) -> sources.EncodedChunk:
        known, damaged = read_stored(self.previous, stored) if self.previous is not None else ([None] * len(batch), 0)
        if self.versions is None:
            return self.encoder.encode_batch(batch, known)[0]
        chunk, places = self.encoder.encode_batch(batch, known, self.writes_index)
        chunk.reused, chunk.damaged = len(known) - known.count(None), damaged
        chunk.index_rows = self._make_index_rows(batch, places)
        return chunk

    @cached_property
    def _encoding(self) -> str:
        return json.dumps({**self.encoder.depends_on(), **(self.versions or {})}, sort_keys=True)

    @cached_property
    def _reason_options(self) -> str:
        options = {name: str(getattr(self.encoder, name)) for name in self.encoder.reason_options}
        return json.dumps(options, sort_keys=True)

    def _make_index_rows(self, batch: pa.RecordBatch, places: list[RecordPlace | None]) -> pa.RecordBatch:
        metadata = {"encoding": self._encoding, "refusing": self._reason_options}
        if not self.writes_index:
            return sources.make_piece_batch((), metadata)
        has_place = np.fromiter((place is not None for place in places), np.bool_, len(places))
        # A file too large to be looked at is rejected for its planned size, which depends on more than it
        is_indexed = has_place & batch["identity"].is_valid().to_numpy(zero_copy_only=False)
        is_indexed &= batch["size"].to_numpy() <= self.encoder.max_bytes
        files = batch.select(["name", "identity"]).filter(pa.array(is_indexed))
        keys = hash_strings(files["name"], self.seed)
        rows = [place for place, keep in zip(places, is_indexed.tolist(), strict=True) if keep and place is not None]
        return sources.make_piece_batch(rows, metadata, (files["name"], pa.array(keys), files["identity"]))
