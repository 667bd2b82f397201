"""Images that load decodes, scales and augments."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from shardmill.errors import UserError
from tests.support.command import image, write_files
from tests.support.later import Later
from tests.support.reading import count, make, make_images

pytestmark = pytest.mark.slow

tf = Later("tensorflow")


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_images(tmp_path_factory.mktemp("squares"), "--num_shards", 2, same_size=True)


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
