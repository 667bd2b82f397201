"""The types of columns of text: the same for a value wherever it stands."""

from functools import reduce

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shardmill.transforms.columns.text import infer_type, infer_types, parse_columns, parse_values
from shardmill.transforms.columns.types import ColumnType, ScalarType, common_type, text_scalar_type, text_type

BOOL = ["true", "True", "TRUE", "false", "False", "FALSE"]
_INT64 = "0 +0 -0 7 +7 -7 1234567890123456789 9223372036854775807 -9223372036854775808 +9223372036854775807"
_FLOAT32 = (
    "1.5 -1.5 +1.5 1. .5 +.5 -.5 1.e5 .5e5 0.0 -0.0 0. 0e5 0E0 1e5 1E5 1e+05 1e-5 nan NaN NAN -nan +NaN inf Inf -inf"
    " +INF infinity -Infinity INFINITY 1e39 -1e39 1e-400 99999999999999999999.0 12345678901234567890e0"
    " 0.1234567890123456789"
)
_BYTES = (
    "a yes no tRUE truefalse 007 -07 +07 00 000 -00 007.5 00.5 -00.5 007e5 00e5 0x10 0X1F -0x1 0x1p3 1_000 1,5 1,000"
    " 9223372036854775808 -9223372036854775809 +9223372036854775808 12345678901234567890"
    " + - . +. -. e e5 .e5 1e 1e+ 1e- 1e5.5 1.2.3 1..2 --1 ++1 +-1 -+1 1- 1+1 1e+-5"
    " n in na infi infinit infinityy nann naninf nan(1) NAN(abc) --inf 1inf inf1 0nan"
    " 1e400 -1e400 68e12345 1e99999999999999 1f 1d5 1.0f 1L 1e5e5 ٣ １ ½ ∞ 1% $1 (1) 0b1 0o7 1e٣ é"
)
INT64, FLOAT32 = _INT64.split(), _FLOAT32.split()
BYTES = [
    *("", "true ", " true", " 1", "1 ", "\t1", "1\n", "1.5 ", " 1.5", "1\0", "\0", "1 000"),
    *("1" * 5000, "-" + "1" * 40, "9" * 400 + ".5", *_BYTES.split()),
]
ALL = [*BOOL, *INT64, *FLOAT32, *BYTES]


def column(values: list[str | None]) -> pa.Array:
    return pa.array([None if value is None else value.encode() for value in values], pa.binary())


def dtype(values: list[str | None]) -> ScalarType | None:
    found = infer_type(column(values))
    return found.dtype if found else None


TABLE: list[tuple[str, ScalarType]] = [
    *((value, "bool") for value in BOOL),
    *((value, "int64") for value in INT64),
    *((value, "float32") for value in FLOAT32),
    *((value, "bytes") for value in BYTES),
]


@pytest.mark.parametrize(("value", "expected"), TABLE)
def test_one_value(value: str, expected: ScalarType) -> None:
    assert text_scalar_type(value.encode()) == expected
    assert infer_type(column([value])) == ColumnType(expected, None, 1)


@pytest.mark.parametrize("first", ["0", "1.5", "-3", "nan", "true"])
def test_one_value_after_another(first: str) -> None:
    for value, expected in TABLE:
        wanted = common_type(text_scalar_type(first.encode()), expected)
        assert dtype([first, value]) == dtype([None, first, None, first, value, None]) == wanted, value


def test_bytes_that_are_no_text() -> None:
    for value in (b"\xff", b"1\xff", b"1\x80", b"\xb9"):
        assert infer_type(pa.array([b"1", value], pa.binary())) == ColumnType("bytes", None, 2)


def test_missing_values_say_nothing() -> None:
    assert infer_type(column([None, None])) is None
    assert infer_type(column([])) is None
    assert infer_type(column([None, "1", None])) == ColumnType("int64", None, 1)


def test_a_slice_is_not_its_column() -> None:
    whole = column(["a", "1", "2", "b"])

    assert infer_type(whole[1:3]) == ColumnType("int64", None, 2)
    assert infer_type(whole[2:]) == ColumnType("bytes", None, 2)


numbers = st.one_of(st.sampled_from([*INT64, *FLOAT32]), st.integers(-(10**20), 10**20).map(str), st.floats().map(repr))
spellings = st.one_of(
    numbers,
    st.sampled_from(ALL),
    st.text("0123456789+-.eE", max_size=25),
    st.text("0123456789", min_size=17, max_size=21),
)
KINDS = (numbers, spellings, st.sampled_from(BOOL), st.text())
columns = st.one_of([st.lists(st.one_of(st.none(), kind), max_size=12) for kind in KINDS])


@given(columns)
def test_a_column_is_the_widest_of_its_values(values: list[str | None]) -> None:
    types = [text_scalar_type(value.encode()) for value in values if value is not None]

    assert infer_type(column(values)) == (ColumnType(reduce(common_type, types), None, len(types)) if types else None)


def settled(column_type: ColumnType | None) -> ScalarType | None:
    return None if column_type is None else column_type.settle().dtype


@given(columns, st.data())
def test_any_partition_merges_to_the_type_of_all(values: list[str | None], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=4)))
    parts = [infer_type(column(values[begin:end])) for begin, end in zip([0, *cuts], [*cuts, len(values)])]
    found = [part for part in parts if part]
    one_by_one = [text_type(value.encode()) for value in values if value is not None]

    merged = reduce(ColumnType.merge, found[::-1]) if found else None
    assert infer_type(column(values)) == merged
    assert settled(infer_type(column(values))) == settled(merged)
    assert settled(merged) == (settled(reduce(ColumnType.merge, one_by_one)) if one_by_one else None)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1E10", "2E05", "12E3"], "bytes"),
        (["1E10", "7", "nan"], "bytes"),
        (["1E10", "0.5"], "float32"),
        (["1E10", "-7"], "float32"),
        (["1e+10", "7"], "float32"),
        (["1e5", "1e-5"], "float32"),
        (["68e12345", "12"], "bytes"),
        (["0.5", "1e400"], "bytes"),
        (["1234567000.0", "1234567001.0"], "int64"),
        (["16777217", "1.0", "-2."], "int64"),
        (["16777216", "16777216.0"], "float32"),
        (["1.0", "2.0"], "float32"),
        (["16777217.0", "0.5"], "float32"),
        (["16777217.0", "nan"], "float32"),
        (["16777217.0", "1e3"], "float32"),
        (["9223372036854775807.0"], "int64"),
        (["9223372036854775808.0"], "float32"),
    ],
)
def test_codes_and_whole_floats(values: list[str | None], expected: ScalarType) -> None:
    assert settled(infer_type(column(values))) == expected
    assert settled(infer_type(column(values[::-1]))) == expected


def test_a_long_column() -> None:
    values = np.random.default_rng(1).integers(-(1 << 63), (1 << 63) - 1, 10_000).tolist()
    text: list[str | None] = [str(value) for value in values]

    assert dtype(text) == "int64"
    assert dtype([*text, "9223372036854775808"]) == "bytes"
    assert dtype([*text, "1.5"]) == "float32"
    assert dtype([*text, "1.5", "9223372036854775808"]) == "bytes"


ODD = (
    "0|7|-3|+5|007|1.5|-0.25|3.0|.5|5.|.|-|+.|1..2|1.2.3|0.0|00.1|1e5|1E10|nan|inf|true|x|1,5|1-2| 1||12345678|16777217"
    "|123456789|16777217.0|0.1234567890123456789|12345678901234567890|9223372036854775807|1.12345678901234567890"
)
NUMBERS = st.sampled_from(ODD.split("|"))
TABLES = st.integers(1, 5).flatmap(
    lambda rows: st.lists(
        st.lists(st.none() | NUMBERS | spellings, min_size=rows, max_size=rows)
        | st.lists(st.sampled_from(["1", "2.5", "-0.75", "10", None]), min_size=rows, max_size=rows),
        min_size=1,
        max_size=12,
    )
)


@settings(max_examples=500)
@given(TABLES)
@example([[".", "1.5"], ["1", "2"]])
def test_columns_of_a_table_have_the_types_and_values_that_they_have_alone(table: list[list[str | None]]) -> None:
    columns = [column(values) for values in table]

    types = infer_types(columns)
    assert types == [infer_type(values) for values in columns]
    assert [each and each.spelling for each in types] == [
        each and each.spelling for each in (infer_type(values) for values in columns)
    ]
    dtypes: tuple[ScalarType, ...] = ("int64", "float32", "bool", "bytes")
    for dtype in dtypes:
        for (values, misfits), alone in zip(parse_columns(columns, dtype), columns, strict=True):
            expected, expected_misfits = parse_values(alone, dtype)
            assert repr(values.to_pylist()) == repr(expected.to_pylist())  # nan is nan
            assert misfits.tolist() == expected_misfits.tolist()
