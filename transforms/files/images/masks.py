"""Masks: a number from 0 to 255, or 65,535, for each pixel of an image, stored as a gray PNG. Values are never blended.

A gray PNG of the bits asked for, which lies as its image does, is stored as it is. Of all else the values are what they
are, written anew: the places in a palette (TensorFlow's decoder would give the grays of its colours), 16 bits whose
values fit into 8, 8 where all masks have 16 (of which TensorFlow's decoder would make 16 by scaling), colours that are
all gray.
"""

import io
from typing import NamedTuple

import numpy as np
from PIL import Image

from shardmill.media.image_pixels import open_image
from shardmill.transforms.files.images.boxes import Picture, turns_back
from shardmill.transforms.files.images.codec import Reencode, check_decodes, measure, resized
from shardmill.transforms.files.images.errors import ImageError
from shardmill.transforms.files.images.exif import UPRIGHT
from shardmill.transforms.files.images.header import check_structure, read_header
from shardmill.transforms.stores.error_text import error_text

_LOSSLESS = ("png", "gif", "bmp", "tiff")
_TOPS = {"uint8": 255, "uint16": 65535}  # the highest value, by the type of values
_GRAY, _PALETTE = 0, 3  # colour types of a PNG: PNG (W3C), section 11.2.2
_PNG = b"\x89PNG"
_TURNS = {  # by EXIF's orientation, as PIL.ImageOps.exif_transpose has it
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class Mask(NamedTuple):
    """A mask as it is stored.

    Attributes:
      data: a gray PNG.
      made_of: what it was, where that is no gray PNG of the bits asked for: "palette", "deep", "shallow", "colours",
        "format"; else "".
    """

    data: bytes
    made_of: str = ""


def encode_mask(
    data: bytes,
    picture: Picture,
    how: Reencode | None,
    seen: str,
    max_pixels: int,
    decodes: bool = False,
    dtype: str = "uint8",
) -> Mask:
    """A mask as it is stored beside its image.

    Args:
      data: its file.
      picture: the image as it was found.
      how: the image is re-encoded; None where it is stored as it is.
      seen: whether masks of images that EXIF turns are of the `stored` or the `upright` picture, where their size does
        not tell; "" makes these images errors.
      max_pixels: more make it an error, before anything is decoded.
      decodes: whether all of it is decoded although it is stored as it is.
      dtype: of values as they are stored: `uint8` or `uint16`.

    Raises:
      ImageError: it is no mask, or none of this image.
    """
    header = read_header(data)
    if header.format not in _LOSSLESS:
        raise ImageError(
            f"a {header.format}, which may not keep the value of a pixel: make a PNG of it, by thresholds for instance"
        )
    width, height = measure(data)[1:] if header.format == "tiff" else (header.width, header.height)
    if width * height > max_pixels:
        raise ImageError(f"{width} x {height} pixels are more than --max_pixels {max_pixels}: a decompression bomb?")
    is_png = header.format == "png"
    if header.format != "tiff" and check_structure(data, header).orientation != UPRIGHT:
        raise ImageError("EXIF turns the mask itself: store its pixels as they are meant")
    turn = _turn((width, height), picture, how is not None, seen)
    is_plain = is_png and data[25] == _GRAY and (data[24] == 16) == (dtype == "uint16")
    if is_plain and turn == UPRIGHT and (how is None or how.size is None):
        if decodes:
            check_decodes(data)
        return Mask(data)
    check_decodes(data)
    values = _values(data, dtype)
    # Of 16 bits Pillow picks other pixels than of 8, where two are as near; of 32 the same
    image = Image.fromarray(values.astype(np.int32) if dtype == "uint16" else values)
    if turn != UPRIGHT:
        image = image.transpose(_TURNS[turn])
    if how is not None and how.size is not None:
        image = resized(image, how.size, how.mode, Image.Resampling.NEAREST)
    out = io.BytesIO()
    Image.fromarray(np.asarray(image).astype(dtype)).save(out, "PNG")
    return Mask(out.getvalue(), "" if is_plain else _kind(data, is_png))


def _turn(size: tuple[int, int], picture: Picture, upright: bool, seen: str) -> int:
    """The orientation by which a mask is turned to lie as its image will be stored, `upright` or as it is."""
    stored = (picture.width, picture.height)
    if size not in (stored, picture.upright):
        raise ImageError(
            f"a mask of {size[0]} x {size[1]} pixels, where the image has {stored[0]} x {stored[1]}: is it that of"
            " another image?"
        )
    if picture.orientation == UPRIGHT:
        return UPRIGHT
    if stored != picture.upright:
        lies = "stored" if size == stored else "upright"
    elif not seen:
        raise ImageError(
            f"EXIF (orientation {picture.orientation}) turns the image, and nothing says whether its mask is of the"
            " turned one; give --masks_seen upright if masks are, else stored"
        )
    else:
        lies = seen
    if upright:
        return picture.orientation if lies == "stored" else UPRIGHT
    return turns_back(picture.orientation) if lies == "upright" else UPRIGHT


def _kind(data: bytes, is_png: bool) -> str:
    if not is_png:
        return "format"
    if data[25] == _GRAY:
        return "deep" if data[24] == 16 else "shallow"
    return "palette" if data[25] == _PALETTE else "colours"


def _values(data: bytes, dtype: str) -> np.ndarray:
    """The values of a mask: shape (height, width)."""
    if data.startswith(_PNG) and data[24] == 16 and data[25] != _GRAY:  # of which Pillow reads the upper 8 alone
        raise ImageError("a png of 16 bits with colours or transparency: make it gray, of one channel")
    try:
        with open_image(data) as image:
            if getattr(image, "n_frames", 1) > 1:
                raise ImageError("an animation, of which no picture is the mask")
            image.load()
            values = np.asarray(image.convert("L") if image.mode == "1" else image)
    except (ImageError, MemoryError):  # the latter of this process, and no fault of the image
        raise
    except Exception as error:  # Pillow's readers raise what their parsing happens to raise
        raise ImageError(f"does not decode: {error_text(error)}") from error
    if values.ndim == 3:
        colours = values[..., : 1 if values.shape[2] <= 2 else 3]  # what follows is how opaque a pixel is
        if (colours != colours[..., :1]).any():
            raise ImageError("a picture of colours, where a mask has one number a pixel: give each class its number")
        values = colours[..., 0]
    odd = not np.issubdtype(values.dtype, np.integer) or values.min() < 0
    if odd or values.max() > _TOPS[dtype]:
        shown = values.min() if values.min() < 0 else values.max()
        more = "; --mask_dtype uint16 takes values up to 65535" if not odd and values.max() <= _TOPS["uint16"] else ""
        raise ImageError(
            f"a mask with the value {shown}, where a pixel's is a whole number from 0 to {_TOPS[dtype]}{more}"
        )
    return np.ascontiguousarray(values.astype(dtype))
