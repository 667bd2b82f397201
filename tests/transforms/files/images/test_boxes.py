"""Boxes move with their picture: held against Pillow in tests/end_to_end/test_detection.py, here against themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.transforms.files.image_geometry import (
    FAULTS,
    Box,
    ImageError,
    Picture,
    box_frame,
    clip_box,
    find_faults,
    fit_image,
    inverse_orientation,
    turn_box,
)

_EDGES = st.tuples(*[st.floats(0, 1)] * 4)
_SIDES = st.integers(1, 5_000)


def box_of(edges: tuple[float, ...]) -> Box:
    top, bottom, left, right = (*sorted(edges[:2]), *sorted(edges[2:]))
    return Box(top, left, bottom, right)


@given(_EDGES, st.integers(1, 8))
def test_what_is_turned_back_is_where_it_was(edges: tuple[float, ...], orientation: int) -> None:
    box = box_of(edges)
    moved = turn_box(box, orientation)

    assert turn_box(moved, inverse_orientation(orientation)) == pytest.approx(box, abs=1e-12)
    assert moved.top <= moved.bottom
    assert moved.left <= moved.right


@given(st.tuples(_SIDES, _SIDES), st.tuples(_SIDES, _SIDES), st.sampled_from(["exact", "cover", "contain"]))
def test_the_whole_picture_fills_the_new_one_or_lies_within(
    size: tuple[int, int], target: tuple[int, int], mode: str
) -> None:
    moved = fit_image(size, target, mode)(Box(0, 0, 1, 1))
    if mode == "exact":
        assert moved == Box(0, 0, 1, 1)
    elif mode == "cover":
        assert max(moved.top, moved.left) <= 1e-9
        assert min(moved.bottom, moved.right) >= 1 - 1e-9
    else:
        assert min(moved) >= 0
        assert max(moved) <= 1


@pytest.mark.parametrize(
    ("box", "said"),
    [
        (Box(0.1, 0.1, 0.2, 0.2), ""),
        (Box(-1, -1, 2, 2), ""),
        (Box(0.1, 0.1, 0.1, 0.2), "is empty"),
        (Box(0.3, 0.1, 0.1, 0.2), "ends before it begins"),
        (Box(1, 0.1, 1.5, 0.2), "lies outside the picture"),
        (Box(0.1, -0.5, 0.2, 0), "lies outside the picture"),
        (Box(float("nan"), 0, 1, 1), "is not of numbers"),
        (Box(0, 0, 1, float("inf")), "is not of numbers"),
    ],
)
def test_faults(box: Box, said: str) -> None:
    assert FAULTS[find_faults(box)] == said
    assert said or not clip_box(box).is_empty


def test_many_boxes_are_looked_at_at_once() -> None:
    boxes = Box(*np.array([(0.1, 0.1, 0.2, 0.2), (0.3, 0.1, 0.1, 0.2), (-1, 0.5, 2, 0.75)]).T)
    assert find_faults(boxes).tolist() == [0, FAULTS.index("ends before it begins"), 0]
    assert [edge[2] for edge in clip_box(boxes)] == [0, 0.5, 1, 0.75]
    assert turn_box(boxes, 3).area == pytest.approx(boxes.area)


@pytest.mark.parametrize(
    ("picture", "said", "seen", "frame"),
    [
        (Picture(64, 48), (64, 48), "", "stored"),
        (Picture(64, 48), None, "", "stored"),
        (Picture(64, 48, 6), (64, 48), "upright", "stored"),  # the size tells
        (Picture(64, 48, 6), (48, 64), "stored", "upright"),
        (Picture(64, 48, 3), (64, 48), "upright", "upright"),
        (Picture(64, 48, 6), None, "stored", "stored"),
        (Picture(64, 64, 6), (64, 64), "", None),
        (Picture(64, 48, 3), (64, 48), "", None),
        (Picture(64, 48), (48, 64), "stored", None),
    ],
)
def test_what_boxes_are_counted_in_is_known_or_the_image_is_refused(
    picture: Picture, said: tuple[int, int] | None, seen: str, frame: str | None
) -> None:
    if frame is None:
        with pytest.raises(ImageError):
            box_frame(picture, said, seen)
    else:
        assert box_frame(picture, said, seen) == frame
