"""--transform on the columns of a manifest: images stay as they are, what is said of them is transformed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from shardmill.data.example import decode_example
from shardmill.metadata import file_names
from shardmill.metadata.tfds_metadata import TransformFile
from shardmill.pipelines import cli
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run, image, write_files
from tests.support.houses import graph_bytes, parsed, values_of

pytestmark = pytest.mark.slow

TRANSFORM = """\
age: [{fill: 30}, z_score]
city: {vocabulary: {num_oov_buckets: 1}}
size:
  - {min_max: [0, 1], output: size_scaled}
  - {bucketize: {num_buckets: 3}, one_hot: true, output: size_bucket}
"""
IMAGES = 60
BROKEN = 7  # the number of an image that is cut, whose values are far from all others
FLAGS = ("--max_reject_fraction", "0.1", "--num_shards", "train=3,test=2", "--quiet")


def rows(of_test: int = 0) -> list[dict[str, Any]]:
    """What the manifest says; of the other split, something else for each `of_test`."""
    found = []
    for number in range(IMAGES):
        split = "test" if number % 4 == 0 else "train"
        moved = of_test if split == "test" else 0
        row = {
            "file_name": f"{number:02}.png",
            "label": "ab"[number % 2],
            "split": split,
            "age": None if number % 5 == 0 else number + 1000 * moved,
            "city": ("Rome", "Oslo", "Rome", "Bern")[number % 4] + "!" * moved,
            "size": number * number / 8 - moved,
        }
        found.append(row | ({"age": 10**6, "city": "Atlantis", "size": -1e6} if number == BROKEN else {}))
    return found


def folder_of(root: Path, of_test: int = 0) -> Path:
    files = {f"{number:02}.png": image(number, "PNG", (8, 6)) for number in range(IMAGES)}
    files[f"{BROKEN:02}.png"] = files[f"{BROKEN:02}.png"][:40]
    write_files(root, files)
    (root / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(of_test)))
    (root / "t.yaml").write_text(TRANSFORM)
    return root


def build(root: Path, name: str, *flags: str) -> Path:
    given = ("--manifest", str(root / "all.jsonl"), "--output", str(root / "out"), "--name", name, *FLAGS, *flags)
    assert cli.main(["images", *given, "--transform", str(root / "t.yaml")]) == 0
    return root / "out" / name / "1.0.0"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(folder_of(tmp_path_factory.mktemp("made")), "made", "--threads", "1")


def told(directory: Path) -> dict[str, Any]:
    file = TransformFile.from_json((directory / file_names.TRANSFORM).read_bytes(), file_names.TRANSFORM)
    return {output.name: output for output in file.outputs}


def test_constants_are_of_the_training_rows_whose_images_are_good(made: Path) -> None:
    train = [row for number, row in enumerate(rows()) if row["split"] == "train" and number != BROKEN]
    ages = np.array([30 if row["age"] is None else row["age"] for row in train], float)
    sizes = [row["size"] for row in train]
    found = told(made)

    assert found["age"].constants["mean"] == pytest.approx(ages.mean())
    assert found["age"].constants["std_dev"] == pytest.approx(ages.std())
    assert found["size_scaled"].constants == {"minimum": min(sizes), "maximum": max(sizes), "values": len(train)}
    city = found["city"].vocabulary
    assert dict(city.head) == {name: sum(row["city"] == name for row in train) for name in ("Rome", "Oslo", "Bern")}
    assert city.unknown["train"] == (len(train), 0)


def test_tft_applies_the_graph_to_the_examples(made: Path) -> None:
    import tensorflow_transform as tft

    layer = tft.TFTransformOutput(str(made / file_names.TRANSFORM_GRAPH)).transform_features_layer()
    raw = parsed(made, "test")
    found = layer(raw)

    age = told(made)["age"].constants
    named = [name.decode() for name in raw["filename"].numpy()]
    ages = [row["age"] or 30 for row in (rows()[int(name[:2])] for name in named)]
    assert found["age"].numpy() == pytest.approx([(value - age["mean"]) / age["std_dev"] for value in ages], abs=1e-5)
    assert found["image"].numpy().tolist() == raw["image"].numpy().tolist()
    assert {len(row) for row in values_of(found["size_bucket"])} == {3}


def test_load_decodes_images_beside_transformed_columns(made: Path) -> None:
    inputs, labels = next(iter(shardmill.load(made, "train", 8, transform=True, seed=1)))

    assert inputs["image"].shape == (8, 6, 8, 3)
    assert inputs["size_bucket"].shape == (8, 3)
    assert labels.shape == (8,)


def test_examples_are_those_without_it_and_bytes_those_of_any_threads(made: Path, run: Run) -> None:
    root = made.parents[2]
    plain = ("--manifest", root / "all.jsonl", "--output", root / "out", "--name", "plain", *FLAGS)
    assert run("images", *plain).status == 0
    again = build(root, "again", "--threads", "3")

    records = [
        [record for shard in one.manifest.split(split).shards for record in one.records(shard)]
        for one in map(open_dataset, (made, root / "out/plain/1.0.0"))
        for split in ("train", "test")
    ]
    assert records[:2] == records[2:]
    assert len(records[0]) == len([row for row in rows() if row["split"] == "train"]) - 1
    assert graph_bytes(again) == graph_bytes(made)


def test_a_second_build_that_reads_no_file_finds_the_same(made: Path, run: Run) -> None:
    root = made.parents[2]
    first = build(root, "nights", "--reuse", "record")
    given = ("--manifest", root / "all.jsonl", "--output", root / "out", "--name", "nights", *FLAGS)
    again = ("--version", "1.0.1", "--reuse", "LATEST", "--transform", root / "t.yaml")
    assert run("images", *given, *again).status == 0
    second = first.parent / "1.0.1"

    record = json.loads(next((first.parent / "builds").glob("1.0.1*")).read_bytes())
    assert (record["reused"], record["read"]) == (IMAGES, 0)
    assert graph_bytes(second) == graph_bytes(first)


def test_no_value_of_another_split_changes_what_is_found(made: Path, tmp_path: Path) -> None:
    other = build(folder_of(tmp_path, of_test=1), "made")

    one, its = graph_bytes(made), graph_bytes(other)
    assert [name for name in one if one[name] != its[name]] == [file_names.TRANSFORM]
    assert told(other)["city"].vocabulary.unknown == {"test": (15, 15), "train": (44, 0)}
    ages = [row["age"][0] for row in map(decode_example, _records(other, "test")) if "age" in row]
    assert max(map(float, ages)) > 1000


def _records(directory: Path, split: str) -> list[bytes]:
    dataset = open_dataset(directory)
    return [record for shard in dataset.manifest.split(split).shards for record in dataset.records(shard)]


@pytest.mark.parametrize(
    ("transform", "sentence"),
    [
        ("height: z_score", "t.yaml line 1: feature 'height': constants are taken of the columns of the manifest"),
        ("hight: log1p", "t.yaml line 1: feature 'hight' is not there"),
        ("city: z_score", "t.yaml line 1: feature 'city': z_score takes numbers, and the values are bytes"),
    ],
)
def test_a_mistake_is_one_sentence(run: Run, tmp_path: Path, transform: str, sentence: str) -> None:
    folder_of(tmp_path)
    (tmp_path / "t.yaml").write_text(transform)
    given = ("--manifest", tmp_path / "all.jsonl", "--output", tmp_path / "out", "--name", "n", *FLAGS)

    result = run("images", *given, "--transform", tmp_path / "t.yaml")

    assert (result.status, sentence in result.err) == (2, True), result.err
    assert not list((tmp_path / "out").rglob("*.tfrecord*"))


def test_it_needs_a_manifest_and_a_dry_run_says_what_was_understood(run: Run, tmp_path: Path) -> None:
    folder_of(tmp_path)
    transform = ("--transform", tmp_path / "t.yaml", "--output", tmp_path / "out", "--name", "n")

    folder = run("images", "--input", tmp_path, *transform)
    dry = run("images", "--manifest", tmp_path / "all.jsonl", *transform, "--dry_run")

    assert (folder.status, "--transform is about the columns of a --manifest" in folder.err) == (2, True)
    assert dry.status == 0
    assert "  age: age | fill(value=30) | z_score -> float32" in dry.out.splitlines()
    assert not (tmp_path / "out").exists()
