"""Tar files of WebDataset: `shardmill webdataset` against a loop over tarfile, tf.train.Example and TFRecordWriter.

Both on the same files in one run, as processes of their own with start-up included, in turns. The loop neither checks
an image nor shuffles. Beside them, what no such job is faster than: the start of shardmill, with one sample, and the
copies of bytes alone, see bare_copies.py.
"""

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

from against import in_turns
from measure import BENCHMARKS, SHARDMILL, Measured, machine
from options import add_folder, add_rounds


def make_tars(data: Path, samples: int, kilobytes: float) -> Path:
    """The folder that make_tars.py makes; see there."""
    command = [sys.executable, str(BENCHMARKS / "make_tars.py"), str(data)]
    sizes = ["--samples", str(samples), "--kilobytes", str(kilobytes)]
    made = subprocess.run([*command, *sizes], check=True, stdout=subprocess.PIPE, text=True)
    return Path(made.stdout.strip())


def table(runs: dict[str, list[Measured]]) -> str:
    """A row each: medians of the rounds, and how many times as fast as the first row."""
    lines = [
        "| | seconds | times as fast as the loop | seconds of all cores | peak memory of a process, MB |",
        "|---|---:|---:|---:|---:|",
    ]
    base = statistics.median(run.seconds for run in next(iter(runs.values())))
    for name, rounds in runs.items():
        seconds, cores = (statistics.median(getattr(run, w) for run in rounds) for w in ("seconds", "core_seconds"))
        peak = max(run.peak_bytes for run in rounds) / 1e6
        lines.append(f"| {name} | {seconds:.1f} | {base / seconds:.2f} | {cores:.1f} | {peak:.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=100_000, help="(default: %(default)s)")
    parser.add_argument("--kilobytes", type=float, default=25, help="of an image, about (default: %(default)s)")
    add_rounds(parser)
    add_folder(parser)
    args = parser.parse_args()

    tars = make_tars(args.folder, args.samples, args.kilobytes)
    one = make_tars(args.folder, 1, args.kilobytes)
    output = args.folder / "output"
    flags = ("--input", str(tars), "--output", str(output), "--name", "bench")
    commands: dict[str, list[str]] = {
        "a loop over tarfile": [sys.executable, str(BENCHMARKS / "loop_tars.py"), str(tars), str(output / "loop")],
        "`shardmill webdataset`": [SHARDMILL, "webdataset", *flags],
        "the same of one sample": [SHARDMILL, "webdataset", "--input", str(one), *flags[2:]],
        "copies alone": [sys.executable, str(BENCHMARKS / "bare_copies.py"), str(tars), str(output)],
    }
    runs = in_turns(commands, output, args.rounds)
    print(f"{args.samples:,} samples of {args.kilobytes:g} KB; median of {args.rounds}; {machine()}\n")
    print(table(runs))


if __name__ == "__main__":
    main()
