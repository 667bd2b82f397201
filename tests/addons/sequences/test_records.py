"""Rows of sequences as records, and the order of their times."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.addons.sequences.records import DecodedRows, order_keys, order_texts, row_records, row_widths
from shardmill.data.features import Feature
from shardmill.transforms.columns.arrow import data_of, offsets_of
from shardmill.transforms.columns.text import NumberStyle

FEATURES = (
    Feature("n", "int64", shape=(None,)),
    Feature("x", "float32", shape=(None,)),
    Feature("text", "bytes", shape=(None,)),
    Feature("pair", "float32", shape=(None, 2)),
    Feature("label", "int64"),
)
_INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)
_FLOATS = st.floats(width=32, allow_nan=False)
ROWS = st.lists(
    st.tuples(
        st.binary(max_size=9), _INTEGERS, st.binary(), _INTEGERS, _FLOATS, st.binary(), st.tuples(_FLOATS, _FLOATS)
    ),
    min_size=1,
    max_size=12,
)


@given(ROWS, st.integers(0, 3))
def test_there_and_back(
    rows: list[tuple[bytes, int, bytes, int, float, bytes, tuple[float, float]]], before: int
) -> None:
    files, lines, ids, numbers, floats, texts, pairs = (list(column) for column in zip(*rows, strict=True))
    columns = [
        pa.array([7] * before + numbers, pa.int64())[before:],
        pa.array([7.0] * before + floats, pa.float32())[before:],
        pa.array([b"7"] * before + texts, pa.large_binary())[before:],
        pa.array([[1.0, 2.0]] * before + [list(pair) for pair in pairs], pa.large_list(pa.float32()))[before:],
        pa.array(numbers, pa.int64()),
    ]
    binary = pa.large_binary()
    widths = row_widths(FEATURES)
    assert widths == [8, 4, 0, 8, 8]
    records = row_records(pa.array(files, binary), pa.array(lines), pa.array(ids, binary), columns, widths)
    found = DecodedRows.decode(data_of(records), offsets_of(records)[:-1], widths)

    order = np.arange(len(rows))[::-1]
    assert (found.files.to_pylist(), found.lines.tolist(), found.ids.to_pylist()) == (files, lines, ids)
    assert found.column(0, "int64", order).to_pylist() == numbers[::-1]
    assert found.column(1, "float32", order).to_pylist() == floats[::-1]
    assert found.column(2, "bytes", order).to_pylist() == texts[::-1]
    assert found.column(3, "float32", order).to_pylist() == [value for pair in pairs[::-1] for value in pair]


_LIMIT = 1 << 63
PLAIN = NumberStyle()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([-_LIMIT, -5, -1, 0, 1, 7, _LIMIT - 1]),
        pa.array([-np.inf, -3e38, -1.5, -1e-45, 0, 1e-45, 2, np.inf], pa.float32()),
        pa.array([-np.inf, -1e300, -5e-324, 0, 5e-324, 1.7e9, 1.7e9 + 0.1, np.inf]),
    ],
)
def test_they_sort_as_numbers_do(column: pa.Array) -> None:
    keys, none, _ = order_keys(column, PLAIN)

    assert not none.any()
    assert (keys[1:] > keys[:-1]).all()


def _ranks(texts: str, style: NumberStyle = PLAIN, ids: str = "") -> list[int]:
    """Return the places of texts in the order of their id: equal ones have one, and those that do not fit have -1."""
    column = pa.array(texts.encode().split(b"|"), pa.large_binary())
    assert not order_keys(column, style)[1].any()
    numbers = np.unique(list(ids or "a" * len(column)), return_inverse=True)[1]
    seconds, fractions, misfits = order_texts(column, numbers, style)
    places = np.unique(list(zip(seconds.tolist(), fractions.tolist(), strict=True)), axis=0, return_inverse=True)[1]
    return np.where(misfits, -1, places.ravel()).tolist()


@pytest.mark.parametrize(
    "texts",
    [
        "0001-01-01|1600-01-01T00:00:00.000001Z|1686-11-09|1686-11-11|1969-12-31T23:59:59.999999Z|1970-01-01"
        "|1970-01-01 00:00:00.000001|2024|20240102|2024-02-29T09:05|2024-02-29 09:05:00.1234567"
        "|2024-02-29 09:05:00.1234568|2024-060T09:05:01|2024-W09-4T09:05:01.000000001|2024-02-29T24:00"
        "|2024-03-01T01:00+00:59:59|2253-02-21|2253-02-23|2253-02-23T00:00:00.0000001|2262-04-12|2263-01-01|9999-12-31",
        "-1e400|-12345678901234567890.5|-2.5|(2)|-1e-400|0|1e-400|.5|7.|008|17|17.5|999|2024|20240131|20250101"
        "|12345678901234567890|12345678901234567890.1|12345678901234567891|1e20|+2E20",
        "2023|2024|20230105",
    ],
)
def test_texts_sort_as_times_or_numbers_do(texts: str) -> None:
    assert _ranks(texts) == list(range(texts.count("|") + 1))


def test_equal_times_are_equal_however_they_are_spelled() -> None:
    assert set(_ranks("2024-01-31|2024-01-31T00:00|2024-01-31 00:00:00Z|20240131T01+01|2024-01-30T24:00")) == {0}
    assert _ranks("1.1|1.10|11e-1|+1.1") == [0, 0, 0, 0]
    assert _ranks("1.000,5|1000,50|999", NumberStyle(",", ".")) == [1, 1, 0]
    assert len(set(order_keys(pa.array([0.0, -0.0], pa.float32()), PLAIN)[0].tolist())) == 1


def test_the_texts_of_an_id_are_numbers_or_times() -> None:
    """A text that can be a number or a date, such as 2024, is read as the other texts of its id are."""
    assert _ranks("2024|999|2024|2023-12-31", ids="aabb") == [1, 0, 3, 2]
    assert _ranks("2024|999|2024-01-01|20240102", ids="aaab")[2] == -1


@pytest.mark.parametrize(
    "text",
    (
        b"|yesterday|nan|1,5|2024-02-30|2024-1-5|2024-01-05T25:00|2024-01-05T09:00:00.0000000001"
        b"|2300-01-05T09:00:00.0000000001|05/01/2024"
    ).split(b"|"),
)
def test_what_is_no_time(text: bytes) -> None:
    assert order_keys(pa.array([text, None], pa.large_binary()), PLAIN)[1].tolist() == [True, True]
    assert order_keys(pa.array([1.0, np.nan, None], pa.float32()), PLAIN)[1].tolist() == [False, True, True]
