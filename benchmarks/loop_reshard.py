"""What bench_reshard compares with: tf.data over the old files, interleaved and shuffled in a buffer, into new ones."""

import tensorflow as tf
from loop_shards import SHARDS, loop_parser, shard_writers
from row_seconds import row_seconds

_BUFFER = 10_000


def main() -> None:
    args = loop_parser(__doc__).parse_args()
    files = tf.data.Dataset.list_files(f"{args.source}/*.tfrecord", seed=0)
    records = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
    shuffled = records.take(-1 if args.rows is None else args.rows).shuffle(_BUFFER, seed=0)
    with row_seconds(args.row_seconds), shard_writers(args.output) as writers:
        for number, record in enumerate(shuffled.as_numpy_iterator()):
            writers[number % SHARDS].write(record)


if __name__ == "__main__":
    main()
