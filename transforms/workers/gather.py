"""Fewer, larger elements: a runner's cost is per element, so small ones are gathered within a bundle."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam

from shardmill.transforms.workers.windowed import windowed


class Gather(beam.DoFn):
    """Gathers elements, and emits what is made of them before they become too many, and when the bundle ends."""

    def __init__(
        self,
        make: Callable[..., Iterable[Any]],
        size_of: Callable[[Any], float] = lambda _: 1,
        most: float | Callable[..., float] = math.inf,
    ) -> None:
        """Args:

        make: what is emitted of some elements, given their list and the side inputs.
        size_of: the size of an element.
        most: the size of what is gathered at once, or what tells it, given the side inputs; an element that is larger
          is alone.
        """
        self._make, self._size_of, self._most = make, size_of, most

    def start_bundle(self) -> None:
        """Nothing is gathered."""
        self._held: list[Any] = []
        self._size: float = 0
        self._side: tuple[Any, ...] = ()

    def process(self, element: Any, *side: Any) -> Iterator[Any]:
        """Gather one; make room for it first."""
        size = self._size_of(element)
        self._side = side  # the same for all of a bundle, whose end is told none
        most = self._most(*side) if callable(self._most) else self._most
        if self._held and self._size + size > most:
            yield from self._flush()
        self._held.append(element)
        self._size += size

    def finish_bundle(self) -> Iterator[Any]:
        """Emit the rest."""
        if self._held:
            yield from map(windowed, self._flush())

    def _flush(self) -> Iterable[Any]:
        held, self._held, self._size = self._held, [], 0
        return self._make(held, *self._side)
