"""Bytes of many records at once: pieces laid side by side in a matrix, and its lines copied to where they belong."""

from collections.abc import Iterator

import numpy as np

from shardmill.records import spans
from shardmill.records.example import varint
from shardmill.transforms.examples.framing import windows
from shardmill.transforms.examples.varints import Sizes, encode_varints, largest, varint_widths

TILE_ROWS = 8192  # written at a time: few enough for the processor's cache, enough to outweigh the calls
_SEGMENT_BYTES = 1024  # at which a matrix is copied out even though its rows go on
_NARROW_BYTES = 32  # values up to here are padded to the longest; longer ones are copied one by one
_FAST_WIDTHS = (1, 2, 4, 8, 16)  # of items that NumPy copies without a call each


def tiles(rows: int, step: int) -> Iterator[slice]:
    """All of `rows` in their order, `step` at a time."""
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


class PieceWriter:
    """Writes the records of some rows, piece after piece, each piece for all rows at once.

    Pieces of one width for all rows are gathered into a segment, a matrix with a line a row. A piece whose width
    differs comes last in its segment, padded; then the lines are copied to where their records go on. The padding lands
    in bytes that the record's next pieces overwrite, or else is not copied. After the last piece comes `flush`.
    """

    def __init__(self, out: np.ndarray, starts: np.ndarray, limits: np.ndarray) -> None:
        """Records, one or more, with room for padding.

        Args:
          out: the bytes of all records, uint8.
          starts: where in `out` each record begins, int64 (rows,); they ascend.
          limits: where the bytes end, from each start on, that padding may spoil, for later pieces or the caller
            overwrite it.
        """
        self._out = out
        self._positions = starts.copy()
        self._limits = limits
        self._present: np.ndarray | None = None
        self._fields: list[tuple[bytes | np.ndarray, int]] = []
        self._width = 0

    def only(self, present: np.ndarray | None) -> None:
        """The pieces that follow belong to the rows of the mask `present` alone, None for all."""
        if present is not self._present:
            self.flush()
            self._present = present

    def literal(self, piece: bytes) -> None:
        """The same bytes in every row."""
        self._fields.append((piece, len(piece)))
        self._width += len(piece)

    def field(self, items: np.ndarray, width: int, sizes: Sizes | None = None) -> None:
        """The first bytes of each row's item as it is in memory.

        Args:
          items: of any type, (rows,); one item may be longer than `width`.
          width: how many bytes, in every row, or at most where they differ.
          sizes: how many bytes in each row, if they differ; an int says no more than `width`.
        """
        before = self._width
        self._fields.append((items, width))
        self._width += width
        if isinstance(sizes, np.ndarray):
            self._close(sizes + before)
        elif self._width >= _SEGMENT_BYTES:
            self.flush()

    def varint(self, values: Sizes) -> None:
        """Numbers that are not negative as base-128 varints; an int is that of every row."""
        if isinstance(values, int):
            self.literal(varint(values))
        else:
            widths = varint_widths(values)
            self.field(encode_varints(values.view(np.uint64), widths), largest(widths), widths)

    def ragged(self, data: np.ndarray, starts: np.ndarray, sizes: Sizes) -> None:
        """For each row `sizes` bytes of `data`, uint8, from `starts` on, which ascend."""
        width = largest(sizes)
        if width > _NARROW_BYTES:
            self.flush()
            sizes = np.broadcast_to(sizes, len(starts))
            if self._present is not None:
                sizes = np.where(self._present, sizes, 0)
            spans.copy(data, starts, sizes, self._out, self._positions)
            self._positions += sizes
        elif width:
            first = int(starts[0])
            # Windows may reach beyond their values, and the data; NumPy is fastest at some of their widths.
            window = min((fast for fast in _FAST_WIDTHS if fast >= width), default=width)
            local = np.zeros(int(starts[-1]) - first + window, np.uint8)
            part = data[first : first + len(local)]
            local[: len(part)] = part
            self.field(windows(local, np.dtype((np.void, window)))[starts - first], width, sizes)

    def flush(self) -> None:
        """Copy the pieces so far to their records."""
        if self._width:
            self._close(self._width)

    def _close(self, sizes: Sizes) -> None:
        if self._present is not None:
            sizes = np.where(self._present, sizes, 0)
        lines, width = self._lines(), self._width
        self._fields, self._width = [], 0
        if isinstance(sizes, int) or int((self._limits - self._positions).min()) >= width:
            window = np.dtype((np.void, width))
            windows(self._out, window)[self._positions] = np.ndarray(len(lines), window, lines, 0, lines.strides)
        else:
            spans.copy(lines.view(np.uint8), np.arange(len(lines)) * lines.itemsize, sizes, self._out, self._positions)
        self._positions += sizes

    def _lines(self) -> np.ndarray:
        """The segment's pieces side by side, a void item a row, which may be longer than the segment."""
        template = b"".join(piece if isinstance(piece, bytes) else bytes(width) for piece, width in self._fields)
        template += bytes(
            max((piece.itemsize - width for piece, width in self._fields if not isinstance(piece, bytes)), default=0)
        )
        lines = np.full(len(self._positions), np.void(template))
        begin = spoilt = 0
        for piece, width in self._fields:
            if not isinstance(piece, bytes):
                np.ndarray(len(lines), piece.dtype, lines, begin, lines.strides)[:] = piece
                spoilt = max(spoilt, begin + piece.itemsize)
            elif begin < spoilt:  # by the end of an item before
                np.ndarray(len(lines), np.dtype((np.void, width)), lines, begin, lines.strides)[:] = np.void(piece)
            begin += width
        return lines
