"""A module for --module_file, as users of TFX write them: of the houses of tests.support.houses."""

from typing import Any

import tensorflow as tf
import tensorflow_transform as tft


def dense(value: Any, default: str) -> Any:
    column = tf.SparseTensor(value.indices, value.values, [value.dense_shape[0], 1])
    return tf.squeeze(tf.sparse.to_dense(column, default), 1)


def preprocessing_fn(inputs: dict[str, Any]) -> dict[str, Any]:
    rooms = tft.bucketize(inputs["rooms"], 4)
    words = tf.strings.regex_replace(tf.strings.lower(inputs["text"]), "[^a-z]+", " ")
    tokens = tf.strings.split(words).to_sparse()
    cities = tft.compute_and_apply_vocabulary(
        dense(inputs["city"], ""), top_k=4, num_oov_buckets=2, vocab_filename="city"
    )
    return {
        "label": inputs["label"],
        "height": tft.scale_to_z_score(inputs["height"]),
        "fare": tft.scale_to_0_1(tf.math.log1p(inputs["fare"])),
        "city": cities,
        "text": tft.compute_and_apply_vocabulary(tokens, default_value=-9, vocab_filename="words"),
        "rooms": tf.one_hot(rooms, 4),
        "rooms_scaled": tft.scale_to_z_score(tf.cast(rooms, tf.float32)),  # an analyzer of what another found
        "tokens": tokens,
    }
