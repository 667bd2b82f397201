"""Boxes and points in a manifest never stay behind while their picture is resized or turned: the job refuses, or they
stay true. The jobs are in tests/end_to_end/annotations/test_coordinates.py."""

import pytest

from shardmill.errors import UserError
from shardmill.pipelines.config.images import parse_coordinates
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.layout.objects import check_coordinates, looks_like_coordinates

BOXES = ColumnType("float32", -1, 3, (4,))


@pytest.mark.parametrize(
    ("name", "column", "expected"),
    [
        ("objects", BOXES, True),
        ("objects", ColumnType("int64", 4, 3), True),
        ("objects", ColumnType("int64", -1, 3, (2,)), True),
        ("objects", ColumnType("int64", 5, 3), False),
        ("objects", ColumnType("bytes", 4, 3), False),
        ("caption", ColumnType("bytes", None, 3), False),
        ("weight", ColumnType("float32", None, 3), False),
        ("age", ColumnType("int64", None, 3), False),
        ("max_price", ColumnType("float32", None, 3), False),
        ("bbox", ColumnType("bytes", None, 3), True),
        ("xmin", ColumnType("int64", None, 3), True),
        ("box_x_center", ColumnType("float32", None, 3), True),
        ("Keypoints", ColumnType("float32", -1, 3), True),
        ("x1", ColumnType("int64", None, 3), True),
    ],
)
def test_what_looks_like_coordinates(name: str, column: ColumnType, expected: bool) -> None:
    assert looks_like_coordinates(name, column) is expected


@pytest.mark.parametrize(
    ("kind", "mode"), [("none", "cover"), ("none", ""), ("relative", ""), ("relative", "exact"), ("pixels", "")]
)
def test_what_stays_true(kind: str, mode: str) -> None:
    check_coordinates({"boxes": BOXES}, {"boxes": kind}, mode)


@pytest.mark.parametrize(
    ("kind", "mode"), [("relative", "cover"), ("relative", "contain"), ("pixels", "exact"), ("pixels", "cover")]
)
def test_what_does_not(kind: str, mode: str) -> None:
    said = f"^--resize_mode {mode} would leave the coordinates in 'boxes' where they were"
    with pytest.raises(UserError, match=said):
        check_coordinates({"boxes": BOXES}, {"boxes": kind}, mode)


def test_flag() -> None:
    assert parse_coordinates("boxes=relative,a=b=none") == (("boxes", "relative"), ("a=b", "none"))
