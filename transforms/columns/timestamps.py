"""Times as they are written, as whole numbers of a unit since 1970 in UTC. Pure; nothing goes through a float.

A time is a date, or a date with a time of day, as ISO 8601 writes it in its extended form and Arrow its timestamps:
`2024-01-31`, `2024-01-31T09:00Z`, `2024-01-31 09:00:00.123456789+0530`. One that names no zone is taken for UTC.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.printable import beginning
from shardmill.transforms.columns.arrow import as_text
from shardmill.transforms.columns.buffers import text_buffers
from shardmill.transforms.columns.text_values import parse_values
from shardmill.transforms.options.timestamps import UNITS

_ROWS = 1 << 13  # looked at together: their characters stay in the processor's cache
_LONGEST = 48  # characters of a time: 22 of a fraction at least
_FRACTION, _DIGITS = 20, 9  # where the digits of a fraction begin, and how many are nanoseconds
_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60  # seconds
_DATE_DIGITS, _TIME_DIGITS, _SECOND_DIGITS = (0, 1, 2, 3, 5, 6, 8, 9), (11, 12, 14, 15), (17, 18)

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """A column of times as numbers.

    Attributes:
      values: int64; null where a value is missing, or is no time.
      bad: bool, shape (rows,), those that are no time.
      beyond: those of them that are one, outside of what the unit counts to in 64 bits.
      naive: bool, shape (rows,), those that name no zone.
      cut: bool, shape (rows,), those that are more exact than the unit, and are the whole units before them.
      texts: what they were made of.
      unit: of `values`.
    """

    values: pa.Array
    bad: Flags
    beyond: Flags
    naive: Flags
    cut: Flags
    texts: pa.Array
    unit: str

    def reason(self, row: int) -> str:
        """Why a row has no time."""
        shown = beginning(as_text(self.texts[row].as_py()))
        if self.beyond[row]:
            return f"{shown} is beyond what 64 bits of {self.unit} reach, the years 1678 to 2262"
        return f"{shown} is no date and no time as ISO 8601 has them, such as 2024-01-31T09:00:00Z"


def read_times(texts: pa.Array, unit: str, counted: bool = False) -> Times:
    """The times that `texts`, binary, say, in a unit of UNITS since 1970-01-01T00:00:00Z; where they may be `counted`
    already, whole numbers are taken for so many of it."""
    if counted:
        numbers, _ = parse_values(texts.cast(pa.binary()), "int64")
        found = read_times(pc.if_else(pc.is_valid(numbers), pa.scalar(None, texts.type), texts), unit)
        return replace(found, values=pc.coalesce(numbers, found.values), texts=texts)
    missing = texts.is_null().to_numpy(zero_copy_only=False)
    data, offsets = text_buffers(texts)
    data = np.concatenate((data, np.zeros(_LONGEST, np.uint8)))
    parts = [
        _read(data, offsets[start : start + _ROWS + 1].astype(np.int64), unit) for start in range(0, len(texts), _ROWS)
    ]
    values, good, beyond, naive, cut = (
        (np.concatenate(columns) for columns in zip(*parts, strict=True))
        if parts
        else (np.zeros(0, np.int64), *(np.zeros(0, bool) for _ in range(4)))
    )
    good = good & ~missing
    return Times(pa.array(values, mask=~good), ~good & ~missing, beyond, naive & good, cut & good, texts, unit)


def _read(data: npt.NDArray[np.uint8], offsets: Numbers, unit: str) -> tuple[Numbers, Flags, Flags, Flags, Flags]:
    """Values, and which rows are good, beyond, naive and cut."""
    lengths = np.diff(offsets)
    text = data[offsets[:-1, None] + np.arange(_LONGEST)]
    text[np.arange(_LONGEST) >= lengths[:, None]] = 0
    digits = text - ord("0")  # what is none wraps, and is above 9
    date = _are_digits(digits, _DATE_DIGITS) & (text[:, 4] == ord("-")) & (text[:, 7] == ord("-"))
    is_day = lengths == 10
    has_time = _are_digits(digits, _TIME_DIGITS) & np.isin(text[:, 10], list(b"Tt ")) & (text[:, 13] == ord(":"))
    has_second = has_time & (text[:, 16] == ord(":")) & _are_digits(digits, _SECOND_DIGITS)
    run = np.argmax(digits[:, _FRACTION:] > 9, axis=1)  # digits of the fraction
    has_fraction = has_second & (text[:, 19] == ord(".")) & (run > 0)
    end = np.where(has_fraction, _FRACTION + run, np.where(has_second, 19, 16))
    offset, has_zone, is_zone = _offset(text, digits, end, lengths)
    days, real = _days(_number(digits, (0, 1, 2, 3)), _number(digits, (5, 6)), _number(digits, (8, 9)))
    hours, minutes = _number(digits, (11, 12)) * ~is_day, _number(digits, (14, 15)) * ~is_day
    seconds = _number(digits, (17, 18)) * has_second
    real &= (hours < 24) & (minutes < 60) & (seconds < 60)
    good = date & real & (is_day | (has_time & is_zone)) & (lengths < _LONGEST)
    total = np.where(good, days * _DAY + hours * _HOUR + minutes * _MINUTE + seconds - offset * ~is_day, 0)
    kept = np.arange(_FRACTION, _LONGEST) < (_FRACTION + run * has_fraction)[:, None]
    fraction = np.where(kept, digits[:, _FRACTION:], 0)
    nanoseconds = _number(fraction, tuple(range(_DIGITS)))
    units, rest = np.divmod(nanoseconds, UNITS["ns"] // UNITS[unit])
    fits = _fits(total, units, UNITS[unit])
    cut = (rest > 0) | fraction[:, _DIGITS:].any(axis=1)
    values = np.where(fits, total * UNITS[unit] + units, 0)
    return values, good & fits, good & ~fits, is_day | ~has_zone, cut


def _are_digits(digits: npt.NDArray[np.uint8], places: tuple[int, ...]) -> Flags:
    found: Flags = np.logical_and.reduce(digits[:, places] < 10, axis=1)
    return found


def _number(digits: npt.NDArray[np.uint8], places: tuple[int, ...]) -> Numbers:
    """The number whose digits stand there; anything where these are none."""
    powers = 10 ** np.arange(len(places) - 1, -1, -1, dtype=np.int64)
    number: Numbers = digits[:, places].astype(np.int64) @ powers
    return number


def _days(year: Numbers, month: Numbers, day: Numbers) -> tuple[Numbers, Flags]:
    """The days since 1970, and which of them there are."""
    months = (year - 1970) * 12 + month - 1
    first, following = _first_day(months), _first_day(months + 1)
    return first + day - 1, (month >= 1) & (month <= 12) & (day >= 1) & (day <= following - first)


def _first_day(months: Numbers) -> Numbers:
    """The days from 1970 to the first one of a month, counted from January 1970."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _offset(
    text: npt.NDArray[np.uint8], digits: npt.NDArray[np.uint8], end: Numbers, lengths: Numbers
) -> tuple[Numbers, Flags, Flags]:
    """The seconds that what stands from `end` on is ahead of UTC, whether anything stands there, and whether it is a
    zone, or nothing: Z, +hh, +hhmm or +hh:mm."""
    places = np.minimum(end[:, None] + np.arange(6), _LONGEST - 1)
    zone, figures = np.take_along_axis(text, places, 1), np.take_along_axis(digits, places, 1)
    size = lengths - end
    is_utc = (size == 1) & np.isin(zone[:, 0], list(b"Zz"))
    signed = np.isin(zone[:, 0], list(b"+-")) & _are_digits(figures, (1, 2))
    brief = (size == 5) & _are_digits(figures, (3, 4))
    full = (size == 6) & (zone[:, 3] == ord(":")) & _are_digits(figures, (4, 5))
    hours = _number(figures, (1, 2))
    minutes = np.where(brief, _number(figures, (3, 4)), np.where(full, _number(figures, (4, 5)), 0))
    is_offset = signed & ((size == 3) | brief | full) & (hours < 24) & (minutes < 60)
    ahead = np.where(is_offset, hours * _HOUR + minutes * _MINUTE, 0)
    return np.where(zone[:, 0] == ord("-"), -ahead, ahead), size > 0, (size == 0) | is_utc | is_offset


def _fits(seconds: Numbers, units: Numbers, size: int) -> Flags:
    """Whether so many seconds and units, of which `size` are a second, are units that 64 bits hold."""
    bounds = np.iinfo(np.int64)
    (most, last), (least, first) = divmod(int(bounds.max), size), divmod(int(bounds.min), size)
    fits: Flags = (seconds < most) | ((seconds == most) & (units <= last))
    fits &= (seconds > least) | ((seconds == least) & (units >= first))
    return fits
