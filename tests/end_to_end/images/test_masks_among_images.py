"""Masks among images and next to them: --mask_pattern finds them, and without it the job stops and names the flags."""

import io
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shardmill
from shardmill.transforms.inputs.found_files import MaskPattern
from shardmill.transforms.inputs.unused_annotations import infer_mask_pattern
from tests.support.command import Run, check_mistake, read_back, write_files
from tests.support.masks import COLOURS, encoded, picture, values

NUMBERS = (0, 3, 4, 11, 17, 25)
SPLITS = ("train", "train", "train", "train", "val", "val")
CITIES = ("aachen", "bochum")


def write(folder: Path, image: str, mask: str, mask_format: str = "PNG") -> None:
    """Write six images and their masks, whose names are templates of a number, a city and a split."""
    for place, number in enumerate(NUMBERS):
        words = {"n": number, "city": CITIES[place % 2], "split": SPLITS[place]}
        write_files(
            folder,
            {
                image.format(**words): picture(values(number)),
                mask.format(**words): encoded(values(number), mask_format),
            },
        )


def carvana(folder: Path) -> None:
    write(folder, "train/{n:04}.png", "train_masks/{n:04}_mask.gif", "GIF")


def cityscapes(folder: Path) -> None:
    name = "{split}/{city}/{city}_0_{n}"
    for kind in ("labelIds", "instanceIds"):
        write(folder, f"leftImg8bit/{name}_leftImg8bit.png", f"gtFine/{name}_gtFine_{kind}.png")


@pytest.mark.parametrize(
    ("make", "flags", "splits", "has_label"),
    [
        (carvana, "--input {0}/train --masks {0}/train_masks --mask_pattern '{{stem}}_mask'", ["train"], False),
        (
            cityscapes,
            "--input {0}/leftImg8bit --masks {0}/gtFine --mask_pattern '{{stem}}_leftImg8bit={{stem}}_gtFine_labelIds'",
            ["train", "validation"],
            False,
        ),
        (
            lambda folder: write(folder, "{city}/x ({n}).png", "{city}/x ({n})_mask.png"),
            "--input {0} --mask_pattern '{{stem}}_mask'",
            ["train"],
            True,
        ),
        (
            lambda folder: write(folder, "{city}/{n}.png", "{city}/mask-{n}.png"),
            "--input {0} --mask_pattern 'mask-{{stem}}'",
            ["train"],
            True,
        ),
        (
            lambda folder: write(folder, "{split}/images/{n}.png", "{split}/labels/{n}.png"),
            "--input {0} --mask_pattern 'images/{{stem}}=labels/{{stem}}'",
            ["train", "validation"],
            False,
        ),
        (
            lambda folder: write(folder, "image_2/{n}.png", "semantic/{n}.png"),
            "--input {0}/image_2 --masks {0}/semantic",
            ["train"],
            False,
        ),
        (
            lambda folder: write(folder, "left/{n}.png", "zones/{n}.bmp", "BMP"),
            "--input {0}/left --masks {0}/zones",
            ["train"],
            False,
        ),
    ],
    ids=["Carvana", "Cityscapes", "same folder", "prefix", "in splits", "KITTI", "gray pictures"],
)
def test_the_flags_that_the_message_names_read_the_masks(
    run: Run, tmp_path: Path, make: Callable[[Path], None], flags: str, splits: list[str], has_label: bool
) -> None:
    folder = tmp_path / "in"
    make(folder)
    output = ("--output", tmp_path / "out", "--name", "n")
    named = flags.format(folder)
    check_mistake(run("images", "--input", folder, *output), f"give {named}; or")
    result = run("images", *shlex.split(named), *output)
    assert result.status == 0, result.err
    contents = read_back(tmp_path / "out/n")
    assert list(contents.splits) == splits
    features = [feature.name for feature in contents.dataset.manifest.features]
    assert ("mask" in features, "label" in features) == (True, has_label)
    assert sum(map(len, contents.splits.values())) == len(NUMBERS)
    for split in splits:
        for example in shardmill.examples(tmp_path / "out/n", split):
            np.testing.assert_array_equal(
                COLOURS[np.asarray(Image.open(io.BytesIO(example["mask"])))], _pixels(example)
            )


def _pixels(example: dict[str, bytes]) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(example["image"])).convert("RGB"))


def test_the_folders_of_cityscapes_are_cities(run: Run, tmp_path: Path) -> None:
    cityscapes(tmp_path)
    output = ("--output", tmp_path / "out", "--name", "n")
    pictures = ("images", "--input", tmp_path / "leftImg8bit")
    check_mistake(run(*pictures, *output), f"--masks {tmp_path}/gtFine --mask_pattern", "--folders split")
    assert run(*pictures, "--folders", "split", *output).status == 0
    features = read_back(tmp_path / "out/n").dataset.manifest.features
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
def test_folders_of_pairs_are_no_classes(run: Run, tmp_path: Path, names: tuple[str, str], stops: bool) -> None:
    for number in NUMBERS:
        files = {f"{name.format(number)}.png": picture(values(number)) for name in names}
        write_files(tmp_path / "in", files)
    command = ("images", "--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "n")
    first, second = (name.partition("/")[0] for name in names)
    if stops:
        result = run(*command)
        check_mistake(result, "named after those of", "--file_column", f"--exclude {first}", "--folders")
        assert run(*command, "--folders", "label").status == 0
    else:
        assert run(*command).status == 0
        assert (tmp_path / "out/n/1.0.0/label.labels.txt").read_text() == f"{first}\n{second}\n"


@pytest.mark.parametrize("size", [(16, 12), None], ids=["one size", "many sizes"])
def test_running_numbers_of_two_classes_are_no_pairs(run: Run, tmp_path: Path, size: tuple[int, int] | None) -> None:
    for number in range(6):
        ant, bee = (picture(values(number, size or (16 + 5 * number * turn, 12 + number))) for turn in (0, 1))
        write_files(tmp_path / "in", {f"ant/{number}.png": ant, f"bee/{number}.png": bee})
    result = run("images", "--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "n")
    assert result.status == 0, result.err


def test_excluded_masks(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "in", "{city}/{n}.png", "{city}/{n}_mask.png")
    command = ("images", "--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "n")
    result = run(*command)
    check_mistake(result, "--exclude '*_mask.*'")
    assert run(*command, "--exclude", "*_mask.*").status == 0
    assert len(read_back(tmp_path / "out/n").records) == len(NUMBERS)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--input", "in", "--mask_pattern", "_mask"), "'_mask': expected {stem} once"),
        (("--input", "in", "--mask_pattern", "{stem}=mask"), "expected {stem} once"),
        (
            ("--input", "in", "--mask_pattern", "{stem}_seg"),
            "no image in that folder with a name that fits --mask_pattern",
        ),
        (("--input", "in", "--mask_pattern", "{stem}_x={stem}_mask"), "no image has a name that fits it, for example"),
        (("--manifest", "in/a.csv", "--mask_pattern", "{stem}_mask"), "--mask_column"),
        (("--input", "in", "--masks", "in/aachen"), "--mask_pattern"),
    ],
)
def test_mistakes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in", "{city}/{n}.png", "{city}/{n}_mask.png")
    check_mistake(run("images", *flags, "--output", "out", "--name", "n"), words)


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
