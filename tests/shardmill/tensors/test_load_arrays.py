"""Arrays and matrices: load, examples, feature_spec and TFDS give what was written, and another length is an error."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from shardmill.data.feature_kind import ELEMENT_TYPES
from shardmill.data.features import Feature
from shardmill.errors import CorruptDataError, UserError
from tests.support.later import Later
from tests.support.small_data_set import encode, write_data_set

tf = Later("tensorflow")
tfds = Later("tensorflow_datasets")

EXAMPLES = 7
MATRIX = Feature("matrix", "float32", shape=(2, 3))
WORDS = Feature("words", "bytes", shape=(2, 2))
LABEL = Feature("label", "int64", "class_label", class_names=("a", "b"))
IMAGE = Feature("image", "bytes", "array", (4, 5, 3), element="float32")


def array_of(number: int, element: str, shape: tuple[int, ...]) -> np.ndarray:
    """An array whose bytes are random, but for what a bool may be."""
    generator = np.random.default_rng(number)
    if element == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    raw = generator.integers(0, 100, (*shape, np.dtype(element).itemsize)).astype(np.uint8)  # none of which is NaN
    return np.array(raw.view(element)).reshape(shape)


def image_of(number: int) -> np.ndarray:
    return array_of(number, "float32", (4, 5, 3))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    examples = [{"image": image_of(number), "label": number % 2, "filename": b"f"} for number in range(EXAMPLES)]
    features = (IMAGE, LABEL, Feature("filename", "bytes", "text"))
    return write_data_set(tmp_path_factory.mktemp("pictures"), features, examples, configuration={"format": "arrays"})


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_every_element_type(shape: tuple[int, ...], tmp_path: Path) -> None:
    features = tuple(Feature(element, "bytes", "array", shape, element=element) for element in ELEMENT_TYPES)
    rows = [{element: array_of(number, element, shape) for element in ELEMENT_TYPES} for number in range(EXAMPLES)]
    directory = write_data_set(tmp_path, features, rows)

    batches = list(shardmill.load(directory, batch_size=4, shuffle=False))
    for element in ELEMENT_TYPES:
        expected = np.stack([row[element] for row in rows])
        found = np.concatenate([batch[element].numpy() for batch in batches])
        assert (found.dtype.name, found.shape) == (element, expected.shape)
        assert np.array_equal(found, expected)
    for example, row in zip(shardmill.examples(directory), rows, strict=True):
        assert all(
            (example[element].dtype.name, example[element].shape) == (element, shape) for element in ELEMENT_TYPES
        )
        assert all(np.array_equal(example[element], row[element]) for element in ELEMENT_TYPES)
    by_tfds = tfds.builder_from_directory(directory).as_dataset(split="train")
    for example, row in zip(by_tfds.as_numpy_iterator(), rows, strict=True):
        readable = [element for element in ELEMENT_TYPES if element != "uint32"]
        assert all(np.array_equal(example[element], row[element]) for element in readable)
        assert example["uint32"] == row["uint32"].tobytes()  # which TFDS cannot decode


def test_shapes_are_static(pictures: Path) -> None:
    features, label = shardmill.load(pictures, batch_size=4).element_spec
    assert (features, label) == (tf.TensorSpec([None, 4, 5, 3], tf.float32), tf.TensorSpec([None], tf.int64))
    features, _ = shardmill.load(pictures, batch_size=4, drop_remainder=True).element_spec
    assert features.shape == [4, 4, 5, 3]
    features, _ = shardmill.load(pictures).element_spec
    assert features == tf.TensorSpec([4, 5, 3], tf.float32)
    augmented = shardmill.load(pictures, batch_size=4, augment=lambda image: tf.image.flip_left_right(image))
    assert augmented.element_spec[0] == tf.TensorSpec([None, 4, 5, 3], tf.float32)


@pytest.mark.parametrize("options", [{}, {"batch_size": 3}, {"batch_size": 3, "augment": lambda image: image}])
def test_pairs_where_the_image_is_an_array(pictures: Path, options: dict[str, Any]) -> None:
    found: list[tuple[Any, Any]] = []
    for image, label in shardmill.load(pictures, shuffle=False, **options):
        found += zip(image.numpy() if "batch_size" in options else [image.numpy()], np.atleast_1d(label))

    assert [label for _, label in found] == [number % 2 for number in range(EXAMPLES)]
    assert all(np.array_equal(image, image_of(number)) for number, (image, _) in enumerate(found))


def test_tfds_gives_pairs(pictures: Path) -> None:
    pairs = tfds.builder_from_directory(pictures).as_dataset(split="train", as_supervised=True)

    assert pairs.element_spec[0] == tf.TensorSpec([4, 5, 3], tf.float32)
    assert all(np.array_equal(image, image_of(number)) for number, (image, _) in enumerate(pairs.as_numpy_iterator()))


@pytest.mark.parametrize("option", [{"image_size": (2, 2)}, {"image_dtype": "uint8"}, {"channels": 1}])
def test_arrays_are_not_scaled(pictures: Path, option: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"are for images, .* of which image is an array, given as it was stored"):
        shardmill.load(pictures, **option)


@pytest.mark.parametrize("kind", ["short", "long", "empty"])
def test_bytes_of_another_length_are_an_error(kind: str, tmp_path: Path) -> None:
    raw = image_of(0).tobytes()
    bad = {"short": raw[:-4], "long": raw * 2, "empty": b""}[kind]
    examples = [{"image": image_of(number), "label": 0} for number in range(3)]
    directory = write_data_set(tmp_path, (IMAGE, LABEL), [*examples, {"image": bad, "label": 0}], shards=1)

    for batch_size in (1, 4, None):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"feature .*'image.*' is an array of float32 \(4, 5, 3\), 240 "
        ):
            list(shardmill.load(directory, batch_size=batch_size))
    with pytest.raises(
        CorruptDataError, match=rf"00000-of-00001: record 3: feature 'image' has {len(bad)} bytes; expected 240"
    ):
        list(shardmill.examples(directory))


def test_the_spec_parses_an_array_as_its_bytes(pictures: Path) -> None:
    spec = shardmill.feature_spec(pictures)
    assert spec["image"] == tf.io.FixedLenFeature((), tf.string, None)

    parsed = tf.io.parse_single_example(
        encode((IMAGE, LABEL), {"image": image_of(5), "label": 0}), {"image": spec["image"]}
    )
    assert np.array_equal(tf.reshape(tf.io.decode_raw(parsed["image"], tf.float32), (4, 5, 3)), image_of(5))


@pytest.mark.parametrize(("default", "filled"), [(7, [[7, 7], [7, 7]]), ([[1, 0], [0, 2]], [[1, 0], [0, 2]])])
def test_a_missing_array(default: Any, filled: Any, tmp_path: Path) -> None:
    features = (Feature("a", "bytes", "array", (2, 2), required=False, element="uint16"), Feature("n", "int64"))
    directory = write_data_set(tmp_path, features, [{"n": 0, "a": [[5, 6], [7, 8]]}, {"n": 1}])
    expected = [[[5, 6], [7, 8]], filled]

    with pytest.raises(UserError, match=r"a is a feature that some examples lack; .*defaults={'a': 0} for instance"):
        shardmill.load(directory)
    for options in ({"batch_size": 2}, {"batch_size": 2, "augment": lambda features: features}):
        (batch,) = shardmill.load(directory, shuffle=False, defaults={"a": default}, **options)
        assert (batch["a"].dtype, batch["a"].numpy().tolist()) == (tf.uint16, expected)
    found = list(shardmill.examples(directory, defaults={"a": default}))
    assert [example["a"].tolist() for example in found] == expected
    assert {example["a"].dtype.name for example in found} == {"uint16"}
    assert [set(example) for example in shardmill.examples(directory)] == [{"a", "n"}, {"n"}]
    by_tfds = tfds.builder_from_directory(directory).as_dataset(split="train").as_numpy_iterator()
    assert [example["a"].tolist() for example in by_tfds] == [[bytes([5, 0, 6, 0, 7, 0, 8, 0])], []]


@pytest.mark.parametrize(
    ("default", "message"),
    [(70000, "is no uint16"), (0.5, "is no uint16"), ([1, 2, 3], r"has shape \(3,\); expected \(2, 2\)")],
)
def test_defaults_that_an_array_cannot_hold(default: Any, message: str, tmp_path: Path) -> None:
    features = (Feature("a", "bytes", "array", (2, 2), required=False, element="uint16"),)
    directory = write_data_set(tmp_path, features, [{}])

    with pytest.raises(UserError, match=message):
        shardmill.load(directory, defaults={"a": default})


def test_matrices_of_numbers_and_text(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"matrix": array_of(number, "float32", (2, 3)), "words": [[b"a", b"%d" % number], [b"", b"\0"]]}
        for number in range(EXAMPLES)
    ]
    directory = write_data_set(tmp_path, (MATRIX, WORDS), rows)

    (batch,) = shardmill.load(directory, batch_size=EXAMPLES, shuffle=False, drop_remainder=True)
    assert (batch["matrix"].shape, batch["words"].shape) == ((EXAMPLES, 2, 3), (EXAMPLES, 2, 2))
    by_tfds = tfds.builder_from_directory(directory).as_dataset(split="train").as_numpy_iterator()
    for number, (example, other) in enumerate(zip(shardmill.examples(directory), by_tfds, strict=True)):
        for values in ({name: values[number].numpy() for name, values in batch.items()}, example, other):
            assert np.array_equal(values["matrix"], rows[number]["matrix"])
            assert values["words"].tolist() == rows[number]["words"]


def test_a_matrix_of_another_number_of_values(tmp_path: Path) -> None:
    directory = write_data_set(tmp_path, (MATRIX,), [{"matrix": np.zeros(6)}, {"matrix": np.zeros(5)}], shards=1)

    with pytest.raises(tf.errors.InvalidArgumentError, match="matrix"):
        list(shardmill.load(directory, batch_size=2))
    with pytest.raises(CorruptDataError, match="00000-of-00001: record 1: feature 'matrix' has 5 values; expected 6"):
        list(shardmill.examples(directory))


def test_a_missing_matrix(tmp_path: Path) -> None:
    features = (Feature("m", "int64", shape=(2, 2), required=False), Feature("n", "int64"))
    directory = write_data_set(tmp_path, features, [{"n": 0, "m": [[1, 2], [3, 4]]}, {"n": 1}])

    for default, filled in ((9, [[9, 9], [9, 9]]), ([[1, 0], [0, 1]], [[1, 0], [0, 1]])):
        (batch,) = shardmill.load(directory, batch_size=2, shuffle=False, defaults={"m": default})
        assert batch["m"].numpy().tolist() == [[[1, 2], [3, 4]], filled]
        assert [example["m"].tolist() for example in shardmill.examples(directory, defaults={"m": default})][
            1
        ] == filled
    by_tfds = tfds.builder_from_directory(directory).as_dataset(split="train").as_numpy_iterator()
    assert [example["m"].tolist() for example in by_tfds] == [[[1, 2], [3, 4]], []]


def test_info_prints_shape_and_element(pictures: Path) -> None:
    assert "  feature image: float32[4][5][3], array" in str(shardmill.info(pictures)).splitlines()


def test_keras_trains_on_arrays(pictures: Path) -> None:
    model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(2)])
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))

    assert len(model.fit(shardmill.load(pictures, batch_size=4), epochs=2, verbose=0).history["loss"]) == 2
