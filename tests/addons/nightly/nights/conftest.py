"""The night before it went wrong."""

import shutil
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

import pytest

from shardmill.pipelines import cli
from tests.support.nights import recipe, rows, write


@pytest.fixture(scope="session")
def good_night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an input, a recipe, and 1.0.0 made from them."""
    folder = tmp_path_factory.mktemp("good")
    (folder / "in").mkdir()
    with chdir(folder):
        write(rows())
        recipe()
        assert cli.main(["rebuild", "events.yaml", "--quiet"]) == 0
    return folder


@contextmanager
def in_copy(night: Path, folder: Path) -> Iterator[Path]:
    """Copy the folder of a night, and be there until the block ends."""
    shutil.copytree(night, folder)
    with chdir(folder):
        yield folder


@pytest.fixture
def here(good_night: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of that, in which a test runs."""
    with in_copy(good_night, tmp_path / "night"):
        yield tmp_path / "night"
