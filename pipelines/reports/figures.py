"""Figures as a person reads them, and which of a feature's numbers are shown. Pure."""

import math
from collections.abc import Callable, Collection

from shardmill.statistics.feature_summary import FeatureSummary
from shardmill.statistics.numbers import Number, Numbers
from shardmill.statistics.values import Distinct

QUANTILES = ("0.05", "0.5", "0.95")  # that a row has room for

_PLAIN = 1e15  # from which a number is written with an exponent
_WHOLE = 1e4  # from which a fraction's decimals say nothing


def figure(value: Number | None, missing: str = "") -> str:
    """A number with thousands separators, of a fraction four digits; `missing` where there is none."""
    if value is None:
        return missing
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return str(value)
    if _WHOLE <= abs(value) < _PLAIN:
        return f"{value:,.0f}"
    return f"{value:,.4g}"


def so_many(number: int, one: str, several: str = "") -> str:
    """So many things, of which one is called `one`, and several by an `s` at its end if not otherwise."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def share(part: float, whole: float) -> str:
    """A part as a percentage: never 0 % of something, nor 100 % of less than all."""
    if not whole or not part:
        return "0 %"
    percent = 100 * part / whole
    if part < whole:
        percent = min(percent, 99.9)
    if percent < 0.1:
        return "under 0.1 %"
    return f"{percent:.0f} %" if percent == 100 else f"{percent:.1f} %"


def human_size(size_bytes: int) -> str:
    """A size in bytes, with a decimal unit."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if round(size, 1) < 1000:  # 999,999 bytes are 1.0 MB
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def from_to(numbers: Collection[int], words: Callable[[int], str] = "{:,}".format) -> str:
    """The least and the greatest of `numbers` in words, once where they are the same."""
    least, greatest = words(min(numbers)), words(max(numbers))
    return least if least == greatest else f"{least} to {greatest}"


def distinct_words(distinct: Distinct | None) -> str:
    """How many values differ; an estimate has a `~` before it."""
    if distinct is None:
        return ""
    return f"{'' if distinct.is_exact else '~'}{distinct.count:,}"


def measured(summary: FeatureSummary) -> tuple[str, Numbers | None]:
    """The numbers by which a feature is described, and what they are: of numbers the values themselves, with no word
    for them; else their lengths, or the sizes of files; None where nothing was measured."""
    for word, numbers in (
        ("", summary.numbers),
        ("all values", summary.values),
        ("length in bytes", summary.length_bytes),
        ("size in bytes", summary.size_bytes),
    ):
        if numbers is not None:
            return word, numbers
    return "", None
