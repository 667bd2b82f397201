"""What bench_reshard compares with: tf.data over the old files, interleaved and shuffled in a buffer, into new ones."""

import argparse

import tensorflow as tf
from row_seconds import row_seconds

SHARDS = 10
_BUFFER = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="of the old files")
    parser.add_argument("output", help="the folder of the shards")
    parser.add_argument("--rows", type=int, default=-1, help="to read (default: all)")
    parser.add_argument("--row_seconds", help="a file for what the rows cost without the start")
    args = parser.parse_args()
    files = tf.data.Dataset.list_files(f"{args.folder}/*.tfrecord", seed=0)
    records = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
    shuffled = records.take(args.rows).shuffle(_BUFFER, seed=0)
    writers = [
        tf.io.TFRecordWriter(f"{args.output}/loop-{shard:05d}-of-{SHARDS:05d}.tfrecord") for shard in range(SHARDS)
    ]
    with row_seconds(args.row_seconds):
        for number, record in enumerate(shuffled.as_numpy_iterator()):
            writers[number % SHARDS].write(record)
        for writer in writers:
            writer.close()


if __name__ == "__main__":
    main()
