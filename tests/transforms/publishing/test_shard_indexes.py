"""The index of a version as it is published: what attempts that follow each other make of the same pieces."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from shardmill.data.shard_index import IndexBuilder
from shardmill.errors import JobError
from shardmill.transforms.publishing.description import Build
from shardmill.transforms.publishing.publish import publish
from shardmill.transforms.publishing.shard_indexes import index_folder
from shardmill.transforms.shards.sources import IndexPiece
from shardmill.transforms.stores import storage
from tests.support.builds import FEATURES, build, contents, options
from tests.support.faults import rename_nine
from tests.support.framed_records import framed
from tests.support.reading import read_index


def indexed_build(directory: Path, attempt: str = "1") -> Build:
    """A build whose shards hold ten records each, with their index."""
    found = build(directory, attempt)
    shards = []
    for number, shard in enumerate(found.shards):
        data = b"".join(framed(bytes(n % 7 + number)) for n in range(10))
        Path(shard.temporary).write_bytes(data)
        builder = IndexBuilder()
        builder.add(data)
        piece = IndexPiece.write(f"{shard.temporary}.idx", builder.build())
        crc32c = google_crc32c.value(data)
        shards.append(replace(shard, size_bytes=len(data), crc32c=crc32c, index=piece))
    return replace(found, shards=shards)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "flowers" / "1.0.0"
    path.mkdir(parents=True)
    return path


def test_an_attempt_completes_what_the_one_before_has_begun(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = indexed_build(directory)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "rename", rename_nine)
        with pytest.raises(JobError, match="stopped"):
            publish(made, FEATURES, options(tmp_path))
    assert any(name.startswith("index/") for name in contents(directory))
    publish(made, FEATURES, options(tmp_path))  # as a runner repeats a step
    found = read_index(directory)
    assert found is not None
    assert {split: len(index) for split, index in found.items()} == {"train": 40, "test": 20}
    assert found["train"].shard(1).shard_size == made.shards[1].size_bytes


@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_a_piece_that_changed_since_it_was_written_publishes_nothing(
    tmp_path: Path, directory: Path, damage: str
) -> None:
    made = indexed_build(directory)
    assert made.shards[1].index is not None
    path = Path(made.shards[1].index.path)
    text = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(text[:-5] if damage == "cut" else text.replace(b"0 17", b"0 18"))
    with pytest.raises(JobError, match=r"the index of flowers-train\S+ is not what was written"):
        publish(made, FEATURES, options(tmp_path))
    assert not (directory / "_SUCCESS").exists()
    assert not (directory / "manifest.json").exists()


@pytest.mark.parametrize("moment", range(13))
def test_an_index_of_files_that_is_interrupted(tmp_path: Path, moment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old index is there until the new one is written; then it has no list until the last file has its place."""
    splits = {"train": ["a", "b", "c"], "test": ["d", "e"]}
    for number, name in enumerate("abcde"):
        (tmp_path / name).write_bytes(framed(bytes(number)) * 3)
    assert index_folder(str(tmp_path), {**splits, "old": ["a"]}) == 18
    assert (tmp_path / "index/old.npy").exists()
    before, done = contents(tmp_path), [0]

    def interrupt(name: str) -> None:
        function = getattr(storage, name)

        def stop(*arguments: Any, **options: Any) -> Any:
            if done[0] == moment:
                raise OSError("stopped")
            done[0] += 1
            return function(*arguments, **options)

        monkeypatch.setattr(storage, name, stop)

    with monkeypatch.context() as patch:
        for name in ("write_bytes", "rename", "delete", "sync_directories"):
            interrupt(name)
        patch.setattr("shardmill.transforms.publishing.shard_indexes.core_count", lambda: 1)
        with pytest.raises(OSError, match="stopped"):
            index_folder(str(tmp_path), splits)
    monkeypatch.undo()
    if moment <= 7:  # five texts, two arrays, and the list of the old index, which is not deleted yet
        assert contents(tmp_path) == before
    else:
        assert read_index(tmp_path) is None
    assert index_folder(str(tmp_path), splits) == 15
    index = read_index(tmp_path)
    assert index is not None
    assert {split: len(found) for split, found in index.items()} == {"train": 9, "test": 6}
    assert not list(tmp_path.glob("beam-temp*"))


def test_splits_that_are_no_longer_listed_leave_no_array(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(framed(b"x") * 3)
    index_folder(str(tmp_path), {"train": ["a"], "test": ["b"]})
    index_folder(str(tmp_path), {"all": ["a", "b"]})
    assert {path.name for path in (tmp_path / "index").iterdir()} == {"a.idx", "b.idx", "all.npy", "index.json"}
