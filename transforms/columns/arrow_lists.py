"""Arrow's columns of lists, lists in them too: their values in a row, and their shape."""

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.transforms.columns.nested import ColumnError, shape_and_values
from shardmill.transforms.columns.types import ColumnType, Spelled

Flags = npt.NDArray[np.bool_]
_IS_LIST = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


def is_list(kind: pa.DataType) -> bool:
    """Whether a column holds lists."""
    return any(test(kind) for test in _IS_LIST)


def plain(kind: pa.DataType) -> pa.DataType:
    """The type that dictionaries and extensions stand for."""
    while pa.types.is_dictionary(kind) or isinstance(kind, pa.BaseExtensionType):
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind.storage_type
    return kind


def decoded(array: pa.Array) -> pa.Array:
    """An array without dictionaries, extensions and views of strings."""
    while pa.types.is_dictionary(array.type) or isinstance(array.type, pa.BaseExtensionType):
        array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array.storage
    is_view = pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type)
    return array.cast(pa.large_binary()) if is_view else array  # few functions take views


@dataclass(frozen=True, slots=True, eq=False)
class Flat:
    """A column without its lists.

    Attributes:
      items: what is in the innermost lists; of a column without lists, its values.
      rows: of each item.
      lengths: of each row's outer list; without lists, 1 where there is a value.
      misfits: the rows whose inner lists are not of the shape wanted.
    """

    items: pa.Array
    rows: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    misfits: Flags


def flatten(array: pa.Array, inner: tuple[int, ...]) -> Flat:
    """`array`, in whose rows each item should be of shape `inner`."""
    misfits = np.zeros(len(array), bool)
    if is_list(array.type):
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy().astype(np.int64)
        items = decoded(array.flatten())
    else:
        lengths = array.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
        items = array.drop_null() if array.null_count else array
    rows = np.repeat(np.arange(len(array)), lengths)
    depth = 0
    while is_list(items.type):
        sizes = pc.fill_null(pc.list_value_length(items), -1).to_numpy().astype(np.int64)
        misfits[rows if depth >= len(inner) else rows[sizes != inner[depth]]] = True
        rows, items, depth = np.repeat(rows, np.maximum(sizes, 0)), decoded(items.flatten()), depth + 1
    if depth < len(inner):
        misfits[rows] = True
    return Flat(items, rows, lengths, misfits)


def list_type(array: pa.Array, dtype: Spelled) -> ColumnType:
    """The type of a column of lists of `dtype` that has a value; rows that will be refused go with the most frequent
    ones."""
    array = decoded(array).drop_null()
    lengths = pc.list_value_length(array).to_numpy()
    items, inner = decoded(array.flatten()), []
    while len(items) and is_list(items.type):
        sizes = pc.fill_null(pc.list_value_length(items), 0).unique().to_pylist()
        if len(sizes) > 1 or not sizes[0]:
            return _type_by_row(array, dtype)
        inner += sizes
        items = decoded(items.flatten())
    if (lengths == lengths[0]).all():
        return ColumnType(dtype, int(lengths[0]), len(array), tuple(inner))
    return ColumnType(dtype, -1, len(array), tuple(inner), int((lengths == 0).sum()))


def _type_by_row(array: pa.Array, dtype: Spelled) -> ColumnType:
    found = ColumnType(dtype, 0, 0)
    for value in array.to_pylist():
        with suppress(ColumnError):
            size, *inner = shape_and_values(value)[0]
            found = found.merge(ColumnType(dtype, size, 1, tuple(inner)))
    refused = len(array) - found.present - sum(other.present for other in found.others)
    return replace(found, present=found.present + refused)
