"""Columns of times: the hooks by which texts of dates and times become numbers."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.addons.times.options import EPOCH, TIME_UNITS, TimesOptions
from shardmill.data.features import Feature, TimeUnit
from shardmill.errors import UserError
from shardmill.flag_values import assign
from shardmill.text import plural, shorten
from shardmill.transforms.columns.arrow import Flags, as_text
from shardmill.transforms.columns.types import ColumnType, DeclaredColumn, Inferred
from shardmill.transforms.features.rows import RowAddOn, RowBatch
from shardmill.transforms.findings import Finding
from shardmill.transforms.layout.columns import Columns
from shardmill.transforms.layout.options import TableOptions
from shardmill.transforms.times import EXAMPLE, Moments, choose, parse_moments

_COUNT = re.compile(rb"[+-]?\d{1,40}(?:\.\d{0,40})?(?:[eE][+-]?\d{1,2})?")
_DATES = {4: "%Y", 7: "%Y%j", 8: "%Y%m%d"}  # forms of dates that are numbers, too, by their digits
_USUAL = range(-170 * 31_556_952, 230 * 31_556_952)  # seconds: a number that is a date of these years may be one
_INT64 = range(-(1 << 63), 1 << 63)
Row = tuple[int, int, bool, bool, bool]  # of Moments
_NONE: Row = (0, 0, False, False, False)


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """A column of times as numbers."""

    values: pa.Array  # int64; null for missing values and for texts that are no time
    is_invalid: Flags  # bool (rows,), texts that are no time in range
    is_out_of_range: Flags  # subset of is_invalid: times outside the range of int64 in this unit
    is_naive: Flags  # bool (rows,), times without a zone
    is_rounded: Flags  # bool (rows,), times finer than the unit, rounded down
    is_count: Flags  # bool (rows,), numbers that count a unit
    texts: pa.Array  # the parsed texts
    unit: str  # unit of values
    form: str = ""  # of the texts, as strptime has it; "" for ISO 8601

    def reason(self, name: str, row: int) -> str:
        """Return the reason why a row of the column `name` has no time."""
        text = self.texts[row].as_py()
        shown = f"column {name!r}: {shorten(as_text(text))}"
        if self.is_out_of_range[row]:
            years = ", the years 1678 to 2262" if self.unit == "ns" else ""
            return f"{shown} is beyond what 64 bits of {self.unit} reach{years}"
        if self.form:
            return f"{shown} is no time of the form {self.form}"
        if self.is_count[row]:
            forms = (_DATES[len(text)], EPOCH)
            date, count = (f"--timestamp {assign(name, f'{self.unit}:{form}')}" for form in forms)
            return f"{shown} may be a date or a number of seconds: {date} reads dates, {count} seconds since 1970"
        return f"{shown} is no date and no time {EXAMPLE}"


def read_times(texts: pa.Array, unit: str, form: str = "", counted: bool = False) -> Times:
    """Parse binary `texts` as times in `unit` since 1970 in UTC.

    They are as ISO 8601 has them, or have the `form` of strptime; %s means seconds since 1970. If `counted`, numbers
    count the unit; those that may be dates, too, such as 20240131, are invalid.
    """
    per_second = TIME_UNITS[unit]
    is_count = is_unclear = np.zeros(len(texts), bool)
    if form:
        parse = partial(_read_count, 1) if form == EPOCH else partial(_read_form, form)
        moments = _parse_each(texts, parse)
    else:
        moments = parse_moments(texts)
    if counted:
        counts = _parse_each(texts, partial(_read_count, per_second))
        is_count = counts.is_time
        is_unclear = is_count & moments.is_time & (moments.seconds >= _USUAL[0]) & (moments.seconds < _USUAL[-1])
        moments = choose(is_count, counts, moments)
    values, fits, cut = moments.count(per_second)
    good = moments.is_time & fits & ~is_unclear
    is_invalid = ~good & texts.is_valid().to_numpy(zero_copy_only=False)
    naive, values = good & ~moments.has_zone, pa.array(values, mask=~good)
    return Times(values, is_invalid, moments.is_time & ~fits, naive, good & cut, is_count, texts, unit, form)


def _parse_each(texts: pa.Array, read: Callable[[bytes], Row]) -> Moments:
    encoded = texts.dictionary_encode()
    found = [read(text) for text in (*encoded.dictionary.to_pylist(), b"")]
    rows = pc.fill_null(encoded.indices, len(found) - 1).to_numpy()
    return Moments(*(np.array(column)[rows] for column in zip(*found, strict=True)))


def _read_count(per_second: int, text: bytes) -> Row:
    seconds = Fraction(text.decode()) / per_second if _COUNT.fullmatch(text) else None
    if seconds is None or math.floor(seconds) not in _INT64:
        return _NONE
    nanoseconds = seconds % 1 * 1_000_000_000
    return math.floor(seconds), math.floor(nanoseconds), True, nanoseconds.denominator > 1, True


def _read_form(form: str, text: bytes) -> Row:
    try:
        found = datetime.strptime(text.decode(), form)
    except ValueError:  # also of bytes that are not UTF-8
        return _NONE
    since = found.replace(tzinfo=found.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return since.days * 86_400 + since.seconds, since.microseconds * 1000, True, False, found.tzinfo is not None


@dataclass(frozen=True, slots=True)
class TimeChanges(Finding):
    """The times that were converted to numbers."""

    rank: ClassVar[int] = 7
    units: dict[str, str] = field(default_factory=dict)  # by column
    naive: dict[str, int] = field(default_factory=dict)  # values without a zone, by column
    cut: dict[str, int] = field(default_factory=dict)  # values that are more exact than the unit, by column
    counts: dict[tuple[str, str], int] = field(default_factory=dict)  # numbers that count the unit, by column and year

    @classmethod
    def of_column(cls, name: str, times: Times, good: Flags) -> Self:
        """Return the finding of the `good` rows of a column."""
        naive, cut = int(times.is_naive[good].sum()), int(times.is_rounded[good].sum())
        counts = times.values.filter(pa.array(good & times.is_count & ~times.is_invalid))
        years = counts.to_numpy().astype(f"datetime64[{times.unit}]").astype("datetime64[Y]").astype(str)
        by_year = {(name, year): number for year, number in Counter(years.tolist()).items()}
        return cls({name: times.unit}, {name: naive}, {name: cut}, by_year)

    def notices(self, flags: TableOptions, rows: int) -> Iterator[str]:
        for name, unit in sorted(self.units.items()):
            if naive := self.naive.get(name):
                were = plural(naive, "value without a zone was", "values without a zone were")
                yield f"column {name!r}: {were} taken for UTC"
            if cut := self.cut.get(name):
                have = plural(cut, "value is", "values are")
                yield f"column {name!r}: {have} more exact than {unit}; the whole {unit} before is stored"
            if years := {year: number for (column, year), number in self.counts.items() if column == name}:
                were = plural(sum(years.values()), "number was", "numbers were")
                yield f"column {name!r}: {were} taken for times of the years {min(years)} to {max(years)}"


@dataclass(frozen=True)
class TimeColumns(RowAddOn):
    """The columns of times: those of --timestamp, and the times in a schema."""

    units: dict[str, str]  # by column of --timestamp, each with the form of its texts: s or s:%d/%m/%Y

    @classmethod
    def of(cls, options: TimesOptions, _: Any) -> Self:
        """Return the columns of times of a job."""
        return cls(dict(options.timestamp))

    def change_columns(self, columns: Columns, inferred: Inferred, options: TableOptions) -> Columns:
        """Read columns of times as text and publish int64; a schema gives their unit but not the form of values."""
        types, features = dict(columns.types), []
        for feature in columns.features:
            given = columns.types.get(feature.name)
            if (flag := self.units.get(feature.name)) is not None:
                _check_time_column(feature, flag, columns.types[feature.name], inferred, options)
                unit = cast(TimeUnit, flag.partition(":")[0])
                feature = replace(feature, dtype="int64", kind="tensor", time=unit)
            if _is_time(feature, options):
                form = self.units.get(feature.name, "").partition(":")[2]
                is_counted = form == EPOCH or (not form and (given is None or given.dtype != "bytes"))
                types[feature.name] = ColumnType("bytes", None, 0, is_time=True, is_counted=is_counted)
            features.append(feature)
        return replace(columns, types=types, features=tuple(features))

    def prepare(self, rows: RowBatch) -> None:
        types = rows.layout.types
        for feature in rows.layout.features:
            name = feature.name
            if not feature.time or name not in types or not types[name].is_time:
                continue
            form = self.units.get(name, "").partition(":")[2]
            found = read_times(rows.batch[name], feature.time, form, counted=not form and types[name].is_counted)
            rows.reject(found.is_invalid, partial(found.reason, name))
            rows.set_column(name, found.values)
            if name not in self.units or form:
                found = replace(found, is_count=np.zeros(len(rows.batch), bool))  # nothing was guessed
            rows.counters.append(partial(TimeChanges.of_column, name, found))


def _is_time(feature: Feature, options: TableOptions) -> bool:
    """Return True if a feature of rows is read as a time; numeric labels are left unchanged."""
    named = (*options.label_columns, *options.image)
    return bool(feature.time) and not feature.shape and feature.kind == "tensor" and feature.name not in named


def _check_time_column(
    feature: Feature, unit: str, column: ColumnType, inferred: Inferred, options: TableOptions
) -> None:
    subject = f"--timestamp {assign(feature.name, unit)}"
    for flag, names in (("--label", options.label_columns), ("--image", options.image)):
        if feature.name in names:
            raise UserError(f"{subject} is also in {flag}; drop the one or the other")
    if feature.time not in ("", unit.partition(":")[0]):
        raise UserError(f"{subject}: {options.schema_name} says that its times are in {feature.time}")
    declared = inferred.declared.get(feature.name, DeclaredColumn("text"))
    schema = options.schema is not None
    wanted = ("int64",) if schema else ("bytes", "int64", "float32")
    is_other = declared.kind == "image" or feature.kind == "class_label" or (declared.unit and not schema)
    if feature.shape or column.dtype not in wanted or is_other:
        kind = "durations" if declared.unit else column.dtype if declared.kind == "text" else declared.kind
        holds = f"lists of {column.dtype}" if feature.shape else kind
        if schema:
            raise UserError(f"{subject}: {options.schema_name} says that it holds {holds}; expected int64")
        raise UserError(f"{subject}: the column holds {holds}; expected one date, time or number in each row")
