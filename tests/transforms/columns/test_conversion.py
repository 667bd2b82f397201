"""Columns of JSON values, as each value alone, and samples of the numbers that float32 merges."""

from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.transforms.columns.arrow import arrow_type
from shardmill.transforms.columns.conversion import (
    FloatSample,
    column_array,
    column_type,
    convert_value,
    rounded_texts,
    rounded_values,
    sample_limit,
    sample_numbers,
)
from shardmill.transforms.columns.types import ColumnError, ColumnType, ScalarType, value_type
from shardmill.transforms.findings import merged
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
@settings(max_examples=150)
def test_the_type_of_a_column_is_that_of_its_values(values: list[Any]) -> None:
    try:
        found = column_type(values)
    except ColumnError:
        return  # then they are looked at one by one
    expected: dict[str, ColumnType] = {}
    for value in values:
        one = value_type(value, is_text=False)
        expected = merged(expected, {"x": one} if one is not None else {})
    assert found == expected.get("x")


@given(COLUMNS, TYPES)
@settings(max_examples=150)
def test_a_column_is_converted_as_its_values_are(values: list[Any], column: ColumnType) -> None:
    array = column_array(values, column)
    if array is not None:
        array.validate(full=True)
        assert array.equals(pa.array([convert_value(value, column) for value in values], arrow_type(column)))


@given(
    st.lists(st.integers(-5, 5) | st.none()),
    st.lists(st.floats(-9, 9) | st.none()),
    st.lists(st.text("ab") | st.none()),
)
@settings(max_examples=50)
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


def sample_of(values: np.ndarray, limit: int) -> FloatSample:
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    return sample_numbers(narrow, lambda rows: np.unique(values) if rows is None else values[rows], limit)


@given(st.integers(1, 40), st.integers(1, 3000), st.integers(0, 1000), st.permutations(range(5)))
def test_parts_in_any_order_make_the_sample_of_the_whole(
    limit: int, different: int, seed: int, order: list[int]
) -> None:
    draw = np.random.default_rng(seed)
    values = draw.choice(52 + draw.random(different) / 1000, 6000)
    ends = np.sort(draw.integers(0, len(values), 4))
    parts = [sample_of(part, limit) for part in np.split(values, ends)]
    whole, merged = sample_of(values, limit).reduce(), reduce(FloatSample.merge, [parts[n] for n in order]).reduce()

    assert merged.level == whole.level
    assert merged.values.tolist() == whole.values.tolist()
    assert len(np.unique(whole.values.astype(np.float32))) <= limit


def test_a_sample_of_few_different_numbers_is_exact() -> None:
    values = np.repeat([0.1, 0.5, 0.50000001, -0.0, 0.0, 1e300, np.nan, np.inf, 0.500000011], 9)
    assert sample_of(values, 16).describe() == (
        "1 stored number replaces several different numbers of the input, such as 0.5 and 0.500000011, which both"
        " become 0.5"
    )
    assert sample_of(values[:18], 16).describe() == ""
    assert FloatSample(np.zeros(0)).describe() == ""


@pytest.mark.parametrize("numbers", [["1e-50", "0.5"], ["0.5", "7.5E-48", "1e-47"]])
def test_numbers_that_become_zero_are_found(numbers: list[str]) -> None:
    texts, narrow = pa.array(numbers, pa.binary()), pa.array(np.array(numbers, np.float64).astype(np.float32))
    found = [rounded_texts(texts, narrow, 16), rounded_values([*map(float, numbers)], narrow, 16)]
    assert {each.sample.describe().split(" become ")[-1] for each in found} <= {"0", "0.0"}


@pytest.mark.parametrize(("columns", "limit"), [(0, 2048), (64, 2048), (1000, 131), (20_000, 16)])
def test_wide_tables_have_smaller_samples(columns: int, limit: int) -> None:
    assert sample_limit(columns) == limit
