"""Integers that become float32 and are changed by it, as those above 2^24 may be: what is counted of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardmill.transforms.columns.nested import leaves

_EXACT = float(1 << 24)  # below, float32 holds every integer
_EXACT_DOUBLE = float(1 << 53)  # as float64 does here


@dataclass(frozen=True, slots=True)
class Rounded:
    """Integers of a column that are stored changed; mergeable in any order.

    Attributes:
      number: how many.
      example: the first of them, as texts sort.
    """

    number: int
    example: str


RoundedColumns = Mapping[str, Rounded]


def merge_rounded(one: RoundedColumns, other: RoundedColumns) -> RoundedColumns:
    """What both sets of rows have, by column."""
    merged = {**one, **other}
    for name in one.keys() & other.keys():
        a, b = one[name], other[name]
        merged[name] = Rounded(a.number + b.number, min(a.example, b.example))
    return merged


def rounded_texts(texts: pa.Array, floats: pa.Array) -> Rounded | None:
    """What is rounded of spelled numbers that became `floats`; 1e9 and the like are no integers, 16777217.0 is."""
    large = np.flatnonzero(_are_large(floats))
    if not len(large):
        return None
    spelled = texts.take(pa.array(large)).cast(pa.string())
    narrow = floats.to_numpy(zero_copy_only=False)[large].astype(np.float64)
    numbers = spelled.cast(pa.float64()).to_numpy(zero_copy_only=False)
    whole = (numbers == np.floor(numbers)) & ((numbers != narrow) | (np.abs(numbers) >= _EXACT_DOUBLE))
    found = [
        text
        for text, number in zip(spelled.filter(pa.array(whole)).to_pylist(), narrow[whole].tolist())
        if "e" not in text.lower() and Decimal(text) != Decimal(number)
    ]
    return _of(found)


def rounded_values(values: Sequence[Any], floats: pa.Array) -> Rounded | None:
    """What is rounded of JSON's numbers, or lists of them, that became `floats`."""
    flat = floats.flatten() if pa.types.is_large_list(floats.type) else floats
    if not _are_large(flat).any():
        return None
    return _of(
        [
            f"{item:.0f}" if isinstance(item, float) else str(item)
            for item in leaves(values)
            if isinstance(item, int) or (isinstance(item, float) and _is_whole(item))
            if item != float(np.float32(item))
        ]
    )


def rounded_numbers(numbers: pa.Array, floats: pa.Array) -> npt.NDArray[np.bool_]:
    """Which of Arrow's integers or floats are integers that `floats` changes; null are none."""
    large = _are_large(floats)
    if not large.any():
        return large
    narrow = floats.to_numpy(zero_copy_only=False).astype(np.float64)
    if pa.types.is_integer(numbers.type):
        places = np.flatnonzero(large)
        exact = numbers.take(pa.array(places)).to_pylist()
        large[places] = [value != int(number) for value, number in zip(exact, narrow[places].tolist())]
        return large
    wide = numbers.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return large & (np.abs(wide) < _EXACT_DOUBLE) & (np.floor(wide) == wide) & (wide != narrow)


def rounded_of(numbers: pa.Array) -> Rounded | None:
    """What is said of Arrow's integers or floats, all of which are rounded."""
    return _of([str(int(value)) for value in numbers.to_pylist()])


def rounded_notices(rounded: RoundedColumns) -> list[str]:
    """What must be said of integers that are stored changed."""
    return [
        f"column {name!r} is stored as float32, which changes {found.number:,}"
        f" integer{'' if found.number == 1 else 's'} above 16,777,216, such as {found.example}; a --schema with type"
        f" INT leaves out the rows with fractions, with BYTES it keeps the digits, and --drop {name} leaves"
        " the column out"
        for name, found in sorted(rounded.items())
    ]


def _are_large(floats: pa.Array) -> npt.NDArray[np.bool_]:
    """Which numbers float32 may have rounded from an integer."""
    values = np.abs(floats.to_numpy(zero_copy_only=False))
    return (values >= _EXACT) & (values < np.inf)


def _is_whole(number: float) -> bool:
    return _EXACT <= abs(number) < _EXACT_DOUBLE and number.is_integer()


def _of(found: list[str]) -> Rounded | None:
    return Rounded(len(found), min(found)) if found else None
