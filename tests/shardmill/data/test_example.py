"""tf.train.Example on the wire: decode beside encode, and golden bytes. test_example_tensorflow.py asks TensorFlow."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data import example
from shardmill.data.example import decode_example
from tests.support.encoded import encode_example

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
FLOAT32 = st.floats(width=32)
VALUES = st.one_of(
    st.lists(INT64, max_size=20),
    st.lists(FLOAT32, max_size=20),
    st.lists(st.binary(max_size=40), min_size=1, max_size=5),
    st.sampled_from([0, 1, 126, 127, 128, 129, 16_383, 16_384]).map(lambda size: [b"x" * size]),
)
EXAMPLES = st.dictionaries(st.text(max_size=12), VALUES, max_size=6)


def same(ours: Mapping[str, Any], theirs: Mapping[str, Sequence[Any]]) -> bool:
    """Equal names in equal order, and equal values, NaN being equal to itself."""
    if list(ours) != list(theirs):
        return False
    return all(
        len(ours[name]) == len(values) and all(a == b or (a != a and b != b) for a, b in zip(ours[name], values))
        for name, values in theirs.items()
    )


@given(EXAMPLES)
@settings(max_examples=200)
def test_round_trip(features: dict[str, list[Any]]) -> None:
    assert same(decode_example(encode_example(features)), features)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, (1 << 21) - 1, 1 << 21, (1 << 21) + 1])
def test_round_trip_where_length_prefixes_grow(size: int) -> None:
    # The prefixes of value, list, feature, entry and example pass their limits at different sizes of the value.
    for value_size in range(max(size - 40, 0), size + 1, 1 if size <= 16_384 else 10):
        value = b"\xff" * value_size
        assert decode_example(encode_example({"image": [value]})) == {"image": [value]}


SOME_SIZES = st.sampled_from([100, 127, 128, 16_384, (1 << 21) - 20, 1 << 21])


@given(st.text(max_size=200), st.one_of(st.binary(max_size=300), (st.integers(0, 40_000) | SOME_SIZES).map(bytes)))
@settings(max_examples=150)
def test_header_before_a_payload_equals_the_whole_entry(name: str, value: bytes) -> None:
    whole = example.encode_entry(name, example.encode_bytes_feature([value]))

    assert example.bytes_entry_header(name, len(value)) + value == whole


@pytest.mark.parametrize(
    ("features", "golden"),
    [
        ({}, "0a00"),
        ({"label": [3]}, "0a100a0e0a056c6162656c12051a030a0103"),
        ({"b": [b"hi"]}, "0a0d0a0b0a016212060a040a026869"),
        ({"f": [1.0]}, "0a0f0a0d0a0166120812060a040000803f"),
        ({"n": [-1]}, "0a150a130a016e120e1a0c0a0affffffffffffffffff01"),
        ({"i": np.array([], np.int64)}, "0a090a070a016912021a00"),
    ],
)
def test_golden_bytes(features: dict[str, Any], golden: str) -> None:
    assert encode_example(features).hex() == golden


VARINTS = {
    0: "00",
    127: "7f",
    128: "8001",
    300: "ac02",
    16_383: "ff7f",
    16_384: "808001",
    (1 << 64) - 1: "f" * 18 + "01",
}


def test_varint() -> None:
    assert {value: example.encode_varint(value).hex() for value in VARINTS} == VARINTS


def test_types_decoded() -> None:
    decoded = decode_example(encode_example({"i": [1, -(1 << 63)], "f": [0.5, math.inf], "b": [b"", b"x"]}))

    assert {name: value.dtype for name, value in decoded.items() if isinstance(value, np.ndarray)} == {
        "i": np.int64,
        "f": np.float32,
    }
    assert decoded["b"] == [b"", b"x"]


def test_what_is_no_feature_is_named() -> None:
    with pytest.raises(TypeError, match="feature 'when' holds <U3; expected bytes, integers or floats"):
        encode_example({"when": np.array(["now"])})


def test_a_later_entry_of_the_same_name_replaces_an_earlier_one() -> None:
    entries = b"".join(example.encode_entry("label", example.encode_int64_feature([value])) for value in (1, 2))

    assert same(decode_example(example.example_header(len(entries)) + entries), {"label": [2]})


def test_lists_that_are_not_packed() -> None:
    numbers = bytes.fromhex("080108ff01")  # field 1 as a varint, twice
    floats = bytes.fromhex("0d0000803f0d00000040")  # field 1 as four bytes, twice
    entries = example.encode_entry("i", b"\x1a" + example.encode_varint(len(numbers)) + numbers)
    entries += example.encode_entry("f", b"\x12" + example.encode_varint(len(floats)) + floats)

    assert same(decode_example(example.example_header(len(entries)) + entries), {"i": [1, 255], "f": [1.0, 2.0]})


def test_unknown_fields_are_skipped() -> None:
    unknown = bytes.fromhex("10051d010203042101020304050607082a0141")
    in_list = b"\x1a\x04" + bytes.fromhex("08071002")  # field 1, and a field 2 that no list has
    entries = example.encode_entry("a", in_list)

    assert same(decode_example(unknown + encode_example({"a": [7]}) + unknown), {"a": [7]})
    assert same(decode_example(example.example_header(len(entries)) + entries), {"a": [7]})


def test_some_features_alone_are_decoded() -> None:
    found = decode_example(encode_example({"a": [7], "b": [b"x"], "c": [0.5]}), ["c", "a", "z"])

    assert {name: list(value) for name, value in found.items() if value is not None} == {"a": [7], "c": [0.5]}


@pytest.mark.parametrize("cut", range(1, 16))
def test_a_record_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(ValueError, match="not a serialized Example"):
        decode_example(bytes.fromhex("0a0f0a0d0a0166120812060a040000803f")[:-cut][:16])


@given(st.binary(max_size=60))
@settings(max_examples=200)
def test_noise_raises_value_error_or_nothing(record: bytes) -> None:
    with suppress(ValueError):
        decode_example(record)


def test_a_field_of_another_wire_type_is_none() -> None:
    """As protobuf has it, to which it is a field that it does not know."""
    record = b"\n\r\n\x0b\n\x03key\x12\x04\n\x02\x08\x00"  # a number where a bytes_list has its values
    assert decode_example(record) == {"key": []}
    assert decode_example(b"\n\x0e\n\x0c\n\x03key\x12\x05\x1a\x03\x0a\x01\x07") == {"key": [7]}
