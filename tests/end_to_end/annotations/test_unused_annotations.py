"""Annotations next to images: the job stops and names the flags that read them."""

import io
import itertools
import json
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import exports
from tests.support.command import Run, check_mistake, image, image_tree, write_files
from tests.support.detection import Scene, coco_of, scenes, voc_of, yolo_of
from tests.support.exports import draw_all
from tests.support.image_jobs import ImageJobs

SCENES = scenes(6)
NAMES = [scene.name for scene in SCENES]
SPLIT_SCENES = {"train": SCENES[:4], "valid": SCENES[4:]}
Annotations = dict[str, str]


def coco(drawn: Sequence[Scene]) -> str:
    return json.dumps(coco_of(drawn))


def vocs(drawn: Sequence[Scene]) -> Annotations:
    return {f"{scene.name[:-4]}.xml": voc_of(scene) for scene in drawn}


def beside(pictures: str, files: Annotations) -> Callable[[Path], None]:
    """Write all pictures to a folder, and other files."""

    def write(folder: Path) -> None:
        draw_all(folder / pictures, SCENES)
        write_files(folder, {name: text.encode() for name, text in files.items()})

    return write


def roboflow(annotations: Callable[[Sequence[Scene]], Annotations]) -> Callable[[Path], None]:
    """Write pictures and annotations to a folder for each split, as Roboflow does."""

    def write(folder: Path) -> None:
        for split, drawn in SPLIT_SCENES.items():
            draw_all(folder / split, drawn)
            write_files(folder / split, {name: text.encode() for name, text in annotations(drawn).items()})

    return write


def ms_coco(folder: Path) -> None:
    files = {"captions_val2017": json.dumps({"info": {}, "images": [], "annotations": [{"caption": "a"}]})}
    for split, drawn in zip(("train2017", "val2017"), SPLIT_SCENES.values(), strict=True):
        draw_all(folder / split, drawn)
        files[f"instances_{split}"] = coco(drawn)
    write_files(folder / "annotations", {f"{name}.json": text.encode() for name, text in files.items()})


def table(header: str, row: str) -> Callable[[Path], None]:
    rows = "".join(row.format(name=name, stem=name[:-4]) for name in NAMES)
    return beside("pictures", {"labels.csv": f"{header}\n{rows}"})


def tool(write: Callable[[Path, Sequence[Scene]], None] | str) -> Callable[[Path], None]:
    """Write all pictures as a tool exports them, or as Datumaro writes its format."""
    return lambda folder: (exports.exporter(write) if isinstance(write, str) else write)(folder, SCENES)


YOLO = {"data.yaml": "train: images/train\nnames: [red, green, blue]\n"}
YOLO |= {f"labels/train/{scene.name[:-4]}.txt": yolo_of(scene) for scene in SCENES}
LABELS, ROOT = "--manifest in/labels.csv", "--file_root pictures/"
COCO = "--coco train=in/{} --coco validation=in/{}"
CASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "MS COCO": (ms_coco, COCO.format(*(f"annotations/instances_{split}2017.json" for split in ("train", "val")))),
    "Roboflow COCO": (
        roboflow(lambda drawn: {"_annotations.coco.json": coco(drawn)}),
        COCO.format(*(f"{split}/_annotations.coco.json" for split in SPLIT_SCENES)),
    ),
    "Roboflow VOC": (roboflow(vocs), "--voc in"),
    "VOC": (beside("JPEGImages", {f"Annotations/{name}": text for name, text in vocs(SCENES).items()}), "--voc in"),
    "YOLO": (beside("images/train", YOLO), "--yolo in/data.yaml"),
    "filename": (table("filename,label", "{name},a\n"), f"{LABELS} --file_column filename {ROOT}"),
    "image": (table("image,label", "{name},a\n"), f"{LABELS} --file_column image {ROOT}"),
    "file_name": (table("file_name,label", "pictures/{name},a\n"), LABELS),
    "id": (table("id,label", "{stem},a\n"), f"{LABELS} --file_column id --file_suffix .png {ROOT}"),
    "CVAT": (tool(exports.cvat), "--annotations cvat=in"),
    "LabelMe": (tool(exports.labelme), "--annotations labelme=in"),
    "VIA": (tool(exports.via_project), "--annotations via=in"),
    "VIA CSV": (tool(exports.via_csv), "--annotations via=in"),
    "CreateML": (tool(exports.createml), "--annotations createml=in"),
    "Label Studio": (tool(exports.label_studio), "--annotations label_studio=in"),
    "LabelMe XML": (tool("label_me"), "--annotations label_me=in"),
    "KITTI": (tool("kitti_detection"), "--annotations kitti_detection=in"),
    "Darknet": (tool("yolo"), "--annotations yolo=in"),
    "Open Images": (tool("open_images"), "--annotations open_images=in"),
    "Roboflow's classes": (
        roboflow(lambda of: {"_classes.csv": "filename, cat, dog\n" + "".join(f"{one.name}, 1, 0\n" for one in of)}),
        "--annotations roboflow_multiclass=in",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_message_names_the_flags_that_read_them(images: ImageJobs, case: str) -> None:
    """The flags read the annotations in test_exports.py, test_detection.py and images/test_manifests.py."""
    make, flags = CASES[case]
    make(Path("in"))
    images.refuse({}, "", f"give {flags} in place of --input")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"boxes.csv": b"filename,xmin,ymin,xmax,ymax,class\n0.png,1,2,3,4,a\n"}, "boxes in CSV"),
        ({"0.txt": b"0 0.5 0.5 0.1 0.1\n"}, "--yolo a data.yaml"),
        ({"0.txt": b"a dog on a beach\n", "1.json": b"{}"}, "named after images"),
    ],
)
def test_annotations_that_no_flag_reads(images: ImageJobs, files: dict[str, bytes], words: str) -> None:
    """The folders' roles alone do not answer the question, but the --ignore in the message does."""
    pictures = {f"{number}.png": image(number, "PNG") for number in range(2)}
    images.refuse({**files, **pictures}, "", words)
    result = images.start({}, "--folders any")
    check_mistake(result, words)
    advice = result.err.partition("to leave such files out, ")[2].strip()
    assert images.make({}, f"--folders any {advice}").records.keys() == pictures.keys()


def test_other_files_are_left_out_with_a_notice(images: ImageJobs) -> None:
    files = {"README.txt": b"Pictures.\n", "classes.txt": b"a\nb\n", "prices.csv": b"a,b\n1,2\n", "x.json": b"{}"}
    files |= {"ant/@eaDir/0.png": image(0, "PNG"), **image_tree(("ant", "bee"), 2)}
    result = images.start(files)
    assert result.status == 0
    assert "1 system folder, such as 'ant/@eaDir'" in result.out + result.err


@pytest.mark.parametrize(
    ("names", "are_classes"),
    [
        (("train2017", "val2017"), False),
        (("train_labels", "pictures"), False),
        (("obj_train_data", "a"), False),
        (("Test Labels", "b"), False),
        (("real_images", "fake_images"), True),
        (("test_tube", "flask"), True),
    ],
)
def test_folders_whose_names_say_what_is_in_them_are_no_classes(
    images: ImageJobs, names: tuple[str, str], are_classes: bool
) -> None:
    if not are_classes:
        images.refuse(image_tree(names, 2), "", "would be a class", "--folders")
    made = images.make(image_tree(names, 2), "" if are_classes else "--folders label")
    assert made.label_of(f"{names[1]}/000.jpg") == names[1]


IDS = ("a1f", "b27", "c3e", "d99", "e04", "f5")
ROWS = [(stem, "cat" if number % 2 else "dog") for number, stem in enumerate(IDS)]


def rows_of(header: tuple[str, str], rows: Sequence[tuple[str, str]] = ROWS, mark: str = ",") -> bytes:
    return "".join(f"{first}{mark}{second}\n" for first, second in (header, *rows)).encode()


def parquet(header: tuple[str, str]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(dict(zip(header, map(list, zip(*ROWS, strict=True)), strict=True))), out)
    return out.getvalue()


SUBMISSION = rows_of(("id", "label"), [("t0", "dog"), ("t1", "dog")])
LINES = "".join(f'{{"image": "{one}.jpg", "label": "{two}"}}\n' for one, two in ROWS).encode()
ID = ("id", "label")
STEMS = "--file_suffix .jpg --file_root train/"
BY_ID = f"--file_column id {STEMS}"
# Tables of Kaggle and others: the folder that is given, the files next to train/*.jpg, and the flags that read them
TABLES: dict[str, tuple[str, dict[str, bytes], str]] = {
    "Kaggle": (
        "in",
        {"train.csv": rows_of(ID), "sample_submission.csv": SUBMISSION, "test/t0.jpg": image(7)},
        f"train.csv {BY_ID}",
    ),
    "folder above": ("in/train", {"train.csv": rows_of(ID)}, f"train.csv {BY_ID}"),
    "labels.csv": ("in/train", {"labels.csv": rows_of(("id", "breed"))}, f"labels.csv {BY_ID} --label_column breed"),
    "Parquet": ("in/train", {"y.parquet": parquet(ID)}, f"y.parquet {BY_ID}"),
    "Parquet among": ("in", {"y.parquet": parquet(ID)}, f"y.parquet {BY_ID}"),
    "several tables": ("in", {"y.csv": rows_of(ID), "folds.csv": rows_of(("id", "fold"))}, f"y.csv {BY_ID}"),
    "semicolons": ("in", {"train.csv": rows_of(ID, mark=";")}, f"train.csv --delimiter ';' {BY_ID}"),
    "tabs": ("in", {"train.csv": rows_of(ID, mark="\t")}, f"train.csv --delimiter tab {BY_ID}"),
    "text": ("in", {"labels.txt": rows_of(ID, mark=" ")}, f"labels.txt --delimiter ' ' {BY_ID}"),
    "no header": ("in", {"train.csv": rows_of(ROWS[0], ROWS[1:])}, f"train.csv --columns file_name,label {STEMS}"),
    "a row without a file": ("in", {"train.csv": rows_of(ID, [("zzz", "cat"), *ROWS])}, f"train.csv {BY_ID}"),
    "JSON lines": ("in", {"y.jsonl": LINES}, "y.jsonl --file_column image --file_root train/"),
}
PICTURES = {f"train/{stem}.jpg": image(number) for number, stem in enumerate(IDS)}


@pytest.mark.parametrize("case", TABLES)
def test_tables_that_name_images(images: ImageJobs, case: str) -> None:
    given, files, table_and_flags = TABLES[case]
    flags = f"--manifest in/{table_and_flags}"
    images.refuse(PICTURES | files, f"--input {given}", f"give {flags} in place of --input")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"y.json": json.dumps({f"{one}.jpg": two for one, two in ROWS}).encode()}, '"file_name": "train/a1f.jpg"'),
        ({"y.csv": rows_of(("path", "label"), [(f"data/{one}.jpg", two) for one, two in ROWS])}, "'data/a1f.jpg'"),
    ],
)
def test_tables_that_no_flag_reads(images: ImageJobs, files: dict[str, bytes], words: str) -> None:
    for folder in ("in", "in/train"):
        images.refuse(PICTURES | files, f"--input {folder}", "--manifest", words)
    images.make({}, "--input in/train --folders any")


def test_tables_of_other_things_stop_nothing(images: ImageJobs) -> None:
    """Numbers of epochs, of which some are also numbers of images, a list of names, and a table of other images."""
    files = {
        "results.csv": rows_of(("epoch", "loss"), [(str(number), f"{number}.5") for number in range(100)]),
        "other.csv": rows_of(ID, [("x1", "cat"), ("x2", "dog")]),
        "names.txt": b"cat\ndog\n",
        "vocabulary.json": json.dumps({"model": {f"w{number}": number for number in range(200)}, "id": "1"}).encode(),
    }
    files |= {f"train/{number}.jpg": image(number) for number in range(6)}
    assert len(images.make(files, "--input in/train").records) == len(images.make({}, "--overwrite").records) == 6


@pytest.mark.parametrize("suffixes", [("jpg",), ("jpg", "json", "txt")])
def test_numbered_folders_of_img2dataset_are_no_classes(images: ImageJobs, run: Run, suffixes: tuple[str, ...]) -> None:
    contents = {"json": b'{"url": "http://a.b"}', "txt": b"a caption"}
    files = {f"{part:05d}_stats.json": b"{}" for part in range(2)}
    for part, number, suffix in itertools.product(range(2), range(4), suffixes):
        name = f"{part:05d}/{part:05d}{number:04d}.{suffix}"
        files[name] = contents.get(suffix) or image(part * 4 + number)
    mistake = images.start(files)
    check_mistake(mistake, "folders such as '00000' are numbered as img2dataset numbers its files", "--folders any")
    command = mistake.err.strip().rpartition("shardmill webdataset: ")[2]
    assert command.startswith("tar ")
    subprocess.run(shlex.split(command), check=True)
    assert run("webdataset", "--input", "images.tar", "--output", "out", "--name", "n").status == 0
    alone = images.make({}, "--folders any --version 2.0.0 --ignore *.txt --ignore *.json")
    assert "label" not in {feature.name for feature in alone.dataset.manifest.features}
