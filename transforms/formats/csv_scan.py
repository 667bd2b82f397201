"""Find where the records of a CSV text begin and end: RFC 4180 as Arrow reads it, over bytes, vectorized.

A quote opens a field only at the field's start; a lone quote elsewhere in an unquoted field is text. For runs of
consecutive quotes this means:

* A run of even length changes nothing.
* A run of odd length after a delimiter or a line end opens or closes a field.
* Any other run of odd length closes a field, or is text.

What precedes a range of bytes decides by only one bit which of its newlines end records: whether the range starts
inside quotes. So ranges are scanned separately for both cases, and then stitched.

Lines end in LF, CR LF or a lone CR.
"""

from codecs import BOM_UTF8 as BOM
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from shardmill.data import spans
from shardmill.transforms.formats.conventions import Dialect

Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_LF, _CR = 10, 13  # as bytes
BYTES_BEFORE = 1 + len(BOM)  # a range: a quote after a line end and a byte order mark opens a field
SCAN_BYTES = 1 << 20  # at once: the positions of newlines and quotes are eight times as many bytes


@dataclass(frozen=True, slots=True)
class ScanState:
    """The scan of a byte range for one assumption: that it starts inside quotes, or outside."""

    is_inside: bool  # True if the range ends inside quotes
    last_end: int | None = None  # end of the last record that ends in the range, or None
    last_lines: int = 0  # lines of the range up to last_end
    open_start: int | None = None  # start of the field opened in the range, if open at its end
    open_lines: int = 0  # lines of the range up to open_start

    def join(self, following: "ScanState", lines: int) -> "ScanState":
        """Join this range, of `lines` lines, with the next, which starts in the state in which this one ends."""
        last, last_lines = following.last_end, lines + following.last_lines
        if last is None:
            last, last_lines = self.last_end, self.last_lines
        opened, opened_lines = following.open_start, lines + following.open_lines
        if opened is None:
            opened, opened_lines = (self.open_start, self.open_lines) if following.is_inside else (None, 0)
        return ScanState(following.is_inside, last, last_lines, opened, opened_lines)


@dataclass(frozen=True, slots=True)
class ScannedRange:
    """A byte range, scanned without knowing what precedes it."""

    stop: int  # end of the range; all positions count from the same byte
    lines: int  # lines that end in the range, in quotes or not
    scans: tuple[ScanState, ScanState]  # scans for a start outside quotes, and inside

    def join(self, following: "ScannedRange") -> "ScannedRange":
        """Join this range and the one that follows it."""
        first, second = (side.join(following.scans[side.is_inside], self.lines) for side in self.scans)
        return ScannedRange(following.stop, self.lines + following.lines, (first, second))


def scan_range(data: bytes, dialect: Dialect, begin: int = 0, end: int | None = None, at: int = 0) -> ScannedRange:
    """Scan data[begin:end].

    A run of quotes belongs to the range in which it starts, a newline to the range of its last byte.

    Args:
        data: includes BYTES_BEFORE bytes before `begin`, unless the text starts there, and the bytes up to one after
            `end` that is no quote, unless the text ends earlier.
        at: position of data[0], to which the positions of the result are relative.
    """
    end = len(data) if end is None else end
    if not dialect.quote or data.find(dialect.quote, begin, end) < 0:
        return _scan_without_quotes(data, begin, end, at)
    parts = (
        _scan_with_quotes(data, dialect, start, min(start + SCAN_BYTES, end), at)
        for start in range(begin, end, SCAN_BYTES)
    )
    return reduce(ScannedRange.join, parts)


def _scan_with_quotes(data: bytes, dialect: Dialect, begin: int, end: int, at: int) -> ScannedRange:
    codes = np.frombuffer(data, np.uint8)
    newlines = line_ends(data, begin, end)
    runs = _quote_runs(codes, dialect, begin, end)
    before = np.searchsorted(runs.starts, newlines)  # runs before each newline
    outside, inside = (_scan_state(newlines, before, runs, runs.states(inside), at) for inside in (False, True))
    return ScannedRange(end + at, len(newlines), (outside, inside))


def _scan_without_quotes(data: bytes, begin: int, end: int, at: int) -> ScannedRange:
    lines = count_lines(data, begin, end)
    alone = end - 1 if data[end - 1 : end + 1] == b"\r\n" else end  # a CR before an LF ends no line
    last = max(data.rfind(b"\n", begin, end), data.rfind(b"\r", begin, alone))
    outside = ScanState(False, last + 1 + at, lines) if lines else ScanState(False)
    return ScannedRange(end + at, lines, (outside, ScanState(True)))


def count_lines(data: bytes, begin: int = 0, end: int | None = None) -> int:
    """Return the number of line ends in data[begin:end], as `line_ends` finds them."""
    end = len(data) if end is None else end
    part = memoryview(data)[begin:end]
    lines = spans.count(part, _LF)
    if data.find(b"\r", begin, end) >= 0:
        lines += spans.count(part, _CR) - data.count(b"\r\n", begin, end + 1)
    return lines


def line_ends(data: bytes, begin: int = 0, end: int | None = None) -> Positions:
    """Return the position of each LF, and of each CR not followed by LF, within data[begin:end]."""
    end = len(data) if end is None else end
    codes = np.frombuffer(data, np.uint8)
    part = codes[begin:end]
    if data.find(b"\r", begin, end) < 0:
        return spans.find(part, _LF) + begin
    following = codes[begin + 1 : end + 1]
    ends = (part == _LF) | (part == _CR)
    ends[: len(following)] &= (part[: len(following)] == _LF) | (following != _LF)
    return np.flatnonzero(ends) + begin


@dataclass(frozen=True, slots=True)
class _Runs:
    starts: Positions
    stops: Positions
    is_odd: Flags  # True if the run has odd length
    is_leading: Flags  # True after a delimiter, a newline or at the text's start

    def states(self, inside: bool) -> Flags:
        """Return, before the first run and after each run, True if inside quotes, given the state before the first."""
        toggles = np.cumsum(self.is_odd & self.is_leading)
        closes = self.is_odd & ~self.is_leading
        # Since the last run that can only close, the state has changed with every run that can do both.
        base = np.where(closes, toggles, -1 if inside else 0)
        base = np.maximum.accumulate(base, out=base) if closes.any() else base
        states = np.empty(len(toggles) + 1, bool)
        states[0] = inside
        np.not_equal((toggles - base) & 1, 0, out=states[1:])
        return states


def _quote_runs(codes: npt.NDArray[np.uint8], dialect: Dialect, begin: int, end: int) -> _Runs:
    quote = dialect.quote[0]
    stop = end  # a run that starts in the range may go on after it
    while stop < len(codes) and codes[stop] == quote:
        stop += 1
    quotes = np.flatnonzero(codes[begin:stop] == quote) + begin
    first = np.ones(len(quotes), bool)
    np.not_equal(quotes[1:], quotes[:-1] + 1, out=first[1:])
    if begin > 0 and len(quotes) and quotes[0] == begin:
        first[0] = codes[begin - 1] != quote
    heads = np.flatnonzero(first)
    starts = quotes[heads]
    stops = quotes[np.append(heads[1:], len(quotes)) - 1] + 1 if len(heads) else starts
    kept = starts < end
    starts, stops = starts[kept], stops[kept]
    previous = codes[starts - 1]  # for the first start this may be the last byte; corrected below
    leads = (previous == _LF) | (previous == _CR) | (previous == dialect.delimiter[0])
    for place in np.flatnonzero(previous == BOM[-1]).tolist():
        before = codes[max(starts[place] - BYTES_BEFORE, 0) : starts[place]].tobytes()
        leads[place] = before.endswith(BOM) and before[:-3] in (b"", b"\n", b"\r")
    if len(starts) and starts[0] == 0:
        leads[0] = True
    return _Runs(starts, stops, (stops - starts) % 2 == 1, leads)


def _scan_state(newlines: Positions, before: Positions, runs: _Runs, states: Flags, at: int) -> ScanState:
    ends = np.flatnonzero(~states[before])
    inside = bool(states[-1])
    opens = np.flatnonzero(states[1:] & ~states[:-1])
    opened = int(runs.starts[opens[-1]]) if inside and len(opens) else None
    return ScanState(
        inside,
        int(newlines[ends[-1]]) + 1 + at if len(ends) else None,
        int(ends[-1]) + 1 if len(ends) else 0,
        None if opened is None else opened + at,
        0 if opened is None else int(np.searchsorted(newlines, opened)),
    )


@dataclass(frozen=True, slots=True)
class Stitched:
    """Consecutive byte ranges of a CSV text, joined as if they had been scanned at once."""

    # (position, line from 1): the first record's start, and the end of each range's last record
    cuts: list[tuple[int, int]]
    open_line: int | None  # line of the field that is open at the end, or None


def stitch(ranges: Iterable[ScannedRange], begin: int = 0, line: int = 1) -> Stitched:
    """Join the scans of consecutive ranges, as if the whole text had been scanned at once.

    The first record starts at position `begin`, on `line`, from 1.
    """
    cuts, inside, open_line = [(begin, line)], False, None
    for part in ranges:
        side = part.scans[inside]
        if side.last_end is not None:
            cuts.append((side.last_end, line + side.last_lines))
        if side.open_start is not None:
            open_line = line + side.open_lines
        line += part.lines
        inside = side.is_inside
    return Stitched(cuts, open_line if inside else None)


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a whole text, including blank ones.

    Attributes:
        starts, stops: byte range of each record, with its newline
    """

    starts: Positions
    stops: Positions
    lines: Positions  # line on which each record starts, from 0
    is_blank: Flags  # True for records that are only a newline
    is_malformed: Flags  # True if text follows the closing quote of a field

    def record_numbers(self, positions: Positions) -> Positions:
        """Return the numbers of the records that hold the bytes at `positions`."""
        return np.searchsorted(self.stops, positions, side="right")

    def begin_with(self, mark: bytes, data: bytes) -> Flags:
        """Flag the records that begin with `mark`, comments; none if it is b""."""
        flags = np.zeros(len(self.starts), bool)
        if mark:
            codes = np.frombuffer(data, np.uint8)
            likely = np.flatnonzero(codes[self.starts] == mark[0])
            flags[likely] = [data.startswith(mark, start) for start in self.starts[likely].tolist()]
        return flags


def find_records(data: bytes, dialect: Dialect) -> Records:
    """Find the records of a text that starts with one; an unfinished record counts too."""
    newlines = line_ends(data)
    quoted = bool(dialect.quote) and dialect.quote in data
    lines = np.arange(len(newlines) + 1)
    ends = newlines
    if quoted:
        runs = _quote_runs(np.frombuffer(data, np.uint8), dialect, 0, len(data))
        states = runs.states(False)
        outside = ~states[np.searchsorted(runs.starts, newlines)]
        ends = newlines[outside]
        lines = np.append(0, np.flatnonzero(outside) + 1)
    stops = ends + 1
    if not len(stops) or stops[-1] < len(data):
        stops = np.append(stops, len(data)) if data else stops
    starts = np.append(0, stops[:-1]) if len(stops) else stops
    found = Records(starts, stops, lines[: len(stops)], _flag_blank(data, starts, stops), np.zeros(len(stops), bool))
    if quoted:
        found.is_malformed[found.record_numbers(_stray_quote_ends(data, dialect, runs, states))] = True
    return found


def is_malformed(data: bytes, dialect: Dialect) -> bool:
    """Return True if any record of `data`, which starts with one, is malformed; faster than `find_records`."""
    if not dialect.quote or dialect.quote not in data:
        return False
    runs = _quote_runs(np.frombuffer(data, np.uint8), dialect, 0, len(data))
    return len(_stray_quote_ends(data, dialect, runs, runs.states(False))) > 0


def _flag_blank(data: bytes, starts: Positions, stops: Positions) -> Flags:
    codes = np.frombuffer(data, np.uint8)
    length = stops - starts
    blank = length == 1
    blank[blank] = np.isin(codes[starts[blank]], (_LF, _CR))
    two = np.flatnonzero(length == 2)
    blank[two] = (codes[starts[two]] == _CR) & (codes[starts[two] + 1] == _LF)
    return blank


def _stray_quote_ends(data: bytes, dialect: Dialect, runs: _Runs, states: Flags) -> Positions:
    codes = np.frombuffer(data, np.uint8)
    before = states[:-1]
    closes = np.where(before, runs.is_odd, runs.is_leading & ~runs.is_odd)
    ends = runs.stops[closes]
    following = codes[np.minimum(ends, len(codes) - 1)]
    fine = (ends == len(codes)) | (following == _LF) | (following == _CR) | (following == dialect.delimiter[0])
    return ends[~fine]


def find_delimiters(data: bytes, dialect: Dialect) -> Positions:
    """Return the positions of the delimiters outside quotes in `data`, which starts with a record."""
    codes = np.frombuffer(data, np.uint8)
    found = np.flatnonzero(codes == dialect.delimiter[0])
    if not dialect.quote or dialect.quote not in data:
        return found
    runs = _quote_runs(codes, dialect, 0, len(data))
    return found[~runs.states(False)[np.searchsorted(runs.starts, found)]]
