"""Train a tokenizer of Hugging Face's tokenizers on the text files below a folder: `write_tokenizer.py FOLDER FILE`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

SIZE, END = 1000, "<|endoftext|>"


def main(arguments: Sequence[str] | None = None) -> int:
    """Train it, and write it to a file; returns how many tokens it has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("file", type=Path)
    options = parser.parse_args(arguments)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=SIZE, special_tokens=[END], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train(sorted(map(str, options.folder.rglob("*.txt"))), trainer)
    tokenizer.save(str(options.file))
    print(f"wrote a tokenizer of {tokenizer.get_vocab_size():,} tokens")
    return tokenizer.get_vocab_size()


if __name__ == "__main__":
    main()
