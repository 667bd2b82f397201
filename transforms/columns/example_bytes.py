"""Write varints, byte pieces and TFRecord frames of many records at once."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from shardmill.data import spans
from shardmill.data.example import encode_varint
from shardmill.data.tfrecord import OVERHEAD
from shardmill.transforms.columns.arrow import data_of, offsets_of

HEADER_BYTES = 12  # before a payload: 8 of length, 4 of checksum
FOOTER_BYTES = OVERHEAD - HEADER_BYTES
_HEADER_ROOM, _FOOTER_ROOM = bytes(HEADER_BYTES), bytes(FOOTER_BYTES)


def frame(records: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Frame each record: length, masked crc32c of the length, payload, masked crc32c of the payload."""
    offsets = offsets_of(records)
    sizes = np.diff(offsets)
    framed = np.zeros(len(records) + 1, np.int64)
    np.cumsum(sizes + OVERHEAD, out=framed[1:])
    data = pa.allocate_buffer(int(framed[-1]))
    out = np.frombuffer(data, np.uint8)
    spans.copy(data_of(records), offsets[:-1], sizes, out, framed[:-1] + HEADER_BYTES)
    spans.frame(out, framed)
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(records), [None, pa.py_buffer(framed), data])


class RecordFramer:
    """Collects records in parts and frames all at once, so that parts of many megabytes are copied only once."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._offsets = [0]

    def add(self, record: Sequence[bytes]) -> int:
        """Add a record, given in parts, and return its framed size in bytes."""
        size = OVERHEAD + sum(map(len, record))
        self._parts += (_HEADER_ROOM, *record, _FOOTER_ROOM)
        self._offsets.append(self._offsets[-1] + size)
        return size

    def framed(self) -> np.ndarray:
        """Return all records framed as in a TFRecord file: uint8, shape (bytes,)."""
        data = bytearray().join(self._parts)
        spans.frame(data, np.array(self._offsets, np.int64))
        return np.frombuffer(data, np.uint8)


def payload_hashes(framed: pa.LargeBinaryArray, seeds: Sequence[int]) -> np.ndarray:
    """Return the 64-bit xxh3 of each payload in framed records for each seed: uint64 (seeds, rows)."""
    offsets = offsets_of(framed)
    starts, ends = offsets[:-1] + HEADER_BYTES, offsets[1:] - FOOTER_BYTES
    return spans.hashes_by_seed(data_of(framed), starts, ends, seeds)


def sliding_items(data: Any, dtype: np.dtype) -> np.ndarray:
    """Return `data` as overlapping items, one at each byte; indexing it copies many short pieces in one call."""
    size = memoryview(data).nbytes
    return np.ndarray(max(size - dtype.itemsize + 1, 0), dtype, data, 0, (1,))


Sizes = int | np.ndarray  # in bytes: of all rows, or each row's as int64


def max_size(sizes: Sizes) -> int:
    """Return the maximum of `sizes`, which are not empty."""
    return sizes if isinstance(sizes, int) else int(sizes.max())


def varint_widths(values: Sizes) -> Sizes:
    """Return the bytes, 1 to 10, of each uint64 or non-negative int64 as a varint; an int if all have the same."""
    if isinstance(values, int):
        return len(encode_varint(values))
    if not len(values):
        return 1
    low, high = len(encode_varint(int(values.min()))), len(encode_varint(int(values.max())))
    if low == high:
        return low
    widths = np.full(len(values), low, np.uint8)
    for width in range(low, high):
        widths += (values >= values.dtype.type(1 << 7 * width)).view(np.uint8)
    return widths.astype(np.int64)


def encode_varints(values: np.ndarray, widths: Sizes) -> np.ndarray:
    """Encode each uint64 value as a varint, at the beginning of one array item; `widths` are their `varint_widths`.

    Items are as long as the longest varint or a few bytes longer; the rest of an item is arbitrary.
    """
    width = max_size(widths)
    if width == 1:
        return values.astype(np.uint8)
    word = np.dtype("<u4" if width <= 4 else "<u8")
    source = values.astype(word)
    spread = source & word.type(0x7F)
    for byte in range(1, min(width, 8)):
        spread |= (source << word.type(byte)) & word.type(0x7F << 8 * byte)
    more = np.array(
        [int.from_bytes(b"\x80" * (min(size, word.itemsize + 1) - 1), "little") for size in range(1, 11)], word
    )
    spread |= more[width - 1] if isinstance(widths, int) else more[widths - 1]
    if width <= 8:
        return spread
    items = np.empty(len(values), [("low", "<u8"), ("high", "<u2")])
    items["low"] = spread
    items["high"] = (values >> np.uint64(56) & np.uint64(0x7F)) | (values >> np.uint64(63)) * np.uint64(0x180)
    return items


TILE_ROWS = 8192  # written at a time: few enough for the processor's cache, enough to outweigh the calls
_SEGMENT_BYTES = 1024  # at which a matrix is copied out even though its rows go on
_NARROW_BYTES = 32  # values up to here are padded to the longest; longer ones are copied one by one
_FAST_WIDTHS = (1, 2, 4, 8, 16)  # of items that NumPy copies without a call each


def tiles(rows: int, step: int) -> Iterator[slice]:
    """Yield slices that cover all `rows` in order, `step` rows each."""
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


class PieceWriter:
    """Writes the records of some rows piece by piece, each piece for all rows at once.

    Pieces of one width in all rows are collected in a segment, a matrix with one line per row. A piece whose width
    differs between rows ends its segment and is padded. Then the lines are copied to the current positions of their
    records. Later pieces of the record overwrite the padding; other padding is not copied. Call `flush` after the last
    piece.
    """

    def __init__(self, out: np.ndarray, starts: np.ndarray, limits: np.ndarray) -> None:
        """Start one or more records, with room for padding.

        Args:
            out: the bytes of all records, uint8.
            starts: offset in `out` of each record, int64 (rows,), ascending.
            limits: for each row, the end of the bytes that padding may overwrite because later pieces or the caller
                write them again.
        """
        self._out = out
        self._positions = starts.copy()
        self._limits = limits
        self._present: np.ndarray | None = None
        self._fields: list[tuple[bytes | np.ndarray, int]] = []
        self._width = 0

    def select_rows(self, present: np.ndarray | None) -> None:
        """Write the following pieces only to the rows of the mask `present`; None for all."""
        if present is not self._present:
            self.flush()
            self._present = present

    def write_literal(self, piece: bytes) -> None:
        """Write the same bytes to every row."""
        self._fields.append((piece, len(piece)))
        self._width += len(piece)

    def write_field(self, items: np.ndarray, width: int, sizes: Sizes | None = None) -> None:
        """Append a field with the first bytes of each row's item, in their memory layout.

        Args:
            items: array (rows,) of any type; an item may be longer than `width`.
            width: number of bytes in every row, or the maximum if they differ.
            sizes: number of bytes in each row, if they differ; an int is ignored.
        """
        before = self._width
        self._fields.append((items, width))
        self._width += width
        if isinstance(sizes, np.ndarray):
            self._end_segment(sizes + before)
        elif self._width >= _SEGMENT_BYTES:
            self.flush()

    def write_varint(self, values: Sizes) -> None:
        """Write non-negative numbers as base-128 varints; an int is written to every row."""
        if isinstance(values, int):
            self.write_literal(encode_varint(values))
        else:
            widths = varint_widths(values)
            self.write_field(encode_varints(values.view(np.uint64), widths), max_size(widths), widths)

    def write_ragged(self, data: np.ndarray, starts: np.ndarray, sizes: Sizes) -> None:
        """Write, for each row, `sizes` bytes of `data` (uint8) from its start on; the starts ascend."""
        width = max_size(sizes)
        if width > _NARROW_BYTES:
            self.flush()
            sizes = np.broadcast_to(sizes, len(starts))
            if self._present is not None:
                sizes = np.where(self._present, sizes, 0)
            spans.copy(data, starts, sizes, self._out, self._positions)
            self._positions += sizes
        elif width:
            first = int(starts[0])
            # Windows may reach beyond their values, and the data; NumPy is fastest at some of their widths.
            window = min((fast for fast in _FAST_WIDTHS if fast >= width), default=width)
            local = np.zeros(int(starts[-1]) - first + window, np.uint8)
            part = data[first : first + len(local)]
            local[: len(part)] = part
            self.write_field(sliding_items(local, np.dtype((np.void, window)))[starts - first], width, sizes)

    def flush(self) -> None:
        """Copy the collected pieces to their records."""
        if self._width:
            self._end_segment(self._width)

    def _end_segment(self, sizes: Sizes) -> None:
        if self._present is not None:
            sizes = np.where(self._present, sizes, 0)
        lines, width = self._lines(), self._width
        self._fields, self._width = [], 0
        if isinstance(sizes, int) or int((self._limits - self._positions).min()) >= width:
            window = np.dtype((np.void, width))
            sliding_items(self._out, window)[self._positions] = np.ndarray(len(lines), window, lines, 0, lines.strides)
        else:
            spans.copy(lines.view(np.uint8), np.arange(len(lines)) * lines.itemsize, sizes, self._out, self._positions)
        self._positions += sizes

    def _lines(self) -> np.ndarray:
        """Lay the segment's pieces side by side, one void item per row; an item may be longer than the segment."""
        template = b"".join(piece if isinstance(piece, bytes) else bytes(width) for piece, width in self._fields)
        template += bytes(
            max((piece.itemsize - width for piece, width in self._fields if not isinstance(piece, bytes)), default=0)
        )
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
