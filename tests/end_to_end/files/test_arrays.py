"""Arrays end to end: folders and manifests of .npy files, every reader, and everything that is no array."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shardmill
from shardmill.pipelines import cli
from tests.support.command import Contents, Run, npy, read_back, write_files
from tests.support.jobs import Jobs
from tests.support.later import Later

tf = Later("tensorflow")
tfds = Later("tensorflow_datasets")

SPLITS = ("--splits", "train=0.75,test=0.25")


def scan(number: int, element: str = "float32") -> np.ndarray:
    """An array of 6 x 5, another for each number."""
    return (np.arange(30).reshape(6, 5) * (number + 1) % 97).astype(element)


ARRAYS = {
    f"{label}/{number:02d}.npy": scan(10 * index + number)
    for index, label in enumerate(("cat", "dog"))
    for number in range(30)
}
# Of every odd one, the axes are stored in the other order, and of every third the bytes.
TREE = {
    name: npy(np.asarray(array, ">f4" if number % 3 == 0 else "<f4", order="F" if number % 2 else "C"))
    for number, (name, array) in enumerate(ARRAYS.items())
}


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 arrays of two classes."""
    return write_files(tmp_path_factory.mktemp("arrays") / "in", TREE)


@pytest.fixture(scope="session")
def plain(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """The tree in two splits of two shards, all else by default."""
    output = tmp_path_factory.mktemp("plain")
    words = ["arrays", "--input", str(tree), "--output", str(output), "--name", "n", *SPLITS, "--num_shards", "2"]
    assert cli.main(words) == 0
    return read_back(output / "n")


def test_tree_of_class_folders(plain: Contents) -> None:
    assert plain.records.keys() == ARRAYS.keys()
    assert (plain.directory / "label.labels.txt").read_text() == "cat\ndog\n"
    for name, array in ARRAYS.items():
        example = plain.example(name)
        assert list(example) == ["image", "label", "filename"]
        assert example["image"] == [array.tobytes()]
        assert plain.label_of(name) == name[:3]
    assert sorted(len(names) for names in plain.splits.values()) == sorted(
        split.examples for split in plain.dataset.manifest.splits
    )


def test_statistics_and_notices(plain: Contents) -> None:
    stats = json.loads((plain.directory / "stats.json").read_text())["splits"]
    for split, names in plain.splits.items():
        values = np.stack([ARRAYS[name] for name in names])
        assert stats[split]["features"]["image"]["values"] == {"min": values.min(), "max": values.max()}
        assert stats[split]["features"]["image"]["size_bytes"]["mean"] == 120
        assert sum(stats[split]["features"]["label"]["classes"].values()) == len(names)
    notice = "the arrays are float32 of 6 x 5, as is 'cat/00.npy', the first by name; others are rejected"
    assert notice in plain.dataset.manifest.notices


@pytest.mark.slow
def test_every_reader_reads_it(plain: Contents) -> None:
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "filename": tf.io.FixedLenFeature([], tf.string)}
    files = sorted(str(path) for path in plain.directory.glob("*.tfrecord*"))
    for batch in tf.data.TFRecordDataset(files).batch(16).map(lambda records: tf.io.parse_example(records, spec)):
        arrays = tf.reshape(tf.io.decode_raw(batch["image"], tf.float32), [-1, 6, 5])
        for name, array in zip(batch["filename"].numpy(), arrays.numpy(), strict=True):
            assert np.array_equal(array, ARRAYS[name.decode()])
    builder = tfds.builder_from_directory(str(plain.directory))
    label = builder.info.features["label"]
    assert (builder.info.features["image"].shape, builder.info.features["image"].np_dtype) == ((6, 5), np.float32)
    for split, names in plain.splits.items():
        loaded = shardmill.load(plain.directory, split, features=["image", "filename"], supervised=False)
        own = list(shardmill.examples(plain.directory, split))
        found = list(tfds.as_numpy(builder.as_dataset(split=split)))
        for rows in (own, found, list(loaded.as_numpy_iterator())):
            assert {row["filename"].decode() for row in rows} == set(names)
            for row in rows:
                assert row["image"].dtype == np.float32
                assert np.array_equal(row["image"], ARRAYS[row["filename"].decode()])
        assert all(label.int2str(row["label"]) == row["filename"].decode()[:3] for row in found)


def test_inspect_and_verify(run: Run, plain: Contents, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.png"
    shown = run("inspect", plain.directory, "--contact_sheet", sheet)
    assert shown.status == 0, shown.err
    assert "array of float32" in shown.out
    assert "float32 of 6 x 5, 120 B" in shown.out
    with Image.open(sheet) as picture:
        assert len(picture.convert("RGB").getcolors(1 << 20) or ()) > 20
    assert run("verify", plain.directory, "--decode").status == 0


def test_manifest_with_columns(jobs: Jobs) -> None:
    boxes = [[0.0, 0.25, 0.5, 1.0], [0.5, 0.5, 1.0, 1.0]]
    rows = [
        {"file_name": name, "label": name[:3], "height": 6, "boxes": boxes[: index % 3], "note": f"scan {index}"}
        for index, name in enumerate(TREE)
    ]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    made = jobs.build("arrays --manifest in/meta.jsonl --feature scan", files={**TREE, "meta.jsonl": lines})
    features = {feature.name: feature for feature in made.manifest.features}
    assert list(features) == ["scan", "label", "filename", "boxes", "height", "note"]
    assert (features["scan"].kind, features["boxes"].shape, features["boxes"].required) == ("array", (None, 4), True)
    for index, name in enumerate(TREE):
        example = made.contents.example(name)
        assert example["scan"] == [ARRAYS[name].tobytes()]
        assert np.array_equal(np.reshape(example["boxes"], (-1, 4)), np.reshape(boxes[: index % 3], (-1, 4)))
        assert example["note"] == [f"scan {index}".encode()]
