"""--coordinates: columns of a manifest that may hold boxes or points of pictures that are resized or turned."""

import json

import pytest
from PIL import Image

from tests.support.command import image
from tests.support.image_jobs import ImageJobs, picture

EXIF = Image.Exif()
EXIF[0x0112] = 6
# Two pictures, one of which EXIF turns, with boxes and a vector of four
ROWS = [
    {"file_name": name, "boxes": [[0, 0.5, 1, 1]] * number, "vector": [1, 2, 3, 4], "age": 7}
    for number, name in enumerate(("plain.jpg", "turned.jpg"), 1)
]
FILES = {"plain.jpg": image(1), "turned.jpg": image(2, exif=EXIF.tobytes())}
FILES["meta.jsonl"] = "".join(f"{json.dumps(row)}\n" for row in ROWS).encode()
MANIFEST, RESIZED = "--manifest in/meta.jsonl", "--manifest in/meta.jsonl --resize 8x8"


@pytest.mark.parametrize("flags", [RESIZED, f"{RESIZED} --dry_run", f"{MANIFEST} --image_format png"])
def test_columns_that_may_hold_coordinates_stop_the_job_and_are_named(images: ImageJobs, flags: str) -> None:
    words = (": 'boxes' (any number x 4), 'vector' (4)", "--coordinates boxes=…,vector=…, each one of relative")
    images.refuse(FILES, flags, *words)


def test_images_that_pass_through_keep_their_boxes(images: ImageJobs) -> None:
    contents = images.make(FILES, MANIFEST)
    assert contents.records.keys() == {"plain.jpg", "turned.jpg"}
    assert any("EXIF" in notice for notice in contents.dataset.manifest.notices)


def test_fractions_stay_true_and_a_picture_that_exif_turns_is_a_reject(images: ImageJobs) -> None:
    contents = images.make(FILES, f"{RESIZED} --coordinates boxes=relative,vector=none --max_reject_fraction 0.5")
    assert list(contents.example("plain.jpg")["boxes"]) == [0, 0.5, 1, 1]
    (reject,) = contents.rejects()
    assert reject["source"] == "turned.jpg"
    said = "EXIF (orientation 6) would turn the picture, but not the coordinates in 'boxes'"
    assert reject["reason"].startswith(said)
    assert contents.dataset.manifest.configuration["coordinates"] == {"boxes": "relative", "vector": "none"}


def test_no_coordinates_no_reject(images: ImageJobs) -> None:
    contents = images.make(FILES, f"{RESIZED} --coordinates boxes=none,vector=none")
    assert contents.rejects() == []
    assert picture(contents, "turned.jpg").size == (8, 8)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (f"{RESIZED} --resize_mode cover --coordinates boxes=relative,vector=none", "in 'boxes' where they were"),
        (f"{RESIZED} --coordinates boxes=pixels,vector=none", "in 'boxes' where they were"),
        (f"{RESIZED} --coordinates box=none", "--coordinates box: no such column; the columns are age, boxes, vector"),
        (f"{RESIZED} --coordinates boxes=yxyx", "kinds are none, relative, pixels"),
        (f"{RESIZED} --coordinates boxes=none,boxes=pixels", "boxes=… is given twice"),
        (
            f"{MANIFEST} --coordinates boxes=pixels",
            "--coordinates is about the columns of a --manifest whose images are re-encoded",
        ),
    ],
)
def test_mistakes(images: ImageJobs, flags: str, words: str) -> None:
    images.refuse(FILES, flags, words)
