"""Rows of a table as serialized tf.train.Examples, a column at a time.

The bytes are those of `shardmill.example`, features in the order of the columns. For some thousands of rows at a time, the
sizes of all pieces of a record are computed first; then each column's pieces are laid side by side in a matrix and its rows
copied to where they belong.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from shardmill.example import varint
from transforms.framing import FOOTER_BYTES, HEADER_BYTES, fill_frames, windows

MAX_RECORD_BYTES = (1 << 31) - 1  # protobuf parses no larger message
_TILE_ROWS = 8192  # encoded at a time: few enough for the processor's cache, enough to outweigh the calls
_TILE_ITEMS = 1 << 16  # of lists in one column, likewise
_COPY_BYTES = 1 << 18  # gathered at a time, likewise
_SEGMENT_BYTES = 1024  # at which a matrix is copied out even though its rows go on
_NARROW_BYTES = 128  # values up to here are padded to the longest; longer ones are copied one by one
_CHUNK_BYTES = 2048  # from which a copy is worth a Python call of its own
_FAST_WIDTHS = (1, 2, 4, 8, 16)  # of items that NumPy copies without a call each
_BYTES, _FLOAT, _INT64 = b"\x0a", b"\x12", b"\x1a"  # the tags of `message Feature`

Sizes = int | np.ndarray  # of all rows, or each row's as int64


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


def encode_framed(batch: pa.RecordBatch) -> pa.LargeBinaryArray:
    """`frame(encode_examples(batch))`, the payloads being written only once."""
    data, offsets = _encode(batch, HEADER_BYTES, FOOTER_BYTES)
    fill_frames(np.frombuffer(data, np.uint8), offsets)
    return _array(data, offsets)


def example_sizes(batch: pa.RecordBatch) -> np.ndarray:
    """The size in bytes of each record of `encode_examples(batch)`, as int64 (rows,), from lengths alone.

    Raises:
      TypeError, ValueError: as `encode_examples`, but for large records.
    """
    entries = _entries_sizes(_columns(batch), batch.num_rows)
    return entries + 1 + _widths(entries)


def _encode(batch: pa.RecordBatch, before: int, after: int) -> tuple[pa.Buffer, np.ndarray]:
    """Examples with `before` and `after` bytes of room around each, and the offsets of all that."""
    columns = _columns(batch)
    entries = _entries_sizes(columns, batch.num_rows)
    sizes = entries + 1 + _widths(entries)
    _check_sizes(sizes)
    offsets = np.zeros(batch.num_rows + 1, np.int64)
    np.cumsum(sizes + (before + after), out=offsets[1:])
    data = pa.allocate_buffer(int(offsets[-1]) + before)
    out = np.frombuffer(data, np.uint8)
    for rows in _tiles(batch.num_rows, _tile_rows(columns, batch.num_rows)):
        starts = offsets[:-1][rows] + before
        # The room between records is filled later: what is written there until then does no harm.
        writer = _Writer(out, starts, starts + sizes[rows] + (before + after))
        writer.literal(b"\x0a")
        writer.varint(entries[rows])
        for column in columns:
            column.write(writer, rows)
        writer.flush()
    return data, offsets


def _array(data: pa.Buffer, offsets: np.ndarray) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(offsets), data.slice(0, int(offsets[-1]))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _entries_sizes(columns: "list[_Column]", rows: int) -> np.ndarray:
    sizes = np.zeros(rows, np.int64)
    for tile in _tiles(rows, _tile_rows(columns, rows)):
        part = sizes[tile]
        for column in columns:
            part += column.sizes(tile)
    return sizes


def _check_sizes(sizes: np.ndarray) -> None:
    if sizes.max(initial=0) > MAX_RECORD_BYTES:
        row = int(sizes.argmax())
        raise ValueError(
            f"row {row} makes a record of {sizes[row]} bytes, protobuf reads up to {MAX_RECORD_BYTES}; leave it out (example_sizes)"
        )


def _tiles(rows: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def _tile_rows(columns: "list[_Column]", rows: int) -> int:
    """How many rows to encode at a time."""
    items = max((column.items for column in columns), default=0)
    return min(max(_TILE_ITEMS * rows // max(items, 1), 1), _TILE_ROWS)


class _Writer:
    """Writes the records of some rows, piece after piece, each piece for all rows at once.

    Pieces of one width for all rows are gathered into a segment, a matrix with a line a row. A piece whose width differs
    comes last in its segment, padded; then the lines are copied to where their records go on. The padding lands in bytes
    that the record's next pieces overwrite, or else is not copied.

    Attributes:
      present: which rows have the pieces that follow; None for all.
    """

    def __init__(self, out: np.ndarray, starts: np.ndarray, limits: np.ndarray) -> None:
        """Records from `starts` in `out`, with bytes up to `limits` that later pieces or the caller will overwrite."""
        self._out = out
        self._positions = starts.copy()
        self._limits = limits
        self._present: np.ndarray | None = None
        self._fields: list[tuple[bytes | np.ndarray, int]] = []
        self._width = 0

    def only(self, present: np.ndarray | None) -> None:
        """The pieces that follow belong to the rows of the mask `present` alone, None for all."""
        if present is not self._present:
            self.flush()
            self._present = present

    def literal(self, piece: bytes) -> None:
        """The same bytes in every row."""
        self._fields.append((piece, len(piece)))
        self._width += len(piece)

    def field(self, items: np.ndarray, width: int, sizes: Sizes | None = None) -> None:
        """The first `width` bytes of each row's item as it is in memory; with `sizes`, the first so many in each row."""
        before = self._width
        self._fields.append((items, width))
        self._width += width
        if isinstance(sizes, np.ndarray):
            self._close(sizes + before)
        elif self._width >= _SEGMENT_BYTES:
            self.flush()

    def varint(self, values: Sizes) -> None:
        """Unsigned numbers as base-128 varints."""
        if isinstance(values, int):
            self.literal(varint(values))
        else:
            widths = _widths(values)
            self.field(_varints(values.view(np.uint64), widths), _widest(widths), widths)

    def ragged(self, data: np.ndarray, starts: np.ndarray, sizes: Sizes) -> None:
        """`sizes` bytes from `starts` in `data` for each row."""
        width = sizes if isinstance(sizes, int) else int(sizes.max())
        if width > _NARROW_BYTES:
            self.flush()
            sizes = np.broadcast_to(sizes, len(starts))
            if self._present is not None:
                sizes = np.where(self._present, sizes, 0)
            _copy(data, starts, self._out, self._positions, sizes)
            self._positions += sizes
        elif width:
            first = int(starts[0])
            # Windows may reach beyond their values, and the data; NumPy is fastest at some of their widths.
            window = min((fast for fast in _FAST_WIDTHS if fast >= width), default=width)
            local = np.zeros(int(starts[-1]) - first + window, np.uint8)
            part = data[first : first + len(local)]
            local[: len(part)] = part
            self.field(windows(local, np.dtype((np.void, window)))[starts - first], width, sizes)

    def flush(self) -> None:
        """Copy the pieces so far to their records."""
        if self._width:
            self._close(self._width)

    def _close(self, sizes: Sizes) -> None:
        if self._present is not None:
            sizes = np.where(self._present, sizes, 0)
        lines, width = self._lines(), self._width
        self._fields, self._width = [], 0
        if isinstance(sizes, int) or int((self._limits - self._positions).min()) >= width:
            window = np.dtype((np.void, width))
            windows(self._out, window)[self._positions] = np.ndarray(len(lines), window, lines, 0, lines.strides)
        else:
            _copy(lines.view(np.uint8), np.arange(len(lines)) * lines.itemsize, self._out, self._positions, sizes)
        self._positions += sizes

    def _lines(self) -> np.ndarray:
        """The segment's pieces side by side, a void item a row, which may be longer than the segment."""
        template = b"".join(piece if isinstance(piece, bytes) else bytes(width) for piece, width in self._fields)
        template += bytes(max((piece.itemsize - width for piece, width in self._fields if not isinstance(piece, bytes)), default=0))
        lines = np.full(len(self._positions), np.void(template))
        begin = spoilt = 0
        for piece, width in self._fields:
            if not isinstance(piece, bytes):
                np.ndarray(len(lines), piece.dtype, lines, begin, lines.strides)[:] = piece
                spoilt = max(spoilt, begin + piece.itemsize)
            elif begin < spoilt:  # by the end of an item before
                np.ndarray(len(lines), np.dtype((np.void, width)), lines, begin, lines.strides)[:] = np.void(piece)
            begin += width
        return lines


def _copy(source: np.ndarray, starts: np.ndarray, target: np.ndarray, positions: np.ndarray, sizes: np.ndarray) -> None:
    """Copy `sizes` bytes each from `starts` in `source` to `positions` in `target`, and not a byte more."""
    large, small = int(sizes.max()), int(sizes.min())
    if not large:
        return
    if large <= min(2 * small, _CHUNK_BYTES):
        _copy_similar(source, starts, target, positions, sizes, small)
        return
    for bits in range(max(small.bit_length(), 1), min(large, _CHUNK_BYTES - 1).bit_length() + 1):
        rows = np.flatnonzero(sizes >> (bits - 1) == 1)
        _copy_similar(source, starts[rows], target, positions[rows], sizes[rows], 1 << bits - 1)
    rows = np.flatnonzero(sizes >= _CHUNK_BYTES)
    from_view, to_view = source.data, target.data
    for start, position, size in zip(starts[rows].tolist(), positions[rows].tolist(), sizes[rows].tolist()):
        to_view[position : position + size] = from_view[start : start + size]


def _copy_similar(
    source: np.ndarray, starts: np.ndarray, target: np.ndarray, positions: np.ndarray, sizes: np.ndarray, width: int
) -> None:
    """As `_copy`, where every size is from `width` to twice that: the first `width` bytes and the last, which may overlap."""
    window = np.dtype((np.void, width))
    from_windows, to_windows = windows(source, window), windows(target, window)
    rest = sizes - width
    for rows in _tiles(len(sizes), max(_COPY_BYTES // width, 1)):
        to_windows[positions[rows]] = from_windows[starts[rows]]
        if rest[rows].any():
            to_windows[(positions + rest)[rows]] = from_windows[(starts + rest)[rows]]


def _widths(values: Sizes) -> Sizes:
    """How many bytes `values`, uint64 or never negative, take as varints."""
    if isinstance(values, int):
        return len(varint(values))
    if not len(values):
        return 1
    low, high = len(varint(int(values.min()))), len(varint(int(values.max())))
    if low == high:
        return low
    widths = np.full(len(values), low, np.uint8)
    for width in range(low, high):
        widths += (values >= values.dtype.type(1 << 7 * width)).view(np.uint8)
    return widths.astype(np.int64)


def _varints(values: np.ndarray, widths: Sizes) -> np.ndarray:
    """`values`, uint64, as varints at the beginning of items that may be longer."""
    width = _widest(widths)
    if width == 1:
        return values.astype(np.uint8)
    word = np.dtype("<u4" if width <= 4 else "<u8")
    source = values.astype(word)
    spread = source & word.type(0x7F)
    for byte in range(1, min(width, 8)):
        spread |= (source << word.type(byte)) & word.type(0x7F << 8 * byte)
    more = np.array([int.from_bytes(b"\x80" * (min(size, word.itemsize + 1) - 1), "little") for size in range(1, 11)], word)
    spread |= more[width - 1] if isinstance(widths, int) else more[widths - 1]
    if width <= 8:
        return spread
    items = np.empty(len(values), [("low", "<u8"), ("high", "<u2")])
    items["low"] = spread
    items["high"] = (values >> np.uint64(56) & np.uint64(0x7F)) | (values >> np.uint64(63)) * np.uint64(0x180)
    return items


def _widest(widths: Sizes) -> int:
    return widths if isinstance(widths, int) else int(widths.max())


class _Payload(NamedTuple):
    """How many bytes each row's values take; `low` and `high` are the least and the most of them, `items` those of lists' items."""

    sizes: Sizes
    low: int
    high: int
    items: Sizes = 0


@dataclass(frozen=True, slots=True)
class _Column(ABC):
    """A feature of every row: a header, which depends on the size of its values alone, and the values.

    Attributes:
      prefix: what stands between the sizes of entry and feature: the key, and the tag of the value.
      tag: of the feature's list.
      present: which rows have a value; None for all.
    """

    prefix: bytes
    tag: bytes
    present: np.ndarray | None

    @property
    def items(self) -> int:
        """How many items the lists of all rows hold; of no account where there are no lists."""
        return 0

    @abstractmethod
    def payload(self, rows: slice) -> _Payload:
        """The sizes of the values in their list, without the tag and the size that a packed list or a string has first."""

    @abstractmethod
    def write_payload(self, writer: _Writer, rows: slice, payload: _Payload) -> None:
        """Write the values, whose sizes are `payload`."""

    def is_headed(self, sizes: Sizes) -> bool | np.ndarray:
        """Whether the list has a tag and a size before `sizes` bytes of values."""
        return True

    def sizes(self, rows: slice) -> Sizes:
        """How many bytes the entries take, zero where there is none."""
        payload = self.payload(rows)
        low, high = self._header(payload.low), self._header(payload.high)
        if len(low) == len(high):  # and so between them: no header is shorter than that of a smaller payload
            sizes = payload.sizes + len(low)
        else:
            entry = self._nested(payload.sizes)[0]
            sizes = 1 + _widths(entry) + entry
        return sizes if self.present is None else np.where(self.present[rows], sizes, 0)

    def write(self, writer: _Writer, rows: slice) -> None:
        """Write the entries."""
        payload = self.payload(rows)
        writer.only(None if self.present is None else self.present[rows])
        low, high = self._header(payload.low), self._header(payload.high)
        if isinstance(payload.sizes, int):
            writer.literal(low)
        elif len(low) == len(high) and high[1] < 0x80:
            self._write_short_headers(writer, payload.sizes - payload.low, low, high)
        else:
            self._write_headers(writer, payload.sizes)
        self.write_payload(writer, rows, payload)

    def _header(self, payload: int) -> bytes:
        return _header(self.prefix, self.tag, bool(self.is_headed(payload)), payload)

    def _write_short_headers(self, writer: _Writer, more: np.ndarray, low: bytes, high: bytes) -> None:
        """Headers between `low` and `high` for `more` bytes than at `low`, where each size in them is one byte."""
        cut = 1 + len(self.prefix)  # keeps the last byte of the prefix with the sizes behind it: eight bytes at most
        steps = int.from_bytes([one != other for one, other in zip(low[cut:], high[cut:])], "little")
        writer.literal(low[:1])
        writer.field((more + low[1]).astype(np.uint8), 1)
        writer.literal(low[2:cut])
        writer.field(more * steps + int.from_bytes(low[cut:], "little"), len(low) - cut)

    def _write_headers(self, writer: _Writer, sizes: np.ndarray) -> None:
        entry, feature, values = self._nested(sizes)
        writer.literal(b"\x0a")
        writer.varint(entry)
        writer.literal(self.prefix)
        writer.varint(feature)
        writer.literal(self.tag)
        writer.varint(values)
        headed = self.is_headed(sizes)
        if isinstance(headed, np.ndarray):
            writer.only(headed)
        if headed is not False:
            writer.literal(b"\x0a")
            writer.varint(sizes)

    def _nested(self, sizes: Sizes) -> tuple[Sizes, Sizes, Sizes]:
        """The sizes of entry, feature and list around the values."""
        values = sizes + self.is_headed(sizes) * (1 + _widths(sizes))
        feature = 1 + _widths(values) + values
        return len(self.prefix) + _widths(feature) + feature, feature, values


@lru_cache(maxsize=1 << 14)
def _header(prefix: bytes, tag: bytes, headed: bool, payload: int) -> bytes:
    """What precedes `payload` bytes of values in an entry."""
    values = b"\x0a" + varint(payload) if headed else b""
    feature = tag + varint(len(values) + payload) + values
    value = prefix + varint(len(feature) + payload) + feature
    return b"\x0a" + varint(len(value) + payload) + value


@dataclass(frozen=True, slots=True)
class _Floats(_Column):
    """One float32 a row."""

    values: np.ndarray

    def payload(self, rows: slice) -> _Payload:
        return _Payload(4, 4, 4)

    def write_payload(self, writer: _Writer, rows: slice, payload: _Payload) -> None:
        writer.field(self.values[rows], 4)


@dataclass(frozen=True, slots=True)
class _Ints(_Column):
    """One integer a row."""

    values: np.ndarray

    def payload(self, rows: slice) -> _Payload:
        return _payload(_widths(self.values[rows]))

    def write_payload(self, writer: _Writer, rows: slice, payload: _Payload) -> None:
        writer.field(_varints(self.values[rows], payload.sizes), payload.high, payload.sizes)


@dataclass(frozen=True, slots=True)
class _Strings(_Column):
    """One string of bytes a row."""

    data: np.ndarray
    offsets: np.ndarray

    def payload(self, rows: slice) -> _Payload:
        ends = _ends(self.offsets, rows)
        return _payload(_present(ends[1:] - ends[:-1], self.present, rows))

    def write_payload(self, writer: _Writer, rows: slice, payload: _Payload) -> None:
        writer.ragged(self.data, _ends(self.offsets, rows)[:-1], payload.sizes)


@dataclass(frozen=True, slots=True)
class _PackedLists(_Column):
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

    def payload(self, rows: slice) -> _Payload:
        ends = 4 * _ends(self.offsets, rows)
        return _payload(_present(ends[1:] - ends[:-1], self.present, rows))

    def write_payload(self, writer: _Writer, rows: slice, payload: _Payload) -> None:
        writer.ragged(self.values.view(np.uint8), 4 * _ends(self.offsets, rows)[:-1], payload.sizes)


class _IntLists(_PackedLists):
    """A list of integers a row."""

    __slots__ = ()

    def payload(self, rows: slice) -> _Payload:
        widths = _widths(self.values[_span(self.offsets, rows)])
        return _list_payload(widths, _item_ends(widths, self.offsets, rows), self.present, rows)

    def write_payload(self, writer: _Writer, rows: slice, payload: _Payload) -> None:
        values, widths = self.values[_span(self.offsets, rows)], payload.items
        items, ends = _varints(values, widths), _item_ends(widths, self.offsets, rows)
        stream = np.empty(int(ends[-1]) + items.itemsize, np.uint8)
        starts = np.arange(len(values)) * widths if isinstance(widths, int) else np.cumsum(widths) - widths
        # The rest of each item is overwritten by the next one: NumPy assigns in the order of the indices.
        windows(stream, items.dtype)[starts] = items
        writer.ragged(stream, ends[:-1], payload.sizes)


@dataclass(frozen=True, slots=True)
class _StringLists(_Column):
    """A list of strings of bytes a row, each with a tag and a size of its own."""

    strings: _Strings
    offsets: np.ndarray

    @property
    def items(self) -> int:
        return int(self.offsets[-1] - self.offsets[0])

    def is_headed(self, sizes: Sizes) -> bool | np.ndarray:
        return False

    def payload(self, rows: slice) -> _Payload:
        values = self.strings.payload(_span(self.offsets, rows)).sizes
        return _list_payload(values, _item_ends(1 + _widths(values) + values, self.offsets, rows), self.present, rows)

    def write_payload(self, writer: _Writer, rows: slice, payload: _Payload) -> None:
        span, values = _span(self.offsets, rows), payload.items
        items = np.broadcast_to(1 + _widths(values) + values, span.stop - span.start)
        stream = np.empty(int(items.sum()), np.uint8)
        starts = np.cumsum(items) - items
        for tile in _tiles(len(items), _TILE_ROWS):
            part = _payload(values if isinstance(values, int) else values[tile])
            strings = _Writer(stream, starts[tile], (starts + items)[tile])
            strings.literal(b"\x0a")
            strings.varint(part.sizes)
            self.strings.write_payload(strings, slice(span.start + tile.start, span.start + tile.stop), part)
            strings.flush()
        writer.ragged(stream, _item_ends(items, self.offsets, rows)[:-1], payload.sizes)


def _span(offsets: np.ndarray, rows: slice) -> slice:
    """The items that the lists of `rows` hold together."""
    return slice(int(offsets[rows.start]), int(offsets[rows.stop]))


def _ends(offsets: np.ndarray, rows: slice) -> np.ndarray:
    return offsets[rows.start : rows.stop + 1].astype(np.int64, copy=False)


def _item_ends(sizes: Sizes, offsets: np.ndarray, rows: slice) -> np.ndarray:
    """Where the lists of `rows` begin and end in their items, of `sizes` bytes each, laid end to end."""
    items = _ends(offsets, rows) - int(offsets[rows.start])
    if isinstance(sizes, int):
        return items * sizes
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    return ends[items]


def _present(sizes: np.ndarray, present: np.ndarray | None, rows: slice) -> np.ndarray:
    return sizes if present is None else np.where(present[rows], sizes, 0)


def _payload(sizes: Sizes) -> _Payload:
    if isinstance(sizes, int):
        return _Payload(sizes, sizes, sizes)
    low, high = (int(sizes.min()), int(sizes.max())) if len(sizes) else (0, 0)
    return _Payload(low if low == high else sizes, low, high)


def _list_payload(items: Sizes, ends: np.ndarray, present: np.ndarray | None, rows: slice) -> _Payload:
    return _payload(_present(ends[1:] - ends[:-1], present, rows))._replace(items=items)


def _columns(batch: pa.RecordBatch) -> list[_Column]:
    return [_column(field.name, array) for field, array in zip(batch.schema, batch.columns)]


def _column(name: str, array: pa.Array) -> _Column:
    kind, present = array.type, _presence(array)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return _scalars(name, array, kind, present)
    if pa.types.is_fixed_size_list(kind):
        offsets = np.arange(array.offset, array.offset + len(array) + 1, dtype=np.int64) * kind.list_size
    else:
        offsets = _buffer(array.buffers()[1], np.int64 if pa.types.is_large_list(kind) else np.int32, array.offset, len(array) + 1)
    _check_items(name, array.values, offsets, present)
    items = _scalars(name, array.values, kind, None)
    if isinstance(items, _Ints):
        return _IntLists(items.prefix, items.tag, present, items.values, offsets)
    if isinstance(items, _Floats):
        return _FloatLists(items.prefix, items.tag, present, items.values, offsets)
    return _StringLists(items.prefix, items.tag, present, items, offsets)


def _scalars(name: str, array: pa.Array, declared: pa.DataType, present: np.ndarray | None) -> _Ints | _Floats | _Strings:
    """The values of `array`, a column or the items of its lists; `declared` is the type to name in an error."""
    key = name.encode()
    prefix = b"\x0a" + varint(len(key)) + key + b"\x12"
    kind, buffers = array.type, array.buffers()
    if pa.types.is_int64(kind):
        return _Ints(prefix, _INT64, present, _buffer(buffers[1], np.uint64, array.offset, len(array)))
    if pa.types.is_float32(kind):
        return _Floats(prefix, _FLOAT, present, _buffer(buffers[1], np.float32, array.offset, len(array)))
    large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    if large or pa.types.is_binary(kind) or pa.types.is_string(kind):
        offsets = _buffer(buffers[1], np.int64 if large else np.int32, array.offset, len(array) + 1)
        data = _buffer(buffers[2], np.uint8, 0, int(offsets[-1]))
        return _Strings(prefix, _BYTES, present, data, offsets)
    raise TypeError(f"column {name!r} is {declared}; expected int64, float32, binary, string or lists of one of them")


def _buffer(buffer: pa.Buffer | None, dtype: type, start: int, count: int) -> np.ndarray:
    """`count` items from item `start` on; zeros if there is no buffer, which Arrow permits where nothing is to be read."""
    if buffer is None or buffer.size == 0:
        return np.zeros(count, dtype)
    return np.ndarray(count, dtype, buffer, start * np.dtype(dtype).itemsize)


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
            raise ValueError(f"column {name!r}: the list in row {row} of the batch holds a null; a feature's list cannot")
