"""Manifests as people, tools and spreadsheets write them: their columns, labels and oddities."""

import json
from pathlib import Path

import numpy as np
import pytest

import shardmill
from shardmill.data.example import decode_example
from tests.support.command import Run, image, write_files
from tests.support.image_jobs import ImageJobs

FILES = {f"a/{number}.png": image(number, "PNG", (12 + number, 9)) for number in range(3)}
LABELS = {"a/0.png": "ant", "a/1.png": "bee", "a/2.png": "bee"}


@pytest.mark.parametrize(
    ("table", "notices"),
    [
        (
            "file_name, label\na/0.png, ant\na/1.png, bee\na\\2.png,bee\n",
            [
                "manifest: file names with backslashes, which are read as slashes: 1, such as 'a\\\\2.png'",
                "manifest: names of columns with spaces around them, which are left out: 1, such as ' label'",
            ],
        ),
        (
            "file_name,width,height,label\na/0.png,12,9,ant\na/1.png,13,9,bee\na/2.png,14,9,bee\n",
            [
                "manifest: rows with the width and height of their image, which each example has anyway; the columns"
                " are left out: 3, such as 'a/0.png'"
            ],
        ),
    ],
    ids=["spaces and backslashes", "sizes"],
)
def test_oddities_are_put_right_and_counted(images: ImageJobs, table: str, notices: list[str]) -> None:
    contents = images.make({**FILES, "t.csv": table.encode()}, "--manifest in/t.csv")
    assert [notice for notice in contents.dataset.manifest.notices if notice.startswith("manifest: ")] == notices
    spaces = "2 rows have spaces around values, which are left out; the first is in/t.csv, line 2"
    assert (spaces in contents.dataset.manifest.notices) is (", " in table)
    assert {name: contents.label_of(name) for name in contents.records} == LABELS
    assert set(decode_example(contents.records["a/0.png"][0])) == {*("image", "label", "filename", "height", "width")}


def test_values_of_several_kinds_are_kept_as_json_advises(images: ImageJobs) -> None:
    table = "".join(f'{{"file_name": "a/{n}.png", "x": {value}}}\n' for n, value in enumerate(("1", '"a"', "true")))
    files = {**FILES, "t.jsonl": table.encode()}
    (notice,) = images.make(files, "--manifest in/t.jsonl").dataset.manifest.notices
    assert notice.endswith("--json_columns x stores the JSON text of all")
    followed = images.make(files, "--manifest in/t.jsonl --json_columns x --overwrite")
    assert not followed.dataset.manifest.notices
    assert {decode_example(record)["x"][0] for (record,) in followed.records.values()} == {b"1", b'"a"', b"true"}


def test_sizes_that_contradict_the_image(images: ImageJobs) -> None:
    table = b"file_name,width,height\na/0.png,12,9\na/1.png,640,480\n"
    words = "line 3 gives 640 and 480 for width and height, and its image has 13 x 9 pixels"
    images.refuse({**FILES, "t.csv": table}, "--manifest in/t.csv", words)


def test_columns_that_name_further_images_are_said(images: ImageJobs) -> None:
    """Such as masks: their text is stored. Other texts are texts."""
    columns: dict[str, tuple[str, str | None]] = {
        "mask": ("a/1.png", "a/0.png"),
        "of_some": ("a/1.png", None),
        "of_others": ("a/1.png", "no mask"),
        "missing": ("gone/0.png", "gone/1.png"),
        "outside": ("../a.png", "../a.png"),
        "web": ("https://x/0.png", "https://x/1.png"),
    }
    rows = ({"file_name": f"a/{row}.png", **{key: of[row] for key, of in columns.items()}} for row in (0, 1))
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    write_files(Path(), {"a.png": FILES["a/0.png"]})
    contents = images.make({**FILES, "meta.jsonl": lines.encode()}, "--manifest in/meta.jsonl")
    assert [notice for notice in contents.dataset.manifest.notices if "column" in notice] == [
        f"column {column!r} names image files, such as 'a/1.png', and is stored as their names: what these files"
        f" hold is in no example; --mask_column {column} makes masks of them, --file_column file_name,{column} further"
        " images"
        for column in ("mask", "of_some")
    ]


def test_numbers_to_predict_are_no_classes_unless_a_file_of_labels_says_so(images: ImageJobs) -> None:
    """tests/transforms/layout/test_files.py tells labels from numbers."""
    table = b"file_name,age\na/0.png,0.5\na/1.png,1.5\na/2.png,0.5\n"
    flags, words = "--manifest in/t.csv", "the labels are numbers with fractions, such as 0.5"
    images.refuse({**FILES, "t.csv": table, "labels.txt": b"0.5\n1.5\n"}, f"{flags} --label_column age", words)
    images.make({}, f"{flags} --label_column age --labels_file in/labels.txt")
    assert sorted(example["label"] for example in shardmill.examples("out/n")) == [0, 0, 1]
    images.make({}, f"{flags} --overwrite")
    assert np.allclose(sorted(example["age"] for example in shardmill.examples("out/n")), [0.5, 0.5, 1.5])


# Kaggle's `id,breed` with the images in train/
KAGGLE = {"--file_column": "id", "--label_column": "breed", "--file_suffix": ".jpg", "--file_root": "train/"}
DOGS = {f"train/{name}.jpg": image(number) for number, name in enumerate(("000b", "001c", "002d"))}
BREEDS = {"labels.csv": b"id,breed\n000b,boxer\n001c,pug\n002d.jpg,boxer\n"}


def kaggle(**changes: str | None) -> str:
    """Kaggle's flags, some of them changed, or left out for None."""
    flags = KAGGLE | {f"--{name}": value for name, value in changes.items()}
    return " ".join(["--manifest in/labels.csv", *(f"{flag} {value}" for flag, value in flags.items() if value)])


def test_kaggles_labels(images: ImageJobs, run: Run) -> None:
    contents = images.make(DOGS | BREEDS, kaggle())
    labels = {name: contents.label_of(name) for name in contents.records}
    assert labels == dict(zip(DOGS, ("boxer", "pug", "boxer"), strict=True))
    assert list(contents.example("train/000b.jpg")) == ["image", "label", "filename", "height", "width"]
    configuration = contents.dataset.manifest.configuration
    assert {flag: configuration[flag[2:]] for flag in KAGGLE} == KAGGLE
    assert run("verify", "out/n").status == 0


def test_numbers_name_files_in_json(images: ImageJobs) -> None:
    flags = "--manifest in/m.jsonl --file_column id --file_suffix .jpg --label_column class"
    assert images.make({"7.jpg": image(), "m.jsonl": b'{"id": 7, "class": 3}\n'}, flags).label_of("7.jpg") == "3"


def test_without_their_flags_labels_are_a_column_and_files_are_missing(images: ImageJobs) -> None:
    assert "breed" in images.make(DOGS | BREEDS, kaggle(label_column=None)).example("train/000b.jpg")
    result = images.start({}, f"{kaggle(file_suffix=None)} --overwrite")
    assert result.status == 1
    assert "2 of 3 records were rejected" in result.err
    assert "no such file, such as 'train/000b'" in result.err


def test_files_that_are_not_there(images: ImageJobs) -> None:
    where = "'train/000b.jpg' was looked for in in/"
    images.refuse(BREEDS, kaggle(), f"none of its 3 files is there; {where}", "--file_root", "--file_suffix")
    result = images.start({"train/001c.jpg": image(1)}, f"{kaggle()} --max_reject_fraction 0.9")
    assert result.status == 0, result.err
    assert f"2 files of the manifest are missing: {where}" in result.out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"file_column": None}, "--file_column"),
        ({"file_root": None}, "--file_root"),
        ({"file_column": "ident"}, "has no column ident; its columns are id, breed"),
        ({"label_column": "bred"}, "--label_column bred: "),
        ({"label_column": "id"}, "that column is used for something else already"),
        ({"file_column": "split"}, "that column is used for something else already"),
        ({"file_suffix": "/x.jpg"}, "--file_root is for folders"),
    ],
)
def test_mistakes_in_naming_files(images: ImageJobs, changes: dict[str, str | None], words: str) -> None:
    images.refuse(DOGS | BREEDS, kaggle(**changes), words)


def test_a_folder_has_no_columns_and_a_root_may_be_outside(images: ImageJobs) -> None:
    for flag, value in KAGGLE.items():
        images.refuse(DOGS, f"{flag} {value}", flag, "--manifest")
    write_files(Path(), {name.replace("train", "pictures"): data for name, data in DOGS.items()})
    outside = kaggle(file_root="../pictures")
    assert "--allow_outside" in images.start(BREEDS, outside).err
    images.make({}, f"{outside} --allow_outside")
