"""Keys, groups and strata: a value's text is that of the value alone, however it is spelled, stored and surrounded."""

import decimal
import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardmill.data import tfrecord
from shardmill.transforms.columns.example_decoding import decode_parts, feature_key_texts
from shardmill.transforms.columns.text import key_texts, key_texts_of_values, without_leading_zeros
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats.csv import CsvFormat
from shardmill.transforms.formats.format import KeyColumn, RecordFormat, key_column_name
from shardmill.transforms.formats.json_lines import JsonLinesFormat
from shardmill.transforms.formats.parquet import ParquetFormat
from shardmill.transforms.formats.tfrecords import TFRecordFormat
from tests.support.encoded import encode_example
from tests.support.format_files import blocks, file_ref
from tests.support.table_results import parquet

_DAY = datetime(2024, 1, 2)
_MOMENT = datetime(2024, 1, 2, 3, 4, 5, 600_000)


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pa.array([1, None, -5], pa.int64()), [b"1", None, b"-5"]),
        (pa.array([(1 << 64) - 1], pa.uint64()), [b"18446744073709551615"]),
        (pa.array([0.5, 2.0, None], pa.float32()), [b"0.5", b"2", None]),
        (pa.array([np.float16(1.5)], pa.float16()), [b"1.5"]),
        (
            pa.array([0.1, -0.0, 1e18, 16777217.0, 16777216.5, 1e30, float(np.float32(0.1))]),
            [b"0.1", b"0", b"1" + 18 * b"0", b"16777217", b"16777216.5", b"1e+30", b"0.1"],
        ),
        (pa.array([float("nan"), -float("nan"), float("inf"), -float("inf")]), [b"nan", b"nan", b"inf", b"-inf"]),
        (pa.array([True, False, None]), [b"true", b"false", None]),
        (pa.nulls(2), [None, None]),
        (pa.array([b"\xff", b"", None], pa.large_binary()), [b"\xff", b"", None]),
        (pa.array([b"a", b"5.0"], pa.binary()), [b"a", b"5"]),
        (pa.array([b"ab"], pa.binary(2)), [b"ab"]),
        (pa.array(["a", "5.0", "a"]).dictionary_encode(), [b"a", b"5", b"a"]),
        (pa.array(["5.0"], pa.string_view()), [b"5"]),
        (pa.array([decimal.Decimal("5.00"), decimal.Decimal("5.10")]), [b"5", b"5.1"]),
        (pa.array([date(2024, 1, 2)]), [b"2024-01-02"]),
        *[
            (pa.array([_DAY, _MOMENT], pa.timestamp(unit)), [b"2024-01-02 00:00:00", b"2024-01-02 03:04:05.6"])
            for unit in ("ms", "ns")
        ],
        (pa.array([_DAY, _DAY], pa.timestamp("s", "UTC")), 2 * [b"2024-01-02 00:00:00Z"]),
        (pa.array([_DAY], pa.timestamp("ms", "+02:00")), [b"2024-01-02 02:00:00+0200"]),
        (pa.array([[1], None, [1, 2], []], pa.large_list(pa.int64())), [b"1", None, b"1,2", b""]),
        (pa.array([[1.0, 2.5]], pa.list_(pa.float64(), 2)), [b"1,2.5"]),
        (pa.array([[9], [b"x"], [b"y", b"z"]][1:], pa.list_(pa.large_binary())), [b"x", b"y,z"]),
    ],
)
def test_texts_of_columns(column: pa.Array, texts: list[bytes | None]) -> None:
    assert key_texts(column).to_pylist() == texts
    assert key_texts(column.slice(1)).to_pylist() == texts[1:]
    assert key_texts(column).type == pa.large_binary()


@pytest.mark.parametrize(
    ("text", "key"),
    [
        *((spelling, "5") for spelling in ("5", "5.0", "5.", "+5", "5e0", "50E-1")),
        *((spelling, "0") for spelling in ("0", "-0", "0.0", "-0.0", "+0", "0e5")),
        *((spelling, "0.1") for spelling in ("0.1", ".1", "+.10", "1e-1", "0.10000000149011612")),
        *((spelling, "true") for spelling in ("true", "True", "TRUE")),
        *((spelling, "nan") for spelling in ("nan", "NaN", "-nan")),
        *((spelling, "-inf") for spelling in ("-inf", "-Infinity")),
        ("9007199254740993", "9007199254740993"),
        ("9007199254740993.00", "9007199254740993"),
        ("9" * 40, "9" * 40),
        *(
            (text, text)
            for text in ("007", "-01", "0.1000000000001", "1e400", "1_000", " 5", "0x10", "1.2.3", "nan(1)")
        ),
        *((text, text) for text in ("tRUE", "", "a", "é", "-")),
    ],
)
def test_spellings_of_a_value(text: str, key: str) -> None:
    assert key_texts(pa.array([text.encode()], pa.binary())).to_pylist() == [key.encode()]
    assert key_texts(pa.array(["x", text, None], pa.large_string())).to_pylist() == [b"x", key.encode(), None]
    assert key_texts_of_values([text]).to_pylist() == [key.encode()]


def test_json_values_and_lists_of_one() -> None:
    values = [5, 5.0, "5", [5], [[5.0]], [5, "a"], None, True, "True", [], 1 << 64]
    texts = [b"5"] * 5 + [b"5,a", None, b"true", b"true", b"", b"18446744073709551616"]

    assert key_texts_of_values(values).to_pylist() == texts
    assert [key_texts_of_values([value])[0].as_py() for value in values] == texts


def test_leading_zeros_of_what_is_a_number() -> None:
    texts = pa.array([b"007", b"-00.50", b"0", b"100", None], pa.binary())
    assert without_leading_zeros(texts).to_pylist() == [b"7", b"-0.50", b"0", b"100", None]


# Each as a Python value; equal keys belong to values that are equal.
NUMBERS = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-3, 3),
    st.integers(-3, 3).map(float),
    st.floats(-1e6, 1e6, width=32),
)
VALUES = st.one_of(
    NUMBERS, st.booleans(), st.sampled_from(["a", "007", "5.0", "True"]), st.text("ab01.e-", min_size=1, max_size=4)
)


@given(st.lists(st.one_of(st.none(), VALUES), max_size=20), st.integers(0, 20))
@settings(max_examples=80)
def test_what_lies_beside_a_value_changes_no_key(values: list[Any], cut: int) -> None:
    together = key_texts_of_values(values).to_pylist()

    assert together == [key_texts_of_values([value])[0].as_py() for value in values]
    assert together == key_texts_of_values(values[:cut]).to_pylist() + key_texts_of_values(values[cut:]).to_pylist()


@given(st.lists(NUMBERS, min_size=1, max_size=20))
@settings(max_examples=80)
def test_equal_numbers_have_one_key_and_others_another(numbers: list[int | float]) -> None:
    keys = key_texts_of_values(numbers).to_pylist()
    texts = key_texts(pa.array([repr(number) for number in numbers])).to_pylist()
    floats = key_texts(pa.array([float(number) for number in numbers])).to_pylist()

    assert keys == texts
    for one, key in zip(numbers, keys, strict=True):
        for other, other_key in zip(numbers, keys, strict=True):
            assert (one == other) == (key == other_key)
    assert [key for number, key in zip(numbers, keys, strict=True) if abs(number) < 1 << 53] == [
        key for number, key in zip(numbers, floats, strict=True) if abs(number) < 1 << 53
    ]


def _keys(found: RecordFormat, folder: Path, data: bytes) -> list[bytes | None]:
    """The keys `k` of all rows of a file, in their order; the column is no feature."""
    keys: list[bytes | None] = []
    for block in blocks(found, file_ref(folder, data)):
        for rows in found.read(block, {"x": ColumnType("int64", None, 0)}, [KeyColumn("k")]):
            assert not rows.rejects
            if isinstance(found, TFRecordFormat):
                keys += feature_key_texts(decode_parts(rows.batch["record"]), "k").to_pylist()
            else:
                keys += rows.batch[key_column_name("k")].to_pylist()
    return keys


@given(st.lists(VALUES, min_size=1, max_size=30), st.integers(30, 400))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_format_and_block_size_gives_the_same_keys(tmp_path: Path, values: list[Any], block_size: int) -> None:
    expected = key_texts_of_values(values).to_pylist()
    rows = [{"x": number, "k": value} for number, value in enumerate(values)]
    json_lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    assert _keys(JsonLinesFormat(block_size), tmp_path, json_lines.encode()) == expected
    csv = "x,k\n" + "".join(f"{row['x']},{row['k']!s}\n" for row in rows)
    assert _keys(CsvFormat(block_size=block_size), tmp_path, csv.encode()) == expected
    tables = [parquet(pa.table({"k": [value], "x": [1]})) for value in values]  # a file of one kind for each
    assert [key for table in tables for key in _keys(ParquetFormat(), tmp_path, table)] == expected
    # Whole numbers beyond 2^24 are others once they are floats, and an Example knows no booleans.
    plain = [str(value) if isinstance(value, bool) else value for value in values]
    examples = [{"k": [value.encode()] if isinstance(value, str) else np.array([value])} for value in plain]
    records = b"".join(tfrecord.frame_record(encode_example(example)) for example in examples)
    assert _keys(TFRecordFormat(block_size), tmp_path, records) == expected
