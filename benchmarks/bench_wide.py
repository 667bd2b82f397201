"""Measure `shardmill csv` on tables of many columns: its speed against a hand-written loop, the second version of a
data set against the first, and peak memory.

All on the same file in one run, as processes of their own with start-up included, in turns.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import tables
from compare import SHARDS
from measure import BENCHMARKS, SHARDMILL, Measured, measure
from options import add_folder, add_rounds, add_write

TABLES = ("genes:200x20000", "pixels:5000x785")
LOOP, FIRST, SECOND = "the loop", "`shardmill csv`", "its second version"


def make_table(folder: Path, table: str) -> Path:
    """The file that make_wide.py makes; see there."""
    kind, _, size = table.partition(":")
    rows, _, columns = size.partition("x")
    script = str(BENCHMARKS / "make_wide.py")
    command = [sys.executable, script, str(folder), "--kind", kind, "--rows", rows, "--columns", columns]
    return Path(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip())


def commands(source: Path, output: Path) -> dict[str, tuple[str, ...]]:
    """Return the commands of a round, in order."""
    convert: tuple[str, ...] = (SHARDMILL, "csv", "--input", str(source), "--output", str(output), "--name", "bench")
    convert = (*convert, "--num_shards", str(SHARDS))
    return {
        LOOP: (sys.executable, str(BENCHMARKS / "loop_wide.py"), str(source), str(output)),
        FIRST: (*convert, "--version", "1.0.0"),
        SECOND: (*convert, "--version", "1.0.1"),
    }


def measure_table(source: Path, output: Path, rounds: int, loop_rounds: int) -> dict[str, list[Measured]]:
    """The measurements of each command, one round of all after the other."""
    runs: dict[str, list[Measured]] = {}
    for number in range(rounds):
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir()
        for name, command in commands(source, output).items():
            if name != LOOP or number < loop_rounds:
                runs.setdefault(name, []).append(measure(command))
                print(f"{source.name}, round {number + 1}: {name}: {runs[name][-1].seconds:.1f} s", file=sys.stderr)
    shutil.rmtree(output)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", default=TABLES, help="as kind:ROWSxCOLUMNS (default: all)")
    parser.add_argument("--loop_rounds", type=int, default=1, help="of the loop, which is slow (default: %(default)s)")
    add_rounds(parser, 1)
    add_folder(parser)
    add_write(parser)
    args = parser.parse_args()
    rows, slower = [], list[str]()
    for table in args.tables:
        source = make_table(args.folder, table)
        runs = measure_table(source, args.folder / "output", args.rounds, args.loop_rounds)
        seconds = {name: statistics.median(run.seconds for run in found) for name, found in runs.items()}
        for name, found in runs.items():
            cores = statistics.median(run.core_seconds for run in found)
            peak = statistics.median(run.peak_bytes for run in found) / 1e6
            ratios = f"{seconds[LOOP] / seconds[name]:.2f}", f"{seconds[name] / seconds[FIRST]:.2f}"
            rows.append([f"{table}, {name}", f"{seconds[name]:.1f}", *ratios, f"{cores:.1f}", f"{peak:,.0f}"])
        slower += [f"{table}: {loss}" for loss in tables.losses({name: seconds[name] for name in (LOOP, FIRST)}, FIRST)]
    columns = "", "seconds", "times as fast as the loop", "of the first version", "core seconds", "peak memory, MB"
    tables.publish(f"Medians, start-up included:\n\n{tables.table(columns, rows)}", args.write, losses=slower)


if __name__ == "__main__":
    main()
