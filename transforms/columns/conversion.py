"""Convert JSON values and Arrow columns to feature types, and record the numbers that float32 rounds."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.text import is_unicode, shorten
from shardmill.transforms.columns import types
from shardmill.transforms.columns.arrow import (
    Flags,
    arrow_type,
    as_text,
    decode_array,
    flatten,
    is_list,
    storage_type_of,
    text_buffers,
    time_texts,
)
from shardmill.transforms.columns.text import lead_with_minus, parse_values
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.findings import Occurrences, Rounded, RoundedNumbers

NO_LONGER_EXACT = float(1 << 63)  # a parser gives integers from here on as floats
_SCALARS: dict[type, types.ScalarType] = {int: "int64", bool: "bool", float: "float32", str: "bytes", bytes: "bytes"}
_NONE = type(None)


def column_type(values: Sequence[Any]) -> ColumnType | None:
    """Return the type of all `values`; None if all are missing.

    Raises:
        ColumnError: if no feature can hold some value, a float may have been a large integer, or lists hold different
            things.
    """
    kinds = set(map(type, values))
    scalars = kinds - {_NONE, list}
    lists = [value for value in values if type(value) is list] if list in kinds else []
    (_, *inner), items = types.shape_and_values(list(chain.from_iterable(lists)))
    if inner and scalars:
        raise types.ColumnError("lists of lists mixed with values")
    scalars.update(map(type, items))
    if not scalars <= _SCALARS.keys():
        raise types.ColumnError("an object, or null in a list")
    spelling = types.Spelling(0)
    if scalars & {int, float}:
        _check_numbers(items)
        _check_numbers(values)
        spelling = types.json_spelling(items) | types.json_spelling(values)
    lengths: set[int | None] = set(map(len, lists))
    if kinds - {_NONE, list}:
        lengths.add(None)
    if not lengths:
        return None
    dtype: types.ScalarType = reduce(types.common_type, (_SCALARS[kind] for kind in scalars)) if scalars else "int64"
    present = len(values) - (values.count(None) if _NONE in kinds else 0)
    empty = sum(1 for value in lists if not value) if 0 in lengths and len(lengths) > 1 else 0
    length = lengths.pop() if len(lengths) == 1 else -1
    return ColumnType(dtype, length, present, tuple(inner), empty, spelling=spelling)


def _check_numbers(values: Sequence[Any]) -> None:
    integers, floats = types.values_of_type(values, int), types.values_of_type(values, float)
    if integers and not (min(integers) >= -(1 << 63) and max(integers) < 1 << 63):
        raise types.ColumnError("an integer that does not fit 64 bits")
    if floats and not (min(floats) > -NO_LONGER_EXACT and max(floats) < NO_LONGER_EXACT):
        raise types.ColumnError("a float that may have been a large integer")


def column_array(values: Sequence[Any], column: ColumnType) -> pa.Array | None:
    """Convert values of few kinds at once, with the same result as `convert_value`; None if they have many kinds."""
    kinds = set(map(type, values)) - {_NONE}
    if column.length is None:
        return _make_scalars(values, kinds, column.dtype)
    if not kinds <= {list}:
        return None
    lengths = np.fromiter((0 if value is None else len(value) for value in values), np.int64, len(values))
    missing = np.fromiter((value is None for value in values), bool, len(values))
    if not column.is_variable and (lengths[~missing] != column.length).any():
        return None
    try:
        (size, *inner), items = types.shape_and_values(list(chain.from_iterable(value or () for value in values)))
    except types.ColumnError:
        return None
    if size and tuple(inner) != column.item_shape:
        return None
    item_kinds = set(map(type, items))
    array = None if _NONE in item_kinds else _make_scalars(items, item_kinds, column.dtype)
    return None if array is None else _make_lists(array, lengths * math.prod(column.item_shape), missing, column)


def _make_lists(items: pa.Array, lengths: np.ndarray, missing: np.ndarray, column: ColumnType) -> pa.LargeListArray:
    offsets = pa.array(np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))))
    nulls = pa.array(missing) if missing.any() and not column.is_variable else None
    return pa.LargeListArray.from_arrays(offsets, items, mask=nulls)


def _make_scalars(values: Sequence[Any], kinds: set[type], dtype: types.ScalarType) -> pa.Array | None:
    try:
        if dtype == "int64" and kinds <= {int}:
            return pa.array(values, pa.int64())
        if dtype == "bool" and kinds <= {bool}:
            return pa.array(values, pa.bool_()).cast(pa.int64())
        if dtype == "float32" and kinds <= {int, float}:
            numbers = pa.array(values, pa.float64()).to_numpy(zero_copy_only=False)  # JSON has no nan of its own
            is_exact = not (np.abs(numbers) >= NO_LONGER_EXACT).any()
            return pa.array(numbers.astype(np.float32), from_pandas=True) if is_exact else None
        if dtype == "bytes" and kinds <= {str}:
            return pa.array(values, pa.large_string()).cast(pa.large_binary())
        if dtype == "bytes" and kinds <= {str, bytes}:
            return pa.array([value.encode() if type(value) is str else value for value in values], pa.large_binary())
        if kinds == {str}:  # numbers in quotes, of which --types or --schema makes numbers
            parsed, misfits = parse_values(pa.array(values, pa.string()).cast(pa.binary()), dtype)
            return None if len(misfits) else parsed
    except (OverflowError, pa.ArrowInvalid):
        pass  # an integer that does not fit
    return None


def convert_value(value: Any, column: ColumnType) -> Any:
    """Convert one value to int, float, bytes, a list of them, or None; raise ColumnError if it does not fit."""
    found = types.value_type(value, is_text=False)
    if found is None:
        return [] if column.is_variable else None
    types.check_shape(value, column)
    if column.length is None:
        return _convert(value, column.dtype)
    return [_convert(item, column.dtype) for item in types.leaf_values(value)]


def _convert(value: Any, dtype: types.ScalarType) -> Any:
    if dtype == "bytes":
        return value if isinstance(value, bytes) else as_text(value).encode()
    is_boolean = isinstance(value, bool)  # which Python takes for an integer
    if dtype == "bool" and is_boolean:
        return int(value)
    if dtype == "int64" and isinstance(value, int) and not is_boolean:
        return value
    is_integral = isinstance(value, float) and value.is_integer()
    if dtype == "int64" and is_integral and -NO_LONGER_EXACT <= value < NO_LONGER_EXACT:
        return int(value)
    if dtype == "float32" and isinstance(value, int | float) and not is_boolean:
        with np.errstate(over="ignore"):
            number = float(np.float32(float(value)))
        if math.isinf(number):
            raise types.ColumnError(f"{value} is beyond the range of float32")
        return number
    if isinstance(value, str):
        number, misfits = parse_values(pa.array([value.encode()], pa.binary()), dtype)
        if not len(misfits):
            return number[0].as_py()
    raise types.ColumnError(f"{types.preview_value(value)} is no {_NAMES[dtype]}")


_NAMES = {"bool": "true or false", "int64": "integer", "float32": "number"}


def inexact_floats(value: Any) -> Iterator[float]:
    """Yield the floats in a JSON value that may have been integers beyond 64 bits, so that digits are lost."""
    for item in types.leaf_values(value):
        if isinstance(item, float) and abs(item) >= NO_LONGER_EXACT:
            yield item


_EXACT = float(types.EXACT_FLOAT32)
_EXACT_DOUBLE = float(1 << 53)  # as float64 does here
_HASH_FACTOR = np.uint32(0x9E3779B1)  # of multiplicative hashing: 2**32 over the golden ratio
_SAMPLED = 1 << 17  # float32 numbers of all columns of a table that are sampled, and the limits for one column
_MOST_OF_COLUMN, _LEAST_OF_COLUMN = 1 << 11, 1 << 4
_LONGEST_LIST = 16  # numbers of a list on average, from which on they are no coordinates but an embedding
_LARGEST = float(np.finfo(np.float32).max)
_FEW_ROWS = 1 << 10  # of a block, which are all sampled: that costs least
_SHORT = 8  # characters: two different numbers of at most 7 digits are mostly different as float32


@dataclass(frozen=True, slots=True, eq=False)
class FloatSample:
    """A sample of a column's float32 numbers, with the input's numbers that become them, mergeable in any order.

    A float32 number is in the sample if its hash begins with `level` zero bits. The level is the least one at which at
    most `limit` of them are in the sample: 0, and so all of them, for columns of few different numbers.
    """

    values: npt.NDArray[np.float64]  # finite numbers of the input; of one float32 number, the least and the greatest
    level: int = 0
    limit: int = _MOST_OF_COLUMN

    def merge(self, other: "FloatSample") -> "FloatSample":
        """Return the sample of two sets of rows."""
        level, limit = max(self.level, other.level), min(self.limit, other.limit)
        values = np.concatenate([_at_level(sample.values, level) for sample in (self, other)])
        merged = FloatSample(values, level, limit)
        return merged.reduce() if len(values) > 4 * limit else merged

    def reduce(self) -> "FloatSample":
        """Return the same sample with two values at most of each float32 number."""
        values, level = np.unique(self.values), self.level
        while True:
            numbers = values.astype(np.float32)  # in order, as the values are
            differs = np.append(numbers[1:] != numbers[:-1], True)[: len(values)]
            if int(np.count_nonzero(differs)) <= self.limit:
                starts = np.roll(differs, 1)
                return FloatSample(values[starts | differs], level, self.limit)
            level += 1
            values = _at_level(values, level)

    def describe(self) -> str:
        """Return how many float32 numbers replace several of the input, with an example; "" for none."""
        sample = self.reduce()
        stored = sample.values.astype(np.float32)
        first = np.flatnonzero(stored[1:] == stored[:-1])
        if not len(first):
            lost = sample.values[(stored == 0) & (sample.values != 0)].tolist()
            return f"numbers such as {_number_text(lost[0])} become 0" if lost else ""
        count, (one, other) = len(first) << sample.level, sample.values[first[0] : first[0] + 2].tolist()
        numbers = "1 stored number replaces" if count == 1 else f"{count:,} stored numbers each replace"
        text = f"{stored[first[0]]:.0f}" if abs(stored[first[0]]) >= _EXACT else str(stored[first[0]])
        return (
            f"{'about ' if sample.level else ''}{numbers} several different numbers of the input, such as"
            f" {_number_text(one)} and {_number_text(other)}, which both become {text}"
        )


def _at_level(values: npt.NDArray[np.float64], level: int) -> npt.NDArray[np.float64]:
    return values[_in_sample(values.astype(np.float32), level)] if level else values


def _in_sample(numbers: npt.NDArray[np.float32], level: int) -> npt.NDArray[np.bool_]:
    return np.asarray(numbers.view(np.uint32) * _HASH_FACTOR < np.uint32(1 << (32 - level)))


def sample_limit(columns: int) -> int:
    """Return how many numbers of a column are sampled in a table with so many columns of float32."""
    return min(max(_SAMPLED // max(columns, 1), _LEAST_OF_COLUMN), _MOST_OF_COLUMN)


def sample_numbers(
    narrow: npt.NDArray[np.float32], read: Callable[[npt.NDArray[np.int64] | None], np.ndarray], limit: int
) -> FloatSample:
    """Return the sample of a column of one block.

    Args:
        narrow: the stored numbers (rows,); nan for missing ones.
        read: returns the input's numbers (float64) of some rows, or if None all different ones.
        limit: how many different stored numbers are sampled.
    """
    level = (len(narrow) // (4 * limit)).bit_length() if len(narrow) > _FEW_ROWS else 0
    values = None
    while level:
        rows = np.flatnonzero(_in_sample(narrow, level))
        values = read(rows)
        different = len(np.unique(narrow[rows]))
        if different > limit:
            break
        level = level - 1 if different > limit // 8 else 0
        values = None
    if values is None:
        values = read(None)
    return FloatSample(_at_level(_finite(values), level), level, limit)


def _finite(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(values[np.abs(values) <= _LARGEST] + 0.0)


def find_rounded_texts(name: str, texts: pa.Array, floats: pa.Array, good: Flags) -> RoundedNumbers:
    """Return the numbers in the `good` rows of texts, or lists of texts, that changed when parsed as `floats`."""
    kept = [column.filter(pa.array(good)) for column in (texts, floats)]
    flat = [part.flatten() if is_list(part.type) else part for part in kept]
    return RoundedNumbers({name: rounded_texts(flat[0], flat[1], _MOST_OF_COLUMN)})


def find_signed(texts: pa.Array, numbers: pa.Array) -> Occurrences | None:
    """Return the texts of `numbers` with another sign than "-" in front, except a plus of fractions; None for none."""
    plain = lead_with_minus(texts)
    if pa.types.is_integer(numbers.type) and (text_buffers(texts)[0] == ord("+")).any():  # as of telephone numbers
        plain = pc.replace_substring_regex(plain, r"\A\+", "")
    if plain is texts:
        return None
    changed = texts.filter(pc.and_(numbers.is_valid(), pc.not_equal(plain, texts)))
    return Occurrences(len(changed), min(map(as_text, changed.unique().to_pylist()))) if len(changed) else None


def rounded_texts(texts: pa.Array, numbers: pa.Array, limit: int, spelled: pa.Array | None = None) -> Rounded:
    """Return the numbers written in `texts` that float32 changed, and those that `lead_with_minus` made negative.

    1e9 and other numbers with an exponent are not counted as large ones; 16777217.0 is. `limit` is that of a sample,
    `spelled` the texts before a NumberStyle rewrote them.
    """
    lengths, signed = np.diff(text_buffers(texts)[1]), find_signed(texts if spelled is None else spelled, numbers)
    if pa.types.is_integer(numbers.type) or not len(lengths):
        return Rounded(signed=signed)
    texts, narrow = lead_with_minus(texts), numbers.to_numpy(zero_copy_only=False)
    is_tiny = (narrow == 0).any() and pc.any(pc.match_substring(texts.view(pa.string()), "e", ignore_case=True)).as_py()
    longest, short = lengths.max(), 0 if is_tiny else _SHORT
    if longest < short:
        return Rounded(signed=signed)

    def read(rows: npt.NDArray[np.int64] | None) -> np.ndarray:
        if rows is None and len(texts) <= _FEW_ROWS:
            found, is_long = texts, lengths > short
        else:
            found = pc.unique(texts) if rows is None else texts.take(pa.array(rows))
            is_long = np.diff(text_buffers(found)[1]) > short
        return found.view(pa.string()).cast(pa.float64()).to_numpy(zero_copy_only=False)[is_long]

    sample = sample_numbers(narrow, read, limit) if longest > short else None
    large = np.flatnonzero(_are_large(narrow))
    if not len(large):
        return Rounded(sample=sample, signed=signed)
    spelled = texts.take(pa.array(large)).cast(pa.string())
    stored = narrow[large].astype(np.float64)
    exact = spelled.cast(pa.float64()).to_numpy(zero_copy_only=False)
    changed = (exact != stored) | (np.abs(exact) >= _EXACT_DOUBLE)
    found = [
        text
        for text, number in zip(spelled.filter(pa.array(changed)).to_pylist(), stored[changed].tolist())
        if "e" not in text.lower() and Decimal(text) != Decimal(number)
    ]
    return Rounded(len(found), min(found, default=""), sample, signed)


def rounded_values(values: Sequence[Any], numbers: pa.Array, limit: int) -> Rounded:
    """Return what `rounded_texts` does of JSON values, or items of lists, that were converted to `numbers`."""
    is_listed = pa.types.is_large_list(numbers.type)
    flat = numbers.flatten() if is_listed else numbers
    items = [item for item in (types.leaf_values(values) if is_listed else values) if item is not None]
    if not set(map(type, items)) <= {int, float}:  # numbers in quotes, of which --types or --schema makes numbers
        return rounded_texts(pa.array(map(as_text, items), pa.string()).cast(pa.binary()), flat.drop_null(), limit)
    if pa.types.is_integer(flat.type):
        return Rounded()
    narrow = flat.to_numpy(zero_copy_only=False)
    sample = None
    if not is_listed or len(narrow) <= _LONGEST_LIST * len(numbers):
        sample = FloatSample(_finite(np.array(items, np.float64)), 0, limit)
    if not _are_large(narrow).any():
        return Rounded(sample=sample)
    # Integers, and floats that are large but small enough to be exact
    exact = [item for item in items if isinstance(item, int) or (item and _EXACT <= abs(item) < _EXACT_DOUBLE)]
    found = [_number_text(item) for item in exact if item != float(np.float32(item))]
    return Rounded(len(found), min(found, default=""), sample)


def _changed_numbers(numbers: pa.Array, narrow: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Flag the large numbers, but no nulls, among Arrow integers or floats that changed when converted to `narrow`."""
    large = _are_large(narrow)
    if not large.any():
        return large
    stored = narrow.astype(np.float64)
    if pa.types.is_integer(numbers.type):
        indices = np.flatnonzero(large)
        exact = numbers.take(pa.array(indices)).to_pylist()
        large[indices] = [value != int(number) for value, number in zip(exact, stored[indices].tolist())]
        return large
    wide = numbers.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return large & (np.abs(wide) < _EXACT_DOUBLE) & (wide != stored)


def _number_text(number: int | float) -> str:
    return f"{number:.0f}" if isinstance(number, float) and number.is_integer() else str(number)


def _are_large(narrow: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    values = np.abs(narrow)
    return (values >= _EXACT) & (values < np.inf)


_IS_BYTES = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
_IS_TEXTUAL = (pa.types.is_date, pa.types.is_time, pa.types.is_timestamp, pa.types.is_decimal)
_EXACT_TYPES = (pa.types.is_null, pa.types.is_boolean, pa.types.is_float16, pa.types.is_float32)  # as float32
_INT64_MAX = (1 << 63) - 1  # the largest int64, which a uint64 may exceed


class UnsupportedTypeError(ValueError):
    """An Arrow type that no feature can hold."""


def arrow_scalar_type(kind: pa.DataType) -> types.ScalarType | None:
    """Return the type that values become; None if it is null. Raise UnsupportedTypeError for structs and others."""
    item, rank = storage_type_of(kind), 0
    while is_list(item):
        item, rank = storage_type_of(item.value_type), rank + 1
    if rank > types.MAX_RANK:
        raise UnsupportedTypeError(f"of lists nested more than {types.MAX_RANK} deep")
    if pa.types.is_null(item):
        return None
    if pa.types.is_boolean(item):
        return "bool"
    if pa.types.is_integer(item) or pa.types.is_duration(item):
        return "int64"
    if pa.types.is_floating(item):
        return "float32"
    if any(test(item) for test in (*_IS_BYTES, *_IS_TEXTUAL)):
        return "bytes"
    raise UnsupportedTypeError(str(kind))


@dataclass(frozen=True, slots=True, eq=False)
class ConvertedColumn:
    """A column converted to the requested type."""

    array: pa.Array  # the values; null or arbitrary where a value does not fit
    problems: dict[int, str]  # reason for each row whose value does not fit
    numbers: pa.Array | None = None  # the items of the input, if they are stored as float32 or were texts
    stored: pa.Array | None = None  # these items as stored
    rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # the row of each of them

    def summarize_rounded(self, good_rows: Flags, limit: int) -> Rounded | None:
        """Return the numbers in the rows `good_rows` that float32 changes, with a sample of at most `limit`."""
        if self.numbers is None or self.stored is None:
            return None
        numbers, floats = self.numbers, self.stored
        if self.problems:
            good = pa.array(good_rows[self.rows])
            numbers, floats = numbers.filter(good), floats.filter(good)
        if not (pa.types.is_integer(numbers.type) or pa.types.is_float64(numbers.type)):
            return rounded_texts(to_strings(numbers).cast(pa.binary()), floats, limit)
        stored = floats.to_numpy(zero_copy_only=False)
        changed = numbers.filter(pa.array(_changed_numbers(numbers, stored)))
        texts = [_number_text(value) for value in changed.to_pylist()]
        found = Rounded(len(texts), min(texts, default=""))
        if len(stored) > _LONGEST_LIST * len(self.array):
            return found

        def read(rows: npt.NDArray[np.int64] | None) -> np.ndarray:
            taken = pc.unique(numbers) if rows is None else numbers.take(pa.array(rows))
            return taken.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)

        return replace(found, sample=sample_numbers(stored, read, limit))


def convert_column(array: pa.Array, column: ColumnType, fill: Any = None) -> ConvertedColumn:
    """Convert `array` to the type `column`, with `fill` for missing values; the rules are those of `convert_value`."""
    array = decode_array(array)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    problems: dict[int, str] = {}
    flat = flatten(array, column.item_shape)
    values, bad, reason = _convert_items(flat.items, column.dtype)
    for position in np.flatnonzero(bad).tolist():
        problems.setdefault(int(flat.rows[position]), reason(position))
    if column.length is None and is_list(array.type):
        for row in np.flatnonzero(valid).tolist():
            problems.setdefault(row, _misfit_reason(array[row].as_py(), column))
        whole = pa.nulls(len(array), arrow_type(column))
    elif column.length is None:
        # The values go to the valid rows, null to all others
        whole = values if len(values) == len(array) else values.take(pa.array(np.cumsum(valid) - 1, mask=~valid))
    else:
        wrong = flat.misfits if column.is_variable else flat.misfits | (valid & (flat.lengths != column.length))
        for row in np.flatnonzero(wrong).tolist():
            problems.setdefault(row, _misfit_reason(array[row].as_py(), column))
        whole = _make_lists(values, np.bincount(flat.rows, minlength=len(array)), ~valid, column)
    whole = whole if fill is None else _fill_missing(whole, valid, column, fill, problems)
    changes = column.dtype == "float32" and not any(test(flat.items.type) for test in _EXACT_TYPES)
    if not changes and (column.dtype != "int64" or not any(test(flat.items.type) for test in _IS_BYTES)):
        return ConvertedColumn(whole, problems)
    return ConvertedColumn(whole, problems, flat.items, values, flat.rows)


def _misfit_reason(value: Any, column: ColumnType) -> str:
    try:
        types.check_shape(value, column)
    except types.ColumnError as error:
        return str(error)
    return f"{types.preview_value(value)} does not fit the shape {types.format_shape(column.shape)}"


def _fill_missing(array: pa.Array, valid: Flags, column: ColumnType, fill: Any, problems: dict[int, str]) -> pa.Array:
    if valid.all():
        return array
    try:
        value = pa.array([convert_value(fill, column)], arrow_type(column))
    except types.ColumnError as error:
        problems.update(dict.fromkeys(np.flatnonzero(~valid).tolist(), f"the fill: {error}"))
        return array
    indices = np.where(valid, np.arange(len(array)), len(array))
    return pa.concat_arrays([array, value]).take(pa.array(indices))


_Problem = Callable[[int], str]


def _convert_items(items: pa.Array, dtype: types.ScalarType) -> tuple[pa.Array, Flags, _Problem]:
    """Return `items` as `dtype`, flags of those that do not fit, and a function that returns the reason for one."""
    bad, failed = items.is_null().to_numpy(zero_copy_only=False), dict[int, str]()
    if pa.types.is_duration(items.type):
        items = items.cast(pa.int64())
    if any(test(items.type) for test in _IS_TEXTUAL):
        items, failed = _as_strings(items)
        bad = bad | np.isin(np.arange(len(items)), list(failed))
    elif pa.types.is_string(items.type) or pa.types.is_large_string(items.type):
        items, failed = as_unicode(items)
        bad = bad | items.is_null().to_numpy(zero_copy_only=False)
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
            return failed.get(position, "a list with a null in it")
        if pa.types.is_uint64(kind) and value > _INT64_MAX:
            return f"{value} does not fit a 64-bit integer"
        if dtype == "float32" and isinstance(value, float):
            return f"{value} is beyond the range of float32"
        return f"{shorten(as_text(value))} is no {_NAMES.get(dtype, 'number')}"

    converter = {"bool": _to_bool, "int64": _to_int64, "float32": _to_float32, "bytes": _to_bytes}[dtype]
    values, misfit = converter(items)
    return values, bad | misfit, why


def _as_strings(items: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """Return dates, times and decimals as strings, and the reasons of those that are no text."""
    texts = items.cast(pa.string()) if pa.types.is_decimal(items.type) else time_texts(items)
    lost = np.flatnonzero(pc.and_(texts.is_null(), items.is_valid()).to_numpy(zero_copy_only=False))
    return texts, dict.fromkeys(lost.tolist(), "a time beyond the years that can be written, -32767 to 32767")


def as_unicode(items: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """Return texts with null for those that are not UTF-8, which some writers do not check, and the reasons."""
    try:
        items.validate(full=True)
        return items, {}
    except pa.ArrowInvalid:
        texts = items.cast(pa.binary()).to_pylist()
    bad = (row for row, text in enumerate(texts) if text and not is_unicode(text.decode(errors="surrogateescape")))
    lost = {row: f"{shorten(repr(texts[row]))} is not utf-8" for row in bad}
    return pa.array([None if row in lost else text for row, text in enumerate(texts)], items.type), lost


def to_strings(items: pa.Array) -> pa.Array:
    """Return dates, times, decimals and binary values of one length as texts or bytes, and other values unchanged."""
    if any(test(items.type) for test in _IS_TEXTUAL):
        return _as_strings(items)[0]
    return items.cast(pa.binary()) if pa.types.is_fixed_size_binary(items.type) else items


def _parse_texts(items: pa.Array, dtype: types.ScalarType) -> tuple[pa.Array, Flags]:
    """Parse texts as numbers, with the same result as in CSV; items of other types do not fit."""
    if not any(test(items.type) for test in _IS_BYTES):
        return pa.nulls(len(items), arrow_type(ColumnType(dtype, None, 0))), np.ones(len(items), bool)
    values, misfits = parse_values(items.cast(pa.binary()), dtype)
    flags = np.zeros(len(items), bool)
    flags[misfits] = True
    return values, flags


def _to_int64(items: pa.Array) -> tuple[pa.Array, Flags]:
    if pa.types.is_integer(items.type):
        return items.cast(pa.int64()), np.zeros(len(items), bool)
    if not pa.types.is_floating(items.type):  # booleans are words
        return _parse_texts(items, "int64")
    numbers = items.cast(pa.float64()).to_numpy(zero_copy_only=False)
    is_integral = (np.floor(numbers) == numbers) & (numbers >= -(2.0**63)) & (numbers < 2.0**63)
    return pa.array(np.where(is_integral, numbers, 0).astype(np.int64), mask=~is_integral), ~is_integral


def _to_bool(items: pa.Array) -> tuple[pa.Array, Flags]:
    if pa.types.is_boolean(items.type):
        return items.cast(pa.int64()), np.zeros(len(items), bool)
    return _parse_texts(items, "bool")


def _to_float32(items: pa.Array) -> tuple[pa.Array, Flags]:
    if pa.types.is_float16(items.type) or pa.types.is_float32(items.type):
        return items.cast(pa.float32()), np.zeros(len(items), bool)
    if not pa.types.is_integer(items.type) and not pa.types.is_floating(items.type):
        return _parse_texts(items, "float32")
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
    return items.cast(pa.large_binary()), np.zeros(len(items), bool)
