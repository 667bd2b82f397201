"""Read a data set of images by others' means alone: TensorFlow Datasets, and TensorFlow Transform's reading of the
schema.

shardmill sample photos inputs
shardmill images --input inputs/photos --output datasets --name photos --splits train=0.8,test=0.2 --stratify_by label \
  --num_shards train=4,test=1
python examples/read_without_shardmill.py datasets/photos/1.0.0
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform.tf_metadata import schema_utils

Pairs = list[tuple[np.ndarray, str]]


def read_with_tfds(directory: str, split: str) -> Pairs:
    """Pixels and class names of a split, or of a part such as `train[:20%]`."""
    builder = tfds.builder_from_directory(directory)
    names = builder.info.features["label"].names
    return [
        (image, names[label]) for image, label in tfds.as_numpy(builder.as_dataset(split=split, as_supervised=True))
    ]


def count_with_tfds(directory: str) -> dict[str, int]:
    """How many examples each split has."""
    return {name: split.num_examples for name, split in tfds.builder_from_directory(directory).info.splits.items()}


def read_with_tft(directory: str, split: str) -> Pairs:
    """The same as `read_with_tfds` of a whole split; the class names are in a text file of their own."""
    schema = text_format.Parse((Path(directory) / "schema.pbtxt").read_text(), schema_pb2.Schema())
    spec = schema_utils.schema_as_feature_spec(schema).feature_spec
    names = (Path(directory) / "label.labels.txt").read_text().splitlines()

    def decode(example: dict[str, Any]) -> tuple[Any, Any]:
        return tf.io.decode_image(example["image"], channels=3, expand_animations=False), example["label"]

    files = tf.data.Dataset.list_files(f"{directory}/*-{split}.tfrecord-*", shuffle=False)
    batches = tf.data.TFRecordDataset(files).batch(32).map(lambda records: tf.io.parse_example(records, spec))
    return [(image, names[label]) for image, label in batches.unbatch().map(decode).as_numpy_iterator()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Read all splits both ways, and say what is in them; returns how many images there are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", help="the data set's version")
    directory = parser.parse_args(arguments).directory
    found = 0
    for split, count in count_with_tfds(directory).items():
        by_tfds, by_tft = read_with_tfds(directory, split), read_with_tft(directory, split)
        part = read_with_tfds(directory, f"{split}[:20%]")
        print(
            f"{split}: {count} in dataset_info.json, {len(by_tfds)} by TFDS, {len(by_tft)} by TFT, {len(part)} in the"
            " first 20 %"
        )
        found += len(by_tfds)
    return found


if __name__ == "__main__":
    main()
