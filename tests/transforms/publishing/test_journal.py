"""The journal of a publication: what is not one, or names what lies elsewhere, is refused before anything is
touched."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardmill.errors import CorruptDataError
from shardmill.metadata import file_names
from shardmill.transforms.publishing.publication import Journal, Move, read_journal

TEMPORARY = file_names.temporary_folder("n", "j")
MANIFEST = Move(f"{TEMPORARY}/metadata/manifest.json", "manifest.json", 2, "00000000")
SHARD = Move(f"{TEMPORARY}/part", "n-train.tfrecord-00000-of-00001", 3, "01234567")
JOURNAL = Journal("j", "n", "1.0.0", TEMPORARY, "0.9.0", (SHARD, MANIFEST))


def changed(**changes: Any) -> str:
    return json.dumps({**json.loads(JOURNAL.to_json()), **changes})


def moved(**changes: Any) -> str:
    """The journal with another first move."""
    moves = json.loads(JOURNAL.to_json())["moves"]
    return changed(moves=[{**moves[0], **changes}, moves[1]])


def test_what_is_written_is_read() -> None:
    assert Journal.from_json(JOURNAL.to_json().encode(), "p") == JOURNAL
    assert Journal.from_json(changed(latest="").encode(), "p").latest == ""


def test_shards_are_called_by_the_templates_that_it_names() -> None:
    template = "{SPLIT}-{SHARD_X_OF_Y}.{FILEFORMAT}"
    called = replace(JOURNAL, moves=(replace(SHARD, file="train-00000-of-00001.tfrecord"), MANIFEST))
    told = replace(called, templates=(template,))

    assert "templates" not in JOURNAL.to_json()
    assert Journal.from_json(told.to_json().encode(), "p") == told
    with pytest.raises(CorruptDataError):
        Journal.from_json(called.to_json().encode(), "p")
    with pytest.raises(CorruptDataError, match="names a folder"):
        Journal.from_json(replace(told, templates=("../{SPLIT}-{SHARD_INDEX}",)).to_json().encode(), "p")


@pytest.mark.parametrize(
    "text",
    [
        moved(temporary="/etc/passwd"),
        moved(temporary=f"{TEMPORARY}/../../x"),
        moved(temporary=f"{TEMPORARY}/./x"),
        moved(temporary=f"{TEMPORARY}//x"),
        moved(temporary=f"{TEMPORARY}x/part"),
        moved(temporary="part"),
        moved(file="../n-train.tfrecord-00000-of-00001"),
        moved(file="/n-train.tfrecord-00000-of-00001"),
        moved(file="x/../n-train.tfrecord-00000-of-00001"),
        moved(file="rejects/../../x"),
        moved(file="notes.txt"),
        moved(file=file_names.SUCCESS),
        moved(file=file_names.PUBLISHING),
        moved(file=file_names.LOCK),
        changed(set_latest=1),
        moved(file=f"{TEMPORARY}/n-train.tfrecord-00000-of-00001"),
        moved(file=5),
        moved(temporary=None),
        moved(size_bytes="3"),
        moved(size_bytes=-1),
        moved(size_bytes=True),
        moved(crc32c=7),
        moved(crc32c="abc"),
        moved(more=1),
        moved(file="manifest.json"),
        changed(temporary=".."),
        changed(temporary="/tmp"),
        changed(temporary=file_names.temporary_folder("n", "other")),
        changed(job="../j", temporary=file_names.temporary_folder("n", "../j")),
        changed(name="../n"),
        changed(name="n-", temporary=file_names.temporary_folder("n-", "j")),
        moved(file="x\x1b.labels.txt"),
        moved(file="stats.json.tmp"),
        moved(temporary=MANIFEST.temporary),
        changed(version="../1.0.0"),
        changed(version="1.0.0/.."),
        changed(latest=7),
        changed(moves=[]),
        changed(moves=json.loads(JOURNAL.to_json())["moves"][:1]),
        changed(format=2),
        changed(more=1),
        "",
        "[]",
        "{}",
        "null",
        "[" * 100_000,
        '{"format": 1, "moves": 7}',
    ],
)
def test_what_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / file_names.PUBLISHING).write_text(text)
    with pytest.raises(CorruptDataError, match=file_names.PUBLISHING):
        read_journal(str(tmp_path))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    assert read_journal(str(tmp_path)) is None
    (tmp_path / file_names.PUBLISHING).write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(CorruptDataError, match=file_names.PUBLISHING):
        read_journal(str(tmp_path))
