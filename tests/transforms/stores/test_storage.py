"""Tests of transforms/stores/storage.py; tests/end_to_end/stores/test_operations.py has those of all places.

* Small files that several processes write, on local disks
* A store that fails is tried again
* Links and empty folders
* What cleaning up hides
"""

import errno
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from typing import NoReturn

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.errors import JobError
from shardmill.pipelines.commands.verify import _make_report_folder
from shardmill.transforms.publishing import lease
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import ChangedError
from shardmill.transforms.stores.storage import raise_if_store_failed


def test_of_many_at_once_each_change_counts(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    storage.create(path, "0")

    def add(_: int) -> None:
        while True:
            found = storage.read(path)
            assert found is not None
            try:
                return storage.replace(path, str(int(found.data) + 1), found)
            except ChangedError:
                continue

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(100)))
    assert (tmp_path / "f").read_text() == "100"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_is_gone_is_no_change_by_another(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    found = storage.read(str(tmp_path / "f"))
    assert found is not None
    with pytest.raises(FileNotFoundError, match="gone"):
        storage.replace(str(tmp_path / "f"), "y", found, "/proc/gone/temporary")


def test_a_new_file_is_held_from_the_first(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    held = storage.create_locked(path, "text")
    assert storage.is_locked(path)
    assert (tmp_path / "f").read_text() == "text"
    with pytest.raises(FileExistsError):
        storage.create_locked(path, "other")
    storage.release_lock(held)
    assert not storage.is_locked(path)


@pytest.mark.parametrize(
    ("error", "path", "is_raised"),
    [
        *product([PermissionError(), FileNotFoundError()], ["/a.csv", "a.csv"], [False]),
        *product([OSError(errno.EIO, "503")], ["/a.csv", "a.csv"], [True]),
        *product([OSError("503")], ["gs://bucket/a.csv", "s3://bucket/a.csv", "hdfs://host/a.csv"], [True]),
        *product([FileNotFoundError("404"), PermissionError("403")], ["gs://bucket/a.csv"], [False]),
    ],
)
def test_a_store_or_disk_that_fails_is_tried_again_and_no_answer(error: OSError, path: str, is_raised: bool) -> None:
    with pytest.raises(OSError, match="503") if is_raised else nullcontext() as raised:
        raise_if_store_failed(error, path)
    assert raised is None or raised.value is error


@pytest.mark.parametrize(
    ("directory", "is_local", "path"),
    [("a", True, "a/b"), ("a/", True, "a/b"), ("/", True, "/b"), ("gs://b/a/", False, "gs://b/a/b")],
)
def test_paths_and_urls(directory: str, is_local: bool, path: str) -> None:
    assert storage.join(directory, "b") == path
    assert storage.is_local(directory) is storage.is_local(path) is is_local


def test_objects_are_not_read_at_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")

    assert storage.read_small(["gs://bucket/a", str(tmp_path / "a")])[0] == [None, None]
    assert storage.read_small([str(tmp_path / "a")])[0] == [b"a"]


def test_links_and_empty_folders(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "d" / "new\nline").touch()
    (tmp_path / "link").symlink_to("d")

    assert list(storage.list_files(str(tmp_path))) == [("d/new\nline", 0)]
    assert storage.list_folders(str(tmp_path)) == ["d", "empty"]
    (tmp_path / "dangling").symlink_to("nowhere")
    storage.delete([str(tmp_path / "dangling")])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "empty", "link"]


def fail(*_: object) -> NoReturn:
    raise PermissionError(errno.EACCES, "denied")


def fail_to_read(*_: object) -> NoReturn:
    raise TimeoutError


@pytest.mark.parametrize("error", [ValueError("the reason"), KeyboardInterrupt()])
def test_an_error_is_not_hidden_by_that_of_cleaning_up(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, storage.cleaning_up(fail):
        raise error
    assert caught.value is error
    assert caught.value.__notes__ == ["what it left could not be deleted: Permission denied"]

    with pytest.raises(PermissionError), storage.cleaning_up(fail):
        pass


def test_whoever_writes_temporary_files_raises_why_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("there")
    found = storage.read(str(tmp_path / "file"))
    assert found is not None
    (tmp_path / "file").write_text("changed")
    monkeypatch.setattr(storage, "delete", fail)
    monkeypatch.setattr(storage, "delete_tree", fail)

    with pytest.raises(FileExistsError):
        storage.create(str(tmp_path / "file"), "new")
    with pytest.raises(ChangedError):
        storage.replace(str(tmp_path / "file"), "new", found)
    options = PipelineOptions(["--runner", "FlinkRunner", "--temp_location", str(tmp_path)])
    with pytest.raises(JobError, match="the job failed"), _make_report_folder(options):
        raise JobError("the job failed")
    monkeypatch.setattr(storage, "read", fail_to_read)
    with pytest.raises(TimeoutError):
        lease._read_store_time(str(tmp_path), "folder")


def test_a_shared_context_is_held_until_all_have_left_it(tmp_path: Path) -> None:
    with storage.hold_shared("folder", partial(chdir, tmp_path)):
        with storage.hold_shared("folder", partial(chdir, "/")):
            assert Path.cwd() == tmp_path
        assert Path.cwd() == tmp_path
    assert Path.cwd() != tmp_path
