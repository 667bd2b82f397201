"""Train on a table's integers, floats and strings, of which some are missing, from plain or compressed shards.

python examples/write_inputs.py wines inputs/wines
shardmill csv --input inputs/wines/wines.csv --output datasets --name wines --label cultivar --stratify_by cultivar \
  --splits train=0.7,test=0.3 --num_shards 2
python examples/train_rows.py datasets/wines

and with gzip:

shardmill csv --input inputs/wines/wines.csv --output datasets --name wines_gzip --label cultivar \
  --stratify_by cultivar --splits train=0.7,test=0.3 --num_shards 2 --compression gzip
python examples/train_rows.py datasets/wines_gzip
"""

import argparse
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import shardmill

NUMBERS = ("alcohol", "malic_acid", "flavanoids", "hue", "magnesium", "proline")  # the last two are integers
WORDS = ("colour",)
DEFAULTS = {"alcohol": 13.0, "magnesium": 100, "colour": "unknown"}  # for the missing values
BATCH, EPOCHS = 16, 30


def read(directory: str, split: str, seed: int | None = None) -> Any:
    """Batches of columns and labels, once; shuffled if there is a seed."""
    info = shardmill.info(directory)
    return tf.data.experimental.make_batched_features_dataset(
        f"{info.directory}/{info.name}-{split}.tfrecord-*",
        BATCH,
        shardmill.feature_spec(directory, features=[*NUMBERS, *WORDS, "cultivar"], defaults=DEFAULTS),
        reader_args=["GZIP"] if info.compression == "gzip" else None,
        label_key="cultivar",
        num_epochs=1,
        shuffle=seed is not None,
        shuffle_seed=seed,
    )


def train(directory: str, seed: int = 0) -> float:
    """The accuracy on the test split."""
    tf.keras.utils.set_random_seed(seed)
    examples = read(directory, "train", seed)
    inputs = {
        name: tf.keras.Input((1,), name=name, dtype=spec.dtype)  # Keras makes a column (batch,) one of (batch, 1)
        for name, spec in examples.element_spec[0].items()
    }
    parts = []
    for name, column in inputs.items():
        layer = (
            tf.keras.layers.StringLookup(output_mode="one_hot") if name in WORDS else tf.keras.layers.Normalization()
        )
        layer.adapt(examples.map(lambda columns, label, name=name: columns[name][:, None]))
        parts.append(layer(column))
    hidden = tf.keras.layers.Dense(16, activation="relu")(tf.keras.layers.Concatenate()(parts))
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(len(shardmill.info(directory).class_names))(hidden))
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    model.fit(examples, epochs=EPOCHS, verbose=0)
    return model.evaluate(read(directory, "test"), verbose=0, return_dict=True)["accuracy"]


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
