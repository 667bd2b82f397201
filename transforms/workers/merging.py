"""One CombineFn for all that is merged: a value of nothing seen, and a function that merges two."""

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, TypeVar

import apache_beam as beam

Value = TypeVar("Value")


def only(found: Iterable[Value], default: Value) -> Value:
    """The one value of a side input that may have none.

    Beam's defaults of what is merged globally are three steps more, on clusters each of some seconds.
    """
    return next(iter(found), default)


class Merging(beam.CombineFn):
    """Merges elements by `merge(one, other)`, which is associative and commutative, beginning with `empty()`.

    `merge` returns the merged value. It may change `one` for it, which is always a value of its own making or of
    `empty`; never `other`, which may be an element that a runner merges again.
    """

    def __init__(self, empty: Callable[[], Any], merge: Callable[[Any, Any], Any]) -> None:
        """Keep both functions."""
        super().__init__()
        self._empty, self._merge = empty, merge

    def create_accumulator(self) -> Any:
        """Nothing seen."""
        return self._empty()

    def add_input(self, accumulator: Any, element: Any) -> Any:
        """Add one part."""
        return self._merge(accumulator, element)

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        """Add several parts."""
        return reduce(self._merge, accumulators, self._empty())

    def extract_output(self, accumulator: Any) -> Any:
        """All of it."""
        return accumulator
