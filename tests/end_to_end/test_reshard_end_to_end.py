"""Resharding end to end: records untouched, a new number of balanced, shuffled shards, and a schema from the
Examples."""

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from shardmill.data import tfrecord
from shardmill.data.example import encode_example
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run, check_mistake, write_files
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
    assert plain.features == {
        "id": "int64",
        "rare": "int64?",
        "tokens": "int64[]",
        "vector": "float32[3]",
        "word": "bytes",
    }
    stats = plain.stats()
    assert (stats["id"]["min"], stats["id"]["max"], stats["rare"]["missing"]) == (0, 2999, 2700)
    assert stats["tokens"]["values_per_example"]["max"] == 4


def test_block_size_changes_no_byte(old: Path, plain: Table, tmp_path: Path) -> None:
    other = convert("reshard", old, tmp_path, "--num_shards", 7, "--block_size", "2KiB", "--threads", 1)
    assert all_records(other.directory) == all_records(plain.directory)
    assert (other.directory / "stats.json").read_bytes() == (plain.directory / "stats.json").read_bytes()


def test_splits_by_features(old: Path, tmp_path: Path, run: Run) -> None:
    flags = ("--splits", "train=0.8,test=0.2")
    grouped = convert("reshard", old, tmp_path / "a", *flags, "--group_by", "word")
    words = {split: {row["word"] for row in rows} for split, rows in grouped.splits.items()}
    assert not words["train"] & words["test"]
    stratified = convert("reshard", old, tmp_path / "b", *flags, "--stratify_by", "word")
    counted = Counter(row["word"] for row in stratified.splits["test"])
    assert set(counted.values()) <= {66, 67}
    keyed = convert("reshard", old, tmp_path / "c", *flags, "--key", "id", "--no_shuffle")
    assert [row["id"] for row in keyed.splits["train"]] == sorted(row["id"] for row in keyed.splits["train"])
    mistake = run("reshard", "--input", old, "--output", tmp_path / "d", "--name", "n", "--key", "idd")
    check_mistake(mistake, "--key idd: no example has such a feature; did you mean id?")
    assert not list((tmp_path / "d").rglob("*.tfrecord*"))


def test_a_data_set_of_ours_keeps_its_classes(tmp_path: Path, run: Run) -> None:
    source = write_files(tmp_path / "in", {"a.csv": b"x,kind\n" + b"1,ant\n2,bee\n" * 50})
    first = convert("csv", source, tmp_path / "a", "--label", "kind")
    schema = (
        "--schema",
        first.directory / "schema.pbtxt",
        "--label",
        "kind",
        "--labels_file",
        first.directory / "kind.labels.txt",
    )
    again = convert("reshard", first.directory, tmp_path / "b", *schema, "--num_shards", 4)
    assert (again.directory / "kind.labels.txt").read_text() == "ant\nbee\n"
    without = run("reshard", "--input", first.directory, "--output", tmp_path / "c", "--name", "n", *schema[:2])
    check_mistake(without, "--schema says that 'kind' holds ids of classes; give --label kind and their names")
    other = write_files(tmp_path / "other", {"a.tfrecord": framed(RECORDS[:5])})
    wrong = run("reshard", "--input", other, "--output", tmp_path / "c", "--name", "n", *schema)
    check_mistake(wrong, "--schema says that feature 'x' is int64 in every record, but it is in no record")
    assert again.dataset.manifest.features == first.dataset.manifest.features
    assert again.sizes == {"train": [25] * 4}


def test_a_corrupt_record_is_named_and_the_rest_survives(tmp_path: Path) -> None:
    data = bytearray(framed(RECORDS[:100]))
    ninth = len(framed(RECORDS[:9]))
    data[ninth + 20] ^= 1  # in the payload of the tenth
    cut = framed(RECORDS[100:150])[:-3]
    source = write_files(tmp_path / "in", {"bad.tfrecord": bytes(data), "cut.tfrecord": cut})
    table = convert("reshard", source, tmp_path, "--max_reject_fraction", 0.1, "--on_damaged_file", "reject")
    assert Counter(all_records(table.directory)["train"]) == Counter([*RECORDS[:9], *RECORDS[10:149]])
    first, second = table.rejects()
    assert (first["source"], first["line"]) == ("bad.tfrecord", 10)
    assert f"byte {ninth}" in first["reason"]
    assert (second["source"], second["line"]) == ("cut.tfrecord", 50)


def mixed(folder: Path) -> Path:
    """Twenty records in three files, one of which holds `x` as a float, and one as an empty list of strings."""
    records = [encode_example({"x": [number], "y": [b"a"]}) for number in range(20)]
    records[7] = encode_example({"x": np.array([7], np.float32), "y": [b"b"]})
    records[12] = tf.train.Example(
        features=tf.train.Features(feature={"x": tf.train.Feature(bytes_list=tf.train.BytesList())})
    ).SerializeToString()
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


def test_sequence_examples_are_named_as_such(tmp_path: Path, run: Run) -> None:
    tokens = tf.train.FeatureList(feature=[tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2]))])
    context = tf.train.Features(feature={"x": tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))})
    lists = tf.train.FeatureLists(feature_list={"tokens": tokens})
    sequences = [
        tf.train.SequenceExample(context=context, feature_lists=lists).SerializeToString(),
        tf.train.SequenceExample(feature_lists=lists).SerializeToString(),
    ]
    records = [RECORDS[0], sequences[0], b"", sequences[1], RECORDS[1]]
    table = convert(
        "reshard", write_files(tmp_path / "in", {"a.tfrecord": framed(records)}), tmp_path, "--max_reject_fraction", 0.5
    )
    reasons = [f"record {number} is a tf.train.SequenceExample; expected a tf.train.Example" for number in (2, 4)]
    assert [row["reason"] for row in table.rejects()] == reasons
    assert table.sizes == {"train": [3]}

    alone = write_files(tmp_path / "alone", {"a.tfrecord": framed(sequences)})
    failed = run("reshard", "--input", alone, "--output", tmp_path / "out", "--name", "n")
    check_mistake(failed, "a.tfrecord: its records are tf.train.SequenceExamples", "--record_type raw")


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


def reshard(run: Run, output: Path, *flags: object) -> Any:
    done = run("reshard", "--output", output, "--name", "n", *flags)
    assert done.status == 0, done.err
    return open_dataset(str(output / "n"))


def test_an_input_for_each_split(run: Run, tmp_path: Path) -> None:
    files = {"a/1.record": RECORDS[:20], "a/2.record": RECORDS[20:30], "b/1.record": RECORDS[30:40], "c": RECORDS[40:]}
    folder = write_files(tmp_path / "in", {name: framed(records) for name, records in files.items()})
    inputs = ("--input", f"train={folder}/a/*", "--input", f"val={folder}/b/*", "--input", f"extra={folder}/c")

    dataset = reshard(run, tmp_path / "out", *inputs, "--num_shards", 2)

    found = {name: Counter(records) for name, records in all_records(Path(dataset.directory)).items()}
    assert found == {
        "train": Counter(RECORDS[:30]),
        "validation": Counter(RECORDS[30:40]),
        "extra": Counter(RECORDS[40:]),
    }
    assert not any("folders" in notice for notice in dataset.manifest.notices)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--input", "train={0}/a", "--input", "{0}/b"), "b is one of several inputs and has no split"),
        (("--input", "train={0}/a", "--input", "test={0}/a"), "is a file of both --input train=… and test=…"),
        (("--input", "train={0}/a", "--splits", "train=1"), "--input says the splits; leave one of them out"),
        (("--input", "train={0}/no"), "no: no such file or folder"),
        (("--input", "a.b={0}/a"), "split 'a.b': expected letters, digits and '_' only"),
    ],
)
def test_mistakes_in_inputs_of_splits(run: Run, tmp_path: Path, flags: tuple[str, ...], words: str) -> None:
    folder = write_files(tmp_path / "in", {f"{name}/1.record": framed(RECORDS[:9]) for name in "ab"})
    given = [flag.format(folder) for flag in flags]

    check_mistake(run("reshard", "--output", tmp_path / "out", "--name", "n", *given), words)
    assert not (tmp_path / "out").exists()


LABEL_MAP = b"""item {
  id: 1
  name: 'cat'
}
item { name: "/m/0bt9lr" id: 3 display_name: "dog" }
"""
CLASSES = ("background", "cat", "unused_2", "dog")
IDS = "image/object/class/label"


@pytest.mark.parametrize("name", ["label_map.pbtxt", "pet_label_map.pbtxt"])
def test_a_label_map_names_the_classes(run: Run, tmp_path: Path, name: str) -> None:
    records = framed([encode_example({IDS: [1, 3][: number % 2 + 1]}) for number in range(9)])
    folder = write_files(tmp_path / "in", {"pet.record": records, name: LABEL_MAP})
    job = ("--input", folder)

    hint = f"names 4 ids of classes; --label NAME, such as --label {IDS}, says which feature holds them"
    assert any(hint in notice for notice in reshard(run, tmp_path / "a", *job).manifest.notices)
    named = reshard(run, tmp_path / "b", *job, "--label", IDS)
    given = reshard(run, tmp_path / "c", *job, "--label", IDS, "--labels_file", folder / name)
    for dataset in (named, given):
        (feature,) = dataset.manifest.features
        assert (feature.name, feature.class_names) == (IDS, CLASSES)
    assert any(notice.endswith(f"are those of {folder}/{name}") for notice in named.manifest.notices)
