"""Tests of addons/run_lengths/drawing.py, against pycocotools and the encoder of Kaggle's notebooks."""

from typing import Any

import numpy as np
import pytest
from pycocotools import mask as coco_mask

from shardmill.addons.run_lengths.drawing import draw_shape
from shardmill.transforms.files.image_geometry import ImageError


def kaggle_encode(pixels: np.ndarray) -> str:
    """The run lengths of a mask, as most notebooks write them: down the columns, from 1."""
    flat = np.concatenate([[0], pixels.T.flatten(), [0]])
    runs = np.where(flat[1:] != flat[:-1])[0] + 1
    runs[1::2] -= runs[::2]
    return " ".join(map(str, runs))


def coco_counts(pixels: np.ndarray) -> list[int]:
    """The run lengths of a mask as COCO has them: outside and inside by turns."""
    changes = np.flatnonzero(np.diff(pixels.T.ravel() > 0, prepend=False))
    return [int(count) for count in np.diff([0, *changes, pixels.size])]


def polygon(kind: str, random: np.random.Generator, width: int, height: int) -> list[float]:
    corners = random.random((random.integers(3, 12), 2)) * (width, height)
    if kind == "outside":
        corners = corners * 1.6 - np.array([width, height]) * 0.3
    elif kind == "whole":
        corners = corners.round()
    elif kind == "repeated":
        corners[1] = corners[0]
    return [float(number) for number in corners.ravel()]


@pytest.mark.parametrize("kind", ["inside", "outside", "whole", "repeated"])
def test_shapes_are_drawn_as_pycocotools_draws_them(kind: str) -> None:
    random = np.random.default_rng(7)
    for _ in range(100):
        height, width = random.integers(1, 60, 2).tolist()
        polygons = [polygon(kind, random, width, height) for _ in range(random.integers(1, 3))]
        runs = coco_mask.merge(coco_mask.frPyObjects(polygons, height, width))
        expected = coco_mask.decode(runs).astype(bool)
        np.testing.assert_array_equal(draw_shape(polygons, width, height), expected)
        for each in (runs["counts"].decode(), coco_counts(expected)):
            np.testing.assert_array_equal(
                draw_shape({"size": [height, width], "counts": each}, width, height), expected
            )
        if expected.any():
            text = kaggle_encode(expected)
            np.testing.assert_array_equal(draw_shape(text, width, height), expected)
            np.testing.assert_array_equal(draw_shape(text, height, width, in_rows=True), expected.T)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("1 2 3", "'1 2 3' is no list of pairs of a start and a length"),
        ("0 2", "do not ascend, or end beyond the 4 x 3 pixels"),  # pixels are numbered from 1
        ("5 2 6 2", "do not ascend"),
        ("11 3", "end beyond the 4 x 3 pixels"),
        ({"size": [3, 4], "counts": [5, 6]}, "end beyond the 4 x 3 pixels"),
        ({"size": [3, 4], "counts": [2**62] * 4 + [12]}, "end beyond the 4 x 3 pixels"),  # 12 in 64 bits
        ({"size": [3, 4], "counts": [10**30]}, "end beyond the 4 x 3 pixels"),
        ({"size": [3, 4], "counts": "o" * 40 + "0"}, "end beyond the 4 x 3 pixels"),
        ("9223372036854775807 9223372036854775807", "do not ascend"),
        ([[0, 0, 1e9, 0, 1e9, 1e9]], "a polygon that leads far beyond the 4 x 3 pixels"),
        ([[0, 0, float("nan"), 0, 2, 2]], "a polygon that leads far beyond the 4 x 3 pixels"),
        ({"size": [4, 3], "counts": [12]}, "run lengths of [3, 4] pixels in annotations of [4, 3]"),
    ],
)
def test_shapes_that_are_none_are_errors(shape: Any, words: str) -> None:
    with pytest.raises(ImageError) as error:
        draw_shape(shape, 4, 3)
    assert words in str(error.value)
