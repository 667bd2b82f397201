"""Arrow RecordBatches as Beam's elements: a batch is the unit, because a runner's cost is per element.

Their coder is a compressed Arrow IPC stream, because a local runner keeps what lies between stages in memory, several times
over.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa

BATCH_ROWS = 10_000


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


def concatenate(parts: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows of `parts`, at least one batch, in one."""
    return pa.concat_batches(list(parts))
