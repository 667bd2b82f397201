"""The index of a version as it is published: what attempts that follow each other make of the same pieces."""

import os
from dataclasses import replace
from pathlib import Path

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

    def rename_some(sources: list[str], destinations: list[str], **_: object) -> None:
        for source, destination in zip(sources[:9], destinations, strict=False):
            os.makedirs(os.path.dirname(destination), exist_ok=True)
            os.replace(source, destination)
        raise OSError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "rename", rename_some)
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


@pytest.mark.parametrize("calls", range(8))
def test_an_index_of_files_that_is_interrupted_is_none(
    tmp_path: Path, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are replaced one after another: an index is there before the first, or after the last."""
    splits = {"train": ["a", "b", "c"], "test": ["d", "e"]}
    for number, name in enumerate("abcde"):
        (tmp_path / name).write_bytes(framed(bytes(number)) * 3)
    assert index_folder(str(tmp_path), splits) == 15
    before = contents(tmp_path)
    done, write = [0], storage.write_bytes

    def stop(path: str, data: bytes, temporary: str | None = None, sync: bool = True) -> None:
        if done[0] == calls:
            raise OSError("stopped")
        done[0] += 1
        write(path, data, temporary, sync)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "write_bytes", stop)
        patch.setattr("shardmill.transforms.publishing.shard_indexes.core_count", lambda: 1)
        with pytest.raises(OSError, match="stopped"):
            index_folder(str(tmp_path), splits)
    assert read_index(tmp_path) is None
    assert index_folder(str(tmp_path), splits) == 15
    assert contents(tmp_path) == before
