"""Exports of labelling tools give the objects that --coco gives of the same pictures, or a reason why not."""

import base64
import inspect
import json
import re
import sys
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shardmill.addons.annotations import exports as exports_module
from shardmill.addons.annotations.export_readers import READERS
from shardmill.pipelines.config.files import ListedFilesConfig
from shardmill.pipelines.config.images import ImagesConfig
from shardmill.transforms.options.declare import options_of
from shardmill.transforms.options.image_options import ObjectOptions
from tests.support import exports
from tests.support.command import REPOSITORY, image
from tests.support.detection import COLOURS, Scene, draw, scenes, write_coco, write_masks
from tests.support.jobs import Built, Files, Jobs
from tests.support.masks import encoded
from tests.support.reading import make

SCENES = scenes(6)
READ = "images --annotations in"
ALL = f"{READ} --max_reject_fraction 1"
Write = Callable[[Path, Sequence[Scene]], None]
Found = dict[str, list[tuple[str, list[float], float]]]
_LEFT_OUT = "left out of annotations of objects, of which the boxes are kept"


def names_of(made: Built, feature: str = "label") -> list[str]:
    """The names of a feature's classes."""
    return (made.directory / f"{feature}.labels.txt").read_text().split()


def objects_of(made: Built) -> Found:
    """The objects in each picture, by its name without suffix: class, box and area, sorted."""
    names = names_of(made, "objects-label")
    return {
        Path(each["filename"].decode()).stem: sorted(
            (names[label], [round(float(edge), 4) for edge in box], round(float(area), 1))
            for label, box, area in zip(each["objects/label"], each["objects/bbox"], each["objects/area"], strict=True)
        )
        for split in made.manifest.splits
        for each in made.examples(split.name)
    }


def classes_of(made: Built) -> dict[str, list[str]]:
    """The classes of each picture, or of the objects in it, by its name without suffix."""
    feature = next(name for name in ("objects-label", "label") if (made.directory / f"{name}.labels.txt").exists())
    names = names_of(made, feature)
    return {
        Path(each["filename"].decode()).stem: [names[label] for label in np.atleast_1d(each[feature.replace("-", "/")])]
        for split in made.manifest.splits
        for each in made.examples(split.name)
    }


def reasons_of(made: Built) -> list[str]:
    return sorted(reject["reason"] for reject in made.rejects)


def has_notice(made: Built, words: str) -> bool:
    return any(words in notice for notice in made.notices)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("coco")
    directory = make("images", None, folder / "out", "--coco", write_coco(folder / "in", SCENES))
    return objects_of(Built(directory))


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
def test_the_objects_are_those_of_coco(jobs: Jobs, tmp_path: Path, expected: Found, name: str, write: Write) -> None:
    write(tmp_path / "in", SCENES)
    made = jobs.build(READ)
    assert (objects_of(made), made.rejects) == (expected, [])
    assert not has_notice(made, "left out")
    splits = ["train", "validation"] if write.__name__ in ("write", "roboflow_createml") else ["train"]
    assert [split.name for split in made.manifest.splits] == splits


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


def test_shapes_without_a_box_are_counted_by_kind(jobs: Jobs, tmp_path: Path) -> None:
    """Also those that datumaro passes over: ellipses, cuboids and skeletons."""
    exports.cvat(tmp_path / "in", [Scene("0.png", (64, 48)), *SCENES[1:]], MORE_SHAPES)
    rejected = jobs.build(f"{ALL} --name rejected")
    (reason,) = reasons_of(rejected)
    assert reason.startswith("an object in it is of the kind p")
    assert "without an annotation" not in rejected.said
    made = jobs.build(f"{READ} --unread_objects drop")
    assert objects_of(made)["0"] == [
        ("blue", [round(5 / 48, 4), round(15 / 64, 4), round(25 / 48, 4), round(25 / 64, 4)], 200.0),
        ("red", [round(1 / 48, 4), round(1 / 64, 4), round(11 / 48, 4), round(21 / 64, 4)], 100.0),
    ]
    kinds = "cuboid (1), ellipse (1), points (2), polyline (1), skeleton (1)"
    assert f"annotations of cvat are left out: {kinds}" in made.notices
    left_out = "attribute c of 1, attribute occluded of 1, polygon of 1, rotated_bbox of 1"
    assert f"{_LEFT_OUT}: {left_out}" in made.notices
    tagged = {each["filename"]: each["label"].tolist() for each in made.examples()}
    assert (names_of(made), tagged[b"images/0.png"], tagged[b"images/001.png"]) == (["green"], [0], [])


@pytest.mark.parametrize("write", [exports.cvat, exports.label_studio])
def test_images_may_be_elsewhere(jobs: Jobs, tmp_path: Path, expected: Found, write: Write) -> None:
    """Without --input the message says what to give; a missing image is a reject."""
    write(tmp_path / "in", SCENES)
    pictures = tmp_path / "pictures" / "all"
    pictures.mkdir(parents=True)
    for path in (tmp_path / "in").rglob("*.png"):
        path.rename(pictures / path.name)
    jobs.refuse(READ, "none of its 6 images, such as…is in in; give --input, the folder of the images")
    (pictures / "005.png").unlink()
    made = jobs.build(f"{ALL} --input pictures")
    assert objects_of(made) == {name: found for name, found in expected.items() if name != "005"}
    assert reasons_of(made) == ["there is no such image"]


def test_names_of_windows_and_of_other_folders(jobs: Jobs, tmp_path: Path) -> None:
    for number, name in enumerate(("..\\pictures\\a.png", "C:\\Users\\me\\b.png", "/home/me/c.png", "x/a.png")):
        draw(Scene(name.replace("\\", "/").rpartition("/")[2], (64, 48)), tmp_path / "in/pictures")
        shape = {"label": "cat", "points": [[1, 1], [9, 9]], "shape_type": "rectangle"}
        content = {"shapes": [shape], "imagePath": name, "imageHeight": 48, "imageWidth": 64}
        jobs.write({f"labels/{number}.json": json.dumps(content)})
    draw(Scene("c.png", (64, 48)), tmp_path / "in/others")
    made = jobs.build(ALL)
    assert set(objects_of(made)) == {"a", "b"}
    assert reasons_of(made) == ["it can be others/c.png or pictures/c.png", "there is no such image"]
    assert "2 file names have backslashes, which are read as /" in made.notices


def test_labelme_shapes(jobs: Jobs, tmp_path: Path) -> None:
    shapes = [
        ("polygon", [[0, 0], [10, 0], [0, 10]]),
        ("circle", [[20, 20], [23, 24]]),
        ("oriented_rectangle", [[30, 10], [35, 15], [30, 20], [25, 15]]),
        ("mask", [[40, 5], [50, 15]]),
        ("linestrip", [[1, 1], [2, 2]]),
        ("point", [[1, 1]]),
        ("rectangle", [[0, 0], [4, 0], [4, 5], [0, 5]]),
        ("rotation", [[30, 10], [35, 15], [30, 20], [25, 15]]),
    ]
    pixels = base64.b64encode(encoded(Image.fromarray(np.eye(11, dtype=bool)), "PNG")).decode()
    listed = [
        {"label": "cat", "points": points, "shape_type": kind, "group_id": 1, "mask": pixels} for kind, points in shapes
    ]
    exports.labelme(tmp_path / "in", [Scene("0.png", (64, 48))], shapes=listed, flags={"day": True, "night": False})
    exports.labelme(tmp_path / "in", [Scene("1.png", (64, 48))], shapes=[{"label": "cat", "points": [[1, 1]]}])
    files = {"2.json": '{"shapes": [], "imagePath": 1', "2.png": image(2, "PNG"), "n.json": "{}"}
    made = jobs.build(f"{ALL} --unread_objects drop", files=files)

    boxes = [[0, 0, 10, 10], [15, 15, 25, 25], *[[10, 25, 20, 35]] * 2, [5, 40, 16, 51], [0, 0, 5, 4]]
    relative = [[round(edge / (48, 64)[index % 2], 4) for index, edge in enumerate(box)] for box in boxes]
    areas = [50.0, 78.5, 50.0, 50.0, 11.0, 20.0]
    assert objects_of(made) == {"0": sorted(("cat", *each) for each in zip(relative, areas, strict=True))}
    assert "annotations of labelme are left out: linestrip (1), point (1)" in made.notices
    assert "not read as labelme: 1 file, such as 'n.json'" in made.notices
    assert names_of(made) == ["day"]
    (few, not_json) = reasons_of(made)
    assert few == "no annotation of LabelMe's: a polygon has 1 points"
    assert not_json.startswith("no annotation of LabelMe's: it is not JSON: unexpe")


def via_file(*regions: dict[str, Any]) -> Files:
    """VIA's annotations of one picture."""
    box = {"name": "rect", "x": 1, "y": 2, "width": 3, "height": 4}
    listed = [{"shape_attributes": box, "region_attributes": {}} | each for each in regions]
    entry = {"filename": "0.png", "size": 1, "regions": listed, "file_attributes": {"caption": "a"}}
    return {"0.png": encoded(Image.new("RGB", (64, 48)), "PNG"), "via.json": json.dumps({"0.png1": entry})}


def test_the_attribute_of_via_that_is_the_class(jobs: Jobs) -> None:
    files = via_file({"region_attributes": {"colour": "red", "shape": {"round": True, "flat": False}}})
    jobs.refuse(READ, "which is the class? --label_column colour or --label_column shape", files=files)
    for attribute, name in (("colour", "red"), ("shape", "round")):
        made = jobs.build(f"{READ} --label_column {attribute} --overwrite")
        assert [found[0] for found in objects_of(made)["0"]] == [name]
    assert has_notice(made, "attribute caption of files of 1, attribute colour of 1")
    jobs.refuse(f"{READ} --label_column size --name other", "regions in")


def test_via_shapes_and_regions_without_a_class(jobs: Jobs) -> None:
    """All objects are of one class if no region has an attribute."""
    shapes: list[dict[str, Any]] = [
        {"name": "polygon", "all_points_x": [0, 10, 0], "all_points_y": [0, 0, 10]},
        {"name": "circle", "cx": 10, "cy": 10, "r": 5},
        {"name": "ellipse", "cx": 10, "cy": 10, "rx": 5, "ry": 2, "theta": 1.5707963267948966},
        {"name": "polyline", "all_points_x": [1, 2], "all_points_y": [1, 2]},
        {"name": "point", "cx": 1, "cy": 1},
    ]
    made = jobs.build(f"{READ} --unread_objects drop", files=via_file(*({"shape_attributes": one} for one in shapes)))
    found = sorted((name, area) for name, _, area in objects_of(made)["0"])
    assert found == [("object", 31.4), ("object", 50.0), ("object", 78.5)]
    assert "no annotation of via names a class: all objects are of the class 'object'" in made.notices
    assert "annotations of via are left out: point (1), polyline (1)" in made.notices

    files = via_file({"region_attributes": {"a": "red"}}, {"region_attributes": {"a": ""}})
    more = via_file({"region_attributes": {"a": "red"}})["via.json"].replace("0.png", "1.png")
    made = jobs.build(f"{ALL} --overwrite", files={**files, "more.json": more, "1.png": image(1, "PNG")})
    assert (list(objects_of(made)), reasons_of(made)) == (["1"], ["an object in it has no class"])


def studio_task(number: int, *results: dict[str, Any], annotations: int = 1) -> dict[str, Any]:
    given = [{"id": index, "result": list(results), "was_cancelled": False} for index in range(annotations)]
    return {"id": number, "annotations": given, "data": {"image": f"/data/local-files/?d=set/{number}.png"}}


def test_label_studio_s_shapes_and_choices(jobs: Jobs, tmp_path: Path) -> None:
    def shape(kind: str, **value: Any) -> dict[str, Any]:
        return {"type": kind, "original_width": 50, "original_height": 40, "value": value | {kind: ["cat"]}}

    first = studio_task(
        0,
        shape("rectanglelabels", x=60, y=10, width=20, height=50, rotation=90),
        shape("polygonlabels", points=[[0, 0], [20, 0], [0, 25]]),
        shape("ellipselabels", x=50, y=50, radiusX=10, radiusY=10, rotation=0),
        shape("brushlabels", format="rle", rle=[1]),
        shape("keypointlabels", x=1, y=1, width=0.5),
        {"type": "choices", "value": {"choices": ["indoor"]}},
    )
    second = studio_task(1, {"type": "choices", "value": {"choices": ["outdoor", "wet"]}})
    skipped = studio_task(3)
    skipped["annotations"][0]["was_cancelled"] = True
    unfinished = [skipped, studio_task(4, annotations=0), studio_task(5)]  # of the last somebody says: nothing there
    tasks = [first, second | {"predictions": [{"result": []}]}, studio_task(2, annotations=2), *unfinished]
    for number in range(6):
        draw(Scene(f"{number}.png", (50, 40)), tmp_path / "in/set")
    made = jobs.build(f"{ALL} --unread_objects drop", files={"tasks.json": json.dumps(tasks)})

    assert objects_of(made)["0"] == [
        ("cat", [0.0, 0.0, 0.25, 0.2], 50.0),
        ("cat", [0.1, 0.2, 0.35, 0.6], 200.0),
        ("cat", [0.4, 0.4, 0.6, 0.6], 62.8),
    ]
    tagged = {each["filename"]: each["label"].tolist() for each in made.examples()}
    assert (names_of(made), tagged) == (
        ["indoor", "outdoor", "wet"],
        {b"set/0.png": [0], b"set/1.png": [1, 2], b"set/5.png": []},
    )
    kinds = "brushlabels (1), keypointlabels (1), prediction (1), skipped task (1), task without an annotation (1)"
    assert f"annotations of label_studio are left out: {kinds}" in made.notices
    (reason,) = reasons_of(made)
    assert reason.endswith("set/2.png has 2 annotations, of several people; mark one as ground truth")


@pytest.mark.parametrize("name", ["cvat", "imagenet_txt", "vgg_face2", "coco_labels"])
def test_classes_of_whole_images(jobs: Jobs, tmp_path: Path, name: str) -> None:
    """Without boxes there are labels and no objects."""
    exports.exporter(name, labels=True)(tmp_path / "in", SCENES)
    made = jobs.build(f"images --annotations {name}=in")
    assert classes_of(made) == {scene.name[:3]: [list(COLOURS)[number % 2]] for number, scene in enumerate(SCENES)}
    assert not (made.directory / "objects-label.labels.txt").exists()
    assert "there is no object in any image" not in made.notices


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (exports.exporter("coco"), "give --coco train=in/annotations/instances_train.json --coco validation="),
        (exports.exporter("voc"), "give --voc in"),
        (exports.exporter("yolo_ultralytics"), "give --yolo in/data.yaml"),
        (exports.exporter("imagenet", labels=True), "these are images in folders; give --input in"),
        (
            exports.exporter("mnist", labels=True),
            "it holds idx files, which `shardmill arrays --stacked --input` reads",
        ),
        (exports.exporter("mnist_csv", labels=True), "it holds images that are not files of their own"),
        (exports.exporter("arrow"), "it holds images that are not files of their own"),
    ],
    ids=["COCO", "VOC", "YOLO", "folders", "MNIST", "MNIST CSV", "Arrow"],
)
def test_exports_that_other_flags_read(jobs: Jobs, tmp_path: Path, write: Write, words: str) -> None:
    same_size = [Scene(scene.name, (28, 28)) for scene in SCENES]
    write(tmp_path / "in", same_size if "it holds" in words else SCENES)
    jobs.refuse(READ, words)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("cityscapes=in", "--mask_pattern '{stem}_leftImg8bit={stem}_gtFine_labelIds'"),
        ("camvid=in", "its masks give each pixel a class; give --input the folder of the images, --masks"),
        ("tabular=in", "it holds a table, which `shardmill csv --input` reads"),
        ("tf_detection_api=in", "it holds TFRecords, for `shardmill reshard --input`"),
        ("cvta=in", "there is no format 'cvta'; did you mean cvat?"),
        ("roboflow_create_ml=in", "give --annotations createml=in"),
        ("celeba=in", "datumaro cannot read it as celeba: Failed to find dataset 'celeba'"),
        ("labelme=in", "no file in it looks like an export of labelme"),
        ("in", "its format is not recognised; name it, for example --annotations cvat=in"),
        ("in/none", "there is no such file or folder"),
        ("in/export.zip", "is an archive; unpack it, and give the folder"),
        ("via=in/none.json", "there is no such file or folder"),
        *(
            (f"{name}=in/cut.json", f"{name}=in/cut.json: it is not JSON: …: line 1 column 11…; expected {what}")
            for name, what in (("createml", "a list of"), ("via", "an object of"), ("label_studio", "a list of tasks"))
        ),
        ("createml=in/number.json", "it holds 5; expected a list of images"),
        ("via=in/list.json", "it holds [1]; expected an object of images"),
        ("labelme=in/list.json", "it holds [1]; expected an object with 'shapes'"),
        ("createml=in/list.json", "a value in it is of another kind: 'int' object"),
        ("via=in/latin.json", "--annotations in/latin.json is not UTF-8 from byte 3 on"),
        ("label_studio=in/deep.json", "depth limit exceeded"),
        ("via=in/regions.json", "a value in it is of another kind"),
        ("via=in/unnamed.csv", 'filename is ""; expected a text'),
        ("labelme=in/mask.json", "a mask cannot be read: cannot identify image file"),
    ],
)
def test_what_is_not_read_is_answered(jobs: Jobs, given: str, words: str) -> None:
    named = {name: data for name, data in _FAULTY.items() if given.endswith(f"/{name}")}
    jobs.refuse(f"images --annotations {given}", words, files={"0.png": image(0, "PNG"), "x.txt": "a"} | named)


_MASK = {"label": "cat", "points": [[1, 1], [2, 2]], "shape_type": "mask", "mask": "aGVsbG8="}
_FAULTY = {
    "cut.json": b'[{"a": "b"',
    "number.json": b"5",
    "list.json": b"[1]",
    "latin.json": b'{"\xe9": 1}',
    "deep.json": b"[" * 100_000,
    "regions.json": b'{"a": {"filename": "0.png", "regions": 5}}',
    "unnamed.csv": b"name,region_shape_attributes\n0.png,{}\n",
    "mask.json": json.dumps({"imagePath": "0.png", "shapes": [_MASK]}).encode(),
}


_MIN = {"x": 1, "y": 1, "width": 5, "height": 5, "rectanglelabels": ["cat"], "original_width": 64}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            {"project": {"pid": "x"}, "config": {}, "file": {"1": {"fname": "0.png"}}, "metadata": {"a": {"xy": [2]}}},
            "is a project of VIA 3; open it there and export COCO",
        ),
        (
            [{"image": "/data/upload/1/0a1b2c3d-0.png", "id": 1, "label": [_MIN]}],
            "export JSON, not JSON-MIN, or COCO for --coco",
        ),
    ],
    ids=["VIA 3", "Label Studio's JSON-MIN"],
)
def test_what_tools_write_beside_exports_is_named(jobs: Jobs, content: Any, words: str) -> None:
    jobs.refuse(READ, words, files={"0.png": image(0, "PNG"), "a.json": json.dumps(content)})


def test_a_file_of_coco_has_a_flag_of_its_own(jobs: Jobs) -> None:
    images, categories = [{"id": 1, "file_name": "0.png"}], [{"id": 1, "name": "cat"}]
    boxes = [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 2]}]
    coco = {"images": images, "annotations": boxes, "categories": categories}
    line = "images --annotations in/a.json"
    jobs.refuse(line, "for example --", files={"0.png": image(0, "PNG"), "a.json": json.dumps(coco)})
    jobs.build(f"images --annotations coco=in/a.json {jobs.run(line).err.partition('for example ')[2]}")


def test_ambiguous_exports_stop(jobs: Jobs, tmp_path: Path, expected: Found) -> None:
    """Each flag that the message names works."""
    exports.labelme(tmp_path / "in/images", SCENES)
    exports.cvat(tmp_path / "in", SCENES)
    flags = ("--annotations cvat=in", "--annotations labelme=in")
    jobs.refuse(READ, f"it can be read as different formats; give {flags[0]} or {flags[1]}")
    for flag in flags:
        assert objects_of(jobs.build(f"images --overwrite {flag}")) == expected


def test_without_datumaro_the_message_names_the_extra(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: Found
) -> None:
    """Formats that shardmill reads do not need it."""
    for name in ("datumaro", "datumaro.components", "datumaro.components.environment"):
        monkeypatch.setitem(sys.modules, name, None)
    exports.cvat(tmp_path / "cvat", SCENES)
    sentence = "--annotations cvat=…needs datumaro for all formats but boxes_csv, createml"
    jobs.refuse("images --annotations cvat", sentence)
    exports.via(tmp_path / "in", SCENES)
    assert objects_of(jobs.build(READ)) == expected


def layout(files: dict[str, str], *pictures: str) -> Files:
    """Files of a data set, and pictures without things."""
    plain = Image.new("RGB", (64, 48), (90, 60, 30))
    return {name: encoded(plain, "JPEG" if name.endswith(".jpg") else "PNG") for name in pictures} | dict(files)


_KITTI_LINES = (
    "DontCare -1 -1 -10 1.00 1.00 5.00 5.00 -1 -1 -1 -1000 -1000 -1000 -10\n"
    "Car 0.00 0 -1.58 16.00 12.00 32.00 24.00 1.5 1.6 3.7 -16.5 2.4 58.5 -1.57\n"
)
_MULTICLASS = "filename, cat, dog\na.jpg, 1, 0\nb.jpg, 0, 1\n"
_LANDMARKS = "lefteye_x lefteye_y righteye_x righteye_y nose_x nose_y leftmouth_x leftmouth_y rightmouth_x rightmouth_y"
_CELEBA = {
    "list_eval_partition.txt": "000001.jpg 0\n000002.jpg 1\n",
    "Anno/identity_CelebA.txt": "000001.jpg 7\n000002.jpg 9\n",
    "Anno/list_landmarks_align_celeba.txt": (
        f"2\n{_LANDMARKS}\n000001.jpg 1 2 3 4 5 6 7 8 9 10\n000002.jpg 1 2 3 4 5 6 7 8 9 10\n"
    ),
}
_FACES = tuple(f"Img/img_align_celeba/00000{number}.jpg" for number in (1, 2))
_VIDEO = """<annotations><version>1.1</version><meta><task><labels><label><name>cat</name></label></labels>
<original_size><width>64</width><height>48</height></original_size></task></meta>
<track id="0" label="cat" source="manual">
<box frame="0" keyframe="1" outside="0" occluded="0" xtl="16" ytl="12" xbr="32" ybr="24" z_order="0"></box>
<box frame="1" keyframe="1" outside="1" occluded="0" xtl="1" ytl="1" xbr="2" ybr="2" z_order="0"></box>
</track></annotations>"""
# Open Images: a confidence of 0 says that the class is not in the image; classes have their names, not their ids
_OPEN_IMAGES = {
    "annotations/oidv6-class-descriptions.csv": "LabelName,DisplayName\n/m/01yrx,Cat\n/m/0bt9lr,Dog\n",
    "annotations/train-images-with-labels-with-rotation.csv": "ImageID,Subset\na,train\nb,train\n",
    "annotations/train-annotations-human-imagelabels.csv": (
        "ImageID,Source,LabelName,Confidence\na,v,/m/01yrx,1\na,v,/m/0bt9lr,0\nb,v,/m/0bt9lr,1\n"
    ),
}


@pytest.mark.parametrize(
    ("files", "pictures", "flag", "found", "words"),
    [
        (
            {"training/label_2/000000.txt": _KITTI_LINES},
            ("training/image_2/000000.png", "training/image_2/000001.png"),
            "kitti_detection=in",
            {"000000": ["Car"], "000001": []},
            "annotations of kitti_detection are left out: DontCare (1)",
        ),
        (
            {"gt/gt.txt": "1,1,16,12,16,12,1,1,1\n1,2,1,1,9,9,0,1,1\n", "gt/labels.txt": "cat\n"},
            ("img1/000001.jpg",),
            "mot_seq=in",
            {"000001": ["cat"]},
            "annotations of mot_seq are left out: row of confidence 0 (1)",
        ),
        (
            {"annotations.xml": _VIDEO},
            ("images/frame_000000.PNG", "images/frame_000001.PNG"),
            "cvat=in",
            {"frame_000000": ["cat"], "frame_000001": []},
            "annotations of cvat are left out: box outside its frame (1)",
        ),
        (
            {"train/_classes.csv": _MULTICLASS, "valid/_classes.csv": "filename, cat, dog\nc.jpg, 1, 1\n"},
            ("train/a.jpg", "train/b.jpg", "valid/c.jpg"),
            "roboflow_multiclass=in",
            {"a": ["cat"], "b": ["dog"], "c": ["cat", "dog"]},
            "",
        ),
        (
            {"train/labelTxt/a.txt": "16 12 32 12 32 24 16 24 cat 0\n", "data.yaml": "nc: 1\nnames: [cat]\n"},
            ("train/images/a.jpg", "train/images/b.jpg"),
            "roboflow_yolo_obb=in",
            {"a": ["cat"]},
            f"{_LEFT_OUT}: rotated_bbox of 1",
        ),
        (
            _CELEBA | {"Anno/list_attr_celeba.txt": "2\nBald Young\n000001.jpg 1 -1\n000002.jpg 1 1\n"},
            _FACES,
            "align_celeba=in",
            {"000001": ["class-7"], "000002": ["class-9"]},
            f"{_LEFT_OUT}: attribute Bald of images of 2, attribute Young of images of 1",
        ),
        (
            _CELEBA,
            _FACES,
            "align_celeba=in",
            {"000001": ["class-7"], "000002": ["class-9"]},
            "annotations of align_celeba are left out: points (2)",
        ),
        (
            {},
            ("bottle/train/good/000.png", "bottle/test/broken/001.png", "bottle/ground_truth/broken/001_mask.png"),
            "mvtec_classification=in/bottle",
            {"000": ["good"], "001": ["broken"]},
            "",
        ),
        (
            _OPEN_IMAGES,
            ("images/train/a.jpg", "images/train/b.jpg"),
            "in",
            {"a": ["Cat"], "b": ["Dog"]},
            "annotations of open_images are left out: label that is verified to be absent (1)",
        ),
    ],
    ids=["KITTI", "MOT", "CVAT", "Roboflow", "oriented", "CelebA's attributes", "CelebA", "MVTec", "Open Images"],
)
def test_layouts_of_data_sets(
    jobs: Jobs, files: dict[str, str], pictures: Sequence[str], flag: str, found: dict[str, list[str]], words: str
) -> None:
    made = jobs.build(f"images --annotations {flag}", files=layout(files, *pictures))
    assert classes_of(made) == found
    assert not words or words in made.notices
    if flag in ("kitti_detection=in", "cvat=in", "roboflow_yolo_obb=in"):
        assert [box for boxes in objects_of(made).values() for _, box, _ in boxes] == [[0.25, 0.25, 0.5, 0.5]]


@pytest.mark.parametrize("key", ["image", "imagefilename"])
def test_classes_of_createml(jobs: Jobs, key: str) -> None:
    """Apple's format for classifiers: a class for each image, as an object or a text; an invalid entry is a reject."""
    entries = [
        {key: "0.png", "annotations": [{"label": "cat"}]},
        {key: "1.png", "annotation": "dog"},
        {key: "2.png", "annotations": [{"label": "cat", "coordinates": {"x": "1", "y": 1, "width": 1, "height": 1}}]},
    ]
    made = jobs.build(ALL, files=layout({"all.json": json.dumps(entries)}, "0.png", "1.png", "2.png"))
    assert classes_of(made) == {"0": ["cat"], "1": ["dog"]}
    assert reasons_of(made) == ['no annotation of CreateML\'s: x is "1"; expected a number']


@pytest.mark.parametrize("name", ["label_me", "coco_panoptic", "cvat", "datumaro"])
def test_masks_become_the_boxes_around_them(jobs: Jobs, tmp_path: Path, name: str) -> None:
    """The mask gives the area."""
    exports.exporter(name, masks=True)(tmp_path / "in", SCENES)
    made = jobs.build(f"images --annotations {name}=in")
    assert {key: sorted((area, label) for label, _, area in boxes) for key, boxes in objects_of(made).items()} == {
        scene.name[:3]: sorted((thing.box[2] * thing.box[3], thing.colour) for thing in scene.things)
        for scene in SCENES
    }
    assert has_notice(made, f"mask of {sum(len(scene.things) for scene in SCENES)}")


KINDS = {"folder": "--input", "coco": "--coco", "voc": "--voc", "yolo": "--yolo", "boxes_csv": "--boxes_csv"}
KINDS |= {name: f"--annotations {name}=" for name in (*READERS, "cvat") if name not in KINDS}
_ANNOTATED = KINDS.keys() - {"folder"}
EFFECTS: dict[str, Set[str]] = {  # flags with a value, and the inputs that they have an effect on
    **dict.fromkeys(("--on_bad_box drop", "--boxes_seen stored", "--allow_outside"), _ANNOTATED),
    "--feature_names object_detection": _ANNOTATED,
    "--unread_objects drop": {"coco", "cvat", "label_studio", "labelme", "via"},
    "--label_column other": {"boxes_csv", "via"},
    "--file_root other": {"coco"},
    **dict.fromkeys(("--label_pattern '(?P<label>.)'", "--split_lists test=in/a.txt"), frozenset(("folder",))),
    **dict.fromkeys(("--file_column other", "--file_suffix .jpg", "--split_column other"), frozenset[str]()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_flag_without_an_effect_on_the_input_is_a_mistake(jobs: Jobs, kind: str) -> None:
    """Every flag of annotations and of listed files has its row. No input exists, which stops jobs with other flags."""
    fields = {*inspect.get_annotations(ObjectOptions), *inspect.get_annotations(ListedFilesConfig)}
    options = {item.name for item in options_of(ImagesConfig) if item.field in fields and not item.flag.hidden}
    assert options - {"manifest", "input"} == {flag.split()[0][2:] for flag in EFFECTS}
    jobs.write({"a.txt": b""})
    for flag, kinds in EFFECTS.items():
        result = jobs.run(f"images {KINDS[kind]}{'gone' if KINDS[kind].endswith('=') else ' gone'} {flag}")
        assert (result.status, flag.split()[0] in result.err) == (2, kind not in kinds), result.err


def test_every_format_of_the_page_is_one() -> None:
    """docs/labelling-tools.md names formats that are read, and none that are refused."""
    text = (REPOSITORY / "docs" / "labelling-tools.md").read_text()
    rows = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    names = set(re.findall(r"`(?:--annotations )?([a-z_0-9]+)=?(?:folder|export[a-z.]*)?`", rows)) - {"names", "train"}
    known = {*READERS, *exports.dm.Environment().importers}
    assert len(names & known) >= 20
    assert not names & known & exports_module._ELSEWHERE.keys()


def test_masks_and_the_names_of_the_object_detection_api(jobs: Jobs, tmp_path: Path, expected: Found) -> None:
    """Masks lie in the folder of the export, under the names of its images, and are no images themselves."""
    exports.via(tmp_path / "in", SCENES)
    write_masks(tmp_path / "in" / "masks", SCENES)
    made = jobs.build(f"{READ} --masks in/masks")
    assert objects_of(made) == expected
    masks = {each["filename"]: each["mask"] for each in made.examples()}
    assert masks[b"000.png"] == (tmp_path / "in/masks/000.png").read_bytes()
    assert not has_notice(made, "without an annotation")

    line = "images --annotations in/via_region_data.json --feature_names object_detection --name api"
    examples = jobs.build(line).examples()
    found = {each["image/source_id"].decode()[:3]: sorted(each["image/object/class/text"]) for each in examples}
    assert found == {name: [label.encode() for label, *_ in objects] for name, objects in expected.items()}


def test_large_files_are_recognised_by_their_beginning(jobs: Jobs, tmp_path: Path, expected: Found) -> None:
    """LabelMe's polygons of many corners come before the name of the image."""
    exports.labelme(tmp_path / "in", SCENES)
    for path in (tmp_path / "in").glob("*.json"):
        content = json.loads(path.read_text())
        for shape in content["shapes"]:
            (right, top), (left, bottom) = shape["points"]
            shape["shape_type"] = "polygon"
            shape["points"] = [[left, top], *([[right, top]] * 9000), [right, bottom], [left, bottom]]
        path.write_text(json.dumps(content))
    assert objects_of(jobs.build(READ)) == expected


@pytest.mark.parametrize(
    ("name", "file", "change", "words"),
    [
        ("label_me", "**/001.xml", ("<deleted>0", "<deleted>1"), "left out: deleted object (2)"),
        ("label_me", "**/001.xml", ("<id>1", "<id>0"), "1 object in it cannot be read: each needs a <polygon>"),
        ("label_me", "**/001.xml", ("polygon>", "bndbox>"), "2 objects in it cannot be read: each needs a <polygon>"),
        ("open_images", "**/train-annotations-bbox.csv", ("001", "999"), "there is no image to its annotations"),
    ],
)
def test_annotations_that_datumaro_drops_are_rejects_unless_they_were_deleted(
    jobs: Jobs, tmp_path: Path, name: str, file: str, change: tuple[str, str], words: str
) -> None:
    drawn = [Scene(f"{number:03d}.png", (64, 48), (SCENES[3].things[0],) * 2) for number in range(2)]
    exports.exporter(name)(tmp_path / "in", drawn)
    (path,) = (tmp_path / "in").glob(file)
    path.write_text(path.read_text().replace(*change))
    made = jobs.build(f"images --annotations {name}=in --max_reject_fraction 1")
    assert any(words in each for each in (reasons_of(made) or made.notices))


def test_subsets_that_are_no_splits(jobs: Jobs, tmp_path: Path) -> None:
    """CVAT's tasks, each a file: all images are of one split, and the job says so."""
    for number, part in enumerate((SCENES[:3], SCENES[3:])):
        exports.cvat(tmp_path / "in", part)
        (tmp_path / "in/annotations.xml").rename(tmp_path / f"in/task_{number}.xml")
    made = jobs.build(READ)
    assert [split.name for split in made.manifest.splits] == ["train"]
    names = "'task_0', 'task_1'; all images are of one split"
    assert f"subsets of in are no splits by their names: {names}" in made.notices


@pytest.mark.parametrize("kind", ["project", "job", "tasks without a subset"])
def test_projects_and_jobs_of_cvat(jobs: Jobs, tmp_path: Path, expected: Found, kind: str) -> None:
    """Two tasks of a project may have one subset, and one may have none: datumaro's importer loses images."""
    exports.cvat(tmp_path / "in", SCENES)
    path = tmp_path / "in/annotations.xml"
    text = path.read_text().replace("task>", "job>" if kind == "job" else "project>")
    splits = ["train"]
    if kind == "project":
        tasks = "".join(f"<task><subset>{name}</subset></task>" for name in ("Train", "Train", "Test"))
        text = text.replace("</project>", f"<subsets>Test\nTrain</subsets><tasks>{tasks}</tasks></project>")
        for number in range(6):
            subset = "Test" if number > 4 else "Train"
            text = text.replace(f'<image id="{number}"', f'<image id="{number}" subset="{subset}"')
        splits = ["train", "test"]
    elif kind != "job":
        text = text.replace("</project>", "<tasks><task><subset></subset></task></tasks></project>")
        text = text.replace("<image ", '<image subset="default" ')
    path.write_text(text)
    files = {"other.xml": "<annotation><filename>x.png</filename></annotation>"}
    made = jobs.build("images --annotations cvat=in", files=files)
    assert objects_of(made) == expected
    assert [split.name for split in made.manifest.splits] == splits
    assert not has_notice(made, "left out")
