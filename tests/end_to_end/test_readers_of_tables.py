"""Other people's readers on tables, text and resharded records: TFDS, TFT's schema utilities, plain tf.data."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.command import write_files
from tests.support.later import Later
from tests.support.table_results import Table, convert, to_csv

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
tf = Later("tensorflow")
tfds = Later("tensorflow_datasets")
sklearn_datasets = Later("sklearn.datasets")

HEADER = ("id", "x", "word", "maybe", "ok", "a/b:c d")
ROWS = [[n, n / 8, f"w{n % 7} “é”", None if n % 3 else n, "true" if n % 2 else "false", n * 2] for n in range(200)]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    root = tmp_path_factory.mktemp("table")
    source = write_files(root / "in", {"a.csv": to_csv(HEADER, ROWS)})
    return convert("csv", source, root, "--splits", "train=0.8,test=0.2", "--num_shards", 3, "--label", "word")


def spec_of(table: Table) -> dict[str, Any]:
    """The feature spec that TensorFlow Transform makes of the schema."""
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tensorflow_transform.tf_metadata import schema_utils

    schema = text_format.Parse((table.directory / "schema.pbtxt").read_text(), schema_pb2.Schema())
    spec: dict[str, Any] = schema_utils.schema_as_feature_spec(schema).feature_spec
    return spec


def parsed(table: Table, split: str) -> list[dict[str, Any]]:
    """The examples of a split by tf.data and that spec; a sparse feature as the list of its values."""
    files = tf.data.Dataset.list_files(f"{table.directory}/n-{split}.tfrecord-*", shuffle=False)
    spec = spec_of(table)
    examples = tf.data.TFRecordDataset(files).map(lambda record: tf.io.parse_single_example(record, spec))
    return [{name: plain(value) for name, value in example.items()} for example in examples]


def plain(value: Any) -> Any:
    """A tensor as Python values."""
    if isinstance(value, tf.SparseTensor):
        return value.values.numpy().tolist()
    found = value.numpy()
    return found.tolist() if isinstance(found, np.ndarray | np.generic) else found


def test_tft_s_spec_reads_every_row(table: Table) -> None:
    spec = spec_of(table)
    assert isinstance(spec["maybe"], tf.io.VarLenFeature)
    assert all(isinstance(spec[name], tf.io.FixedLenFeature) for name in HEADER if name != "maybe")
    rows = [row for split in table.splits for row in parsed(table, split)]
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
    table = convert("csv", tmp_path / "in", tmp_path, "--label", "cultivar")
    stats, rows = table.stats(), parsed(table, "train")
    assert len(rows) == 178
    for name in wine.feature_names:
        values = np.array([row[name] for row in rows], np.float64)
        assert stats[name]["mean"] == pytest.approx(values.mean(), rel=1e-12)
        assert stats[name]["std_dev"] == pytest.approx(values.std(), rel=1e-12)
        assert (stats[name]["min"], stats[name]["max"]) == (values.min(), values.max())
        assert np.sort(values.astype(np.float32)).tolist() == np.sort(frame[name].to_numpy(np.float32)).tolist()
    assert stats["cultivar"]["classes"] == {"class_0": 59, "class_1": 71, "class_2": 48}


def test_lists(tmp_path: Path) -> None:
    lines = [
        {"id": n, "tokens": list(range(n % 4)), "vector": [n / 2, 1.0], "tags": ["a"] * (n % 3)} for n in range(50)
    ]
    source = write_files(tmp_path / "in", {"a.jsonl": "".join(f"{json.dumps(line)}\n" for line in lines).encode()})
    table = convert("jsonl", source, tmp_path)
    by_tft = {row["id"]: row for row in parsed(table, "train")}
    by_tfds = {
        row["id"]: row
        for row in tfds.as_numpy(tfds.builder_from_directory(str(table.directory)).as_dataset(split="train"))
    }
    for line in lines:
        for row in (by_tft[line["id"]], {k: np.asarray(v).tolist() for k, v in by_tfds[line["id"]].items()}):
            assert (row["tokens"], row["vector"]) == (line["tokens"], line["vector"])
            assert row["tags"] == [tag.encode() for tag in line["tags"]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("flags", [(), ("--record", "file")])
def test_text_is_supervised(tmp_path: Path, flags: tuple[str, ...]) -> None:
    files = {f"{label}/{n}.txt": f"{label} é {n}".encode() for label in ("neg", "pos") for n in range(20)}
    table = convert("text", write_files(tmp_path / "in", files), tmp_path, *flags)
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
    table = convert("reshard", tmp_path / "in", tmp_path, "--num_shards", 4)
    files = [str(path) for path in sorted(table.directory.glob("*.tfrecord-*"))]
    assert sorted(tf.data.TFRecordDataset(files).as_numpy_iterator()) == sorted(records)
    assert sorted(row["id"] for row in parsed(table, "train")) == list(range(-299, 1))
