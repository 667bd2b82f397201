"""Hugging Face's forms held against its own library: what datasets reads of a folder or of Parquet is stored."""

import json
from pathlib import Path
from typing import Any

import pytest

from shardmill.data.example import decode_example
from tests.support.command import Run, image, read_back, write_files
from tests.support.later import Later
from tests.support.masks import encoded, values
from tests.support.table_results import convert

datasets = Later("datasets")
SPLITS = ("train", "test")
NAMES = ["cat", "dog", "an owl"]


@pytest.fixture(autouse=True)
def _offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
    datasets.disable_progress_bars()


def loaded(kind: str, tmp_path: Path, **source: Any) -> Any:
    """What datasets reads: its splits, images as {bytes, path}."""
    found = datasets.load_dataset(kind, cache_dir=str(tmp_path / "cache"), **source)
    for column, feature in next(iter(found.values())).features.items():
        if isinstance(feature, datasets.Image):
            found = found.cast_column(column, datasets.Image(decode=False))
    return found


def payload(file: dict[str, Any]) -> bytes:
    """The bytes of an image; datasets may name its path alone."""
    return file["bytes"] if file["bytes"] is not None else Path(file["path"]).read_bytes()


def stored(directory: Path) -> dict[str, list[dict[str, Any]]]:
    """The values of each example by split, one where a feature has one."""
    found = read_back(directory)
    return {
        split: [
            {name: value[0] if len(value) == 1 else list(value) for name, value in decode_example(record).items()}
            for name in names
            for record in found.records[name]
        ]
        for split, names in found.splits.items()
    }


def test_parquet_of_datasets_is_what_datasets_reads(tmp_path: Path) -> None:
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=NAMES),
            "caption": datasets.Value("string"),
            "score": datasets.Value("float32"),
            "tags": datasets.List(datasets.ClassLabel(names=["red", "green"])),
            "boxes": datasets.List(datasets.Value("int64")),
        }
    )
    rows = [
        {
            "image": {"bytes": image(n), "path": f"{n}.jpg"},
            "label": n % 3,
            "caption": f"é {n}",
            "score": n / 4,
            "tags": [0, 1][: n % 3],
            "boxes": [n] * (n % 4),
        }
        for n in range(20)
    ]
    for split, part in (("train", rows[:14]), ("test", rows[14:])):
        path = tmp_path / "in" / split / "a.parquet"
        path.parent.mkdir(parents=True)
        datasets.Dataset.from_list(part, features=features).to_parquet(str(path))
    read = loaded("parquet", tmp_path, data_files={split: str(tmp_path / "in" / split / "*") for split in SPLITS})

    table = convert("parquet", tmp_path / "in", tmp_path)
    named = {feature.name: list(feature.class_names) for feature in table.dataset.manifest.features}
    assert named["label"] == read["train"].features["label"].names == NAMES
    for split in SPLITS:
        expected = {row["caption"].encode(): row for row in read[split]}
        found = [row for row in table.rows if row["caption"] in expected]
        assert len(found) == len(expected) == {"train": 14, "test": 6}[split]
        for row in found:
            theirs = expected[row["caption"]]
            assert row["image"] == payload(theirs["image"])
            assert (row["label"], row["score"]) == (theirs["label"], theirs["score"])
            assert (row["tags"], row["boxes"]) == (theirs["tags"], theirs["boxes"])
    assert len(table.rows) == 20


def metadata(form: str, rows: list[dict[str, Any]], path: Path) -> None:
    """A file of rows in one of the three forms that datasets knows."""
    if form == "csv":
        path.write_text("".join(f"{','.join(map(str, line))}\n" for line in [rows[0], *(row.values() for row in rows)]))
    elif form == "jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        datasets.Dataset.from_list(rows).to_parquet(str(path))


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_an_image_folder_is_what_datasets_reads(run: Run, tmp_path: Path, form: str) -> None:
    for place, split in enumerate(SPLITS):
        numbers = range(10 * place, 10 * place + 6)
        files = {f"{n}.jpg": image(n) for n in numbers} | {f"m/{n}.png": encoded(values(n)) for n in numbers}
        folder = write_files(tmp_path / "in" / split, files)
        rows = [
            {"file_name": f"{n}.jpg", "mask_file_name": f"m/{n}.png", "text": f"a text {n}", "age": n} for n in numbers
        ]
        metadata(form, rows, folder / f"metadata.{form}")
    read = loaded("imagefolder", tmp_path, data_dir=str(tmp_path / "in"))

    done = run("images", "--input", tmp_path / "in", "--output", tmp_path, "--name", "n")
    assert done.status == 0, done.err
    found = stored(tmp_path / "n")
    assert found.keys() == read.keys() == set(SPLITS)
    for split in SPLITS:
        expected = {row["age"]: row for row in read[split]}
        assert sorted(row["age"] for row in found[split]) == sorted(expected)
        for row in found[split]:
            theirs = expected[row["age"]]
            assert row["image"] == payload(theirs["image"])
            assert row["mask"] == payload(theirs["mask"])
            assert row["text"] == theirs["text"].encode()


def test_folders_of_classes_are_what_datasets_reads(run: Run, tmp_path: Path) -> None:
    names = {f"{split}/{NAMES[n % 3]}/{n}.jpg": image(n) for n in range(12) for split in SPLITS[n > 7 :][:1]}
    write_files(tmp_path / "in", names)
    read = loaded("imagefolder", tmp_path, data_dir=str(tmp_path / "in"))

    done = run("images", "--input", tmp_path / "in", "--output", tmp_path, "--name", "n")
    assert done.status == 0, done.err
    found = stored(tmp_path / "n")
    (label,) = [item for item in read_back(tmp_path / "n").dataset.manifest.features if item.name == "label"]
    assert list(label.class_names) == read["train"].features["label"].names == sorted(NAMES)
    for split in SPLITS:
        ours = sorted((row["image"], row["label"]) for row in found[split])
        assert ours == sorted((payload(row["image"]), row["label"]) for row in read[split])
