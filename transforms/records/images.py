"""Images in the columns of rows: each is checked as a file of its own would be, and measured. Pure."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from transforms.files.images.checked import checked_image
from transforms.files.images.errors import ImageError
from transforms.options.pictures import PictureOptions
from transforms.statistics.pictures import picture_array

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
    """The images in a column of large_binary, as a file of its own each would be."""
    reasons: dict[int, str] = {}
    found: list[Any] = []
    for row, value in enumerate(column):
        data = value.as_py()
        try:
            if data is None:
                raise ImageError(NO_IMAGE)
            header = checked_image(data, options.verify, options.max_pixels)
            found.append((len(data), header))
        except ImageError as error:
            reasons[row] = str(error)
            found.append(None)
    bad = np.zeros(len(column), bool)
    bad[list(reasons)] = True
    return CheckedImages(bad, reasons, picture_array(found))
