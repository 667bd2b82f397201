"""TFRecords of known length, to damage; batches as records, which the encoder of batches is held to."""

import io
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shardmill.data import example, spans, tfrecord
from shardmill.transforms.columns.example_bytes import frame
from shardmill.transforms.columns.example_encoding import encode_examples, encode_framed, example_sizes
from tests.support.encoded import encode_float_feature


def framed(payload: bytes) -> bytes:
    """A record as it stands in a TFRecord file."""
    return tfrecord.record_header(len(payload)) + payload + tfrecord.record_footer([payload])


def record(number: int) -> bytes:
    """A framed Example, each as long as another."""
    entries = (
        example.encode_entry("id", example.encode_int64_feature([number])),
        example.encode_entry("t", example.encode_bytes_feature([b"%05d" % number])),
    )
    return framed(b"".join((example.example_header(sum(map(len, entries))), *entries)))


def records(first: int) -> bytes:
    """Twenty of them; the number of the first is 1,000 or more, below 10,000."""
    return b"".join(record(first + number) for number in range(20))


SIZE = len(record(1000))
WHOLE = records(1000)


def flipped(data: bytes, at: int) -> bytes:
    """The same bytes with one bit flipped in that at `at`."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def row_values(array: pa.Array, row: int) -> list[Any] | np.ndarray | None:
    """The values of one row: int64 or float32 as an array of the same bits, or a list of bytes; None for a null."""
    value = array[row]
    if not value.is_valid:
        return None
    nested = hasattr(array.type, "value_type")
    items = value.values if nested else array.slice(row, 1)
    if items.type in (pa.int64(), pa.float32()):
        return items.to_numpy()
    return [item.as_buffer().to_pybytes() for item in items]


def encode_row(batch: pa.RecordBatch, row: int) -> bytes:
    """The record by `shardmill.data.example`, a value at a time."""
    entries = []
    for field, array in zip(batch.schema, batch.columns):
        values = row_values(array, row)
        if values is None:
            continue
        leaf = getattr(field.type, "value_type", field.type)
        if leaf == pa.int64():
            feature = example.encode_int64_feature(int(value) for value in values)
        else:
            feature = encode_float_feature(values) if leaf == pa.float32() else example.encode_bytes_feature(values)
        entries.append(example.encode_entry(field.name, feature))
    joined = b"".join(entries)
    return example.example_header(len(joined)) + joined


def reference(batch: pa.RecordBatch) -> list[bytes]:
    return [encode_row(batch, row) for row in range(batch.num_rows)]


def one_column(array: pa.Array, name: str = "x") -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([array], names=[name])


def check(batch: pa.RecordBatch) -> None:
    """Everything the module makes of `batch` agrees with the reference, compiled or not."""
    expected = reference(batch)
    for compiled in (spans.COMPILED, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spans, "COMPILED", compiled)
            records = encode_examples(batch)
            records.validate(full=True)

            assert records.to_pylist() == expected
            assert example_sizes(batch).tolist() == list(map(len, expected))
            assert encode_framed(batch).equals(frame(records))


def tfrecord2idx(shard: bytes) -> bytes:
    """Return what DALI's script of this name writes for a shard; source: tools/tfrecord2idx of NVIDIA/DALI."""
    file, lines = io.BytesIO(shard), []
    while length := file.read(8):
        start = file.tell() - 8
        file.seek(struct.unpack("<q", length)[0] + 8, 1)
        lines.append(f"{start} {file.tell() - start}\n")
    return "".join(lines).encode()
