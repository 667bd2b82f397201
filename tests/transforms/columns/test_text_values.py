"""Text to numbers: what fits its type is what Python makes of it, and what does not is found."""

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.transforms.columns.text import misfit_reason, parse_values, take_missing
from shardmill.transforms.columns.types import ScalarType, text_scalar_type

LARGEST = (1 << 63) - 1
STORED = {"bool": pa.int64(), "int64": pa.int64(), "float32": pa.float32(), "bytes": pa.large_binary()}
INTEGERS = [
    *("0", "-0", "+7", "-7", "007", "-007", "+00", "5.0", "-7.", "0" * 4000 + "1"),
    *(f"{LARGEST}.00", f"{LARGEST}", f"+{LARGEST}", f"0000{LARGEST}", f"{-LARGEST - 1}"),
]
NO_INTEGERS = [
    *("", "-", "+", "a", " 1", "1 ", "1\n", "1\0", "1.5", ".0", "1.0.", "1e3", "0x10", "0X1F", "1_0", "--1", "++1"),
    *("+-1", "1--", "-1-", "+1-", "(-1)", "(1", "٣", "true", f"{LARGEST + 1}", f"{-LARGEST - 2}", "9" * 5000),
]
FLOATS = ["0", "1.5", "-.5", "+1.", "1e3", "1E+03", "007", "00.5", "inf", "-Infinity", "+INF"]
NO_FLOATS = ["", "x", "1e39", "-1e39", "1e400", "nan(1)", "1,5", " 1", "0x10", "1e", "infin", "1_0", "1f", "(x)", "a-"]
NEGATIVE = ["5-", "(5)", "5 -", "\u22125", "5\u2212"]
TABLE: list[tuple[ScalarType, str, int | float | None]] = [
    *(("int64", text, int(text.partition(".")[0])) for text in INTEGERS),
    *(("int64", text, None) for text in NO_INTEGERS),
    *(("float32", text, float(text)) for text in FLOATS),
    *(("float32", text, None) for text in NO_FLOATS),
    *((dtype, text, -5) for dtype in ("int64", "float32") for text in NEGATIVE),
    ("float32", "3.4028235e38", float(np.finfo(np.float32).max)),
    ("float32", "1e-400", 0.0),
    ("float32", "99999999999999999999", float(np.float32(1e20))),
    *(("bool", text, 1) for text in ["true", "True", "TRUE"]),
    *(("bool", text, 0) for text in ["false", "False", "FALSE"]),
    *(("bool", text, None) for text in ["1", "0", "yes", "tRUE", "", " true"]),
]
FLOAT32 = st.floats(width=32).map(lambda value: repr(float(np.float32(value))))


def column(*values: str | None) -> pa.Array:
    return pa.array([None if value is None else value.encode() for value in values], pa.binary())


@pytest.mark.parametrize(
    "beside", [[], ["1"], ["true"], ["1.5", None], [None, "+2", "-3"], ["x", "0x1", "1e39", "9" * 30]]
)
def test_values(beside: list[str]) -> None:
    for dtype, text, value in TABLE:
        values, misfits = parse_values(column(*beside, text, *beside), dtype)
        assert (values.type, values[len(beside)].as_py()) == (STORED[dtype], value), text
        assert (len(beside) in misfits.tolist()) == (value is None), text


def test_nan() -> None:
    values, misfits = parse_values(column("nan", "-NaN", "+nan", "NAN"), "float32")

    assert [math.isnan(value) for value in values.to_pylist()] == [True] * 4
    assert len(misfits) == 0


@pytest.mark.parametrize("dtype", ["bool", "int64", "float32", "bytes"])
def test_missing_is_no_misfit(dtype: ScalarType) -> None:
    values, misfits = parse_values(column(None, None), dtype)

    assert (values.to_pylist(), len(misfits)) == ([None, None], 0)
    assert parse_values(column(), dtype)[0].type == STORED[dtype]


def test_bytes_are_what_they_are() -> None:
    values, misfits = parse_values(pa.array([b"", b"\xff\0", None, b" 1"], pa.binary()), "bytes")

    assert (values.to_pylist(), len(misfits)) == ([b"", b"\xff\0", None, b" 1"], 0)


@pytest.mark.parametrize(
    ("value", "dtype", "reason"),
    [
        (b"abc", "int64", "'abc' is not an integer (int64)"),
        (b"1.5", "int64", "'1.5' is not an integer (int64)"),
        (b"-99999999999999999999", "int64", "'-99999999999999999999' is beyond the range of int64"),
        (b"x" * 100, "float32", f"'{'x' * 60}'… is not a number (float32)"),
        (b"-1e400", "float32", "'-1e400' is beyond the range of float32"),
        (b"\xff", "float32", "'\ufffd' is not a number (float32)"),
        (b"yes", "bool", "'yes' is neither true nor false (bool)"),
    ],
)
def test_reasons(value: bytes, dtype: ScalarType, reason: str) -> None:
    assert misfit_reason(value, dtype) == reason


@given(st.lists(st.one_of(st.none(), FLOAT32, st.integers().map(str))), st.sampled_from(["int64", "float32"]))
def test_what_a_value_is_inferred_to_be_it_fits(values: list[str | None], dtype: ScalarType) -> None:
    parsed, misfits = parse_values(column(*values), dtype)

    for row, value in enumerate(values):
        if value is None:
            assert parsed[row].as_py() is None
        elif text_scalar_type(value.encode()) == dtype:
            assert row not in misfits
            expected = int(value) if dtype == "int64" else float(value)
            assert parsed[row].as_py() == expected or (math.isnan(parsed[row].as_py()) and math.isnan(expected))


@given(st.lists(st.sampled_from(["", " ", "NA", " NA", "NA\t", "N", "NAN", "x NA", "?", " ?", "7"])), st.booleans())
def test_missing_texts_are_compared_without_spaces(values: list[str], strip: bool) -> None:
    missing = ("", "NA", "?")
    texts = pa.array([None if value == "" else value.encode() for value in values], pa.binary())
    found, counts = take_missing(texts, missing, strip)

    kept = [value.strip(" \t") if strip else value for value in values]
    expected = [
        None if old == "" or new == "" or old.strip(" \t") in missing[1:] else new for old, new in zip(values, kept)
    ]
    assert found.to_pylist() == [None if value is None else value.encode() for value in expected]
    assert counts == Counter(value.strip(" \t") for value in values if value.strip(" \t") in missing[1:])
