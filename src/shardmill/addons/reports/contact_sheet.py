"""Contact sheets, and the boxes, masks and arrays drawn on pictures."""

import base64
import io
import math
import unicodedata
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby, islice
from operator import itemgetter
from typing import cast

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from shardmill.addons.reports.pictures import (
    ObjectBox,
    Picture,
    choose_evenly_spaced,
    find_class_id,
    take_in_turn,
    to_picture,
)
from shardmill.data.example import decode_example
from shardmill.data.features import MAX_PIXELS, features_of_kind, find_feature
from shardmill.data.media import mask_array, open_image, to_rgb
from shardmill.metadata.manifest import ShardEntry, SplitEntry
from shardmill.reading.dataset import Dataset
from shardmill.transforms.files.image_codec import pillow_orientation
from shardmill.transforms.files.image_geometry import UPRIGHT, ImageError, turn_box

# Colours that differ in lightness too, of one class after another: Okabe and Ito's, without black
COLOURS = ((230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0), (204, 121, 167))
_WIDTH = 2  # pixels of an edge
_SMALLEST = 24  # pixels of a box's width, from which on its class is named
_NAME_SIZE = 10  # of the letters of its class, in points
_WIDEST = 2  # times the width of a box that its name may have


def _read_orientation(data: bytes) -> int:
    try:
        return pillow_orientation(data)
    except ImageError:
        return UPRIGHT


def draw_objects(image: Image.Image, objects: Sequence[ObjectBox], data: bytes) -> None:
    """Draw the boxes of objects on an upright thumbnail of the image `data`."""
    if not objects:
        return
    draw, lies = ImageDraw.Draw(image), _read_orientation(data)
    for item in objects:
        box, colour = turn_box(item.box, lies), COLOURS[item.label % len(COLOURS)]
        left, right = (round(edge * (image.width - 1)) for edge in (box.left, box.right))
        top, bottom = (round(edge * (image.height - 1)) for edge in (box.top, box.bottom))
        draw.rectangle((left, top, max(right, left), max(bottom, top)), outline=colour, width=_WIDTH)
        if right - left >= _SMALLEST and item.name.isascii():
            width = min(_WIDEST * (right - left), image.width)
            _write_name(draw, item.name, (left, top), width, image.width, colour)


def _write_name(
    draw: ImageDraw.ImageDraw, name: str, at: tuple[int, int], width: int, picture: int, colour: tuple[int, int, int]
) -> None:
    while name and _measure_name(name)[0] + 4 > width:  # with margins
        name = name[:-1]
    if name:
        length, right, bottom = _measure_name(name)
        left, top = max(0, min(at[0], picture - length - 4)), at[1]
        draw.rectangle((left, top, left + right + 4, top + bottom + 2), colour)
        light = sum(weight * part for weight, part in zip((0.3, 0.6, 0.1), colour, strict=True)) > 128
        draw.text((left + 2, top + 1), name, (0, 0, 0) if light else (255, 255, 255), _load_font(_NAME_SIZE))


@lru_cache(maxsize=1024)
def _measure_name(name: str) -> tuple[int, float, float]:
    font = _load_font(_NAME_SIZE)
    return math.ceil(font.getlength(name)), *font.getbbox(name)[2:]


@cache
def _load_font(size: int = 12) -> ImageFont.FreeTypeFont:
    return cast(ImageFont.FreeTypeFont, ImageFont.load_default(size=size))


_MASK_OPACITY = 0.5  # of a colour where a mask lies over its image; nothing is laid over its value 0


def draw_masks(image: Image.Image, masks: Sequence[bytes], data: bytes) -> None:
    """Draw the decodable masks, stored like the image `data`, over its upright thumbnail."""
    for mask in masks:
        try:
            values = Image.fromarray(mask_array(mask, MAX_PIXELS)[..., 0])
            lies = pillow_orientation(data)
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
        share = np.where(small > 0, _MASK_OPACITY, 0.0)[..., None]
        mixed = pixels * (1 - share) + colours[place] * share
        image.paste(Image.fromarray(mixed.round().astype(np.uint8)))


def join_pictures(images: Sequence[Image.Image], side: int) -> Image.Image:
    """Join pictures in a row that fits into a square of `side` pixels; a single one is returned unchanged."""
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


_Position = tuple[int, int]  # of a record: shard, index in it

# Pixels: an image's side, around it in its card, between cards, a line of text
_CELL, _PAD, _GAP, _LINE = 128, 6, 8, 16
_MAX_COLUMNS = 12  # of cards
_CANDIDATES = 4  # records looked at for each one shown: among them, classes are evened out
# Red, green and blue, 0 to 255
_PAGE, _CARD, _FRAME = (241, 243, 245), (255, 255, 255), (213, 217, 221)
_INK, _FAINT = (28, 32, 36), (112, 118, 124)
_BAD, _BAD_FRAME, _BAD_CROSS = (253, 240, 238), (198, 40, 40), (239, 187, 182)


def pick_samples(dataset: Dataset, splits: Sequence[SplitEntry], number: int) -> list[Picture]:
    """Pick at most `number` images, about equally many of each class and shard, in class order, deterministically.

    Reads the first records of shards spread over `splits`, or spread records if they are not shuffled. It reads them
    twice, for their classes and for the chosen images, so that at most `number` images are in memory.
    """
    shards = choose_evenly_spaced([shard for split in splits for shard in split.shards if shard.examples], number)
    if not shards:
        return []
    share = math.ceil(_CANDIDATES * number / len(shards))
    ordered = bool(dataset.manifest.configuration.get("no_shuffle"))
    label = next(iter(features_of_kind(dataset.manifest.features, "class_label")), None)
    named = find_feature(dataset.manifest.features, "filename")
    filename = named.name if named is not None else ""
    by_class: dict[int, list[_Position]] = defaultdict(list)
    for number_of_shard, shard in enumerate(shards):
        wanted = choose_evenly_spaced(range(shard.examples), share) if ordered else range(min(share, shard.examples))
        for index, record in _read_records(dataset, shard, wanted):
            by_class[find_class_id(decode_example(record), label)].append((number_of_shard, index))
    chosen = _choose_evenly([by_class[class_id] for class_id in sorted(by_class)], number)
    found: dict[_Position, Picture] = {}
    for number_of_shard, shard in enumerate(shards):
        wanted = [index for of_shard, index in chosen if of_shard == number_of_shard]
        for index, record in _read_records(dataset, shard, wanted):
            found[number_of_shard, index] = to_picture(
                decode_example(record), dataset.manifest.features, filename, name_in_ascii
            )
    return [found[position] for position in chosen]


def name_in_ascii(class_id: int, names: Sequence[str]) -> str:
    """Return the name of a class id, or its number if the letters of the sheet do not suffice."""
    if not 0 <= class_id < len(names):
        return f"no class {class_id}"
    return names[class_id] if any(map(str.isalnum, to_ascii(names[class_id]))) else f"class {class_id}"


def _read_records(dataset: Dataset, shard: ShardEntry, wanted: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    chosen = set(wanted)
    records = islice(enumerate(dataset.records(shard)), max(chosen, default=-1) + 1)
    return (found for found in records if found[0] in chosen)


def _choose_evenly(classes: Sequence[list[_Position]], number: int) -> list[_Position]:
    turns = []
    for turn, positions in enumerate(choose_evenly_spaced(classes, number)):
        by_shard = deque(list(found) for _, found in groupby(positions, itemgetter(0)))
        by_shard.rotate(-turn)  # classes begin at different shards: with one sample each, all would be of the first
        turns.append(take_in_turn(by_shard))
    chosen = set(islice(take_in_turn(turns), number))
    return [position for positions in classes for position in positions if position in chosen]


def count_turned(samples: Sequence[Picture]) -> int:
    """Count the samples drawn rotated by EXIF, whose pixels readers return as stored."""
    return sum(_read_orientation(sample.image) != UPRIGHT for sample in samples)


def draw_contact_sheet(samples: Sequence[Picture], title: str = "") -> bytes:
    """Return a PNG of the samples, upright, row by row; an undecodable image becomes a crossed-out empty cell."""
    columns = max(1, min(_MAX_COLUMNS, len(samples), math.ceil(math.sqrt(1.6 * len(samples)))))
    lines = any(sample.label for sample in samples) + any(sample.file for sample in samples)
    width, height = _CELL + 2 * _PAD, _CELL + 2 * _PAD + lines * _LINE + (_PAD if lines else 0)
    top = _GAP + (_LINE + _GAP if title else 0)
    rows = math.ceil(len(samples) / columns)
    page = Image.new("RGB", (_GAP + columns * (width + _GAP), top + rows * (height + _GAP)), _PAGE)
    draw = ImageDraw.Draw(page)
    draw.text((_GAP + 2, _GAP), fit_line(title, page.width - 2 * _GAP), _INK, _load_font())
    for index, sample in enumerate(samples):
        row, column = divmod(index, columns)
        _draw_card(page, sample, (_GAP + column * (width + _GAP), top + row * (height + _GAP)), (width, height))
    out = io.BytesIO()
    page.save(out, "PNG")
    return out.getvalue()


def _draw_card(page: Image.Image, sample: Picture, at: tuple[int, int], size: tuple[int, int]) -> None:
    draw = ImageDraw.Draw(page)
    (left, top), (width, height) = at, size
    image = _draw_thumbnail(sample.image)
    if image is not None:
        draw_masks(image, sample.masks, sample.image)
        draw_objects(image, sample.objects, sample.image)
        others = [small for other in sample.others if (small := _draw_thumbnail(other)) is not None]
        image = join_pictures([image, *others], _CELL)
    draw.rectangle((left, top, left + width - 1, top + height - 1), _CARD, _FRAME if image else _BAD_FRAME)
    if image is None:
        box = (left + _PAD, top + _PAD, left + _PAD + _CELL - 1, top + _PAD + _CELL - 1)
        draw.rectangle(box, _BAD)
        draw.line(box, _BAD_CROSS, 2)
        draw.line((box[0], box[3], box[2], box[1]), _BAD_CROSS, 2)
        centre = (left + width / 2, top + _PAD + _CELL / 2)
        around = draw.textbbox(centre, "does not decode", _load_font(), anchor="mm")
        draw.rectangle((around[0] - 4, around[1] - 4, around[2] + 4, around[3] + 4), _BAD)
        draw.text(centre, "does not decode", _BAD_FRAME, _load_font(), anchor="mm")
    else:
        page.paste(image, (left + (width - image.width) // 2, top + _PAD + (_CELL - image.height) // 2))
    line = top + 2 * _PAD + _CELL
    for text, colour in ((fit_line(sample.label, _CELL), _INK), (fit_line(sample.file, _CELL, keep_end=True), _FAINT)):
        if text:
            draw.text((left + _PAD, line), text, colour, _load_font())
            line += _LINE


def _draw_thumbnail(data: bytes) -> Image.Image | None:
    """Return the image upright at the size of a cell, or None if it does not decode."""
    _, image = _open_upright(data, 2 * _CELL)
    if image is None:
        return None
    if 3 * max(image.size) > _CELL:
        return _scale_down(image, _CELL)
    factor = _CELL // max(image.size)  # digits and icons are enlarged by whole factors, so that pixels stay pixels
    return image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)


def fit_line(text: str, width: int, keep_end: bool = False) -> str:
    """Make `text` one readable line, cut with an ellipsis to `width` pixels, at its end or at its beginning."""
    text = to_ascii(text)
    if _load_font().getlength(text) <= width:
        return text
    kept = text[-width:] if keep_end else text[:width]  # every letter takes a pixel at least
    while kept and _load_font().getlength(f"…{kept}") > width:
        kept = kept[1:] if keep_end else kept[:-1]
    return f"…{kept}" if keep_end else f"{kept}…"


def to_ascii(text: str) -> str:
    """Reduce `text` to ASCII, the letters of Pillow's own font: drop accents, and replace all others with `?`."""
    letters = (letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in letters)


SIDE = 96  # pixels of the longest side, on the page
_STORED = 2 * SIDE  # pixels of it in the file, for the image is opened larger
_THUMBNAILS_CRISP = SIDE // 2  # an image up to so long is enlarged by whole factors, so that its pixels stay pixels
_QUALITY = 70  # of a JPEG, 1 to 95 as Pillow has it


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """An image on a page."""

    source: str = ""  # a data: URI; "" if the image does not decode
    width: int = 0  # of the image itself, in pixels
    height: int = 0
    shown_width: int = SIDE  # on the page
    shown_height: int = SIDE
    is_crisp: bool = False  # enlarge pixel by pixel


def thumbnail(
    data: bytes, objects: Sequence[ObjectBox] = (), masks: Sequence[bytes] = (), others: Sequence[bytes] = ()
) -> Thumbnail:
    """Return the thumbnail of an image, with objects and masks drawn on it and other images next to it."""
    (width, height), image = _open_upright(data, _STORED)
    if image is None:
        return Thumbnail("", width, height)
    longest = max(image.size)
    if longest <= _THUMBNAILS_CRISP and not objects and not masks and not others:
        scale = SIDE // longest
        return Thumbnail(_make_uri(image, "PNG"), width, height, image.width * scale, image.height * scale, True)
    small = _scale_down(image)
    draw_masks(small, masks, data)
    draw_objects(small, objects, data)
    opened = (_open_upright(other, _STORED)[1] for other in others)
    small = join_pictures([small, *(_scale_down(other) for other in opened if other is not None)], _STORED)
    shown = max(small.width // 2, 1), max(small.height // 2, 1)
    return Thumbnail(_make_uri(small, "JPEG"), width, height, *shown)


def _open_upright(data: bytes, side: int) -> tuple[tuple[int, int], Image.Image | None]:
    """Return the size of an image ((0, 0) if unknown) and its upright pixels (None if it does not decode)."""
    try:
        with open_image(data) as source:
            size = source.size
            if source.width * source.height > MAX_PIXELS:
                return size, None
            source.draft("RGB", (side, side))  # a JPEG is decoded at a fraction of its size, no smaller than that
            return size, to_rgb(ImageOps.exif_transpose(source))
    except Exception:  # Pillow's readers raise what their parsing happens to raise
        return (0, 0), None


def _scale_down(image: Image.Image, side: int = _STORED) -> Image.Image:
    longest = max(image.size)
    sides = tuple(max(round(each * side / longest), 1) for each in image.size)
    return image.resize((sides[0], sides[1]), Image.Resampling.HAMMING)  # as good at making smaller, in half the time


def _make_uri(image: Image.Image, image_format: str) -> str:
    out = io.BytesIO()
    image.save(out, image_format, **({"quality": _QUALITY} if image_format == "JPEG" else {"optimize": True}))
    return f"data:image/{image_format.lower()};base64,{base64.b64encode(out.getvalue()).decode()}"
