"""What `--near_duplicates` costs: the job with it and without, side by side; and finding all pairs among hashes alone.

The pictures are those of bench_images.py. The hashes are random, a tenth of them others' with up to four bits flipped.
"""

import argparse
import resource
import statistics
import time

import numpy as np
from measure import SHARDMILL, machine, make_images, measure
from options import add_folder, add_rounds

from shardmill.transforms.statistics.near_duplicates import ComparedImages, count_similar


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
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--hashes", type=int, nargs="*", default=[100_000, 1_280_000, 10_000_000])
    parser.add_argument("--kilobytes", type=float, default=25.0, help="of an image")
    add_rounds(parser)
    add_folder(parser)
    args = parser.parse_args()
    print(machine())
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
        print(f"{args.images:,} images: {plain:.2f} s of core without, {looked:.2f} s with: x{looked / plain:.2f},")
        print(f"  {(looked - plain) / args.images * 1e3:.2f} ms a picture")
    for number in args.hashes:
        took, pairs = find(number)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"{number:,} hashes: {pairs:,} pairs in {took:.1f} s of core, {memory:,} MB")


if __name__ == "__main__":
    main()
