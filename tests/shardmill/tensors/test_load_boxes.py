"""Lists of boxes, any number of them: load, examples, feature_spec and TFDS give what was written."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from shardmill.data.features import Feature
from shardmill.errors import CorruptDataError
from tests.support.later import Later
from tests.support.small_data_set import write_data_set

tf = Later("tensorflow")
tfds = Later("tensorflow_datasets")

EXAMPLES = 9
FEATURES = (
    Feature("bbox", "float32", shape=(None, 4)),
    Feature("points", "int64", shape=(None, 2, 2)),
    Feature("n", "int64"),
)


def boxes_of(number: int) -> np.ndarray:
    """As many boxes as `number` leaves over of 4, none for some."""
    return (np.arange(number % 4 * 4, dtype=np.float32) / 16).reshape(-1, 4)


def points_of(number: int) -> np.ndarray:
    return np.arange(number % 3 * 4).reshape(-1, 2, 2) - number


@pytest.fixture(scope="module")
def boxes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    examples = [{"bbox": boxes_of(number), "points": points_of(number), "n": number} for number in range(EXAMPLES)]
    return write_data_set(tmp_path_factory.mktemp("boxes"), FEATURES, examples)


@pytest.mark.parametrize("extra", [{}, {"augment": lambda features: features}])
def test_ragged_with_an_inner_size(boxes: Path, extra: dict[str, Any]) -> None:
    dataset = shardmill.load(boxes, batch_size=4, **extra)

    assert dataset.element_spec["bbox"] == tf.RaggedTensorSpec([None, None, 4], tf.float32, 1, tf.int64)
    assert dataset.element_spec["points"] == tf.RaggedTensorSpec([None, None, 2, 2], tf.int64, 1, tf.int64)
    seen = []
    for batch in dataset:
        for index, number in enumerate(batch["n"].numpy()):
            seen.append(int(number))
            assert np.array_equal(batch["bbox"][index], boxes_of(number))
            assert np.array_equal(batch["points"][index], points_of(number))
    assert sorted(seen) == list(range(EXAMPLES))


@pytest.mark.parametrize("extra", [{}, {"augment": lambda features: features}])
@pytest.mark.parametrize(("defaults", "filled"), [({}, 0.0), ({"bbox": -1.0}, -1.0)])
def test_padded_to_the_longest(boxes: Path, defaults: dict[str, Any], filled: float, extra: dict[str, Any]) -> None:
    dataset = shardmill.load(boxes, batch_size=4, pad=True, defaults=defaults, **extra)

    assert dataset.element_spec["bbox"] == tf.TensorSpec([None, None, 4], tf.float32)
    for batch in dataset:
        wanted = [boxes_of(number) for number in batch["n"].numpy()]
        longest = max(map(len, wanted))
        expected = [np.concatenate([box, np.full((longest - len(box), 4), filled)]) for box in wanted]
        assert np.array_equal(batch["bbox"], expected)


def test_single_examples(boxes: Path) -> None:
    dataset = shardmill.load(boxes)

    assert dataset.element_spec["bbox"] == tf.TensorSpec([None, 4], tf.float32)
    for example in dataset.as_numpy_iterator():
        assert np.array_equal(example["bbox"], boxes_of(example["n"]))
        assert np.array_equal(example["points"], points_of(example["n"]))


def test_as_numpy(boxes: Path) -> None:
    for number, example in enumerate(shardmill.examples(boxes)):
        assert (example["bbox"].shape, example["bbox"].dtype) == ((number % 4, 4), np.float32)
        assert (example["points"].shape, example["points"].dtype) == ((number % 3, 2, 2), np.int64)
        assert np.array_equal(example["bbox"], boxes_of(number))
        assert np.array_equal(example["points"], points_of(number))


def test_the_spec_reads_a_flat_sparse_tensor(boxes: Path) -> None:
    assert shardmill.feature_spec(boxes, features=["bbox"]) == {"bbox": tf.io.VarLenFeature(tf.float32)}


def test_info_prints_the_shape(boxes: Path) -> None:
    assert "  feature bbox: float32[any number][4]" in str(shardmill.info(boxes)).splitlines()


def test_values_that_are_no_whole_boxes_are_an_error(tmp_path: Path) -> None:
    features = (Feature("bbox", "float32", shape=(None, 4)),)
    # Together two whole boxes: of a batch, only each example's own number tells.
    directory = write_data_set(tmp_path, features, [{"bbox": np.zeros(6)}, {"bbox": np.zeros(2)}], shards=1)

    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"feature .*'bbox.*' of shape \(None, 4\) has a number of values"
    ):
        list(shardmill.load(directory, batch_size=2))
    with pytest.raises(CorruptDataError, match="record 0: feature 'bbox' has 6 values; expected a multiple of 4"):
        list(shardmill.examples(directory))


@pytest.mark.parametrize("name", ["bbox", "bboxes", "objects/bbox"])
@pytest.mark.parametrize("required", [True, False])
def test_tfds_knows_boxes_by_their_name(name: str, required: bool, tmp_path: Path) -> None:
    features = (Feature(name, "float32", shape=(None, 4), required=required), Feature("n", "int64"))
    rows = [
        {name: boxes_of(number), "n": number} if required or number % 4 else {"n": number} for number in range(EXAMPLES)
    ]
    builder = tfds.builder_from_directory(write_data_set(tmp_path, features, rows))

    found = builder.info.features[name]
    assert isinstance(found, tfds.features.Sequence)
    assert isinstance(found.feature, tfds.features.BBoxFeature)
    assert found.feature.bbox_format.value == "REL_YXYX"
    for example in builder.as_dataset(split="train").as_numpy_iterator():
        assert np.array_equal(example[name], boxes_of(example["n"]))
    assert len(tfds.as_dataframe(builder.as_dataset(split="train"), builder.info)) == EXAMPLES


def test_tfds_reads_one_box_and_other_lists(tmp_path: Path) -> None:
    features = (
        Feature("objects/bbox", "float32", shape=(4,)),
        Feature("quads", "float32", shape=(None, 4)),
        Feature("maybe", "float32", shape=(None, 4), required=False),
        Feature("n", "int64"),
    )
    rows = [{"objects/bbox": np.arange(4) / 4, "quads": boxes_of(number), "n": number} for number in range(EXAMPLES)]
    builder = tfds.builder_from_directory(write_data_set(tmp_path, features, rows))

    assert isinstance(builder.info.features["objects/bbox"], tfds.features.BBoxFeature)
    for example in builder.as_dataset(split="train").as_numpy_iterator():
        assert example["objects/bbox"].tolist() == [0, 0.25, 0.5, 0.75]
        assert np.array_equal(example["quads"], boxes_of(example["n"]))
        assert example["maybe"].shape == (0, 4)
