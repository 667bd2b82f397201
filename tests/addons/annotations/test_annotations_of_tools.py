"""Annotations as tools write them: paths of the machine that they were made on, pandas' numbers, VOC's words, and
tables with a row for each box."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from tests.support import detection
from tests.support.jobs import Built, Jobs
from tests.support.reading import make

_SCENES = [
    detection.Scene(f"{index}.png", (64, 48), (detection.Thing("red", (4 + index, 5, 10, 12)),)) for index in range(4)
]
_LEFT_OUT = "left out of annotations of objects, of which the boxes are kept"


def found(jobs: Jobs, *flags: object) -> tuple[dict[str, list[tuple[str, Any]]], list[str], list[str]]:
    """(file name, boxes) of each split's examples, sorted; the reasons of rejects; the notices."""
    made = jobs.build("images --max_reject_fraction 1 --overwrite", *flags)
    splits = {
        split.name: sorted(
            (Path(each["filename"].decode()).name, each["objects/bbox"].tolist()) for each in made.examples(split.name)
        )
        for split in made.manifest.splits
    }
    return splits, [reject["reason"] for reject in made.rejects], made.notices


@pytest.mark.parametrize("relative", [False, True])
def test_paths_of_this_machine_are_those_beside_data_yaml(jobs: Jobs, tmp_path: Path, relative: bool) -> None:
    """Lists of whole paths, as many tools write them: their images had no objects."""
    file = detection.write_yolo(tmp_path / "yolo", {"train": _SCENES[:2], "val": _SCENES[2:]})
    images = file.parent / "images"
    file.with_name("train.txt").write_text("".join(f"{images}/train/{scene.name}\n" for scene in _SCENES[:2]))
    names = "names: [red, green, blue]\n"
    file.write_text(f"path: {file.parent}\ntrain: {file.parent}/train.txt\nval: {images}/val\n{names}")
    splits, reasons, notices = found(jobs, "--yolo", Path("yolo/data.yaml") if relative else file)

    assert (reasons, [notice for notice in notices if "no file of annotations" in notice]) == ([], [])
    assert {split: [name for name, _ in each] for split, each in splits.items()} == {
        "train": ["0.png", "1.png"],
        "validation": ["2.png", "3.png"],
    }
    assert all(len(boxes) == 1 for each in splits.values() for _, boxes in each)


def test_images_that_lie_elsewhere_are_no_images_without_objects(jobs: Jobs, tmp_path: Path) -> None:
    file = detection.write_yolo(tmp_path / "yolo", {"train": _SCENES[:2]})
    other = detection.write_yolo(tmp_path / "other", {"train": _SCENES[2:3]})
    listed = ["./images/train/0.png", f"{other.parent}/images/train/2.png", "../other/images/train/2.png"]
    file.with_name("train.txt").write_text("\n".join(listed))
    file.write_text("train: train.txt\nnames: [red]\n")
    splits, reasons, _ = found(jobs, "--yolo", file)

    assert [name for name, _ in splits["train"]] == ["0.png"]
    elsewhere = f"does not lie in {file.parent}, the folder of data.yaml"
    assert reasons == [elsewhere, elsewhere, "there is no image to these annotations"]


def test_roboflow_s_folders_are_found(jobs: Jobs, tmp_path: Path) -> None:
    """Its data.yaml says `../train/images` of the folder next to it."""
    plain = detection.write_yolo(tmp_path / "plain", {"train": _SCENES[:2], "val": _SCENES[2:]})
    folder = tmp_path / "yolo"
    for split, there in (("train", "train"), ("val", "valid")):
        for kind in ("images", "labels"):
            (folder / there).mkdir(parents=True, exist_ok=True)
            (plain.parent / kind / split).rename(folder / there / kind)
    file = folder / "data.yaml"
    text = "train: ../train/images\nval: ../valid/images\nnc: 3\nnames: ['red', 'green', 'blue']\n"
    file.write_text(text)
    splits, reasons, _ = found(jobs, "--yolo", file)
    assert (reasons, {split: len(each) for split, each in splits.items()}) == ([], {"train": 2, "validation": 2})

    for change, sentence in {
        "test: ../test/images\n": f"there are no images in {folder}/test/images; take this line out",
        "nc: 80\n": "nc is 80, and there are 3 names; correct one",
        "kpt_shape: 3\n": "kpt_shape is 3; expected the number of key points, and 2 or 3",
    }.items():
        file.write_text(text.replace("nc: 3\n", "") + change)
        jobs.refuse("images --name other", sentence, "--yolo", file)


@pytest.mark.parametrize("numbers", [2, 3])
def test_key_points_are_no_corners(jobs: Jobs, tmp_path: Path, numbers: int) -> None:
    """After the box of a pose, two numbers each look like a polygon's."""
    file = detection.write_yolo(tmp_path / "yolo", {"train": _SCENES})
    plain = found(jobs, "--yolo", file)
    file.write_text(f"{file.read_text()}kpt_shape: [3, {numbers}]\n")
    for scene in _SCENES:
        path = file.parent / "labels/train" / f"{Path(scene.name).stem}.txt"
        path.write_text(detection.yolo_of(scene).strip() + " 0.9 0.1 2"[: 8 if numbers == 2 else None] * 3 + "\n")
    splits, reasons, notices = found(jobs, "--yolo", file)

    assert (splits, reasons) == (plain[0], [])
    assert f"{_LEFT_OUT}: key points of 4" in notices
    if numbers == 3:
        lines = file.read_text()
        file.write_text(lines.replace("kpt_shape", "# kpt_shape"))
        jobs.fail("images --name other", "line 1 looks like a box with key points; give their number", "--yolo", file)
        file.write_text(lines)
    path.write_text("0 0.5 0.5 0.1 0.1 0.5 0.5\n")
    expected = f"line 1 has 6 numbers; expected 4 of a box, or {4 + 3 * numbers} with its key points"
    assert found(jobs, "--yolo", file)[1] == [f"no annotation of YOLO's: {expected}"]


@pytest.mark.parametrize(
    ("line", "shape", "box"),
    [
        ("0 .5 .5 .2 .2 .45 .45 .55 .55", "[2, 2]", [0.4, 0.4, 0.6, 0.6]),
        ("0 .5 .5 .2 .2 .45 .45 2 .5 .5 0", "[2, 3]", [0.4, 0.4, 0.6, 0.6]),
        ("0 .5 .5 .2 .2 .45 .45 .55 .55", "[0, 2]", [0.2, 0.2, 0.55, 0.55]),
    ],
)
def test_numbers_of_two_readings_stop_the_job(jobs: Jobs, tmp_path: Path, line: str, shape: str, box: Any) -> None:
    file = detection.write_yolo(tmp_path / "yolo", {"train": _SCENES})
    jobs.write({f"../yolo/labels/train/{Path(scene.name).stem}.txt": line for scene in _SCENES})
    wanted = "give this kpt_shape in data.yaml, or kpt_shape: [0, 2]"
    jobs.refuse("images --name n", wanted if shape == "[0, 2]" else f"{shape}; {wanted}", "--yolo", file)
    file.write_text(f"{file.read_text()}kpt_shape: {shape}\n")
    for example in jobs.build("images --name n", "--yolo", file).examples():
        assert example["objects/bbox"].tolist() == [pytest.approx(box)]


@pytest.mark.parametrize("text", ["[no, on, 010]", '{0: no, "1": on, 2: 010}'])
def test_classes_are_called_as_they_are_spelled(jobs: Jobs, tmp_path: Path, text: str) -> None:
    """YAML has other words for truth and for numbers."""
    file = detection.write_yolo(tmp_path / "yolo", {"train": _SCENES})
    file.write_text(f"train: images/train\nnames: {text}\n")
    made = jobs.build("images", "--yolo", file)
    assert (made.directory / "objects-label.labels.txt").read_text().split() == ["no", "on", "010"]


def test_lists_of_voc_s_say_every_split_of_an_image(jobs: Jobs, tmp_path: Path) -> None:
    """Once the last of two lists with one image had it, in silence; a byte-order mark was part of a name."""
    source = detection.write_voc(tmp_path / "voc", {"train": _SCENES})
    (source / "JPEGImages/3.png").rename(source / "JPEGImages/the last.png")
    (source / "Annotations/3.xml").rename(source / "Annotations/the last.xml")
    lists = source / "ImageSets/Main"
    (lists / "train.txt").write_bytes("\ufeff0\r\n1 -1\r\nthe last\r\n".encode())
    (lists / "val.txt").write_text("1\n2\n2\n")
    splits, reasons, notices = found(jobs, "--voc", source)

    assert reasons == []
    assert {split: [name for name, _ in each] for split, each in splits.items()} == {
        "train": ["0.png", "1.png", "the last.png"],
        "validation": ["1.png", "2.png"],
    }
    assert any("has equal content in 'train'" in notice for notice in notices)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("<difficult>0<", "<difficult>true<", ""),
        ("<difficult>0<", "<difficult>2<", "difficult is '2'; expected 0 or 1"),
        ("<annotation>", '<annotation xmlns="http://a">', "it is a <{http://a}annotation>; expected an <annotation>"),
    ],
)
def test_what_voc_s_files_say_is_not_passed_over(jobs: Jobs, tmp_path: Path, old: str, new: str, reason: str) -> None:
    """Each was an object that is not difficult, or none at all."""
    source = detection.write_voc(tmp_path / "voc", {"train": _SCENES})
    text = detection.voc_of(_SCENES[1]).replace("<difficult>1<", "<difficult>0<")
    assert old in text
    (source / "Annotations/1.xml").write_text(text.replace(old, new))
    _, reasons, _ = found(jobs, "--voc", source)
    assert reasons == ([f"no annotation of VOC's: {reason}"] if reason else [])
    if not reason:
        examples = shardmill.examples(tmp_path / "out/n", "train")
        (one,) = [each for each in examples if b"1.png" in each["filename"]]
        assert one["objects/is_difficult"].tolist() == [1]


def test_whole_numbers_may_have_a_point(jobs: Jobs, tmp_path: Path) -> None:
    """Pandas writes them so where a column has a missing value."""
    path = detection.write_coco(tmp_path / "coco", _SCENES)
    plain = found(jobs, "--coco", path)
    content = detection.coco_of(_SCENES)
    for key, members in {
        "images": ("id", "width", "height"),
        "annotations": ("id", "image_id", "category_id"),
        "categories": ("id",),
    }.items():
        content[key] = [item | {member: float(item[member]) for member in members} for item in content[key]]
    path.write_text(json.dumps(content))
    assert found(jobs, "--coco", path) == plain

    sentence = "--splits was given, but the annotations say the split"
    jobs.refuse("images --splits train=1 --name other", sentence, "--coco", f"train={path}")


DRAWN = [scene for scene in detection.scenes(8) if scene.things]


def table(header: str, row: Callable[[detection.Scene, Any], str], splitter: str = "\n") -> bytes:
    rows = [row(scene, thing) for scene in DRAWN for thing in scene.things]
    return splitter.join([header, *rows, ""]).encode()


def roboflow(scene: detection.Scene, thing: Any) -> str:
    x, y, w, h = thing.box
    return f"{scene.name},{scene.size[0]},{scene.size[1]},{thing.colour},{x},{y},{x + w},{y + h}"


def open_images(scene: detection.Scene, thing: Any) -> str:
    x, y, w, h = thing.box
    width, height = scene.size
    edges = (x / width, (x + w) / width, y / height, (y + h) / height)
    return f"{scene.name[:-4]},xclick,{thing.colour},1,{','.join(map(repr, edges))},0"


def wheat(scene: detection.Scene, thing: Any) -> str:
    return f'{scene.name[:-4]},{scene.size[0]},{scene.size[1]},"{[float(side) for side in thing.box]}",{thing.colour}'


def kaggle(scene: detection.Scene, thing: Any) -> str:
    return f"images\\{scene.name}; {thing.colour}; {'; '.join(map(str, thing.box))}"


def xray(scene: detection.Scene, thing: Any) -> str:
    return f"{scene.name},{thing.colour},{','.join(map(str, thing.box))}"


Objects = list[tuple[str, tuple[float, ...], float]]


def objects_of(made: Built) -> dict[str, Objects]:
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


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Objects]:
    """The objects that --coco makes of the same boxes."""
    folder = tmp_path_factory.mktemp("coco")
    path = detection.write_coco(folder / "in", DRAWN)
    return objects_of(Built(make("images", None, folder, "--coco", path)))


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
        (table("Path,Width,Height,ClassId,Roi.X1,Roi.Y1,Roi.X2,Roi.Y2", roboflow), "Train.csv", ""),
        (table("Image Index,Finding Label,Bbox [x,y,w,h]", xray), "BBox_List.csv", ""),
    ],
    ids=["Roboflow", "spaces", "Open Images", "bbox", "x, y, w, h", "GTSRB", "ChestX-ray14"],
)
def test_boxes_are_those_of_coco(
    jobs: Jobs, tmp_path: Path, coco: dict[str, Objects], content: bytes, name: str, notice: str
) -> None:
    for scene in DRAWN:
        detection.draw(scene, tmp_path / "in/images")
    jobs.refuse("images", "give --boxes_csv in in place of --input", files={name: content})
    for path in ("in", f"in/{name}"):
        made = jobs.build(f"images --boxes_csv {path} --overwrite")
        assert notice in made.said
        assert objects_of(made) == coco


@pytest.mark.parametrize("path", ["in", "in/boxes.csv"])
def test_open_images_names_its_classes_beside_the_boxes(
    jobs: Jobs, tmp_path: Path, coco: dict[str, Objects], path: str
) -> None:
    for scene in DRAWN:
        detection.draw(scene, tmp_path / "in")
    colours = sorted({thing.colour for scene in DRAWN for thing in scene.things})
    boxes = table("ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsGroupOf", open_images).decode()
    for colour in colours:
        boxes = boxes.replace(f",{colour},", f",/m/0{colour},")
    names = "".join(f"/m/0{colour},{colour}\n" for colour in colours)
    jobs.write({"boxes.csv": boxes, "class-descriptions-boxable.csv": names})
    made = jobs.build(f"images --boxes_csv {path}")
    assert objects_of(made) == coco
    assert "not read as" not in made.said


def test_splits_of_folders_and_rows_without_a_box(jobs: Jobs, tmp_path: Path) -> None:
    for split, scene in (("train", DRAWN[0]), ("valid", DRAWN[1])):
        detection.draw(scene, tmp_path / "in" / split)
        detection.draw(detection.Scene(f"empty_{split}.png"), tmp_path / "in" / split)
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
    detection.draw(DRAWN[0], tmp_path / "in")
    jobs.refuse("images --boxes_csv in/a.csv", words, files={"a.csv": content})


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ("--boxes_csv in/a.csv", "a.csv"),
        ("--annotations via=in/a.csv", "a.csv"),
        ("--coco in/a.csv", "a.csv"),
        ("--input in --labels_file in/a.csv", "a.csv"),
        ("--input in --split_lists train=in/a.txt", "a.txt"),
    ],
)
def test_tables_and_lists_that_are_not_utf_8_stop_the_job(jobs: Jobs, tmp_path: Path, flags: str, name: str) -> None:
    """Their names of classes and files would be others."""
    detection.draw(DRAWN[0], tmp_path / "in")
    text = f"{CORNERS},region_shape_attributes\n{DRAWN[0].name},64,48,B\xe4r,1,2,3,4,{{}}\n".encode("cp1252")
    jobs.refuse(f"images {flags}", f"in/{name} is not UTF-8…save it as UTF-8", files={name: text})


def test_bad_rows_are_rejects(jobs: Jobs, tmp_path: Path) -> None:
    good = [roboflow(scene, thing) for scene in DRAWN for thing in scene.things]
    bad = ["x.png,64,48,red,1,2,3,4", f"{DRAWN[0].name},64,48,red,one,2,3,4", f"{DRAWN[1].name},64,48,,1,2,3,4"]
    bad += ["", f"{DRAWN[2].name},64,48,red,1,2,3", f"{DRAWN[3].name},64,48,red,1,5,2,3,4"]  # of decimal commas
    for scene in DRAWN:
        detection.draw(scene, tmp_path / "in")
    files = {"a.csv": "\n".join([CORNERS, *good, *bad])}
    rejects = jobs.build("images --boxes_csv in/a.csv --max_reject_fraction 0.7", files=files).rejects
    reasons = {reject["reason"] for reject in rejects}
    assert any("a box is one, 2, 3, 4; expected four numbers" in reason for reason in reasons)
    assert any("the row has no class" in reason for reason in reasons)
    assert any(f"line {len(good) + 6}: the row has 7 cells, the table 8 columns" in reason for reason in reasons)
    assert any("the row has 9 cells" in reason for reason in reasons)
    assert "there is no such image" in reasons


@pytest.mark.parametrize("kind", ["a column of another name", "RetinaNet, without a header"])
def test_tables_of_other_columns_are_read(jobs: Jobs, tmp_path: Path, coco: dict[str, Objects], kind: str) -> None:
    for scene in DRAWN:
        detection.draw(scene, tmp_path / "in")
    rows = [
        f"{scene.name},{left},{top},{left + wide},{top + high},{thing.colour}"
        for scene in DRAWN
        for thing in scene.things
        for left, top, wide, high in [thing.box]
    ]
    if kind == "RetinaNet, without a header":
        bad = [f"{DRAWN[0].name},1,2,3,4,"]
        jobs.write({"a.csv": "\n".join([*rows, *bad])})
        (reject,) = jobs.build("images --boxes_csv in/a.csv --max_reject_fraction 0.5").rejects
        assert f"a.csv, line {len(rows) + 1}: the row has no class" in reject["reason"]
        jobs.write({"a.csv": "\n".join(rows)})
        made = jobs.build("images --boxes_csv in/a.csv --overwrite")
        assert "a.csv has no header: its columns are filename, x1, y1, x2, y2, class" in made.said
    else:
        jobs.write({"a.csv": "\n".join(["filename,x1,y1,x2,y2,kind", *rows])})
        jobs.refuse("images --boxes_csv in/a.csv", "(or --label_column)")
        made = jobs.build("images --boxes_csv in/a.csv --label_column kind")
    assert objects_of(made) == coco
