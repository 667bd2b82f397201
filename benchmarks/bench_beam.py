"""Compare shardmill in Beam pipelines and in programs with stock Beam and with loops.

Each case is a process of its own, start-up included, in turns. Stock Beam and the loop take long: they are timed on a
part of the rows, and what a row costs is scaled.
"""

import argparse
import shutil
import statistics
import sys
from pathlib import Path

from compare import SHARDS, Case, Times, compare, publish_once, shardmill_command
from measure import BENCHMARKS, machine, make_table
from options import add_folder, add_rounds

_FRAME_SHARE = 3  # of the rows, one in so many is in the DataFrame
_OWN = "def same(value):\n    return value\n"
# What is measured, what it is compared with, and how many times as fast (or, below 1, as slow) it has to be
BARS = (
    ("`WriteDataset`, dictionaries", "`Map(to_example)`, `WriteToTFRecord`", 4.0),
    ("`WriteDataset`, record batches", "`shardmill parquet`", 1 / 1.25),
    ("`shardmill csv --map_batches`, identity", "`shardmill csv`", 1 / 1.3),
    ("`shardmill csv --map`, identity", "`shardmill csv`", 0.0),
    ("`ReadDataset`, dictionaries", "`ReadFromTFRecord`, `Map(from_example)`", 2.0),
    ("`ReadDataset`, record batches", "`ReadFromTFRecord`, `Map(from_example)`", 2.0),
    ("`shardmill.write`, a DataFrame", "a loop: `to_example`, `TFRecordWriter`", 10.0),
)


def main() -> None:
    """Measure all cases, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000, help="default: %(default)s")
    parser.add_argument("--part_rows", type=int, default=300_000, help="of stock Beam and of the loop")
    add_rounds(parser)
    add_folder(parser)
    args = parser.parse_args()

    rows, frame_rows = args.rows, args.rows // _FRAME_SHARE
    table, source = make_table(args.folder, "plain.parquet", rows), make_table(args.folder, "csv", rows)
    output, published, own = args.folder / "output", args.folder / "published", args.folder / "own.py"
    own.write_text(_OWN)
    publish_once(shardmill_command("parquet", table, output), output, published)

    def program(case: str, read: Path, wanted: int, part: int | None = None) -> Case:
        command = (sys.executable, str(BENCHMARKS / "beam_cases.py"), case, str(read), str(output))
        is_part = part is not None and part < wanted
        return Case((*command, "--rows", str(part if is_part else wanted)), args.rounds, part if is_part else None)

    csv = shardmill_command("csv", source, output)
    cases = {
        "`Map(to_example)`, `WriteToTFRecord`": program("write_stock", table, rows, args.part_rows),
        "`WriteDataset`, dictionaries": program("write_dicts", table, rows),
        "`WriteDataset`, record batches": program("write_batches", table, rows),
        "`shardmill parquet`": Case(shardmill_command("parquet", table, output), args.rounds),
        "`shardmill csv`": Case(csv, args.rounds),
        "`shardmill csv --map_batches`, identity": Case((*csv, "--map_batches", f"{own}:same"), args.rounds),
        "`shardmill csv --map`, identity": Case((*csv, "--map", f"{own}:same"), args.rounds),
        "`ReadFromTFRecord`, `Map(from_example)`": program("read_stock", published, rows, rows // SHARDS),
        "`ReadDataset`, dictionaries": program("read_dicts", published, rows),
        "`ReadDataset`, record batches": program("read_record_batches", published, rows),
        "`shardmill.write`, a DataFrame": program("write_frame", table, frame_rows),
        "a loop: `to_example`, `TFRecordWriter`": program("loop_frame", table, frame_rows, args.part_rows),
    }
    runs: dict[str, list[Times]] = {}
    for _ in range(args.rounds):
        for name, case in cases.items():
            wanted = frame_rows if "frame" in case.command[2] else rows
            runs.setdefault(name, []).extend(compare({name: case}, output, wanted, 1)[name])
    shutil.rmtree(published)
    print(f"{rows:,} rows of ten values ({frame_rows:,} in the DataFrame); medians of {args.rounds}; {machine()}\n")
    print("| | seconds | seconds of all cores | compared with | seconds | times as fast | bar |")
    print("|---|---:|---:|---|---:|---:|---:|")
    seconds = {name: statistics.median(run.seconds for run in rounds) for name, rounds in runs.items()}
    for name, other, bar in BARS:
        cores = statistics.median(run.core_seconds for run in runs[name])
        figures = f"{seconds[name]:.1f} | {cores:.1f} | {other} | {seconds[other]:.1f}"
        print(f"| {name} | {figures} | {seconds[other] / seconds[name]:.2f} | {f'{bar:.2f}' if bar else ''} |")


if __name__ == "__main__":
    main()
