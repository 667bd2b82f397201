"""Decode serialized tf.train.Examples of known features to Arrow record batches."""

import json
import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shardmill.data.example import FeatureValue, decode_example
from shardmill.data.example_columns import ExampleScanner, ScannedBlock
from shardmill.data.feature_kind import element_type, fixed_sizes, has_array_length
from shardmill.data.features import Feature, Features
from shardmill.data.spans import Positions, RecordBlock
from shardmill.reading.plain_examples import ExampleDecoder
from shardmill.transforms.columns.arrow import slices, text_buffers

_LEAVES = {"int64": pa.int64(), "float32": pa.float32(), "bytes": pa.large_binary()}
_HUGGING_FACE = b"huggingface"  # key of metadata in which its datasets keeps names of classes, as Parquet files have it


def batch_schema(features: Features) -> pa.Schema:
    """Return the Arrow schema of examples with these features.

    * Numbers are int64 and float32, `bool` is bool, times are timestamps in UTC, text and files are large_binary.
    * `(n,)` is a fixed-size list, `(None,)` a large_list, and more dimensions are fixed-size lists within.
    * An `array` has its element type; arrays of complex numbers are large_binary.
    * Class labels are ids. The schema's metadata has their names as Hugging Face's datasets stores them.
    """
    fields = [pa.field(feature.name, _arrow_type(feature), not feature.required) for feature in features]
    classes = {
        feature.name: _class_label(feature) for feature in features if feature.class_names and not feature.shape[1:]
    }
    return pa.schema(fields, {_HUGGING_FACE: json.dumps({"info": {"features": classes}})} if classes else None)


def _class_label(feature: Feature) -> dict[str, Any]:
    label = {"names": list(feature.class_names), "_type": "ClassLabel"}
    return {"feature": label, "_type": "LargeList" if None in feature.shape else "List"} if feature.shape else label


def _is_array(feature: Feature) -> bool:
    return feature.is_packed and not feature.element.startswith("complex")


def _arrow_type(feature: Feature) -> pa.DataType:
    kind = _LEAVES[feature.dtype]
    if feature.kind == "bool":
        kind = pa.bool_()
    elif feature.time:
        kind = pa.timestamp(feature.time, "UTC")
    elif _is_array(feature):
        kind = pa.from_numpy_dtype(np.dtype(feature.element))
    for size in reversed(feature.shape if _is_array(feature) else feature.list_shape):
        kind = pa.large_list(kind) if size is None else pa.list_(kind, size)
    return kind


class BatchDecoder:
    """Decode the serialized examples of a block to a record batch of some features."""

    def __init__(self, features: Features, names: Sequence[str] | None = None) -> None:
        """Set up a decoder of the features named in `names`, in the order of `features`; None for all."""
        self._columns = [(column, item) for column, item in enumerate(features) if names is None or item.name in names]
        self._scanner = ExampleScanner(features)
        self._check = ExampleDecoder(features, [item.name for _, item in self._columns])
        self.schema = batch_schema(tuple(item for _, item in self._columns))

    def __call__(self, block: RecordBlock) -> pa.RecordBatch:
        """Return a row for each example.

        Raises:
            RowError: if an example is not as expected, for the first such example.
        """
        scanned = self._scanner.scan(block)
        plain, others = np.flatnonzero(scanned.fits), np.flatnonzero(~scanned.fits)
        for row in others.tolist():
            self._check_row(block, row)
        found = [decode_example(block.record(row)) for row in others.tolist()]
        order = pa.array(np.argsort(np.concatenate([plain, others])))
        arrays = []
        for (column, feature), kind in zip(self._columns, self.schema.types, strict=True):
            try:
                array = _make_array(_scanned_values(scanned, column, feature, plain), feature, kind)
                if found:
                    other = _make_array(_decoded_values(found, feature), feature, kind)
                    array = pa.concat_arrays([array, other]).take(order)
            except ValueError:
                for row in range(len(block)):
                    self._check_row(block, row)
                raise
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _check_row(self, block: RecordBlock, row: int) -> None:
        try:
            self._check(block.record(row))
        except ValueError as error:
            raise RowError(row, str(error)) from error


class RowError(ValueError):
    """An example that is not as expected."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row  # in its block


class _Values(NamedTuple):
    """The values of a feature in some records, one record's after another's."""

    values: np.ndarray | pa.LargeBinaryArray  # int64, float32 or bytes
    counts: Positions  # values in each record that has some
    present: NDArray[np.bool_]  # True for the records that have some


def _scanned_values(scanned: ScannedBlock, column: int, feature: Feature, rows: Positions) -> _Values:
    present = scanned.present[rows, column]
    having = rows[present]
    starts, ends, counts = scanned.places[having, column].T
    if feature.dtype != "bytes":
        return _Values(np.asarray(scanned.values(column, having)), counts, present)
    if feature.list_shape:
        return _Values(pa.array(scanned.values(column, having), pa.large_binary()), counts, present)
    return _Values(slices(scanned.block.data, starts, ends), counts, present)


def _decoded_values(found: Sequence[Mapping[str, FeatureValue]], feature: Feature) -> _Values:
    least = 0 if None in feature.list_shape else 1
    name = feature.name
    present = np.array([name in example and len(example[name]) >= least for example in found])
    lists = [example[name] for example, has_values in zip(found, present, strict=True) if has_values]
    counts = np.array(list(map(len, lists)), np.int64)
    if feature.dtype == "bytes":
        return _Values(pa.array(list(chain.from_iterable(lists)), pa.large_binary()), counts, present)
    return _Values(np.concatenate([np.empty(0, feature.dtype), *lists]), counts, present)


def _make_array(given: _Values, feature: Feature, kind: pa.DataType) -> pa.Array:
    leaves, counts, present = given
    if _is_array(feature):
        data, offsets = text_buffers(leaves)
        sizes = np.diff(offsets)
        if not all(has_array_length(feature, size) for size in np.unique(sizes).tolist()):
            raise ValueError(f"feature {feature.name!r} has arrays of another length")
        leaves, counts = data.view(element_type(feature)), sizes // element_type(feature).itemsize
    if feature.kind == "bool" and not np.isin(leaves, (0, 1)).all():
        raise ValueError(f"feature {feature.name!r} has other values than 0 and 1; expected booleans")
    lists = []
    while pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind):
        lists.append(kind)
        kind = kind.value_type
    array = leaves if isinstance(leaves, pa.Array) else pa.array(leaves).cast(kind)
    for list_kind in reversed(lists):
        if pa.types.is_fixed_size_list(list_kind):
            array = pa.FixedSizeListArray.from_arrays(array, list_kind.list_size)
        else:
            offsets = np.zeros(len(counts) + 1, np.int64)
            np.cumsum(counts // math.prod(fixed_sizes(feature)), out=offsets[1:])
            array = pa.LargeListArray.from_arrays(pa.array(offsets), array)
    return array if present.all() else array.take(pa.array(np.cumsum(present) - 1, mask=~present))
