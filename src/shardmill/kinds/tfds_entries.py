"""Entries of TFDS's features.json: protobuf JSON of tensorflow_datasets/core/proto/feature.proto."""

from collections.abc import Sequence
from typing import Any

from shardmill.features.feature import Feature

PACKAGE = "tensorflow_datasets.core.features"
# As TFDS's own data sets call [ymin, xmin, ymax, xmax] relative to the image; also objects/bbox
_BOXES = ("bbox", "bboxes")


def plain(feature: Feature) -> dict[str, Any]:
    """The entry of a feature whose values are what its list holds."""
    if _is_box(feature):
        return boxes(feature)
    dtype = "string" if feature.dtype == "bytes" else feature.dtype
    shape = feature.list_shape
    if feature.required and not shape:
        scalar: dict[str, Any] = {"shape": {}, "dtype": dtype, "encoding": "none"}
        return {"pythonClassName": f"{PACKAGE}.scalar.Scalar", "tensor": scalar}
    return tensor(shape if feature.required else (None, *shape[1:]), dtype, "none")


def tensor(shape: tuple[int | None, ...], dtype: str, encoding: str) -> dict[str, Any]:
    """The entry of a Tensor."""
    content = {"shape": _shape(shape), "dtype": dtype, "encoding": encoding}
    return {"pythonClassName": f"{PACKAGE}.tensor_feature.Tensor", "tensor": content}


def _shape(shape: tuple[int | None, ...]) -> dict[str, Any]:
    return {"dimensions": ["-1" if size is None else str(size) for size in shape]} if shape else {}


def _is_box(feature: Feature) -> bool:
    """Whether a feature is bounding boxes: nothing but its name can say so."""
    named = feature.name.rsplit("/", 1)[-1] in _BOXES
    # Where it is missing, a list of boxes is empty, but a box cannot be.
    return (
        named
        and feature.dtype == "float32"
        and (feature.shape == (None, 4) or (feature.required and feature.shape == (4,)))
    )


def boxes(feature: Feature) -> dict[str, Any]:
    """The entry of a box, or of any number of them."""
    box = {
        "pythonClassName": f"{PACKAGE}.bounding_boxes.BBoxFeature",
        "boundingBox": {"shape": _shape((4,)), "dtype": "float32", "bboxFormat": "REL_YXYX"},
    }
    return box if feature.shape == (4,) else sequence(box)


def sequence(entry: dict[str, Any], length: int | None = None) -> dict[str, Any]:
    """The entry of so many values, None for any number of them, each of which has `entry`."""
    content = {"feature": entry, "length": "-1" if length is None else str(length)}
    return {"pythonClassName": f"{PACKAGE}.sequence_feature.Sequence", "sequence": content}


def translation(languages: Sequence[str]) -> dict[str, Any]:
    """The entry of a text in each of several languages, which is a FeaturesDict of a Text by language; TFDS writes them
    sorted."""
    return {
        "pythonClassName": f"{PACKAGE}.translation_feature.Translation",
        "translation": {"languages": sorted(languages)},
    }


def features_dict(entries: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The entry of features by name."""
    return {"pythonClassName": f"{PACKAGE}.features_dict.FeaturesDict", "featuresDict": {"features": entries}}
