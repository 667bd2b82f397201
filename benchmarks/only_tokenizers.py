"""What bench_tokens shows beside: tokenizers alone, its own batches on all cores, of which nothing is kept."""

import argparse
from itertools import islice

from tokenizers import Tokenizer

BATCH = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("tokenizer")
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(args.tokenizer)
    with open(args.path) as file:
        lines = map(str.rstrip, file)
        while batch := list(islice(lines, BATCH)):
            tokenizer.encode_batch_fast(batch, add_special_tokens=False)


if __name__ == "__main__":
    main()
