"""What travels between stages: record batches of references to files, a few dozen bytes a file, never pixels.

A batch is the unit because a runner's cost is per element; its coder is a compressed Arrow IPC stream because a local
runner keeps what lies between stages in memory, several times over.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc

BATCH_ROWS = 10_000

# A file as found: `name` relative to the input's root; `uri` only where it lies elsewhere; the rest from a manifest's row.
FOUND = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("uri", pa.string()),
        pa.field("label", pa.string()),
        pa.field("split", pa.string()),
        pa.field("line", pa.int64()),
        pa.field("columns", pa.string()),  # JSON object of the manifest's further columns
    ]
)

# A file as planned: label by id, `size` of the record to come, `columns` as serialized entries of the Example.
PLANNED = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("uri", pa.string()),
        pa.field("label", pa.int64()),
        pa.field("line", pa.int64()),
        pa.field("columns", pa.binary()),
        pa.field("split", pa.dictionary(pa.int32(), pa.string())),  # as strings, their offsets alone would be a sixth of a batch
        pa.field("key", pa.uint64()),
        pa.field("tie", pa.uint64()),
        pa.field("stratum", pa.string()),
        pa.field("split_key", pa.uint64()),
    ]
)

# What a shard's writer needs of them.
SHARD = pa.schema([PLANNED.field(name) for name in ("name", "size", "uri", "label", "line", "columns", "key", "tie")])


Count = Literal["exact", "estimated", "at least"]


@dataclass(frozen=True, slots=True)
class Reject:
    """A record left out, or all those of a file that cannot be read any further.

    Attributes:
      source: the file it came from.
      line: its line there, or in the manifest that names it.
      stage: what refused it.
      reason: why.
      records: how many records it stands for; None where that is estimated once all files are read, see transforms.formats.damage.
      size_bytes: of the file on disk that could not be read; 0 for a record that was read and refused.
      count: how sure `records` is: as a footer or an index says, estimated by bytes, or at least so many.
    """

    source: str
    line: int | None
    stage: str
    reason: str
    records: int | None = 1
    size_bytes: int = 0
    count: Count = "exact"

    @property
    def counted(self) -> int:
        """What it adds to the number of records of the input."""
        return 1 if self.records is None else self.records

    @property
    def is_loss(self) -> bool:
        """Whether something was not even read."""
        return self.records != 1 or self.size_bytes > 0 or self.count != "exact"

    def to_json(self) -> dict[str, Any]:
        """Its line in rejects/: how much it stands for only where that is not one record."""
        lost = {"records": self.records, "size_bytes": self.size_bytes, "count": self.count} if self.is_loss else {}
        return {"source": self.source, "line": self.line, "stage": self.stage, "reason": self.reason, **lost}


class RecordBatchCoder(beam.coders.Coder):
    """An Arrow IPC stream of one batch, compressed as a whole: most batches of a large plan are small, and so mostly metadata."""

    _CODEC = pa.Codec("zstd", compression_level=3)  # level 1 makes a quarter more of sorted names
    _SIZE = struct.Struct("<Q")  # of the stream, which Arrow's codecs want to be told

    def encode(self, value: pa.RecordBatch) -> bytes:
        """Serialize one batch."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_batch(value)
        stream = sink.getvalue()
        return self._SIZE.pack(stream.size) + self._CODEC.compress(stream, asbytes=True)

    def decode(self, encoded: bytes) -> pa.RecordBatch:
        """Parse what `encode` made."""
        (size,) = self._SIZE.unpack_from(encoded)
        stream = self._CODEC.decompress(memoryview(encoded)[self._SIZE.size :], size)
        return pa.ipc.open_stream(stream).read_next_batch()

    def is_deterministic(self) -> bool:
        """One batch has one encoding."""
        return True

    def to_type_hint(self) -> Any:
        """The element type this codes."""
        return pa.RecordBatch


beam.coders.registry.register_coder(pa.RecordBatch, RecordBatchCoder)


def batches(rows: Iterable[Sequence[Any]], schema: pa.Schema, size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Collect `rows`, tuples in the order of `schema`, into batches of at most `size` rows."""
    columns: list[list[Any]] = [[] for _ in schema]
    for row in rows:
        for column, value in zip(columns, row, strict=True):
            column.append(value)
        if len(columns[0]) == size:
            yield to_batch(columns, schema)
            columns = [[] for _ in schema]
    if columns[0]:
        yield to_batch(columns, schema)


def to_batch(columns: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    """A batch of `schema` from its columns."""
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def sorted_by_key(parts: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows of `parts` in the order of (key, tie): what makes the result independent of how they arrived.

    Names decide where even these are equal: among 10^9 files there may well be two with one hash.
    """
    batch = concatenate(parts)
    return batch.take(pc.sort_indices(batch, sort_keys=[(name, "ascending") for name in ("key", "tie", "name")]))


def concatenate(parts: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows of `parts`, at least one batch, in one."""
    return pa.concat_batches(list(parts))
