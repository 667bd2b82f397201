"""What bench_tables compares with: the loop everybody writes over a CSV file, unshuffled, the types by hand."""

import csv
from collections.abc import Mapping
from itertools import islice

import tensorflow as tf
from loop_shards import SHARDS, loop_parser, shard_writers
from row_seconds import row_seconds


def int64_feature(value: int) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def float_feature(value: float) -> tf.train.Feature:
    return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))


def bytes_feature(value: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def to_example(row: Mapping[str, str]) -> bytes:
    features = {
        "int_0": int64_feature(int(row["int_0"])),
        "int_1": int64_feature(int(row["int_1"])),
        "int_2": int64_feature(int(row["int_2"])),
        "float_0": float_feature(float(row["float_0"])),
        "float_1": float_feature(float(row["float_1"])),
        "float_2": float_feature(float(row["float_2"])),
        "word_0": bytes_feature(row["word_0"].encode()),
        "word_1": bytes_feature(row["word_1"].encode()),
        "word_2": bytes_feature(row["word_2"].encode()),
        "word_3": bytes_feature(row["word_3"].encode()),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def main() -> None:
    args = loop_parser(__doc__).parse_args()
    with row_seconds(args.row_seconds), shard_writers(args.output) as writers, open(args.source, newline="") as file:
        for number, row in enumerate(islice(csv.DictReader(file), args.rows)):
            writers[number % SHARDS].write(to_example(row))


if __name__ == "__main__":
    main()
