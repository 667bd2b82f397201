"""Train on a table's integers, floats and strings, of which some are missing, from plain or compressed shards; and save
a model that takes raw examples, with what was done to them in training.

shardmill sample table inputs
shardmill csv --input inputs/wines.csv --output datasets --name wines --label cultivar --stratify_by cultivar \
  --splits train=0.7,test=0.3 --num_shards 2 --transform examples/wines.yaml
python examples/train_rows.py datasets/wines served_wines

and with gzip:

shardmill csv --input inputs/wines.csv --output datasets --name wines_gzip --label cultivar \
  --stratify_by cultivar --splits train=0.7,test=0.3 --num_shards 2 --transform examples/wines.yaml \
  --compression gzip
python examples/train_rows.py datasets/wines_gzip served_gzip
"""

import argparse
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

import shardmill

NUMBERS = ("alcohol", "malic_acid", "flavanoids", "hue", "magnesium", "proline")  # the last two are integers
WORDS = ("colour",)
DEFAULTS = {"alcohol": 13.0, "magnesium": 100, "colour": "unknown"}  # for the missing values
BATCH, EPOCHS = 16, 30


def read(directory: str, split: str, seed: int | None = None, spec: Any = None) -> Any:
    """Batches of raw columns and labels, once, missing values as in DEFAULTS or else as `spec` has them; shuffled if
    there is a seed."""
    info = shardmill.info(directory)
    return tf.data.experimental.make_batched_features_dataset(
        f"{info.directory}/{info.name}-{split}.tfrecord-*",
        BATCH,
        spec or shardmill.feature_spec(directory, features=[*NUMBERS, *WORDS, "cultivar"], defaults=DEFAULTS),
        reader_args=["GZIP"] if info.compression == "gzip" else None,
        label_key="cultivar",
        num_epochs=1,
        shuffle=seed is not None,
        shuffle_seed=seed,
    )


class Served(tf.Module):
    """Raw examples to predictions: the layer of TensorFlow Transform, then the model."""

    def __init__(self, spec: Any, tft_layer: Any, model: Any) -> None:
        super().__init__()
        self._spec = {name: feature for name, feature in spec.items() if name != "cultivar"}  # which nobody knows yet
        self.tft_layer, self.model = tft_layer, model

    def serve(self, examples: Any) -> Any:
        """The probabilities of the classes, of serialized examples without a label."""
        raw = tf.io.parse_example(examples, self._spec)
        return {"probabilities": tf.nn.softmax(self.model(self.tft_layer(raw)))}


def train(directory: str, served: str, seed: int = 0) -> float:
    """The accuracy on the test split; the model that takes raw examples is in `served` then."""
    tf.keras.utils.set_random_seed(seed)
    info = shardmill.info(directory)
    output = tft.TFTransformOutput(f"{info.directory}/transform_graph")
    spec, tft_layer = output.raw_feature_spec(), output.transform_features_layer()

    def transformed(split: str, seed: int | None = None) -> Any:
        return read(directory, split, seed, spec).map(lambda columns, label: (tft_layer(columns), label))

    examples = transformed("train", seed)
    inputs = {
        name: tf.keras.Input(tuple(column.shape[1:]) or (1,), name=name)  # Keras makes (batch,) of one (batch, 1)
        for name, column in examples.element_spec[0].items()
    }
    hidden = tf.keras.layers.Dense(16, activation="relu")(tf.keras.layers.Concatenate()(list(inputs.values())))
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(len(info.class_names))(hidden))
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    model.fit(examples, epochs=EPOCHS, verbose=0)
    module = Served(spec, tft_layer, model)
    serve = tf.function(module.serve, input_signature=[tf.TensorSpec((None,), tf.string, "examples")])
    tf.saved_model.save(module, served, signatures={"serving_default": serve})
    return model.evaluate(transformed("test"), verbose=0, return_dict=True)["accuracy"]


def main(arguments: Sequence[str] | None = None) -> float:
    """Train, save, and print the accuracy, which is returned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", help="the data set")
    parser.add_argument("served", help="the folder that the model is saved to")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    accuracy = train(options.directory, options.served, options.seed)
    print(f"accuracy on the test split: {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
