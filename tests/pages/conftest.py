"""The data that pages name, made once a session: a test that writes into it takes the copy."""

import shutil
from pathlib import Path

import pytest

from shardmill.addons.samples.commands import KINDS, write_sample


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for kind in KINDS:
        write_sample(kind, str(folder))
    return folder


@pytest.fixture
def folder(data: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(data, tmp_path / "data"))
