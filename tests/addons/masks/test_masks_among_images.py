"""Masks among images and next to them: --mask_pattern finds them, and without it the job stops and names the flags."""

import io

import numpy as np
import pytest
from PIL import Image

from shardmill.addons import registry
from shardmill.transforms.files.image_features import deep_notices
from shardmill.transforms.inputs.folders import IMAGES
from shardmill.transforms.inputs.unused_annotations import describe_companions
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
        "--input in/leftImg8bit --masks in/gtFine --mask_pattern '{stem}_leftImg8bit={stem}_gtFine_labelIds'"
        " --folders split",
    ),
    "same folder": (pairs("{city}/x ({n}).png", "{city}/x ({n})_mask.png"), "--input in --mask_pattern '{stem}_mask'"),
    "prefix": (pairs("{city}/{n}.png", "{city}/mask-{n}.png"), "--input in --mask_pattern 'mask-{stem}'"),
    "in splits": (
        pairs("{split}/images/{n}.png", "{split}/labels/{n}.png"),
        "--input in --mask_pattern 'images/{stem}=labels/{stem}' --folders split",
    ),
    "images and masks": (
        pairs("{city}_{n}_image.png", "{city}_{n}_mask.png"),
        "--input in --mask_pattern '{stem}_image={stem}_mask'",
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


NAMES = range(9)
# Trees and a part of the message; "" if their images are examples
TREES: dict[str, tuple[list[str], str]] = {
    "numbered classes": ([f"{word}/{n}.jpg" for n in NAMES for word in ("cat", "dog")], ""),
    "numbered with a word": ([f"{word}/img{n}_x.jpg" for n in NAMES for word in ("cat", "dog", "elk")], ""),
    "bands": (
        [f"S2A_{n}/S2A_{n}_{band}.png" for n in NAMES for band in ("B01", "B12", "B8A")],
        "--file_column B01,B12,B8A in place of --input; if the folders are classes, give --folders label;",
    ),
    "masks that people wear": ([f"{word}_mask/{n}.jpg" for n in NAMES for word in ("with", "without")], ""),
    "copies": ([f"{n}{end}.jpg" for n in NAMES for end in ("", "_1", " (2)")], ""),
    "itself": (["left-left.jpg"], ""),
    "few": (["1_mask.jpg", *(f"{n}.jpg" for n in NAMES)], ""),
    "other words": ([f"{n}-seg{end}.png" for n in NAMES for end in ("", "_x")], "--exclude '*_x.*'"),
    "several": ([f"x.rf.{n}{end}.png" for n in NAMES for end in ("", "_edge", "_mask")], "'x.rf.0_mask.png' after"),
    "suffixes": ([f"{n}.{suffix}" for n in NAMES for suffix in ("jpg", "tif")], "give --exclude '*.tif'"),
    "deep": ([f"a/{kind}/x/{n}.png" for n in NAMES for kind in ("photos", "GroundTruth")], "--masks in/a/GroundTruth"),
    "other names": (
        ["images/a.png", "labels/b.png", "labels/c.png"],
        "no --mask_pattern fits their names, and an image has one",
    ),
    "more images": (
        [*(f"a/{n}{end}.png" for n in NAMES for end in ("", "_super")), *(f"gt/{n}_seg.png" for n in NAMES)],
        "--input in/a --masks in/gt --mask_pattern '{stem}_seg'",
    ),
}


@pytest.mark.parametrize("case", TREES)
def test_images_of_others_are_known_by_names_alone(case: str) -> None:
    names, words = TREES[case]
    found = describe_companions("in", names, None, IMAGES)
    assert words in found if words and found else found is None


def test_flags_of_add_ons_that_are_not_there_are_not_advised(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--mask_dtype" in deep_notices(1)[0]
    monkeypatch.setattr(registry, "ADD_ONS", ())
    problems = [describe_companions("in", names, None, IMAGES) for names, _ in TREES.values()]
    assert "--mask" not in " ".join([*deep_notices(1), *filter(None, problems)])


def test_folders_of_images_and_masks_may_be_classes(images: ImageJobs) -> None:
    files = {f"{label}/{number}.png": picture(values(number)) for number in NUMBERS for label in ("mask", "goggles")}
    images.refuse(files, "", "--masks in/mask", "--file_column goggles,mask")
    assert images.make({}, "--folders label").label_of("mask/0.png") == "mask"


def test_several_masks_an_image_are_left_out_first(images: ImageJobs) -> None:
    files = pairs("train/{n}/images/{n}.png", *(f"train/{{n}}/masks/{part}f{{n}}e.png" for part in "abc"))
    images.refuse(files, "", "to leave them out, give --exclude masks --folders any; or")
    assert len(images.make({}, "--exclude masks --folders any").records) == len(NUMBERS)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--mask_pattern _mask", "--mask_pattern _mask: expected {stem} once"),
        ("--mask_pattern {stem}=mask", "expected {stem} once"),
        ("--mask_pattern {stem}_seg", "no image in that folder with a name that fits --mask_pattern"),
        ("--mask_pattern {stem}_x={stem}_mask", "no image has such a name, for example"),
        ("--manifest in/a.csv --mask_pattern {stem}_mask", "--mask_column"),
        ("--masks in/aachen", "--mask_pattern"),
    ],
)
def test_mistakes(images: ImageJobs, flags: str, words: str) -> None:
    images.refuse(BESIDE, flags, words)
