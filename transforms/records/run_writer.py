"""One run of any number of records: what is more than a worker should hold waits, sorted, on its disk."""

from collections.abc import Iterator, Sequence

import numpy as np

from transforms.records.merge import SEGMENT_BYTES, Piece, merged, segments
from transforms.records.run_file import ENTRY, KeyedRecords, Part, Run, SortedRecords, sort_records, write_sorted
from transforms.stores import storage
from transforms.workers.spool import Spool


class RunWriter:
    """Gathers records in any order, a batch at a time, and writes them as one run. A run of one batch is written at
    once; of more, each is sorted, put aside, and merged with the others when the run is closed."""

    def __init__(self, path: str, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Args:

        path: of the run, which is not there yet.
        segment_bytes: merged at once, about.
        """
        self._path, self._segment_bytes = path, segment_bytes
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
            return write_sorted(self._path, self._first)
        return self._merge() if self._pieces else None

    def _put_aside(self, batch: SortedRecords) -> None:
        self._spool = self._spool or Spool()
        self._spool.write(self._spooled, batch.data)
        start = 0
        for part in batch.parts:
            stop = start + part.rows
            entries = batch.index[start:stop]
            keys, ties, sizes = (np.ascontiguousarray(entries[name]) for name in ("key", "tie", "size"))
            self._pieces.setdefault(part.group, []).append(Piece(self._spool, self._spooled, keys, ties, sizes))
            self._spooled += part.size_bytes
            start = stop

    def _merge(self) -> Run:
        parts, index = [], []
        with storage.open_write(self._path) as file:
            for group, pieces in sorted(self._pieces.items()):
                for data, entries in self._segments(pieces):
                    file.write(data)
                    index.append(entries)
                rows = sum(len(piece.keys) for piece in pieces)
                parts.append(Part(group, rows, sum(int(piece.sizes.sum(dtype=np.int64)) for piece in pieces)))
            for entries in index:
                file.write(entries.tobytes())
        return Run(self._path, self._spooled, tuple(parts))

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
