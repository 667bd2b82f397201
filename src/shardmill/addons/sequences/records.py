"""Rows of a sequence: their staged records and the order of their times."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa

from shardmill.data import spans
from shardmill.data.features import Features
from shardmill.transforms.columns.arrow import buffer_items, is_list, text_buffers
from shardmill.transforms.times import parse_moments

_SIZE = np.dtype("<u4")
_WIDTHS = {"int64": 8, "float32": 4}  # bytes of a value
_FIRST = (0, 8, 0)  # of file, line and id; 0 where rows differ


def row_widths(features: Features) -> list[int]:
    """Return the bytes of each feature in a row; 0 for texts, whose sizes vary."""
    return [_WIDTHS.get(feature.dtype, 0) * values_per_row(feature.shape) for feature in features]


def values_per_row(shape: tuple[int | None, ...]) -> int:
    """Return the number of values in a row of a feature of this shape."""
    return int(np.prod([size for size in shape if size is not None], dtype=np.int64))


def row_records(
    files: pa.Array, lines: pa.Array, ids: pa.Array, columns: Sequence[pa.Array], widths: Sequence[int]
) -> pa.LargeBinaryArray:
    """Encode the record of each row.

    A record begins with the sizes of its pieces of variable size, four bytes each. The pieces follow: file, line, id,
    then the columns in the order of the features. So a column of a sequence is the concatenation of its rows' pieces.

    All arrays are without nulls: `files` and `ids` large_binary, `lines` int64, and `columns`, one for each feature,
    int64, float32, large_binary, or lists of equally many numbers. `widths` are those of `row_widths`.
    """
    rows = len(files)
    pieces = [_row_bytes(column, width) for column, width in zip((files, lines, ids, *columns), (*_FIRST, *widths))]
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


def _row_bytes(column: pa.Array, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = len(column)
    if not width:
        data, starts = text_buffers(column)
        starts = starts.astype(np.int64)
        return np.ascontiguousarray(data), starts[:-1], np.diff(starts)
    values = column.flatten() if is_list(column.type) else column
    kind = np.int64 if pa.types.is_int64(values.type) else np.float32
    data = np.ascontiguousarray(buffer_items(values.buffers()[1], kind, values.offset, len(values))).view(np.uint8)
    return data, np.arange(rows, dtype=np.int64) * width, np.full(rows, width, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class DecodedRows:
    """Rows decoded from records."""

    files: pa.LargeBinaryArray
    lines: np.ndarray  # int64 (rows,)
    ids: pa.LargeBinaryArray
    _data: np.ndarray
    _starts: list[np.ndarray]
    _sizes: list[np.ndarray]

    @classmethod
    def decode(cls, data: np.ndarray, starts: np.ndarray, widths: Sequence[int]) -> "DecodedRows":
        """Decode the rows whose records begin at `starts`, int64 of shape (rows,), in the bytes `data`."""
        every = (*_FIRST, *widths)
        varying = every.count(0)
        head = _SIZE.itemsize * varying
        heads, _ = spans.gather(data, starts, np.full(len(starts), head, np.int64))
        sizes_in_head = heads.view(_SIZE).reshape(len(starts), varying).astype(np.int64)
        varying_sizes = iter(sizes_in_head.T)
        sizes = [np.full(len(starts), width, np.int64) if width else next(varying_sizes) for width in every]
        begins = list(accumulate(sizes[:-1], initial=starts + head))
        texts = [_texts(data, begins[piece], sizes[piece]) for piece in (0, 2)]
        lines = spans.gather(data, begins[1], sizes[1])[0].view(np.int64)
        return cls(texts[0], lines, texts[1], data, begins[3:], sizes[3:])

    def column(self, index: int, dtype: str, rows: np.ndarray) -> pa.Array:
        """Return the values of feature number `index` for `rows` (int64), in that order; lists are flattened."""
        starts, sizes = self._starts[index][rows], self._sizes[index][rows]
        if dtype == "bytes":
            return _texts(self._data, starts, sizes)
        copied, _ = spans.gather(self._data, starts, sizes)
        return pa.array(copied.view(np.int64 if dtype == "int64" else np.float32))


def _texts(data: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> pa.LargeBinaryArray:
    copied, offsets = spans.gather(data, starts, sizes)
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(copied)])


_SIGN = np.uint64(1 << 63)
_EXACT = (1 << 63) - (1 << 58)  # nanoseconds from 1970: 283 years, beyond which keys are microseconds
_FIRST_YEAR, _END_YEAR = -62_167_219_200, 253_402_300_800  # of four digits, in seconds since 1970


def order_keys(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return integers that sort like the values, uint64 (rows,), and flags of the rows without one, bool (rows,).

    Values are int64, float64, or texts of dates or times as ISO 8601 has them; times without a zone are UTC. A text has
    no key if it is more exact than the key: nanoseconds from 1687 to 2253, and microseconds in other years to 9999.
    """
    none = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_int64(column.type):
        return column.fill_null(0).to_numpy().view(np.uint64) ^ _SIGN, none
    if pa.types.is_floating(column.type):
        floats = column.cast(pa.float64()).fill_null(0).to_numpy() + 0.0  # of both zeros one
        bits = floats.view(np.uint64)
        return np.where(bits & _SIGN, ~bits, bits ^ _SIGN), none | np.isnan(floats)
    moments = parse_moments(column)
    nanoseconds, fits, is_finer = moments.count(1_000_000_000)
    is_near = fits & (np.abs(nanoseconds) < _EXACT)
    microseconds, _, is_coarse = moments.count(1_000_000)
    far = np.where(microseconds < 0, -_EXACT, _EXACT) + (microseconds - np.sign(microseconds) * (_EXACT // 1000))
    in_range = (moments.seconds >= _FIRST_YEAR) & (moments.seconds < _END_YEAR)
    good = moments.is_time & in_range & ~np.where(is_near, is_finer, is_coarse)
    return np.where(is_near, nanoseconds, np.where(good, far, 0)).view(np.uint64) ^ _SIGN, ~good
