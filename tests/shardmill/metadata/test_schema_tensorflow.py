"""Tests of src/shardmill/metadata/schema.py, against TensorFlow.

* Features as a tensorflow-metadata Schema
* TFDS's JSON files
"""

import json
from typing import Any

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2

from shardmill.data.feature_kind import ELEMENT_TYPES
from shardmill.data.features import Feature, Features
from shardmill.metadata.schema import from_pbtxt, to_pbtxt, to_schema
from shardmill.metadata.tfds_metadata import (
    SplitInfo,
    dump_json,
    supervised_keys,
    to_dataset_info_json,
    to_features_json,
)
from tests.support.later import Later

tf = Later("tensorflow")
schema_utils = Later("tensorflow_transform.tf_metadata.schema_utils")


@pytest.mark.parametrize(
    ("feature", "text"),
    [
        (Feature("n", "int64"), 'name: "n" type: INT presence { min_fraction: 1.0 min_count: 1 } shape {}'),
        (
            Feature("f", "float32", shape=(4,)),
            'name: "f" type: FLOAT presence { min_fraction: 1.0 min_count: 1 } shape { dim { size: 4 } }',
        ),
        (Feature("v", "float32", shape=(None,)), 'name: "v" type: FLOAT presence { min_fraction: 1.0 min_count: 1 }'),
        (
            Feature("m", "float32", shape=(2, 3)),
            (
                'name: "m" type: FLOAT presence { min_fraction: 1.0 min_count: 1 } shape { dim { size: 2 } dim { size:'
                " 3 } }"
            ),
        ),
        (
            Feature("boxes", "float32", shape=(None, 4)),
            'name: "boxes" type: FLOAT presence { min_fraction: 1.0 min_count: 1 } annotation { tag: "shape:-1,4" }',
        ),
        (
            Feature("m", "float32", shape=(2, 3), required=False),
            'name: "m" type: FLOAT value_count { min: 6 max: 6 } annotation { tag: "shape:2,3" }',
        ),
        (
            Feature("a", "bytes", "array", (28, 28), element="uint8"),
            (
                'name: "a" type: BYTES presence { min_fraction: 1.0 min_count: 1 } shape {} '
                'annotation { tag: "shape:28,28" tag: "element:uint8" }'
            ),
        ),
        (
            Feature("a", "bytes", "array", (), required=False, element="float32"),
            'name: "a" type: BYTES value_count { min: 1 max: 1 } annotation { tag: "shape:" tag: "element:float32" }',
        ),
        (
            Feature("t", "int64", required=False, time="ms"),
            'name: "t" type: INT value_count { min: 1 max: 1 } time_domain { integer_format: UNIX_MILLISECONDS }',
        ),
        (
            Feature("t", "int64", shape=(None,), time="ns"),
            (
                'name: "t" type: INT presence { min_fraction: 1.0 min_count: 1 }'
                " time_domain { integer_format: UNIX_NANOSECONDS }"
            ),
        ),
        (Feature("o", "bytes", "text", required=False), 'name: "o" type: BYTES value_count { min: 1 max: 1 }'),
        (Feature("o", "int64", shape=(3,), required=False), 'name: "o" type: INT value_count { min: 3 max: 3 }'),
        (
            Feature("label", "int64", "class_label", class_names=("a", "b", "c")),
            (
                'name: "label" type: INT presence { min_fraction: 1.0 min_count: 1 } shape {} '
                "int_domain { min: 0 max: 2 is_categorical: true }"
            ),
        ),
        (
            Feature("image", "bytes", "image"),
            'name: "image" type: BYTES presence { min_fraction: 1.0 min_count: 1 } shape {} image_domain {}',
        ),
    ],
)
def test_each_kind(feature: Feature, text: str) -> None:
    assert to_schema((feature,)).feature[0] == text_format.Parse(text, schema_pb2.Feature())


def test_a_count_of_values_that_is_empty_asks_for_nothing() -> None:
    (feature,) = from_pbtxt('feature { name: "n" type: INT value_count {} }')
    assert feature == Feature("n", "int64", shape=(None,), required=False)


def test_the_text_reads_back_in_order() -> None:
    features = (Feature("image", "bytes", "image"), Feature("größe", "int64"), Feature("a", "float32"))

    schema = text_format.Parse(to_pbtxt(features), schema_pb2.Schema())

    assert schema == to_schema(features)
    assert [feature.name for feature in schema.feature] == ["image", "größe", "a"]
    assert "größe" in to_pbtxt(features)


SIZES = st.lists(st.integers(1, 9), max_size=3).map(tuple)


@st.composite
def features(draw: st.DrawFn) -> Feature:
    """A feature of which a Schema can say all: what it cannot are class names, formats of images, and text from other
    bytes."""
    name, shape, required = draw(st.text(st.characters(codec="utf-8"), min_size=1)), draw(SIZES), draw(st.booleans())
    if draw(st.booleans()):
        return Feature(name, "bytes", "array", shape, required, element=draw(st.sampled_from(ELEMENT_TYPES)))
    if draw(st.booleans()):
        return Feature(name, draw(st.sampled_from(["int64", "float32", "bytes"])), "tensor", (None, *shape), required)
    # One value that may be missing, and a list of one, are the same to a Schema.
    shape = shape if required or shape != (1,) else ()
    return Feature(name, draw(st.sampled_from(["int64", "float32"])), "tensor", shape, required)


@given(st.lists(features(), max_size=4, unique_by=lambda feature: feature.name).map(tuple))
def test_round_trip(chosen: tuple[Feature, ...]) -> None:
    assert from_pbtxt(to_pbtxt(chosen)) == chosen


def test_tensorflow_transform_reads_all_of_them() -> None:
    chosen = (
        Feature("matrix", "float32", shape=(2, 3)),
        Feature("boxes", "float32", shape=(None, 4)),
        Feature("array", "bytes", "array", (28, 28), element="uint8"),
        Feature("n", "int64"),
        Feature("t", "int64", time="s"),
    )

    assert schema_utils.schema_as_feature_spec(to_schema(chosen)).feature_spec == {
        "matrix": tf.io.FixedLenFeature([2, 3], tf.float32),
        "boxes": tf.io.VarLenFeature(tf.float32),
        "array": tf.io.FixedLenFeature([], tf.string),
        "n": tf.io.FixedLenFeature([], tf.int64),
        "t": tf.io.FixedLenFeature([], tf.int64),
    }


@pytest.mark.parametrize("tag", ["shape", "shape:two", "shape:3,-1", "element:complex", "shape:4", "why"])
def test_annotations_of_others_are_none_of_ours(tag: str) -> None:
    text = f'feature {{ name: "b" type: BYTES shape {{ dim {{ size: 2 }} }} annotation {{ tag: "{tag}" }} }}'

    assert from_pbtxt(text) == (Feature("b", "bytes", shape=(2,), required=False),)


def test_a_size_of_minus_one_is_not_fixed() -> None:
    assert from_pbtxt('feature { name: "b" type: INT shape { dim { size: -1 } dim { size: 4 } } }')[0].shape == (
        None,
        4,
    )
    with pytest.raises(ValueError, match="feature 'b' has shape"):
        from_pbtxt('feature { name: "b" type: INT shape { dim { size: 4 } dim { size: -1 } } }')


def content(feature: Feature) -> dict[str, Any]:
    return json.loads(to_features_json((feature,)))["featuresDict"]["features"][feature.name]


def tensor(dtype: str, *dimensions: str) -> dict[str, Any]:
    return {"shape": {"dimensions": list(dimensions)} if dimensions else {}, "dtype": dtype, "encoding": "none"}


@pytest.mark.parametrize(
    ("feature", "class_name", "key", "value"),
    [
        (Feature("f", "int64"), "scalar.Scalar", "tensor", tensor("int64")),
        (Feature("f", "float32"), "scalar.Scalar", "tensor", tensor("float32")),
        (Feature("f", "bytes"), "scalar.Scalar", "tensor", tensor("string")),
        (Feature("f", "bytes", "text"), "text_feature.Text", "text", {}),
        (Feature("f", "float32", shape=(4,)), "tensor_feature.Tensor", "tensor", tensor("float32", "4")),
        (Feature("f", "int64", shape=(None,)), "tensor_feature.Tensor", "tensor", tensor("int64", "-1")),
        (Feature("f", "float32", shape=(2, 3)), "tensor_feature.Tensor", "tensor", tensor("float32", "2", "3")),
        (Feature("f", "int64", shape=(None, 4)), "tensor_feature.Tensor", "tensor", tensor("int64", "-1", "4")),
        (
            Feature("f", "bytes", "array", (2, 3), element="uint8"),
            "tensor_feature.Tensor",
            "tensor",
            {**tensor("uint8", "2", "3"), "encoding": "bytes"},
        ),
        (Feature("f", "bytes", "array", (2, 3), element="uint32"), "scalar.Scalar", "tensor", tensor("string")),
        # What may be missing reads as none or some values, whatever it is.
        (Feature("f", "bytes", "text", required=False), "tensor_feature.Tensor", "tensor", tensor("string", "-1")),
        (
            Feature("f", "float32", shape=(4,), required=False),
            "tensor_feature.Tensor",
            "tensor",
            tensor("float32", "-1"),
        ),
        (
            Feature("f", "int64", shape=(2, 3), required=False),
            "tensor_feature.Tensor",
            "tensor",
            tensor("int64", "-1", "3"),
        ),
        (
            Feature("f", "bytes", "array", (2,), required=False, element="uint8"),
            "tensor_feature.Tensor",
            "tensor",
            tensor("string", "-1"),
        ),
        (
            Feature("f", "int64", "class_label", class_names=("a", "b")),
            "class_label_feature.ClassLabel",
            "classLabel",
            {"numClasses": "2"},
        ),
        (
            Feature("f", "bytes", "image", encoding="jpeg"),
            "image_feature.Image",
            "image",
            {"shape": {"dimensions": ["-1", "-1", "3"]}, "dtype": "uint8", "encodingFormat": "jpeg"},
        ),
        (
            Feature("f", "bytes", "image", encoding="webp"),
            "image_feature.Image",
            "image",
            {"shape": {"dimensions": ["-1", "-1", "3"]}, "dtype": "uint8"},
        ),
    ],
)
def test_tfds_metadata_each_kind(feature: Feature, class_name: str, key: str, value: dict[str, Any]) -> None:
    found = content(feature)

    assert found == {"pythonClassName": f"tensorflow_datasets.core.features.{class_name}", key: value}


@pytest.mark.parametrize(
    ("feature", "class_name"),
    [
        (Feature("bbox", "float32", shape=(4,)), "bounding_boxes.BBoxFeature"),
        (Feature("bboxes", "float32", shape=(None, 4)), "sequence_feature.Sequence"),
        (Feature("a/bbox", "float32", shape=(None, 4), required=False), "sequence_feature.Sequence"),
        (Feature("bbox", "float32", shape=(4,), required=False), "tensor_feature.Tensor"),  # a box cannot be missing
        (Feature("box", "float32", shape=(4,)), "tensor_feature.Tensor"),
        (Feature("bbox", "int64", shape=(4,)), "tensor_feature.Tensor"),
        (Feature("bbox", "float32", shape=(None, 5)), "tensor_feature.Tensor"),
        (Feature("bbox", "float32", shape=(None,)), "tensor_feature.Tensor"),
        (Feature("bbox", "bytes", "array", (4,), element="float32"), "tensor_feature.Tensor"),
    ],
)
def test_boxes_are_told_by_name_and_shape(feature: Feature, class_name: str) -> None:
    assert content(feature)["pythonClassName"] == f"tensorflow_datasets.core.features.{class_name}"


def test_dataset_info() -> None:
    splits = [SplitInfo("train", (3, 2), 1000), SplitInfo("test", (1,), 200)]
    info = json.loads(to_dataset_info_json("flowers", "1.2.3", splits, ("image", "label"), "What it is."))

    assert (info["name"], info["version"], info["description"], info["fileFormat"]) == (
        "flowers",
        "1.2.3",
        "What it is.",
        "tfrecord",
    )
    assert info["supervisedKeys"] == {"tuple": {"items": [{"featureKey": "image"}, {"featureKey": "label"}]}}
    assert info["splits"][0] == {
        "name": "train",
        "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
        "shardLengths": ["3", "2"],
        "numBytes": "1000",
    }
    assert [split["name"] for split in info["splits"]] == ["train", "test"]


@pytest.mark.parametrize(
    ("features", "keys"),
    [
        (
            (Feature("text", "bytes", "text"), Feature("image", "bytes", "image"), Feature("label", "int64")),
            ("image", "label"),
        ),
        ((Feature("scan", "bytes", "array", (2,), element="int8"), Feature("label", "int64")), ("scan", "label")),
        ((Feature("scan", "bytes"), Feature("label", "int64")), None),
        # Of several strings, the one that the input calls text
        (
            (Feature("title", "bytes", "text"), Feature("text", "bytes", "text"), Feature("label", "int64")),
            ("text", "label"),
        ),
        (
            (
                Feature("text", "bytes", "text", original="title"),
                Feature("body", "bytes", "text", original="text"),
                Feature("label", "int64"),
            ),
            ("body", "label"),
        ),
        ((Feature("image", "bytes", "image"),), None),
    ],
)
def test_supervised_keys(features: Features, keys: tuple[str, str] | None) -> None:
    assert supervised_keys(features) == keys


def test_unlabelled_data_has_no_supervised_keys() -> None:
    assert "supervisedKeys" not in json.loads(to_dataset_info_json("flowers", "1.0.0", [], None, ""))


def test_json_keeps_order_and_letters() -> None:
    assert dump_json({"b": "ü", "a": 1}) == '{\n  "b": "ü",\n  "a": 1\n}\n'
