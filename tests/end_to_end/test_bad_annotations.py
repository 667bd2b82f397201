"""What is wrong with annotations: a reject with its reason, or one sentence and status 2."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import shardmill
from shardmill.metadata.manifest import Reject
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.inputs.coco import join_annotations, read_coco
from tests.support.command import Run, check_mistake
from tests.support.detection import Scene, Thing, coco_of, draw, voc_of, write_voc, write_yolo
from tests.support.reading import make

_SCENES = [Scene(f"{index}.png", (64, 48), (Thing("red", (4 + index, 5, 10, 12)),)) for index in range(4)]
_LEFT_OUT = "left out of annotations of objects, of which the boxes are kept"
Content = dict[str, Any]


def written(folder: Path, content: Content | str) -> Path:
    """Pictures, and what stands in their COCO file."""
    for scene in _SCENES:
        draw(scene, folder)
    path = folder / "instances.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def rejected(folder: Path, *flags: object) -> tuple[list[str], list[str]]:
    """The reasons of rejects and the notices of a job that takes any number of them."""
    directory = make("images", None, folder / "out", *flags, "--max_reject_fraction", 1, "--overwrite")
    path = directory / "rejects" / "rejects-00000-of-00001.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    notices = json.loads((directory / "manifest.json").read_text())["notices"]
    return [json.loads(line)["reason"] for line in lines], notices


def changed(change: Callable[[Content], object]) -> Content:
    """The content of a COCO file that is right but for one change; its annotations are of images 101 to 104."""
    content: Content = json.loads(json.dumps(coco_of(_SCENES)))
    change(content)
    return content


def image(content: Content, index: int = 1) -> Content:
    found: Content = content["images"][index]
    return found


def annotation(content: Content, number: int = 2) -> Content:
    """That of id `number`, which is of image 102 if it is 2."""
    return next(item for item in content["annotations"] if item["id"] == number)


def reasons(folder: Path, content: Content | str) -> list[str]:
    """The reasons of rejects that are known before any picture is read."""
    found = read_coco(str(written(folder, content)))
    return [item.reason for item in join_annotations(found, "", None, 0) if isinstance(item, Reject)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda c: annotation(c).update(category_id=99), "annotation 2 is of category 99, which is not among the"),
        (lambda c: annotation(c).update(image_id=999), "annotation 2 is of image 999, which is not among the images"),
        (lambda c: annotation(c).update(bbox=[1, 2, 3]), "annotation 2 has [1, 2, 3] for bbox; expected [x, y, width"),
        (lambda c: annotation(c).update(bbox=["1", 2, 3, 4]), 'annotation 2 has ["1", 2, 3, 4] for bbox; expected'),
        (
            lambda c: annotation(c).update(bbox=None, segmentation=None),
            "annotation 2 has null for bbox; expected [x, y, width, height]",
        ),
        (lambda c: annotation(c).update(category_id="x"), 'annotation 2 is of category "x", which is not among'),
        (lambda c: annotation(c).update(iscrowd=2), "annotation 2 has 2 for iscrowd; expected 0 or 1"),
        (lambda c: annotation(c).update(area="big"), 'annotation 2 has "big" for area; expected a number'),
        (lambda c: annotation(c).pop("id"), "an annotation without an id has null for id; expected a whole number"),
        (lambda c: annotation(c).update(image_id="x"), 'annotation 2 is of image "x", which is not among the images'),
        (lambda c: c["annotations"].append(7), "an annotation is 7; expected an object"),
        (lambda c: annotation(c).update(area=float("nan")), "annotation 2 has NaN for area; expected a number"),
        (lambda c: image(c).update(width=64.5), "its size is given as 64.5 x 48 pixels; expected whole numbers"),
        (lambda c: image(c).update(width="64"), 'its size is given as "64" x 48 pixels'),
        (lambda c: image(c).pop("file_name"), "image id 102 has no file_name"),
        (lambda c: c["images"].append({"id": 1.5}), "image 5 of the file has no whole number as its id"),
        (lambda c: c["images"].append(image(c)), "image id 102 is twice in"),
    ],
)
def test_each_mistake_of_a_coco_file_is_a_reject(
    tmp_path: Path, change: Callable[[Content], object], reason: str
) -> None:
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


def without_boxes(content: Content) -> None:
    for item in content["annotations"]:
        del item["bbox"]


@pytest.mark.parametrize(
    ("change", "notice"),
    [
        (lambda c: annotation(c).update(id=1), "1 annotation has the id of another: all are numbered by their place"),
        (named_alike, "1 image is listed again under another id: the annotations of both ids are joined"),
        (with_text_ids, "ids are texts, and are stored as numbers, such as 'n-"),
        (without_boxes, "annotations without a box have the one around their polygons"),
    ],
)
def test_oddities_of_coco_files_change_no_box(tmp_path: Path, change: Callable[[Content], object], notice: str) -> None:
    for scene in _SCENES:
        draw(scene, tmp_path)
    boxes = []
    for content in (changed(lambda _: None), changed(change)):
        found, notices = rejected(tmp_path, "--coco", written(tmp_path, content))
        assert found == []
        examples = list(shardmill.examples(tmp_path / "out/n", "train"))
        boxes.append({one["filename"]: sorted(map(tuple, one["objects/bbox"].tolist())) for one in examples})
        assert len(examples) == len(_SCENES)
    assert boxes[0] == boxes[1]
    assert any(notice in one for one in notices)


def test_annotations_without_a_box_are_dropped(tmp_path: Path) -> None:
    for scene in _SCENES:
        draw(scene, tmp_path)
    path = written(tmp_path, changed(lambda c: annotation(c).update(bbox=None, segmentation=[])))
    found, _ = rejected(tmp_path, "--coco", path)
    assert [reason.partition(";")[0] for reason in found] == ["annotation 2 has null for bbox"]
    found, notices = rejected(tmp_path, "--coco", path, "--on_bad_box", "drop")
    assert found == []
    assert any("1 annotation without a box is left out" in one for one in notices)


def test_yolo_without_any_file_of_annotations(tmp_path: Path, run: Run) -> None:
    path = write_yolo(tmp_path, {"train": _SCENES})
    (tmp_path / "labels").rename(tmp_path / "label")
    result = run("images", "--yolo", path, "--output", tmp_path / "out", "--name", "n")
    check_mistake(result, f"was looked for at {tmp_path}/labels/train/")


def test_voc_lists_with_suffixes_and_names_of_other_images(tmp_path: Path) -> None:
    folder = write_voc(tmp_path / "voc", {"train": _SCENES[:3], "val": _SCENES[3:]})
    for path in (folder / "ImageSets/Main").iterdir():
        path.write_text("".join(f"{name}.png\n" for name in path.read_text().split()))
    first = folder / "Annotations" / f"{Path(_SCENES[0].name).stem}.xml"
    first.write_text(first.read_text().replace(_SCENES[0].name, _SCENES[1].name))
    found, notices = rejected(tmp_path, "--voc", folder)
    assert found == []
    assert [split.examples for split in open_dataset(str(tmp_path / "out/n")).manifest.splits] == [3, 1]
    assert any("<filename>, another image's name, of 1" in one for one in notices)


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
def test_the_most_frequent_reason_is_the_message(tmp_path: Path, run: Run, text: str, words: str) -> None:
    for scene in _SCENES:
        draw(scene, tmp_path / "voc")
        (tmp_path / "voc" / f"{Path(scene.name).stem}.xml").write_text(text)
    output = ("--output", tmp_path / "out", "--name", "n")
    result = run("images", "--voc", tmp_path / "voc", *output)
    check_mistake(result, f"{len(_SCENES)} files are rejected because of", words)
    result = run("images", "--voc", tmp_path / "voc/0.xml", *output)
    check_mistake(result, f"expected the folder of the annotations, such as {tmp_path}/voc", "--annotations cvat=")


def test_each_mistake_that_a_picture_shows_is_a_reject(tmp_path: Path) -> None:
    drawn = [Scene(f"{number}.png", (64, 48), (Thing("red", (4, 5, 10, 12)),)) for number in range(1, 10)]
    content = coco_of(drawn)
    for scene in drawn[1:]:
        draw(scene, tmp_path)
    (tmp_path / "5.png").write_bytes(b"not a picture")
    for number, box in {2: [5, 5, 0, 12], 3: [5, 5, -3, 12], 4: [70, 5, 10, 12], 8: [float("nan"), 5, 10, 12]}.items():
        annotation(content, number)["bbox"] = box
    image(content, 5).update(width=640, height=480)
    image(content, 6)["file_name"] = "../7.png"
    path = tmp_path / "instances.json"
    path.write_text(json.dumps(content))

    box = "the box from left, top to right, bottom"
    reasons, notices = rejected(tmp_path, "--coco", path)
    assert f"1 file of the annotations is missing: '1.png' was looked for in {tmp_path}/" in notices
    assert sorted(reasons) == [
        "lies outside the images' folder; give --allow_outside if that is meant",
        "no such file",
        "not an image: the file starts with b'not a pi'",
        f"object 2: {box} 5, 5, 5, 17 is empty",
        f"object 3: {box} 5, 5, 2, 17 ends before it begins",
        f"object 4: {box} 70, 5, 80, 17 lies outside the picture of 64 x 48 pixels",
        f"object 8: {box} nan, 5, nan, 17 is not of numbers",
        "the annotation is of 640 x 480 pixels, the image has 64 x 48",
    ]


def test_a_file_that_is_none_of_coco_s_ends_the_job_in_a_sentence(tmp_path: Path, run: Run) -> None:
    whole = json.dumps(coco_of(_SCENES))
    sentences: dict[str, str | Content] = {
        "is no file of COCO's: it is not a JSON object": "[]",
        "is no file of COCO's: it is not JSON, or ends early, at character": whole[: len(whole) // 2],
        "has no images; expected an object with images, annotations, categories": "{}",
        "has no categories": changed(lambda c: c.pop("categories")),
        "its 'images' is not a list": changed(lambda c: c.update(images={})),
        "'red' and 'pink' are both category 3": changed(
            lambda c: c.update(categories=[*c["categories"], {"id": 3, "name": "pink"}])
        ),
        "class name 'red' is twice": changed(
            lambda c: c.update(categories=[*c["categories"], {"id": 4, "name": "red"}])
        ),
        "'0.png' and '1.png' both have the id 101": changed(lambda c: image(c).update(id=101)),
        "its images, such as 'gone.png', were not found in": changed(
            lambda c: [item.update(file_name="gone.png") for item in c["images"]]
        ),
    }
    for sentence, content in sentences.items():
        path = written(tmp_path, content)
        done = run("images", "--coco", path, "--output", tmp_path / "out", "--name", "n")
        assert (done.status, sentence in done.err) == (2, True), (sentence, done.err)
    assert not (tmp_path / "out" / "n" / "1.0.0").exists()


def test_what_may_be_is_no_mistake(tmp_path: Path) -> None:
    """No annotations at all, boxes over the edge, an image twice by one id."""
    content = changed(lambda c: annotation(c).update(bbox=[60, 40, 10, 12]))
    content["images"].append(dict(content["images"][0]))
    found, notices = rejected(tmp_path, "--coco", written(tmp_path, content))
    assert found == [f"image id 101 is twice in {tmp_path / 'instances.json'}"]
    assert "1 box reached out of its picture, and was clipped" in notices
    boxes = [example["objects/bbox"].tolist() for example in shardmill.examples(tmp_path / "out/n/1.0.0", "train")]
    assert [pytest.approx([40 / 48, 60 / 64, 1, 1])] in boxes


@pytest.mark.parametrize("change", [lambda c: c.pop("annotations"), lambda c: c.update(annotations=[])])
def test_empty_annotations_of_coco_are_said(tmp_path: Path, change: Callable[[Content], object]) -> None:
    path = written(tmp_path, changed(change))
    found, notices = rejected(tmp_path, "--coco", path)

    said = [f"{path} has no annotations: its 4 images are without objects", "there is no object in any image"]
    assert (found, notices[:2]) == ([], said)
    assert [len(each["objects/bbox"]) for each in shardmill.examples(tmp_path / "out/n/1.0.0", "train")] == [0] * 4


def test_empty_annotations_of_yolo_and_voc_are_said(tmp_path: Path, run: Run) -> None:
    """Empty files of YOLO's: its classes stand in data.yaml. Of VOC's nobody knows the classes."""
    bare = [replace(scene, things=()) for scene in _SCENES]
    yolo = write_yolo(tmp_path / "yolo", {"train": bare})
    for scene in bare:
        (yolo.parent / "labels" / "train" / f"{Path(scene.name).stem}.txt").write_text("")
    voc = write_voc(tmp_path / "voc", {"train": bare})

    assert rejected(tmp_path, "--yolo", yolo)[1][0] == "there is no object in any image"
    done = run("images", "--voc", voc, "--output", tmp_path / "out", "--name", "voc")
    assert (done.status, "there is no object in any image, and so no class" in done.err) == (2, True)


def test_what_no_example_holds_is_said(tmp_path: Path) -> None:
    """Polygons and key points; not what is said to be none."""
    content = changed(lambda c: annotation(c).update(keypoints=[1, 2, 2], num_keypoints=1, caption=""))

    _, notices = rejected(tmp_path, "--coco", written(tmp_path, content))
    assert f"{_LEFT_OUT}: keypoints of 1, num_keypoints of 1, segmentation of 4" in notices

    source = write_voc(tmp_path / "voc", {"train": _SCENES})
    part = "<occluded>0</occluded><part><name>head</name></part></object>"
    for name in ("0.xml", "3.xml"):
        note = source / "Annotations" / name
        note.write_text(note.read_text().replace("</object>", part))
    assert f"{_LEFT_OUT}: <part> of 2" in rejected(tmp_path, "--voc", source)[1]


def test_a_bad_box_may_leave_its_object_out(tmp_path: Path) -> None:
    path = written(tmp_path, changed(lambda c: annotation(c).update(bbox=[5, 5, 0, 12])))
    found, notices = rejected(tmp_path, "--coco", path, "--on_bad_box", "drop")

    assert found == []
    assert "1 box was no good, and its object was left out" in notices
    assert sorted(
        len(example["objects/label"]) for example in shardmill.examples(tmp_path / "out/n/1.0.0", "train")
    ) == [0, 1, 1, 1]


def test_what_turns_a_picture_must_be_known(tmp_path: Path) -> None:
    """Upside down, a picture has the size that it had: whether boxes are turned cannot be known."""
    content = changed(lambda c: None)
    path = written(tmp_path, content)
    draw(Scene("1.png", (64, 48), _SCENES[1].things, 3), tmp_path)

    (reason,), _ = rejected(tmp_path, "--coco", path)
    assert reason.startswith(
        "EXIF (orientation 3) turns the picture, and nothing says whether its boxes are of the turned"
    )
    assert rejected(tmp_path, "--coco", path, "--boxes_seen", "stored")[0] == []


def test_annotations_of_one_name_in_two_folders_are_two(tmp_path: Path) -> None:
    folder = tmp_path / "voc"
    for split in ("train", "valid"):
        for number, scene in enumerate(_SCENES[:2]):
            draw(scene, folder / split)
            (folder / split / f"{number}.xml").write_text(voc_of(scene))
    dataset = make("images", None, tmp_path / "out", "--voc", folder)
    splits = ("train", "validation")
    names = sorted(example["filename"] for split in splits for example in shardmill.examples(dataset, split=split))
    assert names == [f"{split}/{number}.png".encode() for split in ("train", "valid") for number in range(2)]


def test_whose_annotation_it_is_is_known_or_it_is_a_reject(tmp_path: Path) -> None:
    for name in ("a/1.png", "b/1.png", "c/2.png"):
        draw(replace(_SCENES[0], name=Path(name).name), tmp_path / "voc/JPEGImages" / Path(name).parent)
    for name in ("a/1.xml", "d/1.xml", "c/2.xml", "d/2.xml"):
        path = tmp_path / "voc/Annotations" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(voc_of(_SCENES[0]))
    found, notices = rejected(tmp_path, "--voc", tmp_path / "voc")
    assert found == [
        "which is its image cannot be known: JPEGImages/a/1.png or JPEGImages/b/1.png",
        "its image, JPEGImages/c/2.png, is that of Annotations/c/2.xml, too",
    ]
    assert not [notice for notice in notices if "without" in notice]


def test_mistakes_of_voc_s_files(tmp_path: Path, run: Run) -> None:
    source = write_voc(tmp_path / "voc", {"train": _SCENES})
    notes = source / "Annotations"
    (notes / "0.xml").write_text("<annotation>")
    (notes / "1.xml").write_text(voc_of(_SCENES[1]).replace("<xmin>5</xmin>", "<xmin>left</xmin>"))
    (notes / "2.xml").write_text(voc_of(_SCENES[2]).replace("<name>red</name>", ""))
    (notes / "gone.xml").write_text(voc_of(_SCENES[0]))
    draw(Scene("alone.png"), source / "JPEGImages")
    with open(source / "ImageSets/Main/train.txt", "a") as file:
        file.write("gone\nnowhere\n")

    found, notices = rejected(tmp_path, "--voc", source)
    assert sorted(found) == [
        "ImageSets/Main/train.txt names 'nowhere', which has no annotation",
        "no annotation of VOC's: bndbox/xmin is 'left'; expected a number",
        "no annotation of VOC's: no element found: line 1, column 12",
        "no annotation of VOC's: object 1 has no name",
        "there is no image gone.jpg, or of another format, to it",
    ]
    assert "passed over 1 image without an annotation, such as 'JPEGImages/alone.png'" in notices
    (tmp_path / "empty").mkdir()
    done = run("images", "--voc", tmp_path / "empty", "--output", tmp_path / "out2", "--name", "n")
    assert (done.status, "there is no .xml file in it" in done.err) == (2, True)


def test_mistakes_of_yolo_s_files(tmp_path: Path, run: Run) -> None:
    file = write_yolo(tmp_path / "yolo", {"train": _SCENES})
    notes = tmp_path / "yolo/labels/train"
    (notes / "0.txt").write_text("9 0.5 0.5 0.1 0.1\n")
    (notes / "1.txt").write_text("0 0.5 0.5 0.1\n")
    (notes / "2.txt").write_text("red 0.5 0.5 0.1 0.1\n")
    (notes / "alone.txt").write_text("0 0.5 0.5 0.1 0.1\n")
    (notes / "3.txt").write_text("0 0.25 0.25 0.75 0.25 0.5 0.5\n")  # a triangle

    found, notices = rejected(tmp_path, "--yolo", file)
    assert f"{_LEFT_OUT}: the corners of a polygon of 1" in notices
    assert sorted(found) == [
        "no annotation of YOLO's: line 1 has 3 numbers; expected 4 of a box, or the corners of a polygon",
        "no annotation of YOLO's: line 1 holds 'red 0.5 0.5 0.1 0.1'; expected an id and numbers",
        "no annotation of YOLO's: line 1 is of class 9; data.yaml names 3",
        "there is no image to these annotations",
    ]
    (example,) = shardmill.examples(tmp_path / "out/n/1.0.0", "train")
    assert example["objects/bbox"].tolist() == [[0.25, 0.25, 0.5, 0.75]]
    for text, sentence in {
        "names: [a]": "names no images: expected train:, val: or test:",
        "train: images/train": "names is null; expected the names of the classes, from id 0",
        "names: [a]\ntrain: images/gone": "there is no 'images/gone' in",
        "names: [a]\ntrain: 3": "train is 3; expected a folder, some, or a .txt file",
        "names: {a": "is not YAML",
    }.items():
        file.write_text(text)
        done = run("images", "--yolo", file, "--output", tmp_path / "out2", "--name", "n")
        assert (done.status, sentence in done.err) == (2, True), (text, done.err)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--coco", "a.json", "--voc", "b"), "--coco and --voc both say what is in the images; give one"),
        (("--coco", "a.json", "--manifest", "b.csv"), "--manifest b.csv and --coco a.json both list the images"),
        (("--coco", "train=a.json", "--coco", "b.json"), "some files have a split and others not"),
        (("--coco", "train=a.json", "--coco", "train=b.json"), "the split train is there twice"),
        (("--coco", "a.json", "--verify", "none"), "--verify none contradicts --coco a.json"),
        (
            ("--coco", "a.json", "--folders", "label"),
            "--folders label is about the folders of --input; --coco a.json says",
        ),
        (("--yolo", "data.yaml", "--input", "."), "--input .: with --yolo data.yaml it is not needed"),
        (("--input", ".", "--on_bad_box", "drop"), "--on_bad_box drop is about the objects that --coco"),
        (("--input", ".", "--boxes_seen", "stored"), "--boxes_seen stored is about the objects that --coco"),
        (("--coco", "train=a.json"), "--coco a.json: no such file"),
        (("--coco", "nowhere.json"), "--coco nowhere.json: no such file"),
        ((), "or what annotates images: --coco, --voc, --yolo or --annotations"),
    ],
)
def test_flags_that_contradict(tmp_path: Path, run: Run, flags: tuple[str, ...], sentence: str) -> None:
    done = run("images", *flags, "--output", tmp_path / "out", "--name", "n")
    assert (done.status, sentence in done.err) == (2, True), done.err


def test_annotations_of_which_none_has_an_id_are_numbered(tmp_path: Path) -> None:
    """As if each had its place in the file; a null is no id either."""
    plain = changed(lambda c: [note.update(id=place) for place, note in enumerate(c["annotations"], 1)])
    bare = changed(lambda c: [note.pop("id") for note in c["annotations"]])
    nulls = changed(lambda c: [note.update(id=None) for note in c["annotations"]])
    said = "no annotation has an id, so each is numbered by its place there, from 1; pycocotools needs ids"
    stored = []
    for content in (plain, bare, nulls):
        path = written(tmp_path, content)
        found, notices = rejected(tmp_path, "--coco", path, "--overwrite")
        assert found == []
        assert (f"{path}: {said}" in notices) == (content is not plain)
        stored.append([each.read_bytes() for each in sorted((tmp_path / "out/n/1.0.0").glob("*tfrecord*"))])
    assert stored[0] == stored[1] == stored[2]


@pytest.mark.parametrize("lost", [1, 3])
def test_annotations_of_which_some_have_no_id_are_rejects(tmp_path: Path, lost: int) -> None:
    """Also where there are several, which have no id in common; and what is said of images that are not there."""
    content = changed(lambda c: [note.pop("id") for note in c["annotations"][:lost]])
    found = reasons(tmp_path, content)
    assert found == ["an annotation without an id has null for id; expected a whole number, as others have"] * lost
    for note in content["annotations"][:lost]:
        note["image_id"] = 999
    (reason,) = reasons(tmp_path, content)
    more = "" if lost == 1 else f" and {lost - 1} more"
    assert reason.startswith(f"an annotation without an id{more} {'is' if lost == 1 else 'are'} of image 999, which is")
