"""Trace and analyze a user's preprocessing_fn with TensorFlow Transform on Beam."""

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import tensorflow as tf
import tensorflow_transform.beam as tft_beam
from absl import logging as absl_logging
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform import impl_helper
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder
from tfx_bsl.tfxio.tensor_adapter import TensorAdapter
from tfx_bsl.tfxio.tf_example_record import TFExampleBeamRecord

from shardmill.addons.transform.graph_process import limit_threads
from shardmill.addons.transform.preprocessing_module import FUNCTION_NAME, PreprocessingModule
from shardmill.errors import UserError

_DTYPES = {tf.int64: "int64", tf.float32: "float32", tf.string: "bytes"}  # that TFT's schemas have

absl_logging.set_verbosity(absl_logging.ERROR)  # TFT warns of keys of a cache that is not used
limit_threads()


def trace_outputs(module: PreprocessingModule, schema: str) -> dict[str, str]:
    """Trace the function and return its outputs' types as text, by name; nothing is analyzed.

    `schema` is the text of a schema.pbtxt of raw examples. Raises UserError if the module or its function is invalid,
    or examples cannot hold an output.
    """
    specs = TensorAdapter(_source(schema).TensorAdapterConfig()).OriginalTypeSpecs()
    with tempfile.TemporaryDirectory(prefix="shardmill-module-") as folder:
        _, _, found = impl_helper.trace_preprocessing_function(module, specs, False, folder)
    return {name: _describe_output(module, name, value) for name, value in found.items()}


def _describe_output(module: PreprocessingModule, name: str, value: Any) -> str:
    def wrong(what: str) -> UserError:
        return UserError(f"--module_file {module.name}: {FUNCTION_NAME} returns {name!r}, which is {what}")

    if not isinstance(value, (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)):
        raise wrong(f"a {type(value).__name__}; expected a tensor")
    if value.dtype not in _DTYPES:
        raise wrong(f"{value.dtype.name}; expected int64, float32 or string: cast it")
    dtype, shape = _DTYPES[value.dtype], value.shape
    if isinstance(value, tf.Tensor):
        if shape.rank is None or shape.rank == 0 or None in shape[1:]:
            raise wrong(f"dense, of the shape {shape}; expected one row an example, whose shape is known")
        return f"{dtype} of the shape {', '.join(map(str, shape[1:]))}" if shape.rank > 1 else dtype
    if isinstance(value, tf.RaggedTensor):
        raise wrong("ragged; give what its to_sparse() makes of it")
    if shape.rank != 2:
        raise wrong(f"sparse, of the shape {shape}; expected a list an example")
    return f"lists of {dtype}"


def analyze(batches: Any, module: PreprocessingModule, schema: str, temporary: str, folder: str) -> Any:
    """Analyze record batches with TFT, and write its `transform_fn/` and `transformed_metadata/` to `folder`.

    `batches` is a PCollection of record batches made by `make_decoder`. It is recomputed for each phase of analyzers,
    so this must be cheap. `temporary` is a folder for TensorFlow's files, also on workers.

    Returns:
        A PCollection of one element, emitted once all is written.

    Raises:
        UserError: if one of the user's own analyzers fails.
    """
    config = _source(schema).TensorAdapterConfig()
    with tft_beam.Context(temp_dir=temporary, use_deep_copy_optimization=True):
        try:
            analyzed = (batches, config) | "Analyze" >> tft_beam.AnalyzeDataset(module)
        except UserError:
            raise
        except Exception as error:  # as an analyzer of the user's own may raise; all that does not is traced before
            cause = error.__cause__ or error
            message = " ".join(f"{type(cause).__name__}: {cause}".split())
            raise UserError(f"--module_file {module.name}: its analyzers cannot be run: {message}") from error
    return analyzed | "WriteTransformFn" >> tft_beam.WriteTransformFn(folder)


def make_decoder(schema: str) -> Callable[[Sequence[bytes]], pa.RecordBatch]:
    """Return a function that decodes serialized raw examples to a record batch."""
    decode: Callable[[Sequence[bytes]], pa.RecordBatch] = ExamplesToRecordBatchDecoder(
        _schema(schema).SerializeToString()
    ).DecodeBatch
    return decode


def _source(schema: str) -> Any:
    return TFExampleBeamRecord("inmem", telemetry_descriptors=["shardmill"], schema=_schema(schema))


def _schema(text: str) -> schema_pb2.Schema:
    return text_format.Parse(text, schema_pb2.Schema())


def digest_graph(files: Mapping[str, bytes]) -> str:
    """Return the SHA-256 of TFT's findings: the numbers in a graph, regardless of order, and its assets.

    The files of the saved model are not hashed as they are, because TensorFlow uses random names in them.
    """
    model = saved_model_pb2.SavedModel.FromString(files["saved_model.pb"])
    digest = hashlib.sha256()
    for number in sorted(_constants(model)):
        digest.update(hashlib.sha256(number).digest())
    for name in sorted(name for name in files if name.startswith("assets/")):
        digest.update(f"{name}\0".encode() + hashlib.sha256(files[name]).digest())
    return digest.hexdigest()


def _constants(model: saved_model_pb2.SavedModel) -> Iterator[bytes]:
    for graph in (meta.graph_def for meta in model.meta_graphs):
        for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
            for node in nodes:
                if node.op == "Const" and node.attr["dtype"].type != tf.string.as_datatype_enum:
                    yield node.attr["value"].SerializeToString(deterministic=True)
