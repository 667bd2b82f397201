"""What masks cost: `shardmill images` of a plain folder against the same images with a mask each.

Both on the same files in one run, as processes of their own with start-up included, in turns. A mask is a gray PNG as
large as its image, of areas with one value each, of 8 bits or of 16; it is read, checked and stored as it is. In COCO's
form, the images are found by its annotations, the masks beside.
"""

import argparse
import os
import shutil
import struct
import zlib
from pathlib import Path

from against import in_turns, table
from bench_annotations import make_coco
from measure import SHARDMILL, machine, make_images
from options import add_folder, add_images, add_rounds

_SPLITS = "train=0.8,validation=0.1,test=0.1"
_DISTINCT = 500
_AREAS = 12  # along a side


def make_masks(images: Path, side: int, deep: bool) -> Path:
    """A folder with a mask for each image, made unless it is there already; those that recur are hard links."""
    folder = images.with_name(f"{images.name}-masks-{16 if deep else 8}")
    if folder.exists():
        return folder
    temporary = folder.with_name(f"{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    made: list[Path] = []
    for number, image in enumerate(sorted(images.glob("*/*.jpg"))):
        path = temporary / image.relative_to(images).with_suffix(".png")
        path.parent.mkdir(parents=True, exist_ok=True)
        if number < _DISTINCT:
            path.write_bytes(png(side, number, deep))
            made.append(path)
        else:
            os.link(made[number % _DISTINCT], path)
    temporary.rename(folder)
    return folder


def png(side: int, number: int, deep: bool) -> bytes:
    """A gray PNG of areas; written without NumPy, which would count as memory of the jobs that are measured."""
    width = 2 if deep else 1
    rows = []
    for row in range(side):
        values = (((row * _AREAS // side) * 7 + (column * _AREAS // side) * 3 + number) % 21 for column in range(side))
        rows.append(b"\0" + b"".join((value * (1000 if deep else 1)).to_bytes(width, "big") for value in values))
    header = struct.pack(">IIBBBBB", side, side, 8 * width, 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_images(parser)
    add_rounds(parser)
    add_folder(parser)
    args = parser.parse_args()

    images = make_images(args.folder, args.images, kilobytes=args.kilobytes, links=True)
    side = round(256 * (args.kilobytes / 25) ** 0.5)  # as make_images.py has it
    masks, deep = (str(make_masks(images, side, of_16)) for of_16 in (False, True))
    coco = str(make_coco(images, side))
    output = args.folder / "output"
    common = [SHARDMILL, "images", "--input", str(images), "--output", str(output), "--name", "bench"]
    flags = {
        "a plain folder": [],
        "masks": ["--masks", masks],
        "masks of 16 bits": ["--masks", deep, "--mask_dtype", "uint16"],
        "COCO's objects": ["--coco", coco],
        "COCO's objects and masks": ["--coco", coco, "--masks", masks],
    }
    commands = {name: [*common, "--splits", _SPLITS, *more] for name, more in flags.items()}
    runs = in_turns(commands, output, args.rounds)
    print(f"{args.images:,} JPEGs of {args.kilobytes:g} KB, a PNG each; median of {args.rounds}; {machine()}\n")
    print(table(runs, "of the plain folder's"))


if __name__ == "__main__":
    main()
