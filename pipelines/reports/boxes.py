"""Boxes around the objects in a picture, drawn on it, each with the name of its class."""

import math
from collections.abc import Sequence
from functools import cache
from typing import cast

from PIL import Image, ImageDraw, ImageFont

from shardmill.pipelines.reports.objects import Drawn
from shardmill.transforms.files.images.boxes import turned
from shardmill.transforms.files.images.codec import orientation
from shardmill.transforms.files.images.errors import ImageError
from shardmill.transforms.files.images.exif import UPRIGHT

# Colours that differ in lightness too, of one class after another: Okabe and Ito's, without black
COLOURS = ((230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0), (204, 121, 167))
_WIDTH = 2  # pixels of an edge
_SMALLEST = 24  # pixels of a box's width, from which on its class is named
_WIDEST = 2  # times the width of a box that its name may have


def draw_objects(image: Image.Image, objects: Sequence[Drawn], data: bytes) -> None:
    """Draw the boxes of objects on an upright picture of any size, made of the image whose bytes are `data`."""
    if not objects:
        return
    try:
        lies = orientation(data)
    except ImageError:
        lies = UPRIGHT
    draw = ImageDraw.Draw(image)
    for item in objects:
        box, colour = turned(item.box, lies), COLOURS[item.label % len(COLOURS)]
        left, right = (round(edge * (image.width - 1)) for edge in (box.left, box.right))
        top, bottom = (round(edge * (image.height - 1)) for edge in (box.top, box.bottom))
        draw.rectangle((left, top, max(right, left), max(bottom, top)), outline=colour, width=_WIDTH)
        if right - left >= _SMALLEST and item.name.isascii():
            width = min(_WIDEST * (right - left), image.width)
            _write(draw, item.name, (left, top), width, image.width, colour)


def _write(
    draw: ImageDraw.ImageDraw,
    name: str,
    at: tuple[int, int],
    width: int,
    picture: int,
    colour: tuple[int, int, int],
) -> None:
    """A name on its colour, from the corner of a box on, or to the left of it where the picture ends: as much of it as
    there is room for."""
    while name and _length(name) > width:
        name = name[:-1]
    if name:
        at = max(0, min(at[0], picture - _length(name))), at[1]
        around = draw.textbbox((at[0] + 2, at[1] + 1), name, _font())
        draw.rectangle((*at, around[2] + 2, around[3] + 1), colour)
        light = sum(weight * part for weight, part in zip((0.3, 0.6, 0.1), colour, strict=True)) > 128
        draw.text((at[0] + 2, at[1] + 1), name, (0, 0, 0) if light else (255, 255, 255), _font())


def _length(name: str) -> int:
    """Pixels that a name takes with what is around it."""
    return math.ceil(_font().getlength(name)) + 4


@cache
def _font() -> ImageFont.FreeTypeFont:
    return cast(ImageFont.FreeTypeFont, ImageFont.load_default(size=10))
