"""The night before it went wrong."""

import shutil
from collections.abc import Iterator
from contextlib import chdir
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


@pytest.fixture
def here(good_night: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of that, in which a test runs."""
    folder = tmp_path / "night"
    shutil.copytree(good_night, folder)
    with chdir(folder):
        yield folder
