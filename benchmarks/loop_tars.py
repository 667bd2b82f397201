"""What bench_tars compares with: the loop over tarfile that everybody writes, one unshuffled file."""

import glob
import json
import sys
import tarfile
from collections.abc import Iterator

import tensorflow as tf


def samples(path: str) -> Iterator[dict[str, bytes]]:
    """The members of a tar file by their suffix, those of one key together."""
    sample: dict[str, bytes] = {}
    last = ""
    with tarfile.open(path, "r|") as tar:
        for member in tar:
            key, _, suffix = member.name.partition(".")
            if key != last and sample:
                yield sample
                sample = {}
            last = key
            found = tar.extractfile(member)
            if found is not None:
                sample[suffix] = found.read()
                sample["key"] = key.encode()
    yield sample


def main(folder: str, output: str) -> None:
    with tf.io.TFRecordWriter(output) as writer:
        for path in sorted(glob.glob(f"{folder}/*.tar")):
            for sample in samples(path):
                members = json.loads(sample["json"])
                features = {
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[sample["jpg"]])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(sample["cls"])])),
                    "filename": tf.train.Feature(bytes_list=tf.train.BytesList(value=[sample["key"]])),
                    "caption": tf.train.Feature(bytes_list=tf.train.BytesList(value=[members["caption"].encode()])),
                    "width": tf.train.Feature(int64_list=tf.train.Int64List(value=[members["width"]])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=features))
                writer.write(example.SerializeToString())


if __name__ == "__main__":
    main(*sys.argv[1:])
