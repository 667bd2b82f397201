"""Tests of transforms/files/image_codec.py.

* Decoding and re-encoding
* Every colour space and every kind of transparency becomes RGB, on white
"""

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
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if format_ == "WEBP" else {}
    data = encoded(Image.fromarray(np.ascontiguousarray(stored)), format_, exif=exif, **options)

    out, _, width, height, _ = reencode(data, Reencode("png"))

    assert (width, height) == (3, 2)
    assert np.array_equal(decode(out), UPRIGHT)
    with Image.open(io.BytesIO(out)) as image:
        assert 0x0112 not in image.getexif()  # or a reader that honours it would turn it again


def test_exif_orientation_of_a_jpeg() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(Image.new("RGB", (40, 20), RED), "JPEG", exif=exif)

    assert measure_image(data) == ("jpeg", 40, 20)
    assert reencode(data, Reencode())[1:4] == ("jpeg", 20, 40)


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


def test_the_orientation_as_it_is_turned() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    for format_ in ("JPEG", "PNG", "WEBP", "TIFF"):
        assert pillow_orientation(encoded(corners(), format_, exif=exif)) == 6
        assert pillow_orientation(encoded(corners(), format_)) == 1


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
    options = {"save_all": True, "append_images": [Image.new("RGB", (4, 4))]} if format_ == "MPO" else {}
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


def test_the_same_image_gives_the_same_bytes() -> None:
    data = encoded(corners(), "PNG")

    for how in (Reencode("png"), Reencode("jpeg"), Reencode("jpeg", (5, 5), "cover")):
        assert reencode(data, how) == reencode(data, how)


def halves() -> bytes:
    """40 x 20 pixels: left half red, right half blue."""
    image = Image.new("RGB", (40, 20), RED)
    image.paste(BLUE, (20, 0, 40, 20))
    return encoded(image, "PNG")


def test_exact_stretches() -> None:
    out, _, width, height, _ = reencode(halves(), Reencode("png", (10, 30), "exact"))
    pixels = decode(out)

    assert (width, height) == (10, 30)
    assert (pixels[:, :3] == RED).all()
    assert (pixels[:, 7:] == BLUE).all()


def test_cover_crops_the_centre() -> None:
    image = Image.new("RGB", (40, 20), GREEN)
    image.paste(RED, (10, 0, 20, 20))
    image.paste(BLUE, (20, 0, 30, 20))
    out, _, width, height, _ = reencode(encoded(image, "PNG"), Reencode("png", (20, 20), "cover"))
    pixels = decode(out)

    assert (width, height) == (20, 20)
    assert (pixels[:, :10] == RED).all()
    assert (pixels[:, 10:] == BLUE).all()


def test_contain_pads_with_black() -> None:
    out, _, width, height, _ = reencode(halves(), Reencode("png", (20, 20), "contain"))
    pixels = decode(out)

    assert (width, height) == (20, 20)
    assert (pixels[:5] == BLACK).all()
    assert (pixels[15:] == BLACK).all()
    assert (pixels[5:15, :8] == RED).all()
    assert (pixels[5:15, 12:] == BLUE).all()


def test_contain_enlarges_too() -> None:
    pixels = decode(reencode(encoded(Image.new("RGB", (2, 4), RED), "PNG"), Reencode("png", (20, 20), "contain"))[0])

    assert (pixels[:, 5:15] == RED).all()
    assert (pixels[:, :5] == BLACK).all()
    assert (pixels[:, 15:] == BLACK).all()


@pytest.mark.parametrize("mode", RESIZE_MODES)
@pytest.mark.parametrize("size", [(1, 1), (1, 3000), (3000, 1), (224, 224)])
def test_any_shape_resizes(size: tuple[int, int], mode: str) -> None:
    out, _, width, height, _ = reencode(
        encoded(Image.new("RGB", size, WHITE), "PNG"), Reencode("png", (224, 112), mode)
    )

    assert (width, height) == (224, 112)
    assert decode(out).shape == (112, 224, 3)
    assert decode(out).max() == 255


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "^the file is empty$"),
        (b"hello, world", "not an image that Pillow reads: the file starts with b'hello, w'"),
        (halves()[:60], "truncated: the png has no end|not an image"),
        (encoded(corners(), "JPEG")[:-40], "does not decode"),
        (encoded(corners(), "GIF")[:-12], "does not decode"),
    ],
)
def test_what_does_not_decode(data: bytes, sentence: str) -> None:
    with pytest.raises(ImageError, match=sentence):
        check_decodes(data)
    with pytest.raises(ImageError, match=sentence):
        reencode(data, Reencode())


def test_noise_after_a_good_header_does_not_decode() -> None:
    png = halves()

    for check in (check_decodes, lambda data: reencode(data, Reencode())):
        with pytest.raises(ImageError, match=r"^a png whose chunk 'IDAT' at byte 33 is damaged: its CRC is wrong$"):
            check(png[:50] + bytes(30) + png[80:])


def png_of(pixels: bytes, height: int, interlaced: bool = False) -> bytes:
    """A grey PNG, 3 pixels wide, of compressed rows whose filters are in `pixels`."""
    header = struct.pack(">IIBBBBB", 3, height, 8, 0, 0, 0, interlaced)
    chunks = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    framed = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


@pytest.mark.parametrize(
    ("pixels", "sentence"),
    [
        (
            zlib.compress(bytes(8)),
            "does not decode: the compressed pixels end early",
        ),  # of which Pillow makes a black row
        (zlib.compress(bytes(12))[:-1], "does not decode: the compressed pixels end early"),
        (zlib.compress(bytes(12))[:-1] + b"!", "does not decode: .*incorrect data check"),
        (zlib.compress(bytes(8) + b"\x05\0\0\0"), "does not decode: a row has a filter that the format does not have"),
    ],
)
def test_a_png_whose_pixels_are_not_what_its_header_says(pixels: bytes, sentence: str) -> None:
    check_decodes(png_of(zlib.compress(bytes(12)), 3))
    check_decodes(png_of(zlib.compress(bytes(12 + 7)), 3))
    check_decodes(png_of(zlib.compress(bytes(2 + 2 + 3 + 2 * 2 + 4)), 3, interlaced=True))
    with pytest.raises(ImageError, match=sentence):
        check_decodes(png_of(pixels, 3))
    with pytest.raises(ImageError, match=sentence):
        reencode(png_of(pixels, 3), Reencode())


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


def rgb_of(image: Image.Image, format_: str = "PNG", **options: Any) -> list[tuple[int, ...]]:
    out, target, _, _, _ = reencode(encoded(image, format_, **options), Reencode("png"))
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
