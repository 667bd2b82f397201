"""Order, rejects, labels, names and further columns of all kinds of files, with the smallest possible kind."""

import errno
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from shardmill.data.features import Feature
from shardmill.data.tfrecord import OVERHEAD
from shardmill.errors import JobError
from shardmill.metadata.labels import ClassNames
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import convert_batch
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.files import encoding
from shardmill.transforms.files.arrays import ArrayEncoder, ArrayType
from shardmill.transforms.files.audio import AudioEncoder
from shardmill.transforms.files.encoding import Encoded, TextFileEncoder, TextStats, file_features
from shardmill.transforms.files.image_encoder import ImageEncoder
from shardmill.transforms.files.references import PLANNED
from shardmill.transforms.inputs.folders import CLASSES
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.stores import storage
from tests.support.command import write_files
from tests.support.faults import fail


class Refused(Exception):
    """A file that begins with '#'."""


@dataclass(frozen=True)
class Shouting(TextFileEncoder):
    feature = "shout"
    refusal = Refused  # type: ignore[assignment]

    def encode_file(self, path: str, data: bytes | None = None) -> Encoded:
        data = storage.read_bytes(path) if data is None else data
        if data.startswith(b"#"):
            raise Refused("a comment")
        return Encoded(data.upper())


def planned(names: list[str], line: int | None = None, size: int = 7) -> Any:
    rows = [
        (name, size, None, index, line, None, "train", index, 0, None, None, None) for index, name in enumerate(names)
    ]
    return convert_batch([list(column) for column in zip(*rows, strict=True)], PLANNED)


EVERY = {
    "images": ImageEncoder("nowhere"),
    "arrays": ArrayEncoder("nowhere", expected=ArrayType("uint8", (2,))),
    "audio": AudioEncoder("nowhere"),
    "texts": TextFileEncoder("nowhere"),
}


@pytest.mark.parametrize("kind", EVERY)
def test_a_file_larger_than_an_example_is_refused_unread(kind: str) -> None:
    encoder = EVERY[kind]
    size = encoder.max_bytes + 1
    (reject,) = encoder(planned(["a"], size=size)).rejects

    assert reject.reason == f"{size:,} bytes as an example, which holds {encoder.max_bytes:,} at most"
    assert size <= 1 << 31


def test_what_grows_beyond_an_example_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path, {"a": b"one"})
    whole = Shouting(str(tmp_path))(planned(["a"]))
    monkeypatch.setattr(encoding, "MAX_RECORD_BYTES", len(whole.framed) - OVERHEAD)
    assert bytes(Shouting(str(tmp_path))(planned(["a"])).framed) == bytes(whole.framed)
    monkeypatch.setattr(encoding, "MAX_RECORD_BYTES", len(whole.framed) - OVERHEAD - 1)
    chunk = Shouting(str(tmp_path))(planned(["a"]))

    assert (bytes(chunk.framed), chunk.examples) == (b"", 0)
    assert "bytes once encoded; an example holds" in chunk.rejects[0].reason


def test_good_files_are_encoded_and_others_rejected_with_their_lines(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": b"one", "b": b"#two", "d": b"four"})
    (tmp_path / "folder").mkdir()

    chunk = Shouting(str(tmp_path))(planned(["a", "b", "d", "folder"], 3))

    assert chunk.examples == 2
    framed = bytes(chunk.framed)
    assert framed.index(b"ONE") < framed.index(b"FOUR")
    assert chunk.rejects == [
        Reject("b", 3, "write", "a comment"),
        Reject("folder", 3, "write", "cannot be read: Is a directory"),
    ]
    assert isinstance(chunk.stats, TextStats)
    assert chunk.stats.labels == {0: 1, 2: 1}
    assert chunk.stats.lengths.total == len(b"one") + len(b"four")


@pytest.mark.parametrize("kind", EVERY)
def test_a_fault_of_the_disk_and_a_deleted_file_are_no_rejects(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job fails: the next night would lose as many examples without a word."""
    encoder: Any = EVERY[kind]
    encoder = replace(encoder, root=str(tmp_path))
    with pytest.raises(JobError, match="a was changed while the job read it"):
        encoder(planned(["a"]))
    monkeypatch.setattr(storage, "read_bytes", lambda path: fail())
    with pytest.raises(OSError, match="Input/output error"):
        encoder(planned(["a"]))


def test_small_files_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path, {"a": b"a", "b": b"b", "folder/c": b""})
    alone = []

    def read_alone(path: str) -> bytes:
        alone.append(path)
        return Path(path).read_bytes()

    monkeypatch.setattr(storage, "read_bytes", read_alone)

    chunk = Shouting(str(tmp_path))(planned(["a", "folder", "b"]))

    assert (chunk.examples, alone) == (2, [str(tmp_path / "folder")])


class Failing(Shouting):
    def encode_file(self, path: str, data: bytes | None = None) -> Encoded:
        raise OSError("503") if path.startswith("gs://") else PermissionError(errno.EACCES, "")


def test_a_store_that_fails_is_no_reject(tmp_path: Path) -> None:
    (reject,) = Failing(str(tmp_path))(planned(["a"])).rejects
    assert reject.reason == "cannot be read: Permission denied"
    with pytest.raises(OSError, match="503"):
        Failing("gs://bucket")(planned(["a"]))


def test_features_are_in_the_order_of_their_encoder() -> None:
    columns = {"user": ColumnType("int64", None, 2)}
    layout = Layout(("train",), None, CLASSES, ClassNames(("cat",)), columns)
    annotations = (Feature("objects/area", "float32", shape=(None,)),)

    found = file_features(layout, 2, Feature("image", "bytes", "image"), ("height", "width"), annotations)
    names = ["image", "label", "filename", "height", "width", "objects/area", "user"]
    assert [feature.name for feature in found] == names
    assert [feature.name for feature in found if feature.role == "source"] == names[2:5]
