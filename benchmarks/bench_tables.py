"""How fast `shardmill csv` is: against the loop everybody writes, stock Beam, tfx-bsl's encoder, and a copy of the
bytes.

All on the same file in one run, as processes of their own with start-up included, in turns.
"""

import argparse
import sys
from pathlib import Path

import tables
from compare import (
    COPY,
    LOOP,
    Case,
    add_options,
    compare,
    copy_case,
    loop_case,
    medians,
    publish_once,
    report,
    shardmill_command,
)
from measure import BENCHMARKS, SHARDMILL, make_table


def beam_case(folder: Path, source: Path, output: Path, args: argparse.Namespace) -> Case:
    """Stock Beam on a file of the first rows."""

    script = (sys.executable, str(BENCHMARKS / "stock_beam.py"))
    if args.beam_rows >= args.rows:
        return Case((*script, str(source), str(output)), args.loop_rounds)
    part, empty = make_table(folder, "csv", args.beam_rows), make_table(folder, "csv", 0)
    return Case((*script, str(part), str(output), "--empty", str(empty)), args.loop_rounds, args.beam_rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--beam_rows", type=int, default=100_000, help="to time stock Beam on (default: %(default)s)")
    args = parser.parse_args()

    source = make_table(args.folder, "csv", args.rows)
    output, kept = args.folder / "output", args.folder / "published"
    inferring = shardmill_command("csv", source, output)
    publish_once(inferring, output, kept)
    schema = ("--schema", str(kept / "schema.pbtxt"))
    tfx_bsl = (sys.executable, str(BENCHMARKS / "csv_with_tfx_bsl.py"))
    ours, stock = "`shardmill csv`, types from all rows", "stock Beam: `ReadFromText`, `Map`, `WriteToTFRecord`"
    cases = {
        LOOP: loop_case("loop_table.py", source, output, args),
        stock: beam_case(args.folder, source, output, args),
        ours: Case(inferring, args.rounds),
        "`shardmill csv --schema`": Case((*inferring, *schema), args.rounds),
        "the same with tfx-bsl's encoder": Case(
            (*tfx_bsl, *inferring[len((SHARDMILL, "csv")) :], *schema), args.rounds
        ),
        COPY: copy_case(source, kept, output, args.rounds),
    }
    runs = compare(cases, output, args.rows, max(args.rounds, args.loop_rounds))
    seconds = medians(runs)
    what, end = f"CSV, {args.rows:,} rows of 10 columns", f"{seconds[ours]:.1f} | `bench_tables.py` |"
    tables.publish(
        f"The loop: `csv.DictReader`, `tf.train.Example`, `TFRecordWriter`. {report(cases, runs, args.rows, source)}",
        args.write,
        losses=tables.losses({name: value for name, value in seconds.items() if "--schema" not in name}, ours),
        readme=[
            f"| {what} | A loop with `csv.DictReader` and `TFRecordWriter` | {seconds[LOOP]:.1f} | {end}",
            f"| The same | Beam's `ReadFromText` and `WriteToTFRecord` | {seconds[stock]:.1f} | {end}",
        ],
    )


if __name__ == "__main__":
    main()
