"""Annotations with mistakes: a reject with its reason, or one sentence and status 2."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardmill.addons.annotations.coco import join_annotations, read_coco
from shardmill.metadata.manifest import Reject
from tests.support import exports
from tests.support.detection import Scene, Thing, coco_of, draw, voc_of, write_coco, write_voc, write_yolo
from tests.support.jobs import Jobs

_SCENES = [Scene(f"{index}.png", (64, 48), (Thing("red", (4 + index, 5, 10, 12)),)) for index in range(4)]
_LEFT_OUT = "left out of annotations of objects, of which the boxes are kept"
_COCO = "images --coco i.json --max_reject_fraction 1 --overwrite"
_VOC = "images --voc voc --max_reject_fraction 1"
Content = dict[str, Any]
Change = Callable[[Content], object]


def write(folder: Path, content: Content | str) -> Path:
    """Write pictures and the content of their COCO file."""
    for scene in _SCENES:
        draw(scene, folder)
    (folder / "i.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder / "i.json"


def changed(change: Change) -> Content:
    """The content of a COCO file that is right but for one change; its annotations are of images 101 to 104."""
    content: Content = json.loads(json.dumps(coco_of(_SCENES)))
    change(content)
    return content


def image(content: Content, index: int = 1) -> Content:
    found: Content = content["images"][index]
    return found


def annotation(content: Content, number: int = 2) -> Content:
    """Return the annotation of id `number`, which is of image 102 if it is 2."""
    return next(item for item in content["annotations"] if item["id"] == number)


def with_note(**values: object) -> Change:
    """A change of the annotation of image 102."""
    return lambda content: annotation(content).update(values)


def with_image(**values: object) -> Change:
    return lambda content: image(content).update(values)


def with_category(**values: object) -> Change:
    return lambda content: content.update(categories=[*content["categories"], values])


def reasons(folder: Path, content: Content | str) -> list[str]:
    """The reasons of rejects that are known before any picture is read."""
    found = read_coco(str(write(folder, content)))
    return [item.reason for item in join_annotations(found, "", None, 0) if isinstance(item, Reject)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_note(category_id=99), "annotation 2 is of category 99, which is not among the"),
        (with_note(image_id=999), "annotation 2 is of image 999, which is not among the images"),
        (with_note(bbox=[1, 2, 3]), "annotation 2 has [1, 2, 3] for bbox; expected [x, y, width"),
        (with_note(bbox=["1", 2, 3, 4]), 'annotation 2 has ["1", 2, 3, 4] for bbox; expected'),
        (with_note(bbox=None, segmentation=None), "annotation 2 has null for bbox; expected [x, y, width, height]"),
        (with_note(category_id="x"), 'annotation 2 is of category "x", which is not among'),
        (with_note(iscrowd=2), "annotation 2 has 2 for iscrowd; expected 0 or 1"),
        (with_note(area="big"), 'annotation 2 has "big" for area; expected a number'),
        (with_note(image_id="x"), 'annotation 2 is of image "x", which is not among the images'),
        (lambda c: c["annotations"].append(7), "an annotation is 7; expected an object"),
        (with_note(area=float("nan")), "annotation 2 has NaN for area; expected a number"),
        (with_image(width=64.5), "its size is given as 64.5 x 48 pixels; expected whole numbers"),
        (with_image(width="64"), 'its size is given as "64" x 48 pixels'),
        (lambda c: image(c).pop("file_name"), "image id 102 has no file_name"),
        (lambda c: c["images"].append({"id": 1.5}), "image 5 of the file has no whole number as its id"),
        (lambda c: c["images"].append(image(c)), "image id 102 is twice in"),
    ],
)
def test_each_mistake_of_a_coco_file_is_a_reject(tmp_path: Path, change: Change, reason: str) -> None:
    (found,) = reasons(tmp_path, changed(change))
    assert found.startswith(reason)


def named_alike(content: Content) -> None:
    """List image 102 once more, as 999, and give one of its annotations to that."""
    content["images"].append({**image(content), "id": 999})
    annotation(content).update(image_id=999)


def with_text_ids(content: Content) -> None:
    for item in (*content["images"], *content["categories"]):
        item["id"] = f"n-{item['id']}"
    for item in content["annotations"]:
        item.update(image_id=f"n-{item['image_id']}", category_id=f"n-{item['category_id']}", id=f"a{item['id']}")


def without(key: str) -> Change:
    """A change that takes `key` from all annotations."""
    return lambda content: [item.pop(key) for item in content["annotations"]]


_NUMBERED = "annotations without an id: all are numbered by their place there, from 1; pycocotools needs ids"


ODDITIES: dict[str, Change] = {
    "1 annotation with the id of another: all are numbered by their place": with_note(id=1),
    "1 annotation without an id: all are numbered by their place": lambda content: annotation(content).pop("id"),
    "1 image listed again under another id: the annotations of all its ids are joined": named_alike,
    "ids are texts, and are stored as numbers, such as 'n-": with_text_ids,
    "annotations without a box: each has the one around its polygons": without("bbox"),
}


def test_oddities_of_coco_files_change_no_box(jobs: Jobs, tmp_path: Path) -> None:
    boxes = []
    for notice, change in {"": lambda _: None, **ODDITIES}.items():
        write(tmp_path, changed(change))
        made = jobs.build(_COCO)
        assert made.rejects == []
        assert notice in "\n".join(made.notices)
        boxes.append({one["filename"]: sorted(map(tuple, one["objects/bbox"].tolist())) for one in made.examples()})
    assert len(boxes[0]) == len(_SCENES)
    assert all(each == boxes[0] for each in boxes)


def test_annotations_of_which_none_has_an_id_are_numbered(jobs: Jobs, tmp_path: Path) -> None:
    """Each has its place in the file as its id; a null is no id either."""
    stored: list[list[bytes]] = []
    for change in (
        lambda c: [note.update(id=place) for place, note in enumerate(c["annotations"], 1)],
        without("id"),
        lambda c: [note.update(id=None) for note in c["annotations"]],
    ):
        write(tmp_path, changed(change))
        made = jobs.build(_COCO)
        assert made.rejects == []
        assert any(_NUMBERED in notice for notice in made.notices) == bool(stored)
        stored.append([each.read_bytes() for each in sorted(made.directory.glob("*tfrecord*"))])
    assert stored[0] == stored[1] == stored[2]


@pytest.mark.parametrize(
    ("change", "flag", "notice", "objects"),
    [
        (with_note(bbox=None, segmentation=[]), "drop", "1 annotation without a box: left", 0),
        (with_note(bbox=[60, 40, 6, 10], area=60), "clip", "1 box reached out of its picture, and was clipped", 1),
    ],
)
def test_a_bad_box_is_a_reject_or_its_object_is_left_out(
    jobs: Jobs, tmp_path: Path, change: Change, flag: str, notice: str, objects: int
) -> None:
    write(tmp_path, changed(change))
    assert [found[:30] for found in jobs.build(_COCO).reasons.values()] == ["annotation 2 has null for bbox"][objects:]
    made = jobs.build(f"{_COCO} --on_bad_box {flag}")
    assert made.rejects == []
    assert any(notice in one for one in made.notices)
    boxes = {example["filename"]: example["objects/bbox"].tolist() for example in made.examples()}
    assert [len(boxes[f"{number}.png".encode()]) for number in range(4)] == [1, objects, 1, 1]
    assert boxes[b"1.png"] == [pytest.approx([40 / 48, 60 / 64, 1, 1])] * objects
    areas = {example["filename"]: example["objects/area"].tolist() for example in made.examples()}
    assert areas[b"1.png"] == [pytest.approx(4 * 8)] * objects


def test_each_mistake_that_a_picture_shows_is_a_reject(jobs: Jobs, tmp_path: Path) -> None:
    drawn = [Scene(f"{number}.png", (64, 48), (Thing("red", (4, 5, 10, 12)),)) for number in range(1, 10)]
    content = coco_of(drawn)
    for scene in drawn[1:]:
        draw(scene, tmp_path)
    (tmp_path / "5.png").write_bytes(b"not a picture")
    for number, box in {2: [5, 5, 0, 12], 3: [5, 5, -3, 12], 4: [70, 5, 10, 12], 8: [float("nan"), 5, 10, 12]}.items():
        annotation(content, number)["bbox"] = box
    image(content, 5).update(width=640, height=480)
    image(content, 6)["file_name"] = "../7.png"
    (tmp_path / "i.json").write_text(json.dumps(content))

    box, drop = "the box from left, top to right, bottom", "; --on_bad_box drop leaves the object out"
    made = jobs.build(_COCO)
    assert any(one.startswith("1 file of the annotations is missing: '1.png' was looked for") for one in made.notices)
    assert sorted(made.reasons.values()) == [
        "lies outside the images' folder; give --allow_outside if that is meant",
        "no such file",
        "not an image: the file starts with b'not a pi'",
        f"object 2: {box} 5, 5, 5, 17 is empty{drop}",
        f"object 3: {box} 5, 5, 2, 17 ends before it begins{drop}",
        f"object 4: {box} 70, 5, 80, 17 lies outside the picture of 64 x 48 pixels{drop}",
        f"object 8: {box} nan, 5, nan, 17 is not of numbers{drop}",
        "the annotation is of 640 x 480 pixels, the image has 64 x 48",
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[]", "is no file of COCO's: it is not a JSON object"),
        ('[{"image": "a", "annotations": []}]', "it holds annotations of CreateML; give --annotations createml=."),
        (json.dumps(coco_of(_SCENES))[:300], "is no file of COCO's: it is not JSON, or ends early, at character"),
        ("{}", "has no images; expected an object with images, annotations, categories"),
        (lambda c: c.pop("categories"), "has no categories"),
        (lambda c: c.update(images={}), "its 'images' is not a list"),
        (with_category(id=3, name="pink"), "'red' and 'pink' are both category 3"),
        (with_category(id=4, name="red"), "class name 'red' is twice"),
        (
            lambda c: [note.update(bbox=[0.1, 0.2, 0.3, 0.4]) for note in c["annotations"]],
            "--coco i.json: 4 of 4 boxes, such as in '0.png', are fractions, and boxes of this format are pixels",
        ),
        (with_image(id=101), "'0.png' and '1.png' both have the id 101"),
        (
            lambda c: [item.update(file_name="gone.png") for item in c["images"]],
            "its images, such as 'gone.png', were not found in…give the folder that holds 'gone.png': --input FOLDER",
        ),
    ],
)
def test_what_is_no_file_of_coco_s(jobs: Jobs, tmp_path: Path, content: str | Change, sentence: str) -> None:
    write(tmp_path, content if isinstance(content, str) else changed(content))
    jobs.refuse("images --coco i.json", sentence)


def test_detections_of_a_model_become_examples_as_the_message_says(jobs: Jobs, tmp_path: Path) -> None:
    content = coco_of(_SCENES)
    kept = ("bbox", "category_id", "image_id")
    detections = [{key: each[key] for key in kept} | {"score": 0.5} for each in content["annotations"]]
    write(tmp_path, json.dumps(detections))
    flag = "--coco a file with images, categories and, to convert the detections, this list as annotations"
    jobs.refuse(
        "images --coco i.json", f"it holds the detections of a model, which have scores and no images; give {flag}"
    )
    write(tmp_path, json.dumps(content | {"annotations": detections}))
    made = jobs.build(_COCO)
    assert (made.rejects, sum(len(each["objects/bbox"]) for each in made.examples())) == ([], 4)


@pytest.mark.parametrize("change", [lambda c: c.pop("annotations"), lambda c: c.update(annotations=[])])
def test_empty_annotations_of_coco_are_said(jobs: Jobs, tmp_path: Path, change: Change) -> None:
    write(tmp_path, changed(change))
    made = jobs.build(_COCO)
    said = ["i.json has no annotations: its 4 images are without objects", "there is no object in any image"]
    assert (made.rejects, made.notices[:2]) == ([], said)
    assert [len(each["objects/bbox"]) for each in made.examples()] == [0] * 4


def test_empty_annotations_of_yolo_and_voc_are_said(jobs: Jobs, tmp_path: Path) -> None:
    """The classes of empty files of YOLO's are in data.yaml. Nobody knows those of VOC's."""
    bare = [replace(scene, things=()) for scene in _SCENES]
    yolo = write_yolo(tmp_path / "yolo", {"train": bare})
    for scene in bare:
        (yolo.parent / "labels" / "train" / f"{Path(scene.name).stem}.txt").write_text("")
    write_voc(tmp_path / "voc", {"train": bare})
    assert jobs.build("images --yolo yolo/data.yaml").notices[0] == "there is no object in any image"
    jobs.refuse("images --voc voc --name voc", "there is no object in any image, and so no class")


def test_what_no_example_holds_is_said(jobs: Jobs, tmp_path: Path) -> None:
    """Polygons and key points are left out, and notices count them, but not those that are empty."""
    write(tmp_path, changed(with_note(keypoints=[1, 2, 2], num_keypoints=1, caption="")))
    assert f"{_LEFT_OUT}: keypoints of 1, num_keypoints of 1, segmentation of 4" in jobs.build(_COCO).notices

    source = write_voc(tmp_path / "voc", {"train": _SCENES})
    part = "<occluded>0</occluded><part><name>head</name></part></object>"
    for name in ("0.xml", "3.xml"):
        note = source / "Annotations" / name
        note.write_text(note.read_text().replace("</object>", part))
    assert f"{_LEFT_OUT}: <part> of 2" in jobs.build("images --voc voc --name voc").notices


def test_what_turns_a_picture_must_be_known(jobs: Jobs, tmp_path: Path) -> None:
    """Upside down, a picture has the size that it had: whether boxes are turned cannot be known."""
    write(tmp_path, changed(lambda c: None))
    draw(Scene("1.png", (64, 48), _SCENES[1].things, 3), tmp_path)
    (reason,) = jobs.build(_COCO).reasons.values()
    assert reason.startswith("EXIF (orientation 3) turns the picture, and nothing says whether its boxes are of the")
    assert jobs.build(f"{_COCO} --boxes_seen stored").rejects == []


def test_voc_lists_with_suffixes_and_names_of_other_images(jobs: Jobs, tmp_path: Path) -> None:
    folder = write_voc(tmp_path / "voc", {"train": _SCENES[:3], "val": _SCENES[3:]})
    for path in (folder / "ImageSets/Main").iterdir():
        path.write_text("".join(f"{name}.png\n" for name in path.read_text().split()))
    first = folder / "Annotations/0.xml"
    first.write_text(first.read_text().replace(_SCENES[0].name, _SCENES[1].name))
    made = jobs.build(_VOC)
    assert made.rejects == []
    assert [split.examples for split in made.manifest.splits] == [3, 1]
    assert any("<filename>, another image's name, of 1" in one for one in made.notices)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<annotations><image name='000.png'/></annotations>", "it is a <annotations>; expected an <annotation>"),
        (
            "<annotation><object><name>red</name><robndbox><cx>1</cx></robndbox></object></annotation>",
            "object 1 has no <bndbox>, but <robndbox>",
        ),
    ],
)
def test_the_most_frequent_reason_is_the_message(jobs: Jobs, tmp_path: Path, text: str, words: str) -> None:
    for scene in _SCENES:
        draw(scene, tmp_path / "voc")
        (tmp_path / "voc" / f"{Path(scene.name).stem}.xml").write_text(text)
    jobs.refuse("images --voc voc", f"{len(_SCENES)} records are rejected, such as for: …{words}")
    jobs.refuse("images --voc voc/0.xml", "expected the folder of the annotations, such as voc…--annotations cvat=")


def test_annotations_of_one_name_in_two_folders_are_two(jobs: Jobs, tmp_path: Path) -> None:
    for split in ("train", "valid"):
        for number, scene in enumerate(_SCENES[:2]):
            draw(scene, tmp_path / "voc" / split)
            (tmp_path / "voc" / split / f"{number}.xml").write_text(voc_of(scene))
    made = jobs.build("images --voc voc")
    names = sorted(one["filename"] for split in ("train", "validation") for one in made.examples(split))
    assert names == [f"{split}/{number}.png".encode() for split in ("train", "valid") for number in range(2)]


def test_whose_annotation_it_is_is_known_or_it_is_a_reject(jobs: Jobs, tmp_path: Path) -> None:
    for name in ("a/1.png", "b/1.png", "c/2.png"):
        draw(replace(_SCENES[0], name=name), tmp_path / "voc/JPEGImages")
    jobs.write({f"../voc/Annotations/{name}.xml": voc_of(_SCENES[0]) for name in ("a/1", "d/1", "c/2", "d/2")})
    made = jobs.build(_VOC)
    assert [reject["reason"] for reject in made.rejects] == [
        "which is its image cannot be known: JPEGImages/a/1.png or JPEGImages/b/1.png",
        "its image, JPEGImages/c/2.png, is that of Annotations/c/2.xml, too",
    ]
    assert not [notice for notice in made.notices if "without" in notice]


def test_mistakes_of_voc_s_files(jobs: Jobs, tmp_path: Path) -> None:
    source = write_voc(tmp_path / "voc", {"train": _SCENES})
    notes = {
        "0": "<annotation>",
        "1": voc_of(_SCENES[1]).replace("<xmin>5</xmin>", "<xmin>left</xmin>"),
        "2": voc_of(_SCENES[2]).replace("<name>red</name>", ""),
        "odd": '<?xml version="1.0" encoding="klingon"?><annotation/>',
        "gone": voc_of(_SCENES[0]),
    }
    jobs.write({f"../voc/Annotations/{name}.xml": text for name, text in notes.items()} | {"../empty/": b""})
    for name in ("alone.png", "odd.png"):
        draw(Scene(name), source / "JPEGImages")
    with open(source / "ImageSets/Main/train.txt", "a") as file:
        file.write("gone\nnowhere\nodd\n")
    made = jobs.build(_VOC)
    assert sorted(reject["reason"] for reject in made.rejects) == [
        "ImageSets/Main/train.txt names 'nowhere', which has no annotation",
        "no annotation of VOC's: bndbox/xmin is 'left'; expected a number",
        "no annotation of VOC's: no element found: line 1, column 12",
        "no annotation of VOC's: object 1 has no name",
        "no annotation of VOC's: unknown encoding: klingon",
        "there is no image gone.jpg, or of another format, to it",
    ]
    assert "passed over 1 image without an annotation, such as 'JPEGImages/alone.png'" in made.notices
    jobs.refuse("images --voc empty --name other", "there is no .xml file in it")


def test_mistakes_of_yolo_s_files(jobs: Jobs, tmp_path: Path) -> None:
    file = write_yolo(tmp_path / "yolo", {"train": _SCENES})
    notes = {
        "0": "9 0.5 0.5 0.1 0.1\n",
        "1": "0 0.5 0.5 0.1\n",
        "2": "red 0.5 0.5 0.1 0.1\n",
        "3": "0 0.25 0.25 0.75 0.25 0.5 0.5\n",  # a triangle
        "alone": "0 0.5 0.5 0.1 0.1\n",
    }
    jobs.write({f"../yolo/labels/train/{name}.txt": text for name, text in notes.items()})
    made = jobs.build("images --yolo yolo/data.yaml --max_reject_fraction 1")
    assert f"{_LEFT_OUT}: the corners of a polygon of 1" in made.notices
    assert sorted(reject["reason"] for reject in made.rejects) == [
        "no annotation of YOLO's: line 1 has 3 numbers; expected 4 of a box, or the corners of a polygon",
        "no annotation of YOLO's: line 1 holds 'red 0.5 0.5 0.1 0.1'; expected an id and numbers",
        "no annotation of YOLO's: line 1 is of class 9; data.yaml names 3, from 0",
        "there is no image to these annotations",
    ]
    (example,) = made.examples()
    assert example["objects/bbox"].tolist() == [[0.25, 0.25, 0.5, 0.75]]
    text = file.read_text()
    for content, sentence in {
        "names: [a]": "names no images: expected train:, val: or test:",
        "train: images/train": "names is null; expected the names of the classes, from id 0",
        "names: [a]\ntrain: images/gone": "there is no 'images/gone' in",
        "names: [a]\ntrain: 3": "train is 3; expected a folder, some, or a .txt file",
        "names: {a": "is not YAML",
    }.items():
        file.write_text(content)
        jobs.refuse("images --yolo yolo/data.yaml --name other", sentence)
    file.write_text(text)
    (tmp_path / "yolo/labels").rename(tmp_path / "yolo/label")
    jobs.refuse("images --yolo yolo/data.yaml --name other", "was looked for at yolo/labels/train/")


_SMALL, _REACHING = (0.1, 0.2, 0.3, 0.4), (30, 20, 50, 40)
_FLAGS = {"coco": "--coco in/instances.json", "voc": "--voc in", "yolo": "--yolo in/data.yaml"}
_WRITERS: dict[str, Callable[[Path, list[Scene]], object]] = {
    "coco": lambda folder, drawn: write_coco(folder, drawn),
    "voc": lambda folder, drawn: write_voc(folder, {"train": drawn}),
    "yolo": lambda folder, drawn: write_yolo(folder, {"train": drawn}),
    **{tool.__name__: tool for tool in (exports.cvat, exports.labelme, exports.via, exports.createml)},
}


# YOLO's boxes are fractions, and files of VIA and CreateML have no sizes of pictures
@pytest.mark.parametrize(
    ("tool", "box"),
    [
        *((tool, _SMALL) for tool in _WRITERS if tool != "yolo"),
        *((tool, _REACHING) for tool in _WRITERS if tool not in ("via", "createml")),
    ],
)
def test_boxes_of_another_unit_or_order_stop_the_job(jobs: Jobs, tmp_path: Path, tool: str, box: Any) -> None:
    _WRITERS[tool](tmp_path / "in", [replace(scene, things=(Thing("red", box),)) for scene in _SCENES])
    line = f"images {_FLAGS.get(tool, '--annotations in')}"
    if box == _SMALL:
        jobs.refuse(line, "4 of 4 boxes, such as in…0.png', are fractions")
    else:
        jobs.refuse(
            line, "4 of 4 boxes, such as in…0.png', reach out of their pictures: are they corners…--on_bad_box clip"
        )


@pytest.mark.parametrize("tool", _WRITERS)
def test_images_without_objects_are_said(jobs: Jobs, tmp_path: Path, tool: str) -> None:
    _WRITERS[tool](tmp_path / "in", [replace(_SCENES[0], things=()), *_SCENES[1:]])
    made = jobs.build(f"images {_FLAGS.get(tool, '--annotations in')}")
    said = "has no file of annotations" if tool == "yolo" else "with no annotated object: each is an example"
    (notice,) = [notice for notice in made.notices if said in notice]
    assert "0.png'" in notice


@pytest.mark.parametrize("name", ["0.TXT", "0.png.txt", "0 .txt"])
def test_annotations_that_are_not_called_as_their_images_stop_the_job(jobs: Jobs, tmp_path: Path, name: str) -> None:
    write_yolo(tmp_path / "in", {"train": _SCENES})
    (tmp_path / "in/labels/train/0.txt").rename(tmp_path / "in/labels/train" / name)
    jobs.refuse("images --yolo in/data.yaml", f"no image belongs to 'labels/train/{name}'; call it…labels/train/0.txt'")


def test_boxes_of_yolo_in_pixels_stop_the_job(jobs: Jobs, tmp_path: Path) -> None:
    write_yolo(tmp_path / "in", {"train": _SCENES})
    for path in (tmp_path / "in/labels/train").iterdir():
        path.write_text("2 32 24 10 12\n")
    jobs.refuse("images --yolo in/data.yaml --on_bad_box drop", "4 of 4 boxes, such as in…are pixels")
