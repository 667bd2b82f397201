"""What the loops over records have in common: which records they read, and the shards that they deal them out to."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

SHARDS = 10


def loop_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser of the options of a loop."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("source")
    parser.add_argument("output", help="the folder of the shards")
    parser.add_argument("--rows", type=int, help="to read (default: all)")
    parser.add_argument("--row_seconds", help="a file for what the rows cost without the start")
    return parser


@contextmanager
def shard_writers(output: str) -> Iterator[list[tf.io.TFRecordWriter]]:
    """A writer of each shard; all are closed with the block."""
    writers = [tf.io.TFRecordWriter(f"{output}/loop-{shard:05d}-of-{SHARDS:05d}.tfrecord") for shard in range(SHARDS)]
    yield writers
    for writer in writers:
        writer.close()
