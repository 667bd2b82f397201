"""Make a tree of JPEGs to measure with: a few thousand distinct ones, each many times, in 100 class folders."""

import argparse
import io
import math
import os
import shutil
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = 100
DISTINCT = 4000
# Noise of 32 x 32, enlarged to 256 x 256 at qualities 88 to 97, makes 25 KB; other sizes have the same detail on
# another area.
_REFERENCE_KB, _SIDE, _DETAIL = 25, 256, 8
_QUALITIES = range(88, 98)


def jpegs(kilobytes: float, distinct: int) -> list[bytes]:
    """`distinct` JPEGs of smooth noise that average `kilobytes`."""
    side = round(_SIDE * math.sqrt(kilobytes / _REFERENCE_KB))
    random = np.random.default_rng(0)
    made = []
    for index in range(distinct):
        noise = random.integers(0, 256, (side // _DETAIL, side // _DETAIL, 3), dtype=np.uint8)
        file = io.BytesIO()
        image = Image.fromarray(noise).resize((side, side), Image.Resampling.BICUBIC)
        image.save(file, "JPEG", quality=_QUALITIES[index % len(_QUALITIES)])
        made.append(file.getvalue())
    return made


def make_images(parent: Path, images: int, kilobytes: float = _REFERENCE_KB, links: bool = False) -> Path:
    """A folder of `images` images in `parent`, made unless it is there already.

    Args:
      parent: where the folder goes; its name says what is in it.
      images: how many.
      kilobytes: the mean size of one.
      links: whether images that recur are hard links, which cost no disk, instead of copies.
    """
    folder = parent / f"{images}-{kilobytes:g}KB{'-links' if links else ''}"
    if folder.exists():
        return folder
    temporary = folder.with_name(f"{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    for number in range(CLASSES):
        (temporary / f"class_{number:03d}").mkdir(parents=True)
    distinct = jpegs(kilobytes, min(DISTINCT, images))
    paths = [temporary / f"class_{index % CLASSES:03d}" / f"image_{index:07d}.jpg" for index in range(images)]
    for index, path in enumerate(paths):
        if links and index >= len(distinct):
            os.link(paths[index % len(distinct)], path)
        else:
            path.write_bytes(distinct[index % len(distinct)])
    temporary.rename(folder)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parent", type=Path, nargs="?", default=Path("bench-data"), help="default: %(default)s")
    parser.add_argument("--images", type=int, default=100_000, help="default: %(default)s")
    parser.add_argument(
        "--kilobytes", type=float, default=_REFERENCE_KB, help="of one image, on average (default: %(default)s)"
    )
    parser.add_argument("--links", action="store_true", help="hard links instead of copies")
    args = parser.parse_args()
    print(make_images(args.parent, args.images, args.kilobytes, args.links))


if __name__ == "__main__":
    main()
