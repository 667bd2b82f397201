"""Splits, order, shards and compression of image jobs."""

import random
import zlib
from collections import Counter
from pathlib import Path

from tests.support.command import Contents, Run, image, image_tree, read_back, write_files
from tests.support.image_jobs import SPLITS, TREE, convert, convert_manifest, counts, damaged_in_the_middle


def test_split_of_a_record_is_stable_as_data_grows(run: Run, plain: Contents, tmp_path: Path) -> None:
    more = {f"dog/{n:03d}.jpg": image(n) for n in range(200, 240)}
    folder = write_files(tmp_path / "in", {**TREE, **more})
    contents = convert(run, folder, tmp_path, *SPLITS, "--num_shards", "3")
    assert {name: contents.split_of[name] for name in TREE} == plain.split_of
    for split, names in plain.splits.items():
        assert [name for name in contents.splits[split] if name in TREE] == names
    assert {contents.split_of[name] for name in more} >= {"train"}


def test_group_by_keeps_groups_together(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", TREE)
    users = {name: number % 9 for number, name in enumerate(TREE)}
    (folder / "meta.csv").write_text("file_name,user\n" + "".join(f"{name},{user}\n" for name, user in users.items()))
    flags = ("--splits", "train=0.5,test=0.5")
    grouped = convert_manifest(run, folder / "meta.csv", tmp_path / "grouped", *flags, "--group_by", "user")
    single = convert_manifest(run, folder / "meta.csv", tmp_path / "single", *flags)

    def splits_of_users(contents: Contents) -> list[int]:
        return [len({contents.split_of[name] for name in TREE if users[name] == user}) for user in range(9)]

    assert splits_of_users(grouped) == [1] * 9
    assert set(grouped.split_of.values()) == {"train", "test"}
    assert 2 in splits_of_users(single)


def test_stratify_by_label_is_exact(run: Run, tree: Path, plain: Contents, tmp_path: Path) -> None:
    contents = convert(run, tree, tmp_path, *SPLITS, "--stratify_by", "label")
    by_class = Counter((split, name[:3]) for name, split in contents.split_of.items())
    expected = {(s, c): n for s, n in (("train", 24), ("validation", 3), ("test", 3)) for c in ("ant", "bee", "cow")}
    assert by_class == expected
    assert Counter((split, name[:3]) for name, split in plain.split_of.items()) != expected


def test_seed_changes_the_order_and_not_the_splits(run: Run, tree: Path, plain: Contents, tmp_path: Path) -> None:
    contents = convert(run, tree, tmp_path, *SPLITS, "--num_shards", "2", "--seed", "1")
    assert contents.split_of == plain.split_of
    assert contents.splits["train"] != plain.splits["train"]
    assert contents.records == plain.records


def test_split_seed_changes_the_splits_and_not_the_order(run: Run, tree: Path, plain: Contents, tmp_path: Path) -> None:
    contents = convert(run, tree, tmp_path, *SPLITS, "--num_shards", "2", "--split_seed", "1")
    assert contents.split_of != plain.split_of
    both = set(contents.splits["train"]) & set(plain.splits["train"])
    assert [name for name in contents.splits["train"] if name in both] == [
        name for name in plain.splits["train"] if name in both
    ]


def test_order_is_shuffled_across_classes(plain: Contents) -> None:
    names = plain.splits["train"]
    assert names != sorted(names)
    assert {name[:3] for name in names[:12]} == {"ant", "bee", "cow"}


def test_no_shuffle_keeps_the_order_of_paths(run: Run, tree: Path, tmp_path: Path) -> None:
    contents = convert(run, tree, tmp_path, *SPLITS, "--num_shards", "3", "--no_shuffle")
    assert contents.splits["train"] == sorted(contents.splits["train"])
    assert len(contents.splits["train"]) > 50
    assert [max(counts(split)) - min(counts(split)) <= 1 for split in contents.dataset.manifest.splits] == [True] * 3


def test_no_shuffle_keeps_the_order_of_a_manifests_lines(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", TREE)
    names = random.Random(3).sample(sorted(TREE), len(TREE))
    (folder / "meta.csv").write_text("file_name\n" + "".join(f"{name}\n" for name in names))
    assert (
        convert_manifest(run, folder / "meta.csv", tmp_path, "--num_shards", "4", "--no_shuffle").splits["train"]
        == names
    )


def test_num_shards_of_every_split_and_of_each(run: Run, tree: Path, plain: Contents, tmp_path: Path) -> None:
    assert [len(split.shards) for split in plain.dataset.manifest.splits] == [2, 2, 2]
    contents = convert(run, tree, tmp_path, *SPLITS, "--num_shards", "train=7,test=3")
    assert [len(split.shards) for split in contents.dataset.manifest.splits] == [7, 1, 3]
    for split in contents.dataset.manifest.splits:
        assert max(counts(split)) - min(counts(split)) <= 1


def test_more_shards_than_records(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant",), 3))
    contents = convert(run, folder, tmp_path, "--num_shards", "10")
    (split,) = contents.dataset.manifest.splits
    assert counts(split) == [1, 1, 1]
    assert "split 'train' has 3 examples, so 3 shards instead of 10" in contents.dataset.manifest.notices
    assert len(list(contents.directory.glob("n-train.tfrecord-*-of-00003"))) == 3


def test_empty_split_is_said(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant",), 2))
    result = run("images", "--input", folder, "--output", tmp_path, "--name", "n", "--splits", "train=0.999,test=0.001")
    assert result.status == 0
    assert "split 'test' is empty" in result.out
    assert read_back(tmp_path / "n").splits["test"] == []


def test_shard_size(run: Run, tree: Path, tmp_path: Path) -> None:
    contents = convert(run, tree, tmp_path, "--shard_size", "10kB")
    (split,) = contents.dataset.manifest.splits
    assert len(split.shards) == -(-split.size_bytes // 10_000)
    assert max(counts(split)) - min(counts(split)) <= 1


def test_balance_by_bytes(run: Run, tmp_path: Path) -> None:
    sizes = [int(10 ** (2 + number % 4)) for number in range(60)]
    files = {f"{number}.png": image(number, "PNG") + bytes(size) for number, size in enumerate(sizes)}
    folder = write_files(tmp_path / "in", files)
    spread = {}
    for balance in ("bytes", "examples"):
        contents = convert(run, folder, tmp_path / balance, "--num_shards", "7", "--balance", balance)
        (split,) = contents.dataset.manifest.splits
        bytes_of_shards = [shard.size_bytes for shard in split.shards]
        spread[balance] = (max(bytes_of_shards) - min(bytes_of_shards), max(counts(split)) - min(counts(split)))
    largest = max(map(len, files.values()))
    assert spread["bytes"][0] <= largest + 200
    assert spread["bytes"][1] > 1
    assert spread["examples"][1] <= 1
    assert spread["examples"][0] > spread["bytes"][0]


def test_gzip(run: Run, tree: Path, plain: Contents, tmp_path: Path) -> None:
    contents = convert(run, tree, tmp_path, *SPLITS, "--num_shards", "2", "--compression", "gzip")
    assert contents.records == plain.records
    assert contents.splits == plain.splits
    for split in contents.dataset.manifest.splits:
        for shard in split.shards:
            assert shard.file.endswith("-of-00002.gz")
            assert (contents.directory / shard.file).read_bytes()[:2] == b"\x1f\x8b"
            (same,) = (
                other for other in plain.dataset.manifest.split(split.name).shards if f"{other.file}.gz" == shard.file
            )
            unzipped = zlib.decompress((contents.directory / shard.file).read_bytes(), 31)
            assert unzipped == (plain.directory / same.file).read_bytes()
    assert not (contents.directory / "dataset_info.json").exists()


def test_verify_modes(run: Run, tmp_path: Path) -> None:
    files = {
        "a/good.png": image(0, "PNG"),
        "a/damaged.gif": damaged_in_the_middle(),
        "a/cut.png": image(2, "PNG")[:-20],
    }
    folder = write_files(tmp_path / "in", {**files, "a/text.png": b"text"})
    passed = {}
    for mode in ("none", "header", "decode"):
        contents = convert(run, folder, tmp_path / mode, "--verify", mode, "--max_reject_fraction", "0.9")
        passed[mode] = sorted(contents.records)
        assert ("height" in contents.example("a/good.png")) == (mode != "none")
    assert passed == {
        "none": ["a/cut.png", "a/damaged.gif", "a/good.png", "a/text.png"],
        "header": ["a/damaged.gif", "a/good.png"],
        "decode": ["a/good.png"],
    }


def test_max_pixels(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"a/9.png": image(0, "PNG", (3, 3)), "a/12.png": image(0, "PNG", (4, 3))})
    for flags in ((), ("--resize", "2x2")):
        contents = convert(
            run, folder, tmp_path, "--max_pixels", "9", "--max_reject_fraction", "0.5", "--overwrite", *flags
        )
        assert contents.records.keys() == {"a/9.png"}
        assert "4 x 3 pixels is more than --max_pixels 9" in contents.rejects()[0]["reason"]
    assert convert(run, folder, tmp_path, "--max_pixels", "12", "--overwrite").records.keys() == {"a/9.png", "a/12.png"}
