"""A saved transform graph applied to examples: with `tensorflow_graph` one of the two modules that import TensorFlow,
and only workers that write transformed examples import it."""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from shardmill.features.feature import Feature, Features
from shardmill.metadata import naming
from shardmill.metadata.schema import from_pbtxt
from shardmill.tensors.parsing_spec import to_spec
from shardmill.transforms.preprocessing.materialize import GraphFailedError
from shardmill.transforms.preprocessing.tensorflow_threads import one_thread_each
from shardmill.transforms.stores import storage

one_thread_each()

_OF_A_ROW = (  # what TensorFlow raises of values; all else is of the machine, and of no row
    tf.errors.InvalidArgumentError,
    tf.errors.OutOfRangeError,
    tf.errors.FailedPreconditionError,
    tf.errors.UnknownError,
)


class SavedGraph:
    """The graph of a job, loaded once by a worker; any number of threads may call it."""

    def __init__(self, folder: str, features: Features) -> None:
        """Args:

        folder: that holds `transform_graph/`, on any store.
        features: of transformed examples, in their order.

        Raises:
          OSError: it cannot be read.
        """
        root = storage.join(folder, naming.TRANSFORM_GRAPH)
        with tempfile.TemporaryDirectory(prefix="shardmill-transform-") as temporary:
            for name, _ in storage.list_files(root):
                path = Path(temporary, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(storage.read_bytes(storage.join(root, name)))
            self._model = tf.saved_model.load(f"{temporary}/transform_fn")  # which reads vocabularies, and keeps them
            self._spec = to_spec(from_pbtxt(Path(temporary, "metadata/schema.pbtxt").read_text()), {})
        self._features = features

    def __call__(self, records: Sequence[bytes]) -> pa.RecordBatch:
        """Serialized raw examples, transformed; a null where one has no value.

        Raises:
          GraphFailedError: the graph does not take one of them.
        """
        try:
            raw = tf.io.parse_example(tf.constant(np.array(records, object)), self._spec)
            found = self._model.transform_fn(raw)
        except _OF_A_ROW as error:
            raise GraphFailedError(_why(str(error.message))) from None
        columns = [_column(found[feature.name], feature, len(records)) for feature in self._features]
        return pa.RecordBatch.from_arrays(columns, [feature.name for feature in self._features])


def _why(message: str) -> str:
    """The line that says it, which stands before that which names the node; what is around it is of the graph."""
    found = re.search(r"^(.+)\n\s*\[\[", message, re.MULTILINE)
    return found[1].strip() if found else " ".join(message.split())


def _column(value: Any, feature: Feature, rows: int) -> pa.Array:
    if not isinstance(value, tf.SparseTensor):
        values, size = _flat(value), int(np.prod(value.shape[1:], dtype=np.int64))
        if len(value.shape) == 1:
            return values
        return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1) * size, pa.int32()), values)
    counts = np.bincount(value.indices[:, 0].numpy(), minlength=rows)
    ends, values = np.cumsum(counts), _flat(value.values)
    if feature.shape == ():
        return values.take(pa.array(ends - 1, mask=counts == 0))
    lists = pa.ListArray.from_arrays(pa.array(np.concatenate([[0], ends]), pa.int32()), values)
    if feature.required:
        return lists
    return lists.take(pa.array(np.arange(rows), mask=counts == 0))  # what parses as none has no entry, as in raw ones


def _flat(value: Any) -> pa.Array:
    array = value.numpy().ravel()
    return pa.array(array, pa.large_binary()) if value.dtype == tf.string else pa.array(array)
