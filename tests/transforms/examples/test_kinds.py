"""Kinds of features: what TensorFlow's own protobuf says of each record, however records are batched."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data.features import DType
from shardmill.transforms.columns.example_decoding import (
    KindCount,
    Kinds,
    count_kinds,
    decode_parts,
    describe_mixed_kinds,
    find_other_messages,
    kind_misfits,
    merge_kinds,
    most_frequent_kinds,
)
from tests.support.later import Later

tf = Later("tensorflow")

LISTS = {
    "int64": lambda values: tf.train.Feature(int64_list=tf.train.Int64List(value=values)),
    "float32": lambda values: tf.train.Feature(float_list=tf.train.FloatList(value=values)),
    "bytes": lambda values: tf.train.Feature(bytes_list=tf.train.BytesList(value=map(bytes, values))),
    "": lambda values: tf.train.Feature(),
}
FEATURES = st.dictionaries(
    st.sampled_from("ab"), st.tuples(st.sampled_from(sorted(LISTS)), st.lists(st.integers(0, 3), max_size=2))
)
PLACES = st.tuples(st.sampled_from(["one", "two"]), st.integers(1, 99))


def serialized(features: dict[str, tuple[str, list[int]]]) -> bytes:
    made = {name: LISTS[kind](values) for name, (kind, values) in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()


def counted(records: list[bytes], places: list[tuple[str, int]]) -> Kinds:
    files = pa.array([file for file, _ in places], pa.string())
    return count_kinds(
        decode_parts(pa.array(records, pa.large_binary())), files, np.array([number for _, number in places], np.int64)
    )


@given(st.lists(st.tuples(FEATURES, PLACES), max_size=8), st.integers(0, 8))
@settings(max_examples=80, deadline=None)
def test_the_kinds_are_those_of_every_record(
    rows: list[tuple[dict[str, tuple[str, list[int]]], tuple[str, int]]], cut: int
) -> None:
    records, places = [serialized(features) for features, _ in rows], [place for _, place in rows]
    expected: dict[str, dict[str, KindCount]] = {}
    for features, place in rows:
        for name, (kind, _) in features.items():
            if kind:
                known = expected.setdefault(name, {}).get(kind, KindCount(0, place))
                expected[name][kind] = KindCount(known.records + 1, min(known.first_record, place))
    whole = counted(records, places)
    assert whole == expected
    assert merge_kinds(counted(records[:cut], places[:cut]), counted(records[cut:], places[cut:])) == whole
    wanted = most_frequent_kinds(whole)
    bad = kind_misfits(decode_parts(pa.array(records, pa.large_binary())), wanted)
    assert sorted(bad) == [
        row
        for row, (features, _) in enumerate(rows)
        if any(kind and kind != wanted[name] for name, (kind, _) in features.items())
    ]
    assert bool(describe_mixed_kinds(whole)) == bool(bad)


@pytest.mark.parametrize(("features", "end"), [(3, ""), (4, "; and 1 more feature"), (5, "; and 2 more features")])
def test_a_few_features_of_several_kinds_are_named(features: int, end: str) -> None:
    held: dict[DType, KindCount] = {"int64": KindCount(1, ("a", 1)), "bytes": KindCount(1, ("b", 1))}
    said = describe_mixed_kinds({f"x{number}": held for number in range(features)})

    assert said.count("'x") == 3
    assert said.partition("; and")[1] + said.partition("; and")[2] == end


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
    assert find_other_messages(records) == {1: kind, 3: kind}
    assert find_other_messages(records[3:]) == {0: kind}
    assert find_other_messages(records[:0]) == {}
