"""Columns of text to columns of numbers, vectorised; what does not fit its type is found, and never changed into what
does.

Arrow's own conversions are used only where they agree with the grammar of text_types: they take 0x10 for an integer
and nan(1) for a number. A type may be asked for where none was inferred, so leading zeros are accepted: 007 as int64 is
7.
"""

import contextlib
import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.transforms.columns.buffers import text_buffers
from shardmill.transforms.columns.text_types import count_others
from shardmill.transforms.columns.types import FALSE, TRUE, Spelled

_INTEGER = r"[+-]?[0-9]+"
_FLOAT = r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:nan|inf(inity)?))"
_BOOLEANS = pa.array(TRUE + FALSE, pa.binary())
_PLUS = ord("+")
_SHOWN = 60  # characters of a value in a reason


def parse_values(column: pa.Array, dtype: Spelled) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """A binary array as `dtype` is stored, booleans as int64, null where a value is missing or does not fit; and the
    positions of those that do not."""
    if dtype == "bytes":
        return column.cast(pa.large_binary()), np.zeros(0, np.int64)
    if dtype == "bool":
        found = pc.index_in(column, value_set=_BOOLEANS)
        values = pc.cast(pc.less(found, len(TRUE)), pa.int64())
    elif dtype == "int64":
        values = _integers(column)
    else:
        values = _floats(column)
    if values.null_count == column.null_count:
        return values, np.zeros(0, np.int64)
    misfits = pc.and_(pc.is_valid(column), pc.is_null(values))
    return values, np.flatnonzero(misfits.to_numpy(zero_copy_only=False))


def exact_floats(column: pa.Array) -> pa.DoubleArray:
    """A binary array of what `parse_values` takes for float32 as float64, null where it is missing or no number."""
    good = pc.and_(pc.is_valid(column), _matches(column, _FLOAT))
    return _only(column, good).view(pa.string()).cast(pa.float64())


def misfit(value: bytes, dtype: Spelled) -> str:
    """Why `value` does not fit `dtype`, as it will stand in rejects/."""
    shown = repr(value[: 4 * _SHOWN].decode("utf-8", "replace")[:_SHOWN]) + ("…" if len(value) > _SHOWN else "")
    if dtype == "bool":
        return f"{shown} is neither true nor false (bool)"
    pattern, kind = (_INTEGER, "an integer") if dtype == "int64" else (_FLOAT, "a number")
    is_number = re.fullmatch(pattern.encode(), value)
    return f"{shown} is beyond the range of {dtype}" if is_number else f"{shown} is not {kind} ({dtype})"


def _integers(column: pa.Array) -> pa.Array:
    codes, offsets = text_buffers(column)
    others = count_others(codes)
    if others:
        filled = offsets[:-1] < offsets[1:]
        first = codes[offsets[:-1][filled]]
        plus = bool((first == _PLUS).any())
        if np.count_nonzero((first == _PLUS) | (first == ord("-"))) < others:
            return _mended_integers(column)
        column = _without_plus(column) if plus else column
    try:
        return column.view(pa.string()).cast(pa.int64())
    except pa.ArrowInvalid:
        return _mended_integers(column)


def _mended_integers(column: pa.Array) -> pa.Array:
    """The integers of a column that has others too, which become null."""
    column = _without_plus(_only(column, _matches(column, _INTEGER)))
    try:
        return column.view(pa.string()).cast(pa.int64())
    except pa.ArrowInvalid:  # beyond 64 bits
        fits = [value is None or _fits_64_bits(value) for value in column.to_pylist()]
        return _only(column, pa.array(fits)).view(pa.string()).cast(pa.int64())


def _fits_64_bits(value: bytes) -> bool:
    digits = value.lstrip(b"+-0") or b"0"  # int() refuses to read thousands of them
    sign = -1 if value.startswith(b"-") else 1
    return len(digits) < 20 and -(1 << 63) <= sign * int(digits) < 1 << 63


def _floats(column: pa.Array) -> pa.Array:
    codes, _ = text_buffers(column)
    values = None
    if not (codes == ord("(")).any():  # Arrow takes nan(1) for a number
        with contextlib.suppress(pa.ArrowInvalid):
            values = column.view(pa.string()).cast(pa.float32())
    if values is None:
        column = _only(column, _matches(column, _FLOAT))
        values = column.view(pa.string()).cast(pa.float32())
    infinite = pc.is_inf(values)
    if not pc.any(infinite).as_py():
        return values
    # Arrow rounds a number beyond float32 to infinity; one that is meant has an "n".
    return _only(values, pc.or_(pc.invert(infinite), pc.match_substring(column, "n", ignore_case=True)))


def _matches(column: pa.Array, pattern: str) -> pa.Array:
    return pc.match_substring_regex(column, rf"\A(?:{pattern})\z")


def _only(column: pa.Array, mask: pa.Array) -> pa.Array:
    """`column` with null where `mask` is not true."""
    return pc.if_else(mask, column, pa.scalar(None, column.type))


def _without_plus(column: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(column, r"\A\+", "")
