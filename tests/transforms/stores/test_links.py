"""Symbolic links below a manifest's folder: followed within it, and out of it only where that is allowed."""

import os
from pathlib import Path

import pytest

from shardmill.transforms.stores.local import LinksInside
from tests.support.command import Run, image, read_back, write_files

INSIDE = ("a/one.jpg", "same.jpg", "folder/two.jpg")
OUTSIDE = ("there.jpg", "up.jpg", "way/secret.jpg", "way/deep/secret.jpg", "b/again.jpg", "near.jpg")
MISSING = ("gone.jpg", "a/none.jpg", "loop.jpg")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with images, and links that lead to them, to images outside, to folders in and out, and nowhere."""
    inside = write_files(tmp_path / "in", {"a/one.jpg": image(1), "a/two.jpg": image(5), "b/.keep": b""})
    outside = write_files(tmp_path / "out", {"secret.jpg": image(2), "deep/secret.jpg": image(3)})
    write_files(tmp_path / "in2", {"secret.jpg": image(4)})  # whose name begins as that of the folder does
    links = {
        "same.jpg": "a/one.jpg",
        "folder": "a",
        "there.jpg": os.fspath(outside / "secret.jpg"),
        "up.jpg": "../out/secret.jpg",
        "way": os.fspath(outside),
        "b/again.jpg": "../up.jpg",
        "near.jpg": "../in2/secret.jpg",
        "gone.jpg": "a/nothing.jpg",
        "loop.jpg": "loop.jpg",
    }
    for name, target in links.items():
        (inside / name).symlink_to(target)
    return inside


def test_links_inside(folder: Path) -> None:
    alias = folder.parent / "alias"
    alias.symlink_to(folder)
    for root in (folder, alias):
        inside = LinksInside(str(root))
        for name in (*INSIDE, *MISSING):
            assert inside(f"{root}/{name}"), name
        for name in OUTSIDE:
            assert not inside(f"{root}/{name}"), name


def test_everything_is_inside_the_root() -> None:
    assert LinksInside("/")(os.path.realpath(__file__))


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_manifest_s_links(run: Run, folder: Path, tmp_path: Path, suffix: str) -> None:
    names = (*INSIDE, *OUTSIDE)
    lines = [f'{{"file_name": "{name}"}}' for name in names] if suffix == "jsonl" else ["file_name", *names]
    (folder / f"m.{suffix}").write_text("".join(f"{line}\n" for line in lines))
    command = ("images", "--manifest", folder / f"m.{suffix}", "--output", tmp_path / "sets", "--name", "n")

    assert run(*command, "--max_reject_fraction", "1").status == 0
    found = read_back(tmp_path / "sets" / "n" / "1.0.0")
    assert sorted(found.records) == sorted(INSIDE)
    assert sorted(reject["source"] for reject in found.rejects()) == sorted(OUTSIDE)
    assert {reject["reason"] for reject in found.rejects()} == {
        "a symbolic link leads outside the manifest's folder; give --allow_outside if that is meant"
    }

    assert run(*command, "--overwrite", "--allow_outside").status == 0
    found = read_back(tmp_path / "sets" / "n" / "1.0.0")
    assert sorted(found.records) == sorted(names)
    assert found.rejects() == []
