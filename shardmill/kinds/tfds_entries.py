"""Entries of TFDS's features.json: protobuf JSON of tensorflow_datasets/core/proto/feature.proto."""

from typing import Any

from shardmill.features.feature import Feature

PACKAGE = "tensorflow_datasets.core.features"
# As TFDS's own data sets call [ymin, xmin, ymax, xmax] relative to the image; also objects/bbox
_BOXES = ("bbox", "bboxes")


def plain(feature: Feature) -> dict[str, Any]:
    """The entry of a feature whose values are what its list holds."""
    if _is_box(feature):
        return _boxes(feature)
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


def _boxes(feature: Feature) -> dict[str, Any]:
    box = {
        "pythonClassName": f"{PACKAGE}.bounding_boxes.BBoxFeature",
        "boundingBox": {"shape": _shape((4,)), "dtype": "float32", "bboxFormat": "REL_YXYX"},
    }
    if feature.shape == (4,):
        return box
    return {"pythonClassName": f"{PACKAGE}.sequence_feature.Sequence", "sequence": {"feature": box, "length": "-1"}}
