"""Files of records that are replaced or written while a job reads them: nothing is published."""

import io
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardmill.data.example import encode_example
from shardmill.data.tfrecord import frame_record
from shardmill.transforms.inputs import record_blocks
from shardmill.transforms.records import staging
from tests.support.command import Run

ROWS = 40


def write_avro(path: Path) -> None:
    fields = [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, rows())


def write_tar(path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        for number in range(ROWS):
            for suffix in ("txt", "cls"):
                info = tarfile.TarInfo(f"{number:03}.{suffix}")
                info.size = 1
                tar.addfile(info, io.BytesIO(b"1"))


def write_tfrecords(path: Path) -> None:
    path.write_bytes(b"".join(frame_record(encode_example({"a": [number]})) for number in range(ROWS)))


def rows() -> list[dict[str, object]]:
    return [{"a": number, "b": f"text {number:02}"} for number in range(ROWS)]


WRITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "csv": ("csv", lambda path: path.write_text("a,b\n" + "".join(f"{row['a']},{row['b']}\n" for row in rows()))),
    "jsonl": ("jsonl", lambda path: path.write_text("".join(f'{{"a": {row["a"]}, "b": "x"}}\n' for row in rows()))),
    "text": ("txt", lambda path: path.write_text("".join(f"{row['b']}\n" for row in rows()))),
    "parquet": ("parquet", lambda path: pq.write_table(pa.Table.from_pylist(rows()), path)),
    "avro": ("avro", write_avro),
    "webdataset": ("tar", write_tar),
    "reshard": ("tfrecord", write_tfrecords),
}


def replace_by_a_copy(path: Path) -> None:
    """Another file of equal content, size and time."""
    shutil.copy2(path, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def touch(path: Path) -> None:
    """The same content, written once more."""
    path.write_bytes(path.read_bytes())


@pytest.mark.parametrize("change", [replace_by_a_copy, touch])
@pytest.mark.parametrize("moment", ["indexed", "read"])
@pytest.mark.parametrize("command", list(WRITERS))
def test_a_changed_file_fails_the_job(
    command: str,
    moment: str,
    change: Callable[[Path], None],
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    suffix, write = WRITERS[command]
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("one", "two"):
        write(folder / f"{name}.{suffix}")
    left = [folder / f"two.{suffix}"]
    module, function = (record_blocks, "check_unchanged") if moment == "indexed" else (staging, "read_stacked")
    original = getattr(module, function)

    def changing(*arguments: object, **options: object) -> object:
        found = original(*arguments, **options)
        if left:
            change(left.pop())
        return found

    monkeypatch.setattr(module, function, changing)
    result = run(command, "--input", folder, "--output", tmp_path / "out", "--name", "d")

    assert not left
    assert result.status == 1
    assert f"two.{suffix} was changed while the job read it; leave the input as it is while a job runs" in result.err
    assert not (tmp_path / "out" / "d" / "1.0.0").exists()
    monkeypatch.undo()
    assert run(command, "--input", folder, "--output", tmp_path / "out", "--name", "d").status == 0
