"""What a data set says of itself."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from shardmill.data.codecs import CODECS, PLAIN_CODEC
from shardmill.data.features import Feature
from shardmill.metadata.file_names import ShardName
from shardmill.metadata.manifest import Manifest, Reject, crc32c_hex
from shardmill.transforms.publishing import description
from shardmill.transforms.shards.balance import ShardCount
from shardmill.transforms.shards.divisions import Division, to_cuts
from shardmill.transforms.shards.sources import ShardInfo
from shardmill.transforms.statistics.files import ImageStats, merge_by_split
from tests.support.builds import rejects_of

FEATURES = (
    Feature("image", "bytes", "image"),
    Feature("label", "int64", "class_label", class_names=("ant", "bee", "cow")),
)
OPTIONS = description.PublishOptions(
    output="out/",
    name="pets",
    codec=PLAIN_CODEC,
    shard_counts={"": ShardCount(2)},
    source="photos/",
    configuration={"splits": {"train": 0.5, "test": 0.5}},
    versions={"shardmill": "0.1.0"},
    job="1",
)


def shard(split: str, index: int, count: int, labels: Mapping[int, int], rejected: int = 0) -> ShardInfo:
    examples = sum(labels.values())
    stats = ImageStats(formats=Counter({"png": examples}), labels=Counter(labels))
    stats.sizes.add([100] * examples)
    name = ShardName("pets", split, index, count)
    return ShardInfo(name, "/tmp/x", examples + rejected, examples, rejected, 100 * examples, 0xABC, stats)


def division(examples: int, parts: int) -> Division:
    return Division(examples, to_cuts([(index, 0) for index in range(1, parts)]))


def made_of(build: description.Build, shards: list[ShardInfo]) -> description.Build:
    """`build` with other shards."""
    stats = merge_by_split((shard.name.split, shard.stats) for shard in shards if shard.stats is not None)
    return replace(build, shards=shards, stats=stats)


SHARDS = [
    shard("test", 1, 2, {0: 1}),
    shard("train", 1, 2, {0: 1, 1: 2}),
    shard("train", 0, 2, {0: 1, 1: 1}, 1),
    shard("test", 0, 2, {1: 2}),
]
REJECTS = (Reject("b.jpg", 3, "write", "the file is empty"), Reject("a.jpg", None, "index", "no label"))
EMPTY = description.Build(
    10, 900, 255, ("train", "test"), {"train": division(6, 2), "test": division(3, 2)}, [], rejects_of(*REJECTS), {}
)
BUILD = made_of(EMPTY, SHARDS)


def manifest() -> Manifest:
    return description.make_manifest(BUILD, FEATURES, OPTIONS)


def test_manifest() -> None:
    made = manifest()

    assert [split.name for split in made.splits] == ["train", "test"]
    assert [shard.file for shard in made.split("train").shards] == [
        "pets-train.tfrecord-00000-of-00002",
        "pets-train.tfrecord-00001-of-00002",
    ]
    assert (made.split("train").examples, made.split("train").rejected, made.split("test").rejected) == (5, 1, 0)
    assert made.split("train").shards[0].crc32c == "00000abc"
    assert made.input == {"pattern": "photos/", "records": 10, "size_bytes": 900, "fingerprint": f"{255:032x}"}
    assert made.rejects == {"records": 2, "reasons": {"no label": 1, "the file is empty": 1}}
    assert made.compression == ""
    assert (made.configuration, made.versions) == (OPTIONS.configuration, {"shardmill": "0.1.0"})


def test_the_order_of_arrival_changes_no_text() -> None:
    turned = replace(made_of(BUILD, SHARDS[::-1]), rejects=rejects_of(*REJECTS[::-1]))

    assert description.make_metadata_files(
        description.make_manifest(turned, FEATURES, OPTIONS), turned
    ) == description.make_metadata_files(manifest(), BUILD)
    assert list(turned.rejects.chunks()) == list(BUILD.rejects.chunks())


def test_metadata_files() -> None:
    files = description.make_metadata_files(manifest(), BUILD)

    assert list(files)[-1] == "manifest.json"
    assert files["label.labels.txt"] == b"ant\nbee\ncow\n"
    info = json.loads(files["dataset_info.json"])
    assert [(split["name"], split["shardLengths"], split["numBytes"]) for split in info["splits"]] == [
        ("train", ["2", "3"], "500"),
        ("test", ["2", "1"], "300"),
    ]
    assert "supervisedKeys" in info
    assert set(json.loads(files["features.json"])["featuresDict"]["features"]) == {"image", "label"}
    assert [f.name for f in text_format.Parse(files["schema.pbtxt"], schema_pb2.Schema()).feature] == ["image", "label"]
    ((name, rejects),) = description.rejects_by_file(BUILD.rejects).items()
    assert name == "rejects/rejects-00000-of-00001.jsonl"
    lines = b"".join(rejects.chunks())
    assert [json.loads(line)["source"] for line in lines.splitlines()] == ["a.jpg", "b.jpg"]
    others = {name: crc32c_hex(data) for name, data in {**files, name: lines}.items() if name != "manifest.json"}
    assert Manifest.from_json(files["manifest.json"], "manifest.json") == replace(manifest(), files=others)
    assert len(others) == 7


def test_gzip_gets_no_file_that_would_lead_tfds_astray() -> None:
    made = description.make_manifest(BUILD, FEATURES, replace(OPTIONS, codec=CODECS["tfrecord", "gzip"]))

    assert made.compression == "gzip"
    assert "dataset_info.json" not in description.make_metadata_files(made, BUILD)
    assert "features.json" in description.make_metadata_files(made, BUILD)


def test_unlabelled_images_have_no_labels_file() -> None:
    files = description.make_metadata_files(description.make_manifest(BUILD, FEATURES[:1], OPTIONS), BUILD)

    assert "label.labels.txt" not in files
    assert "supervisedKeys" not in json.loads(files["dataset_info.json"])
    assert "label" not in json.loads(files["stats.json"])["splits"]["train"]["features"]


def test_stats() -> None:
    found: dict[str, Any] = json.loads(description.make_stats_file(manifest(), BUILD).to_json())["splits"]

    assert list(found) == ["train", "test"]
    assert found["train"]["features"]["label"]["classes"] == {"ant": 2, "bee": 3, "cow": 0}
    assert (found["train"]["examples"], found["train"]["size_bytes"], found["train"]["rejected"]) == (5, 500, 1)


def test_an_empty_split_has_a_manifest_entry_but_none_for_tfds() -> None:
    build = replace(made_of(BUILD, [s for s in SHARDS if s.name.split == "train"]), divisions={"train": division(6, 2)})
    made = description.make_manifest(build, FEATURES, OPTIONS)

    assert made.split("test").shards == ()
    assert [
        split["name"]
        for split in json.loads(description.make_metadata_files(made, build)["dataset_info.json"])["splits"]
    ] == ["train"]
    assert description.make_stats_file(made, build).splits["test"].features == {}
    assert "split 'test' is empty" in made.notices


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"": ShardCount(2)}, []),
        ({"": ShardCount(2), "test": ShardCount(8)}, ["split 'test' has 3 examples, so 2 shards instead of 8"]),
        ({"": ShardCount(size_bytes=1)}, []),
    ],
)
def test_fewer_shards_than_asked_for_is_said(counts: dict[str, ShardCount], said: list[str]) -> None:
    found = description.collect_notices(BUILD, FEATURES, replace(OPTIONS, shard_counts=counts))

    assert [notice for notice in found if "shards instead of" in notice] == said


def test_classes_in_one_split_or_none_are_said() -> None:
    assert description.collect_notices(BUILD, FEATURES, OPTIONS) == ["class 'cow' has no examples"]
    only = "2 classes, such as 'bee', have examples in one split only ('bee': train)"
    # A class of one example, or perhaps of one group, cannot be spread, and who gave the flag needs no advice
    for examples, given, advice in (
        (2, {}, "; --stratify_by label spreads each class that is large enough"),
        (2, {"folders": "label/any"}, "; --stratify_by label spreads each class that is large enough"),
        (2, {"splits": {"train": 0.8, "test": 0.2}}, ""),
        (3, {"splits": {"train": 0.8, "test": 0.2}}, "; --stratify_by label spreads each class that is large enough"),
        (2, {"splits": None}, ""),
        (1, {}, ""),
        (2, {"stratify_by": "label"}, ""),
        (2, {"group_by": "user"}, ""),
        (2, {"folders": "label/group"}, ""),
    ):
        lopsided = made_of(BUILD, [shard("train", 0, 2, {0: 3, 1: examples, 2: 1}), shard("test", 0, 2, {0: 2})])
        options = replace(OPTIONS, configuration={**OPTIONS.configuration, **given})
        assert description.collect_notices(lopsided, FEATURES, options) == [only + advice]
    single = made_of(BUILD, [shard("train", 0, 2, {0: 3, 1: 1, 2: 1})])
    assert description.collect_notices(single, FEATURES, OPTIONS) == []


def test_notices_of_objects_come_after_those_of_the_route() -> None:
    objects = tuple(replace(one, sequence="objects") if one.name == "label" else one for one in FEATURES)
    build = replace(BUILD, notices=("passed over 1 hidden file, such as '.x'",))

    assert description.collect_notices(build, objects, OPTIONS) == [*build.notices, "class 'cow' has no objects"]
