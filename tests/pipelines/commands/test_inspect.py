"""`shardmill inspect`: what it shows of real data sets, and how it ends."""

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tensorflow_metadata.proto.v0 import statistics_pb2

import shardmill
from shardmill.data.features import Feature
from shardmill.metadata.manifest import crc32c_hex
from shardmill.pipelines.cli import main
from shardmill.pipelines.commands.inspect import features_table
from shardmill.pipelines.reports.inspection import show_values
from shardmill.reading.dataset import open_dataset

_LONG = "ein_sehr_langer_Name_" * 4


def _image(seed: int, image_format: str, size: tuple[int, int] = (20, 10)) -> bytes:
    out = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    Image.fromarray(pixels).save(out, image_format)
    return out.getvalue()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set made from a manifest, with further columns: 6 cats and 3 dogs in train, 3 dogs in test."""
    folder = tmp_path_factory.mktemp("built")
    rows = []
    for index in range(12):
        (folder / f"{index}.png").write_bytes(_image(index, "PNG"))
        label, split = ("cat" if index < 6 else "dög"), ("test" if index > 8 else "train")
        row: dict[str, Any] = {"file_name": f"{index}.png", "label": label, "split": split, "box": [0.5, 1, 2, index]}
        rows.append({**row, "note": "räkna\n" * 20} if index else row)
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    arguments = ["images", "--manifest", str(folder / "rows.jsonl"), "--output", str(folder), "--name", "pets"]
    assert main([*arguments, "--num_shards", "train=3,test=1", "--no_shuffle"]) == 0
    return folder / "pets" / "1.0.0"


@pytest.fixture
def directory(built: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(built.parent, tmp_path / "pets") / "1.0.0")


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main(["inspect", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def _rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_whole(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = _run(capsys, built)
    rows, lines = _rows(out), out.splitlines()
    assert (status, err) == (0, "")
    assert lines[:2] == ["pets 1.0.0", str(built)]
    assert ["image", "bytes", "image,", "png", "1"] in rows
    assert ["label", "int64", "class_label,", "2", "classes", "1"] in rows
    assert ["box", "float32", "tensor", "4"] in rows
    assert ["note", "bytes", "text", "1", "may", "be", "missing"] in rows
    assert [row[:5] for row in rows if row[:1] in (["train"], ["test"])] == [
        ["train", "9", "3", "3", "3"],
        ["test", "3", "1", "3", "3"],
    ]
    assert "2 classes of 'label':" in lines
    assert "  train: 2 with examples, 3 to 6 of each: cat 6, dög 3" in lines
    assert "  test: 1 with examples, 3 of each: dög 3" in lines
    assert any(line.startswith("NOTE: ") and "'cat'" in line for line in lines)
    assert [
        line for line in lines if line.startswith("shardmill.load: images are float32 in [0, 1]: no Rescaling(1/255)")
    ]


def test_examples(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = _run(capsys, built, "--examples", "2")
    size = len(_image(1, "PNG"))
    assert out.split("\n\n")[-2:] == [
        "Example 0, train:\n"
        f"  image     png 20 x 10, {len(_image(0, 'PNG'))} B\n"
        "  label     0 (cat)\n"
        '  filename  "0.png"\n'
        "  height    10\n"
        "  width     20\n"
        "  box       [0.5, 1.0, 2.0, 0.0] (4)\n"
        "  note      (missing)",
        "Example 1, train:\n"
        f"  image     png 20 x 10, {size} B\n"
        "  label     0 (cat)\n"
        '  filename  "1.png"\n'
        "  height    10\n"
        "  width     20\n"
        "  box       [0.5, 1.0, 2.0, 1.0] (4)\n"
        f"  note      {json.dumps(('räkna' + chr(10)) * 9 + 'räkna…', ensure_ascii=False)}\n",
    ]


@pytest.mark.parametrize(
    ("options", "shown"), [([], 3), (["--examples", "0"], 0), (["--examples", "11"], 11), (["--examples", "99"], 12)]
)
def test_number_of_examples(built: Path, capsys: pytest.CaptureFixture[str], options: list[str], shown: int) -> None:
    status, out, _ = _run(capsys, built, *options)
    assert status == 0
    assert [row[1] for row in _rows(out) if row[:1] == ["Example"]] == [f"{index}," for index in range(shown)]


def test_split(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = _run(capsys, built, "--split", "test", "--examples", "1")
    assert status == 0
    assert "Example 0, test:" in out
    assert '"9.png"' in out
    assert "train" not in out.replace("'cat': train", "")  # the notice is about the data set
    assert "  test: 1 with examples" in out


def test_directory_above_the_version(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(capsys, built.parent) == _run(capsys, built)


def test_reads_no_further_than_it_shows(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("pets-train.tfrecord-00001-of-00003", "pets-test.tfrecord-00000-of-00001"):
        (directory / name).unlink()
    assert _run(capsys, directory, "--examples", "3")[0] == 0
    status, _, err = _run(capsys, directory, "--examples", "4")
    assert status == 1
    assert err == "shardmill: error: pets-train.tfrecord-00001-of-00003 is missing\n"


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_without_statistics(directory: Path, capsys: pytest.CaptureFixture[str], damage: str) -> None:
    if damage == "missing":
        (directory / "stats.json").unlink()
    else:
        (directory / "stats.json").write_text('{"splits": {}}')
    status, out, _ = _run(capsys, directory)
    assert status == 0
    assert f"stats.json is {damage}" in out
    assert "Example 2" in out


def test_without_the_description_of_a_transform_graph(built: Path) -> None:
    found = shardmill.inspect(built)

    words = "transform.json is damaged: what was found for the transform graph is not known"
    assert words in replace(found, transform_problem="damaged").text
    assert "transform.json" not in found.text


def test_contact_sheet(built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = _run(capsys, built, "--contact_sheet", tmp_path / "all.png", "--examples", "0")
    assert (status, out.splitlines()[-1]) == (0, f"{tmp_path}/all.png: 12 images")
    status, out, _ = _run(capsys, built, "--contact_sheet", tmp_path / "some.png", "--samples", "2", "--split", "train")
    assert (status, out.splitlines()[-1]) == (0, f"{tmp_path}/some.png: 2 images")
    with Image.open(tmp_path / "all.png") as every, Image.open(tmp_path / "some.png") as some:
        assert every.format == some.format == "PNG"
        assert every.width > some.width


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required: DIRECTORY"),
        (["{tmp}/nothing"], "is not a data set"),
        (["{built}", "--split", "dev"], "--split dev: pets 1.0.0 has no split 'dev'; it has train, test"),
        (["{built}", "--examples", "-1"], "'-1' is not a number from 0"),
        (["{built}", "--samples", "0"], "'0' is not a number from 1"),
        (["{built}", "--runner", "DirectRunner"], "--runner"),
        (
            ["{built}", "--examples", "0", "--contact_sheet", "{tmp}/no/folder.png"],
            "--contact_sheet {tmp}/no/folder.png: No such file",
        ),
        (["{built}", "--examples", "0", "--contact_sheet", "gs://bucket/sheet.png"], "expected a local path"),
    ],
)
def test_mistakes(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    status, _, err = _run(capsys, *(argument.format(tmp=tmp_path, built=built) for argument in arguments))
    assert status == 2
    assert err.startswith("shardmill: error: ")
    assert err.count("\n") == 1
    assert words.format(tmp=tmp_path) in err


def test_unpublished(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "_SUCCESS").unlink()
    status, out, err = _run(capsys, directory)
    assert (status, out) == (2, "")
    assert "has no _SUCCESS" in err


_IMAGE, _TEXT = Feature("image", "bytes", "image"), Feature("text", "bytes", "text")
_LABEL = Feature("label", "int64", "class_label", class_names=("cat", _LONG))


@pytest.mark.parametrize(
    ("values", "feature", "shown"),
    [
        (
            [_image(0, "JPEG", (256, 128))],
            _IMAGE,
            f"jpeg 256 x 128, {len(_image(0, 'JPEG', (256, 128))) / 1000:.1f} kB",
        ),
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
        (np.arange(8), Feature("list", "int64", shape=(None,)), "[0, 1, 2, 3, 4, 5, 6, 7] (8)"),
        (np.arange(9), Feature("list", "int64", shape=(None,)), "[0, 1, 2, 3, 4, 5, 6, 7, …] (9)"),
        (np.array([5]), Feature("list", "int64", shape=(None,)), "[5] (1)"),
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
    arguments = ["csv", "--input", str(folder / "rows.csv"), "--output", str(folder), "--name", "zoo"]
    assert main([*arguments, "--label", "animal", "--no_shuffle"]) == 0
    return folder / "zoo" / "1.0.0"


def test_a_table_shows_what_its_columns_hold(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = _run(capsys, table, "--examples", "0")

    assert ["age", "2", "6", "1", "1", "4", "1,000", "1,000"] in _rows(out)
    assert ["fold", "0", "2", "0", "0", "0", "1", "1"] in _rows(out)
    assert "  train: 2 with examples, 3 to 5 of each: cat 5, dog 3" in out.splitlines()


def test_json(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = _run(capsys, table, "--examples", "1", "--json")
    found = json.loads(out)
    stats, manifest = (json.loads((table / name).read_text()) for name in ("stats.json", "manifest.json"))

    assert (status, out.count("\n"), found["format"]) == (0, 1, 1)
    assert (found["name"], found["version"], found["directory"]) == ("zoo", "1.0.0", str(table))
    assert [feature["name"] for feature in found["features"]] == [each["name"] for each in manifest["features"]]
    assert found["statistics"]["train"] == stats["splits"]["train"]["features"]
    assert found["statistics"]["train"]["animal"]["classes"] == {"cat": 5, "dog": 3}
    (split,) = found["splits"]
    assert split == {
        "name": "train",
        "examples": 8,
        "size_bytes": manifest["splits"][0]["shards"][0]["size_bytes"],
        "rejected": 0,
        "shards": 1,
        "smallest": 8,
        "largest": 8,
    }
    assert found["examples"] == [{"split": "train", "features": {"age": "1", "animal": "0 (cat)", "fold": "0"}}]


def test_json_of_one_split(built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = _run(capsys, built, "--json", "--split", "test", "--contact_sheet", tmp_path / "sheet.png")
    found = json.loads(out)

    assert (status, (tmp_path / "sheet.png").stat().st_size > 0) == (0, True)
    assert [split["name"] for split in found["splits"]] == [*found["statistics"]] == ["test"]
    assert {example["split"] for example in found["examples"]} == {"test"}
    assert found["notices"]


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_json_without_statistics(directory: Path, capsys: pytest.CaptureFixture[str], damage: str) -> None:
    if damage == "missing":
        (directory / "stats.json").unlink()
    else:
        (directory / "stats.json").write_text('{"splits": {}}')
    status, out, _ = _run(capsys, directory, "--json")

    assert (status, json.loads(out)["statistics"], json.loads(out)["statistics_missing"]) == (0, None, damage)


def test_json_of_a_damaged_shard_is_no_json(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "pets-train.tfrecord-00000-of-00003").unlink()

    assert _run(capsys, directory, "--json") == (
        1,
        "",
        "shardmill: error: pets-train.tfrecord-00000-of-00003 is missing\n",
    )


def test_feature_stats_say_what_stats_json_says(table: Path, built: Path) -> None:
    """Of data sets that were written: FeatureStats.pb beside stats.json, and the crc32c of both in the manifest."""
    for directory in (table, built):
        proto = statistics_pb2.DatasetFeatureStatisticsList.FromString((directory / "FeatureStats.pb").read_bytes())
        manifest, stats = open_dataset(directory).manifest, open_dataset(directory).stats()
        assert manifest.files["FeatureStats.pb"] == crc32c_hex((directory / "FeatureStats.pb").read_bytes())
        assert {each.name: each.num_examples for each in proto.datasets} == {
            name: split.examples for name, split in stats.splits.items()
        }
    (train,) = statistics_pb2.DatasetFeatureStatisticsList.FromString((table / "FeatureStats.pb").read_bytes()).datasets
    age = next(feature.num_stats for feature in train.features if feature.path.step[0] == "age")
    assert (age.common_stats.num_non_missing, age.common_stats.num_missing) == (6, 2)
    assert (age.min, age.median, age.max, age.mean) == (1, 4, 1000, 1021 / 6)
