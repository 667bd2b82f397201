"""Rows of a table as serialized tf.train.Examples, a column at a time.

The bytes are those of `shardmill.records.example`, features in the order of the columns. For some thousands of rows at
a time, the sizes of all pieces of a record are computed first; then each column's pieces are laid side by side in a
matrix and its rows copied to where they belong.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from shardmill.records import spans
from shardmill.transforms.examples.entries import FeatureEntries
from shardmill.transforms.examples.features import feature_columns
from shardmill.transforms.examples.framing import FOOTER_BYTES, HEADER_BYTES
from shardmill.transforms.examples.pieces import TILE_ROWS, PieceWriter, tiles
from shardmill.transforms.examples.varints import varint_widths

MAX_RECORD_BYTES = (1 << 31) - 1  # protobuf parses no larger message
_TILE_ITEMS = 1 << 16  # of lists in one column that are encoded at a time: few enough for the processor's cache


def encode_examples(batch: pa.RecordBatch) -> pa.LargeBinaryArray:
    """One serialized tf.train.Example a row, its features in the order of the columns.

    A null has no entry in its Example; an empty list has one that is empty.

    Args:
      batch: columns of int64, float32, binary or string, or of lists of these.

    Raises:
      TypeError: a column of another type; the message names it.
      ValueError: a null inside a list, or a record larger than MAX_RECORD_BYTES; the message names column or row.
    """
    return _array(*_encode(batch, 0, 0))


def encode_entries(batch: pa.RecordBatch) -> pa.LargeBinaryArray:
    """What stands in each record of `encode_examples(batch)`: the entries of its features, which others may follow."""
    return _array(*_encode(batch, 0, 0, headed=False))


def encode_framed(batch: pa.RecordBatch) -> pa.LargeBinaryArray:
    """`frame(encode_examples(batch))`, the payloads being written only once."""
    data, offsets = _encode(batch, HEADER_BYTES, FOOTER_BYTES)
    spans.frame(np.frombuffer(data, np.uint8), offsets)
    return _array(data, offsets)


def example_sizes(batch: pa.RecordBatch) -> np.ndarray:
    """The size in bytes of each record of `encode_examples(batch)`, as int64 (rows,), from lengths alone.

    Raises:
      TypeError, ValueError: as `encode_examples`, but for large records.
    """
    entries = _entries_sizes(feature_columns(batch), batch.num_rows)
    return entries + 1 + varint_widths(entries)


def _encode(batch: pa.RecordBatch, before: int, after: int, headed: bool = True) -> tuple[pa.Buffer, np.ndarray]:
    """Examples, or if they are not `headed` their entries, with `before` and `after` bytes of room around each, and the
    offsets of all that."""
    columns = feature_columns(batch)
    entries = _entries_sizes(columns, batch.num_rows)
    sizes = entries + 1 + varint_widths(entries) if headed else entries
    _check_sizes(sizes)
    offsets = np.zeros(batch.num_rows + 1, np.int64)
    np.cumsum(sizes + (before + after), out=offsets[1:])
    data = pa.allocate_buffer(int(offsets[-1]) + before)
    out = np.frombuffer(data, np.uint8)
    for rows in tiles(batch.num_rows, _tile_rows(columns, batch.num_rows)):
        starts = offsets[:-1][rows] + before
        # The room between records is filled later: what is written there until then does no harm.
        writer = PieceWriter(out, starts, starts + sizes[rows] + (before + after))
        if headed:
            writer.literal(b"\x0a")
            writer.varint(entries[rows])
        for column in columns:
            column.write(writer, rows)
        writer.flush()
    return data, offsets


def _array(data: pa.Buffer, offsets: np.ndarray) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(offsets), data.slice(0, int(offsets[-1]))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _entries_sizes(columns: Sequence[FeatureEntries], rows: int) -> np.ndarray:
    sizes = np.zeros(rows, np.int64)
    for tile in tiles(rows, _tile_rows(columns, rows)):
        part = sizes[tile]
        for column in columns:
            part += column.sizes(tile)
    return sizes


def _check_sizes(sizes: np.ndarray) -> None:
    if sizes.max(initial=0) > MAX_RECORD_BYTES:
        row = int(sizes.argmax())
        raise ValueError(
            f"row {row} makes a record of {sizes[row]} bytes, protobuf reads up to {MAX_RECORD_BYTES}; leave it out"
            " (example_sizes)"
        )


def _tile_rows(columns: Sequence[FeatureEntries], rows: int) -> int:
    """How many rows to encode at a time."""
    items = max((column.items for column in columns), default=0)
    return min(max(_TILE_ITEMS * rows // max(items, 1), 1), TILE_ROWS)
