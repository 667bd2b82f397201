"""load: a split for Keras. What comes out equals the source, wherever it lies."""

from pathlib import Path
from typing import Any

import pytest

import shardmill
from shardmill.errors import CorruptDataError, UserError
from shardmill.filesystem import GFiles
from tests.support.later import Later
from tests.support.reading import FILLS, ROWS, by_number, count, plain, row, shards

pytestmark = pytest.mark.tensorflow

tf = Later("tensorflow")


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
