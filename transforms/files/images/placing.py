"""Where the objects in images are once these are stored: the boxes of many images checked, turned, cropped, padded and
scaled at once. Pure."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardmill.transforms.files.images.boxes import (
    FAULTS,
    Box,
    Fitting,
    Picture,
    clipped,
    faults,
    fitting,
    frame_of,
    turned,
    turns_back,
)
from shardmill.transforms.files.images.codec import Reencode
from shardmill.transforms.files.images.errors import ImageError
from shardmill.transforms.files.images.exif import UPRIGHT
from shardmill.transforms.inputs.annotations.objects import RELATIVE, NotedObjects

_EDGE = 1e-6  # of a side: less beyond it is a matter of rounding
_AS_IT_IS = Fitting()


class Placing(NamedTuple):
    """What became of the objects in some images.

    Attributes:
      errors: why an image is refused for its objects, by its place among them; none of its objects is kept.
      kept: the places of the objects that stay, in their order.
      lengths: how many each image keeps.
      boxes: where these are.
      scales: by how much the area of each grew.
      changed: of each image the boxes that reached out of the picture (`clipped`), the objects left out, for their
        boxes are no good (`dropped`), and those that are not in what is kept of the picture (`cropped`).
    """

    errors: Mapping[int, ImageError]
    kept: NDArray[np.int64]
    lengths: NDArray[np.int64]
    boxes: Box
    scales: NDArray[np.float64]
    changed: Mapping[str, NDArray[np.int64]]


class _Way(NamedTuple):
    """How boxes of an image become those of the stored one.

    Attributes:
      unit: width and height of the picture in the unit of its boxes.
      orientation: by which they are turned.
      fit: where they are put then.
      grown: what areas are multiplied by, were all of each kept.
    """

    unit: tuple[int, int]
    orientation: int = UPRIGHT
    fit: Fitting = _AS_IT_IS
    grown: float = 1.0


def place(noted: NotedObjects, pictures: Sequence[Picture], how: Reencode | None, seen: str, drops: bool) -> Placing:
    """Where the objects are in images as these will be stored.

    Args:
      noted: them, as they are annotated.
      pictures: the images as they were found.
      how: they are re-encoded; None where they are stored as they are.
      seen: whether boxes of images that EXIF turns are of the `stored` or the `upright` picture, where the annotation's
        size does not tell; "" makes these images errors.
      drops: whether an object whose box is no good is left out; else its image is an error.
    """
    errors: dict[int, ImageError] = {}
    ways = [_Way(RELATIVE)] * len(pictures)
    for image in np.flatnonzero(noted.lengths).tolist():
        try:
            ways[image] = _way(noted.sizes[image], pictures[image], how, seen)
        except ImageError as error:
            errors[image] = error
    owners = np.repeat(np.arange(len(pictures)), noted.lengths)
    boxes = _relative(noted, np.array([way.unit for way in ways], np.float64).reshape(-1, 2)[owners])
    wrong = faults(boxes)
    if not drops:
        places = np.flatnonzero(wrong)
        for image, first in zip(*np.unique(owners[places], return_index=True), strict=True):
            size = noted.sizes[image]
            errors.setdefault(
                int(image), ImageError(_said(noted, int(places[first]), FAULTS[wrong[places[first]]], size))
            )
    inside = clipped(boxes)
    reached = np.max(np.abs(np.subtract(inside, boxes)), axis=0, initial=0) > _EDGE
    moved = _moved(inside, ways, owners)
    there = clipped(moved)
    fine, gone = wrong == 0, (wrong == 0) & there.is_empty
    refused = np.zeros(len(pictures), bool)
    refused[list(errors)] = True
    kept = np.flatnonzero(fine & ~gone & ~refused[owners])
    area = moved.area
    scales = np.array([way.grown for way in ways])[owners] * there.area / np.where(area == 0, 1.0, area)

    def counted(which: Any) -> NDArray[np.int64]:
        return np.bincount(owners[which], minlength=len(pictures))

    changed = {"clipped": counted(fine & reached), "dropped": counted(~fine), "cropped": counted(gone)}
    return Placing(errors, kept, counted(kept), Box(*(edge[kept] for edge in there)), scales[kept], changed)


def _relative(noted: NotedObjects, units: NDArray[np.float64]) -> Box:
    """Boxes whose edges are fractions; `units` are the width and height that those of each are counted in."""
    top, left, bottom, right = (noted.columns[edge].to_numpy(zero_copy_only=False) for edge in Box._fields)
    width, height = units[:, 0], units[:, 1]
    return Box(top / height, left / width, bottom / height, right / width)


def _moved(boxes: Box, ways: Sequence[_Way], owners: NDArray[np.int64]) -> Box:
    """Boxes in the stored pictures, which they may reach out of."""
    groups: dict[tuple[int, Fitting], int] = {(UPRIGHT, _AS_IT_IS): 0}
    group = np.array([groups.setdefault((way.orientation, way.fit), len(groups)) for way in ways], np.int64)
    if len(groups) == 1:
        return boxes
    moved, group = np.array(boxes), group[owners]
    for (orientation, fit), number in groups.items():
        if number and len(of_group := np.flatnonzero(group == number)):
            moved[:, of_group] = fit(turned(Box(*moved[:, of_group]), orientation))
    return Box(*moved)


@lru_cache(maxsize=4096)
def _way(size: tuple[int, int] | None, picture: Picture, how: Reencode | None, seen: str) -> _Way:
    """How boxes of an image move, by the size that its annotation says; raises ImageError where it is another's."""
    frame = frame_of(picture, None if size == RELATIVE else size, seen)
    unit = RELATIVE
    if size != RELATIVE:
        unit = picture.upright if frame == "upright" else (picture.width, picture.height)
    if how is None:
        return _Way(unit, turns_back(picture.orientation) if frame == "upright" else UPRIGHT)
    target = how.size or picture.upright
    fit = fitting(picture.upright, how.size, how.mode)
    grown = (target[0] * target[1] * fit.put.area) / (picture.width * picture.height * fit.kept.area)
    return _Way(unit, picture.orientation if frame == "stored" else UPRIGHT, fit, grown)


def _said(noted: NotedObjects, place: int, problem: str, size: tuple[int, int] | None) -> str:
    edges = ", ".join(f"{noted.columns[edge][place].as_py():g}" for edge in ("left", "top", "right", "bottom"))
    of = "" if size is None or size == RELATIVE else f" of {size[0]} x {size[1]} pixels"
    what = problem if problem != "lies outside the picture" else f"{problem}{of}"
    return f"object {noted.columns['id'][place].as_py()}: the box from left, top to right, bottom {edges} {what}"
