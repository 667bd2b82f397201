"""Other people's readers on what we write: TFDS, and tf.data with the feature spec of the schema, on every split of
images, tables, text and resharded records."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardmill.pipelines import cli
from tests.support.command import REPOSITORY, Contents, image, image_tree, read_back, write_files
from tests.support.later import Later
from tests.support.table_results import Table, to_csv
from tests.support.table_results import convert as convert_table

pytestmark = pytest.mark.tensorflow

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
tf = Later("tensorflow")
tfds = Later("tensorflow_datasets")
sklearn_datasets = Later("sklearn.datasets")
FORMATS = {"jpg": "JPEG", "png": "PNG", "gif": "GIF", "bmp": "BMP", "webp": "WEBP"}
SPLITS = ("train", "validation", "test")


def convert(*arguments: object) -> None:
    assert cli.main(["images", *map(str, arguments)]) == 0


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """Three classes, three splits, of several shards each."""
    root = tmp_path_factory.mktemp("pictures")
    folder = write_files(root / "in", image_tree(("ant", "bee", "日本"), 20))
    splits = "train=0.6,validation=0.2,test=0.2"
    flags = ("--splits", splits, "--stratify_by", "label", "--num_shards", 3)
    convert("--input", folder, "--output", root, "--name", "n", *flags)
    return read_back(root / "n")


@pytest.fixture(scope="session")
def formats(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """An image of each format that passes through."""
    root = tmp_path_factory.mktemp("formats")
    files = {f"a/{suffix}.{suffix}": image(5, name, (14, 11)) for suffix, name in FORMATS.items()}
    convert("--input", write_files(root / "in", files), "--output", root, "--name", "n")
    return read_back(root / "n")


ROWS: list[dict[str, Any]] = [
    {
        "file_name": f"{number}.jpg",
        "label": "odd" if number % 2 else "even",
        "split": "train" if number < 4 else "test",
        "number": number - 3,
        "score": number / 4,
        "caption": f"caption “{number}”",
        "objects/bbox": [number, 0, 7, -number],
        "vector": [0.5] * number,
        "tags": ["t"] * (number % 3),
        "empty": [],
        **({"rare": number} if number in (1, 5) else {}),
        **({"note": f"note {number}"} if number == 2 else {}),
        **({"pair": [number, number]} if number == 4 else {}),
    }
    for number in range(6)
]


@pytest.fixture(scope="session")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """A manifest with columns of every kind, some with missing values."""
    root = tmp_path_factory.mktemp("listed")
    folder = write_files(root / "in", {row["file_name"]: image(number) for number, row in enumerate(ROWS)})
    (folder / "meta.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    convert("--manifest", folder / "meta.jsonl", "--output", root, "--name", "n", "--num_shards", 2)
    return read_back(root / "n")


def spec_of(directory: Path) -> dict[str, Any]:
    """The feature spec that TensorFlow Transform makes of the schema."""
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tensorflow_transform.tf_metadata import schema_utils

    schema = text_format.Parse((directory / "schema.pbtxt").read_text(), schema_pb2.Schema())
    spec: dict[str, Any] = schema_utils.schema_as_feature_spec(schema).feature_spec
    return spec


def parsed(directory: Path, split: str) -> list[dict[str, Any]]:
    """The examples of a split by tf.data and that spec, as Python values; a sparse feature as a list."""
    files = tf.data.Dataset.list_files(f"{directory}/n-{split}.tfrecord-*", shuffle=False)
    spec = spec_of(directory)
    examples = tf.data.TFRecordDataset(files).map(lambda record: tf.io.parse_single_example(record, spec))
    return [{name: plain(value) for name, value in example.items()} for example in examples]


def plain(value: Any) -> Any:
    """A tensor as Python values."""
    if isinstance(value, tf.SparseTensor):
        return value.values.numpy().tolist()
    found = value.numpy()
    return found.tolist() if isinstance(found, np.ndarray | np.generic) else found


def test_tfds_reads_every_split(pictures: Contents) -> None:
    builder = tfds.builder_from_directory(str(pictures.directory))
    assert (builder.info.name, str(builder.info.version)) == ("n", "1.0.0")
    assert builder.info.features["label"].names == ["ant", "bee", "日本"]
    assert list(builder.info.splits) == list(SPLITS)
    for split in SPLITS:
        names = pictures.splits[split]
        assert builder.info.splits[split].num_examples == len(names)
        assert builder.info.splits[split].num_shards == 3
        read = list(tfds.as_numpy(builder.as_dataset(split=split)))
        assert Counter(example["filename"].decode() for example in read) == Counter(names)
        for example in read:
            name = example["filename"].decode()
            (content,) = pictures.example(name)["image"]
            assert builder.info.features["label"].int2str(int(example["label"])) == pictures.label_of(name)
            assert np.array_equal(example["image"], tf.io.decode_jpeg(content, channels=3).numpy())
            assert example["image"].shape == (example["height"], example["width"], 3)


def test_tfds_reads_supervised_pairs(pictures: Contents) -> None:
    builder = tfds.builder_from_directory(str(pictures.directory))
    pairs = list(tfds.as_numpy(builder.as_dataset(split="test", as_supervised=True)))
    assert Counter(int(label) for _, label in pairs) == {0: 4, 1: 4, 2: 4}
    assert all(picture.dtype == np.uint8 and picture.shape[2] == 3 for picture, _ in pairs)


def test_tensorflow_reads_every_split_by_the_schema(pictures: Contents) -> None:
    for split in SPLITS:
        read = parsed(pictures.directory, split)
        assert [example["filename"].decode() for example in read] == pictures.splits[split]
        for example in read:
            ours = pictures.example(example["filename"].decode())
            assert example.keys() == ours.keys()
            assert [example["image"]] == ours["image"]
            for feature in ("label", "height", "width"):
                assert [example[feature]] == list(ours[feature])


@pytest.mark.slow
@pytest.mark.parametrize("suffix", FORMATS)
def test_format_that_tfds_cannot_decode_is_said(tmp_path: Path, suffix: str) -> None:
    """The notice is there if and only if TFDS fails; re-encoded, as it advises, the same images are read."""
    folder = write_files(tmp_path / "in", {f"1.{suffix}": image(5, FORMATS[suffix], (14, 11))})
    convert("--input", folder, "--output", tmp_path, "--name", "n")
    builder = tfds.builder_from_directory(str(tmp_path / "n" / "1.0.0"))
    try:
        shapes = [example["image"].shape for example in builder.as_dataset(split="train")]
    except tf.errors.InvalidArgumentError:
        shapes = []
    notices = [
        notice for notice in read_back(tmp_path / "n").dataset.manifest.notices if "TFDS cannot decode" in notice
    ]
    assert [f"TFDS cannot decode 1 of the images, {suffix} by format" in notice for notice in notices] == (
        [] if shapes else [True]
    )
    assert shapes in ([], [(11, 14, 3)])
    if notices:
        convert("--input", folder, "--output", tmp_path, "--name", "n", "--image_format", "png", "--overwrite")
        builder = tfds.builder_from_directory(str(tmp_path / "n" / "1.0.0"))
        assert [example["image"].shape for example in builder.as_dataset(split="train")] == [(11, 14, 3)]
        assert read_back(tmp_path / "n").dataset.manifest.notices == ()


@pytest.mark.parametrize("reader", ["schema", "tfds"])
def test_manifest_columns(listed: Contents, reader: str) -> None:
    read = {}
    for split, number in (("train", 4), ("test", 2)):
        if reader == "schema":
            examples = parsed(listed.directory, split)
        else:
            builder = tfds.builder_from_directory(str(listed.directory))
            examples = list(tfds.as_numpy(builder.as_dataset(split=split)))
        assert len(examples) == number
        read.update({example["filename"].decode(): example for example in examples})
    for row in ROWS:
        example = read[row["file_name"]]
        assert example["label"] == ("even", "odd").index(row["label"])
        assert example["number"] == row["number"]
        assert example["score"] == np.float32(row["score"])
        assert example["caption"].decode() == row["caption"]
        assert np.asarray(example["objects/bbox"]).tolist() == row["objects/bbox"]
        assert np.asarray(example["vector"]).tolist() == row["vector"]
        assert [tag.decode() for tag in example["tags"]] == row["tags"]
        assert np.asarray(example["empty"]).tolist() == []
        assert np.asarray(example["rare"]).tolist() == [row[key] for key in ("rare",) if key in row]
        assert [note.decode() for note in example["note"]] == [row[key] for key in ("note",) if key in row]
        assert np.asarray(example["pair"]).tolist() == row.get("pair", [])
        assert "split" not in example


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_report_is_code_that_reads_the_data_set(
    compression: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant", "bee"), 3))
    convert("--input", folder, "--output", tmp_path, "--name", "n", "--compression", compression, "--num_shards", 2)
    code = capsys.readouterr().out.split("or, without shardmill:\n")[1]
    names: dict[str, Any] = {}
    exec("\n".join(line.strip() for line in code.splitlines()), names)
    if compression == "gzip":  # which TFDS does not read
        records = sorted(record for same in read_back(tmp_path / "n").records.values() for record in same)
        assert sorted(record.numpy() for record in names["examples"]) == records
    else:
        assert sorted(int(label) for _, label in names["dataset"]) == [0, 0, 0, 1, 1, 1]


def test_conversion_never_imports_tensorflow(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant", "bee"), 3))
    arguments = ["images", "--input", str(folder), "--output", str(tmp_path), "--name", "n", "--resize", "8x8"]
    program = (
        f"import sys\nfrom shardmill.pipelines.cli import main\nassert main({arguments!r}) == 0\nassert"
        f" main({[*arguments, '--overwrite', '--dry_run']!r}) == 0\nprint([name for name in sys.modules if"
        " name.split('.')[0] in ('tensorflow', 'tensorflow_datasets', 'keras')])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


HEADER = ("id", "x", "word", "maybe", "ok", "a/b:c d")
CELLS = [[n, n / 8, f"w{n % 7} “é”", None if n % 3 else n, "true" if n % 2 else "false", n * 2] for n in range(200)]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    root = tmp_path_factory.mktemp("table")
    source = write_files(root / "in", {"a.csv": to_csv(HEADER, CELLS)})
    return convert_table("csv", source, root, "--splits", "train=0.8,test=0.2", "--num_shards", 3, "--label", "word")


def test_tft_s_spec_reads_every_row(table: Table) -> None:
    spec = spec_of(table.directory)
    assert isinstance(spec["maybe"], tf.io.VarLenFeature)
    assert all(isinstance(spec[name], tf.io.FixedLenFeature) for name in HEADER if name != "maybe")
    rows = [row for split in table.splits for row in parsed(table.directory, split)]
    assert sorted(row["id"] for row in rows) == list(range(200))
    names = (table.directory / "word.labels.txt").read_text().splitlines()
    for row in rows:
        number = row["id"]
        assert row["x"] == np.float32(number / 8)
        assert names[row["word"]] == f"w{number % 7} “é”"
        assert row["maybe"] == ([] if number % 3 else [number])
        assert (row["ok"], row["a/b:c d"]) == (number % 2, number * 2)


def test_tfds_reads_every_row(table: Table) -> None:
    builder = tfds.builder_from_directory(str(table.directory))
    assert builder.info.features["word"].num_classes == 7
    for split, rows in table.splits.items():
        assert builder.info.splits[split].num_examples == len(rows)
        read = {row["id"]: row for row in tfds.as_numpy(builder.as_dataset(split=split))}
        assert len(read) == len(rows)
        for mine in rows:
            theirs = read[mine["id"]]
            assert (theirs["x"], theirs["word"], theirs["ok"]) == (mine["x"], mine["word"], mine["ok"])
            assert theirs["maybe"].tolist() == ([mine["maybe"]] if "maybe" in mine else [])


def test_statistics_agree_with_tensorflow_s_view_of_the_wines(tmp_path: Path) -> None:
    wine = sklearn_datasets.load_wine(as_frame=True)
    frame = wine.frame.assign(cultivar=wine.target_names[wine.target]).drop(columns="target")
    (tmp_path / "in").mkdir()
    frame.to_csv(tmp_path / "in" / "wine.csv", index=False)
    table = convert_table("csv", tmp_path / "in", tmp_path, "--label", "cultivar")
    stats, rows = table.stats(), parsed(table.directory, "train")
    assert len(rows) == 178
    for name in wine.feature_names:
        values = np.array([row[name] for row in rows], np.float64)
        assert stats[name]["mean"] == pytest.approx(values.mean(), rel=1e-12)
        assert stats[name]["std_dev"] == pytest.approx(values.std(), rel=1e-12)
        assert (stats[name]["min"], stats[name]["max"]) == (values.min(), values.max())
        assert np.sort(values.astype(np.float32)).tolist() == np.sort(frame[name].to_numpy(np.float32)).tolist()
    assert stats["cultivar"]["classes"] == {"class_0": 59, "class_1": 71, "class_2": 48}


@pytest.mark.parametrize("flags", [(), ("--record", "file")])
def test_text_is_supervised(tmp_path: Path, flags: tuple[str, ...]) -> None:
    files = {f"{label}/{n}.txt": f"{label} é {n}".encode() for label in ("neg", "pos") for n in range(20)}
    table = convert_table("text", write_files(tmp_path / "in", files), tmp_path, *flags)
    dataset = tfds.builder_from_directory(str(table.directory)).as_dataset(split="train", as_supervised=True)
    pairs = [(text.decode(), int(label)) for text, label in tfds.as_numpy(dataset)]
    assert sorted(text for text, _ in pairs) == sorted(content.decode() for content in files.values())
    assert all(label == int(text.startswith("pos")) for text, label in pairs)


def test_tensorflow_s_own_records_resharded(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    records = []
    for number in range(300):
        feature = {
            "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[-number])),
            "name": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"n%d" % number])),
        }
        records.append(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    for name, options, part in (("a.tfrecord", None, records[:200]), ("b.tfrecord.gz", "GZIP", records[200:])):
        with tf.io.TFRecordWriter(str(tmp_path / "in" / name), options) as writer:
            for record in part:
                writer.write(record)
    table = convert_table("reshard", tmp_path / "in", tmp_path, "--num_shards", 4)
    files = [str(path) for path in sorted(table.directory.glob("*.tfrecord-*"))]
    assert sorted(tf.data.TFRecordDataset(files).as_numpy_iterator()) == sorted(records)
    assert sorted(row["id"] for row in parsed(table.directory, "train")) == list(range(-299, 1))
