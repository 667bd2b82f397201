"""The messages that pages list under "If it stops" are those of real runs."""

import re
import shlex
from contextlib import chdir
from pathlib import Path

import pytest

from tests.support import framed_records
from tests.support.command import REPOSITORY, Run, write_files
from tests.support.pages import PAGES

INTEGER = b"\n\x0c\n\n\n\x01a\x12\x05\x1a\x03\n\x01\x01"  # an Example with the feature a: 1
FLOAT = b"\n\x0f\n\r\n\x01a\x12\x08\x12\x06\n\x04" + bytes(4)  # a: 0.0
STOPPED = {
    "semicolons.csv": b"n;city\n1;Rome\n2;Oslo\n",
    "different/1.csv": b"a,b\n1,2\n",
    "different/2.csv": b"a,c\n1,2\n",
    "cp1252.csv": b"n,city\n1,K\xf6ln\n2,Oslo\n",
    "cp1252.txt": b"K\xf6ln\nOslo\n",
    "dates.csv": b"id,joined\n1,31.01.2024\n2,2024-01-31\n",
    "array.json": b'[{"a": 1}, {"a": 2}]',
    "broken.jsonl": b'{"a": 1}\n{"a": 2\n',
    "documents.txt": b"good\n<|endoftext|>\nbad\n",
    "recordings/a.mp3": b"",
    "datasets/n/0.0.1/_SUCCESS": b"",
    "mixed.tfrecord": b"".join(map(framed_records.framed, (INTEGER, INTEGER, FLOAT))),
}
COMMANDS = {
    "tables": (
        *("csv --input semicolons.csv", "csv --input rows.csv --label town", "csv --input different"),
        *("csv --input cp1252.csv", "csv --input rows.jsonl", "jsonl --input chats.jsonl"),
        *("jsonl --input broken.jsonl", "jsonl --input array.json"),
    ),
    "missing-values": ("csv --input dates.csv --timestamp joined=s",),
    "nested-values": ("jsonl --input chats.jsonl", "jsonl --input array.json"),
    "sequences": ("csv --input visits.csv --sequence_by user",),
    "text": (
        "text --input documents.txt",
        "text --input de=corpus/train.de --input en=corpus/more.en",
        "text --input cp1252.txt",
    ),
    "language-models": (
        "text --input documents.txt",
        "text --input reviews.txt --tokenizer tokenizer.json --pack_to 400",
    ),
    "arrays": ("arrays --input points", "arrays --input stacked", "images --input scans"),
    "audio": ("audio --input commands", "audio --input recordings"),
    "webdataset": ("webdataset --input frames", "webdataset --input rows.csv"),
    "hugging-face": ("jsonl --input chats.jsonl", "parquet --input things"),
    "tfrecords": ("reshard --input ranking", "reshard --input rows.csv", "reshard --input mixed.tfrecord"),
    "splits": (
        "csv --input visits.csv --group_by user",
        "csv --input visits.csv --group_by town --splits train=1",
        "csv --input visits.csv --splits train=0.8,test=0.3",
    ),
    "inputs": (
        *("csv --input rows.csv --version 0.0.1", "csv --input photos", "csv --input nothing.csv"),
        *("csv --input rows.jsonl", "images --input scans"),
    ),
}
_ROW = re.compile(r"^\| `(.+?)` \|", re.MULTILINE)


def listed(page: str) -> list[str]:
    """Return the messages that a page lists."""
    section = (REPOSITORY / "docs" / f"{page}.md").read_text().partition("\n## If it stops\n")[2]
    return [message.replace(r"\|", "|") for message in _ROW.findall(section.partition("\n## ")[0])]


@pytest.mark.parametrize("page", COMMANDS)
def test_messages_are_real(page: str, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_files(folder, STOPPED))
    runs = [run(*shlex.split(command), "--output", "datasets", "--name", "n") for command in COMMANDS[page]]

    messages = listed(page)
    assert messages
    assert [message for message in messages if not any(message in done.err for done in runs)] == []
    assert [done.err for done in runs if done.status == 0 or not any(message in done.err for message in messages)] == []


# Flags that stop, the message, and flags that work, of each row of such tables
REMEDIES = [
    (page.stem, command, *re.findall(r"`([^`]+)`", row))
    for page in PAGES
    for command, rows in re.findall(
        r"^\| `(\S+ \S+)` with \|.*\n\|[-|]+\n((?:\|.*\n)+)", page.read_text(), re.MULTILINE
    )
    for row in rows.splitlines()
]


@pytest.mark.parametrize(("page", "command", "flags", "message", "remedy"), REMEDIES)
def test_what_stops_and_what_works(
    page: str, command: str, flags: str, message: str, remedy: str, data: Path, tmp_path: Path, run: Run
) -> None:
    target = ["--output", tmp_path, "--name", "stops"]
    with chdir(data):
        stopped = run(*shlex.split(command)[1:], *shlex.split(flags), *target)
        works = run(*shlex.split(command)[1:], *shlex.split(remedy), *target)

    assert stopped.status in (1, 2)
    assert message in stopped.err
    assert works.status == 0, works.err
