"""Small files that several processes write, on local disks; object stores are in
tests/end_to_end/test_object_storage.py."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shardmill.transforms.stores import conditional, locks
from shardmill.transforms.stores.stored import ChangedError


def test_each_change_needs_what_was_read(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    assert conditional.read(path) is None
    conditional.create(path, "one")
    with pytest.raises(FileExistsError):
        conditional.create(path, "two")
    one = conditional.read(path)
    assert one is not None
    assert (one.data, one.modified) == (b"one", (tmp_path / "f").stat().st_mtime)
    conditional.replace(path, "one", one)  # the same bytes are another revision
    with pytest.raises(ChangedError):
        conditional.replace(path, "three", one)
    with pytest.raises(ChangedError):
        conditional.delete(path, one)
    two = conditional.read(path)
    assert two is not None
    conditional.delete(path, two)
    with pytest.raises(ChangedError):
        conditional.replace(path, "three", two)
    with pytest.raises(ChangedError):
        conditional.delete(path, two)
    assert list(tmp_path.iterdir()) == []


def test_of_many_at_once_each_change_counts(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    conditional.create(path, "0")

    def add(_: int) -> None:
        while True:
            found = conditional.read(path)
            assert found is not None
            try:
                return conditional.replace(path, str(int(found.data) + 1), found)
            except ChangedError:
                continue

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(100)))
    assert (tmp_path / "f").read_text() == "100"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_is_gone_is_no_change_by_another(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    found = conditional.read(str(tmp_path / "f"))
    assert found is not None
    with pytest.raises(FileNotFoundError, match="gone"):
        conditional.replace(str(tmp_path / "f"), "y", found, "/proc/gone/temporary")


def test_a_new_file_is_held_from_the_first(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    held = locks.hold_new(path, "text")
    assert locks.is_held(path)
    assert (tmp_path / "f").read_text() == "text"
    with pytest.raises(FileExistsError):
        locks.hold_new(path, "other")
    locks.release(held)
    assert not locks.is_held(path)
