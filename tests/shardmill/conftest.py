"""Data sets that tests of several readers read: made once a session, so a test that damages one takes a copy."""

from pathlib import Path

import pytest

from tests.support.reading import make_equal_shards, make_images, make_rows


@pytest.fixture(scope="session")
def rows_in_four_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_rows(tmp_path_factory.mktemp("rows"), "--num_shards", 4)


@pytest.fixture(scope="session")
def rows_in_two_splits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_rows(
        tmp_path_factory.mktemp("rows"), "--num_shards", "train=4,test=2", "--splits", "train=0.8,test=0.2"
    )


@pytest.fixture(scope="session")
def rows_compressed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_rows(tmp_path_factory.mktemp("compressed"), "--num_shards", 4, "--compression", "gzip")


@pytest.fixture(scope="session")
def indexed_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_rows(tmp_path_factory.mktemp("indexed"), "--num_shards", 4, "--index")


@pytest.fixture(params=["rows_in_four_shards", "rows_compressed"], ids=["none", "gzip"])
def rows_of_each_compression(request: pytest.FixtureRequest) -> Path:
    directory = request.getfixturevalue(request.param)
    assert isinstance(directory, Path)
    return directory


@pytest.fixture(scope="session")
def flowers_in_four_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_images(tmp_path_factory.mktemp("flowers"), "--num_shards", 4)


@pytest.fixture(scope="session")
def equal_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_equal_shards(tmp_path_factory.mktemp("equal"))
