"""What the statistics cost that a job gathers for its page alone: hashes of what examples hold, and the search for
equal ones; values counted with labels; the most extreme images; FeatureStats.pb. As a share of all other core seconds
of the jobs of bench_tables and bench_images, and of tables with a label or a key, which have more; and the page itself.
"""

import argparse
import json
import shutil
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from measure import BENCHMARKS, machine, make_images, make_table, measure
from options import add_folder, add_rounds

_SPLITS = ("--splits", "train=0.8,validation=0.1,test=0.1")
# As page_statistics.py calls them, which a process as small as this one should not import
_STATISTICS = ("contents", "label pairs", "extremes", "FeatureStats.pb")
_PAGE = "the page"


def commands(args: argparse.Namespace) -> Mapping[str, list[str]]:
    """The jobs, without where their data sets go."""
    table = ["csv", "--input", str(make_table(args.folder, "csv", args.rows)), "--num_shards", "10"]
    images = ["images", "--input", str(make_images(args.folder, args.images, kilobytes=25)), *_SPLITS]
    labelled = {"csv --label": [*table, "--label", "word_0"], "csv --key": [*table, "--key", "int_2"]}
    return {"csv": table, "images": images, **labelled}


def shares(command: Sequence[str], output: Path) -> dict[str, float]:
    """The core seconds of one run, to an empty folder, and of what it does for the page as shares of the others."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    told = output / "told.json"
    script = [sys.executable, str(BENCHMARKS / "page_statistics.py"), str(told)]
    measure([*script, *command, "--output", str(output), "--name", "bench"])
    found = json.loads(told.read_text())
    spent = {name: found[name] for name in (*_STATISTICS, _PAGE)}
    rest = found["all"] - sum(spent.values())
    parts = {name: seconds / rest for name, seconds in spent.items()}
    return {"seconds": found["all"], "together": sum(parts[name] for name in _STATISTICS), **parts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000, help="of tables (default: %(default)s)")
    parser.add_argument("--images", type=int, default=20_000, help="of about 25 KB (default: %(default)s)")
    add_rounds(parser, 5)
    add_folder(parser)
    args = parser.parse_args()

    output = args.folder / "output"
    runs: dict[str, list[dict[str, float]]] = {}
    for _ in range(args.rounds):
        for job, command in commands(args).items():
            runs.setdefault(job, []).append(shares(command, output))
    shutil.rmtree(output, ignore_errors=True)
    columns = ("together", *_STATISTICS, _PAGE)
    print(f"{args.rows:,} rows, {args.images:,} images; medians of {args.rounds}; {machine()}\n")
    print(f"| job | core seconds | {' | '.join(columns)} |\n|---|{'---:|' * (len(columns) + 1)}")
    for job, rounds in runs.items():
        medians = {name: statistics.median(run[name] for run in rounds) for name in rounds[0]}
        told = " | ".join(f"{medians[name]:.2%}" for name in columns)
        spread = f"{min(run['together'] for run in rounds):.2%} to {max(run['together'] for run in rounds):.2%}"
        print(f"| {job} | {medians['seconds']:.2f} | {told} |  together from {spread}")


if __name__ == "__main__":
    main()
