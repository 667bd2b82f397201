"""The one module that imports TensorFlow Transform: a declaration and its constants to the folder that TFT writes.

`transforms.preprocessing.graph_process` runs it as a process of its own, in a folder that holds job.json and the
vocabularies: functions of a graph are numbered by process, so that only a fresh one numbers them alike, and no worker
keeps the memory of TensorFlow. It looks at no data.
"""

import hashlib
import itertools
import json
import sys
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
from google.protobuf import text_format
from tensorflow.core.protobuf import fingerprint_pb2, saved_model_pb2
from tensorflow.python.saved_model.pywrap_saved_model import fingerprinting
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform import annotators, impl_helper
from tensorflow_transform.tf_metadata import dataset_metadata, metadata_io, schema_utils

from shardmill.transforms.preprocessing import steps
from shardmill.transforms.preprocessing.declaration import Chain
from shardmill.transforms.preprocessing.tensorflow_threads import one_thread_each

JOB = "job.json"
OUTPUT = "transform_graph"
_NUL = "\0"  # stands between tokens, as in shardmill.transforms.preprocessing.values


def main() -> None:
    """Wait for a line, read the job of the folder that this process runs in, and write the graph beside it."""
    one_thread_each()
    if not sys.stdin.readline():  # whoever began this process needs it no more
        return
    _name_by_content(Path())
    job = json.loads(Path(JOB).read_text())
    schema = text_format.Parse(job["schema"], schema_pb2.Schema())
    chains = [
        Chain(entry["input"], tuple(map(steps.step_of, entry["steps"])), entry["output"]) for entry in job["outputs"]
    ]
    write(schema, chains, job["constants"], OUTPUT)


def _name_by_content(folder: Path) -> None:
    """Let this process draw the same names for the same job: TensorFlow names tables by uuid4.

    Of another job they are others: tables of one name are one table to a process that loads two graphs.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    space, number = uuid.UUID(bytes=digest.digest()[:16]), itertools.count()
    setattr(uuid, "uuid4", lambda: uuid.uuid5(space, str(next(number))))  # noqa: B010  # mypy knows it as a function


def write(
    schema: schema_pb2.Schema, chains: list[Chain], constants: Mapping[str, Mapping[str, Any]], output: str
) -> None:
    """Write the folder `output` as TFT does.

    Args:
      schema: of raw examples.
      chains: whose `feature` is the name in `schema`.
      constants: by output; of a vocabulary the name of its file, `file`, and how many `entries` it has.
      output: relative to the folder that holds the vocabularies, so that the graph knows no other.
    """

    def preprocessing_fn(inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {chain.name: _output(inputs[chain.feature], chain, constants.get(chain.name, {})) for chain in chains}

    specs = schema_utils.schema_as_feature_spec(schema).feature_spec
    used = {chain.feature for chain in chains}
    specs = {name: spec for name, spec in specs.items() if name in used}
    types = impl_helper.get_type_specs_from_feature_specs(specs)
    impl_helper.analyze_in_place(preprocessing_fn, False, specs, types, output)
    for proto in [proto for proto in schema.feature if proto.name not in used]:
        schema.feature.remove(proto)
    metadata_io.write_metadata(dataset_metadata.DatasetMetadata(schema), f"{output}/metadata")
    _settle(Path(output) / "transform_fn")


def _settle(folder: Path) -> None:
    """Give the saved model the order of its names: it comes in that of a set, by where objects lie in memory.

    Neither nodes nor functions are of any order to TensorFlow. The fingerprint follows, with a name made of the bytes.
    """
    path = folder / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for graph in (meta.graph_def for meta in model.meta_graphs):
        graph.node.sort(key=lambda node: node.name)
        graph.library.function.sort(key=lambda function: function.signature.name)
        for function in graph.library.function:
            function.node_def.sort(key=lambda node: node.name)
    path.write_bytes(model.SerializeToString(deterministic=True))
    found = fingerprint_pb2.FingerprintDef.FromString(fingerprinting.CreateFingerprintDef(str(folder).encode()))
    found.uuid = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{found.saved_model_checksum:x}"))
    (folder / "fingerprint.pb").write_bytes(found.SerializeToString(deterministic=True))


def _output(value: Any, chain: Chain, constants: Mapping[str, Any]) -> Any:
    ids = constants.get("classes", 0)
    for step in chain.taken:
        value, ids = _after(value, step, constants, ids)
    return value if chain.steps else _mapped(value, tf.identity)


def _after(value: Any, step: steps.Step, constants: Mapping[str, Any], ids: int) -> tuple[Any, int]:
    """`value` after a step, and how many ids it can be, 0 where it is none."""
    if isinstance(step, steps.Fill):
        return _dense(value, step.typed(_dtype(value))), ids
    if isinstance(step, steps.Lower):
        return _mapped(value, tf.strings.lower), 0
    if isinstance(step, steps.Tokenize):
        return _tokens(_dense(value, b""), step.pattern), 0
    if isinstance(step, steps.Log1p):
        return _mapped(_floats(value), _log1p), 0
    if isinstance(step, steps.ZScore):
        mean, deviation = tf.constant(constants["mean"], tf.float32), tf.constant(constants["std_dev"], tf.float32)
        return _mapped(_floats(value), lambda x: (x - mean) / deviation), 0
    if isinstance(step, steps.MinMax):
        return _mapped(_floats(value), _scaled(step, constants)), 0
    if isinstance(step, steps.Buckets | steps.Bucketize):
        boundaries = step.boundaries if isinstance(step, steps.Buckets) else constants["boundaries"]
        return tft.apply_buckets(_floats(value), tf.constant([list(boundaries)], tf.float32)), len(boundaries) + 1
    if isinstance(step, steps.Vocabulary):
        return _looked_up(value, step, constants), constants["entries"] + step.num_oov_buckets
    if isinstance(step, steps.Hash):
        return tft.hash_strings(value, step.hash_buckets), step.hash_buckets
    return tf.one_hot(_dense(value, -1), ids), 0


def _log1p(value: Any) -> Any:
    """In float64 and rounded once, as in transforms.preprocessing.values: the same digits wherever it stands in a
    batch."""
    return tf.cast(tf.math.log1p(tf.cast(value, tf.float64)), tf.float32)


def _scaled(step: steps.MinMax, constants: Mapping[str, Any]) -> Callable[[Any], Any]:
    least, greatest = tf.constant(constants["minimum"], tf.float32), tf.constant(constants["maximum"], tf.float32)
    return lambda x: (x - least) / (greatest - least) * (step.high - step.low) + step.low


def _looked_up(value: Any, step: steps.Vocabulary, constants: Mapping[str, Any]) -> Any:
    file = constants["file"]
    annotators.annotate_asset(file, file)
    annotators.annotate_vocab_size(file, tf.constant(constants["entries"], tf.int64))
    return tft.apply_vocabulary(  # of a name, not of a tensor: the table is then read once, as the graph is loaded
        value, file, default_value=step.default_value, num_oov_buckets=step.num_oov_buckets
    )


def _tokens(texts: Any, pattern: str) -> Any:
    if not pattern:
        return tf.strings.split(texts).to_sparse()
    tokens = tf.strings.split(tf.strings.regex_replace(texts, pattern, _NUL), _NUL)
    return tf.ragged.boolean_mask(tokens, tf.not_equal(tokens, "")).to_sparse()


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """`function` of the values there are."""
    if isinstance(value, tf.SparseTensor):
        return tf.SparseTensor(value.indices, function(value.values), value.dense_shape)
    return function(value)


def _floats(value: Any) -> Any:
    return _mapped(value, lambda x: tf.cast(x, tf.float32))


def _dense(value: Any, default: Any) -> Any:
    """One value an example: `default` where it has none."""
    if not isinstance(value, tf.SparseTensor):
        return value
    column = tf.SparseTensor(value.indices, value.values, [value.dense_shape[0], 1])
    return tf.squeeze(tf.sparse.to_dense(column, tf.constant(default, value.dtype)), 1)


def _dtype(value: Any) -> Any:
    return {tf.string: "bytes", tf.int64: "int64"}.get(value.dtype, "float32")


if __name__ == "__main__":
    main()
