"""Arrays as pictures: which can be drawn, and what becomes of their values."""

import io
import warnings

import numpy as np
import pytest
from PIL import Image

from shardmill.data.features import Feature
from shardmill.pipelines.reports.contact_sheet import draw_array, is_drawable


def feature(element: str, *shape: int) -> Feature:
    return Feature("scan", "bytes", "array", shape, element=element)


@pytest.mark.parametrize(
    ("element", "shape", "drawable"),
    [
        ("float32", (6, 5), True),
        ("uint8", (6, 5, 3), True),
        ("bool", (6, 5, 1), True),
        ("complex64", (6, 5), False),
        ("float32", (6, 5, 2), False),
        ("float32", (6,), False),
        ("float32", (), False),
        ("float32", (2, 6, 5, 3), False),
    ],
)
def test_what_can_be_drawn(element: str, shape: tuple[int, ...], drawable: bool) -> None:
    assert is_drawable(feature(element, *shape)) is drawable
    assert not is_drawable(Feature("image", "bytes", "image"))


@pytest.mark.parametrize(
    ("values", "pixels"),
    [
        (np.array([[-1.0, 0, 1]]), [0, 128, 255]),
        (np.array([[7, 7, 7]], np.int16), [0, 0, 0]),
        (np.array([[False, True, True]]), [0, 255, 255]),
        (np.array([[np.nan, 0, 1]], np.float32), [0, 0, 255]),
        (np.array([[np.nan, np.inf, -np.inf]]), [0, 0, 0]),
        (np.array([[-1.7e308, 0, 1.7e308]]), [0, 128, 255]),
    ],
)
def test_values_are_scaled(values: np.ndarray, pixels: list[int]) -> None:
    with warnings.catch_warnings(action="error"):
        png = draw_array(feature(str(values.dtype), *values.shape), values.tobytes())
    assert np.asarray(Image.open(io.BytesIO(png))).ravel().tolist() == pixels


def test_channels() -> None:
    values = np.arange(18, dtype=np.uint8).reshape(2, 3, 3)

    assert Image.open(io.BytesIO(draw_array(feature("uint8", 2, 3, 3), values.tobytes()))).mode == "RGB"
    assert Image.open(io.BytesIO(draw_array(feature("uint8", 6, 3, 1), values.tobytes()))).mode == "L"


def test_bytes_of_another_length_are_no_picture() -> None:
    assert draw_array(feature("uint8", 2, 3), b"12345") == b""
