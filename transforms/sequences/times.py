"""What orders the rows of a sequence: numbers, or dates and times of ISO 8601, as integers that sort as they do. Pure:
nothing here reads or writes."""

import re

import numpy as np
import pyarrow as pa

_SIGN = np.uint64(1 << 63)
_TIME = re.compile(rb"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?Z?")


def order_keys(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Integers that sort as times do: uint64, shape (rows,); and which rows have none: bool, shape (rows,).

    Args:
      column: int64, float64, or texts: dates, or dates with times, to a microsecond; those that end in Z, and those
        that name no zone, are taken for UTC.
    """
    none = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_int64(column.type):
        values = column.fill_null(0).to_numpy()
        return values.view(np.uint64) ^ _SIGN, none
    if pa.types.is_floating(column.type):
        floats = column.cast(pa.float64()).fill_null(0).to_numpy() + 0.0  # of both zeros one
        bits = floats.view(np.uint64)
        return np.where(bits & _SIGN, ~bits, bits ^ _SIGN), none | np.isnan(floats)
    found = np.zeros(len(column), np.int64)
    for row, text in enumerate(column.to_pylist()):
        moment = None if text is None else _microseconds(text)
        if moment is None:
            none[row] = True
        else:
            found[row] = moment
    return found.view(np.uint64) ^ _SIGN, none


def _microseconds(text: bytes) -> int | None:
    """Since 1970; None where it is no date and no time."""
    if _TIME.fullmatch(text) is None:
        return None
    try:
        return int(np.datetime64(text.removesuffix(b"Z").decode(), "us").astype(np.int64))
    except ValueError:  # the 31st of a month of 30 days
        return None
