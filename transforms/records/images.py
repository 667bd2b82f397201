"""Images in the columns of rows: each is checked as a file of its own would be, and measured. Pure."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardmill.transforms.columns.buffers import data_of, offsets_of
from shardmill.transforms.files.images.checked import checked_image
from shardmill.transforms.files.images.errors import ImageError
from shardmill.transforms.files.images.exif import UPRIGHT
from shardmill.transforms.files.images.jpeg import plain_sizes
from shardmill.transforms.options.pictures import PictureOptions
from shardmill.transforms.statistics.pictures import picture_array

NO_IMAGE = "no image"


def pictures_column(name: str) -> str:
    """How what is known of the images in column `name` is called in a batch, beside the column itself."""
    return f"\0pictures:{name}"


@dataclass(frozen=True, slots=True, eq=False)
class CheckedImages:
    """The images of some rows.

    Attributes:
      bad: the rows whose image is refused, or missing: bool, shape (rows,).
      reasons: why, of each of these.
      pictures: what is known of each, null where it is bad.
    """

    bad: npt.NDArray[np.bool_]
    reasons: dict[int, str]
    pictures: pa.Array


def check_images(column: pa.Array, options: PictureOptions) -> CheckedImages:
    """The images in a column of large_binary, as a file of its own each would be: plain JPEGs, as most are, at once."""
    rows, offsets = len(column), offsets_of(column)
    pixels = np.zeros((rows, 2), np.int64)
    if options.verify != "decode":
        pixels = plain_sizes(data_of(column), offsets[:-1], offsets[1:])
        pixels[pixels.prod(1) > options.max_pixels] = 0
    sizes, formats, orientations = np.diff(offsets), ["jpeg"] * rows, np.full(rows, UPRIGHT, np.int8)
    reasons: dict[int, str] = {}
    for row in np.flatnonzero(~pixels.all(1)).tolist():
        data = column[row].as_py()
        try:
            if data is None:
                raise ImageError(NO_IMAGE)
            header = checked_image(data, options.verify, options.max_pixels)
            pixels[row], formats[row], orientations[row] = (
                (header.width, header.height),
                header.format,
                header.orientation,
            )
        except ImageError as error:
            reasons[row] = str(error)
    bad = np.zeros(rows, bool)
    bad[list(reasons)] = True
    pictures = picture_array(sizes, pixels[:, 0], pixels[:, 1], formats, orientations, bad)
    return CheckedImages(bad, reasons, pictures)
