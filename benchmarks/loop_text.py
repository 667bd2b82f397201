"""What bench_text compares with: the loop everybody writes over lines of text, unshuffled."""

from itertools import islice

import tensorflow as tf
from loop_shards import SHARDS, loop_parser, shard_writers
from row_seconds import row_seconds


def main() -> None:
    args = loop_parser(__doc__).parse_args()
    with row_seconds(args.row_seconds), shard_writers(args.output) as writers, open(args.source) as file:
        for number, line in enumerate(islice(file, args.rows)):
            text = tf.train.Feature(bytes_list=tf.train.BytesList(value=[line.rstrip("\n").encode()]))
            example = tf.train.Example(features=tf.train.Features(feature={"text": text}))
            writers[number % SHARDS].write(example.SerializeToString())


if __name__ == "__main__":
    main()
