"""Tests of src/shardmill/data/features.py."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, cast, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from shardmill.data import feature_kind
from shardmill.data import kinds as registry
from shardmill.data.example import FeatureValue
from shardmill.data.features import Feature, Kind
from shardmill.data.kinds import KINDS, kind_of
from shardmill.metadata.manifest import Manifest
from shardmill.metadata.schema import from_pbtxt, to_pbtxt
from shardmill.metadata.tfds_metadata import supervised_keys, to_features_json
from shardmill.reading.plain_examples import ExampleDecoder
from shardmill.transforms.publishing.verification import check_example
from tests.support.encoded import encode_example


@given(st.data(), st.sampled_from(feature_kind.ELEMENT_TYPES), st_numpy.array_shapes(min_dims=0, min_side=0))
def test_round_trip(data: st.DataObject, element: str, shape: tuple[int, ...]) -> None:
    feature = Feature("a", "bytes", "array", shape, element=element)
    array = data.draw(st_numpy.arrays(element, shape))

    raw = feature_kind.array_to_bytes(feature, array)
    found = feature_kind.array_from_bytes(feature, raw)

    assert (found.dtype.name, found.shape, len(raw)) == (element, shape, feature_kind.array_size_bytes(feature))
    assert found.tobytes() == array.tobytes()


def test_bytes_are_little_endian_and_row_major() -> None:
    feature = Feature("a", "bytes", "array", (2, 2), element="uint16")
    expected = bytes([1, 0, 2, 0, 3, 0, 4, 1])

    for array in (np.array([[1, 2], [3, 260]], ">u2"), np.asfortranarray(np.array([[1, 2], [3, 260]], "<u2"))):
        assert feature_kind.array_to_bytes(feature, array) == expected
    assert feature_kind.array_from_bytes(feature, expected).tolist() == [[1, 2], [3, 260]]
    assert feature_kind.element_type(feature) == np.dtype("<u2")


@pytest.mark.parametrize("data", [b"", b"1234567", b"123456789"])
def test_another_length_is_an_error(data: bytes) -> None:
    sentence = rf"feature 'a' has {len(data)} bytes; expected 8, for it is an array of uint16 \(2, 2\)"
    with pytest.raises(ValueError, match=sentence):
        feature_kind.array_from_bytes(Feature("a", "bytes", "array", (2, 2), element="uint16"), data)


@pytest.mark.parametrize(
    ("shape", "required", "dense"),
    [((), True, True), ((4,), True, True), ((None,), True, False), ((), False, False), ((4,), False, False)],
)
def test_dense(shape: tuple[int | None, ...], required: bool, dense: bool) -> None:
    assert Feature("a", "float32", shape=shape, required=required).is_dense is dense


@pytest.mark.parametrize(
    ("feature", "sentence"),
    [
        (partial(Feature, "a", "float32", shape=(2, None)), "has shape .*; expected no size.* to be None"),
        (partial(Feature, "a", "bytes", "array", (3, None), element="uint8"), "has shape .*; expected no size.* None"),
        (partial(Feature, "a", "bytes", "array"), "is array of .*; an array is bytes with an element type"),
        (partial(Feature, "a", "float32", "array", element="float32"), "is array of .*; an array is bytes with an"),
        (partial(Feature, "a", "bytes", "class_label"), "is a class label of bytes; expected int64"),
    ],
)
def test_what_no_feature_can_be(feature: Callable[[], Feature], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"feature 'a' {sentence}"):
        feature()


FEATURES = (
    Feature("a", "float32", shape=(None, 4)),
    Feature("b", "int64", "bool"),
    Feature("c", "bytes", "text"),
    Feature("d", "bytes", "image"),
    Feature("e", "int64", "class_label", class_names=("", "")),
    Feature("f", "bytes", "array", (2, 2), element="uint8"),
    Feature("h", "float32", "bbox", (None, 4)),
    Feature("i", "bytes", "mask"),
    Feature("j", "bytes", "mask", element="uint16"),
)


def test_every_kind_has_its_object() -> None:
    # audio has end-to-end tests
    assert set(KINDS) == set(get_args(Kind)) == {feature.kind for feature in FEATURES} | {"audio"}
    assert all(kind.name == name for name, kind in KINDS.items())


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("required", [True, False])
def test_each_kind_finds_itself_in_the_schema(feature: Feature, required: bool) -> None:
    given = replace(feature, required=required)

    assert from_pbtxt(to_pbtxt((given,))) == (given,)


BOXES = np.array([0, 0.5, 1, 0.25, 0, 0, 1, 1.5, 0, 0, 1, 1], np.float32)
NO_BOX = "feature 'h' has the box {}; expected [ymin, xmin, ymax, xmax] from 0 to 1"


@pytest.mark.parametrize(
    ("feature", "values", "faults"),
    [
        (FEATURES[0], None, ["has no feature 'a'"]),
        (FEATURES[0], np.zeros(4, np.int64), ["feature 'a' holds int64; expected float32"]),
        (FEATURES[0], np.zeros(5, np.float32), ["feature 'a' holds 5 values; expected a multiple of 4"]),
        (FEATURES[0], np.zeros(8, np.float32), []),
        (FEATURES[1], np.zeros(2, np.int64), ["feature 'b' holds 2 values; expected 1"]),
        (FEATURES[4], np.array([2]), ["feature 'e' is 2; expected 0 to 1"]),
        (FEATURES[4], np.array([1]), []),
        (FEATURES[5], [b"123"], ["feature 'f' holds 3 bytes; expected 4"]),
        (FEATURES[5], [b"1234"], []),
        (FEATURES[6], BOXES, [NO_BOX.format("[0.0, 0.5, 1.0, 0.25]"), NO_BOX.format("[0.0, 0.0, 1.0, 1.5]")]),
        (Feature("g", "bytes", required=False), None, []),
    ],
)
def test_each_kind_says_what_is_wrong(feature: Feature, values: FeatureValue | None, faults: list[str]) -> None:
    assert kind_of(feature).find_faults(feature, values) == faults


class RomanKind(feature_kind.FeatureKind):
    """Numbers as Roman digits: a kind that nobody else knows."""

    name = cast(Kind, "roman")
    input_rank = 0

    def tfds_entry(self, feature: Feature) -> feature_kind.Entry:
        return {"pythonClassName": "Roman"}

    def annotate(self, proto: Any, feature: Feature) -> None:
        proto.annotation.comment.append("roman")

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        return Feature(plain.name, "bytes", self.name) if "roman" in proto.annotation.comment else None

    def find_value_faults(self, feature: Feature, values: FeatureValue) -> list[str]:
        return [f"feature {feature.name!r} is not Roman" for value in values if value.strip(b"IVX")]

    def value_decoder(self, feature: Feature) -> Callable[[bytes], Any] | None:
        return len


def test_a_new_kind_is_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {RomanKind.name: RomanKind(), **KINDS}
    for module in (registry, __import__("shardmill.metadata.schema", fromlist=["KINDS"])):
        monkeypatch.setattr(module, "KINDS", MappingProxyType(kinds))
    features = (Feature("n", "bytes", RomanKind.name), Feature("label", "int64"))
    good = encode_example({"n": [b"III"], "label": [1]})
    bad = encode_example({"n": [b"3"], "label": [1]})

    assert '"Roman"' in to_features_json(features)
    assert supervised_keys(features) == ("n", "label")
    assert from_pbtxt(to_pbtxt(features)) == features
    assert ExampleDecoder(features)(good) == {"n": 3, "label": 1}
    manifest = Manifest("ours", "1.0.0", "", features, ())
    assert check_example(manifest, True, good) == []
    assert check_example(manifest, True, bad) == ["feature 'n' is not Roman"]
