"""A manifest's further columns as serialized entries of an Example."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from shardmill.features.renames import NO_RENAMES, Renames
from shardmill.records import example
from shardmill.transforms.columns.nested import ColumnError, leaves
from shardmill.transforms.columns.types import TRUE, ColumnType, Spelled, check_shape


def encode_columns(row: Mapping[str, Any], types: Mapping[str, ColumnType], renames: Renames = NO_RENAMES) -> bytes:
    """The entries of an Example for the columns in `types`, in their order; a missing value has no entry.

    A list of variable length is never missing: where the row has none, it is empty.

    Raises:
      ColumnError: a list does not fit, or a number is beyond float32; the message names the column.
    """
    entries = []
    for name, column in types.items():
        value = row.get(name)
        if value is None or (value == "" and column.dtype != "bytes"):
            if not column.is_variable:
                continue
            value = []
        try:
            if column.length is not None or isinstance(value, list):
                check_shape(value, column)
            if type(value) is int and column.dtype == "int64":
                entries.append(example.int64_entry(renames(name), value))
            else:
                entries.append(example.entry(renames(name), _feature(leaves(value), column.dtype)))
        except ColumnError as error:
            raise ColumnError(f"column {name!r}: {error}") from None
    return b"".join(entries)


def _feature(values: list[Any], dtype: Spelled) -> bytes:
    if dtype == "int64":
        return example.int64_feature(int(value) for value in values)
    if dtype == "bool":
        return example.int64_feature(
            int(value is True or (isinstance(value, str) and value.encode() in TRUE)) for value in values
        )
    if dtype == "float32":
        return example.float_feature(_float(value) for value in values)
    return example.bytes_feature((value if isinstance(value, str) else json.dumps(value)).encode() for value in values)


def _float(value: Any) -> float:
    """A number, or the text of one, as a float32; raises a ColumnError if its range has none that is near."""
    with np.errstate(over="ignore"):
        number = float(np.float32(value))
    # Infinity is a number too, if it is written: its text has an "n", and JSON's 1e400 is no infinity when it comes
    # here.
    if math.isinf(number) and (not math.isinf(value) if isinstance(value, int | float) else "n" not in value.lower()):
        raise ColumnError(f"{value} is beyond the range of float32")
    return number
