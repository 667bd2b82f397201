"""Resharding end to end: records untouched, a new number of balanced, shuffled shards, and a schema from the Examples."""

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run, check_mistake, write_files
from table_results import Table, convert

from shardmill import tfrecord
from shardmill.dataset import open_dataset
from shardmill.example import encode_example

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
    return b"".join(map(tfrecord.frame, records))


def all_records(directory: Path) -> dict[str, list[bytes]]:
    dataset = open_dataset(str(directory))
    return {
        split.name: [record for shard in split.shards for record in dataset.records(shard)] for split in dataset.manifest.splits
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
    schema = ("--schema", first.directory / "schema.pbtxt", "--label", "kind", "--labels_file", first.directory / "kind.labels.txt")
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
    table = convert("reshard", source, tmp_path, "--max_reject_fraction", 0.1)
    assert Counter(all_records(table.directory)["train"]) == Counter([*RECORDS[:9], *RECORDS[10:149]])
    first, second = table.rejects()
    assert (first["source"], first["line"]) == ("bad.tfrecord", 10)
    assert f"byte {ninth}" in first["reason"]
    assert (second["source"], second["line"]) == ("cut.tfrecord", 50)
