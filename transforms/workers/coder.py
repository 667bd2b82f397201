"""How Beam stores Arrow RecordBatches. Every module that makes a PCollection of them imports this one, which registers
their coder.

It is a compressed Arrow IPC stream, because a local runner keeps what lies between stages in memory, several times
over.
"""

import struct
from typing import Any

import apache_beam as beam
import pyarrow as pa


class RecordBatchCoder(beam.coders.Coder):
    """An Arrow IPC stream of one batch, compressed as a whole: most batches of a large plan are small, and so mostly
    metadata."""

    _CODEC = pa.Codec("zstd", compression_level=3)  # level 1 makes a quarter more of sorted names
    _QUICK = pa.Codec("zstd", compression_level=1)  # half the time, a tenth more of numbers, such as lists of objects'
    _SIZE = struct.Struct("<Q")  # of the stream, which Arrow's codecs want to be told

    def encode(self, value: pa.RecordBatch) -> bytes:
        """Serialize one batch."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_batch(value)
        stream = sink.getvalue()
        codec = self._QUICK if any(map(pa.types.is_list, value.schema.types)) else self._CODEC
        return self._SIZE.pack(stream.size) + codec.compress(stream, asbytes=True)

    def decode(self, encoded: bytes) -> pa.RecordBatch:
        """Parse what `encode` made."""
        (size,) = self._SIZE.unpack_from(encoded)
        stream = self._CODEC.decompress(memoryview(encoded)[self._SIZE.size :], size)
        return pa.ipc.open_stream(stream).read_next_batch()

    def estimate_size(self, value: pa.RecordBatch) -> int:
        """About how large one is, for Beam's counters: it would be encoded for that, several times in each step."""
        return int(value.nbytes)

    def is_deterministic(self) -> bool:
        """One batch has one encoding."""
        return True

    def to_type_hint(self) -> Any:
        """The element type this codes."""
        return pa.RecordBatch


beam.coders.registry.register_coder(pa.RecordBatch, RecordBatchCoder)
