"""Whether `shardmill csv` grows with its data and no faster, and what many shards cost.

Ten times the rows into ten times the shards, as a table of a hundred gigabytes has them, must take at most 10.5 times
as long, in less than a gigabyte of memory; 4,000 shards of a table at most 15 % longer than ten of it. Exits with 1
otherwise. What is written is three times the CSV, twice: 36 GB beside the 6 GB of the larger table.

Beside many shards stands what as many files take of which nothing is asked: made, written, synced and renamed.
"""

import argparse
import os
import shlex
import shutil
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from measure import SHARDMILL, Measured, machine, make_table, measure
from options import add_folder, add_rounds

_TIMES, _MOST_TIMES, _MOST_BYTES = 10, 10.5, 1e9
_FEW, _MANY, _MOST_MORE = 10, 4_000, 1.15
_GROWTH = 3  # a record, by its row
_WRITTEN = 1 << 18  # bytes of a bare file at once
_BARE_ROUNDS = 5


@dataclass(frozen=True)
class Case:
    """A table, the shards that it becomes, and how long that took."""

    source: Path
    shards: int
    runs: list[Measured] = field(default_factory=list)

    def command(self, output: Path) -> list[str]:
        """What is measured."""
        words = ["--input", str(self.source), "--output", str(output), "--name", "bench"]
        return [SHARDMILL, "csv", *words, "--num_shards", str(self.shards)]

    @property
    def seconds(self) -> float:
        """The median."""
        return statistics.median(run.seconds for run in self.runs)

    @property
    def core_seconds(self) -> float:
        """The median of those of all cores together."""
        return statistics.median(run.core_seconds for run in self.runs)

    @property
    def peak_bytes(self) -> int:
        """The highest."""
        return max(run.peak_bytes for run in self.runs)


def in_turns(cases: list[Case], output: Path, rounds: int) -> None:
    """Measure each case so often."""
    for number in range(rounds):
        for case in cases:
            shutil.rmtree(output, ignore_errors=True)
            case.runs.append(measure(case.command(output)))
            said = f"{case.source.name} into {case.shards:,}: {case.runs[-1].seconds:.1f} s"
            print(f"round {number + 1}: {said}", file=sys.stderr)
    shutil.rmtree(output, ignore_errors=True)


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


def table(cases: list[Case]) -> str:
    """A row for each case, beside the one before."""
    lines = [
        "| MB of CSV | shards | seconds | times those before | core seconds | times those before | peak, MB |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for before, case in zip([None, *cases], cases):
        clock, cores = (
            ("", "")
            if before is None
            else (f"{case.seconds / before.seconds:.2f}", f"{case.core_seconds / before.core_seconds:.2f}")
        )
        size = case.source.stat().st_size / 1e6
        lines.append(
            f"| {size:.0f} | {case.shards:,} | {case.seconds:.1f} | {clock} | {case.core_seconds:.1f} | {cores} |"
            f" {case.peak_bytes / 1e6:.0f} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rows", type=int, default=8_800_000, help="of the smaller table, 0 for none (default: %(default)s)"
    )
    parser.add_argument("--shards", type=int, default=80, help="of the smaller table (default: %(default)s)")
    parser.add_argument("--many_rows", type=int, default=3_000_000, help="of that with many shards, 0 for none")
    add_rounds(parser, 1)
    add_folder(parser)
    args = parser.parse_args()
    output, failed = args.folder / "output", False
    print(machine())
    if args.many_rows:
        source = make_table(args.folder, "csv", args.many_rows)
        few, many = cases = [Case(source, shards) for shards in (_FEW, _MANY)]
        in_turns(cases, output, args.rounds)
        met = many.seconds <= _MOST_MORE * few.seconds
        failed |= not met
        said = "many cost little" if met else "MANY COST TOO MUCH"
        print(f"`{shlex.join(many.command(output))}`\n\n{table(cases)}\n\n{said}\n")
        size = _GROWTH * source.stat().st_size
        ten, thousands = (
            statistics.median(bare_files(output, case.shards, size) for _ in range(_BARE_ROUNDS)) for case in cases
        )
        each, ours = (
            (more - less) / (_MANY - _FEW) * 1000 for less, more in ((ten, thousands), (few.seconds, many.seconds))
        )
        print(f"bare files: {ten:.1f} and {thousands:.1f} s, {each:.2f} ms more a file; a shard {ours:.2f} ms\n")
    if args.rows:
        less, more = cases = [
            Case(make_table(args.folder, "csv", args.rows * times), args.shards * times) for times in (1, _TIMES)
        ]
        in_turns(cases, output, args.rounds)
        met = more.seconds <= _MOST_TIMES * less.seconds and more.peak_bytes < _MOST_BYTES
        failed |= not met
        print(f"`{shlex.join(more.command(output))}`\n\n{table(cases)}\n\n{'linear' if met else 'NOT LINEAR'}\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
