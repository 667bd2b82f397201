"""Features and splits as TFDS's own JSON files, so that `tfds.builder_from_directory` needs no code.

The files are protobuf JSON of tensorflow_datasets/core/proto/{feature,dataset_info}.proto. A feature that may be missing
is a tensor of shape (None,), or (None, 4) if its values have shape (n, 4): it reads as zero or one value.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardmill.features import Feature, Features
from shardmill.naming import FILEPATH_TEMPLATE

_PACKAGE = "tensorflow_datasets.core.features"


_BOXES = ("bbox", "bboxes")  # as TFDS's own data sets call [ymin, xmin, ymax, xmax] relative to the image; also objects/bbox
# What TFDS cannot read out of bytes: it is tf.io.decode_raw's, but for uint64, which TFDS reads as int64 and casts.
_UNREADABLE_ELEMENTS = ("uint32",)


@dataclass(frozen=True, slots=True)
class SplitInfo:
    """A split as TFDS sees it: the examples in each shard, and the bytes of all of them."""

    name: str
    shard_lengths: tuple[int, ...]
    size_bytes: int


def to_features_json(features: Features) -> str:
    """The text of `features.json`."""
    content = {
        "pythonClassName": f"{_PACKAGE}.features_dict.FeaturesDict",
        "featuresDict": {"features": {feature.name: _feature(feature) for feature in features}},
    }
    return dump_json(content)


def to_dataset_info_json(
    name: str, version: str, splits: Sequence[SplitInfo], supervised: tuple[str, str] | None, description: str
) -> str:
    """The text of `dataset_info.json`; `supervised` names the input and target of `as_supervised=True`."""
    content: dict[str, Any] = {
        "name": name,
        "version": version,
        "description": description,
        "fileFormat": "tfrecord",
        "splits": [
            {
                "name": split.name,
                "filepathTemplate": FILEPATH_TEMPLATE,
                "shardLengths": [str(length) for length in split.shard_lengths],
                "numBytes": str(split.size_bytes),
            }
            for split in splits
        ],
    }
    if supervised is not None:
        content["supervisedKeys"] = {"tuple": {"items": [{"featureKey": key} for key in supervised]}}
    return dump_json(content)


def supervised_keys(features: Features, label: str = "label", text: str = "text") -> tuple[str, str] | None:
    """Input and target of `as_supervised=True` among all features, if there are such: image, `text` or array, and `label`."""
    inputs = [item.name for item in features if item.kind == "image" or (item.name == "image" and item.kind != "array")]
    inputs += [item.name for item in features if item.name == text] + [item.name for item in features if item.kind == "array"]
    return (inputs[0], label) if inputs and inputs[0] != label and any(item.name == label for item in features) else None


def dump_json(content: Mapping[str, Any]) -> str:
    """JSON the way all our files have it: indented, keys in the order given, one newline at the end."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _feature(feature: Feature) -> dict[str, Any]:
    if feature.kind == "image":
        image: dict[str, Any] = {"shape": {"dimensions": ["-1", "-1", "3"]}, "dtype": "uint8"}
        if feature.encoding in ("jpeg", "png"):
            image["encodingFormat"] = feature.encoding
        return {"pythonClassName": f"{_PACKAGE}.image_feature.Image", "image": image}
    if feature.is_dense and feature.kind == "class_label":
        label = {"numClasses": str(len(feature.class_names))}
        return {"pythonClassName": f"{_PACKAGE}.class_label_feature.ClassLabel", "classLabel": label}
    if feature.is_dense and feature.kind == "text" and not feature.shape:
        return {"pythonClassName": f"{_PACKAGE}.text_feature.Text", "text": {}}
    if feature.is_dense and feature.kind == "array" and feature.element not in _UNREADABLE_ELEMENTS:
        return _tensor(feature.shape, feature.element, "bytes")
    if _is_box(feature):
        return _boxes(feature)
    dtype = "string" if feature.dtype == "bytes" else feature.dtype
    shape = () if feature.kind == "array" else feature.shape
    if feature.required and not shape:
        tensor: dict[str, Any] = {"shape": {}, "dtype": dtype, "encoding": "none"}
        return {"pythonClassName": f"{_PACKAGE}.scalar.Scalar", "tensor": tensor}
    return _tensor(shape if feature.required else (None, *shape[1:]), dtype, "none")


def _tensor(shape: tuple[int | None, ...], dtype: str, encoding: str) -> dict[str, Any]:
    tensor = {"shape": _shape(shape), "dtype": dtype, "encoding": encoding}
    return {"pythonClassName": f"{_PACKAGE}.tensor_feature.Tensor", "tensor": tensor}


def _shape(shape: tuple[int | None, ...]) -> dict[str, Any]:
    return {"dimensions": ["-1" if size is None else str(size) for size in shape]} if shape else {}


def _is_box(feature: Feature) -> bool:
    """Whether a feature is bounding boxes: nothing but its name can say so."""
    named = feature.name.rsplit("/", 1)[-1] in _BOXES
    # Where it is missing, a list of boxes is empty, but a box cannot be.
    return named and feature.dtype == "float32" and (feature.shape == (None, 4) or (feature.required and feature.shape == (4,)))


def _boxes(feature: Feature) -> dict[str, Any]:
    box = {
        "pythonClassName": f"{_PACKAGE}.bounding_boxes.BBoxFeature",
        "boundingBox": {"shape": _shape((4,)), "dtype": "float32", "bboxFormat": "REL_YXYX"},
    }
    if feature.shape == (4,):
        return box
    return {"pythonClassName": f"{_PACKAGE}.sequence_feature.Sequence", "sequence": {"feature": box, "length": "-1"}}
