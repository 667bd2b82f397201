"""A user's `preprocessing_fn`, traced and analyzed by TensorFlow Transform: the one module that imports its Beam half.

Imported by the launcher, which builds the graph of the job, and by its workers; only where --module_file is given.
"""

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

from shardmill.errors import UserError
from shardmill.transforms.preprocessing.module import FUNCTION, PreprocessingModule
from shardmill.transforms.preprocessing.tensorflow_threads import one_thread_each

_DTYPES = {tf.int64: "int64", tf.float32: "float32", tf.string: "bytes"}  # that TFT's schemas have

absl_logging.set_verbosity(absl_logging.ERROR)  # TFT warns of keys of a cache that is not used
one_thread_each()


def outputs_of(module: PreprocessingModule, schema: str) -> dict[str, str]:
    """What the function returns of examples, in words by name; nothing is analyzed.

    Args:
      module: whose function it is.
      schema: of raw examples, the text of a schema.pbtxt.

    Raises:
      UserError: the module or its function does not do, or examples could not hold what it returns.
    """
    specs = TensorAdapter(_source(schema).TensorAdapterConfig()).OriginalTypeSpecs()
    with tempfile.TemporaryDirectory(prefix="shardmill-module-") as folder:
        _, _, found = impl_helper.trace_preprocessing_function(module, specs, False, folder)
    return {name: _words(module, name, value) for name, value in found.items()}


def _words(module: PreprocessingModule, name: str, value: Any) -> str:
    def wrong(what: str) -> UserError:
        return UserError(f"--module_file {module.name}: {FUNCTION} returns {name!r}, which is {what}")

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
    """Have TFT analyze record batches, and write what it finds to `folder` as it does: `transform_fn/` and
    `transformed_metadata/`.

    Args:
      batches: a PCollection of record batches, as `decoder` makes them; cheap to be made again, for each phase of
        analyzers does.
      module: whose function it is.
      schema: of raw examples.
      temporary: a folder that TensorFlow writes to, on workers too.
      folder: another.

    Returns:
      A PCollection of one element, once all is written.

    Raises:
      UserError: an analyzer of the user's own does not do.
    """
    config = _source(schema).TensorAdapterConfig()
    with tft_beam.Context(temp_dir=temporary, use_deep_copy_optimization=True):
        try:
            analyzed = (batches, config) | "Analyze" >> tft_beam.AnalyzeDataset(module)
        except UserError:
            raise
        except Exception as error:  # as an analyzer of the user's own may raise; all that does not is traced before
            cause = error.__cause__ or error
            said = " ".join(f"{type(cause).__name__}: {cause}".split())
            raise UserError(f"--module_file {module.name}: its analyzers cannot be run: {said}") from error
    return analyzed | "WriteTransformFn" >> tft_beam.WriteTransformFn(folder)


def decoder(schema: str) -> Callable[[Sequence[bytes]], pa.RecordBatch]:
    """What makes a record batch of serialized raw examples."""
    decode: Callable[[Sequence[bytes]], pa.RecordBatch] = ExamplesToRecordBatchDecoder(
        _schema(schema).SerializeToString()
    ).DecodeBatch
    return decode


def _source(schema: str) -> Any:
    return TFExampleBeamRecord("inmem", telemetry_descriptors=["shardmill"], schema=_schema(schema))


def _schema(text: str) -> schema_pb2.Schema:
    return text_format.Parse(text, schema_pb2.Schema())


def digest_of(files: Mapping[str, bytes]) -> str:
    """The SHA-256 of what was found: the numbers in a graph, in no order, and its assets.

    Not of the files: TensorFlow names what is in them at random.

    Args:
      files: of the saved model, by their names in its folder.
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
