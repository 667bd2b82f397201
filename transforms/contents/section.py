"""Contents in a file of the job's temporary directory, so that nothing but where they lie travels between stages.

A section holds those of some examples of one split, by the first eight bits of their hashes: where each of these 256
parts begins (uint32), the high halves, the low halves, the places and, if it has any, the labels (uint64), and the
names of the files that they come from, with NUL between them, which no file has in its name.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shardmill.transforms.columns.codes import narrow
from shardmill.transforms.contents.hashes import Contents, Hashes
from shardmill.transforms.contents.places import find_places
from shardmill.transforms.stores import storage

BITS = 8  # of a hash, the highest: which part of a section it is in
_PARTS = 1 << BITS
_STARTS_BYTES = 4 * (_PARTS + 1)  # where parts begin, and where the last one ends: uint32
_ITEM = 8  # bytes of a uint64
SEPARATOR = b"\0"


@dataclass(frozen=True, slots=True)
class Section:
    """Where contents lie.

    Attributes:
      split: of all of these examples.
      path, offset: of the section.
      examples: in it.
      names_bytes: of the names.
      first_line: what stands for the first line of a file; 1 where 0 stands for all of a file.
      columns: of the contents: 4 with labels, else 3.
    """

    split: str
    path: str
    offset: int
    examples: int
    names_bytes: int
    first_line: int = 0
    columns: int = 3

    @property
    def size_bytes(self) -> int:
        """Of the section."""
        return self._column(self.columns) - self.offset + self.names_bytes

    def _column(self, number: int) -> int:
        return self.offset + _STARTS_BYTES + number * self.examples * _ITEM

    def rows(self, first: int, last: int) -> tuple[int, int]:
        """The rows of the parts from `first` to `last`, excluded."""
        if (first, last) == (0, _PARTS):
            return 0, self.examples
        starts = np.frombuffer(storage.read_range(self.path, self.offset, _STARTS_BYTES), "<u4")
        return int(starts[first]), int(starts[last])

    def high(self, start: int, stop: int) -> Hashes:
        """The high halves of rows `start` to `stop`."""
        return self._read(0, start, stop)

    def contents(self, start: int, stop: int) -> Contents:
        """All that is known of rows `start` to `stop`."""
        return Contents(*(self._read(number, start, stop) for number in range(self.columns)))

    def _read(self, number: int, start: int, stop: int) -> Hashes:
        at = self._column(number) + start * _ITEM
        return np.frombuffer(storage.read_range(self.path, at, (stop - start) * _ITEM), "<u8")

    def find(self, places: Iterable[int]) -> dict[int, tuple[str, int | None]]:
        """File and line of each place; None for the line where the file is all of the example."""
        data = storage.read_range(self.path, self._column(self.columns), self.names_bytes)
        return {
            place: (name, None if line < self.first_line else line - self.first_line)
            for place, (name, line) in find_places(places, data).items()
        }


def names_blob(names: Iterable[str]) -> bytes:
    """Names as they stand in a section."""
    return SEPARATOR.join(name.encode() for name in names)


def in_parts(contents: Contents, splits: NDArray[np.int64], number: int) -> list[Contents]:
    """Those of each of `number` splits, in the order of their parts, in which a section has them: sorted once.

    Args:
      contents: any.
      splits: of each the number of its split, shape (n,).
      number: how many splits there are; some may have no contents.
    """
    parts = number << BITS
    code = narrow((splits << BITS) + (contents.high >> np.uint64(64 - BITS)).astype(np.int64), parts)
    order = np.argsort(code, kind="stable")
    ordered, bounds = contents.take(order), np.searchsorted(code.take(order), np.arange(0, parts + 1, _PARTS)).tolist()
    return [ordered.between(start, stop) for start, stop in pairwise(bounds)]


def layout_section(
    contents: Contents, split: str, path: str, offset: int, names: bytes, first_line: int = 0
) -> tuple[Section, list[object]]:
    """A section of contents as `in_parts` orders them, and the parts of its bytes, to be written at `offset` of the
    file at `path`."""
    # Parts lie one behind the other, so the first of each is found by halving
    first_bits = (contents.high >> np.uint64(64 - BITS)).astype(np.int64)
    starts = np.searchsorted(first_bits, np.arange(_PARTS + 1)).astype("<u4")
    columns = [contents.high, contents.low, contents.places, *([] if contents.labels is None else [contents.labels])]
    section = Section(split, path, offset, len(contents), len(names), first_line, len(columns))
    return section, [starts, *(column.astype("<u8", copy=False) for column in columns), names]


def number_of_ranges(examples: int, most: int) -> int:
    """By how many ranges of high halves some examples are looked through, about `most` at once: a power of 2."""
    number = 1
    while number * most < examples:
        number *= 2
    return number


def range_of(index: int, number: int) -> tuple[int, int]:
    """The least and the greatest high half of one of `number` ranges."""
    step = (1 << 64) // number
    return index * step, (index + 1) * step - 1
