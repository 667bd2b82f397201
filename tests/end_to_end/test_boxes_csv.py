"""--boxes_csv reads tables with one row for each box into the objects that --coco makes of the same boxes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.detection import Scene, draw, scenes, write_coco
from tests.support.jobs import Built, Jobs

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


def objects_of(made: Built) -> dict[str, list[tuple[str, tuple[float, ...], float]]]:
    """Each picture's objects: class, box and area in square pixels."""
    (label,) = (item for item in made.manifest.features if item.name == "objects/label")
    names = list(label.class_names or ())
    found = {}
    for split in made.contents.splits:
        for example in made.examples(split):
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
def test_boxes_are_those_of_coco(jobs: Jobs, tmp_path: Path, content: bytes, name: str, notice: str) -> None:
    for scene in DRAWN:
        draw(scene, tmp_path / "in/images")
    write_coco(tmp_path / "coco", DRAWN)
    coco = jobs.build("images --coco coco/instances.json --name coco")
    jobs.refuse("images", "give --boxes_csv in in place of --input", files={name: content})
    for path in ("in", f"in/{name}"):
        made = jobs.build(f"images --boxes_csv {path} --overwrite")
        assert notice in made.said
    assert objects_of(made) == objects_of(coco)


def test_splits_of_folders_and_rows_without_a_box(jobs: Jobs, tmp_path: Path) -> None:
    for split, scene in (("train", DRAWN[0]), ("valid", DRAWN[1])):
        draw(scene, tmp_path / "in" / split)
        draw(Scene(f"empty_{split}.png"), tmp_path / "in" / split)
        rows = [CORNERS, *(roboflow(scene, thing) for thing in scene.things), f"empty_{split}.png,64,48,,,,,"]
        jobs.write({f"{split}/_annotations.csv": "\n".join(rows)})
    made = jobs.build("images --boxes_csv in")
    assert {split: len(names) for split, names in made.contents.splits.items()} == {"train": 2, "validation": 2}
    found = objects_of(made)
    assert len(found[DRAWN[0].name]) == len(DRAWN[0].things)
    assert found["empty_train.png"] == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("filename,class\n000.png,red\n", "expected the columns xmin, ymin, xmax, ymax, or bbox; it has filename"),
        ("xmin,ymin,xmax,ymax\n1,2,3,4\n", "expected the columns filename, class (or --label_column)"),
        ("", "expected the columns filename"),
    ],
)
def test_tables_without_the_columns(jobs: Jobs, tmp_path: Path, content: str, words: str) -> None:
    draw(DRAWN[0], tmp_path / "in")
    jobs.refuse("images --boxes_csv in/a.csv", words, files={"a.csv": content})


def test_bad_rows_are_rejects(jobs: Jobs, tmp_path: Path) -> None:
    good = [roboflow(scene, thing) for scene in DRAWN for thing in scene.things]
    bad = ["x.png,64,48,red,1,2,3,4", f"{DRAWN[0].name},64,48,red,one,2,3,4", f"{DRAWN[1].name},64,48,,1,2,3,4"]
    for scene in DRAWN:
        draw(scene, tmp_path / "in")
    files = {"a.csv": "\n".join([CORNERS, *good, *bad])}
    rejects = jobs.build("images --boxes_csv in/a.csv --max_reject_fraction 0.5", files=files).rejects
    reasons = {reject["reason"] for reject in rejects}
    assert any("could not convert string to float" in reason for reason in reasons)
    assert any("the row has no class" in reason for reason in reasons)
    assert "there is no such image" in reasons
