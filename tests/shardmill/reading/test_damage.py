"""Readers of a damaged data set give what was written, or an error that names the file."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import shardmill
from shardmill.reading.dataset import open_dataset
from tests.support.damage import check_damages
from tests.support.later import Later
from tests.support.reading import FILLS, make_rows

tf = Later("tensorflow")
FLAGS = {
    "indexed": ("--index", "--splits", "train=0.8,test=0.2"),
    "gzip": ("--compression", "gzip"),
    "array_record": ("--file_format", "array_record"),
}


@pytest.fixture(scope="module", params=FLAGS)
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_rows(tmp_path_factory.mktemp("rows"), "--num_shards", 2, *FLAGS[request.param], rows=40)


def whole(read: Callable[..., Iterable[Any]]) -> Callable[[Path], list[Any]]:
    """Return a reader of all examples of all splits."""
    return lambda version: [
        {name: str(value) for name, value in example.items()}
        for split in (part.name for part in open_dataset(str(version)).manifest.splits)
        for example in read(version, split=split)
    ]


SEEDS = [range(50), pytest.param(range(50, 300), marks=pytest.mark.slow)]


@pytest.mark.parametrize("seeds", SEEDS)
def test_values_in_order(rows: Path, tmp_path: Path, seeds: range) -> None:
    assert check_damages(rows, tmp_path, seeds, whole(shardmill.examples)) > len(seeds) // 5


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("rows", ["indexed", "array_record"], indirect=True)
def test_values_by_position(rows: Path, tmp_path: Path, seeds: range) -> None:
    assert check_damages(rows, tmp_path, seeds, whole(shardmill.source)) > len(seeds) // 5


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["indexed", "gzip"], indirect=True)
def test_tensors(rows: Path, tmp_path: Path) -> None:
    """Errors of a running tf.data pipeline are TensorFlow's own; these name the shard, too."""

    def load(version: Path, split: str) -> Iterable[Any]:
        return ({"x": values} for values in shardmill.load(version, split=split, defaults=FILLS).as_numpy_iterator())

    assert check_damages(rows, tmp_path, range(60), whole(load), (tf.errors.InvalidArgumentError,)) > 12
