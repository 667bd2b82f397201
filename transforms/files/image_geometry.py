"""Orientation and size of images, and their boxes after turning, cropping, padding and scaling."""

from functools import reduce
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

REMEDY = "--image_format jpeg or png makes one that it reads"


class ImageError(ValueError):
    """The reason to reject an image, as written to rejects/."""


class UnreadableError(ImageError):
    """An intact image that TensorFlow's decoder refuses or reads wrongly, but Pillow reads."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; {REMEDY}")


_ORIENTATION = 0x0112  # its tag
_ENDIAN: dict[bytes, Literal["little", "big"]] = {b"II": "little", b"MM": "big"}
_SHORT = 3  # the type of its value: 16 bits
UPRIGHT = 1  # the orientation of which no reader turns anything


def read_orientation(data: bytes, start: int, end: int) -> int:
    """Return the orientation, 1 to 8, in the EXIF block `data[start:end]`; 1, upright, if it has none."""
    tiff = data[start:end]  # a TIFF structure of tags (CIPA DC-008, section 4.6)
    endian = _ENDIAN.get(tiff[:2])
    if endian is None:
        return UPRIGHT
    first = int.from_bytes(tiff[4:8], endian)
    count = int.from_bytes(tiff[first : first + 2], endian)
    tag = _ORIENTATION.to_bytes(2, endian) + _SHORT.to_bytes(2, endian)
    for entry in range(first + 2, min(first + 2 + 12 * count, len(tiff) - 11), 12):
        if tiff[entry : entry + 4] == tag:
            found = int.from_bytes(tiff[entry + 8 : entry + 10], endian)
            return found if 1 <= found <= 8 else UPRIGHT
    return UPRIGHT


_SIDEWAYS = (5, 6, 7, 8)  # orientations by which width and height change places
_INVERSE = {6: 8, 8: 6}  # of quarter turns; every other orientation undoes itself


class Box(NamedTuple):
    """The edges of a box, or float64 arrays of them, as fractions of the image's sides from its upper left corner."""

    top: Any
    left: Any
    bottom: Any
    right: Any

    @property
    def area(self) -> Any:
        """Area as a fraction of the image's."""
        return (self.bottom - self.top) * (self.right - self.left)

    @property
    def is_empty(self) -> Any:
        """True if the box has no area."""
        return ~np.less(self.top, self.bottom) | ~np.less(self.left, self.right)


class Picture(NamedTuple):
    """The stored size of an image in pixels, and its EXIF orientation."""

    width: int
    height: int
    orientation: int = UPRIGHT

    @property
    def upright(self) -> tuple[int, int]:
        """Width and height after EXIF rotation."""
        return (self.height, self.width) if self.orientation in _SIDEWAYS else (self.width, self.height)


def box_frame(picture: Picture, annotated_size: tuple[int, int] | None, default_frame: str) -> str:
    """Return the orientation that boxes refer to: `stored`, or `upright` after EXIF rotation.

    Raise an ImageError if the annotation has another size, or it is ambiguous and the user gave no default.
    """
    stored = (picture.width, picture.height)
    if annotated_size is not None and annotated_size not in (stored, picture.upright):
        raise ImageError(
            f"the annotation is of {annotated_size[0]} x {annotated_size[1]} pixels, the image has {stored[0]} x"
            f" {stored[1]}"
        )
    if picture.orientation == UPRIGHT:
        return "stored"
    if annotated_size is not None and stored != picture.upright:
        return "stored" if annotated_size == stored else "upright"
    if not default_frame:
        raise ImageError(
            f"EXIF (orientation {picture.orientation}) turns the picture, and nothing says whether its boxes are of the"
            " turned one; give --boxes_seen upright if they are, else stored"
        )
    return default_frame


def turn_box(box: Box, orientation: int) -> Box:
    """Return a box of the stored image in the image rotated by EXIF (CIPA DC-008, section 4.6.5)."""
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


def inverse_orientation(orientation: int) -> int:
    """Return the EXIF orientation that turns an upright image, and its boxes, back to the stored one."""
    return _INVERSE.get(orientation, orientation)


def clip_box(box: Box) -> Box:
    """Return the part of a box inside the image; empty if no part is inside."""
    return Box(*(np.minimum(np.maximum(edge, 0.0), 1.0) for edge in box))


class Fitting(NamedTuple):
    """A resizing of an upright image: the part that is kept, and its position in the result."""

    source_box: Box = Box(0.0, 0.0, 1.0, 1.0)  # part of the old image
    target_box: Box = Box(0.0, 0.0, 1.0, 1.0)  # place in the new image

    def __call__(self, box: Box) -> Box:
        """Return a box in pixels of the resized image; it may reach over the edges of that image."""
        height, width = self.source_box.bottom - self.source_box.top, self.source_box.right - self.source_box.left
        down = (self.target_box.bottom - self.target_box.top) / height
        across = (self.target_box.right - self.target_box.left) / width
        top, bottom = (self.target_box.top + (edge - self.source_box.top) * down for edge in (box.top, box.bottom))
        left, right = (self.target_box.left + (edge - self.source_box.left) * across for edge in (box.left, box.right))
        return Box(top, left, bottom, right)


def fit_image(size: tuple[int, int], target: tuple[int, int] | None, mode: str) -> Fitting:
    """Return how the codec resizes an upright image from one (width, height) to another; `mode` is as in Reencode."""
    if target is None or mode == "exact":
        return Fitting()
    (width, height), (new_width, new_height) = size, target
    if mode == "cover":  # as PIL.ImageOps.fit crops the centre
        ratio = new_width / new_height
        kept_width, kept_height = (ratio * height, height) if width / height >= ratio else (width, width / ratio)
        left, top = (width - kept_width) / 2 / width, (height - kept_height) / 2 / height
        return Fitting(source_box=Box(top, left, 1 - top, 1 - left))
    scale = min(new_width / width, new_height / height)
    inner_width, inner_height = max(round(width * scale), 1), max(round(height * scale), 1)
    left, top = (new_width - inner_width) // 2, (new_height - inner_height) // 2
    right, bottom = left + inner_width, top + inner_height
    return Fitting(target_box=Box(top / new_height, left / new_width, bottom / new_height, right / new_width))


REACHES_OUT = "reaches out of the picture"
FAULTS = ("", "is not of numbers", "ends before it begins", "is empty", "lies outside the picture", REACHES_OUT)
# A box may reach out of its picture by a part of a side or by pixels, and by what fractions are rounded.
_SLACK, _SLACK_PIXELS, _ROUNDING = 0.01, 2.0, 1e-9


def find_faults(box: Box, sides: NDArray[np.float64]) -> NDArray[np.int8]:
    """Return the fault of each box, as an index into FAULTS; `sides` are width and height in pixels, shape (n, 2)."""
    finite = reduce(np.logical_and, map(np.isfinite, box))
    early = np.less(box.bottom, box.top) | np.less(box.right, box.left)
    empty = np.equal(box.bottom, box.top) | np.equal(box.right, box.left)
    outside = np.less_equal(box.bottom, 0) | np.less_equal(box.right, 0)
    outside |= np.greater_equal(box.top, 1) | np.greater_equal(box.left, 1)
    across, down = np.maximum(np.where(sides > 1, _SLACK_PIXELS / sides, 0), _SLACK).T + _ROUNDING
    reaching = (np.minimum(box.left, 1 - box.right) < -across) | (np.minimum(box.top, 1 - box.bottom) < -down)
    return np.select([~finite, early, empty, outside, reaching], range(1, len(FAULTS)), 0).astype(np.int8)
