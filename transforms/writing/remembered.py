"""Where the record of each file lies in a shard: with that, the next build takes it from there and reads no file that
is still what it was.

A shard has a piece: a Parquet file with a row for each file whose identity is known, written beside the shard by its
writer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import google_crc32c
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shardmill.transforms.stores import storage

PIECE_SUFFIX = ".parquet"

# `key` is a hash of the name; `offset` is null of a file that was rejected, whose `reason` is that of its reject.
REMEMBERED = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("key", pa.uint64()),
        pa.field("identity", pa.uint64()),
        pa.field("offset", pa.int64()),  # of the framed record in its shard
        pa.field("length", pa.int64()),
        pa.field("value_offset", pa.int64()),  # of the value of the file's feature in its record
        pa.field("value_length", pa.int64()),
        pa.field("seen", pa.string()),  # what statistics count beside
        pa.field("reason", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Piece:
    """The piece of one shard, and what its writer did not read.

    Attributes:
      path: where it lies now; empty where the shard has none.
      crc32c: of its bytes.
      low, high: the least and the greatest key in it.
      reused: files of the shard that came from an older version.
      damaged: of those that should have, how many had to be read: their records failed their checksums, or were gone.
    """

    path: str = ""
    crc32c: int = 0
    low: int = 0
    high: int = 0
    reused: int = 0
    damaged: int = 0


class PieceWriter:
    """Gathers what is remembered of one shard's files, in the order of its records."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._reused = self._damaged = 0
        self._known = False

    def add(self, chunk: Any, start: int) -> None:
        """Take what an EncodedChunk remembers, whose records begin at byte `start` of the shard."""
        if chunk.remembered is None:
            return
        self._known = True
        self._reused += chunk.reused
        self._damaged += chunk.damaged
        rows = chunk.remembered
        if len(rows):
            index = REMEMBERED.get_field_index("offset")
            self._batches.append(rows.set_column(index, REMEMBERED.field(index), pc.add(rows["offset"], start)))

    def write(self, path: str) -> Piece | None:
        """Write the piece to `path`, a new file; None where nothing is to be remembered."""
        if not self._known:
            return None
        if not self._batches:
            return Piece(reused=self._reused, damaged=self._damaged)
        table = pa.Table.from_batches(self._batches)
        data = to_parquet(table)
        storage.write_parts(path, [data])
        ends = pc.min_max(table["key"])
        low, high = ends["min"].as_py(), ends["max"].as_py()
        return Piece(path, google_crc32c.value(data), low, high, self._reused, self._damaged)


def to_parquet(table: pa.Table) -> bytes:
    """The bytes of a piece; the schema's metadata say what its values depend on."""
    sink = pa.BufferOutputStream()
    # Hashes and identities have no value twice: a dictionary of them is a waste.
    pq.write_table(table, sink, compression="zstd", use_dictionary=["seen", "reason"])
    return bytes(sink.getvalue())


def read_piece(path: str, crc32c: int) -> pa.Table | None:
    """The table at `path`; None if it is not there, or not what was written."""
    try:
        data = storage.read_bytes(path)
    except FileNotFoundError:
        return None
    if google_crc32c.value(data) != crc32c:
        return None
    return pq.read_table(pa.BufferReader(data))


def remembered_batch(
    rows: Sequence[tuple[Any, ...]], metadata: dict[str, str], first: Sequence[pa.Array] = ()
) -> pa.RecordBatch:
    """Rows of REMEMBERED, but for their `first` columns, which are arrays already, as a batch whose schema has
    `metadata`."""
    schema = REMEMBERED.with_metadata(metadata)
    fields = [schema.field(index) for index in range(len(first), len(schema))]
    columns = zip(*rows, strict=True) if rows else [()] * len(fields)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays([*first, *arrays], schema=schema)
