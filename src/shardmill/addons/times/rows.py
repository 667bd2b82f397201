"""Columns of times: the hooks by which texts of dates and times become numbers."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.addons.times.options import TIME_UNITS, TimesOptions
from shardmill.data.features import Feature, TimeUnit
from shardmill.errors import UserError
from shardmill.text import plural, shorten
from shardmill.transforms.columns.arrow import Flags, as_text, text_buffers
from shardmill.transforms.columns.text import parse_values
from shardmill.transforms.columns.types import ColumnType, Inferred
from shardmill.transforms.features.rows import RowAddOn, RowBatch
from shardmill.transforms.findings import Finding, TableFlags
from shardmill.transforms.layout.columns import Columns
from shardmill.transforms.layout.options import TableOptions

_ROWS = 1 << 13  # looked at together: their characters stay in the processor's cache
_LONGEST = 48  # characters of a time: 22 of a fraction at least
_FRACTION, _DIGITS = 20, 9  # where the digits of a fraction begin, and how many are nanoseconds
_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60  # seconds
_DATE_DIGITS, _TIME_DIGITS, _SECOND_DIGITS = (0, 1, 2, 3, 5, 6, 8, 9), (11, 12, 14, 15), (17, 18)

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """A column of times as numbers."""

    values: pa.Array  # int64; null for missing values and for texts that are no time
    is_invalid: Flags  # bool (rows,), texts that are no time in range
    is_out_of_range: Flags  # subset of is_invalid: times outside the range of int64 in this unit
    is_naive: Flags  # bool (rows,), times without a zone
    is_rounded: Flags  # bool (rows,), times finer than the unit, rounded down
    texts: pa.Array  # the parsed texts
    unit: str  # unit of values

    def reason(self, row: int) -> str:
        """Return the reason why a row has no time."""
        shown = shorten(as_text(self.texts[row].as_py()))
        if self.is_out_of_range[row]:
            return f"{shown} is beyond what 64 bits of {self.unit} reach, the years 1678 to 2262"
        return f"{shown} is no date and no time as ISO 8601 has them, such as 2024-01-31T09:00:00Z"


def read_times(texts: pa.Array, unit: str, counted: bool = False) -> Times:
    """Parse binary `texts` as times in `unit` since 1970 in UTC; if `counted`, whole numbers are counts of the unit."""
    if counted:
        numbers, _ = parse_values(texts.cast(pa.binary()), "int64")
        found = read_times(pc.if_else(pc.is_valid(numbers), pa.scalar(None, texts.type), texts), unit)
        return replace(found, values=pc.coalesce(numbers, found.values), texts=texts)
    missing = texts.is_null().to_numpy(zero_copy_only=False)
    data, offsets = text_buffers(texts)
    data = np.concatenate((data, np.zeros(_LONGEST, np.uint8)))
    starts = range(0, max(len(texts), 1), _ROWS)
    parts = [_read(data, offsets[start : start + _ROWS + 1].astype(np.int64), unit) for start in starts]
    values, good, beyond, naive, cut = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    good = good & ~missing
    return Times(pa.array(values, mask=~good), ~good & ~missing, beyond, naive & good, cut & good, texts, unit)


def _read(data: npt.NDArray[np.uint8], offsets: Numbers, unit: str) -> tuple[Numbers, Flags, Flags, Flags, Flags]:
    """Return values, and flags of the rows that are good, beyond, naive and cut."""
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
    units, rest = np.divmod(nanoseconds, TIME_UNITS["ns"] // TIME_UNITS[unit])
    fits = _fits(total, units, TIME_UNITS[unit])
    cut = (rest > 0) | fraction[:, _DIGITS:].any(axis=1)
    values = np.where(fits, total * TIME_UNITS[unit] + units, 0)
    return values, good & fits, good & ~fits, is_day | ~has_zone, cut


def _are_digits(digits: npt.NDArray[np.uint8], positions: tuple[int, ...]) -> Flags:
    found: Flags = np.logical_and.reduce(digits[:, positions] < 10, axis=1)
    return found


def _number(digits: npt.NDArray[np.uint8], positions: tuple[int, ...]) -> Numbers:
    """Return the number written by the digits at `positions`; arbitrary where these are not digits."""
    powers = 10 ** np.arange(len(positions) - 1, -1, -1, dtype=np.int64)
    number: Numbers = digits[:, positions].astype(np.int64) @ powers
    return number


def _days(year: Numbers, month: Numbers, day: Numbers) -> tuple[Numbers, Flags]:
    months = (year - 1970) * 12 + month - 1
    first, following = _first_day(months), _first_day(months + 1)
    return first + day - 1, (month >= 1) & (month <= 12) & (day >= 1) & (day <= following - first)


def _first_day(months: Numbers) -> Numbers:
    """Return the days from 1970 to the first day of each month; months count from January 1970."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _offset(
    text: npt.NDArray[np.uint8], digits: npt.NDArray[np.uint8], end: Numbers, lengths: Numbers
) -> tuple[Numbers, Flags, Flags]:
    """Parse the zone that starts at `end`: Z, +hh, +hhmm or +hh:mm.

    Return the seconds ahead of UTC, flags of rows with text at `end`, and flags of those with a zone or no text.
    """
    positions = np.minimum(end[:, None] + np.arange(6), _LONGEST - 1)
    zone, figures = np.take_along_axis(text, positions, 1), np.take_along_axis(digits, positions, 1)
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
    """Flag the rows whose `seconds` and `units` (`size` units a second), counted in units, fit int64."""
    bounds = np.iinfo(np.int64)
    (most, last), (least, first) = divmod(int(bounds.max), size), divmod(int(bounds.min), size)
    fits: Flags = (seconds < most) | ((seconds == most) & (units <= last))
    fits &= (seconds > least) | ((seconds == least) & (units >= first))
    return fits


@dataclass(frozen=True, slots=True)
class TimeChanges(Finding):
    """The times that were converted to numbers."""

    rank: ClassVar[int] = 6
    units: dict[str, str] = field(default_factory=dict)  # by column
    naive: dict[str, int] = field(default_factory=dict)  # values without a zone, by column
    cut: dict[str, int] = field(default_factory=dict)  # values that are more exact than the unit, by column

    @classmethod
    def of_column(cls, name: str, times: Times, good: Flags) -> Self:
        """Return the finding of the `good` rows of a column."""
        naive, cut = int(times.is_naive[good].sum()), int(times.is_rounded[good].sum())
        return cls({name: times.unit}, {name: naive}, {name: cut})

    def notices(self, flags: TableFlags, rows: int) -> Iterator[str]:
        for name, unit in self.units.items():
            if naive := self.naive[name]:
                were = plural(naive, "value without a zone was", "values without a zone were")
                yield f"column {name!r}: {were} taken for UTC"
            if cut := self.cut[name]:
                have = plural(cut, "value is", "values are")
                yield f"column {name!r}: {have} more exact than {unit}; the whole {unit} before is stored"


@dataclass(frozen=True)
class TimeColumns(RowAddOn):
    """The columns of times: those of --timestamp, and the times in a schema."""

    units: dict[str, TimeUnit]  # by column of --timestamp

    @classmethod
    def of(cls, options: TimesOptions, _: Any) -> Self:
        """Return the columns of times of a job."""
        return cls(dict(options.timestamp))

    def change_columns(self, columns: Columns, inferred: Inferred, options: TableOptions) -> Columns:
        """Read columns of times as text and publish int64; a schema gives their unit but not the form of values."""
        types, features = dict(columns.types), []
        for feature in columns.features:
            if (unit := self.units.get(feature.name)) is not None:
                _check_time_column(feature, unit, columns.types[feature.name], inferred, options)
                feature = replace(feature, dtype="int64", kind="tensor", time=unit)
            if _is_time(feature, options):
                types[feature.name] = ColumnType("bytes", None, 0, is_time=True)
            features.append(feature)
        return replace(columns, types=types, features=tuple(features))

    def prepare(self, rows: RowBatch) -> None:
        types = rows.layout.types
        for feature in rows.layout.features:
            name = feature.name
            if not feature.time or name not in types or not types[name].is_time:
                continue
            found = read_times(rows.batch[name], feature.time, counted=name not in self.units)
            rows.reject(found.is_invalid, lambda row, name=name, found=found: f"column {name!r}: {found.reason(row)}")
            rows.set_column(name, found.values)
            rows.counters.append(partial(TimeChanges.of_column, name, found))


def _is_time(feature: Feature, options: TableOptions) -> bool:
    """Return True if a feature of rows is read as a time; numeric labels are left unchanged."""
    named = (*options.label_columns, *options.image)
    return bool(feature.time) and not feature.shape and feature.kind == "tensor" and feature.name not in named


def _check_time_column(
    feature: Feature, unit: TimeUnit, column: ColumnType, inferred: Inferred, options: TableOptions
) -> None:
    subject = f"--timestamp {feature.name}={unit}"
    for flag, names in (("--label", options.label_columns), ("--image", options.image)):
        if feature.name in names:
            raise UserError(f"{subject} is also in {flag}; drop the one or the other")
    if feature.time not in ("", unit):
        raise UserError(f"{subject}: {options.schema_name} says that its times are in {feature.time}")
    declared = inferred.declared.get(feature.name)
    wanted = "bytes" if options.schema is None else "int64"
    if (
        feature.shape
        or column.dtype != wanted
        or feature.kind == "class_label"
        or (declared and declared.kind == "image")
    ):
        kind = "durations" if declared and declared.unit else declared.kind if declared else column.dtype
        holds = f"lists of {column.dtype}" if feature.shape else kind
        if options.schema is not None:
            raise UserError(f"{subject}: {options.schema_name} says that it holds {holds}; expected int64")
        raise UserError(
            f"{subject}: the column holds {holds}; expected one date or time in each row, as ISO 8601 has them or as"
            " times of the file's own"
        )
