"""Features as tf.io.parse_example wants them."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from shardmill.features.feature import Feature, Features
from shardmill.filesystems.gfile import files_for
from shardmill.filesystems.local import Files
from shardmill.installation.lazy_tensorflow import tf
from shardmill.kinds.registry import kind_of
from shardmill.reading.dataset import open_dataset
from shardmill.reading.missing_values import check_defaults
from shardmill.reading.selection import find_features


def feature_spec(
    directory: str | os.PathLike[str],
    *,
    features: Sequence[str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    version: str | None = None,
    files: Files | None = None,
) -> dict[str, Any]:
    """The features of a data set, for `tf.io.parse_example` and `tf.data.experimental.make_batched_features_dataset`.

    It is what TensorFlow Transform makes of the data set's schema.pbtxt: a FixedLenFeature for what every example has
    in the same number, a VarLenFeature, read as a flat sparse tensor, for all else, boxes too. An array is one string,
    for `tf.io.decode_raw`.

    Args:
      directory: of the data set's version, or the one above it, whose LATEST names one.
      features: the names of those wanted; None for all.
      defaults: what stands for a missing value, by name; such a feature becomes a FixedLenFeature.
      version: one of those in the directory above, or a tag; None for the one that LATEST names.
      files: what to read the manifest through.

    Raises:
      UserError: there is no data set, no such feature, or a default that its feature cannot hold.
      CorruptDataError: the manifest cannot be read.
    """
    manifest = open_dataset(directory, files or files_for(directory), version).manifest
    chosen = manifest.features if features is None else find_features(manifest, features)
    return to_spec(chosen, check_defaults(chosen, defaults or {}, manifest.features))


def to_spec(features: Features, defaults: Mapping[str, Any], ragged: bool = False) -> dict[str, Any]:
    """The spec of `features`.

    Args:
      defaults: of those that may be missing, as check_defaults has them.
      ragged: whether lists of any length are read as ragged tensors, not as sparse ones; flat in either case.
    """
    return {feature.name: _spec(feature, defaults.get(feature.name), ragged) for feature in features}


def _spec(feature: Feature, default: Any, ragged: bool) -> Any:
    dtype = tf.string if feature.dtype == "bytes" else tf.dtypes.as_dtype(feature.dtype)
    if feature.is_dense or (default is not None and None not in feature.shape):
        stored = None if default is None else kind_of(feature).stored(feature, default)
        return tf.io.FixedLenFeature(feature.list_shape, dtype, stored)
    return tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64) if ragged else tf.io.VarLenFeature(dtype)
