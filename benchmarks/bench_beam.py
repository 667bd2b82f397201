"""Compare shardmill in Beam pipelines and in programs with stock Beam and with loops.

Each case is a process of its own, start-up included, in turns. Stock Beam and the loop take long: they are timed on a
part of the rows, and what a row costs is scaled.
"""

import argparse
import shutil
import statistics
import sys
from pathlib import Path

import tables
from compare import SHARDS, Case, Times, compare, publish_once, shardmill_command
from measure import BENCHMARKS, make_table
from options import add_folder, add_rounds, add_write

_FRAME_SHARE = 3  # of the rows, one in so many is in the DataFrame
_OWN = "def same(value):\n    return value\n"
# What is measured, and what it is compared with
COMPARED = (
    ("`WriteDataset`, dictionaries", "`Map(to_example)`, `WriteToTFRecord`"),
    ("`WriteDataset`, record batches", "`shardmill parquet`"),
    ("`shardmill csv --map_batches`, identity", "`shardmill csv`"),
    ("`shardmill csv --map`, identity", "`shardmill csv`"),
    ("`ReadDataset`, dictionaries", "`ReadFromTFRecord`, `Map(from_example)`"),
    ("`ReadDataset`, record batches", "`ReadFromTFRecord`, `Map(from_example)`"),
    ("`shardmill.write`, a DataFrame", "a loop: `to_example`, `TFRecordWriter`"),
)


def main() -> None:
    """Measure all cases, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument("--part_rows", type=int, default=100_000, help="of stock Beam and of the loop")
    add_rounds(parser, 1)
    add_folder(parser)
    add_write(parser)
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
    seconds = {name: statistics.median(run.seconds for run in rounds) for name, rounds in runs.items()}
    shown, slower = [], list[str]()
    for name, other in COMPARED:
        cores = statistics.median(run.core_seconds for run in runs[name])
        numbers = (
            f"{seconds[name]:.1f}",
            f"{cores:.1f}",
            f"{seconds[other]:.1f}",
            f"{seconds[other] / seconds[name]:.2f}",
        )
        shown.append([f"{name}; compared with {other}", *numbers])
        slower += tables.losses({name: seconds[name], other: seconds[other]}, name)
    what = f"{rows:,} rows of ten values, {frame_rows:,} in the DataFrame; medians of {args.rounds} rounds."
    scaled = f"Stock Beam and the loop are scaled from {args.part_rows:,} rows:"
    columns = "", "seconds", "core seconds", "seconds of the other", "times as fast"
    tables.publish(f"{what} {scaled}\n\n{tables.table(columns, shown)}", args.write, losses=slower)


if __name__ == "__main__":
    main()
