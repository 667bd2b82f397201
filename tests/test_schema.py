"""Features as a tensorflow-metadata Schema."""

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from shardmill.features import Feature
from shardmill.schema import to_pbtxt, to_schema


@pytest.mark.parametrize(
    ("feature", "text"),
    [
        (Feature("n", "int64"), 'name: "n" type: INT presence { min_fraction: 1.0 min_count: 1 } shape {}'),
        (
            Feature("f", "float32", shape=(4,)),
            'name: "f" type: FLOAT presence { min_fraction: 1.0 min_count: 1 } shape { dim { size: 4 } }',
        ),
        (Feature("v", "float32", shape=(None,)), 'name: "v" type: FLOAT presence { min_fraction: 1.0 min_count: 1 }'),
        (Feature("o", "bytes", "text", required=False), 'name: "o" type: BYTES value_count { min: 1 max: 1 }'),
        (Feature("o", "int64", shape=(3,), required=False), 'name: "o" type: INT value_count { min: 3 max: 3 }'),
        (
            Feature("label", "int64", "class_label", class_names=("a", "b", "c")),
            'name: "label" type: INT presence { min_fraction: 1.0 min_count: 1 } shape {} '
            "int_domain { min: 0 max: 2 is_categorical: true }",
        ),
        (
            Feature("image", "bytes", "image"),
            'name: "image" type: BYTES presence { min_fraction: 1.0 min_count: 1 } shape {} image_domain {}',
        ),
    ],
)
def test_each_kind(feature: Feature, text: str) -> None:
    assert to_schema((feature,)).feature[0] == text_format.Parse(text, schema_pb2.Feature())


def test_the_text_reads_back_in_order() -> None:
    features = (Feature("image", "bytes", "image"), Feature("größe", "int64"), Feature("a", "float32"))

    schema = text_format.Parse(to_pbtxt(features), schema_pb2.Schema())

    assert schema == to_schema(features)
    assert [feature.name for feature in schema.feature] == ["image", "größe", "a"]
    assert "größe" in to_pbtxt(features)
