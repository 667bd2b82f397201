"""What the next build finds of a version's files: by its manifest alone, whole or not at all."""

from dataclasses import replace
from pathlib import Path

import pytest

from shardmill.errors import CorruptDataError
from shardmill.metadata.file_names import ShardName
from shardmill.transforms.publishing.build_records import delete_unindexed, store_index
from shardmill.transforms.shards.sources import FileIndex, IndexedPiece, ShardInfo, ShardPiece, index_name, read_index

PIECE = IndexedPiece("train-0.parquet", 7, "n-train.tfrecord-00000-of-00001", 0, (1 << 64) - 1)
INDEX = FileIndex("/in", (1 << 64) - 1, {"pillow": "1"}, "", "1.0.0", "", 100_000, 98_990, 0, (PIECE,))
OPTIONS = FileIndex("/in", 3, {"pillow": "1"}, "", former="0.9.0")
MANIFEST = b'{"a": 1}'


def test_an_index_is_read_as_it_was_written() -> None:
    assert FileIndex.from_json(INDEX.to_json(), "index") == INDEX


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no index of files"),
        ("{}", "format is missing"),
        (INDEX.to_json().replace('"format": 1', '"format": 2'), "newer format"),
        (INDEX.to_json().replace("train-0.parquet", "../../elsewhere"), "is no name of a piece"),
        (INDEX.to_json().replace("n-train.tfrecord", "/etc/passwd"), "is no name of a piece"),
        (INDEX.to_json().replace('"files": 100000', '"files": "many"'), 'files is "many"'),
    ],
)
def test_an_index_that_is_none_is_refused(text: str, words: str) -> None:
    with pytest.raises(CorruptDataError, match=words):
        FileIndex.from_json(text, "index.json")


def test_what_is_said() -> None:
    assert INDEX.describe_reuse() == "98,990 of 100,000 files taken from 1.0.0, the others read"
    assert replace(INDEX, damaged=1).describe_reuse() == INDEX.describe_reuse()
    assert replace(INDEX, reused=INDEX.files).describe_reuse() == "100,000 of 100,000 files taken from 1.0.0, none read"
    assert INDEX.notices == ()
    assert "2 records are damaged in the shards of 1.0.0: what" in "".join(replace(INDEX, damaged=2).notices)
    assert (
        replace(INDEX, former="", why="no such thing").describe_reuse() == "all 100,000 files were read: no such thing"
    )


def shards(folder: Path, names: list[str]) -> list[ShardInfo]:
    folder.mkdir()
    found = []
    for number, name in enumerate(names):
        (folder / name).write_bytes(b"piece")
        piece = ShardPiece(str(folder / name), 7, 1, 2, reused=4, damaged=number)
        found.append(ShardInfo(ShardName("n", "train", number, len(names)), "", 6, 5, 1, 0, 0, piece=piece))
    return [*found, ShardInfo(ShardName("n", "test", 0, 1), "", 2, 2, 0, 0, 0, piece=ShardPiece())]


def test_pieces_are_put_beside_the_version_once_and_again_and_found_by_its_manifest(tmp_path: Path) -> None:
    parent = tmp_path / "n"
    made = shards(tmp_path / "job", ["a.parquet", "b.parquet"])
    for _ in range(2):  # an attempt that is repeated
        store_index(str(parent), "1.0.0", MANIFEST, made, OPTIONS)
    (parent / "1.0.0").mkdir()
    (parent / "1.0.0/manifest.json").write_bytes(MANIFEST)

    index = read_index(str(parent), "1.0.0")

    assert index is not None
    assert (index.files, index.reused, index.damaged, index.former) == (14, 8, 1, "0.9.0")
    assert [piece.file for piece in index.pieces] == ["a.parquet", "b.parquet"]
    assert not list((tmp_path / "job").iterdir())
    (parent / "1.0.0/manifest.json").write_bytes(MANIFEST + b"\n")
    assert read_index(str(parent), "1.0.0") is None, "what other bytes remember is not theirs"


def test_what_a_version_replaced_remembers_stays_until_it_is_published(tmp_path: Path) -> None:
    parent, folder = str(tmp_path / "n"), tmp_path / "n/builds/1.0.0.files"
    store_index(parent, "1.0.0", b"old", shards(tmp_path / "one", ["a.parquet"]), OPTIONS)
    store_index(parent, "1.0.0", b"new", shards(tmp_path / "two", ["b.parquet"]), OPTIONS)
    names = {path.name for path in folder.iterdir()}
    assert names == {"a.parquet", "b.parquet", index_name(b"old"), index_name(b"new")}

    delete_unindexed(parent, "1.0.0", b"new")

    assert {path.name for path in folder.iterdir()} == {"b.parquet", index_name(b"new")}


def test_nothing_is_kept_where_nothing_is_remembered(tmp_path: Path) -> None:
    store_index(str(tmp_path), "1.0.0", MANIFEST, shards(tmp_path / "job", ["a.parquet"]), None)

    assert [path.name for path in tmp_path.iterdir()] == ["job"]
