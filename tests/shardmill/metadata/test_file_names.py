"""Names on disk."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data.codecs import CODECS, Codec
from shardmill.metadata import file_names
from shardmill.metadata.file_names import ShardName


@pytest.mark.parametrize(
    ("name", "good"),
    [("flowers", True), ("Flowers_2", True), ("f", True)]
    + [
        (name, False)
        for name in ("", "2flowers", "_flowers", "flow-ers", "flow ers", "flöwers", "a/b", "a.b", "flowers\n")
    ],
)
def test_dataset_names(name: str, good: bool) -> None:
    assert file_names.is_dataset_name(name) is good


@pytest.mark.parametrize(
    ("split", "good"),
    [("train", True), ("2024", True), ("a_b", True)] + [(s, False) for s in ("", "a-b", "a b", "é", "a\n")],
)
def test_split_names(split: str, good: bool) -> None:
    assert file_names.is_split_name(split) is good


@pytest.mark.parametrize(
    ("version", "good"),
    [("1.0.0", True), ("10.20.30", True)]
    + [(v, False) for v in ("", "1", "1.0", "1.0.0.0", "v1.0.0", "1.0.0-rc1", "١.0.0", "1.0.0\n")],
)
def test_versions(version: str, good: bool) -> None:
    assert file_names.is_version(version) is good


@pytest.mark.parametrize(
    ("shard", "text"),
    [
        (ShardName("flowers", "train", 0, 8), "flowers-train.tfrecord-00000-of-00008"),
        (ShardName("flowers", "test", 99_998, 99_999), "flowers-test.tfrecord-99998-of-99999"),
        (ShardName("f_1", "a_b", 7, 8, codec=CODECS["gzip"]), "f_1-a_b.tfrecord-00007-of-00008.gz"),
    ],
)
def test_shard_names(shard: ShardName, text: str) -> None:
    assert str(shard) == text
    assert ShardName.parse(text) == shard


@given(
    st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,9}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9_]{1,9}", fullmatch=True),
    st.integers(0, 10**7),
    st.integers(1, 10**7),
    st.sampled_from(list(CODECS.values())),
)
@settings(max_examples=100, deadline=None)
def test_parse_reads_what_str_writes(name: str, split: str, shard: int, count: int, codec: Codec) -> None:
    shard_name = ShardName(name, split, shard, count, codec)

    assert ShardName.parse(str(shard_name)) == shard_name


@pytest.mark.parametrize(
    "text",
    [
        "flowers-train-hard.tfrecord-00000-of-00001",  # a neighbour whose name starts as ours does
        "flowers-train.tfrecord-00000-of-00001.bak",
        "flowers-train.tfrecord-0-of-1",
        "flowers-train.tfrecord",
        "flowers.tfrecord-00000-of-00001",
        "my.flowers-train.tfrecord-00000-of-00001",
        "a/flowers-train.tfrecord-00000-of-00001",
    ],
)
def test_what_is_no_shard(text: str) -> None:
    assert ShardName.parse(text) is None


@pytest.mark.parametrize(
    ("path", "ours"),
    [
        ("flowers-train.tfrecord-00000-of-00001", True),
        ("flowers-train.tfrecord-00000-of-00001.gz", True),
        ("manifest.json", True),
        ("manifest.json.tmp", True),
        ("stats.json", True),
        ("FeatureStats.pb", True),
        ("schema.pbtxt", True),
        ("features.json", True),
        ("dataset_info.json", True),
        ("label.labels.txt", True),
        ("_SUCCESS", True),
        ("LOCK", True),
        ("rejects/rejects-00000-of-00001.jsonl", True),
        ("beam-temp-flowers-abc/part", True),
        ("flowers-train-hard.tfrecord-00000-of-00001", False),
        ("weeds-train.tfrecord-00000-of-00001", False),
        ("notes.txt", False),
        ("other/manifest.json", False),
        ("thesis.tmp", False),
        ("rejects", False),
    ],
)
def test_which_files_are_ours(path: str, ours: bool) -> None:
    assert file_names.is_dataset_file(path, "flowers") is ours


def test_names_that_readers_know() -> None:
    assert file_names.shard_prefix("flowers", "train") == "flowers-train.tfrecord"
    assert file_names.labels_file("label") == "label.labels.txt"


@pytest.mark.parametrize(
    ("name", "is_name"),
    [
        *((name, True) for name in ("label", "a b", "...", ".hidden", "größe", "日本", "x" * 251, "..labels.txt")),
        *(
            (name, False)
            for name in (
                "",
                ".",
                "..",
                "a/b",
                "/a",
                "a/",
                "..\\x",
                "a\0",
                "a\n",
                "\x1b[2J",
                "\x9b1m",
                "\u2028",
                "\udcff",
            )
        ),
        *((name, False) for name in ("x" * 252, "ä" * 126)),
    ],
)
def test_names_of_files(tmp_path: Path, name: str, is_name: bool) -> None:
    assert file_names.is_file_name(name) is is_name
    if "/" not in name:
        assert file_names.is_inside(f"rejects/{name}") is is_name
    if is_name:
        (tmp_path / f"{name}{file_names.TEMP_SUFFIX}").write_text("such a file can be written")
