"""A tree of images and what is made of it by default, once for all these tests; and jobs in a folder of their own."""

from pathlib import Path

import pytest

from shardmill.pipelines import cli
from tests.support.command import Contents, read_back, write_files
from tests.support.image_jobs import SPLITS, TREE, ImageJobs
from tests.support.jobs import Jobs


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


@pytest.fixture
def images(jobs: Jobs) -> ImageJobs:
    """Image jobs in a new folder, which is the working folder."""
    return ImageJobs(jobs)
