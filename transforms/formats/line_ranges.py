"""Where the lines of a text lie, and which of them are blank or not valid."""

import codecs
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.records import spans
from shardmill.transforms.columns.arrow import slices

_LF, _CR = 10, 13  # as bytes

Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def line_ranges(data: bytes) -> tuple[Positions, Positions]:
    """The start and the end of each line without what ends it, LF or CR LF: int64, shape (lines,) each."""
    if not data:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    codes = np.frombuffer(data, np.uint8)
    ends = spans.find(data, _LF)
    if not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1))
    stops = ends
    if b"\r" in data:
        stops = ends - (codes[ends - 1] == _CR) * (ends > starts)
    if data.endswith(b"\r"):  # the end of a file, not of a line
        stops[-1] = len(data)
    return starts, stops


def invalid_lines(data: bytes, starts: Positions, stops: Positions, encoding: str) -> Iterator[tuple[int, str]]:
    """Which lines are not UTF-8, and why, in the words of the encoding that they had in their file."""
    codes = np.frombuffer(data, np.uint8)
    suspects = np.unique(np.searchsorted(starts, np.flatnonzero(codes >= 0x80), "right") - 1)
    for row in suspects.tolist():
        line = data[starts[row] : stops[row]]
        try:
            line.decode()
        except UnicodeDecodeError as error:
            if codecs.lookup(encoding).name in ("utf-8", "utf-8-sig"):
                yield row, f"not {encoding}: byte 0x{line[error.start]:02x} at position {error.start + 1:,} of the line"
            else:
                before = len(line[: error.start].decode())
                yield row, f"not {encoding}: what follows character {before:,} of the line"


def blank_lines(data: bytes, starts: Positions, stops: Positions, valid: Flags) -> Flags:
    """Which lines are empty, or white space only as str.isspace has it; none that is not valid."""
    blank = starts == stops
    # Only lines that do not start with a visible ASCII character can be white space.
    codes = np.frombuffer(data, np.uint8)
    first = codes[np.minimum(starts, len(codes) - 1)]
    suspects = np.flatnonzero(~blank & valid & ((first <= 0x20) | (first >= 0x80)))
    if len(suspects):
        texts = slices(data, starts[suspects], stops[suspects])
        strings = pa.Array.from_buffers(pa.large_string(), len(texts), texts.buffers())
        blank[suspects] = pc.utf8_is_space(strings).to_numpy(zero_copy_only=False)
    return blank
