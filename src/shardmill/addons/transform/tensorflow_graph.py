"""Write the transform graph of a declaration with TensorFlow Transform, in a process of its own."""

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

from shardmill.addons.transform import preprocessing_declaration
from shardmill.addons.transform.graph_process import limit_threads
from shardmill.addons.transform.preprocessing_declaration import Chain

JOB = "job.json"
OUTPUT = "transform_graph"
_NUL = "\0"  # separates tokens, as in shardmill.addons.transform.analyzers


def main() -> None:
    """Wait for a line on standard input, read job.json in the working directory, and write the graph next to it."""
    limit_threads()
    if not sys.stdin.readline():  # the parent process needs it no more
        return
    _make_names_deterministic(Path())
    job = json.loads(Path(JOB).read_text())
    schema = text_format.Parse(job["schema"], schema_pb2.Schema())
    chains = [
        Chain(entry["input"], tuple(map(preprocessing_declaration.step_from_json, entry["steps"])), entry["output"])
        for entry in job["outputs"]
    ]
    write_graph(schema, chains, job["constants"], OUTPUT)


def _make_names_deterministic(folder: Path) -> None:
    """Make uuid4, by which TensorFlow names tables, return the same names for the same job.

    Other jobs get other names: in a process that loads two graphs, tables of the same name are one table.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    space, number = uuid.UUID(bytes=digest.digest()[:16]), itertools.count()
    setattr(uuid, "uuid4", lambda: uuid.uuid5(space, str(next(number))))  # noqa: B010  # mypy knows it as a function


def write_graph(
    schema: schema_pb2.Schema, chains: list[Chain], constants: Mapping[str, Mapping[str, Any]], output: str
) -> None:
    """Write the folder `output` as TFT does; `schema` is that of raw examples, and names their features.

    Constants are by output; of a vocabulary its file name, `file`, and its number of `entries`. `output` is relative to
    the folder with the vocabularies, so that the graph holds no other path.
    """

    def preprocessing_fn(inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {
            chain.name: _apply_chain(inputs[chain.feature], chain, constants.get(chain.name, {})) for chain in chains
        }

    specs = schema_utils.schema_as_feature_spec(schema).feature_spec
    used = {chain.feature for chain in chains}
    specs = {name: spec for name, spec in specs.items() if name in used}
    types = impl_helper.get_type_specs_from_feature_specs(specs)
    impl_helper.analyze_in_place(preprocessing_fn, False, specs, types, output)
    for proto in [proto for proto in schema.feature if proto.name not in used]:
        schema.feature.remove(proto)
    metadata_io.write_metadata(dataset_metadata.DatasetMetadata(schema), f"{output}/metadata")
    _sort_saved_model(Path(output) / "transform_fn")


def _sort_saved_model(folder: Path) -> None:
    """Sort the saved model by names: TensorFlow writes nodes in the order of a set, which depends on memory addresses.

    The order of nodes and functions has no meaning to TensorFlow. The fingerprint is recomputed, with a UUID made from
    the bytes.
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


def _apply_chain(value: Any, chain: Chain, constants: Mapping[str, Any]) -> Any:
    ids = constants.get("classes", 0)
    for step in chain.effective_steps:
        value, ids = _apply_step(value, step, constants, ids)
    return value if chain.steps else _map_values(value, tf.identity)


def _apply_step(
    value: Any, step: preprocessing_declaration.Step, constants: Mapping[str, Any], ids: int
) -> tuple[Any, int]:
    """Return `value` after a step, and the number of ids that it can be, 0 if it is no id."""
    if isinstance(step, preprocessing_declaration.Fill):
        dtype: Any = {tf.string: "bytes", tf.int64: "int64"}.get(value.dtype, "float32")
        return _to_dense(value, step.parse_value(dtype)), ids
    if isinstance(step, preprocessing_declaration.Lower):
        return _map_values(value, tf.strings.lower), 0
    if isinstance(step, preprocessing_declaration.Tokenize):
        return _tokens(_to_dense(value, b""), step.pattern), 0
    if isinstance(step, preprocessing_declaration.Log1p):
        return _map_values(_to_floats(value), _log1p), 0
    if isinstance(step, preprocessing_declaration.ZScore):
        mean, deviation = tf.constant(constants["mean"], tf.float32), tf.constant(constants["std_dev"], tf.float32)
        return _map_values(_to_floats(value), lambda x: (x - mean) / deviation), 0
    if isinstance(step, preprocessing_declaration.MinMax):
        return _map_values(_to_floats(value), _make_scaler(step, constants)), 0
    if isinstance(step, preprocessing_declaration.Buckets | preprocessing_declaration.Bucketize):
        boundaries = step.boundaries if isinstance(step, preprocessing_declaration.Buckets) else constants["boundaries"]
        return tft.apply_buckets(_to_floats(value), tf.constant([list(boundaries)], tf.float32)), len(boundaries) + 1
    if isinstance(step, preprocessing_declaration.Vocabulary):
        return _apply_vocabulary(value, step, constants), constants["entries"] + step.num_oov_buckets
    if isinstance(step, preprocessing_declaration.Hash):
        return tft.hash_strings(value, step.hash_buckets), step.hash_buckets
    return tf.one_hot(_to_dense(value, -1), ids), 0


def _log1p(value: Any) -> Any:
    """Compute in float64 and round once, like the analyzers: then digits do not depend on the place in a batch."""
    return tf.cast(tf.math.log1p(tf.cast(value, tf.float64)), tf.float32)


def _make_scaler(step: preprocessing_declaration.MinMax, constants: Mapping[str, Any]) -> Callable[[Any], Any]:
    least, greatest = tf.constant(constants["minimum"], tf.float32), tf.constant(constants["maximum"], tf.float32)
    return lambda x: (x - least) / (greatest - least) * (step.high - step.low) + step.low


def _apply_vocabulary(value: Any, step: preprocessing_declaration.Vocabulary, constants: Mapping[str, Any]) -> Any:
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


def _map_values(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, tf.SparseTensor):
        return tf.SparseTensor(value.indices, function(value.values), value.dense_shape)
    return function(value)


def _to_floats(value: Any) -> Any:
    return _map_values(value, lambda x: tf.cast(x, tf.float32))


def _to_dense(value: Any, default: Any) -> Any:
    if not isinstance(value, tf.SparseTensor):
        return value
    column = tf.SparseTensor(value.indices, value.values, [value.dense_shape[0], 1])
    return tf.squeeze(tf.sparse.to_dense(column, tf.constant(default, value.dtype)), 1)


if __name__ == "__main__":
    main()
