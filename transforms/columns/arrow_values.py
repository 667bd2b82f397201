"""Columns of whatever Arrow types as columns of the types that Examples have."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.printable import beginning
from shardmill.transforms.columns.arrow import arrow_type, as_text
from shardmill.transforms.columns.arrow_lists import Flags, decoded, flatten, is_list, plain
from shardmill.transforms.columns.json_values import convert
from shardmill.transforms.columns.nested import MAX_RANK, ColumnError
from shardmill.transforms.columns.rounded import Rounded, rounded_numbers, rounded_of
from shardmill.transforms.columns.types import ColumnType, Spelled, check_shape

_IS_BYTES = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
_IS_TEXTUAL = (pa.types.is_date, pa.types.is_time, pa.types.is_timestamp, pa.types.is_duration, pa.types.is_decimal)
_INT64_MAX = (1 << 63) - 1  # the largest int64, which a uint64 may exceed


class UnsupportedTypeError(ValueError):
    """A type that no feature can hold."""


def spelled_type(kind: pa.DataType) -> Spelled | None:
    """What the values of a column become; None if it can have none.

    Raises:
      UnsupportedTypeError: a struct, a map and the like.
    """
    item, rank = plain(kind), 0
    while is_list(item):
        item, rank = plain(item.value_type), rank + 1
    if rank > MAX_RANK:
        raise UnsupportedTypeError(f"of lists nested more than {MAX_RANK} deep")
    if pa.types.is_null(item):
        return None
    if pa.types.is_boolean(item):
        return "bool"
    if pa.types.is_integer(item):
        return "int64"
    if pa.types.is_floating(item):
        return "float32"
    if any(test(item) for test in (*_IS_BYTES, *_IS_TEXTUAL)):
        return "bytes"
    raise UnsupportedTypeError(str(kind))


def is_moment(kind: pa.DataType) -> bool:
    """Whether the values of a column are points in time."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def is_span(kind: pa.DataType) -> bool:
    """Whether the values of a column are lengths of time, or times of any day."""
    kind = plain(kind)
    return bool(pa.types.is_duration(kind) or pa.types.is_time(kind))


@dataclass(frozen=True, slots=True, eq=False)
class Converted:
    """A column as it was asked for.

    Attributes:
      array: its values; null, or anything, where one does not fit.
      problems: the rows whose value does not fit, with the reason.
      numbers, rows: of integers that float32 changes, what they were, and in which rows.
    """

    array: pa.Array
    problems: dict[int, str]
    numbers: pa.Array
    rows: npt.NDArray[np.int64]

    def rounded(self, good: Flags) -> Rounded | None:
        """What float32 changes of the integers in some rows."""
        return rounded_of(self.numbers.filter(pa.array(good[self.rows]))) if len(self.rows) else None


def convert_column(array: pa.Array, column: ColumnType, fill: Any = None) -> Converted:
    """`array` as `column`, with `fill` where a value is missing: as json_values does for JSON's values."""
    array = decoded(array)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    problems: dict[int, str] = {}
    flat = flatten(array, column.items)
    values, bad, reason = _values(flat.items, column.dtype)
    for position in np.flatnonzero(bad).tolist():
        problems.setdefault(int(flat.rows[position]), reason(position))
    if column.length is None and is_list(array.type):
        for row in np.flatnonzero(valid).tolist():
            problems.setdefault(row, _misfit(array[row].as_py(), column))
        whole = pa.nulls(len(array), arrow_type(column))
    elif column.length is None:
        whole = values if len(values) == len(array) else _spread(values, valid)
    else:
        wrong = flat.misfits if column.is_variable else flat.misfits | (valid & (flat.lengths != column.length))
        for row in np.flatnonzero(wrong).tolist():
            problems.setdefault(row, _misfit(array[row].as_py(), column))
        counts = np.bincount(flat.rows, minlength=len(array))
        offsets = pa.array(np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))))
        mask = None if column.is_variable or valid.all() else pa.array(~valid)
        whole = pa.LargeListArray.from_arrays(offsets, values, mask=mask)
    whole = whole if fill is None else _filled(whole, valid, column, fill, problems)
    if column.dtype != "float32" or not (pa.types.is_integer(flat.items.type) or pa.types.is_float64(flat.items.type)):
        return Converted(whole, problems, flat.items.slice(0, 0), np.zeros(0, np.int64))
    rounded = rounded_numbers(flat.items, values)
    return Converted(whole, problems, flat.items.filter(pa.array(rounded)), flat.rows[rounded])


def _misfit(value: Any, column: ColumnType) -> str:
    try:
        check_shape(value, column)
    except ColumnError as error:
        return str(error)
    return "a list with a null in it"


def _spread(values: pa.Array, valid: Flags) -> pa.Array:
    """`values` at the rows that are valid, nulls elsewhere."""
    indices = np.cumsum(valid) - 1
    return values.take(pa.array(indices, mask=~valid))


def _filled(array: pa.Array, valid: Flags, column: ColumnType, fill: Any, problems: dict[int, str]) -> pa.Array:
    if valid.all():
        return array
    try:
        value = pa.array([convert(fill, column)], arrow_type(column))
    except ColumnError as error:
        problems.update(dict.fromkeys(np.flatnonzero(~valid).tolist(), f"the fill: {error}"))
        return array
    indices = np.where(valid, np.arange(len(array)), len(array))
    return pa.concat_arrays([array, value]).take(pa.array(indices))


_Problem = Callable[[int], str]


def _values(items: pa.Array, dtype: Spelled) -> tuple[pa.Array, Flags, _Problem]:
    """`items` as `dtype`, which of them do not fit, and why one of these does not."""
    bad = items.is_null().to_numpy(zero_copy_only=False)
    if any(test(items.type) for test in _IS_TEXTUAL):
        items, failed = _as_strings(items)
        bad = bad | failed
    kind = items.type
    target = arrow_type(ColumnType(dtype, None, 0))
    if pa.types.is_null(kind):
        return pa.nulls(len(items), target), bad, lambda position: "a list with a null in it"
    found = items
    if pa.types.is_uint64(kind):
        fits = pc.less_equal(items, pa.scalar(_INT64_MAX, pa.uint64()))
        bad = bad | ~pc.fill_null(fits, True).to_numpy(zero_copy_only=False)
        items = pc.if_else(fits, items, pa.scalar(None, kind))

    def why(position: int) -> str:
        value = found[position].as_py()
        if value is None:
            return "a list with a null in it"
        if pa.types.is_uint64(kind) and value > _INT64_MAX:
            return f"{value} does not fit a 64-bit integer"
        if dtype == "float32" and isinstance(value, float):
            return f"{value} is beyond the range of float32"
        shown = beginning(as_text(value))
        return f"{shown} is no {'true or false' if dtype == 'bool' else 'integer' if dtype == 'int64' else 'number'}"

    converter = {"bool": _to_bool, "int64": _to_int64, "float32": _to_float32, "bytes": _to_bytes}[dtype]
    values, misfit = converter(items)
    return values, bad | misfit, why


def _as_strings(items: pa.Array) -> tuple[pa.Array, Flags]:
    """Dates and the like as Arrow writes them, and which it cannot."""
    failed = np.zeros(len(items), bool)
    try:
        return items.cast(pa.string()), failed
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        texts = []
        for position, item in enumerate(items):
            try:
                texts.append(item.cast(pa.string()).as_py())
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                failed[position] = True
                texts.append(None)
        return pa.array(texts, pa.string()), failed


def _nothing(items: pa.Array, target: pa.DataType) -> tuple[pa.Array, Flags]:
    return pa.nulls(len(items), target), np.ones(len(items), bool)


def _no_misfits(items: pa.Array) -> Flags:
    return np.zeros(len(items), bool)


def _to_int64(items: pa.Array) -> tuple[pa.Array, Flags]:
    if pa.types.is_integer(items.type):
        return items.cast(pa.int64()), _no_misfits(items)
    if not pa.types.is_floating(items.type):  # booleans are words
        return _nothing(items, pa.int64())
    numbers = items.cast(pa.float64()).to_numpy(zero_copy_only=False)
    whole = (np.floor(numbers) == numbers) & (numbers >= -(2.0**63)) & (numbers < 2.0**63)
    return pa.array(np.where(whole, numbers, 0).astype(np.int64), mask=~whole), ~whole


def _to_bool(items: pa.Array) -> tuple[pa.Array, Flags]:
    if pa.types.is_boolean(items.type):
        return items.cast(pa.int64()), _no_misfits(items)
    return _nothing(items, pa.int64())


def _to_float32(items: pa.Array) -> tuple[pa.Array, Flags]:
    if pa.types.is_float16(items.type) or pa.types.is_float32(items.type):
        return items.cast(pa.float32()), _no_misfits(items)
    if not pa.types.is_integer(items.type) and not pa.types.is_floating(items.type):
        return _nothing(items, pa.float32())
    floats = items.cast(pa.float64(), safe=False)
    narrow = floats.cast(pa.float32(), safe=False)
    beyond = pc.and_(pc.is_inf(narrow), pc.is_finite(floats))
    return narrow, pc.fill_null(beyond, False).to_numpy(zero_copy_only=False)


def _to_bytes(items: pa.Array) -> tuple[pa.Array, Flags]:
    if pa.types.is_boolean(items.type) or pa.types.is_integer(items.type):
        items = items.cast(pa.string())
    elif pa.types.is_floating(items.type):
        items = pa.array([None if value is None else as_text(float(value)) for value in items.to_pylist()], pa.string())
    elif pa.types.is_fixed_size_binary(items.type):
        items = items.cast(pa.binary())
    return items.cast(pa.large_binary()), _no_misfits(items)
