"""What `--near_duplicates` costs: the job with it and without, side by side; and finding all pairs among hashes alone.

The pictures are those of bench_images.py. The hashes are random, a tenth of them others' with up to four bits flipped.
"""

import argparse
import resource
import statistics
import time

import numpy as np
import tables
from measure import SHARDMILL, make_images, measure
from options import add_folder, add_rounds, add_write

from shardmill.addons.near_duplicates.search import ComparedImages, count_similar

OURS = "`shardmill images --near_duplicates`"


def find(number: int) -> tuple[float, int]:
    """Seconds of core, and how many pairs there are."""
    random = np.random.default_rng(1)
    hashes = random.integers(0, 2**64, number, dtype=np.uint64)
    twins = number // 10
    for _ in range(4):
        hashes[:twins] ^= np.uint64(1) << random.integers(0, 64, twins, dtype=np.uint64)
        hashes[twins : 2 * twins] = np.where(random.random(twins) < 0.5, hashes[:twins], hashes[twins : 2 * twins])
    names = np.arange(number, dtype=np.uint64)
    started = time.process_time()
    found = count_similar(ComparedImages(hashes, names, names, random.integers(0, 2, number)), 2, 4)
    return time.process_time() - started, found.number_of_pairs


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=4_000)
    parser.add_argument("--hashes", type=int, nargs="*", default=[100_000, 1_280_000])
    parser.add_argument("--kilobytes", type=float, default=25.0, help="of an image")
    add_rounds(parser)
    add_folder(parser)
    add_write(parser)
    args = parser.parse_args()
    text, slower = "", list[str]()
    if args.images:
        source = make_images(args.folder, args.images, args.kilobytes)
        base = [SHARDMILL, "images", "--input", str(source), "--output", str(args.folder / "near"), "--overwrite"]
        seconds: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(args.rounds):
            for near in seconds:
                seconds[near].append(
                    measure([*base, "--name", "n", *(["--near_duplicates"] if near else [])]).core_seconds
                )
        plain, looked = (statistics.median(found) for found in seconds.values())
        rows = [["`shardmill images`", f"{plain:.2f}", "1.00"], [OURS, f"{looked:.2f}", f"{looked / plain:.2f}"]]
        text = f"{tables.table([f'{args.images:,} images', 'core seconds', 'times'], rows)}\n\n"
        slower = tables.losses({"`shardmill images`": plain, OURS: looked}, OURS, "core seconds")
    rows = []
    for number in args.hashes:
        took, pairs = find(number)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        rows.append([f"{number:,}", f"{pairs:,}", f"{took:.1f}", f"{memory:,}"])
    text += tables.table(["hashes to compare", "pairs", "core seconds", "peak memory of the process, MB"], rows)
    tables.publish(text, args.write, losses=slower)


if __name__ == "__main__":
    main()
