"""Tar files of WebDataset: `shardmill webdataset` against a loop over tarfile, tf.train.Example and TFRecordWriter.

Both on the same files in one run, as processes of their own with start-up included, in turns. The loop neither checks
an image nor shuffles. Beside them, what no such job is faster than: the start of each, with one sample, and the copies
of bytes alone, see bare_copies.py.
"""

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

import tables
from against import in_turns
from measure import BENCHMARKS, SHARDMILL, Measured
from options import add_folder, add_rounds, add_write

LOOP, OURS, COPIES = "a loop over tarfile", "`shardmill webdataset`", "copies alone"
LOOP_START, OUR_START = "the loop over one sample", "`shardmill webdataset` of one sample"


def make_tars(data: Path, samples: int, kilobytes: float) -> Path:
    """The folder that make_tars.py makes; see there."""
    command = [sys.executable, str(BENCHMARKS / "make_tars.py"), str(data)]
    sizes = ["--samples", str(samples), "--kilobytes", str(kilobytes)]
    made = subprocess.run([*command, *sizes], check=True, stdout=subprocess.PIPE, text=True)
    return Path(made.stdout.strip())


def table(runs: dict[str, list[Measured]], medians: dict[str, float]) -> str:
    """A row each: medians of the rounds, and how many times as fast as the first row."""
    rows = []
    for name, rounds in runs.items():
        cores = statistics.median(run.core_seconds for run in rounds)
        peak = max(run.peak_bytes for run in rounds) / 1e6
        rows.append(
            [name, f"{medians[name]:.1f}", f"{medians[LOOP] / medians[name]:.2f}", f"{cores:.1f}", f"{peak:.0f}"]
        )
    columns = "", "seconds", "times as fast as the loop", "core seconds", "peak memory of a process, MB"
    return tables.table(columns, rows)


def without_start(spent: dict[str, float]) -> float:
    """Return the loop's seconds divided by shardmill's, each without those of one sample, and 0.01 at least."""
    return max(spent[LOOP] - spent[LOOP_START], 0.01) / max(spent[OURS] - spent[OUR_START], 0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=40_000, help="(default: %(default)s)")
    parser.add_argument("--kilobytes", type=float, default=25, help="of an image, about (default: %(default)s)")
    add_rounds(parser)
    add_folder(parser)
    add_write(parser)
    args = parser.parse_args()

    tars = make_tars(args.folder, args.samples, args.kilobytes)
    one = make_tars(args.folder, 1, args.kilobytes)
    output = args.folder / "output"
    flags = ("--input", str(tars), "--output", str(output), "--name", "bench")
    commands: dict[str, list[str]] = {
        LOOP: [sys.executable, str(BENCHMARKS / "loop_tars.py"), str(tars), str(output / "loop")],
        OURS: [SHARDMILL, "webdataset", *flags],
        LOOP_START: [sys.executable, str(BENCHMARKS / "loop_tars.py"), str(one), str(output / "loop")],
        OUR_START: [SHARDMILL, "webdataset", "--input", str(one), *flags[2:]],
        COPIES: [sys.executable, str(BENCHMARKS / "bare_copies.py"), str(tars), str(output)],
    }
    runs = in_turns(commands, output, args.rounds)
    medians = {name: statistics.median(run.seconds for run in found) for name, found in runs.items()}
    what = f"{args.samples:,} samples of {args.kilobytes:g} KB, medians of {args.rounds} rounds:"
    ratios = [without_start(medians)]
    ratios.append(without_start({name: statistics.median(run.core_seconds for run in runs[name]) for name in runs}))
    apart = f"Without the start, shardmill is {ratios[0]:.2f} times as fast, and {ratios[1]:.2f} times in core seconds."
    slower = tables.losses({name: medians[name] for name in (LOOP, OURS, COPIES)}, OURS)
    tables.publish(f"{what}\n\n{table(runs, medians)}\n\n{apart}", args.write, losses=slower)


if __name__ == "__main__":
    main()
