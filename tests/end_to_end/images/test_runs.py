"""Repeated and failed runs, dry runs, and runs of several threads and processes."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from shardmill.pipelines.reports.summary import format_range
from tests.support.command import Contents, Run, image, image_tree, tree_bytes, write_files
from tests.support.image_jobs import SPLITS, TREE, ImageJobs, convert, counts


def test_overwrite_replaces_all_of_the_old_version_and_nothing_else(
    run: Run, tree: Path, plain: Contents, tmp_path: Path
) -> None:
    neighbour = write_files(tmp_path, {"n-hard/1.0.0/n-hard-train.tfrecord-00000-of-00001": b"another data set"})
    convert(run, tree / "ant", tmp_path, "--num_shards", "5")
    contents = convert(run, tree, tmp_path, *SPLITS, "--num_shards", "2", "--overwrite")
    assert tree_bytes(contents.directory) == tree_bytes(plain.directory)
    assert (neighbour / "n-hard/1.0.0/n-hard-train.tfrecord-00000-of-00001").read_bytes() == b"another data set"


@pytest.mark.parametrize("flags", [("--verify", "decode"), ("--resize", "9x9")])
def test_threads_change_no_byte(run: Run, tree: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    one, many = (convert(run, tree, tmp_path / n, *SPLITS, *flags, "--threads", n) for n in ("1", "5"))
    assert tree_bytes(one.directory) == tree_bytes(many.directory)


def test_tree_elsewhere_gives_the_same_records(run: Run, plain: Contents, tmp_path: Path) -> None:
    names = random.Random(5).sample(sorted(TREE), len(TREE))
    folder = write_files(tmp_path / "other", ((name, TREE[name]) for name in names))
    contents = convert(run, folder, tmp_path, *SPLITS, "--num_shards", "2")
    before, after = tree_bytes(plain.directory), tree_bytes(contents.directory)
    # these name the folder, or hold the checksum of what does
    assert {name for name in after if after[name] != before[name]} == {"manifest.json", "dataset_info.json", "_SUCCESS"}
    assert contents.dataset.manifest.input["fingerprint"] == plain.dataset.manifest.input["fingerprint"]


def test_multi_processing_gives_the_same_bytes(run: Run, tree: Path, plain: Contents, tmp_path: Path) -> None:
    workers = ("--direct_running_mode", "multi_processing", "--direct_num_workers", "2")
    contents = convert(run, tree, tmp_path, *SPLITS, "--num_shards", "2", *workers)
    assert tree_bytes(contents.directory) == tree_bytes(plain.directory)


def test_a_job_with_too_many_rejects_fails_and_leaves_the_published_version(images: ImageJobs) -> None:
    before = tree_bytes(images.make(image_tree(("ant",), 90)).directory)
    result = images.start({f"ant/bad{n}.jpg": b"text" for n in range(4)}, "--overwrite")
    assert (result.status, result.err.count("\n")) == (1, 1)
    assert "4 of 94 records were rejected, more than --max_reject_fraction 0.01 allows" in result.err
    rejects = Path("out/n/1.0.0-rejects.jsonl")
    assert str(rejects) in result.err
    sources = [json.loads(line)["source"] for line in rejects.read_text().splitlines()]
    assert sources == [f"ant/bad{n}.jpg" for n in range(4)]
    assert tree_bytes(Path("out/n/1.0.0")) == before
    contents = images.make({}, "--max_reject_fraction 0.05 --overwrite")
    assert len(contents.rejects()) == 4
    assert not rejects.exists()


def test_dry_run_writes_nothing_and_says_what_the_run_does(
    run: Run, tree: Path, plain: Contents, tmp_path: Path
) -> None:
    where = ("--input", tree, "--output", tmp_path / "out", "--name", "n")
    result = run("images", *where, *SPLITS, "--num_shards", "2", "--dry_run")
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


def test_one_of_each_is_said_as_one(run: Run, tmp_path: Path) -> None:
    where = ("--output", tmp_path, "--name", "n")
    write_files(tmp_path, {"in/ant/1.jpg": image(1), "a.csv": b"kind\nred\n"})
    dry = run("images", "--input", tmp_path / "in", "--folders", "label", *where, "--dry_run").out
    assert "/in: 1 file, " in dry
    assert "Split train: 1 example, about " in dry
    assert " in 1 shard of 1 example, " in dry
    assert "workers" not in dry  # of which there is one
    rows = run("csv", "--input", tmp_path / "a.csv", "--label", "kind", *where, "--dry_run").out
    assert ": 1 file, 9 B, 1 row\n" in rows
    assert "  kind: int64, 1 class: red\n" in rows
    assert run("images", "--input", tmp_path / "in", "--folders", "label", *where).status == 0
    assert run("verify", tmp_path / "n").brief.out == "verified: 1 example in 1 shard, no fault\n"
    shown = run("inspect", tmp_path / "n", "--contact_sheet", tmp_path / "a.png").out
    assert "\n1 class of 'label':\n" in shown
    assert shown.endswith("/a.png: 1 image\n")
