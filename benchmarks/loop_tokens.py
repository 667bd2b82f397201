"""What bench_tokens compares with: the loop everybody writes, one text at a time, packed into blocks, unshuffled."""

import argparse
from itertools import islice

import tensorflow as tf
from row_seconds import row_seconds
from tokenizers import Tokenizer

SHARDS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("output", help="the folder of the shards")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--pack_to", type=int, required=True)
    parser.add_argument("--end_of_text", default="<|endoftext|>")
    parser.add_argument("--rows", type=int, help="to read (default: all)")
    parser.add_argument("--row_seconds", help="a file for what the rows cost without the start")
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(args.tokenizer)
    end = tokenizer.token_to_id(args.end_of_text)
    assert end is not None
    writers = [
        tf.io.TFRecordWriter(f"{args.output}/loop-{shard:05d}-of-{SHARDS:05d}.tfrecord") for shard in range(SHARDS)
    ]
    pending: list[int] = []
    blocks = 0
    with row_seconds(args.row_seconds), open(args.path) as file:
        for line in islice(file, args.rows):
            pending += tokenizer.encode(line.rstrip("\n")).ids
            pending.append(end)
            while len(pending) >= args.pack_to:
                ids = tf.train.Feature(int64_list=tf.train.Int64List(value=pending[: args.pack_to]))
                example = tf.train.Example(features=tf.train.Features(feature={"input_ids": ids}))
                writers[blocks % SHARDS].write(example.SerializeToString())
                pending, blocks = pending[args.pack_to :], blocks + 1
        for writer in writers:
            writer.close()


if __name__ == "__main__":
    main()
