"""The images command end to end: every input it reads, by what is in the data set."""

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shardmill.data.example import decode_example
from tests.support.command import Contents, Run, image, image_tree, tree_bytes, write_files
from tests.support.image_jobs import TREE, convert, convert_manifest, counts, picture


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
        "FeatureStats.pb",
        "dataset_info.json",
        "features.json",
        "label.labels.txt",
        "manifest.json",
        "schema.pbtxt",
        "stats.json",
    ]
    assert sorted(tree_bytes(plain.directory)) == sorted([*shards, *described, "_SUCCESS"])
    assert (plain.directory.parent / "LATEST").read_text() == "1.0.0\n"
    assert sorted(path.name for path in plain.directory.parent.iterdir()) == ["1.0.0", "LATEST", "builds"]


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
