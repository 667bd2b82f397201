"""Columns of times that become numbers, as a user writes it."""

from typing import Any, cast

from shardmill.features.feature import TimeUnit
from shardmill.transforms.options.declare import ValueMistake

# Of numpy.datetime64, and how many of each are a second
UNITS: dict[str, int] = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def parse_timestamps(value: Any) -> tuple[tuple[str, TimeUnit], ...]:
    """(column, unit) of each `created=ms`; or pairs, or a mapping.

    Raises:
      ValueMistake: one of them is not column=unit, or a column is there twice.
    """
    items = value.items() if isinstance(value, dict) else (value,) if isinstance(value, str) else value
    pairs = [tuple(item.rpartition("=")[::2]) if isinstance(item, str) else tuple(item) for item in items]
    columns = [column for column, _ in pairs]
    for column, unit in pairs:
        if not column or unit not in UNITS:
            shown = f"{column}={unit}" if column else unit
            raise ValueMistake(f"{shown} is not column=unit, such as created=ms; units are {', '.join(UNITS)}")
        if columns.count(column) > 1:
            raise ValueMistake(f"{column}=… is given twice")
    return tuple((column, cast(TimeUnit, unit)) for column, unit in pairs)
