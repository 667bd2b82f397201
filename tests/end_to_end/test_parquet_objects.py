"""Images with `objects` inside of Parquet, as data sets on Hugging Face's hub have them: the features that image files
with the same objects get."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shardmill
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run, check_mistake
from tests.support.detection import COLOURS, Scene, Thing, draw, scenes
from tests.support.later import Later
from tests.support.reading import make

datasets = Later("datasets")
tfds = Later("tensorflow_datasets")
SCENES = scenes(12)
NAMES = list(COLOURS)
FORMS = ("lists", "list of objects", "names", "ids")
MOST = ("--max_reject_fraction", 0.95)


def ids(scene: Scene) -> list[int]:
    return [NAMES.index(thing.colour) for thing in scene.things]


def said_of(scene: Scene) -> dict[str, Any]:
    """What data sets such as cppe-5 say of objects."""
    boxes = [list(map(float, thing.box)) for thing in scene.things]
    count = len(boxes)
    return {"id": list(range(count)), "area": [7.5] * count, "bbox": boxes, "category": ids(scene)}


def features_of(form: str) -> Any:
    label = datasets.ClassLabel(names=NAMES) if form in ("lists", "list of objects") else datasets.Value("int64")
    label = datasets.Value("string") if form == "names" else label
    item = {
        "id": datasets.Value("int64"),
        "area": datasets.Value("float32"),
        "bbox": datasets.List(datasets.Value("float32"), length=4),
        "category": label,
    }
    objects = datasets.List(item) if form == "list of objects" else {k: datasets.List(v) for k, v in item.items()}
    return datasets.Features({"image": datasets.Image(), "name": datasets.Value("string"), "objects": objects})


def write_parquet(path: Path, form: str = "lists", drawn: Sequence[Scene] = SCENES, **more: Any) -> Path:
    """A file as datasets writes it; `more` are further columns."""
    rows = []
    for scene in drawn:
        draw(scene, path.parent / "drawn")
        said = said_of(scene)
        if form == "names":
            said["category"] = [NAMES[index] for index in said["category"]]
        items = [dict(zip(said, values, strict=True)) for values in zip(*said.values(), strict=True)]
        data = (path.parent / "drawn" / scene.name).read_bytes()
        rows.append(
            {
                "image": {"bytes": data, "path": None},
                "name": scene.name,
                "objects": items if form == "list of objects" else said,
            }
        )
    table = datasets.Dataset.from_list(rows, features=features_of(form))
    for name, values in more.items():
        table = table.add_column(name, values)
    table.to_parquet(str(path))
    return path


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


def notices(directory: Path) -> Sequence[str]:
    found: list[str] = json.loads((directory / "manifest.json").read_text())["notices"]
    return found


def features(directory: Path) -> Any:
    return open_dataset(str(directory)).manifest.features


def rejects(directory: Path) -> dict[int, str]:
    """Why rows are rejects, by their number."""
    found = [json.loads(line) for file in directory.glob("rejects/*") for line in file.read_text().splitlines()]
    return {reject["line"]: reject["reason"] for reject in found}


def classes_of(scene: Scene) -> list[str]:
    return [thing.colour for thing in scene.things]


def feature_of(directory: Path, name: str) -> Any:
    return {each.name: each for each in features(directory)}[f"objects/{name}"]


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


BOX = [[1.0, 2.0, 3.0, 4.0]]
BAD: dict[str, tuple[Any, str]] = {
    "lengths": ({"bbox": BOX, "category": [0, 1]}, "column 'objects': lists of several lengths: 1 of bbox, 2 of cat"),
    "no class": ({"bbox": BOX, "category": None}, "column 'objects': category is null; expected a list"),
    "null class": ({"bbox": BOX, "category": [None]}, "column 'objects': object 1 has null for its class; expected an"),
    "three numbers": ({"bbox": [[1.0, 2.0, 3.0]], "category": [0]}, "object 1 has [1.0, 2.0, 3.0] for bbox; expected"),
    "below 0": ({"bbox": BOX, "category": [-1]}, "has -1 for its class; expected an id from 0"),
    "beyond": ({"bbox": BOX, "category": [3]}, "class '3' of an object is not in the metadata of --input"),
    "empty": ({"bbox": [[1.0, 2.0, 0.0, 4.0]], "category": [0]}, "object 1: the box from left, top to right, bottom"),
    "outside": ({"bbox": [[900.0, 2.0, 4.0, 4.0]], "category": [0]}, "bottom 900, 2, 904, 6 lies outside the picture"),
    "nan": ({"bbox": [[float("nan"), 2.0, 4.0, 4.0]], "category": [0]}, "is not of numbers"),
}
EMPTY: dict[str, Any] = {
    "null": None,
    "no lists": {"bbox": None, "category": None},
    "empty": {"bbox": [], "category": []},
}


def write_raw(path: Path, values: Sequence[Any], orientation: int = 1, **more: Sequence[Any]) -> Path:
    """A Parquet file of a picture beside each of the values, as datasets would have typed it."""
    typed = datasets.Features(
        {
            "image": datasets.Image(),
            "objects": {
                "bbox": datasets.List(datasets.List(datasets.Value("float32"))),
                "category": datasets.List(datasets.ClassLabel(names=NAMES)),
            },
        }
    )
    images = []
    for number in range(len(values)):
        draw(Scene(f"{number}.png", (64 + number, 48), (), orientation), path.parent / "raw")
        images.append({"bytes": (path.parent / "raw" / f"{number}.png").read_bytes(), "path": None})
    schema = typed.arrow_schema
    columns = [pa.array(images, schema.field("image").type), pa.array(values, schema.field("objects").type)]
    table = pa.Table.from_arrays(columns, schema=schema)
    for name, of_rows in more.items():
        table = table.append_column(name, pa.array(of_rows))
    pq.write_table(table, path)
    return path


def test_bad_objects_are_rejects_with_their_reasons(run: Run, tmp_path: Path) -> None:
    values = [{"bbox": BOX, "category": [0]}, *EMPTY.values(), *(value for value, _ in BAD.values())]
    rows = write_raw(tmp_path / "rows.parquet", values)

    done = run("parquet", "--input", rows, "--output", tmp_path, "--name", "n", *MOST)

    assert done.status == 0, done.err
    reasons = rejects(tmp_path / "n/1.0.0")
    assert sorted(reasons) == [number + 2 + len(EMPTY) for number in range(len(BAD))]
    for (_, reason), found in zip(BAD.values(), (reasons[line] for line in sorted(reasons)), strict=True):
        assert reason in found
    kept = shardmill.examples(tmp_path / "n", "train")
    assert sorted(len(example["objects/label"]) for example in kept) == [0, 0, 0, 1]


def test_boxes_are_clipped_or_dropped_and_the_job_says_so(tmp_path: Path) -> None:
    over = {"bbox": [[-2.0, 0.0, 10.0, 10.0], [900.0, 0.0, 1.0, 1.0]], "category": [2, 1]}
    rows = write_raw(tmp_path / "rows.parquet", [over])

    directory = make("parquet", rows, tmp_path / "out", "--on_bad_box", "drop")

    (example,) = shardmill.examples(directory, "train")
    assert example["objects/label"].tolist() == [2]
    np.testing.assert_allclose(np.ravel(example["objects/bbox"]), [0, 0, 10 / 48, 8 / 64], rtol=1e-6)
    assert {
        "1 box reached out of its picture, and was clipped",
        "1 box was no good, and its object was left out",
    } <= set(notices(directory))


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


def test_another_size_than_the_picture_is_a_reject(run: Run, tmp_path: Path) -> None:
    value = {"bbox": BOX, "category": [0]}
    rows = write_raw(tmp_path / "rows.parquet", [value] * 3, width=[64, 65, 0], height=[48, 49, 48])

    done = run("parquet", "--input", rows, "--output", tmp_path, "--name", "n", *MOST)

    assert done.status == 0, done.err
    assert rejects(tmp_path / "n/1.0.0") == {
        2: "the annotation is of 65 x 49 pixels, the image has 65 x 48",
        3: "column 'objects': the picture's size is said to be 0 x 48 pixels",
    }
    (example,) = shardmill.examples(tmp_path / "n", "train")
    assert (example["width"], example["height"]) == (64, 48)


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


def test_mistakes_are_one_sentence(run: Run, tmp_path: Path) -> None:
    rows = write_parquet(tmp_path / "rows.parquet")
    out = ("--output", tmp_path, "--name", "n")

    check_mistake(run("parquet", "--input", rows, "--label", "objects", *out), "--label objects")
    check_mistake(
        run("parquet", "--input", rows, "--drop", "objects", "--on_bad_box", "drop", *out),
        "--on_bad_box drop is about boxes in images, and there is no column 'objects' of such",
    )
    other = [{"n": 1, "objects": said_of(SCENES[0])}]
    datasets.Dataset.from_list(other).to_parquet(str(tmp_path / "none.parquet"))
    said: tuple[str, ...] = (
        "column 'objects' is of boxes as Hugging Face has them",
        "none is known to be such",
        "--drop objects",
    )
    check_mistake(run("parquet", "--input", tmp_path / "none.parquet", *out), *said)
    other = [{"n": 1, "things": said_of(SCENES[0])}]
    datasets.Dataset.from_list(other).to_parquet(str(tmp_path / "things.parquet"))
    said = ("column 'things' is of boxes as Hugging Face has them, which are read of a column 'objects'",)
    check_mistake(run("parquet", "--input", tmp_path / "things.parquet", *out), *said)
    write_parquet(tmp_path / "some/one.parquet", drawn=[Scene("a.png", things=(Thing("red", (1, 2, 3, 4)),))])
    write_parquet(tmp_path / "some/other.parquet", "names", drawn=SCENES[:2])
    said = ("files say different things of 'objects': classes are ids in some and names in others",)
    check_mistake(run("parquet", "--input", tmp_path / "some", *out), *said)
