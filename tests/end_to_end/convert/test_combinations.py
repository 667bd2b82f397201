"""Options of several ideas in one command: each does in company what it does alone."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

import shardmill
from tests.support.archives import tar
from tests.support.command import Run, image, write_files
from tests.support.jobs import Jobs
from tests.support.later import Later
from tests.support.masks import CHANGES, encoded, photograph
from tests.support.reading import make
from tests.support.table_results import to_csv
from tests.support.tokenizer_files import texts, tokenizer_json

pytestmark = pytest.mark.slow

tf = Later("tensorflow")
tfds = Later("tensorflow_datasets")

GZIP = ("--compression", "gzip")
LEVELS = (0, 300, 65535)  # of masks, by the ids of classes from 1
BOX = (30, 60, 120, 90)  # x, y, width, height in pixels of a photograph, 240 x 180


def _deep_mask(number: int, factor: int = 1) -> np.ndarray:
    """The mask of a photograph, or of one that is smaller by a factor."""
    left, top, wide, high = (side // factor for side in BOX)
    mask = np.zeros((180 // factor, 240 // factor), np.uint16)
    mask[top : top + high, left : left + wide] = LEVELS[1 + number % 2]
    return mask


def _write_coco(folder: Path, pictures: dict[int, bytes]) -> Path:
    """Photographs, each with one box, and `folder/masks`."""
    images, annotations = [], []
    for number, data in pictures.items():
        name = f"{number:02}.jpg"
        write_files(folder, {name: data, f"masks/{number:02}.png": encoded(_deep_mask(number))})
        images.append({"id": number, "file_name": name, "width": 240, "height": 180})
        told = {"id": number, "image_id": number, "category_id": 5 + number % 2, "bbox": list(BOX), "area": 10800}
        annotations.append({**told, "iscrowd": 0})
    categories = [{"id": 5, "name": "even"}, {"id": 6, "name": "odd"}]
    content = {"images": images, "annotations": annotations, "categories": categories}
    write_files(folder, {"instances.json": json.dumps(content).encode()})
    return folder / "instances.json"


def _check_scenes(examples: list[dict[str, Any]]) -> None:
    """Check that each is its photograph, at a third of the size, with its box, class and mask."""
    assert sorted(example["filename"] for example in examples) == [b"%02d.jpg" % number for number in range(12)]
    left, top, wide, high = BOX
    for example in examples:
        number = int(example["image/id"])
        assert example["filename"] == b"%02d.jpg" % number
        small = np.asarray(photograph(number % 10).resize((80, 60)), int)
        assert np.abs(example["image"].astype(int) - small).mean() < 8
        np.testing.assert_array_equal(example["mask"][..., 0], _deep_mask(number, factor=3))
        assert example["mask"].dtype == np.uint16
        box = [top / 180, left / 240, (top + high) / 180, (left + wide) / 240]
        np.testing.assert_allclose(example["objects/bbox"], [box], atol=1e-6)
        assert (example["objects/label"].tolist(), example["objects/area"].tolist()) == ([number % 2], [1200.0])


def test_coco_with_deep_masks_resized_compressed_and_resharded(run: Run, tmp_path: Path) -> None:
    pictures = {n: CHANGES["as a PNG"](photograph(n)) for n in range(10)}
    pictures |= {n: CHANGES["re-encoded"](photograph(n - 10)) for n in (10, 11)}
    masks = ("--masks", tmp_path / "in/masks", "--mask_dtype", "uint16", "--resize", "80x60", "--near_duplicates")
    coco = _write_coco(tmp_path / "in", pictures)

    first = make("images", None, tmp_path / "a", "--coco", coco, *masks, *GZIP, "--num_shards", 3)

    _check_scenes(list(shardmill.examples(first, "train", decode_images=True)))
    near = json.loads((first / "stats.json").read_text())["near_duplicates"]
    assert sorted((pair["one"]["name"], pair["other"]["name"]) for pair in near["pairs"]) == [
        ("00.jpg", "10.jpg"),
        ("01.jpg", "11.jpg"),
    ]
    assert run("verify", first, "--decode").status == 0

    described = ("--schema", first / "schema.pbtxt", "--label", "objects/label")
    named = ("--labels_file", first / "objects-label.labels.txt")
    second = make("reshard", first, tmp_path / "b", *described, *named, "--num_shards", 2)

    _check_scenes(list(shardmill.examples(second, "train", decode_images=True)))
    assert Counter(_records(second)) == Counter(_records(first))
    assert run("verify", second, "--decode").status == 0
    builder = tfds.builder_from_directory(str(second))
    assert builder.info.features["objects/label"].feature.names == ["even", "odd"]
    for example in tfds.as_numpy(builder.as_dataset(split="train")):
        number = int(example["image/id"])
        np.testing.assert_array_equal(example["mask"][..., 0], _deep_mask(number, factor=3))
        assert example["objects/label"].tolist() == [number % 2]


def _records(directory: Path) -> list[bytes]:
    """By TensorFlow."""
    kind = "GZIP" if next(directory.glob("*.tfrecord-*")).suffix == ".gz" else ""
    files = [str(path) for path in sorted(directory.glob("*.tfrecord-*"))]
    return list(tf.data.TFRecordDataset(files, compression_type=kind).as_numpy_iterator())


def test_tars_tokenized_labelled_and_stratified(run: Run, jobs: Jobs) -> None:
    captions = texts(90)
    kinds = ["ant" if number % 3 else "bee" for number in range(90)]
    members = [
        member
        for number, (caption, kind) in enumerate(zip(captions, kinds, strict=True))
        for member in (
            (f"{number:02}.jpg", image(number)),
            (f"{number:02}.txt", caption.encode()),
            (f"{number:02}.json", json.dumps({"kind": kind, "n": number}).encode()),
        )
    ]
    files = {"a.tar": tar(members[:150]), "b.tar": tar(members[150:]), "../t.json": tokenizer_json()}
    dealt = "--splits train=0.8,test=0.2 --stratify_by kind --label kind"

    made = jobs.build(f"webdataset --tokenizer t.json --tokenize text {dealt}", files=files)

    tokenizer = Tokenizer.from_str(tokenizer_json().decode())
    assert sorted(made.table.column("n")) == list(range(90))
    for row in made.table.rows:
        number = row["n"]
        assert set(row) == {"filename", "image", "input_ids", "kind", "n"}
        assert row["filename"] == b"%02d" % number
        assert row["image"] == image(number)
        assert row["input_ids"] == tokenizer.encode(captions[number]).ids
        assert row["kind"] == ["ant", "bee"].index(kinds[number])
    shares = {split: Counter(row["kind"] for row in rows) for split, rows in made.table.splits.items()}
    assert shares == {"train": {0: 48, 1: 24}, "test": {0: 12, 1: 6}}
    assert {split: said["tokens"] for split, said in made.json("stats.json")["splits"].items()} == {
        split: sum(len(row["input_ids"]) for row in rows) for split, rows in made.table.splits.items()
    }
    assert run("verify", made.directory, "--decode").status == 0
    builder = tfds.builder_from_directory(str(made.directory))
    for example in tfds.as_numpy(builder.as_dataset(split="test")):
        assert builder.info.features["kind"].int2str(example["kind"]) == kinds[example["n"]]
        assert example["input_ids"].tolist() == tokenizer.encode(captions[example["n"]]).ids


def test_sequences_balanced_in_bytes_and_renamed(run: Run, jobs: Jobs) -> None:
    rows = [
        (user, 100 - time, f"{user}-{time}-" + "x" * (40 * (user % 7)))
        for user in range(60)
        for time in range(1 + user % 5)
    ]
    jobs.write({f"{part}.csv": to_csv(("user", "t", "page"), rows[part::2]) for part in range(2)})
    renamed = "--rename page=context/page --rename t=context/t --rename user=id"
    spreads = {}
    for balance in ("examples", "bytes"):
        flags = f"--sequence_by user --order_by t --num_shards 4 --balance {balance} --overwrite"
        table = jobs.build(f"csv {flags} {renamed}").table
        sizes = [shard.size_bytes for shard in table.dataset.manifest.splits[0].shards]
        spreads[balance] = max(sizes) - min(sizes)

    largest = max(len(record) for record in _records(table.directory))
    assert spreads["bytes"] <= largest + 16 < spreads["examples"]  # a record's frame is 16 bytes
    assert {row["id"]: row for row in table.rows} == {
        user: {
            "id": user,
            "context/t": sorted(time for other, time, _ in rows if other == user),
            "context/page": [page.encode() for other, _, page in sorted(rows) if other == user],
        }
        for user in range(60)
    }
    assert run("verify", table.directory).status == 0
    read = shardmill.load(table.directory, split="train", shuffle=False)
    assert [int(features["id"]) for features in read] == [row["id"] for row in table.rows]
    for example in tfds.as_numpy(tfds.builder_from_directory(str(table.directory)).as_dataset(split="train")):
        times = sorted(time for user, time, _ in rows if user == example["id"])
        assert example["context/t"].tolist() == times
