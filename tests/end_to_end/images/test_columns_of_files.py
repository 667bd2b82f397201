"""A manifest's column that names further images, such as masks: its text is stored, and that is said."""

import json
from pathlib import Path

import pytest

from shardmill.reading.dataset import open_dataset
from tests.support.command import Run, image, write_files

SAID = "column 'mask' names image files, such as 'masks/0.png', and is stored as their names: what these files hold is"


def notices(run: Run, folder: Path, masks: list[str | None], there: list[str]) -> list[str]:
    rows = [{"file_name": f"{row}.jpg", "mask": mask, "text": f"a {row}"} for row, mask in enumerate(masks)]
    pictures = {f"{row}.jpg": image(row) for row in range(len(masks))}
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    write_files(folder, {**pictures, **{name: image(9) for name in there}, "meta.jsonl": text.encode()})
    result = run("images", "--manifest", folder / "meta.jsonl", "--output", folder / "out", "--name", "n")
    assert result.status == 0, result.err
    return [notice for notice in open_dataset(folder / "out/n").manifest.notices if "column" in notice]


@pytest.mark.parametrize("masks", [["masks/0.png", "masks/1.png"], ["masks/0.png", None]])
def test_names_of_images_are_said_to_be_names(run: Run, tmp_path: Path, masks: list[str | None]) -> None:
    (notice,) = notices(run, tmp_path, masks, ["masks/0.png"])
    assert notice.startswith(SAID)
    assert notice.endswith("; --mask_column mask makes masks of them, --file_column file_name,mask further images")


@pytest.mark.parametrize(
    ("masks", "there"),
    [
        (["masks/0.png", "no mask"], ["masks/0.png"]),
        (["masks/0.png", "masks/1.png"], []),
        (["../0.png", "../0.png"], ["../0.png"]),
        (["https://x/0.png", "https://x/1.png"], []),
    ],
)
def test_other_texts_are_texts(run: Run, tmp_path: Path, masks: list[str | None], there: list[str]) -> None:
    assert notices(run, tmp_path / "in", masks, there) == []
