"""The type of a column whose values are spelled or nested: found from some rows, and merged in any order."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal

from shardmill.features.feature import Feature, Kind
from shardmill.transforms.columns.nested import ColumnError, in_words, shape_and_values, shown

TRUE = (b"true", b"True", b"TRUE")
FALSE = (b"false", b"False", b"FALSE")
_INTEGER = re.compile(rb"[+-]?(0|[1-9][0-9]*)")  # no leading zeros: a code such as 007 stays a string
_FLOAT = re.compile(rb"[+-]?(((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf(inity)?)", re.IGNORECASE)
# A column of booleans alone is stored as int64; beside anything else, true and false are words.
Spelled = Literal["bool", "int64", "float32", "bytes"]
# Of two types, the one of the higher rank holds the values of both
_RANK: dict[Spelled, int] = {"bool": 0, "int64": 0, "float32": 1, "bytes": 2}
_VARIABLE = -1  # in place of a length: lists differ in theirs


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column over some rows.

    Most rows decide what the lists of a column hold, and of two shapes that are equally frequent the smaller one is
    taken: rows that differ will be rejects, wherever they stand.

    Attributes:
      dtype: the narrowest of bool, int64, float32, bytes that holds every value.
      length: None for scalars, n for lists of n, -1 for lists of differing lengths.
      present: in how many rows the column has a value that fits the type.
      items: the shape of what the lists hold: `()` for a number or a string, `(4,)` for a list of 4.
      empty: how many of the rows hold an empty list, which fits any `items`; where all do, `length` is 0 and says it.
      others: the types of the rows that do not fit, by their `items`.
      is_time: whether the bytes are texts of points in time, which are asked for and never found.
    """

    dtype: Spelled
    length: int | None
    present: int
    items: tuple[int, ...] = ()
    empty: int = 0
    others: tuple["ColumnType", ...] = ()
    is_time: bool = False

    @property
    def is_variable(self) -> bool:
        """Whether the column holds lists of no fixed length; empty in every row, a list has none either."""
        return self.length in (_VARIABLE, 0)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The shape of a value; None where it differs."""
        return () if self.length is None else (None if self.is_variable else self.length, *self.items)

    def merge(self, other: "ColumnType") -> "ColumnType":
        """The type over both sets of rows; associative and commutative. One without a value says nothing."""
        if not self.present or not other.present:
            return self if self.present else other
        if self.items == other.items and not (self.others or other.others) and 0 not in (self.length, other.length):
            return self._join(other)
        empty = self._empty + other._empty
        parts: dict[tuple[int, ...], ColumnType] = {}
        for part in (*self._parts(), *other._parts()):
            parts[part.items] = parts[part.items]._join(part) if part.items in parts else part
        if not parts:
            return self._join(other)
        if empty:
            parts = {items: replace(part, length=_VARIABLE) for items, part in parts.items()}
        chosen = min(parts.values(), key=lambda part: (-part.present, part.items))
        others = tuple(parts[items] for items in sorted(parts.keys() - {chosen.items}))
        return replace(chosen, present=chosen.present + empty, empty=empty, others=others)

    @property
    def _empty(self) -> int:
        return self.present if self.length == 0 else self.empty

    def _parts(self) -> Iterator["ColumnType"]:
        """The types of rows with lists that are not empty, or with scalars, for each shape of their items."""
        if self._empty < self.present:
            yield replace(self, present=self.present - self._empty, empty=0, others=())
        yield from self.others

    def _join(self, other: "ColumnType") -> "ColumnType":
        """The type over both sets of rows, whose items are of one shape."""
        length = self.length if self.length == other.length else _VARIABLE
        present, empty = self.present + other.present, self.empty + other.empty
        return ColumnType(widest(self.dtype, other.dtype), length, present, self.items, empty)

    def feature(self, name: str, rows: int) -> Feature:
        """The feature this column becomes in a data set of `rows` rows."""
        shape = self.shape
        kind: Kind = "bool" if self.dtype == "bool" else "text" if self.dtype == "bytes" and not shape else "tensor"
        present = self.present + sum(other.present for other in self.others)
        required = present == rows or self.is_variable
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
      ColumnError: an object, a list whose inner lists differ, or an integer that does not fit 64 bits.
    """
    if value is None or (textual and value == ""):
        return None
    if isinstance(value, list):
        shape, items = shape_and_values(value)
        types = [_scalar_type(item, textual) for item in items]
        dtype: Spelled = reduce(widest, types) if types else "int64"
        return ColumnType(dtype, shape[0], 1, shape[1:])
    return ColumnType(_scalar_type(value, textual), None, 1)


def value_spelled(value: bytes) -> Spelled:
    """The type of one value of a column of text; what a column of them is, `transforms.columns.text_types` finds
    faster."""
    if value in TRUE or value in FALSE:
        return "bool"
    if _INTEGER.fullmatch(value):
        return "int64" if len(value) <= 20 and -(1 << 63) <= int(value) < 1 << 63 else "bytes"
    return "float32" if _FLOAT.fullmatch(value) else "bytes"


def _scalar_type(value: Any, textual: bool) -> Spelled:
    if textual:
        return value_spelled(value.encode())
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise ColumnError(f"{value} does not fit a 64-bit integer")
        return "int64"
    if isinstance(value, float):
        return "float32"
    if isinstance(value, str):
        return "bytes"
    raise ColumnError(f"{shown(value)} is not a number, a string or a list of them")


def merge_types(one: Mapping[str, ColumnType], other: Mapping[str, ColumnType]) -> dict[str, ColumnType]:
    """Types by column name over both sets of rows, in order of first appearance in `one`, then `other`."""
    merged = dict(one)
    for name, column in other.items():
        merged[name] = merged[name].merge(column) if name in merged else column
    return merged


def check_shape(value: Any, column: ColumnType) -> None:
    """Raise a ColumnError if a value has not the shape of the column's; one that is no list is taken for a list of it
    alone."""
    shape, _ = shape_and_values(value if isinstance(value, list) else [value])
    if column.length is None:
        if isinstance(value, list):
            raise ColumnError(f"a list of {in_words(shape)}, where one value was expected")
    elif (shape[1:] != column.items and shape[0]) or not (column.is_variable or shape[0] == column.length):
        what = f"{shown(value)} has " if column.items or shape[1:] else ""
        raise ColumnError(f"{what}{in_words(shape)} values, where {in_words(column.shape)} were expected")
