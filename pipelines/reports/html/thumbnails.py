"""Images as a page shows them: small, upright, and in the page itself."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageOps

from shardmill.media.image_limits import MAX_PIXELS
from shardmill.media.image_pixels import open_image, to_rgb
from shardmill.pipelines.reports.beside import draw_masks, side_by_side
from shardmill.pipelines.reports.boxes import draw_objects
from shardmill.pipelines.reports.objects import Drawn

SIDE = 96  # pixels of the longest side, on the page
_CRISP = SIDE // 2  # an image up to so long is enlarged by whole factors, so that its pixels stay pixels
_QUALITY = 70  # of a JPEG, 1 to 95 as Pillow has it


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """An image on a page.

    Attributes:
      source: a data: URI; "" of what does not decode.
      width, height: in pixels, of the image itself.
      shown_width, shown_height: on the page.
      is_crisp: whether it is to be enlarged pixel by pixel.
    """

    source: str = ""
    width: int = 0
    height: int = 0
    shown_width: int = SIDE
    shown_height: int = SIDE
    is_crisp: bool = False


def thumbnail(
    data: bytes, objects: Sequence[Drawn] = (), masks: Sequence[bytes] = (), others: Sequence[bytes] = ()
) -> Thumbnail:
    """The thumbnail of an encoded image, with the objects in it, its masks laid over it and other images beside it;
    without a source if it does not decode."""
    (width, height), image = _opened(data)
    if image is None:
        return Thumbnail("", width, height)
    longest = max(image.size)
    if longest <= _CRISP and not objects and not masks and not others:
        scale = SIDE // longest
        return Thumbnail(_uri(image, "PNG"), width, height, image.width * scale, image.height * scale, True)
    small = _small(image)
    draw_masks(small, masks, data)
    draw_objects(small, objects, data)
    opened = (_opened(other)[1] for other in others)
    small = side_by_side([small, *(_small(other) for other in opened if other is not None)], SIDE)
    return Thumbnail(_uri(small, "JPEG"), width, height, *small.size)


def _opened(data: bytes) -> tuple[tuple[int, int], Image.Image | None]:
    """The size of an encoded image, (0, 0) where it is not known, and its pixels, upright; None if it does not
    decode."""
    size = (0, 0)
    try:
        with open_image(data) as source:
            if source.width * source.height > MAX_PIXELS:
                return source.size, None
            size = source.size
            source.draft("RGB", (SIDE, SIDE))  # a JPEG is decoded at a fraction of its size, no smaller than that
            return size, to_rgb(ImageOps.exif_transpose(source))
    except Exception:  # Pillow's readers raise what their parsing happens to raise
        return (0, 0), None


def _small(image: Image.Image) -> Image.Image:
    longest = max(image.size)
    sides = tuple(max(round(side * SIDE / longest), 1) for side in image.size)
    return image.resize((sides[0], sides[1]), Image.Resampling.HAMMING)  # as good at making smaller, in half the time


def _uri(image: Image.Image, image_format: str) -> str:
    out = io.BytesIO()
    image.save(out, image_format, **({"quality": _QUALITY} if image_format == "JPEG" else {"optimize": True}))
    return f"data:image/{image_format.lower()};base64,{base64.b64encode(out.getvalue()).decode()}"
