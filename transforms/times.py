"""Texts of points in time: one parser of ISO 8601 for every option that takes times, and the forms of other dates."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
EXAMPLE = "as ISO 8601 has them, such as 2024-01-31T09:00:00Z"
_NANOSECONDS = 10**9  # in a second
_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60  # seconds
_ROWS = 1 << 10  # parsed together: Arrow refuses all of them for one of another form
_FRACTION_DIGITS = 15  # of an hour: in seconds, int64 holds as many
_ZONE = r"(?P<zone>[Zz]|(?P<sign>[+-])(?P<ahead_hour>\d\d)(?::?(?P<ahead_minute>\d\d)(?::?(?P<ahead_second>\d\d))?)?)"
_FRACTION = r"(?:[.,](?P<fraction>\d+))?"


def _pattern(year: str, dash: str, month: str, colon: str) -> str:
    days = rf"(?P<ordinal>\d{{3}})|W(?P<week>\d\d)(?:{dash}(?P<weekday>[1-7]))?|(?P<month>\d\d){month}"
    clock = rf"(?P<hour>\d\d)(?:{colon}(?P<minute>\d\d)(?:{colon}(?P<second>\d\d))?)?{_FRACTION}"
    return rf"\A(?P<year>{year})(?:{dash}(?:{days})(?:[Tt ]{clock}{_ZONE}?)?)?\z"


# With dashes and colons, in which years may have a sign and more digits; and without
_PATTERNS = (
    _pattern(r"\d{4}|[+-]\d{4,6}", "-", r"(?:-(?P<day>\d\d))?", ":"),
    _pattern(r"\d{4}", "", r"(?P<day>\d\d)", ""),
)


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """A column of points in time, exact to a nanosecond; arbitrary where a text is none."""

    seconds: Numbers  # (rows,), since 1970 in UTC
    nanoseconds: Numbers  # (rows,), of the second
    is_time: Flags  # (rows,)
    is_finer: Flags  # (rows,), times with digits behind the nanosecond
    has_zone: Flags  # (rows,)

    def count(self, per_second: int) -> tuple[Numbers, Flags, Flags]:
        """Return whole units since 1970, and flags of the rows that fit int64 and of those that are rounded down."""
        units, rest = np.divmod(self.nanoseconds, _NANOSECONDS // per_second)
        bounds = np.iinfo(np.int64)
        (most, last), (least, first) = divmod(int(bounds.max), per_second), divmod(int(bounds.min), per_second)
        fits: Flags = (self.seconds < most) | ((self.seconds == most) & (units <= last))
        fits &= (self.seconds > least) | ((self.seconds == least) & (units >= first))
        return np.where(fits, self.seconds * per_second + units, 0), fits, (rest > 0) | self.is_finer


def parse_moments(texts: pa.Array) -> Moments:
    """Parse dates and times as ISO 8601 has them; times without a zone are UTC, and dates are their midnight.

    Texts are binary. Dates are of a calendar, an ordinal such as 2024-031, or a week such as 2024-W05-3. 24:00 is the
    next midnight. Seconds have any number of digits, and the last of hours, minutes and seconds may have a fraction.
    """
    texts = texts.cast(pa.large_binary())
    parts = [_parse_rows(texts.slice(start, _ROWS)) for start in range(0, max(len(texts), 1), _ROWS)]
    return Moments(*(np.concatenate([getattr(part, name) for part in parts]) for name in Moments.__slots__))


def _parse_rows(texts: pa.LargeBinaryArray) -> Moments:
    for zone in ("UTC", None):  # Arrow reads rows of one common form many times faster
        try:
            found = texts.view(pa.large_string()).cast(pa.timestamp("ns", zone)).cast(pa.int64())
        except pa.ArrowInvalid:
            continue
        numbers, valid = found.fill_null(0).to_numpy(), found.is_valid().to_numpy(zero_copy_only=False)
        if not (np.abs(numbers) > np.iinfo(np.int64).max - _DAY * _NANOSECONDS).any():  # an offset may pass the limit
            seconds, nanoseconds = np.divmod(numbers, _NANOSECONDS)
            return Moments(seconds, nanoseconds, valid, np.zeros(len(texts), bool), np.full(len(texts), zone == "UTC"))
    plain, basic = (_parse_groups(pc.extract_regex(texts, pattern)) for pattern in _PATTERNS)
    return choose(basic.is_time, basic, plain)


def choose(flags: Flags, one: Moments, other: Moments) -> Moments:
    """Return the times of `one` in the rows that are flagged, and of `other` in the rest."""
    return Moments(*(np.where(flags, getattr(one, name), getattr(other, name)) for name in Moments.__slots__))


def _parse_groups(fields: pa.StructArray) -> Moments:
    """Return the times in the groups of a pattern; rows without a match are no times."""
    names = [fields.type.field(index).name for index in range(fields.type.num_fields)]
    texts = {name: pc.fill_null(pc.struct_field(fields, name), b"") for name in names}
    given = {name: pc.binary_length(text).to_numpy() > 0 for name, text in texts.items()}
    number = {name: _number(text) for name, text in texts.items() if name not in ("fraction", "zone", "sign")}
    days, is_real = _days(number, given)
    is_end = number["hour"] == 24
    clock = number["hour"] * _HOUR + number["minute"] * _MINUTE + number["second"]
    is_real &= (number["minute"] < 60) & (number["second"] < 60) & ((number["hour"] < 24) | (clock == _DAY))
    ahead = number["ahead_hour"] * _HOUR + number["ahead_minute"] * _MINUTE + number["ahead_second"]
    is_real &= (number["ahead_hour"] < 24) & (number["ahead_minute"] < 60) & (number["ahead_second"] < 60)
    ahead = np.where(pc.equal(texts["sign"], b"-").to_numpy(zero_copy_only=False), -ahead, ahead)
    digits = pc.binary_slice(texts["fraction"], 0, _FRACTION_DIGITS).view(pa.large_string())
    scale = np.where(given["second"], 1, np.where(given["minute"], _MINUTE, _HOUR))
    fraction = _number(pc.utf8_rpad(digits, _FRACTION_DIGITS, "0").view(pa.large_binary())) * scale
    further, rest = np.divmod(fraction, 10**_FRACTION_DIGITS)
    nanoseconds, rest = np.divmod(rest, 10**_FRACTION_DIGITS // _NANOSECONDS)
    beyond = pc.match_substring_regex(texts["fraction"], rf"\A\d{{{_FRACTION_DIGITS}}}\d*[1-9]")
    is_finer = (rest > 0) | beyond.to_numpy(zero_copy_only=False)
    is_real &= ~is_end | ~(fraction > 0)
    return Moments(days * _DAY + clock + further - ahead, nanoseconds, is_real & given["year"], is_finer, given["zone"])


def _number(texts: pa.Array) -> Numbers:
    digits = pc.ascii_ltrim(texts.view(pa.large_string()), "+")
    number: Numbers = pc.if_else(pc.equal(digits, ""), "0", digits).cast(pa.int64()).to_numpy()
    return number


def _days(number: Mapping[str, Numbers], given: Mapping[str, Flags]) -> tuple[Numbers, Flags]:
    """Return the days from 1970 to each date, and flags of the dates that the calendar has."""
    months = (number["year"] - 1970) * 12
    new_year, next_year = _first_day(months), _first_day(months + 12)
    month = np.where(given["month"], number["month"] - 1, 0)
    first, following = _first_day(months + month), _first_day(months + month + 1)
    days = first + np.where(given["day"], number["day"] - 1, 0)
    is_real = (month >= 0) & (month < 12) & (days >= first) & (days < following)
    ordinal = new_year + number["ordinal"] - 1
    is_ordinal = (ordinal >= new_year) & (ordinal < next_year)
    fourth = new_year + 3  # of January, which is in week 1; day 0 of 1970 was a Thursday
    monday = fourth - (fourth + 3) % 7 + (number["week"] - 1) * 7
    is_week = (number["week"] > 0) & (monday + 3 < next_year)  # the Thursday says of which year a week is
    weekday = np.where(given["weekday"], number["weekday"] - 1, 0)
    days = np.where(given["week"], monday + weekday, np.where(given["ordinal"], ordinal, days))
    return days, np.where(given["week"], is_week, np.where(given["ordinal"], is_ordinal, is_real))


def _first_day(months: Numbers) -> Numbers:
    """Return the days from 1970 to the first day of each month; months count from January 1970."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


_FIRST_VALUES = 100  # values of a column, most of which look like dates if it holds dates
_DATE = r"\A\d{1,4}[-./]\d{1,2}[-./]\d{1,4}(?:[T ]\d{1,2}:\d\d.*)?\z"
_ISO = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{0,%d}0*)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
_PARTS = {"%d": "(?:0?[1-9]|[12][0-9]|3[01])", "%m": "(?:0?[1-9]|1[0-2])", "%Y": "[0-9]{4}", "%p": "[AP]M"}
_PARTS |= dict.fromkeys(("%H", "%I"), "[0-9]{1,2}")
_ORDERS = ("%d{0}%m{0}%Y", "%m{0}%d{0}%Y", "%Y{0}%m{0}%d", "%d{0}%m{0}%y", "%m{0}%d{0}%y")
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_FORMS = {unit: _ISO % digits for digits, unit in ((0, "s"), (3, "ms"), (6, "us"), (9, "ns"))} | {
    f"s:{form}": re.sub("%.", lambda part: _PARTS.get(part[0], "[0-9]{2}"), form.replace(".", "[.]"))
    for mark in "-./"
    for form in (order.format(mark) + clock for order in _ORDERS for clock in _CLOCKS)
}


def date_forms(texts: pa.Array) -> tuple[Counter[str], int]:
    """Return how many texts are dates or times, by what --timestamp reads them with, and the row of the first, or -1.

    01.02.2024 counts for `s:%d.%m.%Y` and for `s:%m.%d.%Y`, 2024-02-01 for `s`. At least one text is not null.
    """
    start = int(texts.is_valid().to_numpy(zero_copy_only=False).argmax())
    some = texts.slice(start, _FIRST_VALUES).cast(pa.large_binary()).view(pa.large_string())
    looks = pc.fill_null(pc.match_substring_regex(some, _DATE), False)
    if 2 * looks.true_count < len(some) - some.null_count:
        return Counter(), -1
    counted = texts.cast(pa.large_binary()).view(pa.large_string()).drop_null().value_counts()
    shown, values, counts = some.filter(looks).unique().to_pylist(), counted.field(0), counted.field(1).to_numpy()
    found = Counter[str]()
    for form, pattern in _FORMS.items():
        if ":" not in form and found["s"] == counts.sum():
            found[form] = found["s"]  # what is exact to a second is so to less
        elif any(re.fullmatch(pattern, text) for text in shown):
            fits = pc.match_substring_regex(values, rf"\A(?:{pattern})\z")
            found[form] = int(counts[fits.to_numpy(zero_copy_only=False)].sum())
    return found, start + pc.index(looks, True).as_py()
