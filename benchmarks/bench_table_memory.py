"""Whether `shardmill csv` scales: its time and its peak of memory on a CSV file, on ten times the rows, on a hundred
times.

Ten times the rows must take at most eleven times as long, and from the second size to the third, 0.2 GB to 2 GB, memory
must stay flat. Exits with 1 otherwise.
"""

import argparse
import itertools
import shlex
import statistics
import sys

from against import in_turns
from compare import shardmill_command
from measure import machine, make_table
from options import add_folder, add_rounds

_MOST_GROWTH = 1.15
_MOST_TIME = 11.0
_STEP = 10


def table(sizes: list[int], seconds: list[float], peaks_mb: list[float]) -> str:
    """A row for each size, beside the one before."""
    lines = [
        "| MB of CSV | seconds | times those before | peak resident memory, MB | times that before |",
        "|---:|---:|---:|---:|---:|",
        f"| {sizes[0] / 1e6:.0f} | {seconds[0]:.1f} | | {peaks_mb[0]:.0f} | |",
    ]
    for size, (faster, slower), (less, more) in zip(
        sizes[1:], itertools.pairwise(seconds), itertools.pairwise(peaks_mb)
    ):
        lines.append(f"| {size / 1e6:.0f} | {slower:.1f} | {slower / faster:.2f} | {more:.0f} | {more / less:.2f} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000, help="of the first of three sizes (default: %(default)s)")
    add_rounds(parser)
    add_folder(parser)
    args = parser.parse_args()

    sources = [make_table(args.folder, "csv", args.rows * _STEP**power) for power in range(3)]
    output = args.folder / "output"
    commands = [shardmill_command("csv", source, output) for source in sources]
    named = {source.name: command for source, command in zip(sources, commands, strict=True)}
    runs = in_turns(named, output, args.rounds).values()

    seconds = [statistics.median(run.seconds for run in measured) for measured in runs]
    peaks_mb = [max(run.peak_bytes for run in measured) / 1e6 for measured in runs]
    linear = all(slower / faster <= _MOST_TIME for faster, slower in itertools.pairwise(seconds))
    flat = peaks_mb[2] / peaks_mb[1] <= _MOST_GROWTH
    print(
        f"{args.rows:,} rows, then {_STEP} times as many, twice; start-up included; median time and highest peak of"
        f" {args.rounds}"
    )
    print(f"{machine()}: `{shlex.join(commands[-1])}`\n")
    print(table([source.stat().st_size for source in sources], seconds, peaks_mb))
    print(f"\n{'linear' if linear else 'NOT LINEAR'} in time, {'flat' if flat else 'NOT FLAT'} in memory")
    return 0 if linear and flat else 1


if __name__ == "__main__":
    sys.exit(main())
