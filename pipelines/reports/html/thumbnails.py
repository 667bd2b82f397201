"""Images as a page shows them: small, upright, and in the page itself."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageOps

from pipelines.reports.boxes import draw_objects
from pipelines.reports.objects import Drawn
from shardmill.media.image_limits import MAX_PIXELS
from shardmill.media.image_pixels import open_image, to_rgb

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


def thumbnail(data: bytes, objects: Sequence[Drawn] = ()) -> Thumbnail:
    """The thumbnail of an encoded image, with the objects in it; without a source if it does not decode."""
    try:
        with open_image(data) as source:
            width, height = source.size
            if width * height > MAX_PIXELS:
                return Thumbnail("", width, height)
            source.draft("RGB", (SIDE, SIDE))  # a JPEG is decoded at a fraction of its size, no smaller than that
            image = to_rgb(ImageOps.exif_transpose(source))
    except Exception:  # Pillow's readers raise what their parsing happens to raise
        return Thumbnail()
    longest = max(image.size)
    if longest <= _CRISP and not objects:
        scale = SIDE // longest
        return Thumbnail(_uri(image, "PNG"), width, height, image.width * scale, image.height * scale, True)
    sides = tuple(max(round(side * SIDE / longest), 1) for side in image.size)
    small = image.resize((sides[0], sides[1]), Image.Resampling.HAMMING)  # as good at making smaller, in half the time
    draw_objects(small, objects, data)
    return Thumbnail(_uri(small, "JPEG"), width, height, *small.size)


def _uri(image: Image.Image, image_format: str) -> str:
    out = io.BytesIO()
    image.save(out, image_format, **({"quality": _QUALITY} if image_format == "JPEG" else {"optimize": True}))
    return f"data:image/{image_format.lower()};base64,{base64.b64encode(out.getvalue()).decode()}"
