"""Files of a manifest with several labels each: JSON's lists, and texts that a separator splits."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import shardmill
from shardmill.data.features import Feature
from shardmill.metadata.manifest import Manifest
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run, check_mistake, image, write_files

TAGS: Mapping[str, list[str]] = {
    "0.jpg": ["sea", "sun"],
    "1.jpg": [],
    "2.jpg": ["sun", "ice", "sun"],
    "3.jpg": ["ice"],
    "4.jpg": ["ice"],
}
NAMES = ("ice", "sea", "sun")
EXPECTED = {"0.jpg": [1, 2], "1.jpg": [], "2.jpg": [2, 0], "3.jpg": [0], "4.jpg": [0]}


def manifest(folder: Path, form: str, **more: Any) -> list[object]:
    """The command for five pictures and their labels."""
    write_files(folder, {name: image(int(name[0])) for name in TAGS})
    if form == "csv":
        rows = "".join(f"{name},{' | '.join(tags)}\n" for name, tags in TAGS.items())
        write_files(folder, {"meta.csv": f"file_name,label\n{rows}".encode()})
        return ["images", "--manifest", folder / "meta.csv", "--label_separator", "|"]
    lines = [json.dumps({"file_name": name, "label": tags or None, **more}) for name, tags in TAGS.items()]
    write_files(folder, {"meta.jsonl": "\n".join(lines).encode()})
    return ["images", "--manifest", folder / "meta.jsonl"]


def make(run: Run, folder: Path, *command: object) -> Manifest:
    result = run(*command, "--output", folder, "--name", "n")
    assert result.status == 0, result.err
    return open_dataset(folder / "n").manifest


def labels(folder: Path) -> dict[str, list[int]]:
    return {one["filename"].decode(): one["label"].tolist() for one in shardmill.examples(folder / "n")}


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_files_with_several_labels(run: Run, tmp_path: Path, form: str) -> None:
    command = manifest(tmp_path, form, note="x")
    dry = run(*command, "--output", tmp_path / "out", "--name", "n", "--dry_run")
    assert "  0 ice: 3 train" in dry.out

    made = make(run, tmp_path / "out", *command)

    assert made.features[1] == Feature("label", "int64", "class_label", (None,), class_names=NAMES, role="label")
    assert labels(tmp_path / "out") == EXPECTED
    assert "1 example has no class of 'label': an empty list, of an empty or a missing value" in made.notices
    assert "a class of 'label' is named again in its row once, and counts once there" in made.notices
    version = tmp_path / "out/n/1.0.0"
    stats = json.loads((version / "stats.json").read_text())["splits"]["train"]["features"]["label"]
    assert stats["classes"] == {"ice": 3, "sea": 1, "sun": 2}
    assert run("verify", version).status == 0
    sheet = run("inspect", version, "--contact_sheet", tmp_path / "sheet.png")
    assert sheet.status == 0, sheet.err


def test_tfds_reads_them(run: Run, tmp_path: Path) -> None:
    import tensorflow_datasets as tfds

    make(run, tmp_path / "out", *manifest(tmp_path, "jsonl"))

    builder = tfds.builder_from_directory(tmp_path / "out/n/1.0.0")
    assert builder.info.features["label"].feature.names == list(NAMES)
    found = tfds.as_numpy(builder.as_dataset(split="train"))
    assert {one["filename"].decode(): one["label"].tolist() for one in found} == EXPECTED
    batch = next(
        iter(shardmill.load(tmp_path / "out/n", batch_size=5, image_size=(4, 4), multi_hot=True, shuffle=False))
    )
    order = [one["filename"].decode() for one in shardmill.examples(tmp_path / "out/n")]
    assert batch[1].numpy().tolist() == [[float(index in EXPECTED[name]) for index in range(3)] for name in order]


def test_a_new_build_reuses_pictures_with_other_labels(run: Run, tmp_path: Path) -> None:
    command = manifest(tmp_path, "csv")
    text = (tmp_path / "meta.csv").read_text()
    make(run, tmp_path / "out", *command)
    (tmp_path / "meta.csv").write_text(text.replace("sea | sun", "sea"))

    result = run(*command, "--output", tmp_path / "out", "--name", "n", "--version", "1.0.1")

    assert result.status == 0, result.err
    assert labels(tmp_path / "out") == {**EXPECTED, "0.jpg": [1]}


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (
            "--manifest meta.csv --label_separator ; --stratify_by label --splits a=0.5,b=0.5",
            "--stratify_by label: files",
        ),
        ("--input . --label_separator ;", "--label_separator ';' is about the labels of a --manifest"),
        ("--manifest meta.csv --label_separator  ", "--label_separator ' ': expected a separator of classes"),
        (
            "--manifest meta.csv --label_separator ; --labels_file few.txt",
            "class 'b' is in the input but not in --labels",
        ),
    ],
)
def test_labels_that_are_none(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, sentence: str
) -> None:
    rows = b"file_name,label\n0.jpg,a;b\n1.jpg,b\n"
    files = {"meta.csv": rows, "few.txt": b"a\n", "0.jpg": image(0), "1.jpg": image(1)}
    monkeypatch.chdir(write_files(tmp_path, files))
    words = flags.split(" ") if not flags.endswith("  ") else [*flags.rstrip().split(" "), " "]

    result = run("images", *words, "--output", "out", "--name", "n")

    check_mistake(result, sentence)
    assert not (tmp_path / "out").exists()


def test_labels_that_are_no_lists_of_names_are_rejects(run: Run, tmp_path: Path) -> None:
    given = ['["a", 2]', '[["a"]]', '"b"', '["a", null, ""]', "[1.5]", '"\\u0000a"', '["c"]']
    lines = "".join(f'{{"file_name": "{row}.jpg", "label": {label}}}\n' for row, label in enumerate(given))
    files = {f"{row}.jpg": image(row) for row in range(len(given))}
    write_files(tmp_path, {**files, "meta.jsonl": lines.encode(), "names.txt": b"a\nb\n2\n"})
    flags = ("--labels_file", tmp_path / "names.txt", "--on_new_label", "reject", "--max_reject_fraction", 1)

    made = make(run, tmp_path / "out", "images", "--manifest", tmp_path / "meta.jsonl", *flags)

    assert labels(tmp_path / "out") == {"0.jpg": [0, 2], "2.jpg": [1]}
    assert made.rejects["records"] == 5
    assert made.rejects["reasons"]["class 'c' is not in --labels_file"] == 1


def test_lists_beside_single_classes_are_said(run: Run, tmp_path: Path) -> None:
    """Or one odd row would make lists of all labels without a word."""
    command = manifest(tmp_path, "jsonl")
    rows = (tmp_path / "meta.jsonl").read_text().replace('["ice"]', '"ice"')
    (tmp_path / "meta.jsonl").write_text(rows)
    made = make(run, tmp_path / "out", *command)
    assert labels(tmp_path / "out") == EXPECTED
    assert "the label is a list in 2 rows, one class in 2: it is stored as a list in all" in made.notices
