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

from shardmill.addons.near_duplicates import observer, options
from shardmill.pipelines import cli
from shardmill.transforms.files.image_encoder import ImageEncoder
from tests.support.command import Run, write_files
from tests.support.image_jobs import ImageJobs
from tests.support.masks import CHANGES, encoded, jpeg, photograph

STATS = "n/1.0.0/stats.json"


def near_in(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / STATS).read_text())["near_duplicates"]
    return found


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 pictures in train; in test one more of each change of one of them, and two of their own."""
    files = {f"train/a/{n}.jpg": jpeg(photograph(n)) for n in range(12)}
    files |= {f"test/a/like-{n}.jpg": change(photograph(n)) for n, change in enumerate(CHANGES.values())}
    files |= {f"test/b/own-{n}.jpg": jpeg(photograph(n)) for n in (100, 101)}
    folder = write_files(tmp_path_factory.mktemp("near") / "in", files)
    for path in folder.rglob("*.*"):
        os.utime(path, (time.time() - 60,) * 2)  # of what is written just now nobody knows whether it will be again
    return folder


@pytest.fixture(scope="module")
def made(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of a job with the flag, all else by default."""
    folder = tmp_path_factory.mktemp("made")
    where = ["--input", str(source), "--output", str(folder), "--name", "n"]
    assert cli.main(["images", *where, "--near_duplicates"]) == 0
    return folder


LIKE = [(f"test/a/like-{n}.jpg", f"train/a/{n}.jpg") for n in range(len(CHANGES))]


@pytest.mark.parametrize(
    "flags", [("--num_shards", "2"), ("--resize", "64x64"), ("--verify", "none", "--num_shards", "3", "--threads", "3")]
)
def test_what_looks_alike_is_found_and_nothing_else(
    flags: tuple[str, ...], source: Path, run: Run, tmp_path: Path
) -> None:
    result = run("images", "--input", source, "--output", tmp_path, "--name", "n", "--near_duplicates", *flags)

    assert result.status == 0, result.err
    assert "NOTE: 6 pictures of 'test' look like another in 'train', such as 'test/a/like-" in result.out
    assert "some of these are different pictures" in result.out
    near = near_in(tmp_path)
    assert sorted((pair["one"]["name"], pair["other"]["name"]) for pair in near["pairs"]) == LIKE
    assert near["across"] == {"test": {"train": 6}, "train": {"test": 6}}
    assert near["elsewhere"] == {"test": 6, "train": 6}
    assert (near["within"], near["compared"], near["number_of_pairs"]) == ({}, 20, 6)
    assert all(pair["distance"] <= near["distance"] == 4 for pair in near["pairs"])


def test_within_a_split_too_and_equal_pictures_are_none(images: ImageJobs) -> None:
    pictures = [jpeg(photograph(0)), jpeg(photograph(0)), CHANGES["at half the size"](photograph(0))]

    images.make({f"{n}.jpg": data for n, data in enumerate(pictures)}, "--near_duplicates")

    near = near_in(Path("out"))
    assert (near["within"], near["number_of_pairs"], len(near["pairs"])) == ({"train": 3}, 1, 1)


def test_flat_pictures_and_those_that_do_not_decode_are_left_out_and_said(images: ImageJobs) -> None:
    files = {f"flat-{n}.jpg": jpeg(Image.new("RGB", (60, 40), (n, n, 40))) for n in (0, 90, 250)}
    grain = np.random.default_rng(1).normal(128, 2, (90, 90, 3)).clip(0, 255).astype(np.uint8)
    files["grain.png"] = encoded(Image.fromarray(grain))
    files |= {"1.jpg": jpeg(photograph(1)), "cut.jpg": jpeg(photograph(1))[:-900]}

    result = images.start(files, "--near_duplicates --verify none")

    assert "near duplicates: not compared: 4 of nearly one colour, which all hash alike and 1 that do not" in result.out
    near = near_in(Path("out"))
    assert (near["flat"], near["undecodable"], near["compared"], near["pairs"]) == (4, 1, 1, [])


def test_the_next_build_takes_hashes_from_the_former_and_counts_the_same(
    source: Path, made: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hash kept with the file is not computed again; one that is not kept is, from the record, without the file."""
    base = ("images", "--input", source, "--output", tmp_path, "--name", "n")
    run(*base, "--reuse", "record")  # looks at nothing
    looked: list[int] = []
    look: Callable[[bytes], str] = observer.perceptual_hash

    def counting(data: bytes) -> str:
        looked.append(len(data))
        return look(data)

    monkeypatch.setattr(observer, "perceptual_hash", counting)
    for version, expected in (("1.1.0", 20), ("1.2.0", 0)):
        looked.clear()
        result = run(*base, "--near_duplicates", "--reuse", "LATEST", "--version", version)
        assert "20 of 20 files taken from" in result.out
        assert len(looked) == expected
        stats = json.loads((tmp_path / "n" / version / "stats.json").read_text())
        assert stats["near_duplicates"] == near_in(made)


def test_reports_show_the_pairs(made: Path, run: Run) -> None:
    near = near_in(made)

    inspected = run("inspect", made / "n")
    assert "at most 4 bits apart): 6 pairs; hashes that are near are no proof" in inspected.out
    assert json.loads(run("inspect", made / "n", "--json").out)["near_duplicates"] == near
    reported = json.loads(run("report", made / "n", "--json").out)
    assert reported["near_duplicates"] == near
    (check,) = (check for check in reported["verdict"]["checks"] if check["check"] == "similar_contents")
    assert check["severity"] == "warn"
    assert "6 of 8 pictures of 'test' look like one of another split" in check["sentence"]
    section = section_of(made)
    assert "some of these are different pictures" in section
    assert section.count("<img ") == 12


def section_of(folder: Path) -> str:
    page = (folder / "n/builds/1.0.0.html").read_text()
    return page[page.index("<h2>Near duplicates</h2>") : page.index(">Rejected</h2>")]


def test_pictures_in_gzip_are_not_shown(source: Path, run: Run, tmp_path: Path) -> None:
    where = ("--input", source, "--output", tmp_path, "--name", "n")
    assert run("images", *where, "--near_duplicates", "--compression", "gzip").status == 0
    assert "<img " not in section_of(tmp_path)


def test_who_lacks_the_library_is_told_what_to_install(images: ImageJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "find_spec", lambda name: None)
    words = ("--near_duplicates needs the library imagehash; ", "[near_duplicates]")
    images.refuse({"a.jpg": jpeg(photograph(0))}, "--near_duplicates", *words)


def test_images_that_are_observed_are_not_encoded_by_compiled_code() -> None:
    assert ImageEncoder("folder").is_compiled
    assert not ImageEncoder("folder", observer=observer.OBSERVER).is_compiled
