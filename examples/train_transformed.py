"""Train on sentences by a vocabulary that is declared, and save a model that takes them as they are written.

shardmill sample text inputs
shardmill text --input inputs/sentences --output datasets --name transformed --splits train=0.8,test=0.2 \
  --transform examples/sentences.yaml
python examples/train_transformed.py datasets/transformed served
"""

import argparse
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import shardmill

ENTRIES, BATCH, EPOCHS = 2001, 32, 12  # of the vocabulary, with its one bucket for words that are none


class Served(tf.Module):
    """Sentences to the logits of classes: the graph of the data set, then the model."""

    def __init__(self, directory: str, model: Any) -> None:
        super().__init__()
        self.graph = tf.saved_model.load(f"{shardmill.info(directory).directory}/transform_graph/transform_fn")
        self.model = model

    def serve(self, text: Any) -> Any:
        """The logits of each sentence."""
        label = tf.zeros(tf.shape(text), tf.int64)  # which the graph passes on, and nobody asks for
        ids = self.graph.transform_fn({"text": text, "label": label})["text"]
        return {"logits": self.model(tf.sparse.to_dense(ids))}


def train(directory: str, served: str, seed: int = 0) -> float:
    """The accuracy on the test split; the model that takes sentences is in `served` then."""
    tf.keras.utils.set_random_seed(seed)
    given: dict[str, Any] = {"batch_size": BATCH, "transform": True, "pad": True, "seed": seed}
    embedding = tf.keras.layers.Embedding(ENTRIES, 16)
    classes = len(shardmill.info(directory).class_names)
    model = tf.keras.Sequential([embedding, tf.keras.layers.GlobalAveragePooling1D(), tf.keras.layers.Dense(classes)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.02), loss, metrics=["accuracy"])
    model.fit(shardmill.load(directory, "train", **given), epochs=EPOCHS, verbose=0)
    module = Served(directory, model)
    serve = tf.function(module.serve, input_signature=[tf.TensorSpec((None,), tf.string, "text")])
    tf.saved_model.save(module, served, signatures={"serving_default": serve})
    return model.evaluate(shardmill.load(directory, "test", **given), verbose=0, return_dict=True)["accuracy"]


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
