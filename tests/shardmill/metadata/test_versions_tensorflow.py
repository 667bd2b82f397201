"""Versions and tags by which a data set is opened."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import shardmill
from shardmill.data.features import Feature
from shardmill.errors import CorruptDataError, UserError
from shardmill.metadata.versions import is_tag
from shardmill.reading.dataset import open_dataset
from tests.support.small_data_set import edit_manifest, write_data_set

FEATURES = (Feature("x", "int64", "tensor", (), True),)


def _set_version(version: str, manifest: Any) -> None:
    manifest["version"] = version


@pytest.fixture(scope="module")
def data_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three versions, of 1, 2 and 3 examples; LATEST names the second, the tag `good` the first."""
    folder = tmp_path_factory.mktemp("tags") / "n"
    for number in range(3):
        directory = write_data_set(folder / f"1.0.{number}", FEATURES, [{"x": [n]} for n in range(number + 1)], 1)
        edit_manifest(directory, partial(_set_version, f"1.0.{number}"))
    (folder / "LATEST").write_text("1.0.1\n")
    (folder / "TAGS").mkdir()
    (folder / "TAGS" / "good").write_text("1.0.0\n")
    (folder / "TAGS" / "odd").write_text("../1.0.0\n")
    (folder / "TAGS" / "gone").write_text("1.0.7\n")
    return folder


@pytest.mark.parametrize(
    ("wanted", "found"),
    [(None, "1.0.1"), ("LATEST", "1.0.1"), ("1.0.2", "1.0.2"), ("1.0.0", "1.0.0"), ("good", "1.0.0")],
)
def test_a_version_or_a_tag_is_opened(data_set: Path, wanted: str | None, found: str) -> None:
    number = int(found[-1]) + 1
    assert open_dataset(data_set, version=wanted).manifest.version == found
    assert shardmill.info(data_set, version=wanted).version == found
    assert [int(example["x"]) for example in shardmill.examples(data_set, version=wanted)] == [*range(number)]


@pytest.mark.slow
def test_tensorflow_reads_a_tag(data_set: Path) -> None:
    read = shardmill.load(data_set, version="good", shuffle=False)

    assert [int(x) for x in read] == [0]
    assert list(shardmill.feature_spec(data_set, version="good")) == ["x"]
    assert len(shardmill.load(data_set, version="1.0.2")) == 3


PUBLISHED = "published in .*: 1.0.2, 1.0.1, 1.0.0; open"


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        *((wanted, "has no version or tag .*") for wanted in ("best", "", "..", "../n/1.0.0", "TAGS/good", "1.0")),
        ("1.0.9", "n/1.0.9 is not a data set.*"),
        ("gone", "TAGS/gone names 1.0.7, but .* is not a data set.*"),
    ],
)
def test_what_is_none_is_named_with_what_there_is(data_set: Path, wanted: str, sentence: str) -> None:
    with pytest.raises(UserError, match=f"{sentence}; {PUBLISHED}"):
        open_dataset(data_set, version=wanted)


def test_a_tag_leads_to_a_version_and_nowhere_else(data_set: Path) -> None:
    with pytest.raises(CorruptDataError, match=r"TAGS/odd holds '../1.0.0'; expected a version"):
        open_dataset(data_set, version="odd")
    with pytest.raises(UserError, match=r"1.0.0 is a version; give the folder above it"):
        open_dataset(data_set / "1.0.0", version="1.0.1")


@pytest.mark.parametrize(
    ("text", "good"),
    [
        *[(text, True) for text in ("good", "2026-11", "v1", "1.0", "a_b.c", "9", "a" * 100)],
        *[(text, False) for text in ("", "1.0.0", "LATEST", "latest", ".x", "-x", "a/b", "a b", "é", "a" * 101)],
        ("x.tmp", False),  # as a file is called until it is whole
    ],
)
def test_names_of_tags(text: str, good: bool) -> None:
    assert is_tag(text) == good
