"""Serialized tf.train.Examples as Arrow columns, decoded by tfx_bsl in C++, whatever kinds their features are."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardmill.features.feature import DType
from shardmill.records.example import is_sequence_example
from shardmill.transforms.columns.arrow import as_text, distinct_texts, to_batch
from shardmill.transforms.columns.buffers import data_of, offsets_of
from shardmill.transforms.columns.inferred import Inferred, ValuesOf
from shardmill.transforms.columns.key_texts import key_texts
from shardmill.transforms.columns.types import ColumnType, Spelled, widest

_FEATURES_TAG = 0x0A  # of field 1, `features` of an Example and `context` of a SequenceExample
_NOTHING = b""  # a schema without features: records are parsed, and no value is copied
KINDS: dict[pa.DataType, DType] = {pa.int64(): "int64", pa.float32(): "float32", pa.large_binary(): "bytes"}
_TYPES: dict[Spelled, pa.DataType] = {spelled: kind for kind, spelled in KINDS.items()}


@dataclass(frozen=True, slots=True, eq=False)
class DecodedPart:
    """records[start:stop], decoded, each feature of one kind; one that is no Example is a part of its own, without
    features."""

    start: int
    stop: int
    features: pa.RecordBatch | None


@lru_cache(maxsize=2)
def _decoder(schema: bytes | None) -> Any:
    # Imported late: it takes half a second, and most commands have no need of it.
    from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

    return ExamplesToRecordBatchDecoder(schema)


def not_examples(records: pa.LargeBinaryArray) -> npt.NDArray[np.bool_]:
    """Which records are no serialized tf.train.Examples: shape (records,)."""
    return _refused(_decode(records.to_pylist(), _NOTHING), len(records))


def sequence_examples(records: pa.LargeBinaryArray) -> npt.NDArray[np.bool_]:
    """Which records, none of them null, are tf.train.SequenceExamples, whose feature lists every parser of Examples
    passes over."""
    offsets = offsets_of(records)
    codes = data_of(records)
    starts, ends = offsets[:-1], offsets[1:]
    if not len(codes):
        return np.zeros(len(records), bool)
    # An Example is field 1 and nothing else: a tag, a varint, and as many bytes as it says.
    size, width = np.zeros(len(records), np.int64), np.zeros(len(records), np.int64)
    going = (starts < ends) & (codes[np.minimum(starts, len(codes) - 1)] == _FEATURES_TAG)
    for byte in range(5):
        going &= starts + 1 + byte < ends
        code = codes[np.where(going, starts + 1 + byte, 0)]
        size += np.where(going, (code & 0x7F).astype(np.int64) << (7 * byte), 0)
        width += going
        going &= code >= 0x80
    suspects = np.flatnonzero((starts < ends) & (starts + 1 + width + size != ends))
    found = np.zeros(len(records), bool)
    for row in suspects.tolist():
        found[row] = is_sequence_example(records[row].as_py())
    return found


def _refused(parts: Iterable[DecodedPart], rows: int) -> npt.NDArray[np.bool_]:
    bad = np.zeros(rows, bool)
    for part in parts:
        bad[part.start : part.stop] = part.features is None
    return bad


def decode_parts(records: pa.LargeBinaryArray) -> list[DecodedPart]:
    """Serialized tf.train.Examples by the largest parts in which each feature is of one kind."""
    return list(_decode(records.to_pylist(), None))


def decode_examples(records: pa.LargeBinaryArray) -> tuple[pa.RecordBatch, npt.NDArray[np.bool_]]:
    """The features of serialized tf.train.Examples; see merge_parts.

    Returns:
      A column for each feature, and which records are no Examples, shape (records,): all nulls.
    """
    parts = decode_parts(records)
    return merge_parts(parts, len(records)), _refused(parts, len(records))


def merge_parts(parts: Sequence[DecodedPart], rows: int) -> pa.RecordBatch:
    """The features of `rows` records in all `parts`.

    Returns:
      A column for each feature, by name: a large_list of int64, float32 or large_binary, null where a record does not
      have the feature or it is of no kind. Of a feature that is of several kinds in different records the widest one
      holds all: integers become floats, and numbers beside bytes are written as JSON; lists without a value have no say
      where others have one. A feature that has no kind in any record is no column.
    """
    kinds = _kinds(parts, with_values=False) | _kinds(parts, with_values=True)
    arrays = {name: _column(name, kinds[name], parts) for name in sorted(kinds)}
    return to_batch(arrays, rows)


def key_feature(parts: Sequence[DecodedPart], name: str) -> pa.LargeBinaryArray:
    """What transforms.columns.key_texts makes of a feature of all records in `parts`, null where one does not have it.

    Made of each part by itself: of what kind a value is depends on its own record, and a wider one would change its
    key.
    """
    texts = [pa.array([], pa.large_binary())]
    for part in parts:
        values = pa.nulls(part.stop - part.start)
        if part.features is not None and name in part.features.schema.names:
            values = part.features[name]
        texts.append(key_texts(values))
    return pa.concat_arrays(texts)


def infer_examples(
    features: pa.RecordBatch, columns: Iterable[str] | None = None, values_of: Sequence[ValuesOf] = ()
) -> Inferred:
    """The types of what `decode_examples` returns; a feature with one value wherever it is present is a scalar.

    Args:
      features: of Examples.
      columns: to look at; None stands for all.
      values_of: the features whose distinct values are collected.
    """
    wanted = set(features.schema.names if columns is None else columns)
    types = {}
    for name, array in zip(features.schema.names, features.columns):
        if name in wanted and array.null_count < len(array):
            types[name] = _column_type(array)
    values = {
        column.name: distinct_texts(features[column.name].flatten(), column.separator)
        for column in values_of
        if column.name in features.schema.names
    }
    return Inferred(types, features.num_rows, values)


def _column_type(array: pa.LargeListArray) -> ColumnType:
    kind = KINDS[array.type.value_type]
    lengths = array.drop_null().value_lengths().to_numpy()
    first = int(lengths[0])
    if (lengths != first).any():
        return ColumnType(kind, -1, len(lengths), empty=int(np.count_nonzero(lengths == 0)))
    return ColumnType(kind, None if first == 1 else first, len(lengths))


def _decode(records: Sequence[bytes], schema: bytes | None, start: int = 0) -> Iterator[DecodedPart]:
    """The records by the largest batches that the decoder takes.

    It refuses a whole batch for one record that is no Example, and for one whose feature is of another kind than in the
    others.
    """
    if not records:
        return
    try:
        yield DecodedPart(start, start + len(records), _decoder(schema).DecodeBatch(records))
    except RuntimeError:
        if len(records) == 1:
            yield DecodedPart(start, start + 1, None)
            return
        middle = len(records) // 2
        yield from _decode(records[:middle], schema, start)
        yield from _decode(records[middle:], schema, start + middle)


def _kinds(parts: Sequence[DecodedPart], with_values: bool) -> dict[str, Spelled]:
    """The widest kind of each feature, of all parts or of those in which it has a value."""
    kinds: dict[str, Spelled] = {}
    for part in parts:
        for name, array in zip(part.features.schema.names, part.features.columns) if part.features is not None else ():
            if not pa.types.is_null(array.type) and (len(array.values) or not with_values):
                kind = KINDS[array.type.value_type]
                kinds[name] = widest(kinds.get(name, kind), kind)
    return kinds


def _column(name: str, kind: Spelled, parts: Sequence[DecodedPart]) -> pa.LargeListArray:
    """One feature of all records."""
    nothing = pa.large_list(_TYPES[kind])
    arrays = []
    for part in parts:
        array = part.features[name] if part.features is not None and name in part.features.schema.names else None
        has_kind = array is not None and not pa.types.is_null(array.type)
        arrays.append(_widened(array, kind) if has_kind else pa.nulls(part.stop - part.start, nothing))
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _widened(array: pa.LargeListArray, kind: Spelled) -> pa.LargeListArray:
    """The same lists with values of `kind`."""
    if array.type.value_type == _TYPES[kind]:
        return array
    if kind == "bytes":
        values = pa.array([as_text(value).encode() for value in array.values.to_pylist()], _TYPES[kind])
    else:
        values = array.values.cast(_TYPES[kind], safe=False)
    return pa.LargeListArray.from_arrays(array.offsets, values, mask=array.is_null() if array.null_count else None)
