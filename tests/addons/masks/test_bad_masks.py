"""Masks and pairs that are no good: a reject with its reason."""

import numpy as np
import pytest
from PIL import Image

from tests.support.command import image
from tests.support.jobs import Built, Jobs
from tests.support.masks import encoded, pairs, picture, values

PAIRS = pairs(8)
MASKED = "images --input in/images --masks in/masks --max_reject_fraction 0.9"


def grid(top: int) -> np.ndarray:
    """A mask of 16 bits, with a value that 8 do not hold."""
    mask = values(1).astype(np.uint16)
    mask[0, 0] = top
    return mask


BAD = {
    "another size": (encoded(values(1, (12, 16))), "a mask of 12 x 16 pixels, where the image has 16 x 12: is it that"),
    "a row less": (encoded(values(1, (16, 11))), "a mask of 16 x 11 pixels, where the image has 16 x 12: is it that"),
    "damaged": (encoded(values(1))[:-20], "truncated: the png has no end"),
    "a flipped bit": (encoded(values(1)).replace(b"IDATx", b"IDATy"), "is damaged: its CRC is wrong"),
    "not an image": (b"mask", "not an image: the file starts with b'mask'"),
    "empty": (b"", "the file is empty"),
    "a jpeg": (encoded(values(1), "JPEG"), "a jpeg, which may not keep the value of a pixel: make a PNG of it"),
    "a webp": (encoded(values(1), "WEBP"), "a webp, which may not keep the value of a pixel: make a PNG of it"),
    "colours": (picture(values(1)), "a picture of colours, where a mask has one number a pixel"),
    "alpha": (
        encoded(Image.merge("LA", [Image.new("L", (16, 12), 255), Image.fromarray(values(1))])),
        "a picture of one colour, whose shape is in its transparency",
    ),
    "too large a value": (encoded(grid(300)), "a mask with the value 300, where a pixel's is a whole number from 0"),
    "turned itself": (encoded(values(1), orientation=6), "EXIF turns the mask itself"),
}


@pytest.mark.parametrize("flags", ["", "--resize 8x6"])
def test_bad_masks_are_rejects_with_their_reasons(jobs: Jobs, flags: str) -> None:
    files = {f"masks/b/{case}.png": content for case, (content, _) in BAD.items()}
    pictures = {name.replace("masks", "images"): picture(values(1)) for name in files}

    reasons = jobs.build(f"{MASKED} {flags}", files=PAIRS | files | pictures).reasons

    assert list(reasons) == sorted(name.removeprefix("masks/") for name in files)
    for case, (_, words) in BAD.items():
        assert reasons[f"b/{case}.png"].startswith("mask: ")
        assert words in reasons[f"b/{case}.png"]


def test_a_decompression_bomb_is_a_reject(jobs: Jobs) -> None:
    files = PAIRS | {"masks/b/1.png": encoded(values(1, (400, 300)))}
    ((_, reason),) = jobs.build(f"{MASKED} --max_pixels 1000", files=files).reasons.items()
    assert reason.startswith("mask: a png of 400 x 300 pixels is more than --max_pixels")


def test_a_turn_that_nothing_tells_is_a_reject(jobs: Jobs) -> None:
    reasons = jobs.build(MASKED, files=PAIRS | {"images/b/1.png": picture(values(1), 3)}).reasons
    assert "EXIF (orientation 3) turns the image, and nothing says whether its mask is" in reasons["b/1.png"]
    assert "give --masks_seen upright if masks are, else stored" in reasons["b/1.png"]


def test_what_has_no_counterpart_is_said(jobs: Jobs) -> None:
    files = PAIRS | {f"masks/b/more{n}.png": encoded(values(1)) for n in range(4)}
    del files["masks/b/1.png"]
    made = jobs.build(MASKED, files=files | {"masks/a/2.bmp": encoded(values(2), "BMP")})
    assert made.reasons == {
        "a/2.png": "two masks, a/2.bmp and a/2.png: which is it?",
        "b/1.png": "no mask: in/masks has none that is called as the image is, but for the suffix",
    }
    said = "6 masks have no image, and are left out: 'a/2.bmp', 'a/2.png', 'b/more0.png', …"
    assert said in made.notices


ROWS = [
    *({"file_name": f"images/a/{n}.png", "mask": f"masks/a/{n}.png", "next": f"images/b/{n + 1}.png"} for n in (0, 2)),
    {"file_name": "images/b/1.png", "mask": "", "next": "images/a/0.png"},
    {"file_name": "images/b/3.png", "mask": "masks/gone.png", "next": "images/a/0.png"},
    {"file_name": "images/b/5.png", "mask": "masks/b/5.png", "next": "bad.jpg"},
    {"file_name": "images/a/8.png", "mask": "../m.png", "next": "images/a/0.png"},
    {"file_name": "images/a/4.png", "mask": "masks/a/6.png", "next": "images/a/0.png"},
    {"file_name": "images/a/0.png", "mask": "masks/a/0.png", "next": "images/b/1.png"},
    {"file_name": "images/a/0.png", "mask": "masks/a/2.png", "next": "images/b/1.png"},
]


def test_bad_rows_are_rejects(jobs: Jobs) -> None:
    text = "".join(f"{','.join(row)}\n" for row in [[*ROWS[0]], *([*row.values()] for row in ROWS)])
    files = PAIRS | {"bad.jpg": image(1)[:40], "images/a/8.png": picture(values(8)), "m.csv": text}
    flags = "--mask_column mask --file_column file_name,next --max_reject_fraction 0.9"

    made: Built = jobs.build(f"images --manifest in/m.csv {flags}", files=files)

    found = {reject["source"]: reject["reason"] for reject in made.rejects}
    assert found == {
        "images/b/1.png": "the row has no mask",
        "images/b/3.png": "column 'mask': no such file: masks/gone.png",
        "images/b/5.png": found["images/b/5.png"],
        "images/a/8.png": "column 'mask': lies outside the manifest's folder; give --allow_outside if that is meant",
        "images/a/0.png": "duplicate of line 2 in in/m.csv",
    }
    assert found["images/b/5.png"].startswith("column 'next': truncated")
    assert len(made.contents.records["images/a/0.png"]) == 2  # another mask is another example
    (said,) = [notice for notice in made.notices if "missing" in notice]
    assert said == "1 file of the manifest is missing: 'masks/gone.png' was looked for in in/"


def test_too_many_bad_masks_publish_nothing(jobs: Jobs) -> None:
    jobs.fail(f"{MASKED[:-3]}0", "mask: the file is empty", files=PAIRS | {"masks/b/1.png": b""})
