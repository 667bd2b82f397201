"""Measure `shardmill verify` against the build of the data set that it reads, for each kind of input.

Build and verification are processes of their own with start-up included, in turns.
"""

import argparse
import shutil
import statistics
import sys
from pathlib import Path

import tables
from measure import SHARDMILL, Measured, make_images, make_table, measure
from options import add_folder, add_images, add_rounds, add_write

_ROUTES = {"csv": "csv", "text": "txt", "jsonl": "jsonl", "parquet": "parquet", "images": "images"}


def measure_route(route: str, source: Path, output: Path, rounds: int) -> tuple[list[Measured], list[Measured]]:
    """Build and verify a data set, one after the other in every round."""
    build = [SHARDMILL, route, "--input", str(source), "--output", str(output), "--name", "bench"]
    builds, verifications = [], []
    for number in range(rounds):
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
        builds.append(measure(build))
        verifications.append(measure([SHARDMILL, "verify", str(output / "bench")]))
        seconds = f"built in {builds[-1].seconds:.1f} s, verified in {verifications[-1].seconds:.1f} s"
        print(f"{route}, round {number + 1}: {seconds}", file=sys.stderr)
    shutil.rmtree(output)
    return builds, verifications


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--routes", nargs="+", choices=list(_ROUTES), default=list(_ROUTES), help="(default: all)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of tables and texts (default: %(default)s)")
    add_images(parser, 20_000)
    add_rounds(parser, 1)
    add_folder(parser)
    add_write(parser)
    args = parser.parse_args()
    rows, slower = [], []
    for route in args.routes:
        if route == "images":
            amount, source = f"{args.images:,} images", make_images(args.folder, args.images, args.kilobytes)
        else:
            amount, source = f"{args.rows:,} rows", make_table(args.folder, _ROUTES[route], args.rows)
        runs = measure_route(route, source, args.folder / "output", args.rounds)
        build, verify = (statistics.median(run.seconds for run in found) for found in runs)
        cores = [statistics.median(run.core_seconds for run in found) for found in runs]
        peak = max(run.peak_bytes for run in runs[1]) / 1e6
        numbers = f"{build:.1f}", f"{verify:.1f}", f"{verify / build:.2f}", f"{cores[0]:.1f}", f"{cores[1]:.1f}"
        rows.append([f"`{route}`, {amount}", *numbers, f"{peak:.0f}"])
        slower += tables.losses({"the build": build, f"`verify`, {route},": verify}, f"`verify`, {route},")
    columns = "", "build, seconds", "verify, seconds", "verify / build", "of all cores: build", "verify"
    text = f"Medians of {args.rounds} rounds, start-up included:\n\n"
    tables.publish(text + tables.table([*columns, "verify, peak MB"], rows), args.write, losses=slower)


if __name__ == "__main__":
    main()
