"""Make a CSV file of many columns to measure with: expressions of genes, or pixels."""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

_CHUNK_ROWS = 1000  # made at once
_DECIMALS = 4


def make_columns(kind: str, columns: int, rows: int, random: np.random.Generator) -> pa.RecordBatch:
    """An integer, and columns of numbers that are zero for the most part or not below it."""
    shape = (columns - 1, rows)
    if kind == "genes":
        values = np.maximum(random.normal(3, 3, shape), 0).round(_DECIMALS)
    else:
        values = random.integers(0, 256, shape) * (random.random(shape) < 0.2)
    names = [f"{kind[:-1]}{number}" for number in range(columns - 1)]
    return pa.RecordBatch.from_arrays(
        [pa.array(random.integers(0, 10, rows)), *map(pa.array, values)], names=["label", *names]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kind", choices=["genes", "pixels"], required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--columns", type=int, required=True)
    args = parser.parse_args()
    path = args.folder / f"{args.kind}-{args.rows}-{args.columns}.csv"
    if not path.exists():
        args.folder.mkdir(parents=True, exist_ok=True)
        random, unfinished = np.random.default_rng(0), path.with_suffix(".tmp")
        with open(unfinished, "wb") as file:
            for start in range(0, args.rows, _CHUNK_ROWS):
                batch = make_columns(args.kind, args.columns, min(_CHUNK_ROWS, args.rows - start), random)
                csv.write_csv(batch, file, csv.WriteOptions(include_header=not start, quoting_style="none"))
        unfinished.rename(path)
    print(path)


if __name__ == "__main__":
    main()
