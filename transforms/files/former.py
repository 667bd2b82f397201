"""The version before this one, as a source of records: which files of a shard it holds as they are now, and where."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.transforms.publishing.file_index import FileIndex, IndexedPiece
from shardmill.transforms.sharding.keys import hash_strings
from shardmill.transforms.stores import storage
from shardmill.transforms.writing.remembered import REMEMBERED, read_piece

_PIECES = 64  # kept by a process: where the order is another than it was, a shard takes of all

# A file's record in an older version: `shard` is the index of its shard, null where the file has to be read; else as
# REMEMBERED, `offset` null and `reason` set of one that was rejected.
STORED = pa.schema(
    [
        pa.field("shard", pa.int32()),
        *(REMEMBERED.field(name) for name in ("offset", "length", "value_offset", "value_length", "seen", "reason")),
    ]
)


@dataclass(frozen=True)
class Former:
    """A published version, and what is remembered of its files.

    Attributes:
      version: its name, as users are told.
      directory: of its shards.
      folder: of its pieces.
      index: of them.
    """

    version: str
    directory: str
    folder: str
    index: FileIndex

    def shard(self, index: int) -> str:
        """The path of a shard, by its index in STORED."""
        return storage.join(self.directory, self.index.pieces[index].shard)

    def find(self, batch: pa.RecordBatch, encoding: str, refusing: str, max_bytes: int) -> pa.RecordBatch:
        """STORED rows of the files of a SHARD batch.

        Args:
          batch: the files as they are now.
          encoding: what their values would be encoded with: what was encoded otherwise is not found.
          refusing: what rejects say beside: likewise of rejects.
          max_bytes: of a record as planned, beyond which encoders look at nothing else of a file.
        """
        found = [nothing_stored(len(batch))]
        rows = [np.arange(len(batch))]
        for number, piece, part, keys in self._meeting(batch, max_bytes):
            table = _load(storage.join(self.folder, piece.file), piece.crc32c)
            if table is None or table.encoding != encoding:
                continue
            places = table.places(batch, part, keys, table.refusing == refusing)
            hits = np.flatnonzero(places >= 0)
            if len(hits):
                of_piece = table.rows.take(pa.array(places[hits]))
                shard = pa.array(np.full(len(hits), number, np.int32))
                found.append(
                    pa.RecordBatch.from_arrays([shard, *(of_piece[name] for name in STORED.names[1:])], schema=STORED)
                )
                rows.append(part[hits])
        if len(found) == 1:
            return found[0]
        # The last of each row's is what was found of it, the first stands for nothing
        source = np.zeros(len(batch), np.int64)
        source[np.concatenate(rows)] = np.arange(sum(map(len, rows)))
        return pa.concat_batches(found).take(pa.array(source))

    def _meeting(
        self, batch: pa.RecordBatch, max_bytes: int
    ) -> Iterator[tuple[int, IndexedPiece, np.ndarray, np.ndarray]]:
        """The pieces that may hold files of `batch`: (index, piece, rows of the batch, their keys)."""
        keys = hash_strings(batch["name"].to_pylist(), self.index.seed)
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
    """A piece in memory, by key."""

    keys: np.ndarray
    rows: pa.RecordBatch
    encoding: str
    refusing: str

    def places(self, batch: pa.RecordBatch, part: np.ndarray, keys: np.ndarray, rejects: bool) -> np.ndarray:
        """The row here of each row `part` of `batch`, -1 for none: int64, shape (n,)."""
        if not len(self.keys):
            return np.full(len(part), -1, np.int64)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        mine = self.rows.select(["name", "identity", "offset"]).take(pa.array(place))
        theirs = batch.select(["name", "identity"]).take(pa.array(part))
        same = pc.and_(pc.equal(mine["name"], theirs["name"]), pc.equal(mine["identity"], theirs["identity"]))
        if not rejects:
            same = pc.and_(same, mine["offset"].is_valid())
        return np.where(same.to_numpy(zero_copy_only=False), place, -1)


@lru_cache(maxsize=_PIECES)
def _load(path: str, crc32c: int) -> _Table | None:
    found = read_piece(path, crc32c)
    if found is None:
        return None
    metadata = {key.decode(): value.decode() for key, value in (found.schema.metadata or {}).items()}
    found = found.sort_by("key").combine_chunks()
    (rows,) = found.to_batches() or [pa.RecordBatch.from_pylist([], REMEMBERED)]
    return _Table(rows["key"].to_numpy(), rows, metadata.get("encoding", ""), metadata.get("refusing", ""))


def nothing_stored(rows: int) -> pa.RecordBatch:
    """STORED of files all of which have to be read."""
    return pa.RecordBatch.from_arrays([pa.nulls(rows, field.type) for field in STORED], schema=STORED)
