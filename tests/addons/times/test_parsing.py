"""Times as numbers, beside NumPy's own datetime64, Python's datetime and Arrow."""

import re
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.addons.times.options import TIME_UNITS, parse_timestamps
from shardmill.addons.times.rows import Times, read_times
from shardmill.flag_values import OptionValueError


def times(*texts: str | None, unit: str = "ms", form: str = "", counted: bool = False) -> Times:
    return read_times(pa.array([text and text.encode() for text in texts], pa.large_binary()), unit, form, counted)


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


@given(moment=st.datetimes(datetime(1, 1, 8), datetime(9998, 12, 31)), is_basic=st.booleans(), digits=st.integers(0, 6))
def test_every_form_of_a_date(moment: datetime, is_basic: bool, digits: int) -> None:
    """Calendar, ordinal and week dates, as Python's calendar has them, with a fraction of any length."""
    year, week, weekday = moment.isocalendar()
    dates = (f"{moment:%Y-%m-%d}".zfill(10), f"{moment.year:04}-{moment:%j}", f"{year:04}-W{week:02}-{weekday}")
    rest = f"T{moment:%H:%M:%S}.{moment.microsecond:06}{'7' * digits}"
    texts = [f"{date}{rest}" for date in dates]
    found = times(*(re.sub("[-:]", "", text) if is_basic else text for text in texts), unit="us")

    microseconds = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    assert found.values.to_pylist() == [microseconds] * 3
    assert found.is_rounded.tolist() == [digits > 0] * 3


def test_numbers_count_the_unit_but_may_be_dates() -> None:
    found = times("1700000000", "1700000000.25", "-1.5", "1.7e9", "5", None, "soon", "9" * 30, counted=True, unit="s")
    assert found.values.to_pylist() == [1700000000, 1700000000, -2, 1700000000, 5, None, None, None]
    assert found.is_rounded.tolist() == [False, True, True, *[False] * 5]
    found = times("20240131", "2024031", "2024", "99990131", "20240230", counted=True, unit="s")
    assert found.values.to_pylist() == [None, None, None, 99990131, 20240230]
    assert found.reason("a,b", 1) == (
        "column 'a,b': 2024031 may be a date or a number of seconds: --timestamp '\"a,b\"=s:%Y%j' reads dates,"
        " --timestamp '\"a,b\"=s:%s' seconds since 1970"
    )
    assert times("20240131", "2024031", "2024").values.is_valid().to_pylist() == [True, True, True]


def test_forms_of_strptime() -> None:
    found = times("31/01/2024", "1/2/2024", "2024-01-31", None, form="%d/%m/%Y", unit="s")
    assert found.values.to_pylist() == [1706659200, 1706745600, None, None]
    assert found.is_naive.tolist() == [True, True, False, False]
    assert found.reason("t", 2) == "column 't': 2024-01-31 is no time of the form %d/%m/%Y"
    assert times("31.1.2024 10:00 +0100", form="%d.%m.%Y %H:%M %z").values.to_pylist() == [1706691600000]
    assert times("2024031", form="%Y%j", unit="s").values.to_pylist() == [1706659200]
    assert times("1700000000.25", "20240131", "2024-01-31", form="%s").values.to_pylist() == [
        *(1700000000250, 20240131000),
        None,
    ]
    parse_timestamps({"t": "s:%d/%b/%Y:%H:%M:%S %z"})  # as Apache's logs have it
    for form in ("%d/%m", "%Q", "%d%"):
        with pytest.raises(OptionValueError, match="form"):
            parse_timestamps({"t": f"s:{form}"})


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
        ("2024-01-31T09:00:00.12345678901234567890123456789Z", "ns", 1706691600123456789, True),
        ("2024-01-31T24:00", "s", 1706745600, False),
        ("20240131T0930,5+0100", "s", 1706689830, False),
        ("2024-01-31T09.25Z", "s", 1706692500, False),
        ("1900-01-01 00:19:32+00:19:32", "s", -2208988800, False),
        ("1900-01-01 00:19:32+001932", "s", -2208988800, False),
        ("+012345-01-02", "s", 327403468800, False),
        ("-0044-03-15", "s", -63549360000, False),
    ],
)
def test_exact_ones(text: str, unit: str, value: int, is_cut: bool) -> None:
    found = times(text, unit=unit)
    assert (found.values.to_pylist(), found.is_rounded.tolist()) == ([value], [is_cut])


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "1706691600", "2024-1-31", "31.01.2024", "2024-02-30", "2023-02-29", "2024-13-01"),
        *("2024-00-10", "2024-01-00", "2024-01-31T24:00:01", "2024-01-31T23:60", "2024-01-31T09:00:60Z"),
        *("2024-01-31T24:00:00.5", "2024-01-31T", "2024-0131", "202401", "2024-01-31T0900", "20240131T09:00"),
        *("2023-366", "2024-000", "2024-W00-1", "2024-W53-1", "2024-W05-8", "2024-01-31T09:00:00.1.2"),
        *("2024-01-31T09:00:00.", "2024-01-31T09:00:00.Z", "2024-01-31T09:00ZZ"),
        *("2024-01-31T09:00+24:00", "2024-01-31T09:00+0560", "2024-01-31T09:00+5", "2024-01-31+01:00", "2024-01-31Z"),
        *(" 2024-01-31", "2024-01-31 ", "٢٠٢٤-01-31", "2024-01-31T09:00:00 UTC", "T09:00"),
    ],
)
def test_no_times(text: str) -> None:
    found = times("2024-01-31", text, None, "2024-01-31")
    assert found.is_invalid.tolist() == [False, True, False, False]
    assert found.values.is_valid().to_pylist() == [True, False, False, True]
    assert found.reason("t", 1).endswith("is no date and no time as ISO 8601 has them, such as 2024-01-31T09:00:00Z")


@pytest.mark.parametrize("text", ["2262-04-11T23:47:16.854775808Z", "1677-09-21T00:12:43.145224191Z", "0001-01-01"])
def test_beyond_nanoseconds(text: str) -> None:
    found = times(text, unit="ns")
    assert found.is_invalid.tolist() == [True]
    assert found.reason("t", 0) == f"column 't': {text} is beyond what 64 bits of ns reach, the years 1678 to 2262"
    assert not times(text, unit="us").is_invalid.any()


def test_more_than_are_read_at_once_and_a_slice_of_a_column() -> None:
    texts = [f"2024-01-{day % 31 + 1:02}" if day % 7 else None for day in range(30_000)]
    column = pa.array([text and text.encode() for text in texts], pa.large_binary())
    found = read_times(column.slice(5), "s")
    expected = [text and int(np.datetime64(text, "s").astype(np.int64)) for text in texts[5:]]
    assert found.values.to_pylist() == expected


def test_none_at_all() -> None:
    assert len(times().values) == 0
