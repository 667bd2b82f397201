"""What --transform costs: the same table with it and without, in turns, start-up included; with --stock, --materialize
and --module_file against Beam's and TensorFlow Transform's own transforms (stock_transform.py), with their memory; and,
with --distinct, how much memory a vocabulary of so many different texts takes.

TensorFlow Transform writes the graph in a process of its own, so the command's peak is that of the larger of the two.
"""

import argparse
import statistics
import sys
from pathlib import Path

from against import in_turns
from compare import Case, add_options, compare, report, shardmill_command
from measure import BENCHMARKS, machine, make_table, measure

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


def against_stock(source: Path, output: Path, transform: Path, rounds: int) -> str:
    """Each of our routes and its stock one, in turns: seconds, seconds of all cores, peak memory of one process."""
    stock = (sys.executable, str(BENCHMARKS / "stock_transform.py"))
    plain = shardmill_command("csv", source, output)
    commands = {
        "stock, dictionaries to transformed examples": (*stock, "dicts", str(source), str(output)),
        "shardmill csv --transform --materialize": (*plain, "--transform", str(transform), "--materialize"),
        "stock, record batches, analyzed": (*stock, "batches", str(source), str(output)),
        "shardmill csv --module_file": (*plain, "--module_file", str(BENCHMARKS / "preprocessing.py")),
    }
    found = in_turns(commands, output, rounds)
    lines = ["| | seconds | seconds of all cores | peak memory, MB |", "|---|---:|---:|---:|"]
    for name, runs in found.items():
        seconds, cores = (statistics.median(values) for values in zip(*((r.seconds, r.core_seconds) for r in runs)))
        lines.append(f"| {name} | {seconds:.1f} | {cores:.1f} | {max(run.peak_bytes for run in runs) / 1e6:,.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--distinct", type=int, default=0, help="texts of one vocabulary (default: not measured)")
    parser.add_argument("--stock", action="store_true", help="against the stock routes")
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
    if args.stock:
        print(f"{args.rows:,} rows; medians of {args.rounds}; {machine()}\n")
        print(against_stock(source, output, transform, args.rounds))
        return
    plain = shardmill_command("csv", source, output)
    cases = {
        "shardmill csv": Case(plain, args.rounds),
        "shardmill csv --transform": Case((*plain, "--transform", str(transform)), args.rounds),
    }
    print(report(cases, compare(cases, output, args.rows, args.rounds), args.rows, source))


if __name__ == "__main__":
    main()
