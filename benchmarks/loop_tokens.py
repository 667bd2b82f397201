"""What bench_tokens compares with: the loop everybody writes, one text at a time, packed into blocks, unshuffled."""

from itertools import islice

import tensorflow as tf
from loop_shards import SHARDS, loop_parser, shard_writers
from row_seconds import row_seconds
from tokenizers import Tokenizer


def main() -> None:
    parser = loop_parser(__doc__)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--pack_to", type=int, required=True)
    parser.add_argument("--end_of_text", default="<|endoftext|>")
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(args.tokenizer)
    end = tokenizer.token_to_id(args.end_of_text)
    assert end is not None
    pending: list[int] = []
    blocks = 0
    with row_seconds(args.row_seconds), shard_writers(args.output) as writers, open(args.source) as file:
        for line in islice(file, args.rows):
            pending += tokenizer.encode(line.rstrip("\n")).ids
            pending.append(end)
            while len(pending) >= args.pack_to:
                ids = tf.train.Feature(int64_list=tf.train.Int64List(value=pending[: args.pack_to]))
                example = tf.train.Example(features=tf.train.Features(feature={"input_ids": ids}))
                writers[blocks % SHARDS].write(example.SerializeToString())
                pending, blocks = pending[args.pack_to :], blocks + 1


if __name__ == "__main__":
    main()
