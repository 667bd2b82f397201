"""Apply a saved transform graph to examples with TensorFlow."""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from shardmill.addons.transform.graph_process import limit_threads
from shardmill.addons.transform.transform_graph import GraphFailedError
from shardmill.data.features import Feature, Features
from shardmill.metadata import file_names
from shardmill.metadata.schema import from_pbtxt
from shardmill.reading.tensor_specs import to_spec
from shardmill.transforms.stores import storage

limit_threads()

_ERRORS_OF_VALUES = (  # what TensorFlow raises of values; all else is of the machine, and of no row
    tf.errors.InvalidArgumentError,
    tf.errors.OutOfRangeError,
    tf.errors.FailedPreconditionError,
    tf.errors.UnknownError,
)


class SavedGraph:
    """The transform graph of a job, loaded once by a worker. It can be called from any number of threads."""

    def __init__(self, folder: str, features: Features) -> None:
        """Load the graph in `transform_graph/` of `folder`, on any store; raise OSError if it cannot be read.

        `features` are those of transformed examples, in order.
        """
        root = storage.join(folder, file_names.TRANSFORM_GRAPH)
        with tempfile.TemporaryDirectory(prefix="shardmill-transform-") as temporary:
            for name, _ in storage.list_files(root):
                path = Path(temporary, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(storage.read_bytes(storage.join(root, name)))
            self._model = tf.saved_model.load(f"{temporary}/transform_fn")  # which reads vocabularies, and keeps them
            self._spec = to_spec(from_pbtxt(Path(temporary, "metadata/schema.pbtxt").read_text()), {})
        self._features = features

    def __call__(self, records: Sequence[bytes]) -> pa.RecordBatch:
        """Transform serialized raw examples; missing values are null. Raises GraphFailedError if one cannot be."""
        try:
            raw = tf.io.parse_example(tf.constant(np.array(records, object)), self._spec)
            found = self._model.transform_fn(raw)
        except _ERRORS_OF_VALUES as error:
            raise GraphFailedError(_extract_reason(str(error.message))) from None
        columns = [_to_column(found[feature.name], feature, len(records)) for feature in self._features]
        return pa.RecordBatch.from_arrays(columns, [feature.name for feature in self._features])


def _extract_reason(message: str) -> str:
    """Return the line of TensorFlow's message before the failed node; the other lines describe the graph."""
    found = re.search(r"^(.+)\n\s*\[\[", message, re.MULTILINE)
    return found[1].strip() if found else " ".join(message.split())


def _to_column(value: Any, feature: Feature, rows: int) -> pa.Array:
    if not isinstance(value, tf.SparseTensor):
        values, size = _to_flat_array(value), int(np.prod(value.shape[1:], dtype=np.int64))
        if len(value.shape) == 1:
            return values
        return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1) * size, pa.int32()), values)
    counts = np.bincount(value.indices[:, 0].numpy(), minlength=rows)
    ends, values = np.cumsum(counts), _to_flat_array(value.values)
    if feature.shape == ():
        return values.take(pa.array(ends - 1, mask=counts == 0))
    lists = pa.ListArray.from_arrays(pa.array(np.concatenate([[0], ends]), pa.int32()), values)
    if feature.required:
        return lists
    return lists.take(pa.array(np.arange(rows), mask=counts == 0))  # what parses as none has no entry, as in raw ones


def _to_flat_array(value: Any) -> pa.Array:
    array = value.numpy().ravel()
    return pa.array(array, pa.large_binary()) if value.dtype == tf.string else pa.array(array)
