"""Columns as features: entry by entry, for any rows of them; tests/test_encode_examples.py has whole records."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shardmill.data import example
from shardmill.transforms.columns.example_bytes import PieceWriter
from shardmill.transforms.columns.example_encoding import feature_columns

INTS, FLOATS, TEXTS = [1, -1, 300, 1 << 40], [0.5, -1.0, 2.0, 0.0], ["a", "", "x" * 200, "é"]
FEATURES: dict[str, tuple[Callable[[list[Any]], bytes], list[Any], pa.DataType]] = {
    "int": (example.encode_int64_feature, INTS, pa.int64()),
    "float": (example.encode_float_feature, FLOATS, pa.float32()),
    "text": (lambda values: example.encode_bytes_feature(value.encode() for value in values), TEXTS, pa.string()),
}
LISTS = [pa.list_, pa.large_list]


def one_column(array: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([array], names=["x"])


def entries(array: pa.Array, rows: slice) -> tuple[list[int], bytes]:
    """The sizes of the entries and all of them, one behind the other."""
    (column,) = feature_columns(one_column(array))
    sizes = np.broadcast_to(column.sizes(rows), rows.stop - rows.start).astype(np.int64)
    out, starts = np.zeros(int(sizes.sum()), np.uint8), np.cumsum(sizes) - sizes
    writer = PieceWriter(out, starts, starts + sizes)
    column.write(writer, rows)
    writer.flush()
    return sizes.tolist(), out.tobytes()


def check(array: pa.Array, kind: str, values: list[list[Any] | None]) -> None:
    """`array` is what is in `values`, for the rows of each tile, and of a slice."""
    feature = FEATURES[kind][0]
    expected = [b"" if items is None else example.encode_entry("x", feature(items)) for items in values]
    for start in range(len(values)):
        for stop in range(start + 1, len(values) + 1):
            joined = list(map(len, expected[start:stop])), b"".join(expected[start:stop])
            assert entries(array, slice(start, stop)) == joined
            assert entries(array.slice(start, stop - start), slice(0, stop - start)) == joined


@pytest.mark.parametrize("kind", FEATURES)
def test_scalars(kind: str) -> None:
    _, values, leaf = FEATURES[kind]
    rows = [*values, None, values[0]]

    check(pa.array(rows, leaf), kind, [None if value is None else [value] for value in rows])
    check(pa.array(values, leaf), kind, [[value] for value in values])


@pytest.mark.parametrize("nest", LISTS)
@pytest.mark.parametrize("kind", FEATURES)
def test_lists(kind: str, nest: Any) -> None:
    _, values, leaf = FEATURES[kind]
    rows = [values, [], None, values[:1], values[1:] * 20]

    check(pa.array(rows, nest(leaf)), kind, rows)


@pytest.mark.parametrize("kind", FEATURES)
def test_lists_of_one_length(kind: str) -> None:
    _, values, leaf = FEATURES[kind]
    rows = [values[:2], None, values[2:]]

    check(pa.array(rows, pa.list_(leaf, 2)), kind, rows)


def test_columns_in_their_order() -> None:
    batch = pa.RecordBatch.from_pydict({"b": pa.array([1]), "a": pa.array(["x"])})

    assert [column.prefix for column in feature_columns(batch)] == [b"\x0a\x01b\x12", b"\x0a\x01a\x12"]


@pytest.mark.parametrize("nest", LISTS)
@pytest.mark.parametrize("kind", FEATURES)
def test_how_many_items_there_are(kind: str, nest: Any) -> None:
    _, values, leaf = FEATURES[kind]
    array = pa.array([values, [], values[:1], values[:3]], nest(leaf))

    assert [column.num_items for column in feature_columns(one_column(array))] == [8]
    assert [column.num_items for column in feature_columns(one_column(array.slice(1, 2)))] == [1]
    assert [column.num_items for column in feature_columns(one_column(pa.array(values, leaf)))] == [0]


def test_what_is_no_feature_is_refused() -> None:
    with pytest.raises(TypeError, match="column 'x' is list<item: int32>; expected int64"):
        feature_columns(one_column(pa.array([[1]], pa.list_(pa.int32()))))
    with pytest.raises(ValueError, match="column 'x': the list in row 1 of the batch holds a null"):
        feature_columns(one_column(pa.array([[1], [2, None]])))
