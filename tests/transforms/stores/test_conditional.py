"""Small files that several processes write, on local disks; object stores are in
tests/end_to_end/test_object_storage.py."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import ChangedError


def test_each_change_needs_what_was_read(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    assert storage.read(path) is None
    storage.create(path, "one")
    with pytest.raises(FileExistsError):
        storage.create(path, "two")
    one = storage.read(path)
    assert one is not None
    assert (one.data, one.modified) == (b"one", (tmp_path / "f").stat().st_mtime)
    storage.replace(path, "one", one)  # the same bytes are another revision
    with pytest.raises(ChangedError):
        storage.replace(path, "three", one)
    with pytest.raises(ChangedError):
        storage.delete_if_unchanged(path, one)
    two = storage.read(path)
    assert two is not None
    storage.delete_if_unchanged(path, two)
    with pytest.raises(ChangedError):
        storage.replace(path, "three", two)
    with pytest.raises(ChangedError):
        storage.delete_if_unchanged(path, two)
    assert list(tmp_path.iterdir()) == []


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
