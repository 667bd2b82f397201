"""load: a split for Keras. What comes out equals the source, every option changes it, and damage never goes
unnoticed."""

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardmill
from shardmill.errors import CorruptDataError, UserError
from shardmill.gfiles import GFiles
from tests.support.command import image, write_files
from tests.support.reading import ROWS, by_number, copy, flip, make, make_images, make_rows, plain, row, shards
from tests.support.small_data_set import edit_manifest

FILLS = {"age": -1, "note": "none"}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_rows(
        tmp_path_factory.mktemp("rows"), "--num_shards", "train=4,test=2", "--splits", "train=0.8,test=0.2"
    )


@pytest.fixture
def flowers(flowers_in_four_shards: Path) -> Path:
    return flowers_in_four_shards


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_images(tmp_path_factory.mktemp("squares"), "--num_shards", 2, same_size=True)


def count(directory: Path, split: str = "train") -> int:
    return shardmill.info(directory).splits[split].examples


def numbers(dataset: Any) -> list[int]:
    """The feature `n` of a dataset that is read without any other, batched or not."""
    return [int(n) for batch in dataset.as_numpy_iterator() for n in np.ravel(batch)]


def read_numbers(directory: Path, **options: Any) -> list[int]:
    return numbers(shardmill.load(directory, features=["n"], supervised=False, **options))


def rows_of(dataset: Any) -> dict[int, dict[str, Any]]:
    """The examples of batches of `rows`, by their `n`."""
    examples = []
    for features, label in dataset:
        columns = {
            name: value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy()
            for name, value in features.items()
        }
        for index, city in enumerate(label.numpy()):
            examples.append(
                {**{name: values[index] for name, values in columns.items()}, "city": ["Oslo", "Rome"][city]}
            )
    return by_number(examples)


def expected_rows(*found: int) -> dict[int, dict[str, Any]]:
    return {number: {**FILLS, **row(number)} for number in found}


# Tables


@pytest.mark.parametrize("shuffle", [True, False])
def test_every_kind_of_column(rows_of_each_compression: Path, shuffle: bool) -> None:
    dataset = shardmill.load(rows_of_each_compression, batch_size=16, defaults=FILLS, shuffle=shuffle)

    assert rows_of(dataset) == expected_rows(*range(ROWS))
    features, label = dataset.element_spec
    assert {
        name: (spec.dtype.name, spec.shape.as_list(), isinstance(spec, tf.RaggedTensorSpec))
        for name, spec in features.items()
    } == {
        "n": ("int64", [None], False),
        "x": ("float32", [None], False),
        "word": ("string", [None], False),
        "pair": ("int64", [None, 2], False),
        "weights": ("float32", [None, None], True),
        "tokens": ("int64", [None, None], True),
        "tags": ("string", [None, None], True),
        "age": ("int64", [None], False),
        "note": ("string", [None], False),
    }
    assert label == tf.TensorSpec([None], tf.int64)


def test_padding(rows: Path) -> None:
    options: dict[str, Any] = {"batch_size": 8, "features": ["n", "tokens", "tags"], "pad": True, "shuffle": False}
    for fills, token in (({}, 0), ({"tokens": -1, "tags": ""}, -1)):
        dataset = shardmill.load(rows, defaults=fills, **options)
        for features, _ in dataset:
            wanted = [row(number)["tokens"] for number in features["n"].numpy()]
            width = max(map(len, wanted))
            assert features["tokens"].numpy().tolist() == [
                tokens + [token] * (width - len(tokens)) for tokens in wanted
            ]
            assert features["tags"].dtype == tf.string
    changed = shardmill.load(rows, augment=lambda features: features, **options)  # which takes batches apart
    for (one, _), (other, _) in zip(shardmill.load(rows, **options), changed):
        assert plain({name: value.numpy() for name, value in one.items()}) == plain(
            {name: value.numpy() for name, value in other.items()}
        )


def test_single_examples(rows: Path) -> None:
    dataset = shardmill.load(rows, defaults=FILLS)

    assert dataset.cardinality() == count(rows)
    found = by_number({**features, "city": ["Oslo", "Rome"][label]} for features, label in dataset.as_numpy_iterator())
    assert found == expected_rows(*found)
    assert len(found) == count(rows)
    assert dataset.element_spec[0]["tokens"] == tf.TensorSpec([None], tf.int64)


def test_inputs_and_label(rows: Path) -> None:
    one = shardmill.load(rows, batch_size=4, features=["word"])
    assert one.element_spec == (tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64))

    other = shardmill.load(rows, batch_size=4, features=["word", "x"], label="n")
    assert list(other.element_spec[0]) == ["word", "x"]
    assert all(features["x"].numpy().tolist() == (label.numpy() / 4).tolist() for features, label in other)

    alone = shardmill.load(rows, batch_size=4, supervised=False, defaults=FILLS)
    assert "city" in alone.element_spec


# Order, epochs, workers


def test_train_is_shuffled_and_others_come_in_order(rows: Path) -> None:
    in_order = [int(example["n"]) for example in shardmill.examples(rows, features=["n"])]
    assert read_numbers(rows, shuffle=False) == in_order
    assert read_numbers(rows, shuffle=False, batch_size=7) == in_order
    found = read_numbers(rows, batch_size=7)
    assert found != in_order
    assert sorted(found) == sorted(in_order)
    test = [int(example["n"]) for example in shardmill.examples(rows, "test", features=["n"])]
    assert read_numbers(rows, split="test") == test
    assert read_numbers(rows, split="test", shuffle=True, seed=1) != test


def test_a_seed_makes_the_order_and_epochs_differ(rows: Path) -> None:
    def epochs(**options: Any) -> list[list[int]]:
        dataset = shardmill.load(rows, features=["n"], supervised=False, batch_size=5, **options)
        return [numbers(dataset), numbers(dataset)]

    assert epochs(seed=1) == epochs(seed=1)
    orders = [tuple(order) for seed in (1, 2) for order in epochs(seed=seed)]
    orders.append(tuple(read_numbers(rows, seed=1, shuffle_buffer_size=1)))
    assert len(set(orders)) == 5


@pytest.mark.parametrize(
    ("options", "cardinality"),
    [
        ({"batch_size": 7}, lambda n: -(-n // 7)),
        ({"batch_size": 7, "drop_remainder": True}, lambda n: n // 7),
        ({"batch_size": 7, "repeat": 3}, lambda n: -(-3 * n // 7)),
        ({"batch_size": 7, "repeat": True}, lambda n: tf.data.INFINITE_CARDINALITY),
        ({"batch_size": 7, "cache": True}, lambda n: -(-n // 7)),
        ({"repeat": 2}, lambda n: 2 * n),
    ],
)
@pytest.mark.parametrize("kind", ["rows", "augmented", "images", "cached images"])
def test_cardinality(kind: str, options: dict[str, Any], cardinality: Any, rows: Path, flowers: Path) -> None:
    directory = flowers if "images" in kind else rows
    extra: dict[str, Any] = {"image_size": (4, 4)} if "images" in kind else {"features": ["n"]}
    if kind == "augmented":
        extra["augment"] = lambda features, seed: features
    if kind == "cached images":
        extra["cache"] = True

    dataset = shardmill.load(directory, **{**extra, **options})

    expected = cardinality(count(directory))
    assert dataset.cardinality() == expected
    if expected != tf.data.INFINITE_CARDINALITY:
        assert sum(1 for _ in dataset) == expected
    else:
        assert sum(1 for _ in dataset.take(40)) == 40


def test_epochs_do_not_mix(rows: Path) -> None:
    found = read_numbers(rows, repeat=2)

    assert sorted(found[: count(rows)]) == sorted(found[count(rows) :])


@pytest.mark.parametrize("in_file", [True, False])
@pytest.mark.parametrize("kind", ["rows", "flowers"])
def test_cache(kind: str, in_file: bool, rows: Path, flowers: Path, tmp_path: Path) -> None:
    directory = copy(rows if kind == "rows" else flowers, tmp_path)
    cache = str(tmp_path / "cache") if in_file else True
    options: dict[str, Any] = {"features": ["n"]} if kind == "rows" else {"image_size": (4, 4)}
    dataset = shardmill.load(directory, batch_size=10, cache=cache, seed=3, **options)

    first = [label.numpy().tolist() for _, label in dataset]
    for shard in shards(directory):
        shard.unlink()
    second = [label.numpy().tolist() for _, label in dataset]

    assert first != second
    assert sorted(chain(*first)) == sorted(chain(*second))
    assert list(tmp_path.glob("cache*")) != [] or not in_file


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("workers", [2, 4, 7])
@pytest.mark.filterwarnings("ignore:split 'train' has 4 shards for 7 workers")
def test_each_example_is_on_one_worker(rows: Path, workers: int, shuffle: bool) -> None:
    parts = [
        read_numbers(rows, shuffle=shuffle, batch_size=3, num_workers=workers, worker_index=worker)
        for worker in range(workers)
    ]

    assert all(parts)
    assert sorted(chain(*parts)) == sorted(read_numbers(rows))


def test_fewer_shards_than_workers_is_warned_of(rows: Path) -> None:
    with pytest.warns(UserWarning, match="has 4 shards for 5 workers"):
        assert shardmill.load(rows, features=["n"], num_workers=5).cardinality() == -(-count(rows) // 5)


def test_options_of_tf_data(rows: Path) -> None:
    policy = tf.data.experimental.AutoShardPolicy
    alone = shardmill.load(rows, features=["n"]).options()
    assert alone.experimental_distribute.auto_shard_policy == policy.DATA
    assert alone.deterministic is False
    assert alone.autotune.enabled is False
    shared = shardmill.load(
        rows, features=["n"], num_workers=2, seed=1, num_parallel_calls=1, prefetch_buffer_size=1
    ).options()
    assert shared.experimental_distribute.auto_shard_policy == policy.OFF
    assert shared.deterministic is True


# Images


def stored(directory: Path) -> dict[bytes, bytes]:
    return {example["filename"]: example["image"] for example in shardmill.examples(directory)}


def read_images(directory: Path, **options: Any) -> dict[bytes, np.ndarray]:
    dataset = shardmill.load(directory, features=["image", "filename"], supervised=False, **options)
    return {
        name: image
        for batch in dataset.as_numpy_iterator()
        for name, image in zip(
            np.atleast_1d(batch["filename"]), batch["image"] if batch["image"].ndim == 4 else [batch["image"]]
        )
    }


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_scaled_images_are_tensorflow_s(flowers: Path, channels: int, antialias: bool) -> None:
    options: dict[str, Any] = {"batch_size": 16, "image_size": (5, 4), "channels": channels, "antialias": antialias}
    floats = read_images(flowers, **options)
    integers = read_images(flowers, image_dtype="uint8", **options)

    assert len(floats) == count(flowers)
    for name, data in stored(flowers).items():
        scaled = tf.image.resize(tf.io.decode_jpeg(data, channels=channels), (5, 4), antialias=antialias).numpy()
        assert floats[name].dtype == np.float32
        np.testing.assert_allclose(floats[name], scaled / 255, atol=1e-6)
        assert integers[name].dtype == np.uint8
        assert np.array_equal(integers[name], np.round(scaled).astype(np.uint8))


def test_images_of_one_size_need_no_image_size(squares: Path) -> None:
    dataset = shardmill.load(squares, batch_size=16)
    assert dataset.element_spec[0] == tf.TensorSpec([None, 9, 12, 3], tf.float32)

    floats, integers = read_images(squares, batch_size=16), read_images(squares, batch_size=16, image_dtype="uint8")
    for name, data in stored(squares).items():
        image = tf.io.decode_jpeg(data).numpy()
        assert np.array_equal(integers[name], image)
        np.testing.assert_allclose(floats[name], image / 255, atol=1e-6)


def test_single_images_of_differing_sizes(flowers: Path) -> None:
    images = read_images(flowers, image_dtype="uint8")

    assert {name: image.shape for name, image in images.items()} == {
        name: tf.io.decode_jpeg(data).shape for name, data in stored(flowers).items()
    }


def test_images_beside_lists_of_any_length(tmp_path: Path) -> None:
    source = write_files(tmp_path / "source", {f"{number}.jpg": image(number) for number in range(6)})
    lines = [
        f'{{"file_name": "{number}.jpg", "label": "a", "boxes": {[0.5] * number}, "meta": [1.0, 2.0]}}\n'
        for number in range(6)
    ]
    (source / "meta.jsonl").write_text("".join(lines))
    directory = make("images", None, tmp_path / "out", "--manifest", source / "meta.jsonl")

    ragged = shardmill.load(directory, batch_size=4, shuffle=False)
    padded = shardmill.load(directory, batch_size=4, shuffle=False, pad=True, defaults={"boxes": -1.0})

    assert set(ragged.element_spec[0]) == {"image", "boxes", "meta"}
    lengths = [len(boxes) for features, _ in ragged for boxes in features["boxes"].to_list()]
    assert sorted(lengths) == list(range(6))
    for features, _ in padded:
        assert features["image"].shape[1:] == (9, 12, 3)
        assert features["meta"].shape[1:] == (2,)
        assert set(features["boxes"].numpy().ravel()) <= {0.5, -1.0}


# Augmentation


def test_augment_changes_each_example(squares: Path) -> None:
    plain_images = read_images(squares, batch_size=8)
    seen = []

    def turn(features: Any) -> Any:
        seen.append(features["image"].shape)
        return {**features, "image": tf.image.flip_left_right(features["image"])}

    turned = read_images(squares, batch_size=8, augment=turn)

    assert seen == [(9, 12, 3)]
    assert all(np.array_equal(turned[name], image[:, ::-1]) for name, image in plain_images.items())


def test_augment_with_a_seed_is_the_same_in_every_run(squares: Path) -> None:
    def noise(image: Any, seed: Any) -> Any:
        return tf.random.stateless_uniform((), seed)

    def epochs(seed: int | None) -> list[list[float]]:
        dataset = shardmill.load(squares, batch_size=8, augment=noise, seed=seed)
        return [[float(value) for batch, _ in dataset for value in batch] for _ in range(2)]

    assert epochs(1) == epochs(1)
    found = [value for epoch in (*epochs(1), *epochs(2), *epochs(None)) for value in epoch]
    assert len(set(found)) > 0.9 * len(found)


def test_augment_is_not_cached(squares: Path) -> None:
    dataset = shardmill.load(
        squares, batch_size=8, cache=True, augment=lambda image, seed: tf.random.stateless_uniform((), seed)
    )

    first, second = ({float(value) for batch, _ in dataset for value in batch} for _ in range(2))
    assert not first & second


def test_augment_of_too_many_arguments(squares: Path) -> None:
    with pytest.raises(UserError, match="augment takes 3 arguments"):
        shardmill.load(squares, batch_size=8, augment=lambda image, label, seed: image)


# Keras


def test_keras_trains_on_it(squares: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keras = tf.keras
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    train = shardmill.load(squares, split="train", batch_size=8, image_size=(6, 6))

    history = model.fit(
        train, validation_data=shardmill.load(squares, batch_size=8, image_size=(6, 6), shuffle=False), epochs=2
    )

    assert len(history.history["val_loss"]) == 2
    assert "8/8" in capsys.readouterr().out  # a bar that knows its end in the first epoch


def test_keras_trains_on_several_inputs(rows: Path) -> None:
    keras = tf.keras
    inputs = {"x": keras.Input((), name="x"), "pair": keras.Input((2,), name="pair")}
    wide = keras.layers.Concatenate()([keras.layers.Reshape((1,))(inputs["x"]), inputs["pair"]])
    model = keras.Model(inputs, keras.layers.Dense(1)(wide))
    model.compile("adam", "mse")

    model.fit(shardmill.load(rows, batch_size=16, features=["x", "pair"]), verbose=0)


# File systems


def test_through_tensorflow_s_file_system(rows: Path) -> None:
    for path in rows.rglob("*"):
        target = f"ram://data/n/1.0.0/{path.relative_to(rows)}"
        if path.is_file():
            tf.io.gfile.makedirs(str(Path(target).parent).replace(":/", "://"))
            with tf.io.gfile.GFile(target, "wb") as file:
                file.write(path.read_bytes())
    with tf.io.gfile.GFile("ram://data/n/LATEST", "w") as file:
        file.write("1.0.0\n")

    assert rows_of(shardmill.load("ram://data/n", batch_size=9, defaults=FILLS)) == rows_of(
        shardmill.load(rows, batch_size=9, defaults=FILLS)
    )
    assert shardmill.info("ram://data/n").directory == "ram://data/n/1.0.0"
    assert by_number(shardmill.examples("ram://data/n")) == by_number(shardmill.examples(rows))
    with tf.io.gfile.GFile(f"ram://data/n/1.0.0/{shards(rows)[0].name}", "wb") as file:
        file.write(b"short")
    with pytest.raises(CorruptDataError, match="cut short or replaced"):
        shardmill.load("ram://data/n", defaults=FILLS)
    tf.io.gfile.remove(f"ram://data/n/1.0.0/{shards(rows)[0].name}")
    with pytest.raises(CorruptDataError, match="is missing"):
        shardmill.load("ram://data/n", defaults=FILLS)


def test_a_scheme_that_tensorflow_does_not_know() -> None:
    with pytest.raises(UserError, match=r"TensorFlow has no file system for nothing://; import tensorflow_io first"):
        shardmill.load("nothing://bucket/n")


def test_gfiles(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    files = GFiles()

    assert files.size(f"{tmp_path}/a") == 3
    with files.open(f"{tmp_path}/a") as file:
        assert file.read() == b"abc"
    for read in (files.open, files.size):
        with pytest.raises(FileNotFoundError):
            read(f"{tmp_path}/b")


# Mistakes and damage


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("rows", {"split": "trian"}, r"n 1\.0\.0 has no split 'trian'; it has train, test"),
        (
            "rows",
            {"image_size": (4, 4)},
            "image_size, .* are for images, and n is read without any; its features here are age, ",
        ),
        ("rows", {"image_dtype": "uint8"}, "are for images"),
        ("rows", {}, "age, note are features that some examples lack; .*defaults={'age': 0, 'note': ''} for instance"),
        ("rows", {"defaults": {"age": 0.5}}, r"the default 0\.5 of feature 'age' is no int64"),
        (
            "rows",
            {"defaults": {**FILLS, "tokens": 1}},
            "defaults names 'tokens', a list of any length.*; give pad=True",
        ),
        ("rows", {"features": ["tokens"], "pad": True}, "pad is for batches; give batch_size"),
        ("rows", {"features": ["n"], "pad": True, "batch_size": 2}, "pad fills up lists of any length, and no feature"),
        ("rows", {"features": ["n"], "drop_remainder": True}, "drop_remainder is for batches; give batch_size"),
        ("rows", {"features": ["n"], "batch_size": 0}, "batch_size is 0; expected at least 1"),
        ("rows", {"features": ["n"], "repeat": -1}, "repeat is -1; expected at least 1"),
        (
            "rows",
            {"features": ["n"], "shuffle": False, "shuffle_buffer_size": 9},
            "shuffle_buffer_size is 9, but nothing is shuffled",
        ),
        ("rows", {"num_workers": 2, "worker_index": 2}, "worker_index is 2; expected 0 to 1"),
        (
            "images",
            {"batch_size": 8},
            "cannot be batched: their heights are 6 to 6, their widths 8 to 12; give image_size=",
        ),
        ("images", {"image_size": (0, 4)}, r"image_size is \(0, 4\); expected \(height, width\)"),
        ("images", {"image_dtype": "float16"}, "image_dtype is 'float16'; expected 'float32' or 'uint8'"),
        ("images", {"channels": 4}, "channels is 4; expected 3"),
    ],
)
def test_mistakes(kind: str, options: dict[str, Any], message: str, rows: Path, flowers: Path) -> None:
    with pytest.raises(UserError, match=message):
        shardmill.load(rows if kind == "rows" else flowers, **options)


def test_images_of_unknown_size_are_not_batched(tmp_path: Path) -> None:
    directory = make_images(tmp_path, "--verify", "none", each=2)

    with pytest.raises(UserError, match="their sizes are not known; give image_size="):
        shardmill.load(directory, batch_size=2)
    assert len(list(shardmill.load(directory, batch_size=2, image_size=(4, 4)))) == 3


@pytest.mark.parametrize("damage", ["missing", "truncated", "replaced"])
def test_a_shard_of_another_size_is_named_before_training(rows: Path, tmp_path: Path, damage: str) -> None:
    directory = copy(rows, tmp_path)
    victim = shards(directory)[1]
    if damage == "missing":
        victim.unlink()
    elif damage == "truncated":
        victim.write_bytes(victim.read_bytes()[:-20])
    else:
        victim.write_bytes(shards(rows, "test")[0].read_bytes())

    with pytest.raises(
        CorruptDataError, match=f"{victim.name} (is missing|has .* bytes; the manifest says .*cut short or replaced)"
    ):
        shardmill.load(directory, features=["n"])


def test_a_flipped_bit_is_found_when_verifying(rows: Path, tmp_path: Path) -> None:
    directory = copy(rows, tmp_path)
    flip(shards(directory)[1], 100)

    with pytest.raises(CorruptDataError, match=f"{shards(directory)[1].name}: record 0 at byte 0 fails its checksum"):
        shardmill.load(directory, features=["n"], batch_size=4, verify=True)


def test_a_sound_shard_of_the_same_size_is_found_when_verifying(equal_shards: Path, tmp_path: Path) -> None:
    directory = copy(equal_shards, tmp_path)
    shardmill.load(directory, verify=True)
    first, second = shards(directory)
    first.write_bytes(second.read_bytes())

    with pytest.raises(CorruptDataError, match="00000-of-00002 is not the file that was written"):
        shardmill.load(directory, verify=True)


@pytest.mark.parametrize("options", [{"batch_size": 4}, {}, {"shuffle": False}, {"repeat": 2, "batch_size": 4}])
@pytest.mark.parametrize("claimed", [-1, 1])
def test_another_number_of_examples_is_never_silent(
    rows: Path, tmp_path: Path, claimed: int, options: dict[str, Any]
) -> None:
    directory = copy(rows, tmp_path)

    def edit(content: Any) -> None:
        content["splits"][0]["shards"][0]["examples"] += claimed
        content["input"]["records"] += claimed

    edit_manifest(directory, edit)

    with pytest.raises(tf.errors.FailedPreconditionError, match="was expected to contain"):
        list(shardmill.load(directory, features=["n"], **options))
