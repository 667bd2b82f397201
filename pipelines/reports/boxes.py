"""Boxes around the objects in a picture, drawn on it, each with the name of its class."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, cast

from PIL import Image, ImageDraw, ImageFont

from shardmill.features.feature import Features, of_kind
from shardmill.kinds.registry import kind_of
from shardmill.records.example import FeatureValue
from transforms.files.images.boxes import Box, turned
from transforms.files.images.codec import orientation
from transforms.files.images.errors import ImageError
from transforms.files.images.exif import UPRIGHT

# Colours that differ in lightness too, of one class after another: Okabe and Ito's, without black
_COLOURS = ((230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0), (204, 121, 167))
_WIDTH = 2  # pixels of an edge
_SMALLEST = 24  # pixels of a box's width, from which on its class is named


class Drawn(NamedTuple):
    """An object: its box as fractions of the stored picture, the id of its class, -1 for none, and its name."""

    box: Box
    label: int
    name: str


def objects_of(example: Mapping[str, FeatureValue], features: Features) -> tuple[Drawn, ...]:
    """The objects of an example that have boxes."""
    boxes = next((feature for feature in of_kind(features, "bbox") if feature.shape == (None, 4)), None)
    if boxes is None:
        return ()
    beside = (feature for feature in features if feature.sequence == boxes.sequence and kind_of(feature).has_classes)
    label = next(beside, None)
    edges = [float(edge) for edge in cast(Sequence[float], example.get(boxes.name, ()))]
    ids = [int(value) for value in cast(Sequence[int], example.get(label.name, ()))] if label is not None else []
    found = []
    for number in range(len(edges) // 4):
        index = ids[number] if number < len(ids) else -1
        names = label.class_names if label is not None else ()
        name = names[index] if 0 <= index < len(names) else ""
        found.append(Drawn(Box(*edges[4 * number : 4 * number + 4]), index, name))
    return tuple(found)


def words_of(objects: Iterable[Drawn]) -> str:
    """How many there are of each class: `2 cat, dog`."""
    counts: dict[str, int] = {}
    for item in objects:
        counts[item.name] = counts.get(item.name, 0) + 1
    return ", ".join(f"{count} {name}" if count > 1 else name for name, count in counts.items())


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
        box, colour = turned(item.box, lies), _COLOURS[item.label % len(_COLOURS)]
        left, right = (round(edge * (image.width - 1)) for edge in (box.left, box.right))
        top, bottom = (round(edge * (image.height - 1)) for edge in (box.top, box.bottom))
        draw.rectangle((left, top, max(right, left), max(bottom, top)), outline=colour, width=_WIDTH)
        if right - left >= _SMALLEST and item.name.isascii():
            _write(draw, item.name, (left, top), right - left, colour)


def _write(draw: ImageDraw.ImageDraw, name: str, at: tuple[int, int], width: int, colour: tuple[int, int, int]) -> None:
    """A name on its colour, in the corner of a box, as much of it as there is room for."""
    while name and _font().getlength(name) > width - 4:
        name = name[:-1]
    if name:
        around = draw.textbbox((at[0] + 2, at[1] + 1), name, _font())
        draw.rectangle((*at, around[2] + 2, around[3] + 1), colour)
        light = sum(weight * part for weight, part in zip((0.3, 0.6, 0.1), colour, strict=True)) > 128
        draw.text((at[0] + 2, at[1] + 1), name, (0, 0, 0) if light else (255, 255, 255), _font())


@cache
def _font() -> ImageFont.FreeTypeFont:
    return cast(ImageFont.FreeTypeFont, ImageFont.load_default(size=10))
