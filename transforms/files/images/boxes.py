"""Where boxes are once a picture was turned, cropped, padded or scaled. Pure.

An edge is a fraction of the picture's height or width, from its upper left corner. A Box may be that of one thing,
or of many: its edges are then arrays, and so is what becomes of them.
"""

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardmill.transforms.files.images.errors import ImageError
from shardmill.transforms.files.images.exif import UPRIGHT

_SIDEWAYS = (5, 6, 7, 8)  # orientations by which width and height change places
_INVERSE = {6: 8, 8: 6}  # of quarter turns; every other orientation undoes itself
FRAMES = ("", "stored", "upright")


class Box(NamedTuple):
    """The edges of a box: numbers, or of many boxes arrays of float64."""

    top: Any
    left: Any
    bottom: Any
    right: Any

    @property
    def area(self) -> Any:
        """Of the picture's."""
        return (self.bottom - self.top) * (self.right - self.left)

    @property
    def is_empty(self) -> Any:
        """Whether there is nothing in it."""
        return ~np.less(self.top, self.bottom) | ~np.less(self.left, self.right)


class Picture(NamedTuple):
    """The pixels of an image as they are stored, and how EXIF says that they lie."""

    width: int
    height: int
    orientation: int = UPRIGHT

    @property
    def upright(self) -> tuple[int, int]:
        """Width and height once it is turned."""
        return (self.height, self.width) if self.orientation in _SIDEWAYS else (self.width, self.height)


def frame_of(picture: Picture, said: tuple[int, int] | None, seen: str) -> str:
    """Whether boxes are counted in the picture as it is `stored`, or `upright` as EXIF says to turn it.

    Args:
      picture: the image.
      said: the size that the annotation says it has; None where it does not.
      seen: what the user said of all images that are turned; "" for nothing.

    Raises:
      ImageError: it cannot be known, or the image has another size.
    """
    stored = (picture.width, picture.height)
    if said is not None and said not in (stored, picture.upright):
        raise ImageError(f"the annotation is of {said[0]} x {said[1]} pixels, the image has {stored[0]} x {stored[1]}")
    if picture.orientation == UPRIGHT:
        return "stored"
    if said is not None and stored != picture.upright:
        return "stored" if said == stored else "upright"
    if not seen:
        raise ImageError(
            f"EXIF (orientation {picture.orientation}) turns the picture, and nothing says whether its boxes are of the"
            " turned one; give --boxes_seen upright if they are, else stored"
        )
    return seen


def turned(box: Box, orientation: int) -> Box:
    """A box of a stored picture, once that is turned as EXIF says (CIPA DC-008, section 4.6.5)."""
    top, left, bottom, right = box
    if orientation == 2:  # mirrored, left for right
        return Box(top, 1 - right, bottom, 1 - left)
    if orientation == 3:  # upside down
        return Box(1 - bottom, 1 - right, 1 - top, 1 - left)
    if orientation == 4:  # mirrored, top for bottom
        return Box(1 - bottom, left, 1 - top, right)
    if orientation == 5:  # rows are columns
        return Box(left, top, right, bottom)
    if orientation == 6:  # a quarter to the right makes it upright
        return Box(left, 1 - bottom, right, 1 - top)
    if orientation == 7:  # both mirrored, rows are columns
        return Box(1 - right, 1 - bottom, 1 - left, 1 - top)
    if orientation == 8:  # a quarter to the left makes it upright
        return Box(1 - right, top, 1 - left, bottom)
    return box


def turns_back(orientation: int) -> int:
    """The orientation by which `turned` undoes what it does by another: boxes of an upright picture are then in the
    stored one."""
    return _INVERSE.get(orientation, orientation)


def clipped(box: Box) -> Box:
    """What of a box is in the picture: empty where nothing is."""
    return Box(*(np.minimum(np.maximum(edge, 0.0), 1.0) for edge in box))


class Fitting(NamedTuple):
    """How an upright picture becomes one of another size: what is kept of it, and where that is put.

    Attributes:
      kept: of the picture.
      put: in the new one.
    """

    kept: Box = Box(0.0, 0.0, 1.0, 1.0)
    put: Box = Box(0.0, 0.0, 1.0, 1.0)

    def __call__(self, box: Box) -> Box:
        """Where a box is in the new picture, which it may reach out of."""
        height, width = self.kept.bottom - self.kept.top, self.kept.right - self.kept.left
        down, across = (self.put.bottom - self.put.top) / height, (self.put.right - self.put.left) / width
        top, bottom = (self.put.top + (edge - self.kept.top) * down for edge in (box.top, box.bottom))
        left, right = (self.put.left + (edge - self.kept.left) * across for edge in (box.left, box.right))
        return Box(top, left, bottom, right)


def fitting(size: tuple[int, int], target: tuple[int, int] | None, mode: str) -> Fitting:
    """How shardmill.transforms.files.images.codec resizes a picture.

    Args:
      size: width and height of the upright picture.
      target: of the new one; None for the same.
      mode: see Reencode.
    """
    if target is None or mode == "exact":
        return Fitting()
    (width, height), (new_width, new_height) = size, target
    if mode == "cover":  # as PIL.ImageOps.fit crops the centre
        ratio = new_width / new_height
        kept_width, kept_height = (ratio * height, height) if width / height >= ratio else (width, width / ratio)
        left, top = (width - kept_width) / 2 / width, (height - kept_height) / 2 / height
        return Fitting(kept=Box(top, left, 1 - top, 1 - left))
    scale = min(new_width / width, new_height / height)
    inner_width, inner_height = max(round(width * scale), 1), max(round(height * scale), 1)
    left, top = (new_width - inner_width) // 2, (new_height - inner_height) // 2
    return Fitting(
        put=Box(
            top / new_height,
            left / new_width,
            (top + inner_height) / new_height,
            (left + inner_width) / new_width,
        )
    )


FAULTS = ("", "is not of numbers", "ends before it begins", "is empty", "lies outside the picture")


def faults(box: Box) -> NDArray[np.int8]:
    """What is wrong with boxes, wherever they are: for each its place in FAULTS, 0 if nothing is."""
    finite = reduce(np.logical_and, map(np.isfinite, box))
    early = np.less(box.bottom, box.top) | np.less(box.right, box.left)
    empty = np.equal(box.bottom, box.top) | np.equal(box.right, box.left)
    outside = np.less_equal(box.bottom, 0) | np.less_equal(box.right, 0)
    outside |= np.greater_equal(box.top, 1) | np.greater_equal(box.left, 1)
    return np.select([~finite, early, empty, outside], range(1, len(FAULTS)), 0).astype(np.int8)
