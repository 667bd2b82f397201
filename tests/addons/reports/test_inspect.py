"""`shardmill inspect`: what it shows of real data sets, and how it ends."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tensorflow_metadata.proto.v0 import statistics_pb2

import shardmill
from shardmill.addons.reports.inspect_command import features_table
from shardmill.data.features import Feature
from shardmill.metadata.manifest import crc32c_hex
from shardmill.pipelines.reports.inspection import show_values
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run, image
from tests.support.reading import copy, make

_LONG = "ein_sehr_langer_Name_" * 4


def _png(seed: int) -> bytes:
    return image(seed, "PNG", (20, 10))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set made from a manifest, with further columns: 6 cats and 3 dogs in train, 3 dogs in test."""
    folder = tmp_path_factory.mktemp("built")
    rows = []
    for index in range(12):
        (folder / f"{index}.png").write_bytes(_png(index))
        label, split = ("cat" if index < 6 else "dög"), ("test" if index > 8 else "train")
        row: dict[str, Any] = {"file_name": f"{index}.png", "label": label, "split": split, "box": [0.5, 1, 2, index]}
        rows.append({**row, "note": "räkna\n" * 20} if index else row)
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    flags = ("--manifest", folder / "rows.jsonl", "--num_shards", "train=3,test=1", "--no_shuffle")
    return make("images", None, folder, *flags)


@pytest.fixture
def directory(built: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return copy(built, tmp_path)


def _rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_whole(built: Path, run: Run) -> None:
    status, out, err = run("inspect", built)
    rows, lines = _rows(out), out.splitlines()
    assert (status, err) == (0, "")
    assert lines[:2] == ["n 1.0.0", str(built)]
    assert ["image", "bytes", "image,", "png", "1"] in rows
    assert ["label", "int64", "class_label,", "2", "classes", "1"] in rows
    assert ["box", "float32", "tensor", "4"] in rows
    assert ["note", "bytes", "text", "1", "may", "be", "missing"] in rows
    splits = [row[:5] for row in rows if row[:1] in (["train"], ["test"])]
    assert splits == [["train", "9", "3", "3", "3"], ["test", "3", "1", "3", "3"]]
    assert "2 classes of 'label':" in lines
    assert rows[lines.index("2 classes of 'label':") + 1 :][:3] == [
        ["label", "train", "test"],
        ["cat", "6", "0"],
        ["dög", "3", "3"],
    ]
    assert any(line.startswith("NOTE: ") and "'cat'" in line for line in lines)
    assert any(line.startswith("shardmill.load: images are float32 in [0, 1]: no Rescaling(1/255)") for line in lines)
    assert run("inspect", built.parent).out == out


def test_examples(built: Path, run: Run) -> None:
    out = run("inspect", built, "--examples", "2").out
    note = json.dumps(("räkna" + chr(10)) * 9 + "räkna…", ensure_ascii=False)
    assert out.split("\n\n")[3:5] == [
        f"Example {index}, train:\n"
        f"  image     png 20 x 10, {len(_png(index))} B\n"
        "  label     0 (cat)\n"
        f'  filename  "{index}.png"\n'
        "  height    10\n"
        "  width     20\n"
        f"  box       [0.5, 1.0, 2.0, {index}.0] (4)\n"
        f"  note      {shown}"
        for index, shown in enumerate(("(missing)", note))
    ]


@pytest.mark.parametrize(
    ("options", "shown"), [([], 3), (["--examples", "0"], 0), (["--examples", "11"], 11), (["--examples", "99"], 12)]
)
def test_number_of_examples(built: Path, run: Run, options: list[str], shown: int) -> None:
    status, out, _ = run("inspect", built, *options)
    assert status == 0
    assert [row[1] for row in _rows(out) if row[:1] == ["Example"]] == [f"{index}," for index in range(shown)]


def test_split(built: Path, run: Run) -> None:
    status, out, _ = run("inspect", built, "--split", "test", "--examples", "1")
    assert status == 0
    assert "Example 0, test:" in out
    assert '"9.png"' in out
    assert "train" not in out.replace("'cat': train", "")  # the notice is about the data set
    assert ["cat", "0"] in _rows(out)


def test_reads_no_further_than_it_shows(directory: Path, run: Run) -> None:
    for name in ("n-train.tfrecord-00001-of-00003", "n-test.tfrecord-00000-of-00001"):
        (directory / name).unlink()
    assert run("inspect", directory, "--examples", "3").status == 0
    missing = (1, "", "shardmill: error: n-train.tfrecord-00001-of-00003 is missing\n")
    assert run("inspect", directory, "--examples", "4") == missing
    assert run("inspect", directory, "--examples", "4", "--json") == missing


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_without_statistics(directory: Path, run: Run, damage: str) -> None:
    if damage == "missing":
        (directory / "stats.json").unlink()
    else:
        (directory / "stats.json").write_text('{"splits": {}}')
    status, out, _ = run("inspect", directory)
    assert status == 0
    assert f"stats.json is {damage}" in out
    assert "Example 2" in out
    found = json.loads(run("inspect", directory, "--json").out)
    assert (found["statistics"], found["statistics_missing"]) == (None, damage)


def test_without_the_description_of_a_transform_graph(built: Path) -> None:
    found = shardmill.inspect(built)

    words = "transform.json is damaged: what was found for the transform graph is not known"
    assert words in replace(found, transform_problem="damaged").text
    assert "transform.json" not in found.text


def test_contact_sheet(built: Path, tmp_path: Path, run: Run) -> None:
    every, some = (
        run("inspect", built, "--contact_sheet", tmp_path / f"{number}.png", "--examples", "0", *flags)
        for number, flags in ((12, ()), (2, ("--samples", "2", "--split", "train")))
    )
    for number, (status, out, _) in ((12, every), (2, some)):
        assert (status, out.splitlines()[-1]) == (0, f"{tmp_path}/{number}.png: {number} images")
    with Image.open(tmp_path / "12.png") as large, Image.open(tmp_path / "2.png") as small:
        assert large.format == small.format == "PNG"
        assert large.width > small.width


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required: DIRECTORY"),
        (["{tmp}/nothing"], "is not a data set"),
        (["{built}", "--split", "dev"], "--split dev: n 1.0.0 has no split 'dev'; it has train, test"),
        (["{built}", "--examples", "-1"], "'-1' is not a number from 0"),
        (["{built}", "--samples", "0"], "'0' is not a number from 1"),
        (["{built}", "--runner", "DirectRunner"], "--runner"),
        (["{built}", "--contact_sheet", "{tmp}/no/a.png"], "--contact_sheet {tmp}/no/a.png: No such file"),
        (["{built}", "--examples", "0", "--contact_sheet", "gs://bucket/sheet.png"], "expected a local path"),
        (["{tmp}/copy"], "has no _SUCCESS"),
    ],
)
def test_mistakes(built: Path, directory: Path, tmp_path: Path, run: Run, arguments: list[str], words: str) -> None:
    (directory / "_SUCCESS").unlink()
    status, _, err = run("inspect", *(argument.format(tmp=tmp_path, built=built) for argument in arguments))
    assert status == 2
    assert err.startswith("shardmill: error: ")
    assert err.count("\n") == 1
    assert words.format(tmp=tmp_path) in err


_IMAGE, _TEXT = Feature("image", "bytes", "image"), Feature("text", "bytes", "text")
_LABEL = Feature("label", "int64", "class_label", class_names=("cat", _LONG))


_LARGE, _LIST = image(0, "JPEG", (256, 128)), Feature("list", "int64", shape=(None,))


@pytest.mark.parametrize(
    ("values", "feature", "shown"),
    [
        ([_LARGE], _IMAGE, f"jpeg 256 x 128, {len(_LARGE) / 1000:.1f} kB"),
        ([b""], _IMAGE, "the file is empty, 0 B"),
        ([b"GIF89a"], _IMAGE, "truncated: the gif header is cut short, 6 B"),
        ([b"plain"], _TEXT, '"plain"'),
        ([b'"\t\xc3\xa4"'], _TEXT, '"\\"\\tä\\""'),
        ([b"x" * 1000], _TEXT, f'"{"x" * 59}…"'),
        ([b"\xff\xfe\x00"], _TEXT, "3 B, not text"),
        ([], _TEXT, "[] (0)"),
        (None, _TEXT, "(missing)"),
        (np.array([0]), _LABEL, "0 (cat)"),
        (np.array([1]), _LABEL, f"1 ({_LONG[:56]}…"),
        (np.array([2]), _LABEL, "2 (no such class)"),
        (np.array([-1]), _LABEL, "-1 (no such class)"),
        (np.arange(8), _LIST, "[0, 1, 2, 3, 4, 5, 6, 7] (8)"),
        (np.arange(9), _LIST, "[0, 1, 2, 3, 4, 5, 6, 7, …] (9)"),
        (np.array([5]), _LIST, "[5] (1)"),
        ([b"a", b"b"], None, '["a", "b"] (2)'),
    ],
)
def test_values(values: Any, feature: Feature | None, shown: str) -> None:
    assert show_values(values, feature) == shown


def test_names_of_features_are_not_markup() -> None:
    assert "[bold]:cat:[/bold]" in features_table([Feature("[bold]:cat:[/bold]", "bytes")])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight rows of a table in two splits, the age of two of them missing."""
    folder = tmp_path_factory.mktemp("table")
    ages = ["1", "", "1000", "3", "4", "", "6", "7"]
    rows = [f"{age},{'cat' if index < 5 else 'dog'},{index // 4}" for index, age in enumerate(ages)]
    (folder / "rows.csv").write_text("\n".join(["age,animal,fold", *rows]) + "\n")
    return make("csv", folder / "rows.csv", folder, "--label", "animal", "--no_shuffle")


def test_a_table_shows_what_its_columns_hold(table: Path, run: Run) -> None:
    _, short, _ = run("inspect", table, "--examples", "0")
    _, out, _ = run("inspect", table, "--examples", "0", "--statistics")

    assert "50 %" not in short
    assert ["age", "train", "2", "6", "1", "1", "4", "1,000", "1,000"] in _rows(out)
    assert ["fold", "train", "0", "2", "0", "0", "0", "1", "1"] in _rows(out)
    assert ["cat", "5"] in _rows(short)


def test_json(table: Path, run: Run) -> None:
    status, out, _ = run("inspect", table, "--examples", "1", "--json")
    found = json.loads(out)
    stats, manifest = (json.loads((table / name).read_text()) for name in ("stats.json", "manifest.json"))

    assert (status, out.count("\n"), found["format"]) == (0, 1, 1)
    assert (found["name"], found["version"], found["directory"]) == ("n", "1.0.0", str(table))
    assert [feature["name"] for feature in found["features"]] == [each["name"] for each in manifest["features"]]
    assert found["statistics"]["train"] == stats["splits"]["train"]["features"]
    assert found["statistics"]["train"]["animal"]["classes"] == {"cat": 5, "dog": 3}
    size = manifest["splits"][0]["shards"][0]["size_bytes"]
    counts = {"examples": 8, "rejected": 0, "shards": 1, "smallest": 8, "largest": 8}
    assert found["splits"] == [{"name": "train", "size_bytes": size, **counts}]
    assert found["examples"] == [{"split": "train", "features": {"age": "1", "animal": "0 (cat)", "fold": "0"}}]


def test_json_of_one_split(built: Path, tmp_path: Path, run: Run) -> None:
    status, out, _ = run("inspect", built, "--json", "--split", "test", "--contact_sheet", tmp_path / "sheet.png")
    found = json.loads(out)

    assert (status, (tmp_path / "sheet.png").stat().st_size > 0) == (0, True)
    assert [split["name"] for split in found["splits"]] == [*found["statistics"]] == ["test"]
    assert {example["split"] for example in found["examples"]} == {"test"}
    assert found["notices"]


def test_feature_stats_say_what_stats_json_says(table: Path, built: Path) -> None:
    """Of data sets that were written: FeatureStats.pb beside stats.json, and the crc32c of both in the manifest."""
    for directory in (built, table):
        data, dataset = (directory / "FeatureStats.pb").read_bytes(), open_dataset(directory)
        proto = statistics_pb2.DatasetFeatureStatisticsList.FromString(data)
        assert dataset.manifest.files["FeatureStats.pb"] == crc32c_hex(data)
        counts = {name: split.examples for name, split in dataset.stats().splits.items()}
        assert {each.name: each.num_examples for each in proto.datasets} == counts
    age = next(feature.num_stats for feature in proto.datasets[0].features if feature.path.step[0] == "age")
    assert (age.common_stats.num_non_missing, age.common_stats.num_missing) == (6, 2)
    assert (age.min, age.median, age.max, age.mean) == (1, 4, 1000, 1021 / 6)
