"""Measure the cost of many shards: `shardmill csv` of one table into ten shards and into thousands, beside the time to
make, write, sync and rename as many files."""

import argparse
import os
import shutil
import statistics
import time
from pathlib import Path

import tables
from against import in_turns
from measure import SHARDMILL, make_table
from options import add_folder, add_rounds, add_write

_FEW = 10
_GROWTH = 3  # a record, by its row
_WRITTEN = 1 << 18  # bytes of a bare file at once


def bare_files(folder: Path, number: int, size_bytes: int) -> float:
    """Seconds that it takes to make `number` files of `size_bytes` in all, and to sync and rename them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.sync()
    data = os.urandom(_WRITTEN)
    start = time.perf_counter()
    for index in range(number):
        with (folder / f"{index}.new").open("wb", buffering=0) as file:
            for at in range(0, size_bytes // number, _WRITTEN):
                file.write(data[: size_bytes // number - at])
    os.sync()
    for index in range(number):
        (folder / f"{index}.new").rename(folder / f"{index}")
    seconds = time.perf_counter() - start
    shutil.rmtree(folder)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000, help="of the table (default: %(default)s)")
    parser.add_argument("--shards", type=int, default=4_000, help="default: %(default)s")
    add_rounds(parser, 1)
    add_folder(parser)
    add_write(parser)
    args = parser.parse_args()
    source, output = make_table(args.folder, "csv", args.rows), args.folder / "output"
    command = [SHARDMILL, "csv", "--input", str(source), "--output", str(output), "--name", "bench", "--num_shards"]
    shards = {f"`shardmill csv` into {number:,} shards": number for number in (_FEW, args.shards)}
    runs = in_turns({name: [*command, str(number)] for name, number in shards.items()}, output, args.rounds)
    seconds = {name: statistics.median(run.seconds for run in found) for name, found in runs.items()}
    cores = {name: statistics.median(run.core_seconds for run in found) for name, found in runs.items()}
    size = _GROWTH * source.stat().st_size
    for number in shards.values():
        took = [bare_files(output, number, size) for _ in range(args.rounds)]
        seconds[f"{number:,} bare files"] = statistics.median(took)
    few, many, few_bare, many_bare = seconds.values()
    each, bare = (1000 * (more - less) / (args.shards - _FEW) for less, more in ((few, many), (few_bare, many_bare)))
    rows = [[name, f"{value:.1f}", f"{cores[name]:.1f}" if name in cores else ""] for name, value in seconds.items()]
    shown = tables.table([f"{args.rows:,} rows", "seconds", "core seconds"], rows)
    tables.publish(
        f"Medians of {args.rounds} rounds:\n\n{shown}\n\nA shard takes {each:.2f} ms, a bare file {bare:.2f} ms.",
        args.write,
        losses=tables.losses({"A shard": each, "a bare file": bare}, "A shard", "time"),
    )


if __name__ == "__main__":
    main()
