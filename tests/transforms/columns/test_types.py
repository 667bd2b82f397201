"""Types of values and columns, in any order, shapes of nested lists, and values as entries of an Example."""

import json
import math
import warnings
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data import example
from shardmill.data.features import Feature
from shardmill.transforms.columns.arrow import arrow_type, to_batch
from shardmill.transforms.columns.conversion import convert_value
from shardmill.transforms.columns.example_encoding import encode_entries
from shardmill.transforms.columns.types import (
    MAX_RANK,
    ColumnError,
    ColumnType,
    ScalarType,
    check_shape,
    format_shape,
    leaf_values,
    preview_value,
    shape_and_values,
    value_type,
)
from shardmill.transforms.findings import merged

CSV, JSON = True, False


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        *((text, "int64") for text in ("0", "-0", "+7", "9223372036854775807", "-9223372036854775808")),
        *((text, "bytes") for text in ("9223372036854775808", "007", "1_0.5", "1,5", " 1", "tRUE", "rose")),
        *((sign + "9" * 5000, "bytes") for sign in ("", "-")),  # longer than Python turns into an integer
        *((text, "float32") for text in ("0.5", "-1e-3", "nan", "-Infinity")),
        *((text, "bool") for text in ("true", "FALSE")),
    ],
)
def test_types_of_text(text: str, dtype: str) -> None:
    found = value_type(text, CSV)

    assert found is not None
    assert (found.dtype, found.length, found.present) == (dtype, None, 1)
    convert_value(text, found)  # and what the type promises can be read


@pytest.mark.parametrize(("value", "textual"), [(None, JSON), ("", CSV), (None, CSV)])
def test_missing_values_have_no_type(value: Any, textual: bool) -> None:
    assert value_type(value, textual) is None


SCALARS = st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.floats(), st.text(max_size=5), st.booleans())
VALUES = st.one_of(
    st.none(), SCALARS, st.lists(SCALARS, max_size=3), st.lists(st.lists(st.integers(-5, 5), min_size=2, max_size=2))
)
ROWS = st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), min_size=1, max_size=12)


def types_of(rows: list[dict[str, Any]]) -> dict[str, ColumnType]:
    types: dict[str, ColumnType] = {}
    for row in rows:
        found = {name: value_type(value, JSON) for name, value in row.items()}
        types = merged(types, {name: column for name, column in found.items() if column is not None})
    return types


def _is_beyond_float32(value: Any) -> bool:
    floats = [item for item in leaf_values(value) if isinstance(item, float) and not math.isnan(item)]
    with np.errstate(over="ignore"):
        return bool(np.isinf(np.array(floats, np.float32)).any())


@given(ROWS)
def test_every_row_fits_the_features_of_all(rows: list[dict[str, Any]]) -> None:
    types = types_of(rows)
    features = {name: column.feature(name, len(rows)) for name, column in types.items()}
    for row in rows:
        try:
            with warnings.catch_warnings(action="error"):
                entries = encode_row(row, types)
        except ColumnError:
            assert any(column.minority_types for column in types.values()) or any(map(_is_beyond_float32, row.values()))
            continue
        decoded = example.decode_example(example.example_header(len(entries)) + entries)
        for name, feature in features.items():
            if name not in decoded:
                assert not feature.required
                continue
            values = decoded[name]
            size = None if None in feature.shape else math.prod(filter(None, feature.shape))
            assert not feature.shape or size in (None, len(values))
            assert feature.shape or len(values) == 1
            if len(values):
                kind = str(values.dtype) if isinstance(values, np.ndarray) else "bytes"
                assert kind == feature.dtype


@pytest.mark.parametrize(
    ("column", "rows", "feature"),
    [
        (ColumnType("int64", None, 5), 5, Feature("c", "int64")),
        (ColumnType("int64", None, 4), 5, Feature("c", "int64", required=False)),
        (ColumnType("bytes", None, 5), 5, Feature("c", "bytes", "text")),
        (ColumnType("float32", 4, 5), 5, Feature("c", "float32", shape=(4,))),
        (ColumnType("float32", 4, 3), 5, Feature("c", "float32", shape=(4,), required=False)),
        (ColumnType("bytes", 2, 5), 5, Feature("c", "bytes", shape=(2,))),
        (ColumnType("int64", -1, 3), 5, Feature("c", "int64", shape=(None,))),
        (ColumnType("int64", 0, 3), 5, Feature("c", "int64", shape=(None,))),
    ],
)
def test_features(column: ColumnType, rows: int, feature: Feature) -> None:
    assert column.feature("c", rows) == feature


def encode_row(row: dict[str, Any], types: dict[str, ColumnType]) -> bytes:
    arrays = {name: pa.array([convert_value(row.get(name), kind)], arrow_type(kind)) for name, kind in types.items()}
    entries: bytes = encode_entries(to_batch(arrays, 1))[0].as_py()
    return entries


def decoded(row: dict[str, Any], types: dict[str, ColumnType]) -> dict[str, list[Any]]:
    entries = encode_row(row, types)
    return {
        name: list(values)
        for name, values in example.decode_example(example.example_header(len(entries)) + entries).items()
    }


@pytest.mark.parametrize(
    ("value", "column", "values"),
    [
        ("7", ColumnType("int64", None, 1), [7]),
        ("7", ColumnType("float32", None, 1), [7.0]),
        ("007", ColumnType("bytes", None, 1), [b"007"]),
        ("rösti", ColumnType("bytes", None, 1), ["rösti".encode()]),
        ("", ColumnType("bytes", None, 1), [b""]),
        (7, ColumnType("bytes", None, 1), [b"7"]),
        (True, ColumnType("bytes", None, 1), [b"true"]),
        ([1, 2], ColumnType("int64", 2, 1), [1, 2]),
        (5, ColumnType("int64", -1, 1), [5]),
        ([], ColumnType("bytes", -1, 1), []),
        (None, ColumnType("int64", -1, 1), []),
        ("-inf", ColumnType("float32", None, 1), [-math.inf]),
        *((text, ColumnType("bool", None, 1), [1]) for text in ("true", "True", "TRUE", True)),
        *((text, ColumnType("bool", None, 1), [0]) for text in ("false", "False", "FALSE", False)),
        ([True, False], ColumnType("bool", 2, 1), [1, 0]),
    ],
)
def test_values(value: Any, column: ColumnType, values: list[Any]) -> None:
    assert decoded({"c": value}, {"c": column}) == {"c": values}


@pytest.mark.parametrize("dtype", ["int64", "bytes"])
def test_a_missing_value_has_no_entry(dtype: ScalarType) -> None:
    assert encode_row({"c": None}, {"c": ColumnType(dtype, None, 1)}) == b""
    assert encode_row({}, {"c": ColumnType(dtype, 3, 1)}) == b""


BOXES = ColumnType("float32", -1, 1, (4,))


def test_boxes_lie_flat() -> None:
    assert decoded({"c": [[1, 2, 3, 4], [5, 6, 7, 8]]}, {"c": BOXES}) == {"c": [1, 2, 3, 4, 5, 6, 7, 8]}
    assert decoded({"c": []}, {"c": BOXES}) == decoded({}, {"c": BOXES}) == {"c": []}


@pytest.mark.parametrize(
    ("value", "column", "reason"),
    [
        ([[1, 2, 3]], BOXES, r"\[\[1, 2, 3\]\] has 1 x 3 values, where any number x 4 were expected"),
        ([1, 2, 3, 4], BOXES, r"\[1, 2, 3, 4\] has 4 values, where any number x 4 were expected"),
        (1, BOXES, r"1 has 1 values, where any number x 4 were expected"),
        ([[1]], ColumnType("int64", None, 1), "a list of 1 x 1, where one value was expected"),
        ([[1]], ColumnType("int64", 1, 1), r"\[\[1\]\] has 1 x 1 values, where 1 were expected"),
    ],
)
def test_lists_of_another_shape(value: Any, column: ColumnType, reason: str) -> None:
    with pytest.raises(ColumnError, match=f"^{reason}$"):
        convert_value(value, column)


@pytest.mark.parametrize("value", [1e39, -1e300, [0.5, 1e39], [[1e39]]])
def test_numbers_beyond_float32(value: Any) -> None:
    column = value_type(value, is_text=False)
    assert column is not None
    assert column.dtype == "float32"
    with pytest.raises(ColumnError, match=r"^-?1e.* is beyond the range of float32$"):
        convert_value(value, column)


def test_entries_stand_in_the_order_of_the_types() -> None:
    types = {"b": ColumnType("int64", None, 1), "a": ColumnType("float32", None, 1)}

    assert decoded({"a": 0.5, "b": 1, "other": 2}, types) == {"b": [1], "a": [np.float32(0.5)]}
    assert list(decoded({"a": 0.5, "b": 1}, types)) == ["b", "a"]


@pytest.mark.parametrize(
    ("value", "shape", "values"),
    [
        ([], (0,), []),
        ([1, 2], (2,), [1, 2]),
        ([[1, 2], [3, 4], [5, 6]], (3, 2), [1, 2, 3, 4, 5, 6]),
        ([[["a"], ["b"]]], (1, 2, 1), ["a", "b"]),
    ],
)
def test_shapes(value: list[Any], shape: tuple[int, ...], values: list[Any]) -> None:
    assert shape_and_values(value) == (shape, values)
    assert leaf_values(value) == values


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([[1], [1, 2]], "lists of 1 and of 2 in one list; expected lists of one length"),
        ([[1], []], "lists of 0 and of 1 in one list"),
        ([[1], 2], "a list of lists and values"),
        ([[], []], r"a list of empty lists; expected \[\] where there are none"),
        (json.loads("[" * (MAX_RANK + 1) + "1" + "]" * (MAX_RANK + 1)), f"lists nested more than {MAX_RANK} deep"),
        (json.loads("[" * 900 + "]" * 900), "nested more than"),
    ],
)
def test_what_has_no_shape(value: list[Any], reason: str) -> None:
    with pytest.raises(ColumnError, match=f"^{reason}" if reason[0] != "n" else reason):
        shape_and_values(value)


def test_words() -> None:
    assert format_shape((None, 4)) == "any number x 4"
    assert preview_value([[1.5, "ä"]]) == '[[1.5, "\\u00e4"]]'
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert preview_value(deep) == "a value nested too deep"
    while deep:  # or else taking it apart is a recursion, too
        deep = deep.pop()


def type_of(values: list[Any]) -> ColumnType:
    found = [one for one in (value_type(value, is_text=False) for value in values) if one is not None]
    return reduce(ColumnType.merge, found)


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        ([[[1, 2]], [[3, 4]]], (1, 2)),
        ([[[1, 2]], [[3, 4], [5, 6]]], (None, 2)),
        ([[[1, 2]], []], (None, 2)),
        ([[], [[1, 2]], [[3, 4]], [[5]]], (None, 2)),
        ([[1, 2], [[1, 2]], [[3, 4]]], (1, 2)),
        ([[[1, 2]], [[3]]], (1, 1)),
        ([1, 2, [[1]]], ()),
        ([1, 2, [[1]], []], (None,)),
        ([[[[1, 2]]]], (1, 1, 2)),
    ],
)
def test_most_rows_decide(values: list[Any], shape: tuple[int | None, ...]) -> None:
    feature = type_of(values).feature("x", len(values))

    assert feature.shape == type_of(values[::-1]).feature("x", len(values)).shape == shape
    assert feature.required


PAIRS = st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2), max_size=2)
NESTED = st.one_of(
    PAIRS,
    PAIRS,
    st.sampled_from([None, 1, 2.5, "a", [], [], [1], [1, 2], ["a"], [[1]], [["a"]], [[1, 2, 3]], [[[1], [2]]]]),
)


@given(st.lists(NESTED, min_size=1, max_size=12), st.data())
@settings(max_examples=300)
def test_any_partition_in_any_order_merges_to_the_type_of_all(values: list[Any], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(values))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=4)))
    nothing = ColumnType("int64", None, 0)
    parts = [
        reduce(
            ColumnType.merge, filter(None, (value_type(value, is_text=False) for value in shuffled[begin:end])), nothing
        )
        for begin, end in zip([0, *cuts], [*cuts, len(values)])
    ]
    merged = reduce(ColumnType.merge, parts)
    expected = reduce(ColumnType.merge, filter(None, (value_type(value, is_text=False) for value in values)), nothing)

    assert merged == reduce(ColumnType.merge, parts[::-1]) == expected
    present = [value for value in values if value is not None]
    assert merged.present + sum(other.present for other in merged.minority_types) == len(present)
    if present:
        assert sum(_fits(value, merged) for value in present) == merged.present


def _fits(value: Any, column: ColumnType) -> bool:
    try:
        check_shape(value, column)
    except ColumnError:
        return False
    return True
