"""What a key, a group or a stratum is: the text of a value, which depends on the value alone.

It does not depend on how the value is spelled or stored, nor on what lies beside it: 5, 5.0, 5e0 and "5" are one group,
in whatever file, block or column they stand. A number that is no integer is rounded to float32, as its feature would
be; an integer is never rounded. true, True and TRUE are one word. Any other text is itself: 007 is a code and not 7.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.transforms.columns.arrow_lists import decoded, is_list
from shardmill.transforms.columns.buffers import text_buffers
from shardmill.transforms.columns.nested import leaves
from shardmill.transforms.columns.text_types import count_others

_INTEGER = r"[+-]?(?:0|[1-9][0-9]*)(?:\.0*)?"
_DECIMAL = r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_WORD = r"[+-]?(?i:nan|inf|infinity)|true|True|TRUE|false|False|FALSE"
_CANONICAL = r"0|-?[1-9][0-9]*"
_ZONE = r"(?:Z|[+-][0-9:]+)?"
_TEMPORAL = (pa.types.is_time, pa.types.is_timestamp)
_INT64_LIMIT = 2.0**63  # the least float64 that no int64 is


def key_texts(column: pa.Array) -> pa.LargeBinaryArray:
    """The text of each value, null where one is missing: of a list its values with commas between."""
    column = decoded(column)
    kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.large_binary())
    if is_list(kind):
        return _of_lists(column)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return _binary(column.cast(pa.string()))
    if pa.types.is_floating(kind):
        return _of_floats(column.cast(pa.float64()))
    if pa.types.is_fixed_size_binary(kind):
        return _of_texts(_binary(column.cast(pa.binary())))
    texts = _binary(column if _is_text(kind) else column.cast(pa.string()))
    if any(test(kind) for test in _TEMPORAL):  # the unit of a file shows in nothing but zeros
        whole = pc.replace_substring_regex(texts, rf"\.0+({_ZONE})\z", r"\1")
        return pc.replace_substring_regex(whole, rf"(\.[0-9]*[1-9])0+({_ZONE})\z", r"\1\2")
    return _of_texts(texts)


def key_texts_of_values(values: Sequence[Any]) -> pa.LargeBinaryArray:
    """As `key_texts`, of JSON values; lists may stand beside values, and one of a single value is that value."""
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) == 1 and kinds <= {int, str, bool}:
        try:
            return key_texts(pa.array(values, pa.large_string() if kinds == {str} else None))
        except (OverflowError, pa.ArrowInvalid):
            pass  # an integer of more than 64 bits
    spelled = [None if value is None else [_spelled(item) for item in leaves(value)] for value in values]
    return _of_lists(pa.array(spelled, pa.large_list(pa.large_binary())))


def without_leading_zeros(texts: pa.Array) -> pa.Array:
    """Texts of a column that is one of numbers whatever they look like: where --schema says so, 007 is 7."""
    return pc.replace_substring_regex(texts, r"\A([+-]?)0+([0-9])", r"\1\2")


def _spelled(value: Any) -> bytes:
    if isinstance(value, bool):
        return b"true" if value else b"false"
    return value.encode() if isinstance(value, str) else repr(value).encode()


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in tests)


def _binary(texts: pa.Array) -> pa.LargeBinaryArray:
    return texts.cast(pa.large_binary())


def _of_lists(column: pa.Array) -> pa.LargeBinaryArray:
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    items = pc.fill_null(key_texts(column.flatten()), b"")
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))), pa.int64())
    joined = pc.binary_join(pa.LargeListArray.from_arrays(offsets, items), pa.scalar(b",", pa.large_binary()))
    return pc.if_else(pc.is_valid(column), joined, pa.scalar(None, pa.large_binary()))


def _of_floats(column: pa.DoubleArray) -> pa.LargeBinaryArray:
    missing = column.is_null().to_numpy(zero_copy_only=False)
    numbers = column.to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = numbers.astype(np.float32)
        rounded = np.where(_is_integer(numbers), numbers, narrow.astype(np.float64))
    beyond = np.isinf(narrow) & np.isfinite(numbers)
    integers = _is_integer(rounded) & ~beyond
    texts = pa.array(narrow).cast(pa.string())
    if beyond.any():  # no feature holds them, but a column that is dropped may
        texts = pc.if_else(pa.array(beyond), pa.array(numbers).cast(pa.string()), texts)
    if np.isnan(numbers).any():  # which have a sign
        texts = pc.if_else(pa.array(np.isnan(numbers)), "nan", texts)
    whole = pa.array(np.where(integers, rounded, 0).astype(np.int64)).cast(pa.string())
    return _binary(
        pc.if_else(pa.array(integers), whole, pc.if_else(pa.array(missing), pa.scalar(None, pa.string()), texts))
    )


def _is_integer(numbers: np.ndarray) -> np.ndarray:
    """Which are integers of 64 bits; larger ones are nothing that a column of integers holds."""
    return (np.floor(numbers) == numbers) & (numbers >= -_INT64_LIMIT) & (numbers < _INT64_LIMIT)


def _of_texts(column: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    if not count_others(text_buffers(column)[0]):  # digits alone are themselves
        return column
    odd = pc.match_substring_regex(column, rf"\A(?:{_DECIMAL}|{_WORD})\z")
    odd = pc.and_not(odd, pc.match_substring_regex(column, rf"\A(?:{_CANONICAL})\z"))
    rows = np.flatnonzero(pc.fill_null(odd, False).to_numpy(zero_copy_only=False))
    if not len(rows):
        return column
    mended = _mended(column.take(pa.array(rows)))
    places = np.arange(len(column))
    places[rows] = len(column) + np.arange(len(rows))
    return pa.concat_arrays([column, mended]).take(pa.array(places))


def _mended(texts: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """One spelling of numbers and words that have several."""
    texts = pc.replace_substring_regex(texts, r"\A\+", "")
    integers = pc.match_substring_regex(texts, rf"\A(?:{_INTEGER})\z")
    words = pc.match_substring_regex(texts, r"\A(?i:true|false)\z")
    whole = pc.replace_substring_regex(pc.replace_substring_regex(texts, r"\.0*\z", ""), r"\A-0\z", "0")
    lower = _binary(pc.ascii_lower(texts.view(pa.large_string())))
    neither = pc.invert(pc.or_(integers, words))
    floats = pc.if_else(neither, texts, pa.scalar(None, pa.large_binary())).view(pa.large_string()).cast(pa.float64())
    numbers = _of_floats(floats)
    beyond = pc.and_(pc.is_finite(floats), pc.is_inf(floats.cast(pa.float32(), safe=False)))
    meant = pc.match_substring_regex(texts, r"[nN]")  # Arrow rounds 1e400 to infinity, and what says it has an "n"
    beyond = pc.fill_null(pc.or_(beyond, pc.and_not(pc.is_inf(floats), meant)), False)
    return pc.if_else(integers, whole, pc.if_else(words, lower, pc.if_else(beyond, texts, numbers)))
