"""`shardmill reshard` of a data set, of shardmill or TFDS: its splits, feature kinds and class names survive."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from shardmill.data.example import decode_example, encode_example
from shardmill.data.tfrecord import frame_record
from shardmill.reading.dataset import Dataset, open_dataset
from tests.support.command import Run, check_mistake, image, write_files
from tests.support.later import Later

tfds = Later("tensorflow_datasets")

BOXES = {
    "images": [{"id": n, "file_name": f"{n}.jpg", "width": 40, "height": 30} for n in range(24)],
    "annotations": [
        {"id": n, "image_id": n % 24, "category_id": 1 + n % 2, "bbox": [n % 24, 1, 9, 9], "area": 81, "iscrowd": 0}
        for n in range(40)
    ],
    "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
}


def _records(dataset: Dataset) -> dict[str, list[bytes]]:
    return {
        split.name: sorted(record for shard in split.shards for record in dataset.records(shard))
        for split in dataset.manifest.splits
    }


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of two versions, with images and boxes."""
    from shardmill.pipelines import cli

    folder = tmp_path_factory.mktemp("pets")
    write_files(folder / "in", {f"{n}.jpg": image(n, "JPEG", (40, 30)) for n in range(24)})
    (folder / "objects.json").write_text(json.dumps(BOXES))
    for version, splits in (("1.0.0", "train=0.5,test=0.5"), ("1.1.0", "train=0.6,validation=0.4")):
        flags = ("--splits", splits, "--num_shards", "2", "--version", version)
        words = ("images", "--input", folder / "in", "--coco", folder / "objects.json", "--output", folder, "--name")
        assert cli.main([*map(str, words), "pets", *flags]) == 0
    return folder / "pets"


@pytest.mark.parametrize(("version", "inside"), [("1.1.0", ""), ("1.0.0", "1.0.0"), ("1.0.0", "1.0.0/")])
def test_a_data_set_of_ours(version: str, inside: str, pets: Path, tmp_path: Path, run: Run) -> None:
    done = run("reshard", "--input", f"{pets}/{inside}", "--output", tmp_path, "--name", "again", "--num_shards", "1")
    assert done.status == 0, done.err
    before, after = open_dataset(f"{pets}/{version}"), open_dataset(str(tmp_path / "again"))

    assert after.manifest.features == before.manifest.features
    assert _records(after) == _records(before)
    builders = [tfds.builder_from_directory(each.directory) for each in (before, after)]
    for builder in builders:
        assert builder.info.features["objects"]["label"].names == ["cat", "dog"]
    assert str(builders[0].info.features) == str(builders[1].info.features)
    name = before.manifest.splits[1].name
    for mine, theirs in zip(
        sorted(tfds.as_numpy(builders[0].as_dataset(name)), key=lambda row: row["filename"]),
        sorted(tfds.as_numpy(builders[1].as_dataset(name)), key=lambda row: row["filename"]),
        strict=True,
    ):
        np.testing.assert_array_equal(mine["image"], theirs["image"])
        np.testing.assert_array_equal(mine["objects"]["bbox"], theirs["objects"]["bbox"])
    assert "label" in (tmp_path / "again/1.0.0/stats.json").read_text()


def test_flags_have_the_last_word(pets: Path, tmp_path: Path, run: Run) -> None:
    words = ("reshard", "--input", pets, "--output", tmp_path, "--name")
    assert run(*words, "splits", "--splits", "a=0.5,b=0.5").status == 0
    (tmp_path / "names.txt").write_text("kitten\npuppy\n")
    named = run(*words, "names", "--label", "objects/label", "--labels_file", tmp_path / "names.txt")
    assert named.status == 0, named.err
    assert run(*words, "plain").status == 0
    glob = run("reshard", "--input", f"{pets}/1.1.0/*tfrecord*", "--output", tmp_path, "--name", "glob")
    assert glob.status == 0, glob.err

    features = {
        name: {feature.name: feature for feature in open_dataset(str(tmp_path / name)).manifest.features}
        for name in ("splits", "names", "plain", "glob")
    }
    assert [split.name for split in open_dataset(str(tmp_path / "splits")).manifest.splits] == ["a", "b"]
    assert features["names"]["objects/label"].class_names == ("kitten", "puppy")
    assert features["splits"] == features["plain"]
    assert features["glob"]["objects/bbox"].kind == "tensor"


def test_a_missing_shard_and_another_programs_manifest(pets: Path, tmp_path: Path, run: Run) -> None:
    files = {path.name: path.read_bytes() for path in (pets / "1.1.0").iterdir() if path.is_file()}
    lost = next(name for name in files if "tfrecord" in name)
    folder = write_files(tmp_path / "in", {name: data for name, data in files.items() if name != lost})
    words = ("reshard", "--input", folder, "--output", tmp_path / "out", "--name", "n")
    check_mistake(run(*words), f"1 of 4 shards of the data set are missing, such as {lost}")
    (folder / lost).write_bytes(files[lost])
    (folder / "manifest.json").write_text('{"name": "an app"}')
    assert run(*words).status == 0
    labels = {feature.name: feature.class_names for feature in open_dataset(str(tmp_path / "out/n")).manifest.features}
    assert labels["objects/label"] == ("cat", "dog")  # as its files for TFDS say


def _tfds_examples(split: str) -> list[dict[str, Any]]:
    return [
        {
            "image": np.full((8, 6, 3), number, np.uint8),
            "label": "ant" if number % 2 else "bee",
            "name": f"{split} {number}",
            "vector": np.array([number, 0.5], np.float32),
            "count": number,
            "is_good": number % 3 == 0,
            "words": ["a"] * (number % 4),
            "objects": [{"bbox": tfds.features.BBox(0.1, 0.2, 0.5, 0.75), "kind": "leg"} for _ in range(number % 3)],
            "ragged": [[1] * (number % 3), [2]],
            "info": {"weight": number / 4},
        }
        for number in range(30 if split == "train" else 10)
    ]


def _write_tfds(folder: Path, version: str) -> Path:
    features = tfds.features
    described = features.FeaturesDict(
        {
            "image": features.Image(shape=(None, None, 3), encoding_format="png"),
            "label": features.ClassLabel(names=["ant", "bee"]),
            "name": features.Text(),
            "vector": features.Tensor(shape=(2,), dtype=np.float32),
            "count": features.Scalar(np.int64),
            "is_good": features.Scalar(np.bool_),
            "words": features.Sequence(features.Text()),
            "objects": features.Sequence({"bbox": features.BBoxFeature(), "kind": features.ClassLabel(names=["leg"])}),
            "ragged": features.Sequence(features.Sequence(np.int64)),
            "info": features.FeaturesDict({"weight": features.Scalar(np.float32)}),
        }
    )
    tfds.dataset_builders.store_as_tfds_dataset(
        name="bugs",
        version=version,
        data_dir=folder,
        features=described,
        split_datasets={split: list(enumerate(_tfds_examples(split))) for split in ("train", "holdout")},
        disable_shuffling=True,
    )
    return folder / "bugs" / version


@pytest.mark.parametrize("inside", ["bugs/2.0.0", "bugs"])
def test_a_data_set_of_tfds(inside: str, tmp_path: Path, run: Run) -> None:
    source = _write_tfds(tmp_path / "tfds", "2.0.0")
    done = run("reshard", "--input", tmp_path / "tfds" / inside, "--output", tmp_path, "--name", "again")
    assert done.status == 0, done.err
    after = open_dataset(str(tmp_path / "again"))
    features = {feature.name: feature for feature in after.manifest.features}

    assert {split.name: split.examples for split in after.manifest.splits} == {"train": 30, "holdout": 10}
    assert features["label"].class_names == ("ant", "bee")
    assert features["objects/kind"].class_names == ("leg",)
    kinds = {name: feature.kind for name, feature in features.items()}
    assert kinds["image"] == "image"
    assert kinds["objects/bbox"] == "bbox"
    assert (kinds["name"], kinds["is_good"], features["vector"].shape) == ("text", "bool", (2,))
    assert any(name.startswith("ragged/") for name in features)  # as the records have it
    read = sorted(shardmill.examples(str(tmp_path / "again"), "holdout"), key=lambda row: row["count"])
    assert [bytes(row["name"]).decode() for row in read] == [f"holdout {number}" for number in range(10)]
    builder = tfds.builder_from_directory(after.directory)
    assert builder.info.features["label"].names == ["ant", "bee"]
    rows = sorted(tfds.as_numpy(builder.as_dataset("holdout")), key=lambda row: row["count"])
    old = sorted(tfds.as_numpy(tfds.builder_from_directory(source).as_dataset("holdout")), key=lambda row: row["count"])
    for mine, theirs in zip(rows, old, strict=True):
        np.testing.assert_array_equal(mine["image"], theirs["image"])
        np.testing.assert_array_equal(mine["objects"]["bbox"], theirs["objects"]["bbox"])
        assert mine["label"] == theirs["label"]
    assert decode_example(_records(after)["train"][0]).keys() >= {"image", "info/weight"}
    assert run("verify", tmp_path / "again").status == 0


def test_several_versions_stop_the_job(tmp_path: Path, run: Run) -> None:
    for version in ("1.0.0", "1.10.0"):
        source = _write_tfds(tmp_path / "tfds", version)
    words = ("--output", tmp_path / "out", "--name", "n")
    check_mistake(run("reshard", "--input", tmp_path / "tfds/bugs", *words), "2 versions", "1.10.0", "folder of one")
    check_mistake(run("reshard", "--input", tmp_path / "tfds", *words), "2 versions", "bugs/1.0.0")
    for version in ("1.0.0", "1.10.0"):
        for name in ("features.json", "dataset_info.json"):
            (tmp_path / "tfds/bugs" / version / name).unlink()
    check_mistake(run("reshard", "--input", tmp_path / "tfds/bugs", *words), "2 versions", "give the folder of one")
    assert run("reshard", "--input", source, *words).status == 0
    everything = ("reshard", "--input", f"train={tmp_path}/tfds/bugs", *words[:-1], "both")
    assert run(*everything).status == 0
    assert sum(split.examples for split in open_dataset(str(tmp_path / "out/both")).manifest.splits) == 80
    days = {f"{day}/a.tfrecord": frame_record(encode_example({"x": [1]})) for day in ("2026.01.30", "2026.01.31")}
    write_files(tmp_path / "days", days)
    assert run("reshard", "--input", tmp_path / "days", *words[:-1], "days").status == 0


@pytest.mark.parametrize(
    ("words", "files", "file", "key"),
    [
        (
            ("text", "--input", "de={}/a.de.txt", "--input", "en={}/a.en.txt"),
            {"a.de.txt": b"eins\nzwei\n", "a.en.txt": b"one\ntwo\n"},
            "dataset_info.json",
            "supervisedKeys",
        ),
        (
            ("images", "--coco", "{}/objects.json", "--feature_names", "object_detection"),
            {"objects.json": json.dumps(BOXES).encode(), **{f"{n}.jpg": image(n, "JPEG", (40, 30)) for n in range(24)}},
            "label_map.pbtxt",
            "dog",
        ),
    ],
)
def test_files_for_other_readers(
    words: tuple[str, ...], files: dict[str, bytes], file: str, key: str, tmp_path: Path, run: Run
) -> None:
    source = write_files(tmp_path / "in", files)
    done = run(*(word.format(source) for word in words), "--output", tmp_path, "--name", "n")
    assert done.status == 0, done.err
    assert run("reshard", "--input", tmp_path / "n", "--output", tmp_path, "--name", "again").status == 0
    before, after = ((tmp_path / name / "1.0.0" / file).read_text() for name in ("n", "again"))
    assert key in before
    assert after.partition(key)[2] == before.partition(key)[2]
