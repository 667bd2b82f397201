"""Boxes and points in a manifest never stay behind while their picture is resized or turned: the job refuses, or they
stay true."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from shardmill.errors import UserError
from shardmill.pipelines.config.images import parse_coordinates
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.layout.objects import check_coordinates, looks_like_coordinates
from tests.support.command import Run, image, read_back, write_files

BOXES = ColumnType("float32", -1, 3, (4,))


@pytest.mark.parametrize(
    ("name", "column", "expected"),
    [
        ("objects", BOXES, True),
        ("objects", ColumnType("int64", 4, 3), True),
        ("objects", ColumnType("int64", -1, 3, (2,)), True),
        ("objects", ColumnType("int64", 5, 3), False),
        ("objects", ColumnType("bytes", 4, 3), False),
        ("caption", ColumnType("bytes", None, 3), False),
        ("weight", ColumnType("float32", None, 3), False),
        ("age", ColumnType("int64", None, 3), False),
        ("max_price", ColumnType("float32", None, 3), False),
        ("bbox", ColumnType("bytes", None, 3), True),
        ("xmin", ColumnType("int64", None, 3), True),
        ("box_x_center", ColumnType("float32", None, 3), True),
        ("Keypoints", ColumnType("float32", -1, 3), True),
        ("x1", ColumnType("int64", None, 3), True),
    ],
)
def test_what_looks_like_coordinates(name: str, column: ColumnType, expected: bool) -> None:
    assert looks_like_coordinates(name, column) is expected


@pytest.mark.parametrize(
    ("kind", "mode", "true"),
    [
        ("none", "cover", True),
        ("none", "", True),
        ("relative", "", True),
        ("relative", "exact", True),
        ("relative", "cover", False),
        ("relative", "contain", False),
        ("pixels", "", True),
        ("pixels", "exact", False),
        ("pixels", "cover", False),
    ],
)
def test_what_stays_true(kind: str, mode: str, true: bool) -> None:
    if true:
        check_coordinates({"boxes": BOXES}, {"boxes": kind}, mode)
    else:
        with pytest.raises(
            UserError, match=f"^--resize_mode {mode} would leave the coordinates in 'boxes' where they were"
        ):
            check_coordinates({"boxes": BOXES}, {"boxes": kind}, mode)


def test_flag() -> None:
    assert parse_coordinates("boxes=relative,a=b=none") == (("boxes", "relative"), ("a=b", "none"))


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Two pictures, one of which EXIF turns, with boxes and a vector of four."""
    exif = Image.Exif()
    exif[0x0112] = 6
    rows = [
        {"file_name": name, "boxes": [[0, 0.5, 1, 1]] * number, "vector": [1, 2, 3, 4], "age": 7}
        for number, name in enumerate(("plain.jpg", "turned.jpg"), 1)
    ]
    files = {"plain.jpg": image(1), "turned.jpg": image(2, exif=exif.tobytes())}
    files["meta.jsonl"] = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    return write_files(tmp_path / "in", files) / "meta.jsonl"


def command(run: Run, manifest: Path, *flags: object) -> Any:
    return run("images", "--manifest", manifest, "--output", manifest.parent.parent, "--name", "n", *flags)


@pytest.mark.parametrize(
    "flags", [("--resize", "8x8"), ("--resize", "8x8", "--resize_mode", "cover"), ("--image_format", "png")]
)
@pytest.mark.parametrize("dry", [(), ("--dry_run",)])
def test_columns_that_may_hold_coordinates_stop_the_job_and_are_named(
    run: Run, manifest: Path, flags: Any, dry: Any
) -> None:
    result = command(run, manifest, *flags, *dry)

    assert result.status == 2
    assert "'boxes' (any number x 4), 'vector' (4)" in result.err
    assert "--coordinates boxes=…,vector=…, each one of relative" in result.err
    assert "'age'" not in result.err
    assert not (manifest.parent.parent / "n").exists()


def test_images_that_pass_through_keep_their_boxes(run: Run, manifest: Path) -> None:
    assert command(run, manifest).status == 0
    contents = read_back(manifest.parent.parent / "n")
    assert contents.records.keys() == {"plain.jpg", "turned.jpg"}
    assert any("EXIF" in notice for notice in contents.dataset.manifest.notices)


def test_fractions_stay_true_and_a_picture_that_exif_turns_is_a_reject(run: Run, manifest: Path) -> None:
    flags = ("--resize", "8x8", "--coordinates", "boxes=relative,vector=none", "--max_reject_fraction", "0.5")
    result = command(run, manifest, *flags)

    assert result.status == 0, result.err
    contents = read_back(manifest.parent.parent / "n")
    assert contents.example("plain.jpg")["boxes"].tolist() == [0, 0.5, 1, 1]  # type: ignore[union-attr]
    (reject,) = contents.rejects()
    assert reject["source"] == "turned.jpg"
    assert reject["reason"].startswith(
        "EXIF (orientation 6) would turn the picture, but not the coordinates in 'boxes'"
    )
    assert contents.dataset.manifest.configuration["coordinates"] == {"boxes": "relative", "vector": "none"}


def test_no_coordinates_no_reject(run: Run, manifest: Path) -> None:
    assert command(run, manifest, "--resize", "8x8", "--coordinates", "boxes=none,vector=none").status == 0
    contents = read_back(manifest.parent.parent / "n")
    assert contents.rejects() == []
    with Image.open(io.BytesIO(contents.example("turned.jpg")["image"][0])) as picture:
        assert picture.size == (8, 8)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (
            ("--resize", "8x8", "--resize_mode", "cover", "--coordinates", "boxes=relative,vector=none"),
            "in 'boxes' where they were",
        ),
        (("--resize", "8x8", "--coordinates", "boxes=pixels,vector=none"), "in 'boxes' where they were"),
        (
            ("--resize", "8x8", "--coordinates", "box=none"),
            "--coordinates box: no such column; the columns are age, boxes, vector",
        ),
        (("--resize", "8x8", "--coordinates", "boxes=yxyx"), "with each kind one of none, relative, pixels"),
        (("--resize", "8x8", "--coordinates", "boxes=none,boxes=pixels"), "names the column 'boxes' twice"),
        (
            ("--coordinates", "boxes=pixels"),
            "--coordinates is about the columns of a --manifest whose images are re-encoded",
        ),
    ],
)
def test_mistakes(run: Run, manifest: Path, flags: Any, sentence: str) -> None:
    result = command(run, manifest, *flags)

    assert result.status == 2
    assert sentence in result.err
