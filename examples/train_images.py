"""Train a small convolutional network on pictures of digits, in the manner of TensorFlow's tutorials, or with
`shardmill.load`.

python examples/write_digits.py inputs/digits
shardmill images --input inputs/digits --output datasets --name pictures --splits train=0.8,test=0.2 \
  --stratify_by label --num_shards train=4,test=1
python examples/train_images.py datasets/pictures/1.0.0 --reader tf.data
python examples/train_images.py datasets/pictures/1.0.0 --reader load
"""

import argparse
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import shardmill

SIZE, BATCH, EPOCHS = 32, 32, 8
FEATURES = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def parse(record: Any) -> tuple[Any, Any]:
    """A serialized example to an image (SIZE, SIZE, 3) of values in [0, 1], and its label."""
    example = tf.io.parse_single_example(record, FEATURES)
    image = tf.io.decode_jpeg(example["image"], channels=3)
    return tf.image.resize(image, (SIZE, SIZE)) / 255.0, example["label"]


def change(image: Any) -> Any:
    """The image, a little brighter or darker."""
    return tf.image.random_brightness(image, 0.1)


def read_with_tensorflow(directory: str, seed: int) -> tuple[Any, Any, int]:
    """The training split without end, the test split, and how many steps an epoch has."""
    files = tf.data.Dataset.list_files(f"{directory}/*-train.tfrecord-*", seed=seed)
    records = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
    images = records.map(parse, num_parallel_calls=tf.data.AUTOTUNE).cache()
    changed = images.shuffle(1000, seed=seed).repeat().map(lambda image, label: (change(image), label))
    train = changed.batch(BATCH).prefetch(tf.data.AUTOTUNE)
    test = tf.data.TFRecordDataset(tf.io.gfile.glob(f"{directory}/*-test.tfrecord-*")).map(parse).batch(BATCH)
    return train, test, sum(1 for _ in images) // BATCH


def read_with_shardmill(directory: str, seed: int) -> tuple[Any, Any, None]:
    """The same; an epoch has as many steps as there are batches, which the dataset knows."""
    size = (SIZE, SIZE)
    train = shardmill.load(directory, "train", BATCH, size, augment=change, seed=seed, cache=True)
    return train, shardmill.load(directory, "test", BATCH, size), None


def train(directory: str, reader: str, seed: int = 0) -> float:
    """The accuracy on the test split."""
    tf.keras.utils.set_random_seed(seed)
    read = {"tf.data": read_with_tensorflow, "load": read_with_shardmill}[reader]
    examples, test, steps = read(directory, seed)
    model = tf.keras.Sequential(
        [
            tf.keras.Input((SIZE, SIZE, 3)),
            tf.keras.layers.Conv2D(16, 3, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Conv2D(32, 3, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(len(shardmill.info(directory).class_names)),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.003), loss, metrics=["accuracy"])
    model.fit(examples, epochs=EPOCHS, steps_per_epoch=steps, verbose=0)
    return model.evaluate(test, verbose=0, return_dict=True)["accuracy"]


def main(arguments: Sequence[str] | None = None) -> float:
    """Train, and print the accuracy, which is returned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", help="the data set's version")
    parser.add_argument("--reader", choices=("tf.data", "load"), default="tf.data")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    accuracy = train(options.directory, options.reader, options.seed)
    print(f"accuracy on the test split: {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
