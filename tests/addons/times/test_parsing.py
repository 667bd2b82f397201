"""Times as numbers, beside NumPy's own datetime64, Python's datetime and Arrow."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.addons.times.options import TIME_UNITS
from shardmill.addons.times.rows import Times, read_times


def times(*texts: str | None, unit: str = "ms") -> Times:
    return read_times(pa.array([text and text.encode() for text in texts], pa.large_binary()), unit)


ZONES = st.one_of(st.none(), st.integers(-23 * 60 - 59, 23 * 60 + 59))


@given(
    moment=st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31)),
    zone=ZONES,
    form=st.sampled_from(("+hh:mm", "+hhmm", "Z")),
    between=st.sampled_from("T t"),
    unit=st.sampled_from(("s", "ms", "us")),
)
def test_every_time_of_python(moment: datetime, zone: int | None, form: str, between: str, unit: str) -> None:
    text = moment.isoformat(between)
    aware = moment.replace(tzinfo=UTC)
    if zone is not None and form == "Z":
        text += "Z"
    elif zone is not None:
        sign, (hours, minutes) = "+-"[zone < 0], divmod(abs(zone), 60)
        text += f"{sign}{hours:02}{':' if ':' in form else ''}{minutes:02}"
        aware = moment.replace(tzinfo=timezone(timedelta(minutes=zone)))

    found = times(text, None, unit=unit)

    microseconds = (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert found.values.to_pylist() == [microseconds // (1_000_000 // TIME_UNITS[unit]), None]
    assert found.is_naive.tolist() == [zone is None, False]
    assert found.is_rounded.tolist() == [microseconds % (1_000_000 // TIME_UNITS[unit]) != 0, False]
    assert not found.is_invalid.any()


@pytest.mark.parametrize("unit", TIME_UNITS)
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "+05:30"])
def test_what_arrow_writes_of_its_own(unit: str, zone: str | None) -> None:
    rng = np.random.default_rng(5)
    numbers = rng.integers(-(2**31), 2**32, 20_000) * TIME_UNITS[unit] + rng.integers(0, TIME_UNITS[unit], 20_000)
    array = pa.array(numbers, pa.timestamp(unit, zone))
    found = read_times(array.cast(pa.string()).cast(pa.large_binary()), unit)
    assert not found.is_invalid.any()
    assert found.values.to_pylist() == numbers.tolist()
    assert found.is_naive.all() == (zone is None)


def test_dates_are_midnight() -> None:
    days = np.arange("0001-01-01", "9999-12-31", 997, dtype="datetime64[D]")
    found = times(*map(str, days), unit="s")
    assert found.values.to_pylist() == days.astype("datetime64[s]").astype(np.int64).tolist()
    assert found.is_naive.all()


@pytest.mark.parametrize(
    ("text", "unit", "value", "is_cut"),
    [
        ("2262-04-11T23:47:16.854775807Z", "ns", 2**63 - 1, False),
        ("1677-09-21T00:12:43.145224192Z", "ns", -(2**63), False),
        ("1969-12-31T23:59:59.999999999Z", "ns", -1, False),
        ("1969-12-31T23:59:59.999Z", "s", -1, True),
        ("2024-01-31T09:00:00.1234567891Z", "ns", 1706691600123456789, True),
        ("2024-01-31T09:00:00.1230000000000000000000Z", "ms", 1706691600123, False),
        ("2024-01-31T09:00+05", "s", 1706691600 - 5 * 3600, False),
        ("2024-02-29", "s", 1709164800, False),
    ],
)
def test_exact_ones(text: str, unit: str, value: int, is_cut: bool) -> None:
    found = times(text, unit=unit)
    assert (found.values.to_pylist(), found.is_rounded.tolist()) == ([value], [is_cut])


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "1706691600", "2024-1-31", "31.01.2024", "2024-02-30", "2023-02-29", "2024-13-01"),
        *("2024-00-10", "2024-01-00", "2024-01-31T24:00", "2024-01-31T23:60", "2024-01-31T09:00:60Z"),
        *("2024-01-31T", "2024-01-31T09", "2024-01-31T09:00:00.", "2024-01-31T09:00:00.Z", "2024-01-31T09:00ZZ"),
        *("2024-01-31T09:00+24:00", "2024-01-31T09:00+0560", "2024-01-31T09:00+5", "2024-01-31+01:00", "2024-01-31Z"),
        *(" 2024-01-31", "2024-01-31 ", "٢٠٢٤-01-31", "2024-01-31T09:00:00.12345678901234567890123456789Z"),
    ],
)
def test_no_times(text: str) -> None:
    found = times("2024-01-31", text, None, "2024-01-31")
    assert found.is_invalid.tolist() == [False, True, False, False]
    assert found.values.is_valid().to_pylist() == [True, False, False, True]
    assert found.reason(1).endswith("is no date and no time as ISO 8601 has them, such as 2024-01-31T09:00:00Z")


@pytest.mark.parametrize("text", ["2262-04-11T23:47:16.854775808Z", "1677-09-21T00:12:43.145224191Z", "0001-01-01"])
def test_beyond_nanoseconds(text: str) -> None:
    found = times(text, unit="ns")
    assert found.is_invalid.tolist() == [True]
    assert found.reason(0) == f"{text} is beyond what 64 bits of ns reach, the years 1678 to 2262"
    assert not times(text, unit="us").is_invalid.any()


def test_more_than_are_read_at_once_and_a_slice_of_a_column() -> None:
    texts = [f"2024-01-{day % 31 + 1:02}" if day % 7 else None for day in range(30_000)]
    column = pa.array([text and text.encode() for text in texts], pa.large_binary())
    found = read_times(column.slice(5), "s")
    expected = [text and int(np.datetime64(text, "s").astype(np.int64)) for text in texts[5:]]
    assert found.values.to_pylist() == expected


def test_none_at_all() -> None:
    assert len(times().values) == 0
