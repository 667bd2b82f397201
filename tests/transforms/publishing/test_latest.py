"""LATEST names the newest version, whoever publishes in whichever order."""

import itertools
from pathlib import Path

import pytest

from shardmill.metadata import file_names
from shardmill.metadata.file_names import SUCCESS
from shardmill.transforms.publishing import catalog
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import StoredFile


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    for version in ("1.0.9", "1.0.10", "1.1.0"):
        (tmp_path / version).mkdir()
        (tmp_path / version / SUCCESS).touch()
    return tmp_path


def named(parent: Path) -> str:
    (found,) = [path for path in parent.iterdir() if path.is_file()]  # and no temporary file
    assert found.name == file_names.LATEST
    return found.read_text()


@pytest.mark.parametrize(
    ("before", "announced", "set_latest", "expected"),
    [
        (None, "1.0.9", False, "1.0.9\n"),
        ("1.0.9\n", "1.0.10", False, "1.0.10\n"),  # by their numbers, not by their letters
        ("1.0.10\n", "1.0.9", False, "1.0.10\n"),  # a backfill
        ("1.0.10\n", "1.0.9", True, "1.0.9\n"),
        ("1.0.9\n", "1.0.9", False, "1.0.9\n"),
        ("1.1.7\n", "1.0.9", False, "1.0.9\n"),  # it named what is not there
        ("", "1.0.9", False, "1.0.9\n"),
        ("latest and greatest", "1.0.9", False, "1.0.9\n"),
    ],
)
def test_what_is_named(parent: Path, before: str | None, announced: str, set_latest: bool, expected: str) -> None:
    if before is not None:
        (parent / file_names.LATEST).write_text(before)
    directory = str(parent / announced)
    catalog.update_latest(directory, catalog.read_latest(catalog.parent_folder(directory)), "job", set_latest)
    assert named(parent) == expected


def test_a_version_that_is_being_replaced_is_not_lost(parent: Path) -> None:
    (parent / file_names.LATEST).write_text("1.1.0\n")
    (parent / "1.1.0" / SUCCESS).rename(parent / "1.1.0" / file_names.LOCK)
    catalog.update_latest(str(parent / "1.0.9"), "", "job")
    assert named(parent) == "1.1.0\n"


def test_a_repeated_attempt_does_not_move_it_back(parent: Path) -> None:
    """An attempt of a publication with --set_latest, which comes when others have published since."""
    (parent / file_names.LATEST).write_text("1.1.0\n")
    catalog.update_latest(str(parent / "1.0.9"), "1.0.10", "job", set_latest=True)
    assert named(parent) == "1.1.0\n"


@pytest.mark.parametrize("order", list(itertools.permutations(["1.0.9", "1.0.10", "1.1.0"])))
@pytest.mark.parametrize("there", [False, True])
def test_whoever_comes_between_reading_and_writing_is_not_overwritten(
    parent: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[str, ...], there: bool
) -> None:
    if there:
        (parent / file_names.LATEST).write_text("1.0.0\n")
    coming = list(order)
    read = storage.read

    def read_and_wait(path: str) -> StoredFile | None:
        found = read(path)
        if coming:
            catalog.update_latest(str(parent / coming.pop()), "", f"job {len(coming)}")
        return found

    monkeypatch.setattr(storage, "read", read_and_wait)
    catalog.update_latest(str(parent / coming.pop()), "", "first job")
    assert named(parent) == "1.1.0\n"
