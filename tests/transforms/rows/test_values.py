"""Values of programs become plain ones, or their row is refused with a reason."""

import io
import re
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats.format import BlockRef, FileRef
from shardmill.transforms.formats.parquet import ParquetFormat
from shardmill.transforms.rows.values import RefusedRow, row_of, to_plain_rows


class Colour(IntEnum):
    RED = 3


@dataclass
class Point:
    x: int


class Pair(NamedTuple):
    x: int


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.int8(-3), -3),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (Colour.RED, 3),
        (bytearray(b"\xff"), b"\xff"),
        ((1, 2.5, None), [1, 2.5, None]),
        ([[1, 2], (3,)], [[1, 2], [3]]),
        (np.arange(6, dtype=np.uint8).reshape(2, 3), [[0, 1, 2], [3, 4, 5]]),
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array([1.5, 2], np.float16), [1.5, 2.0]),
        (np.array([1, "x", None], object), [1, "x", None]),
        (np.array(7), 7),
        (np.array(["2024-01-31", "2024-02-01"], "datetime64[D]"), ["2024-01-31", "2024-02-01"]),
        (OrderedDict(a=(1,)), {"a": [1]}),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (np.datetime64("NaT"), None),
        (datetime(1, 1, 2, tzinfo=timezone(timedelta(seconds=2996))), "0001-01-02 00:00:00.000000+004956"),
        (datetime(1, 1, 2, tzinfo=timezone(-timedelta(seconds=2996))), "0001-01-02 00:00:00.000000-004956"),
    ],
    ids=lambda value: re.sub(" (at )?0x[0-9a-fA-F]+", "", str(value)),
)
def test_values_become_plain(value: Any, plain: Any) -> None:
    (row,) = to_plain_rows([{"x": value}])
    assert row == {"x": plain}
    assert isinstance(row, dict)
    assert type(row["x"]) is type(plain)


@pytest.mark.parametrize(
    "value",
    [
        date(2024, 1, 31),
        time(9, 30),
        datetime(2024, 1, 31, 9, 30),
        datetime(2024, 1, 31, 9, 30, 1, 5, tzinfo=UTC),
        np.datetime64("2024-01-31T09:30:00.123456789"),
        Decimal("1.10"),
        Decimal("1E+3"),
    ],
    ids=lambda value: re.sub(" (at )?0x[0-9a-fA-F]+", "", str(value)),
)
def test_dates_and_decimals_are_texts_as_of_parquet(value: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": pa.array([value])}), path)
    block = BlockRef(FileRef("x", str(path), path.stat().st_size), 0, 1)
    (rows,) = ParquetFormat().read(block, {"x": ColumnType("bytes", None, 1)})

    (row,) = to_plain_rows([{"x": value}])

    assert isinstance(row, dict)
    assert row["x"].encode() == rows.batch["x"][0].as_py()


_CYCLE: list[Any] = []
_CYCLE.append(_CYCLE)
_OBJECT: dict[str, Any] = {}
_OBJECT["a"] = _OBJECT


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ([1], "a list is no row; expected a dictionary"),
        ({3: 1}, "the key 3 is no string; expected names of columns"),
        ({"x": {3: 1}}, "column 'x': the key 3 is no string; expected names of columns"),
        ({"x": float("nan")}, "column 'x': nan may be a number or a missing value; give None for a missing value,"),
        ({"x": [1.0, float("nan")]}, "column 'x': nan in a list or array may be a number or a missing value; put"),
        ({"x": np.array([np.nan])}, "column 'x': nan in a list or array may be a number or a missing value; put"),
        ({"x": float("inf")}, "column 'x': inf is not finite; expected a number, or None for a missing value"),
        ({"x": Decimal("NaN")}, "column 'x': NaN is not finite"),
        ({"x": timedelta(1)}, "column 'x': a timedelta is not stored; expected numbers, texts, bytes, dates, lists"),
        ({"x": time(1, tzinfo=UTC)}, "is not stored: a time without a date has no offset; give its isoformat()"),
        ({"x": {1, 2}}, "column 'x': a set is not stored"),
        ({"x": 1j}, "column 'x': a complex is not stored"),
        ({"x": np.zeros(1, "m8[s]")}, "column 'x': a ndarray is not stored"),
        ({"x": "\ud800"}, "column 'x': '\\ud800' is no valid Unicode"),
        ({"\ud800": 1}, "the key '\\ud800' is no valid Unicode"),
        ({"x": _CYCLE}, "column 'x': a value nested too deep"),
        ({"x": _OBJECT}, "column 'x': a value nested too deep"),
        ({"x": Image.new("F", (1, 1))}, "column 'x': an image cannot be written as PNG: cannot write mode F as PNG"),
    ],
    ids=lambda value: re.sub(" (at )?0x[0-9a-fA-F]+", "", str(value)),
)
def test_rows_are_refused_with_a_reason(row: Any, reason: str) -> None:
    good, bad = to_plain_rows([{"x": 1}, row])
    assert good == {"x": 1}
    assert isinstance(bad, RefusedRow)
    assert reason in bad.reason


def test_images_are_files() -> None:
    file = io.BytesIO()
    Image.new("RGB", (2, 2), "red").save(file, "JPEG", quality=30)
    opened, decoded = Image.open(file), Image.open(file)
    decoded.load()

    of_file, of_pixels, new = to_plain_rows([{"x": opened}, {"x": decoded}, {"x": Image.new("1", (3, 1))}])

    assert of_file == {"x": file.getvalue()}
    for row, size in ((of_pixels, (2, 2)), (new, (3, 1))):
        assert isinstance(row, dict)
        image = Image.open(io.BytesIO(row["x"]))
        assert (image.format, image.size) == ("PNG", size)
    assert opened.tobytes() == decoded.tobytes()  # it can be read after its file was


def test_rows_with_a_schema_are_dictionaries() -> None:
    assert [row_of(element) for element in (Point(1), Pair(2), {"x": 3}, 4, Point)] == [
        *({"x": 1}, {"x": 2}, {"x": 3}),
        *(None, None),
    ]
