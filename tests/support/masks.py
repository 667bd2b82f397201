"""Small pictures, what an encoder and a decoder make of them, and masks that show what the picture does."""

import io
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageEnhance

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


def encoded(pixels: np.ndarray | Image.Image, image_format: str = "PNG", orientation: int = 1, **options: Any) -> bytes:
    """The bytes of an image file."""
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    if orientation != 1:
        options["exif"] = Image.Exif()
        options["exif"][_EXIF_ORIENTATION] = orientation
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


def pairs(number: int) -> dict[str, bytes]:
    """`images/<ab>/<n>.png`, and masks of the same names in `masks`."""
    return {
        f"{part}/{'ab'[index % 2]}/{index}.png": make(values(index))
        for index in range(number)
        for part, make in (("images", picture), ("masks", encoded))
    }


def write_pairs(folder: Path, number: int = 8) -> Path:
    """Pairs in `folder`."""
    return write_files(folder, pairs(number))


RED, GREEN, BLUE, WHITE, BLACK = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)


def decode(data: bytes) -> np.ndarray:
    """The pixels: uint8, shape (height, width, 3)."""
    with Image.open(io.BytesIO(data)) as image:
        assert image.mode == "RGB"
        return np.asarray(image)


def corners() -> Image.Image:
    """3 x 2 pixels: red, green, blue above; black, white, grey below."""
    return Image.fromarray(np.array([[RED, GREEN, BLUE], [BLACK, WHITE, (128, 128, 128)]], np.uint8))


def deep_png(values: np.ndarray) -> bytes:
    """A PNG of 16 bits a channel, which Pillow writes in gray alone: values are uint16, (height, width, 1 to 4)."""
    height, width, channels = values.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    return _png(width, height, 16, {1: 0, 2: 4, 3: 2, 4: 6}[channels], rows)


def png_header(width: int, height: int) -> bytes:
    """A PNG of one byte of pixels whose header claims any size."""
    return _png(width, height, 8, 2, b"\0")


def _png(width: int, height: int, bits: int, colour: int, rows: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    parts = [struct.pack(">I", len(of)) + kind + of + struct.pack(">I", zlib.crc32(kind + of)) for kind, of in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def photograph(number: int, width: int = 240, height: int = 180) -> Image.Image:
    """A picture for each number; no two look alike."""
    random = np.random.default_rng(number)
    pixels = np.zeros((height, width, 3))
    for cells in (3, 6, 12, 40):  # of coarse noise, made smooth
        noise = Image.fromarray(random.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
        pixels += np.asarray(noise.resize((width, height), Image.Resampling.BICUBIC), float) / cells
    pixels = (pixels - pixels.min()) / (pixels.max() - pixels.min()) * 230
    return Image.fromarray(pixels.astype(np.uint8))


def jpeg(picture: Image.Image, quality: int = 90) -> bytes:
    """The bytes of a picture's file."""
    return encoded(picture, "JPEG", quality=quality)


# What is done to pictures that leaves them looking the same
CHANGES: Mapping[str, Callable[[Image.Image], bytes]] = {
    "re-encoded": lambda picture: jpeg(picture, quality=45),
    "as a PNG": lambda picture: encoded(picture),
    "at half the size": lambda picture: jpeg(picture.resize((picture.width // 2, picture.height // 2))),
    "in other proportions": lambda picture: jpeg(picture.resize((224, 224))),
    "brighter": lambda picture: jpeg(ImageEnhance.Brightness(picture).enhance(1.1)),
    "in grey": lambda picture: jpeg(picture.convert("L")),
}
