"""What bench_text compares with: the loop everybody writes over lines of text, unshuffled."""

import argparse
from itertools import islice

import tensorflow as tf
from row_seconds import row_seconds

SHARDS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("output", help="the folder of the shards")
    parser.add_argument("--rows", type=int, help="to read (default: all)")
    parser.add_argument("--row_seconds", help="a file for what the rows cost without the start")
    args = parser.parse_args()
    writers = [
        tf.io.TFRecordWriter(f"{args.output}/loop-{shard:05d}-of-{SHARDS:05d}.tfrecord") for shard in range(SHARDS)
    ]
    with row_seconds(args.row_seconds), open(args.path) as file:
        for number, line in enumerate(islice(file, args.rows)):
            text = tf.train.Feature(bytes_list=tf.train.BytesList(value=[line.rstrip("\n").encode()]))
            example = tf.train.Example(features=tf.train.Features(feature={"text": text}))
            writers[number % SHARDS].write(example.SerializeToString())
        for writer in writers:
            writer.close()


if __name__ == "__main__":
    main()
