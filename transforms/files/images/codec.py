"""Decode, turn upright, resize and re-encode an image, with Pillow."""

import io
import warnings
from dataclasses import dataclass

from PIL import Image, ImageOps, UnidentifiedImageError

from shardmill.media.image_pixels import open_image, to_rgb
from shardmill.transforms.files.images import foreign as foreign_files
from shardmill.transforms.files.images import png as png_file
from shardmill.transforms.files.images.errors import ImageError
from shardmill.transforms.formats.image_heads import PNG, is_deep_png
from shardmill.transforms.stores.error_text import error_text

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
    """How images are re-encoded.

    Attributes:
      format: `jpeg` or `png`, or "" for what suits each image: jpeg stays jpeg, all else becomes png.
      size: (width, height) in pixels, or None to keep each image's own.
      mode: `exact` stretches; `cover` fills the size and crops the centre; `contain` fits within it and pads with
        black.
      quality: of jpeg, 1 to 100.
    """

    format: str = ""
    size: tuple[int, int] | None = None
    mode: str = "exact"
    quality: int = 95


def measure(data: bytes) -> tuple[str, int, int]:
    """Format, width and height of an image, as Pillow sees them.

    Raises:
      ImageError: Pillow does not know it.
    """
    with _open(data) as image:
        return (image.format or "").lower(), image.width, image.height


def orientation(data: bytes) -> int:
    """How the pixels lie by EXIF, 1 (upright) to 8, as Pillow reads it when it turns them; 1 where it does not say.

    Raises:
      ImageError: Pillow does not know the image.
    """
    with _open(data) as image:
        try:
            found = image.getexif().get(0x0112, 1)
        except MemoryError:  # of this process, and no fault of the image
            raise
        except Exception:  # broken EXIF, by which nothing is turned
            return 1
    return found if isinstance(found, int) and 1 <= found <= 8 else 1


def is_deep(data: bytes) -> bool:
    """Whether an image has more than 8 bits a channel, of which re-encoding keeps the upper 8.

    Raises:
      ImageError: Pillow does not know it.
    """
    if data.startswith(_JPEG):
        return False
    if data.startswith(PNG):
        return is_deep_png(data)
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
    """Decode every pixel; raises ImageError if that fails."""
    with _open(data) as image:
        _load(image, data)


def reencode(data: bytes, how: Reencode) -> tuple[bytes, str, int, int]:
    """The image as RGB, upright by its EXIF orientation, resized and re-encoded: bytes, format, width, height.

    Colours are brought to RGB as shardmill.media.image_pixels does.

    Raises:
      ImageError: the image does not decode, or cannot be made into what is asked.
    """
    with _open(data) as source:
        _load(source, data)
        target = how.format or ("jpeg" if source.format in _JPEG_FORMATS else "png")
        try:
            return _convert(source, target, how)
        except MemoryError:  # of this process, and no fault of the image
            raise
        except Exception as error:  # a colour space without a way to RGB, a side too long for a jpeg, …
            raise ImageError(f"cannot be re-encoded as {target}: {error_text(error)}") from error


def _convert(source: Image.Image, target: str, how: Reencode) -> tuple[bytes, str, int, int]:
    image = to_rgb(ImageOps.exif_transpose(source))
    if how.size is not None:
        image = resized(image, how.size, how.mode)
    out = io.BytesIO()
    if target == "jpeg":
        if max(image.size) > _JPEG_SIDE:
            raise ValueError(f"{image.width} x {image.height} pixels, where a side may have {_JPEG_SIDE}")
        image.save(out, "JPEG", quality=how.quality)
    else:
        image.save(out, "PNG")
    return out.getvalue(), target, image.width, image.height


def resized(
    image: Image.Image,
    size: tuple[int, int],
    mode: str,
    resample: Image.Resampling = Image.Resampling.BICUBIC,
) -> Image.Image:
    """An image of another size; `mode` is as in Reencode, and `resample` says where pixels come from, not which part of
    the picture they show."""
    if mode == "cover":
        return ImageOps.fit(image, size, resample)
    if mode == "contain":
        return _contain(image, size, resample)
    gap = 3.0 if resample != Image.Resampling.NEAREST else None  # reducing first would blend
    return image.resize(size, resample, reducing_gap=gap)


def _contain(image: Image.Image, size: tuple[int, int], resample: Image.Resampling) -> Image.Image:
    """ImageOps.pad, which rounds the short side of a very long image to nothing and fails."""
    scale = min(size[0] / image.width, size[1] / image.height)
    fitted = image.resize((max(round(image.width * scale), 1), max(round(image.height * scale), 1)), resample)
    padded = Image.new(image.mode, size)
    padded.paste(fitted, ((size[0] - fitted.width) // 2, (size[1] - fitted.height) // 2))
    return padded


def _open(data: bytes) -> Image.Image:
    if not data:
        raise ImageError("the file is empty")
    try:
        return open_image(data)
    except UnidentifiedImageError:
        what = foreign_files.describe(data) or f"the file starts with {data[:8]!r}"
        raise ImageError(f"not an image that Pillow reads: {what}") from None
    except MemoryError:  # of this process, and no fault of the image
        raise
    except Exception as error:  # Pillow's readers raise what their parsing happens to raise
        raise ImageError(f"does not decode: {error_text(error)}") from error


def _load(image: Image.Image, data: bytes) -> None:
    if image.format == "PNG":  # Pillow looks at no checksum
        png_file.check(data)
        png_file.check_pixels(data)
    try:
        image.load()
    except MemoryError:  # of this process, and no fault of the image
        raise
    except Exception as error:  # as above: OSError, SyntaxError, struct.error, zlib.error, …
        raise ImageError(f"does not decode: {error_text(error)}") from error
