"""Splits, order, shards and compression of image jobs."""

from pathlib import Path

import pytest

from tests.support.command import Contents, Run, image, image_tree, write_files
from tests.support.image_jobs import SPLITS, TREE, ImageJobs, convert, counts


def test_split_of_a_record_is_stable_as_data_grows(run: Run, plain: Contents, tmp_path: Path) -> None:
    more = {f"dog/{n:03d}.jpg": image(n) for n in range(200, 240)}
    folder = write_files(tmp_path / "in", {**TREE, **more})
    contents = convert(run, folder, tmp_path, *SPLITS, "--num_shards", "3")
    assert {name: contents.split_of[name] for name in TREE} == plain.split_of
    for split, names in plain.splits.items():
        assert [name for name in contents.splits[split] if name in TREE] == names
    assert {contents.split_of[name] for name in more} >= {"train"}


@pytest.mark.parametrize("flag", ["--seed", "--split_seed"])
def test_one_seed_is_of_the_order_the_other_of_the_splits(
    run: Run, tree: Path, plain: Contents, tmp_path: Path, flag: str
) -> None:
    contents = convert(run, tree, tmp_path, *SPLITS, "--num_shards", "2", flag, "1")
    assert contents.records == plain.records
    assert (contents.split_of == plain.split_of) is (flag == "--seed")
    both = set(contents.splits["train"]) & set(plain.splits["train"])
    orders = [[name for name in of.splits["train"] if name in both] for of in (contents, plain)]
    assert (orders[0] == orders[1]) is (flag == "--split_seed")


def test_order_is_shuffled_across_classes(plain: Contents) -> None:
    names = plain.splits["train"]
    assert names != sorted(names)
    assert {name[:3] for name in names[:12]} == {"ant", "bee", "cow"}


def test_no_shuffle_keeps_the_order_of_paths(run: Run, tree: Path, plain: Contents, tmp_path: Path) -> None:
    contents = convert(run, tree, tmp_path, *SPLITS, "--num_shards", "train=7,test=3", "--no_shuffle")
    assert contents.splits["train"] == sorted(plain.splits["train"])
    assert [len(split.shards) for split in contents.dataset.manifest.splits] == [7, 1, 3]
    for split in contents.dataset.manifest.splits:
        assert max(counts(split)) - min(counts(split)) <= 1


def test_more_shards_than_records_and_splits_without_any(images: ImageJobs) -> None:
    contents = images.make(image_tree(("ant",), 3), "--num_shards 10 --splits train=0.999,test=0.001")
    train, test = contents.dataset.manifest.splits
    assert (counts(train), counts(test), contents.splits["test"]) == ([1, 1, 1], [], [])
    notices = contents.dataset.manifest.notices
    assert "split 'train' has 3 examples, so 3 shards instead of 10" in notices
    assert any("split 'test' is empty" in notice for notice in notices)
    assert len(list(contents.directory.glob("n-train.tfrecord-*-of-00003"))) == 3


def test_balance_by_bytes(images: ImageJobs) -> None:
    files = {f"{number}.png": image(number, "PNG") + bytes(10 ** (2 + number % 4)) for number in range(60)}
    (split,) = images.make(files, "--num_shards 7 --balance bytes").dataset.manifest.splits
    sizes = [shard.size_bytes for shard in split.shards]
    assert max(sizes) - min(sizes) <= max(map(len, files.values())) + 200
    assert max(counts(split)) - min(counts(split)) > 1
