"""What is gathered of values that are many, in files of the job's temporary directory: only where it lies travels.

A section holds the numbers, or the counts of values, that one output saw of one split. Numbers are keys of quantiles
(uint32); counts are streams of Arrow's IPC format, one for each part by hash, one after the other.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shardmill.transforms.preprocessing.counted import PARTS, SCHEMA, merged, parted
from shardmill.transforms.preprocessing.quantiles import Keys
from shardmill.transforms.stores import storage

_AT_ONCE = 1 << 24  # bytes that are read of keys at once
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


@dataclass(frozen=True, slots=True)
class Spilled:
    """A section.

    Attributes:
      output: that it is of.
      split: of all of its examples.
      path, starts: where its parts begin, and the last one ends.
    """

    output: str
    split: str
    path: str
    starts: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """Of the section."""
        return self.starts[-1] - self.starts[0]

    def keys(self) -> Iterator[Keys]:
        """The keys of numbers, some at a time."""
        for start in range(self.starts[0], self.starts[-1], _AT_ONCE):
            size = min(_AT_ONCE, self.starts[-1] - start)
            yield np.frombuffer(storage.read_range(self.path, start, size), "<u4")

    def counts(self, first: int, last: int) -> list[pa.Table]:
        """The counts of the parts from `first` to `last`, excluded."""
        start, end = self.starts[first], self.starts[last]
        source = pa.BufferReader(storage.read_range(self.path, start, end - start))
        return [pa.ipc.open_stream(source).read_all() for _ in range(first, last)]


def ranges(sections: Sequence[Spilled], at_once: int) -> list[tuple[int, int]]:
    """Ranges of parts, so that of all sections about `at_once` bytes are read for each."""
    number = 1
    while number < PARTS and sum(section.size_bytes for section in sections) > number * at_once:
        number *= 2
    step = PARTS // number
    return [(first, first + step) for first in range(0, PARTS, step)]


def merged_counts(sections: Sequence[Spilled], first: int, last: int) -> pa.Table:
    """How often each value of a range of parts occurs in all sections."""
    return merged([table for section in sections for table in section.counts(first, last)])


class SpillFile:
    """Sections that are written to one file, at once."""

    def __init__(self, folder: str) -> None:
        # A random name keeps attempts apart
        self._path = storage.join(folder, uuid.uuid4().hex)
        self._written: list[bytes | memoryview] = []
        self._offset = 0
        self.sections: list[Spilled] = []

    def add_keys(self, output: str, split: str, keys: Keys) -> None:
        """Keys of numbers."""
        self._add(output, split, [keys.astype("<u4", copy=False).tobytes()])

    def add_counts(self, output: str, split: str, table: pa.Table) -> None:
        """Counts of values."""
        self._add(output, split, [_stream(part) for part in parted(table)])

    def close(self) -> list[Spilled]:
        """Write them; where they lie."""
        if self.sections:
            storage.write_parts(self._path, self._written)
        return self.sections

    def _add(self, output: str, split: str, parts: Sequence[bytes]) -> None:
        starts = [self._offset]
        for part in parts:
            starts.append(starts[-1] + len(part))
            self._written.append(part)
        self._offset = starts[-1]
        self.sections.append(Spilled(output, split, self._path, tuple(starts)))


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA, options=_OPTIONS) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()
