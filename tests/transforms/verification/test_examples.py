"""Every way an example can differ from what the manifest says of features, and the sentence each of them gets."""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shardmill.data.example import encode_example
from shardmill.data.features import Feature
from shardmill.metadata.manifest import Manifest
from shardmill.transforms.publishing.verification import check_example
from tests.support.command import image

FEATURES = (
    Feature("image", "bytes", "image"),
    Feature("label", "int64", "class_label", class_names=("cat", "dog")),
    Feature("box", "float32", shape=(4,)),
    Feature("tags", "bytes", shape=(None,)),
    Feature("note", "bytes", "text", required=False),
)
GOOD: Mapping[str, Any] = {
    "image": [b"x"],
    "label": [1],
    "box": [0.0, 0.0, 1.0, 1.0],
    "tags": [b"a", b"b", b"c"],
    "note": [b"n"],
}


def manifest(features: tuple[Feature, ...] = FEATURES, **configuration: Any) -> Manifest:
    return Manifest("tiny", "1.0.0", "", features, (), configuration=configuration)


def test_good_examples() -> None:
    assert check_example(manifest(), False, encode_example(GOOD)) == []
    without_note = {name: values for name, values in GOOD.items() if name != "note"}
    assert check_example(manifest(), False, encode_example(without_note)) == []
    assert check_example(manifest(), False, encode_example({**GOOD, "tags": np.array([], np.int64)})) == [
        "feature 'tags' holds int64; expected bytes"
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": [2]}, "feature 'label' is 2; expected 0 to 1"),
        ({"label": [-1]}, "feature 'label' is -1; expected 0 to 1"),
        ({"label": [0, 1]}, "feature 'label' holds 2 values; expected 1"),
        ({"label": [1.0]}, "feature 'label' holds float32; expected int64"),
        ({"label": [b"dog"]}, "feature 'label' holds bytes; expected int64"),
        ({"box": [1.0, 2.0, 3.0]}, "feature 'box' holds 3 values; expected 4"),
        ({"box": [1, 2, 3, 4]}, "feature 'box' holds int64; expected float32"),
        ({"note": [b"a", b"b"]}, "feature 'note' holds 2 values; expected 1"),
        ({"image": None}, "has no feature 'image'"),
        ({"tags": None}, "has no feature 'tags'"),
        ({"colour": [1]}, "has a feature 'colour' that the manifest does not know"),
    ],
)
def test_features_that_the_manifest_does_not_describe(change: Mapping[str, Any], message: str) -> None:
    example = {name: values for name, values in {**GOOD, **change}.items() if values is not None}
    assert check_example(manifest(), False, encode_example(example)) == [message]


@pytest.mark.parametrize("record", [b"\xff\xff\xff", b"\x0a\x05abc", encode_example(GOOD)[:-3]])
def test_no_example(record: bytes) -> None:
    (message,) = check_example(manifest(), False, record)
    assert message.startswith("does not parse: ")


def test_decode_looks_at_pixels() -> None:
    of_images = manifest((Feature("image", "bytes", "image"),))
    png = image(0, "PNG")
    damaged = encode_example({"image": [png[:-30]]})
    assert check_example(of_images, True, encode_example({"image": [png]})) == []
    assert check_example(of_images, False, damaged) == []
    (message,) = check_example(of_images, True, damaged)
    assert message == "feature 'image': truncated: the png has no end"
    bmp = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").quantize(16).save(bmp, "BMP")
    (message,) = check_example(of_images, True, encode_example({"image": [bmp.getvalue()]}))
    assert message.startswith("feature 'image': a bmp with a palette, which TensorFlow decodes to wrong colours")
    (message,) = check_example(of_images, True, encode_example({"image": [b"text"]}))
    assert message.startswith("feature 'image': not an image")


def test_decode_refuses_what_the_job_would_have_refused() -> None:
    feature, example = (Feature("image", "bytes", "image"),), encode_example({"image": [image(0, "PNG", (20, 10))]})
    assert check_example(manifest(feature, max_pixels=200), True, example) == []
    (message,) = check_example(manifest(feature, max_pixels=199), True, example)
    assert message == "feature 'image': 20 x 10 pixels are more than the 199 that the data set was made with"
