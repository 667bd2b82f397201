"""Decoding of examples and of blocks of them: next to TensorFlow, what we write, and damaged records."""

import math
import random
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data.example import unpack_varints
from shardmill.data.example_columns import ExampleScanner
from shardmill.data.features import DType, Feature
from shardmill.data.spans import RecordBlock
from shardmill.reading import plain_examples
from shardmill.reading.plain_examples import BlockDecoder, ExampleDecoder
from tests.support.encoded import encode_example
from tests.support.later import Later
from tests.support.native import without_native

tf = Later("tensorflow")

INTS = st.one_of(st.integers(0, 300), st.integers(-(1 << 63), (1 << 63) - 1))
FLOATS = st.floats(width=32, allow_nan=False)
TEXTS = st.one_of(st.binary(max_size=20), st.integers(0, 70_000).map(bytes))
VALUES: dict[DType, st.SearchStrategy[Any]] = {"int64": INTS, "float32": FLOATS, "bytes": TEXTS}
NAMES = st.one_of(st.text(min_size=1, max_size=3), st.integers(100, 200).map("k".__mul__))


@st.composite
def features(draw: st.DrawFn) -> tuple[Feature, ...]:
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    return tuple(draw(feature(name)) for name in names)


@st.composite
def feature(draw: st.DrawFn, name: str) -> Feature:
    required = draw(st.booleans())
    if draw(st.integers(0, 5)) == 0:
        shape = draw(st.sampled_from([(), (3,), (2, 0), (2, 3)]))
        return Feature(
            name, "bytes", "array", shape, required, element=draw(st.sampled_from(["uint8", "int16", "float64"]))
        )
    shapes = st.sampled_from([(), (1,), (2,), (9,), (None,), (2, 3), (1, 1, 1), (None, 4), (None, 2, 2)])
    return Feature(name, draw(st.sampled_from(list(VALUES))), "tensor", draw(shapes), required)


def values_of(feature: Feature) -> st.SearchStrategy[list[Any]]:
    """Values of the list of a feature."""
    inner = math.prod(size for size in feature.shape if size is not None)
    if feature.kind == "array":
        size = inner * np.dtype(feature.element).itemsize
        return st.binary(min_size=size, max_size=size).map(lambda value: [value])
    counts = st.integers(0, 12 // inner).map(inner.__mul__) if None in feature.shape else st.just(inner)
    return counts.flatmap(lambda count: st.lists(VALUES[feature.dtype], min_size=count, max_size=count))


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[Feature, ...], list[dict[str, list[Any]]]]:
    """Features, and the values of a few examples of them."""
    chosen = draw(features())
    examples = []
    for _ in range(draw(st.integers(1, 4))):
        example = {}
        for feature in chosen:
            if feature.required or draw(st.booleans()):
                example[feature.name] = draw(values_of(feature))
        examples.append(example)
    return chosen, examples


def proto_of(chosen: tuple[Feature, ...], example: dict[str, list[Any]]) -> Any:
    proto = tf.train.Example()
    for feature in chosen:
        if feature.name in example:
            values = proto.features.feature[feature.name]
            listed = {"int64": values.int64_list, "float32": values.float_list, "bytes": values.bytes_list}[
                feature.dtype
            ]
            listed.value.extend(example[feature.name])
            listed.SetInParent()
    return proto


def check(decoded: dict[str, Any], chosen: tuple[Feature, ...], example: dict[str, list[Any]]) -> None:
    assert set(decoded) == set(example)
    for feature in chosen:
        if feature.name not in example:
            continue
        value, expected = decoded[feature.name], example[feature.name]
        inner = [size for size in feature.shape if size is not None]
        shape = tuple(len(expected) // math.prod(inner) if size is None else size for size in feature.shape)
        if feature.kind == "array":
            assert (value.dtype.name, value.shape, value.tobytes()) == (feature.element, shape, expected[0])
            continue
        if len(shape) > 1 and feature.dtype == "bytes":
            assert (value.shape, list(value.flat)) == (shape, expected)
            continue
        if feature.dtype == "bytes":
            assert value == (expected if feature.shape else expected[0])
            continue
        assert value.dtype == feature.dtype
        assert value.shape == shape
        assert np.array_equal(value, np.array(expected, feature.dtype).reshape(value.shape))


def outcome(decode: Callable[[], Iterable[dict[str, Any]]]) -> tuple[list[dict[str, Any]], str]:
    """The decoded examples in a form that can be compared, and the error after them."""
    found = []
    try:
        for example in decode():
            found.append({name: (type(value), np.asarray(value).dtype, repr(value)) for name, value in example.items()})
    except ValueError as error:
        return found, str(error)
    return found, ""


def check_blocks(chosen: tuple[Feature, ...], records: list[bytes], names: list[str] | None = None) -> None:
    """A block of records is decoded as each record is, alone and among others; also where nothing was compiled."""
    ends = np.cumsum([len(record) for record in records])
    block = RecordBlock(b"".join(records), ends - [len(record) for record in records], ends)
    alone = ExampleDecoder(chosen, names)
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"), pytest.MonkeyPatch.context() as patch:
        expected = outcome(lambda: (alone(record) for record in records))
        assert outcome(lambda: BlockDecoder(chosen, names)(block)) == expected
        patch.setattr(plain_examples, "FEW_RECORDS", 0)
        assert outcome(lambda: BlockDecoder(chosen, names)(block)) == expected
        without_native(patch)
        assert outcome(lambda: BlockDecoder(chosen, names)(block)) == expected


@pytest.mark.slow
@given(cases())
@settings(max_examples=60)
def test_blocks_are_decoded_by_columns(case: tuple[tuple[Feature, ...], list[dict[str, list[Any]]]]) -> None:
    chosen, examples = case
    records = [proto_of(chosen, example).SerializeToString(deterministic=True) for example in examples]
    check_blocks(chosen, records)
    check_blocks(chosen, records, [feature.name for feature in chosen[::2]])
    check_blocks(chosen, [])


@pytest.mark.slow
@given(cases(), st.randoms())
@settings(max_examples=200)
def test_damaged_records_of_a_block(
    case: tuple[tuple[Feature, ...], list[dict[str, list[Any]]]], choice: random.Random
) -> None:
    chosen, examples = case
    records = [bytearray(proto_of(chosen, example).SerializeToString(deterministic=True)) for example in examples]
    for record in records:
        if record and choice.random() < 0.5:
            record[choice.randrange(len(record))] ^= 1 << choice.randrange(8)
        elif choice.random() < 0.2:
            record += bytes(choice.choice(records))  # protobuf merges messages that follow each other
    check_blocks(chosen, list(map(bytes, records)))


def test_a_record_as_we_write_it_is_read_by_columns() -> None:
    """Otherwise, the tests above would compare one decoder with itself."""
    record = encode_example({"a": [1, 300], "b": [b"x", b"y" * 300], "c": [0.5], "d": [b"1234"]})
    chosen = (
        Feature("a", "int64", shape=(None,)),
        Feature("b", "bytes", shape=(2,)),
        Feature("c", "float32"),
        Feature("d", "bytes", "array", (2,), element="int16"),
        Feature("e", "int64", required=False),
    )
    block = RecordBlock(record * 2, np.array([0, len(record)]), np.array([len(record), 2 * len(record)]))
    assert ExampleScanner(chosen).scan(block).fits.tolist() == [True, True]
    assert ExampleScanner(chosen[1:]).scan(block).fits.tolist() == [False, False]
    assert ExampleScanner((*chosen[:2], replace(chosen[2], dtype="int64"), *chosen[3:])).scan(block).fits.sum() == 0


@given(cases())
@settings(max_examples=60)
def test_it_reads_what_we_write(case: tuple[tuple[Feature, ...], list[dict[str, list[Any]]]]) -> None:
    chosen, examples = case
    decode = ExampleDecoder(chosen)
    kinds = {feature.name: feature.dtype for feature in chosen}
    for example in examples:
        arrays = {
            name: values if kinds[name] == "bytes" else np.array(values, kinds[name])
            for name, values in example.items()
        }
        if any(kinds[name] == "bytes" and not values for name, values in example.items()):
            continue  # encode_example cannot know the type of an empty list
        record = encode_example(arrays)

        check(decode(record), chosen, example)
        assert decode.decode_plain(record) is not None  # the fast way, always


@pytest.mark.slow
@given(cases())
@settings(max_examples=60)
def test_it_reads_what_tensorflow_writes(case: tuple[tuple[Feature, ...], list[dict[str, list[Any]]]]) -> None:
    chosen, examples = case
    decode = ExampleDecoder(chosen)
    for example in examples:
        check(decode(proto_of(chosen, example).SerializeToString()), chosen, example)


@pytest.mark.slow
@given(cases(), st.randoms())
@settings(max_examples=150)
def test_damage_is_an_error_or_decodes_as_tensorflow_has_it(
    case: tuple[tuple[Feature, ...], list[dict[str, list[Any]]]], choice: random.Random
) -> None:
    chosen, examples = case
    record = bytearray(proto_of(chosen, examples[0]).SerializeToString())
    if not record:
        return
    if choice.random() < 0.5:
        record[choice.randrange(min(len(record), 60))] ^= 1 << choice.randrange(8)
    else:
        del record[choice.randrange(len(record)) :]
    try:
        decoded = ExampleDecoder(chosen)(bytes(record))
    except ValueError:
        return
    try:
        found = tf.train.Example.FromString(bytes(record)).features.feature
    except Exception:  # protobuf is stricter: text that is not UTF-8, for one
        return
    for feature in chosen:
        if feature.name in decoded:
            values = getattr(
                found[feature.name],
                {"int64": "int64_list", "float32": "float_list", "bytes": "bytes_list"}[feature.dtype],
            )
            value = decoded[feature.name]
            mine = [value.tobytes()] if feature.kind == "array" else list(np.array(value, object).flat)
            assert np.array_equal(mine, list(values.value)) or feature.dtype == "float32"


def test_an_order_is_learned() -> None:
    decode = ExampleDecoder((Feature("a", "int64"), Feature("b", "int64", shape=(2, 1))))
    record = encode_example({"b": [1, 3], "a": [2]})

    assert decode.decode_plain(record) is None
    for _ in range(2):
        assert {name: value.tolist() for name, value in decode(record).items()} == {"a": 2, "b": [[1], [3]]}
    assert decode.decode_plain(record) is not None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"b": [1]}, "feature 'a' is missing"),
        ({"a": [1, 2], "b": [1]}, "feature 'a' has 2 values; expected 1"),
        ({"a": [0.5], "b": [1]}, "feature 'a' holds float32; expected int64"),
        ({"a": [b"x"], "b": [1]}, "feature 'a' holds bytes; expected int64"),
    ],
)
def test_what_does_not_fit_is_named(values: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ExampleDecoder((Feature("a", "int64"), Feature("b", "int64", required=False)))(encode_example(values))


@pytest.mark.parametrize(
    ("feature", "values", "message"),
    [
        (Feature("a", "int64", shape=(2, 3)), [1, 2, 3], "feature 'a' has 3 values; expected 6"),
        (Feature("a", "int64", shape=(None, 4)), [1, 2, 3, 4, 5], "feature 'a' has 5 values; expected a multiple of 4"),
        (Feature("a", "bytes", shape=(None, 2)), [b"x"], "feature 'a' has 1 values; expected a multiple of 2"),
        (Feature("a", "bytes", "array", (2,), element="int16"), [b"123"], "feature 'a' has 3 bytes; expected 4"),
        (
            Feature("a", "bytes", "array", (2,), element="int16"),
            [b"1234", b"1234"],
            "feature 'a' has 2 values; expected 1",
        ),
    ],
)
def test_a_shape_that_values_do_not_fill_is_named(feature: Feature, values: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ExampleDecoder((feature,))(encode_example({"a": values}))


def test_only_what_is_wanted() -> None:
    chosen = (Feature("a", "int64"), Feature("b", "bytes"), Feature("c", "float32", "tensor", (2,)))
    record = encode_example({"a": [300], "b": [b"x"], "c": [0.5, 1.5]})

    assert ExampleDecoder(chosen, ["b"])(record) == {"b": b"x"}


@pytest.mark.slow
@given(st.lists(INTS, max_size=20))
def test_unpack_varints(values: list[int]) -> None:
    packed = tf.train.Int64List(value=values).SerializeToString()
    length_bytes = 0 if not values else 2 if len(packed) < 130 else 3  # a tag and a length of one byte or two

    assert unpack_varints(packed[length_bytes:]).tolist() == values


@pytest.mark.parametrize("packed", [b"\x80", b"\x01\xff", b"\xff" * 10 + b"\x01"])
def test_varints_that_are_none(packed: bytes) -> None:
    with pytest.raises(ValueError, match="a varint"):
        unpack_varints(packed)
