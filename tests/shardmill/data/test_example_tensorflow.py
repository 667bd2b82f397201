"""The wire format against TensorFlow: it reads what we encode, and we read what it encodes."""

from typing import Any

import pytest
from hypothesis import given, settings

from shardmill.data.example import decode_example
from tests.shardmill.data.test_example import EXAMPLES, same
from tests.support.encoded import encode_example
from tests.support.later import Later

pytestmark = pytest.mark.tensorflow

tf = Later("tensorflow")


def to_proto(features: dict[str, list[Any]]) -> Any:
    proto = tf.train.Example()
    for name, values in features.items():
        feature = proto.features.feature[name]
        if values and isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif values and isinstance(values[0], int):
            feature.int64_list.value.extend(values)
        else:
            feature.float_list.value.extend(values)
            feature.float_list.SetInParent()
    return proto


def from_proto(proto: Any, names: list[str]) -> dict[str, list[Any]]:
    found = {}
    for name in names:
        feature = proto.features.feature[name]
        found[name] = list(getattr(feature, feature.WhichOneof("kind")).value)
    return found


@given(EXAMPLES)
@settings(max_examples=150)
def test_tensorflow_reads_ours(features: dict[str, list[Any]]) -> None:
    proto = tf.train.Example.FromString(encode_example(features))

    assert set(proto.features.feature) == set(features)
    assert same(from_proto(proto, list(features)), features)


@given(EXAMPLES)
@settings(max_examples=150)
def test_we_read_tensorflow_s(features: dict[str, list[Any]]) -> None:
    decoded = decode_example(to_proto(features).SerializeToString())

    assert same({name: decoded[name] for name in features}, features)
    assert decoded.keys() == features.keys()


def test_equal_bytes_for_one_feature() -> None:
    for features in ({"label": [3, -1]}, {"image": [b"x" * 20_000]}, {"f": [0.5, float("inf")]}):
        assert encode_example(features) == to_proto(features).SerializeToString()
