"""Measure the peak of resident memory of `shardmill images` and `shardmill csv` on inputs of several sizes.

Small images are the harder case: as many bytes have more references than with large ones.
"""

import argparse
import shutil
import statistics
from pathlib import Path

import tables
from against import in_turns
from compare import shardmill_command
from measure import SHARDMILL, Measured, make_images, make_table
from options import add_folder, add_rounds, add_write

_KILOBYTES = (100, 25)  # of one image
_STEPS = (1, 10, 100)  # sizes of tables
_TINY_KB, _FEW, _MANY = 0.2, 100_000, 400_000  # of images of which each is little more than a reference


def peak_mb(runs: list[Measured]) -> float:
    """Return the highest peak of memory, in MB."""
    return max(run.peak_bytes for run in runs) / 1e6


def measure_images(folder: Path, kilobytes: float, gigabytes: list[float], rounds: int) -> list[float]:
    """Return the peak of memory for each number of gigabytes, in MB; images that recur are links."""
    output = folder / "output"
    sources = [make_images(folder, round(size * 1e6 / kilobytes), kilobytes, links=True) for size in gigabytes]
    commands = {
        source.name: [SHARDMILL, "images", "--input", str(source), "--output", str(output), "--name", "bench"]
        for source in sources
    }
    peaks = [peak_mb(runs) for runs in in_turns(commands, output, rounds).values()]
    for source in sources:
        shutil.rmtree(source)
    return peaks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=float, default=1, help="GB of images in the small run (default: %(default)s)")
    parser.add_argument("--large", type=float, default=8, help="GB of images in the large run (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=300_000, help="of the first of three tables (default: %(default)s)")
    add_rounds(parser, 1)
    add_folder(parser)
    add_write(parser)
    args = parser.parse_args()

    rows, sizes = [], [args.small, args.large]
    for kilobytes in _KILOBYTES:
        small, large = measure_images(args.folder, kilobytes, sizes, args.rounds)
        rows.append([f"images of {kilobytes} KB", f"{small:.0f}", f"{large:.0f}", f"{large / small:.2f}"])
    few, many = measure_images(args.folder, _TINY_KB, [n * _TINY_KB / 1e6 for n in (_FEW, _MANY)], args.rounds)
    tiny = f"{_FEW:,} tiny images take {few:.0f} MB, {_MANY:,} take {many:.0f} MB:"
    tiny += f" {(many - few) * 1e6 / (_MANY - _FEW):.0f} bytes an image."
    images = tables.table(["", *(f"on {size:g} GB, MB" for size in sizes), "ratio"], rows)

    output = args.folder / "output"
    sources = [make_table(args.folder, "csv", args.rows * step) for step in _STEPS]
    commands = {
        source.name: [SHARDMILL, "csv", "--input", str(source), "--output", str(output), "--name", "bench"]
        for source in sources
    }
    large_shards = shardmill_command("csv", sources[-1], output)
    *runs, in_large = in_turns({**commands, "large shards": large_shards}, output, args.rounds).values()
    seconds = [statistics.median(run.seconds for run in found) for found in runs]
    peaks = [peak_mb(found) for found in runs]
    rows = []
    for number, source in enumerate(sources):
        size = f"{source.stat().st_size / 1e6:,.0f}"
        more = [f"{found[number] / found[number - 1]:.2f}" if number else "" for found in (seconds, peaks)]
        rows.append([size, f"{seconds[number]:.1f}", more[0], f"{peaks[number]:.0f}", more[1]])
    seconds_in_large = f"{statistics.median(run.seconds for run in in_large):.1f}"
    rows.append([f"{size}, in ten shards", seconds_in_large, "", f"{peak_mb(in_large):.0f}", ""])
    columns = "MB of CSV", "seconds", "times those before", "peak memory, MB", "times that before"
    text = f"Rounds: {args.rounds}; the highest peak counts.\n\n{images}\n\n{tiny}\n\n{tables.table(columns, rows)}"
    tables.publish(text, args.write)


if __name__ == "__main__":
    main()
