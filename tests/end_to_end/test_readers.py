"""Other people's readers on what we write: TFDS, and tf.data with the feature spec of the schema, on every split."""

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

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
FORMATS = {"jpg": "JPEG", "png": "PNG", "gif": "GIF", "bmp": "BMP", "webp": "WEBP"}
SPLITS = ("train", "validation", "test")


@pytest.fixture(scope="session")
def tf() -> Any:
    return pytest.importorskip("tensorflow")


@pytest.fixture(scope="session")
def tfds() -> Any:
    return pytest.importorskip("tensorflow_datasets")


def convert(*arguments: object) -> None:
    assert cli.main(["images", *map(str, arguments)]) == 0


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """Three classes, three splits, of several shards each."""
    root = tmp_path_factory.mktemp("pictures")
    folder = write_files(root / "in", image_tree(("ant", "bee", "日本"), 20))
    splits = "train=0.6,validation=0.2,test=0.2"
    convert(
        "--input",
        folder,
        "--output",
        root,
        "--name",
        "n",
        "--splits",
        splits,
        "--stratify_by",
        "label",
        "--num_shards",
        3,
    )
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
def table(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """A manifest with columns of every kind, some with missing values."""
    root = tmp_path_factory.mktemp("table")
    folder = write_files(root / "in", {row["file_name"]: image(number) for number, row in enumerate(ROWS)})
    (folder / "meta.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    convert("--manifest", folder / "meta.jsonl", "--output", root, "--name", "n", "--num_shards", 2)
    return read_back(root / "n")


def parsed(tf: Any, contents: Contents, split: str) -> list[dict[str, Any]]:
    """The examples of a split by tf.data and the schema's feature spec; sparse features as dense lists."""
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tensorflow_transform.tf_metadata import schema_utils

    schema = text_format.Parse((contents.directory / "schema.pbtxt").read_text(), schema_pb2.Schema())
    spec = schema_utils.schema_as_feature_spec(schema).feature_spec
    files = tf.data.Dataset.list_files(f"{contents.directory}/n-{split}.tfrecord-*", shuffle=False)
    examples = tf.data.TFRecordDataset(files).map(lambda record: tf.io.parse_single_example(record, spec))
    return [
        {k: tf.sparse.to_dense(v).numpy() if isinstance(v, tf.SparseTensor) else v.numpy() for k, v in example.items()}
        for example in examples
    ]


def test_tfds_reads_every_split(tf: Any, tfds: Any, pictures: Contents) -> None:
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


def test_tfds_reads_part_of_a_split(tfds: Any, pictures: Contents) -> None:
    builder = tfds.builder_from_directory(str(pictures.directory))
    read = tfds.as_numpy(builder.as_dataset(split="train[5:17]"))
    assert [example["filename"].decode() for example in read] == pictures.splits["train"][5:17]


def test_tfds_reads_supervised_pairs(tfds: Any, pictures: Contents) -> None:
    builder = tfds.builder_from_directory(str(pictures.directory))
    pairs = list(tfds.as_numpy(builder.as_dataset(split="test", as_supervised=True)))
    assert Counter(int(label) for _, label in pairs) == {0: 4, 1: 4, 2: 4}
    assert all(picture.dtype == np.uint8 and picture.shape[2] == 3 for picture, _ in pairs)


def test_tensorflow_reads_every_split_by_the_schema(tf: Any, pictures: Contents) -> None:
    for split in SPLITS:
        read = parsed(tf, pictures, split)
        assert [example["filename"].decode() for example in read] == pictures.splits[split]
        for example in read:
            ours = pictures.example(example["filename"].decode())
            assert example.keys() == ours.keys()
            assert [example["image"]] == ours["image"]
            for feature in ("label", "height", "width"):
                assert [example[feature]] == list(ours[feature])


def test_tensorflow_decodes_every_format_that_passes_through(tf: Any, tfds: Any, formats: Contents) -> None:
    examples = parsed(tf, formats, "train")
    assert sorted(example["filename"].decode() for example in examples) == sorted(
        f"a/{suffix}.{suffix}" for suffix in FORMATS
    )
    for example in examples:
        assert tf.io.decode_image(example["image"], expand_animations=False).shape == (11, 14, 3)
    builder = tfds.builder_from_directory(str(formats.directory))
    undecoded = tfds.decode.SkipDecoding()
    read = tfds.as_numpy(builder.as_dataset(split="train", decoders={"image": undecoded}))
    assert [example["image"] for example in read] == [example["image"] for example in examples]


@pytest.mark.parametrize("suffix", FORMATS)
def test_format_that_tfds_cannot_decode_is_said(tf: Any, tfds: Any, tmp_path: Path, suffix: str) -> None:
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
def test_manifest_columns(tf: Any, tfds: Any, table: Contents, reader: str) -> None:
    read = {}
    for split, number in (("train", 4), ("test", 2)):
        if reader == "schema":
            examples = parsed(tf, table, split)
        else:
            builder = tfds.builder_from_directory(str(table.directory))
            examples = list(tfds.as_numpy(builder.as_dataset(split=split)))
        assert len(examples) == number
        read.update({example["filename"].decode(): example for example in examples})
    for row in ROWS:
        example = read[row["file_name"]]
        assert example["label"] == ("even", "odd").index(row["label"])
        assert example["number"] == row["number"]
        assert example["score"] == np.float32(row["score"])
        assert example["caption"].decode() == row["caption"]
        assert example["objects/bbox"].tolist() == row["objects/bbox"]
        assert example["vector"].tolist() == row["vector"]
        assert [tag.decode() for tag in example["tags"]] == row["tags"]
        assert example["empty"].tolist() == []
        assert example["rare"].tolist() == [row[key] for key in ("rare",) if key in row]
        assert [note.decode() for note in example["note"]] == [row[key] for key in ("note",) if key in row]
        assert example["pair"].tolist() == row.get("pair", [])
        assert "split" not in example


def test_unlabelled_and_unchecked_images(tf: Any, tfds: Any, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {f"{number}.jpg": image(number) for number in range(4)})
    convert("--input", folder, "--output", tmp_path, "--name", "n", "--verify", "none")
    builder = tfds.builder_from_directory(str(tmp_path / "n" / "1.0.0"))
    read = list(tfds.as_numpy(builder.as_dataset(split="train")))
    assert {example["filename"].decode() for example in read} == {f"{number}.jpg" for number in range(4)}
    assert set(read[0]) == {"image", "filename"}
    assert len(parsed(tf, read_back(tmp_path / "n"), "train")) == 4


def test_gzip_is_read_as_the_report_says(tf: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant",), 5))
    convert("--input", folder, "--output", tmp_path, "--name", "n", "--compression", "gzip", "--num_shards", 2)
    code = capsys.readouterr().out.split("or, without shardmill:\n")[1]
    names: dict[str, Any] = {}
    exec("\n".join(line.strip() for line in code.splitlines()), names)
    records = [record.numpy() for record in names["examples"]]
    contents = read_back(tmp_path / "n")
    assert sorted(records) == sorted(record for same in contents.records.values() for record in same)


def test_report_of_a_plain_data_set_is_code_that_reads_it(
    tfds: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant", "bee"), 3))
    convert("--input", folder, "--output", tmp_path, "--name", "n")
    code = capsys.readouterr().out.split("or, without shardmill:\n")[1]
    names: dict[str, Any] = {}
    exec("\n".join(line.strip() for line in code.splitlines()), names)
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
