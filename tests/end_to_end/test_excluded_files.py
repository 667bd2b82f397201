"""--exclude, also called --ignore: files and folders of the input that are left out, in every command."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardmill.data.example import decode_example
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run, check_mistake, image, image_tree, read_back, write_files
from tests.support.sounds import wav


def array(number: int) -> bytes:
    out = io.BytesIO()
    np.save(out, np.full((2, 2), number, np.uint8))
    return out.getvalue()


@pytest.mark.parametrize(
    ("command", "suffix", "make", "flags"),
    [
        ("images", "png", lambda number: image(number, "PNG"), ()),
        ("arrays", "npy", array, ()),
        ("audio", "wav", lambda number: wav(number=number), ()),
        ("text", "txt", lambda number: b"line %d\n" % number, ("--record", "file")),
        ("text", "txt", lambda number: b"line %d\n" % number, ()),
        ("csv", "csv", lambda number: b"x\n%d\n" % number, ()),
        ("jsonl", "jsonl", lambda number: b'{"x": %d}\n' % number, ()),
    ],
)
def test_all_commands_leave_out_and_count(
    run: Run, tmp_path: Path, command: str, suffix: str, make: Any, flags: tuple[str, ...]
) -> None:
    names = ("a/0", "a/1", "thumbs/2", "thumbs/3", "b/bad_4", "b/5")
    folder = write_files(tmp_path / "in", {f"{name}.{suffix}": make(number) for number, name in enumerate(names)})
    patterns = ("--exclude", "thumbs", "--ignore", "bad_*", "--exclude", "*.tmp")
    result = run(command, "--input", folder, "--output", tmp_path / "out", "--name", "n", *patterns, *flags)
    assert result.status == 0, result.err
    manifest = open_dataset(str(tmp_path / "out/n")).manifest
    assert [split.examples for split in manifest.splits] == [3]
    for notice in (
        f"passed over 2 files that --exclude thumbs leaves out, such as 'thumbs/2.{suffix}'",
        f"passed over 1 file that --exclude bad_* leaves out, such as 'b/bad_4.{suffix}'",
        "passed over 1 pattern of --exclude without a file, such as '*.tmp'",
    ):
        assert notice in manifest.notices
        assert notice in result.out


def test_an_excluded_folder_is_no_class(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant", "bee", "train_masks"), 2))
    output = ("--output", tmp_path / "out", "--name", "n")
    check_mistake(run("images", "--input", folder, *output), "'train_masks' would be a class", "--exclude train_masks")
    assert run("images", "--input", folder, "--exclude", "train_masks", *output).status == 0
    contents = read_back(tmp_path / "out/n")
    assert sorted(contents.records) == sorted(image_tree(("ant", "bee"), 2))
    assert (contents.directory / "label.labels.txt").read_text() == "ant\nbee\n"
    assert contents.dataset.manifest.configuration["exclude"] == ["train_masks"]


def test_all_files_are_excluded(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant",), 2))
    result = run("images", "--input", folder, "--output", tmp_path / "out", "--name", "n", "--exclude", "*.jpg")
    check_mistake(result, "no images", "2 files that --exclude *.jpg leaves out, such as 'ant/000.jpg'")


@pytest.mark.parametrize("pattern", ["", "/"])
def test_a_pattern_that_matches_no_name(run: Run, tmp_path: Path, pattern: str) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant",), 2))
    result = run("images", "--input", folder, "--output", tmp_path / "out", "--name", "n", "--exclude", pattern)
    check_mistake(result, "--exclude", "expected the name of a file or folder")


def test_a_table_of_images_says_which_there_are(run: Run, tmp_path: Path) -> None:
    rows = b"file_name,caption\nant/000.jpg,one\n"
    folder = write_files(tmp_path / "in", {**image_tree(("ant", "bee"), 2), "metadata.csv": rows})
    output = ("--output", tmp_path / "out", "--name", "n")
    manifest = ("--manifest", folder / "metadata.csv")
    check_mistake(run("images", *manifest, "--exclude", "bee", *output), "--exclude bee", "--manifest")
    both = ("--input", folder, "--exclude", "bee")
    check_mistake(run("images", *both, *output), "--exclude metadata.csv")
    assert run("images", *both, "--exclude", "metadata.csv", *output).status == 0
    (first, _) = read_back(tmp_path / "out/n").records.items()
    assert "caption" not in decode_example(first[1][0])
