"""Images with `objects` inside of Parquet, as data sets on Hugging Face's hub have them, or beside them in tar
files: they get the features that image files with the same objects get."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import webdataset

import shardmill
from tests.support.archives import tar
from tests.support.command import Run, write_files
from tests.support.detection import Scene, draw
from tests.support.jobs import Jobs
from tests.support.later import Later
from tests.support.objects_in_tables import MOST, NAMES, SCENES, feature_of, features, said_of, write_parquet, write_raw
from tests.support.reading import make

tfds = Later("tensorflow_datasets")
FORMS = ("lists", "list of objects", "names", "ids")


def write_folder(folder: Path) -> Path:
    """The same as image files and JSON lines."""
    for scene in SCENES:
        draw(scene, folder)
    rows = [{"file_name": scene.name, "name": scene.name, "objects": said_of(scene)} for scene in SCENES]
    (folder / "metadata.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def by_name(directory: Path) -> dict[str, dict[str, Any]]:
    dataset = tfds.builder_from_directory(str(directory)).as_dataset(split="train")
    return {example["name"].decode(): example for example in tfds.as_numpy(dataset)}


def objects_entry(directory: Path) -> Any:
    return json.loads((directory / "features.json").read_text())["featuresDict"]["features"]["objects"]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_they_are_the_objects_of_image_files(tmp_path: Path, form: str) -> None:
    (tmp_path / "names.txt").write_text("".join(f"{name}\n" for name in NAMES))
    flags = () if form in ("lists", "list of objects") else ("--labels_file", tmp_path / "names.txt")
    folder = write_folder(tmp_path / "files")
    of_files = make("images", folder, tmp_path / "a", "--labels_file", tmp_path / "names.txt")

    directory = make("parquet", write_parquet(tmp_path / "rows.parquet", form), tmp_path / "b", *flags)

    expected, found = by_name(of_files), by_name(directory)
    assert found.keys() == expected.keys() == {scene.name for scene in SCENES}
    for name, example in expected.items():
        for member in ("bbox", "label", "area", "id"):
            np.testing.assert_array_equal(found[name]["objects"][member], example["objects"][member])
        np.testing.assert_array_equal(found[name]["image"], example["image"])
    assert objects_entry(directory) == objects_entry(of_files)
    assert tfds.builder_from_directory(str(directory)).info.features["objects"]["label"].names == NAMES


def test_ids_without_names_are_called_by_their_numbers(jobs: Jobs) -> None:
    built = jobs.build(f"parquet --input {write_parquet(jobs.folder / 'rows.parquet', 'ids')}")
    assert feature_of(built.directory, "label").class_names == ("0", "1", "2")


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A Parquet file whose objects are lists, and its data set."""
    rows = write_parquet(tmp_path_factory.mktemp("lists") / "rows.parquet")
    return rows, make("parquet", rows, rows.with_name("out"))


def told_of(directory: Path) -> dict[str, Any]:
    """The schema and the features that a build publishes."""
    return {name: (directory / name).read_bytes() for name in ("schema.pbtxt", "features.json")}


def test_a_schema_gives_the_same(lists: tuple[Path, Path], tmp_path: Path) -> None:
    rows, one = lists
    other = make("parquet", rows, tmp_path / "other", "--schema", one / "schema.pbtxt")

    assert told_of(one) == told_of(other)
    assert [path.read_bytes() for path in sorted(one.glob("*.tfrecord*"))] == [
        path.read_bytes() for path in sorted(other.glob("*.tfrecord*"))
    ]


@pytest.mark.slow
def test_a_schema_leaves_out_what_it_has_not_and_asks_for_what_it_has(lists: tuple[Path, Path], jobs: Jobs) -> None:
    rows, one = lists
    schema = (one / "schema.pbtxt").read_text()
    less = "feature {".join(part for part in schema.split("feature {") if '"objects/area"' not in part)
    jobs.write({"less.pbtxt": less, "more.pbtxt": schema.replace("objects/area", "objects/is_crowd")})

    said = "--schema wants objects/is_crowd of each object, which…lacks; it has bbox, category, area, id"
    jobs.refuse(f"parquet --input {rows} --schema in/more.pbtxt", said)
    pq.write_table(pq.read_table(rows).drop_columns(["objects"]), "none.parquet")
    said = "--schema has objects in images, and…has no column 'objects'…--drop objects"
    jobs.refuse("parquet --input none.parquet --schema in/less.pbtxt", said)
    built = jobs.build(f"parquet --input {rows} --schema in/less.pbtxt")
    assert all("area" not in example["objects"] for example in by_name(built.directory).values())


@pytest.mark.parametrize("schema", [False, True])
def test_drop_leaves_them_out(lists: tuple[Path, Path], tmp_path: Path, schema: bool) -> None:
    rows, one = lists
    flags = ("--schema", one / "schema.pbtxt") if schema else ()

    directory = make("parquet", rows, tmp_path / "out", "--drop", "objects", *flags)
    of_tars = make("webdataset", write_tars(tmp_path / "in"), tmp_path / "tars", "--drop", "objects")

    assert {feature.name for feature in features(directory)} == {"image", "name"}
    assert {feature.name for feature in features(of_tars)} == {"filename", "image", "n"}


def test_pictures_that_exif_turns(run: Run, tmp_path: Path) -> None:
    value = {"bbox": [[16.0, 12.0, 16.0, 12.0]], "category": [0]}
    rows = write_raw(tmp_path / "rows.parquet", [value], orientation=6)

    assert (
        "EXIF (orientation 6) turns the picture"
        in run("parquet", "--input", rows, "--output", tmp_path, "--name", "n").err
    )
    stored = make("parquet", rows, tmp_path / "a", "--boxes_seen", "stored")
    upright = make("parquet", rows, tmp_path / "b", "--boxes_seen", "upright")
    by_size = make("parquet", write_raw(rows, [value], 6, width=[48], height=[64]), tmp_path / "c")

    boxes = []
    for directory in (stored, upright, by_size):
        (example,) = shardmill.examples(directory, "train")
        boxes.append(np.ravel(example["objects/bbox"]))
    np.testing.assert_allclose(boxes[0], [12 / 48, 16 / 64, 24 / 48, 32 / 64], rtol=1e-6)
    # Upright it is 48 wide and 64 high, and what is stored is that turned to the left
    np.testing.assert_allclose(boxes[1], [1 - 32 / 48, 12 / 64, 1 - 16 / 48, 24 / 64], rtol=1e-6)
    np.testing.assert_array_equal(boxes[2], boxes[1])


BOX = [1.0, 2.0, 3.0, 4.0]


def said_in_tar(scene: Scene, form: str) -> Any:
    """The objects in a picture, by names or ids of classes."""
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
                told = {"objects": said_in_tar(scene, form), "n": int(scene.name[:3])}
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
    return feature_of(directory, "label").class_names


@pytest.mark.slow
@pytest.mark.parametrize("form", ["lists", "list of objects", "names"])
def test_they_are_the_objects_of_image_files_and_what_webdataset_reads(tmp_path: Path, run: Run, form: str) -> None:
    write_files(tmp_path, {"names.txt": "".join(f"{n}\n" for n in NAMES).encode()})
    flags = ("--labels_file", tmp_path / "names.txt")
    source = write_tars(tmp_path / "in", form)
    rows = [{"file_name": scene.name, "objects": said_in_tar(scene, form)} for scene in SCENES]
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


def test_ids_without_names_and_a_class_beside(jobs: Jobs) -> None:
    drawn = pictures(jobs.folder / "drawn", [{"bbox": [BOX], "category": [5]}, {"bbox": [], "category": []}])
    members = [*drawn[:2], ("0.cls", b"1"), *drawn[2:], ("1.cls", b"0")]

    built = jobs.build("webdataset", files={"a.tar": tar(members)})

    found = sorted((int(row["label"]), row["objects/label"].tolist()) for row in built.examples())
    assert found == [(0, []), (1, [5])]


def test_bad_objects_are_rejects_with_their_reasons(jobs: Jobs) -> None:
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
    built = jobs.build("webdataset", *MOST, files={"a.tar": tar(pictures(jobs.folder / "drawn", values))})

    reasons = {reject["line"]: reject["reason"] for reject in built.rejects}
    first = 3 + len(none)
    assert sorted(reasons) == [first + number for number in range(len(bad))]
    for (_, reason), found in zip(bad, (reasons[line] for line in sorted(reasons)), strict=True):
        assert reason in found
    kept = {row["filename"]: row for row in built.examples()}
    assert [len(row["objects/label"]) for _, row in sorted(kept.items())] == [1, 1, 0, 0, 0, 0]
    assert kept[b"1"]["objects/area"].tolist() == [12]  # of its box


def test_boxes_are_clipped_or_dropped_and_what_no_example_holds_is_said(jobs: Jobs) -> None:
    over = {"bbox": [[-2, 0, 10, 10], [900, 0, 1, 1]], "category": ["a", "b"], "segmentation": [[1, 2], [3, 4]]}
    files = {"a.tar": tar(pictures(jobs.folder / "drawn", [over]))}

    built = jobs.build("webdataset --on_bad_box drop", files=files)

    (example,) = built.examples()
    assert example["objects/label"].tolist() == [0]
    np.testing.assert_allclose(np.ravel(example["objects/bbox"]), [0, 0, 10 / 48, 8 / 64], rtol=1e-6)
    assert {
        "1 box reached out of its picture, and was clipped",
        "1 box was no good, and its object was left out",
        "left out of annotations of objects, of which the boxes are kept: segmentation of 2",
    } <= set(built.notices)


UNCLASSED: list[Any] = [{"bbox": [BOX], "area": [1]}]


@pytest.mark.parametrize(
    ("values", "flags", "said"),
    [
        (
            [{"bbox": [BOX], "category": ["a"]}, {"bbox": [BOX], "category": [1]}],
            "",
            "say different things of 'objects': classes are ids in a.tar: 1 and names in a.tar: 0",
        ),
        (UNCLASSED, "", "'objects' has 'area', 'bbox', and nothing says what each object is; expected 'category'"),
        ([7], "--on_bad_box drop", "--on_bad_box drop is about boxes in images, and there is no column 'objects' of"),
        (UNCLASSED, "--label objects", "--label objects"),
    ],
)
def test_mistakes_are_one_sentence(jobs: Jobs, values: list[Any], flags: str, said: str) -> None:
    jobs.refuse(f"webdataset {flags}", said, files={"a.tar": tar(pictures(jobs.folder / "drawn", values))})
