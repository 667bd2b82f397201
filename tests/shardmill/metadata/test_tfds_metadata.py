"""TFDS's JSON files; the end-to-end tests open them with TFDS itself."""

import json
from typing import Any

import pytest

from shardmill.data.features import Feature, Features
from shardmill.metadata.tfds_metadata import (
    SplitInfo,
    dump_json,
    supervised_keys,
    to_dataset_info_json,
    to_features_json,
)


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
def test_each_kind(feature: Feature, class_name: str, key: str, value: dict[str, Any]) -> None:
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
