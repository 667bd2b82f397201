"""The images command end to end: every input it reads, and every option, by what changes in the data set."""

import io
import json
import os
import random
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipelines import cli
from shardmill.example import decode_example
from shardmill.manifest import SplitEntry
from tests.support.command import (
    Contents,
    Run,
    check_mistake,
    image,
    image_tree,
    read_back,
    run_program,
    tree_bytes,
    write_files,
)

TREE = image_tree(("ant", "bee", "cow"), 30)
SPLITS = ("--splits", "train=0.8,validation=0.1,test=0.1")


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """90 images of three classes."""
    return write_files(tmp_path_factory.mktemp("tree") / "in", TREE)


@pytest.fixture(scope="session")
def plain(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """The tree in three splits of two shards, all else by default."""
    output = tmp_path_factory.mktemp("plain")
    assert (
        cli.main(["images", "--input", str(tree), "--output", str(output), "--name", "n", *SPLITS, "--num_shards", "2"])
        == 0
    )
    return read_back(output / "n")


def convert(run: Run, source: Path | str, output: Path, *flags: object) -> Contents:
    """Run the command, which must succeed, and read the data set back."""
    result = run("images", "--input", source, "--output", output, "--name", "n", *flags)
    assert result.status == 0, result.err
    return read_back(output / "n")


def convert_manifest(run: Run, manifest: Path, output: Path, *flags: object) -> Contents:
    """As `convert`, from a manifest."""
    result = run("images", "--manifest", manifest, "--output", output, "--name", "n", *flags)
    assert result.status == 0, result.err
    return read_back(output / "n")


def counts(split: SplitEntry) -> list[int]:
    """Examples of each shard."""
    return [shard.examples for shard in split.shards]


def picture(contents: Contents, name: str) -> Image.Image:
    """The image of an example, decoded."""
    return Image.open(io.BytesIO(contents.example(name)["image"][0]))


def test_tree_of_class_folders(plain: Contents) -> None:
    assert plain.records.keys() == TREE.keys()
    assert (plain.directory / "label.labels.txt").read_text() == "ant\nbee\ncow\n"
    for name, content in TREE.items():
        example = plain.example(name)
        width, height = Image.open(io.BytesIO(content)).size
        assert example["image"] == [content]
        assert example["filename"] == [name.encode()]
        assert example["label"].tolist() == [["ant", "bee", "cow"].index(name[:3])]  # type: ignore[union-attr]
        assert (example["height"].tolist(), example["width"].tolist()) == ([height], [width])  # type: ignore[union-attr]
        assert list(example) == ["image", "label", "filename", "height", "width"]


def test_directory_holds_what_it_should_and_nothing_else(plain: Contents) -> None:
    shards = [f"n-{split}.tfrecord-{n:05d}-of-00002" for split in ("train", "validation", "test") for n in (0, 1)]
    described = [
        "dataset_info.json",
        "features.json",
        "label.labels.txt",
        "manifest.json",
        "schema.pbtxt",
        "stats.json",
    ]
    assert sorted(tree_bytes(plain.directory)) == sorted([*shards, *described, "_SUCCESS"])
    assert (plain.directory.parent / "LATEST").read_text() == "1.0.0\n"
    assert sorted(path.name for path in plain.directory.parent.iterdir()) == ["1.0.0", "LATEST"]


def test_statistics_are_those_of_the_records(plain: Contents) -> None:
    stats = json.loads((plain.directory / "stats.json").read_text())["splits"]
    for split, names in plain.splits.items():
        sizes = [len(TREE[name]) for name in names]
        features = stats[split]["features"]
        assert stats[split]["examples"] == len(names)
        assert {k: v for k, v in features["label"]["classes"].items() if v} == Counter(name[:3] for name in names)
        assert (features["image"]["size_bytes"]["min"], features["image"]["size_bytes"]["max"]) == (
            min(sizes),
            max(sizes),
        )
        assert features["image"]["size_bytes"]["mean"] == pytest.approx(np.mean(sizes))
        assert features["image"]["formats"] == {"jpeg": len(names)}
        assert features["width"]["max"] == max(picture(plain, name).width for name in names)


def test_report_says_what_was_made_and_how_to_read_it(run: Run, tree: Path, tmp_path: Path) -> None:
    result = run("images", "--input", tree, "--output", tmp_path, "--name", "n", "--num_shards", "4")
    assert result.err == ""
    assert f"tfds.builder_from_directory('{tmp_path}/n/1.0.0')" in result.out
    (row,) = (line.split() for line in result.out.splitlines() if line.startswith("train "))
    assert row[:5] == ["train", "90", "4", "22", "23"]


@pytest.mark.parametrize("folders", [("train", "validation", "test"), ("TRAIN", "Val", "TEST")])
def test_split_folders(run: Run, tmp_path: Path, folders: tuple[str, str, str]) -> None:
    files = {f"{split}/{name}": content for split in folders for name, content in image_tree(("ant", "bee"), 3).items()}
    contents = convert(run, write_files(tmp_path / "in", files), tmp_path)
    assert contents.records.keys() == files.keys()
    spelled = dict(zip(folders, ("train", "validation", "test")))
    assert contents.split_of == {name: spelled[name.split("/")[0]] for name in files}
    assert [split.name for split in contents.dataset.manifest.splits] == ["train", "validation", "test"]
    assert {name: contents.label_of(name) for name in files} == {name: name.split("/")[1] for name in files}


def test_split_folders_without_classes(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"train/1.jpg": image(1), "test/2.jpg": image(2)})
    contents = convert(run, folder, tmp_path)
    assert contents.split_of == {"train/1.jpg": "train", "test/2.jpg": "test"}
    assert "label" not in contents.example("train/1.jpg")


def test_split_folder_beside_another_is_a_class_and_says_so(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", image_tree(("test", "zebra"), 2))
    contents = convert(run, folder, tmp_path)
    assert contents.label_of("test/000.jpg") == "test"
    assert any("'test' was taken for a class" in notice for notice in contents.dataset.manifest.notices)


def test_flat_folder_is_unlabelled(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {f"{n}.jpg": image(n) for n in range(4)})
    contents = convert(run, folder, tmp_path)
    assert list(contents.example("2.jpg")) == ["image", "filename", "height", "width"]
    assert not (contents.directory / "label.labels.txt").exists()
    assert "supervisedKeys" not in (contents.directory / "dataset_info.json").read_text()


def test_file_outside_the_class_folders_is_a_reject(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {**image_tree(("ant", "bee"), 2), "stray.jpg": image(9)})
    contents = convert(run, folder, tmp_path, "--max_reject_fraction", "0.5")
    assert [reject["source"] for reject in contents.rejects()] == ["stray.jpg"]
    assert "no class folder" in contents.rejects()[0]["reason"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*/*1.jpg", {name for name in TREE if name.endswith("1.jpg")}),
        ("**/*1.jpg", {name for name in TREE if name.endswith("1.jpg")}),
        ("**/bee/**/*[05].jpg", {name for name in TREE if name[:3] == "bee" and name[-5] in "05"}),
        ("[ab]??/0?0.*", {name for name in TREE if name[0] in "ab" and name[4] == "0" and name[6] == "0"}),
    ],
)
def test_glob(run: Run, tree: Path, tmp_path: Path, pattern: str, names: set[str]) -> None:
    contents = convert(run, tree / pattern, tmp_path)
    assert contents.records.keys() == names
    assert all(contents.label_of(name) == name[:3] for name in names)


def test_glob_takes_files_of_any_suffix(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"ant/1": image(1), "ant/2.dat": image(2), "bee/3.jpg": image(3)})
    assert convert(run, folder, tmp_path).records.keys() == {"bee/3.jpg"}
    assert convert(run, folder / "*/*", tmp_path, "--overwrite").records.keys() == {"ant/1", "ant/2.dat", "bee/3.jpg"}


@pytest.mark.parametrize("name", ["in[1]*", "a b'\"%20#?"])
def test_folder_whose_own_name_is_odd(run: Run, tmp_path: Path, name: str) -> None:
    contents = convert(run, write_files(tmp_path / name, image_tree(("ant",), 2)), tmp_path / f"out {name}")
    assert contents.records.keys() == {"ant/000.jpg", "ant/001.jpg"}


def test_single_file(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"1.jpg": image(1), "2.jpg": image(2)})
    assert convert(run, folder / "2.jpg", tmp_path).records.keys() == {"2.jpg"}


CSV = '''file_name,label,age,weight,name,code,holes,split
ant/000.jpg,ant,3,1.5,"Ann, the ""first""",007,1,train
ant/001.jpg,ant,-4,2,,12,,train
bee/000.jpg,bee,5,-1e-3,日本,0x1f,3,Val
cow/000.jpg,cow,9223372036854775807,0,"two
lines",x,,test
'''


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_manifest_in_csv(run: Run, tree: Path, tmp_path: Path, line_end: str) -> None:
    folder = write_files(tmp_path / "in", TREE)
    (folder / "meta.csv").write_bytes(CSV.replace("\n", line_end).encode())
    contents = convert_manifest(run, folder / "meta.csv", tmp_path)
    assert contents.split_of == {
        "ant/000.jpg": "train",
        "ant/001.jpg": "train",
        "bee/000.jpg": "validation",
        "cow/000.jpg": "test",
    }
    features = {feature.name: feature for feature in contents.dataset.manifest.features}
    assert list(features) == ["image", "label", "filename", "height", "width", "age", "code", "holes", "name", "weight"]
    kinds = {
        name: (features[name].dtype, features[name].required) for name in ("age", "weight", "code", "holes", "name")
    }
    assert kinds == {
        "age": ("int64", True),
        "weight": ("float32", True),
        "code": ("bytes", True),
        "holes": ("int64", False),
        "name": ("bytes", False),
    }
    first, second, third, last = (
        contents.example(name) for name in ("ant/000.jpg", "ant/001.jpg", "bee/000.jpg", "cow/000.jpg")
    )
    assert first["name"] == [b'Ann, the "first"']
    assert first["code"] == [b"007"]
    assert second["age"].tolist() == [-4]  # type: ignore[union-attr]
    assert second["weight"].tolist() == [2.0]  # type: ignore[union-attr]
    assert "holes" not in second
    assert "name" not in second
    assert third["name"] == ["日本".encode()]
    assert third["weight"].tolist() == [np.float32(-1e-3)]  # type: ignore[union-attr]
    assert third["holes"].tolist() == [3]  # type: ignore[union-attr]
    assert last["age"].tolist() == [9223372036854775807]  # type: ignore[union-attr]
    assert last["name"] == [f"two{line_end}lines".encode()]


JSONL: list[dict[str, Any]] = [
    {
        "image_uri": "1.jpg",
        "label": "ant",
        "bbox": [1, 2, 3, 4],
        "vector": [0.5, 1],
        "tags": ["a", "b"],
        "mixed": 1,
        "flag": True,
    },
    {
        "image_uri": "2.jpg",
        "label": 7,
        "bbox": [5, 6, 7, 8],
        "vector": [2],
        "tags": [],
        "mixed": 2.5,
        "flag": False,
        "rare": "x",
    },
    {
        "image_uri": "3.jpg",
        "label": "ant",
        "bbox": [0, 0, 0, -1],
        "vector": None,
        "tags": ["ü"],
        "mixed": "s",
        "flag": True,
    },
]


def test_manifest_in_json_lines(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {f"{n}.jpg": image(n) for n in (1, 2, 3)})
    (folder / "meta.jsonl").write_text("".join(f"{json.dumps(row)}\n\n" for row in JSONL))
    contents = convert_manifest(run, folder / "meta.jsonl", tmp_path)
    features = {feature.name: feature for feature in contents.dataset.manifest.features}
    assert features["label"].class_names == ("7", "ant")
    shapes = {
        name: (features[name].dtype, features[name].shape)
        for name in ("bbox", "vector", "tags", "mixed", "flag", "rare")
    }
    assert shapes == {
        "bbox": ("int64", (4,)),
        "vector": ("float32", (None,)),
        "tags": ("bytes", (None,)),
        "mixed": ("bytes", ()),
        "flag": ("int64", ()),
        "rare": ("bytes", ()),
    }
    assert not features["rare"].required
    one, two, three = (contents.example(f"{n}.jpg") for n in (1, 2, 3))
    assert [example["bbox"].tolist() for example in (one, two, three)] == [row["bbox"] for row in JSONL]  # type: ignore[union-attr]
    assert one["vector"].tolist() == [0.5, 1.0]  # type: ignore[union-attr]
    assert [list(example["vector"]) for example in (two, three)] == [[2.0], []]
    assert [list(example["tags"]) for example in (one, two, three)] == [[b"a", b"b"], [], ["ü".encode()]]
    assert [example["mixed"] for example in (one, two, three)] == [[b"1"], [b"2.5"], [b"s"]]
    assert [example["flag"].tolist() for example in (one, two, three)] == [[1], [0], [1]]  # type: ignore[union-attr]
    assert two["rare"] == [b"x"]
    assert "rare" not in one


def test_rows_on_one_image_are_records_of_their_own(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"1.jpg": image(1)})
    (folder / "meta.csv").write_text("file_name,caption\n" + "".join(f"1.jpg,caption {n}\n" for n in range(12)))
    contents = convert_manifest(run, folder / "meta.csv", tmp_path, "--num_shards", "4", "--splits", "a=0.5,b=0.5")
    captions = {bytes(decode_example(record)["caption"][0]) for record in contents.records["1.jpg"]}
    assert captions == {f"caption {n}".encode() for n in range(12)}
    assert sorted(map(len, contents.splits.values())) == [0, 12]  # one identity, one split
    assert [counts(split) for split in contents.dataset.manifest.splits if split.shards] == [[3, 3, 3, 3]]


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


def damaged_in_the_middle() -> bytes:
    """A GIF with proper blocks, and pixels that do not decode."""
    content = bytearray(image(1, "GIF", (60, 60)))
    content[1100:1140] = bytes(40)
    return bytes(content)


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


FORMATS = {"jpeg": "JPEG", "png": "PNG", "gif": "GIF", "bmp": "BMP", "webp": "WEBP", "tif": "TIFF"}


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of every format and of every mode, 40 x 20 pixels, and one that EXIF turns by 90 degrees."""
    modes = {f"mode/{mode}.{suffix}": image(2, FORMATS[suffix], (40, 20), mode) for mode, suffix in MODES}
    files = {f"format/{suffix}.{suffix}": image(1, name, (40, 20)) for suffix, name in FORMATS.items()}
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = {"turned/6.jpg": image(3, "JPEG", (40, 20), exif=exif.tobytes())}
    return write_files(tmp_path_factory.mktemp("zoo") / "in", {**files, **modes, **turned})


MODES = [("L", "png"), ("P", "png"), ("RGBA", "png"), ("LA", "png"), ("1", "png"), ("I;16", "png"), ("CMYK", "jpeg")]
MODES += [("L", "jpeg"), ("P", "gif"), ("RGBA", "webp"), ("F", "tif"), ("CMYK", "tif"), ("RGBA", "tif"), ("I", "tif")]


def test_bytes_pass_through_untouched_by_default(run: Run, zoo: Path, tmp_path: Path) -> None:
    contents = convert(run, zoo, tmp_path, "--max_reject_fraction", "0.9")
    refused = {str(path.relative_to(zoo)) for path in zoo.rglob("*.tif")}
    assert {reject["source"] for reject in contents.rejects()} == refused
    assert all("--image_format jpeg or png" in reject["reason"] for reject in contents.rejects())
    assert len(contents.records) > 10
    for name in contents.records:
        assert contents.example(name)["image"] == [(zoo / name).read_bytes()]


@pytest.mark.parametrize("image_format", ["jpeg", "png"])
def test_image_format_makes_every_image_one_of_that_format(
    run: Run, zoo: Path, tmp_path: Path, image_format: str
) -> None:
    contents = convert(run, zoo, tmp_path, "--image_format", image_format)
    assert contents.rejects() == []
    for name in contents.records:
        decoded = picture(contents, name)
        assert (decoded.format, decoded.mode) == (image_format.upper(), "RGB")
        assert decoded.size == ((20, 40) if name == "turned/6.jpg" else (40, 20))
        example = contents.example(name)
        assert (example["width"].tolist(), example["height"].tolist()) == ([decoded.width], [decoded.height])  # type: ignore[union-attr]
    (feature,) = (feature for feature in contents.dataset.manifest.features if feature.name == "image")
    assert feature.encoding == image_format


def test_resize_keeps_jpeg_and_makes_all_else_png(run: Run, zoo: Path, tmp_path: Path) -> None:
    contents = convert(run, zoo, tmp_path, "--resize", "16x12")
    assert {picture(contents, name).size for name in contents.records} == {(16, 12)}
    formats = {name: picture(contents, name).format for name in contents.records}
    assert formats == {name: "JPEG" if name.endswith(("jpg", "jpeg")) else "PNG" for name in contents.records}


def test_resize_modes(run: Run, tmp_path: Path) -> None:
    """A picture of three stripes, red, green, blue: stretched, all are there; cropped, the middle; padded, black beside
    them."""
    stripes = Image.new("RGB", (90, 30))
    for index, colour in enumerate(((255, 0, 0), (0, 255, 0), (0, 0, 255))):
        stripes.paste(colour, (30 * index, 0, 30 * index + 30, 30))
    out = io.BytesIO()
    stripes.save(out, "PNG")
    line = image(0, "PNG", (1, 500))
    folder = write_files(tmp_path / "in", {"a/stripes.png": out.getvalue(), "a/line.png": line})
    found = {}
    for mode in ("exact", "cover", "contain"):
        contents = convert(run, folder, tmp_path / mode, "--resize", "30x30", "--resize_mode", mode)
        resized = picture(contents, "a/stripes.png")
        assert resized.size == picture(contents, "a/line.png").size == (30, 30)
        found[mode] = [resized.getpixel(at) for at in ((5, 15), (15, 15), (25, 15), (15, 2))]
    red, green, blue, black = (255, 0, 0), (0, 255, 0), (0, 0, 255), (0, 0, 0)
    assert found == {
        "exact": [red, green, blue, green],
        "cover": [green, green, green, green],
        "contain": [red, green, blue, black],
    }


def test_jpeg_quality(run: Run, tree: Path, tmp_path: Path) -> None:
    sizes = []
    for quality in (5, 95):
        contents = convert(run, tree, tmp_path / str(quality), "--image_format", "jpeg", "--jpeg_quality", quality)
        sizes.append(sum(len(contents.example(name)["image"][0]) for name in contents.records))
    assert sizes[0] < sizes[1]


def test_image_that_cannot_be_reencoded_is_a_reject(run: Run, tmp_path: Path) -> None:
    long = Image.new("L", (70_000, 1))
    out = io.BytesIO()
    long.save(out, "PNG")
    bad_exif = image(1, "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff" + b"\x01\x12" * 8)
    files = {
        "a/good.jpg": image(0),
        "a/long.png": out.getvalue(),
        "a/damaged.gif": damaged_in_the_middle(),
        "a/exif.jpg": bad_exif,
    }
    files |= {"a/text.jpg": b"text", "a/empty.jpg": b""}
    folder = write_files(tmp_path / "in", files)
    contents = convert(run, folder, tmp_path, "--image_format", "jpeg", "--max_reject_fraction", "0.9")
    reasons = {reject["source"]: reject["reason"] for reject in contents.rejects()}
    assert "65500" in reasons["a/long.png"]
    assert reasons["a/damaged.gif"].startswith("does not decode")
    assert reasons["a/text.jpg"].startswith("not an image")
    assert reasons["a/empty.jpg"] == "the file is empty"
    assert {"a/good.jpg"} <= contents.records.keys() <= {"a/good.jpg", "a/exif.jpg"}


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


def test_multi_processing_gives_the_same_bytes(tree: Path, plain: Contents, tmp_path: Path) -> None:
    result = run_program(
        *("images", "--input", tree, "--output", tmp_path, "--name", "n", *SPLITS, "--num_shards", "2"),
        *("--direct_running_mode", "multi_processing", "--direct_num_workers", "2"),
    )
    assert result.status == 0, result.err
    assert tree_bytes(tmp_path / "n" / "1.0.0") == tree_bytes(plain.directory)


def test_multi_threading_is_refused(run: Run, tree: Path, tmp_path: Path) -> None:
    result = run(
        *(
            "images",
            "--input",
            tree,
            "--output",
            tmp_path / "out",
            "--name",
            "n",
            "--direct_running_mode",
            "multi_threading",
        )
    )
    check_mistake(result, "multi_threading loses records", "multi_processing")
    assert not (tmp_path / "out").exists()


def test_too_many_rejects_fail_the_job(run: Run, tree: Path, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {**TREE, **{f"ant/bad{n}.jpg": b"text" for n in range(3)}})
    result = run("images", "--input", folder, "--output", tmp_path, "--name", "n")
    assert result.status == 1
    assert result.err.count("\n") == 1
    assert "3 of 93 records were rejected, more than --max_reject_fraction 0.01 allows" in result.err
    rejects = tmp_path / "n" / "1.0.0-rejects.jsonl"
    assert str(rejects) in result.err
    assert [json.loads(line)["source"] for line in rejects.read_text().splitlines()] == [
        f"ant/bad{n}.jpg" for n in range(3)
    ]
    assert tree_bytes(tmp_path / "n" / "1.0.0") == {}
    contents = convert(run, folder, tmp_path, "--max_reject_fraction", "0.033")
    assert len(contents.rejects()) == 3
    assert not rejects.exists()


def test_failed_job_leaves_the_published_version_as_it_was(run: Run, tree: Path, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant",), 4))
    contents = convert(run, folder, tmp_path)
    before = tree_bytes(contents.directory)
    write_files(folder, {"ant/bad.jpg": b"text"})
    assert run("images", "--input", folder, "--output", tmp_path, "--name", "n", "--overwrite").status == 1
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
        assert f"in 2 shards of {min(counts(split))} to {max(counts(split))} examples" in line
    assert "Input: --input" in result.out
    assert f"90 files, {sum(map(len, TREE.values())) / 1000:.1f} kB" in result.out
    by_class = Counter((name[:3], split) for name, split in plain.split_of.items())
    for label, name in enumerate(("ant", "bee", "cow")):
        expected = ", ".join(f"{by_class[name, split]} {split}" for split in ("train", "validation", "test"))
        assert f"  {label} {name}: {expected}" in result.out.splitlines()


def test_beams_flags_are_passed_through(run: Run, tree: Path, tmp_path: Path) -> None:
    contents = convert(run, tree, tmp_path, "--job_name", "nightly", "--experiments", "x")
    assert len(contents.records) == 90


def test_help_names_every_option_and_beam(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["images", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "--max_reject_fraction" in text
    assert "Exit status: 0 done" in text
