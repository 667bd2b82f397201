"""Typed columns of rows as Arrow arrays: what `transforms.formats.base.Rows` holds, for every format alike."""

import json
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.records import spans
from shardmill.transforms.columns.inferred import MAX_VALUES
from shardmill.transforms.columns.separated import parts_of
from shardmill.transforms.columns.types import ColumnType

_KINDS = {"bool": pa.int64(), "int64": pa.int64(), "float32": pa.float32(), "bytes": pa.large_binary()}


def arrow_type(column: ColumnType) -> pa.DataType:
    """The type of an array that holds a column of this type; booleans are 0 and 1."""
    kind = _KINDS[column.dtype]
    return kind if column.length is None else pa.large_list(kind)


def missing_values(column: ColumnType, rows: int) -> pa.Array:
    """A column without any value; a list of variable length is empty instead."""
    if not column.is_variable:
        return pa.nulls(rows, arrow_type(column))
    return pa.LargeListArray.from_arrays(
        pa.array(np.zeros(rows + 1, np.int64)), pa.nulls(0, arrow_type(column).value_type)
    )


def to_batch(arrays: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
    """A batch of columns by name, of `rows` rows even if there are no columns."""
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def slices(
    data: bytes | memoryview,
    starts: npt.NDArray[np.int64],
    stops: npt.NDArray[np.int64],
    kept: npt.NDArray[np.bool_] | None = None,
) -> pa.LargeBinaryArray:
    """data[start:stop] for each of the ranges, or those that are `kept`."""
    if kept is not None:
        starts, stops = starts[kept], stops[kept]
    copied, offsets = spans.gather(data, starts, stops - starts)
    return pa.Array.from_buffers(pa.large_binary(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(copied)])


def distinct_texts(values: pa.Array, separator: str = "") -> frozenset[str] | None:
    """The distinct of int64, float32 or binary `values` as text, nulls apart, or of what a `separator` splits them
    into; None if there are more than MAX_VALUES."""
    unique = pc.unique(values).drop_null()
    if len(unique) > MAX_VALUES and not separator:
        return None
    texts = map(as_text, unique.to_pylist())
    found = frozenset(part for text in texts for part in parts_of(text, separator)) if separator else frozenset(texts)
    return None if len(found) > MAX_VALUES else found


def as_text(value: object) -> str:
    """A value as it is called: bytes that are not UTF-8 are escaped, and numbers spelled as in JSON."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return value if isinstance(value, str) else json.dumps(value)


def parse_fill(text: str) -> int | float | str:
    """The value that stands for a missing one, from its text: JSON of a number, a boolean or a string, or else the text
    itself."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except ValueError:
        return text
    if not isinstance(value, int | float | str):
        return text
    return text if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63 else value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
