"""Rows of a sequence: their staged records and the order of their times."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.data import spans
from shardmill.data.features import Features
from shardmill.transforms.columns.arrow import is_list
from shardmill.transforms.columns.text import NumberStyle
from shardmill.transforms.times import Moments, parse_moments

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
    pieces = [_row_bytes(column, width) for column, width in zip((files, lines, ids, *columns), (*_FIRST, *widths))]
    varying = [pc.binary_length(piece) for piece, width in zip(pieces, (*_FIRST, *widths)) if not width]
    header = _row_bytes(pa.array(np.stack(varying, axis=1).astype(_SIZE).ravel()), _SIZE.itemsize * len(varying))
    return pc.binary_join_element_wise(header, *pieces, pa.scalar(b"", pa.large_binary()))


def _row_bytes(column: pa.Array, width: int) -> pa.LargeBinaryArray:
    """Return the bytes of each row, `width` of numbers; texts, whose width is 0, stay as they are."""
    if not width:
        return column
    values = column.flatten() if is_list(column.type) else column
    size = values.type.bit_width // 8
    offsets = np.arange(0, len(values) * size + 1, width) + values.offset * size
    buffers = [None, pa.py_buffer(offsets), values.buffers()[1]]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


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
_NUMBER = r"\A[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?\z"


def order_keys(column: pa.Array, style: NumberStyle) -> tuple[np.ndarray, np.ndarray, Moments | None]:
    """Return integers that sort like numbers, uint64 (rows,), flags of the rows without order, bool (rows,), and times.

    Values are int64, float64, or texts of numbers as `style` spells them, or of times: `order_texts` sorts texts.
    """
    none = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_int64(column.type):
        return column.fill_null(0).to_numpy().view(np.uint64) ^ _SIGN, none, None
    if pa.types.is_floating(column.type):
        floats = column.cast(pa.float64()).fill_null(0).to_numpy() + 0.0  # of both zeros one
        bits = floats.view(np.uint64)
        return np.where(bits & _SIGN, ~bits, bits ^ _SIGN), none | np.isnan(floats), None
    _, is_number = _read_numbers(column, style)
    moments = parse_moments(pc.if_else(is_number, None, column))  # numbers take it long
    return np.zeros(len(column), np.uint64), ~(is_number | moments.is_time & ~moments.is_finer), moments


def order_texts(texts: pa.LargeBinaryArray, ids: np.ndarray, style: NumberStyle) -> list[np.ndarray]:
    """Return two integers for each text, by which those of an id sort, and flags of texts that do not fit; all (rows,).

    The texts of an id are numbers if all can be, such as 2024 and 20240131, and else times. If neither is so, numbers
    sort before times, which are flagged. `ids` are integers from 0 on.
    """
    plain, is_number = _read_numbers(texts, style)
    all_numbers = np.bincount(ids, ~is_number)[ids] == 0
    moments = parse_moments(pc.if_else(all_numbers, None, texts))
    all_times = np.bincount(ids, ~moments.is_time | moments.is_finer)[ids] == 0
    numbers = [Decimal(text.decode()) for text in plain.filter(pa.array(all_numbers)).to_pylist()]
    seconds = np.where(moments.is_time, moments.seconds, np.iinfo(np.int64).min)
    seconds[all_numbers] = np.unique(np.array(numbers, object), return_inverse=True)[1]
    return [seconds, np.where(all_numbers, 0, moments.nanoseconds), ~(is_number | all_times)]


def _read_numbers(texts: pa.Array, style: NumberStyle) -> tuple[pa.Array, np.ndarray]:
    plain = style.rewrite(texts.cast(pa.binary()))[0]
    return plain, pc.match_substring_regex(plain, _NUMBER).fill_null(False).to_numpy(zero_copy_only=False)
