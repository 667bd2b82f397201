"""Data sets that tests of several modules read, made once a session; and image jobs in a folder of their own."""

from pathlib import Path

import pytest

from shardmill.pipelines import cli
from tests.support.command import Contents, read_back, write_files
from tests.support.golden_inputs import write_inputs
from tests.support.image_jobs import SPLITS, TREE
from tests.support.table_results import CITY_HEADER, CITY_ROWS, CITY_SPLITS, Table, convert, to_csv


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inputs of the golden cases."""
    folder = tmp_path_factory.mktemp("golden")
    write_inputs(folder)
    return folder


@pytest.fixture(scope="session")
def city_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,000 rows in three CSV files of differing size."""
    parts = {"a.csv": CITY_ROWS[:100], "b/c.csv": CITY_ROWS[100:150], "d.csv": CITY_ROWS[150:]}
    return write_files(
        tmp_path_factory.mktemp("csv"), {name: to_csv(CITY_HEADER, rows) for name, rows in parts.items()}
    )


@pytest.fixture(scope="session")
def city_table(city_rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """The rows in two splits, by default otherwise."""
    return convert("csv", city_rows, tmp_path_factory.mktemp("city_table"), *CITY_SPLITS, "--num_shards", 3)


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """90 images of three classes."""
    return write_files(tmp_path_factory.mktemp("tree") / "in", TREE)


@pytest.fixture(scope="session")
def plain(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """The tree in three splits of two shards, all else by default."""
    output = tmp_path_factory.mktemp("plain")
    flags = ["--input", str(tree), "--output", str(output), "--name", "n", *SPLITS, "--num_shards", "2"]
    assert cli.main(["images", *flags]) == 0
    return read_back(output / "n")
