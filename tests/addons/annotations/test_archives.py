"""Archives as they are published: each is read as it is meant, or stops with advice that works."""

import json
from collections.abc import Mapping

import pytest

from tests.support.command import image
from tests.support.jobs import Files, Jobs

KITTI = "Car 0.00 0 -1.57 2 2 20 20 1.5 1.6 3.7 1.0 1.5 9.0 -1.56"
DOTA = "imagesource:GoogleEarth\ngsd:0.1\n2.0 2.0 20.0 2.0 20.0 20.0 2.0 20.0 plane 0\n"
WIDER = "0--Parade/a.jpg\n1\n2 2 9 9 0 0 0 0 0 0 \n0--Parade/b.jpg\n0\n0 0 0 0 0 0 0 0 0 0 \n"
PERSON = {"tag": "person", "fbox": [2, 2, 9, 9]}
BDD = [{"name": "a.jpg", "labels": [{"category": "car", "box2d": {"x1": 2, "y1": 2, "x2": 9, "y2": 9}}]}]
SUPERVISELY = {"size": {"height": 48, "width": 64}, "objects": [{"classTitle": "cat", "geometryType": "rectangle"}]}


def pictures(folder: str, *names: str) -> dict[str, bytes]:
    """Pictures of one size with different contents."""
    return {f"{folder}{name}": image(number, "JPEG", size=(64, 48)) for number, name in enumerate(names)}


def yolo(labels: Mapping[str, str], names: str = "[cat, dog]") -> Files:
    """The files of a YOLO data set, with the lines of each picture by its name."""
    files = {f"labels/{name}.txt": text for name, text in labels.items()}
    return (
        {"data.yaml": f"train: images\nnames: {names}\n"} | files | pictures("images/", *(f"{n}.jpg" for n in labels))
    )


READ: dict[str, tuple[Files, str, list[str]]] = {  # files, the flag that the message names, the classes
    "KITTI": (
        {"training/label_2/a.txt": f"{KITTI}\n"} | pictures("training/image_2/", "a.jpg"),
        "--annotations kitti_detection=in",
        ["Car"],
    ),
    "WIDER FACE": (
        {"wider_face_split/wider_face_train_bbx_gt.txt": WIDER}
        | pictures("WIDER_train/images/0--Parade/", "a.jpg", "b.jpg"),
        "--annotations wider_face=in",
        ["face"],
    ),
    "MOT": (
        {f"{name}/gt/gt.txt": "1,1,2,2,9,9,1,-1,-1,-1\n" for name in ("s1", "s2")}
        | pictures("s1/img1/", "000001.jpg")
        | pictures("s2/img1/", "000001.jpg"),
        "--annotations mot_seq=in",
        ["object"],
    ),
    "DOTA": ({"train/labelTxt/a.txt": DOTA} | pictures("train/images/", "a.jpg"), "--annotations dota=in", ["plane"]),
    "SKU-110K": (
        {"train.csv": "a.jpg,2,2,9,9,object,64,48\nb.jpg,,,,,,64,48\n"} | pictures("images/", "a.jpg", "b.jpg"),
        "--boxes_csv in",
        ["object"],
    ),
    "RetinaNet of Roboflow, whose first row has no box": (
        {"train/_annotations.csv": "a.jpg,,,,,\nb.jpg,2,2,9,9,cat\n", "train/_classes.csv": "cat,0\n"}
        | pictures("train/", "a.jpg", "b.jpg"),
        "--boxes_csv in",
        ["cat"],
    ),
}


@pytest.mark.parametrize("case", READ)
def test_the_flags_of_the_message_read_it(jobs: Jobs, case: str) -> None:
    files, flags, classes = READ[case]
    jobs.refuse("images", f"give {flags} in place of --input", files=files)
    made = jobs.build(f"images {flags}")
    assert (made.directory / "objects-label.labels.txt").read_text().split() == classes


WRITE = "write the annotations as COCO for --coco, or as a table with a row for each box for --boxes_csv"
UNREAD: dict[str, Files] = {
    "BDD100K": {"labels/bdd.json": json.dumps(BDD)} | pictures("images/", "a.jpg"),
    "CrowdHuman": {"train.odgt": json.dumps({"ID": "a", "gtboxes": [PERSON]})} | pictures("Images/", "a.jpg"),
    "VisDrone": {"annotations/7.txt": "7,1,2,2,1,4,0,0\n"} | pictures("images/", "7.jpg"),
    "WiderPerson": {"Annotations/7.jpg.txt": "1\n7 2 2 9 9\n"} | pictures("Images/", "7.jpg"),
    "YOLO of Keras": {"_annotations.txt": "a.jpg 2,2,9,9,0\n", "_classes.txt": "cat\n"} | pictures("", "a.jpg"),
}


@pytest.mark.parametrize("case", UNREAD)
def test_what_no_flag_reads_is_to_be_written_anew(jobs: Jobs, case: str) -> None:
    jobs.refuse("images", f"which are no images; if they annotate the images, {WRITE}", files=UNREAD[case])
    jobs.refuse("images --annotations in", f"its format is not recognised; …; or {WRITE}")


def test_a_project_of_supervisely(jobs: Jobs) -> None:
    files = {"ds/ann/a.jpg.json": json.dumps(SUPERVISELY), "meta.json": "{}"} | pictures("ds/img/", "a.jpg")
    jobs.refuse("images --annotations in", "a project of Supervisely's; export its images as COCO", files=files)


def test_class_ids_of_yolo_that_begin_at_1(jobs: Jobs) -> None:
    """The names that the messages ask for make it right; an id 0 shows that they begin there."""
    labels = dict.fromkeys("abc", "1 0.5 0.5 0.2 0.2\n")
    line = "images --overwrite --yolo in/data.yaml"
    found = "no object has the class id 0, 'cat', and"
    (notice,) = [each for each in jobs.build(line, files=yolo(labels)).notices if each.startswith(found)]
    assert notice.startswith(f"{found} 3 objects have 1, 'dog': if ids begin at 1, all classes are wrong: write names")
    for names in ("0: cat, 1: dog", "0: none, 1: cat, 2: dog"):
        assert names.partition(", 2")[0] in notice
        assert "the class id 0" not in jobs.build(line, files=yolo(labels, f"{{{names}}}")).said
    labels["d"] = "2 .5 .5 .2 .2\n"
    jobs.refuse(line, f"{found} some have 2; begin ids at 0, or write names as 0: none, 1: cat,", files=yolo(labels))
    jobs.build(line, files=yolo(labels, "[none, cat, dog]"))
    made = jobs.build(line, files=yolo(labels | {"a": "0 0.5 0.5 0.2 0.2\n"}))
    assert made.file_reasons["labels/d.txt"].endswith("line 1 is of class 2; data.yaml names 2, from 0")


def test_predictions_of_yolo_are_no_annotations(jobs: Jobs) -> None:
    """Six numbers are a triangle, unless the last one is the number of a track."""
    right = dict.fromkeys("abcde", "0 0.5 0.5 0.2 0.2\n")
    wrong = {"f": "0 0.5 0.5 0.2 0.2 0.9\n", "g": "0 0.5 0.5 0.2 0.2 0.9 1\n"}
    made = jobs.build("images --yolo in/data.yaml", files=yolo(right | wrong | {"h": "0 .2 .2 .4 .2 .4 1.0\n"}))
    looks = "no annotation of YOLO's: line 1 looks like a prediction, a box with a confidence"
    rest = "; keep the first five words of each"
    assert made.file_reasons == {"labels/f.txt": looks + rest, "labels/g.txt": f"{looks} and a track{rest}"}


def test_scores_are_told(jobs: Jobs) -> None:
    files = {f"label_2/{name}.txt": f"{KITTI} 0.7\n" for name in "ab"} | pictures("image_2/", "a.jpg", "b.jpg")
    made = jobs.build("images --annotations kitti_detection=in", files=files)
    assert any("attribute score of 2" in notice for notice in made.notices)


def test_an_image_of_dota_has_no_objects_only_if_its_file_has_no_lines(jobs: Jobs) -> None:
    """Two splits have images of the same names."""
    wrong = ["2 2 9 2 9 9 2 plane 0", "2 2 9 2 9 x 2 9 plane 0", "plane 2 2 9 2 9 9 2 9 0"]
    texts = [f"{DOTA}2 2 9 2 9e0 9. 2 9 plane\n", "gsd:null\n\n", *(f"gsd:1\n{line}\n" for line in wrong)]
    files: dict[str, str | bytes] = {"val/labelTxt/gone.txt": DOTA}
    for split in ("train", "val"):
        files |= {f"{split}/labelTxt/{number}.txt": text for number, text in enumerate(texts)}
        files |= pictures(f"{split}/images/", *(f"{number}.jpg" for number in range(len(texts))))
    made = jobs.build("images --annotations in --max_reject_fraction 1", files=files)
    found = {one["filename"].decode(): one["objects/area"].tolist() for one in made.examples("validation")}
    assert found == {"val/images/0.jpg": [324, 49], "val/images/1.jpg": []}
    words = "expected x and y of four corners, a class, and a difficulty of 0, 1 or 2"
    assert made.file_reasons == {"gone": "there is no such image"} | {
        f"{split}/images/{number}.jpg": f"in/{split}/labelTxt/{number}.txt, line 2, is {line!r}; {words}"
        for split in ("train", "val")
        for number, line in enumerate(wrong, 2)
    }


def test_images_of_two_coco_files_that_two_folders_hold(jobs: Jobs) -> None:
    box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [2, 2, 9, 9]}
    coco = {"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [box], "categories": [{"id": 1, "name": "cat"}]}
    files: Files = {f"annotations/{name}.json": json.dumps(coco) for name in ("instances_train", "other")}
    files = {**files, **pictures("train/", "a.jpg"), **pictures("images/", "a.jpg")}
    several = "images --coco train=in/annotations/instances_train.json --coco test=in/annotations/other.json"
    jobs.refuse(several, "such as 'a.jpg', may be…in in/train or in in/images; move all but one away", files=files)


@pytest.mark.parametrize(
    ("files", "line", "sentence"),
    [
        ({"JPEGImages/é.jpg": b"", "ImageSets/Main/train.txt": b"\xe9\n", "Annotations/é.xml": ""}, "--voc in", "1 on"),
        ({"data.yaml": "train: a.txt\nnames: [a]\n", "a.txt": b"\xe9.jpg\n"}, "--yolo in/data.yaml", "1 on; save"),
        (
            {"a.csv": "image,class,bbox\n", "class-descriptions-boxable.csv": b"/m/1,\xe9\n"},
            "--boxes_csv in/a.csv",
            "boxable.csv is not UTF-8 from byte 6 on",
        ),
        (
            {"a.csv": "a.jpg,2,2,9,9\n"},
            "--boxes_csv in/a.csv",
            "its first line is no header, but a row: a.jpg, 2, 2, 9, 9",
        ),
        (
            {"a.tar": b""},
            "--input in",
            "a.tar'; tar files of samples, 1.jpg next to 1.cls, are for `shardmill webdataset`",
        ),
    ],
)
def test_lists_and_tables_that_cannot_be_read_stop_the_job(
    jobs: Jobs, files: dict[str, bytes | str], line: str, sentence: str
) -> None:
    jobs.refuse(f"images {line}", sentence, files=files)


def test_images_that_two_tables_annotate_are_rejected(jobs: Jobs) -> None:
    """Nobody knows whether their boxes belong together."""
    header = "filename,class,xmin,ymin,xmax,ymax\n"
    row = "{}.jpg,cat,2,2,9,9\n"
    files = {f"{name}.csv": header + row.format(name) + row.format("c") for name in "ab"}
    line = "images --boxes_csv in --annotations boxes_csv=in --max_reject_fraction 1"  # one request, by two flags
    made = jobs.build(line, files=files | pictures("", *(f"{n}.jpg" for n in "abc")))
    assert sorted(one["filename"] for one in made.examples()) == [b"a.jpg", b"b.jpg"]
    assert {reject["reason"] for reject in made.rejects} == {"it is annotated 2 times: in in/a.csv and in in/b.csv"}
