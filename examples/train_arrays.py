"""Train on arrays of floats that are stored as raw bytes, with a loop of its own instead of `model.fit`.

shardmill sample arrays inputs/arrays
shardmill arrays --input inputs/arrays/stack --stacked --output datasets --name arrays --splits train=0.8,test=0.2 \
  --num_shards train=4,test=1
python examples/train_arrays.py datasets/arrays/1.0.0
"""

import argparse
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

SHAPE, BATCH, EPOCHS = (8, 8), 64, 8
FEATURES = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def parse(record: Any) -> tuple[Any, Any]:
    """A serialized example to an array (8, 8) of float32, and its label."""
    example = tf.io.parse_single_example(record, FEATURES)
    return tf.reshape(tf.io.decode_raw(example["image"], tf.float32), SHAPE), example["label"]


def read(directory: str, split: str) -> Any:
    """A split's arrays and labels; `shardmill.load(directory, split)` gives the same, as the shape is in the
    manifest."""
    files = tf.data.Dataset.list_files(f"{directory}/*-{split}.tfrecord-*", shuffle=False)
    return files.interleave(tf.data.TFRecordDataset).map(parse, num_parallel_calls=tf.data.AUTOTUNE)


def train(directory: str, seed: int = 0) -> float:
    """The accuracy on the test split."""
    tf.keras.utils.set_random_seed(seed)
    model = tf.keras.Sequential(
        [
            tf.keras.Input(SHAPE),
            tf.keras.layers.Reshape((*SHAPE, 1)),
            tf.keras.layers.Conv2D(16, 3, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(10),
        ]
    )
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = tf.keras.optimizers.Adam(0.003)
    accuracy = tf.keras.metrics.SparseCategoricalAccuracy()

    @tf.function  # type: ignore[untyped-decorator]
    def step(arrays: Any, labels: Any) -> None:
        with tf.GradientTape() as tape:
            logits = model(arrays, training=True)
            loss = loss_of(labels, logits)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        accuracy.update_state(labels, logits)

    batches = (
        read(directory, "train")
        .cache()
        .shuffle(2000, seed=seed)
        .batch(BATCH, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
    )
    for epoch in range(EPOCHS):
        accuracy.reset_state()
        for arrays, labels in batches:
            step(arrays, labels)
        print(f"epoch {epoch}: accuracy while training {float(accuracy.result()):.3f}")
    accuracy.reset_state()
    for arrays, labels in read(directory, "test").batch(BATCH):
        accuracy.update_state(labels, model(arrays, training=False))
    return float(accuracy.result())


def main(arguments: Sequence[str] | None = None) -> float:
    """Train, and print the accuracy, which is returned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", help="the data set's version")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    accuracy = train(options.directory, options.seed)
    print(f"accuracy on the test split: {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
