"""Masks among images and next to them: --mask_pattern finds them, and without it the job stops and names the flags."""

import io
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shardmill.transforms.inputs.folders import CLASSES, SPLITS_OF_CLASSES
from shardmill.transforms.inputs.found_files import MaskPattern
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.inputs.unused_annotations import infer_mask_pattern
from shardmill.transforms.layout.files import resolve_folders
from shardmill.transforms.layout.options import FileLayoutOptions
from tests.support.command import write_files
from tests.support.image_jobs import ImageJobs
from tests.support.masks import COLOURS, encoded, picture, values

NUMBERS = (0, 3, 4, 11, 17, 25)
SPLITS = ("train", "train", "train", "train", "val", "val")
CITIES = ("aachen", "bochum")


def pairs(image: str, *masks: str, mask_format: str = "PNG") -> dict[str, bytes]:
    """Six images and their masks, whose names are templates of a number, a city and a split."""
    files = {}
    for place, number in enumerate(NUMBERS):
        words = {"n": number, "city": CITIES[place % 2], "split": SPLITS[place]}
        files[image.format(**words)] = picture(values(number))
        files |= {mask.format(**words): encoded(values(number), mask_format) for mask in masks}
    return files


_CITY = "{split}/{city}/{city}_0_{n}"
CITYSCAPES = pairs(
    f"leftImg8bit/{_CITY}_leftImg8bit.png",
    *(f"gtFine/{_CITY}_gtFine_{kind}.png" for kind in ("labelIds", "instanceIds")),
)
BESIDE = pairs("{city}/{n}.png", "{city}/{n}_mask.png")


CASES: dict[str, tuple[dict[str, bytes], str]] = {
    "Carvana": (
        pairs("train/{n:04}.png", "train_masks/{n:04}_mask.gif", mask_format="GIF"),
        "--input in/train --masks in/train_masks --mask_pattern '{stem}_mask'",
    ),
    "Cityscapes": (
        CITYSCAPES,
        "--input in/leftImg8bit --masks in/gtFine --mask_pattern '{stem}_leftImg8bit={stem}_gtFine_labelIds'",
    ),
    "same folder": (pairs("{city}/x ({n}).png", "{city}/x ({n})_mask.png"), "--input in --mask_pattern '{stem}_mask'"),
    "prefix": (pairs("{city}/{n}.png", "{city}/mask-{n}.png"), "--input in --mask_pattern 'mask-{stem}'"),
    "in splits": (
        pairs("{split}/images/{n}.png", "{split}/labels/{n}.png"),
        "--input in --mask_pattern 'images/{stem}=labels/{stem}'",
    ),
    "KITTI": (pairs("image_2/{n}.png", "semantic/{n}.png"), "--input in/image_2 --masks in/semantic"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_flags_that_the_message_names_read_the_masks(images: ImageJobs, case: str) -> None:
    files, flags = CASES[case]
    images.refuse(files, "", f"give {flags}; or")
    contents = images.make({}, flags)
    assert list(contents.splits) == (["train", "validation"] if case in ("Cityscapes", "in splits") else ["train"])
    features = [feature.name for feature in contents.dataset.manifest.features]
    assert ("mask" in features, "label" in features) == (True, case in ("same folder", "prefix"))
    assert len(contents.records) == len(NUMBERS)
    for name in contents.records:
        mask, image = (Image.open(io.BytesIO(contents.example(name)[key][0])) for key in ("mask", "image"))
        np.testing.assert_array_equal(COLOURS[np.asarray(mask)], np.asarray(image.convert("RGB")))


def test_the_folders_of_cityscapes_are_cities(images: ImageJobs) -> None:
    images.refuse(CITYSCAPES, "--input in/leftImg8bit", "--masks in/gtFine --mask_pattern", "--folders split")
    features = images.make({}, "--input in/leftImg8bit --folders split").dataset.manifest.features
    assert "label" not in [feature.name for feature in features]


@pytest.mark.parametrize(
    ("names", "stops"),
    [
        (("HR/a_{}", "LR/a_{}"), True),  # words of folders
        (("first/a_{}", "second/a_{}"), True),  # numbers that are no running ones
        (("first/{}x", "second/{}x"), True),  # no numbers
        (("ant/a_{}", "bee/b_{}"), False),
    ],
)
def test_folders_of_pairs_are_no_classes(images: ImageJobs, names: tuple[str, str], stops: bool) -> None:
    files = {f"{name.format(number)}.png": picture(values(number)) for number in NUMBERS for name in names}
    first, second = (name.partition("/")[0] for name in names)
    if stops:
        images.refuse(files, "", "named after those of", "--file_column", f"--exclude {first}", "--folders")
    images.make(files, "--folders label" if stops else "")
    assert Path("out/n/1.0.0/label.labels.txt").read_text() == f"{first}\n{second}\n"


@contextmanager
def record_opens(folder: Path) -> Iterator[list[str]]:
    """Note every file below `folder` that Python opens."""
    opened: list[str] = []
    is_on = [True]

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if is_on and event == "open" and str(arguments[0]).startswith(f"{folder}/"):
            opened.append(str(arguments[0]))

    sys.addaudithook(note)  # for the rest of the process
    try:
        yield opened
    finally:
        is_on.clear()


@pytest.mark.parametrize(
    ("folders", "names"),
    [
        (("ant", "bee"), "{}.png"),
        (("with_mask", "without_mask"), "{}.png"),  # that people wear
        (tuple("abcdefgh"), "img_{:03}.png"),
        (("train/ant", "train/bee", "test/ant", "test/bee"), "{}.png"),
    ],
)
def test_folders_of_running_numbers_are_classes_and_no_picture_is_opened(
    tmp_path: Path, folders: tuple[str, ...], names: str
) -> None:
    files = [f"{folder}/{names.format(number)}" for folder in folders for number in range(20)]
    write_files(tmp_path, dict.fromkeys(files, picture(values(1))))
    summary = InputSummary(len(files), folders=Counter(dict.fromkeys(folders, 20)), first_file=(files[0], files[0]))
    with record_opens(tmp_path) as opened:
        open(tmp_path / files[0]).close()
        roles = resolve_folders(summary, FileLayoutOptions("--input x", root=str(tmp_path), pattern=str(tmp_path)))
    assert roles == (SPLITS_OF_CLASSES if "/" in folders[0] else CLASSES)
    assert opened == [str(tmp_path / files[0])]  # by the test


def test_excluded_masks(images: ImageJobs) -> None:
    images.refuse(BESIDE, "", "--exclude '*_mask.*'")
    assert len(images.make({}, "--exclude '*_mask.*'").records) == len(NUMBERS)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--mask_pattern _mask", "'_mask': expected {stem} once"),
        ("--mask_pattern {stem}=mask", "expected {stem} once"),
        ("--mask_pattern {stem}_seg", "no image in that folder with a name that fits --mask_pattern"),
        ("--mask_pattern {stem}_x={stem}_mask", "no image has a name that fits it, for example"),
        ("--manifest in/a.csv --mask_pattern {stem}_mask", "--mask_column"),
        ("--masks in/aachen", "--mask_pattern"),
    ],
)
def test_mistakes(images: ImageJobs, flags: str, words: str) -> None:
    images.refuse(BESIDE, flags, words)


def test_a_pattern_is_sought_among_few_of_many_numbered_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two classes of files that are numbered: nearly each name holds a digit of another."""
    calls = 0
    name_mask = MaskPattern.name_mask

    def counted(pattern: MaskPattern, stem: str) -> str | None:
        nonlocal calls
        calls += 1
        return name_mask(pattern, stem)

    monkeypatch.setattr(MaskPattern, "name_mask", counted)
    images, masks = ([str(number) for number in range(first, 4_000, 2)] for first in (0, 1))
    assert infer_mask_pattern(images, masks) is None
    assert calls < 100 * len(images)
