"""Encode Arrow record batches as serialized tf.train.Examples, vectorized."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from shardmill.data import spans
from shardmill.data.example import encode_varint, entry_prefix
from shardmill.transforms.columns.arrow import buffer_items, offsets_of
from shardmill.transforms.columns.example_bytes import (
    FOOTER_BYTES,
    HEADER_BYTES,
    TILE_ROWS,
    PieceWriter,
    Sizes,
    encode_varints,
    sliding_items,
    tiles,
    varint_widths,
)

_NO_BOUNDS = np.zeros(1, np.int64)  # of a part without lists


class Payload(NamedTuple):
    """The sizes in bytes of the values of each row, without the headers around them."""

    sizes: Sizes  # int if equal in all rows, else an array
    min_size: int  # minimum of sizes
    max_size: int  # maximum of sizes
    item_sizes: Sizes = 0  # for lists, size of each item without a string's header
    bounds: np.ndarray = _NO_BOUNDS  # for lists, offsets of all items laid end to end, int64

    @classmethod
    def from_sizes(cls, sizes: Sizes) -> "Payload":
        """Return the payload of values of `sizes` bytes, without `item_sizes` and `bounds`; one size is an int."""
        if isinstance(sizes, int):
            return cls(sizes, sizes, sizes)
        low, high = (int(sizes.min()), int(sizes.max())) if len(sizes) else (0, 0)
        return cls(low if low == high else sizes, low, high)


@dataclass(frozen=True, slots=True)
class FeatureEntries(ABC):
    """The serialized entries of one feature in many Examples: for each row a header and the values."""

    prefix: bytes  # bytes between the sizes of entry and feature: key, value tag
    tag: bytes  # tag of the feature's list
    present: np.ndarray | None  # rows with a value; None for all

    @property
    def num_items(self) -> int:
        """The number of items in the lists of all rows; 0 without lists."""
        return 0

    @abstractmethod
    def payload(self, rows: slice) -> Payload:
        """Return the sizes of the values in their list, without the tag and size before a packed list or a string."""

    @abstractmethod
    def write_payload(self, writer: PieceWriter, rows: slice, payload: Payload) -> None:
        """Write the values, whose sizes are `payload`."""

    def has_header(self, sizes: Sizes) -> bool | np.ndarray:
        """Return True if the list has a tag and a size before `sizes` bytes of values."""
        return True

    def sizes(self, rows: slice) -> Sizes:
        """Return the size of each entry in bytes; zero if the row has no value."""
        payload = self.payload(rows)
        low, high = self._header(payload.min_size), self._header(payload.max_size)
        if len(low) == len(high):  # and so between them: no header is shorter than that of a smaller payload
            sizes = payload.sizes + len(low)
        else:
            entry = self._nested_sizes(payload.sizes)[0]
            sizes = 1 + varint_widths(entry) + entry
        return sizes if self.present is None else np.where(self.present[rows], sizes, 0)

    def write(self, writer: PieceWriter, rows: slice) -> None:
        """Write the entries of `rows`."""
        payload = self.payload(rows)
        writer.select_rows(None if self.present is None else self.present[rows])
        low, high = self._header(payload.min_size), self._header(payload.max_size)
        if isinstance(payload.sizes, int):
            writer.write_literal(low)
        elif len(low) == len(high) and high[1] < 0x80:
            self._write_short_headers(writer, payload.sizes - payload.min_size, low, high)
        else:
            self._write_headers(writer, payload.sizes)
        self.write_payload(writer, rows, payload)

    def _header(self, payload: int) -> bytes:
        return _header(self.prefix, self.tag, bool(self.has_header(payload)), payload)

    def _write_short_headers(self, writer: PieceWriter, more: np.ndarray, low: bytes, high: bytes) -> None:
        """Write headers in which each size takes one byte, for `more` bytes than the payload of `low`."""
        cut = 1 + len(self.prefix)  # keeps the last byte of the prefix with the sizes behind it: eight bytes at most
        steps = int.from_bytes([one != other for one, other in zip(low[cut:], high[cut:])], "little")
        writer.write_literal(low[:1])
        writer.write_field((more + low[1]).astype(np.uint8), 1)
        writer.write_literal(low[2:cut])
        writer.write_field(more * steps + int.from_bytes(low[cut:], "little"), len(low) - cut)

    def _write_headers(self, writer: PieceWriter, sizes: np.ndarray) -> None:
        entry, feature, values = self._nested_sizes(sizes)
        writer.write_literal(b"\x0a")
        writer.write_varint(entry)
        writer.write_literal(self.prefix)
        writer.write_varint(feature)
        writer.write_literal(self.tag)
        writer.write_varint(values)
        headed = self.has_header(sizes)
        if isinstance(headed, np.ndarray):
            writer.select_rows(headed)
        if headed is not False:
            writer.write_literal(b"\x0a")
            writer.write_varint(sizes)

    def _nested_sizes(self, sizes: Sizes) -> tuple[Sizes, Sizes, Sizes]:
        values = sizes + self.has_header(sizes) * (1 + varint_widths(sizes))
        feature = 1 + varint_widths(values) + values
        return len(self.prefix) + varint_widths(feature) + feature, feature, values


@lru_cache(maxsize=1 << 14)
def _header(prefix: bytes, tag: bytes, headed: bool, payload: int) -> bytes:
    values = b"\x0a" + encode_varint(payload) if headed else b""
    feature = tag + encode_varint(len(values) + payload) + values
    value = prefix + encode_varint(len(feature) + payload) + feature
    return b"\x0a" + encode_varint(len(value) + payload) + value


_BYTES, _FLOAT, _INT64 = b"\x0a", b"\x12", b"\x1a"  # the tags of `message Feature`


def feature_columns(batch: pa.RecordBatch) -> list[FeatureEntries]:
    """Return the entries of each column, in order; raise TypeError or ValueError like `encode_examples`."""
    return [_column_entries(field.name, array) for field, array in zip(batch.schema, batch.columns)]


@dataclass(frozen=True, slots=True)
class _Floats(FeatureEntries):
    values: np.ndarray

    def payload(self, rows: slice) -> Payload:
        return Payload(4, 4, 4)

    def write_payload(self, writer: PieceWriter, rows: slice, payload: Payload) -> None:
        writer.write_field(self.values[rows], 4)


@dataclass(frozen=True, slots=True)
class _Ints(FeatureEntries):
    values: np.ndarray

    def payload(self, rows: slice) -> Payload:
        return Payload.from_sizes(varint_widths(self.values[rows]))

    def write_payload(self, writer: PieceWriter, rows: slice, payload: Payload) -> None:
        writer.write_field(encode_varints(self.values[rows], payload.sizes), payload.max_size, payload.sizes)


@dataclass(frozen=True, slots=True)
class _Strings(FeatureEntries):
    data: np.ndarray
    offsets: np.ndarray

    def payload(self, rows: slice) -> Payload:
        ends = _list_ends(self.offsets, rows)
        return Payload.from_sizes(_zero_missing_sizes(ends[1:] - ends[:-1], self.present, rows))

    def write_payload(self, writer: PieceWriter, rows: slice, payload: Payload) -> None:
        writer.write_ragged(self.data, _list_ends(self.offsets, rows)[:-1], payload.sizes)


@dataclass(frozen=True, slots=True)
class _Lists(FeatureEntries):
    offsets: np.ndarray

    @property
    def num_items(self) -> int:
        return int(self.offsets[-1] - self.offsets[0])


@dataclass(frozen=True, slots=True)
class _PackedLists(_Lists):
    """Entries of a feature with a list of numbers in each row; an empty list has no bytes."""

    values: np.ndarray

    def has_header(self, sizes: Sizes) -> bool | np.ndarray:
        return sizes > 0


class _FloatLists(_PackedLists):
    __slots__ = ()

    def payload(self, rows: slice) -> Payload:
        ends = 4 * _list_ends(self.offsets, rows)
        return Payload.from_sizes(_zero_missing_sizes(ends[1:] - ends[:-1], self.present, rows))

    def write_payload(self, writer: PieceWriter, rows: slice, payload: Payload) -> None:
        writer.write_ragged(self.values.view(np.uint8), 4 * _list_ends(self.offsets, rows)[:-1], payload.sizes)


class _IntLists(_PackedLists):
    __slots__ = ()

    def payload(self, rows: slice) -> Payload:
        widths = varint_widths(self.values[_item_span(self.offsets, rows)])
        return _list_payload(widths, widths, self.offsets, rows, self.present)

    def write_payload(self, writer: PieceWriter, rows: slice, payload: Payload) -> None:
        items = encode_varints(self.values[_item_span(self.offsets, rows)], payload.item_sizes)
        stream = np.empty(int(payload.bounds[-1]) + items.itemsize, np.uint8)
        # The rest of each item is overwritten by the next one: NumPy assigns in the order of the indices.
        sliding_items(stream, items.dtype)[payload.bounds[:-1]] = items
        writer.write_ragged(stream, payload.bounds[_list_bounds(self.offsets, rows)[:-1]], payload.sizes)


@dataclass(frozen=True, slots=True)
class _StringLists(_Lists):
    """Entries of a feature with a list of byte strings in each row, each with its own tag and size."""

    strings: _Strings

    def has_header(self, sizes: Sizes) -> bool | np.ndarray:
        return False

    def payload(self, rows: slice) -> Payload:
        values = self.strings.payload(_item_span(self.offsets, rows)).sizes
        return _list_payload(values, 1 + varint_widths(values) + values, self.offsets, rows, self.present)

    def write_payload(self, writer: PieceWriter, rows: slice, payload: Payload) -> None:
        first, values = int(self.offsets[rows.start]), payload.item_sizes
        stream = np.empty(int(payload.bounds[-1]), np.uint8)
        for tile in tiles(len(payload.bounds) - 1, TILE_ROWS):
            part = Payload.from_sizes(values if isinstance(values, int) else values[tile])
            strings = PieceWriter(stream, payload.bounds[:-1][tile], payload.bounds[1:][tile])
            strings.write_literal(b"\x0a")
            strings.write_varint(part.sizes)
            self.strings.write_payload(strings, slice(first + tile.start, first + tile.stop), part)
            strings.flush()
        writer.write_ragged(stream, payload.bounds[_list_bounds(self.offsets, rows)[:-1]], payload.sizes)


def _list_payload(
    items: Sizes, item_sizes_with_header: Sizes, offsets: np.ndarray, rows: slice, present: np.ndarray | None
) -> Payload:
    """Return the payload of lists whose items take `items` bytes, or `item_sizes_with_header` with headers."""
    ends = _list_bounds(offsets, rows)
    if isinstance(item_sizes_with_header, int):
        bounds = np.arange(int(ends[-1]) + 1) * item_sizes_with_header
    else:
        bounds = np.zeros(len(item_sizes_with_header) + 1, np.int64)
        np.cumsum(item_sizes_with_header, out=bounds[1:])
    ends = bounds[ends]
    return Payload.from_sizes(_zero_missing_sizes(ends[1:] - ends[:-1], present, rows))._replace(
        item_sizes=items, bounds=bounds
    )


def _item_span(offsets: np.ndarray, rows: slice) -> slice:
    return slice(int(offsets[rows.start]), int(offsets[rows.stop]))


def _list_ends(offsets: np.ndarray, rows: slice) -> np.ndarray:
    return offsets[rows.start : rows.stop + 1].astype(np.int64, copy=False)


def _list_bounds(offsets: np.ndarray, rows: slice) -> np.ndarray:
    return _list_ends(offsets, rows) - int(offsets[rows.start])


def _zero_missing_sizes(sizes: np.ndarray, present: np.ndarray | None, rows: slice) -> np.ndarray:
    return sizes if present is None else np.where(present[rows], sizes, 0)


def _column_entries(name: str, array: pa.Array) -> FeatureEntries:
    kind = array.type
    present = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return _scalar_entries(name, array, kind, present)
    if pa.types.is_fixed_size_list(kind):
        offsets = np.arange(array.offset, array.offset + len(array) + 1, dtype=np.int64) * kind.list_size
    else:
        offsets = offsets_of(array)
    _check_items(name, array.values, offsets, present)
    items = _scalar_entries(name, array.values, kind, None)
    if isinstance(items, _Ints):
        return _IntLists(items.prefix, items.tag, present, offsets, items.values)
    if isinstance(items, _Floats):
        return _FloatLists(items.prefix, items.tag, present, offsets, items.values)
    return _StringLists(items.prefix, items.tag, present, offsets, items)


def _scalar_entries(
    name: str, array: pa.Array, declared: pa.DataType, present: np.ndarray | None
) -> _Ints | _Floats | _Strings:
    """Return the entries of `array`, a column or the items of its lists; `declared` is the type to name in an error."""
    prefix = entry_prefix(name)
    kind, buffers = array.type, array.buffers()
    if pa.types.is_int64(kind):
        return _Ints(prefix, _INT64, present, buffer_items(buffers[1], np.uint64, array.offset, len(array)))
    if pa.types.is_float32(kind):
        return _Floats(prefix, _FLOAT, present, buffer_items(buffers[1], np.float32, array.offset, len(array)))
    large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    if large or pa.types.is_binary(kind) or pa.types.is_string(kind):
        offsets = offsets_of(array)
        data = buffer_items(buffers[2], np.uint8, 0, int(offsets[-1]))
        return _Strings(prefix, _BYTES, present, data, offsets)
    raise TypeError(f"column {name!r} is {declared}; expected int64, float32, binary, string or lists of one of them")


def _check_items(name: str, items: pa.Array, offsets: np.ndarray, present: np.ndarray | None) -> None:
    """Check that lists hold no nulls, ignoring items under lists that are null themselves."""
    if items.null_count:
        nulls = np.zeros(len(items) + 1, np.int64)
        np.cumsum(items.is_null().to_numpy(zero_copy_only=False), out=nulls[1:])
        found = _zero_missing_sizes(np.diff(nulls[offsets]), present, slice(None))
        if found.any():
            row = int(found.argmax())
            raise ValueError(f"column {name!r}: the list in row {row} of the batch has a null; a feature's list cannot")


MAX_RECORD_BYTES = (1 << 31) - 1  # protobuf parses no larger message
_TILE_ITEMS = 1 << 16  # of lists in one column that are encoded at a time: few enough for the processor's cache


def encode_examples(batch: pa.RecordBatch) -> pa.LargeBinaryArray:
    """Encode each row as a serialized tf.train.Example, with features in the order of the columns.

    A null has no entry in its Example; an empty list has an empty one. The bytes equal those of
    `shardmill.data.example`. Rows are encoded some thousands at a time: the sizes of all pieces of a record are
    computed, and each column's pieces are laid out in a matrix, whose rows are copied into the records.

    Raise a TypeError if a column is not of int64, float32, binary or string, or of lists of these. Raise a ValueError
    for a null inside a list, or a record larger than MAX_RECORD_BYTES. The message names column or row.
    """
    return _array(*_encode(batch, 0, 0))


def encode_entries(batch: pa.RecordBatch) -> pa.LargeBinaryArray:
    """Encode each row as the entries of its features only, so that more entries can be appended to the Example."""
    return _array(*_encode(batch, 0, 0, headed=False))


def encode_framed(batch: pa.RecordBatch) -> pa.LargeBinaryArray:
    """Return `frame(encode_examples(batch))`, writing payloads only once."""
    return _array(*_encode(batch, HEADER_BYTES, FOOTER_BYTES))


def example_sizes(batch: pa.RecordBatch) -> np.ndarray:
    """Return the size in bytes of each record of `encode_examples(batch)`, int64 (rows,), from lengths alone."""
    entries = entry_sizes(batch)
    return entries + 1 + varint_widths(entries)


def entry_sizes(batch: pa.RecordBatch) -> np.ndarray:
    """Return the size in bytes of each row's entries as in `encode_entries(batch)`, int64 (rows,)."""
    return _entries_sizes(feature_columns(batch), batch.num_rows)


def _encode(batch: pa.RecordBatch, before: int, after: int, headed: bool = True) -> tuple[pa.Buffer, np.ndarray]:
    """Encode rows as Examples, or as entries unless `headed`; return data and offsets.

    With room `before` and `after` each for its frame, they are framed.
    """
    columns = feature_columns(batch)
    entries = _entries_sizes(columns, batch.num_rows)
    sizes = entries + 1 + varint_widths(entries) if headed else entries
    if sizes.max(initial=0) > MAX_RECORD_BYTES:
        row = int(sizes.argmax())
        raise ValueError(
            f"row {row} makes a record of {sizes[row]} bytes, protobuf reads up to {MAX_RECORD_BYTES}; leave it out"
            " (example_sizes)"
        )
    offsets = np.zeros(batch.num_rows + 1, np.int64)
    np.cumsum(sizes + (before + after), out=offsets[1:])
    data = pa.allocate_buffer(int(offsets[-1]) + before)
    out = np.frombuffer(data, np.uint8)
    if (native := _native_columns(columns)) is not None:
        spans.encode_rows(native, entries, offsets, out, headed, before > 0)
        return data, offsets
    for rows in tiles(batch.num_rows, _tile_rows(columns, batch.num_rows)):
        starts = offsets[:-1][rows] + before
        # The room between records is filled later: what is written there until then does no harm.
        writer = PieceWriter(out, starts, starts + sizes[rows] + (before + after))
        if headed:
            writer.write_literal(b"\x0a")
            writer.write_varint(entries[rows])
        for column in columns:
            column.write(writer, rows)
        writer.flush()
    if before:
        spans.frame(out, offsets)
    return data, offsets


def _native_columns(columns: Sequence[FeatureEntries]) -> list[spans.NativeColumn] | None:
    """Return the columns for compiled functions; None if these are missing, or if a column holds lists."""
    if not spans.COMPILED:
        return None
    native: list[spans.NativeColumn] = []
    for column in columns:
        kind = column.tag[0]
        if isinstance(column, _Strings):
            offsets = column.offsets.astype(np.int64, copy=False)
            native.append((column.prefix, kind, column.data, offsets, column.present))
        elif isinstance(column, _Ints | _Floats):
            native.append((column.prefix, kind, column.values, None, column.present))
        else:
            return None
    return native


def _array(data: pa.Buffer, offsets: np.ndarray) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(offsets), data.slice(0, int(offsets[-1]))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _entries_sizes(columns: Sequence[FeatureEntries], rows: int) -> np.ndarray:
    sizes = np.zeros(rows, np.int64)
    if (native := _native_columns(columns)) is not None:
        spans.size_entries(native, sizes)
        return sizes
    for tile in tiles(rows, _tile_rows(columns, rows)):
        part = sizes[tile]
        for column in columns:
            part += column.sizes(tile)
    return sizes


def _tile_rows(columns: Sequence[FeatureEntries], rows: int) -> int:
    items = max((column.num_items for column in columns), default=0)
    return min(max(_TILE_ITEMS * rows // max(items, 1), 1), TILE_ROWS)
