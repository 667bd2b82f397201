"""What `shardmill rebuild` takes where there is nothing to do: over a tree of 100,000 small files, and over a set of
CSV files. Start-up is in it; listing the tree alone is measured beside it."""

import argparse
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

import tables
from measure import SHARDMILL, measure
from options import add_folder, add_rounds, add_write

_CSV_FILES = 40


def files(root: Path, number: int) -> None:
    """A tree of `number` texts in a hundred folders, and a set of CSV files."""
    for index in range(number):
        path = root / "tree" / f"c{index % 100:02d}" / f"{index}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text {index}")
    (root / "csv").mkdir()
    for index in range(_CSV_FILES):
        (root / "csv" / f"{index}.csv").write_text("a,b\n" + f"{index},x\n" * 10_000)


def listed(folder: Path) -> int:
    """How many files there are, each looked at once."""
    entries = (entry for inner in os.scandir(folder) for entry in os.scandir(inner))
    return sum(entry.stat().st_size > 0 for entry in entries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=50_000, help="of files (default: %(default)s)")
    add_folder(parser)
    add_write(parser)
    add_rounds(parser)
    args = parser.parse_args()
    root = args.folder / "unchanged"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    files(root, args.number)
    recipes = {"tree": "text: {record: file, input: %s}", "csv": "csv: {input: %s}"}
    begun = time.perf_counter()
    number = listed(root / "tree")
    rows = [[f"{number:,} files, listed only", f"{time.perf_counter() - begun:.2f}"]]
    for name, command in recipes.items():
        recipe = root / f"{name}.yaml"
        recipe.write_text(f"name: {name}\noutput: {root}/out\n{command % (root / name)}\n")
        measure([SHARDMILL, "rebuild", str(recipe)])
        seconds = [measure([SHARDMILL, "rebuild", str(recipe)]).seconds for _ in range(args.rounds)]
        what = {"tree": f"{number:,} files", "csv": f"{_CSV_FILES} CSV files"}[name]
        rows.append([f"`rebuild` of {what}: nothing to do", f"{statistics.median(seconds):.2f}"])
    if len(list((root / "out").glob("*/1.*"))) != len(recipes):
        sys.exit("more than one version of a data set was built: it was not unchanged")
    shutil.rmtree(root)
    tables.publish(tables.table(["", "seconds"], rows), args.write)


if __name__ == "__main__":
    main()
