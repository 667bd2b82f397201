"""Measure how fast each route is on 1, 2, 4, … cores of a machine: `make bench CORES=16`.

The table is printed, to be sent to the authors; it is not part of docs/benchmarks.md, whose machine has two cores.
"""

import argparse
import os
import shutil
import statistics
import sys
from pathlib import Path

import tables
from bench_lock import ROUTES
from measure import SHARDMILL, measure
from options import add_folder, add_rounds


def numbers_of_cores(most: int) -> list[int]:
    """Return the powers of two below `most`, and `most`."""
    return [1 << power for power in range(most.bit_length()) if 1 << power < most] + [most]


def measure_route(name: str, folder: Path, records: int, cores: int, rounds: int) -> tuple[float, float]:
    """Return the seconds and the core seconds of a route on so many cores, medians of some rounds."""
    route, output = ROUTES[name], folder / "output"
    words = ["--input", str(route.make(folder, records)), "--output", str(output), "--name", "bench"]
    found = []
    for number in range(rounds):
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
        command = [SHARDMILL, route.command, *words, *route.flags(folder), "--num_shards", str(4 * cores)]
        found.append(measure(command, sorted(os.sched_getaffinity(0))[:cores]))
        print(f"{name}, {cores} cores, round {number + 1}: {found[-1].seconds:.1f} s", file=sys.stderr)
    shutil.rmtree(output)
    return tuple(statistics.median(getattr(one, what) for one in found) for what in ("seconds", "core_seconds"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="the most (default: all)")
    parser.add_argument("--routes", nargs="+", choices=list(ROUTES), default=list(ROUTES), help="(default: all)")
    parser.add_argument("--scale", type=float, default=4.0, help="of the records of bench_lock.py (default: 4)")
    add_rounds(parser)
    add_folder(parser)
    args = parser.parse_args()
    if args.cores > (here := len(os.sched_getaffinity(0))):
        sys.exit(f"--cores {args.cores}: this process may use {here}")
    rows = []
    for name in args.routes:
        records = max(int(ROUTES[name].records * args.scale), 1)
        first = 0.0
        for cores in numbers_of_cores(args.cores):
            seconds, core_seconds = measure_route(name, args.folder, records, cores, args.rounds)
            first = first or seconds
            times = [f"{seconds:.1f}", f"{first / seconds:.2f}", f"{core_seconds:.1f}", f"{records / seconds:,.0f}"]
            rows.append([f"`{name}`", f"{records:,}", str(cores), *times])
    columns = "", "records", "cores", "seconds", "times as fast as on one", "core seconds", "records a second"
    tables.publish(f"Start-up included. Rounds: {args.rounds}; medians.\n\n{tables.table(columns, rows)}", False)


if __name__ == "__main__":
    main()
