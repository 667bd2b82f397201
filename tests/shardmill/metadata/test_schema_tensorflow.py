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
from shardmill.metadata import tfds_metadata
from shardmill.metadata.schema import from_pbtxt, to_pbtxt, to_schema
from tests.support.later import Later

tf = Later("tensorflow")
schema_utils = Later("tensorflow_transform.tf_metadata.schema_utils")


ALWAYS = "presence { min_fraction: 1.0 min_count: 1 }"
MATRIX = "shape { dim { size: 2 } dim { size: 3 } }"
CLASSES = "shape {} int_domain { min: 0 max: 2 is_categorical: true }"
ONE = "value_count { min: 1 max: 1 }"


@pytest.mark.parametrize(
    ("feature", "text"),
    [
        (Feature("x", "int64"), f"type: INT {ALWAYS} shape {{}}"),
        (Feature("x", "float32", shape=(4,)), f"type: FLOAT {ALWAYS} shape {{ dim {{ size: 4 }} }}"),
        (Feature("x", "float32", shape=(None,)), f"type: FLOAT {ALWAYS}"),
        (Feature("x", "float32", shape=(2, 3)), f"type: FLOAT {ALWAYS} {MATRIX}"),
        (Feature("x", "float32", shape=(None, 4)), f'type: FLOAT {ALWAYS} annotation {{ tag: "shape:-1,4" }}'),
        (
            Feature("x", "float32", shape=(2, 3), required=False),
            'type: FLOAT value_count { min: 6 max: 6 } annotation { tag: "shape:2,3" }',
        ),
        (
            Feature("x", "bytes", "array", (28, 28), element="uint8"),
            f'type: BYTES {ALWAYS} shape {{}} annotation {{ tag: "shape:28,28" tag: "element:uint8" }}',
        ),
        (
            Feature("x", "bytes", "array", (), required=False, element="float32"),
            f'type: BYTES {ONE} annotation {{ tag: "shape:" tag: "element:float32" }}',
        ),
        (
            Feature("x", "int64", required=False, time="ms"),
            f"type: INT {ONE} time_domain {{ integer_format: UNIX_MILLISECONDS }}",
        ),
        (
            Feature("x", "int64", shape=(None,), time="ns"),
            f"type: INT {ALWAYS} time_domain {{ integer_format: UNIX_NANOSECONDS }}",
        ),
        (Feature("x", "bytes", "text", required=False), f"type: BYTES {ONE}"),
        (Feature("x", "int64", shape=(3,), required=False), "type: INT value_count { min: 3 max: 3 }"),
        (Feature("x", "int64", "class_label", class_names=("a", "b", "c")), f"type: INT {ALWAYS} {CLASSES}"),
        (Feature("x", "bytes", "image"), f"type: BYTES {ALWAYS} shape {{}} image_domain {{}}"),
    ],
)
def test_each_kind(feature: Feature, text: str) -> None:
    assert to_schema((feature,)).feature[0] == text_format.Parse(f'name: "x" {text}', schema_pb2.Feature())


@pytest.mark.parametrize(
    ("text", "shape"), [("value_count {}", (None,)), ("shape { dim { size: -1 } dim { size: 4 } }", (None, 4))]
)
def test_shapes_that_are_not_fixed(text: str, shape: tuple[int | None, ...]) -> None:
    (feature,) = from_pbtxt(f'feature {{ name: "n" type: INT {text} }}')
    assert feature == Feature("n", "int64", shape=shape, required=False)


def test_a_later_size_of_minus_one_is_refused() -> None:
    with pytest.raises(ValueError, match="feature 'b' has shape"):
        from_pbtxt('feature { name: "b" type: INT shape { dim { size: 4 } dim { size: -1 } } }')


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


@pytest.mark.slow
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


def content(feature: Feature) -> dict[str, Any]:
    return json.loads(tfds_metadata.to_features_json((feature,)))["featuresDict"]["features"][feature.name]


def tensor(dtype: str, *dimensions: str, encoding: str = "none") -> dict[str, Any]:
    shape = {"dimensions": list(dimensions)} if dimensions else {}
    return {"tensor": {"shape": shape, "dtype": dtype, "encoding": encoding}}


def picture(**encoding: str) -> dict[str, Any]:
    return {"image": {"shape": {"dimensions": ["-1", "-1", "3"]}, "dtype": "uint8", **encoding}}


SCALAR, TENSOR, SEQUENCE = "scalar.Scalar", "tensor_feature.Tensor", "sequence_feature.Sequence"


def array(*shape: int, element: Any, **more: Any) -> Feature:
    return Feature("f", "bytes", "array", shape, element=element, **more)


@pytest.mark.parametrize(
    ("feature", "class_name", "value"),
    [
        (Feature("f", "int64"), SCALAR, tensor("int64")),
        (Feature("f", "float32"), SCALAR, tensor("float32")),
        (Feature("f", "bytes"), SCALAR, tensor("string")),
        (Feature("f", "bytes", "text"), "text_feature.Text", {"text": {}}),
        (Feature("f", "float32", shape=(4,)), TENSOR, tensor("float32", "4")),
        (Feature("f", "int64", shape=(None,)), TENSOR, tensor("int64", "-1")),
        (Feature("f", "float32", shape=(2, 3)), TENSOR, tensor("float32", "2", "3")),
        (Feature("f", "int64", shape=(None, 4)), TENSOR, tensor("int64", "-1", "4")),
        (array(2, 3, element="uint8"), TENSOR, tensor("uint8", "2", "3", encoding="bytes")),
        (array(2, 3, element="uint32"), SCALAR, tensor("string")),
        # What may be missing reads as none or some values, whatever it is.
        (Feature("f", "bytes", "text", required=False), TENSOR, tensor("string", "-1")),
        (Feature("f", "float32", shape=(4,), required=False), TENSOR, tensor("float32", "-1")),
        (Feature("f", "int64", shape=(2, 3), required=False), TENSOR, tensor("int64", "-1", "3")),
        (array(2, element="uint8", required=False), TENSOR, tensor("string", "-1")),
        (
            Feature("f", "int64", "class_label", class_names=("a", "b")),
            "class_label_feature.ClassLabel",
            {"classLabel": {"numClasses": "2"}},
        ),
        (Feature("f", "bytes", "image", encoding="jpeg"), "image_feature.Image", picture(encodingFormat="jpeg")),
        (Feature("f", "bytes", "image", encoding="webp"), "image_feature.Image", picture()),
        # Boxes are told by name and shape
        (Feature("bbox", "float32", shape=(4,)), "bounding_boxes.BBoxFeature", None),
        (Feature("bboxes", "float32", shape=(None, 4)), SEQUENCE, None),
        (Feature("a/bbox", "float32", shape=(None, 4), required=False), SEQUENCE, None),
        (Feature("bbox", "float32", shape=(4,), required=False), TENSOR, None),  # a box cannot be missing
        (Feature("box", "float32", shape=(4,)), TENSOR, None),
        (Feature("bbox", "int64", shape=(4,)), TENSOR, None),
        (Feature("bbox", "float32", shape=(None, 5)), TENSOR, None),
        (Feature("bbox", "float32", shape=(None,)), TENSOR, None),
        (Feature("bbox", "bytes", "array", (4,), element="float32"), TENSOR, None),
    ],
)
def test_features_of_tfds(feature: Feature, class_name: str, value: dict[str, Any] | None) -> None:
    found = content(feature)

    assert found.pop("pythonClassName") == f"tensorflow_datasets.core.features.{class_name}"
    assert value is None or found == value


def test_dataset_info() -> None:
    splits = [tfds_metadata.SplitInfo("train", (3, 2), 1000), tfds_metadata.SplitInfo("test", (1,), 200)]
    info = json.loads(tfds_metadata.to_dataset_info_json("flowers", "1.2.3", splits, ("image", "label"), "What it is."))

    given = {"name": "flowers", "version": "1.2.3", "description": "What it is.", "fileFormat": "tfrecord"}
    assert given.items() <= info.items()
    assert info["supervisedKeys"] == {"tuple": {"items": [{"featureKey": "image"}, {"featureKey": "label"}]}}
    template = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
    lengths = {"shardLengths": ["3", "2"], "numBytes": "1000"}
    assert info["splits"][0] == {"name": "train", "filepathTemplate": template, **lengths}
    assert [split["name"] for split in info["splits"]] == ["train", "test"]
    assert "supervisedKeys" not in json.loads(tfds_metadata.to_dataset_info_json("flowers", "1.0.0", [], None, ""))


LABEL = Feature("label", "int64")
TEXT = Feature("text", "bytes", "text")
RENAMED = Feature("text", "bytes", "text", original="title"), Feature("body", "bytes", "text", original="text")


@pytest.mark.parametrize(
    ("features", "keys"),
    [
        ((TEXT, Feature("image", "bytes", "image"), LABEL), ("image", "label")),
        ((Feature("scan", "bytes", "array", (2,), element="int8"), LABEL), ("scan", "label")),
        ((Feature("scan", "bytes"), LABEL), None),
        # Of several strings, the one that the input calls text
        ((Feature("title", "bytes", "text"), TEXT, LABEL), ("text", "label")),
        ((*RENAMED, LABEL), ("body", "label")),
        ((Feature("image", "bytes", "image"),), None),
    ],
)
def test_supervised_keys(features: Features, keys: tuple[str, str] | None) -> None:
    assert tfds_metadata.supervised_keys(features) == keys


def test_json_keeps_order_and_letters() -> None:
    assert tfds_metadata.dump_json({"b": "ü", "a": 1}) == '{\n  "b": "ü",\n  "a": 1\n}\n'
