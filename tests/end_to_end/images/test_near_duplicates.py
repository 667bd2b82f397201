"""--near_duplicates: pictures that look alike are counted, listed, shown and checked."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shardmill.pipelines.config import images
from tests.support.command import Run, write_files
from tests.support.masks import encoded
from tests.support.photographs import CHANGES, jpeg, photograph

Bytes = dict[str, bytes]
STATS = "n/1.0.0/stats.json"


def _files() -> Bytes:
    """12 pictures in train; in test one more of each change of one of them, and two of their own."""
    found = {f"train/a/{n}.jpg": jpeg(photograph(n)) for n in range(12)}
    for number, change in enumerate(CHANGES.values()):
        found[f"test/a/like-{number}.jpg"] = change(photograph(number))
    return found | {f"test/a/own-{n}.jpg": jpeg(photograph(n)) for n in (100, 101)}


def _near(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / STATS).read_text())["near_duplicates"]
    return found


def _pairs(near: dict[str, Any]) -> list[tuple[str, str]]:
    return [(pair["one"]["name"], pair["other"]["name"]) for pair in near["pairs"]]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `_files`."""
    folder = tmp_path_factory.mktemp("near") / "in"
    write_files(folder, _files())
    for path in folder.rglob("*.*"):
        os.utime(path, (time.time() - 60,) * 2)  # of what is written just now nobody knows whether it will be again
    return folder


LIKE = [(f"test/a/like-{n}.jpg", f"train/a/{n}.jpg") for n in range(len(CHANGES))]


@pytest.mark.parametrize(
    "flags", [(), ("--resize", "64x64"), ("--verify", "none"), ("--num_shards", "3", "--threads", "3")]
)
def test_what_looks_alike_is_found_and_nothing_else(
    flags: tuple[str, ...], source: Path, run: Run, tmp_path: Path
) -> None:
    result = run("images", "--input", source, "--output", tmp_path, "--name", "n", "--near_duplicates", *flags)

    assert result.status == 0, result.err
    assert "NOTE: 6 pictures of 'test' look like another in 'train', such as 'test/a/like-" in result.out
    assert "some of these are different pictures" in result.out
    near = _near(tmp_path)
    assert sorted(_pairs(near)) == LIKE
    assert (near["across"], near["elsewhere"]) == (
        {"test": {"train": 6}, "train": {"test": 6}},
        {"test": 6, "train": 6},
    )
    assert (near["within"], near["compared"], near["number_of_pairs"]) == ({}, 20, 6)
    assert all(pair["distance"] <= near["distance"] == 4 for pair in near["pairs"])


def test_without_the_flag_nobody_looks(source: Path, run: Run, tmp_path: Path) -> None:
    result = run("images", "--input", source, "--output", tmp_path, "--name", "n")

    assert "look like" not in result.out
    assert "near_duplicates" not in json.loads((tmp_path / STATS).read_text())
    assert "near_duplicates" not in json.loads((tmp_path / "n/1.0.0/manifest.json").read_text())["configuration"]


def test_within_a_split_too_and_equal_pictures_are_none(run: Run, tmp_path: Path) -> None:
    pictures = {
        "0": jpeg(photograph(0)),
        "0-again": jpeg(photograph(0)),
        "0-small": CHANGES["at half the size"](photograph(0)),
    }
    write_files(tmp_path / "in", {f"train/a/{name}.jpg": data for name, data in pictures.items()})

    run("images", "--input", tmp_path / "in", "--output", tmp_path, "--name", "n", "--near_duplicates")

    near = _near(tmp_path)
    assert (near["within"], near["number_of_pairs"]) == ({"train": 3}, 1)
    assert len(near["pairs"]) == 1


def test_flat_pictures_and_those_that_do_not_decode_are_left_out_and_said(run: Run, tmp_path: Path) -> None:
    flat = {f"train/a/flat-{n}.jpg": jpeg(Image.new("RGB", (60, 40), (n, n, 40))) for n in (0, 90, 250)}
    grain = np.random.default_rng(1).normal(128, 2, (90, 90, 3)).clip(0, 255).astype(np.uint8)
    flat["train/a/grain.png"] = encoded(Image.fromarray(grain))
    cut = {"train/a/cut.jpg": jpeg(photograph(1))[:-900]}
    write_files(tmp_path / "in", {"train/a/1.jpg": jpeg(photograph(1)), **flat, **cut})

    flags = ("--near_duplicates", "--verify", "none")
    result = run("images", "--input", tmp_path / "in", "--output", tmp_path, "--name", "n", *flags)

    assert "near duplicates: not compared: 4 of nearly one colour, which all hash alike and 1 that do not" in result.out
    near = _near(tmp_path)
    assert (near["flat"], near["undecodable"], near["compared"], near["pairs"]) == (4, 1, 1, [])


def test_the_next_build_takes_hashes_from_the_former_and_counts_the_same(
    source: Path, run: Run, tmp_path: Path
) -> None:
    """A hash kept with the file is not computed again; one that is not kept is, from the record, without the file."""
    base = ("images", "--input", source, "--output", tmp_path, "--name", "n")
    run(*base, "--reuse", "record")  # looks at nothing
    looked: list[int] = []

    def counting(of: Callable[[bytes], str]) -> Callable[[bytes], str]:
        def look(data: bytes) -> str:
            looked.append(len(data))
            return of(data)

        return look

    found = []
    with pytest.MonkeyPatch.context() as patch:
        from shardmill.transforms.files import image_codec

        patch.setattr(image_codec, "perceptual_hash", counting(image_codec.perceptual_hash))
        for version, expected in (("1.1.0", 20), ("1.2.0", 0)):
            looked.clear()
            result = run(*base, "--near_duplicates", "--reuse", "LATEST", "--version", version)
            assert "20 of 20 files taken from" in result.out
            assert len(looked) == expected
            found.append(json.loads((tmp_path / "n" / version / "stats.json").read_text())["near_duplicates"])
    fresh = run("images", "--input", source, "--output", tmp_path / "fresh", "--name", "n", "--near_duplicates")

    assert fresh.status == 0
    assert found == [_near(tmp_path / "fresh")] * 2


@pytest.mark.parametrize("flags", [(), ("--compression", "gzip")])
def test_reports_show_the_pairs(flags: tuple[str, ...], source: Path, run: Run, tmp_path: Path) -> None:
    run("images", "--input", source, "--output", tmp_path, "--name", "n", "--near_duplicates", *flags)
    near = _near(tmp_path)

    inspected = run("inspect", tmp_path / "n")
    assert "at most 4 bits apart): 6 pairs; hashes that are near are no proof" in inspected.out
    assert json.loads(run("inspect", tmp_path / "n", "--json").out)["near_duplicates"] == near
    reported = json.loads(run("report", tmp_path / "n", "--json").out)
    assert reported["near_duplicates"] == near
    checks = {check["check"]: check for check in reported["verdict"]["checks"]}
    assert checks["similar_contents"]["severity"] == "warn"
    assert "6 of 8 pictures of 'test' look like one of another split" in checks["similar_contents"]["sentence"]
    page = (tmp_path / "n/builds/1.0.0.html").read_text()
    section = page[page.index("<h2>Near duplicates</h2>") : page.index("<h2>Rejected</h2>")]
    assert "some of these are different pictures" in section
    assert section.count("<img ") == (0 if flags else 12)


def test_who_lacks_the_library_is_told_what_to_install(
    source: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "find_spec", lambda name: None)

    result = run("images", "--input", source, "--output", tmp_path, "--name", "n", "--near_duplicates")

    assert result.status == 2
    assert "--near_duplicates needs the library imagehash; " in result.err
    assert "[near_duplicates]" in result.err
    assert not (tmp_path / "n").exists()
