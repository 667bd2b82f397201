"""Train a recurrent network on sequences of integers of any length: does a walk go up or down?

shardmill sample nested inputs
shardmill jsonl --input inputs/walks.jsonl --output datasets --name walks --label direction \
  --splits train=0.8,test=0.2 --num_shards train=4,test=1
python examples/train_sequences.py datasets/walks/1.0.0
"""

import argparse
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

BATCH, EPOCHS, PLACES = 64, 4, 8
FEATURES = {"places": tf.io.VarLenFeature(tf.int64), "direction": tf.io.FixedLenFeature([], tf.int64)}


def parse(record: Any) -> tuple[Any, Any]:
    """A serialized example to its places (n,) and its direction."""
    example = tf.io.parse_single_example(record, FEATURES)
    return tf.sparse.to_dense(example["places"]), example["direction"]


def read(directory: str, split: str) -> Any:
    """Walks and directions of a split; `shardmill.load(directory, split, batch_size, pad=True)` gives padded batches of
    them."""
    files = tf.data.Dataset.list_files(f"{directory}/*-{split}.tfrecord-*", shuffle=False)
    return files.interleave(tf.data.TFRecordDataset).map(parse, num_parallel_calls=tf.data.AUTOTUNE)


def train(directory: str, seed: int = 0) -> float:
    """The accuracy on the test split."""
    tf.keras.utils.set_random_seed(seed)
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Embedding(PLACES + 1, 8, mask_zero=True),  # 0 is the padding; places begin with 1
            tf.keras.layers.GRU(24),
            tf.keras.layers.Dense(1),
        ]
    )
    loss = tf.keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.01), loss, metrics=[tf.keras.metrics.BinaryAccuracy(threshold=0.0)])
    model.fit(
        read(directory, "train").shuffle(2000, seed=seed).padded_batch(BATCH).prefetch(tf.data.AUTOTUNE),
        epochs=EPOCHS,
        verbose=0,
    )
    return model.evaluate(read(directory, "test").padded_batch(BATCH), verbose=0, return_dict=True)["binary_accuracy"]


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
