"""The data that pages name, made once a session: a test that writes into it takes the copy."""

import shutil
from pathlib import Path

import pytest

from tests.support.pages import write_page_data


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page_data(tmp_path_factory.mktemp("data"))


@pytest.fixture
def folder(data: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(data, tmp_path / "data"))
