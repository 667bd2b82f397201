"""info: what a data set is."""

from pathlib import Path

import pytest

import shardmill
from tests.support.reading import make_images


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_images(
        tmp_path_factory.mktemp("images"), "--splits", "train=0.8,test=0.2", "--num_shards", "train=4,test=1"
    )


def test_images(flowers: Path) -> None:
    info = shardmill.info(flowers)

    assert (info.name, info.version, info.directory, info.compression) == ("n", "1.0.0", str(flowers), "")
    assert list(info.splits) == ["train", "test"]
    assert sum(split.examples for split in info.splits.values()) == 60
    assert len(info.splits["train"].shards) == 4
    assert list(info.features) == ["image", "label", "filename", "height", "width"]
    assert (info.features["image"].kind, info.features["image"].encoding) == ("image", "jpeg")
    assert info.label == "label"
    assert info.class_names == ("bee", "cat", "dog")


def test_table(rows_in_four_shards: Path) -> None:
    info = shardmill.info(rows_in_four_shards)

    assert info.label == "city"
    assert info.class_names == ("Oslo", "Rome")
    assert {name: (feature.dtype, feature.shape, feature.required) for name, feature in info.features.items()} == {
        "n": ("int64", (), True),
        "x": ("float32", (), True),
        "word": ("bytes", (), True),
        "pair": ("int64", (2,), True),
        "weights": ("float32", (None,), True),
        "tokens": ("int64", (None,), True),
        "tags": ("bytes", (None,), True),
        "city": ("int64", (), True),
        "age": ("int64", (), False),
        "note": ("bytes", (), False),
    }
    printed = str(info)
    for line in (
        f"n 1.0.0 in {info.directory}",
        "  feature pair: int64[2]",
        "  feature tokens: int64[any number]",
        "  feature city: int64, class label of 2, the label",
        "  feature note: bytes, text, may be missing",
    ):
        assert line in printed.splitlines()
