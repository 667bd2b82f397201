"""Check, decode, transform and re-encode images, and hash their look."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from shardmill.data.media import open_image, to_rgb
from shardmill.transforms.files.image_geometry import ImageError
from shardmill.transforms.files.image_headers import (
    ImageHeader,
    check_png,
    check_png_pixels,
    check_structure,
    describe_foreign,
    read_header,
)
from shardmill.transforms.formats.conventions import PNG, is_16_bit_png
from shardmill.transforms.statistics.near_duplicates import FLAT, UNDECODABLE
from shardmill.transforms.stores.protocol import error_text

_JPEG_FORMATS = ("JPEG", "MPO")  # MPO: a jpeg that a second one follows, as many phones write it
_JPEG = b"\xff\xd8"
_BITS_PER_SAMPLE = 258  # TIFF 6.0, section 8: a number for each channel
_CODESTREAM = b"\xff\x4f\xff\x51"  # SOC and SIZ of JPEG 2000 (T.800, A.5.1), and where Ssiz is of the first channel
_SSIZ = 42
_AV1C, _HIGH_BITDEPTH = b"av1C", 0x40  # a box in AVIF, and what its third byte has (AV1 in ISOBMFF, 2.3)
_SGI_BPC = 3  # bytes a channel, in an image of SGI (The SGI Image File Format)
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
    """Return (format, width, height) of an image; raise an ImageError if Pillow does not read it."""
    with _open(data) as image:
        return (image.format or "").lower(), image.width, image.height


def pillow_orientation(data: bytes) -> int:
    """Return the EXIF orientation, 1 to 8, by which Pillow turns the image, or raise an ImageError."""
    with _open(data) as image:
        try:
            found = image.getexif().get(0x0112, 1)
        except MemoryError:  # of this process, and no fault of the image
            raise
        except Exception:  # broken EXIF, by which nothing is turned
            return 1
    return found if isinstance(found, int) and 1 <= found <= 8 else 1


def is_deep(data: bytes) -> bool:
    """Return True if an image has more than 8 bits a channel, or raise an ImageError; re-encoding keeps the upper 8."""
    if data.startswith(_JPEG):
        return False
    if data.startswith(PNG):
        return is_16_bit_png(data)
    with _open(data) as image:
        if image.format == "TIFF":
            return max(image.tag_v2.get(_BITS_PER_SAMPLE, (1,))) > 8  # type: ignore[attr-defined]
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


def reencode(data: bytes, settings: Reencode) -> tuple[bytes, str, int, int]:
    """Return (bytes, format, width, height) of an image as RGB, turned upright and resized, or raise an ImageError."""
    with _open(data) as source:
        _load(source, data)
        target = settings.format or ("jpeg" if source.format in _JPEG_FORMATS else "png")
        with translate_pillow_errors(
            f"cannot be re-encoded as {target}"
        ):  # for its colour space, a side too long for a jpeg, …
            return _convert(source, target, settings)


def _convert(source: Image.Image, target: str, settings: Reencode) -> tuple[bytes, str, int, int]:
    image = to_rgb(ImageOps.exif_transpose(source))
    if settings.size is not None:
        image = resize(image, settings.size, settings.mode)
    out = io.BytesIO()
    if target == "jpeg":
        if max(image.size) > _JPEG_SIDE:
            raise ValueError(f"{image.width} x {image.height} pixels, where a side may have {_JPEG_SIDE}")
        image.save(out, "JPEG", quality=settings.quality)
    else:
        image.save(out, "PNG")
    return out.getvalue(), target, image.width, image.height


def resize(
    image: Image.Image, size: tuple[int, int], mode: str, resample: Image.Resampling = Image.Resampling.BICUBIC
) -> Image.Image:
    """Resize an image by the way called `mode`: stretch, crop or pad."""
    if mode == "cover":
        return ImageOps.fit(image, size, resample)
    if mode == "contain":
        return _fit_inside(image, size, resample)
    gap = 3.0 if resample != Image.Resampling.NEAREST else None  # reducing first would blend
    return image.resize(size, resample, reducing_gap=gap)


def _fit_inside(image: Image.Image, size: tuple[int, int], resample: Image.Resampling) -> Image.Image:
    # ImageOps.pad rounds the short side of a very long image to 0 and fails.
    scale = min(size[0] / image.width, size[1] / image.height)
    fitted = image.resize((max(round(image.width * scale), 1), max(round(image.height * scale), 1)), resample)
    padded = Image.new(image.mode, size)
    padded.paste(fitted, ((size[0] - fitted.width) // 2, (size[1] - fitted.height) // 2))
    return padded


def _open(data: bytes) -> Image.Image:
    if not data:
        raise ImageError("the file is empty")
    with translate_pillow_errors("does not decode"):
        try:
            return open_image(data)
        except UnidentifiedImageError:
            what = describe_foreign(data) or f"the file starts with {data[:8]!r}"
            raise ImageError(f"not an image that Pillow reads: {what}") from None


def _load(image: Image.Image, data: bytes) -> None:
    if image.format == "PNG":  # Pillow looks at no checksum
        check_png(data)
        check_png_pixels(data)
    with translate_pillow_errors("does not decode"):
        image.load()


def check_image(data: bytes, verify: str, max_pixels: int) -> ImageHeader:
    """Return the header of an image, or raise an ImageError if it is damaged, too large or not read by TensorFlow."""
    header = read_header(data)
    check_pixel_count(header, max_pixels)  # before anything is decoded
    header = check_structure(data, header)
    if verify == "decode":
        check_decodes(data)
    return header


def check_pixel_count(header: ImageHeader, max_pixels: int) -> None:
    """Raise an ImageError if an image has more than `max_pixels`."""
    if header.width * header.height > max_pixels:
        raise ImageError(
            f"a {header.format} of {header.width} x {header.height} pixels is more than --max_pixels {max_pixels}: a"
            " decompression bomb?"
        )


_DECODED = 64  # pixels: a JPEG is decoded at a fraction of its size, no smaller than that
_SIDE = 32  # pixels: what imagehash makes of a picture, 8 bits to a side times 4
_FLATTEST = 2.0  # levels of 255, the standard deviation below which a hash tells of noise alone


def hash_method() -> str:
    """Return a description of the perceptual hash, as stats.json and the search for similar images give it."""
    import imagehash

    return f"pHash of 64 bits, by imagehash {imagehash.__version__}"


def hash_version() -> str:
    """Return the versions of the libraries that perceptual hashes depend on."""
    import imagehash
    import PIL

    return f"{imagehash.__version__}/{PIL.__version__}"


def perceptual_hash(data: bytes) -> str:
    """Return the perceptual hash of an encoded image as hexadecimal digits, or FLAT or UNDECODABLE.

    The hash has 64 bits, few of which differ if images differ only in size, compression or brightness. FLAT is that of
    images of nearly one colour, which would all hash alike. EXIF rotation is not applied.
    """
    import imagehash

    try:
        with open_image(data) as source:
            source.draft("L", (_DECODED, _DECODED))
            grey = source if source.mode == "L" and "transparency" not in source.info else to_rgb(source).convert("L")
            small = grey.resize((_SIDE, _SIDE), Image.Resampling.LANCZOS, reducing_gap=3.0)
    except MemoryError:  # of this process, and no fault of the image
        raise
    except Exception:  # Pillow's readers raise what their parsing happens to raise
        return UNDECODABLE
    if np.asarray(small).std() < _FLATTEST:
        return FLAT
    return str(imagehash.phash(small))
