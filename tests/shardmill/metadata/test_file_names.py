"""Names on disk."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.data.codecs import CODECS, Codec
from shardmill.metadata import file_names
from shardmill.metadata.file_names import ShardName

GOOD: dict[Callable[[str], bool], tuple[str, ...]] = {
    file_names.is_dataset_name: ("flowers", "Flowers_2", "f"),
    file_names.is_split_name: ("train", "2024", "a_b"),
    file_names.is_version: ("1.0.0", "10.20.30"),
}
BAD: dict[Callable[[str], bool], tuple[str, ...]] = {
    file_names.is_dataset_name: ("", "2flowers", "_flowers", "flow-ers", "a b", "flöwers", "a/b", "a.b", "flowers\n"),
    file_names.is_split_name: ("", "a-b", "a b", "é", "a\n"),
    file_names.is_version: ("", "1", "1.0", "1.0.0.0", "v1.0.0", "1.0.0-rc1", "١.0.0", "1.0.0\n"),
}


@pytest.mark.parametrize("check", GOOD)
def test_names(check: Callable[[str], bool]) -> None:
    assert [name for name in (*GOOD[check], *BAD[check]) if check(name)] == [*GOOD[check]]


@pytest.mark.parametrize(
    ("shard", "text"),
    [
        (ShardName("flowers", "train", 0, 8), "flowers-train.tfrecord-00000-of-00008"),
        (ShardName("flowers", "test", 99_998, 99_999), "flowers-test.tfrecord-99998-of-99999"),
        (ShardName("f_1", "a_b", 7, 8, codec=CODECS["tfrecord", "gzip"]), "f_1-a_b.tfrecord-00007-of-00008.gz"),
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


OURS = [
    *("flowers-train.tfrecord-00000-of-00001", "flowers-train.tfrecord-00000-of-00001.gz", "manifest.json"),
    *("manifest.json.tmp", "stats.json", "FeatureStats.pb", "schema.pbtxt", "features.json", "dataset_info.json"),
    *("label.labels.txt", "_SUCCESS", "LOCK", "rejects/rejects-00000-of-00001.jsonl", "beam-temp-flowers-abc/part"),
]
OTHERS = [
    *("flowers-train-hard.tfrecord-00000-of-00001", "weeds-train.tfrecord-00000-of-00001", "notes.txt"),
    *("other/manifest.json", "thesis.tmp", "rejects"),
]


def test_which_files_are_ours() -> None:
    assert [path for path in (*OURS, *OTHERS) if file_names.is_dataset_file(path, "flowers")] == OURS


FILE_NAMES = ["label", "a b", "...", ".hidden", "größe", "日本", "x" * 251, "..labels.txt"]
NO_FILE_NAMES = ["", ".", "..", "a/b", "/a", "a/", "..\\x", "a\0", "a\n", "\x1b[2J", "\x9b1m", "\u2028", "\udcff"]


@pytest.mark.parametrize("name", [*FILE_NAMES, *NO_FILE_NAMES, "x" * 252, "ä" * 126])
def test_names_of_files(tmp_path: Path, name: str) -> None:
    is_name = name in FILE_NAMES
    assert file_names.is_file_name(name) is is_name
    if "/" not in name:
        assert file_names.is_inside(f"rejects/{name}") is is_name
    if is_name:
        (tmp_path / f"{name}{file_names.TEMP_SUFFIX}").write_text("such a file can be written")
