"""Annotations next to images: the job stops and names the flags that read them."""

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.support import exports
from tests.support.archives import zipped
from tests.support.command import check_mistake, image, image_tree, npy, write_files
from tests.support.detection import Scene, coco_of, scenes, voc_of, yolo_of
from tests.support.exports import draw_all
from tests.support.image_jobs import ImageJobs
from tests.support.jobs import Jobs
from tests.support.masks import encoded
from tests.support.sounds import wav

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
        ({"0.txt": b"a dog on a beach\n", "1.json": b"{}"}, "1 .json file, such as '1.json'; 1 .txt file"),
    ],
)
def test_annotations_that_no_flag_reads(images: ImageJobs, files: dict[str, bytes], words: str) -> None:
    """The folders' roles alone do not answer the question, but the --exclude in the message does."""
    pictures = {f"{number}.png": image(number, "PNG") for number in range(2)}
    images.refuse({**files, **pictures}, "", words)
    result = images.start({}, "--folders any")
    check_mistake(result, words)
    excluded = result.err.partition("--exclude ")[2]
    assert images.make({}, f"--folders any --exclude {excluded}").records.keys() == pictures.keys()


# Files of any suffix next to examples, and the words of the message about them
OTHERS: dict[str, tuple[str, bytes, str]] = {
    "HEIC": ("a.heic", b"", "convert it to PNG or JPEG"),
    "SVG": ("a.svg", b"<svg/>", "convert it to PNG or JPEG"),
    "MATLAB": ("a.mat", b"", "MATLAB's format"),
    "HDF5": ("a.h5", b"", "HDF5"),
    "archive": ("more.zip", b"", "--input in/more.zip"),
    "Excel": ("a.xlsx", b"", "1 .xlsx file, such as 'a.xlsx', which are no"),
    "a table of plates": ("license_plates.csv", b"id,plate", "1 .csv file, such as 'license_plates.csv'"),
    "a table about labels": ("README_labels.json", b"{}", "1 .json file, such as 'README_labels.json'"),
    "a list": ("val_files.txt", b"ant/0", "val_files.txt"),
    "no suffix": ("labels", b"ant", "1 file without suffix, such as 'labels'"),
    "any": ("deep/er/a.dat", b"", "1 .dat file, such as 'deep/er/a.dat'"),
}
ROUTES: dict[str, tuple[str, bytes]] = {
    "images": ("jpg", image(1)),
    "audio": ("wav", wav()),
    "arrays": ("npy", npy(np.zeros(2))),
    "text --record file": ("txt", b"words"),
}


@pytest.mark.parametrize("command", ROUTES)
def test_every_file_is_used_excluded_or_clutter(jobs: Jobs, command: str) -> None:
    suffix, content = ROUTES[command]
    files = {f"{label}/{number}.{suffix}": content for label in ("ant", "bee") for number in range(2)}
    clutter = ("README.txt", "README.dataset.txt", "license", "LICENSE-MIT", "notes.md", "paper.pdf")
    hidden = ("Thumbs.db", "desktop.ini", ".DS_Store", "__MACOSX/x.y", "ant/@eaDir/0.png")
    jobs.write(files | dict.fromkeys((*clutter, *hidden), b""))
    for name, data, words in [*OTHERS.values()][
        : None if command == "images" else 2
    ]:  # images alone are told what it is
        if name.rpartition(".")[2] == suffix:
            continue
        jobs.write({name: data})
        end = f"--exclude '*.{name.rpartition('.')[2]}'" if "." in name else f"--exclude {name}"
        jobs.refuse(command, f"{words}…{end}" if command == "images" else f"it holds 1 …{end}")
        Path("in", name).unlink()
    assert sum(split.examples for split in jobs.build(f"{command} --exclude '*.tmp'").manifest.splits) == 4


def test_files_without_suffix_are_left_out_by_their_folder(jobs: Jobs) -> None:
    files = {f"{part}/ant/{n}{end}": image(n) for n in (1, 2) for part, end in (("a", ".jpg"), ("b", ""))}
    jobs.refuse("images", "2 files without suffix, such as 'b/ant/1'…--exclude b", files=files)
    assert jobs.build("images --exclude b").splits == {"train": 2}


def test_files_in_archives_and_lists_that_a_flag_names(jobs: Jobs) -> None:
    files = {**image_tree(("ant", "bee"), 2), "labels.csv": b"a,b\n1,2\n"}
    jobs.refuse("images --input in/a.zip", "1 .csv file…--exclude '*.csv'", files={"a.zip": zipped(files)})
    jobs.build("images --input in/a.zip --exclude '*.csv'")
    listed = {f"b/{name}": content for name, content in files.items() if name.endswith("jpg")}
    files = {**listed, "b/test.txt": b"ant/000.jpg"}
    jobs.build("images --split_lists in/b/test.txt --input in/b --version 2.0.0", files=files)


IDS = ("a1f", "b27", "c3e", "d99", "e04", "f5")
ROWS = [(stem, "cat" if number % 2 else "dog") for number, stem in enumerate(IDS)]


def rows_of(header: tuple[str, str], rows: Sequence[tuple[str, str]] = ROWS, mark: str = ",") -> bytes:
    return "".join(f"{first}{mark}{second}\n" for first, second in (header, *rows)).encode()


def parquet(header: tuple[str, str]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(dict(zip(header, map(list, zip(*ROWS, strict=True)), strict=True))), out)
    return out.getvalue()


LINES = "".join(f'{{"image": "{one}.jpg", "label": "{two}"}}\n' for one, two in ROWS).encode()
ID = ("id", "label")
STEMS = "--file_suffix .jpg --file_root train/"
BY_ID = f"--file_column id {STEMS}"
# Tables of Kaggle and others: the folder that is given, the files next to train/*.jpg, and the flags that read them
TABLES: dict[str, tuple[str, dict[str, bytes], str]] = {
    "Kaggle": ("in", {"train.csv": rows_of(ID), "test/t0.jpg": image(7)}, f"train.csv {BY_ID}"),
    "labels.csv": ("in", {"labels.csv": rows_of(("id", "breed"))}, f"labels.csv {BY_ID} --label_column breed"),
    "Parquet": ("in", {"y.parquet": parquet(ID)}, f"y.parquet {BY_ID}"),
    "semicolons": ("in", {"train.csv": rows_of(ID, mark=";")}, f"train.csv --delimiter ';' {BY_ID}"),
    "tabs": ("in", {"train.csv": rows_of(ID, mark="\t")}, f"train.csv --delimiter tab {BY_ID}"),
    "text": ("in", {"labels.txt": rows_of(ID, mark=" ")}, f"labels.txt --delimiter ' ' {BY_ID}"),
    "no header": ("in", {"train.csv": rows_of(ROWS[0], ROWS[1:])}, f"train.csv --columns file_name,label {STEMS}"),
    "a row without a file": ("in", {"train.csv": rows_of(ID, [("zzz", "cat"), *ROWS])}, f"train.csv {BY_ID}"),
    "beside": ("in", {"meta/y.csv": rows_of(ID)}, f"meta/y.csv {BY_ID.replace('train/', '../train/')} --allow_outside"),
    "JSON lines": ("in", {"y.jsonl": LINES}, "y.jsonl --file_column image --file_root train/"),
}
PICTURES = {f"train/{stem}.jpg": image(number) for number, stem in enumerate(IDS)}


@pytest.mark.parametrize("case", TABLES)
def test_tables_that_name_images(images: ImageJobs, case: str) -> None:
    given, files, table_and_flags = TABLES[case]
    flags = f"--manifest in/{table_and_flags}"
    images.refuse(PICTURES | files, f"--input {given}", f"give {flags} in place of --input")
    made = images.make({}, f"{flags} --max_reject_fraction 0.5")  # one table has a row without a file
    assert {name.removeprefix("../") for name in made.split_of} == PICTURES.keys()


def test_a_table_of_other_names(images: ImageJobs) -> None:
    table = rows_of(("path", "label"), [(f"data/{one}.jpg", two) for one, two in ROWS])
    words = ("--manifest a table with names relative to its folder", "'data/a1f.jpg'")
    images.refuse(PICTURES | {"y.csv": table}, "", *words)
    both = rows_of(("id", "label"), [(one, two) for one, two in (("a1f", "x"), ("of_b", "y"))])
    two = {"train/a1f.jpg": image(1), "other/of_b.jpg": image(2), "y.csv": both}
    images.refuse(two, "", words[0])  # no one --file_root is that of both
    images.make({}, "--input in/train")


def test_a_table_of_the_colours_of_masks_is_named(jobs: Jobs) -> None:
    colours = np.zeros((8, 8, 3), np.uint8)
    colours[:4] = 128, 64, 10
    files = {f"images/{n}.png": encoded(np.full((8, 8, 3), n, np.uint8)) for n in range(3)}
    files |= {f"masks/{n}.png": encoded(colours) for n in range(3)}
    flags = "--mask_colors in/class_dict.csv"
    jobs.write(files | {"class_dict.csv": b"name,r,g,b\nVoid,0,0,0\nRoad,128,64,10\n"})
    jobs.refuse("images", f"1 .csv file…give --masks the folder of the masks {flags}")
    jobs.refuse(f"images --masks in/masks {flags}", "give --input the folder of the images alone")
    made = jobs.build(f"images --input in/images --masks in/masks {flags}")
    for example in made.examples():
        assert np.unique(np.asarray(Image.open(io.BytesIO(example["mask"])))).tolist() == [0, 1]
