"""A manifest's further columns: their types from all rows, and their values as serialized entries of an Example."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from shardmill import example
from shardmill.features import DType, Feature, Kind

_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*)")  # no leading zeros: a code such as 007 stays a string
# A column of booleans alone is stored as int64; beside anything else, true and false are words.
Spelled = Literal["bool", "int64", "float32", "bytes"]
_RANK: dict[Spelled, int] = {"bool": 0, "int64": 0, "float32": 1, "bytes": 2}
_VARIABLE = -1


class ColumnError(ValueError):
    """A value that no feature can hold, as it will stand in rejects/."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column over some rows.

    Attributes:
      dtype: the narrowest of bool, int64, float32, bytes that holds every value.
      length: None for scalars, n for lists of n, -1 for lists of differing lengths.
      present: in how many rows the column has a value.
    """

    dtype: Spelled
    length: int | None
    present: int

    @property
    def is_variable(self) -> bool:
        """Whether the column holds lists of no fixed length; empty in every row, a list has none either."""
        return self.length in (_VARIABLE, 0)

    def merge(self, other: "ColumnType") -> "ColumnType":
        """The type over both sets of rows; associative and commutative. One without a value says nothing."""
        if not self.present or not other.present:
            return self if self.present else other
        dtype = widest(self.dtype, other.dtype)
        length = self.length if self.length == other.length else _VARIABLE
        return ColumnType(dtype, length, self.present + other.present)

    def feature(self, name: str, rows: int) -> Feature:
        """The feature this column becomes in a data set of `rows` rows."""
        shape = () if self.length is None else (None,) if self.is_variable else (self.length,)
        kind: Kind = "bool" if self.dtype == "bool" else "text" if self.dtype == "bytes" and not shape else "tensor"
        required = self.present == rows or shape == (None,)
        return Feature(name, "int64" if self.dtype == "bool" else self.dtype, kind, shape, required)


def widest(one: Spelled, other: Spelled) -> Spelled:
    """The narrowest type that holds the values of both."""
    if one != other and "bool" in (one, other):
        return "bytes"
    return max(one, other, key=_RANK.__getitem__)


def value_type(value: Any, textual: bool) -> ColumnType | None:
    """The type of one value, None where it is missing.

    Args:
      value: a cell's text, or a JSON value.
      textual: whether numbers are written as text, as in CSV.

    Raises:
      ColumnError: an object, a nested list, or an integer that does not fit 64 bits.
    """
    if value is None or (textual and value == ""):
        return None
    if isinstance(value, list):
        types: list[Spelled] = [_scalar_type(item, textual) for item in value]
        dtype: Spelled = max(types, key=_RANK.__getitem__, default="int64")
        return ColumnType(dtype, len(value), 1)
    return ColumnType(_scalar_type(value, textual), None, 1)


def _scalar_type(value: Any, textual: bool) -> DType:
    if textual:
        return _text_type(value)
    if isinstance(value, int):  # bool too
        if not -(1 << 63) <= value < 1 << 63:
            raise ColumnError(f"{value} does not fit a 64-bit integer")
        return "int64"
    if isinstance(value, float):
        return "float32"
    if isinstance(value, str):
        return "bytes"
    raise ColumnError(f"{json.dumps(value)[:60]} is not a number, a string or a flat list of them")


def _text_type(text: str) -> DType:
    if _INTEGER.fullmatch(text):
        return "int64" if len(text) <= 20 and -(1 << 63) <= int(text) < 1 << 63 else "bytes"
    if re.match(r"[+-]?0[0-9]", text):
        return "bytes"
    try:
        number = float(text)
    except ValueError:
        return "bytes"
    return "float32" if math.isfinite(number) and "_" not in text else "bytes"


def merge_types(one: Mapping[str, ColumnType], other: Mapping[str, ColumnType]) -> dict[str, ColumnType]:
    """Types by column name over both sets of rows, in order of first appearance in `one`, then `other`."""
    merged = dict(one)
    for name, column in other.items():
        merged[name] = merged[name].merge(column) if name in merged else column
    return merged


def encode_columns(row: Mapping[str, Any], types: Mapping[str, ColumnType]) -> bytes:
    """The entries of an Example for the columns in `types`, in their order; a missing value has no entry.

    A list of variable length is never missing: where the row has none, it is empty.
    """
    entries = []
    for name, column in types.items():
        value = row.get(name)
        if value is None or (value == "" and column.dtype != "bytes"):
            if not column.is_variable:
                continue
            value = []
        values = value if isinstance(value, list) else [value]
        entries.append(example.entry(name, _feature(values, column.dtype)))
    return b"".join(entries)


def _feature(values: list[Any], dtype: Spelled) -> bytes:
    if dtype == "int64":
        return example.int64_feature(int(value) for value in values)
    if dtype == "float32":
        with np.errstate(over="ignore"):  # beyond float32's range: infinity, as TensorFlow's own conversion has it
            return example.float_feature(float(value) for value in values)
    return example.bytes_feature((value if isinstance(value, str) else json.dumps(value)).encode() for value in values)
