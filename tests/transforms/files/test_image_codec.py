"""Decoding and re-encoding; every colour space and every kind of transparency becomes RGB, on white."""

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms
from PIL.PngImagePlugin import PngInfo

from shardmill.data.media import to_rgb
from shardmill.transforms.files.image_codec import Reencode, check_decodes, measure_image, pillow_orientation, reencode
from shardmill.transforms.files.image_geometry import ImageError
from shardmill.transforms.options.image_options import RESIZE_MODES
from tests.support.masks import BLACK, BLUE, GREEN, RED, WHITE, corners, decode, encoded

UPRIGHT = np.asarray(corners())


@pytest.mark.parametrize(
    ("orientation", "stored"),
    [  # the pixels as a camera stores them for each value of EXIF's tag 0x0112, so that upright they are `corners()`
        (1, UPRIGHT),
        (2, UPRIGHT[:, ::-1]),
        (3, UPRIGHT[::-1, ::-1]),
        (4, UPRIGHT[::-1]),
        (5, UPRIGHT.transpose(1, 0, 2)),
        (6, np.rot90(UPRIGHT)),
        (7, UPRIGHT[::-1, ::-1].transpose(1, 0, 2)),
        (8, np.rot90(UPRIGHT, -1)),
    ],
)
@pytest.mark.parametrize("format_", ["PNG", "TIFF", "WEBP"])
def test_exif_orientation(orientation: int, stored: np.ndarray, format_: str) -> None:
    options = {"lossless": True} if format_ == "WEBP" else {}
    made = reencode(encoded(np.ascontiguousarray(stored), format_, orientation, **options), Reencode("png"))

    assert (made.width, made.height) == (3, 2)
    assert np.array_equal(decode(made.data), UPRIGHT)
    with Image.open(io.BytesIO(made.data)) as image:
        assert 0x0112 not in image.getexif()  # or a reader that honours it would turn it again


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_broken_exif_does_not_stop_a_job() -> None:
    jpeg = encoded(Image.new("RGB", (8, 6), RED), "JPEG")
    for payload in (
        b"Exif\0\0garbage!garbage!",
        b"Exif\0\0II*\0\xff\xff\xff\xff",
        b"Exif\0\0",
        b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12",
    ):
        segment = b"\xff\xe1" + (len(payload) + 2).to_bytes(2, "big") + payload

        assert reencode(jpeg[:2] + segment + jpeg[2:], Reencode("png"))[1:4] == ("png", 8, 6)


@pytest.mark.parametrize("format_", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_the_orientation_as_it_is_turned(format_: str) -> None:
    turned = encoded(corners(), format_, 6)
    assert (pillow_orientation(turned), pillow_orientation(encoded(corners(), format_))) == (6, 1)
    assert measure_image(turned) == (format_.lower(), 3, 2)
    assert reencode(turned, Reencode())[2:4] == (2, 3)


@pytest.mark.parametrize(
    ("format_", "how", "target"),
    [
        ("JPEG", "", "jpeg"),
        ("MPO", "", "jpeg"),
        ("PNG", "", "png"),
        ("GIF", "", "png"),
        ("TIFF", "", "png"),
        ("JPEG", "png", "png"),
        ("PNG", "jpeg", "jpeg"),
        ("WEBP", "jpeg", "jpeg"),
        ("TIFF", "jpeg", "jpeg"),
    ],
)
def test_target_format(format_: str, how: str, target: str) -> None:
    options: dict[str, Any] = {"save_all": True, "append_images": [corners()]} if format_ == "MPO" else {}
    out, found, width, height, _ = reencode(encoded(Image.new("RGB", (9, 7), RED), format_, **options), Reencode(how))

    assert (found, width, height) == (target, 9, 7)
    with Image.open(io.BytesIO(out)) as image:
        assert (image.format, image.size) == (target.upper(), (9, 7))


SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
WIDE = SRGB.replace(b"sRGB", b"wide").replace("sRGB".encode("utf-16-be"), "wide".encode("utf-16-be"))
CMYK = WIDE[:16] + b"CMYK" + WIDE[20:]


@pytest.mark.parametrize("target", ["jpeg", "png"])
@pytest.mark.parametrize("format_", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize(("profile", "kept"), [(b"", None), (SRGB, None), (WIDE, WIDE), (CMYK, None)])
def test_only_pixels_size_and_profile_are_kept(format_: str, target: str, profile: bytes, kept: bytes | None) -> None:
    """A profile is kept if the colours of its RGB are not those of sRGB."""
    options: dict[str, Any] = {"icc_profile": profile} if profile else {}
    plain = encoded(corners(), format_, **options)
    exif = Image.Exif()
    exif[0x010E] = "private"
    options |= {"exif": exif, "dpi": (30, 30)}
    if format_ == "JPEG":
        options["comment"] = "private"
    if format_ == "PNG":
        options["pnginfo"] = PngInfo()
        options["pnginfo"].add_text("Comment", "private")
    with_texts = encoded(corners(), format_, **options)
    assert b"private" in with_texts

    out = reencode(with_texts, Reencode(target)).data

    assert out == reencode(plain, Reencode(target)).data
    with Image.open(io.BytesIO(out)) as image:
        assert image.info.get("icc_profile") == kept


def test_quality_changes_the_bytes() -> None:
    noise = np.random.default_rng(1).integers(0, 256, (40, 40, 3), np.uint8)
    data = encoded(Image.fromarray(noise), "PNG")

    low, high = (reencode(data, Reencode("jpeg", quality=quality))[0] for quality in (30, 95))

    assert len(low) < len(high) / 2


HALVES = Image.new("RGB", (40, 20), RED)  # left half red, right half blue
HALVES.paste(BLUE, (20, 0, 40, 20))
IN_GREEN = Image.new("RGB", (40, 20), GREEN)  # red and blue in the middle
IN_GREEN.paste(HALVES.crop((10, 0, 30, 20)), (10, 0))


@pytest.mark.parametrize(
    ("image", "mode", "size", "parts"),
    [  # parts: (rows, columns) of one colour
        (HALVES, "exact", (10, 30), {(0, 30, 0, 3): RED, (0, 30, 7, 10): BLUE}),
        (IN_GREEN, "cover", (20, 20), {(0, 20, 0, 10): RED, (0, 20, 10, 20): BLUE}),
        (
            HALVES,
            "contain",
            (20, 20),
            {(0, 5, 0, 20): BLACK, (15, 20, 0, 20): BLACK, (5, 15, 0, 8): RED, (5, 15, 12, 20): BLUE},
        ),
        (
            Image.new("RGB", (2, 4), RED),  # is enlarged, too
            "contain",
            (20, 20),
            {(0, 20, 5, 15): RED, (0, 20, 0, 5): BLACK, (0, 20, 15, 20): BLACK},
        ),
    ],
)
def test_resize_modes(image: Image.Image, mode: str, size: tuple[int, int], parts: dict[Any, Any]) -> None:
    made = reencode(encoded(image), Reencode("png", size, mode))
    assert (made.width, made.height) == size
    for (top, bottom, left, right), colour in parts.items():
        assert (decode(made.data)[top:bottom, left:right] == colour).all()


@pytest.mark.parametrize("mode", RESIZE_MODES)
@pytest.mark.parametrize("size", [(1, 1), (1, 3000), (3000, 1), (224, 224)])
def test_any_shape_resizes(size: tuple[int, int], mode: str) -> None:
    made = reencode(encoded(Image.new("RGB", size, WHITE)), Reencode("png", (224, 112), mode))

    assert (made.width, made.height) == (224, 112)
    assert decode(made.data).shape == (112, 224, 3)
    assert decode(made.data).max() == 255


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "^the file is empty$"),
        (b"hello, world", "not an image that Pillow reads: the file starts with b'hello, w'"),
        (encoded(HALVES)[:60], "truncated: the png has no end|not an image"),
        (encoded(corners(), "JPEG")[:-40], "does not decode"),
        (encoded(corners(), "GIF")[:-12], "does not decode"),
        (
            encoded(HALVES)[:50] + bytes(30) + encoded(HALVES)[80:],
            "^a png whose chunk 'IDAT' at byte 33 is damaged: its CRC is wrong$",
        ),
    ],
)
def test_what_does_not_decode(data: bytes, sentence: str) -> None:
    for check in (check_decodes, lambda data: reencode(data, Reencode())):
        with pytest.raises(ImageError, match=sentence):
            check(data)


def png(size: tuple[int, int], bits: int, colour: int, rows: bytes, key: bytes = b"", interlaced: int = 0) -> bytes:
    """A PNG of compressed rows, which begin with their filter; `key` is the transparent colour."""
    header = struct.pack(">IIBBBBB", *size, bits, colour, 0, 0, interlaced)
    chunks = ((b"IHDR", header), *([(b"tRNS", key)] if key else []), (b"IDAT", rows), (b"IEND", b""))
    framed = (struct.pack(">I", len(of)) + kind + of + struct.pack(">I", zlib.crc32(kind + of)) for kind, of in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [  # of the first Pillow makes a black row
        (zlib.compress(bytes(8)), "does not decode: the compressed pixels end early"),
        (zlib.compress(bytes(12))[:-1], "does not decode: the compressed pixels end early"),
        (zlib.compress(bytes(12))[:-1] + b"!", "does not decode: .*incorrect data check"),
        (zlib.compress(bytes(8) + b"\x05\0\0\0"), "does not decode: a row has a filter that the format does not have"),
    ],
)
def test_a_png_whose_pixels_are_not_what_its_header_says(rows: bytes, sentence: str) -> None:
    for size, interlaced in ((12, 0), (12 + 7, 0), (2 + 2 + 3 + 2 * 2 + 4, 1)):
        check_decodes(png((3, 3), 8, 0, zlib.compress(bytes(size)), interlaced=interlaced))
    data = png((3, 3), 8, 0, rows)
    for check in (check_decodes, lambda data: reencode(data, Reencode())):
        with pytest.raises(ImageError, match=sentence):
            check(data)


@pytest.mark.parametrize("format_", ["JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF"])
def test_good_images_decode(format_: str) -> None:
    data = encoded(corners(), format_)

    check_decodes(data)
    assert measure_image(data) == (format_.lower(), 3, 2)


def test_a_side_too_long_for_a_jpeg_is_refused() -> None:
    data = encoded(Image.new("RGB", (70_000, 1)), "PNG")

    with pytest.raises(
        ImageError, match=r"^cannot be re-encoded as jpeg: 70000 x 1 pixels, where a side may have 65500$"
    ):
        reencode(data, Reencode("jpeg"))
    assert reencode(data, Reencode("png"))[1:4] == ("png", 70_000, 1)


CMYK_COLOURS = [((0, 255, 255, 0), RED), ((0, 0, 0, 255), BLACK), ((0, 0, 0, 0), WHITE)]


def rgb_of(image: Image.Image, format_: str = "PNG", **options: Any) -> list[tuple[int, ...]]:
    out, target, _, _, _ = reencode(encoded(image, format_, **options), Reencode("png"))
    assert target == "png"
    return [tuple(pixel) for row in decode(out).tolist() for pixel in row]


def of_pixels(mode: str, *pixels: Any, palette: Any = ()) -> Image.Image:
    """A picture of one row."""
    image = Image.new(mode, (len(pixels), 1))
    if palette:
        image.putpalette(palette)
    for x, pixel in enumerate(pixels):
        image.putpixel((x, 0), pixel)
    return image


PALETTE = of_pixels("P", 0, 1, palette=[*RED, *BLUE])


@pytest.mark.parametrize(
    ("image", "options", "expected"),
    [
        (of_pixels("L", 77, 77), {}, [(77, 77, 77)] * 2),
        (of_pixels("1", 0, 1), {}, [BLACK, WHITE]),
        (of_pixels("RGBA", (*RED, 0), (*RED, 255), (*RED, 51)), {}, [WHITE, RED, (255, 204, 204)]),
        (of_pixels("LA", (0, 0), (0, 255), (0, 51)), {}, [WHITE, BLACK, (204, 204, 204)]),
        (PALETTE, {}, [RED, BLUE]),
        (PALETTE, {"format_": "GIF"}, [RED, BLUE]),
        (PALETTE, {"transparency": 0}, [WHITE, BLUE]),
        (PALETTE, {"format_": "GIF", "transparency": 0}, [WHITE, BLUE]),
        (of_pixels("RGB", RED, GREEN, BLUE), {"transparency": RED}, [WHITE, GREEN, BLUE]),
        *((of_pixels("CMYK", ink), {"format_": "TIFF"}, [colour]) for ink, colour in CMYK_COLOURS),
    ],
)
def test_colours(image: Image.Image, options: dict[str, Any], expected: list[tuple[int, int, int]]) -> None:
    assert rgb_of(image, **options) == expected


@pytest.mark.parametrize(("ink", "colour"), CMYK_COLOURS)
def test_cmyk_in_a_jpeg(ink: tuple[int, ...], colour: tuple[int, ...]) -> None:
    assert np.abs(np.subtract(rgb_of(of_pixels("CMYK", ink), "JPEG", quality=100)[0], colour)).max() <= 3


@pytest.mark.parametrize("value", [0, 255, 256, 257, 32_768, 65_535])
def test_16_bit_grey_is_scaled_not_clipped(value: int) -> None:
    array = np.full((2, 2), value, np.uint16)

    for format_ in ("PNG", "TIFF"):
        assert set(rgb_of(Image.fromarray(array), format_)) == {(value // 256,) * 3}


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
    size = -(-bits * len(levels) // 8)
    row = int("".join(f"{level:0{bits}b}" for level in levels).ljust(size * 8, "0"), 2).to_bytes(size, "big")
    data = png((len(levels), 1), bits, 0, zlib.compress(b"\0" + row), struct.pack(">H", levels[0]))

    assert decode(reencode(data, Reencode("png")).data)[0, :, 0].tolist() == list(greys)


def test_a_transparent_colour_of_16_bits() -> None:
    row = b"\0" + struct.pack(">6H", 0x1234, 0x5678, 0x9ABC, 0x1134, 0x5678, 0x9ABC)
    data = png((2, 1), 16, 2, zlib.compress(row), row[1:7])

    assert decode(reencode(data, Reencode("png")).data)[0].tolist() == [[255, 255, 255], [0x11, 0x56, 0x9A]]


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "LAB", "I", "I;16", "I;16B", "YCbCr", "HSV"]
)
def test_every_mode_becomes_rgb(mode: str) -> None:
    image = to_rgb(Image.new(mode, (2, 3)))

    assert (image.mode, image.size) == ("RGB", (2, 3))


def test_floats_have_no_white() -> None:
    with pytest.raises(ValueError, match="floats from 0 to 0, where white is"):
        to_rgb(Image.new("F", (2, 3)))
