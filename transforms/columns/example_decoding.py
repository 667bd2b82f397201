"""Decode serialized tf.train.Examples to Arrow columns and check the kinds of their features."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from shardmill.data.example import EXAMPLE, message_kind
from shardmill.data.features import DType
from shardmill.text import plural
from shardmill.transforms.columns.arrow import Flags, as_text, data_of, distinct_texts, offsets_of, to_batch
from shardmill.transforms.columns.text import key_texts
from shardmill.transforms.columns.types import ColumnType, Inferred, ScalarType, ValuesOf, common_type
from shardmill.transforms.findings import MergeableValue

_FEATURES_TAG = 0x0A  # of field 1, `features` of an Example and `context` of a SequenceExample
_NOTHING = b""  # a schema without features: records are parsed, and no value is copied
KINDS: dict[pa.DataType, DType] = {pa.int64(): "int64", pa.float32(): "float32", pa.large_binary(): "bytes"}
_TYPES: dict[ScalarType, pa.DataType] = {spelled: kind for kind, spelled in KINDS.items()}


@dataclass(frozen=True, slots=True, eq=False)
class DecodedPart:
    """The decoded records[start:stop], in which each feature has one kind."""

    start: int
    stop: int
    features: pa.RecordBatch | None  # None for a single record that is not an Example

    @property
    def columns(self) -> list[tuple[str, pa.Array]]:
        """Return name and values of each feature that has a kind in some record."""
        if self.features is None:
            return []
        columns = zip(self.features.schema.names, self.features.columns)
        return [(name, array) for name, array in columns if not pa.types.is_null(array.type)]

    def column(self, name: str) -> pa.Array:
        """Return the values of a feature; of type null if no record has a kind of it."""
        if self.features is None or name not in self.features.schema.names:
            return pa.nulls(self.stop - self.start)
        return self.features[name]


@lru_cache(maxsize=2)
def _decoder(schema: bytes | None) -> Any:
    # Imported late: it takes half a second, and most commands have no need of it.
    from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

    return ExamplesToRecordBatchDecoder(schema)


def flag_non_examples(records: pa.LargeBinaryArray) -> Flags:
    """Flag the records that are not serialized tf.train.Examples: bool (records,)."""
    return _flag_undecodable(_decode(records.to_pylist(), _NOTHING), len(records))


def find_other_messages(records: pa.LargeBinaryArray) -> dict[int, str]:
    """Return by row the kinds of records, see `message_kind`, that are no Examples although parsers take them for one.

    A SequenceExample has feature lists, an ELWC several Examples, both of which parsers skip. A row that no parser of
    Examples takes may be missing.
    """
    offsets = offsets_of(records)
    codes = data_of(records)
    starts, ends = offsets[:-1], offsets[1:]
    if not len(codes):
        return {}
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
    kinds = {row: message_kind(records[row].as_py()) for row in suspects.tolist()}
    return {row: kind for row, kind in kinds.items() if kind != EXAMPLE}


def _flag_undecodable(parts: Iterable[DecodedPart], rows: int) -> Flags:
    bad = np.zeros(rows, bool)
    for part in parts:
        bad[part.start : part.stop] = part.features is None
    return bad


def decode_parts(records: pa.LargeBinaryArray) -> list[DecodedPart]:
    """Decode serialized tf.train.Examples in the largest parts in which each feature has one kind."""
    return list(_decode(records.to_pylist(), None))


def decode_examples(records: pa.LargeBinaryArray) -> tuple[pa.RecordBatch, Flags]:
    """Decode serialized tf.train.Examples as `merge_parts` does; flag records that are none, whose rows are null."""
    parts = decode_parts(records)
    return merge_parts(parts, len(records)), _flag_undecodable(parts, len(records))


def merge_parts(parts: Sequence[DecodedPart], rows: int) -> pa.RecordBatch:
    """Return a column for each feature of `rows` records, null where a record lacks it or it has no kind.

    If a feature has several kinds, the widest one holds all values: integers become floats, and numbers mixed with
    bytes are written as JSON. Lists without a value do not count if other records have values. A feature without a kind
    in any record has no column.
    """
    kinds = _widest_kinds(parts, with_values=False) | _widest_kinds(parts, with_values=True)
    arrays = {name: _merge_column(name, kinds[name], parts) for name in sorted(kinds)}
    return to_batch(arrays, rows)


def feature_key_texts(parts: Sequence[DecodedPart], name: str) -> pa.LargeBinaryArray:
    """Return the key texts (see transforms.columns.text) of a feature of all records, null where a record lacks it.

    Each part is converted on its own, because the wider kind of another record would change a key.
    """
    return pa.concat_arrays([pa.array([], pa.large_binary()), *(key_texts(part.column(name)) for part in parts)])


def infer_examples(
    features: pa.RecordBatch, columns: Iterable[str] | None = None, values_of: Sequence[ValuesOf] = ()
) -> Inferred:
    """Infer the types of the columns that `decode_examples` returns; a scalar has one value wherever it is present."""
    wanted = set(features.schema.names if columns is None else columns)
    present = [(name, array) for name, array in zip(features.schema.names, features.columns) if name in wanted]
    types = {name: _column_type(array) for name, array in present if array.null_count < len(array)}
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
    """Decode records in the largest batches that the decoder accepts: of Examples whose features have one kind each."""
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


def _widest_kinds(parts: Sequence[DecodedPart], with_values: bool) -> dict[str, ScalarType]:
    kinds: dict[str, ScalarType] = {}
    for part in parts:
        for name, array in part.columns:
            if len(array.values) or not with_values:
                kind = KINDS[array.type.value_type]
                kinds[name] = common_type(kinds.get(name, kind), kind)
    return kinds


def _merge_column(name: str, kind: ScalarType, parts: Sequence[DecodedPart]) -> pa.LargeListArray:
    arrays = [_widen(part.column(name), kind) for part in parts]
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _widen(array: pa.LargeListArray, kind: ScalarType) -> pa.LargeListArray:
    """Return the lists with their values cast to `kind`; nulls of a column without a kind."""
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.large_list(_TYPES[kind]))
    if array.type.value_type == _TYPES[kind]:
        return array
    if kind == "bytes":
        values = pa.array([as_text(value).encode() for value in array.values.to_pylist()], _TYPES[kind])
    else:
        values = array.values.cast(_TYPES[kind], safe=False)
    return pa.LargeListArray.from_arrays(array.offsets, values, mask=array.is_null() if array.null_count else None)


_MIXED_SHOWN = 3  # features, of those of several kinds


@dataclass(frozen=True, slots=True)
class KindCount(MergeableValue):
    """The records in which a feature has one kind."""

    records: int  # number of records
    first_record: tuple[str, int]  # file and record number of the first one


Kinds = Mapping[str, Mapping[DType, KindCount]]  # by feature


def count_kinds(parts: Iterable[DecodedPart], files: pa.Array, numbers: np.ndarray) -> Kinds:
    """Count the kinds of each feature in records, given the file of each and its number in that file."""
    rank = _ranks(files, numbers)
    kinds: dict[str, dict[DType, KindCount]] = {}
    for part in parts:
        for name, kind, there in _columns(part):
            first = int(there[rank[there].argmin()])
            count = KindCount(len(there), (files[first].as_py(), int(numbers[first])))
            held = kinds.setdefault(name, {})
            held[kind] = held[kind].merge(count) if kind in held else count
    return kinds


def most_frequent_kinds(kinds: Kinds) -> dict[str, DType]:
    """Return each feature's kind in most records; of equally frequent kinds, the first by name."""
    return {name: min(count, key=lambda kind: (-count[kind].records, kind)) for name, count in kinds.items()}


def kind_misfits(parts: Iterable[DecodedPart], wanted: Mapping[str, DType]) -> dict[int, str]:
    """Return the reason for each row whose features do not have the kinds `wanted`; a feature without a kind fits.

    TensorFlow's parsers refuse a record whose list is of another kind than in the schema, even if the list is empty.
    They treat a feature without a kind as missing.
    """
    problems: dict[int, str] = {}
    for part in parts:
        for name, kind, there in _columns(part):
            if wanted.get(name, kind) != kind:
                for row in there.tolist():
                    problems.setdefault(row, f"feature {name!r} holds {kind}; expected {wanted[name]}")
    return problems


def describe_mixed_kinds(kinds: Kinds) -> str:
    """Describe the features that have several kinds; "" if there are none."""
    mixed = [_describe_kinds(name, held) for name, held in sorted(kinds.items()) if len(held) > 1]
    more = len(mixed) - _MIXED_SHOWN
    left_out = [f"and {plural(more, 'more feature')}"] if more > 0 else []
    return "; ".join([*mixed[:_MIXED_SHOWN], *left_out])


def _describe_kinds(name: str, kinds: Mapping[DType, KindCount]) -> str:
    ordered = sorted(kinds.items(), key=lambda item: (-item[1].records, item[0]))
    parts = [
        f"{kind} in {plural(held.records, 'record')} (first: record {held.first_record[1]:,} of {held.first_record[0]})"
        for kind, held in ordered
    ]
    return f"feature {name!r} is {', '.join(parts[:-1])} and {parts[-1]}"


def _columns(part: DecodedPart) -> Iterator[tuple[str, DType, np.ndarray]]:
    for name, array in part.columns:
        rows = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
        if len(rows):
            yield name, KINDS[array.type.value_type], part.start + rows


def _ranks(files: pa.Array, numbers: np.ndarray) -> np.ndarray:
    encoded = files if pa.types.is_dictionary(files.type) else files.dictionary_encode()
    names: Sequence[str] = encoded.dictionary.to_pylist()
    index = {name: rank for rank, name in enumerate(sorted(set(names)))}
    order = np.lexsort((numbers, np.array([index[name] for name in names], np.int64)[encoded.indices.to_numpy()]))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
