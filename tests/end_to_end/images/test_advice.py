"""Following the advice of a notice or a reject about files works: the sentence is gone, and the values are right."""

import io
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from tests.support.jobs import Built, Files, Jobs
from tests.support.sounds import wav


def _pixels(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 255, (12, 16, 3), np.uint8)


def _images(suffix: str, image_format: str, classes: Iterable[str] = "ab", **options: Any) -> dict[str, bytes]:
    files = {}
    for number in range(8):
        stream = io.BytesIO()
        Image.fromarray(_pixels(number)).save(stream, image_format, **options)
        files[f"{list(classes)[number % 2]}/{number}.{suffix}"] = stream.getvalue()
    return files


def _turned() -> dict[str, bytes]:
    exif = Image.Exif()
    exif[0x0112] = 6  # the tag Orientation: the left side of what is stored is the top
    return _images("jpg", "JPEG", exif=exif)


def _have_pixels(built: Built) -> None:
    for example in built.examples(decode_images=True):
        number = int(example["filename"].decode().partition("/")[2].partition(".")[0])
        np.testing.assert_array_equal(example["image"], _pixels(number))


def _are_upright(built: Built) -> None:
    assert {example["image"].shape for example in built.examples(decode_images=True)} == {(16, 12, 3)}


def _are_in_one_split(built: Built) -> None:
    assert sorted(built.splits.values()) == [0, 8]


def _follow_the_file(built: Built) -> None:
    assert {example["filename"][:2].strip(b"/"): example["label"] for example in built.examples()} == {
        b"2": 0,
        b"10": 1,
    }


class Case(NamedTuple):
    """A command and its files, words of a notice or reject, the flags in it, and a check of the data that they make."""

    line: str
    files: Files
    sentence: str
    flags: str
    check: Callable[[Built], None]


NAMES = {"../names.txt": b"2\n10\n"}
COPIES = {f"{label}/{number}.wav": wav(number=1) for label in "ab" for number in range(4)}
CASES = [
    Case("images", _turned(), "an EXIF orientation", "--image_format jpeg", _are_upright),
    Case(
        "images", _images("tif", "TIFF"), "a TIFF, which TensorFlow does not decode", "--image_format png", _have_pixels
    ),
    Case("images", _images("webp", "WEBP", lossless=True), "TFDS cannot decode", "--image_format png", _have_pixels),
    Case("images --max_pixels 99", _images("png", "PNG"), "a decompression bomb?", "--max_pixels 192", _have_pixels),
    Case(
        "images", _images("png", "PNG", ("2", "10")) | NAMES, "ids follow", "--labels_file names.txt", _follow_the_file
    ),
    Case("audio --splits train=0.5,test=0.5", COPIES, "equal content in", "--group_by content", _are_in_one_split),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
def test_following_the_advice_works(jobs: Jobs, case: Case) -> None:
    result = jobs.run(f"{case.line} --name before", files=case.files)
    said = next(line for line in (result.out + result.err).splitlines() if case.sentence in line)
    (flag,) = re.findall("^--[a-z_]+", case.flags)
    assert flag in said

    built = jobs.build(f"{case.line.replace(' --max_pixels 99', '')} {case.flags}")
    assert case.sentence not in built.said, built.said
    case.check(built)
