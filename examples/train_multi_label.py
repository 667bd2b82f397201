"""Train a network that says which of several classes are in a picture, with the labels that
`shardmill.load(multi_hot=True)` gives as zeros and ones.

shardmill sample shapes inputs
shardmill images --manifest inputs/shapes/tags.csv --label_separator ';' --output datasets --name tags \
  --splits train=0.8,test=0.2
python examples/train_multi_label.py datasets/tags/1.0.0
"""

import argparse
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import shardmill

BATCH, EPOCHS, CLASSES = 32, 24, 3


def read(directory: str, split: str, **more: Any) -> Any:
    """Batches of a split: images, and for each class 1 where a picture has it."""
    return shardmill.load(directory, split, BATCH, multi_hot=True, **more)


def train(directory: str, seed: int = 0) -> float:
    """The share of pictures in the test split of which every class is told, and no other."""
    tf.keras.utils.set_random_seed(seed)
    layers = []
    for filters in (16, 32, 64):
        layers += [tf.keras.layers.Conv2D(filters, 3, 2, "same"), tf.keras.layers.BatchNormalization(momentum=0.9)]
        layers += [tf.keras.layers.ReLU()]
    layers += [tf.keras.layers.Conv2D(64, 3, padding="same", activation="relu")]
    layers += [tf.keras.layers.GlobalMaxPooling2D(), tf.keras.layers.Dense(CLASSES, activation="sigmoid")]
    model = tf.keras.Sequential([tf.keras.Input((64, 64, 3)), *layers])
    pictures = read(directory, "train", seed=seed, cache=True)
    steps = EPOCHS * sum(1 for _ in pictures)
    slowing = tf.keras.optimizers.schedules.CosineDecay(0.003, steps)
    model.compile(tf.keras.optimizers.Adam(slowing), "binary_crossentropy")
    model.fit(pictures, epochs=EPOCHS, verbose=0)
    right = [
        tf.reduce_all((model(images, training=False) > 0.5) == (labels > 0.5), axis=1)
        for images, labels in read(directory, "test")
    ]
    return float(tf.reduce_mean(tf.cast(tf.concat(right, 0), tf.float32)))


def main(arguments: Sequence[str] | None = None) -> float:
    """Train, and print the share, which is returned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", help="the data set's version")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    found = train(options.directory, options.seed)
    print(f"pictures of the test split all of whose classes are told: {found:.3f}")
    return found


if __name__ == "__main__":
    main()
