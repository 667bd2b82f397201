"""Versions, repeated and failed runs, dry runs, and the flags of Beam."""

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shardmill.pipelines.reports.summary import format_range
from tests.support.command import Contents, Run, image, image_tree, read_back, tree_bytes, write_files
from tests.support.image_jobs import SPLITS, TREE, convert, counts


def test_version_and_latest(run: Run, tree: Path, tmp_path: Path) -> None:
    convert(run, tree / "ant", tmp_path)
    contents = convert(run, tree, tmp_path, "--version", "1.0.1")
    assert contents.directory.name == "1.0.1"
    assert (tmp_path / "n" / "LATEST").read_text() == "1.0.1\n"
    assert len(read_back(tmp_path / "n" / "1.0.0").records) == 30
    assert json.loads((contents.directory / "dataset_info.json").read_text())["version"] == "1.0.1"


def test_overwrite_replaces_all_of_the_old_version_and_nothing_else(run: Run, tree: Path, tmp_path: Path) -> None:
    neighbour = write_files(tmp_path, {"n-hard/1.0.0/n-hard-train.tfrecord-00000-of-00001": b"another data set"})
    convert(run, tree, tmp_path, *SPLITS, "--num_shards", "5")
    contents = convert(run, tree / "ant", tmp_path, "--overwrite")
    other = convert(run, tree / "ant", tmp_path / "fresh")
    assert tree_bytes(contents.directory) == tree_bytes(other.directory)
    assert (neighbour / "n-hard/1.0.0/n-hard-train.tfrecord-00000-of-00001").read_bytes() == b"another data set"


@pytest.mark.parametrize("flags", [("--threads", "4"), ("--threads", "4", "--verify", "decode"), ("--resize", "9x9")])
def test_threads_change_no_byte(run: Run, tree: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    threads = flags.index("--threads") if "--threads" in flags else len(flags)
    one = convert(run, tree, tmp_path / "one", *SPLITS, *flags[:threads], "--threads", "1", *flags[threads + 2 :])
    many = convert(run, tree, tmp_path / "many", *SPLITS, *flags, *(() if "--threads" in flags else ("--threads", "5")))
    assert tree_bytes(one.directory) == tree_bytes(many.directory)


def test_runs_are_byte_identical_in_any_order_of_listing(
    run: Run, tree: Path, plain: Contents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    class Shuffled:
        """What os.scandir gives, the other way round."""

        def __init__(self, path: Any = ".") -> None:
            with scandir(path) as entries:
                self._entries = iter(sorted(entries, key=lambda entry: str(entry.name), reverse=True))

        def __iter__(self) -> Iterator[os.DirEntry[str]]:
            return self._entries

        def __next__(self) -> os.DirEntry[str]:
            return next(self._entries)

        def __enter__(self) -> "Shuffled":
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def close(self) -> None:
            return None

    monkeypatch.setattr(os, "scandir", Shuffled)
    contents = convert(run, tree, tmp_path, *SPLITS, "--num_shards", "2")
    assert tree_bytes(contents.directory) == tree_bytes(plain.directory)


def test_tree_elsewhere_gives_the_same_records(run: Run, plain: Contents, tmp_path: Path) -> None:
    names = random.Random(5).sample(sorted(TREE), len(TREE))
    folder = write_files(tmp_path / "other", ((name, TREE[name]) for name in names))
    contents = convert(run, folder, tmp_path, *SPLITS, "--num_shards", "2")
    differing = {
        name for name, content in tree_bytes(contents.directory).items() if content != tree_bytes(plain.directory)[name]
    }
    assert differing == {
        "manifest.json",
        "dataset_info.json",
        "_SUCCESS",
    }  # they name the folder, or hold the checksum of what does
    assert contents.dataset.manifest.input["fingerprint"] == plain.dataset.manifest.input["fingerprint"]


def test_multi_processing_gives_the_same_bytes(run: Run, tree: Path, plain: Contents, tmp_path: Path) -> None:
    result = run(
        *("images", "--input", tree, "--output", tmp_path, "--name", "n", *SPLITS, "--num_shards", "2"),
        *("--direct_running_mode", "multi_processing", "--direct_num_workers", "2"),
    )
    assert result.status == 0, result.err
    assert tree_bytes(tmp_path / "n" / "1.0.0") == tree_bytes(plain.directory)


def test_too_many_rejects_fail_the_job(run: Run, tree: Path, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {**TREE, **{f"ant/bad{n}.jpg": b"text" for n in range(4)}})
    result = run("images", "--input", folder, "--output", tmp_path, "--name", "n")
    assert result.status == 1
    assert result.err.count("\n") == 1
    assert "4 of 94 records were rejected, more than --max_reject_fraction 0.01 allows" in result.err
    rejects = tmp_path / "n" / "1.0.0-rejects.jsonl"
    assert str(rejects) in result.err
    assert [json.loads(line)["source"] for line in rejects.read_text().splitlines()] == [
        f"ant/bad{n}.jpg" for n in range(4)
    ]
    assert tree_bytes(tmp_path / "n" / "1.0.0") == {}
    contents = convert(run, folder, tmp_path, "--max_reject_fraction", "0.05")
    assert len(contents.rejects()) == 4
    assert not rejects.exists()


def test_failed_job_leaves_the_published_version_as_it_was(run: Run, tree: Path, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant",), 4))
    contents = convert(run, folder, tmp_path)
    before = tree_bytes(contents.directory)
    write_files(folder, {"ant/bad.jpg": b"text"})
    flags = ("--max_reject_fraction", 0, "--overwrite")
    assert run("images", "--input", folder, "--output", tmp_path, "--name", "n", *flags).status == 1
    assert tree_bytes(contents.directory) == before
    assert len(read_back(tmp_path / "n").records) == 4


def test_nothing_but_rejects_fails_whatever_is_allowed(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"a/1.jpg": b"text", "a/2.jpg": b""})
    result = run("images", "--input", folder, "--output", tmp_path, "--name", "n", "--max_reject_fraction", "1")
    assert result.status == 1
    assert "2 of 2 records were rejected, none is left" in result.err
    assert not (tmp_path / "n" / "1.0.0" / "_SUCCESS").exists()


def test_class_in_one_split_only_is_said(run: Run, tmp_path: Path) -> None:
    folder = write_files(
        tmp_path / "in", {"train/ant/1.jpg": image(1), "train/bee/2.jpg": image(2), "test/bee/3.jpg": image(3)}
    )
    notices = convert(run, folder, tmp_path).dataset.manifest.notices
    assert any("class 'ant' has examples in one split only" in notice for notice in notices)


def test_dry_run_writes_nothing_and_says_what_the_run_does(
    run: Run, tree: Path, plain: Contents, tmp_path: Path
) -> None:
    result = run(
        "images",
        "--input",
        tree,
        "--output",
        tmp_path / "out",
        "--name",
        "n",
        *SPLITS,
        "--num_shards",
        "2",
        "--dry_run",
    )
    assert result.status == 0
    assert not any(tmp_path.iterdir())
    for split in plain.dataset.manifest.splits:
        (line,) = (line for line in result.out.splitlines() if line.startswith(f"Split {split.name}:"))
        assert f"{split.examples} examples" in line
        assert f"in 2 shards of {format_range(counts(split))} examples" in line
    assert "Input: --input" in result.out
    assert f"90 files, {sum(map(len, TREE.values())) / 1000:.1f} kB" in result.out
    by_class = Counter((name[:3], split) for name, split in plain.split_of.items())
    for label, name in enumerate(("ant", "bee", "cow")):
        expected = ", ".join(f"{by_class[name, split]} {split}" for split in ("train", "validation", "test"))
        assert f"  {label} {name}: {expected}" in result.out.splitlines()


def test_beams_flags_are_passed_through(run: Run, tree: Path, tmp_path: Path) -> None:
    contents = convert(run, tree, tmp_path, "--job_name", "nightly", "--experiments", "x")
    assert len(contents.records) == 90


def test_one_of_each_is_said_as_one(run: Run, tmp_path: Path) -> None:
    where = ("--output", tmp_path, "--name", "n")
    write_files(tmp_path / "in", {"ant/1.jpg": image(1)})
    write_files(tmp_path, {"a.csv": b"kind\nred\n"})
    dry = run("images", "--input", tmp_path / "in", *where, "--dry_run").out
    assert "/in: 1 file, " in dry
    assert "Split train: 1 example, about " in dry
    assert " in 1 shard of 1 example, " in dry
    assert "workers" not in dry  # of which there is one
    rows = run("csv", "--input", tmp_path / "a.csv", "--label", "kind", *where, "--dry_run").out
    assert ": 1 file, 9 B, 1 row\n" in rows
    assert "  kind: int64, 1 class: red\n" in rows
    assert run("images", "--input", tmp_path / "in", *where).status == 0
    assert run("verify", tmp_path / "n").out == "verified: 1 example in 1 shard, no fault\n"
    shown = run("inspect", tmp_path / "n", "--contact_sheet", tmp_path / "a.png").out
    assert "\n1 class of 'label':\n" in shown
    assert shown.endswith("/a.png: 1 image\n")
