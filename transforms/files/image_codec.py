"""Check, decode, transform and re-encode images."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from shardmill.data.media import has_transparent_pixels, open_image, to_rgb
from shardmill.transforms.files import image_headers
from shardmill.transforms.files.image_geometry import UPRIGHT, ImageError
from shardmill.transforms.files.tiff import Tiff, is_tiff, read_bands, read_tiff
from shardmill.transforms.formats.conventions import PNG, is_16_bit_png
from shardmill.transforms.stores.protocol import error_text

_JPEG_FORMATS = ("JPEG", "MPO")  # MPO: a jpeg that a second one follows, as many phones write it
_ICO = b"\0\0\x01\0"
_CODESTREAM = b"\xff\x4f\xff\x51"  # SOC and SIZ of JPEG 2000 (T.800, A.5.1), and where Ssiz is of the first channel
_SSIZ = 42
_AV1C, _HIGH_BITDEPTH = b"av1C", 0x40  # a box in AVIF, and what its third byte has (AV1 in ISOBMFF, 2.3)
_ORIENTATION = 0x0112  # its tag in EXIF
_SGI_BPC = 3  # bytes a channel, in an image of SGI (The SGI Image File Format)
_SEQUENCES = ("GIF", "WEBP", "PNG", "AVIF")  # formats whose frames are pictures of their own
_DEEP_TOP = 65_535  # the highest value of 16 bits
_JPEG_SIDE = 65_500  # pixels: JPEG_MAX_DIMENSION of libjpeg
warnings.filterwarnings("ignore", module=r"PIL\.")  # of an odd tag in one of a million files; what fails is a reject
Image.MAX_IMAGE_PIXELS = None  # checked here, before anything is decoded, with a limit that is an option


@dataclass(frozen=True, slots=True)
class Reencode:
    """Settings for re-encoding images."""

    format: str = ""  # `jpeg`, `png`, or "": jpeg stays jpeg, others become png
    size: tuple[int, int] | None = None  # (width, height) in pixels; None to keep each image's size
    mode: str = "exact"  # `exact` stretches, `cover` fills and crops the centre, `contain` fits and pads with black
    quality: int = 95  # of jpeg, 1 to 100
    bands: tuple[int, ...] = ()  # of TIFFs, counted from 1: one or three; () to reject those with more
    keeps_first: bool = False  # True to store the first of several frames or pages; else such images are rejected


class Reencoded(NamedTuple):
    """A re-encoded image, and properties of the input that it lacks."""

    data: bytes
    format: str  # `jpeg` or `png`
    width: int  # in pixels
    height: int
    properties: image_headers.Properties


@contextmanager
def translate_pillow_errors(problem: str) -> Iterator[None]:
    """Raise an ImageError in place of what Pillow's readers raise, which is what their parsing happens to raise."""
    try:
        yield
    except (ImageError, MemoryError):  # the latter of this process, and no fault of the image
        raise
    except Exception as error:  # OSError, SyntaxError, struct.error, zlib.error, …
        raise ImageError(f"{problem}: {error_text(error)}") from error


def measure_image(data: bytes) -> tuple[str, int, int]:
    """Return (format, width, height) of an image; raise an ImageError if Pillow does not read it.

    Of an icon (ICO), which Pillow decodes as it opens it, they are the largest that the inner pictures state.
    """
    if is_tiff(data):
        tiff = read_tiff(data)
        return "tiff", tiff.width, tiff.height
    if data.startswith(_ICO):
        return "ico", *max(_list_icon_sizes(data), key=lambda size: size[0] * size[1], default=(0, 0))
    with _open(data) as image:
        return (image.format or "").lower(), image.width, image.height


def _list_icon_sizes(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield (width, height) in the headers of an icon's pictures: PNGs, or bitmaps without a file header."""
    for entry in range(6, 6 + 16 * int.from_bytes(data[4:6], "little"), 16):
        picture = data[int.from_bytes(data[entry + 12 : entry + 16], "little") :][:24]
        if picture.startswith(PNG):
            yield int.from_bytes(picture[16:20], "big"), int.from_bytes(picture[20:24], "big")
        else:  # whose height is that of colours and mask together
            yield int.from_bytes(picture[4:8], "little"), int.from_bytes(picture[8:12], "little") // 2


def pillow_orientation(data: bytes) -> int:
    """Return the EXIF orientation, 1 to 8, by which Pillow turns the image, or raise an ImageError."""
    if is_tiff(data):
        found = read_tiff(data).orientation
        return found if 1 <= found <= 8 else UPRIGHT
    with _open(data) as image:
        try:
            found = image.getexif().get(_ORIENTATION, UPRIGHT)
        except MemoryError:  # of this process, and no fault of the image
            raise
        except Exception:  # broken EXIF, by which nothing is turned
            return UPRIGHT
    return found if isinstance(found, int) and 1 <= found <= 8 else UPRIGHT


def _is_deep(image: Image.Image, data: bytes, tiff: Tiff | None) -> bool:
    if tiff is not None:
        return tiff.bits > 8
    if data.startswith(PNG):
        return is_16_bit_png(data)
    if image.format == "JPEG2000":
        bits = data.find(_CODESTREAM) + _SSIZ
        return data[bits] & 0x7F > 7
    if image.format == "AVIF":
        at = data.find(_AV1C) + len(_AV1C)
        return bool(data[at + 2] & _HIGH_BITDEPTH)
    if image.format == "SGI":
        return data[_SGI_BPC] > 1
    if image.format == "PPM" and image.mode == "RGB":  # whose decoder has the largest value last
        how = image.tile[0][3]  # type: ignore[attr-defined]
        return isinstance(how, tuple) and how[-1] > 255
    return image.mode.startswith(("I", "F"))


def check_decodes(data: bytes) -> None:
    """Decode every pixel; raise an ImageError if that fails."""
    with _open(data) as image:
        _load(image, data)


def reencode(data: bytes, settings: Reencode) -> Reencoded:
    """Re-encode an image as RGB, turned upright and resized, or raise an ImageError."""
    tiff = read_tiff(data) if is_tiff(data) else None
    if tiff is not None:
        tiff.check_bands(settings.bands)
        if not settings.keeps_first:
            tiff.check_pages()
    with _open_tiff(data, tiff, settings.bands) if tiff is not None else _open(data) as source:
        frames = tiff.pages if tiff is not None else _count_frames(source)
        if frames > 1 and not settings.keeps_first:
            raise ImageError(
                f"a {(source.format or '').lower()} of {frames} frames, of which an image holds one;"
                " --on_several_frames first stores the first one"
            )
        is_deep = _is_deep(source, data, tiff)  # before it is decoded
        _load(source, data)
        target = settings.format or ("jpeg" if source.format in _JPEG_FORMATS else "png")
        # For its colour space, a side too long for a jpeg, …
        with translate_pillow_errors(f"cannot be re-encoded as {target}"):
            is_transparent = has_transparent_pixels(source)
            properties = image_headers.Properties(
                is_deep,
                is_transparent,
                is_transparent_tiff=is_transparent and tiff is not None and tiff.samples == 4,
                has_frames=frames > 1,
                has_bands=tiff is not None and tiff.samples > len(settings.bands) > 0,
                highest=_find_highest(source) if is_deep and (tiff is None or tiff.bits == 16) else 0,
                nodata=tiff.nodata if tiff is not None else "",
            )
            return Reencoded(*_convert(source, target, settings), properties)


def _open_tiff(data: bytes, tiff: Tiff, bands: tuple[int, ...]) -> Image.Image:
    """Open a TIFF, whose pixels tifffile decodes if bands are chosen or samples are of 9 to 15 bits."""
    is_packed = 8 < tiff.bits < 16 and (tiff.bits, tiff.samples) != (12, 1)  # which Pillow unpacks
    if bands in ((), tuple(range(1, tiff.samples + 1))) and not is_packed:
        image = _open(data)
        if tiff.bits == 12:
            image.info["bits"] = tiff.bits
        return image
    array = read_bands(data, tiff, bands)
    if tiff.photometric == 0 and array.shape[2] == 1:  # white is 0
        array = (1 << tiff.bits) - 1 - array
    if array.shape[2] == 1:
        array = array[..., 0]
    if 8 < tiff.bits < 16:
        array = array >> (tiff.bits - 8)
    elif tiff.bits == 16 and array.ndim == 3:
        array = array >> 8
    with translate_pillow_errors("does not decode"):
        image = Image.fromarray(array if tiff.bits == 16 and array.ndim == 2 else array.astype(np.uint8))
    image.getexif()[_ORIENTATION] = tiff.orientation
    return image


def _count_frames(image: Image.Image) -> int:
    with translate_pillow_errors("does not decode"):
        return getattr(image, "n_frames", 1) if image.format in _SEQUENCES else 1


def _find_highest(image: Image.Image) -> int:
    """Return the highest value of an image of more than 8 bits a channel; of colours, as far as the upper 8 tell."""
    highest = int(np.asarray(image).max())
    return min(highest, _DEEP_TOP) if image.mode.startswith(("I", "F")) else highest << 8 | 0xFF


def _convert(source: Image.Image, target: str, settings: Reencode) -> tuple[bytes, str, int, int]:
    image = to_rgb(ImageOps.exif_transpose(source))
    if settings.size is not None:
        image = resize(image, settings.size, settings.mode)
    profile = _kept_profile(image)
    image.info = {}  # else Pillow writes the source's comment and texts, too
    out = io.BytesIO()
    if target == "jpeg":
        if max(image.size) > _JPEG_SIDE:
            raise ValueError(f"{image.width} x {image.height} pixels, where a side may have {_JPEG_SIDE}")
        image.save(out, "JPEG", quality=settings.quality, icc_profile=profile)
    else:
        image.save(out, "PNG", icc_profile=profile)
    return out.getvalue(), target, image.width, image.height


def _kept_profile(image: Image.Image) -> bytes | None:
    """Return the colour profile of an RGB image if its colours are not those of sRGB, which readers assume.

    Source: ICC.1:2022, 7.2.6 (the colour space of the data, at byte 16); descriptions are ASCII or UTF-16.
    """
    profile = image.info.get("icc_profile") or b""
    is_srgb = b"sRGB" in profile or "sRGB".encode("utf-16-be") in profile
    return None if profile[16:20] != b"RGB " or is_srgb else profile


def resize(
    image: Image.Image, size: tuple[int, int], mode: str, resample: Image.Resampling = Image.Resampling.BICUBIC
) -> Image.Image:
    """Resize an image by the way called `mode`: stretch, crop or pad."""
    if mode == "cover":
        return ImageOps.fit(image, size, resample)
    if mode == "contain":
        # ImageOps.pad rounds the short side of a very long image to 0 and fails.
        scale = min(size[0] / image.width, size[1] / image.height)
        fitted = image.resize((max(round(image.width * scale), 1), max(round(image.height * scale), 1)), resample)
        padded = Image.new(image.mode, size)
        padded.paste(fitted, ((size[0] - fitted.width) // 2, (size[1] - fitted.height) // 2))
        return padded
    gap = 3.0 if resample != Image.Resampling.NEAREST else None  # reducing first would blend
    return image.resize(size, resample, reducing_gap=gap)


def _open(data: bytes) -> Image.Image:
    if not data:
        raise ImageError("the file is empty")
    with translate_pillow_errors("does not decode"):
        try:
            return open_image(data)
        except UnidentifiedImageError:
            what = image_headers.describe_foreign(data) or f"the file starts with {data[:8]!r}"
            raise ImageError(f"not an image that Pillow reads: {what}") from None


def _load(image: Image.Image, data: bytes) -> None:
    if image.format == "PNG":  # Pillow looks at no checksum
        image_headers.check_png(data)
        image_headers.check_png_pixels(data)
    with translate_pillow_errors("does not decode"):
        image.load()


def check_image(data: bytes, verify: str, max_pixels: int) -> image_headers.ImageHeader:
    """Return the header of an image, or raise an ImageError if it is damaged, too large or not read by TensorFlow."""
    header = image_headers.read_header(data)
    check_pixel_count(header, max_pixels)  # before anything is decoded
    header = image_headers.check_structure(data, header)
    if verify == "decode":
        check_decodes(data)
    return header


def check_pixel_count(header: image_headers.ImageHeader, max_pixels: int) -> None:
    """Raise an ImageError if an image has more than `max_pixels`."""
    if header.width * header.height > max_pixels:
        raise ImageError(
            f"a {header.format} of {header.width} x {header.height} pixels is more than --max_pixels {max_pixels}: a"
            " decompression bomb?"
        )
