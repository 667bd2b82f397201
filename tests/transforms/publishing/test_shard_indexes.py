"""The index of a version as it is published: what attempts that follow each other make of the same pieces."""

import os
from dataclasses import replace
from pathlib import Path

import google_crc32c
import pytest

from shardmill.data.shard_index import IndexBuilder, open_indexes
from shardmill.errors import JobError
from shardmill.transforms.publishing.description import Build
from shardmill.transforms.publishing.publish import publish
from shardmill.transforms.shards.sources import IndexPiece
from shardmill.transforms.stores import storage
from tests.support.builds import FEATURES, build, contents, options
from tests.support.framed_records import framed


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
    found = open_indexes(str(directory))
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
