"""Lengths of time as a recipe writes them: `90s`, `30m`, `26h`, `30d`, `2w`."""

import re
from fractions import Fraction
from typing import Any

from shardmill.transforms.options.declare import ValueMistake

DAY = 86_400  # seconds
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": DAY, "w": 7 * DAY}  # seconds
_MAX_SECONDS = 36_500 * DAY  # a hundred years: what is older than that is a slip of the pen


def parse_duration(value: Any) -> float:
    """Seconds from `26h` and the like, or a number of them that is used as it is.

    Raises:
      ValueMistake: it is no length of time above 0.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", str(value).strip(), re.ASCII)
    if match is None:
        raise ValueMistake(f"{value!r} is not a length of time; expected a number and a unit, such as 26h or 30d")
    seconds = float(Fraction(match[1]) * _UNITS[match[2]])
    if not 0 < seconds <= _MAX_SECONDS:
        raise ValueMistake(f"{value!r}: expected more than nothing, and at most a hundred years")
    return seconds


def parse_days(value: Any) -> int:
    """Whole days from `7d`, or a number of them that is used as it is.

    Raises:
      ValueMistake: they are none, or not whole.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    seconds = parse_duration(value)
    if seconds % DAY:
        raise ValueMistake(f"{value!r} is not a number of whole days, such as 7d")
    return int(seconds) // DAY


def shown(seconds: float) -> str:
    """A length of time in the largest unit of which there are some: 50h is not 2.08d."""
    for unit, size in (("d", DAY), ("h", 3600), ("m", 60)):
        if seconds >= 3 * size or (seconds >= 2 * size and not seconds % size):
            return f"{seconds / size:.3g}{unit}"
    return f"{seconds:.3g}s"
