"""Idioms that people copy from TensorFlow's tutorials: they read our shards unchanged, pixel by pixel and label by
label."""

import glob
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.command import image_tree, write_files
from tests.support.later import Later
from tests.support.reading import make

pytestmark = pytest.mark.slow

tf = Later("tensorflow")

LABELS = ["bee", "cat", "dog"]
Pixels = list[tuple[int, tuple[int, ...], bytes]]  # of each image the label, the shape, the values; sorted


def feature_description() -> dict[str, Any]:
    return {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }


def parse(example_proto: Any) -> Any:
    example = tf.io.parse_single_example(example_proto, feature_description())
    return tf.io.decode_jpeg(example["image"], channels=3), example["label"]


@pytest.fixture(scope="module", params=["JPEG", "PNG"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `source/` and, of 60 images in 5 shards, `out/n/1.0.0/`."""
    folder = tmp_path_factory.mktemp(request.param)
    suffix = {"JPEG": "jpg", "PNG": "png"}[request.param]
    write_files(folder / "source", image_tree(LABELS, 20, suffix, request.param))
    make("images", folder / "source", folder / "out", "--num_shards", 5)
    return folder


@pytest.fixture(scope="module")
def pattern(folder: Path) -> str:
    return f"{folder}/out/n/1.0.0/*.tfrecord*"


@pytest.fixture(scope="module")
def source(folder: Path) -> Pixels:
    """The files, decoded by TensorFlow."""
    paths = [path for path in (folder / "source").rglob("*") if path.is_file()]
    return as_pixels(
        (tf.io.decode_image(path.read_bytes(), channels=3), LABELS.index(path.parent.name)) for path in paths
    )


def as_pixels(examples: Any) -> Pixels:
    arrays = ((np.asarray(image), int(label)) for image, label in examples)
    return sorted((label, array.shape, array.tobytes()) for array, label in arrays)


def test_interleave_over_a_glob(pattern: str, source: Pixels) -> None:
    files = tf.data.Dataset.list_files(pattern)
    dataset = files.interleave(
        tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    )
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.shuffle(1000).prefetch(tf.data.AUTOTUNE)
    assert as_pixels(dataset) == source


def test_interleave_with_a_lambda_and_options(pattern: str, source: Pixels) -> None:
    ignore_order = tf.data.Options()
    ignore_order.deterministic = False
    files = tf.data.Dataset.from_tensor_slices(tf.io.gfile.glob(pattern)).with_options(ignore_order)
    dataset = files.interleave(lambda name: tf.data.TFRecordDataset(name).map(parse), block_length=8)
    assert as_pixels(dataset) == source


@pytest.mark.parametrize("autotuned", [False, True], ids=["one", "autotune"])
def test_a_list_of_files(autotuned: bool, pattern: str, source: Pixels) -> None:
    reads = tf.data.AUTOTUNE if autotuned else None
    dataset = tf.data.TFRecordDataset(sorted(glob.glob(pattern)), num_parallel_reads=reads).map(parse)
    assert as_pixels(dataset) == source


def test_sharded_by_worker(pattern: str, source: Pixels) -> None:
    def worker(index: int) -> Any:
        files = tf.data.Dataset.list_files(pattern, shuffle=False).shard(num_shards=2, index=index)
        return files.interleave(tf.data.TFRecordDataset).map(parse)

    assert as_pixels([*worker(0), *worker(1)]) == source


def test_train_in_the_tutorials_way(pattern: str, source: Pixels) -> None:
    """Resized, repeated and batched, as `model.fit` gets it: an epoch holds each image once."""

    def preprocess(image: Any, label: Any) -> Any:
        return tf.cast(tf.image.resize(image, [16, 16]), tf.float32) / 255.0, label

    dataset = tf.data.Dataset.list_files(pattern).interleave(tf.data.TFRecordDataset).map(parse).map(preprocess)
    batches = list(dataset.repeat(2).batch(24).prefetch(tf.data.AUTOTUNE))
    assert [images.shape.as_list() for images, _ in batches] == [[24, 16, 16, 3]] * 5
    labels = np.concatenate([labels for _, labels in batches])
    assert np.bincount(labels).tolist() == [40, 40, 40]
    wanted = as_pixels(
        preprocess(np.frombuffer(values, np.uint8).reshape(shape), label) for label, shape, values in source
    )
    assert as_pixels(dataset) == wanted


def test_batches_parsed_at_once(pattern: str, source: Pixels) -> None:
    dataset = tf.data.TFRecordDataset(tf.data.Dataset.list_files(pattern)).batch(7)
    dataset = dataset.map(lambda batch: tf.io.parse_example(batch, feature_description())).unbatch()
    assert as_pixels(dataset.map(lambda x: (tf.image.decode_jpeg(x["image"], channels=3), x["label"]))) == source


@pytest.mark.parametrize(
    ("image", "label"),
    [
        (
            lambda: tf.io.FixedLenFeature((), tf.string, default_value=""),
            lambda: tf.io.FixedLenFeature((), tf.int64, default_value=0),
        ),
        (lambda: tf.io.FixedLenFeature([1], tf.string), lambda: tf.io.FixedLenFeature([1], tf.int64)),
        (lambda: tf.io.VarLenFeature(tf.string), lambda: tf.io.VarLenFeature(tf.int64)),
    ],
    ids=["defaults", "one of each", "sparse"],
)
def test_other_specs(image: Callable[[], Any], label: Callable[[], Any], pattern: str, source: Pixels) -> None:
    def parse_other(record: Any) -> Any:
        example = tf.io.parse_single_example(record, {"image": image(), "label": label()})
        dense = {name: tf.sparse.to_dense(x) if isinstance(x, tf.SparseTensor) else x for name, x in example.items()}
        return tf.io.decode_image(tf.reshape(dense["image"], []), channels=3), tf.reshape(dense["label"], [])

    assert as_pixels(tf.data.TFRecordDataset(glob.glob(pattern)).map(parse_other)) == source


def test_the_message_itself(pattern: str, source: Pixels) -> None:
    found = []
    for raw_record in tf.data.TFRecordDataset(glob.glob(pattern)):
        example = tf.train.Example()
        example.ParseFromString(raw_record.numpy())
        image = example.features.feature["image"].bytes_list.value[0]
        found.append((tf.io.decode_jpeg(image, channels=3), example.features.feature["label"].int64_list.value[0]))
    assert as_pixels(found) == source


def test_gzip(folder: Path, tmp_path: Path, source: Pixels) -> None:
    directory = make("images", folder / "source", tmp_path, "--num_shards", 3, "--compression", "gzip")
    files = tf.data.Dataset.list_files(f"{directory}/*.tfrecord*")
    dataset = files.interleave(lambda name: tf.data.TFRecordDataset(name, compression_type="GZIP")).map(parse)
    assert as_pixels(dataset) == source
