"""How rows lie in runs until all rows of their sequence are together: each column's bytes one after the other. Pure.

A row's record begins with the sizes of the pieces that have none of their own, four bytes each; then come the pieces:
the row's file, its line, its id, then the columns in the order of the features. So a column of a sequence is its rows'
pieces, copied one behind the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shardmill.features.feature import Features
from shardmill.records import spans
from shardmill.transforms.columns.buffers import buffer_items, text_buffers

_SIZE = np.dtype("<u4")
_WIDTHS = {"int64": 8, "float32": 4}  # bytes of a value
_FIRST = (0, 8, 0)  # of file, line and id; 0 where rows differ


def widths_of(features: Features) -> list[int]:
    """The bytes of each feature's piece in a row, 0 where rows differ: of texts."""
    return [_WIDTHS.get(feature.dtype, 0) * items_of(feature.shape) for feature in features]


def items_of(shape: tuple[int | None, ...]) -> int:
    """How many values a feature of this shape has in a row."""
    return int(np.prod([size for size in shape if size is not None], dtype=np.int64))


def row_records(
    files: pa.Array, lines: pa.Array, ids: pa.Array, columns: Sequence[pa.Array], widths: Sequence[int]
) -> pa.LargeBinaryArray:
    """The record of each row.

    Args:
      files, ids: large_binary, none of them null.
      lines: int64.
      columns: of the features, none of them null: int64, float32, large_binary, or lists of as many numbers each.
      widths: as `widths_of` gives them.
    """
    rows = len(files)
    pieces = [_piece(column, width) for column, width in zip((files, lines, ids, *columns), (*_FIRST, *widths))]
    varying = [sizes for (_, _, sizes), width in zip(pieces, (*_FIRST, *widths)) if not width]
    header = np.ascontiguousarray(np.stack(varying, axis=1).astype(_SIZE))
    heads = header.view(np.uint8).reshape(-1)
    width = _SIZE.itemsize * len(varying)
    every = [(heads, np.arange(rows, dtype=np.int64) * width, np.full(rows, width, np.int64)), *pieces]
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(sum(sizes for _, _, sizes in every), out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    at = offsets[:-1].copy()
    for data, starts, sizes in every:
        spans.copy(data, starts, sizes, out, at)
        at += sizes
    return pa.Array.from_buffers(pa.large_binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(out)])


def _piece(column: pa.Array, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bytes of a column, where each row's begin, and how many they are."""
    rows = len(column)
    if not width:
        data, starts = text_buffers(column)
        starts = starts.astype(np.int64)
        return np.ascontiguousarray(data), starts[:-1], np.diff(starts)
    values = column.flatten() if _is_list(column.type) else column
    kind = np.int64 if pa.types.is_int64(values.type) else np.float32
    data = np.ascontiguousarray(buffer_items(values.buffers()[1], kind, values.offset, len(values))).view(np.uint8)
    return data, np.arange(rows, dtype=np.int64) * width, np.full(rows, width, np.int64)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


@dataclass(frozen=True, slots=True, eq=False)
class ReadRows:
    """Rows as they were in records.

    Attributes:
      files, ids: large_binary.
      lines: int64, shape (rows,).
    """

    files: pa.LargeBinaryArray
    lines: np.ndarray
    ids: pa.LargeBinaryArray
    _data: np.ndarray
    _starts: list[np.ndarray]
    _sizes: list[np.ndarray]

    @classmethod
    def of(cls, data: np.ndarray, starts: np.ndarray, widths: Sequence[int]) -> "ReadRows":
        """The rows whose records begin at `starts`, int64 of shape (rows,), in `data`, bytes."""
        every = (*_FIRST, *widths)
        varying = every.count(0)
        head = _SIZE.itemsize * varying
        heads, _ = spans.gather(data, starts, np.full(len(starts), head, np.int64))
        told = heads.view(_SIZE).reshape(len(starts), varying).astype(np.int64)
        at, place = starts + head, 0
        begins, sizes = [], []
        for width in every:
            size = np.full(len(starts), width, np.int64) if width else told[:, place]
            place += not width
            begins.append(at)
            sizes.append(size)
            at = at + size
        texts = [_texts(data, begins[piece], sizes[piece]) for piece in (0, 2)]
        lines = spans.gather(data, begins[1], sizes[1])[0].view(np.int64)
        return cls(texts[0], lines, texts[1], data, begins[3:], sizes[3:])

    def column(self, index: int, dtype: str, rows: np.ndarray) -> pa.Array:
        """The values of a feature by its place among them, in the order of `rows`, int64: of lists those in them."""
        starts, sizes = self._starts[index][rows], self._sizes[index][rows]
        if dtype == "bytes":
            return _texts(self._data, starts, sizes)
        copied, _ = spans.gather(self._data, starts, sizes)
        return pa.array(copied.view(np.int64 if dtype == "int64" else np.float32))


def _texts(data: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> pa.LargeBinaryArray:
    copied, offsets = spans.gather(data, starts, sizes)
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(copied)])
