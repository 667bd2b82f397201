"""The values that an analyzer sees: those of a column after the steps before it, as the graph makes them. Pure."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shardmill.features.feature import DType
from shardmill.transforms.columns.arrow_lists import is_list
from shardmill.transforms.preprocessing.declaration import Chain
from shardmill.transforms.preprocessing.steps import Fill, Lower, Step, Tokenize

_BETWEEN = "\0"  # tokens, once what a pattern matches is replaced; the graph does it likewise


def analyzed_values(column: pa.Array, chain: Chain) -> pa.Array:
    """The values of `column`, flat and none of them null, after the steps before the analyzer of `chain`."""
    if is_list(column.type):
        column = column.flatten()
    for step in chain.before:
        column = _after(column, step)
    return column.drop_null() if column.null_count else column


def finite_floats(values: pa.Array) -> NDArray[np.float32]:
    """Numbers as float32, without those that are none or infinite; -0.0 as 0.0."""
    numbers = values.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return numbers[np.isfinite(numbers)] + np.float32(0)


def _after(column: pa.Array, step: Step) -> pa.Array:
    if isinstance(step, Fill):
        return pc.fill_null(column, pa.scalar(step.typed(_dtype(column.type)), column.type))
    if isinstance(step, Lower):
        return pc.ascii_lower(_texts(column)).view(pa.large_binary())
    if isinstance(step, Tokenize):
        return _tokens(_texts(column.drop_null()), step.pattern).view(pa.large_binary())
    # Of float32, as in the graph, but in float64 and rounded once: that gives the same digits on every machine
    with np.errstate(invalid="ignore", divide="ignore"):
        logarithms = np.log1p(column.drop_null().to_numpy(zero_copy_only=False).astype(np.float32).astype(np.float64))
    return pa.array(logarithms.astype(np.float32), pa.float32())


def _tokens(texts: pa.LargeStringArray, pattern: str) -> pa.LargeStringArray:
    if pattern:
        lists = pc.split_pattern(pc.replace_substring_regex(texts, pattern, _BETWEEN), _BETWEEN)
    else:
        lists = pc.ascii_split_whitespace(texts)
    tokens = lists.flatten()
    return tokens.filter(pc.not_equal(pc.binary_length(tokens), 0))


def _texts(column: pa.Array) -> pa.LargeStringArray:
    """Bytes as texts, which they need not be: what looks at them takes them as they are."""
    return column.cast(pa.large_binary()).view(pa.large_string())


def _dtype(kind: pa.DataType) -> DType:
    return "int64" if pa.types.is_integer(kind) else "float32" if pa.types.is_floating(kind) else "bytes"
