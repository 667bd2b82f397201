"""Tar files whose .json says `objects` of their images: the features that image files with the same objects get."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import webdataset

import shardmill
from shardmill.reading.dataset import open_dataset
from tests.support.archives import tar
from tests.support.command import Run, check_mistake, tree_bytes, write_files
from tests.support.detection import Scene, draw
from tests.support.later import Later
from tests.support.objects_in_tables import MOST, NAMES, SCENES, notices, rejects
from tests.support.reading import make

tfds = Later("tensorflow_datasets")
BOX = [1.0, 2.0, 3.0, 4.0]


def said_of(scene: Scene, form: str) -> Any:
    """What is in a picture, by names or ids of classes."""
    count = len(scene.things)
    lists = {
        "bbox": [list(map(float, thing.box)) for thing in scene.things],
        "categories": [thing.colour if form == "names" else NAMES.index(thing.colour) for thing in scene.things],
        "area": [7.5] * count,
        "id": list(range(count)),
    }
    if form == "list of objects":
        return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
    return lists


def write_tars(folder: Path, form: str = "lists", drawn: Sequence[Scene] = SCENES) -> Path:
    """Two tar files by webdataset's own writer."""
    folder.mkdir(parents=True)
    for shard in range(2):
        with webdataset.TarWriter(str(folder / f"{shard}.tar")) as writer:
            for scene in drawn[shard::2]:
                draw(scene, folder.parent / "drawn")
                told = {"objects": said_of(scene, form), "n": int(scene.name[:3])}
                data = (folder.parent / "drawn" / scene.name).read_bytes()
                writer.write({"__key__": scene.name.removesuffix(".png"), "png": data, "json": told})
    return folder


def pictures(folder: Path, values: Sequence[Any]) -> list[tuple[str, bytes]]:
    """The members of samples of a picture each, and of what is said of objects in it."""
    members = []
    for number, value in enumerate(values):
        draw(Scene(f"{number}.png", (64 + number, 48)), folder)
        members += [(f"{number}.png", (folder / f"{number}.png").read_bytes())]
        members += [(f"{number}.json", json.dumps({"objects": value}).encode())]
    return members


def by_tfds(directory: Path) -> dict[str, dict[str, Any]]:
    dataset = tfds.builder_from_directory(str(directory)).as_dataset(split="train")
    return {example["filename"].decode().removesuffix(".png"): example for example in tfds.as_numpy(dataset)}


def names_of(directory: Path) -> tuple[str, ...]:
    features = {each.name: each for each in open_dataset(str(directory)).manifest.features}
    return features["objects/label"].class_names


@pytest.mark.parametrize("form", ["lists", "list of objects", "names"])
def test_they_are_the_objects_of_image_files_and_what_webdataset_reads(tmp_path: Path, run: Run, form: str) -> None:
    flags = ("--labels_file", write_files(tmp_path, {"names.txt": "".join(f"{n}\n" for n in NAMES).encode()}))
    flags = (flags[0], tmp_path / "names.txt")
    source = write_tars(tmp_path / "in", form)
    rows = [{"file_name": scene.name, "objects": said_of(scene, form)} for scene in SCENES]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    write_files(tmp_path, {"drawn/metadata.jsonl": lines.encode()})

    directory = make("webdataset", source, tmp_path / "a", *flags)
    of_files = make("images", tmp_path / "drawn", tmp_path / "b", *flags)

    expected, found = by_tfds(of_files), by_tfds(directory)
    shards = sorted(map(str, source.glob("*.tar")))
    read = {sample["__key__"]: sample for sample in webdataset.WebDataset(shards, shardshuffle=False)}
    assert found.keys() == expected.keys() == read.keys()
    assert len(found) == len(SCENES)
    for name, example in found.items():
        for member in ("bbox", "label", "area", "id"):
            np.testing.assert_array_equal(example["objects"][member], expected[name]["objects"][member])
        np.testing.assert_array_equal(example["image"], expected[name]["image"])
        told = json.loads(read[name]["json"])
        assert example["n"] == told["n"]
        items = told["objects"]
        boxes = [item["bbox"] for item in items] if form == "list of objects" else items["bbox"]
        height, width = example["image"].shape[:2]
        sides = [(y / height, x / width, (y + high) / height, (x + wide) / width) for x, y, wide, high in boxes]
        np.testing.assert_allclose(example["objects"]["bbox"], np.reshape(sides, (-1, 4)), rtol=1e-6)
    assert names_of(directory) == tuple(NAMES)
    assert run("verify", directory, "--decode").status == 0
    loaded = list(shardmill.load(directory, "train", batch_size=None))
    assert sum(example["objects/bbox"].shape[0] for example in loaded) == sum(len(scene.things) for scene in SCENES)


def test_neither_blocks_nor_a_schema_nor_compression_show(tmp_path: Path) -> None:
    source = write_tars(tmp_path / "in", "names")
    whole = make("webdataset", source, tmp_path / "a")
    assert names_of(whole) == tuple(sorted(NAMES))
    for path in source.iterdir():
        write_files(tmp_path / "packed", {f"{path.name}.gz": gzip.compress(path.read_bytes())})
    records = [path.read_bytes() for path in sorted(whole.glob("*.tfrecord*"))]
    for place, (given, more) in enumerate(
        (
            (source, ("--block_size", "1KiB", "--threads", 1)),
            (source, ("--schema", whole / "schema.pbtxt")),
            (tmp_path / "packed", ()),
        )
    ):
        again = make("webdataset", given, tmp_path / f"b{place}", *more)
        assert (again / "features.json").read_bytes() == (whole / "features.json").read_bytes()
        found = [path.read_bytes() for path in sorted(again.glob("*.tfrecord*"))]
        assert len(found) == len(records)
        if place < 2:
            assert found == records


def test_ids_without_names_and_a_class_beside(tmp_path: Path) -> None:
    drawn = pictures(tmp_path / "drawn", [{"bbox": [BOX], "category": [5]}, {"bbox": [], "category": []}])
    members = [*drawn[:2], ("0.cls", b"1"), *drawn[2:], ("1.cls", b"0")]
    write_files(tmp_path, {"in/a.tar": tar(members)})

    directory = make("webdataset", tmp_path / "in", tmp_path / "out")

    said = "classes of objects have no names but their ids, 0 to 5; --labels_file gives them names"
    assert said in notices(directory)
    assert sorted((int(row["label"]), row["objects/label"].tolist()) for row in shardmill.examples(directory)) == [
        (0, []),
        (1, [5]),
    ]


def test_bad_objects_are_rejects_with_their_reasons(run: Run, tmp_path: Path) -> None:
    good = {"bbox": [BOX], "category": ["a"], "area": [1]}
    none: list[Any] = [None, [], {}, {"bbox": [], "category": [], "area": []}]
    bad: list[tuple[Any, str]] = [
        ({"bbox": [BOX], "category": ["a", "b"], "area": [1]}, "lists of several lengths: 1 of bbox, 2 of category"),
        ({"bbox": [], "category": ["a"], "area": []}, "lists of several lengths: 0 of bbox, 1 of category"),
        ({"bbox": [BOX], "area": [1]}, "category is null; expected a list"),
        ({"bbox": [BOX], "category": ["a"]}, "area is null; expected a list"),
        ([{"bbox": BOX, "category": None}], "object 1 has null for its class"),
        ([{"bbox": BOX, "category": "a"}, {"category": "a"}], "object 2 has null for bbox"),
        ({"bbox": [[1, 2, 3]], "category": ["a"], "area": [1]}, "object 1 has [1, 2, 3] for bbox; expected [x, y,"),
        ([1, 2], "column 'objects': a list of 2, where one value was expected"),
        ({"boxes": []}, '{"boxes": []} is not a number, a string or a list of them'),
        ({"bbox": [[900, 2, 4, 4]], "category": ["a"], "area": [1]}, "lies outside the picture"),
        ("nothing", '"nothing"; expected an object with bbox, category, area, or a list of such'),
    ]
    values = [good, [{"bbox": BOX, "category": "a"}], *none, *(value for value, _ in bad)]
    write_files(tmp_path, {"in/a.tar": tar(pictures(tmp_path / "drawn", values))})

    done = run("webdataset", "--input", tmp_path / "in", "--output", tmp_path, "--name", "n", *MOST)

    assert done.status == 0, done.err
    reasons = rejects(tmp_path / "n/1.0.0")
    first = 3 + len(none)
    assert sorted(reasons) == [first + number for number in range(len(bad))]
    for (_, reason), found in zip(bad, (reasons[line] for line in sorted(reasons)), strict=True):
        assert reason in found
    kept = {row["filename"]: row for row in shardmill.examples(tmp_path / "n", "train")}
    assert [len(row["objects/label"]) for _, row in sorted(kept.items())] == [1, 1, 0, 0, 0, 0]
    assert kept[b"1"]["objects/area"].tolist() == [12]  # of its box


def test_boxes_are_clipped_or_dropped_and_what_no_example_holds_is_said(tmp_path: Path) -> None:
    over = {"bbox": [[-2, 0, 10, 10], [900, 0, 1, 1]], "category": ["a", "b"], "segmentation": [[1, 2], [3, 4]]}
    write_files(tmp_path, {"in/a.tar": tar(pictures(tmp_path / "drawn", [over]))})

    directory = make("webdataset", tmp_path / "in", tmp_path / "out", "--on_bad_box", "drop")

    (example,) = shardmill.examples(directory, "train")
    assert example["objects/label"].tolist() == [0]
    np.testing.assert_allclose(np.ravel(example["objects/bbox"]), [0, 0, 10 / 48, 8 / 64], rtol=1e-6)
    assert {
        "1 box reached out of its picture, and was clipped",
        "1 box was no good, and its object was left out",
        "left out of annotations of objects, of which the boxes are kept: segmentation of 2",
    } <= set(notices(directory))


def test_drop_leaves_them_out(tmp_path: Path) -> None:
    directory = make("webdataset", write_tars(tmp_path / "in"), tmp_path / "out", "--drop", "objects")

    found = {feature.name for feature in open_dataset(str(directory)).manifest.features}
    assert found == {"filename", "image", "n"}


def test_mistakes_are_one_sentence(run: Run, tmp_path: Path) -> None:
    out = ("--output", tmp_path / "out", "--name", "n")
    given: dict[str, list[Any]] = {
        "mixed": [{"bbox": [BOX], "category": ["a"]}, {"bbox": [BOX], "category": [1]}],
        "unclassed": [{"bbox": [BOX], "area": [1]}],
        "plain": [7],
    }
    for name, values in given.items():
        write_files(tmp_path, {f"{name}/a.tar": tar(pictures(tmp_path / "drawn", values))})

    said = "say different things of 'objects': classes are ids in a.tar: 1 and names in a.tar: 0"
    check_mistake(run("webdataset", "--input", tmp_path / "mixed", *out), said)
    said = "'objects' has 'area', 'bbox', and nothing says what each object is; expected 'category'"
    check_mistake(run("webdataset", "--input", tmp_path / "unclassed", *out), said)
    said = "--on_bad_box drop is about boxes in images, and there is no column 'objects' of such"
    check_mistake(run("webdataset", "--input", tmp_path / "plain", "--on_bad_box", "drop", *out), said)
    check_mistake(run("webdataset", "--input", tmp_path / "unclassed", "--label", "objects", *out), "--label objects")
    assert not tree_bytes(tmp_path / "out")
