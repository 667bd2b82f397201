"""Every colour space and every kind of transparency becomes RGB, on white."""

import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shardmill.data.media import to_rgb
from shardmill.transforms.files.image_codec import Reencode, reencode
from tests.support.pixels import BLACK, BLUE, GREEN, RED, WHITE, corners, decode, encode


def rgb_of(image: Image.Image, format_: str = "PNG", **options: Any) -> list[tuple[int, ...]]:
    out, target, _, _ = reencode(encode(image, format_, **options), Reencode("png"))
    assert target == "png"
    return [tuple(pixel) for row in decode(out).tolist() for pixel in row]


def test_grey() -> None:
    assert rgb_of(Image.new("L", (2, 1), 77)) == [(77, 77, 77)] * 2


def test_bilevel() -> None:
    image = Image.new("1", (2, 1))
    image.putpixel((1, 0), 1)

    assert rgb_of(image) == [BLACK, WHITE]


@pytest.mark.parametrize("value", [0, 255, 256, 257, 32_768, 65_535])
def test_16_bit_grey_is_scaled_not_clipped(value: int) -> None:
    array = np.full((2, 2), value, np.uint16)

    for format_ in ("PNG", "TIFF"):
        assert set(rgb_of(Image.fromarray(array), format_)) == {(value // 256,) * 3}


def grey_png(bits: int, *levels: int) -> bytes:
    """A grey PNG of one row, of 1, 2, 4 or 16 bits a sample, whose first level is transparent."""
    packed = int("".join(f"{level:0{bits}b}" for level in levels).ljust(-(-bits * len(levels) // 8) * 8, "0"), 2)
    row = b"\0" + packed.to_bytes(-(-bits * len(levels) // 8), "big")
    header = struct.pack(">IIBBBBB", len(levels), 1, bits, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"tRNS", struct.pack(">H", levels[0])), (b"IDAT", zlib.compress(row)), (b"IEND", b""))
    framed = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


@pytest.mark.parametrize(
    ("bits", "levels", "greys"),
    [
        (16, (0x8001, 0x8000, 0, 0xFFFF), (255, 0x80, 0, 255)),
        (16, (0, 0x00FF, 0x8000, 0xFFFF), (255, 0, 0x80, 255)),
        (4, (5, 4, 15, 0), (255, 4 * 17, 255, 0)),
        (2, (2, 1, 3, 0), (255, 85, 255, 0)),
        (1, (0, 1, 1, 0), (255, 255, 255, 255)),
    ],
)
def test_a_transparent_grey_is_compared_in_the_samples_of_the_file(
    bits: int, levels: tuple[int, ...], greys: tuple[int, ...]
) -> None:
    out = decode(reencode(grey_png(bits, *levels), Reencode("png"))[0])

    assert out[0, :, 0].tolist() == list(greys)


def test_a_transparent_colour_of_16_bits() -> None:
    row = b"\0" + struct.pack(">6H", 0x1234, 0x5678, 0x9ABC, 0x1134, 0x5678, 0x9ABC)
    header = struct.pack(">IIBBBBB", 2, 1, 16, 2, 0, 0, 0)
    key = struct.pack(">3H", 0x1234, 0x5678, 0x9ABC)
    chunks = ((b"IHDR", header), (b"tRNS", key), (b"IDAT", zlib.compress(row)), (b"IEND", b""))
    framed = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )

    out = decode(reencode(b"\x89PNG\r\n\x1a\n" + b"".join(framed), Reencode("png"))[0])

    assert out[0].tolist() == [[255, 255, 255], [0x11, 0x56, 0x9A]]


def test_alpha_is_laid_on_white() -> None:
    image = Image.new("RGBA", (3, 1))
    for x, alpha in enumerate((0, 255, 51)):
        image.putpixel((x, 0), (255, 0, 0, alpha))

    assert rgb_of(image) == [WHITE, RED, (255, 204, 204)]


def test_grey_with_alpha() -> None:
    image = Image.new("LA", (3, 1))
    for x, alpha in enumerate((0, 255, 51)):
        image.putpixel((x, 0), (0, alpha))

    assert rgb_of(image) == [WHITE, BLACK, (204, 204, 204)]


def test_palette() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([*RED, *BLUE])
    image.putpixel((1, 0), 1)

    assert rgb_of(image) == [RED, BLUE]
    assert rgb_of(image, "GIF") == [RED, BLUE]


@pytest.mark.parametrize("format_", ["PNG", "GIF"])
def test_transparent_palette_entries_are_white(format_: str) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([*RED, *BLUE])
    image.putpixel((1, 0), 1)

    assert rgb_of(image, format_, transparency=0) == [WHITE, BLUE]


def test_a_transparent_colour_is_white() -> None:
    assert rgb_of(corners(), transparency=RED)[:3] == [WHITE, GREEN, BLUE]


@pytest.mark.parametrize(("ink", "colour"), [((0, 255, 255, 0), RED), ((0, 0, 0, 255), BLACK), ((0, 0, 0, 0), WHITE)])
def test_cmyk(ink: tuple[int, ...], colour: tuple[int, ...]) -> None:
    assert np.abs(np.subtract(rgb_of(Image.new("CMYK", (2, 1), ink), "JPEG", quality=100)[0], colour)).max() <= 3
    assert rgb_of(Image.new("CMYK", (2, 1), ink), "TIFF")[0] == colour


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "LAB", "I", "I;16", "I;16B", "YCbCr", "HSV"]
)
def test_every_mode_becomes_rgb(mode: str) -> None:
    image = to_rgb(Image.new(mode, (2, 3)))

    assert (image.mode, image.size) == ("RGB", (2, 3))


def test_floats_have_no_white() -> None:
    with pytest.raises(ValueError, match="floats from 0 to 0, where white is"):
        to_rgb(Image.new("F", (2, 3)))
