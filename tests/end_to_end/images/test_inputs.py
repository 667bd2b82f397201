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
from tests.support.command import Contents, Run, image, tree_bytes, write_files
from tests.support.image_jobs import TREE, ImageJobs, convert, counts, picture


def test_tree_of_class_folders(plain: Contents) -> None:
    assert plain.records.keys() == TREE.keys()
    assert (plain.directory / "label.labels.txt").read_text() == "ant\nbee\ncow\n"
    for name, content in TREE.items():
        width, height = Image.open(io.BytesIO(content)).size
        example = {key: list(values) for key, values in plain.example(name).items()}
        label = ["ant", "bee", "cow"].index(name[:3])
        expected = [("image", [content]), ("label", [label]), ("filename", [name.encode()])]
        assert list(example.items()) == [*expected, ("height", [height]), ("width", [width])]


def test_directory_holds_what_it_should_and_nothing_else(plain: Contents) -> None:
    shards = [f"n-{split}.tfrecord-{n:05d}-of-00002" for split in ("train", "validation", "test") for n in (0, 1)]
    described = "FeatureStats.pb dataset_info.json features.json label.labels.txt manifest.json schema.pbtxt stats.json"
    assert sorted(tree_bytes(plain.directory)) == sorted([*shards, *described.split(), "_SUCCESS"])
    assert (plain.directory.parent / "LATEST").read_text() == "1.0.0\n"
    assert sorted(path.name for path in plain.directory.parent.iterdir()) == ["1.0.0", "LATEST", "builds"]


def test_statistics_are_those_of_the_records(plain: Contents) -> None:
    stats = json.loads((plain.directory / "stats.json").read_text())["splits"]
    for split, names in plain.splits.items():
        sizes = [len(TREE[name]) for name in names]
        features = stats[split]["features"]
        assert stats[split]["examples"] == len(names)
        assert {k: v for k, v in features["label"]["classes"].items() if v} == Counter(name[:3] for name in names)
        found = features["image"]["size_bytes"]
        assert (found["min"], found["max"], found["mean"]) == (min(sizes), max(sizes), pytest.approx(np.mean(sizes)))
        assert features["image"]["formats"] == {"jpeg": len(names)}
        assert features["width"]["max"] == max(picture(plain, name).width for name in names)


def test_report_says_what_was_made_and_how_to_read_it(run: Run, tree: Path, tmp_path: Path) -> None:
    result = run("images", "--input", tree, "--output", tmp_path, "--name", "n", "--num_shards", "4")
    assert result.err == ""
    assert f"tfds.builder_from_directory('{tmp_path}/n/1.0.0')" in result.out
    (row,) = (line.split() for line in result.out.splitlines() if line.startswith("train "))
    assert row[:5] == ["train", "90", "4", "22", "23"]


def test_flat_folder_is_unlabelled(images: ImageJobs) -> None:
    contents = images.make({f"{n}.jpg": image(n) for n in range(4)})
    assert list(contents.example("2.jpg")) == ["image", "filename", "height", "width"]
    assert not (contents.directory / "label.labels.txt").exists()
    assert "supervisedKeys" not in (contents.directory / "dataset_info.json").read_text()


@pytest.mark.parametrize(
    ("folder", "pattern", "labels"),
    [
        ("in[1]* a b'%20#?", "", {"ant/3.jpg": "ant", "bee/4.jpg": "bee"}),
        ("in", "/*/*[2-4]*", {"ant/2.dat": "ant", "ant/3.jpg": "ant", "bee/4.jpg": "bee"}),  # of any suffix
        ("in", "/bee/4.jpg", {"4.jpg": None}),
    ],
)
def test_folders_globs_and_files(
    run: Run, tmp_path: Path, folder: str, pattern: str, labels: dict[str, str | None]
) -> None:
    files = {
        "ant/3.jpg": image(3),
        "bee/4.jpg": image(4),
        **({"ant/1": image(1), "ant/2.dat": image(2)} if pattern else {}),
    }
    contents = convert(run, f"{write_files(tmp_path / folder, files)}{pattern}", tmp_path / f"out {folder}")
    found = {name: contents.label_of(name) if "label" in contents.example(name) else None for name in contents.records}
    assert found == labels


CSV = '''file_name,label,age,weight,name,code,holes,split
ant/000.jpg,ant,3,1.5,"Ann, the ""first""",007,1,train
ant/001.jpg,ant,-4,2,,12,,train
bee/000.jpg,bee,5,-1e-3,日本,0x1f,3,Val
cow/000.jpg,cow,9223372036854775807,0,"two
lines",x,,test
'''


def test_manifest_in_csv(images: ImageJobs) -> None:
    contents = images.make(TREE | {"meta.csv": CSV.replace("\n", "\r\n").encode()}, "--manifest in/meta.csv")
    names = ("ant/000.jpg", "ant/001.jpg", "bee/000.jpg", "cow/000.jpg")
    assert contents.split_of == dict(zip(names, ("train", "train", "validation", "test"), strict=True))
    features = {feature.name: (feature.dtype, feature.required) for feature in contents.dataset.manifest.features}
    columns = ["age", "code", "holes", "name", "weight"]
    assert list(features) == ["image", "label", "filename", "height", "width", *columns]
    assert [features[name][0] for name in columns] == ["int64", "bytes", "int64", "bytes", "float32"]
    assert [features[name][1] for name in columns] == [True, True, False, False, True]
    first, second, third, last = ({k: list(v) for k, v in contents.example(name).items()} for name in names)
    assert (first["name"], first["code"]) == ([b'Ann, the "first"'], [b"007"])
    assert (second["age"], second["weight"]) == ([-4], [2.0])
    assert not {"holes", "name"} & second.keys()
    assert (third["name"], third["weight"], third["holes"]) == (["日本".encode()], [np.float32(-1e-3)], [3])
    assert (last["age"], last["name"]) == ([9223372036854775807], [b"two\r\nlines"])


JSONL: list[dict[str, Any]] = [
    {"label": "ant", "bbox": [1, 2, 3, 4], "vector": [0.5, 1], "tags": ["a", "b"], "mixed": 1, "flag": True},
    {"label": 7, "bbox": [5, 6, 7, 8], "vector": [2], "tags": [], "mixed": 2.5, "flag": False, "rare": "x"},
    {"label": "ant", "bbox": [0, 0, 0, -1], "vector": None, "tags": ["ü"], "mixed": "s", "flag": True},
]


def test_manifest_in_json_lines(images: ImageJobs) -> None:
    rows = "".join(f"{json.dumps({'image_uri': f'{n}.jpg', **row})}\n\n" for n, row in enumerate(JSONL))
    files = {f"{n}.jpg": image(n) for n in range(3)}
    contents = images.make({**files, "meta.jsonl": rows.encode()}, "--manifest in/meta.jsonl")
    features = {feature.name: feature for feature in contents.dataset.manifest.features}
    assert features["label"].class_names == ("7", "ant")
    assert {name: (features[name].dtype, features[name].shape) for name in JSONL[1] if name != "label"} == {
        "bbox": ("int64", (4,)),
        "vector": ("float32", (None,)),
        "tags": ("bytes", (None,)),
        "mixed": ("bytes", ()),
        "flag": ("int64", ()),
        "rare": ("bytes", ()),
    }
    assert not features["rare"].required
    examples = [{k: list(v) for k, v in contents.example(name).items()} for name in files]
    assert [example["bbox"] for example in examples] == [row["bbox"] for row in JSONL]
    assert [example["vector"] for example in examples] == [[0.5, 1.0], [2.0], []]
    assert [example["tags"] for example in examples] == [[b"a", b"b"], [], ["ü".encode()]]
    assert [example["mixed"] for example in examples] == [[b"1"], [b"2.5"], [b"s"]]
    assert [example["flag"] for example in examples] == [[1], [0], [1]]
    assert [example.get("rare") for example in examples] == [None, [b"x"], None]


def test_rows_on_one_image_are_records_of_their_own(images: ImageJobs) -> None:
    rows = "file_name,caption\n" + "".join(f"1.jpg,caption {n}\n" for n in range(12))
    files = {"1.jpg": image(1), "meta.csv": rows.encode()}
    contents = images.make(files, "--manifest in/meta.csv --num_shards 4 --splits a=0.5,b=0.5")
    captions = {bytes(decode_example(record)["caption"][0]) for record in contents.records["1.jpg"]}
    assert captions == {f"caption {n}".encode() for n in range(12)}
    assert sorted(map(len, contents.splits.values())) == [0, 12]  # one identity, one split
    assert [counts(split) for split in contents.dataset.manifest.splits if split.shards] == [[3, 3, 3, 3]]
    (notice,) = (notice for notice in contents.dataset.manifest.notices if "earlier row" in notice)
    assert notice.startswith("11 rows have a file that an earlier row has, such as '1.jpg', and each is an example; ")
