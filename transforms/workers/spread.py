"""Elements to all workers: by a GroupByKey, for a Reshuffle is a wish, which Flink's optimiser of batch jobs may pass
over, and then one worker does all that comes behind."""

from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam
import xxhash


class Spread(beam.PTransform):
    """Elements -> the same, each of them wherever there is room. They travel by a hash of what names them, so that an
    attempt that is repeated sends them where the first one did."""

    def __init__(self, name_of: Callable[[Any], str]) -> None:
        """Args:

        name_of: of an element; those of one name stay together.
        """
        super().__init__()
        self._name_of = name_of

    def expand(self, pcoll: beam.PCollection[Any]) -> beam.PCollection[Any]:
        """Keys, groups, and back."""
        keyed = pcoll | "ByName" >> beam.Map(_keyed, self._name_of).with_output_types(tuple[int, Any])
        return keyed | "Spread" >> beam.GroupByKey() | "Elements" >> beam.FlatMap(_elements).with_output_types(Any)


def _keyed(element: Any, name_of: Callable[[Any], str]) -> tuple[int, Any]:
    return xxhash.xxh32_intdigest(name_of(element).encode(errors="surrogateescape")), element


def _elements(group: tuple[int, Iterable[Any]]) -> Iterable[Any]:
    return group[1]
