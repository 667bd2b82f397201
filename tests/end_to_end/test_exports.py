"""Exports of labelling tools give the objects that --coco gives of the same pictures, or a reason why not."""

import json
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardmill
from shardmill.pipelines import cli
from shardmill.transforms.inputs import exports as exports_module
from shardmill.transforms.inputs.export_readers import READERS
from tests.support import exports
from tests.support.command import REPOSITORY, Run, check_mistake, image, write_files
from tests.support.detection import COLOURS, Scene, draw, scenes, write_coco, write_masks
from tests.support.reading import make

SCENES = scenes(6)
Write = Callable[[Path, Sequence[Scene]], None]
Found = dict[str, list[tuple[str, list[float], float]]]


def objects_of(directory: Path) -> Found:
    """The objects in each picture, by its name without suffix: class, box and area, sorted."""
    names = (directory / "objects-label.labels.txt").read_text().split()
    return {
        Path(each["filename"].decode()).stem: sorted(
            (names[label], [round(float(edge), 4) for edge in box], round(float(area), 1))
            for label, box, area in zip(each["objects/label"], each["objects/bbox"], each["objects/area"], strict=True)
        )
        for split in shardmill.info(directory).splits
        for each in shardmill.examples(directory, split)
    }


def notices_of(directory: Path) -> list[str]:
    return list(json.loads((directory / "manifest.json").read_text())["notices"])


def reasons_of(directory: Path) -> list[str]:
    path = directory / "rejects" / "rejects-00000-of-00001.jsonl"
    return sorted(json.loads(line)["reason"] for line in path.read_text().splitlines()) if path.exists() else []


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("coco")
    return objects_of(make("images", None, folder / "out", "--coco", write_coco(folder / "in", SCENES)))


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("cvat", exports.cvat),
        ("labelme", exports.labelme),
        ("via", exports.via),
        ("via", exports.via_project),
        ("via", exports.via_1),
        ("via", exports.via_csv),
        ("createml", exports.createml),
        ("createml", exports.roboflow_createml),
        ("label_studio", exports.label_studio),
        ("cvat", exports.exporter("cvat")),
        ("label_me", exports.exporter("label_me")),
        ("open_images", exports.exporter("open_images")),
        ("datumaro", exports.exporter("datumaro")),
        ("wider_face", exports.exporter("wider_face")),
        ("yolo", exports.exporter("yolo")),
        ("kitti_detection", exports.exporter("kitti_detection")),
    ],
    ids=[
        *("CVAT", "LabelMe", "VIA", "VIA project", "VIA 1", "VIA CSV", "CreateML", "Roboflow CreateML", "Label Studio"),
        *("CVAT's splits", "LabelMe XML", "Open Images", "datumaro", "WIDER FACE", "Darknet", "KITTI"),
    ],
)
def test_the_objects_are_those_of_coco(tmp_path: Path, expected: Found, name: str, write: Write) -> None:
    """The format is detected; naming it gives the same."""
    folder = tmp_path / "in"
    write(folder, SCENES)
    directory = make("images", None, tmp_path / "out", "--annotations", folder)

    assert objects_of(directory) == expected
    assert reasons_of(directory) == []
    assert not [notice for notice in notices_of(directory) if "left out" in notice or "datumaro returns" in notice]
    splits = ["train", "validation"] if write.__name__ in ("write", "roboflow_createml") else ["train"]
    assert list(shardmill.info(directory).splits) == splits
    named = make("images", None, tmp_path / "named", "--annotations", f"{name}={folder}")
    assert objects_of(named) == expected


def stop(run: Run, tmp_path: Path, *flags: object) -> str:
    """The message of a job that stops before anything is written."""
    output = tmp_path / "out"
    result = run("images", *flags, "--output", output, "--name", "n")
    check_mistake(result)
    assert not output.exists()
    return result.err


MORE_SHAPES = """
<polygon label="red" occluded="1" points="1,1;21,1;1,11" z_order="0"></polygon>
<box label="blue" xtl="10" ytl="10" xbr="30" ybr="20" rotation="90" z_order="0"><attribute name="c">x</attribute></box>
<polyline label="red" points="1,1;5,5" z_order="0"></polyline>
<points label="red" points="1,1" z_order="0"></points>
<ellipse label="red" cx="9" cy="9" rx="3" ry="4" z_order="0"></ellipse>
<cuboid label="red" xtl1="1" ytl1="1" z_order="0"></cuboid>
<skeleton label="red" z_order="0"><points label="1" outside="0" points="3,3"></points></skeleton>
<tag label="green"></tag>
"""


def test_shapes_without_a_box_are_counted_by_kind(tmp_path: Path) -> None:
    """Also those that datumaro passes over: ellipses, cuboids and skeletons."""
    exports.cvat(tmp_path / "in", [Scene("0.png", (64, 48)), *SCENES[1:]], MORE_SHAPES)
    directory = make("images", None, tmp_path / "out", "--annotations", tmp_path / "in")

    first = objects_of(directory)["0"]
    assert first == [
        ("blue", [round(5 / 48, 4), round(15 / 64, 4), round(25 / 48, 4), round(25 / 64, 4)], 200.0),
        ("red", [round(1 / 48, 4), round(1 / 64, 4), round(11 / 48, 4), round(21 / 64, 4)], 100.0),
    ]
    notices = notices_of(directory)
    kinds = "cuboid (1), ellipse (1), points (2), polyline (1), skeleton (1)"
    assert f"annotations of cvat are left out: {kinds}" in notices
    left_out = "attribute c of 1, attribute occluded of 1, polygon of 1, rotated_bbox of 1"
    assert f"left out of annotations of objects, of which the boxes are kept: {left_out}" in notices
    labels = (directory / "label.labels.txt").read_text().split()
    tagged = {each["filename"]: each["label"].tolist() for each in shardmill.examples(directory, "train")}
    assert (labels, tagged[b"images/0.png"], tagged[b"images/001.png"]) == (["green"], [0], [])


@pytest.mark.parametrize("write", [exports.cvat, exports.labelme, exports.via, exports.createml, exports.label_studio])
def test_images_may_be_elsewhere(run: Run, tmp_path: Path, expected: Found, write: Write) -> None:
    """Without --input the message says what to give; a missing image is a reject."""
    write(tmp_path / "in", SCENES)
    pictures = tmp_path / "pictures" / "all"
    pictures.mkdir(parents=True)
    for path in (tmp_path / "in").rglob("*.png"):
        path.rename(pictures / path.name)
    message = stop(run, tmp_path, "--annotations", tmp_path / "in")
    assert "none of its 6 images, such as" in message
    assert f"is in {tmp_path / 'in'}; give --input, the folder of the images" in message

    (pictures / "005.png").unlink()
    flags = ("--input", tmp_path / "pictures", "--annotations", tmp_path / "in", "--max_reject_fraction", 1)
    directory = make("images", None, tmp_path / "made", *flags)
    assert objects_of(directory) == {name: found for name, found in expected.items() if name != "005"}
    assert reasons_of(directory) == ["there is no such image"]


def test_names_of_windows_and_of_other_folders(tmp_path: Path) -> None:
    for number, name in enumerate(("..\\pictures\\a.png", "C:\\Users\\me\\b.png", "/home/me/c.png", "x/a.png")):
        draw(Scene(name.replace("\\", "/").rpartition("/")[2], (64, 48)), tmp_path / "in" / "pictures")
        content = {"shapes": [], "imagePath": name, "imageHeight": 48, "imageWidth": 64}
        content["shapes"] = [{"label": "cat", "points": [[1, 1], [9, 9]], "shape_type": "rectangle"}]
        write_files(tmp_path / "in/labels", {f"{number}.json": json.dumps(content).encode()})
    draw(Scene("c.png", (64, 48)), tmp_path / "in" / "others")
    directory = make("images", None, tmp_path / "out", "--annotations", tmp_path / "in", "--max_reject_fraction", 1)

    assert set(objects_of(directory)) == {"a", "b"}
    assert reasons_of(directory) == ["it can be others/c.png or pictures/c.png", "there is no such image"]
    assert "2 file names have backslashes, which are read as /" in notices_of(directory)


def test_labelme_shapes(tmp_path: Path) -> None:
    shapes = [
        ("polygon", [[0, 0], [10, 0], [0, 10]]),
        ("circle", [[20, 20], [23, 24]]),
        ("oriented_rectangle", [[30, 10], [35, 15], [30, 20], [25, 15]]),
        ("mask", [[40, 5], [50, 15]]),
        ("linestrip", [[1, 1], [2, 2]]),
        ("point", [[1, 1]]),
    ]
    listed = [{"label": "cat", "points": points, "shape_type": kind, "group_id": 1} for kind, points in shapes]
    exports.labelme(tmp_path / "in", [Scene("0.png", (64, 48))], shapes=listed, flags={"day": True, "night": False})
    exports.labelme(tmp_path / "in", [Scene("1.png", (64, 48))], shapes=[{"label": "cat", "points": [[1, 1]]}])
    write_files(
        tmp_path / "in", {"2.json": b'{"shapes": [], "imagePath": 1', "2.png": image(2, "PNG"), "n.json": b"{}"}
    )
    directory = make("images", None, tmp_path / "out", "--annotations", tmp_path / "in", "--max_reject_fraction", 1)

    boxes = [[0, 0, 10, 10], [15, 15, 25, 25], [10, 25, 20, 35], [5, 40, 15, 50]]
    relative = [[round(edge / (48, 64)[index % 2], 4) for index, edge in enumerate(box)] for box in boxes]
    areas = [50.0, 78.5, 50.0, 100.0]
    assert objects_of(directory) == {"0": sorted(("cat", *each) for each in zip(relative, areas, strict=True))}
    assert "annotations of labelme are left out: linestrip (1), point (1)" in notices_of(directory)
    assert "not read as labelme: 1 file, such as 'n.json'" in notices_of(directory)
    assert (directory / "label.labels.txt").read_text().split() == ["day"]
    (few, not_json) = reasons_of(directory)
    assert (few, not_json[:50]) == (
        "no annotation of LabelMe's: a polygon has 1 points",
        "no annotation of LabelMe's: it is not JSON: unexpe",
    )


def via_file(folder: Path, *regions: dict[str, Any]) -> Path:
    """VIA's annotations of one picture."""
    listed = [
        {"shape_attributes": {"name": "rect", "x": 1, "y": 2, "width": 3, "height": 4}, "region_attributes": {}} | each
        for each in regions
    ]
    write_files(folder, {"0.png": image(0, "PNG")})
    entry = {"filename": "0.png", "size": 1, "regions": listed, "file_attributes": {"caption": "a"}}
    write_files(folder, {"via.json": json.dumps({"0.png1": entry}).encode()})
    return folder


def test_the_attribute_of_via_that_is_the_class(run: Run, tmp_path: Path) -> None:
    folder = via_file(
        tmp_path / "in", {"region_attributes": {"colour": "red", "shape": {"round": True, "flat": False}}}
    )
    message = stop(run, tmp_path, "--annotations", folder)
    assert "which is the class? --label_column colour or --label_column shape" in message
    for attribute, name in (("colour", "red"), ("shape", "round")):
        flags = ("--annotations", folder, "--label_column", attribute)
        directory = make("images", None, tmp_path / attribute, *flags)
        assert [found[0] for found in objects_of(directory)["0"]] == [name]
    assert "attribute caption of files of 1, attribute colour of 1" in " ".join(notices_of(directory))
    assert "the regions in" in stop(run, tmp_path, "--annotations", folder, "--label_column", "size")


def test_via_shapes_and_regions_without_a_class(tmp_path: Path) -> None:
    """All objects are of one class if no region has an attribute."""
    shapes: list[dict[str, Any]] = [
        {"name": "polygon", "all_points_x": [0, 10, 0], "all_points_y": [0, 0, 10]},
        {"name": "circle", "cx": 10, "cy": 10, "r": 5},
        {"name": "ellipse", "cx": 10, "cy": 10, "rx": 5, "ry": 2, "theta": 1.5707963267948966},
        {"name": "polyline", "all_points_x": [1, 2], "all_points_y": [1, 2]},
        {"name": "point", "cx": 1, "cy": 1},
    ]
    folder = via_file(tmp_path / "in", *({"shape_attributes": shape} for shape in shapes))
    directory = make("images", None, tmp_path / "out", "--annotations", folder)
    found = sorted((name, area) for name, _, area in objects_of(directory)["0"])
    assert found == [("object", 31.4), ("object", 50.0), ("object", 78.5)]
    notices = notices_of(directory)
    assert "no annotation of via names a class: all objects are of the class 'object'" in notices
    assert "annotations of via are left out: point (1), polyline (1)" in notices

    folder = via_file(tmp_path / "some", {"region_attributes": {"a": "red"}}, {"region_attributes": {"a": ""}})
    more = via_file(tmp_path / "more", {"region_attributes": {"a": "red"}}) / "via.json"
    write_files(folder, {"more.json": more.read_bytes().replace(b"0.png", b"1.png")})
    write_files(folder, {"1.png": image(1, "PNG")})
    directory = make("images", None, tmp_path / "out2", "--annotations", folder, "--max_reject_fraction", 1)
    assert (list(objects_of(directory)), reasons_of(directory)) == (["1"], ["an object in it has no class"])


def studio_task(number: int, *results: dict[str, Any], annotations: int = 1) -> dict[str, Any]:
    given = [{"id": index, "result": list(results), "was_cancelled": False} for index in range(annotations)]
    return {"id": number, "annotations": given, "data": {"image": f"/data/local-files/?d=set/{number}.png"}}


def test_label_studio_s_shapes_and_choices(tmp_path: Path) -> None:
    def shape(kind: str, **value: Any) -> dict[str, Any]:
        return {"type": kind, "original_width": 50, "original_height": 40, "value": value | {kind: ["cat"]}}

    first = studio_task(
        0,
        shape("rectanglelabels", x=20, y=10, width=20, height=50, rotation=90),
        shape("polygonlabels", points=[[0, 0], [20, 0], [0, 25]]),
        shape("ellipselabels", x=50, y=50, radiusX=10, radiusY=10, rotation=0),
        shape("brushlabels", format="rle", rle=[1]),
        shape("keypointlabels", x=1, y=1, width=0.5),
        {"type": "choices", "value": {"choices": ["indoor"]}},
    )
    second = studio_task(1, {"type": "choices", "value": {"choices": ["outdoor", "wet"]}})
    tasks = [first, second | {"predictions": [{"result": []}]}, studio_task(2, annotations=2)]
    pictures = {f"set/{number}.png": image(number, "PNG") for number in range(3)}
    folder = write_files(tmp_path / "in", pictures | {"tasks.json": json.dumps(tasks).encode()})
    for path in (folder / "set").iterdir():
        path.unlink()
        draw(Scene(path.name, (50, 40)), folder / "set")
    directory = make("images", None, tmp_path / "out", "--annotations", folder, "--max_reject_fraction", 1)

    assert objects_of(directory)["0"] == [
        ("cat", [0.0, 0.0, 0.25, 0.2], 50.0),
        ("cat", [0.1, 0.0, 0.35, 0.2], 200.0),
        ("cat", [0.4, 0.4, 0.6, 0.6], 62.8),
    ]
    labels = (directory / "label.labels.txt").read_text().split()
    tagged = {each["filename"]: each["label"].tolist() for each in shardmill.examples(directory, "train")}
    assert (labels, tagged) == (["indoor", "outdoor", "wet"], {b"set/0.png": [0], b"set/1.png": [1, 2]})
    left_out = "annotations of label_studio are left out: brushlabels (1), keypointlabels (1), prediction (1)"
    assert left_out in notices_of(directory)
    (reason,) = reasons_of(directory)
    assert reason.endswith("set/2.png has 2 annotations, of several people; mark one as ground truth")


@pytest.mark.parametrize("name", ["cvat", "imagenet_txt", "vgg_face2", "coco_labels"])
def test_classes_of_whole_images(tmp_path: Path, name: str) -> None:
    """Without boxes there are labels and no objects."""
    exports.exporter(name, labels=True)(tmp_path / "in", SCENES)
    directory = make("images", None, tmp_path / "out", "--annotations", f"{name}={tmp_path / 'in'}")
    labels = (directory / "label.labels.txt").read_text().split()
    found = {
        Path(each["filename"].decode()).stem: labels[each["label"]]
        for split in shardmill.info(directory).splits
        for each in shardmill.examples(directory, split)
    }
    assert found == {scene.name[:3]: list(COLOURS)[number % 2] for number, scene in enumerate(SCENES)}
    assert not (directory / "objects-label.labels.txt").exists()
    assert "there is no object in any image" not in notices_of(directory)


def test_labels_of_open_images_that_are_verified_to_be_absent(tmp_path: Path) -> None:
    """A confidence of 0 says that the class is not in the image; classes have their names, not their ids."""
    folder = write_files(tmp_path / "in", {f"images/train/{name}.jpg": image(0) for name in ("a", "b")})
    header = "ImageID,Source,LabelName,Confidence\n"
    files = {
        "oidv6-class-descriptions.csv": "LabelName,DisplayName\n/m/01yrx,Cat\n/m/0bt9lr,Dog\n",
        "train-images-with-labels-with-rotation.csv": "ImageID,Subset\na,train\nb,train\n",
        "train-annotations-human-imagelabels.csv": f"{header}a,v,/m/01yrx,1\na,v,/m/0bt9lr,0\nb,v,/m/0bt9lr,1\n",
    }
    write_files(folder, {f"annotations/{name}": text.encode() for name, text in files.items()})
    directory = make("images", None, tmp_path / "out", "--annotations", folder)
    labels = (directory / "label.labels.txt").read_text().split()
    found = {each["filename"]: labels[each["label"]] for each in shardmill.examples(directory, "train")}
    assert found == {b"images/train/a.jpg": "Cat", b"images/train/b.jpg": "Dog"}
    absent = "annotations of open_images are left out: label that is verified to be absent (1)"
    assert absent in notices_of(directory)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (exports.exporter("coco"), "give --coco train={0}/annotations/instances_train.json --coco validation="),
        (exports.exporter("voc"), "give --voc {0}"),
        (exports.exporter("yolo_ultralytics"), "give --yolo {0}/data.yaml"),
        (exports.exporter("imagenet", labels=True), "these are images in folders; give --input {0}"),
        (
            exports.exporter("mnist", labels=True),
            "it holds idx files, which `shardmill arrays --stacked --input` reads",
        ),
        (exports.exporter("mnist_csv", labels=True), "it holds images that are not files of their own"),
        (exports.exporter("arrow"), "it holds images that are not files of their own"),
    ],
    ids=["COCO", "VOC", "YOLO", "folders", "MNIST", "MNIST CSV", "Arrow"],
)
def test_exports_that_other_flags_read(run: Run, tmp_path: Path, write: Write, words: str) -> None:
    folder = tmp_path / "in"
    same_size = [Scene(scene.name, (28, 28)) for scene in SCENES]
    write(folder, same_size if "it holds" in words else SCENES)
    message = stop(run, tmp_path, "--annotations", folder)
    assert words.format(folder) in message
    if given := re.search(r"give (--.*)", message):
        output = ("--output", tmp_path / "out", "--name", "n", "--max_reject_fraction", 0.5)
        assert run("images", *shlex.split(given[1]), *output).status == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("cityscapes={}", "--mask_pattern '{stem}_leftImg8bit={stem}_gtFine_labelIds'"),
        ("camvid={}", "its masks give each pixel a class; give --input the folder of the images, --masks"),
        ("tabular={}", "it holds a table, which `shardmill csv --input` reads"),
        ("tf_detection_api={}", "it holds TFRecords, which `shardmill reshard --input` reads"),
        ("cvta={}", "there is no format 'cvta'; did you mean cvat?"),
        ("roboflow_create_ml={}", "give --annotations createml={}"),
        ("kitti={}", "give --annotations kitti_detection={}"),
        ("celeba={}", "datumaro cannot read it as celeba: Failed to find dataset 'celeba'"),
        ("labelme={}", "no file in it looks like an export of labelme"),
        ("{}", "its format is not recognised; name it, for example --annotations cvat={}"),
        ("{}/none", "there is no such file or folder"),
        ("{}/export.zip", "is an archive; unpack it, and give the folder"),
        ("via={}/none.json", "there is no such file or folder"),
    ],
)
def test_what_is_not_read_is_answered(run: Run, tmp_path: Path, given: str, words: str) -> None:
    folder = write_files(tmp_path / "in", {"0.png": image(0, "PNG"), "x.txt": b"a"})
    assert words.replace("{}", str(folder)) in stop(run, tmp_path, "--annotations", given.replace("{}", str(folder)))


def test_a_file_of_coco_has_a_flag_of_its_own(run: Run, tmp_path: Path) -> None:
    boxes = [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 2]}]
    coco = {
        "images": [{"id": 1, "file_name": "0.png"}],
        "annotations": boxes,
        "categories": [{"id": 1, "name": "cat"}],
    }
    folder = write_files(tmp_path / "in", {"0.png": image(0, "PNG"), "a.json": json.dumps(coco).encode()})
    message = stop(run, tmp_path, "--annotations", folder / "a.json")
    advice = re.search(r"for example (--.*)", message)
    assert advice is not None
    assert run("images", *shlex.split(advice[1]), "--output", tmp_path / "out", "--name", "n").status == 0


def test_ambiguous_exports_stop(run: Run, tmp_path: Path, expected: Found) -> None:
    """Each flag that the message names works."""
    folder = tmp_path / "in"
    exports.labelme(folder / "images", SCENES)
    exports.cvat(folder, SCENES)
    message = stop(run, tmp_path, "--annotations", folder)
    flags = (f"--annotations cvat={folder}", f"--annotations labelme={folder}")
    assert f"it can be read as different formats; give {flags[0]} or {flags[1]}" in message
    for number, flag in enumerate(flags):
        assert objects_of(make("images", None, tmp_path / str(number), *flag.split())) == expected


def test_a_project_of_via_3_is_named(run: Run, tmp_path: Path) -> None:
    project = {"project": {"pid": "x"}, "config": {}, "file": {"1": {"fname": "0.png"}}, "metadata": {"a": {"xy": [2]}}}
    folder = write_files(tmp_path / "in", {"0.png": image(0, "PNG"), "via.json": json.dumps(project).encode()})
    assert "is a project of VIA 3; open it there and export it as COCO" in stop(run, tmp_path, "--annotations", folder)


def test_without_datumaro_the_message_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], expected: Found
) -> None:
    """Formats that shardmill reads do not need it."""
    monkeypatch.setitem(sys.modules, "datumaro", None)
    monkeypatch.setitem(sys.modules, "datumaro.components", None)
    monkeypatch.setitem(sys.modules, "datumaro.components.environment", None)
    exports.cvat(tmp_path / "cvat", SCENES)
    assert cli.main(["images", "--annotations", str(tmp_path / "cvat"), "--output", str(tmp_path), "--name", "n"]) == 2
    assert "--annotations cvat=… needs datumaro for all formats but boxes_csv, createml" in capsys.readouterr().err
    exports.via(tmp_path / "via", SCENES)
    assert objects_of(make("images", None, tmp_path / "out", "--annotations", tmp_path / "via")) == expected


def test_subsets_that_are_no_splits(tmp_path: Path) -> None:
    """CVAT's tasks, each a file: all images are of one split, and the job says so."""
    for number, part in enumerate((SCENES[:3], SCENES[3:])):
        exports.cvat(tmp_path / "in", part)
        (tmp_path / "in/annotations.xml").rename(tmp_path / f"in/task_{number}.xml")
    directory = make("images", None, tmp_path / "out", "--annotations", tmp_path / "in")
    assert list(shardmill.info(directory).splits) == ["train"]
    names = "'task_0', 'task_1'; all images are of one split"
    assert f"subsets of {tmp_path / 'in'} are no splits by their names: {names}" in notices_of(directory)


def layout(folder: Path, files: dict[str, str], *pictures: str, size: tuple[int, int] = (64, 48)) -> Path:
    """Files of a data set beside pictures without things."""
    for name in pictures:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size, (90, 60, 30)).save(path)
    return write_files(folder, {name: text.encode() for name, text in files.items()})


_KITTI_LINES = (
    "DontCare -1 -1 -10 1.00 1.00 5.00 5.00 -1 -1 -1 -1000 -1000 -1000 -10\n"
    "Car 0.00 0 -1.58 16.00 12.00 32.00 24.00 1.5 1.6 3.7 -16.5 2.4 58.5 -1.57\n"
)
_MULTICLASS = "filename, cat, dog\na.jpg, 1, 0\nb.jpg, 0, 1\n"
_CELEBA = {
    "list_eval_partition.txt": "000001.jpg 0\n000002.jpg 1\n",
    "Anno/identity_CelebA.txt": "000001.jpg 7\n000002.jpg 9\n",
    "Anno/list_landmarks_align_celeba.txt": (
        "2\nlefteye_x lefteye_y righteye_x righteye_y nose_x nose_y leftmouth_x leftmouth_y rightmouth_x rightmouth_y\n"
        "000001.jpg 1 2 3 4 5 6 7 8 9 10\n000002.jpg 1 2 3 4 5 6 7 8 9 10\n"
    ),
}
_VIDEO = """<annotations><version>1.1</version><meta><task><labels><label><name>cat</name></label></labels>
<original_size><width>64</width><height>48</height></original_size></task></meta>
<track id="0" label="cat" source="manual">
<box frame="0" keyframe="1" outside="0" occluded="0" xtl="16" ytl="12" xbr="32" ybr="24" z_order="0"></box>
<box frame="1" keyframe="1" outside="1" occluded="0" xtl="1" ytl="1" xbr="2" ybr="2" z_order="0"></box>
</track></annotations>"""
_LEFT_OUT = "left out of annotations of objects, of which the boxes are kept"
_BOX = [0.25, 0.25, 0.5, 0.5]


@pytest.mark.parametrize(
    ("files", "pictures", "name", "found", "words"),
    [
        (
            {"training/label_2/000000.txt": _KITTI_LINES},
            ("training/image_2/000000.png", "training/image_2/000001.png"),
            "kitti_detection",
            {"000000": ["Car"], "000001": []},
            "annotations of kitti_detection are left out: DontCare (1)",
        ),
        (
            {"annotations.xml": _VIDEO},
            ("images/frame_000000.PNG", "images/frame_000001.PNG"),
            "cvat",
            {"frame_000000": ["cat"], "frame_000001": []},
            "annotations of cvat are left out: box outside its frame (1)",
        ),
        (
            {"train/_classes.csv": _MULTICLASS, "valid/_classes.csv": "filename, cat, dog\nc.jpg, 1, 1\n"},
            ("train/a.jpg", "train/b.jpg", "valid/c.jpg"),
            "roboflow_multiclass",
            {"a": ["cat"], "b": ["dog"], "c": ["cat", "dog"]},
            "",
        ),
        (
            {"train/labelTxt/a.txt": "16 12 32 12 32 24 16 24 cat 0\n", "data.yaml": "nc: 1\nnames: [cat]\n"},
            ("train/images/a.jpg", "train/images/b.jpg"),
            "roboflow_yolo_obb",
            {"a": ["cat"]},
            f"{_LEFT_OUT}: rotated_bbox of 1",
        ),
        (
            _CELEBA | {"Anno/list_attr_celeba.txt": "2\nBald Young\n000001.jpg 1 -1\n000002.jpg 1 1\n"},
            ("Img/img_align_celeba/000001.jpg", "Img/img_align_celeba/000002.jpg"),
            "align_celeba",
            {"000001": ["class-7"], "000002": ["class-9"]},
            f"{_LEFT_OUT}: attribute Bald of images of 2, attribute Young of images of 1",
        ),
        (
            _CELEBA,
            ("Img/img_align_celeba/000001.jpg", "Img/img_align_celeba/000002.jpg"),
            "align_celeba",
            {"000001": ["class-7"], "000002": ["class-9"]},
            "annotations of align_celeba are left out: points (2)",
        ),
        (
            {},
            ("bottle/train/good/000.png", "bottle/test/broken/001.png", "bottle/ground_truth/broken/001_mask.png"),
            "mvtec_classification",
            {"000": ["good"], "001": ["broken"]},
            "",
        ),
    ],
    ids=["KITTI", "CVAT's video", "Roboflow's classes", "oriented boxes", "CelebA's attributes", "CelebA", "MVTec"],
)
def test_layouts_of_data_sets(
    tmp_path: Path, files: dict[str, str], pictures: Sequence[str], name: str, found: dict[str, list[str]], words: str
) -> None:
    folder = layout(tmp_path / "in", files, *pictures)
    inner = folder / "bottle" if name.startswith("mvtec") else folder
    directory = make("images", None, tmp_path / "out", "--annotations", f"{name}={inner}")
    assert classes_of(directory) == found
    assert not words or words in notices_of(directory)
    if name in ("kitti_detection", "cvat", "roboflow_yolo_obb"):
        assert [box for boxes in objects_of(directory).values() for _, box, _ in boxes] == [_BOX]


def classes_of(directory: Path) -> dict[str, list[str]]:
    """The classes of each picture, or of the objects in it, by its name without suffix."""
    path = next(path for name in ("objects-label", "label") if (path := directory / f"{name}.labels.txt").exists())
    names, key = path.read_text().split(), path.name.removesuffix(".labels.txt").replace("-", "/")
    return {
        Path(each["filename"].decode()).stem: [names[label] for label in np.atleast_1d(each[key])]
        for split in shardmill.info(directory).splits
        for each in shardmill.examples(directory, split)
    }


@pytest.mark.parametrize("name", ["label_me", "coco_panoptic", "cvat", "datumaro"])
def test_masks_become_the_boxes_around_them(tmp_path: Path, name: str) -> None:
    """The area is that of the mask."""
    exports.exporter(name, masks=True)(tmp_path / "in", SCENES)
    directory = make("images", None, tmp_path / "out", "--annotations", f"{name}={tmp_path / 'in'}")
    wanted = {
        scene.name[:3]: sorted((thing.box[2] * thing.box[3], thing.colour) for thing in scene.things)
        for scene in SCENES
    }
    found = objects_of(directory)
    assert {key: sorted((area, label) for label, _, area in boxes) for key, boxes in found.items()} == wanted
    number = sum(len(scene.things) for scene in SCENES)
    assert f"mask of {number}" in " ".join(notices_of(directory))


def test_every_format_of_the_page_is_one(tmp_path: Path) -> None:
    """docs/labelling-tools.md names formats that are read, and none that are refused."""
    text = (REPOSITORY / "docs" / "labelling-tools.md").read_text()
    rows = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    names = set(re.findall(r"`(?:--annotations )?([a-z_0-9]+)=?(?:folder|export[a-z.]*)?`", rows)) - {"names", "train"}
    known = {*READERS, *exports.dm.Environment().importers}
    assert len(names & known) >= 20
    assert not names & known & {*exports_module._MASKS, *exports_module._ELSEWHERE, *exports_module._FOLDERS}


def test_masks_and_the_names_of_the_object_detection_api(tmp_path: Path, expected: Found) -> None:
    """Masks lie in the folder of the export, under the names of its images, and are no images themselves."""
    exports.via(tmp_path / "in", SCENES)
    write_masks(tmp_path / "in" / "masks", SCENES)
    flags = ("--annotations", tmp_path / "in", "--masks", tmp_path / "in" / "masks")
    directory = make("images", None, tmp_path / "out", *flags)
    assert objects_of(directory) == expected
    masks = {each["filename"]: each["mask"] for each in shardmill.examples(directory, "train")}
    assert masks[b"000.png"] == (tmp_path / "in/masks/000.png").read_bytes()
    assert not [notice for notice in notices_of(directory) if "without an annotation" in notice]

    named = ("--annotations", tmp_path / "in/via_region_data.json", "--feature_names", "object_detection")
    directory = make("images", None, tmp_path / "api", *named)
    examples = shardmill.examples(directory, "train")
    found = {each["image/source_id"].decode()[:3]: sorted(each["image/object/class/text"]) for each in examples}
    assert found == {name: [label.encode() for label, *_ in objects] for name, objects in expected.items()}


def test_a_nightly_rebuild_follows_the_annotations(tmp_path: Path, run: Run) -> None:
    """An export that changed is built again; one that did not is not."""
    folder = tmp_path / "in"
    exports.cvat(folder, SCENES)
    path = tmp_path / "recipe.yaml"
    flags = ("--annotations", f"cvat={folder}", "--output", tmp_path / "out", "--name", "n", "--write_recipe", path)
    assert run("images", *flags).status == 0
    assert run("rebuild", path).status == 0
    second = run("rebuild", path)
    assert (second.status, "unchanged since 1.0.0" in second.out + second.err) == (0, True), second
    text = (folder / "annotations.xml").read_text()
    (folder / "annotations.xml").write_text(text.replace('label="red"', 'label="green"', 1))
    third = run("rebuild", path)
    assert third.status == 0, third.err
    assert len(list((tmp_path / "out/n").glob("[0-9]*"))) == 2


def test_large_files_are_recognised_by_their_beginning(tmp_path: Path, expected: Found) -> None:
    """LabelMe's polygons of many corners come before the name of the image."""
    exports.labelme(tmp_path / "in", SCENES)
    for scene in SCENES:
        path = tmp_path / "in" / f"{scene.name[:3]}.json"
        content = json.loads(path.read_text())
        for shape in content["shapes"]:
            (right, top), (left, bottom) = shape["points"]
            shape["shape_type"] = "polygon"
            shape["points"] = [[left, top], *([[right, top]] * 9000), [right, bottom], [left, bottom]]
        path.write_text(json.dumps(content))
    assert objects_of(make("images", None, tmp_path / "out", "--annotations", tmp_path / "in")) == expected


@pytest.mark.parametrize(
    ("name", "file", "change", "numbers"),
    [
        ("label_me", "**/001.xml", ("<deleted>0", "<deleted>1"), (2, 1)),
        ("open_images", "**/train-annotations-bbox.csv", ("001", "999"), (2, 1)),
    ],
)
def test_annotations_that_datumaro_drops_are_counted(
    tmp_path: Path, name: str, file: str, change: tuple[str, str], numbers: tuple[int, int]
) -> None:
    """Deleted objects, and boxes of images that do not exist."""
    drawn = [Scene(f"{number:03d}.png", (64, 48), SCENES[3].things[:1]) for number in range(2)]
    exports.exporter(name)(tmp_path / "in", drawn)
    (path,) = (tmp_path / "in").glob(file)
    path.write_text(path.read_text().replace(*change))
    flags = ("--annotations", tmp_path / "in", "--max_reject_fraction", 1)
    notices = notices_of(make("images", None, tmp_path / "out", *flags))
    counts = f"{tmp_path / 'in'} has {numbers[0]} annotations in its files, and datumaro returns {numbers[1]} of them"
    assert counts in notices


@pytest.mark.parametrize("kind", ["project", "job"])
def test_projects_and_jobs_of_cvat(tmp_path: Path, expected: Found, kind: str) -> None:
    """Two tasks of a project may have one subset, and one may have none: datumaro's importer loses images."""
    exports.cvat(tmp_path / "in", SCENES)
    path = tmp_path / "in/annotations.xml"
    text = path.read_text().replace("task>", f"{kind}>")
    splits = ["train"]
    if kind == "project":
        tasks = "".join(f"<task><subset>{name}</subset></task>" for name in ("Train", "Train", "Test"))
        text = text.replace("</project>", f"<subsets>Test\nTrain</subsets><tasks>{tasks}</tasks></project>")
        for number in range(6):
            subset = "Test" if number > 4 else "Train"
            text = text.replace(f'<image id="{number}"', f'<image id="{number}" subset="{subset}"')
        splits = ["train", "test"]
    path.write_text(text)
    write_files(tmp_path / "in", {"other.xml": b"<annotation><filename>x.png</filename></annotation>"})
    directory = make("images", None, tmp_path / "out", "--annotations", f"cvat={tmp_path / 'in'}")
    assert objects_of(directory) == expected
    assert list(shardmill.info(directory).splits) == splits
    assert not [notice for notice in notices_of(directory) if "left out" in notice]


def test_tasks_without_a_subset_in_a_project_of_cvat(tmp_path: Path, expected: Found) -> None:
    exports.cvat(tmp_path / "in", SCENES)
    path = tmp_path / "in/annotations.xml"
    tasks = "<tasks><task><subset></subset></task></tasks>"
    text = path.read_text().replace("task>", "project>").replace("</project>", f"{tasks}</project>")
    path.write_text(text.replace("<image ", '<image subset="default" '))
    assert objects_of(make("images", None, tmp_path / "out", "--annotations", tmp_path / "in")) == expected


@pytest.mark.parametrize("key", ["image", "imagefilename"])
def test_classes_of_createml(tmp_path: Path, key: str) -> None:
    """Apple's format for classifiers: a class for each image, as an object or a text; an invalid entry is a reject."""
    entries = [
        {key: "0.png", "annotations": [{"label": "cat"}]},
        {key: "1.png", "annotation": "dog"},
        {key: "2.png", "annotations": [{"label": "cat", "coordinates": {"x": "1", "y": 1, "width": 1, "height": 1}}]},
    ]
    folder = layout(tmp_path / "in", {"all.json": json.dumps(entries)}, "0.png", "1.png", "2.png")
    directory = make("images", None, tmp_path / "out", "--annotations", folder, "--max_reject_fraction", 1)
    assert classes_of(directory) == {"0": ["cat"], "1": ["dog"]}
    assert reasons_of(directory) == ['no annotation of CreateML\'s: x is "1"; expected a number']


def test_json_min_of_label_studio_is_named(run: Run, tmp_path: Path) -> None:
    value = {"x": 1, "y": 1, "width": 5, "height": 5, "rectanglelabels": ["cat"], "original_width": 64}
    tasks = [{"image": "/data/upload/1/0a1b2c3d-0.png", "id": 1, "label": [value]}]
    folder = layout(tmp_path / "in", {"min.json": json.dumps(tasks)}, "0.png")
    assert "export JSON, not JSON-MIN, or COCO for --coco" in stop(run, tmp_path, "--annotations", folder)
