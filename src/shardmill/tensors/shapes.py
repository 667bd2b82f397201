"""Parsed values in the shapes of their features: arrays out of their bytes, lists of boxes by the box."""

import math
from typing import Any

from shardmill.features.arrays import fixed_sizes
from shardmill.features.feature import Feature, Features
from shardmill.installation.lazy_tensorflow import tf
from shardmill.kinds.registry import kind_of

Tensors = dict[str, Any]


def shape_values(features: Features, parsed: Tensors) -> Tensors:
    """What tf.io.parse_example made of a batch with `to_spec(features, …, ragged=True)`, in the features' shapes and
    types.

    An array becomes (batch, *shape); of `(None, 4)`, a ragged tensor (batch, None, 4) whose only ragged dimension is
    the second.

    Raises:
      tf.errors.InvalidArgumentError: when it runs, where an array's bytes or a list of boxes are too long or too short;
        the message names the feature.
    """
    return {feature.name: _shaped(feature, parsed[feature.name]) for feature in features}


def _shaped(feature: Feature, values: Any) -> Any:
    if feature.list_shape[:1] == (None,) and len(feature.list_shape) > 1:
        values = _rows(feature, values)
    return kind_of(feature).to_tensor(feature, values)


def _rows(feature: Feature, values: Any) -> Any:
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
