"""Lists of lists: shapes, and that most rows decide what a column holds, in whatever order they come."""

import json
from functools import reduce
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.transforms.columns.types import (
    MAX_RANK,
    ColumnError,
    ColumnType,
    check_shape,
    format_shape,
    leaf_values,
    preview_value,
    shape_and_values,
    value_type,
)


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


BOXES = st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2), max_size=2)
VALUES = st.one_of(
    BOXES,
    BOXES,
    st.sampled_from([None, 1, 2.5, "a", [], [], [1], [1, 2], ["a"], [[1]], [["a"]], [[1, 2, 3]], [[[1], [2]]]]),
)


@given(st.lists(VALUES, min_size=1, max_size=12), st.data())
@settings(max_examples=300, deadline=None)
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
