"""Columns of encoded images in tables: stored as images, each checked."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.command import Run, check_mistake, image
from tests.support.later import Later
from tests.support.table_results import convert

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
tfds = Later("tensorflow_datasets")


def write(folder: Path, columns: dict[str, Any], name: str = "rows.parquet") -> Path:
    """A folder with a Parquet file."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / name, row_group_size=4)
    return folder


def test_image_is_checked_and_stored_as_an_image(run: Run, tmp_path: Path) -> None:
    images = [image(number) for number in range(6)]
    bad = [images[0][:-40], b"<html>", None]
    source = write(tmp_path / "in", {"photo": pa.array([*images, *bad], pa.binary()), "n": list(range(9))})
    table = convert("parquet", source, tmp_path, "--image", "photo", "--max_reject_fraction", 0.5)
    assert sorted((row["n"], row["photo"]) for row in table.rows) == list(enumerate(images))
    (feature,) = [item for item in table.dataset.manifest.features if item.name == "photo"]
    assert (feature.kind, feature.encoding, feature.required) == ("image", "jpeg", True)
    reasons = {reject["line"]: reject["reason"] for reject in table.rejects()}
    assert reasons[7].startswith("column 'photo': truncated")
    assert reasons[8].startswith("column 'photo': not an image: a web page")
    assert reasons[9] == "column 'photo': no image"
    assert table.stats()["photo"]["formats"] == {"jpeg": 6}
    builder = tfds.builder_from_directory(str(table.directory))
    assert all(row["photo"].shape[-1] == 3 for row in tfds.as_numpy(builder.as_dataset(split="train")))
    assert json.loads((table.directory / "manifest.json").read_text())["configuration"]["image"] == ["photo"]


def test_without_the_flag_a_notice_names_it(run: Run, tmp_path: Path) -> None:
    images = [image(number) for number in range(3)]
    whole = write(tmp_path / "a", {"photo": images})
    done = run("parquet", "--input", whole, "--output", tmp_path, "--name", "whole")
    assert "'photo' is an image, by the first bytes of all its values: 3 jpeg; they were not checked" in done.out
    assert "which --image photo does" in done.out
    some = write(tmp_path / "b", {"photo": [*images, None]})
    done = run("parquet", "--input", some, "--output", tmp_path, "--name", "some")
    assert "'photo' is stored as plain bytes, though some of its values are images: 3 jpeg; --image photo" in done.out


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--image", "n"), "--image n: it holds int64; expected the bytes of one encoded image in each row"),
        (("--image", "many"), "--image many: it holds lists of bytes; expected the bytes of one encoded image"),
        (("--image", "foto"), "--image foto: no such column in --input {source}; did you mean photo?"),
        (("--image", "photo", "--drop", "photo"), "--image photo is also in --drop; drop the one or the other"),
        (("--image", "photo", "--label", "photo"), "--image photo is also in --label; drop the one or the other"),
    ],
)
def test_mistakes(run: Run, tmp_path: Path, flags: tuple[str, ...], sentence: str) -> None:
    source = write(tmp_path / "in", {"photo": [image(1)], "many": [[image(1)]], "n": [1]})
    done = run("parquet", "--input", source, "--output", tmp_path, "--name", "n", *flags)
    check_mistake(done, sentence.format(source=source))
