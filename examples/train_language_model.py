"""Train a language model on packed tokens: which token is next?

shardmill sample text inputs
python examples/write_tokenizer.py inputs/sentences inputs/tokenizer.json
shardmill text --input inputs/sentences --folders any --output datasets --name language \
  --splits train=0.9,test=0.1 --tokenizer inputs/tokenizer.json --pack_to 64
python examples/train_language_model.py datasets/language
"""

import argparse
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from write_tokenizer import SIZE

import shardmill

BATCH, EPOCHS, WIDTH = 32, 3, 96


def next_tokens(block: Any) -> tuple[Any, Any]:
    """Each token but the last of a block, and the one behind each."""
    return block[:-1], block[1:]


def train(directory: str, seed: int = 0) -> float:
    """The share of the test split's tokens that are foretold."""
    tf.keras.utils.set_random_seed(seed)

    def batches(split: str, **given: Any) -> Any:
        examples = shardmill.load(directory, split, **given)
        return examples.map(next_tokens, tf.data.AUTOTUNE).batch(BATCH).prefetch(tf.data.AUTOTUNE)

    model = tf.keras.Sequential(
        [
            tf.keras.layers.Embedding(SIZE, WIDTH),
            tf.keras.layers.GRU(WIDTH, return_sequences=True),
            tf.keras.layers.Dense(SIZE),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    model.fit(batches("train", seed=seed), epochs=EPOCHS, verbose=0)
    return model.evaluate(batches("test"), verbose=0, return_dict=True)["accuracy"]


def main(arguments: Sequence[str] | None = None) -> float:
    """Train, and print the accuracy, which is returned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", help="the data set")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    accuracy = train(options.directory, options.seed)
    print(f"share of the test split's tokens that are foretold: {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
