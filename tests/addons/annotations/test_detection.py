"""Objects in images: what COCO, Pascal VOC and YOLO annotate, as TFDS, pycocotools and our own readers have it."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps
from pycocotools.coco import COCO

import shardmill
from shardmill.addons.annotations.yolo import label_file
from shardmill.metadata.schema import from_pbtxt
from tests.support import exports
from tests.support.command import Run, age
from tests.support.detection import COLOURS, Scene, Thing, coco_of, draw, scenes, write_coco, write_voc, write_yolo
from tests.support.jobs import Jobs
from tests.support.later import Later
from tests.support.reading import make
from tests.support.table_results import contents

tfds = Later("tensorflow_datasets")

SCENES = scenes(30)


def by_name(directory: Path, split: str = "train") -> dict[str, dict[str, Any]]:
    """A split's examples as TFDS decodes them, without code of ours, by the names of their files."""
    dataset = tfds.builder_from_directory(str(directory)).as_dataset(split=split)
    return {example["filename"].decode(): example for example in tfds.as_numpy(dataset)}


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A COCO file as its authors lay it out, and the data set made of it."""
    folder = tmp_path_factory.mktemp("coco")
    file = write_coco(folder, SCENES, "annotations/instances_train2017.json", "train2017")
    return file, make("images", None, folder / "out", "--coco", file, "--num_shards", 3)


@pytest.fixture(scope="module")
def voc(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A VOC folder of two splits, and the data set made of it."""
    folder = tmp_path_factory.mktemp("voc")
    source = write_voc(folder / "VOC2012", {"train": SCENES[:20], "val": SCENES[20:]})
    return source, make("images", None, folder / "out", "--voc", source / "Annotations")


@pytest.fixture(scope="module")
def yolo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set made of a YOLO folder of two splits."""
    folder = tmp_path_factory.mktemp("yolo")
    file = write_yolo(folder / "data", {"train": SCENES[:20], "val": SCENES[20:]})
    return make("images", None, folder / "out", "--yolo", file)


@pytest.mark.slow
def test_tfds_reads_what_pycocotools_reads(coco: tuple[Path, Path]) -> None:
    file, directory = coco
    api = COCO(str(file))
    names = [category["name"] for category in api.loadCats(sorted(api.getCatIds()))]
    builder = tfds.builder_from_directory(str(directory))
    found = by_name(directory)

    assert builder.info.features["objects"]["label"].names == names
    assert builder.info.features["objects"]["bbox"].bbox_format.name == "REL_YXYX"
    assert len(found) == len(api.getImgIds()) == len(SCENES)
    for image in api.loadImgs(api.getImgIds()):
        example, annotations = found[f"train2017/{image['file_name']}"], api.loadAnns(api.getAnnIds(image["id"]))
        objects = example["objects"]
        sides = np.array([image["height"], image["width"]] * 2)
        boxes = [[y, x, y + high, x + wide] for x, y, wide, high in (item["bbox"] for item in annotations)]
        assert example["image/id"] == image["id"]
        assert objects["id"].tolist() == [item["id"] for item in annotations]
        assert [names[label] for label in objects["label"]] == [
            api.cats[item["category_id"]]["name"] for item in annotations
        ]
        np.testing.assert_allclose(objects["bbox"], np.reshape(boxes, (-1, 4)) / sides, rtol=1e-6)
        assert objects["area"].tolist() == [item["area"] for item in annotations]
        assert objects["is_crowd"].tolist() == [bool(item["iscrowd"]) for item in annotations]


@pytest.mark.slow
def test_features_are_those_of_tfds_own_coco_and_the_schema_has_them(coco: tuple[Path, Path]) -> None:
    described = json.loads((coco[1] / "features.json").read_text())
    inner = {
        "area": np.float32,  # which TFDS rounds to int64
        "bbox": tfds.features.BBoxFeature(),
        "id": np.int64,
        "is_crowd": np.bool_,
        "label": tfds.features.ClassLabel(num_classes=3),
    }
    features = tfds.features.FeaturesDict({"objects": tfds.features.Sequence(inner)})

    ours = tfds.features.FeatureConnector.from_json(described)["objects"]
    assert ours.get_tensor_info() == features["objects"].get_tensor_info()
    assert {name: type(of_ours).__name__ for name, of_ours in ours.feature.items() if name in ("bbox", "label")} == {
        "bbox": "BBoxFeature",
        "label": "ClassLabel",
    }
    assert (coco[1] / "objects-label.labels.txt").read_text() == "red\ngreen\nblue\n"
    assert shardmill.info(coco[1]).class_names == ("red", "green", "blue")
    found = {feature.name: feature for feature in from_pbtxt((coco[1] / "schema.pbtxt").read_text())}
    assert (found["objects/bbox"].kind, found["objects/bbox"].shape) == ("bbox", (None, 4))
    assert (found["objects/label"].kind, len(found["objects/label"].class_names)) == ("class_label", 3)


@pytest.mark.slow
def test_tfds_reads_what_it_reads_of_voc_itself(voc: tuple[Path, Path]) -> None:
    from tensorflow_datasets.object_detection.voc import _get_example_objects

    source, directory = voc
    names = tfds.builder_from_directory(str(directory)).info.features["objects"]["label"].names
    found = by_name(directory) | by_name(directory, "validation")

    assert len(by_name(directory, "validation")) == 10
    assert len(found) == len(SCENES)
    for name, example in found.items():
        own = list(_get_example_objects(source / "Annotations" / f"{Path(name).stem}.xml"))
        objects = example["objects"]
        np.testing.assert_allclose(objects["bbox"], np.reshape([item["bbox"] for item in own], (-1, 4)), rtol=1e-6)
        assert [names[label] for label in objects["label"]] == [item["label"] for item in own]
        assert [pose.decode().lower() for pose in objects["pose"]] == [item["pose"] for item in own]
        for flag in ("is_truncated", "is_difficult"):
            assert objects[flag].tolist() == [item[flag] for item in own]


@pytest.mark.slow
def test_yolo_holds_what_the_same_scenes_hold_as_coco(coco: tuple[Path, Path], yolo: Path) -> None:
    of_coco = {Path(name).name: example for name, example in by_name(coco[1]).items()}
    found = by_name(yolo) | by_name(yolo, "validation")

    assert len(found) == len(SCENES)
    assert tfds.builder_from_directory(str(yolo)).info.features["objects"]["label"].names == list(COLOURS)
    for name, example in found.items():
        theirs = of_coco[Path(name).name]["objects"]
        order = np.argsort(theirs["id"])
        np.testing.assert_allclose(example["objects"]["bbox"], theirs["bbox"][order], atol=1e-6)
        assert example["objects"]["label"].tolist() == theirs["label"][order].tolist()


def test_statistics_count_objects(coco: tuple[Path, Path]) -> None:
    stats = json.loads((coco[1] / "stats.json").read_text())["splits"]["train"]["features"]
    counts = {colour: sum(thing.colour == colour for scene in SCENES for thing in scene.things) for colour in COLOURS}
    numbers = [len(scene.things) for scene in SCENES]

    assert stats["objects/label"]["classes"] == counts
    assert stats["objects/label"]["values_per_example"]["max"] == max(numbers)
    assert stats["objects/label"]["values_per_example"]["mean"] == pytest.approx(np.mean(numbers))
    assert stats["objects/area"]["max"] == max(
        wide * high for s in SCENES for (_, _, wide, high) in [t.box for t in s.things]
    )


@pytest.mark.slow
def test_load_gives_ragged_boxes_or_padded_ones(coco: tuple[Path, Path]) -> None:
    wanted = ["image", "objects/bbox", "objects/label"]
    options: dict[str, Any] = {"batch_size": 8, "image_size": (32, 32), "features": wanted, "shuffle": False}
    ragged, padded = (next(iter(shardmill.load(coco[1], pad=pad, **options))) for pad in (False, True))

    assert ragged["image"].shape == (8, 32, 32, 3)
    assert ragged["objects/bbox"].shape.as_list() == [8, None, 4]
    longest = max(ragged["objects/label"].row_lengths().numpy())
    assert padded["objects/bbox"].shape == (8, longest, 4)
    assert padded["objects/label"].numpy().tolist() == ragged["objects/label"].to_tensor(-1).numpy().tolist()
    assert -1 in padded["objects/label"].numpy()


def test_examples_verify_inspect_and_the_page_know_them(coco: tuple[Path, Path], tmp_path: Path, run: Run) -> None:
    for example in shardmill.examples(coco[1], "train"):
        assert example["objects/bbox"].shape == (len(example["objects/label"]), 4)
    assert run("verify", coco[1]).status == 0
    shown = run("inspect", coco[1])
    assert "bbox, [ymin, xmin, ymax, xmax]" in shown.out
    assert "3 classes of 'objects/label'" in shown.out
    page = (coco[1].parent / "builds" / "1.0.0.html").read_text()
    assert "data:image/jpeg" in page
    assert "Compared were" in page
    assert run("inspect", coco[1], "--contact_sheet", tmp_path / "sheet.png").status == 0
    drawn = {pixel for _, pixel in Image.open(tmp_path / "sheet.png").convert("RGB").getcolors(1 << 24) or []}
    assert {(230, 159, 0), (86, 180, 233), (0, 158, 115)} <= drawn  # one for each class


def turned_scenes() -> list[Scene]:
    """One of each orientation, with a rectangle of each colour, none of them in the middle."""
    things = (Thing("red", (3, 2, 12, 20)), Thing("green", (30, 25, 20, 10)), Thing("blue", (50, 3, 10, 12)))
    return [Scene(f"{number}.png", (64, 40), things, number) for number in range(1, 9)]


def edges_of(colour: str, pixels: np.ndarray) -> tuple[int, int, int, int]:
    """Return the first row and column of a colour, and those behind its last."""
    like = np.abs(pixels - COLOURS[colour]).max(2) < 100
    rows, columns = np.flatnonzero(like.any(1)), np.flatnonzero(like.any(0))
    return int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1


def upright(content: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The annotations of pictures as Pillow turns them: what is red is looked for in the turned pixels."""
    categories = {category["id"]: category["name"] for category in content["categories"]}
    for image in content["images"]:
        turned = ImageOps.exif_transpose(Image.open(folder / image["file_name"]))
        image["width"], image["height"] = turned.size
        for item in content["annotations"]:
            if item["image_id"] == image["id"]:
                colour, pixels = categories[item["category_id"]], np.asarray(turned.convert("RGB")).astype(int)
                top, left, bottom, right = edges_of(colour, pixels)
                item["bbox"] = [left, top, right - left, bottom - top]
    return content


@pytest.mark.parametrize(
    ("seen", "flags"),
    [
        ("stored", ""),
        ("upright", ""),
        ("stored", "--image_format png"),
        ("stored", "--image_format png --resize 50x50"),
        ("stored", "--image_format png --resize 90x30 --resize_mode contain"),
        ("upright", "--image_format png --resize 60x60 --resize_mode cover"),
    ],
)
def test_boxes_move_with_the_picture(jobs: Jobs, tmp_path: Path, seen: str, flags: str) -> None:
    """Each box is where its colour is in the picture as it is stored."""
    drawn = turned_scenes()
    for scene in drawn:
        draw(scene, tmp_path / "pictures")
    # where an annotator saw the pictures turned, its sizes and boxes are of those
    content = upright(coco_of(drawn), tmp_path / "pictures") if seen == "upright" else coco_of(drawn)
    jobs.write({"i.json": json.dumps(content)})
    made = jobs.build(f"images --coco in/i.json --input pictures --boxes_seen {seen} {flags}")

    names = (made.directory / "objects-label.labels.txt").read_text().split()
    checked = 0
    for example in made.examples():
        pixels = np.asarray(Image.open(io.BytesIO(example["image"])).convert("RGB")).astype(int)
        height, width = pixels.shape[:2]
        for label, box in zip(example["objects/label"], example["objects/bbox"], strict=True):
            found = np.array(edges_of(names[label], pixels)) / [height, width, height, width]
            np.testing.assert_allclose(box, found, atol=1.6 / min(height, width))
            checked += 1
    assert checked == 24


def test_a_night_takes_pictures_that_did_not_change_with_the_boxes_of_today(jobs: Jobs, tmp_path: Path) -> None:
    """Boxes are of the picture that was found; the older version says how large it was, and how it was turned."""
    drawn = turned_scenes()
    for scene in drawn:
        draw(scene, tmp_path / "in")
    age(tmp_path / "in")
    content = coco_of(drawn)
    content["annotations"][0]["bbox"] = [0, 0, 0, 0]
    flags = "--resize 50x50 --image_format png --boxes_seen stored --max_reject_fraction 1"
    night = f"images --input in --coco i.json {flags}"
    jobs.build(f"{night} --reuse record", files={"../i.json": json.dumps(content)})
    jobs.write({"../i.json": json.dumps(coco_of(drawn))})

    found = jobs.build(f"{night} --reuse LATEST --overwrite").directory
    record = json.loads((found.parent / "builds/1.0.0.json").read_text())
    assert (record["reused"], record["read"]) == (7, 1)
    assert contents(found) == contents(jobs.build(f"{night} --output whole").directory)


def test_a_recipe_is_built_anew_where_annotations_or_images_changed(tmp_path: Path, run: Run) -> None:
    drawn = SCENES[:6]
    sources = {
        "coco": write_coco(tmp_path / "c", drawn),
        "voc": write_voc(tmp_path / "v", {"train": drawn[:4], "val": drawn[4:]}),
        "yolo": write_yolo(tmp_path / "y", {"train": drawn[:4], "val": drawn[4:]}),
        "annotations": tmp_path / "a",
    }
    exports.cvat(tmp_path / "a", drawn)
    changed = {
        "coco": tmp_path / "c/instances.json",
        "voc": tmp_path / "v/ImageSets/Main/train.txt",
        "yolo": tmp_path / "y/labels/train/000.txt",
        "annotations": tmp_path / "a/annotations.xml",
    }
    for name, source in sources.items():
        recipe = tmp_path / f"{name}.yaml"
        recipe.write_text(f"name: {name}\noutput: {tmp_path}/sets\nversion: auto\nimages:\n  {name}: {source}\n")
        assert run("rebuild", recipe).status == 0
        assert run("rebuild", recipe).status == 0
        assert (tmp_path / "sets" / name / "LATEST").read_text().strip() == "1.0.0", name
        text = changed[name].read_text()
        changed[name].write_text(f"{text} \n" if name in ("coco", "annotations") else "\n".join(text.split("\n")[1:]))
        assert run("rebuild", recipe).status == 0
        assert (tmp_path / "sets" / name / "LATEST").read_text().strip() == "1.0.1", name


@pytest.mark.parametrize(
    ("image", "labels"),
    [
        ("images/myimages/a.b.jpg", "labels/myimages/a.b.txt"),
        ("a/images/images/x.jpg", "a/images/labels/x.txt"),
        ("/data/images/x.jpg", "/data/labels/x.txt"),
        ("myimages/x.jpg", "myimages/x.txt"),
    ],
)
def test_labels_of_yolo_are_beside_the_last_folder_of_images(image: str, labels: str) -> None:
    assert label_file(image) == labels
