"""How fast `shardmill images` is: against the loop everybody writes, and against a plain copy of the bytes.

All on the same files in one run, as processes of their own with start-up included, in turns.
"""

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

import tables
from against import in_turns
from measure import BENCHMARKS, SHARDMILL, Measured, make_images
from options import add_folder, add_rounds, add_write

LOOP, OURS, COPY = "the loop", "`shardmill images`", "a copy of the bytes"
_TITLES = {
    LOOP: "a loop: `tf.io.read_file`, `tf.train.Example`, `tf.io.TFRecordWriter`; one file, unshuffled",
    OURS: f"{OURS}: three splits, shuffled, balanced, checked, checksummed, on disk before it is published",
    COPY: f"{COPY} (`cat`), left in the page cache",
}
_SPLITS = "train=0.8,validation=0.1,test=0.1"


def commands(images: Path, output: Path) -> dict[str, list[str]]:
    """What is timed, by its name in the table."""
    loop = [sys.executable, str(BENCHMARKS / "loop_images.py"), str(images), str(output / "loop.tfrecord")]
    shardmill = [
        SHARDMILL,
        "images",
        "--input",
        str(images),
        "--output",
        str(output),
        "--name",
        "bench",
        "--splits",
        _SPLITS,
    ]
    copy = ["sh", "-c", 'find -L "$0" -name "*.jpg" -exec cat {} + > "$1"', str(images), str(output / "copy")]
    return {LOOP: loop, OURS: shardmill, COPY: copy}


def warm(images: Path) -> int:
    """Read every file, and touch the memory that their copies will take; returns their bytes.

    On a virtual machine the first touch of a page can cost ten times the later ones.
    """
    total = sum(len(path.read_bytes()) for path in images.glob("*/*.jpg"))
    subprocess.run([sys.executable, "-c", f"b'1' * {2 * total}"], check=False)  # in a child, which then gives it back
    return total


def results(runs: dict[str, list[Measured]], total: int) -> str:
    """A row each: medians of the rounds, speed against the first row, and the highest peak of memory."""
    seconds = {name: statistics.median(run.seconds for run in rounds) for name, rounds in runs.items()}
    rows = []
    for name, rounds in runs.items():
        speed, rate = seconds[LOOP] / seconds[name], total / seconds[name] / 1e6
        cores = statistics.median(run.core_seconds for run in rounds)
        peak = max(run.peak_bytes for run in rounds) / 1e6
        rows.append(
            [_TITLES[name], f"{seconds[name]:.1f}", f"{speed:.2f}", f"{rate:.0f}", f"{cores:.1f}", f"{peak:.0f}"]
        )
    of = {name: sorted(run.seconds for run in runs[name]) for name in (LOOP, OURS)}
    spread = ", ".join(f"{found[0]:.1f} to {found[-1]:.1f} seconds for {name}" for name, found in of.items())
    columns = "", "seconds", "times as fast as the loop", "MB/s", "seconds of all cores", "peak memory, MB"
    return f"{tables.table(columns, rows)}\n\nRounds took {spread}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=50_000, help="of about 25 KB (default: %(default)s)")
    add_rounds(parser)
    add_folder(parser)
    add_write(parser)
    args = parser.parse_args()

    images = make_images(args.folder, args.images, kilobytes=25)
    total = warm(images)
    output = args.folder / "output"
    runs = in_turns(commands(images, output), output, args.rounds)
    seconds = {name: statistics.median(run.seconds for run in found) for name, found in runs.items()}
    what = f"{args.images:,} JPEGs of 25 KB"
    tables.publish(
        f"{what} ({total / 1e9:.2f} GB, in the page cache), medians of {args.rounds} rounds:\n\n{results(runs, total)}",
        args.write,
        losses=tables.losses(seconds, OURS),
        readme=[
            f"| {what} | A loop with `tf.io.read_file` and `TFRecordWriter`, unshuffled | {seconds[LOOP]:.1f} |"
            f" {seconds[OURS]:.1f} | `bench_images.py` |",
            f"| The same | A plain copy (`cat`) | {seconds[COPY]:.1f} | {seconds[OURS]:.1f} | `bench_images.py` |",
        ],
    )


if __name__ == "__main__":
    main()
