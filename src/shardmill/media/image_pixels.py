"""An encoded image as 8-bit RGB, with Pillow: the one way in which images are re-encoded, read as arrays and shown.

Pixels lie as they are stored; whoever wants them upright turns them by EXIF first.
"""

import io
from collections.abc import Callable

import numpy as np
from PIL import Image, UnidentifiedImageError

_WHITE = 65535  # of 16 bits
_PNG = b"\x89PNG\r\n\x1a\n"


def open_image(data: bytes) -> Image.Image:
    """Open an image, nothing decoded yet; raises what Pillow raises.

    A PNG's transparent colour comes in the scale of the file's samples, of 1 to 16 bits; it is brought to that of
    Pillow's pixels.
    """
    image = Image.open(io.BytesIO(data))
    key = image.info.get("transparency")
    if data.startswith(_PNG) and isinstance(key, (int, tuple)):
        bits = data[24]
        if isinstance(key, tuple):  # of 16 bits Pillow keeps the upper half; colours that differ below are one
            image.info["transparency"] = tuple(level >> 8 for level in key) if bits == 16 else key
        elif image.mode in ("1", "L"):
            image.info["transparency"] = key * 255 // ((1 << bits) - 1)
    return image


def to_rgb(image: Image.Image) -> Image.Image:
    """`image` (palette, CMYK, grey, 16 bits, with or without alpha) as 8-bit RGB.

    Of 16 bits the upper 8 are kept, as TensorFlow does, and transparency is laid on white, as img2dataset does: the
    colour beneath transparent pixels is arbitrary.

    Raises:
      ValueError: grey that 16 bits do not hold: nothing says what is white.
    """
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode in ("I", "F"):
        _check_grey(image)
    if image.mode.startswith("I"):
        image = _eight_bits(image)
    elif image.mode == "1":
        key = image.info.get("transparency")
        image = image.convert("L")
        if key is not None:
            image.info["transparency"] = key
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        background = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
        return Image.alpha_composite(background, rgba).convert("RGB")
    return image.convert("RGB")


def rgb_array(data: bytes, max_pixels: int) -> np.ndarray:
    """An encoded image as a read-only array of uint8, shape (height, width, 3).

    Raises:
      ValueError: it does not decode, or has more than `max_pixels`.
    """
    return _array(data, max_pixels, to_rgb)


def mask_array(data: bytes, max_pixels: int) -> np.ndarray:
    """An encoded mask as a read-only array of uint8, of a PNG of 16 bits of uint16, shape (height, width, 1).

    Raises:
      ValueError: it does not decode, or has more than `max_pixels`.
    """
    values = _array(data, max_pixels, lambda image: image if image.mode.startswith("I") else image.convert("L"))
    return values.astype(np.uint16, copy=False)[..., None] if values.dtype != np.uint8 else values[..., None]


def _array(data: bytes, max_pixels: int, convert: Callable[[Image.Image], Image.Image]) -> np.ndarray:
    try:
        with open_image(data) as image:
            if image.width * image.height > max_pixels:
                size = f"{image.width} x {image.height} pixels"
                raise ValueError(
                    f"{size} are more than the {max_pixels} that the data set was made with: a decompression bomb?"
                )
            return np.asarray(convert(image))
    except UnidentifiedImageError:
        raise ValueError(f"not an image that Pillow reads: the file starts with {data[:8]!r}") from None
    except MemoryError:  # of this process, and no fault of the image
        raise
    except Exception as error:  # what its readers' parsing happens to raise, and a class of its own for bombs
        raise ValueError(str(error) or type(error).__name__) from error


def _check_grey(image: Image.Image) -> None:
    values = np.asarray(image)
    lowest, highest = values.min(), values.max()
    if image.mode == "F" or lowest < 0 or highest > _WHITE:
        what = "floats" if image.mode == "F" else "grey"
        raise ValueError(
            f"{what} from {lowest:g} to {highest:g}, where white is {_WHITE} or 255: make it gray of 16 or 8 bits"
        )


def _eight_bits(image: Image.Image) -> Image.Image:
    """Grey of 16 bits as grey of 8, or grey with alpha where a colour is transparent. convert("L") alone clips at
    255."""
    key = image.info.get("transparency")
    wide = image.convert("I")
    grey = wide.point(lambda value: value / 256).convert("L")
    if not isinstance(key, int):
        return grey
    opaque = Image.fromarray(np.where(np.asarray(wide) == key, 0, 255).astype(np.uint8))
    return Image.merge("LA", (grey, opaque))
