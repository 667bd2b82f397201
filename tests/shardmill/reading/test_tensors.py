"""Tensors of `load`, against TensorFlow: arrays, boxes, images, classes; and the damage that `load` finds."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from shardmill.data.feature_kind import ELEMENT_TYPES
from shardmill.data.features import Feature
from shardmill.errors import CorruptDataError, UserError
from shardmill.reading.dataset import Dataset, open_dataset
from shardmill.reading.tensor_dataset import with_shard_checks
from shardmill.reading.tensor_examples import ImageDecoder, multi_hot, multi_hot_classes
from tests.support.later import Later
from tests.support.reading import copy, flip, shards
from tests.support.small_data_set import encode, write_data_set

pytestmark = pytest.mark.slow

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
def test_pairs_where_the_image_is_an_array_are_those_of_tfds(pictures: Path, options: dict[str, Any]) -> None:
    found: list[tuple[Any, Any]] = []
    for image, label in shardmill.load(pictures, shuffle=False, **options):
        found += zip(image.numpy() if "batch_size" in options else [image.numpy()], np.atleast_1d(label))

    pairs = tfds.builder_from_directory(pictures).as_dataset(split="train", as_supervised=True)
    assert pairs.element_spec[0] == tf.TensorSpec([4, 5, 3], tf.float32)
    for each in (found, list(pairs.as_numpy_iterator())):
        assert [label for _, label in each] == [number % 2 for number in range(EXAMPLES)]
        assert all(np.array_equal(image, image_of(number)) for number, (image, _) in enumerate(each))


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


@pytest.mark.parametrize(
    ("feature", "is_raw"),
    [
        (Feature("a", "bytes", "array", (2, 2), required=False, element="uint16"), True),
        (Feature("a", "int64", shape=(2, 2), required=False), False),
    ],
    ids=["array", "matrix"],
)
@pytest.mark.parametrize(("default", "filled"), [(7, [[7, 7], [7, 7]]), ([[1, 0], [0, 2]], [[1, 0], [0, 2]])])
def test_a_missing_array_or_matrix(feature: Feature, is_raw: bool, default: Any, filled: Any, tmp_path: Path) -> None:
    features = (feature, Feature("n", "int64"))
    directory = write_data_set(tmp_path, features, [{"n": 0, "a": [[5, 6], [7, 8]]}, {"n": 1}])
    expected = [[[5, 6], [7, 8]], filled]

    with pytest.raises(UserError, match=r"a is a feature that some examples lack; .*defaults={'a': 0} for instance"):
        shardmill.load(directory)
    for options in ({"batch_size": 2}, {"batch_size": 2, "augment": lambda features: features}):
        (batch,) = shardmill.load(directory, shuffle=False, defaults={"a": default}, **options)
        assert (batch["a"].dtype, batch["a"].numpy().tolist()) == (feature.element or "int64", expected)
    found = list(shardmill.examples(directory, defaults={"a": default}))
    assert [example["a"].tolist() for example in found] == expected
    assert {example["a"].dtype.name for example in found} == {feature.element or "int64"}
    assert [set(example) for example in shardmill.examples(directory)] == [{"a", "n"}, {"n"}]
    by_tfds = tfds.builder_from_directory(directory).as_dataset(split="train").as_numpy_iterator()
    stored = [bytes([5, 0, 6, 0, 7, 0, 8, 0])] if is_raw else expected[0]
    assert [example["a"].tolist() for example in by_tfds] == [stored, []]


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


BOX_EXAMPLES = 9
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
    examples = [{"bbox": boxes_of(number), "points": points_of(number), "n": number} for number in range(BOX_EXAMPLES)]
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
    assert sorted(seen) == list(range(BOX_EXAMPLES))


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


def test_single_examples_with_and_without_tensorflow(boxes: Path) -> None:
    dataset = shardmill.load(boxes, shuffle=False)

    assert dataset.element_spec["bbox"] == tf.TensorSpec([None, 4], tf.float32)
    for number, examples in enumerate(zip(dataset.as_numpy_iterator(), shardmill.examples(boxes), strict=True)):
        for example in examples:
            assert (example["bbox"].shape, example["bbox"].dtype) == ((number % 4, 4), np.float32)
            assert (example["points"].shape, example["points"].dtype) == ((number % 3, 2, 2), np.int64)
            assert np.array_equal(example["bbox"], boxes_of(number))
            assert np.array_equal(example["points"], points_of(number))


def test_the_spec_reads_a_flat_sparse_tensor(boxes: Path) -> None:
    assert shardmill.feature_spec(boxes, features=["bbox"]) == {"bbox": tf.io.VarLenFeature(tf.float32)}


def test_info_prints_shape_and_element(pictures: Path, boxes: Path) -> None:
    assert "  feature image: float32[4][5][3], array" in str(shardmill.info(pictures)).splitlines()
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
        {name: boxes_of(number), "n": number} if required or number % 4 else {"n": number}
        for number in range(BOX_EXAMPLES)
    ]
    builder = tfds.builder_from_directory(write_data_set(tmp_path, features, rows))

    found = builder.info.features[name]
    assert isinstance(found, tfds.features.Sequence)
    assert isinstance(found.feature, tfds.features.BBoxFeature)
    assert found.feature.bbox_format.value == "REL_YXYX"
    for example in builder.as_dataset(split="train").as_numpy_iterator():
        assert np.array_equal(example[name], boxes_of(example["n"]))
    assert len(tfds.as_dataframe(builder.as_dataset(split="train"), builder.info)) == BOX_EXAMPLES


def test_tfds_reads_one_box_and_other_lists(tmp_path: Path) -> None:
    features = (
        Feature("objects/bbox", "float32", shape=(4,)),
        Feature("quads", "float32", shape=(None, 4)),
        Feature("maybe", "float32", shape=(None, 4), required=False),
        Feature("n", "int64"),
    )
    rows = [
        {"objects/bbox": np.arange(4) / 4, "quads": boxes_of(number), "n": number} for number in range(BOX_EXAMPLES)
    ]
    builder = tfds.builder_from_directory(write_data_set(tmp_path, features, rows))

    assert isinstance(builder.info.features["objects/bbox"], tfds.features.BBoxFeature)
    for example in builder.as_dataset(split="train").as_numpy_iterator():
        assert example["objects/bbox"].tolist() == [0, 0.25, 0.5, 0.75]
        assert np.array_equal(example["quads"], boxes_of(example["n"]))
        assert example["maybe"].shape == (0, 4)


SIZE = (24, 20)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("side", [7, 43, 44, 300])  # 4 * 24 * 20 is 1,920 pixels: more than 43 x 43, less than 44 x 44
@pytest.mark.parametrize("channels", [1, 3])
def test_scaling(side: int, is_known: bool, antialias: bool, channels: int) -> None:
    pixels = np.random.default_rng(side).integers(0, 256, (side, side, channels), np.uint8)
    decode = ImageDecoder("float32", channels, SIZE, (side, side) if is_known else None, antialias)

    found = tf.function(lambda data: decode(data))(tf.io.encode_png(pixels))

    assert found.shape == (*SIZE, channels)
    # As a function too: TensorFlow multiplies there where it is told to divide.
    expected = tf.function(lambda image: tf.image.resize(image, SIZE, antialias=antialias) / 255.0)(pixels)
    assert np.array_equal(found, expected)


TAGS = Feature("tags", "int64", "class_label", (None,), class_names=("a", "b", "c"))
IDS = Feature("ids", "int64", shape=(None,))
OBJECTS = Feature("objects/label", "int64", "class_label", (None,), class_names=("a",), sequence="objects")


def test_each_class_is_one_however_often() -> None:
    ids = tf.ragged.constant([[2, 0], [], [1, 1]], dtype=tf.int64)

    assert multi_hot(ids, 3).numpy().tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert multi_hot(ids, 3).dtype == tf.float32


@pytest.mark.parametrize(("ids", "message"), [([[3]], "an id is of no class"), ([[-1]], "an id of a class is below 0")])
def test_an_id_of_no_class(ids: list[list[int]], message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        multi_hot(tf.ragged.constant(ids, dtype=tf.int64), 3)


def test_which_features_it_is_for() -> None:
    assert multi_hot_classes((TAGS, IDS), False) == {}
    assert multi_hot_classes((TAGS, IDS, OBJECTS), True) == {"tags": 3}
    assert multi_hot_classes((TAGS, IDS), 10) == {"tags": 3, "ids": 10}
    with pytest.raises(UserError, match=r"'ids' is a list of integers whose classes nobody named; give their number"):
        multi_hot_classes((IDS,), True)
    with pytest.raises(UserError, match="none of what is read is one: objects/label"):
        multi_hot_classes((OBJECTS,), True)
    with pytest.raises(UserError, match="multi_hot is 0; expected True, or a number of classes"):
        multi_hot_classes((IDS,), 0)


@pytest.fixture
def rows(rows_in_four_shards: Path) -> Path:
    return rows_in_four_shards


WAYS: list[dict[str, Any]] = [
    {"batch_size": 4},
    {"shuffle": False},
    {"seed": 1, "cache": True},
    {"augment": lambda n: n},
]


def read(directory: Path, **options: Any) -> None:
    for _ in shardmill.load(directory, features=["n"], **options):
        pass


@pytest.mark.parametrize("options", WAYS)
def test_a_flipped_bit_is_named_with_file_and_record(rows: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    victim = shards(copy(rows, tmp_path))[1]
    flip(victim, 100)

    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{victim.name}: record 0 at byte 0 fails its checksum"):
        read(victim.parent, **options)
    with pytest.raises(tf.errors.DataLossError):
        read(victim.parent, verify=False, **options)


def test_remote_files_are_read_once_only(rows: Path, tmp_path: Path) -> None:
    victim = shards(copy(rows, tmp_path))[1]
    flip(victim, 100)
    remote = "ram://guarded/1.0.0"
    tf.io.gfile.makedirs(remote)
    for path in victim.parent.glob("*"):
        if path.is_file():
            with tf.io.gfile.GFile(f"{remote}/{path.name}", "wb") as file:
                file.write(path.read_bytes())

    with pytest.raises(tf.errors.DataLossError):
        list(shardmill.load(remote, features=["n"]))
    with pytest.raises(CorruptDataError, match=f"{victim.name}: record 0 at byte 0 fails its checksum"):
        shardmill.load(remote, features=["n"], verify=True)


@pytest.mark.filterwarnings("ignore:split 'train' has 4 shards for 5 workers")
@pytest.mark.parametrize("workers", [4, 5])
def test_of_workers_who_reads_it_finds_it(rows: Path, tmp_path: Path, workers: int) -> None:
    victim = shards(copy(rows, tmp_path))[1]
    flip(victim, 100)

    if workers == 4:
        read(victim.parent, num_workers=workers, worker_index=2)  # whose shard is another
    with pytest.raises(tf.errors.InvalidArgumentError, match=victim.name):
        read(victim.parent, num_workers=workers, worker_index=1)


@pytest.mark.parametrize("options", WAYS)
def test_a_sound_shard_of_the_same_size_is_found_out(
    equal_shards: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    directory = copy(equal_shards, tmp_path)
    first, second = shards(directory)
    first.write_bytes(second.read_bytes())

    with pytest.raises(tf.errors.InvalidArgumentError, match="00000-of-00002 is not the file that was written"):
        list(shardmill.load(directory, supervised=False, **options))
    assert len(list(shardmill.load(directory, supervised=False, verify=False))) == 20


@pytest.mark.parametrize(
    ("damage", "message"), [("missing", "is missing"), ("truncated", "record .* at byte .* is cut short")]
)
def test_damage_after_the_call(rows: Path, tmp_path: Path, damage: str, message: str) -> None:
    victim = shards(copy(rows, tmp_path))[2]
    dataset = shardmill.load(victim.parent, features=["n"])
    if damage == "missing":
        victim.unlink()
    else:
        victim.write_bytes(victim.read_bytes()[:-9])

    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{victim.name}.* {message}"):
        list(dataset)


def test_each_shard_is_read_once_more_in_all_epochs(rows: Path) -> None:
    opened = []

    class Counting:
        def __init__(self, dataset: Dataset) -> None:
            self._files = dataset.files

        def open(self, path: str) -> Any:
            opened.append(path)
            return self._files.open(path)

        def exists(self, path: str) -> bool:
            return self._files.exists(path)

    sound = open_dataset(rows)
    dataset = Dataset(sound.directory, sound.manifest, Counting(sound))
    entries = sound.manifest.splits[0].shards
    paths = [dataset.path(shard) for shard in entries]
    guarded = with_shard_checks(dataset, entries, tf.data.Dataset.from_tensor_slices(paths))

    for _ in range(3):
        assert [path.decode() for path in guarded.as_numpy_iterator()] == paths
    assert sorted(opened) == paths


def test_an_iterator_outlives_its_dataset(rows: Path) -> None:
    iterator = iter(shardmill.load(rows, features=["n"], shuffle=False, repeat=2))
    gc.collect()

    assert sum(1 for _ in iterator) == 200


def test_under_a_distribution_strategy(rows: Path) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    distributed = strategy.experimental_distribute_dataset(shardmill.load(rows, batch_size=10, features=["n"]))
    gc.collect()

    assert sum(1 for _ in distributed) == 10


def test_an_iterator_s_place_can_be_saved(rows: Path, tmp_path: Path) -> None:
    iterator = iter(shardmill.load(rows, features=["n"], shuffle=False))
    first = [int(next(iterator)[0]) for _ in range(30)]
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    path = checkpoint.save(str(tmp_path / "iterator"))
    following = [int(n) for n, _ in iterator]

    checkpoint.restore(path)

    assert [int(n) for n, _ in iterator] == following
    assert len(first + following) == 100
