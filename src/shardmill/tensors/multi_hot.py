"""Lists of ids of classes as zeros and ones: what a model with several classes an example predicts."""

from typing import Any

from shardmill.errors import UserError
from shardmill.features.feature import Feature, Features
from shardmill.installation.lazy_tensorflow import tf


def multi_hot(ids: Any, classes: int) -> Any:
    """A batch of lists of ids, a ragged tensor (batch, None), as float32 (batch, classes): 1 for each class that a list
    has, however often.

    Raises:
      tf.errors.InvalidArgumentError: when it runs, where an id is below 0 or not below `classes`.
    """
    places = tf.stack([ids.value_rowids(), tf.cast(ids.flat_values, tf.int64)], axis=1)
    empty = tf.zeros(tf.stack([ids.nrows(), tf.constant(classes, tf.int64)]))
    with tf.control_dependencies(
        [
            tf.debugging.assert_non_negative(places, "multi_hot: an id of a class is below 0"),
            tf.debugging.assert_less(places[:, 1], tf.constant(classes, tf.int64), "multi_hot: an id is of no class"),
        ]
    ):
        found = tf.tensor_scatter_nd_max(empty, places, tf.ones_like(places[:, 1], tf.float32))
    return tf.ensure_shape(found, (None, classes))


def classes_of(features: Features, asked: bool | int) -> dict[str, int]:
    """How many classes each of the features has that multi_hot is for, by name: lists of ids that have names, or, where
    a number is asked for, lists of integers, too.

    Raises:
      UserError: there are none, or the number is none.
    """
    if asked is False:
        return {}
    lists = [item for item in features if item.shape == (None,) and item.dtype == "int64" and not item.sequence]
    found = {item.name: _number(item, asked) for item in lists if item.kind == "class_label" or _is_number(asked)}
    if found:
        return found
    if lists:
        raise UserError(
            f"multi_hot: {lists[0].name!r} is a list of integers whose classes nobody named; give their number,"
            " multi_hot=10"
        )
    names = ", ".join(item.name for item in features)
    raise UserError(f"multi_hot is for lists of classes, and none of what is read is one: {names}")


def _is_number(asked: bool | int) -> bool:
    return not isinstance(asked, bool)


def _number(feature: Feature, asked: bool | int) -> int:
    if feature.kind == "class_label":
        return len(feature.class_names)
    if asked < 1:
        raise UserError(f"multi_hot is {asked}; expected True, or a number of classes")
    return int(asked)
