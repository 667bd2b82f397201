"""Lists of lists, such as bounding boxes: their shape, and their values in row-major order."""

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

from shardmill.printable import beginning

MAX_RANK = 8  # far more than data have, far less than what parsers and NumPy bear


class ColumnError(ValueError):
    """A value that no feature can hold, as it will stand in rejects/."""


def shape_and_values(value: Sequence[Any]) -> tuple[tuple[int, ...], Sequence[Any]]:
    """The shape of a list, whose inner lists are of one length, and what is in the innermost ones, in order.

    Raises:
      ColumnError: inner lists differ in length or are empty, stand beside values, or are nested too deep.
    """
    shape, items = [len(value)], value
    while list in (kinds := set(map(type, items))):
        lengths = set(map(len, items)) if kinds == {list} else set()
        if not lengths:
            raise ColumnError("a list of lists and values; expected lists alone, or values alone")
        if len(lengths) > 1:
            raise ColumnError(
                f"lists of {min(lengths)} and of {max(lengths)} in one list; expected lists of one length"
            )
        if lengths == {0}:
            raise ColumnError("a list of empty lists; expected [] where there are none")
        if len(shape) == MAX_RANK:
            raise ColumnError(f"lists nested more than {MAX_RANK} deep")
        shape += lengths
        items = list(chain.from_iterable(items))
    return tuple(shape), items


def leaves(value: Any) -> list[Any]:
    """What is in the innermost lists of a value, whatever their lengths; of one that is no list, itself."""
    items = [value]
    while list in set(map(type, items)):
        items = list(chain.from_iterable(item if type(item) is list else [item] for item in items))
    return items


def in_words(shape: Sequence[int | None]) -> str:
    """A shape as errors call it: `any number x 4`."""
    return " x ".join("any number" if size is None else str(size) for size in shape)


def shown(value: Any) -> str:
    """The beginning of a JSON value, or of bytes and the like, as text."""
    try:
        return beginning(json.dumps(value, default=str))
    except RecursionError:  # the parsers go deeper
        return "a value nested too deep"
