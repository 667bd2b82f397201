"""The columns of a table as features of Examples: numbers, strings and lists of them, from Arrow to the wire."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shardmill.records.example import varint
from shardmill.transforms.columns.buffers import buffer_items, offsets_of
from shardmill.transforms.examples.entries import FeatureEntries, Payload
from shardmill.transforms.examples.framing import windows
from shardmill.transforms.examples.pieces import TILE_ROWS, PieceWriter, tiles
from shardmill.transforms.examples.varints import Sizes, encode_varints, varint_widths

_BYTES, _FLOAT, _INT64 = b"\x0a", b"\x12", b"\x1a"  # the tags of `message Feature`


def feature_columns(batch: pa.RecordBatch) -> list[FeatureEntries]:
    """The entries of each column, in the order of the columns.

    Args:
      batch: columns of int64, float32, binary or string, or of lists of these.

    Raises:
      TypeError: a column of another type; the message names it.
      ValueError: a null inside a list; the message names column and row.
    """
    return [_column(field.name, array) for field, array in zip(batch.schema, batch.columns)]


@dataclass(frozen=True, slots=True)
class _Floats(FeatureEntries):
    """One float32 a row."""

    values: np.ndarray

    def payload(self, rows: slice) -> Payload:
        return Payload(4, 4, 4)

    def write_payload(self, writer: PieceWriter, rows: slice, payload: Payload) -> None:
        writer.field(self.values[rows], 4)


@dataclass(frozen=True, slots=True)
class _Ints(FeatureEntries):
    """One integer a row."""

    values: np.ndarray

    def payload(self, rows: slice) -> Payload:
        return Payload.of(varint_widths(self.values[rows]))

    def write_payload(self, writer: PieceWriter, rows: slice, payload: Payload) -> None:
        writer.field(encode_varints(self.values[rows], payload.sizes), payload.high, payload.sizes)


@dataclass(frozen=True, slots=True)
class _Strings(FeatureEntries):
    """One string of bytes a row."""

    data: np.ndarray
    offsets: np.ndarray

    def payload(self, rows: slice) -> Payload:
        ends = _ends(self.offsets, rows)
        return Payload.of(_present(ends[1:] - ends[:-1], self.present, rows))

    def write_payload(self, writer: PieceWriter, rows: slice, payload: Payload) -> None:
        writer.ragged(self.data, _ends(self.offsets, rows)[:-1], payload.sizes)


@dataclass(frozen=True, slots=True)
class _PackedLists(FeatureEntries):
    """A list of numbers a row. An empty one is nothing, not a packed field of no bytes."""

    values: np.ndarray
    offsets: np.ndarray

    @property
    def items(self) -> int:
        return int(self.offsets[-1] - self.offsets[0])

    def is_headed(self, sizes: Sizes) -> bool | np.ndarray:
        return sizes > 0


class _FloatLists(_PackedLists):
    """A list of float32 a row."""

    __slots__ = ()

    def payload(self, rows: slice) -> Payload:
        ends = 4 * _ends(self.offsets, rows)
        return Payload.of(_present(ends[1:] - ends[:-1], self.present, rows))

    def write_payload(self, writer: PieceWriter, rows: slice, payload: Payload) -> None:
        writer.ragged(self.values.view(np.uint8), 4 * _ends(self.offsets, rows)[:-1], payload.sizes)


class _IntLists(_PackedLists):
    """A list of integers a row."""

    __slots__ = ()

    def payload(self, rows: slice) -> Payload:
        widths = varint_widths(self.values[_span(self.offsets, rows)])
        return _list_payload(widths, widths, self.offsets, rows, self.present)

    def write_payload(self, writer: PieceWriter, rows: slice, payload: Payload) -> None:
        items = encode_varints(self.values[_span(self.offsets, rows)], payload.items)
        stream = np.empty(int(payload.bounds[-1]) + items.itemsize, np.uint8)
        # The rest of each item is overwritten by the next one: NumPy assigns in the order of the indices.
        windows(stream, items.dtype)[payload.bounds[:-1]] = items
        writer.ragged(stream, payload.bounds[_items(self.offsets, rows)[:-1]], payload.sizes)


@dataclass(frozen=True, slots=True)
class _StringLists(FeatureEntries):
    """A list of strings of bytes a row, each with a tag and a size of its own."""

    strings: _Strings
    offsets: np.ndarray

    @property
    def items(self) -> int:
        return int(self.offsets[-1] - self.offsets[0])

    def is_headed(self, sizes: Sizes) -> bool | np.ndarray:
        return False

    def payload(self, rows: slice) -> Payload:
        values = self.strings.payload(_span(self.offsets, rows)).sizes
        return _list_payload(values, 1 + varint_widths(values) + values, self.offsets, rows, self.present)

    def write_payload(self, writer: PieceWriter, rows: slice, payload: Payload) -> None:
        first, values = int(self.offsets[rows.start]), payload.items
        stream = np.empty(int(payload.bounds[-1]), np.uint8)
        for tile in tiles(len(payload.bounds) - 1, TILE_ROWS):
            part = Payload.of(values if isinstance(values, int) else values[tile])
            strings = PieceWriter(stream, payload.bounds[:-1][tile], payload.bounds[1:][tile])
            strings.literal(b"\x0a")
            strings.varint(part.sizes)
            self.strings.write_payload(strings, slice(first + tile.start, first + tile.stop), part)
            strings.flush()
        writer.ragged(stream, payload.bounds[_items(self.offsets, rows)[:-1]], payload.sizes)


def _list_payload(items: Sizes, whole: Sizes, offsets: np.ndarray, rows: slice, present: np.ndarray | None) -> Payload:
    """The payload of lists whose items are of `items` bytes, and of `whole` bytes with their headers."""
    ends = _items(offsets, rows)
    if isinstance(whole, int):
        bounds = np.arange(int(ends[-1]) + 1) * whole
    else:
        bounds = np.zeros(len(whole) + 1, np.int64)
        np.cumsum(whole, out=bounds[1:])
    ends = bounds[ends]
    return Payload.of(_present(ends[1:] - ends[:-1], present, rows))._replace(items=items, bounds=bounds)


def _span(offsets: np.ndarray, rows: slice) -> slice:
    """The items that the lists of `rows` hold together."""
    return slice(int(offsets[rows.start]), int(offsets[rows.stop]))


def _ends(offsets: np.ndarray, rows: slice) -> np.ndarray:
    return offsets[rows.start : rows.stop + 1].astype(np.int64, copy=False)


def _items(offsets: np.ndarray, rows: slice) -> np.ndarray:
    """Where the lists of `rows` begin and end, counted in items from the first one on."""
    return _ends(offsets, rows) - int(offsets[rows.start])


def _present(sizes: np.ndarray, present: np.ndarray | None, rows: slice) -> np.ndarray:
    return sizes if present is None else np.where(present[rows], sizes, 0)


def _column(name: str, array: pa.Array) -> FeatureEntries:
    kind, present = array.type, _presence(array)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return _scalars(name, array, kind, present)
    if pa.types.is_fixed_size_list(kind):
        offsets = np.arange(array.offset, array.offset + len(array) + 1, dtype=np.int64) * kind.list_size
    else:
        offsets = offsets_of(array)
    _check_items(name, array.values, offsets, present)
    items = _scalars(name, array.values, kind, None)
    if isinstance(items, _Ints):
        return _IntLists(items.prefix, items.tag, present, items.values, offsets)
    if isinstance(items, _Floats):
        return _FloatLists(items.prefix, items.tag, present, items.values, offsets)
    return _StringLists(items.prefix, items.tag, present, items, offsets)


def _scalars(
    name: str, array: pa.Array, declared: pa.DataType, present: np.ndarray | None
) -> _Ints | _Floats | _Strings:
    """The values of `array`, a column or the items of its lists; `declared` is the type to name in an error."""
    key = name.encode()
    prefix = b"\x0a" + varint(len(key)) + key + b"\x12"
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


def _presence(array: pa.Array) -> np.ndarray | None:
    return array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None


def _check_items(name: str, items: pa.Array, offsets: np.ndarray, present: np.ndarray | None) -> None:
    """Refuse nulls in lists; what lies under a list that is null itself does not count."""
    if items.null_count:
        nulls = np.zeros(len(items) + 1, np.int64)
        np.cumsum(items.is_null().to_numpy(zero_copy_only=False), out=nulls[1:])
        found = _present(np.diff(nulls[offsets]), present, slice(None))
        if found.any():
            row = int(found.argmax())
            raise ValueError(
                f"column {name!r}: the list in row {row} of the batch holds a null; a feature's list cannot"
            )
