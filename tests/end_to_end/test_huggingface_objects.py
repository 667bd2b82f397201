"""Hugging Face's `objects` in an image folder's metadata: the features that COCO's annotations make, as datasets reads
them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from tests.support.command import Run, check_mistake, read_back
from tests.support.detection import COLOURS, Scene, draw, mask_of, scenes, write_coco, write_masks
from tests.support.later import Later
from tests.support.reading import make

datasets = Later("datasets")
tfds = Later("tensorflow_datasets")
SCENES = scenes(12)
NAMES = list(COLOURS)


def ids(scene: Scene) -> list[int]:
    return [NAMES.index(thing.colour) for thing in scene.things]


def columns_of(scene: Scene, key: str = "categories") -> dict[str, Any]:
    """What Hugging Face's documentation shows: lists of one length."""
    return {"bbox": [list(map(float, thing.box)) for thing in scene.things], key: ids(scene)}


def items_of(scene: Scene) -> list[dict[str, Any]]:
    """The same as a list of objects, with names of classes."""
    return [{"bbox": list(thing.box), "label": thing.colour} for thing in scene.things]


def write_folder(folder: Path, rows: Sequence[dict[str, Any]], drawn: Sequence[Scene] = SCENES) -> Path:
    """An image folder with a metadata.jsonl."""
    for scene in drawn:
        draw(scene, folder)
    (folder / "metadata.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def rows_of(objects: Any, drawn: Sequence[Scene] = SCENES) -> list[dict[str, Any]]:
    return [{"file_name": scene.name, "text": f"about {scene.name}", "objects": objects(scene)} for scene in drawn]


def write_parquet(folder: Path, named: bool = True) -> Path:
    """An image folder with a metadata.parquet as datasets writes it."""
    for scene in SCENES:
        draw(scene, folder)
    label = datasets.ClassLabel(names=NAMES) if named else datasets.Value("int64")
    inner = {
        "bbox": datasets.List(datasets.List(datasets.Value("float32"), length=4)),
        "category": datasets.List(label),
    }
    features = datasets.Features({"file_name": datasets.Value("string"), "objects": inner})
    rows = [{"file_name": scene.name, "objects": columns_of(scene, "category")} for scene in SCENES]
    datasets.Dataset.from_list(rows, features=features).to_parquet(str(folder / "metadata.parquet"))
    return folder


def by_name(directory: Path) -> dict[str, dict[str, Any]]:
    dataset = tfds.builder_from_directory(str(directory)).as_dataset(split="train")
    return {Path(example["filename"].decode()).name: example for example in tfds.as_numpy(dataset)}


def notices(directory: Path) -> Sequence[str]:
    found: list[str] = json.loads((directory / "manifest.json").read_text())["notices"]
    return found


def test_what_datasets_reads_is_what_tfds_reads(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "in", rows_of(columns_of))
    read = datasets.load_dataset("imagefolder", data_dir=str(folder), split="train", cache_dir=str(tmp_path / "cache"))

    directory = make("images", folder, tmp_path / "out")
    found = by_name(directory)

    assert len(found) == len(read) == len(SCENES)
    for row in read:
        example = found[row["text"].removeprefix("about ")]
        width, height = row["image"].size
        boxes = np.reshape(row["objects"]["bbox"], (-1, 4))
        edges = np.stack([boxes[:, 1], boxes[:, 0], boxes[:, 1] + boxes[:, 3], boxes[:, 0] + boxes[:, 2]], 1)
        np.testing.assert_allclose(example["objects"]["bbox"], edges / [height, width, height, width], rtol=1e-6)
        assert example["objects"]["label"].tolist() == row["objects"]["categories"]
        np.testing.assert_array_equal(example["image"], row["image"])
    (said,) = [notice for notice in notices(directory) if "names" in notice and "classes" in notice]
    assert said == "classes of objects have no names but their ids, 0 to 2; --labels_file gives them names"


def plain_features(directory: Path) -> Any:
    return json.loads((directory / "features.json").read_text())["featuresDict"]["features"]["objects"]


@pytest.mark.parametrize("form", ["ids", "ids and names in a file", "names", "parquet", "parquet without names"])
def test_every_form_gives_the_objects_that_coco_gives(tmp_path: Path, form: str) -> None:
    of_coco = make("images", None, tmp_path / "coco/out", "--coco", write_coco(tmp_path / "coco", SCENES))
    (tmp_path / "labels.txt").write_text("".join(f"{name}\n" for name in NAMES))
    flags = ("--labels_file", tmp_path / "labels.txt") if "file" in form or "without" in form or form == "names" else ()
    if "parquet" in form:
        folder = write_parquet(tmp_path / "in", named=form == "parquet")
    else:
        folder = write_folder(tmp_path / "in", rows_of(columns_of if "ids" in form else items_of))

    directory = make("images", folder, tmp_path / "out", *flags)

    expected, found = by_name(of_coco), by_name(directory)
    for name, example in expected.items():
        order = np.argsort(example["objects"]["id"])
        np.testing.assert_array_equal(found[name]["objects"]["bbox"], example["objects"]["bbox"][order])
        np.testing.assert_array_equal(found[name]["objects"]["label"], example["objects"]["label"][order])
    described, wanted = plain_features(directory), plain_features(of_coco)
    inner = described["sequence"]["feature"]["featuresDict"]["features"]
    assert inner == {key: wanted["sequence"]["feature"]["featuresDict"]["features"][key] for key in ("bbox", "label")}
    names = tfds.builder_from_directory(str(directory)).info.features["objects"]["label"].names
    assert names == (["0", "1", "2"] if form == "ids" else NAMES)


def test_areas_ids_and_crowds_are_kept_and_others_said(tmp_path: Path) -> None:
    def told(scene: Scene) -> dict[str, Any]:
        count = len(scene.things)
        more = {"id": list(range(50, 50 + count)), "area": [7.5] * count, "iscrowd": [1] * count}
        return {**columns_of(scene, "category"), **more, "segmentation": [[[0, 0, 1, 1, 1, 0]]] * count}

    directory = make("images", write_folder(tmp_path / "in", rows_of(told)), tmp_path / "out")

    for example in by_name(directory).values():
        count = len(example["objects"]["label"])
        assert example["objects"]["id"].tolist() == list(range(50, 50 + count))
        assert example["objects"]["area"].tolist() == [7.5] * count
        assert example["objects"]["is_crowd"].all()
    number = sum(len(scene.things) for scene in SCENES)
    said = f"left out of annotations of objects, of which the boxes are kept: segmentation of {number}"
    assert said in notices(directory)


def test_masks_labels_and_splits_stand_beside(tmp_path: Path) -> None:
    for split, drawn in (("train", SCENES[:8]), ("test", SCENES[8:])):
        rows = [
            {**row, "label": "ab"[place % 2], "mask_file_name": f"m/{row['file_name']}"}
            for place, row in enumerate(rows_of(columns_of, drawn))
        ]
        write_masks(write_folder(tmp_path / "in" / split, rows, drawn) / "m", drawn)

    directory = make(
        "images", tmp_path / "in", tmp_path / "out", "--mask_column", "mask_file_name", "--resize", "64x64"
    )

    for split, number in (("train", 8), ("test", 4)):
        found = list(shardmill.examples(directory, split, decode_images=True))
        assert len(found) == number
        for example in found:
            scene = next(scene for scene in SCENES if scene.name in example["filename"].decode())
            assert example["mask"].shape == (64, 64, 1)
            assert set(np.unique(example["mask"])) == set(np.unique(mask_of(scene)))
            assert example["objects/label"].tolist() == ids(scene)
            assert example["label"] in (0, 1)


def test_keys_of_the_object_detection_api(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "in", rows_of(items_of))

    directory = make("images", folder, tmp_path / "out", "--feature_names", "object_detection")

    for example in shardmill.examples(directory, "train"):
        scene = next(scene for scene in SCENES if scene.name == example["image/filename"].decode())
        assert example["image/source_id"].decode() == scene.name
        texts = [text.decode() for text in example["image/object/class/text"]]
        assert texts == [thing.colour for thing in scene.things]


BAD: dict[str, tuple[Any, str]] = {
    "three numbers": ({"bbox": [[1, 2, 3]], "categories": [0]}, "object 1 has [1, 2, 3] for bbox; expected [x, y,"),
    "text": ({"bbox": [["1", 2, 3, 4]], "categories": [0]}, 'object 1 has ["1", 2, 3, 4] for bbox'),
    "lengths": ({"bbox": [[1, 2, 3, 4]], "categories": [0, 1]}, "several lengths: 1 of bbox, 2 of categories"),
    "no class": ({"bbox": [[1, 2, 3, 4]]}, "categories is null; expected a list"),
    "a name": ({"bbox": [[1, 2, 3, 4]], "categories": ["cat"]}, 'has "cat" for its class; expected an id from 0'),
    "below 0": ({"bbox": [[1, 2, 3, 4]], "categories": [-1]}, "has -1 for its class; expected an id from 0"),
    "true": ({"bbox": [[1, 2, 3, 4]], "categories": [True]}, "has true for its class; expected an id from 0"),
    "a number": (7, "7; expected an object with bbox, categories, or a list of such"),
    "empty": ({"bbox": [[1, 2, 0, 4]], "categories": [0]}, "object 1: the box from left, top to right, bottom 1, 2, 1"),
    "outside": ({"bbox": [[900, 2, 4, 4]], "categories": [0]}, "lies outside the picture"),
}


def test_bad_objects_are_rejects_with_their_reasons(run: Run, tmp_path: Path) -> None:
    drawn = [Scene(f"{number}.png") for number in range(len(BAD))]
    bad = [{"file_name": scene.name, "objects": value} for scene, (value, _) in zip(drawn, BAD.values(), strict=True)]
    folder = write_folder(tmp_path / "in", [*rows_of(columns_of), *bad], [*SCENES, *drawn])

    done = run("images", "--input", folder, "--output", tmp_path, "--name", "n", "--max_reject_fraction", 0.9)

    assert done.status == 0, done.err
    found = {reject["source"]: reject["reason"] for reject in read_back(tmp_path / "n").rejects()}
    assert len(found) == len(BAD)
    for scene, (_, reason) in zip(drawn, BAD.values(), strict=True):
        assert reason in found[scene.name]


def test_sizes_beside_objects_tell_how_boxes_lie(run: Run, tmp_path: Path) -> None:
    drawn = [Scene(scene.name, scene.size, scene.things, 6) for scene in SCENES]
    rows = [
        {**row, "width": scene.size[0], "height": scene.size[1]}
        for row, scene in zip(rows_of(columns_of, drawn), drawn, strict=True)
    ]
    rows[3]["width"] += 1
    rows[4]["height"] = 0
    folder = write_folder(tmp_path / "in", rows, drawn)

    done = run("images", "--input", folder, "--output", tmp_path, "--name", "n", "--max_reject_fraction", 0.9)

    assert done.status == 0, done.err  # without sizes, nothing says whether boxes are of the turned pictures
    made = read_back(tmp_path / "n")
    reasons = {reject["source"]: reject["reason"] for reject in made.rejects()}
    width, height = drawn[3].size
    assert reasons == {
        "003.png": f"the annotation is of {width + 1} x {height} pixels, the image has {width} x {height}",
        "004.png": f"column 'objects': the image's size is given as {drawn[4].size[0]} x 0 pixels; expected whole"
        " numbers",
    }
    for name, example in by_name(tmp_path / "n/1.0.0").items():
        (scene,) = [scene for scene in drawn if scene.name == name]
        wide, high = scene.size
        boxes = [[y, x, y + tall, x + broad] for x, y, broad, tall in (thing.box for thing in scene.things)]
        edges = np.reshape(boxes, (-1, 4)) / [high, wide, high, wide]
        np.testing.assert_allclose(example["objects"]["bbox"], edges, rtol=1e-6)
        assert (example["width"], example["height"]) == scene.size


def test_an_id_without_a_name_is_a_new_class(run: Run, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "in", rows_of(columns_of))
    (tmp_path / "two.txt").write_text("red\ngreen\n")
    where = ("--input", folder, "--labels_file", tmp_path / "two.txt", "--output", tmp_path, "--name", "n")

    check_mistake(run("images", *where), "2", "--on_new_label")
    done = run("images", *where, "--on_new_label", "reject", "--max_reject_fraction", 0.9)

    assert done.status == 0, done.err
    reasons = {reject["source"]: reject["reason"] for reject in read_back(tmp_path / "n").rejects()}
    assert reasons.keys() == {scene.name for scene in SCENES if 2 in ids(scene)}
    assert set(reasons.values()) == {"class '2' of an object is not in --labels_file"}


def test_mistakes_are_one_sentence(run: Run, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "in", rows_of(lambda scene: {"bbox": [[1, 2, 3, 4]], "kind": [1]}))
    out = ("--output", tmp_path, "--name", "n")

    said = ("'objects' has 'bbox', 'kind', and nothing says what each object is; expected 'category', 'categories'",)
    check_mistake(run("images", "--input", folder, *out), *said)
    write_folder(folder, rows_of(columns_of))
    check_mistake(run("images", "--input", folder, "--verify", "none", *out), "--verify none contradicts --manifest")
    (folder / "metadata.jsonl").write_text('{"file_name": "000.png", "objects": [1, 2]}\n')
    said = ("--on_bad_box drop is about the objects that --coco, --voc, --yolo or --annotations name",)
    check_mistake(run("images", "--input", folder, "--on_bad_box", "drop", *out), *said)


def test_numbers_called_objects_stay_a_column(tmp_path: Path) -> None:
    rows = [{"file_name": scene.name, "objects": [1, 2]} for scene in SCENES]

    directory = make("images", write_folder(tmp_path / "in", rows), tmp_path / "out")

    assert [example["objects"].tolist() for example in shardmill.examples(directory, "train")] == [[1, 2]] * 12
