"""Columns of JSON values: found and converted whole, they are as when it is done value by value."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.transforms.columns.conversion import column_array, column_type, convert_value, converted_array
from shardmill.transforms.columns.types import ColumnError, ColumnType, ScalarType, merge_types, value_type
from tests.support.json_strategies import VALUES

BOXES = st.lists(st.floats(-5, 5), min_size=2, max_size=2)
COLUMNS = st.one_of(
    *(
        st.lists(st.one_of(kind, st.none()), max_size=6)
        for kind in (st.integers(-5, 5), st.floats(-9, 9), st.booleans(), st.text("ab"))
    ),
    st.lists(st.lists(st.integers(-5, 5), max_size=2), max_size=6),
    st.lists(st.lists(st.floats(-5, 5), min_size=2, max_size=2), max_size=6),
    st.lists(st.lists(BOXES, max_size=2) | st.none(), max_size=6),
    st.lists(VALUES, max_size=6),
)
DTYPES, LENGTHS = st.sampled_from(["int64", "float32", "bytes", "bool"]), st.sampled_from([None, None, -1, 0, 1, 2])
TYPES = st.one_of(
    st.builds(ColumnType, DTYPES, LENGTHS, st.just(0)),
    st.builds(ColumnType, DTYPES, st.sampled_from([-1, 1, 2]), st.just(0), st.sampled_from([(1,), (2,), (1, 2)])),
)


@given(COLUMNS)
@settings(max_examples=150, deadline=None)
def test_the_type_of_a_column_is_that_of_its_values(values: list[Any]) -> None:
    try:
        found = column_type(values)
    except ColumnError:
        return  # then they are looked at one by one
    expected: dict[str, ColumnType] = {}
    for value in values:
        one = value_type(value, is_text=False)
        expected = merge_types(expected, {"x": one} if one is not None else {})
    assert found == expected.get("x")


@given(COLUMNS, TYPES)
@settings(max_examples=150, deadline=None)
def test_a_column_is_converted_as_its_values_are(values: list[Any], column: ColumnType) -> None:
    array = column_array(values, column)
    if array is not None:
        array.validate(full=True)
        assert array.equals(converted_array([convert_value(value, column) for value in values], column))


@given(
    st.lists(st.integers(-5, 5) | st.none()),
    st.lists(st.floats(-9, 9) | st.none()),
    st.lists(st.text("ab") | st.none()),
)
@settings(max_examples=50, deadline=None)
def test_common_columns_are_converted_whole(integers: list[Any], floats: list[Any], texts: list[Any]) -> None:
    columns: list[tuple[list[Any], ScalarType]] = [
        (integers, "int64"),
        (integers, "float32"),
        (floats, "float32"),
        (texts, "bytes"),
    ]
    for values, dtype in columns:
        assert column_array(values, ColumnType(dtype, None, 0)) is not None
        assert column_array([[value] for value in values if value is not None], ColumnType(dtype, -1, 0)) is not None
