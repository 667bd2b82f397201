"""Images with `objects` inside of Parquet, as data sets on Hugging Face's hub have them: the features that image files
with the same objects get."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shardmill
from tests.support.command import Run, check_mistake
from tests.support.detection import Scene, draw
from tests.support.later import Later
from tests.support.objects_in_tables import (
    MOST,
    NAMES,
    SCENES,
    classes_of,
    feature_of,
    features,
    ids,
    notices,
    rejects,
    said_of,
    write_parquet,
    write_raw,
)
from tests.support.reading import make

datasets = Later("datasets")
tfds = Later("tensorflow_datasets")
FORMS = ("lists", "list of objects", "names", "ids")


def write_folder(folder: Path) -> Path:
    """The same as image files and JSON lines."""
    for scene in SCENES:
        draw(scene, folder)
    rows = [{"file_name": scene.name, "name": scene.name, "objects": said_of(scene)} for scene in SCENES]
    (folder / "metadata.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def by_name(directory: Path) -> dict[str, dict[str, Any]]:
    dataset = tfds.builder_from_directory(str(directory)).as_dataset(split="train")
    return {example["name"].decode(): example for example in tfds.as_numpy(dataset)}


def objects_entry(directory: Path) -> Any:
    return json.loads((directory / "features.json").read_text())["featuresDict"]["features"]["objects"]


@pytest.mark.parametrize("form", FORMS)
def test_they_are_the_objects_of_image_files(tmp_path: Path, form: str) -> None:
    (tmp_path / "names.txt").write_text("".join(f"{name}\n" for name in NAMES))
    flags = () if form in ("lists", "list of objects") else ("--labels_file", tmp_path / "names.txt")
    folder = write_folder(tmp_path / "files")
    of_files = make("images", folder, tmp_path / "a", "--labels_file", tmp_path / "names.txt")

    directory = make("parquet", write_parquet(tmp_path / "rows.parquet", form), tmp_path / "b", *flags)

    expected, found = by_name(of_files), by_name(directory)
    assert found.keys() == expected.keys() == {scene.name for scene in SCENES}
    for name, example in expected.items():
        for member in ("bbox", "label", "area", "id"):
            np.testing.assert_array_equal(found[name]["objects"][member], example["objects"][member])
        np.testing.assert_array_equal(found[name]["image"], example["image"])
    assert objects_entry(directory) == objects_entry(of_files)
    assert tfds.builder_from_directory(str(directory)).info.features["objects"]["label"].names == NAMES


def test_ids_without_names_are_called_by_their_numbers(tmp_path: Path) -> None:
    directory = make("parquet", write_parquet(tmp_path / "rows.parquet", "ids"), tmp_path / "out")

    assert "classes of objects have no names but their ids, 0 to 2; --labels_file gives them names" in notices(
        directory
    )
    assert feature_of(directory, "label").class_names == ("0", "1", "2")


def test_names_are_sorted(tmp_path: Path) -> None:
    directory = make("parquet", write_parquet(tmp_path / "rows.parquet", "names"), tmp_path / "out")

    assert feature_of(directory, "label").class_names == tuple(sorted(NAMES))
    for name, example in by_name(directory).items():
        (scene,) = [scene for scene in SCENES if scene.name == name]
        assert [sorted(NAMES)[index] for index in example["objects"]["label"]] == classes_of(scene)


def test_statistics_count_classes_and_load_gives_boxes(tmp_path: Path) -> None:
    directory = make("parquet", write_parquet(tmp_path / "rows.parquet"), tmp_path / "out")

    found = json.loads((directory / "stats.json").read_text())["splits"]["train"]["features"]
    all_ids = [index for scene in SCENES for index in ids(scene)]
    assert found["objects/label"]["classes"] == {name: all_ids.count(NAMES.index(name)) for name in NAMES}
    loaded = list(shardmill.load(directory, "train", batch_size=None))
    assert sum(example["objects/bbox"].shape[0] for example in loaded) == len(all_ids)


def told_of(directory: Path) -> dict[str, Any]:
    """What is said of a build, but where it lies."""
    return {name: (directory / name).read_bytes() for name in ("schema.pbtxt", "features.json")}


def test_a_schema_gives_the_same(tmp_path: Path) -> None:
    rows = write_parquet(tmp_path / "rows.parquet")
    one = make("parquet", rows, tmp_path / "one")

    other = make("parquet", rows, tmp_path / "other", "--schema", one / "schema.pbtxt")

    assert told_of(one) == told_of(other)
    assert [path.read_bytes() for path in sorted(one.glob("*.tfrecord*"))] == [
        path.read_bytes() for path in sorted(other.glob("*.tfrecord*"))
    ]


def test_a_schema_leaves_out_what_it_has_not_and_asks_for_what_it_has(run: Run, tmp_path: Path) -> None:
    rows = write_parquet(tmp_path / "rows.parquet")
    schema = (make("parquet", rows, tmp_path / "one") / "schema.pbtxt").read_text()
    parts = schema.split("feature {")
    (tmp_path / "less.pbtxt").write_text("feature {".join(part for part in parts if '"objects/area"' not in part))
    (tmp_path / "more.pbtxt").write_text(schema.replace("objects/area", "objects/is_crowd"))

    directory = make("parquet", rows, tmp_path / "less", "--schema", tmp_path / "less.pbtxt")

    assert all("area" not in example["objects"] for example in by_name(directory).values())
    where = ("--input", rows, "--output", tmp_path, "--name", "n")
    said: tuple[str, ...] = (
        "--schema wants objects/is_crowd of each object, which",
        "lacks; it has bbox, category, area, id",
    )
    check_mistake(run("parquet", *where, "--schema", tmp_path / "more.pbtxt"), *said)
    pq.write_table(pq.read_table(rows).drop_columns(["objects"]), tmp_path / "none.parquet")
    where = ("--input", tmp_path / "none.parquet", "--output", tmp_path, "--name", "n")
    said = ("--schema has objects in images, and", "has no column 'objects'", "--drop objects")
    check_mistake(run("parquet", *where, "--schema", tmp_path / "less.pbtxt"), *said)


@pytest.mark.parametrize("schema", [False, True])
def test_drop_leaves_them_out(tmp_path: Path, schema: bool) -> None:
    rows = write_parquet(tmp_path / "rows.parquet")
    flags = ("--schema", make("parquet", rows, tmp_path / "one") / "schema.pbtxt") if schema else ()

    directory = make("parquet", rows, tmp_path / "out", "--drop", "objects", *flags)

    assert {feature.name for feature in features(directory)} == {"image", "name"}


def test_pictures_that_exif_turns(run: Run, tmp_path: Path) -> None:
    value = {"bbox": [[16.0, 12.0, 16.0, 12.0]], "category": [0]}
    rows = write_raw(tmp_path / "rows.parquet", [value], orientation=6)

    assert (
        "EXIF (orientation 6) turns the picture"
        in run("parquet", "--input", rows, "--output", tmp_path, "--name", "n").err
    )
    stored = make("parquet", rows, tmp_path / "a", "--boxes_seen", "stored")
    upright = make("parquet", rows, tmp_path / "b", "--boxes_seen", "upright")
    by_size = make("parquet", write_raw(rows, [value], 6, width=[48], height=[64]), tmp_path / "c")

    boxes = []
    for directory in (stored, upright, by_size):
        (example,) = shardmill.examples(directory, "train")
        boxes.append(np.ravel(example["objects/bbox"]))
    np.testing.assert_allclose(boxes[0], [12 / 48, 16 / 64, 24 / 48, 32 / 64], rtol=1e-6)
    # Upright it is 48 wide and 64 high, and what is stored is that turned to the left
    np.testing.assert_allclose(boxes[1], [1 - 32 / 48, 12 / 64, 1 - 16 / 48, 24 / 64], rtol=1e-6)
    np.testing.assert_array_equal(boxes[2], boxes[1])


def test_what_no_example_holds_is_said(tmp_path: Path) -> None:
    item = {"bbox": [1.0, 2.0, 3.0, 4.0], "label": "a", "segmentation": [[0.0, 1.0]]}
    draw(Scene("0.png"), tmp_path)
    row = {"image": {"bytes": (tmp_path / "0.png").read_bytes(), "path": None}, "objects": [item, item]}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "rows.parquet")

    directory = make("parquet", tmp_path / "rows.parquet", tmp_path / "out", "--image", "image")

    assert "left out of annotations of objects, of which the boxes are kept: segmentation of 2" in notices(directory)


def test_new_classes_and_kept_ids(run: Run, tmp_path: Path) -> None:
    rows = write_parquet(tmp_path / "rows.parquet")
    (tmp_path / "two.txt").write_text("green\nred\n")
    flags = ("--labels_file", tmp_path / "two.txt", "--on_new_label")
    where = ("--input", rows, "--output", tmp_path, "--name", "n")

    check_mistake(run("parquet", *where, *flags[:2]), "class 'blue' is in the input but not in --labels_file")
    appended = make("parquet", rows, tmp_path / "a", *flags, "append")
    done = run("parquet", *where, *flags, "reject", *MOST)

    names = feature_of(appended, "label").class_names
    assert names == ("green", "red", "blue")
    for name, example in by_name(appended).items():
        (scene,) = [scene for scene in SCENES if scene.name == name]
        assert [names[index] for index in example["objects"]["label"]] == classes_of(scene)
    assert done.status == 0, done.err
    reasons = rejects(tmp_path / "n/1.0.0")
    assert set(reasons.values()) == {"class 'blue' of an object is not in --labels_file"}
    assert len(reasons) == sum(2 in ids(scene) for scene in SCENES)


def test_a_label_stands_beside(tmp_path: Path) -> None:
    weather = ["sun" if place % 2 else "rain" for place in range(len(SCENES))]
    rows = write_parquet(tmp_path / "rows.parquet", weather=weather)

    directory = make("parquet", rows, tmp_path / "out", "--label", "weather", "--rename", "objects/area=objects/size")

    assert feature_of(directory, "label").class_names == tuple(NAMES)
    found = json.loads((directory / "stats.json").read_text())["splits"]["train"]["features"]
    assert found["weather"]["classes"] == {"rain": 6, "sun": 6}
    assert all("size" in example["objects"] for example in by_name(directory).values())
