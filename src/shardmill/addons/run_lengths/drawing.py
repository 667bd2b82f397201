"""Draw run lengths and polygons as masks, to the pixel as pycocotools does."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from PIL import Image

from shardmill.data.features import Feature
from shardmill.errors import UserError
from shardmill.text import plural
from shardmill.transforms.files.image_codec import Reencode
from shardmill.transforms.files.image_geometry import UPRIGHT, ImageError, Picture

Bools = NDArray[np.bool_]
_FINE = 5  # parts of a pixel in which the edges of polygons are drawn: maskApi.c of pycocotools, rleFrPoly


@dataclass(frozen=True, slots=True)
class DrawingCodec:
    """The codec of masks that are drawn from shapes: JSON with their `size` and pairs of a class id and a shape.

    The shape is a text of run lengths, the run lengths of COCO, or polygons. A later one is drawn over earlier ones.
    """

    files: Any  # CompanionCodec of files of masks, which stores what is drawn
    order: str = ""  # order of the pixels that texts number: `rows`, or else columns
    values: str = "classes"  # values of pixels: `classes`, `classes+1` or `instances`

    def encode(
        self, data: bytes, picture: Picture, settings: Reencode | None, max_pixels: int, decodes: bool
    ) -> tuple[bytes, str]:
        """Draw the shapes of an image, and encode them as a mask; raise an ImageError if one cannot be drawn."""
        drawing = orjson.loads(data)
        width, height = size = tuple(drawing["size"] or self._find_size(picture))
        if size not in (picture[:2], picture.upright):
            raise ImageError(f"masks of {width} x {height} pixels, where the image has {picture[0]} x {picture[1]}")
        pixels = np.zeros((height, width), np.int64)
        overlaps = False
        for number, (label, shape) in enumerate(drawing["shapes"], 1):
            inside = draw_shape(shape, width, height, self.order == "rows")
            value = number if self.values == "instances" else label + (self.values == "classes+1")
            overlaps |= bool(np.setdiff1d(pixels[inside], (0, value)).size)
            pixels[inside] = value
        if (largest := int(pixels.max())) > np.iinfo(self.files.dtype).max:
            raise ImageError(f"the value {largest} needs --mask_dtype uint16")
        out = io.BytesIO()
        Image.fromarray(pixels.astype(self.files.dtype)).save(out, "PNG")
        stored, _ = self.files.encode(out.getvalue(), picture, settings, max_pixels, decodes)
        return stored, "overlaps" if overlaps else ""

    def _find_size(self, picture: Picture) -> tuple[int, int]:
        if picture.orientation != UPRIGHT and not self.files.masks_seen:
            raise ImageError(
                f"EXIF (orientation {picture.orientation}) turns the image, and run lengths do not say whether they are"
                " of the turned one; give --masks_seen upright if they are, else stored"
            )
        return picture.upright if self.files.masks_seen == "upright" else picture[:2]

    def make_feature(self, name: str, classes: Sequence[tuple[int, str]] = ()) -> Feature:
        """Return the feature of masks whose `classes` are (id, name); raises UserError if an id is no value."""
        most, added = np.iinfo(self.files.dtype).max, self.values == "classes+1"
        named = [(number + added, text) for number, text in classes if self.values != "instances"]
        for value, text in named:
            if value < 1:
                raise UserError(
                    f"the class {text!r} has the id {value - added}, and masks have 0 where no object is; give"
                    " --mask_values classes+1"
                )
            if value > most:
                advice = "give --mask_dtype uint16" if value < 1 << 16 else "give classes smaller ids"
                raise UserError(f"the class {text!r} has the id {value - added}, and masks hold {most}; {advice}")
        return self.files.make_feature(name, named)

    def describe_conversion(self, source_kind: str, number: int) -> str:
        """Return a notice of masks with objects that overlap; "" for other masks."""
        noun = plural(number, "mask has", "masks have")
        problem = f"{noun} objects of other values that overlap; the later one covers the earlier"
        return problem if source_kind == "overlaps" else ""


def draw_shape(shape: Any, width: int, height: int, in_rows: bool = False) -> Bools:
    """Return the pixels in a shape, (height, width); raise an ImageError if it is invalid.

    Run lengths number pixels down the columns (cocodataset.org, "Data format"; the pages "Evaluation" of Kaggle), or,
    with `in_rows`, along the rows: with 3 rows and columns, `1 2 9 1` are two pixels of the first column and the last.
    """
    if isinstance(shape, list):
        pixels = np.zeros(width * height, bool)
        for polygon in shape:
            pixels |= _fill_polygon(np.array(polygon, np.float64).reshape(-1, 2), width, height)
    else:
        if isinstance(shape, str):
            counts = _read_pairs(shape, width * height)
        elif shape["size"] != [height, width]:
            raise ImageError(f"run lengths of {shape['size'][::-1]} pixels in annotations of {[width, height]}")
        else:
            counts = _decompress(shape["counts"]) if isinstance(shape["counts"], str) else shape["counts"]
        if min(counts, default=0) < 0 or sum(counts) != width * height:  # exact, for they may be of any size
            raise ImageError(
                f"run lengths that do not ascend, or end beyond the {width} x {height} pixels of the image"
            )
        pixels = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    return pixels.reshape(height, width) if in_rows else pixels.reshape(width, height).T


def _read_pairs(text: str, number: int) -> list[int]:
    """Return the lengths of runs of pixels outside and inside, by turns, from `start length …`; starts are from 1."""
    try:
        starts, lengths = np.array(text.split(), np.int64).reshape(-1, 2).T
    except (ValueError, OverflowError):
        raise ImageError(f"{text[:40]!r} is no list of pairs of a start and a length") from None
    return np.diff(np.stack((starts - 1, starts - 1 + lengths), axis=1).ravel(), prepend=0, append=number).tolist()


def _decompress(text: str) -> list[int]:
    """Return the counts in a compressed text of COCO: maskApi.c of pycocotools, rleFrString."""
    counts: list[int] = []
    value = shift = 0
    for code in text.encode():
        value |= (code - 48 & 0x1F) << shift
        shift += 5
        if not code - 48 & 0x20:
            value -= (code - 48 & 0x10) << shift - 4
            counts.append(value + (counts[-2] if len(counts) > 2 else 0))
            value = shift = 0
    return counts


def _fill_polygon(corners: NDArray[np.float64], width: int, height: int) -> Bools:
    """Return the pixels in a polygon, down the columns, (width * height,): maskApi.c of pycocotools, rleFrPoly."""
    if not (np.abs(corners) <= 10 * max(width, height)).all():  # each pixel along its lines takes memory
        raise ImageError(f"a polygon that leads far beyond the {width} x {height} pixels of the image")
    points = (_FINE * corners + 0.5).astype(np.int64)
    lines = []
    for start, end in zip(points, np.roll(points, -1, axis=0), strict=True):
        steps, axis = np.abs(end - start), int(np.abs(end - start).argmax())
        is_turned = start[axis] > end[axis]
        low, high = (end, start) if is_turned else (start, end)
        line = np.repeat(low[None], steps[axis] + 1, axis=0)
        along = np.arange(steps[axis] + 1)
        line[:, axis] += along
        slope = (high[1 - axis] - low[1 - axis]) / max(steps[axis], 1)
        line[:, 1 - axis] = (low[1 - axis] + slope * along + 0.5).astype(np.int64)
        lines.append(line[::-1] if is_turned else line)
    x, y = np.concatenate(lines).T
    crossing = np.flatnonzero(np.diff(x)) + 1
    columns = (np.minimum(x[crossing], x[crossing - 1]) + 0.5) / _FINE - 0.5
    rows = np.ceil(np.clip((np.minimum(y[crossing], y[crossing - 1]) + 0.5) / _FINE - 0.5, 0, height))
    is_edge = (np.floor(columns) == columns) & (columns >= 0) & (columns <= width - 1)
    places = (columns[is_edge] * height + rows[is_edge]).astype(np.int64)
    return np.bincount(places, minlength=width * height + 1)[:-1].cumsum() % 2 == 1
