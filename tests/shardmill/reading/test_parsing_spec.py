"""feature_spec: equal to TensorFlow Transform's, and TensorFlow parses with it."""

import math
from pathlib import Path

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

import shardmill
from shardmill.errors import UserError
from tests.support.later import Later
from tests.support.reading import ROWS, row, shards

pytestmark = pytest.mark.slow

tf = Later("tensorflow")
schema_utils = Later("tensorflow_transform.tf_metadata.schema_utils")


@pytest.fixture
def rows(rows_in_four_shards: Path) -> Path:
    return rows_in_four_shards


@pytest.mark.parametrize("kind", ["rows", "images"])
def test_it_is_what_tensorflow_transform_makes_of_the_schema(
    kind: str, rows: Path, flowers_in_four_shards: Path
) -> None:
    directory = rows if kind == "rows" else flowers_in_four_shards
    schema = text_format.Parse((directory / "schema.pbtxt").read_text(), schema_pb2.Schema())
    expected = schema_utils.schema_as_feature_spec(schema).feature_spec

    spec = shardmill.feature_spec(directory)

    assert {name: (type(item), item.dtype, list(getattr(item, "shape", []))) for name, item in spec.items()} == {
        name: (type(item), item.dtype, list(getattr(item, "shape", []))) for name, item in expected.items()
    }


def test_batched_features_dataset_with_a_label_key_and_defaults(rows: Path) -> None:
    spec = shardmill.feature_spec(rows, features=["n", "age", "note", "city"], defaults={"age": -1, "note": "none"})
    files = [str(path) for path in shards(rows)]

    dataset = tf.data.experimental.make_batched_features_dataset(files, 7, spec, label_key="city", num_epochs=1)

    found = {}
    for features, label in dataset.as_numpy_iterator():
        for n, age, note, city in zip(features["n"], features["age"], features["note"], label):
            found[int(n)] = (int(age), note.decode(), ["Oslo", "Rome"][city])
    expected = [row(number) for number in range(ROWS)]
    assert found == {item["n"]: (item.get("age", -1), item.get("note", "none"), item["city"]) for item in expected}


def test_defaults_of_lists(rows: Path) -> None:
    spec = shardmill.feature_spec(rows, features=["pair"], defaults={"pair": 3})["pair"]
    parsed = tf.io.parse_single_example(tf.train.Example().SerializeToString(), {"pair": spec})
    assert parsed["pair"].numpy().tolist() == [3, 3]

    spec = shardmill.feature_spec(rows, features=["pair"], defaults={"pair": [4, 5]})["pair"]
    parsed = tf.io.parse_single_example(tf.train.Example().SerializeToString(), {"pair": spec})
    assert parsed["pair"].numpy().tolist() == [4, 5]

    spec = shardmill.feature_spec(rows, features=["x"], defaults={"x": math.nan})["x"]
    assert math.isnan(tf.io.parse_single_example(tf.train.Example().SerializeToString(), {"x": spec})["x"].numpy())


@pytest.mark.parametrize(
    ("defaults", "message"),
    [
        ({"agee": 0}, "defaults names 'agee', which is no feature; there are age, city, n, note, "),
        ({"age": 0.5}, "the default 0.5 of feature 'age' is no int64"),
        ({"age": math.nan}, "the default nan of feature 'age' is no int64"),
        ({"age": "old"}, "the default 'old' of feature 'age' is no int64"),
        ({"age": [1, 2]}, r"the default \[1, 2\] of feature 'age' has shape \(2,\); expected \(\) or one value"),
        ({"pair": [1, 2, 3]}, r"of feature 'pair' has shape \(3,\); expected \(2,\) or one value"),
        ({"note": 5}, "the default 5 of feature 'note' is no text"),
    ],
)
def test_defaults_that_do_not_fit(rows: Path, defaults: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        shardmill.feature_spec(rows, defaults=defaults)
