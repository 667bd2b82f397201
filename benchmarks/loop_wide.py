"""The hand-written loop over a CSV file of many columns that bench_wide compares with; its types are given."""

import csv
from collections.abc import Mapping
from itertools import islice

import tensorflow as tf
from loop_shards import SHARDS, loop_parser, shard_writers
from row_seconds import row_seconds


def to_feature(name: str, value: str) -> tf.train.Feature:
    if name.startswith("gene"):
        return tf.train.Feature(float_list=tf.train.FloatList(value=[float(value)]))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(value)]))


def to_example(row: Mapping[str, str]) -> bytes:
    features = {name: to_feature(name, value) for name, value in row.items()}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def main() -> None:
    args = loop_parser(__doc__).parse_args()
    with row_seconds(args.row_seconds), shard_writers(args.output) as writers, open(args.source, newline="") as file:
        for number, row in enumerate(islice(csv.DictReader(file), args.rows)):
            writers[number % SHARDS].write(to_example(row))


if __name__ == "__main__":
    main()
