"""What is wrong with masks and pairs: a reject with its reason, or one sentence and status 2."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.command import Run, check_failure, check_mistake, image, read_back, write_files
from tests.support.masks import encoded, picture, values, write_pairs


def rejected(run: Run, folder: Path, *flags: object) -> dict[str, str]:
    """The reasons of rejects by the names of their files."""
    result = run("images", *flags, "--output", folder / "out", "--name", "n", "--max_reject_fraction", 0.9)
    assert result.status == 0, result.err
    return {reject["source"]: reject["reason"] for reject in read_back(folder / "out/n").rejects()}


def grid(top: int) -> np.ndarray:
    """A mask of 16 bits, with a value that 8 do not hold."""
    mask = values(1).astype(np.uint16)
    mask[0, 0] = top
    return mask


TURNED = encoded(values(1), orientation=6)
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
    "too large a value": (encoded(grid(300)), "a mask with the value 300, where a pixel's is a whole number from 0"),
    "turned itself": (TURNED, "EXIF turns the mask itself"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("flags", [(), ("--resize", "8x6")])
def test_a_bad_mask_is_a_reject_with_its_reason(run: Run, tmp_path: Path, case: str, flags: tuple[str, ...]) -> None:
    content, reason = BAD[case]
    write_pairs(tmp_path)
    write_files(tmp_path, {"masks/b/1.png": content})

    found = rejected(run, tmp_path, "--input", tmp_path / "images", "--masks", tmp_path / "masks", *flags)

    assert list(found) == ["b/1.png"]
    assert found["b/1.png"].startswith("mask: ")
    assert reason in found["b/1.png"]


def test_a_decompression_bomb_is_a_reject(run: Run, tmp_path: Path) -> None:
    write_pairs(tmp_path)
    write_files(tmp_path, {"masks/b/1.png": encoded(values(1, (400, 300)))})
    where = ("--input", tmp_path / "images", "--masks", tmp_path / "masks", "--max_pixels", 1000)

    assert rejected(run, tmp_path, *where)["b/1.png"].startswith("mask: 400 x 300 pixels are more than --max_pixels")


def test_a_turn_that_nothing_tells_is_a_reject(run: Run, tmp_path: Path) -> None:
    write_pairs(tmp_path)
    write_files(tmp_path, {"images/b/1.png": picture(values(1), 3)})

    found = rejected(run, tmp_path, "--input", tmp_path / "images", "--masks", tmp_path / "masks")

    assert "EXIF (orientation 3) turns the image, and nothing says whether its mask is" in found["b/1.png"]
    assert "give --masks_seen upright if masks are, else stored" in found["b/1.png"]


def test_what_has_no_counterpart_is_said(run: Run, tmp_path: Path) -> None:
    write_pairs(tmp_path)
    (tmp_path / "masks/b/1.png").unlink()
    write_files(tmp_path, {f"masks/b/more{n}.png": encoded(values(1)) for n in range(4)})
    write_files(tmp_path, {"masks/a/2.bmp": encoded(values(2), "BMP")})

    found = rejected(run, tmp_path, "--input", tmp_path / "images", "--masks", tmp_path / "masks")
    notices = read_back(tmp_path / "out/n").dataset.manifest.notices

    assert found == {
        "a/2.png": "two masks, a/2.bmp and a/2.png: which is it?",
        "b/1.png": f"no mask: {tmp_path}/masks has none that is called as the image is, but for the suffix",
    }
    said = "6 masks have no image, and are left out: 'a/2.bmp', 'a/2.png', 'b/more0.png', …"
    assert said in notices


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--masks", "gone"), ("--masks gone: no such folder",)),
        (("--masks", "none"), ("--masks none: there is no image in that folder",)),
        (("--masks", "other"), ("none of the images has a mask there", "must be named 'a/0'", "'x.png'")),
        (("--masks", "mas*"), ("--masks mas*: expected a folder, not a glob",)),
        (("--masks", "images/a"), ("--masks images/a is in --input images", "next to a/")),
        (("--masks", "masks", "--verify", "none"), ("--verify none contradicts --masks masks",)),
        (("--masks_seen", "stored"), ("--masks_seen stored is about the masks of --masks or --mask_column",)),
        (("--mask_column", "mask"), ("--mask_column mask is about a --manifest", "--masks is the folder")),
        (("--file_column", "a,b"), ("--file_column a,b is about a --manifest",)),
    ],
)
def test_mistakes_with_folders_are_one_sentence(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], words: tuple[str, ...]
) -> None:
    write_pairs(tmp_path)
    write_files(tmp_path, {"none/a.txt": b"", "other/x.png": encoded(values(1))})
    monkeypatch.chdir(tmp_path)

    check_mistake(run("images", "--input", "images", *flags, "--output", "out", "--name", "n"), *words)
    assert not (tmp_path / "out/n").exists()


def test_images_beside_masks_are_told_the_flag(run: Run, tmp_path: Path) -> None:
    write_pairs(tmp_path / "in")

    result = run("images", "--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "n")

    check_mistake(result, f"give --input {tmp_path}/in/images --masks {tmp_path}/in/masks; or")


ROWS = [{"file_name": f"images/a/{n}.png", "mask": f"masks/a/{n}.png", "next": f"images/b/{n + 1}.png"} for n in (0, 2)]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--mask_column", "gone"), ("--mask_column gone: ", "it", "m")),
        (("--file_column", "file_name,gone"), ("--file_column gone: ",)),
        (("--masks", "masks"), ("--masks masks is about the images of --input, --coco", "--mask_column says")),
        (("--mask_column", "mask,mask"), ("--mask_column: the column mask is there twice",)),
        (("--mask_column", "mask", "--file_column", "file_name,mask"), ("the column mask is there twice among",)),
        (("--file_column", "file_name,file_name"), ("the column file_name is there twice",)),
        (("--mask_column", "label"), ("--mask_column label: the column label is used for something else",)),
        (("--mask_column", "image_file_name"), ("its feature would be called 'image'",)),
        (("--mask_column", ""), ("names a column without a name",)),
        (("--mask_column", "mask", "--rename", "mask=image"), ("image",)),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_mistakes_with_columns_are_one_sentence(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    words: tuple[str, ...],
    suffix: str,
) -> None:
    write_pairs(tmp_path)
    write_rows(tmp_path / f"m.{suffix}", ROWS)
    monkeypatch.chdir(tmp_path)

    check_mistake(run("images", "--manifest", f"m.{suffix}", *flags, "--output", "out", "--name", "n"), *words)


def write_rows(path: Path, rows: list[dict[str, str]]) -> None:
    if path.suffix == ".csv":
        text = "".join(f"{','.join(row)}\n" for row in [[*rows[0]], *([*row.values()] for row in rows)])
    else:
        text = "".join(f"{json.dumps({name: value for name, value in row.items() if value})}\n" for row in rows)
    path.write_text(text)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_bad_rows_are_rejects(run: Run, tmp_path: Path, suffix: str) -> None:
    write_pairs(tmp_path)
    write_files(tmp_path, {"bad.jpg": image(1)[:40], "images/a/8.png": picture(values(8))})
    rows = [
        *ROWS,
        {"file_name": "images/b/1.png", "mask": "", "next": "images/a/0.png"},
        {"file_name": "images/b/3.png", "mask": "masks/gone.png", "next": "images/a/0.png"},
        {"file_name": "images/b/5.png", "mask": "masks/b/5.png", "next": "bad.jpg"},
        {"file_name": "images/a/8.png", "mask": "../m.png", "next": "images/a/0.png"},
        {"file_name": "images/a/4.png", "mask": "masks/a/6.png", "next": "images/a/0.png"},
        dict(ROWS[0]),
        {**ROWS[0], "mask": "masks/a/2.png"},
    ]
    write_rows(tmp_path / f"m.{suffix}", rows)
    flags = ("--manifest", tmp_path / f"m.{suffix}", "--mask_column", "mask", "--file_column", "file_name,next")

    found = rejected(run, tmp_path, *flags)
    made = read_back(tmp_path / "out/n")

    assert found == {
        "images/b/1.png": "the row has no mask",
        "images/b/3.png": "column 'mask': no such file: masks/gone.png",
        "images/b/5.png": found["images/b/5.png"],
        "images/a/8.png": "column 'mask': lies outside the manifest's folder; give --allow_outside if that is meant",
        "images/a/0.png": f"duplicate of line {1 + (suffix == 'csv')} in {tmp_path}/m.{suffix}",
    }
    assert found["images/b/5.png"].startswith("column 'next': truncated")
    assert len(made.records["images/a/0.png"]) == 2  # another mask is another example
    (said,) = [notice for notice in made.dataset.manifest.notices if "missing" in notice]
    assert said == f"1 file of the manifest is missing: 'masks/gone.png' was looked for in {tmp_path}/"


def test_a_manifest_without_any_mask_there_is_one_sentence(run: Run, tmp_path: Path) -> None:
    write_pairs(tmp_path)
    write_rows(tmp_path / "m.csv", [{"file_name": row["file_name"], "mask": f"x{row['mask']}"} for row in ROWS])
    flags = ("--manifest", tmp_path / "m.csv", "--mask_column", "mask", "--output", tmp_path / "out", "--name", "n")

    check_mistake(run("images", *flags), "none of its 2 files is there; 'xmasks/a/0.png' was looked for in")


def test_too_many_bad_masks_publish_nothing(run: Run, tmp_path: Path) -> None:
    write_pairs(tmp_path)
    write_files(tmp_path, {"masks/b/1.png": b""})
    flags = ("--input", tmp_path / "images", "--masks", tmp_path / "masks", "--output", tmp_path / "out")

    check_failure(run("images", *flags, "--name", "n", "--max_reject_fraction", 0), "mask: the file is empty")
