"""Measure `--transform`, `--materialize` and `--module_file` against Beam's and TensorFlow Transform's own transforms
(stock_transform.py), and against the same job without preprocessing.

All on the same table, in turns, start-up included. With --distinct, measure how much memory a vocabulary of so many
different texts takes.
"""

import argparse
import statistics
import sys
from pathlib import Path

import tables
from against import in_turns
from compare import add_options, shardmill_command
from measure import BENCHMARKS, Measured, machine, make_table, measure

# Two z-scores, one bucketize, two vocabularies: columns of benchmarks/make_table.py.
TRANSFORM = """\
float_0: z_score
float_1: z_score
float_2: {bucketize: {num_buckets: 10}}
word_2: vocabulary
word_3: {vocabulary: {top_k: 5000, num_oov_buckets: 1}}
"""
_WIDTH = 12  # letters of a distinct text


def make_distinct(parent: Path, rows: int) -> Path:
    """A CSV file of so many rows, each with another text."""
    path = parent / f"distinct-{rows}.csv"
    if not path.exists():
        parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            file.write("text\n")
            for start in range(0, rows, 100_000):
                # Multiplied by an odd number: no order that a sort or a hash table would be the quicker for
                numbers = ((row * 0x9E3779B1) % (1 << 40) for row in range(start, min(start + 100_000, rows)))
                file.write("".join(f"w{number:0{_WIDTH - 1}x}\n" for number in numbers))
    return path


STOCK, OURS = "`ReadFromText`, dictionaries, `AnalyzeAndTransformDataset`", "`shardmill csv --transform --materialize`"
STOCK_BATCHES, MODULE = "record batches, `AnalyzeDataset`, raw examples", "`shardmill csv --module_file`"
PLAIN, GRAPH = "`shardmill csv`", "`shardmill csv --transform`"


def commands(source: Path, output: Path, transform: Path) -> dict[str, tuple[str, ...]]:
    """Return each of our commands, and what it is compared with."""
    stock = (sys.executable, str(BENCHMARKS / "stock_transform.py"))
    plain = shardmill_command("csv", source, output)
    return {
        STOCK: (*stock, "dicts", str(source), str(output)),
        OURS: (*plain, "--transform", str(transform), "--materialize"),
        STOCK_BATCHES: (*stock, "batches", str(source), str(output)),
        MODULE: (*plain, "--module_file", str(BENCHMARKS / "preprocessing.py")),
        PLAIN: plain,
        GRAPH: (*plain, "--transform", str(transform)),
    }


def median(runs: list[Measured]) -> Measured:
    """Return the medians of seconds, and the highest peak."""
    seconds, cores = (statistics.median(values) for values in zip(*((r.seconds, r.core_seconds) for r in runs)))
    return Measured(seconds, cores, max(run.peak_bytes for run in runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, 300_000)
    parser.set_defaults(rounds=1)
    parser.add_argument("--distinct", type=int, default=0, help="texts of one vocabulary (default: not measured)")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    output, transform = args.folder / "output", args.folder / "transform.yaml"

    if args.distinct:
        transform.write_text("text: vocabulary\n")
        source = make_distinct(args.folder, args.distinct)
        found = measure((*shardmill_command("csv", source, output), "--transform", str(transform)))
        peak = f"{found.peak_bytes / 1e9:.2f} GB"
        print(f"{machine()}\na vocabulary of {args.distinct:,} texts: {found.seconds:.0f} s, peak {peak}")
        return
    transform.write_text(TRANSFORM)
    source = make_table(args.folder, "csv", args.rows)
    runs = in_turns(commands(source, output, transform), output, args.rounds)
    medians = {name: median(measured) for name, measured in runs.items()}
    rows = [
        [name, f"{one.seconds:.1f}", f"{one.core_seconds:.1f}", f"{one.peak_bytes / 1e6:,.0f}"]
        for name, one in medians.items()
    ]
    seconds = {name: one.seconds for name, one in medians.items()}
    what = f"{args.rows:,} rows"
    shown = tables.table(["", "seconds", "core seconds", "peak memory, MB"], rows)
    tables.publish(
        f"{what}, medians of {args.rounds} rounds:\n\n{shown}",
        args.write,
        losses=tables.losses({PLAIN: seconds[PLAIN], GRAPH: seconds[GRAPH]}, GRAPH),
        readme=[
            f"| Preprocessing of {what} | Beam with TensorFlow Transform | {seconds[STOCK]:.1f} | {seconds[OURS]:.1f} |"
            " `bench_transform.py` |"
        ],
    )


if __name__ == "__main__":
    main()
