"""A table in an object store that answers after 30 ms, held against the same on a local disk: CSV to shards there."""

import argparse
import shutil
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path

from bench_rebuild import store
from measure import SHARDMILL, Measured, machine, make_table, measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=30_000_000, help="of 68 bytes (default: %(default)s)")
    parser.add_argument("--shards", type=int, default=0, help="in each split (default: chosen by their size)")
    parser.add_argument("--rounds", type=int, default=1, help="of which the median counts (default: %(default)s)")
    parser.add_argument(
        "--data", type=Path, default=Path("bench-data"), help="for tables and outputs (default: %(default)s)"
    )
    args = parser.parse_args()

    table = make_table(args.data, "csv", args.rows).resolve()
    bucket = table.parent / "store"
    shutil.rmtree(bucket, ignore_errors=True)
    (bucket / "in").mkdir(parents=True)
    (bucket / "in" / table.name).hardlink_to(table)
    runs: dict[str, list[Measured]] = {"local disk": [], "object store": []}
    with ExitStack() as stack:
        beam = store(bucket.parent, stack)
        for number in range(args.rounds):
            for name, where, flags in (("local disk", str(bucket), []), ("object store", f"s3://{bucket.name}", beam)):
                shutil.rmtree(bucket / "out", ignore_errors=True)
                words = ["--input", f"{where}/in", "--output", f"{where}/out", "--name", "bench"]
                shards = ["--num_shards", str(args.shards)] if args.shards else []
                measured = measure([SHARDMILL, "csv", *words, *shards, *flags])
                print(f"round {number + 1}: {name}: {measured.seconds:.1f} s", file=sys.stderr)
                runs[name].append(measured)
    shutil.rmtree(bucket)
    print(f"{args.rows:,} rows of CSV; median of {args.rounds}; {machine()}\n")
    print("| | seconds | speed of the local disk | seconds of all cores | peak memory, MB |\n|---|---:|---:|---:|---:|")
    local = statistics.median(run.seconds for run in runs["local disk"])
    for name, rounds in runs.items():
        seconds = statistics.median(run.seconds for run in rounds)
        cores = statistics.median(run.core_seconds for run in rounds)
        peak = max(run.peak_bytes for run in rounds) / 1e6
        print(f"| {name} | {seconds:.1f} | {local / seconds:.2f} | {cores:.1f} | {peak:.0f} |")


if __name__ == "__main__":
    main()
