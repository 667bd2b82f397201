"""Small pictures with masks: what they show is where the picture says it is, whichever way both are turned."""

import io
from pathlib import Path

import numpy as np
from PIL import Image

from tests.support.command import write_files

_EXIF_ORIENTATION = 0x0112
COLOURS = np.array([(20, 20, 20), (220, 30, 30), (30, 220, 30)], np.uint8)  # by the value of the mask


def values(number: int, size: tuple[int, int] = (16, 12)) -> np.ndarray:
    """A mask, uint8 (height, width): background, 1 in the upper left, 2 along the bottom, another for each number."""
    width, height = size
    mask = np.zeros((height, width), np.uint8)
    mask[: 2 + number % 4, : 3 + number % 5] = 1
    mask[height - 2 :, number % 7 :] = 2
    return mask


def encoded(pixels: np.ndarray | Image.Image, image_format: str = "PNG", orientation: int = 1) -> bytes:
    """An image file."""
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    exif = Image.Exif()
    options = {}
    if orientation != 1:
        exif[_EXIF_ORIENTATION] = orientation
        options["exif"] = exif
    out = io.BytesIO()
    image.save(out, image_format, **options)
    return out.getvalue()


def picture(mask: np.ndarray, orientation: int = 1) -> bytes:
    """A PNG whose pixels have the colour of their value, which EXIF says to turn."""
    return encoded(COLOURS[mask], orientation=orientation)


def palette(mask: np.ndarray) -> bytes:
    """A mask as Pascal VOC has it: a PNG whose palette has a colour for each value."""
    image = Image.frombytes("P", mask.shape[::-1], mask.tobytes())
    image.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0])
    return encoded(image)


def write_pairs(folder: Path, number: int = 8) -> Path:
    """`folder/images/<ab>/<n>.png`, masks of the same names in `folder/masks`."""
    for index in range(number):
        name, mask = f"{'ab'[index % 2]}/{index}", values(index)
        write_files(folder, {f"images/{name}.png": picture(mask), f"masks/{name}.png": encoded(mask)})
    return folder
