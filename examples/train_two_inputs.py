"""Train a model with two inputs: an image, and a vector of five numbers about it.

shardmill sample parquet inputs
shardmill parquet --input inputs/digits.parquet --output datasets --name moments --image image --label label \
  --splits train=0.8,test=0.2
python examples/train_two_inputs.py datasets/moments
"""

import argparse
from collections.abc import Sequence

import tensorflow as tf

import shardmill

SIZE, BATCH, EPOCHS = (32, 32), 64, 10


def train(directory: str, seed: int = 0) -> float:
    """The accuracy on the test split."""
    tf.keras.utils.set_random_seed(seed)
    # Batches of {"image": (BATCH, 32, 32, 1), "metadata": (BATCH, 5)} and labels
    examples = shardmill.load(directory, "train", BATCH, SIZE, channels=1, seed=seed, cache=True)
    test = shardmill.load(directory, "test", BATCH, SIZE, channels=1)
    inputs = {name: tf.keras.Input(spec.shape[1:], name=name) for name, spec in examples.element_spec[0].items()}
    image = tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu")(inputs["image"])
    image = tf.keras.layers.MaxPooling2D()(image)
    metadata = tf.keras.layers.Dense(16, activation="relu")(inputs["metadata"])
    both = tf.keras.layers.Concatenate()([tf.keras.layers.Flatten()(image), metadata])
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(len(shardmill.info(directory).class_names))(both))
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.003), loss, metrics=["accuracy"])
    model.fit(examples, epochs=EPOCHS, verbose=0)
    return model.evaluate(test, verbose=0, return_dict=True)["accuracy"]


def main(arguments: Sequence[str] | None = None) -> float:
    """Train, and print the accuracy, which is returned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", help="the data set")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    accuracy = train(options.directory, options.seed)
    print(f"accuracy on the test split: {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
