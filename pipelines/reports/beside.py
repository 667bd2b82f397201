"""What is drawn of an example beside its image: masks over it, each value in its colour, and further images next to
it."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageOps

from shardmill.media.image_limits import MAX_PIXELS
from shardmill.media.image_pixels import mask_array
from shardmill.pipelines.reports.boxes import COLOURS
from shardmill.transforms.files.images.codec import orientation
from shardmill.transforms.files.images.errors import ImageError
from shardmill.transforms.files.images.exif import UPRIGHT

_SHARE = 0.5  # of a colour where a mask lies over its image; nothing is laid over its value 0


def draw_masks(image: Image.Image, masks: Sequence[bytes], data: bytes) -> None:
    """Lay masks over an upright picture of any size, made of the image whose bytes are `data`, as which they lie; one
    that does not decode is left out."""
    for mask in masks:
        try:
            values = Image.fromarray(mask_array(mask, MAX_PIXELS)[..., 0])
            lies = orientation(data)
        except (ImageError, ValueError):
            continue
        if lies != UPRIGHT:
            exif = Image.Exif()
            exif[0x0112] = lies
            values.info["exif"] = exif.tobytes()
            values = ImageOps.exif_transpose(values)
        small = np.asarray(values.resize(image.size, Image.Resampling.NEAREST))
        colours = np.array([(0, 0, 0), *COLOURS], np.float32)
        place = np.where(small > 0, (small.astype(np.int64) - 1) % len(COLOURS) + 1, 0)
        pixels = np.asarray(image, np.float32)
        share = np.where(small > 0, _SHARE, 0.0)[..., None]
        mixed = pixels * (1 - share) + colours[place] * share
        image.paste(Image.fromarray(mixed.round().astype(np.uint8)))


def side_by_side(images: Sequence[Image.Image], side: int) -> Image.Image:
    """Pictures next to one another, all together as wide and high as `side` at most; of a single one, it as it is."""
    if len(images) == 1:
        return images[0]
    height = max(image.height for image in images)
    row = Image.new("RGB", (sum(image.width for image in images), height), (255, 255, 255))
    left = 0
    for image in images:
        row.paste(image, (left, (height - image.height) // 2))
        left += image.width
    row.thumbnail((side, side))
    return row
