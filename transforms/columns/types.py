"""Column types: inferred from values, merged across blocks, or declared by files."""

import json
import math
import operator
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntFlag
from functools import reduce
from itertools import chain
from typing import Any, Literal, TypeVar

from shardmill.data.features import Feature, Kind, TimeUnit
from shardmill.errors import UserError
from shardmill.text import shorten
from shardmill.transforms.findings import Findings, MergeableValue, join_few, merged_by

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
MAX_RANK = 8  # far more than data have, far less than what parsers and NumPy bear


class ColumnError(ValueError):
    """A value that no feature can hold; the message is the reason in rejects/."""


def shape_and_values(value: Sequence[Any]) -> tuple[tuple[int, ...], Sequence[Any]]:
    """Return the shape of a list with inner lists of one length, and its innermost values in order.

    Raises:
        ColumnError: if inner lists differ in length, are empty, are mixed with scalars, or are nested too deep.
    """
    shape, items = [len(value)], value
    while list in (kinds := set(map(type, items))):
        lengths = set(map(len, items)) if kinds == {list} else set()
        if not lengths:
            raise ColumnError("a list of lists and values; expected lists alone, or values alone")
        if len(lengths) > 1:
            sizes = f"lists of {min(lengths)} and of {max(lengths)}"
            raise ColumnError(f"{sizes} in one list; expected lists of one length")
        if lengths == {0}:
            raise ColumnError("a list of empty lists; expected [] where there are none")
        if len(shape) == MAX_RANK:
            raise ColumnError(f"lists nested more than {MAX_RANK} deep")
        shape += lengths
        items = list(chain.from_iterable(items))
    return tuple(shape), items


def leaf_values(value: Any) -> list[Any]:
    """Return the innermost values of nested lists of any lengths; for a scalar, a list of it."""
    items = [value]
    while list in set(map(type, items)):
        items = list(chain.from_iterable(item if type(item) is list else [item] for item in items))
    return items


def format_shape(shape: Sequence[int | None]) -> str:
    """Return a shape as shown in errors: `any number x 4`."""
    return " x ".join("any number" if size is None else str(size) for size in shape)


def preview_value(value: Any) -> str:
    """Return the beginning of a JSON value, or of any other value, as text."""
    try:
        return shorten(json.dumps(value, default=str))
    except RecursionError:  # the parsers go deeper
        return "a value nested too deep"


TRUE = (b"true", b"True", b"TRUE")
FALSE = (b"false", b"False", b"FALSE")
_INTEGER = re.compile(rb"[+-]?(0|[1-9][0-9]*)")  # no leading zeros: a code such as 007 stays a string
_FLOAT = re.compile(rb"[+-]?(((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf(inity)?)", re.IGNORECASE)
# A column of booleans alone is stored as int64; with any other value, true and false are text.
ScalarType = Literal["bool", "int64", "float32", "bytes"]
# Of two types, the one of the higher rank holds the values of both
_RANK: dict[ScalarType, int] = {"bool": 0, "int64": 0, "float32": 1, "bytes": 2}
_CODE = re.compile(rb"[0-9]+[eE][0-9]+")  # 1E10: a number or a code, as the other values of its column decide
_WHOLE = re.compile(rb"[+-]?[0-9]+\.0*")  # 3.0: how programs that have only floats write an integer
EXACT_FLOAT32 = 1 << 24  # below, float32 holds every integer
_VARIABLE = -1  # in place of a length: lists differ in length


class Spelling(IntFlag):
    """The spelling of a column's numbers, as far as it decides about the type."""

    NUMERIC = 1  # some value has a sign or a decimal point, or is a JSON number
    CODE = 2  # some value is like 1E10
    FLOAT = 4  # some value is no integer as it is spelled
    FRACTION = 8  # some value is no integer at all, or is beyond 64 bits
    LARGE = 16  # some integer is above EXACT_FLOAT32


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column over some rows.

    Most rows decide the shape of the items in a column's lists. Of two equally frequent shapes the smaller one is
    chosen. Rows of other shapes become rejects, wherever they are.
    """

    dtype: ScalarType  # the narrowest of bool, int64, float32, bytes for all values
    length: int | None  # None for scalars, n for lists of n, -1 if lengths differ
    present: int  # rows with a value of this type
    item_shape: tuple[int, ...] = ()  # shape of a list's items: () for scalars, (4,) for lists of 4
    empty: int = 0  # rows with an empty list, any items; 0 if length is 0
    minority_types: tuple["ColumnType", ...] = ()  # types of the rows that do not fit, by their items
    is_time: bool = False  # True if bytes are times, or numbers that order rows; only requested, never inferred
    is_counted: bool = False  # True if times may be numbers, which are spelled as others are
    time: TimeUnit = ""  # unit of integers that are times; only requested
    spelling: Spelling = field(default=Spelling(0), compare=False)  # how the numbers are spelled
    # Names of the columns that --stack makes one of, in order; only requested. If bytes, their values are uint8.
    members: tuple[str, ...] = ()

    @property
    def is_variable(self) -> bool:
        """True if the column holds lists of no fixed length; lists that are empty in every row have none either."""
        return self.length in (_VARIABLE, 0)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The shape of a value; None for a dimension that varies."""
        return () if self.length is None else (None if self.is_variable else self.length, *self.item_shape)

    def merge(self, other: "ColumnType") -> "ColumnType":
        """Return the type over both sets of rows; associative and commutative. A type without a value has no effect."""
        if not self.present or not other.present:
            return self if self.present else other
        has_one_shape = self.item_shape == other.item_shape and not (self.minority_types or other.minority_types)
        if has_one_shape and 0 not in (self.length, other.length):
            return self._join(other)
        empty = self._empty + other._empty
        parts: dict[tuple[int, ...], ColumnType] = {}
        for part in (*self._parts(), *other._parts()):
            parts[part.item_shape] = parts[part.item_shape]._join(part) if part.item_shape in parts else part
        if not parts:
            return self._join(other)
        if empty:
            parts = {items: replace(part, length=_VARIABLE) for items, part in parts.items()}
        chosen = min(parts.values(), key=lambda part: (-part.present, part.item_shape))
        others = tuple(parts[items] for items in sorted(parts.keys() - {chosen.item_shape}))
        return replace(chosen, present=chosen.present + empty, empty=empty, minority_types=others)

    @property
    def _empty(self) -> int:
        return self.present if self.length == 0 else self.empty

    def _parts(self) -> Iterator["ColumnType"]:
        if self._empty < self.present:
            yield replace(self, present=self.present - self._empty, empty=0, minority_types=())
        yield from self.minority_types

    def _join(self, other: "ColumnType") -> "ColumnType":
        length = self.length if self.length == other.length else _VARIABLE
        present, empty = self.present + other.present, self.empty + other.empty
        dtype, spelling = common_type(self.dtype, other.dtype), self.spelling | other.spelling
        return ColumnType(dtype, length, present, self.item_shape, empty, spelling=spelling, time=self.time)

    def settle(self) -> "ColumnType":
        """Return the type once all rows are known, for the spelling of all numbers decides about two kinds of floats.

        * 1E10 is text if no number of the column has a sign or a decimal point.
        * 16777217.0 is an integer if all numbers are, for float32 would change it.
        """
        if self.dtype != "float32":
            return self
        if Spelling.CODE in self.spelling and Spelling.NUMERIC not in self.spelling:
            return replace(self, dtype="bytes")
        is_whole = Spelling.LARGE in self.spelling and Spelling.FRACTION not in self.spelling
        return replace(self, dtype="int64") if is_whole else self

    def feature(self, name: str, rows: int) -> Feature:
        """Return the feature that this column becomes in a data set of `rows` rows."""
        shape = self.shape
        kind: Kind = "bool" if self.dtype == "bool" else "text" if self.dtype == "bytes" and not shape else "tensor"
        present = self.present + sum(other.present for other in self.minority_types)
        required = present == rows or self.is_variable
        return Feature(name, "int64" if self.dtype == "bool" else self.dtype, kind, shape, required, time=self.time)


def common_type(one: ScalarType, other: ScalarType) -> ScalarType:
    """Return the narrowest type that holds the values of two types."""
    if one != other and "bool" in (one, other):
        return "bytes"
    return max(one, other, key=_RANK.__getitem__)


def value_type(value: Any, is_text: bool) -> ColumnType | None:
    """Return the type of a JSON value, or of a cell if `is_text`; None if missing. Raise ColumnError if none fits."""
    if value is None or (is_text and value == ""):
        return None
    if isinstance(value, list):
        shape, items = shape_and_values(value)
        types = [_scalar_type(item, is_text) for item in items]
        dtype: ScalarType = reduce(common_type, types) if types else "int64"
        return ColumnType(dtype, shape[0], 1, shape[1:], spelling=json_spelling(items))
    if is_text:
        return text_type(value.encode())
    return ColumnType(_scalar_type(value, is_text), None, 1, spelling=json_spelling([value]))


def text_type(value: bytes) -> ColumnType:
    """Return the type of one text, with the spelling of its number."""
    return ColumnType(text_scalar_type(value), None, 1, spelling=_text_spelling(value))


def text_scalar_type(value: bytes) -> ScalarType:
    """Return the type of one text; `infer_type` infers the type of a whole column faster."""
    if value in TRUE or value in FALSE:
        return "bool"
    if _INTEGER.fullmatch(value):
        return "int64" if fits_64_bits(value) else "bytes"
    is_number = _FLOAT.fullmatch(value) and (b"n" in value.lower() or math.isfinite(float(value)))
    return "float32" if is_number else "bytes"


def fits_64_bits(digits: bytes) -> bool:
    """Return True if an integer without leading zeros fits 64 bits."""
    return len(digits) <= 20 and -(1 << 63) <= int(digits) < 1 << 63


def _text_spelling(value: bytes) -> Spelling:
    dtype = text_scalar_type(value)
    if dtype not in ("int64", "float32"):
        return Spelling(0)
    found = Spelling.NUMERIC if any(char in value for char in b".+-") else Spelling(0)
    whole = value.partition(b".")[0]
    if dtype == "int64" or (_WHOLE.fullmatch(value) and fits_64_bits(whole)):
        found |= Spelling.LARGE if abs(int(whole)) > EXACT_FLOAT32 else Spelling(0)
        return found if dtype == "int64" else found | Spelling.FLOAT
    return found | Spelling.FLOAT | Spelling.FRACTION | (Spelling.CODE if _CODE.fullmatch(value) else Spelling(0))


def values_of_type(values: Sequence[Any], *kinds: type) -> Sequence[Any]:
    """Return the values that are of some types, in order."""
    found = set(map(type, values))
    if found.isdisjoint(kinds):
        return ()
    return values if found.issubset(kinds) else [value for value in values if type(value) in kinds]


def json_spelling(values: Sequence[Any]) -> Spelling:
    """Return how the numbers among JSON values are spelled."""
    numbers = values_of_type(values, int, float)
    if not numbers:
        return Spelling(0)
    found = Spelling.NUMERIC
    if floats := values_of_type(numbers, float):
        if not all(map(float.is_integer, floats)) or max(floats) >= 2.0**63 or min(floats) < -(2.0**63):
            return found | Spelling.FLOAT | Spelling.FRACTION
        found |= Spelling.FLOAT
    return found | (Spelling.LARGE if max(numbers) > EXACT_FLOAT32 or min(numbers) < -EXACT_FLOAT32 else Spelling(0))


def _scalar_type(value: Any, is_text: bool) -> ScalarType:
    if is_text:
        return text_scalar_type(value.encode())
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise ColumnError(f"{value} does not fit a 64-bit integer")
        return "int64"
    if isinstance(value, float):
        return "float32"
    if isinstance(value, str | bytes):
        return "bytes"
    raise ColumnError(f"{preview_value(value)} is not a number, a string or a list of them")


def check_shape(value: Any, column: ColumnType) -> None:
    """Check that a value has the shape of the column, or raise ColumnError; a scalar counts as a list of one item."""
    shape, _ = shape_and_values(value if isinstance(value, list) else [value])
    if column.length is None:
        if isinstance(value, list):
            raise ColumnError(f"a list of {format_shape(shape)}, where one value was expected")
    elif (shape[1:] != column.item_shape and shape[0]) or not (column.is_variable or shape[0] == column.length):
        what = f"{preview_value(value)} has " if column.item_shape or shape[1:] else ""
        raise ColumnError(f"{what}{format_shape(shape)} values, where {format_shape(column.shape)} were expected")


MAX_VALUES = 100_000  # distinct values of a column that are collected: no label has more classes

ColumnNames = Iterable[str] | None  # None for all columns
ColumnTypes = Mapping[str, ColumnType]  # by column
Values = Mapping[str, frozenset[str] | None]  # by column; None of one that has too many


@dataclass(frozen=True, slots=True)
class ValuesOf:
    """A column whose distinct values are collected."""

    name: str
    separator: str = ""  # splits each text into several values; "" for no split


@dataclass(frozen=True, slots=True)
class DeclaredObjects:
    """The fields that describe each object in an image."""

    field_names: tuple[str, ...]  # names of the fields
    has_class_ids: bool | None  # True if classes are ids; None without classes
    varies_by_row: bool = False  # True if each row has its own fields and may lack some
    location: str = field(default="", compare=False)  # with varies_by_row, the first such location by name


def _join_objects(one: frozenset[DeclaredObjects], other: frozenset[DeclaredObjects]) -> frozenset[DeclaredObjects]:
    by_place = sorted((*one, *other), key=lambda item: item.location, reverse=True)
    return frozenset({item: item for item in by_place}.values())


@dataclass(frozen=True, slots=True)
class DeclaredColumn(MergeableValue):
    """A file format's own metadata about a column, in addition to the type of its values."""

    kind: Kind  # image, class_label, bbox, or text if there is only a message
    class_names: frozenset[tuple[str, ...]] = frozenset()  # by id, one tuple for each distinct list in files
    num_classes: int = merged_by(max, default=0)  # greatest class id + 1, if classes have no names
    is_required: bool = False  # True if a row without a value is an error
    path: str = ""  # first path, if files are referenced but not stored; else ""
    message: str = merged_by(max, default="")  # message for the user; "" for none
    unit: str = ""  # of durations; "" for others
    # distinct object fields in files or rows
    objects: frozenset[DeclaredObjects] = merged_by(_join_objects, default=frozenset())

    def merge(self, other: "DeclaredColumn") -> "DeclaredColumn":
        """Merge the metadata of two sets of rows; of two kinds the first by name is used.

        Raises:
            UserError: if their durations have different units.
        """
        if self.unit and other.unit and self.unit != other.unit:
            one, two = sorted((self, other), key=lambda each: each.unit)
            raise UserError(f"{one.message}, and in other files of {two.unit}; write them with one unit")
        return MergeableValue.merge(self, other)


def merge_values(one: Values, other: Values) -> Values:
    """Merge the distinct values of two sets of rows, by column."""
    empty = frozenset[str]()
    return {name: join_few(one.get(name, empty), other.get(name, empty), MAX_VALUES) for name in {**one, **other}}


@dataclass(frozen=True, slots=True)
class NestedValues(MergeableValue):
    """The values of a column that no feature can hold, for they are objects, or lists with objects or nulls."""

    count: int
    first: tuple[str, int, str]  # file, line and text of the first one
    has_objects: bool = merged_by(operator.and_)  # True if all are objects or lists of objects


@dataclass(frozen=True, slots=True)
class Inferred(MergeableValue):
    """Types, values and metadata inferred from some rows, mergeable in any order."""

    types: Mapping[str, ColumnType] = field(default_factory=dict)  # types of the columns that have a value in some row
    rows: int = 0  # number of rows, without rejects
    # distinct values as spelled; None if above MAX_VALUES
    values: Values = merged_by(merge_values, default_factory=dict)
    declared: Mapping[str, DeclaredColumn] = field(default_factory=dict)  # metadata of columns from their file format
    nested: Mapping[str, NestedValues] = field(default_factory=dict)  # by column, values that no feature can hold
    # of files with their own types: the name and class of type of each column, and the first such file
    file_types: Mapping[tuple[tuple[str, str], ...], str] = field(default_factory=dict, compare=False)
    findings: Findings = field(default_factory=Findings, compare=False)
