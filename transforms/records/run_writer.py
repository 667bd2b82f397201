"""One run of any number of records: what is more than a worker should hold waits, sorted, on its disk."""

from collections.abc import Iterator, Sequence

import numpy as np

from shardmill.transforms.records.merge import SEGMENT_BYTES, Piece, merged, segments
from shardmill.transforms.records.run_file import (
    KeyedRecords,
    Part,
    Run,
    SortedRecords,
    columns_of,
    sort_records,
    write_sorted,
)
from shardmill.transforms.records.self_contained import ENTRY, with_entries
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.spool import Spool


class RunWriter:
    """Gathers records in any order, a batch at a time, and writes them as one run. A run of one batch is written at
    once; of more, each is sorted, put aside, and merged with the others when the run is closed."""

    def __init__(self, path: str, self_contained: bool = False, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Args:

        path: of the run, which is not there yet.
        self_contained: whether each record gets its entry before it, as in an object store.
        segment_bytes: merged at once, about.
        """
        self._path, self._self_contained, self._segment_bytes = path, self_contained, segment_bytes
        self._first: SortedRecords | None = None
        self._spool: Spool | None = None
        self._pieces: dict[str, list[Piece]] = {}
        self._spooled = 0

    def add(self, records: KeyedRecords) -> None:
        """Take a batch of at least one record; raises OSError, as where the worker's disk is full."""
        batch = sort_records(records)
        if self._first is None and self._spool is None:
            self._first = batch
            return
        if self._first is not None:
            self._put_aside(self._first)
            self._first = None
        self._put_aside(batch)

    def close(self) -> Run | None:
        """Write the run; None if there are no records.

        Raises:
          OSError: it cannot be written.
          FileExistsError: there is a file already.
        """
        if self._first is not None:
            return write_sorted(self._path, self._first, self._self_contained)
        return self._merge() if self._pieces else None

    def _put_aside(self, batch: SortedRecords) -> None:
        self._spool = self._spool or Spool()
        self._spool.write(self._spooled, batch.data)
        start = 0
        for part in batch.parts:
            stop = start + part.rows
            keyed = columns_of(batch.index[start:stop])
            self._pieces.setdefault(part.group, []).append(Piece(self._spool, self._spooled, *keyed))
            self._spooled += part.size_bytes
            start = stop

    def _merge(self) -> Run:
        parts, index, written = [], [], 0
        with storage.open_write(self._path) as file:
            for group, pieces in sorted(self._pieces.items()):
                for records, entries in self._segments(pieces):
                    data = with_entries(records, entries) if self._self_contained else records
                    file.write(data)
                    index.append(entries)
                    written += len(data)
                rows = sum(len(piece.keys) for piece in pieces)
                parts.append(Part(group, rows, sum(int(piece.sizes.sum(dtype=np.int64)) for piece in pieces)))
            for entries in index:
                file.write(entries.tobytes())
        return Run(self._path, written, tuple(parts), self._self_contained)

    def _segments(self, pieces: Sequence[Piece]) -> Iterator[tuple[memoryview, np.ndarray]]:
        """The framed records of each segment, and their entries, in the order of their keys."""
        for segment in segments(pieces, self._segment_bytes):
            data, order = merged(segment)
            entries = np.empty(len(order), ENTRY)
            for name, arrays in (
                ("key", [piece.keys for piece in segment]),
                ("tie", [piece.ties for piece in segment]),
                ("size", [piece.sizes for piece in segment]),
            ):
                entries[name] = np.concatenate(arrays)[order]
            yield data, entries
