"""`{YYYY}`, `{MM}` and `{DD}` in inputs and versions: the day of --date, or each of the days up to it."""

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

from shardmill.transforms.options.declare import ValueMistake

_TOKENS = {"{YYYY}": "%Y", "{MM}": "%m", "{DD}": "%d"}
_TOKEN = re.compile(r"\{(?:YYYY|MM|DD)\}")
_WORD = re.compile(r"(?<!\$)\{[A-Za-z]+\}")  # which `{a,b}`, a choice in a glob, is not


def parse_date(value: Any) -> date:
    """A day from `2026-11-20`.

    Raises:
      ValueMistake: it is none.
    """
    if isinstance(value, date):
        return value
    try:
        return datetime.strptime(str(value), "%Y-%m-%d").date()
    except ValueError:
        raise ValueMistake(f"{value!r} is not a day; expected year, month and day, such as 2026-11-20") from None


def has_dates(text: str) -> bool:
    """Whether `text` depends on the day."""
    return _TOKEN.search(text) is not None


def odd_word(text: str) -> str | None:
    """The first `{WORD}` of `text` that is no part of a date, None if there is none."""
    return next((match[0] for match in _WORD.finditer(text) if match[0] not in _TOKENS), None)


def dated(text: str, day: date) -> str:
    """`text` of one day."""
    for token, form in _TOKENS.items():
        text = text.replace(token, f"{day.year:04d}" if form == "%Y" else day.strftime(form))
    return text


def window(day: date, days: int) -> list[date]:
    """The last `days` days up to `day`, the oldest first."""
    return [day - timedelta(days=back) for back in reversed(range(days))]


def dated_glob(text: str, days: Sequence[date]) -> str:
    """`text` of each of the days, as one glob: what stands between the first and the last date of it is a choice
    `{…,…}`.

    `dt={YYYY}-{MM}-{DD}/*.csv` of two days is `dt={2026-11-19,2026-11-20}/*.csv`.
    """
    if len(days) == 1 or not has_dates(text):
        return dated(text, days[-1])
    places = [match.span() for match in _TOKEN.finditer(text)]
    start, end = places[0][0], places[-1][1]
    choices = list(dict.fromkeys(dated(text[start:end], day) for day in days))
    choice = choices[0] if len(choices) == 1 else f"{{{','.join(choices)}}}"
    return f"{text[:start]}{choice}{text[end:]}"


def dated_version(text: str, day: date) -> str:
    """A version of one day: its three numbers have no leading zeros, which TFDS does not know its folder by."""
    if not has_dates(text):
        return text
    return ".".join(str(int(part)) if part.isdecimal() else part for part in dated(text, day).split("."))
