"""Whether the memory of `shardmill images` stays flat: its peak on 1 GB and on 8 GB of images, large ones and small
ones.

Small images are the harder case: eight times the bytes are then also eight times as many references as with large ones.
Exits with 1 if a peak is over the limit or grows with the input.
"""

import argparse
import shutil
import sys
from pathlib import Path

from measure import SHARDMILL, machine, make_images, measure
from options import add_folder

_KILOBYTES = (100, 25)  # of one image
_MOST_GROWTH = 1.15
_MOST_MB = 700


def peak_mb(data: Path, gigabytes: float, kilobytes: float) -> float:
    """The peak of the command's resident memory on so many images of one size, in MB."""
    images = make_images(data, round(gigabytes * 1e6 / kilobytes), kilobytes, links=True)
    output = data / "output"
    shutil.rmtree(output, ignore_errors=True)
    measured = measure([SHARDMILL, "images", "--input", str(images), "--output", str(output), "--name", "bench"])
    shutil.rmtree(output)
    return measured.peak_bytes / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=float, default=1, help="GB of images in the small run (default: %(default)s)")
    parser.add_argument("--large", type=float, default=8, help="GB of images in the large run (default: %(default)s)")
    add_folder(parser)
    args = parser.parse_args()

    print(f"peak resident memory; {machine()}\n")
    print(f"| an image | on {args.small:g} GB, MB | on {args.large:g} GB, MB | ratio | |\n|---|---:|---:|---:|---|")
    flat = True
    for kilobytes in _KILOBYTES:
        small, large = (peak_mb(args.folder, gigabytes, kilobytes) for gigabytes in (args.small, args.large))
        good = large / small <= _MOST_GROWTH and max(small, large) <= _MOST_MB
        flat &= good
        print(
            f"| {kilobytes} KB | {small:.0f} | {large:.0f} | {large / small:.2f} | {'flat' if good else 'NOT FLAT'} |",
            flush=True,
        )
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
