"""Hugging Face's forms held against its own library: what datasets reads of a folder or of Parquet is stored."""

from pathlib import Path
from typing import Any

import pytest

from shardmill.data.example import decode_example
from tests.support.command import image
from tests.support.jobs import Built, Jobs
from tests.support.later import Later
from tests.support.masks import encoded, values
from tests.support.table_results import encode_rows

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


def stored(made: Built) -> dict[str, list[dict[str, Any]]]:
    """The values of each example by split, one where a feature has one."""
    return {
        split: [
            {name: value[0] if len(value) == 1 else list(value) for name, value in decode_example(record).items()}
            for name in names
            for record in made.contents.records[name]
        ]
        for split, names in made.contents.splits.items()
    }


def test_parquet_of_datasets_is_what_datasets_reads(jobs: Jobs, tmp_path: Path) -> None:
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
        {"image": {"bytes": image(n), "path": f"{n}.jpg"}, "label": n % 3, "caption": f"é {n}"}
        | {"score": n / 4, "tags": [0, 1][: n % 3], "boxes": [n] * (n % 4)}
        for n in range(20)
    ]
    for split, part in (("train", rows[:14]), ("test", rows[14:])):
        (tmp_path / "in" / split).mkdir(parents=True)
        datasets.Dataset.from_list(part, features=features).to_parquet(str(tmp_path / "in" / split / "a.parquet"))
    read = loaded("parquet", tmp_path, data_files={split: str(tmp_path / "in" / split / "*") for split in SPLITS})

    table = jobs.build("parquet").table
    named = {feature.name: list(feature.class_names) for feature in table.dataset.manifest.features}
    assert named["label"] == read["train"].features["label"].names == NAMES
    for split, number in (("train", 14), ("test", 6)):
        expected = {row["caption"].encode(): row for row in read[split]}
        found = [row for row in table.rows if row["caption"] in expected]
        assert len(found) == len(expected) == number
        for row in found:
            theirs = expected[row["caption"]]
            assert row["image"] == payload(theirs["image"])
            assert {name: row[name] for name in named} == {**theirs, "image": row["image"], "caption": row["caption"]}
    assert len(table.rows) == 20


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_an_image_folder_is_what_datasets_reads(jobs: Jobs, tmp_path: Path, form: str) -> None:
    for place, split in enumerate(SPLITS):
        numbers = range(10 * place, 10 * place + 6)
        files = {f"{split}/{n}.jpg": image(n) for n in numbers}
        files |= {f"{split}/m/{n}.png": encoded(values(n)) for n in numbers}
        rows = [
            {"file_name": f"{n}.jpg", "mask_file_name": f"m/{n}.png", "text": f"a text {n}", "age": n} for n in numbers
        ]
        jobs.write({**files, f"{split}/metadata.{form}": encode_rows(form, rows)})
    read = loaded("imagefolder", tmp_path, data_dir=str(tmp_path / "in"))

    found = stored(jobs.build("images"))
    assert found.keys() == read.keys() == set(SPLITS)
    for split in SPLITS:
        expected = {row["age"]: row for row in read[split]}
        assert sorted(row["age"] for row in found[split]) == sorted(expected)
        for row in found[split]:
            theirs = expected[row["age"]]
            assert row["image"] == payload(theirs["image"])
            assert row["mask"] == payload(theirs["mask"])
            assert row["text"] == theirs["text"].encode()


def test_folders_of_classes_are_what_datasets_reads(jobs: Jobs, tmp_path: Path) -> None:
    jobs.write({f"{split}/{NAMES[n % 3]}/{n}.jpg": image(n) for n in range(12) for split in SPLITS[n > 7 :][:1]})
    read = loaded("imagefolder", tmp_path, data_dir=str(tmp_path / "in"))

    made = jobs.build("images")
    found = stored(made)
    (label,) = [item for item in made.manifest.features if item.name == "label"]
    assert list(label.class_names or ()) == read["train"].features["label"].names == sorted(NAMES)
    for split in SPLITS:
        ours = sorted((row["image"], row["label"]) for row in found[split])
        assert ours == sorted((payload(row["image"]), row["label"]) for row in read[split])
