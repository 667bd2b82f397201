"""Tests of transforms/files/image_headers.py."""

import io
import struct
import zlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from shardmill.transforms.files import image_headers
from shardmill.transforms.files.image_geometry import ImageError, UnreadableError
from shardmill.transforms.files.tiff import read_array, read_tiff
from tests.support.masks import encoded as encode
from tests.support.mutants import mutants, originals, picture

WIDTH, HEIGHT = 19, 13


def bmp(info: bytes, pixels: bytes) -> bytes:
    """A BMP of an info header and pixels; BITMAPFILEHEADER is 14 bytes."""
    return struct.pack("<2sIHHI", b"BM", 14 + len(info) + len(pixels), 0, 0, 14 + len(info)) + info + pixels


def exif_with_thumbnail() -> bytes:
    """A JPEG whose EXIF holds a small whole JPEG, as cameras write it."""
    thumbnail = encode(picture().resize((4, 4)), "JPEG")
    tiff = b"II*\0" + struct.pack("<IHI", 8, 0, 0) + thumbnail
    payload = b"Exif\0\0" + tiff
    jpeg = encode(picture(), "JPEG")
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(payload) + 2) + payload + jpeg[2:]


def without_adobe_marker(jpeg: bytes) -> bytes:
    """A JPEG without its segment APP14, which says that four components are inverted, as Adobe writes them."""
    start = jpeg.index(b"\xff\xee")
    return jpeg[:start] + jpeg[start + 2 + int.from_bytes(jpeg[start + 2 : start + 4], "big") :]


def with_extension(gif: bytes, extension: bytes) -> bytes:
    """A GIF with a further extension behind its colour map of 256 entries."""
    return gif[: 13 + 768] + extension + gif[13 + 768 :]


ROW = -(-WIDTH * 3 // 4) * 4  # bytes of a BMP row of 24 bits a pixel, padded to 4
# Images by their format and what is special about them
IMAGES: dict[str, bytes] = {
    "jpeg": encode(picture(), "JPEG"),
    "jpeg-progressive": encode(picture(), "JPEG", progressive=True),
    "jpeg-grey": encode(picture("L"), "JPEG"),
    "jpeg-cmyk": encode(picture("CMYK"), "JPEG"),
    "jpeg-restarts": encode(picture(), "JPEG", restart_marker_blocks=1),
    "jpeg-comment": encode(picture(), "JPEG", comment=b"\xff\xd9 is no end here"),
    "jpeg-thumbnail": exif_with_thumbnail(),
    "png": encode(picture(), "PNG"),
    "png-alpha": encode(picture("RGBA"), "PNG"),
    "png-palette": encode(picture("P"), "PNG"),
    "png-bilevel": encode(picture("1"), "PNG"),
    "png-16": encode(picture("I;16"), "PNG"),
    "gif": encode(picture("P"), "GIF"),
    "gif-transparent": encode(picture("P"), "GIF", transparency=0),
    "gif-animated": encode(picture("P"), "GIF", save_all=True, append_images=[picture("L")], loop=0),
    "gif-comment": with_extension(encode(picture("P"), "GIF"), b"\x21\xfe\x02hi\0"),
    "gif-empty-comment": with_extension(encode(picture("P"), "GIF"), b"\x21\xfe\0"),
    "bmp": encode(picture(), "BMP"),
    "bmp-palette": encode(picture("P"), "BMP"),
    "bmp-top-down": bmp(struct.pack("<IiiHHIIiiII", 40, WIDTH, -HEIGHT, 1, 24, 0, 0, 0, 0, 0, 0), bytes(ROW * HEIGHT)),
    "bmp-os2": bmp(struct.pack("<IHHHH", 12, WIDTH, HEIGHT, 1, 24), bytes(ROW * HEIGHT)),
    "webp-lossy": encode(picture(), "WEBP"),
    "webp-lossless": encode(picture(), "WEBP", lossless=True),
    "webp-alpha": encode(picture("RGBA"), "WEBP"),
    "webp-animated": encode(picture(), "WEBP", save_all=True, append_images=[picture("L")]),
}
# Pillow has no interlaced PNG; the header is as long and the end the same.
PNG = IMAGES["png"]
IHDR = PNG[12:28] + b"\x01"
IMAGES["png-interlaced"] = PNG[:12] + IHDR + struct.pack(">I", zlib.crc32(IHDR)) + PNG[33:]


REFUSED = {
    "gif-empty-comment": "a gif with an empty extension at byte 781, which TensorFlow refuses",
    "bmp-palette": "a bmp with a palette, which TensorFlow decodes to wrong colours",
    "bmp-os2": "a bmp with an OS/2 header, which TensorFlow does not decode",
    "webp-alpha": "a webp with transparency, which TensorFlow does not decode as RGB",
}
GOOD = [name for name in IMAGES if name not in (*REFUSED, "webp-animated")]
PLAIN = ["jpeg", "png", "gif", "bmp", "webp-lossy"]
DEEP = ["png-16"]  # of more than 8 bits a channel


def format_of(name: str) -> str:
    return name.partition("-")[0]


def check(data: bytes) -> image_headers.ImageHeader:
    return image_headers.check_structure(data, image_headers.read_header(data))


def checked_properties(name: str) -> image_headers.Properties:
    return image_headers.Properties(name in DEEP, is_transparent=name == "gif-transparent")


@pytest.mark.parametrize("name", IMAGES)
def test_format_and_size(name: str) -> None:
    assert image_headers.read_header(IMAGES[name]) == image_headers.ImageHeader(
        format_of(name), WIDTH, HEIGHT, properties=image_headers.Properties(name in DEEP)
    )


def test_an_animated_webp_is_refused_with_the_flags_that_keep_its_first_frame() -> None:
    with pytest.raises(ImageError, match=r"an animated webp, .*; --image_format png --on_several_frames first stores"):
        check(IMAGES["webp-animated"])


def test_a_cmyk_jpeg_needs_adobes_marker() -> None:
    jpeg = without_adobe_marker(IMAGES["jpeg-cmyk"])

    assert image_headers.read_plain(IMAGES["jpeg-cmyk"]) is not None
    assert image_headers.read_plain(jpeg) is None
    with pytest.raises(UnreadableError, match="a CMYK jpeg without Adobe's marker, which TensorFlow decodes to wrong"):
        image_headers.read_header(jpeg)


@pytest.mark.parametrize("name", IMAGES)
def test_cut_at_every_byte(name: str) -> None:
    """The end of a thumbnail within a JPEG is not the end."""
    data = IMAGES[name]
    for size in range(len(data)):
        with pytest.raises(ImageError):
            check(data[:size])


@pytest.mark.parametrize("name", GOOD)
def test_a_good_image_is_accepted_whatever_follows_its_end(name: str) -> None:
    data, format_ = IMAGES[name], format_of(name)
    for padding in (b"", *(() if format_ == "bmp" else (b"\0", b"\0" * 700, b"\r\n", b"camera maker's trailer"))):
        assert check(data + padding) == image_headers.ImageHeader(
            format_, WIDTH, HEIGHT, properties=checked_properties(name)
        )


@pytest.mark.parametrize("size", [(1, 1), (1, 700), (700, 1), (300, 300)])
@pytest.mark.parametrize("format_", ["JPEG", "PNG", "GIF", "BMP", "WEBP"])
def test_sizes_of_one_pixel_and_of_two_bytes(format_: str, size: tuple[int, int]) -> None:
    assert check(encode(Image.new("L", size), format_)) == image_headers.ImageHeader(format_.lower(), *size)


@pytest.mark.parametrize("lossless", [True, False])
@pytest.mark.parametrize("size", [(1, 1), (16_383, 1), (1, 16_383)])
def test_the_largest_webp(size: tuple[int, int], lossless: bool) -> None:
    assert check(encode(Image.new("RGB", size), "WEBP", lossless=lossless)) == image_headers.ImageHeader("webp", *size)


def test_a_tiff_is_recognised_only() -> None:
    assert image_headers.read_header(encode(picture(), "TIFF")) == image_headers.ImageHeader("tiff", 0, 0)


NO_TENSORFLOW = "; --image_format jpeg or png makes one that it reads"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        *((IMAGES[name], f"{reason}{NO_TENSORFLOW}") for name, reason in REFUSED.items()),
        *((IMAGES[name][:-1], f"truncated: the {format_of(name)} has no end") for name in PLAIN),
        (encode(picture(), "TIFF"), f"a TIFF, which TensorFlow does not decode{NO_TENSORFLOW}"),
        (b"MM\0*" + bytes(4), "truncated: a TIFF without a page"),
        (b"II*\0\x08\0\0\0\x01\0", "a TIFF whose tags cannot be read: 256"),
        (b"", "the file is empty"),
        (b"hello, world", "not an image: the file starts with b'hello, w'"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "not an image: a RIFF file of b'WAVE'"),
        (b"RIFF\x24\0\0\0WEBPALPH" + bytes(30), "a webp with an unknown first chunk b'ALPH'"),
        (b"\xff\xd8", "truncated: the jpeg header is cut short"),
        (b"\xff\xd8hello", "a jpeg with 0x68 at byte 2, where a marker is due"),
        (b"\xff\xd8\xff\xd9", "a jpeg without a scan"),
        (b"\xff\xd8\xff\xda" + bytes(20), "a jpeg of 0 x 0 pixels"),
        (PNG[:20], "truncated: the png header is cut short"),
        (PNG[:16] + bytes(8) + PNG[24:], "a png of 0 x 0 pixels"),
        (b"GIF89a" + bytes(20), "a gif of 0 x 0 pixels"),
        (bmp(struct.pack("<Iii", 40, -4, 4), bytes(40)), "a bmp of -4 x 4 pixels"),
        (b"PK\x03\x04" + bytes(30), "not an image: a zip archive"),
        (
            b"\n <!DOCTYPE HTML><p>",
            "not an image: a web page (HTML), which a server may have answered in place of an image",
        ),
        (
            b"\0\0\0\x18ftypheic\0\0\0\0mif1heic",
            "a HEIC photo, which neither TensorFlow nor Pillow decodes: convert it first",
        ),
        (encode(picture(), "AVIF"), f"an AVIF image, which TensorFlow does not decode{NO_TENSORFLOW}"),
        (
            b"\0\0\0\x18ftypisom\0\0\0\0mp42",
            "not an image: a video or another ISO media file, whose frames ffmpeg writes as images",
        ),
    ],
)
def test_sentences(data: bytes, sentence: str) -> None:
    with pytest.raises(ImageError) as caught:
        check(data)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("format_", ["JPEG", "PNG", "WEBP"])
def test_the_exif_orientation(format_: str, order: str) -> None:
    exif = Image.Exif()
    exif.endian = order
    exif[0x010F], exif[0x0112] = "camera", 8
    header = check(encode(picture(), format_, exif=exif))

    assert header == image_headers.ImageHeader(format_.lower(), WIDTH, HEIGHT, 8)


def test_a_broken_exif_block_turns_nothing() -> None:
    data = IMAGES["jpeg"]
    for payload in (
        b"Exif\0\0garbage!",
        b"Exif\0\0II*\0\xff\xff\xff\xff",
        b"Exif\0\0",
        b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12",
    ):
        segment = b"\xff\xe1" + (len(payload) + 2).to_bytes(2, "big") + payload

        assert check(data[:2] + segment + data[2:]).orientation == 1


def test_a_jpeg_with_fill_bytes_and_lone_markers() -> None:
    data = IMAGES["jpeg"]

    assert check(data[:2] + b"\xff\xff\xff\x01\xff\xd0" + data[2:]) == image_headers.ImageHeader("jpeg", WIDTH, HEIGHT)


MAGICS = [data[:size] for data in IMAGES.values() for size in (2, 4, 8, 12, 16, 26, 40)]


def check_anything(data: bytes) -> None:
    """Check that bytes are an ImageError or an image."""
    try:
        header = check(data)
    except ImageError:
        return
    assert header.format == "tiff" or (header.width > 0 and header.height > 0)


@given(st.one_of(st.just(b""), st.sampled_from([*MAGICS, b"II*\0", b"MM\0*"])), st.binary(max_size=80))
@settings(max_examples=400)
def test_noise_is_an_image_error_or_an_image(magic: bytes, noise: bytes) -> None:
    check_anything(magic + noise)


@given(st.sampled_from(sorted(IMAGES)), st.data())
@settings(max_examples=300)
def test_a_changed_byte_is_an_image_error_or_an_image(name: str, data: st.DataObject) -> None:
    image = bytearray(IMAGES[name])
    for _ in range(3):
        image[data.draw(st.integers(0, min(len(image), 64) - 1))] = data.draw(st.integers(0, 255))
    check_anything(bytes(image))


JPEGS = [image for image in originals() if image.startswith(b"\xff\xd8")]
SEGMENTS = {
    "exif": b"\xff\xe1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0\0\0\0\0",
    "short exif": b"\xff\xe1\0\x07Exif\0",
    "restart": b"\xff\xd3",
    "fill": b"\xff\xff\xff",
    "stuffing": b"\xff\0",
    "end": b"\xff\xd9",
    "start": b"\xff\xd8",
    "comment": b"\xff\xfe\0\x05\xff\xd9\xff",
    "empty comment": b"\xff\xfe\0\x02",
    "no comment": b"\xff\xfe\0\x01",
    "cmyk frame": b"\xff\xc0\0\x0b\x08\0\x05\0\x06\x04\x01\x11\0",
    "adobe": b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\x02",
    "short adobe": b"\xff\xee\0\x0cAdobe\0\x64\0\0\0",
    "frame": b"\xff\xc0\0\x0b\x08\0\x05\0\x06\x01\x01\x11\0",
    "flat frame": b"\xff\xc1\0\x0b\x08\0\0\0\x06\x01\x01\x11\0",
    "thin frame": b"\xff\xc2\0\x0b\x08\0\x05\0\0\x01\x01\x11\0",
    "lossless": b"\xff\xc3\0\x0b\x08\0\x05\0\x06\x01\x01\x11\0",
    "12 bits": b"\xff\xc1\0\x0b\x0c\0\x05\0\x06\x01\x01\x11\0",
    "scan": b"\xff\xda\0\x08\x01\x01\0\0\x3f\0",
    "number of lines": b"\xff\xdc\0\x04\0\x05",
    "pixels": b"\x12\xff\0\x34\xff\xd0\x56",
}


def in_python(data: bytes) -> tuple[int, int, int] | None:
    """What is found of a good file, without what is compiled."""
    try:
        width, height, turned, scan = image_headers.read_segments(data)
        image_headers.check_jpeg(data, scan)
    except (ImageError, IndexError):
        return None
    return (width, height, turned) if width and height else None


def test_what_is_compiled_agrees_on_every_mutant() -> None:
    found = Counter[bool]()
    for image in mutants(20_000, seed=3, good=JPEGS):
        if image.startswith(b"\xff\xd8"):
            expected = in_python(image)
            assert image_headers.read_plain(image) == expected, image
            found[expected is not None] += 1

    assert min(found.values()) > 3000


def test_many_at_once_are_found_as_one_is() -> None:
    images = [*mutants(5_000, seed=5, good=JPEGS), b"", SEGMENTS["exif"].join((JPEGS[0][:2], JPEGS[0][2:]))]
    ends = np.cumsum([len(image) for image in images])
    found = image_headers.plain_sizes(b"".join(images), np.concatenate(([0], ends[:-1])), ends).tolist()
    for image, size in zip(images, found, strict=True):
        plain = image_headers.read_plain(image)
        assert size == (list(plain[:2]) if plain and size != [0, 0] else [0, 0]), image
        assert size != [0, 0] or plain is None or b"Exif\0" in image, image
    assert 1000 < sum(size != [0, 0] for size in found) < 4500
    with pytest.raises(ValueError, match="a span lies outside its buffer"):
        image_headers.plain_sizes(b"", np.array([0]), np.array([1]))


@given(st.lists(st.sampled_from(sorted(SEGMENTS)), max_size=9), st.integers(0, 20))
def test_and_on_any_segments(names: list[str], cut: int) -> None:
    whole = b"\xff\xd8" + b"".join(SEGMENTS[name] for name in names)
    for image in (whole, whole[: len(whole) - cut], whole + b"\xff\xda\0\x02" + b"\xff\xd9"):
        if image.startswith(b"\xff\xd8"):
            assert image_headers.read_plain(image) == in_python(image)


def test_what_does_not_begin_as_one_is_none() -> None:
    others = [b"", b"\xff", b"\xff\xd8", b"\xff\xd8\xff", b"GIF89a", JPEGS[0][1:]]
    assert list(map(image_headers.read_plain, others)) == [None] * len(others)


def test_the_orientation_is_that_of_the_last_exif_before_the_pixels() -> None:
    first = SEGMENTS["exif"]
    last = first.replace(b"\x01\0\x08", b"\x01\0\x06")
    assert image_headers.read_plain(JPEGS[0]) == (19, 13, 1)
    for image, turned in ((first, 8), (first + last, 6), (last + first, 8)):
        assert image_headers.read_plain(JPEGS[0][:2] + image + JPEGS[0][2:]) == (19, 13, turned)


def test_a_transparent_colour_behind_other_extensions_of_a_gif() -> None:
    plain = encode(picture("P"), "GIF")
    transparent, comment = b"!\xf9\x04\x01\0\0\x07\0", b"!\xfe\x03abc\x02de\0"

    assert not image_headers.has_transparent_colour(plain)
    assert not image_headers.has_transparent_colour(with_extension(plain, comment))
    assert image_headers.has_transparent_colour(with_extension(plain, comment + transparent))


@pytest.mark.parametrize("screen", [(8, 6), (60, 50), (0, 50)])
@pytest.mark.parametrize("corner", [(0, 0), (5, 5)])
def test_the_size_of_a_gif_whose_frame_is_no_screen(screen: tuple[int, int], corner: tuple[int, int]) -> None:
    plain = encode(picture("P"), "GIF")
    frame = plain.index(b"," + bytes(4))
    data = plain[:6] + struct.pack("<HH", *screen) + plain[10 : frame + 1] + struct.pack("<HH", *corner)
    data += plain[frame + 5 :]
    with Image.open(io.BytesIO(data)) as decoded:
        assert (image_headers.read_header(data).width, image_headers.read_header(data).height) == decoded.size


def test_the_pages_of_a_tiff_are_counted() -> None:
    one = picture()
    data = bytearray(encode(one, "TIFF"))
    (first,) = struct.unpack_from("<I", data, 4)
    struct.pack_into("<I", data, first + 2 + 12 * data[first], first)
    for read in (read_tiff, read_array):
        with pytest.raises(ImageError, match="a page leads back to another"):
            read(bytes(data))
    found = read_tiff(encode(one.convert("1"), "TIFF"))  # in which Pillow leaves out the number of bits
    assert (found.pages, found.bits) == (1, 1)
    assert read_tiff(encode(one, "TIFF", save_all=True, append_images=[one, one])).pages == 3
