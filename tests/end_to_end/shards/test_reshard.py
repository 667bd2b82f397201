"""`shardmill reshard`: records untouched in a new number of balanced, shuffled shards, with a schema from the Examples;
data sets of shardmill or TFDS, whose splits, kinds and class names survive; records that are no Examples."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from shardmill.data import tfrecord
from shardmill.data.example import decode_example, encode_bytes_feature, encode_entry, example_header, message_kind
from shardmill.data.tfrecord import frame_record
from shardmill.errors import UserError
from shardmill.metadata import file_names
from shardmill.reading.dataset import Dataset, open_dataset
from tests.support.command import Run, check_mistake, image, rejects_of, run_program, write_files
from tests.support.encoded import encode_example
from tests.support.jobs import Files, Jobs
from tests.support.later import Later
from tests.support.table_results import Table, convert

tf = Later("tensorflow")

ROWS: list[dict[str, Any]] = [
    {
        "id": [number],
        "word": [f"w{number % 9}".encode()],
        "vector": [number / 4, 0.5, -1.0],
        "tokens": np.arange(number % 5),
        **({"rare": [number]} if number % 10 == 0 else {}),
    }
    for number in range(3000)
]
RECORDS = [encode_example(row) for row in ROWS]


def framed(records: list[bytes]) -> bytes:
    return b"".join(map(tfrecord.frame_record, records))


def all_records(directory: Path) -> dict[str, list[bytes]]:
    dataset = open_dataset(str(directory))
    return {
        split.name: [record for shard in split.shards for record in dataset.records(shard)]
        for split in dataset.manifest.splits
    }


@pytest.fixture(scope="session")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of 45 %, 55 % and 0 % of the records, one of them compressed."""
    files = {
        "old.tfrecord-00000-of-00003": framed(RECORDS[:1350]),
        "old.tfrecord-00001-of-00003.gz": gzip.compress(framed(RECORDS[1350:])),
        "old.tfrecord-00002-of-00003": b"",
    }
    return write_files(tmp_path_factory.mktemp("old"), files)


@pytest.fixture(scope="session")
def plain(old: Path, tmp_path_factory: pytest.TempPathFactory) -> Table:
    return convert("reshard", old, tmp_path_factory.mktemp("new"), "--num_shards", 7)


def test_records_are_untouched_and_shuffled(plain: Table) -> None:
    records = all_records(plain.directory)["train"]
    assert Counter(records) == Counter(RECORDS)
    assert records[:100] != RECORDS[:100]
    assert sorted(plain.sizes["train"]) == [428] * 3 + [429] * 4


def test_the_schema_is_that_of_the_examples(plain: Table) -> None:
    types = {"id": "int64", "rare": "int64?", "tokens": "int64[]", "vector": "float32[3]", "word": "bytes"}
    assert plain.features == types
    stats = plain.stats()
    assert (stats["id"]["min"], stats["id"]["max"], stats["rare"]["missing"]) == (0, 2999, 2700)
    assert stats["tokens"]["values_per_example"]["max"] == 4


def test_strata_of_features(old: Path, tmp_path: Path) -> None:
    stratified = convert("reshard", old, tmp_path, "--splits", "train=0.8,test=0.2", "--stratify_by", "word")
    counted = Counter(row["word"] for row in stratified.splits["test"])
    assert set(counted.values()) <= {66, 67}


def test_a_data_set_of_ours_keeps_its_classes(tmp_path: Path, run: Run) -> None:
    source = write_files(tmp_path / "in", {"a.csv": b"x,kind\n" + b"1,ant\n2,bee\n" * 50})
    first = convert("csv", source, tmp_path / "a", "--label", "kind")
    names = ("--label", "kind", "--labels_file", first.directory / "kind.labels.txt")
    schema = ("--schema", first.directory / "schema.pbtxt", *names)
    again = convert("reshard", first.directory, tmp_path / "b", *schema, "--num_shards", 4)
    assert (again.directory / "kind.labels.txt").read_text() == "ant\nbee\n"
    without = run("reshard", "--input", first.directory, "--output", tmp_path / "c", "--name", "n", *schema[:2])
    check_mistake(without, "--schema says that 'kind' holds ids of classes; give --label kind and their names")
    other = write_files(tmp_path / "other", {"a.tfrecord": framed(RECORDS[:5])})
    wrong = run("reshard", "--input", other, "--output", tmp_path / "c", "--name", "n", *schema)
    check_mistake(wrong, "--schema says that feature 'x' is int64 in every record, but it is in no record")
    assert again.dataset.manifest.features == first.dataset.manifest.features
    assert again.sizes == {"train": [25] * 4}


def mixed(folder: Path) -> Path:
    """Twenty records in three files, one of which holds `x` as a float, and one as an empty list of strings."""
    records = [encode_example({"x": [number], "y": [b"a"]}) for number in range(20)]
    records[7] = encode_example({"x": np.array([7], np.float32), "y": [b"b"]})
    empty = encode_entry("x", encode_bytes_feature([]))
    records[12] = example_header(len(empty)) + empty
    return write_files(folder, {f"{i}.tfrecord": framed(records[i * 5 : i * 5 + 5]) for i in range(4)})


@pytest.mark.parametrize("flags", [(), ("--block_size", "1KiB")])
def test_a_feature_of_several_kinds_fails_the_job(tmp_path: Path, run: Run, flags: tuple[str, ...]) -> None:
    source = mixed(tmp_path / "in")
    mistake = run("reshard", "--input", source, "--output", tmp_path / "out", "--name", "n", *flags)
    check_mistake(
        mistake,
        "feature 'x' is int64 in 18 records (first: record 1 of 0.tfrecord), bytes in 1 record (first: record 3 of"
        " 2.tfrecord) and float32 in 1 record (first: record 3 of 1.tfrecord)",
        "--on_mixed reject",
    )
    assert not list((tmp_path / "out").rglob("*.tfrecord*"))


def test_records_of_another_kind_than_most_are_rejected_on_demand(tmp_path: Path, run: Run) -> None:
    source = mixed(tmp_path / "in")
    flags = ("--on_mixed", "reject", "--max_reject_fraction", 1)
    table = convert("reshard", source, tmp_path / "a", *flags)
    assert table.features == {"x": "int64", "y": "bytes"}
    assert sorted(row["x"] for row in table.splits["train"]) == [*range(7), *range(8, 12), *range(13, 20)]
    rejects = {(row["source"], row["line"], row["reason"]) for row in table.rejects()}
    assert rejects == {
        ("1.tfrecord", 3, "feature 'x' holds float32; expected int64"),
        ("2.tfrecord", 3, "feature 'x' holds bytes; expected int64"),
    }
    assert table.dataset.manifest.configuration["on_mixed"] == "reject"
    assert run("verify", table.directory).status == 0

    schema = tmp_path / "schema.pbtxt"
    schema.write_text((table.directory / "schema.pbtxt").read_text().replace("INT", "FLOAT"))
    floats = convert("reshard", source, tmp_path / "b", *flags, "--schema", schema)
    assert floats.features == {"x": "float32", "y": "bytes"}
    assert [row["x"] for row in floats.splits["train"]] == [7.0]


def feature(values: list[Any] | None) -> Any:
    """A tf.train.Feature: without a kind of None, and of integers, which may be none, of a list."""
    return tf.train.Feature() if values is None else tf.train.Feature(int64_list=tf.train.Int64List(value=values))


@pytest.mark.slow
def test_a_feature_without_a_kind_is_missing(tmp_path: Path, run: Run) -> None:
    """To the schema, the readers and `verify` alike, as it is to TensorFlow; a kind without values is an empty list."""
    columns: dict[str, list[list[int] | None]] = {
        "always": [[0], [1], [2], [3]],
        "never": [None] * 4,
        "one": [None, [7], [7], [7]],
        "two": [[1, 2], None, [1, 2], [3, 4]],
        "list": [[], [1, 2], None, [3]],
        "empty": [[5], [], [5], [5]],
        "empty_or_none": [[], [], None, []],
    }
    rows = [{name: values[number] for name, values in columns.items()} for number in range(4)]
    records = [
        tf.train.Example(
            features=tf.train.Features(feature={name: feature(values) for name, values in row.items()})
        ).SerializeToString()
        for row in rows
    ]
    source = write_files(tmp_path / "in", {"a.tfrecord": framed(records)})
    table = convert("reshard", source, tmp_path, "--splits", "train=1")
    assert table.features == {
        "always": "int64",
        "empty": "int64[]",
        "empty_or_none": "int64[]?",
        "list": "int64[]?",
        "one": "int64?",
        "two": "int64[2]?",
    }
    stats = table.stats()
    assert {name: stats[name]["missing"] for name in stats} == {
        **{"always": 0, "empty": 0, "empty_or_none": 1, "list": 1},
        **{"one": 1, "two": 1},
    }
    assert run("verify", table.directory, "--decode").status == 0
    present = [{name: values for name, values in row.items() if values is not None} for row in rows]
    for example in shardmill.examples(table.directory, "train"):
        assert {name: np.ravel(value).tolist() for name, value in example.items()} == present[int(example["always"])]
    defaults: dict[str, Any] = {"one": -1, "two": [-1, -1]}
    for batch in shardmill.load(table.directory, "train", batch_size=1, defaults=defaults):
        row = rows[int(batch["always"][0])]
        assert {name: np.ravel(values[0].numpy()).tolist() for name, values in batch.items()} == {
            name: row[name] if row[name] is not None else np.ravel(defaults.get(name, [])).tolist() for name in batch
        }
    text = (table.directory / "schema.pbtxt").read_text()
    assert text.count("presence") == 2
    again = convert("reshard", table.directory, tmp_path / "b", "--schema", table.directory / "schema.pbtxt")
    assert again.features == table.features
    scalar = text.replace('name: "empty"\n', 'name: "empty"\n  shape {\n  }\n')
    (tmp_path / "scalar.pbtxt").write_text(scalar)
    flags = ("--output", tmp_path / "c", "--name", "n", "--schema", tmp_path / "scalar.pbtxt")
    wrong = run("reshard", "--input", source, *flags)
    check_mistake(wrong, "'empty' has 1 value(s) in a record, but records have other numbers of them, or none; remove")


def test_a_schema_that_lies_there_and_is_not_given_is_said(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.csv": b"x,kind\n" + b"1,ant\n2,bee\n" * 50})
    first = convert("csv", tmp_path / "a.csv", tmp_path / "a", "--label", "kind", "--splits", "train=1").directory
    schema = first / "schema.pbtxt"

    def said(name: str, source: object, *flags: object) -> list[str]:
        notices = convert("reshard", source, tmp_path / name, *flags).dataset.manifest.notices  # type: ignore[arg-type]
        return [notice for notice in notices if "next to the records" in notice]

    words = (
        f"{schema} next to the records was ignored: --schema {schema} with --label kind and --labels_file"
        " kind.labels.txt keeps what the records do not show: 'kind' (class_label)"
    )
    records = f"{first}/*.tfrecord*"
    assert said("folder", first) == said("above", first.parent) == []  # kept by manifest.json
    assert said("glob", records) == [words]
    given = ("--schema", schema, "--label", "kind", "--labels_file", first / "kind.labels.txt")
    assert said("given", records, *given) == []
    schema.write_text("no schema")
    (broken,) = said("broken", records)
    assert broken.startswith(f"{schema} next to the records was ignored; it is invalid as --schema, too: ")
    schema.unlink()
    assert said("none", records) == []


NAMES = {  # of record files as others write them, and the split in the name
    "pet.record": "train",
    "coco_train.record-00000-of-00100": "train",
    "coco_val.record": "validation",
    "train-00000-of-00002": "train",
    "validation-00000-of-00002": "validation",
    "data_tfrecord-00000-of-00001.gz": "",
}


def test_files_are_recognised_by_content(tmp_path: Path) -> None:
    files = {name: framed(RECORDS[at * 9 : at * 9 + 9]) for at, name in enumerate(NAMES)}
    files["data_tfrecord-00000-of-00001.gz"] = gzip.compress(files["data_tfrecord-00000-of-00001.gz"])
    others = {"notes.txt": b"x", "model.bin": bytes(100), "events.out": b"\x18\0\0\0\0\0\0\0????", "empty": b""}
    folder = write_files(tmp_path / "in", {**files, **others})

    table = convert("reshard", folder, tmp_path / "out")

    assert Counter(all_records(table.directory)["train"]) == Counter(RECORDS[:54])
    notices = "; ".join(table.dataset.manifest.notices)
    assert "files are called as splits are, and all examples are in train" in notices
    assert "2 as validation, such as 'coco_val.record'" in notices
    for name in ("notes.txt", "model.bin", "events.out", "empty"):
        assert name in notices


def test_folders_of_tfx_are_splits(tmp_path: Path) -> None:
    files = {
        "Split-train/data_tfrecord-00000-of-00001.gz": gzip.compress(framed(RECORDS[:20])),
        "Split-eval/data_tfrecord-00000-of-00001.gz": gzip.compress(framed(RECORDS[20:30])),
    }

    table = convert("reshard", write_files(tmp_path / "in", files), tmp_path / "out")

    assert {split: Counter(records) for split, records in all_records(table.directory).items()} == {
        "train": Counter(RECORDS[:20]),
        "test": Counter(RECORDS[20:30]),
    }
    assert any("Split-eval (test)" in notice for notice in table.dataset.manifest.notices)


def test_an_input_for_each_split(jobs: Jobs) -> None:
    files = {"a/1.record": RECORDS[:20], "a/2.record": RECORDS[20:30], "b/1.record": RECORDS[30:40], "c": RECORDS[40:]}
    jobs.write({name: framed(records) for name, records in files.items()})

    built = jobs.build("reshard --input train=in/a/* --input val=in/b/* --input extra=in/c --num_shards 2")

    assert {name: Counter(records) for name, records in all_records(built.directory).items()} == {
        "train": Counter(RECORDS[:30]),
        "validation": Counter(RECORDS[30:40]),
        "extra": Counter(RECORDS[40:]),
    }
    assert not any("folders" in notice for notice in built.notices)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--input train=in/a --input test=in/a", "is a file of both --input train=… and test="),
        ("--input train=in/a --splits train=1", "--input says the splits; leave one of them out"),
        ("--input train=in/no", "no: no such file or folder"),
    ],
)
def test_mistakes_in_inputs_of_splits(jobs: Jobs, flags: str, said: str) -> None:
    jobs.refuse(f"reshard {flags}", said, files={f"{name}/1.record": framed(RECORDS[:9]) for name in "ab"})


LABEL_MAP = b"""item {
  id: 1
  name: 'cat'
}
item { name: "/m/0bt9lr" id: 3 display_name: "dog" }
"""
CLASSES = ("background", "cat", "unused_2", "dog")
IDS = "image/object/class/label"


@pytest.mark.parametrize("name", ["label_map.pbtxt", "pet_label_map.pbtxt"])
def test_a_label_map_names_the_classes(jobs: Jobs, name: str) -> None:
    records = framed([encode_example({IDS: [1, 3][: number % 2 + 1]}) for number in range(9)])
    named = jobs.build(f"reshard --output b --label {IDS}", files={"pet.record": records, name: LABEL_MAP})
    given = jobs.build(f"reshard --output c --label {IDS} --labels_file in/{name}")
    for built in (named, given):
        (feature,) = built.manifest.features
        assert (feature.name, feature.class_names) == (IDS, CLASSES)
    assert any(notice.endswith(f"are those of in/{name}") for notice in named.notices)


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


@pytest.mark.slow
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


def test_flags_have_the_last_word(pets: Path, jobs: Jobs) -> None:
    line = f"reshard --input {pets} --output"
    splits = jobs.build(f"{line} splits --splits a=0.5,b=0.5")
    names = "--label objects/label --labels_file in/names.txt"
    named = jobs.build(f"{line} names {names}", files={"names.txt": "kitten\npuppy\n"})
    glob = jobs.build(f"reshard --input {pets}/1.1.0/*tfrecord* --output glob")

    assert [*splits.splits] == ["a", "b"]
    assert splits.manifest.features == jobs.build(f"{line} plain").manifest.features
    of_named, of_glob = ({each.name: each for each in built.manifest.features} for built in (named, glob))
    assert of_named["objects/label"].class_names == ("kitten", "puppy")
    assert of_glob["objects/bbox"].kind == "tensor"


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_several_versions_stop_the_job(jobs: Jobs) -> None:
    for version in ("1.0.0", "1.10.0"):
        _write_tfds(Path("in"), version)
    jobs.refuse("reshard --input in/bugs", "2 versions…1.10.0…folder of one")
    jobs.refuse("reshard", "2 versions…bugs/1.0.0")
    for version in ("1.0.0", "1.10.0"):
        for name in ("features.json", "dataset_info.json"):
            Path("in/bugs", version, name).unlink()
    jobs.refuse("reshard --input in/bugs", "2 versions…give the folder of one")
    jobs.build("reshard --input in/bugs/1.10.0")
    assert sum(jobs.build("reshard --input train=in/bugs --name both").splits.values()) == 80
    day = frame_record(encode_example({"x": [1]}))
    jobs.write({"days/2026.01.30/a.tfrecord": day, "days/2026.01.31/a.tfrecord": day})
    jobs.build("reshard --input in/days --name days")


@pytest.mark.parametrize(
    ("line", "files", "file", "key"),
    [
        (
            "text --input de=in/a.de.txt --input en=in/a.en.txt",
            {"a.de.txt": "eins\nzwei\n", "a.en.txt": "one\ntwo\n"},
            "dataset_info.json",
            "supervisedKeys",
        ),
        (
            "images --coco in/objects.json --feature_names object_detection",
            {"objects.json": json.dumps(BOXES), **{f"{n}.jpg": image(n, "JPEG", (40, 30)) for n in range(24)}},
            "label_map.pbtxt",
            "dog",
        ),
    ],
)
def test_files_for_other_readers(line: str, files: Files, file: str, key: str, jobs: Jobs) -> None:
    made = jobs.build(line, files=files)
    again = jobs.build("reshard --input out/n --name again")
    before, after = ((built.directory / file).read_text() for built in (made, again))
    assert key in before
    assert after.partition(key)[2] == before.partition(key)[2]


serving = Later("tensorflow_serving.apis.input_pb2")

EXAMPLE = encode_example({"relevance": [1], "score": [0.25]})
OTHERS = {
    "JPEG images": [image(number) for number in range(12)],
    "PNG images": [image(number, "PNG") for number in range(12)],
    "JSON texts": [json.dumps({"id": number}).encode() for number in range(12)],
    "Python pickles": [
        b"\x80\x04\x95\x02\x00\x00\x00\x00\x00\x00\x00K" + bytes([number]) + b"." for number in range(9)
    ],
}


def int_feature(*values: int) -> Any:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def sequences() -> list[bytes]:
    """Serialized SequenceExamples, with and without a context, and with empty lists."""
    lists = tf.train.FeatureLists(
        feature_list={"tokens": tf.train.FeatureList(feature=[int_feature(1, 200), int_feature(3)])}
    )
    contexts = [tf.train.Features(feature={"id": int_feature(number)}) for number in range(20)]
    made = [tf.train.SequenceExample(context=context, feature_lists=lists) for context in contexts]
    made += [tf.train.SequenceExample(feature_lists=lists)]
    made += [tf.train.SequenceExample(feature_lists=tf.train.FeatureLists(feature_list={"t": tf.train.FeatureList()}))]
    return [each.SerializeToString() for each in made]


def example_lists() -> list[bytes]:
    """Serialized ELWCs of 1 to 4 examples, with and without a context."""
    context = tf.train.Example.FromString(encode_example({"query": [b"shoes"]}))
    made = [serving.ExampleListWithContext(context=context if number % 2 else None) for number in range(20)]
    for number, each in enumerate(made):
        for _ in range(number % 4 + 1):
            each.examples.add().CopyFrom(tf.train.Example.FromString(EXAMPLE))
    made.append(serving.ExampleListWithContext(context=context))
    return [each.SerializeToString() for each in made]


def tensors() -> list[bytes]:
    return [tf.io.serialize_tensor(tf.constant([number, 2], tf.float32)).numpy() for number in range(9)]


KINDS: dict[str, Callable[[], list[bytes]]] = {
    "tf.train.SequenceExamples": sequences,
    "tensorflow.serving.ExampleListWithContext messages (ELWC)": example_lists,
    "tensors (tf.io.serialize_tensor)": tensors,
    "texts": lambda: [b"line %d" % number for number in range(9)],
    **{name: partial(list, records) for name, records in OTHERS.items()},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("tf.train.SequenceExample", sequences),
        ("tensorflow.serving.ExampleListWithContext", example_lists),
        ("", tensors),
        ("tf.train.Example", lambda: [EXAMPLE, b"", encode_example({"": [b"\n\x00"]}), EXAMPLE + EXAMPLE]),
        ("", lambda: [b"text", b"\xff\xff", *OTHERS["JPEG images"]]),
    ],
)
def test_kinds_of_messages(kind: str, make: Any) -> None:
    assert [message_kind(record) for record in make()] == [kind] * len(make())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_kind_stops_the_job_and_raw_passes_it_through(kind: str, tmp_path: Path, run: Run) -> None:
    records = KINDS[kind]()
    source = write_files(tmp_path / "in", {"a.tfrecord": framed(records), "b.tfrecord": framed([EXAMPLE])})
    given = ("reshard", "--input", source, "--output", tmp_path / "out", "--name", "n")

    check_mistake(
        run(*given, "--block_size", "1KiB"), f"a.tfrecord: its records are {kind}", "--record_type raw passes"
    )
    assert not list((tmp_path / "out").rglob("*.tfrecord*"))

    done = run(*given, "--record_type", "raw", "--splits", "train=0.6,test=0.4", "--num_shards", 2)
    assert (done.status, done.err) == (0, "")
    folder = tmp_path / "out/n/1.0.0"
    found = [each["record"] for split in ("train", "test") for each in shardmill.examples(folder, split)]
    assert sorted(found) == sorted([*records, EXAMPLE])
    by_tensorflow = tf.data.TFRecordDataset([str(path) for path in sorted(folder.glob("n-*"))])
    assert sorted(record.numpy() for record in by_tensorflow) == sorted(found)


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A version of raw records, two of which are equal."""
    folder = tmp_path_factory.mktemp("raw")
    records = OTHERS["JPEG images"]
    source = write_files(folder / "in", {"a.tfrecord": framed([*records, records[0]])})
    done = run_program(
        *("reshard", "--input", source, "--output", folder / "out", "--name", "n"),
        *("--record_type", "raw", "--splits", "train=0.7,test=0.3", "--group_by", "content"),
    )
    assert done.status == 0
    return folder / "out/n/1.0.0"


def test_the_version_says_what_is_known(raw: Path, run: Run) -> None:
    manifest = open_dataset(raw).manifest
    stats = json.loads((raw / file_names.STATS).read_bytes())

    assert (manifest.features, manifest.configuration["record_type"]) == ((), "raw")
    assert "--record_type raw passed the records through unparsed: they have no features" in manifest.notices
    sizes = [len(record) for record in OTHERS["JPEG images"]]
    lengths = [split["features"]["record"]["length_bytes"] for split in stats["splits"].values()]
    assert min(each["min"] for each in lengths) == min(sizes)
    assert max(each["max"] for each in lengths) == max(sizes)
    assert sum(each["examples"] for each in stats["duplicates"]["within"].values()) == 2  # compared byte by byte
    # Nothing that TFDS would take for a description of Examples
    assert not (raw / file_names.FEATURES).exists()
    assert not (raw / file_names.DATASET_INFO).exists()


@pytest.mark.parametrize("command", [("verify", "--decode"), ("inspect",), ("report",)])
def test_commands_take_it(raw: Path, tmp_path: Path, run: Run, command: tuple[str, ...]) -> None:
    more = ("--output", tmp_path / "page.html") if command == ("report",) else ()
    done = run(*command, raw, *more)
    assert (done.status, done.err) == (0, "")


def test_verify_finds_damage(raw: Path, tmp_path: Path, run: Run) -> None:
    for path in raw.iterdir():
        data = bytearray(path.read_bytes())
        if path.name.startswith("n-train"):
            data[40] ^= 1
        (tmp_path / path.name).write_bytes(data)

    done = run("verify", tmp_path)

    assert done.status == 1
    assert "record" in done.out + done.err


@pytest.mark.slow
@pytest.mark.parametrize(
    "read",
    [
        lambda path: shardmill.load(path),
        lambda path: shardmill.feature_spec(path),
        lambda path: list(shardmill.examples(path, features=["id"])),
    ],
)
def test_readers_of_features_say_that_there_are_none(raw: Path, read: Any) -> None:
    with pytest.raises(UserError, match=r"without features: --record_type raw.*shardmill.examples yields the bytes"):
        read(raw)


@pytest.mark.parametrize("flag", ["--label", "--key", "--group_by", "--stratify_by", "--on_mixed"])
def test_flags_that_need_features(jobs: Jobs, flag: str) -> None:
    given = {"--on_mixed": "reject", "--label": "x", "--key": "x"}.get(flag, "x --splits a=0.5,b=0.5")
    said = f"--record_type raw and {flag}: raw records are not parsed"
    jobs.refuse(f"reshard --record_type raw {flag} {given}", said, files={"a.tfrecord": framed([EXAMPLE])})


@pytest.mark.slow
def test_a_file_of_mixed_records_loses_only_the_others(jobs: Jobs) -> None:
    """The kind of a file is that of its first records; later ones of another kind are rejects, without a log line."""
    records = [EXAMPLE, example_lists()[1], EXAMPLE, sequences()[0], b"\xff\xd8\xff", EXAMPLE]
    jobs.write({"a.tfrecord": framed(records)})
    words = ("--input", jobs.folder / "in", "--output", jobs.folder / "out", "--name", "n")

    done = run_program("reshard", *words, "--max_reject_fraction", "0.6")

    assert (done.status, done.err) == (0, "")
    rejects = rejects_of(Path("out/n/1.0.0"))
    assert [(reject["line"], reject["reason"]) for reject in rejects] == [
        (2, "record 2 is a tensorflow.serving.ExampleListWithContext; expected a tf.train.Example"),
        (4, "record 4 is a tf.train.SequenceExample; expected a tf.train.Example"),
        (5, "record 5 is not a tf.train.Example"),
    ]
