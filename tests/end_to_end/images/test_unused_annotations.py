"""Annotations beside images: the job stops and names the flags that read them, and those flags work."""

import io
import json
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
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


IDS = ("a1f", "b27", "c3e", "d99", "e04", "f5")
ROWS = [(stem, "cat" if number % 2 else "dog") for number, stem in enumerate(IDS)]


def _table(header: tuple[str, str], rows: Sequence[tuple[str, str]] = ROWS, mark: str = ",") -> bytes:
    return "".join(f"{first}{mark}{second}\n" for first, second in (header, *rows)).encode()


def _parquet(header: tuple[str, str]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(dict(zip(header, map(list, zip(*ROWS, strict=True)), strict=True))), out)
    return out.getvalue()


SUBMISSION = _table(("id", "label"), [("t0", "dog"), ("t1", "dog")])
STEMS = "--file_suffix .jpg --file_root train/"
# Tables of Kaggle and others: the folder that is given, the files beside train/*.jpg, and the flags that read them
TABLES: dict[str, tuple[str, dict[str, bytes], str]] = {
    "Kaggle": (
        ".",
        {"train.csv": _table(("id", "label")), "sample_submission.csv": SUBMISSION, "test/t0.jpg": image(7)},
        f"--manifest {{}}/train.csv --file_column id {STEMS}",
    ),
    "folder above": (
        "train",
        {"train.csv": _table(("id", "label"))},
        f"--manifest {{}}/train.csv --file_column id {STEMS}",
    ),
    "labels.csv": (
        "train",
        {"labels.csv": _table(("id", "breed"))},
        f"--manifest {{}}/labels.csv --file_column id {STEMS} --label_column breed",
    ),
    "Parquet": (
        "train",
        {"y.parquet": _parquet(("id", "label"))},
        f"--manifest {{}}/y.parquet --file_column id {STEMS}",
    ),
    "Parquet among": (
        ".",
        {"y.parquet": _parquet(("id", "label"))},
        f"--manifest {{}}/y.parquet --file_column id {STEMS}",
    ),
    "several tables": (
        ".",
        {"y.csv": _table(("id", "label")), "folds.csv": _table(("id", "fold"))},
        f"--manifest {{}}/y.csv --file_column id {STEMS}",
    ),
    "semicolons": (
        ".",
        {"train.csv": _table(("id", "label"), mark=";")},
        f"--manifest {{}}/train.csv --delimiter ';' --file_column id {STEMS}",
    ),
    "tabs": (
        ".",
        {"train.csv": _table(("id", "label"), mark="\t")},
        f"--manifest {{}}/train.csv --delimiter tab --file_column id {STEMS}",
    ),
    "text": (
        ".",
        {"labels.txt": _table(("id", "label"), mark=" ")},
        f"--manifest {{}}/labels.txt --delimiter ' ' --file_column id {STEMS}",
    ),
    "no header": (
        ".",
        {"train.csv": _table(ROWS[0], ROWS[1:])},
        f"--manifest {{}}/train.csv --columns file_name,label {STEMS}",
    ),
    "a row without a file": (
        ".",
        {"train.csv": _table(("id", "label"), [("zzz", "cat"), *ROWS])},
        f"--manifest {{}}/train.csv --file_column id {STEMS}",
    ),
    "JSON lines": (
        ".",
        {
            "y.jsonl": b"".join(
                b'{"image": "%b.jpg", "label": "%b"}\n' % (one.encode(), two.encode()) for one, two in ROWS
            )
        },
        "--manifest {}/y.jsonl --file_column image --file_root train/",
    ),
}


@pytest.mark.parametrize("case", TABLES)
def test_tables_that_name_images(case: str, run: Run, tmp_path: Path) -> None:
    inside, files, flags = TABLES[case]
    folder = tmp_path / "in"
    write_files(folder, {**{f"train/{stem}.jpg": image(number) for number, stem in enumerate(IDS)}, **files})
    output = ("--output", tmp_path / "out", "--name", "n")
    given = folder if inside == "." else folder / inside
    named = flags.format(folder)
    check_mistake(run("images", "--input", given, *output), f"give {named} in place of --input")

    result = run("images", *shlex.split(named), *output, "--max_reject_fraction", "0.2")
    assert result.status == 0, result.err
    contents = read_back(tmp_path / "out/n/1.0.0")
    assert {name: contents.label_of(f"train/{name}.jpg") for name in IDS} == dict(ROWS)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"y.json": json.dumps({f"{one}.jpg": two for one, two in ROWS}).encode()}, '"file_name": "train/a1f.jpg"'),
        ({"y.csv": _table(("path", "label"), [(f"data/{one}.jpg", two) for one, two in ROWS])}, "'data/a1f.jpg'"),
    ],
)
def test_tables_that_no_flag_reads(files: dict[str, bytes], words: str, run: Run, tmp_path: Path) -> None:
    write_files(tmp_path / "in", {**{f"train/{stem}.jpg": image(number) for number, stem in enumerate(IDS)}, **files})
    output = ("--output", tmp_path / "out", "--name", "n")
    for folder in ("in", "in/train"):
        check_mistake(run("images", "--input", tmp_path / folder, *output), "--manifest", words)
    assert run("images", "--input", tmp_path / "in/train", "--folders", "any", *output).status == 0


def test_tables_of_other_things_stop_nothing(run: Run, tmp_path: Path) -> None:
    """Numbers of epochs, of which some are also numbers of images, a list of names, and a table of other images."""
    files = {
        "results.csv": _table(("epoch", "loss"), [(str(number), f"{number}.5") for number in range(100)]),
        "other.csv": _table(("id", "label"), [("x1", "cat"), ("x2", "dog")]),
        "names.txt": b"cat\ndog\n",
        "vocabulary.json": json.dumps({"model": {f"w{number}": number for number in range(200)}, "id": "1"}).encode(),
    }
    write_files(tmp_path / "in", {**{f"train/{number}.jpg": image(number) for number in range(6)}, **files})
    for folder in ("in", "in/train"):
        done = run(
            "images", "--input", tmp_path / folder, "--output", tmp_path / "out", "--name", folder.replace("/", "_")
        )
        assert done.status == 0, done.err


@pytest.mark.parametrize("suffixes", [("jpg",), ("jpg", "txt"), ("jpg", "json", "txt")])
def test_numbered_folders_of_img2dataset_are_no_classes(suffixes: tuple[str, ...], run: Run, tmp_path: Path) -> None:
    contents = {"json": b'{"url": "http://a.b"}', "txt": b"a caption"}
    files = {
        f"{part:05d}/{part:05d}{number:04d}.{suffix}": contents.get(suffix) or image(part * 4 + number)
        for part in range(2)
        for number in range(4)
        for suffix in suffixes
    }
    folder = write_files(tmp_path / "in", files | {f"{part:05d}_stats.json": b"{}" for part in range(2)})
    output = ("--output", tmp_path / "out", "--name", "n")
    mistake = run("images", "--input", folder, *output)
    check_mistake(mistake, "folders such as '00000' are numbered as img2dataset numbers its files", "--folders any")
    command = mistake.err.strip().rpartition("shardmill webdataset: ")[2]
    assert command.startswith("tar ")
    subprocess.run(shlex.split(command), cwd=tmp_path, check=True)
    assert run("webdataset", "--input", tmp_path / "images.tar", *output).status == 0
    alone = run(
        "images",
        "--input",
        folder,
        "--folders",
        "any",
        *output,
        "--version",
        "2.0.0",
        "--ignore",
        "*.txt",
        "--ignore",
        "*.json",
    )
    assert alone.status == 0, alone.err
    assert "label" not in {feature.name for feature in read_back(tmp_path / "out/n/2.0.0").dataset.manifest.features}
