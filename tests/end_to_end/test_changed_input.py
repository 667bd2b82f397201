"""Files that are replaced or written while a job reads them: nothing is published."""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardmill.data.example import encode_example
from shardmill.data.tfrecord import frame_record
from shardmill.errors import JobError
from shardmill.transforms.files.encoding import FileEncoder
from shardmill.transforms.inputs import coco, record_blocks, sources
from shardmill.transforms.records import staging
from shardmill.transforms.stores import local
from tests.support.archives import tar, zipped
from tests.support.avro_files import avro, record
from tests.support.command import image, image_tree, write_files
from tests.support.detection import scenes, write_coco
from tests.support.jobs import Jobs
from tests.support.masks import write_pairs
from tests.support.sounds import wav

ROWS = 40


def write_avro(path: Path) -> None:
    path.write_bytes(avro(record(a="long", b="string"), rows()))


def write_tar(path: Path) -> None:
    path.write_bytes(tar((f"{number:03}.{suffix}", b"1") for number in range(ROWS) for suffix in ("txt", "cls")))


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


CHANGED = "was changed while the job read it"


def check_changed(jobs: Jobs, patch: pytest.MonkeyPatch, line: str, name: str) -> None:
    """That a job ends in a sentence that names the file, and succeeds once nothing changes it."""
    jobs.fail(line, f"{name}…{CHANGED}; leave the input as it is while a job runs")
    assert not Path("out/n/1.0.0").exists()
    patch.undo()
    os.chdir(jobs.folder)
    jobs.build(line)


@pytest.mark.parametrize(
    ("command", "moment", "change"),
    [
        *((command, "indexed", touch) for command in WRITERS),
        *((command, "read", replace_by_a_copy) for command in WRITERS),
        *(("csv", "indexed", replace_by_a_copy), ("csv", "read", touch)),
    ],
)
def test_a_changed_file_fails_the_job(
    command: str, moment: str, change: Callable[[Path], None], jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    suffix, write = WRITERS[command]
    Path("in").mkdir()
    for name in ("one", "two"):
        write(Path(f"in/{name}.{suffix}"))
    left = [Path(f"in/two.{suffix}")]
    module, function = (record_blocks, "check_unchanged") if moment == "indexed" else (staging, "read_stacked")
    original = getattr(module, function)

    def changing(*arguments: object, **options: object) -> object:
        found = original(*arguments, **options)
        if left:
            change(left.pop())
        return found

    monkeypatch.setattr(module, function, changing)
    check_changed(jobs, monkeypatch, command, f"two.{suffix}")
    assert not left


def change_before(patch: pytest.MonkeyPatch, owner: object, function: str, change: Callable[[], object]) -> None:
    """Let `change` happen once, just before the first call of a function of the job."""
    original, left, lock = getattr(owner, function), [change], threading.Lock()

    def changing(*arguments: object, **options: object) -> object:
        with lock:  # of shards that are written at once
            if left:
                left.pop()()
        return original(*arguments, **options)

    patch.setattr(owner, function, changing)


def write_some_records(folder: Path) -> None:
    folder.mkdir()
    write_tfrecords(folder / "a.tfrecord")


def write_images(folder: Path) -> None:
    write_files(folder, image_tree(("ant", "bee"), 4))


def write_listed(folder: Path) -> None:
    files = image_tree(("ant", "bee"), 4)
    lines = [f"{name},{name[:3]},right/{name}" for name in files]
    write_files(folder, {**files, **{f"right/{name}": data for name, data in files.items()}})
    (folder / "list.csv").write_text("\n".join(["file_name,label,right_file_name", *lines]) + "\n")


def write_arrays(folder: Path) -> None:
    for label in ("ant", "bee"):
        (folder / label).mkdir(parents=True)
        for number in range(3):
            np.save(folder / label / f"{number}.npy", np.full((2, 2), number, np.float32))


def write_stacked(folder: Path) -> None:
    for split in ("train", "test"):
        (folder / split).mkdir(parents=True)
    np.save(folder / "train" / "X.npy", np.arange(40, dtype=np.float32).reshape(10, 4))
    np.save(folder / "train" / "y.npy", np.arange(10) % 2)
    np.savez(folder / "test" / "data.npz", x=np.arange(40, dtype=np.float32).reshape(10, 4), y=np.arange(10) % 2)


def write_sounds(folder: Path) -> None:
    write_files(folder, {f"{label}/{number}.wav": wav(number=number) for label in "ab" for number in range(3)})


def write_texts(folder: Path) -> None:
    write_files(folder, {f"{label}/{number}.txt": b"text %d" % number for label in "ab" for number in range(3)})


def write_boxes(folder: Path) -> None:
    write_coco(folder, scenes(4))


# By the kind: the command with {0} for the folder, what writes the folder, and the file that is changed
WHOLE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "images": ("images --input {0}", write_images, "bee/002.jpg"),
    "glob": ("images --input {0}/*/*.jpg", write_images, "bee/002.jpg"),
    "mask": ("images --input {0}/images --masks {0}/masks", write_pairs, "masks/a/0.png"),
    "image of a mask": ("images --input {0}/images --masks {0}/masks", write_pairs, "images/a/0.png"),
    "manifest": ("images --manifest {0}/list.csv --file_column file_name,right_file_name", write_listed, "bee/002.jpg"),
    "companion": (
        "images --manifest {0}/list.csv --file_column file_name,right_file_name",
        write_listed,
        "right/bee/002.jpg",
    ),
    "arrays": ("arrays --input {0}", write_arrays, "bee/1.npy"),
    "rows": ("arrays --stacked --input {0}", write_stacked, "train/X.npy"),
    "packed rows": ("arrays --stacked --input {0}", write_stacked, "test/data.npz"),
    "audio": ("audio --input {0}", write_sounds, "b/1.wav"),
    "texts": ("text --record file --input {0}", write_texts, "b/1.txt"),
}


@pytest.mark.parametrize(
    ("kind", "moment", "change"),
    [
        *((kind, "listed", (touch, replace_by_a_copy)[number % 2]) for number, kind in enumerate(WHOLE)),
        ("images", "listed", replace_by_a_copy),
        *((kind, "read", change) for kind in ("rows", "packed rows") for change in (touch, replace_by_a_copy)),
    ],
)
def test_a_changed_whole_file_fails_the_job(
    kind: str, moment: str, change: Callable[[Path], None], jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, write, name = WHOLE[kind]
    write(Path("in"))
    function = "encode_batch" if moment == "listed" else "_check_unchanged"
    change_before(monkeypatch, FileEncoder, function, lambda: change(Path("in") / name))
    check_changed(jobs, monkeypatch, line.format("in"), name)


@pytest.mark.parametrize(
    ("name", "line", "write", "module", "function"),
    [
        ("list.csv", "images --manifest in/list.csv", write_listed, sources, "read_all_rows"),
        ("instances.json", "images --input in --coco in/instances.json", write_boxes, coco, "read_arrays"),
        ("a.tfrecord", "reshard --input train=in/a.tfrecord", write_some_records, staging, "read_stacked"),
    ],
)
def test_a_changed_file_of_a_flag_fails_the_job(
    name: str,
    line: str,
    write: Callable[[Path], object],
    module: object,
    function: str,
    jobs: Jobs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(Path("in"))
    change_before(monkeypatch, module, function, lambda: touch(Path("in") / name))
    jobs.fail(line, f"{name} {CHANGED}")


@pytest.mark.parametrize("replaced", ["before", "after"])
def test_an_archive_that_is_replaced_fails_the_job(replaced: str, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its members are found by the directory that was listed."""
    tree = image_tree(("ant", "bee"), 4)
    other = {f"{replaced}.txt": b"x" * 99} if replaced == "before" else {}
    new = zipped({**other, **{name: image(100 + number) for number, name in enumerate(tree)}})
    jobs.write({"a.zip": zipped(tree), "../new.zip": new})
    change_before(monkeypatch, FileEncoder, "encode_batch", lambda: os.replace("new.zip", "in/a.zip"))
    jobs.fail("images --input in/a.zip", f"a.zip {CHANGED}")


def test_a_file_that_is_written_while_it_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists, annotations and maps of labels are read so."""
    path = tmp_path / "classes.txt"
    path.write_bytes(b"ant\nbee\n")
    assert local.read_bytes(str(path)) == b"ant\nbee\n"
    change_before(monkeypatch, os, "read", lambda: touch(path))
    with pytest.raises(JobError, match=r"classes\.txt was changed while the job read it"):
        local.read_bytes(str(path))
