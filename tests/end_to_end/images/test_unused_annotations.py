"""Annotations beside images: the job stops and names the flags that read them, and those flags work."""

import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from shardmill.data.example import decode_example
from tests.support import exports
from tests.support.command import Result, Run, check_mistake, image, image_tree, read_back, write_files
from tests.support.detection import Scene, coco_of, draw, scenes, voc_of, yolo_of

SCENES = scenes(6)
NAMES = [scene.name for scene in SCENES]


def draw_in(folder: Path, start: int = 0, stop: int = 6) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for scene in SCENES[start:stop]:
        draw(scene, folder)


def coco(start: int, stop: int) -> bytes:
    return json.dumps(coco_of(SCENES[start:stop])).encode()


def ms_coco(folder: Path) -> None:
    draw_in(folder / "train2017", 0, 4)
    draw_in(folder / "val2017", 4, 6)
    captions = json.dumps({"info": {}, "images": [], "annotations": [{"caption": "a"}]}).encode()
    files = {
        "instances_train2017.json": coco(0, 4),
        "instances_val2017.json": coco(4, 6),
        "captions_val2017.json": captions,
    }
    write_files(folder / "annotations", files)


def roboflow_coco(folder: Path) -> None:
    for split, start, stop in (("train", 0, 4), ("valid", 4, 6)):
        draw_in(folder / split, start, stop)
        write_files(folder / split, {"_annotations.coco.json": coco(start, stop)})


def roboflow_voc(folder: Path) -> None:
    for split, start, stop in (("train", 0, 4), ("valid", 4, 6)):
        draw_in(folder / split, start, stop)
        write_files(folder / split, {f"{s.name[:-4]}.xml": voc_of(s).encode() for s in SCENES[start:stop]})


def voc(folder: Path) -> None:
    draw_in(folder / "JPEGImages")
    write_files(folder / "Annotations", {f"{s.name[:-4]}.xml": voc_of(s).encode() for s in SCENES})


def yolo(folder: Path) -> None:
    draw_in(folder / "images" / "train")
    write_files(folder / "labels" / "train", {f"{s.name[:-4]}.txt": yolo_of(s).encode() for s in SCENES})
    write_files(folder, {"data.yaml": b"train: images/train\nnames: [red, green, blue]\n"})


def table(header: str, row: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        draw_in(folder / "pictures")
        rows = "".join(row.format(name=name, stem=name[:-4]) for name in NAMES)
        write_files(folder, {"labels.csv": f"{header}\n{rows}".encode()})

    return write


def tool(write: Callable[[Path, Sequence[Scene]], None]) -> Callable[[Path], None]:
    return lambda folder: write(folder, SCENES)


def roboflow_classes(folder: Path) -> None:
    for split, start, stop in (("train", 0, 4), ("valid", 4, 6)):
        draw_in(folder / split, start, stop)
        rows = "".join(f"{name}, 1, 0\n" for name in NAMES[start:stop])
        write_files(folder / split, {"_classes.csv": f"filename, cat, dog\n{rows}".encode()})


def coco_flags(train: str, validation: str) -> str:
    return f"--coco train={{0}}/{train} --coco validation={{0}}/{validation}"


def check_ignored(run: Run, mistake: Result, folder: Path, output: tuple[object, ...]) -> None:
    """Check that the folders' roles alone do not answer the question, and that the --ignore in its message does."""
    no_classes = ("images", "--input", folder, "--folders", "any", *output, "--version", "2.0.0")
    check_mistake(run(*no_classes), "to leave such files out")
    advice = shlex.split(mistake.err.partition("to leave such files out, ")[2])
    assert run(*no_classes, *advice).status == 0


TABLE = "--manifest {0}/labels.csv"
ROOT = "--file_root pictures/"


@pytest.mark.parametrize(
    ("make", "flags"),
    [
        (ms_coco, coco_flags("annotations/instances_train2017.json", "annotations/instances_val2017.json")),
        (roboflow_coco, coco_flags("train/_annotations.coco.json", "valid/_annotations.coco.json")),
        (roboflow_voc, "--voc {0}"),
        (voc, "--voc {0}"),
        (yolo, "--yolo {0}/data.yaml"),
        (table("filename,label", "{name},a\n"), f"{TABLE} --file_column filename {ROOT}"),
        (table("image,label", "{name},a\n"), f"{TABLE} --file_column image {ROOT}"),
        (table("file_name,label", "pictures/{name},a\n"), TABLE),
        (table("id,label", "{stem},a\n"), f"{TABLE} --file_column id --file_suffix .png {ROOT}"),
        (tool(exports.cvat), "--annotations cvat={0}"),
        (tool(exports.labelme), "--annotations labelme={0}"),
        (tool(exports.via_project), "--annotations via={0}"),
        (tool(exports.via_csv), "--annotations via={0}"),
        (tool(exports.createml), "--annotations createml={0}"),
        (tool(exports.label_studio), "--annotations label_studio={0}"),
        (tool(exports.exporter("label_me")), "--annotations label_me={0}"),
        (tool(exports.exporter("kitti_detection")), "--annotations kitti_detection={0}"),
        (tool(exports.exporter("yolo")), "--annotations yolo={0}"),
        (tool(exports.exporter("open_images")), "--annotations open_images={0}"),
        (roboflow_classes, "--annotations roboflow_multiclass={0}"),
    ],
    ids=[
        *("MS COCO", "Roboflow COCO", "Roboflow VOC", "VOC", "YOLO", "filename", "image", "file_name", "id", "CVAT"),
        *("LabelMe", "VIA", "VIA CSV", "CreateML", "Label Studio", "LabelMe XML", "KITTI"),
        *("Darknet", "Open Images", "Roboflow's classes"),
    ],
)
def test_the_flags_that_the_message_names_read_them(
    run: Run, tmp_path: Path, make: Callable[[Path], None], flags: str
) -> None:
    folder = tmp_path / "in"
    make(folder)
    output = ("--output", tmp_path / "out", "--name", "n")
    named = flags.format(folder)
    result_of_mistake = run("images", "--input", folder, *output)
    check_mistake(result_of_mistake, f"give {named} in place of --input")
    assert not (tmp_path / "out").exists()

    result = run("images", *shlex.split(named), *output)
    assert result.status == 0, result.err
    contents = read_back(tmp_path / "out/n/1.0.0")
    assert sorted(name.rpartition("/")[2] for names in contents.splits.values() for name in names) == NAMES
    features = {
        feature.rpartition("/")[2] for (record,) in contents.records.values() for feature in decode_example(record)
    }
    assert "label" in features
    check_ignored(run, result_of_mistake, folder, output)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"boxes.csv": b"filename,xmin,ymin,xmax,ymax,class\n0.png,1,2,3,4,a\n"}, "boxes in CSV"),
        ({"0.txt": b"0 0.5 0.5 0.1 0.1\n"}, "--yolo a data.yaml"),
        ({"0.txt": b"a dog on a beach\n"}, "named after images"),
    ],
)
def test_annotations_that_no_flag_reads(run: Run, tmp_path: Path, files: dict[str, bytes], words: str) -> None:
    folder = write_files(tmp_path / "in", {**files, "0.png": image(0, "PNG"), "1.png": image(1, "PNG")})
    output = ("--output", tmp_path / "out", "--name", "n")
    result = run("images", "--input", folder, *output)
    check_mistake(result, words)
    check_ignored(run, result, folder, output)


def test_other_files_are_left_out_with_a_notice(run: Run, tmp_path: Path) -> None:
    files = {"README.txt": b"Pictures.\n", "classes.txt": b"a\nb\n", "prices.csv": b"a,b\n1,2\n", "x.json": b"{}"}
    folder = write_files(tmp_path / "in", {**files, **image_tree(("ant", "bee"), 2)})
    folder = write_files(folder, {"ant/@eaDir/0.png": image(0, "PNG")})
    result = run("images", "--input", folder, "--output", tmp_path / "out", "--name", "n")
    assert result.status == 0
    assert "1 system folder, such as 'ant/@eaDir'" in result.out + result.err


@pytest.mark.parametrize(
    "folders", [("train2017", "val2017"), ("train_labels", "pictures"), ("obj_train_data", "a"), ("Test Labels", "b")]
)
def test_folders_that_are_no_classes(run: Run, tmp_path: Path, folders: tuple[str, str]) -> None:
    folder = write_files(tmp_path / "in", image_tree(folders, 2))
    output = ("--output", tmp_path / "out", "--name", "n")
    check_mistake(run("images", "--input", folder, *output), "would be a class", "--folders")
    assert run("images", "--input", folder, "--folders", "label", *output).status == 0


@pytest.mark.parametrize(
    "names", [("real_images", "fake_images"), ("with_mask", "without_mask"), ("test_tube", "flask")]
)
def test_folders_that_are_classes(run: Run, tmp_path: Path, names: tuple[str, str]) -> None:
    folder = write_files(tmp_path / "in", image_tree(names, 2))
    assert run("images", "--input", folder, "--output", tmp_path / "out", "--name", "n").status == 0
