"""A manifest's columns that say where something is in a picture, which is no longer there once the picture is resized
or turned."""

import re
from collections.abc import Mapping, Sequence

from shardmill.errors import UserError
from shardmill.transforms.columns.nested import in_words
from shardmill.transforms.columns.types import ColumnType

KINDS = ("none", "relative", "pixels")
_SIDES = (2, 4)  # numbers of a point, of a box
_NAMES = re.compile(
    r"(?i)(^|[_./"
    r" -])(b?box(es)?|bbox(es)?|bndbox|[xy](_?(min|max|center|centre|\d))?|[cwh]|c[xy]|left|top|right|bottom|polygons?|"
    r"segmentations?|keypoints?|landmarks?|corners?|points?|rects?|rois?)\d*([_./ -]|$)"
)


def check_coordinates(columns: Mapping[str, ColumnType], declared: Mapping[str, str], mode: str) -> None:
    """Refuse to change pictures where columns would go on naming places in them as they were.

    Args:
      columns: of the manifest.
      declared: what the user said of columns: `none` (no places), `relative` (fractions of width and height) or
        `pixels`.
      mode: `exact`, `cover` or `contain`, as pictures are resized; "" where they are re-encoded in their own size.

    Raises:
      UserError: a column may hold coordinates, and nothing was said of it, or it holds some that would be wrong.
    """
    for name in declared:
        if name not in columns:
            raise UserError(f"--coordinates {name}: no such column; the columns are {', '.join(columns) or 'none'}")
    unknown = [
        name for name, column in columns.items() if name not in declared and looks_like_coordinates(name, column)
    ]
    if unknown:
        what = f"--resize_mode {mode}" if mode else "--image_format, which turns photos upright by EXIF,"
        shown = ", ".join(f"{name!r}{_shape(columns[name])}" for name in unknown)
        flags = ",".join(f"{name}=…" for name in unknown)
        raise UserError(
            f"{what} changes where things are in a picture, and these columns of the manifest would not follow:"
            f" {shown}; say what they hold: --coordinates {flags}, each one of relative (fractions of width and"
            " height), pixels, or none (no places in the picture)"
        )
    untrue = {"exact": ("pixels",), "cover": ("pixels", "relative"), "contain": ("pixels", "relative")}.get(mode, ())
    wrong = [name for name, kind in declared.items() if kind in untrue]
    if wrong:
        raise UserError(
            f"--resize_mode {mode} would leave the coordinates in {', '.join(map(repr, wrong))} where they were; "
            "fractions of width and height stay true with --resize_mode exact, pixels only without --resize"
        )


def looks_like_coordinates(name: str, column: ColumnType) -> bool:
    """Whether a column holds pairs or fours of numbers, or is called what coordinates are called."""
    shape = column.shape
    if column.dtype in ("int64", "float32") and shape and shape[-1] in _SIDES:
        return True
    return column.dtype != "bool" and _NAMES.search(name) is not None


def held(declared: Mapping[str, str]) -> tuple[str, ...]:
    """The columns that do hold coordinates."""
    return tuple(name for name, kind in declared.items() if kind != "none")


def turned_reason(orientation: int, names: Sequence[str]) -> str:
    """Why an image that EXIF turns is a reject."""
    shown = ", ".join(map(repr, names))
    return (
        f"EXIF (orientation {orientation}) would turn the picture, but not the coordinates in {shown}; turn both"
        " beforehand"
    )


def _shape(column: ColumnType) -> str:
    return f" ({in_words(column.shape)})" if column.shape else ""
