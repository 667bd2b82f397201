"""Tests of addons/masks/folder.py: which mask of a folder is that of an image."""

from pathlib import Path

import pytest

from shardmill.addons.masks.folder import MaskFolder
from shardmill.errors import UserError
from tests.support.command import write_files


def masks(folder: Path, *names: str) -> MaskFolder:
    return MaskFolder(str(write_files(folder, dict.fromkeys(names, b"0123"))))


def test_a_mask_has_the_path_of_its_image_but_for_the_suffix(tmp_path: Path) -> None:
    found = masks(tmp_path, "a/1.png", "a/1.x.png", "b/1.bmp", "1.png")

    assert [found.find(name)[:2] for name in ("a/1.jpg", "a/1.x.jpeg", "b/1.JPG")] == [
        (f"{tmp_path}/a/1.png", 4),
        (f"{tmp_path}/a/1.x.png", 4),
        (f"{tmp_path}/b/1.bmp", 4),
    ]
    assert found.finish().notices == {"1 mask has no image, and is left out: '1.png'"}


def test_what_is_not_there_or_there_twice_is_told(tmp_path: Path) -> None:
    found = masks(tmp_path, "1.png", "1.gif", "2.txt")

    assert found.find("1.jpg") == "two masks, 1.gif and 1.png: which is it?"
    assert found.find("2.jpg") == f"no mask: {tmp_path} has none that is called as the image is, but for the suffix"
    with pytest.raises(UserError, match=r"the mask of '1.jpg' must be named '1'.*first file there is '1.gif'"):
        found.finish()


@pytest.mark.parametrize(
    ("mask", "pattern"),
    [("1_seg.png", "'{stem}_seg'"), ("gt/m-1.png", "'gt/m-{stem}'"), ("11.png", ""), ("1/1_seg.png", "")],
)
def test_the_pattern_that_a_message_advises_finds_the_mask(tmp_path: Path, mask: str, pattern: str) -> None:
    found = masks(tmp_path, mask)
    assert "no mask" in str(found.find("1.jpg"))
    with pytest.raises(UserError) as raised:
        found.finish()
    assert str(raised.value).partition("; give --mask_pattern ")[2] == pattern
    if pattern:
        assert MaskFolder(str(tmp_path), pattern.strip("'")).find("1.jpg")[0] == f"{tmp_path}/{mask}"
