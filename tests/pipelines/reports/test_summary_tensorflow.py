"""What is printed when a job is done."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardmill.data.features import Feature, Features
from shardmill.metadata import file_names
from shardmill.metadata.manifest import Manifest, ShardEntry, SplitEntry
from shardmill.pipelines.config.images import ImagesConfig
from shardmill.pipelines.reports import summary
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.files.image_features import animation_notices
from shardmill.transforms.stores.storage import write_text

IMAGE = Feature("image", "bytes", "image")
LABEL = Feature("label", "int64", "class_label", class_names=("a",), role="label")


def _shard(index: int, examples: int, size_bytes: int, suffix: str = "") -> ShardEntry:
    return ShardEntry(f"flowers-train.tfrecord-{index:05}-of-00002{suffix}", examples, size_bytes, "0" * 8)


SPLITS = (SplitEntry("train", (_shard(0, 667, 1_000_000), _shard(1, 666, 990_000)), 7), SplitEntry("empty", ()))
GZIPPED = (SplitEntry("train", (_shard(0, 667, 1_000_000, ".gz"), _shard(1, 666, 990_000, ".gz"))),)


def publish(output: Path, **changes: Any) -> ImagesConfig:
    config = ImagesConfig(input="photos", output=str(output), name="flowers")
    values: dict[str, Any] = {
        "features": (IMAGE, LABEL),
        "splits": SPLITS,
        "compression": "",
        "input": {"records": 1333},
    }
    manifest = Manifest("flowers", "1.0.0", **({"rejects": {"records": 0, "reasons": {}}} | values | changes))
    write_text(f"{config.directory}/{file_names.MANIFEST}", manifest.to_json())
    write_text(f"{config.directory}/{file_names.SUCCESS}", "")
    return config


SOURCE, MASK = Feature("name", "bytes", role="source"), Feature("mask", "bytes", "mask", role="label")


@pytest.mark.parametrize(
    ("features", "lines"),
    [
        ((IMAGE, LABEL), ["Classes of 'label': 1: a"]),
        ((IMAGE, SOURCE), ["Classes: none; the examples are unlabelled"]),
        ((MASK, SOURCE), ["Classes: none; the label is 'mask'"]),
        ((Feature("age", "int64"), Feature("filename", "bytes")), []),  # of a table, whatever it calls its columns
    ],
)
@pytest.mark.parametrize("configuration", [{}, {"format": "a later one"}])
def test_classes_are_told_by_what_features_are_for(
    features: Features, lines: list[str], configuration: dict[str, str]
) -> None:
    assert summary.class_lines(Manifest("n", "1.0.0", "", features, (), configuration=configuration)) == lines


# What is escaped is cut as it is shown: it takes four times the room
NAMES = {
    "a" * 40: "a" * 40,
    "a" * 41: "a" * 39 + "…",
    "\x1b" * 10: r"\x1b" * 10,
    "\x1b" * 11: r"\x1b" * 9 + r"\x1" + "…",
}


def test_a_name_is_cut_to_the_room_that_it_takes_on_a_line() -> None:
    assert {name: summary.shorten_name(name) for name in NAMES} == NAMES


def test_the_whole_report(tmp_path: Path) -> None:
    rejects = {"records": 1007, "reasons": {f"reason {n}": n for n in range(1, 8)} | {"a name": 3}}
    config = publish(tmp_path, input={"records": 2340}, rejects=rejects, notices=("split 'empty' is empty",))

    lines = summary.job_summary(config, open_dataset(config.directory)).splitlines()

    assert lines[0] == config.directory
    assert lines[1].split() == ["split", "examples", "shards", "smallest", "largest", "bytes", "rejected"]
    assert lines[2].split() == ["train", "1,333", "2", "666", "667", "2.0", "MB", "7"]
    assert lines[3].split() == ["empty", "0", "0", "0", "0", "0", "B", "0"]
    assert lines[4].split() == ["(no", "split)", "1,000"]
    assert len(lines[4]) == len(lines[1])  # it stands in the last column
    assert lines[5] == "Classes of 'label': 1: a"
    assert lines[6] == f"1,007 of 2,340 records rejected; see {config.directory}/rejects/:"
    assert lines[7:12] == ["  7 x reason 7", "  6 x reason 6", "  5 x reason 5", "  4 x reason 4", "  3 x a name"]
    assert lines[12:15] == ["NOTE: split 'empty' is empty", "", "Read it:"]
    assert len(lines) == 21
    short = summary.job_summary(config, open_dataset(config.directory), shows_all_code=False).splitlines()
    line = f"Read it: dataset = shardmill.load('{config.directory}', split='train')"
    assert short == [*lines[:14], line]


def test_nothing_is_said_of_no_rejects_and_the_code_names_a_split_that_has_examples(tmp_path: Path) -> None:
    dataset = open_dataset((config := publish(tmp_path, splits=SPLITS[::-1])).directory)

    assert "records rejected" not in summary.job_summary(config, dataset)
    assert "split='train'" in summary.reading_code(dataset)[5]
    assert len(summary.splits_table(dataset).splitlines()) == 3
    rejects = replace(dataset, manifest=replace(dataset.manifest, rejects={"records": 8, "reasons": {"no": 8}}))
    assert summary.splits_table(rejects).splitlines()[-1].split() == ["(no", "split)", "1"]


def code(output: Path, **changes: Any) -> list[str]:
    return summary.reading_code(open_dataset(publish(output, **changes).directory))


@pytest.mark.slow
def test_the_code_that_reads_it(tmp_path: Path) -> None:
    labelled, plain = code(tmp_path / "a"), code(tmp_path / "b", features=())

    load, hint = labelled[1].split("  # ")
    assert load == f"  dataset = shardmill.load('{tmp_path}/a/flowers/1.0.0', split='train')"
    assert "float32 in [0, 1]: no Rescaling(1/255)" in hint
    assert "#" not in plain[1]
    assert labelled[4].endswith(f"builder_from_directory('{tmp_path}/a/flowers/1.0.0')")
    assert labelled[5].endswith("as_dataset(split='train', as_supervised=True)")
    assert plain[5].endswith("as_dataset(split='train')")
    for lines in (labelled, plain, code(tmp_path / "c", compression="gzip", splits=GZIPPED)):
        assert lines[2] == "or, without shardmill:"
        assert len(lines) == 6
        compile("\n".join(line.strip() for line in lines[:2] + lines[3:]), "report", "exec")


def test_what_tfds_cannot_read_is_not_read_with_tfds(tmp_path: Path) -> None:
    for number, name in enumerate(("gif", "webp")):
        lines = code(tmp_path / str(number), notices=tuple(animation_notices(Counter({name: 3, "jpeg": 1}))))
        assert lines[0] == "  import shardmill"
        assert not any("tensorflow_datasets" in line for line in lines)
