"""Text columns: infer their types, parse their values, and make record keys of them."""

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.text import shorten
from shardmill.transforms.columns.arrow import Flags, as_text, decode_array, is_list, text_buffers, time_texts
from shardmill.transforms.columns.types import (
    EXACT_FLOAT32,
    FALSE,
    TRUE,
    ColumnType,
    ScalarType,
    Spelling,
    fits_64_bits,
    leaf_values,
    text_scalar_type,
)
from shardmill.transforms.findings import MAX_ODD_VALUES, Occurrences, OddTexts, OddValues
from shardmill.transforms.times import date_forms

_BOOLEANS = pa.array(TRUE + FALSE, pa.binary())
_CACHED = 256 << 10  # bytes
_SAFE_DIGITS = 18  # any number of so many digits fits 64 bits
_DECIMAL_DIGITS = 254  # any number of so many digits fits a float64
_Integers = npt.NDArray[np.signedinteger]


def infer_type(column: pa.Array) -> ColumnType | None:
    """Return the type of a column of text, a binary array with null for missing values; None if it has no values.

    The type of a value does not depend on other values:

    * bool: true or false, in one of three cases each.
    * int64: a decimal integer without leading zeros that fits 64 bits.
    * float32: a decimal number within the range of float64, optionally with an exponent; or nan, inf and infinity in
    any case, optionally with a sign.
    * bytes: anything else, such as 007, 0x10, 1_000, " 1" and integers beyond 64 bits.

    The spelling of the numbers goes with it, by which `ColumnType.settle` decides once all rows are known.
    """
    present = len(column) - column.null_count
    if not present:
        return None
    dtype, spelling = _infer_scalar_type(column.drop_null() if column.null_count else column)
    return ColumnType(dtype, None, present, spelling=spelling)


def take_missing(texts: pa.Array, missing: Sequence[str], strip: bool) -> tuple[pa.Array, Counter[str]]:
    """Return texts with null for those that mean a missing value, also with spaces and tabs around them.

    Args:
        texts: a binary array, in which empty texts are null already if they mean a missing value.
        missing: the texts that mean a missing value.
        strip: True to return the other texts without spaces and tabs around them.

    Returns:
        The texts, and how many had each of the spellings in `missing`; empty ones are not counted.
    """
    if strip:
        texts = pc.ascii_trim(texts.view(pa.string()), characters=_SPACES)
        texts = (pc.if_else(pc.equal(texts, ""), None, texts) if "" in missing else texts).view(pa.binary())
    codes, offsets = text_buffers(texts)
    data, spellings = codes.tobytes(), [text.encode() for text in missing if text]
    firsts = {text[:1] for text in spellings if text[:1] in data}
    spaces = [] if strip else [space for space in _SPACES.encode() if space in data]
    if not firsts or not len(texts):
        return texts, Counter()
    first, lengths = codes.take(offsets[:-1], mode="clip"), np.diff(offsets)
    may_fit = reduce(np.logical_or, [first == ord(char) for char in sorted(firsts)])
    may_fit &= lengths <= max(map(len, spellings))
    if spaces:
        last = codes.take(offsets[1:] - 1, mode="clip")
        may_fit |= reduce(np.logical_or, [(first == space) | (last == space) for space in spaces])
    rows = np.flatnonzero(may_fit & (lengths > 0))
    trimmed = pc.ascii_trim(texts.take(pa.array(rows)).view(pa.string()), characters=_SPACES)
    is_missing = pc.is_in(trimmed, value_set=pa.array(filter(None, missing), pa.string()), skip_nulls=True)
    if not pc.any(is_missing).as_py():
        return texts, Counter()
    mask = np.zeros(len(texts), bool)
    mask[rows[is_missing.to_numpy(zero_copy_only=False)]] = True
    counts = pc.value_counts(trimmed.filter(is_missing)).to_pylist()
    found = Counter({item["values"]: item["counts"] for item in counts})
    return pc.if_else(pa.array(mask), pa.scalar(None, texts.type), texts), found


_SPACES = " \t"


def take_missing_texts(
    columns: Mapping[str, pa.Array], missing: Sequence[str], strip: bool
) -> tuple[dict[str, pa.Array], Counter[tuple[str, str]]]:
    """Return `take_missing` of each column of a table, with the counts by column and spelling."""
    texts, found, names = {}, Counter[tuple[str, str]](), iter(columns)
    for part, joined in _join_columns(list(columns.values())):
        is_clean = not strip and len(part) > 1 and not take_missing(joined, missing, strip)[1]
        for column, name in zip(part, names):
            texts[name], counts = (column, Counter[str]()) if is_clean else take_missing(column, missing, strip)
            found.update({(name, spelling): count for spelling, count in counts.items()})
    return texts, found


_JOINED_ROWS = 1 << 14  # of columns that are joined: those of more rows are fast on their own
_JOINED_VALUES = 1 << 18  # of several columns: their bytes stay in the processor's cache


def _join_columns(columns: Sequence[pa.Array]) -> Iterator[tuple[Sequence[pa.Array], pa.Array]]:
    """Yield some columns of a table at a time, with an array of all their values; columns of many rows stay alone."""
    rows = len(columns[0]) if columns else 0
    at_once = max(1, _JOINED_VALUES // rows) if 0 < rows <= _JOINED_ROWS else 1
    for start in range(0, len(columns), at_once):
        part = columns[start : start + at_once]
        yield part, part[0] if len(part) == 1 else pa.concat_arrays(part)


def infer_types(columns: Sequence[pa.Array]) -> list[ColumnType | None]:
    """Return `infer_type` of each column of a table, many times as fast for many columns of few rows."""
    types: list[ColumnType | None] = []
    for part, joined in _join_columns(columns):
        plain = _infer_plain_numbers(joined, len(part)) if len(part) > 1 else {}
        types += [plain[place] if place in plain else infer_type(column) for place, column in enumerate(part)]
    return types


def _infer_plain_numbers(joined: pa.Array, columns: int) -> dict[int, ColumnType]:
    codes, offsets = text_buffers(joined)
    codes = np.append(codes, np.zeros(2, np.uint8))
    starts, ends = offsets[:-1], offsets[1:]
    is_missing = joined.is_null().to_numpy(zero_copy_only=False) if joined.null_count else np.zeros(len(joined), bool)
    first = codes[starts]
    signs = ((first == ord("+")) | (first == ord("-"))) & ~is_missing
    digits = ends - starts - signs
    is_point = codes == ord(".")
    counted = np.zeros(len(codes) + 1, np.int32)
    np.cumsum(is_point, out=counted[1:])
    points = counted[ends] - counted[starts]
    zero = (codes[starts + signs] == ord("0")) & (digits > 1) & ~_flag_non_digits(codes[starts + signs + 1])
    is_long = (digits > _DECIMAL_DIGITS) | ((digits > _SAFE_DIGITS) & (points == 0))
    is_odd = (points > 1) | (digits <= points) | zero | is_long
    is_odd = np.where(is_missing, digits > 0, is_odd).reshape(columns, -1)
    bounds = offsets[:: is_odd.shape[1]]
    # A point that a digit other than zero follows in the same value
    is_fraction = is_point[:-1] & ((codes[1:] - ord("1")) < 9)
    is_fraction[ends[ends > starts] - 1] = False
    filled = np.flatnonzero(bounds[1:] > bounds[:-1])
    others, fractions = (
        np.add.reduceat(flags, bounds[filled], dtype=np.int64) for flags in (_flag_non_digits(codes[:-2]), is_fraction)
    )
    signs_of, points_of, present = (
        np.count_nonzero(flags.reshape(columns, -1), axis=1) for flags in (signs, points, ~is_missing)
    )
    most = digits.reshape(columns, -1).max(axis=1)
    is_plain = ~is_odd.any(axis=1)
    types: dict[int, ColumnType] = {}
    for place, other, fraction in zip(filled.tolist(), others.tolist(), fractions.tolist()):
        if not is_plain[place] or other != signs_of[place] + points_of[place]:
            continue
        if points_of[place]:
            if fraction:
                types[place] = ColumnType("float32", None, int(present[place]), spelling=_SIGNED_FRACTIONS)
        elif most[place] != _EXACT_DIGITS:
            spelling = Spelling.NUMERIC if signs_of[place] else Spelling(0)
            spelling |= Spelling.LARGE if most[place] > _EXACT_DIGITS else Spelling(0)
            types[place] = ColumnType("int64", None, int(present[place]), spelling=spelling)
    return types


_TEXT: tuple[ScalarType, Spelling] = ("bytes", Spelling(0))


def _infer_scalar_type(column: pa.Array) -> tuple[ScalarType, Spelling]:
    first = text_scalar_type(column[0].as_py())
    if first == "bytes":  # as it is in almost every column of text: nothing is wider
        return _TEXT
    if first == "bool":
        return ("bool" if pc.all(pc.is_in(column, value_set=_BOOLEANS)).as_py() else "bytes"), Spelling(0)
    return _infer_number_type(column)


def _infer_number_type(column: pa.Array) -> tuple[ScalarType, Spelling]:
    codes, offsets = text_buffers(column)
    starts, lengths = offsets[:-1], np.diff(offsets)
    if not lengths.all():
        return _TEXT
    others = count_non_digits(codes)
    first = codes[starts]
    signs = (first == 43) | (first == 45) if others else np.zeros(len(first), bool)
    digits = lengths - signs
    if not digits.all():
        return _TEXT
    zeros = np.flatnonzero((codes[starts + signs] == 48) & (digits > 1))
    if not _flag_non_digits(codes[starts[zeros] + signs[zeros] + 1]).all():  # a leading zero
        return _TEXT
    number_of_signs = int(np.count_nonzero(signs))
    only_signs, points = number_of_signs == others, others - number_of_signs
    are_decimals = only_signs or _are_decimals(codes, starts, digits, points)
    if not (are_decimals or _are_floats(column, codes)):
        return _TEXT
    long = np.flatnonzero(digits > _SAFE_DIGITS)
    if not only_signs and len(long):
        long = long[_are_integers(codes, offsets, signs, long)]
    if len(long) and not _fit_64_bits(column.take(pa.array(long))):
        return _TEXT
    if only_signs:
        return "int64", _spelling_of_integers(column, codes, starts + signs, digits, number_of_signs > 0)
    if are_decimals:
        return "float32", _spelling_of_decimals(column, codes, offsets)
    if ((codes - ord("+")) < 4).any():  # + , - . of which no number has a comma
        return "float32", _SIGNED_FRACTIONS
    has_exponent = ((codes | 32) == ord("e")).any()  # nan and inf have none
    return "float32", _FRACTIONS | Spelling.CODE if has_exponent else _FRACTIONS


_FRACTIONS = Spelling.FLOAT | Spelling.FRACTION
_SIGNED_FRACTIONS = Spelling.NUMERIC | _FRACTIONS
_FIRST_BYTES = 512  # of a column: most columns of fractions show one there
_EXACT_DIGITS = 8  # an integer of fewer digits is below EXACT_FLOAT32, one of more is above
_EXACT_LENGTH = 16  # bytes of a decimal, at most, for which float64 shows whether it is an integer


def _spelling_of_integers(
    column: pa.Array, codes: npt.NDArray[np.uint8], starts: _Integers, digits: _Integers, has_sign: bool
) -> Spelling:
    found = Spelling.NUMERIC if has_sign else Spelling(0)
    most = digits.max()
    if most > _EXACT_DIGITS:
        return found | Spelling.LARGE
    if most < _EXACT_DIGITS:
        return found
    rows = np.flatnonzero(digits == _EXACT_DIGITS)
    is_large = (codes[starts[rows]] > ord("1")).any() or _has_large(_floats_of(column.take(pa.array(rows))))
    return found | Spelling.LARGE if is_large else found


def _spelling_of_decimals(column: pa.Array, codes: npt.NDArray[np.uint8], offsets: _Integers) -> Spelling:
    start = codes[: _FIRST_BYTES + 1]
    after = np.flatnonzero(start[:-1] == ord(".")) + 1
    is_fraction = (start[after] - ord("1")) < 9  # unsigned: what is below "1" wraps around
    ends = offsets[: np.searchsorted(offsets, len(start), "right")]
    if is_fraction.any() and not np.isin(after[is_fraction], ends).all():
        return _SIGNED_FRACTIONS
    if np.diff(offsets).max() <= _EXACT_LENGTH:
        numbers = _floats_of(column)
        if (np.floor(numbers) != numbers).any():
            return _SIGNED_FRACTIONS
    else:
        whole = pc.replace_substring_regex(column, r"\.0*\z", "")
        if pc.any(pc.match_substring(whole, ".")).as_py() or not _fit_64_bits(whole):
            return _SIGNED_FRACTIONS
        numbers = _floats_of(whole)
    found = Spelling.NUMERIC | Spelling.FLOAT
    return found | Spelling.LARGE if _has_large(numbers) else found


def _floats_of(decimals: pa.Array) -> npt.NDArray[np.float64]:
    return np.asarray(decimals.view(pa.string()).cast(pa.float64()).to_numpy())


def _has_large(numbers: npt.NDArray[np.float64]) -> bool:
    return bool((np.abs(numbers) > EXACT_FLOAT32).any())


_NUMBER_START = np.isin(np.arange(256), np.frombuffer("0123456789+-. \tnNiI(−".encode(), np.uint8))
_CODE = r"[+-]?0[0-9]+(?:\.[0-9]*)?|\+[0-9]+"  # such as 007, and telephone numbers
_SHOWN_BYTES = 400  # of a value in a notice, before it is shortened
_ODD_ROWS = 1000  # whose distinct values mostly show that they are too many


def find_odd_texts(
    batch: pa.RecordBatch,
    types: Mapping[str, ColumnType],
    source: str,
    lines: npt.NDArray[np.int64],
    style: "NumberStyle | None" = None,
) -> OddTexts:
    """Return the values that are not numbers as `style` spells them, by column of text among `batch`.

    The values of lists count one by one.
    """
    found = {}
    for name, column in types.items():
        if column.dtype != "bytes" or column.is_time or column.members:
            continue
        texts, lines_of = batch[name], lines
        if is_list(texts.type):
            texts, lines_of = texts.flatten(), lines[texts.value_parent_indices().to_numpy()]
        if texts.null_count < len(texts):
            spelled_plainly = texts if style is None else style.rewrite(texts.cast(pa.binary()))[0]
            odd, rows = _find_odd_values(spelled_plainly)
            dates, first_date = date_forms(texts)
            rows |= {} if first_date < 0 else {"date": first_date}
            firsts = {
                kind: (source, int(lines_of[row]), shorten(as_text(texts[row].as_py()[:_SHOWN_BYTES])))
                for kind, row in rows.items()
            }
            spelled = _find_spelling(name, texts, style or NumberStyle())
            remarks = {spelled[0]: Occurrences(spelled[1], (source, int(lines_of[spelled[2]])))} if spelled else {}
            has_lists = is_list(batch[name].type)
            found[name] = replace(odd, firsts=firsts, remarks=remarks, dates=dates, has_lists=has_lists)
    return OddTexts(found)


def _find_odd_values(column: pa.Array) -> tuple[OddValues, dict[str, int]]:
    """Return the values of a column of text that are not numbers, and the first rows of odd, spaced and signed ones.

    If most values are no numbers, all are taken for odd ones.
    """
    rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    most = OddValues(len(rows), distinct=None, present=len(rows)), {"odd": int(rows[0])}
    codes, offsets = text_buffers(column)
    filled = rows[offsets[rows] < offsets[rows + 1]]
    maybe = filled[_NUMBER_START[codes[offsets[filled]]]]
    if 2 * len(maybe) < len(rows):
        return most
    texts = column.take(pa.array(maybe)).cast(pa.large_binary()).view(pa.large_string())
    trimmed = pc.ascii_trim(texts, characters=_SPACES)
    plain = lead_with_minus(trimmed)
    is_code = _flags(_matches(plain, _CODE))
    is_number = _flags(_matches(plain, rf"{_DECIMAL}|{_NOT_FINITE}")) & ~is_code
    numbers = plain.filter(pa.array(is_number)).view(pa.large_binary()).cast(pa.binary())
    dtype, _ = _infer_scalar_type(numbers) if len(numbers) else ("int64", None)
    if dtype == "bytes":  # some number is beyond 64 bits
        is_number[is_number] = [text_scalar_type(value) != "bytes" for value in numbers.to_pylist()]
        numbers = plain.filter(pa.array(is_number)).view(pa.large_binary()).cast(pa.binary())
        dtype, _ = _infer_scalar_type(numbers) if len(numbers) else ("int64", None)
    if 2 * len(numbers) < len(rows):
        return replace(most[0], has_floats=dtype == "float32"), most[1]
    is_spaced = is_number & _flags(pc.not_equal(pc.binary_length(texts), pc.binary_length(trimmed)))
    is_signed = is_number & _flags(pc.not_equal(plain, trimmed))
    odd = np.setdiff1d(rows, maybe[is_number | is_code], assume_unique=True)
    kinds = {"odd": odd, "spaced": maybe[is_spaced], "signed": maybe[is_signed]}
    distinct = column.take(pa.array(odd[:_ODD_ROWS])).unique()
    if len(distinct) <= MAX_ODD_VALUES < len(odd):
        distinct = column.take(pa.array(odd)).unique()
    named = frozenset(map(as_text, distinct.to_pylist())) if len(distinct) <= MAX_ODD_VALUES else None
    counts = len(odd), int(is_spaced.sum()), int(is_code.sum()), dtype == "float32"
    found = OddValues(*counts, distinct=named, present=len(rows), signed=int(is_signed.sum()))
    return found, {kind: int(places[0]) for kind, places in kinds.items() if len(places)}


def _flags(booleans: pa.Array) -> Flags:
    return np.array(booleans.to_numpy(zero_copy_only=False))


def count_non_digits(codes: npt.NDArray[np.uint8]) -> int:
    """Count the bytes that are not decimal digits, in parts that fit the processor's cache: five times as fast."""
    parts = (codes[at : at + _CACHED] for at in range(0, len(codes), _CACHED))
    return sum(int(np.count_nonzero(_flag_non_digits(part))) for part in parts)


def _flag_non_digits(codes: npt.NDArray[np.uint8]) -> Flags:
    return (codes - 48) > 9  # unsigned: what is below "0" wraps around


def _are_decimals(codes: npt.NDArray[np.uint8], starts: _Integers, digits: _Integers, others: int) -> bool:
    """Return True if each value is a sign or none, digits and at most one point: three times as fast as a conversion.

    `digits` are lengths without signs, at least 1; `others` counts the bytes that are no digits and no leading signs.
    """
    points = codes == ord(".")
    if digits.max() > _DECIMAL_DIGITS or np.count_nonzero(points) != others:
        return False
    points_of = np.add.reduceat(points.view(np.uint8), starts, dtype=np.uint8)
    return bool(((points_of <= 1) & (digits > points_of)).all())


def _are_floats(column: pa.Array, codes: npt.NDArray[np.uint8]) -> bool:
    """Return True if all values of a binary array are numbers, perhaps with leading zeros; `codes` are its bytes."""
    if (codes == ord("(")).any():  # Arrow takes nan(1) for a number; otherwise its grammar is ours
        return False
    try:
        floats = column.view(pa.string()).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    infinite = column.filter(pc.is_inf(floats))  # Arrow rounds 1e400 to infinity; one that is meant has an "n"
    return bool(pc.all(pc.match_substring(infinite, "n", ignore_case=True)).as_py() in (True, None))


def _are_integers(codes: npt.NDArray[np.uint8], offsets: _Integers, signs: Flags, rows: npt.NDArray[np.int64]) -> Flags:
    integers = codes[offsets[rows] + signs[rows] + 1] != ord(".")  # 0.1234567890123456789 is what most are
    maybe = rows[integers]
    others = np.flatnonzero(_flag_non_digits(codes)) if len(maybe) else maybe
    counts = np.searchsorted(others, offsets[maybe + 1]) - np.searchsorted(others, offsets[maybe])
    integers[integers] = counts == signs[maybe]
    return integers


def _fit_64_bits(column: pa.Array) -> bool:
    try:
        pc.replace_substring_regex(column, r"\A\+", "").view(pa.string()).cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True


_INTEGER = r"[+-]?[0-9]+(?:\.0*)?"
_FLOAT = r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:nan|inf(inity)?))"
_SHOWN = 60  # characters of a value in a reason


def parse_values(column: pa.Array, dtype: ScalarType) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Parse a binary array as `dtype`; leading zeros are accepted, and `lead_with_minus`: 007 is 7, and 5- is -5.

    Arrow's own conversions are used only where they agree with the grammar of `infer_type`: Arrow accepts 0x10 as an
    integer and nan(1) as a number.

    Returns:
        The values as stored (booleans as int64), null where a value is missing or does not fit, and the positions of
        the values that do not fit.
    """
    if dtype == "bytes":
        return column.cast(pa.large_binary()), np.zeros(0, np.int64)
    if dtype == "bool":
        found = pc.index_in(column, value_set=_BOOLEANS)
        values = pc.cast(pc.less(found, len(TRUE)), pa.int64())
    else:
        parse = _integers if dtype == "int64" else _floats
        values = parse(column)
        if values.null_count > column.null_count:
            values = parse(lead_with_minus(column))
    if values.null_count == column.null_count:
        return values, np.zeros(0, np.int64)
    misfits = pc.and_(pc.is_valid(column), pc.is_null(values))
    return values, np.flatnonzero(misfits.to_numpy(zero_copy_only=False))


def parse_columns(columns: Sequence[pa.Array], dtype: ScalarType) -> list[tuple[pa.Array, npt.NDArray[np.int64]]]:
    """Return `parse_values` of each column of a table, many times as fast for many columns of few rows."""
    found = []
    for part, joined in _join_columns(columns):
        values, misfits = parse_values(joined, dtype)
        rows = len(part[0])
        edges = np.arange(len(part) + 1) * rows
        cuts = np.searchsorted(misfits, edges).tolist()
        found += [
            (values.slice(edge, rows), misfits[start:stop] - edge)
            for edge, start, stop in zip(edges.tolist(), cuts, cuts[1:])
        ]
    return found


def parse_exact_floats(column: pa.Array) -> pa.DoubleArray:
    """Parse a binary array as float64 by the grammar of float32, null where a value is missing or not a number."""
    return _cast_floats(lead_with_minus(column), pa.float64())


def misfit_reason(value: bytes, dtype: ScalarType) -> str:
    """Return the reason, for rejects/, why `value` does not fit `dtype`."""
    shown = repr(value[: 4 * _SHOWN].decode("utf-8", "replace")[:_SHOWN]) + ("…" if len(value) > _SHOWN else "")
    if dtype == "bool":
        return f"{shown} is neither true nor false (bool)"
    pattern, kind = (_INTEGER, "an integer") if dtype == "int64" else (_FLOAT, "a number")
    is_number = re.fullmatch(pattern.encode(), value)
    return f"{shown} is beyond the range of {dtype}" if is_number else f"{shown} is not {kind} ({dtype})"


def _integers(column: pa.Array) -> pa.Array:
    codes, offsets = text_buffers(column)
    others = count_non_digits(codes)
    if others:
        first = codes[offsets[:-1][offsets[:-1] < offsets[1:]]]
        has_plus = first == ord("+")
        if np.count_nonzero(has_plus | (first == ord("-"))) < others:
            return _parse_mixed_integers(column)
        column = pc.replace_substring_regex(column, r"\A\+", "") if has_plus.any() else column
    try:
        return column.view(pa.string()).cast(pa.int64())
    except pa.ArrowInvalid:
        return _parse_mixed_integers(column)


def _parse_mixed_integers(column: pa.Array) -> pa.Array:
    column = pc.replace_substring_regex(_null_unless(column, _matches(column, _INTEGER)), r"\A\+|\.0*\z", "")
    try:
        return column.view(pa.string()).cast(pa.int64())
    except pa.ArrowInvalid:  # beyond 64 bits
        fits = [value is None or fits_64_bits(value) for value in without_leading_zeros(column).to_pylist()]
        return _null_unless(column, pa.array(fits)).view(pa.string()).cast(pa.int64())


def _cast_floats(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if not (text_buffers(column)[0] == ord("(")).any():  # Arrow takes nan(1) for a number
        with contextlib.suppress(pa.ArrowInvalid):
            return column.view(pa.string()).cast(kind)
    return _null_unless(column, _matches(column, _FLOAT)).view(pa.string()).cast(kind)


def _floats(column: pa.Array) -> pa.Array:
    values = _cast_floats(column, pa.float32())
    infinite = pc.is_inf(values)
    if not pc.any(infinite).as_py():
        return values
    # Arrow rounds a number beyond float32 to infinity; one that is meant has an "n".
    return _null_unless(values, pc.or_(pc.invert(infinite), pc.match_substring(column, "n", ignore_case=True)))


def _matches(column: pa.Array, pattern: str) -> pa.Array:
    return pc.match_substring_regex(column, rf"\A(?:{pattern})\z")


def _null_unless(column: pa.Array, mask: pa.Array) -> pa.Array:
    return pc.if_else(mask, column, pa.scalar(None, column.type))


def lead_with_minus(column: pa.Array) -> pa.Array:
    """Return texts in which negative numbers begin with "-", as -5 for what others write as 5-, (5) or −5."""
    codes, offsets = text_buffers(column)
    ends = codes.take(offsets[1:] - 1, mode="clip") if len(codes) else codes
    if not (((ends == ord("-")) | (ends == ord(")"))).any() or codes.max(initial=0) > 127):
        return column
    texts = column.view(pa.string()) if pa.types.is_binary(column.type) else column
    plain = pc.replace_substring_regex(texts, "\\A(?:\\((.*)\\)|(.*[0-9.,]) ?[-−]|−(.*))\\z", r"-\1\2\3")
    return plain.view(column.type)


_KEY_INTEGER = r"[+-]?(?:0|[1-9][0-9]*)(?:\.0*)?"
_DECIMAL = r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_NOT_FINITE = r"[+-]?(?i:nan|inf|infinity)"
_WORD = rf"{_NOT_FINITE}|true|True|TRUE|false|False|FALSE"
_CANONICAL = r"0|-?[1-9][0-9]*"
_ZONE = r"(?:Z|[+-][0-9:]+)?"
_INT64_LIMIT = 2.0**63  # the least float64 that no int64 is


def key_texts(column: pa.Array) -> pa.LargeBinaryArray:
    """Return the canonical text of each value, null for missing values; items of a list are joined by commas."""
    column = decode_array(column)
    kind = column.type
    if is_list(kind):
        return join_items(column, key_texts)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return _binary(column.cast(pa.string()))
    if pa.types.is_floating(kind):
        return _float_key_texts(column)
    if pa.types.is_fixed_size_binary(kind):
        return canonical_texts(_binary(column.cast(pa.binary())))
    is_text = kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    is_time = pa.types.is_temporal(kind) and not pa.types.is_duration(kind)
    texts = _binary(column if is_text else time_texts(column) if is_time else column.cast(pa.string()))
    if is_time:  # the unit of a file shows in nothing but zeros
        whole = pc.replace_substring_regex(texts, rf"\.0+({_ZONE})\z", r"\1")
        return pc.replace_substring_regex(whole, rf"(\.[0-9]*[1-9])0+({_ZONE})\z", r"\1\2")
    return canonical_texts(texts)


def key_texts_of_values(values: Sequence[Any]) -> pa.LargeBinaryArray:
    """Return the canonical texts of JSON values, like `key_texts`; a list of one value equals that value."""
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) == 1 and kinds <= {int, str, bool}:
        try:
            return key_texts(pa.array(values, pa.large_string() if kinds == {str} else None))
        except (OverflowError, pa.ArrowInvalid):
            pass  # an integer of more than 64 bits
    spelled = [None if value is None else [_value_text(item) for item in leaf_values(value)] for value in values]
    return join_items(pa.array(spelled, pa.large_list(pa.large_binary())), key_texts)


def without_leading_zeros(texts: pa.Array) -> pa.Array:
    """Remove leading zeros from texts, for columns that --schema declares as numbers: 007 is 7 there."""
    return pc.replace_substring_regex(texts, r"\A([+-]?)0+([0-9])", r"\1\2")


def _value_text(value: Any) -> bytes:
    return value if isinstance(value, bytes) else as_text(value).encode()


def _binary(texts: pa.Array) -> pa.LargeBinaryArray:
    return texts.cast(pa.large_binary())


def join_items(column: pa.Array, read: Callable[[pa.Array], pa.LargeBinaryArray]) -> pa.LargeBinaryArray:
    """Return the texts that `read` makes of values, those of a list joined by commas; null for missing lists."""
    if not is_list(column.type):
        return read(column)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    items = pc.fill_null(read(column.flatten()), b"")
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))), pa.int64())
    joined = pc.binary_join(pa.LargeListArray.from_arrays(offsets, items), pa.scalar(b",", pa.large_binary()))
    return pc.if_else(pc.is_valid(column), joined, pa.scalar(None, pa.large_binary()))


def _float_key_texts(column: pa.Array) -> pa.LargeBinaryArray:
    """Return texts that differ if the numbers do, and are those of float32 for numbers that it holds."""
    numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = numbers.astype(np.float32)
    texts = pc.if_else(pa.array(narrow == numbers), *(pa.array(each).cast(pa.string()) for each in (narrow, numbers)))
    texts = pc.if_else(pa.array(np.isnan(numbers)), "nan", texts)  # some have a sign
    integers = (np.floor(numbers) == numbers) & (numbers >= -_INT64_LIMIT) & (numbers < _INT64_LIMIT)
    whole = pa.array(np.where(integers, numbers, 0).astype(np.int64)).cast(pa.string())
    texts = pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string()))
    return _binary(pc.if_else(pa.array(integers), whole, texts))


def canonical_texts(column: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Return texts with numbers and booleans in the spelling of `key_texts`."""
    if not count_non_digits(text_buffers(column)[0]):  # digits alone are themselves
        return column
    odd = pc.match_substring_regex(column, rf"\A(?:{_DECIMAL}|{_WORD})\z")
    odd = pc.and_not(odd, pc.match_substring_regex(column, rf"\A(?:{_CANONICAL})\z"))
    rows = np.flatnonzero(pc.fill_null(odd, False).to_numpy(zero_copy_only=False))
    if not len(rows):
        return column
    corrected = _canonical_spelling(column.take(pa.array(rows)))
    indices = np.arange(len(column))
    indices[rows] = len(column) + np.arange(len(rows))
    return pa.concat_arrays([column, corrected]).take(pa.array(indices))


def _canonical_spelling(texts: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    texts = pc.replace_substring_regex(texts, r"\A\+", "")
    integers = pc.match_substring_regex(texts, rf"\A(?:{_KEY_INTEGER})\z")
    words = pc.match_substring_regex(texts, r"\A(?i:true|false)\z")
    whole = pc.replace_substring_regex(pc.replace_substring_regex(texts, r"\.0*\z", ""), r"\A-0\z", "0")
    lower = _binary(pc.ascii_lower(texts.view(pa.large_string())))
    neither = pc.invert(pc.or_(integers, words))
    floats = pc.if_else(neither, texts, pa.scalar(None, pa.large_binary())).view(pa.large_string()).cast(pa.float64())
    numbers = _float_key_texts(floats)
    canonical = pc.match_substring_regex(texts, r"[nN]")  # Arrow rounds 1e400 to infinity, and what says it has an "n"
    beyond = pc.fill_null(pc.and_not(pc.is_inf(floats), canonical), False)
    return pc.if_else(integers, whole, pc.if_else(words, lower, pc.if_else(beyond, texts, numbers)))


# Digits in groups as in 1,234,567 or, in India, 12,34,567
_GROUPED = "(?:[0-9]{{1,3}}(?:{0}[0-9]{{2,3}})*{0}[0-9]{{3}}|[0-9]+)"
_SPACE = "[ \u00a0\u2009\u202f]"  # between groups, of which most programs write one that breaks no line
_APOSTROPHE = "['\u2019]"


@dataclass(frozen=True, slots=True)
class NumberStyle:
    """The spelling of numbers in texts: the decimal mark, and the mark between groups of three digits."""

    decimal: str = "."
    thousands: str = ""  # "" for none

    @property
    def is_plain(self) -> bool:
        """Return True if numbers are spelled as `infer_type` reads them."""
        return self.decimal == "." and not self.thousands

    def rewrite(self, column: pa.Array) -> tuple[pa.Array, bool]:
        """Return the texts with plain numbers in place of those of this style, and True if all were such numbers."""
        groups, mark = [_SPACE, _APOSTROPHE, re.escape(self.thousands)], re.escape(self.decimal)
        group = next(each for each in groups if re.fullmatch(each, self.thousands))
        whole = _GROUPED.format(group) if self.thousands else "[0-9]+"
        number = rf"(?:{whole}(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?"
        texts = lead_with_minus(column).view(pa.string())
        found = _matches(texts, rf"[+-]?(?:{number}|(?i:nan|inf|infinity))")
        # A minus behind digits alone, such as 1999-, may mean a range: --types says that it is a number
        found = pc.and_(found, pc.invert(_matches(column, "[0-9]+ ?(?:-|−)")))
        if self.thousands:
            texts = pc.replace_substring_regex(texts, group, "")
        plain = pc.replace_substring(texts, self.decimal, ".") if self.decimal != "." else texts
        return pc.if_else(found, plain.view(column.type), column), bool(pc.all(found).as_py() is not False)


def split_lists(texts: pa.Array, separator: str) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Split texts such as `1 2 3` or `[0.5, 1]`; return all parts as binary, and their number in each text.

    A pair of brackets around a list and quotes around a part are left out. A space separates at any white space.
    """
    trimmed = pc.ascii_trim(pc.fill_null(texts, b"").view(pa.string()), characters=" \t\r\n")
    trimmed = pc.ascii_trim(pc.replace_substring_regex(trimmed, _BRACKETS, r"\1\2\3"), characters=" \t\r\n")
    if separator.strip(" ") == "":
        lists = pc.ascii_split_whitespace(trimmed)
    else:
        lists = pc.split_pattern(pc.ascii_rtrim(trimmed, characters=separator + " "), separator)
    lengths = pc.list_value_length(lists).to_numpy().astype(np.int64)
    empty = pc.equal(trimmed, "").to_numpy(zero_copy_only=False)
    parts = pc.ascii_trim(lists.flatten().filter(pa.array(np.repeat(~empty, lengths))), characters=" \t\r\n'\"")
    return parts.view(pa.binary()), np.where(empty, 0, lengths)


def infer_list_type(texts: pa.Array, separator: str) -> ColumnType | None:
    """Return the type of a column of texts that hold lists; None if it has no values."""
    present = texts.drop_null()
    if not len(present):
        return None
    parts, lengths = split_lists(present, separator)
    found = infer_type(parts)
    dtype: ScalarType = found.dtype if found is not None else "int64"
    if (lengths == lengths[0]).all():
        return ColumnType(dtype, int(lengths[0]), len(present))
    return ColumnType(dtype, -1, len(present), (), int((lengths == 0).sum()))


def parse_lists(texts: pa.Array, column: ColumnType, separator: str) -> tuple[pa.Array, dict[int, str]]:
    """Return lists of this type, null or empty where a text is missing, and the reasons of rows that do not fit."""
    parts, lengths = split_lists(texts, separator)
    values, misfits = parse_values(parts, column.dtype)
    rows = np.repeat(np.arange(len(texts)), lengths)
    reasons = {}
    is_missing = texts.is_null().to_numpy(zero_copy_only=False)
    if not column.is_variable:
        for row in np.flatnonzero(~is_missing & (lengths != column.length)).tolist():
            reasons[row] = f"{lengths[row]:,} values, where {column.length:,} were expected"
    for position in misfits.tolist():
        reasons.setdefault(int(rows[position]), misfit_reason(parts[position].as_py(), column.dtype))
    offsets = pa.array(np.append(0, np.cumsum(lengths)))
    mask = None if column.is_variable or not is_missing.any() else pa.array(is_missing)
    return pa.LargeListArray.from_arrays(offsets, values, mask=mask), reasons


_BRACKETS = r"^\[([^\[\]]*)\]$|^\(([^()]*)\)$|^\{([^{}]*)\}$"  # a pair around a text without such brackets
_ITEMS = r" *{number}(?:{separator}{number})+ *"
_LIST = rf"\s*(?:{_ITEMS}|\[{_ITEMS}\]|\({_ITEMS}\))\s*"
_STORED = "values of column {!r} are {}, stored as texts\n{}"
_CURRENCY = "(?:[$£€¥]|CHF|EUR|GBP|USD)"
_MONEY = rf"[+-]?{_CURRENCY}? ?[+-]?[0-9](?:[0-9., ]|{_APOSTROPHE})*(?:[%‰]|CR|DR|{_CURRENCY})?"
# What texts may be in place of numbers: a pattern, a part that one of them must have, what they are, and the remedy
_SPELLINGS = [
    *(
        (rf"[+-]?{_GROUPED.format(group)}(?:{mark}[0-9]*)?", part, f"numbers {what}", f"{flags} makes numbers of them")
        for group, mark, part, what, flags in (
            (",", r"\.", ",", "with commas", "--thousands ,"),
            (_APOSTROPHE, r"\.", _APOSTROPHE, "with apostrophes", '--thousands "\'"'),
            ("_", r"\.", "_", "with underscores", "--thousands _"),
            ("^", ",", ",", "with a decimal comma", "--decimal ,"),
            (r"\.", ",", ",", "with a decimal comma and points", "--decimal , --thousands ."),
            (_SPACE, r"\.", "[\u00a0\u2009\u202f]", "with spaces", "--thousands ' '"),
            (_SPACE, ",", "[\u00a0\u2009\u202f]", "with a decimal comma and spaces", "--decimal , --thousands ' '"),
        )
    ),
    (_MONEY, "[^-0-9.,'\u2019 +]", "numbers with a sign such as $ or %", "numbers have none"),
    *(
        (_LIST.format(number=f"(?:{_FLOAT})", separator=pattern), "", "lists of numbers", separator)
        for pattern, separator in ((r" *, *", ","), (r" *; *", ";"), (r"[ \n]+", " "), (r"\|", "|"))
    ),
]
_SAMPLE = 1000  # values that are looked at first


def _find_spelling(name: str, texts: pa.Array, given: NumberStyle) -> tuple[str, int, int] | None:
    """Return a remark on a column of text of which most are numbers, or all lists, as another program writes them.

    With it go the number of these texts, and the row of the first. None if there are fewer.
    """
    texts = texts.view(pa.large_string())
    present = texts.drop_null()
    head = present.slice(0, _SAMPLE)
    if 2 * pc.match_substring_regex(head, "\\A[-0-9+.,\\[($ £€¥CEGU−]").true_count < len(head):
        return None
    plain, plain_head, most, found = lead_with_minus(texts), lead_with_minus(head), 0, None
    for pattern, part, what, remedy in _SPELLINGS:
        least = 1.0 if what == "lists of numbers" else 0.5
        if _matches(plain_head if least < 1 else head, pattern).true_count < least * len(head):
            continue
        fits = pc.fill_null(_matches(spelled := plain if least < 1 else texts, pattern), False)
        is_most = most < fits.true_count >= least * len(present)
        if is_most and (not part or pc.any(pc.match_substring_regex(spelled.filter(fits), part)).as_py()):
            most, found = fits.true_count, (what, remedy, int(_flags(fits).argmax()))
    if found is None:
        return None
    what, remedy, first = found
    if what == "lists of numbers":
        is_grouped = remedy == " " and pc.all(_matches(present, rf"[+-]?{_GROUPED.format(_SPACE)}")).as_py()
        grouped = "--thousands ' ' makes numbers of them, and " if is_grouped else ""
        remedy = f"{grouped}--list_separator {f'{name}={remedy}'!r} makes lists of them"
    for one, two, mark in (("--decimal", "--thousands", given.thousands), ("--thousands", "--decimal", given.decimal)):
        if remedy.startswith(f"{one} {mark} makes"):
            remedy = f"give {one} {mark} and leave out {two}"
    return _STORED.format(name, what, remedy), most, first
