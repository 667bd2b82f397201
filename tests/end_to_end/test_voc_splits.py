"""The splits of Pascal VOC's folders: lists by any of the usual names, or folders; what is neither is said."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.command import Run
from tests.support.detection import Scene, draw, scenes, voc_of, write_voc

SCENES = scenes(12)
HALVES: dict[str, Sequence[Scene]] = {"train": SCENES[:8], "test": SCENES[8:]}


def splits_of(directory: Path) -> dict[str, int]:
    splits = json.loads((directory / "n/1.0.0/stats.json").read_text())["splits"]
    return {split: found["examples"] for split, found in splits.items()}


def lists_as(folder: Path, names: Mapping[str, str]) -> Path:
    """A VOC folder whose lists `train` and `test` are called otherwise."""
    write_voc(folder, HALVES)
    for name, other in names.items():
        (folder / f"ImageSets/Main/{name}.txt").rename(folder / f"ImageSets/Main/{other}.txt")
    return folder


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        ({"test": "valid"}, {"train": 8, "validation": 4}),
        ({"train": "training", "test": "validation"}, {"train": 8, "validation": 4}),
        ({"train": "Train", "test": "VAL"}, {"train": 8, "validation": 4}),
        ({"train": "trainval"}, {"trainval": 8, "test": 4}),
    ],
)
def test_lists_by_the_usual_names_are_splits(
    names: dict[str, str], wanted: dict[str, int], tmp_path: Path, run: Run
) -> None:
    voc = lists_as(tmp_path / "voc", names)

    assert run("images", "--voc", voc, "--output", tmp_path, "--name", "n").status == 0
    assert splits_of(tmp_path) == wanted


def test_lists_that_are_no_splits_are_said(tmp_path: Path, run: Run) -> None:
    voc = lists_as(tmp_path / "voc", {"train": "first", "test": "second"})
    (voc / "ImageSets/Main/red_train.txt").write_text("000 1\n")

    done = run("images", "--voc", voc, "--output", tmp_path, "--name", "n")

    assert done.status == 0
    assert splits_of(tmp_path) == {"train": 12}
    assert (
        "NOTE: lists in ImageSets/Main are no splits by their names, such as train, val or test: 'first' and 1 more;"
        " all images are of one split" in done.out
    )


def test_lists_beside_splits_are_said_but_for_those_of_classes(tmp_path: Path, run: Run) -> None:
    voc = write_voc(tmp_path / "voc", HALVES)
    (voc / "ImageSets/Main/red_train.txt").write_text("000 1\n")
    (voc / "ImageSets/Main/trainval.txt").write_text("000\n")
    usual = run("images", "--voc", voc, "--output", tmp_path / "a", "--name", "n")
    (voc / "ImageSets/Main/minival.txt").write_text("000\n")
    odd = run("images", "--voc", voc, "--output", tmp_path / "b", "--name", "n")

    assert "lists in" not in usual.out
    assert "'minival'; they are left out" in odd.out
    assert splits_of(tmp_path / "b") == {"train": 8, "test": 4}


def test_lists_that_are_left_aside_are_said(tmp_path: Path, run: Run) -> None:
    voc = write_voc(tmp_path / "voc", HALVES)

    done = run("images", "--voc", voc, "--splits", "train=1", "--output", tmp_path, "--name", "n")

    assert splits_of(tmp_path) == {"train": 12}
    assert "the lists in ImageSets/Main are left aside, for --splits says the splits" in done.out


@pytest.mark.parametrize("above", ["", "Annotations/"])
def test_folders_are_splits_where_each_is_called_so(above: str, tmp_path: Path, run: Run) -> None:
    """As Roboflow exports it: annotations and images of a split in a folder; other tools keep annotations apart."""
    voc = tmp_path / "voc"
    for split, drawn in {"train": SCENES[:6], "valid": SCENES[6:9], "test": SCENES[9:]}.items():
        for scene in drawn:
            draw(scene, voc / ("JPEGImages" if above else "") / split)
            path = voc / above / split / f"{Path(scene.name).stem}.xml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(voc_of(scene))
    done = run("images", "--voc", voc, "--output", tmp_path / "a", "--name", "n")
    one = run("images", "--voc", voc, "--splits", "train=1", "--output", tmp_path / "b", "--name", "n")
    (voc / above / "more").mkdir()
    (voc / above / "train" / f"{Path(SCENES[0].name).stem}.xml").rename(voc / above / "more/000.xml")
    mixed = run("images", "--voc", voc, "--output", tmp_path / "c", "--name", "n")

    assert (done.status, one.status, mixed.status) == (0, 0, 0), mixed.err
    assert splits_of(tmp_path / "a") == {"train": 6, "validation": 3, "test": 3}
    assert splits_of(tmp_path / "b") == {"train": 12}
    assert splits_of(tmp_path / "c") == {"train": 12}
    assert f"annotations lie in folders called as splits, such as {above}t" in mixed.out
    assert f"and {above}more/000.xml not: all images are of one split" in mixed.out
