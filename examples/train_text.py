"""Train an embedding on sentences of any length: which subject is each about?

shardmill sample text inputs
shardmill text --input inputs/sentences --output datasets --name sentences --splits train=0.8,test=0.2 \
  --num_shards train=4,test=1
python examples/train_text.py datasets/sentences
"""

import argparse
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import shardmill

BATCH, EPOCHS, WORDS = 64, 5, 5000


def train(directory: str, seed: int = 0) -> float:
    """The accuracy on the test split."""
    tf.keras.utils.set_random_seed(seed)
    examples, test = shardmill.load(directory, "train", seed=seed), shardmill.load(directory, "test")
    tokens = tf.keras.layers.TextVectorization(WORDS)
    tokens.adapt(examples.map(lambda text, label: text).batch(1024))

    def batches(split: Any) -> Any:
        numbers = split.map(lambda text, label: (tokens(text), label), num_parallel_calls=tf.data.AUTOTUNE)
        return numbers.padded_batch(BATCH).prefetch(tf.data.AUTOTUNE)  # each batch as long as its longest sentence

    model = tf.keras.Sequential(
        [
            tf.keras.layers.Embedding(tokens.vocabulary_size(), 32, mask_zero=True),
            tf.keras.layers.GlobalAveragePooling1D(),
            tf.keras.layers.Dense(len(shardmill.info(directory).class_names)),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    model.fit(batches(examples), epochs=EPOCHS, verbose=0)
    return model.evaluate(batches(test), verbose=0, return_dict=True)["accuracy"]


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
