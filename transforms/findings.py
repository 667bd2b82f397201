"""Findings: counts about the input that merge in any order, and the notices that a job makes of them.

A new notice about rows is a class here and the place that observes it, which adds `Findings.of(TheClass(...))` to its
rows. Workers merge findings, and the job reports them: both know no class.
"""

import copy
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, reduce
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, cast

from shardmill.addons import registry
from shardmill.errors import UserError
from shardmill.flag_values import MISSING as MISSING
from shardmill.flag_values import assign, quote
from shardmill.text import describe_place, listed, plural, shorten


def merged(one: Any, other: Any) -> Any:
    """Return `one` with `other` added; `one` may be changed, `other` is not, and statistics in it are copied.

    Numbers, lists and Counters are added, flags are joined by "or", sets are united. Of texts and tuples, the first
    counts. Dictionaries are merged by key, and all else by its method `merge`. None has no effect.
    """
    if one is None or other is None:
        return one if other is None else _copy_mutable(other)
    if isinstance(one, bool):
        return one or other
    if isinstance(one, int | list):
        one += other
    elif isinstance(one, frozenset):
        return one | other
    elif isinstance(one, Counter):
        one.update(other)
    elif isinstance(one, dict):
        for key, value in other.items():
            one[key] = merged(one.get(key), value)
    elif isinstance(one, str) or type(one) is tuple:
        return min(filter(None, (one, other)), default=one)
    else:
        found = one.merge(other)
        return one if found is None else found
    return one


def _copy_mutable(value: Any) -> Any:
    params = getattr(value, "__dataclass_params__", None)
    return value if params is not None and params.frozen else copy.deepcopy(value)


def merge_all(found: Iterable[Any], empty: Callable[[], Any]) -> Any:
    """Return the values of a side input merged; they are left as they are."""
    return reduce(merged, found, empty())


def merged_by(merge: Callable[[Any, Any], Any], **default: Any) -> Any:
    """Declare a field of a Mergeable or a Finding that `merge(one, other)` merges, with the defaults of `field`."""
    return field(**default, metadata={"merge": merge})


@cache
def _rules_of(kind: Any) -> tuple[tuple[str, Callable[[Any, Any], Any]], ...]:
    return tuple((item.name, item.metadata.get("merge", merged)) for item in fields(kind))


class Mergeable:
    """Base of dataclasses that are merged field by field in place, see `merged`."""

    __slots__ = ()

    def merge(self, other: Self) -> None:
        """Add the counts of `other`, which is not changed."""
        for name, merge in _rules_of(cast(Any, type(self))):
            setattr(self, name, merge(getattr(self, name), getattr(other, name)))


class MergeableValue:
    """Base of dataclasses that are merged field by field to a new one, see `merged`."""

    __slots__ = ()

    def merge(self, other: Self) -> Self:
        """Return what both parts of the input have; associative and commutative."""
        values = []
        for name, merge in _rules_of(cast(Any, type(self))):
            own = getattr(self, name)
            values.append(merge(own.copy() if isinstance(own, dict) else own, getattr(other, name)))
        return type(self)(*values)


class Occurrences(NamedTuple):
    """A number of occurrences, and the first of their places or names."""

    number: int
    first: Any

    @classmethod
    def of_texts(cls, texts: Iterable[str], names: Iterable[str]) -> dict[str, Self]:
        """Return the files of each text but "", given the text of each file and its name."""
        found: dict[str, Self] = {}
        for text, name in zip(texts, names, strict=True):
            merged(found, {text: cls(1, name)} if text else None)
        return found

    def merge(self, other: "Occurrences") -> "Occurrences":
        """Return the occurrences in both parts of the input."""
        return Occurrences(self.number + other.number, min(self.first, other.first))


class Finding(MergeableValue):
    """Base of what is found in some rows: a dataclass whose defaults mean that nothing was found.

    Its fields merge by themselves, see `merged` and `merged_by`.
    """

    __slots__ = ()
    rank: ClassVar[int]  # place of its notices among those of a job

    @property
    def shares_places(self) -> bool:
        """True if several rows have one place in the input."""
        return False

    def notices(self, flags: Any, rows: int) -> Iterable[str]:
        """Return the notices of a job of so many `rows`, good or bad; raise a UserError if they are wrong as read.

        `flags` are the job's TableOptions, of a floor above this one.
        """
        return ()


Kind = TypeVar("Kind", bound=Finding)


class Findings(dict[type[Finding], Finding]):
    """The findings of a part of the input, one of each kind."""

    @classmethod
    def of(cls, *findings: Finding) -> "Findings":
        """Return some findings, each of another kind."""
        return cls((type(finding), finding) for finding in findings)

    def copy(self) -> "Findings":
        """Return the same findings, to which others can be added."""
        return Findings(self)

    def find(self, kind: type[Kind]) -> Kind:
        """Return the finding of a kind."""
        found = self.get(kind)
        return found if isinstance(found, kind) else kind()

    def add(self, finding: Finding) -> None:
        """Add a finding about the same part of the input or about another one."""
        kind = type(finding)
        self[kind] = self[kind].merge(finding) if kind in self else finding

    def without(self, kind: type[Finding]) -> "Findings":
        """Return the findings of other kinds."""
        return Findings({each: finding for each, finding in self.items() if each is not kind})

    def merge(self, other: "Findings") -> "Findings":
        """Return the findings of both parts of the input; associative and commutative."""
        both = self.copy()
        for finding in other.values():
            both.add(finding)
        return both

    def notices(self, flags: Any, rows: int) -> list[str]:
        """Return the notices about all `rows`, by rank."""
        ordered = sorted(self.values(), key=lambda finding: finding.rank)
        return [notice for finding in ordered for notice in finding.notices(flags, rows)]


_UNLIKELY = frozenset("ÿ¤¦¨¬¯¶·¸×÷ˆ˜†‡\x81\x8d\x8f\x90\x9d")  # of cp1252, but hardly in any text


@dataclass(frozen=True, slots=True)
class Undecodable(Finding):
    """The rows that are not ASCII, by how they can be decoded, in files that are read as UTF-8."""

    rank: ClassVar[int] = 0
    has_utf8: bool = False  # True if a row is UTF-8
    cp1252: int = 0  # rows that are not, but could be cp1252, the encoding of Windows
    neither: int = 0  # other rows
    first: tuple[str, int, str] | None = None  # file, line and text of the first row that could be cp1252

    @classmethod
    def of_record(cls, record: bytes, name: str, line: int) -> Self:
        """Return how a record of file `name` that is not UTF-8 can be decoded."""
        text = record.decode("cp1252", "replace").strip()
        has_utf8 = not record.decode(errors="ignore").isascii()
        if has_utf8 or "\ufffd" in text or not _UNLIKELY.isdisjoint(text):
            return cls(neither=1)
        return cls(cp1252=1, first=(name, line, text))

    def notices(self, flags: Any, rows: int) -> Iterable[str]:
        """Raise a UserError if the rows that are not ASCII are probably cp1252, all of which would be rejects."""
        if self.first is not None and not (self.has_utf8 or self.neither or flags.encoding):
            are = "1 row is" if self.cp1252 == 1 else f"{self.cp1252:,} rows are"
            raise UserError(
                f"{flags.source}: {are} not UTF-8, and no other row has characters beyond ASCII; as cp1252,"
                f" {self.first[0]}, line {self.first[1]}, is {shorten(self.first[2])!r}: if that is right, give"
                " --encoding cp1252, and otherwise the encoding of the file; --encoding utf-8 rejects such rows"
            )
        return ()


@dataclass(frozen=True, slots=True)
class JoinedRows(Finding):
    """The CSV records over several lines, some of which may be rows that stray quotes join."""

    rank: ClassVar[int] = 2
    several: int = 0  # records over several lines
    suspects: int = 0  # those of which each line has the fields of a row
    delimiters: int = 0  # in the lines of the suspects, beyond those that one row has
    least: int = merged_by(max, default=1)  # delimiters from which on that is no coincidence
    first: tuple[str, int, int, int] | None = None  # file, first and last line and fields of the first suspect
    long: int = 0  # records over three lines or more
    inner: Occurrences | None = None  # those whose lines, but the first and last, are certainly rows
    possible: Occurrences | None = None  # and those of which they have the fields of a row, and may be rows

    def notices(self, flags: Any | None = None, rows: int = 0) -> list[str]:
        is_common = self.first is not None and 2 * self.suspects >= self.several
        is_frequent = self.possible is not None and 2 * self.possible.number >= self.long
        inner = self.possible if is_frequent else self.inner
        if inner is not None and not is_common:
            count, (name, begin, end, fields) = inner
            are = plural(count, "record has lines", "records have lines")
            return [
                f"{are} within quotes that have the {fields} fields of a row, the first in {name}, lines {begin} to"
                f" {end}; --quote '' makes rows of them, if quotes are part of the text"
            ]
        if self.first is None or not is_common:
            return []
        name, begin, end, fields = self.first
        where = f"{name}, lines {begin} to {end}: one record, and each of its lines has the {fields} fields of a row"
        if self.delimiters >= self.least:
            raise UserError(
                f"{where}; give --quote '' if quotes are part of the text, or --quote '\"' if fields have"
                " these line breaks"
            )
        more = f", as in {self.suspects - 1:,} more records" if self.suspects > 1 else ""
        return [f"{where}{more}; --quote '' makes rows of them, if quotes are part of the text"]


@dataclass(frozen=True, slots=True)
class Remarks(Finding):
    """The rows that were read in another way than others, by what was done."""

    rank: ClassVar[int] = 3
    # By text, with the first row by file and line. A text of two lines has one for a single row and one for several.
    rows: dict[str, Occurrences] = field(default_factory=dict)

    @classmethod
    def of_lines(cls, lines: Mapping[str, Any], name: str) -> "Remarks":
        """Return the remarks on rows of file `name`, given by text the lines of these rows, in order."""
        return cls({text: Occurrences(len(at), (name, int(at[0]))) for text, at in lines.items() if len(at)})

    def notices(self, flags: Any, rows: int) -> Iterable[str]:
        for text, (count, (name, line)) in sorted(self.rows.items(), key=lambda row: (row[1].first, row[0])):
            remark = text.split("\n")[-1 if count > 1 else 0]
            yield f"{count:,} {remark}; the first is {describe_place(name, line)}"


@dataclass(frozen=True, slots=True)
class PassedOver(Finding):
    """The parts of files that hold no record, by their name: blank lines and empty documents."""

    rank: ClassVar[int] = 4
    counts: dict[str, int] = field(default_factory=dict)

    def notices(self, flags: Any, rows: int) -> Iterable[str]:
        return [f"passed over {plural(count, noun)}" for noun, count in sorted(self.counts.items()) if count]


NO_CLASS, SEVERAL_CLASSES, REPEATED_CLASS = "empty", "several", "repeated"


@dataclass(frozen=True, slots=True)
class LabelLists(Finding):
    """The lists of classes that rows have as label."""

    rank: ClassVar[int] = 5
    # By label: rows with an empty list, rows with several classes, and repetitions of a class in a row
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    separators: dict[str, str] = field(default_factory=dict)  # of classes in a text, by label

    def notices(self, flags: Any | None = None, rows: int = 0) -> Iterator[str]:
        for (label, kind), number in sorted(self.counts.items()):
            if number and kind == NO_CLASS:
                subject = plural(number, "example has", "examples have")
                yield f"{subject} no class of {label!r}: an empty list, of an empty or a missing value"
            elif number and kind == REPEATED_CLASS:
                times = "once" if number == 1 else f"{number:,} times"
                yield f"a class of {label!r} is named again in its row {times}, and counts once there"
        for label, separator in sorted(self.separators.items()):
            if not self.counts.get((label, SEVERAL_CLASSES)):
                yield f"no row has several values of {label!r}: is {separator!r} the separator between them?"


def joined_class_notices(names: Sequence[str], label: str = "") -> list[str]:
    """Return a notice if most names of several words join words of other names, such as `clear haze` and `haze`.

    `label` is the column, if the flag needs its name.
    """
    for separator in ";|, ":
        words = {name: [word for word in map(str.strip, name.split(separator)) if word] for name in names}
        uses = Counter(chain.from_iterable(map(set, words.values())))
        several = [name for name in names if len(words[name]) > 1]
        joined = [name for name in several if all(uses[word] > 1 for word in words[name])]
        if joined and 2 * len(joined) >= len(several):
            flag = f"--label_separator {assign(label, separator) if label else shlex.quote(separator)}"
            are = plural(len(joined), "class joins", "classes join")
            return [f"{are} the words of others, such as {joined[0]!r}: {flag} makes a list of classes of each row"]
    return []


_MAX_LISTED_COLUMNS = 20  # columns that a sentence lists


@dataclass(frozen=True, slots=True)
class MissingTexts(Finding):
    """The texts that were taken as missing values."""

    rank: ClassVar[int] = 8
    counts: dict[tuple[str, str], int] = field(default_factory=dict)  # by column and text

    def notices(self, flags: Any, rows: int) -> Iterable[str]:
        columns: dict[str, list[str]] = {}
        for (column, text), count in sorted(self.counts.items()):
            columns.setdefault(column, []).append(f"{text!r} {plural(count, 'time')}")
        if not columns:
            return []
        parts = [f"{column!r} {' and '.join(texts)}" for column, texts in columns.items()]
        remedy = "; --missing '' takes empty fields alone as missing" if flags.missing == MISSING else ""
        names = listed(parts, _MAX_LISTED_COLUMNS, f", {plural(len(parts) - _MAX_LISTED_COLUMNS, 'more column')}")
        return [f"taken as missing values: in column {names}{remedy}"]


MAX_ODD_VALUES = 3  # distinct ones of a column that are collected, to be named in a flag
MOST_NUMBERS = 0.9  # share of a text column's values that are numbers, from which that is worth a notice


def join_few(one: frozenset[str] | None, other: frozenset[str] | None, most: int = MAX_ODD_VALUES) -> Any:
    """Return the texts of both sets; None if there are too many."""
    joined = None if one is None or other is None else one | other
    return joined if joined is None or len(joined) <= most else None


@dataclass(frozen=True, slots=True)
class OddValues(MergeableValue):
    """The values that are not numbers in a column of text."""

    count: int = 0  # values that are no numbers
    spaced: int = 0  # values that are numbers once the spaces around them are removed
    codes: int = 0  # numbers with leading zeros, and integers with a plus, which are codes
    has_floats: bool = field(default=False, compare=False)  # True if some numbers of the same rows are not integers
    # File, line and value of the first by what it is: `odd` for `count`, `spaced`, `signed`, `mixed` or `date`
    firsts: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    distinct: frozenset[str] | None = merged_by(join_few, default=frozenset())  # of `count`; None if too many
    present: int = 0  # all values of the rows
    # Values that are all numbers or lists as other programs write them, by text and flag on two lines: the first row
    remarks: dict[str, Occurrences] = field(default_factory=dict)
    dates: Counter[str] = field(default_factory=Counter)  # dates and times, by the value of --timestamp
    has_lists: bool = False  # True if values are in lists
    mixed: int = 0  # values of JSON that are numbers or booleans, or lists with some, and become texts
    signed: int = 0  # negative numbers that do not begin with "-", such as 5- and (5)

    @property
    def numbers(self) -> int:
        """The values that are numbers."""
        return self.present - self.count - self.codes

    def describe_dates(self, name: str, rows: int, flags: Any) -> str:
        """Return the notice about a column of text that is mostly dates; "" for other columns."""
        most = max(self.dates.values(), default=0)
        if not most or most < MOST_NUMBERS * self.present:
            return ""
        file, line, value = self.firsts["date"]
        unit = "row" if flags.plural.startswith(("Parquet", "Avro")) else "line"
        found = sorted(form for form, count in self.dates.items() if count == most)
        forms = [str(unit) for unit in ("s", "ms", "us", "ns") if unit in found][:1] or found
        remedy = " or ".join(f"--timestamp {assign(name, form)}" for form in forms)
        if name in flags.label_columns:
            remedy += f" in place of --label {quote(name)}"
        remedy += f"{flags.reject_flag(self.present - most, rows)} stores numbers"
        if self.present > most:
            remedy += " and rejects other values"
        if not registry.has_flag("timestamp"):
            remedy = f"--drop {quote(name)} leaves the column out"
        elif self.has_lists:
            remedy = f"--timestamp is for single values; --drop {quote(name)} leaves the column out"
        return (
            f"column {name!r} is stored as text, and {most:,} of its {self.present:,} values are dates or times, the"
            f" first {value!r} ({describe_place(file, line, unit)}); {remedy}"
        )

    def describe(self, name: str, rows: int, flags: Any) -> str:
        """Return the notice about a column of text that is mostly numbers."""
        if not flags.missing:  # no flag of typed formats removes spaces
            places = sorted(place for kind, place in self.firsts.items() if kind in ("odd", "spaced"))
            firsts = self.firsts | dict(zip(["odd"], places))
            self = replace(self, count=self.count + self.spaced, spaced=0, firsts=firsts)
        unit = "row" if flags.plural.startswith(("Parquet", "Avro")) else "line"
        dtype = "float32" if self.has_floats else "int64"
        reasons, strip, types, negative = [], "", f" --types {assign(name, dtype)}", ""
        if self.signed:
            file, line, value = self.firsts["signed"]
            negative = f", {self.signed:,} of them negative, as {value!r} ({describe_place(file, line, unit)}) is"
        if not self.count and not self.spaced:
            return (
                f"column {name!r} is stored as text, and its {self.numbers:,} values are numbers{negative};{types}"
                " stores numbers"
            )
        if self.spaced:
            file, line, value = self.firsts["spaced"]
            reasons.append(
                f"{self.spaced:,} of its values are numbers with spaces around them, the first {value!r} ({file}, line"
                f" {line}); --strip removes the spaces"
            )
            strip = "--strip "
        if self.count:
            file, line, value = self.firsts["odd"]
            remedies = [f"{strip}{types[1:]}{flags.reject_flag(self.count, rows)} rejects such rows"]
            distinct = None if self.has_lists else self.distinct
            if flags.missing and distinct is not None and not any(map(str.isdigit, "".join(distinct))):
                texts = [text.strip() for text in sorted(distinct)] if strip else sorted(distinct)
                argument = quote(*texts, *filter(None, flags.missing))
                them = "them" if len(texts) > 1 else "it"
                also = types if self.signed else ""
                remedies.insert(0, f"{strip}--missing {argument}{also} takes {them} as missing")
            reasons.append(
                f"{self.numbers:,} of its {self.present:,} values are numbers{negative}, the first other one is"
                f" {value!r} ({describe_place(file, line, unit)}); {', '.join(remedies)}"
            )
        return f"column {name!r} is stored as text: {'; '.join(reasons)}"


@dataclass(frozen=True, slots=True)
class OddTexts(Finding):
    """The values that are not numbers in columns of text of typed files, and numbers among texts."""

    rank: ClassVar[int] = 9
    columns: dict[str, OddValues] = field(default_factory=dict)

    def notices(self, flags: Any, rows: int) -> Iterable[str]:
        for name, odd in sorted(self.columns.items()):
            if flags.schema is not None or name in (*dict(flags.types), *flags.image, *flags.flagged):
                continue
            others = odd.present - sum(found.number for found in odd.remarks.values())
            most = 1 if odd.numbers >= MOST_NUMBERS * odd.present else MOST_NUMBERS  # these have better advice
            spelled = odd.remarks if others <= (1 - most) * odd.present else {}
            drop = f"--drop {quote(name)} leaves the column out"
            for text, (count, (file, line)) in sorted(spelled.items()):
                what, remedy = text.split("\n")
                if not flags.missing:
                    remedy = f"no flag converts them; --types {assign(name, 'bytes')} keeps the texts, and {drop}"
                elif others:
                    remedy += f", if --missing or --types leaves out the {plural(others, 'other value')}"
                yield f"{count:,} {what}; {remedy}; the first is {describe_place(file, line)}"
            if dates := odd.describe_dates(name, rows, flags):
                yield dates
                continue
            # As numbers, codes would lose their zeros; of integers that name classes tell the notices of classes
            are_names = odd.codes or (name in flags.label_columns and not (odd.signed or odd.has_floats))
            if spelled or (are_names and not (odd.count or odd.spaced)):
                continue
            are_marks = not any(map(str.isalnum, "".join(odd.distinct or "x")))  # such as "-" and "?"
            if odd.numbers and odd.numbers >= (0.5 if are_marks else MOST_NUMBERS) * odd.present:
                yield odd.describe(name, rows, flags)
            elif odd.mixed:
                file, line, value = odd.firsts["mixed"]
                json = f"--json_columns {quote(name)} stores the JSON text of all" if flags.nesting else ""
                yield (
                    f"column {name!r} is stored as text: numbers and booleans become texts in"
                    f" {plural(odd.mixed, 'row')}, the first {value} ({describe_place(file, line)}); {json or drop}"
                )


_MOST_NAMED = 4  # columns that have a notice of their own


@dataclass(frozen=True, slots=True)
class Rounded(MergeableValue):
    """The numbers of a column that float32 changes, and those that are spelled with another minus."""

    count: int = 0  # how many numbers above EXACT_FLOAT32 change
    example: str = ""  # the first of them in text order
    sample: Any = field(default=None, compare=False)  # of numbers of any size: a FloatSample, or None
    signed: Occurrences | None = None  # numbers such as +5, 5- and (5), with the first in text order


@dataclass(frozen=True, slots=True)
class RoundedNumbers(Finding):
    """The numbers that float32 changes, and those that are spelled with another minus."""

    rank: ClassVar[int] = 10
    columns: dict[str, Rounded] = field(default_factory=dict)

    def notices(self, flags: Any, rows: int) -> list[str]:
        notices, merged = [], []
        for name, found in sorted(self.columns.items()):
            schema = None if flags.schema is None else f"BYTES in {flags.schema_name}"
            as_text = schema or f"--types {assign(name, 'bytes')}"
            remedy = f"; {as_text} keeps the digits as text, and --drop {quote(name)} leaves the column out"
            if found.signed is not None:
                notices.append(
                    f"column {name!r} has {plural(found.signed.number, 'number')} with a plus, a minus behind, '−' or"
                    f" parentheses, such as {shorten(found.signed.first)!r}; {as_text} keeps the texts"
                )
            several = "" if found.sample is None else found.sample.describe()
            if found.count:
                large = f"which changes {plural(found.count, 'number')} above 16,777,216, such as {found.example}"
                both = f"{large}; {several}" if several else large
                notices.append(f"column {name!r} is stored as float32, {both}{remedy}")
            elif several:
                merged.append(f"column {name!r} is stored as float32: {several}{remedy}")
        more = len(merged) - _MOST_NAMED
        if more > 0:
            columns = plural(more, "more column has", "more columns have")
            merged[_MOST_NAMED:] = [f"{columns} stored numbers that replace several different numbers of the input"]
        return notices + merged


_MAX_IGNORED_NAMES = 100  # names: keys may be data


def first_names(*names: Iterable[str]) -> frozenset[str]:
    """Return the first names by order among several collections of names."""
    return frozenset(sorted(frozenset().union(*names))[:_MAX_IGNORED_NAMES])


@dataclass(frozen=True, slots=True)
class IgnoredNames(Finding):
    """The names in records that no feature has, such as JSON keys: of many, the `first_names`."""

    rank: ClassVar[int] = 12
    names: frozenset[str] = merged_by(first_names, default=frozenset())

    def notices(self, flags: Any, rows: int) -> Iterable[str]:
        return flags.extra_column_notices(sorted(self.names))
