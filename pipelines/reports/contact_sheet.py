"""A picture of a data set: sample images in a grid, each with its label and file name beneath."""

import io
import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, zip_longest
from typing import TypeVar, cast

from PIL import Image, ImageDraw, ImageFont, ImageOps

from shardmill.features.feature import Features, known_as, of_kind
from shardmill.kinds.registry import kind_of
from shardmill.media.image_limits import MAX_PIXELS
from shardmill.media.image_pixels import open_image, to_rgb
from shardmill.metadata.manifest import ShardEntry, SplitEntry
from shardmill.pipelines.reports.array_pictures import is_drawable, picture
from shardmill.pipelines.reports.beside import draw_masks, side_by_side
from shardmill.pipelines.reports.boxes import draw_objects
from shardmill.pipelines.reports.objects import Drawn, objects_of, words_of
from shardmill.reading.dataset import Dataset
from shardmill.records.example import FeatureValue, decode_example
from shardmill.transforms.files.images.codec import orientation
from shardmill.transforms.files.images.errors import ImageError
from shardmill.transforms.files.images.exif import UPRIGHT

Item = TypeVar("Item")
_Position = tuple[int, int]  # of a record: shard, index in it

# Pixels: an image's side, around it in its card, between cards, a line of text
_CELL, _PAD, _GAP, _LINE = 128, 6, 8, 16
_MAX_COLUMNS = 12  # of cards
_CANDIDATES = 4  # records looked at for each one shown: among them, classes are evened out
# Red, green and blue, 0 to 255
_PAGE, _CARD, _FRAME = (241, 243, 245), (255, 255, 255), (213, 217, 221)
_INK, _FAINT = (28, 32, 36), (112, 118, 124)
_CRISP, _SMOOTH = Image.Resampling.NEAREST, Image.Resampling.BICUBIC
_BAD, _BAD_FRAME, _BAD_CROSS = (253, 240, 238), (198, 40, 40), (239, 187, 182)


@dataclass(frozen=True, slots=True)
class Sample:
    """An encoded image, the two lines beneath it, an empty one of which is left out, the objects in it, its masks, and
    the further images of its example."""

    image: bytes
    label: str = ""
    filename: str = ""
    objects: tuple[Drawn, ...] = ()
    masks: tuple[bytes, ...] = ()
    others: tuple[bytes, ...] = ()


def pick_samples(dataset: Dataset, splits: Sequence[SplitEntry], number: int) -> list[Sample]:
    """About evenly many images of each class and shard, at most `number`, in the order of classes; always the same
    ones.

    Reads the first records of shards spread over `splits`; where records are not shuffled, records spread over those
    shards. It reads them twice, for their classes and for the images chosen, so that no more than `number` images are
    in memory.

    Raises:
      CorruptDataError: a shard is not what was written.
    """
    shards = _spread([shard for split in splits for shard in split.shards if shard.examples], number)
    if not shards:
        return []
    share = math.ceil(_CANDIDATES * number / len(shards))
    ordered = bool(dataset.manifest.configuration.get("no_shuffle"))
    label = next((feature.name for feature in of_kind(dataset.manifest.features, "class_label")), "")
    named = known_as(dataset.manifest.features, "filename")
    filename = named.name if named is not None else ""
    by_class: dict[int, list[_Position]] = defaultdict(list)
    for number_of_shard, shard in enumerate(shards):
        wanted = _spread(range(shard.examples), share) if ordered else range(min(share, shard.examples))
        for index, record in _records(dataset, shard, wanted):
            by_class[_class_id(decode_example(record).get(label))].append((number_of_shard, index))
    chosen = _even([by_class[class_id] for class_id in sorted(by_class)], number)
    found: dict[_Position, Sample] = {}
    for number_of_shard, shard in enumerate(shards):
        wanted = [index for of_shard, index in chosen if of_shard == number_of_shard]
        for index, record in _records(dataset, shard, wanted):
            found[number_of_shard, index] = to_sample(decode_example(record), dataset.manifest.features, filename)
    return [found[position] for position in chosen]


def to_sample(example: dict[str, FeatureValue], features: Features, name_feature: str = "filename") -> Sample:
    """The image or array of an example (its first, of several; empty bytes, of none) with its label and file name."""
    image, label = b"", ""
    masks, others = [], []
    for feature in features:
        values = example.get(feature.name, ())
        if feature.kind == "image" and len(values) and not image:  # what Pillow opens; a picture is drawn of others
            image = cast(bytes, values[0])
        elif feature.kind == "image" and len(values):
            others.append(cast(bytes, values[0]))
        elif feature.kind == "mask" and len(values):
            masks.append(cast(bytes, values[0]))
        elif is_drawable(feature) and len(values) and not image:
            image = picture(feature, cast(bytes, values[0]))
        elif kind_of(feature).has_classes and len(values) and not label:
            label = ", ".join(_label(int(value), feature.class_names) for value in values)
    filename = example.get(name_feature, ())
    text = filename[0].decode(errors="replace") if len(filename) and isinstance(filename[0], bytes) else ""
    objects = objects_of(example, features)
    return Sample(image, words_of(objects) or label, text, objects, tuple(masks), tuple(others))


def _label(class_id: int, names: Sequence[str]) -> str:
    """A class's name; its id where the font could draw none of the name."""
    if not 0 <= class_id < len(names):
        return f"no class {class_id}"
    return names[class_id] if any(map(str.isalnum, readable(names[class_id]))) else f"class {class_id}"


def _class_id(values: FeatureValue | None) -> int:
    return int(values[0]) if values is not None and len(values) else -1


def _spread(items: Sequence[Item], number: int) -> list[Item]:
    """At most `number` of the items, evenly spaced."""
    count = min(number, len(items))
    return [items[index * len(items) // count] for index in range(count)]


def _records(dataset: Dataset, shard: ShardEntry, wanted: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """(index, record) of the wanted indexes, ascending; nothing behind the last is read."""
    left = set(wanted)
    for index, record in enumerate(dataset.records(shard) if left else ()):
        if index in left:
            yield index, record
            left.remove(index)
            if not left:
                return


def _even(classes: Sequence[list[_Position]], number: int) -> list[_Position]:
    """At most `number` positions: as many of each class as there can be, and of each from as many shards as there can
    be."""
    turns = [
        # Classes begin at different shards: with one sample each, they would all be of the first otherwise.
        [position for position in chain(*zip_longest(*_rotate(_by_shard(positions), turn))) if position is not None]
        for turn, positions in enumerate(_spread(classes, number))
    ]
    rounds = (position for one_of_each in zip_longest(*turns) for position in one_of_each if position is not None)
    chosen = {position for _, position in zip(range(number), rounds, strict=False)}
    return [position for positions in classes for position in positions if position in chosen]


def _by_shard(positions: Sequence[_Position]) -> list[list[_Position]]:
    shards: dict[int, list[_Position]] = defaultdict(list)
    for position in positions:
        shards[position[0]].append(position)
    return list(shards.values())


def _rotate(items: list[Item], by: int) -> list[Item]:
    start = by % len(items)
    return items[start:] + items[:start]


def count_turned(samples: Sequence[Sample]) -> int:
    """How many of the samples are drawn turned, for EXIF says so, where the readers give their pixels as they are
    stored."""
    return sum(map(_is_turned, samples))


def _is_turned(sample: Sample) -> bool:
    try:
        return orientation(sample.image) != UPRIGHT
    except ImageError:
        return False


def contact_sheet(samples: Sequence[Sample], title: str = "") -> bytes:
    """A PNG of the samples, upright, row by row; an image that does not decode becomes an empty cell, crossed out."""
    columns = max(1, min(_MAX_COLUMNS, len(samples), math.ceil(math.sqrt(1.6 * len(samples)))))
    lines = any(sample.label for sample in samples) + any(sample.filename for sample in samples)
    width, height = _CELL + 2 * _PAD, _CELL + 2 * _PAD + lines * _LINE + (_PAD if lines else 0)
    top = _GAP + (_LINE + _GAP if title else 0)
    rows = math.ceil(len(samples) / columns)
    page = Image.new("RGB", (_GAP + columns * (width + _GAP), top + rows * (height + _GAP)), _PAGE)
    draw = ImageDraw.Draw(page)
    draw.text((_GAP + 2, _GAP), fit(title, page.width - 2 * _GAP), _INK, _font())
    for index, sample in enumerate(samples):
        row, column = divmod(index, columns)
        _draw_card(page, sample, (_GAP + column * (width + _GAP), top + row * (height + _GAP)), (width, height))
    out = io.BytesIO()
    page.save(out, "PNG")
    return out.getvalue()


def _draw_card(page: Image.Image, sample: Sample, at: tuple[int, int], size: tuple[int, int]) -> None:
    draw = ImageDraw.Draw(page)
    (left, top), (width, height) = at, size
    image = _thumbnail(sample.image)
    if image is not None:
        draw_masks(image, sample.masks, sample.image)
        draw_objects(image, sample.objects, sample.image)
        others = [small for other in sample.others if (small := _thumbnail(other)) is not None]
        image = side_by_side([image, *others], _CELL)
    draw.rectangle((left, top, left + width - 1, top + height - 1), _CARD, _FRAME if image else _BAD_FRAME)
    if image is None:
        box = (left + _PAD, top + _PAD, left + _PAD + _CELL - 1, top + _PAD + _CELL - 1)
        draw.rectangle(box, _BAD)
        draw.line(box, _BAD_CROSS, 2)
        draw.line((box[0], box[3], box[2], box[1]), _BAD_CROSS, 2)
        centre = (left + width / 2, top + _PAD + _CELL / 2)
        around = draw.textbbox(centre, "does not decode", _font(), anchor="mm")
        draw.rectangle((around[0] - 4, around[1] - 4, around[2] + 4, around[3] + 4), _BAD)
        draw.text(centre, "does not decode", _BAD_FRAME, _font(), anchor="mm")
    else:
        page.paste(image, (left + (width - image.width) // 2, top + _PAD + (_CELL - image.height) // 2))
    line = top + 2 * _PAD + _CELL
    for text, colour in ((fit(sample.label, _CELL), _INK), (fit(sample.filename, _CELL, keep_end=True), _FAINT)):
        if text:
            draw.text((left + _PAD, line), text, colour, _font())
            line += _LINE


def _thumbnail(data: bytes) -> Image.Image | None:
    """The image as it fits a cell, upright, or None if it does not decode."""
    try:
        with open_image(data) as source:
            if source.width * source.height > MAX_PIXELS:
                return None
            source.draft("RGB", (2 * _CELL, 2 * _CELL))  # a JPEG is decoded at a fraction of its size
            image = to_rgb(ImageOps.exif_transpose(source))
    except Exception:  # Pillow's readers raise what their parsing happens to raise
        return None
    longest = max(image.size)
    # Digits and icons are enlarged by whole factors, so that their pixels stay pixels.
    scale, how = (_CELL // longest, _CRISP) if 3 * longest <= _CELL else (_CELL / longest, _SMOOTH)
    return image.resize((max(round(image.width * scale), 1), max(round(image.height * scale), 1)), how)


def fit(text: str, width: int, keep_end: bool = False) -> str:
    """`text`, one readable line of it, cut with an ellipsis to `width` pixels: at its end, or at its beginning."""
    text = readable(text)
    if _font().getlength(text) <= width:
        return text
    kept = text[-width:] if keep_end else text[:width]  # every letter takes a pixel at least
    while kept and _font().getlength(f"…{kept}") > width:
        kept = kept[1:] if keep_end else kept[:-1]
    return f"…{kept}" if keep_end else f"{kept}…"


def readable(text: str) -> str:
    """`text` in the letters that Pillow's own font has, which are those of ASCII: without accents, and `?` for all
    others."""
    letters = (letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in letters)


@cache
def _font() -> ImageFont.FreeTypeFont:
    return cast(ImageFont.FreeTypeFont, ImageFont.load_default(size=12))
