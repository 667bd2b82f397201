"""Names that readers expect: --rename on every route, read by TFDS, tf.io.parse_example, load, inspect and verify."""

import json
from pathlib import Path
from typing import Any

import pytest

import shardmill
from shardmill.addons.reports.contact_sheet import pick_samples
from shardmill.data.features import Feature, Renames
from shardmill.errors import UserError
from shardmill.pipelines.config.job import parse_renames
from shardmill.reading.dataset import open_dataset, supervised_pair
from tests.support.command import Run, check_mistake, image, image_tree, write_files
from tests.support.later import Later
from tests.support.reading import copy, make
from tests.support.small_data_set import edit_manifest

tf = Later("tensorflow")
tfds = Later("tensorflow_datasets")

TF_RECORDS = {
    "image": "image/encoded",
    "label": "image/class/label",
    "filename": "image/filename",
    "height": "image/height",
    "width": "image/width",
}


def flags(renames: dict[str, str]) -> list[str]:
    return [word for old, new in renames.items() for word in ("--rename", f"{old}={new}")]


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images with the names of TensorFlow's Object Detection API."""
    folder = tmp_path_factory.mktemp("renamed")
    files = {name: image(number, size=(8, 6)) for number, name in enumerate(image_tree(["ant", "bee"], 4))}
    return make("images", write_files(folder / "in", files), folder / "out", *flags(TF_RECORDS))


def example(directory: Path) -> dict[str, Any]:
    return next(shardmill.examples(directory))


@pytest.mark.slow
def test_images_for_readers_of_the_object_detection_names(run: Run, renamed: Path, tmp_path: Path) -> None:
    assert run("verify", renamed, "--decode").status == 0
    assert set(example(renamed)) == set(TF_RECORDS.values())
    assert (renamed / "image.class.label.labels.txt").read_text() == "ant\nbee\n"
    features = json.loads((renamed / "stats.json").read_text())["splits"]["train"]["features"]
    assert features["image/class/label"] == {"classes": {"ant": 4, "bee": 4}}
    info = json.loads((renamed / "dataset_info.json").read_text())
    keys = [item["featureKey"] for item in info["supervisedKeys"]["tuple"]["items"]]
    assert keys == ["image/encoded", "image/class/label"]

    spec = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }
    record = next(iter(tf.data.TFRecordDataset([str(path) for path in renamed.glob("*.tfrecord-*")])))
    assert tf.io.decode_image(tf.io.parse_single_example(record, spec)["image/encoded"]).shape == (6, 8, 3)

    builder = tfds.builder_from_directory(str(renamed))
    assert builder.info.features["image/class/label"].names == ["ant", "bee"]
    pictures = list(builder.as_dataset(split="train", as_supervised=True))
    assert {tuple(picture.shape) for picture, _ in pictures} == {(6, 8, 3)}
    assert sorted(int(label) for _, label in pictures) == [0] * 4 + [1] * 4

    batch, labels = next(iter(shardmill.load(renamed, batch_size=8)))  # their common size is known
    assert (batch.shape, labels.shape) == ((8, 6, 8, 3), (8,))
    sheet = run("inspect", renamed, "--contact_sheet", tmp_path / "sheet.png")
    assert "8 images" in sheet.out
    assert "jpeg 8 x 6" in sheet.out


@pytest.mark.slow
def test_readers_ask_features_what_they_are_not_how_the_writer_was_told(renamed: Path, tmp_path: Path) -> None:
    directory = copy(renamed, tmp_path)
    edit_manifest(directory, lambda content: content["configuration"].pop("rename"))

    manifest = open_dataset(directory).manifest
    assert {feature.original: feature.name for feature in manifest.features} == TF_RECORDS
    assert supervised_pair(manifest) == ("image/encoded", "image/class/label")
    assert next(iter(shardmill.load(directory, batch_size=8)))[0].shape == (8, 6, 8, 3)  # their common size is known
    (sample,) = pick_samples(open_dataset(directory), manifest.splits, 1)
    assert sample.file in image_tree(["ant", "bee"], 4)


def test_a_manifests_columns(run: Run, tmp_path: Path) -> None:
    write_files(tmp_path, {"a.jpg": image(1), "m.csv": b"file_name,label,age\na.jpg,cat,7\n"})
    given = ["--manifest", tmp_path / "m.csv", *flags({"age": "image/age", "image": "image_raw"})]

    found = example(make("images", None, tmp_path / "out", *given))

    assert (found["image/age"], found["image_raw"]) == (7, image(1))


@pytest.mark.slow
def test_text(run: Run, tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"pos/a.txt": b"good\n", "neg/b.txt": b"bad\n"})
    directory = make("text", source, tmp_path / "out", *flags({"text": "review", "label": "sentiment"}))

    assert {"review", "sentiment"} <= set(example(directory))
    assert (directory / "sentiment.labels.txt").read_text() == "neg\npos\n"
    pairs = tfds.builder_from_directory(str(directory)).as_dataset(split="train", as_supervised=True)
    assert {(text.numpy().strip(), int(label)) for text, label in pairs} == {(b"bad", 0), (b"good", 1)}


def test_tables(run: Run, tmp_path: Path) -> None:
    source = write_files(tmp_path, {"t.csv": b"id,city\n1,Rome\n2,Oslo\n"}) / "t.csv"
    given = ["--label", "city", "--key", "id", *flags({"city": "place/class", "id": "city"})]
    directory = make("csv", source, tmp_path / "out", *given)

    found = list(shardmill.examples(directory))
    assert sorted((int(row["city"]), int(row["place/class"])) for row in found) == [(1, 1), (2, 0)]
    assert (directory / "place.class.labels.txt").read_text() == "Oslo\nRome\n"
    assert run("verify", directory, "--decode").status == 0
    again = ["--schema", directory / "schema.pbtxt", "--labels_file", directory / "place.class.labels.txt"]
    assert list(shardmill.examples(make("csv", source, tmp_path / "again", *given, *again))) == found


NAMES = ("image", "label", "filename")


@pytest.mark.parametrize(
    ("renames", "words"),
    [
        (["imag=x"], "there is no feature 'imag'; they are image, label, filename"),
        (["image=label"], "there is a feature 'label' already"),
        (["image=x", "image=y"], "renames 'image' twice"),
        (["image=x", "label=x"], "calls two features 'x'"),
        (["image=a\nb"], "expected a name that can be printed"),
    ],
)
def test_mistakes(renames: list[str], words: str) -> None:
    with pytest.raises(UserError, match=f"^--rename .*{words}"):
        Renames(parse_renames(renames)).check(NAMES)


def test_names_may_be_exchanged() -> None:
    renames = Renames((("a", "b"), ("b", "a")))
    features = (Feature("a", "int64"), Feature("b", "bytes"))

    renames.check(["a", "b"])
    assert [feature.name for feature in renames.rename_features(features)] == ["b", "a"]
    assert renames.restore_features(renames.rename_features(features)) == features


@pytest.mark.parametrize(
    ("command", "rename", "words"),
    [
        ("images", "imag=x", "there is no feature 'imag'; they are image, label, filename"),
        ("csv", "imag=x", "there is no feature 'imag'; they are a"),
        ("images", "image", "is not name=new name"),
        ("reshard", "image=image_raw", "does not change records"),
    ],
)
def test_mistakes_of_a_command(run: Run, tmp_path: Path, command: str, rename: str, words: str) -> None:
    files = image_tree(["ant", "bee"], 1) if command == "images" else {"a.csv": b"a\n1\n"}
    source = write_files(tmp_path / "in", files)
    arguments = ["--input", source, "--output", tmp_path / "out", "--name", "n", "--rename", rename]

    check_mistake(run(command, *arguments), "--rename", words)
    assert not (tmp_path / "out").exists()


def write_records(path: Path, records: list[dict[str, Any]]) -> Path:
    kinds = {bytes: "bytes_list", int: "int64_list"}
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            made = tf.train.Example()
            for name, value in record.items():
                getattr(made.features.feature[name], kinds[type(value)]).value.append(value)
            writer.write(made.SerializeToString())
    return path


@pytest.mark.slow
def test_images_in_others_records_are_found_by_their_bytes(run: Run, tmp_path: Path) -> None:
    formats = ("JPEG", "PNG", "GIF", "BMP", "WEBP")
    records = [
        {"image_raw": image(number, name), "y": number, "text": b"BM and more", "height": 600}
        for number, name in enumerate(formats)
    ]
    source = write_records(tmp_path / "a.tfrecord", records)
    result = run("reshard", "--input", source, "--output", tmp_path / "out", "--name", "n", "--label", "y")
    assert result.status == 0, result.err
    found = "feature 'image_raw' is an image, by the first bytes of all its values: 1 bmp, 1 gif, 1 jpeg, 1 png, 1 webp"
    assert found in result.out
    assert "TFDS cannot decode gif and webp" in result.out

    directory = tmp_path / "out/n/1.0.0"
    kinds = {feature.name: feature.kind for feature in open_dataset(directory).manifest.features}
    assert kinds == {"image_raw": "image", "y": "tensor", "text": "text", "height": "tensor"}
    options: dict[str, Any] = {"image_size": (9, 12), "features": ["image_raw"], "shuffle": False}
    images, _ = next(iter(shardmill.load(directory, batch_size=5, **options)))
    assert images.shape == (5, 9, 12, 3)
    with pytest.raises(UserError, match="give image_size"):
        shardmill.load(directory, batch_size=5)
    sheet = run("inspect", directory, "--contact_sheet", tmp_path / "sheet.png")
    assert "5 images" in sheet.out
    assert " 12 x 9, " in sheet.out
    assert run("verify", directory, "--decode").status == 0


@pytest.mark.slow
def test_tfds_reads_images_of_others_records_and_bytes_of_which_some_are_no_images_are_none(tmp_path: Path) -> None:
    records = [{"image_raw": image(n), "label": n, "raw": image(1) if n else b"words"} for n in range(3)]
    directory = make("reshard", write_records(tmp_path / "a.tfrecord", records), tmp_path / "out")

    kinds = {feature.name: feature.kind for feature in open_dataset(directory).manifest.features}
    assert kinds == {"image_raw": "image", "label": "tensor", "raw": "text"}
    pairs = tfds.builder_from_directory(str(directory)).as_dataset(split="train", as_supervised=True)
    assert {tuple(picture.shape) for picture, _ in pairs} == {(9, 12, 3)}
