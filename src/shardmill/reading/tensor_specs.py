"""Parsing specs, tensor shapes and the preprocessing graph of a dataset."""

import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shardmill.data.feature_kind import fixed_sizes
from shardmill.data.features import Feature, Features
from shardmill.data.kinds import kind_of
from shardmill.errors import CorruptDataError, UserError
from shardmill.filesystem import Files, Paths
from shardmill.installed import tf
from shardmill.metadata import file_names
from shardmill.metadata.manifest import Manifest
from shardmill.metadata.tfds_metadata import TransformedOutput, TransformFile
from shardmill.reading.dataset import Dataset, check_is_parsed, find_features, has_tensorflow_files, open_for_reading
from shardmill.reading.plain_examples import check_defaults


def feature_spec(
    directory: Paths,
    *,
    features: Sequence[str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    version: str | None = None,
    files: Files | None = None,
) -> dict[str, Any]:
    """Return the features of a dataset for `tf.io.parse_example` and
    `tf.data.experimental.make_batched_features_dataset`.

    The spec equals the one that TensorFlow Transform derives from the dataset's schema.pbtxt. A feature with the same
    number of values in every example is a FixedLenFeature. All others, including boxes, are a VarLenFeature, read as a
    flat sparse tensor. An array is one string, for `tf.io.decode_raw`.

    Args:
        directory, version, files: as for `shardmill.load`.
        features: names of the features; None for all.
        defaults: values that replace missing ones, by name; such a feature becomes a FixedLenFeature.

    Raises:
        UserError: if the dataset or a feature does not exist, or a default does not fit its feature.
        CorruptDataError: if the manifest cannot be read.
    """
    manifest = open_for_reading(directory, files, version).manifest
    check_is_parsed(manifest)
    chosen = manifest.features if features is None else find_features(manifest, features)
    return to_spec(chosen, check_defaults(chosen, defaults or {}, manifest.features))


def to_spec(features: Features, defaults: Mapping[str, Any], ragged: bool = False) -> dict[str, Any]:
    """Return the spec of `features`; lists of any length are flat tensors, sparse or `ragged`."""
    return {feature.name: _make_spec(feature, defaults.get(feature.name), ragged) for feature in features}


def _make_spec(feature: Feature, default: Any, ragged: bool) -> Any:
    dtype = tf.string if feature.dtype == "bytes" else tf.dtypes.as_dtype(feature.dtype)
    if feature.is_dense or (default is not None and None not in feature.shape):
        stored = None if default is None else kind_of(feature).to_value_list(feature, default)
        return tf.io.FixedLenFeature(feature.list_shape, dtype, stored)
    return tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64) if ragged else tf.io.VarLenFeature(dtype)


Tensors = dict[str, Any]


def shape_values(features: Features, parsed: Tensors) -> Tensors:
    """Convert a batch parsed with `to_spec(features, …, ragged=True)` to the features' shapes and types.

    An array becomes (batch, *shape). A list of shape `(None, 4)` becomes a ragged tensor (batch, None, 4), whose only
    ragged dimension is the second.

    Raises:
        tf.errors.InvalidArgumentError: at run time, if an array's bytes or a list of boxes have a wrong length; the
            message names the feature.
    """
    return {feature.name: _shape_feature(feature, parsed[feature.name]) for feature in features}


def _shape_feature(feature: Feature, values: Any) -> Any:
    if feature.list_shape[:1] == (None,) and len(feature.list_shape) > 1:
        values = _reshape_rows(feature, values)
    return kind_of(feature).to_tensor(feature, values)


def _reshape_rows(feature: Feature, values: Any) -> Any:
    sizes = fixed_sizes(feature)
    count = tf.constant(math.prod(sizes), tf.int64)
    message = (
        f"feature {feature.name!r} of shape {feature.shape} has a number of values that is no multiple of"
        f" {math.prod(sizes)}"
    )
    with tf.control_dependencies(
        [tf.debugging.assert_equal(values.row_lengths() % count, tf.zeros((), tf.int64), message)]
    ):
        rows = tf.reshape(values.flat_values, (-1, *sizes))
    return tf.RaggedTensor.from_row_splits(rows, values.row_splits // count, validate=False)


_RAW = f"{file_names.TRANSFORM_GRAPH}/metadata/schema.pbtxt"
_TRANSFORMED = f"{file_names.TRANSFORM_GRAPH}/transformed_metadata/schema.pbtxt"
_DECODED = ("image", "mask")  # kinds that are decoded after the graph, which leaves them as they are
_MODEL = f"{file_names.TRANSFORM_GRAPH}/transform_fn"


class TransformGraph:
    """A loaded transform graph."""

    def __init__(self, dataset: Dataset) -> None:
        """Load the graph of `dataset`.

        Raise a UserError if it has none, or its examples are already transformed. Raise a CorruptDataError if the
        graph's metadata differ from what was written.
        """
        self._manifest = dataset.manifest
        if file_names.TRANSFORM not in dataset.manifest.files:
            raise UserError(
                f"transform=True: {dataset.manifest.name} {dataset.manifest.version} has no transform graph; it is"
                " made with --transform or --module_file"
            )
        if dataset.manifest.configuration.get("materialize"):
            raise UserError(
                f"transform=True: the examples of {dataset.manifest.name} {dataset.manifest.version} are transformed"
                " already, by --materialize; leave it out"
            )
        from shardmill.metadata.schema import from_pbtxt  # late: it needs protobuf, which most data sets do not

        raw = from_pbtxt(_read_text(dataset, _RAW))
        outputs = TransformFile.from_json(_read_text(dataset, file_names.TRANSFORM), file_names.TRANSFORM).outputs
        self._features = _make_output_features(
            raw, from_pbtxt(_read_text(dataset, _TRANSFORMED)), outputs, dataset.manifest
        )
        self._spec = to_spec(raw, {})
        self._model = _load_model(dataset)  # held, for its tables go with it

    @property
    def manifest(self) -> Manifest:
        """Return the dataset's manifest with the features of transformed examples."""
        return replace(self._manifest, features=self._features)

    def __call__(self, records: Any, features: Features, defaults: Mapping[str, Any]) -> Tensors:
        """Transform serialized examples to `features`; lists are ragged, and `defaults` replace missing values."""
        values = self._model.transform_fn(tf.io.parse_example(records, self._spec))
        return {feature.name: _with_default(feature, values[feature.name], defaults) for feature in features}


def _load_model(dataset: Dataset) -> Any:
    """Load the saved model of a graph, from a copy on this disk if only a store's client can read it."""
    if has_tensorflow_files(dataset.directory):
        return tf.saved_model.load(f"{dataset.directory}/{_MODEL}")
    with tempfile.TemporaryDirectory(prefix="shardmill-") as folder:
        for name in dataset.manifest.files:
            if name.startswith(f"{_MODEL}/"):
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(dataset.metadata(name))
        return tf.saved_model.load(os.path.join(folder, _MODEL))


def _read_text(dataset: Dataset, name: str) -> str:
    try:
        return dataset.metadata(name).decode()
    except FileNotFoundError:
        raise CorruptDataError(f"{dataset.directory}/{name} is missing") from None


def _make_output_features(
    raw: Features, transformed: Features, outputs: tuple[TransformedOutput, ...], manifest: Manifest
) -> Features:
    """Return the features of transformed examples, in the order of `outputs`.

    The schema describes a single value that may be missing like a list: any number of values.
    """
    by_name = {feature.name: feature for feature in transformed}
    of_raw = {feature.name: feature for feature in raw}
    described = {feature.name: feature for feature in manifest.features}
    found = []
    for output in outputs:
        feature = by_name[output.name]
        if not feature.required:
            feature = replace(feature, shape=(None,) if _is_list(output, of_raw) else ())
        before = described.get(output.feature or output.name)
        if before is not None and before.kind in _DECODED and output.feature and not output.steps:
            found.append(replace(before, name=output.name))
            continue
        of_itself = before is not None and (not output.steps or output.name == output.feature)
        role = before.role if before is not None and of_itself else "input"
        found.append(replace(feature, kind="tensor", class_names=(), role=role))
    return tuple(found)


def _is_list(output: TransformedOutput, raw: Mapping[str, Feature]) -> bool:
    """Return True if an output that is not dense is a list; outputs of modules are assumed to be."""
    return not output.feature or raw[output.feature].shape != () or any("tokenize" in step for step in output.steps)


def _with_default(feature: Feature, value: Any, defaults: Mapping[str, Any]) -> Any:
    if not isinstance(value, tf.SparseTensor):
        return value
    if feature.shape == ():
        column = tf.SparseTensor(value.indices, value.values, [value.dense_shape[0], 1])
        return tf.squeeze(tf.sparse.to_dense(column, tf.constant(defaults[feature.name], value.dtype)), 1)
    return tf.RaggedTensor.from_sparse(value)
