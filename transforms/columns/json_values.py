"""Columns of JSON values: their type, and themselves as Arrow arrays.

What a value is, one by one, is `types.value_type`, and what becomes of it is `convert`; a column whose values are
of few kinds, as almost all are, is handled as a whole, with the same result.
"""

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from shardmill.transforms.columns.arrow import arrow_type, as_text
from shardmill.transforms.columns.nested import ColumnError, leaves, shape_and_values, shown
from shardmill.transforms.columns.types import ColumnType, Spelled, check_shape, value_type, widest

NO_LONGER_EXACT = float(1 << 63)  # a parser gives integers from here on as floats
_SCALARS: dict[type, Spelled] = {int: "int64", bool: "bool", float: "float32", str: "bytes"}
_NONE = type(None)


def column_type(values: Sequence[Any]) -> ColumnType | None:
    """The type of all `values`; None if all are missing.

    Raises:
      ColumnError: some value is one that no feature can hold, or a float that may have been a large integer, or lists
        differ in what they hold.
    """
    kinds = set(map(type, values))
    scalars = kinds - {_NONE, list}
    lists = [value for value in values if type(value) is list] if list in kinds else []
    (_, *inner), items = shape_and_values(list(chain.from_iterable(lists)))
    if inner and scalars:
        raise ColumnError("lists of lists beside values")
    scalars.update(map(type, items))
    if not scalars <= _SCALARS.keys():
        raise ColumnError("an object, or null in a list")
    if scalars & {int, float}:
        _check_numbers(items)
        _check_numbers(values)
    lengths: set[int | None] = set(map(len, lists))
    if kinds - {_NONE, list}:
        lengths.add(None)
    if not lengths:
        return None
    dtype: Spelled = reduce(widest, (_SCALARS[kind] for kind in scalars)) if scalars else "int64"
    present = len(values) - (values.count(None) if _NONE in kinds else 0)
    empty = sum(1 for value in lists if not value) if 0 in lengths and len(lengths) > 1 else 0
    return ColumnType(dtype, lengths.pop() if len(lengths) == 1 else -1, present, tuple(inner), empty)


def _check_numbers(values: Sequence[Any]) -> None:
    integers = [value for value in values if type(value) is int]
    floats = [value for value in values if type(value) is float]
    if integers and not (min(integers) >= -(1 << 63) and max(integers) < 1 << 63):
        raise ColumnError("an integer that does not fit 64 bits")
    if floats and not (min(floats) > -NO_LONGER_EXACT and max(floats) < NO_LONGER_EXACT):
        raise ColumnError("a float that may have been a large integer")


def column_array(values: Sequence[Any], column: ColumnType) -> pa.Array | None:
    """All `values` as an array of type `column`, or None where they had better be converted one by one."""
    kinds = set(map(type, values)) - {_NONE}
    if column.length is None:
        return _scalars(values, kinds, column.dtype)
    if not kinds <= {list}:
        return None
    lengths = np.fromiter((0 if value is None else len(value) for value in values), np.int64, len(values))
    missing = np.fromiter((value is None for value in values), bool, len(values))
    if not column.is_variable and (lengths[~missing] != column.length).any():
        return None
    try:
        (size, *inner), items = shape_and_values(
            list(chain.from_iterable(value for value in values if value is not None))
        )
    except ColumnError:
        return None
    if size and tuple(inner) != column.items:
        return None
    item_kinds = set(map(type, items))
    array = None if _NONE in item_kinds else _scalars(items, item_kinds, column.dtype)
    return None if array is None else _lists(array, lengths * math.prod(column.items), missing, column)


def _lists(items: pa.Array, lengths: np.ndarray, missing: np.ndarray, column: ColumnType) -> pa.LargeListArray:
    offsets = pa.array(np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))))
    nulls = pa.array(missing) if missing.any() and not column.is_variable else None
    return pa.LargeListArray.from_arrays(offsets, items, mask=nulls)


def _scalars(values: Sequence[Any], kinds: set[type], dtype: Spelled) -> pa.Array | None:
    try:
        if dtype == "int64" and kinds <= {int}:
            return pa.array(values, pa.int64())
        if dtype == "bool" and kinds <= {bool}:
            return pa.array(values, pa.bool_()).cast(pa.int64())
        if dtype == "float32" and kinds <= {int, float}:
            return _floats(pa.array(values, pa.float64()))
        if dtype == "bytes" and kinds <= {str}:
            return pa.array(values, pa.large_string()).cast(pa.large_binary())
    except (OverflowError, pa.ArrowInvalid):
        pass  # an integer that does not fit
    return None


def _floats(array: pa.Array) -> pa.Array | None:
    numbers = array.to_numpy(zero_copy_only=False)  # nan where one is missing: JSON has none of its own
    if (np.abs(numbers) >= NO_LONGER_EXACT).any():
        return None
    return pa.array(numbers.astype(np.float32), from_pandas=True)


def convert(value: Any, column: ColumnType) -> Any:
    """One value as Arrow takes it: an int, a float, bytes, a list of them, or None.

    Raises:
      ColumnError: it does not fit.
    """
    found = value_type(value, textual=False)
    if found is None:
        return [] if column.is_variable else None
    check_shape(value, column)
    if column.length is None:
        return _convert(value, column.dtype)
    return [_convert(item, column.dtype) for item in leaves(value)]


def _convert(value: Any, dtype: Spelled) -> Any:
    if dtype == "bytes":
        return as_text(value).encode()
    if dtype == "bool" and isinstance(value, bool):
        return int(value)
    if isinstance(value, bool):  # which is an integer to Python alone
        raise ColumnError(f"{shown(value)} is no {_NAMES[dtype]}")
    if dtype == "int64" and (
        isinstance(value, int) or (isinstance(value, float) and value.is_integer() and _fits(value))
    ):
        return int(value)
    if dtype == "float32" and isinstance(value, int | float):
        number = _as_float32(float(value))
        if math.isinf(number):
            raise ColumnError(f"{value} is beyond the range of float32")
        return number
    raise ColumnError(f"{shown(value)} is no {_NAMES[dtype]}")


_NAMES = {"bool": "true or false", "int64": "integer", "float32": "number"}


def _fits(value: float) -> bool:
    return -NO_LONGER_EXACT <= value < NO_LONGER_EXACT


def _as_float32(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def array_of(converted: Sequence[Any], column: ColumnType) -> pa.Array:
    """What `convert` made of some values."""
    return pa.array(converted, arrow_type(column))


def floats_from(value: Any) -> Iterator[float]:
    """The floats in a value that may have been integers, see NO_LONGER_EXACT."""
    for item in leaves(value):
        if isinstance(item, float) and abs(item) >= NO_LONGER_EXACT:
            yield item
