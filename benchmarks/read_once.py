"""What bench_load times: one reader over one split, in a process of its own. Prints its seconds and how many examples
came.

Images are decoded and scaled to 224 x 224, batches are of 64; a reader of Python values only makes them. Importing and
building the pipeline are not timed.
"""

import argparse
import glob
import json
import os
import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import shardmill

BATCH = 64
SIZE = (224, 224)
_BUFFER = 10_000
_TUTORIAL_BUFFER = 500  # of decoded images


def load(directory: str, images: bool) -> Any:
    """The one line."""
    return shardmill.load(directory, batch_size=BATCH, image_size=SIZE if images else None)


def fast(directory: str, images: bool) -> Any:
    """JPEGs decoded at a fraction of their size, if they are large enough."""
    return shardmill.load(directory, batch_size=BATCH, image_size=SIZE if images else None, fast_jpeg=images)


def tuned(directory: str, images: bool) -> Any:
    """What the guides to tf.data's performance recommend, by hand."""
    import tensorflow as tf

    auto = tf.data.AUTOTUNE
    spec = shardmill.feature_spec(directory, features=["image", "label"] if images else None)
    files = sorted(glob.glob(f"{directory}/*-train.tfrecord-*"))
    records = tf.data.Dataset.from_tensor_slices(files).shuffle(len(files))
    records = records.interleave(tf.data.TFRecordDataset, cycle_length=16, num_parallel_calls=auto, deterministic=False)
    records = records.shuffle(_BUFFER)
    if not images:
        return records.batch(BATCH).map(lambda batch: tf.io.parse_example(batch, spec), auto).prefetch(auto)

    def decode(record: Any) -> Any:
        example = tf.io.parse_single_example(record, spec)
        return tf.image.resize(tf.io.decode_jpeg(example["image"], channels=3), SIZE) / 255.0, example["label"]

    return records.map(decode, auto, deterministic=False).batch(BATCH).prefetch(auto)


def tfds(directory: str, images: bool) -> Any:
    """TensorFlow Datasets, with the batching and scaling that its guide shows."""
    import tensorflow as tf
    import tensorflow_datasets

    builder = tensorflow_datasets.builder_from_directory(directory)
    dataset = builder.as_dataset(split="train", shuffle_files=True, as_supervised=images)
    if images:
        dataset = dataset.map(lambda image, label: (tf.image.resize(image, SIZE) / 255.0, label), tf.data.AUTOTUNE)
    return dataset.shuffle(_TUTORIAL_BUFFER if images else _BUFFER).batch(BATCH).prefetch(tf.data.AUTOTUNE)


def tutorial(directory: str, images: bool) -> Any:
    """The tutorials' pipeline: one record parsed at a time, one after the other."""
    import tensorflow as tf

    spec = shardmill.feature_spec(directory, features=["image", "label"] if images else None)

    def decode(example: Any) -> Any:
        image = tf.image.convert_image_dtype(tf.io.decode_jpeg(example["image"], channels=3), tf.float32)
        return tf.image.resize(image, SIZE), example["label"]

    dataset = tf.data.TFRecordDataset(sorted(glob.glob(f"{directory}/*-train.tfrecord-*")))
    dataset = dataset.map(lambda record: tf.io.parse_single_example(record, spec))
    if images:
        dataset = dataset.map(decode)
    return dataset.shuffle(_TUTORIAL_BUFFER if images else _BUFFER).batch(BATCH).prefetch(1)


def plain(directory: str, images: bool) -> Any:
    """Dictionaries of NumPy values."""
    return shardmill.examples(directory)


def loop(directory: str, images: bool) -> Any:
    """The loop everybody writes over tf.train.Example."""
    import numpy as np
    import tensorflow as tf

    for record in tf.data.TFRecordDataset(sorted(glob.glob(f"{directory}/*-train.tfrecord-*"))):
        example = tf.train.Example.FromString(record.numpy())
        values = {}
        for name, feature in example.features.feature.items():
            listed = getattr(feature, feature.WhichOneof("kind")).value
            values[name] = listed[0] if feature.HasField("bytes_list") else np.array(listed)
        yield values


def protobuf_loop(directory: str, images: bool) -> Any:
    """The same over TensorFlow's deprecated iterator, which is the fastest that Python has of it."""
    import numpy as np
    import tensorflow as tf

    for path in sorted(glob.glob(f"{directory}/*-train.tfrecord-*")):
        for record in tf.compat.v1.io.tf_record_iterator(path):
            values = {}
            for name, feature in tf.train.Example.FromString(record).features.feature.items():
                listed = getattr(feature, feature.WhichOneof("kind")).value
                values[name] = listed[0] if feature.HasField("bytes_list") else np.array(listed)
            yield values


READERS: dict[str, Callable[[str, bool], Iterable[Any]]] = {
    "tutorial": tutorial,
    "tuned": tuned,
    "tfds": tfds,
    "load": load,
    "fast": fast,
    "loop": loop,
    "protobuf_loop": protobuf_loop,
    "examples": plain,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("directory")
    parser.add_argument("--images", action="store_true", help="the data set is one of images")
    parser.add_argument("--limit", type=int, help="of elements to read (default: all)")
    args = parser.parse_args()
    dataset = READERS[args.reader](args.directory, args.images)
    batched = args.reader in ("tutorial", "tuned", "tfds", "load", "fast")
    if args.reader in ("loop", "protobuf_loop"):
        import tensorflow  # noqa: F401  # not on the loop's time
    start, cores = time.perf_counter(), time.process_time()
    examples = 0
    for element in islice(dataset, args.limit):
        examples += _rows(element) if batched else 1
    seconds = {"seconds": time.perf_counter() - start, "core_seconds": time.process_time() - cores}
    print(json.dumps({**seconds, "examples": examples}))


def _rows(element: Any) -> int:
    part = element[1] if isinstance(element, tuple) else next(iter(element.values()))
    return int(part.shape[0])


if __name__ == "__main__":
    main()
