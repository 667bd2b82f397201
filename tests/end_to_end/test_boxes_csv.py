"""--boxes_csv reads tables with one row for each box into the objects that --coco makes of the same boxes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from tests.support.command import Run, check_mistake, read_back, write_files
from tests.support.detection import Scene, draw, scenes, write_coco

DRAWN = [scene for scene in scenes(8) if scene.things]


def table(header: str, row: Callable[[Scene, Any], str], splitter: str = "\n") -> bytes:
    rows = [row(scene, thing) for scene in DRAWN for thing in scene.things]
    return splitter.join([header, *rows, ""]).encode()


def roboflow(scene: Scene, thing: Any) -> str:
    x, y, w, h = thing.box
    return f"{scene.name},{scene.size[0]},{scene.size[1]},{thing.colour},{x},{y},{x + w},{y + h}"


def open_images(scene: Scene, thing: Any) -> str:
    x, y, w, h = thing.box
    width, height = scene.size
    edges = (x / width, (x + w) / width, y / height, (y + h) / height)
    return f"{scene.name[:-4]},xclick,{thing.colour},1,{','.join(map(repr, edges))},0"


def wheat(scene: Scene, thing: Any) -> str:
    return f'{scene.name[:-4]},{scene.size[0]},{scene.size[1]},"{[float(side) for side in thing.box]}",{thing.colour}'


def kaggle(scene: Scene, thing: Any) -> str:
    return f"images\\{scene.name}; {thing.colour}; {'; '.join(map(str, thing.box))}"


def objects_of(directory: Path) -> dict[str, list[tuple[str, tuple[float, ...], float]]]:
    """Each picture's objects: class, box and area in square pixels."""
    contents = read_back(directory)
    (label,) = (item for item in contents.dataset.manifest.features if item.name == "objects/label")
    names = list(label.class_names or ())
    found = {}
    for split in contents.splits:
        for example in shardmill.examples(directory, split):
            rows = zip(*(example[f"objects/{part}"] for part in ("label", "bbox", "area")), strict=True)
            found[example["filename"].decode().rpartition("/")[2]] = sorted(
                (names[one], tuple(np.round(box, 5).tolist()), round(float(area), 2)) for one, box, area in rows
            )
    return found


CORNERS = "filename,width,height,class,xmin,ymin,xmax,ymax"


@pytest.mark.parametrize(
    ("content", "name", "notice"),
    [
        (table(CORNERS, roboflow), "_annotations.csv", ""),
        (table(CORNERS.replace(",", " , "), roboflow, "\r\n"), "labels.csv", ""),
        (
            table("ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsGroupOf", open_images),
            "validation-annotations-bbox.csv",
            "boxes are fractions of their images",
        ),
        (table("image_id,width,height,bbox,label", wheat), "train.csv", ""),
        (table("image; label; x; y; w; h", kaggle), "boxes.csv", "backslashes"),
    ],
    ids=["Roboflow", "spaces", "Open Images", "bbox", "x, y, w, h"],
)
def test_boxes_are_those_of_coco(run: Run, tmp_path: Path, content: bytes, name: str, notice: str) -> None:
    folder = write_files(tmp_path / "in", {name: content})
    for scene in DRAWN:
        draw(scene, folder / "images")
    write_coco(tmp_path / "coco", DRAWN)
    output = ("--output", tmp_path / "out", "--name")
    assert run("images", "--coco", tmp_path / "coco/instances.json", *output, "coco").status == 0
    check_mistake(run("images", "--input", folder, *output, "n"), f"give --boxes_csv {folder} in place of --input")
    for version, path in (("1.0.0", folder), ("2.0.0", folder / name)):
        result = run("images", "--boxes_csv", path, *output, "n", "--version", version)
        assert result.status == 0, result.err
        assert notice in result.out
    assert objects_of(tmp_path / "out/n") == objects_of(tmp_path / "out/coco")


def test_splits_of_folders_and_rows_without_a_box(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for split, scene in (("train", DRAWN[0]), ("valid", DRAWN[1])):
        draw(scene, folder / split)
        draw(Scene(f"empty_{split}.png"), folder / split)
        rows = [CORNERS, *(roboflow(scene, thing) for thing in scene.things), f"empty_{split}.png,64,48,,,,,"]
        write_files(folder / split, {"_annotations.csv": "\n".join(rows).encode()})
    result = run("images", "--boxes_csv", folder, "--output", tmp_path / "out", "--name", "n")
    assert result.status == 0, result.err
    contents = read_back(tmp_path / "out/n")
    assert {split: len(names) for split, names in contents.splits.items()} == {"train": 2, "validation": 2}
    found = objects_of(tmp_path / "out/n")
    assert len(found[DRAWN[0].name]) == len(DRAWN[0].things)
    assert found["empty_train.png"] == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"filename,class\n000.png,red\n", "expected the columns xmin, ymin, xmax, ymax, or bbox; it has filename"),
        (b"xmin,ymin,xmax,ymax\n1,2,3,4\n", "expected the columns filename, class (or --label_column)"),
        (b"", "expected the columns filename"),
    ],
)
def test_tables_without_the_columns(run: Run, tmp_path: Path, content: bytes, words: str) -> None:
    path = write_files(tmp_path, {"a.csv": content}) / "a.csv"
    draw(DRAWN[0], tmp_path)
    check_mistake(run("images", "--boxes_csv", path, "--output", tmp_path / "out", "--name", "n"), words)


def test_bad_rows_are_rejects(run: Run, tmp_path: Path) -> None:
    good = [roboflow(scene, thing) for scene in DRAWN for thing in scene.things]
    bad = ["x.png,64,48,red,1,2,3,4", f"{DRAWN[0].name},64,48,red,one,2,3,4", f"{DRAWN[1].name},64,48,,1,2,3,4"]
    path = write_files(tmp_path, {"a.csv": "\n".join([CORNERS, *good, *bad]).encode()}) / "a.csv"
    for scene in DRAWN:
        draw(scene, tmp_path)
    flags = ("--output", tmp_path / "out", "--name", "n", "--max_reject_fraction", "0.5")
    result = run("images", "--boxes_csv", path, *flags)
    assert result.status == 0, result.err
    reasons = {reject["reason"] for reject in read_back(tmp_path / "out/n").rejects()}
    assert any("could not convert string to float" in reason for reason in reasons)
    assert any("the row has no class" in reason for reason in reasons)
    assert "there is no such image" in reasons
