"""Files that are replaced or written while a job reads them: nothing is published."""

import io
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardmill.addons.annotations import coco
from shardmill.errors import JobError
from shardmill.transforms.files.encoding import FileEncoder
from shardmill.transforms.formats import format as formats
from shardmill.transforms.inputs import manifest_table
from shardmill.transforms.records import staging
from shardmill.transforms.stores import local
from tests.support.archives import zipped
from tests.support.command import image, image_tree, npy
from tests.support.detection import scenes, write_coco
from tests.support.jobs import Files, Jobs
from tests.support.masks import pairs
from tests.support.table_results import encode_rows

ROWS = [{"a": number, "b": f"text {number:02}"} for number in range(40)]
# By the command: the suffix and the content of a file
RECORDS: dict[str, tuple[str, bytes]] = {
    **{command: (command, encode_rows(command, ROWS)) for command in ("csv", "parquet")},
    "reshard": ("tfrecord", encode_rows("reshard", ROWS)),
}


def replace_by_a_copy(path: Path) -> None:
    """Another file of equal content, size and time."""
    shutil.copy2(path, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def touch(path: Path) -> None:
    """The same content, written once more."""
    path.write_bytes(path.read_bytes())


CHANGED = "was changed while the job read it"


def check_changed(jobs: Jobs, line: str, name: str) -> None:
    """Check that a job ends in a sentence that names the file."""
    jobs.fail(line, f"{name}…{CHANGED}; leave the input as it is while a job runs")
    assert not Path("out/n/1.0.0").exists()


@pytest.mark.parametrize(
    ("command", "moment", "change"),
    [
        *((command, "read", (touch, replace_by_a_copy)[number % 2]) for number, command in enumerate(RECORDS)),
        *(("csv", "indexed", touch), ("csv", "indexed", replace_by_a_copy)),
    ],
)
def test_a_changed_file_fails_the_job(
    command: str, moment: str, change: Callable[[Path], None], jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    suffix, data = RECORDS[command]
    jobs.write({f"{name}.{suffix}": data for name in ("one", "two")})
    left = [Path(f"in/two.{suffix}")]
    module, function = (formats, "check_unchanged") if moment == "indexed" else (staging, "read_stacked")
    original = getattr(module, function)

    def changing(*arguments: object, **options: object) -> object:
        found = original(*arguments, **options)
        if left:
            change(left.pop())
        return found

    monkeypatch.setattr(module, function, changing)
    check_changed(jobs, command, f"two.{suffix}")
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


TREE = image_tree(("ant", "bee"), 4)
_LINES = ["file_name,label,right_file_name", *(f"{name},{name[:3]},right/{name}" for name in TREE), ""]
LISTED = {**TREE, **{f"right/{name}": data for name, data in TREE.items()}, "list.csv": "\n".join(_LINES)}
VALUES: dict[str, Any] = {"x": np.arange(40, dtype=np.float32).reshape(10, 4), "y": np.arange(10) % 2}


def packed() -> bytes:
    out = io.BytesIO()
    np.savez(out, **VALUES)
    return out.getvalue()


STACKED = {"train/X.npy": npy(VALUES["x"]), "train/y.npy": npy(VALUES["y"]), "test/data.npz": packed()}
MASKED = "images --input in/images --masks in/masks"
IN_PAIRS = "images --manifest in/list.csv --file_column file_name,right_file_name"
# By the kind: the command, its input, and the file that is changed
WHOLE: dict[str, tuple[str, Files, str]] = {
    "images": ("images", TREE, "bee/002.jpg"),
    "glob": ("images --input in/*/*.jpg", TREE, "bee/002.jpg"),
    "mask": (MASKED, pairs(8), "masks/a/0.png"),
    "manifest": (IN_PAIRS, LISTED, "bee/002.jpg"),
    "companion": (IN_PAIRS, LISTED, "right/bee/002.jpg"),
    "rows": ("arrays --stacked", STACKED, "train/X.npy"),
    "packed rows": ("arrays --stacked", STACKED, "test/data.npz"),
}


@pytest.mark.parametrize(
    ("kind", "moment", "change"),
    [
        *((kind, "listed", (touch, replace_by_a_copy)[number % 2]) for number, kind in enumerate(WHOLE)),
        ("images", "listed", replace_by_a_copy),
        *(("rows", "read", touch), ("packed rows", "read", replace_by_a_copy)),
    ],
)
def test_a_changed_whole_file_fails_the_job(
    kind: str, moment: str, change: Callable[[Path], None], jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, files, name = WHOLE[kind]
    jobs.write(files)
    function = "encode_batch" if moment == "listed" else "_check_unchanged"
    change_before(monkeypatch, FileEncoder, function, lambda: change(Path("in") / name))
    check_changed(jobs, line, name)


@pytest.mark.parametrize(
    ("name", "line", "module", "function"),
    [
        ("list.csv", "images --manifest in/list.csv", manifest_table, "infer_columns"),
        ("coco/instances.json", "images --input in/coco --coco in/coco/instances.json", coco, "read_arrays"),
        ("two.tfrecord", "reshard --input train=in/two.tfrecord", staging, "read_stacked"),
    ],
)
def test_a_changed_file_of_a_flag_fails_the_job(
    name: str, line: str, module: object, function: str, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.write({**LISTED, "two.tfrecord": RECORDS["reshard"][1]})
    write_coco(Path("in/coco"), scenes(4))
    change_before(monkeypatch, module, function, lambda: touch(Path("in") / name))
    jobs.fail(line, f"{name.rpartition('/')[2]} {CHANGED}")


@pytest.mark.parametrize("replaced", ["before", "after"])
def test_an_archive_that_is_replaced_fails_the_job(replaced: str, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its members are found by the directory that was listed."""
    other = {f"{replaced}.txt": b"x" * 99} if replaced == "before" else {}
    new = zipped({**other, **{name: image(100 + number) for number, name in enumerate(TREE)}})
    jobs.write({"a.zip": zipped(TREE), "../new.zip": new})
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
