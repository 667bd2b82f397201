"""Examples as columns, and kinds of features: as `decode_example` and TensorFlow's own protobuf have each record."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data.example import decode_example
from shardmill.data.features import DType
from shardmill.transforms.columns import example_decoding
from shardmill.transforms.columns.types import ColumnType, Inferred, ValuesOf
from shardmill.transforms.findings import merged
from tests.support.encoded import encode_example
from tests.support.later import Later

tf = Later("tensorflow")

LISTS = {
    "int64": lambda values: tf.train.Feature(int64_list=tf.train.Int64List(value=values)),
    "float32": lambda values: tf.train.Feature(float_list=tf.train.FloatList(value=values)),
    "bytes": lambda values: tf.train.Feature(bytes_list=tf.train.BytesList(value=map(bytes, values))),
    "": lambda values: tf.train.Feature(),
}
KINDS = st.dictionaries(
    st.sampled_from("ab"), st.tuples(st.sampled_from(sorted(LISTS)), st.lists(st.integers(0, 3), max_size=2))
)
PLACES = st.tuples(st.sampled_from(["one", "two"]), st.integers(1, 99))


def serialized(features: dict[str, tuple[str, list[int]]]) -> bytes:
    made = {name: LISTS[kind](values) for name, (kind, values) in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()


def counted(records: list[bytes], places: list[tuple[str, int]]) -> example_decoding.Kinds:
    files = pa.array([file for file, _ in places], pa.string())
    return example_decoding.count_kinds(
        example_decoding.decode_parts(pa.array(records, pa.large_binary())),
        files,
        np.array([number for _, number in places], np.int64),
    )


@pytest.mark.slow
@given(st.lists(st.tuples(KINDS, PLACES), max_size=8), st.integers(0, 8))
@settings(max_examples=80)
def test_the_kinds_are_those_of_every_record(
    rows: list[tuple[dict[str, tuple[str, list[int]]], tuple[str, int]]], cut: int
) -> None:
    records, places = [serialized(features) for features, _ in rows], [place for _, place in rows]
    expected: dict[str, dict[str, example_decoding.KindCount]] = {}
    for features, place in rows:
        for name, (kind, _) in features.items():
            if kind:
                known = expected.setdefault(name, {}).get(kind, example_decoding.KindCount(0, place))
                expected[name][kind] = example_decoding.KindCount(known.records + 1, min(known.first_record, place))
    whole = counted(records, places)
    assert whole == expected
    assert merged(counted(records[:cut], places[:cut]), counted(records[cut:], places[cut:])) == whole
    wanted = example_decoding.most_frequent_kinds(whole)
    bad = example_decoding.kind_misfits(example_decoding.decode_parts(pa.array(records, pa.large_binary())), wanted)
    assert sorted(bad) == [
        row
        for row, (features, _) in enumerate(rows)
        if any(kind and kind != wanted[name] for name, (kind, _) in features.items())
    ]
    assert bool(example_decoding.describe_mixed_kinds(whole)) == bool(bad)


@pytest.mark.parametrize(("features", "end"), [(3, ""), (4, "; and 1 more feature"), (5, "; and 2 more features")])
def test_a_few_features_of_several_kinds_are_named(features: int, end: str) -> None:
    held: dict[DType, example_decoding.KindCount] = {
        "int64": example_decoding.KindCount(1, ("a", 1)),
        "bytes": example_decoding.KindCount(1, ("b", 1)),
    }
    said = example_decoding.describe_mixed_kinds({f"x{number}": held for number in range(features)})

    assert said.count("'x") == 3
    assert said.partition("; and")[1] + said.partition("; and")[2] == end


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 100, 20_000, 3_000_000])
def test_sequence_examples_of_any_size(size: int) -> None:
    context = tf.train.Features(feature={"x": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"y" * size]))})
    lists = tf.train.FeatureLists(feature_list={"t": tf.train.FeatureList()})
    made = [
        tf.train.Example(features=context),
        tf.train.SequenceExample(context=context, feature_lists=lists),
        tf.train.Example(),
        tf.train.SequenceExample(feature_lists=lists),
        tf.train.Example(features=context),
    ]
    records = pa.array([message.SerializeToString() for message in made], pa.large_binary())
    kind = "tf.train.SequenceExample"
    assert example_decoding.find_other_messages(records) == {1: kind, 3: kind}
    assert example_decoding.find_other_messages(records[3:]) == {0: kind}
    assert example_decoding.find_other_messages(records[:0]) == {}


# Values

FEATURES = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.one_of(
        st.lists(st.binary(max_size=5), min_size=1, max_size=3),
        st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=3).map(
            lambda values: np.array(values, np.int64)
        ),
        st.lists(st.floats(width=32, allow_nan=False), max_size=3).map(lambda values: np.array(values, np.float32)),
    ),
)
# Feature `a`, a list without a value: of bytes, of floats, of integers.
EMPTY_BYTES, EMPTY_FLOATS, EMPTY_INTEGERS = (
    b"\n\t\n\x07\n\x01a\x12\x02" + tag + b"\x00" for tag in (b"\x0a", b"\x12", b"\x1a")
)
ODD_RECORDS = st.sampled_from([b"\xff", b"", EMPTY_BYTES, EMPTY_FLOATS, EMPTY_INTEGERS])
RECORDS = st.lists(st.one_of(FEATURES.map(encode_example), ODD_RECORDS), max_size=8)


def plain(values: Any, kind: pa.DataType) -> list[Any]:
    """A feature as one of `kind`."""
    found = list(values)
    if kind.value_type == pa.large_binary():
        return [
            value if isinstance(value, bytes) else repr(value.item()).encode().replace(b"inf", b"Infinity")
            for value in found
        ]
    return [float(np.float32(value)) if kind.value_type == pa.float32() else int(value) for value in found]


@given(RECORDS)
@settings(max_examples=200)
def test_decoded_as_one_by_one(records: list[bytes]) -> None:
    features, bad = example_decoding.decode_examples(pa.array(records, pa.large_binary()))
    features.validate(full=True)

    assert features.num_rows == len(records)
    assert bad.tolist() == [record == b"\xff" for record in records]
    rows: list[dict[str, Any]] = [{} if record == b"\xff" else dict(decode_example(record)) for record in records]
    assert features.schema.names == sorted({name for row in rows for name in row})
    for name, column in zip(features.schema.names, features.columns):
        assert column.to_pylist() == [plain(row[name], column.type) if name in row else None for row in rows]


@given(RECORDS, st.integers(0, 8))
@settings(max_examples=200)
def test_types_do_not_depend_on_how_records_are_cut(records: list[bytes], cut: int) -> None:
    whole, merged = inferred(records), inferred(records[:cut]).merge(inferred(records[cut:]))

    assert dict(whole.types) == dict(merged.types)
    assert whole.rows == merged.rows


def inferred(records: list[bytes]) -> Inferred:
    return example_decoding.infer_examples(example_decoding.decode_examples(pa.array(records, pa.large_binary()))[0])


@pytest.mark.parametrize("number", [0, 1, 2])
def test_lists_without_values_have_no_say(number: int) -> None:
    records = [EMPTY_FLOATS] * number + [encode_example({"a": [7]}), EMPTY_FLOATS]
    expected = {"a": ColumnType("int64", -1, number + 2, empty=number + 1)}

    for cut in range(len(records)):
        assert inferred(records[:cut]).merge(inferred(records[cut:])).types == expected


def test_types() -> None:
    records = [
        encode_example(
            {"scalar": [1], "pair": [b"x", b"y"], "ragged": np.array([1.5]), "empty": np.zeros(0), "sometimes": [1]}
        ),
        encode_example({"scalar": [2], "pair": [b"x", b"y"], "ragged": np.array([1.5, 2]), "empty": np.zeros(0)}),
    ]
    features, _ = example_decoding.decode_examples(pa.array(records, pa.large_binary()))

    assert example_decoding.infer_examples(features) == Inferred(
        {
            "empty": ColumnType("float32", 0, 2),
            "pair": ColumnType("bytes", 2, 2),
            "ragged": ColumnType("float32", -1, 2),
            "scalar": ColumnType("int64", None, 2),
            "sometimes": ColumnType("int64", None, 1),
        },
        2,
    )
    assert example_decoding.infer_examples(features, ["pair"], [ValuesOf("scalar")]) == Inferred(
        {"pair": ColumnType("bytes", 2, 2)}, 2, {"scalar": frozenset({"1", "2"})}
    )
    assert example_decoding.infer_examples(features, ["pair"], [ValuesOf("pair")]).values == {
        "pair": frozenset({"x", "y"})
    }
    assert example_decoding.infer_examples(features, [], [ValuesOf("absent")]) == Inferred({}, 2)


@pytest.mark.slow
def test_a_feature_of_no_kind_is_absent() -> None:
    nothing = tf.train.Example(features=tf.train.Features(feature={"x": tf.train.Feature()})).SerializeToString()
    records = pa.array([nothing, encode_example({"x": [1]})], pa.large_binary())

    assert example_decoding.decode_examples(records)[0].to_pylist() == [{"x": None}, {"x": [1]}]
    assert example_decoding.decode_examples(records[:1])[0].num_columns == 0
    assert example_decoding.infer_examples(example_decoding.decode_examples(records[:1])[0]) == Inferred({}, 1)
