"""Arrow arrays: buffers, nested lists, fill values, separated texts and distinct values."""

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, reduce
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.data import spans
from shardmill.data.features import DType
from shardmill.transforms.columns import types as column_types


@dataclass(frozen=True, slots=True)
class Separated:
    """A column of texts that are split into lists."""

    separator: str  # text between two values
    dtype: DType  # type of the values; bytes for class names


def split_text(text: str, separator: str) -> list[str]:
    """Split a text at the separator, strip spaces and leave out empty parts."""
    return [part for part in map(str.strip, text.split(separator)) if part]


def split_texts(texts: pa.LargeBinaryArray, separator: str) -> pa.LargeListArray:
    """Split each text into a list of its values, in order; a missing text becomes an empty list."""
    encoded = texts.dictionary_encode()
    found = [
        [part.encode(errors="surrogateescape") for part in split_text(text.decode(errors="surrogateescape"), separator)]
        for text in encoded.dictionary.to_pylist()
    ]
    lists = pa.array([*found, []], pa.large_list(pa.large_binary()))
    return lists.take(pc.fill_null(encoded.indices, pa.scalar(len(found), encoded.indices.type)))


_KINDS = {"bool": pa.int64(), "int64": pa.int64(), "float32": pa.float32(), "bytes": pa.large_binary()}


def arrow_type(column: column_types.ColumnType) -> pa.DataType:
    """Return the Arrow type that stores a column of this type; booleans are stored as 0 and 1."""
    kind = _KINDS[column.dtype]
    return kind if column.length is None else pa.large_list(kind)


def missing_values(column: column_types.ColumnType, rows: int) -> pa.Array:
    """Return a column of nulls; for lists of variable length, of empty lists."""
    if not column.is_variable:
        return pa.nulls(rows, arrow_type(column))
    return pa.LargeListArray.from_arrays(
        pa.array(np.zeros(rows + 1, np.int64)), pa.nulls(0, arrow_type(column).value_type)
    )


def to_batch(arrays: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
    """Return a record batch of these columns, with `rows` rows even if there are no columns."""
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def slices(
    data: bytes | memoryview,
    starts: npt.NDArray[np.int64],
    stops: npt.NDArray[np.int64],
    mask: npt.NDArray[np.bool_] | None = None,
) -> pa.LargeBinaryArray:
    """Return the bytes data[start:stop] of each range, or only of the ranges flagged in `mask`."""
    if mask is not None:
        starts, stops = starts[mask], stops[mask]
    copied, offsets = spans.gather(data, starts, stops - starts)
    return pa.Array.from_buffers(pa.large_binary(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(copied)])


def distinct_texts(values: pa.Array, separator: str = "") -> frozenset[str] | None:
    """Return the distinct int64, float32 or binary values as texts, without nulls; None if more than MAX_VALUES.

    With a `separator`, return the distinct parts into which it splits the texts.
    """
    unique = pc.unique(values).drop_null()
    if len(unique) > column_types.MAX_VALUES and not separator:
        return None
    texts = map(as_text, unique.to_pylist())
    found = frozenset(part for text in texts for part in split_text(text, separator)) if separator else frozenset(texts)
    return None if len(found) > column_types.MAX_VALUES else found


def as_text(value: object) -> str:
    """Return a value as text: numbers as in JSON, bytes decoded as UTF-8 with invalid bytes escaped."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return value if isinstance(value, str) else json.dumps(value)


def parse_fill(text: str) -> int | float | str:
    """Parse a fill value: JSON of a number, boolean or string; any other text is returned as it is."""
    try:
        value = json.loads(text, parse_constant=lambda constant: text)  # NaN and Infinity are no JSON
    except ValueError:
        return text
    is_large = isinstance(value, int) and not -(1 << 63) <= value < 1 << 63
    return value if isinstance(value, int | float | str) and not is_large else text


Flags = npt.NDArray[np.bool_]
_LISTS = (pa.ListType, pa.LargeListType, pa.FixedSizeListType, pa.ListViewType, pa.LargeListViewType)


def is_list(kind: pa.DataType) -> bool:
    """Return True if an Arrow type is any kind of list."""
    return isinstance(kind, _LISTS)


def storage_type_of(kind: pa.DataType) -> pa.DataType:
    """Return the type of the array that `decode_array` makes, apart from views."""
    while True:
        if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        elif isinstance(kind, pa.FixedShapeTensorType) and is_shape(kind.shape):
            return pa.large_list(reduce(pa.list_, reversed(kind.shape[1:]), kind.value_type))
        elif isinstance(kind, pa.BaseExtensionType):
            kind = _READABLE.get(type(kind), kind.storage_type)
        else:
            return pa.string() if pa.types.is_interval(kind) else kind


def decode_array(array: pa.Array) -> pa.Array:
    """Return the array without encodings and extensions.

    * Dictionaries and run-end encoded values are decoded.
    * UUIDs and intervals become texts, bool8 becomes booleans, tensors of a fixed shape nested lists.
    * Times in a zone that Arrow does not know are in UTC.
    * Other extensions are replaced by their storage, and views by large_binary.
    """
    while True:
        kind = array.type
        if pa.types.is_dictionary(kind):
            array = array.dictionary_decode()
        elif pa.types.is_run_end_encoded(kind):
            array = pc.run_end_decode(array)
        elif isinstance(kind, pa.UuidType):
            return uuid_texts(array.storage)
        elif isinstance(kind, pa.Bool8Type):
            return array.storage.cast(pa.bool_())
        elif isinstance(kind, pa.FixedShapeTensorType) and is_shape(kind.shape):
            return to_tensors(array.storage, kind.shape)
        elif isinstance(kind, pa.BaseExtensionType):
            array = array.storage
        else:
            break
    if pa.types.is_timestamp(kind) and not is_known_zone(kind.tz):
        return array.cast(pa.timestamp(kind.unit, "UTC"))
    if pa.types.is_interval(kind):
        return pa.array([None if value is None else _interval_text(*value) for value in array.to_pylist()], pa.string())
    is_view = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    return array.cast(pa.large_binary()) if is_view else array  # few functions take views


@cache
def is_known_zone(zone: str | None) -> bool:
    """Return True if Arrow knows a time zone; None means times without one."""
    try:
        return len(pa.array([0], pa.timestamp("s", zone)).cast(pa.string())) == 1
    except pa.ArrowInvalid:
        return False


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_BEYOND = 970_000_000_000  # seconds: the 32,708th year; Arrow wraps some years later


def time_texts(times: pa.Array) -> pa.Array:
    """Return dates, times and timestamps as texts; null for those that Arrow cannot write.

    Offsets keep their seconds, which Arrow leaves out: `1900-01-01 00:19:32+001932`.
    """
    texts, kind = times.cast(pa.string()), times.type
    if not pa.types.is_timestamp(kind):
        return pc.if_else(pc.starts_with(texts, "<"), None, texts)  # <value out of range: …>
    numbers = times.cast(pa.int64()).fill_null(0).to_numpy()
    if kind.tz is not None:
        local = pc.local_timestamp(times).cast(pa.int64()).fill_null(0).to_numpy()
        rest = np.abs(local - numbers) // _PER_SECOND[kind.unit] % 60
        if rest.any():
            texts = pc.binary_join_element_wise(texts, [f"{number:02}" * (number > 0) for number in rest.tolist()], "")
    return pc.if_else(np.abs(numbers) // _PER_SECOND[kind.unit] < _BEYOND, texts, None)


_READABLE = {pa.UuidType: pa.string(), pa.Bool8Type: pa.bool_()}  # types that replace those of extensions
_INTERVAL = struct.Struct("<III")  # months, days, milliseconds
_HEX_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_DASHES = [8, 13, 18, 23]  # positions in the text of a UUID
_DIGIT_PLACES = np.setdiff1d(np.arange(36), _DASHES)


def uuid_texts(values: pa.Array) -> pa.StringArray:
    """Return the texts of UUIDs, such as `0b1e…-…`, given as fixed_size_binary(16)."""
    valid = values.drop_null()
    data = buffer_items(valid.buffers()[1], np.uint8, 16 * valid.offset, 16 * len(valid)).reshape(-1, 16)
    texts = np.full((len(valid), 36), ord("-"), np.uint8)
    texts[:, _DIGIT_PLACES] = _HEX_DIGITS[np.stack((data >> 4, data & 15), 2).reshape(-1, 32)]
    ends = 36 * np.cumsum(values.is_valid().to_numpy(zero_copy_only=False))
    offsets = np.concatenate(([0], ends)).astype(np.int64)
    mask = pa.array(values.is_valid()).buffers()[1] if values.null_count else None
    buffers = [mask, pa.py_buffer(offsets), pa.py_buffer(texts)]
    return pa.Array.from_buffers(pa.large_string(), len(values), buffers)


def parse_interval(stored: bytes) -> tuple[int, int, int]:
    """Return months, days and nanoseconds of an interval as Parquet's INTERVAL and Avro's duration store it."""
    months, days, milliseconds = _INTERVAL.unpack(stored)
    return months, days, milliseconds * 1_000_000


def interval_texts(values: pa.Array) -> pa.Array:
    """Return the texts of intervals, such as P1M2DT0.5S, given as Parquet stores them."""
    texts = [None if value is None else _interval_text(*parse_interval(value)) for value in values.to_pylist()]
    return pa.array(texts, pa.string())


def _interval_text(months: int, days: int, nanoseconds: int) -> str:
    whole, fraction = divmod(abs(nanoseconds), 1_000_000_000)
    seconds = f"{'-' if nanoseconds < 0 else ''}{whole}.{fraction:09}".rstrip("0").rstrip(".")
    date = "".join(f"{number}{unit}" for number, unit in ((months, "M"), (days, "D")) if number)
    time = f"T{seconds}S" if nanoseconds or not date else ""
    return f"P{date}{time}"


def is_shape(shape: Sequence[int]) -> bool:
    """Return True if nested lists have this shape: of at least two sizes, none of them 0, and not too many."""
    return 1 < len(shape) <= column_types.MAX_RANK and all(shape)


def to_tensors(lists: pa.Array, shape: Sequence[int]) -> pa.LargeListArray:
    """Return lists of all values of a tensor each as nested lists of this shape."""
    items = lists.flatten()
    for size in reversed(shape[1:]):
        items = pa.FixedSizeListArray.from_arrays(items, size)
    ends = shape[0] * np.cumsum(lists.is_valid().to_numpy(zero_copy_only=False))
    offsets = pa.array(np.concatenate(([0], ends)).astype(np.int64))
    return pa.LargeListArray.from_arrays(offsets, items, mask=lists.is_null() if lists.null_count else None)


@dataclass(frozen=True, slots=True, eq=False)
class FlatColumn:
    """A column flattened to the items of its innermost lists."""

    items: pa.Array  # values of the innermost lists, or of a column without lists
    rows: npt.NDArray[np.int64]  # row of each item
    lengths: npt.NDArray[np.int64]  # per row, length of the outer list; without lists, 1 or 0
    misfits: Flags  # rows whose inner lists have another shape than expected


def flatten(array: pa.Array, inner: tuple[int, ...]) -> FlatColumn:
    """Flatten `array`, and flag the rows whose items do not have the shape `inner`."""
    misfits = np.zeros(len(array), bool)
    if is_list(array.type):
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy().astype(np.int64)
        items = decode_array(array.flatten())
    else:
        lengths = array.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
        items = array.drop_null() if array.null_count else array
    rows = np.repeat(np.arange(len(array)), lengths)
    depth = 0
    while is_list(items.type):
        sizes = pc.fill_null(pc.list_value_length(items), -1).to_numpy().astype(np.int64)
        misfits[rows if depth >= len(inner) else rows[sizes != inner[depth]]] = True
        rows, items, depth = np.repeat(rows, np.maximum(sizes, 0)), decode_array(items.flatten()), depth + 1
    if depth < len(inner):
        misfits[rows] = True
    return FlatColumn(items, rows, lengths, misfits)


def list_type(array: pa.Array, dtype: column_types.ScalarType) -> column_types.ColumnType:
    """Return the type of a column of lists with a value; rejects are counted with the most frequent shape."""
    array = decode_array(array).drop_null()
    lengths = pc.list_value_length(array).to_numpy()
    items, inner = decode_array(array.flatten()), []
    while len(items) and is_list(items.type):
        sizes = pc.fill_null(pc.list_value_length(items), 0).unique().to_pylist()
        if len(sizes) > 1 or not sizes[0]:
            return _type_by_row(array, dtype)
        inner += sizes
        items = decode_array(items.flatten())
    if (lengths == lengths[0]).all():
        return column_types.ColumnType(dtype, int(lengths[0]), len(array), tuple(inner))
    return column_types.ColumnType(dtype, -1, len(array), tuple(inner), int((lengths == 0).sum()))


def _type_by_row(array: pa.Array, dtype: column_types.ScalarType) -> column_types.ColumnType:
    found = column_types.ColumnType(dtype, 0, 0)
    for value in array.to_pylist():
        with suppress(column_types.ColumnError):
            size, *inner = column_types.shape_and_values(value)[0]
            found = found.merge(column_types.ColumnType(dtype, size, 1, tuple(inner)))
    refused = len(array) - found.present - sum(other.present for other in found.minority_types)
    return replace(found, present=found.present + refused)


def buffer_items(buffer: pa.Buffer | None, dtype: type, start: int, count: int) -> np.ndarray:
    """Return `count` items of a buffer from item `start` on; zeros without a buffer, which Arrow may leave out."""
    if buffer is None or buffer.size == 0:
        return np.zeros(count, dtype)
    return np.ndarray(count, dtype, buffer, start * np.dtype(dtype).itemsize)


def offsets_of(array: pa.Array) -> np.ndarray:
    """Return the offsets of a binary or list array, shape (rows + 1,), int32 or int64 as in Arrow."""
    kind = array.type
    large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind) or pa.types.is_large_list(kind)
    return buffer_items(array.buffers()[1], np.int64 if large else np.int32, array.offset, len(array) + 1)


def data_of(array: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the data buffer of a binary array, including bytes before and after its values."""
    return np.frombuffer(array.buffers()[2] or b"", np.uint8)


def text_buffers(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.signedinteger]]:
    """Return the concatenated bytes of a binary array and the offsets of its values in them, shape (rows + 1,)."""
    offsets = offsets_of(column)
    return data_of(column)[offsets[0] : offsets[-1]], offsets - offsets[0]


def narrow_codes(codes: npt.NDArray[np.int64], groups: int) -> npt.NDArray[np.unsignedinteger]:
    """Convert codes below `groups` to the smallest unsigned type: NumPy sorts one or two bytes several times faster."""
    return codes.astype(np.min_scalar_type(max(groups - 1, 0)), copy=False)


BATCH_ROWS = 10_000  # of references: some hundred kilobytes
ELEMENT_BYTES = 2 << 20  # of an element, about, uncompressed: runners hold several, and like none of many megabytes


def to_batches(rows: Iterable[Sequence[Any]], schema: pa.Schema, size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Collect `rows`, tuples in the order of `schema`, into batches of at most `size` rows."""
    found = iter(rows)
    while part := list(islice(found, size)):
        yield convert_batch(list(zip(*part, strict=True)), schema)


def split_large_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Divide a batch into few batches, none larger than ELEMENT_BYTES unless it has a single row."""
    if batch.nbytes <= ELEMENT_BYTES or len(batch) == 1:
        yield batch
        return
    middle = len(batch) // 2
    yield from split_large_batch(batch.slice(0, middle))
    yield from split_large_batch(batch.slice(middle))


def convert_batch(columns: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    """Make a batch of `schema` from columns."""
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def concatenate(parts: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Join `parts`, at least one batch, into one batch."""
    return pa.concat_batches(list(parts))
