"""How fast `shardmill text --tokenizer … --pack_to 2048` is: against the loop everybody writes, and beside tokenizers
alone, which is given each text whole.

All on the same texts in one run, as processes of their own with start-up included, in turns. The texts are of words
whose frequencies are those of language (Zipf's law), and the tokenizer is trained on the first of them.
"""

import argparse
import random
import sys
from itertools import islice
from pathlib import Path

import tables
from compare import LOOP, Case, add_options, compare, loop_case, medians, report, shardmill_command
from measure import BENCHMARKS
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

WORDS, LEAST, MOST = 50_000, 20, 400  # different words; words of a text
OURS, ALONE = "`shardmill text --pack_to`", "`tokenizers` alone"
TOKENS, TRAINED_ON, END, BLOCK = 32_000, 20_000, "<|endoftext|>", 2048


def make_texts(parent: Path, rows: int) -> Path:
    """A file of so many texts, one a line."""
    path = parent / f"texts-{rows}.txt"
    if not path.exists():
        parent.mkdir(parents=True, exist_ok=True)
        rng = random.Random(0)
        letters = "etaoinshrdlcumwfgypbvk"
        words = ["".join(rng.choices(letters, range(len(letters), 0, -1), k=rng.randint(2, 11))) for _ in range(WORDS)]
        total, weights = 0.0, []
        for rank in range(WORDS):
            total += 1 / (rank + 1)
            weights.append(total)
        with path.open("w") as file:
            for _ in range(rows):
                file.write(" ".join(rng.choices(words, cum_weights=weights, k=rng.randint(LEAST, MOST))) + ".\n")
    return path


def make_tokenizer(source: Path) -> Path:
    """A tokenizer trained on the first texts of a file, beside it."""
    path = source.with_suffix(".json")
    if not path.exists():
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(vocab_size=TOKENS, special_tokens=[END], show_progress=False)
        with source.open() as file:
            tokenizer.train_from_iterator(islice(file, TRAINED_ON), trainer)
        tokenizer.save(str(path))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, 50_000)
    parser.set_defaults(loop_rows=10_000)
    args = parser.parse_args()

    source = make_texts(args.folder, args.rows)
    tokenizer = make_tokenizer(source)
    flags = ("--tokenizer", str(tokenizer), "--pack_to", str(BLOCK))
    output = args.folder / "output"
    loop = loop_case("loop_tokens.py", source, output, args)
    alone = (sys.executable, str(BENCHMARKS / "only_tokenizers.py"), str(source), str(tokenizer))
    cases = {
        LOOP: Case((*loop.command, *flags), loop.rounds, loop.rows),
        OURS: Case((*shardmill_command("text", source, output), *flags), args.rounds),
        ALONE: Case(alone, args.rounds),
    }
    runs = compare(cases, output, args.rows, max(args.rounds, args.loop_rounds))
    text = report(cases, runs, args.rows, source)
    tables.publish(text, args.write, losses=tables.losses(medians(runs), OURS))


if __name__ == "__main__":
    main()
