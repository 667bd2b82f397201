"""Hugging Face's forms held against its own library: what datasets reads of a folder, its metadata with `objects` or
Parquet is stored, the objects as COCO's annotations make them; and what is no good."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from shardmill.addons import registry
from shardmill.data.example import decode_example
from shardmill.errors import UserError
from shardmill.transforms.options.image_options import ObjectOptions
from tests.support.command import image
from tests.support.detection import Scene, Thing, draw, mask_of, write_coco, write_masks
from tests.support.jobs import Built, Jobs
from tests.support.later import Later
from tests.support.masks import encoded, values
from tests.support.objects_in_tables import BOX, MOST, NAMES, SCENES, ids, said_of, write_parquet, write_raw
from tests.support.reading import make
from tests.support.table_results import encode_rows

datasets = Later("datasets")
tfds = Later("tensorflow_datasets")
SPLITS = ("train", "test")
PETS = ["cat", "dog", "an owl"]


@pytest.fixture(autouse=True)
def _offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
    datasets.disable_progress_bars()


def loaded(kind: str, tmp_path: Path, **source: Any) -> Any:
    """Read with datasets: splits, with images as {bytes, path}."""
    found = datasets.load_dataset(kind, cache_dir=str(tmp_path / "cache"), **source)
    for column, feature in next(iter(found.values())).features.items():
        if isinstance(feature, datasets.Image):
            found = found.cast_column(column, datasets.Image(decode=False))
    return found


def payload(file: dict[str, Any]) -> bytes:
    """The bytes of an image; datasets may name its path alone."""
    return file["bytes"] if file["bytes"] is not None else Path(file["path"]).read_bytes()


def stored(made: Built) -> dict[str, list[dict[str, Any]]]:
    """The values of each example by split, one where a feature has one."""
    return {
        split: [
            {name: value[0] if len(value) == 1 else list(value) for name, value in decode_example(record).items()}
            for name in names
            for record in made.contents.records[name]
        ]
        for split, names in made.contents.splits.items()
    }


def test_parquet_of_datasets_is_what_datasets_reads(jobs: Jobs, tmp_path: Path) -> None:
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=PETS),
            "caption": datasets.Value("string"),
            "score": datasets.Value("float32"),
            "tags": datasets.List(datasets.ClassLabel(names=["red", "green"])),
            "boxes": datasets.List(datasets.Value("int64")),
        }
    )
    rows = [
        {"image": {"bytes": image(n), "path": f"{n}.jpg"}, "label": n % 3, "caption": f"é {n}"}
        | {"score": n / 4, "tags": [0, 1][: n % 3], "boxes": [n] * (n % 4)}
        for n in range(20)
    ]
    for split, part in (("train", rows[:14]), ("test", rows[14:])):
        (tmp_path / "in" / split).mkdir(parents=True)
        datasets.Dataset.from_list(part, features=features).to_parquet(str(tmp_path / "in" / split / "a.parquet"))
    read = loaded("parquet", tmp_path, data_files={split: str(tmp_path / "in" / split / "*") for split in SPLITS})

    table = jobs.build("parquet").table
    named = {feature.name: list(feature.class_names) for feature in table.dataset.manifest.features}
    assert named["label"] == read["train"].features["label"].names == PETS
    for split, number in (("train", 14), ("test", 6)):
        expected = {row["caption"].encode(): row for row in read[split]}
        found = [row for row in table.rows if row["caption"] in expected]
        assert len(found) == len(expected) == number
        for row in found:
            theirs = expected[row["caption"]]
            assert row["image"] == payload(theirs["image"])
            assert {name: row[name] for name in named} == {**theirs, "image": row["image"], "caption": row["caption"]}
    assert len(table.rows) == 20


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_an_image_folder_is_what_datasets_reads(jobs: Jobs, tmp_path: Path, form: str) -> None:
    for place, split in enumerate(SPLITS):
        numbers = range(10 * place, 10 * place + 6)
        files = {f"{split}/{n}.jpg": image(n) for n in numbers}
        files |= {f"{split}/m/{n}.png": encoded(values(n)) for n in numbers}
        rows = [{"file_name": f"{n}.jpg", "mask_file_name": f"m/{n}.png", "text": f"t {n}", "age": n} for n in numbers]
        jobs.write({**files, f"{split}/metadata.{form}": encode_rows(form, rows)})
    read = loaded("imagefolder", tmp_path, data_dir=str(tmp_path / "in"))

    found = stored(jobs.build("images"))
    assert found.keys() == read.keys() == set(SPLITS)
    for split in SPLITS:
        expected = {row["age"]: row for row in read[split]}
        assert sorted(row["age"] for row in found[split]) == sorted(expected)
        for row in found[split]:
            theirs = expected[row["age"]]
            assert row["image"] == payload(theirs["image"])
            assert row["mask"] == payload(theirs["mask"])
            assert row["text"] == theirs["text"].encode()


def test_folders_of_classes_are_what_datasets_reads(jobs: Jobs, tmp_path: Path) -> None:
    jobs.write({f"{split}/{PETS[n % 3]}/{n}.jpg": image(n) for n in range(12) for split in SPLITS[n > 7 :][:1]})
    read = loaded("imagefolder", tmp_path, data_dir=str(tmp_path / "in"))

    made = jobs.build("images")
    found = stored(made)
    (label,) = [item for item in made.manifest.features if item.name == "label"]
    assert list(label.class_names or ()) == read["train"].features["label"].names == sorted(PETS)
    for split in SPLITS:
        ours = sorted((row["image"], row["label"]) for row in found[split])
        assert ours == sorted((payload(row["image"]), row["label"]) for row in read[split])


def columns_of(scene: Scene, key: str = "categories") -> dict[str, Any]:
    """The form in Hugging Face's documentation: lists of one length."""
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


def write_metadata(folder: Path, named: bool = True) -> Path:
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


@pytest.mark.slow
def test_what_datasets_reads_is_what_tfds_reads(jobs: Jobs, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "in", rows_of(columns_of))
    read = datasets.load_dataset("imagefolder", data_dir=str(folder), split="train", cache_dir=str(tmp_path / "cache"))

    made = jobs.build("images")
    found = by_name(made.directory)

    assert len(found) == len(read) == len(SCENES)
    for row in read:
        example = found[row["text"].removeprefix("about ")]
        width, height = row["image"].size
        boxes = np.reshape(row["objects"]["bbox"], (-1, 4))
        edges = np.stack([boxes[:, 1], boxes[:, 0], boxes[:, 1] + boxes[:, 3], boxes[:, 0] + boxes[:, 2]], 1)
        np.testing.assert_allclose(example["objects"]["bbox"], edges / [height, width, height, width], rtol=1e-6)
        assert example["objects"]["label"].tolist() == row["objects"]["categories"]
        np.testing.assert_array_equal(example["image"], row["image"])


def inner_features(directory: Path) -> Any:
    objects = json.loads((directory / "features.json").read_text())["featuresDict"]["features"]["objects"]
    return objects["sequence"]["feature"]["featuresDict"]["features"]


@pytest.fixture(scope="module")
def of_coco(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coco")
    return make("images", None, folder, "--coco", write_coco(folder / "in", SCENES))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["ids", "ids and names in a file", "names", "parquet", "parquet without names"])
def test_every_form_gives_the_objects_that_coco_gives(jobs: Jobs, tmp_path: Path, of_coco: Path, form: str) -> None:
    if "parquet" in form:
        write_metadata(tmp_path / "in", named=form == "parquet")
    else:
        write_folder(tmp_path / "in", rows_of(columns_of if "ids" in form else items_of))
    flags = "--labels_file labels.txt" if "file" in form or "without" in form or form == "names" else ""
    made = jobs.build(f"images {flags}", files={"../labels.txt": "".join(f"{name}\n" for name in NAMES)}).directory

    expected, found = by_name(of_coco), by_name(made)
    for name, example in expected.items():
        order = np.argsort(example["objects"]["id"])
        np.testing.assert_array_equal(found[name]["objects"]["bbox"], example["objects"]["bbox"][order])
        np.testing.assert_array_equal(found[name]["objects"]["label"], example["objects"]["label"][order])
    wanted = inner_features(of_coco)
    assert inner_features(made) == {key: wanted[key] for key in ("bbox", "label")}
    names = tfds.builder_from_directory(str(made)).info.features["objects"]["label"].names
    assert names == (["0", "1", "2"] if form == "ids" else NAMES)


def test_masks_labels_and_splits_stand_beside(jobs: Jobs, tmp_path: Path) -> None:
    for split, drawn in (("train", SCENES[:8]), ("test", SCENES[8:])):
        rows = [
            {**row, "label": "ab"[place % 2], "mask_file_name": f"m/{row['file_name']}"}
            for place, row in enumerate(rows_of(columns_of, drawn))
        ]
        write_masks(write_folder(tmp_path / "in" / split, rows, drawn) / "m", drawn)

    made = jobs.build("images --mask_column mask_file_name --resize 64x64")

    for split, number in (("train", 8), ("test", 4)):
        found = made.examples(split, decode_images=True)
        assert len(found) == number
        for example in found:
            scene = next(scene for scene in SCENES if scene.name in example["filename"].decode())
            assert example["mask"].shape == (64, 64, 1)
            assert set(np.unique(example["mask"])) == set(np.unique(mask_of(scene)))
            assert example["objects/label"].tolist() == ids(scene)
            assert example["label"] in (0, 1)


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


def test_bad_objects_are_rejects_with_their_reasons(jobs: Jobs, tmp_path: Path) -> None:
    drawn = [Scene(f"{number}.png") for number in range(len(BAD))]
    bad = [{"file_name": scene.name, "objects": value} for scene, (value, _) in zip(drawn, BAD.values(), strict=True)]
    write_folder(tmp_path / "in", [*rows_of(columns_of), *bad], [*SCENES, *drawn])
    found = jobs.build("images --max_reject_fraction 0.9").file_reasons
    assert len(found) == len(BAD)
    for scene, (_, reason) in zip(drawn, BAD.values(), strict=True):
        assert reason in found[scene.name]


@pytest.mark.slow
def test_sizes_beside_objects_tell_how_boxes_lie(jobs: Jobs, tmp_path: Path) -> None:
    drawn = [Scene(scene.name, scene.size, scene.things, 6) for scene in SCENES]
    rows = [
        {**row, "width": scene.size[0], "height": scene.size[1]}
        for row, scene in zip(rows_of(columns_of, drawn), drawn, strict=True)
    ]
    rows[3]["width"] += 1
    rows[4]["height"] = 0
    write_folder(tmp_path / "in", rows, drawn)

    made = jobs.build("images --max_reject_fraction 0.9")  # without sizes, nothing says how boxes are turned

    (width, height), other = drawn[3].size, drawn[4].size[0]
    assert made.file_reasons == {
        "003.png": f"the annotation is of {width + 1} x {height} pixels, the image has {width} x {height}",
        "004.png": f"column 'objects': the image's size is given as {other} x 0 pixels; expected whole numbers",
    }
    for name, example in by_name(made.directory).items():
        (scene,) = [scene for scene in drawn if scene.name == name]
        wide, high = scene.size
        boxes = [[y, x, y + tall, x + broad] for x, y, broad, tall in (thing.box for thing in scene.things)]
        edges = np.reshape(boxes, (-1, 4)) / [high, wide, high, wide]
        np.testing.assert_allclose(example["objects"]["bbox"], edges, rtol=1e-6)
        assert (example["width"], example["height"]) == scene.size


def test_an_id_without_a_name_is_a_new_class(jobs: Jobs, tmp_path: Path) -> None:
    write_folder(tmp_path / "in", rows_of(columns_of))
    line = "images --labels_file two.txt"
    jobs.refuse(line, "2…--on_new_label", files={"../two.txt": "red\ngreen\n"})
    reasons = jobs.build(f"{line} --on_new_label reject --max_reject_fraction 0.9").file_reasons
    assert reasons.keys() == {scene.name for scene in SCENES if 2 in ids(scene)}
    assert set(reasons.values()) == {"class '2' of an object is not in --labels_file"}


def test_mistakes_are_one_sentence(jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path / "in", rows_of(lambda scene: {"bbox": [[1, 2, 3, 4]], "kind": [1]}))
    said = "'objects' has 'bbox', 'kind', and nothing says what each object is; expected 'category', 'categories'"
    jobs.refuse("images", said)
    write_folder(folder, rows_of(columns_of))
    jobs.refuse("images --verify none", "--verify none contradicts --manifest")
    said = "--on_bad_box drop needs --coco, --voc, --yolo, --annotations or a manifest with a column of objects"
    files = {"metadata.jsonl": '{"file_name": "000.png", "objects": [1, 2]}\n'}
    jobs.refuse("images --on_bad_box drop", said, files=files)
    monkeypatch.setattr(registry, "ADD_ONS", ())
    with pytest.raises(UserError, match="--unread_objects drop needs annotations, which no add-on here reads"):
        ObjectOptions(unread_objects="drop").check_has_objects(False, ())


def test_numbers_called_objects_stay_a_column(jobs: Jobs, tmp_path: Path) -> None:
    write_folder(tmp_path / "in", [{"file_name": scene.name, "objects": [1, 2]} for scene in SCENES])
    assert [example["objects"].tolist() for example in jobs.build("images").examples()] == [[1, 2]] * 12


IN_PARQUET: dict[str, tuple[Any, str]] = {
    "null class": ({"bbox": BOX, "category": [None]}, "column 'objects': object 1 has null for its class; expected an"),
    "beyond": ({"bbox": BOX, "category": [3]}, "class '3' of an object is not in the metadata of --input"),
    "empty": ({"bbox": [[1.0, 2.0, 0.0, 4.0]], "category": [0]}, "object 1: the box from left, top to right, bottom"),
    "nan": ({"bbox": [[float("nan"), 2.0, 4.0, 4.0]], "category": [0]}, "is not of numbers"),
}
EMPTY: list[Any] = [None, {"bbox": None, "category": None}, {"bbox": [], "category": []}]


def test_bad_objects_of_parquet_are_rejects_with_their_reasons(jobs: Jobs, tmp_path: Path) -> None:
    bad = [value for value, _ in IN_PARQUET.values()]
    write_raw(tmp_path / "in.parquet", [{"bbox": BOX, "category": [0]}, *EMPTY, *bad])
    made = jobs.build("parquet --input in.parquet", *MOST)
    assert [reject["line"] for reject in made.rejects] == [number + 2 + len(EMPTY) for number in range(len(IN_PARQUET))]
    for (_, reason), found in zip(IN_PARQUET.values(), made.reasons.values(), strict=True):
        assert reason in found
    assert sorted(len(example["objects/label"]) for example in made.examples()) == [0, 0, 0, 1]


def test_another_size_than_the_picture_is_a_reject(jobs: Jobs, tmp_path: Path) -> None:
    write_raw(tmp_path / "a.parquet", [{"bbox": BOX, "category": [0]}] * 3, width=[64, 65, 0], height=[48, 49, 48])
    made = jobs.build("parquet --input a.parquet", *MOST)
    assert made.reasons == {
        "a.parquet:2": "the annotation is of 65 x 49 pixels, the image has 65 x 48",
        "a.parquet:3": "column 'objects': the image's size is given as 0 x 48 pixels; expected whole numbers",
    }
    (example,) = shardmill.examples(made.directory, "train")
    assert (example["width"], example["height"]) == (64, 48)


def test_mistakes_with_parquet_are_one_sentence(jobs: Jobs, tmp_path: Path) -> None:
    write_parquet(tmp_path / "rows.parquet")
    for column in ("objects", "things"):
        other = [{"n": 1, column: said_of(SCENES[0])}]
        datasets.Dataset.from_list(other).to_parquet(str(tmp_path / f"{column}.parquet"))
    write_parquet(tmp_path / "some/one.parquet", drawn=[Scene("a.png", things=(Thing("red", (1, 2, 3, 4)),))])
    write_parquet(tmp_path / "some/other.parquet", "names", drawn=SCENES[:2])
    boxes = "is of boxes as Hugging Face has them"
    for line, sentence in {
        "rows.parquet --label objects": "--label objects",
        "rows.parquet --drop objects --on_bad_box drop": "--on_bad_box drop is about boxes in images, and there is no"
        " column 'objects' of such",
        "objects.parquet": f"column 'objects' {boxes}…none is known to be such…--drop objects",
        "things.parquet": f"column 'things' {boxes}, which are read of a column 'objects'",
        "some": "files say different things of 'objects': classes are ids in one.parquet and names in other.parquet",
    }.items():
        jobs.refuse(f"parquet --input {line}", sentence)
