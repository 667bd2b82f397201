"""Split CSV text into pieces of whole records and parse them into columns."""

import contextlib
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from shardmill.data import spans
from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.text import shorten
from shardmill.transforms.encodings import BOM, Stream, invalid_byte, is_utf8, remove_marks
from shardmill.transforms.findings import Findings, JoinedRows, Occurrences, PassedOver, Remarks, Undecodable
from shardmill.transforms.formats import format as formats
from shardmill.transforms.formats.conventions import Dialect
from shardmill.transforms.formats.csv_doubts import look_like_rows, looks_like_row
from shardmill.transforms.formats.csv_scan import (
    BYTES_BEFORE,
    Flags,
    Positions,
    Records,
    ScannedRange,
    count_lines,
    find_delimiters,
    find_records,
    is_malformed,
    line_ends,
    scan_range,
)
from shardmill.transforms.stores.streams import TruncatedError

_MAX_HEADER = 64 << 20  # bytes
_FIRST_READ = 64 << 10  # bytes, in which a header mostly ends
_BLANK_READ = 1 << 20  # bytes, at most, while all is blank
_NEWLINES = b"\r\n"


@dataclass(frozen=True, slots=True)
class Head:
    """The first record of a CSV text that is not blank."""

    record: bytes = b""  # its bytes with the newline; b"" without one
    line: int = 1  # line on which it starts, from 1
    stop: int = 0  # its end, from the text's first byte
    next_line: int = 1  # the line after it
    rest: bytes = b""  # bytes already read after it


@dataclass(frozen=True, slots=True)
class CsvPiece:
    """Consecutive whole records of a CSV text, the first of which starts on `line`, from 1."""

    text: bytes
    line: int


@dataclass(frozen=True, slots=True)
class LostRecords:
    """Damage of compressed data: all records from `line` on are lost."""

    line: int  # line on which the first lost record starts
    error: TruncatedError  # reason, and how far the data could be read


def read_head(stream: Stream, dialect: Dialect, name: str, line: int = 1, comment: bytes = b"") -> Head:
    """Read the first record of the text in `stream`, which belongs to file `name` and begins on `line`.

    Records that begin with `comment` are passed over, as blank ones are.

    Raises:
        UserError: if the record does not end within a reasonable length, or a quote is never closed.
    """
    text, size, offset = b"", _FIRST_READ, 0
    while True:
        more = stream.read(size)
        text += more
        size *= 2
        passed = len(text) - len(text.lstrip(_NEWLINES))  # of blank lines
        if passed == len(text) and text.endswith(b"\r") and more:  # an LF may follow
            passed -= 1
        line += count_lines(text, 0, passed)
        offset += passed
        text = text[passed:]
        if is_blank(text) and more:  # newlines, which may be many
            size = min(size, _BLANK_READ)
            continue
        found = find_records(text, dialect)
        passed_over = found.is_blank | found.begin_with(comment, text)
        start = stop = len(text)
        for number in (~passed_over).nonzero()[0][:1]:
            start, stop = int(found.starts[number]), int(found.stops[number])
        if not more or stop < len(text):
            break
        if len(text) > _MAX_HEADER:
            raise UserError(
                f"{name}: no record ends within the first {len(text):,} bytes; expected lines of CSV; give a text file"
            )
    line += count_lines(text, 0, start)
    if not more and stop == len(text) and _is_open(text[start:], dialect):
        raise unclosed_quote_error(name, line, dialect, text[-1:])
    return Head(text[start:stop], line, offset + stop, line + count_lines(text, start, stop), text[stop:])


def pass_lines(stream: Stream, count: int) -> tuple[bytes, int]:
    """Read `count` lines from `stream`; return what was read after them, and the number of their bytes."""
    text = b""
    while count:
        more = stream.read(_FIRST_READ)
        text += more
        ends = line_ends(text[:-1] if more and text.endswith(b"\r") else text)  # since LF may follow
        if len(ends) >= count:
            stop = int(ends[count - 1]) + 1
            return text[stop:], stop
        if not more:
            return b"", len(text)
    return b"", 0


def read_sample(stream: Stream, head: Head) -> tuple[Head, bytes]:
    """Read on after a head until there are about 64 KiB; return the head with what was read, and its whole lines."""
    rest, at_end = head.rest, False
    with contextlib.suppress(TruncatedError):  # reported when the rows are read
        while len(rest) < _FIRST_READ and not at_end:
            more = stream.read(_FIRST_READ - len(rest))
            rest, at_end = rest + more, not more
    lines = rest if at_end else rest[: max(rest.rfind(b"\n"), rest.rfind(b"\r")) + 1]
    return replace(head, rest=rest), head.record + lines


def read_ranges(
    stream: Stream, dialect: Dialect, size: int, at: int, rest: bytes = b""
) -> Iterator[tuple[bytes, ScannedRange]]:
    """Yield consecutive parts of about `size` bytes of `rest` and then `stream`, each with its scan.

    A record starts at `rest`, bytes already read. Positions are relative to `at`, the position of `rest`.
    """
    before, held = b"", b""
    at_end = False
    while not at_end:
        more, rest = rest[:size], rest[size:]
        if len(more) < size:
            try:
                more += stream.read(size - len(more))
            except TruncatedError:  # which the next call raises again
                if not more:
                    raise
        at_end = not more
        text = held + more
        data = text if at_end else _trim_to_cut(text, dialect)
        held = text[len(data) :]
        if data:
            yield data, scan_range(before + data, dialect, len(before), None, at - len(before))
            before, at = (before + data)[-BYTES_BEFORE:], at + len(data)


def _trim_to_cut(text: bytes, dialect: Dialect) -> bytes:
    """Leave out the last few bytes if needed: a range may not end between quotes, or between CR and LF."""
    data = text.rstrip(dialect.quote) if dialect.quote else text
    return data[:-1] if len(data) == len(text) and data.endswith(b"\r") else data


def read_pieces(
    stream: Stream, dialect: Dialect, size: int, name: str, head: Head
) -> Iterator[CsvPiece | Reject | LostRecords]:
    """Yield the records after `head` in pieces of about `size` bytes; damaged compressed data ends with LostRecords.

    A record that `is_long_text` is a Reject.

    Raises:
        UserError: if a quote is never closed.
    """
    at, line, inside, open_line = head.stop, head.next_line, False, 0
    pending: list[bytes] = []  # of the record that is not finished
    pending_bytes = 0  # which are counted only once they are too many
    before = b""
    size = min(size, max(formats.max_text_bytes() // 2, 1))
    first_line = line
    try:
        for data, part in read_ranges(stream, dialect, size, at, head.rest):
            side = part.scans[inside]
            start = 0
            if formats.is_long_text(pending_bytes + len(data)):
                end = len(data) if side.last_end is None else _first_record_end(data, before, inside, dialect)
                if formats.is_long_text(pending_bytes + end):
                    pending.clear()
                    if side.last_end is not None:
                        yield formats.reject_long(name, first_line, pending_bytes + end)
                        start, first_line = end, line + count_lines(data, 0, end)
            if side.last_end is not None:
                cut = len(data) - (part.stop - side.last_end)
                if text := b"".join([*pending, data[start:cut]]):
                    yield CsvPiece(text, first_line)
                pending, pending_bytes = [data[cut:]], len(data) - cut
                first_line = line + side.last_lines
            else:
                pending_bytes += len(data)
                if not formats.is_long_text(pending_bytes):
                    pending.append(data)
            before = data[-1:]
            if side.open_start is not None:
                open_line = line + side.open_lines
            line += part.lines
            inside = side.is_inside
    except TruncatedError as error:
        yield LostRecords(first_line, error)
        return
    if inside:
        raise unclosed_quote_error(name, open_line, dialect, before)
    if formats.is_long_text(pending_bytes):
        yield formats.reject_long(name, first_line, pending_bytes)
    elif any(pending):
        yield CsvPiece(b"".join(pending), first_line)


def _first_record_end(data: bytes, before: bytes, inside: bool, dialect: Dialect) -> int:
    start = dialect.quote if inside else before  # as the first byte of a text, a quote opens a field
    return int(find_records(start + data, dialect).stops[0]) - len(start)


def split_piece(piece: CsvPiece, dialect: Dialect, name: str) -> Iterator[CsvPiece]:
    """Split `piece`, of the file `name`, into pieces of about MAX_LINES lines; a piece of blank lines may have more."""
    text = piece.text
    if len(text) <= formats.MAX_LINES or count_lines(text) <= formats.MAX_LINES or is_blank(text):
        yield piece
        return
    for part in read_pieces(io.BytesIO(text), dialect, formats.MAX_LINES, name, Head(next_line=piece.line)):
        if isinstance(part, CsvPiece):  # a text in memory loses nothing
            yield part


def is_blank(text: bytes) -> bool:
    """Return True if the text consists of newlines only."""
    return sum(spans.count(text, newline) for newline in _NEWLINES) == len(text)  # ten times as fast as bytes.strip


def unclosed_quote_error(name: str, line: int, dialect: Dialect, end: bytes) -> UserError:
    """Return the error for a field of file `name`, of which `end` is the last byte, that never closes a quote."""
    return UserError(
        f"{name}, line {line}: a field opens with {dialect.quote.decode()} there and is never closed; close it,"
        " doubling the quotes within, or give --quote '' if quotes mean nothing in this file"
        f"{formats.describe_cut_end(end)}"
    )


@dataclass(frozen=True, slots=True)
class Table:
    """The rules by which one CSV file is parsed."""

    name: str  # name of the file, for rejects
    columns: tuple[str, ...]  # all columns of its records, in order
    dialect: Dialect
    missing: tuple[str, ...]  # texts that mean a missing value; only the empty one is taken here, the rest later
    encoding: str  # the file's encoding, for rejects; the text is now UTF-8
    comment: bytes = b""  # what records begin with that are passed over; b"" for none
    is_quote_given: bool = False  # True if the user chose the quote, so that long fields are not doubted
    read_first_rows: Callable[[], list[list[str]]] = list  # returns the fields of the file's first rows


def _no_lines() -> Positions:
    return np.zeros(0, np.int64)


# Remarks on one row, and on several
HEADER_ROWS = "row repeats the header and is left out\nrows repeat the header and are left out"
LONG_ROWS = (
    "row has one more field than the header has names, which is empty and left out"
    "\nrows have one more field than the header has names, which is empty and left out"
)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The records of a piece of CSV text, parsed to columns."""

    columns: list[pa.Array]  # requested columns, binary arrays with null for empty fields if those are missing
    rows: int  # number of records
    lines: Positions = field(default_factory=_no_lines)  # (rows,), on which each record starts
    rejects: list[Reject] = field(default_factory=list)  # invalid records, by line
    findings: Findings = field(default_factory=Findings)

    def without(self, is_empty: pa.BooleanArray) -> "Parsed":
        """Return the records without those that are empty, which are passed over."""
        keep = ~is_empty.to_numpy(zero_copy_only=False)
        columns, rows = [column.filter(pa.array(keep)) for column in self.columns], int(np.count_nonzero(keep))
        passed = Findings.of(PassedOver({"empty row": self.rows - rows}))
        return Parsed(columns, rows, self.lines[keep[: len(self.lines)]], self.rejects, self.findings.merge(passed))


def parse_piece(piece: CsvPiece, table: Table, wanted: Sequence[str], with_lines: bool) -> Parsed:
    """Parse the records of `piece` to the columns `wanted`; only `with_lines`, there are lines, rejects and blanks."""
    if BOM in piece.text:
        records = find_records(piece.text, table.dialect)
        text, marks = remove_marks(piece.text, records.starts, records.lines + piece.line, table.name)
        if marks.rows:
            parsed = parse_piece(CsvPiece(text, piece.line), table, wanted, with_lines)
            return replace(parsed, findings=parsed.findings.merge(Findings.of(marks)))
    if is_blank(piece.text):
        return Parsed(
            *_parse(b"", table, wanted), findings=Findings.of(PassedOver({"blank line": count_lines(piece.text)}))
        )
    fine = is_utf8(piece.text)
    encodings = Undecodable(has_utf8=fine and not piece.text.isascii())
    commented = table.comment and re.search(rb"(?:\A|[\r\n])" + re.escape(table.comment), piece.text)
    if fine and not with_lines and not commented and not is_malformed(piece.text, table.dialect):
        with contextlib.suppress(pa.ArrowInvalid):  # some record has too few fields, or too many
            parsed = Parsed(*_parse(piece.text, table, wanted), findings=Findings.of(encodings))
            if _may_take_in_rows(piece.text, table) and count_lines(piece.text) > parsed.rows:
                records = find_records(piece.text, table.dialect)
                parsed.findings.add(_check_quotes(piece, records, ~records.is_blank, table))
            return parsed
    text, records, reasons = _split_malformed(piece, table)
    is_header = _flag_headers(text, records, table)
    keep = ~(records.is_blank | records.is_malformed | records.begin_with(table.comment, text) | is_header)
    keep[[number for number, _ in reasons]] = False
    if not fine:
        undecodable, encodings = _find_undecodable(CsvPiece(text, piece.line), records, keep, table)
        keep[list(undecodable)] = False
        reasons += undecodable.items()
    joined = JoinedRows()
    if _may_take_in_rows(text, table):
        joined = _check_quotes(CsvPiece(text, piece.line), records, keep, table)
    long = _no_lines()
    try:
        columns, rows = _parse(_kept_text(text, records, keep | records.is_blank, long), table, wanted)
    except pa.ArrowInvalid:
        parted = find_delimiters(text, table.dialect)
        fields = np.searchsorted(parted, records.stops) - np.searchsorted(parted, records.starts) + 1
        long = np.flatnonzero(keep & (fields == len(table.columns) + 1))
        codes = np.frombuffer(text, np.uint8)
        lasts = codes[np.maximum(_content_ends(codes, records.stops[long]) - 1, 0)]
        long = long[lasts == table.dialect.delimiter[0]]
        fields[long] -= 1
        ragged = np.flatnonzero(keep & (fields != len(table.columns)))
        keep[ragged] = False
        expected = f"expected {len(table.columns)}, one for each column"
        reasons += [
            (number, f"the row has {count} field{'s' if count > 1 else ''}; {expected}")
            for number, count in zip(ragged.tolist(), fields[ragged].tolist())
        ]
        columns, rows = _parse(_kept_text(text, records, keep, long), table, wanted)
    if rows != np.count_nonzero(keep):
        raise RuntimeError(
            f"{table.name}, from line {piece.line}: Arrow reads {rows} rows where there are {np.count_nonzero(keep)}; "
            "this is a bug of shardmill, and the file would help to mend it"
        )
    lines = records.lines + piece.line
    remarks = Remarks.of_lines({LONG_ROWS: lines[long], HEADER_ROWS: lines[is_header]}, table.name)
    blank = PassedOver({"blank line": int(np.count_nonzero(records.is_blank))})
    findings = Findings.of(encodings, joined, remarks, blank)
    if not with_lines:
        return Parsed(columns, rows, lines[keep], findings=findings)
    last, cut = len(lines) - 1, formats.describe_cut_end(piece.text)
    rejects = [
        Reject(table.name, int(lines[number]), formats.STAGE, f"{reason}{cut if number == last else ''}")
        for number, reason in sorted(reasons)
    ]
    return Parsed(columns, rows, lines[keep], rejects, findings)


def _may_take_in_rows(text: bytes, table: Table) -> bool:
    quote = table.dialect.quote
    return bool(quote) and not table.is_quote_given and len(table.columns) > 1 and quote in text


_COMPARED_ROWS = 200  # with which the lines of long records are compared
_COMPARED_RECORDS = 50  # long records, and the lines of each, that are compared at most
_FEW_ROWS = 20  # of a piece, with which the first rows of the file are compared, too
_LEAST_OF_OTHERS = 4  # delimiters in the lines of records that are no coincidence
_LEAST_EVIDENCE = {b"\t": 1, b"|": 2}  # of those that texts hardly have


def _check_quotes(piece: CsvPiece, records: Records, kept: Flags, table: Table) -> JoinedRows:
    """Return how many records may be rows that quotes take into one field; raise a UserError if some certainly are.

    Such a record has as many delimiters on each of its lines as a row has, and the lines look like rows.
    """
    starts = np.append(0, line_ends(piece.text) + 1)
    starts = np.append(starts[starts < len(piece.text)], len(piece.text))
    lines = np.diff(records.lines, append=len(starts) - 1)
    several = np.flatnonzero(kept & (lines > 1))
    if not len(several):
        return JoinedRows()
    delimiters = np.flatnonzero(np.frombuffer(piece.text, np.uint8) == table.dialect.delimiter[0])
    is_whole = np.diff(np.searchsorted(delimiters, starts)) == len(table.columns) - 1
    suspects = several[np.logical_and.reduceat(is_whole, records.lines)[several]]
    first, last, width = records.lines, records.lines + lines - 1, len(table.columns)
    others = np.append(0, np.cumsum(~is_whole))  # lines before each line that are no whole rows
    long = several[lines[several] > 2]
    taken = long[others[last[long]] == others[first[long] + 1]]
    least = _LEAST_EVIDENCE.get(table.dialect.delimiter, _LEAST_OF_OTHERS)
    evidence = JoinedRows(len(several), least=least, long=len(long))
    if not len(suspects) and not len(taken):
        return evidence

    def split(first: int, count: int) -> list[list[str]]:
        part = piece.text[starts[first] : starts[min(first + count, len(starts) - 1)]]
        text = part.decode(errors="replace").replace(table.dialect.quote.decode(), "")
        return [line.split(table.dialect.delimiter.decode()) for line in text.splitlines() if line]

    ordinary = np.flatnonzero(kept & (lines == 1) & np.logical_and.reduceat(is_whole, records.lines))[:_COMPARED_ROWS]
    rows = [fields for number in records.lines[ordinary].tolist() for fields in split(number, 1)]
    if len(rows) < _FEW_ROWS:
        rows += table.read_first_rows()

    def look(begin: int, count: int) -> bool | None:
        # Without a row on one line, the records over several are as they should be
        return look_like_rows(split(begin, min(count, _COMPARED_RECORDS)), rows) if rows else False

    def place(number: int) -> tuple[str, int, int, int]:
        return table.name, piece.line + int(first[number]), piece.line + int(last[number]), width

    looks = [look(int(first[number]) + 1, int(lines[number]) - 2) for number in taken[:_COMPARED_RECORDS].tolist()]
    looks += [None if None in looks else False] * (len(taken) - len(looks))  # of the others, no column tells or some
    seen = list(zip(taken.tolist(), looks, (lines[taken] - 2) * (width - 1) >= least))
    certain = [number for number, is_like, is_much in seen if is_like or is_much]
    possible = [number for number, is_like, is_much in seen if is_like is not False or is_much]
    found = [Occurrences(len(numbers), place(numbers[0])) if numbers else None for numbers in (certain, possible)]
    evidence = replace(evidence, inner=found[0], possible=found[1])
    for number in suspects[:_COMPARED_RECORDS].tolist():
        is_like = look(int(first[number]), int(lines[number]))
        if is_like is not False:
            evidence = evidence.merge(JoinedRows(0, 1, int(lines[number] - 1) * (width - 1), 0, place(number)))
        if is_like:
            replace(evidence, several=1, least=0, first=place(number)).notices()
    return evidence


MARKS_OF_NAME = 8  # spaces and quotes around each name of a repeated header, at most
_COMPARED_BYTES = 3  # of the first name, which almost no row begins with


def _flag_headers(text: bytes, records: Records, table: Table) -> Flags:
    """Flag the records that repeat the header, with any spaces and quotes, as files that were joined have them."""
    flags = np.zeros(len(records.starts), bool)
    if len(table.columns) < 2:  # where it may be a value
        return flags
    codes, between = np.frombuffer(text, np.uint8), table.dialect.delimiter
    header = between.join(name.strip().encode() for name in table.columns)
    names, marks = header.split(between), b" \t" + table.dialect.quote
    may_lack_name = names[0] == b"index"
    first = b"" if may_lack_name else names[0][:_COMPARED_BYTES]
    ends = _content_ends(codes, records.stops)
    lengths = ends - records.starts
    longest = len(header) + MARKS_OF_NAME * len(names)
    near = np.flatnonzero((lengths <= longest) & (lengths >= len(header) - len(names[0]) * may_lack_name))
    starts = records.starts[near]
    for _ in range(MARKS_OF_NAME):
        is_mark = np.isin(codes[starts], np.frombuffer(marks, np.uint8)) & (starts + 1 < ends[near])
        if not is_mark.any():
            break
        starts = starts + is_mark
    for offset, char in enumerate(first):
        is_same = codes[np.minimum(starts + offset, len(codes) - 1)] == char
        near, starts = near[is_same], starts[is_same]
    for number in near.tolist():
        row = text[int(records.starts[number]) : int(ends[number])]
        if names[1] in row:
            found = [name.strip(b" \t").strip(marks) for name in row.split(between)]
            flags[number] = found[1:] == names[1:] and (found[0] == names[0] or (may_lack_name and not found[0]))
    return flags


def _parse(text: bytes, table: Table, wanted: Sequence[str]) -> tuple[list[pa.Array], int]:
    """Parse text to the columns `wanted`, and count the rows; pa.ArrowInvalid means a wrong number of fields."""
    if not text:
        return [pa.array([], pa.binary()) for _ in wanted], 0
    if (columns := _parse_few_rows(text, table, wanted)) is not None:
        return columns, len(columns[0])
    if text.startswith(BOM):  # which Arrow would leave out, though here it is data; the line is blank
        text = b"\n" + text
    # Arrow's names need not be the file's
    numbers = {column: str(number) for number, column in enumerate(table.columns)}
    included = [numbers[column] for column in wanted] or ["0"]
    read = pa.csv.read_csv(
        pa.BufferReader(text),
        read_options=pa.csv.ReadOptions(
            column_names=list(numbers.values()), use_threads=False, block_size=len(text) + 1
        ),
        parse_options=_options(table.dialect),
        convert_options=pa.csv.ConvertOptions(
            include_columns=included,
            column_types={number: pa.binary() for number in included},
            null_values=[""] if "" in table.missing else [],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        ),
    )
    # One array of each column, which has no chunks without rows
    chunks = [column.chunks or [pa.array([], column.type)] for column in read.columns[: len(wanted)]]
    return [parts[0] if len(parts) == 1 else pa.concat_arrays(parts) for parts in chunks], read.num_rows


FEW_WIDE_ROWS, _MANY_COLUMNS = 512, 256


def _parse_few_rows(text: bytes, table: Table, wanted: Sequence[str]) -> list[pa.Array] | None:
    """Parse a few rows of many columns without quotes as `_parse` does, in a third of the time and of the memory.

    Return None for any other text, and for rows with a wrong number of fields.
    """
    width, rows = len(table.columns), spans.count(text, b"\n"[0]) + (not text.endswith(b"\n"))
    if not wanted or rows > FEW_WIDE_ROWS or width < _MANY_COLUMNS:
        return None
    quote = table.dialect.quote
    if b"\r" in text or text.startswith(BOM) or (quote and quote in text):
        return None
    codes = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero((codes == table.dialect.delimiter[0]) | (codes == b"\n"[0]))
    if not text.endswith(b"\n"):
        ends = np.append(ends, len(text))
    if len(ends) != rows * width or (ends[width - 1 :: width] != np.append(line_ends(text), len(text))[:rows]).any():
        return None
    starts = np.append(0, ends[:-1] + 1).reshape(rows, width).T
    places = {column: number for number, column in enumerate(table.columns)}
    chosen = [places[column] for column in wanted]
    begins, sizes = starts[chosen].ravel(), (ends.reshape(rows, width).T[chosen] - starts[chosen]).ravel()
    data, offsets = spans.gather(text, begins, sizes)
    mask = pa.py_buffer(np.packbits(sizes > 0, bitorder="little")) if "" in table.missing else None
    buffers = [mask, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    values = pa.Array.from_buffers(pa.binary(), len(begins), buffers)
    return [values.slice(start, rows) for start in range(0, len(values), rows)]


def parse_header(text: bytes, dialect: Dialect) -> tuple[str, ...]:
    """Return the fields of the single record in `text`, which is UTF-8."""
    text = text.rstrip(b"\r\n") + b"\n"  # without its end, Arrow does not see a record
    options = pa.csv.ReadOptions(use_threads=False, block_size=len(text) + 1)
    return tuple(
        pa.csv.read_csv(pa.BufferReader(text), read_options=options, parse_options=_options(dialect)).column_names
    )


def _options(dialect: Dialect) -> pa.csv.ParseOptions:
    return pa.csv.ParseOptions(
        delimiter=dialect.delimiter.decode(),
        quote_char=dialect.quote.decode() or False,
        newlines_in_values=bool(dialect.quote),
    )


def _kept_text(text: bytes, records: Records, mask: Flags, long: Positions) -> bytes:
    """Return the text of the records to keep, those numbered `long` without their last delimiter."""
    if not mask.all():
        # Where runs of kept records begin and end
        edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
        begins, ends = records.starts[edges[::2]].tolist(), records.stops[edges[1::2] - 1].tolist()
    else:
        begins, ends = [0], [len(text)]
    if not len(long):
        return text if mask.all() else b"".join(text[begin:end] for begin, end in zip(begins, ends))
    codes = np.frombuffer(text, np.uint8)
    kept = np.zeros(len(text), bool)
    for begin, end in zip(begins, ends):
        kept[begin:end] = True
    kept[_content_ends(codes, records.stops[long]) - 1] = False
    return codes[kept].tobytes()


def _content_ends(codes: npt.NDArray[np.uint8], stops: Positions) -> Positions:
    for _ in _NEWLINES:
        last = codes[np.maximum(stops - 1, 0)]
        stops = stops - np.isin(last, np.frombuffer(_NEWLINES, np.uint8))
    return stops


_MAX_SPLITS = 1000  # of one piece: each scans what is left of a record again


def _split_malformed(piece: CsvPiece, table: Table) -> tuple[bytes, Records, list[tuple[int, str]]]:
    """Cut records with text after a closing quote behind their first lines, for a stray quote takes in many lines.

    Returns:
        The text, in which stray quotes are other characters; its records; (number, reason) for each malformed one but
        comments.
    """
    text, dialect = piece.text, table.dialect
    records = find_records(text, dialect)
    if not records.is_malformed.any():
        return text, records, []
    masked, stray = bytearray(text), list[int]()
    waiting = [(int(records.starts[n]), int(records.stops[n])) for n in np.flatnonzero(records.is_malformed)[::-1]]
    while waiting and len(stray) < _MAX_SPLITS:
        start, stop = waiting.pop()
        ends = line_ends(text[start:stop])
        end = start + int(ends[0]) + 1 if len(ends) else stop
        if not _is_open(text[start:end], dialect):
            continue  # malformed within its line
        masked[start:end] = text[start:end].replace(dialect.quote, _FILLER)
        stray.append(start)
        inner = find_records(text[end:stop], dialect)
        bad = inner.is_malformed
        if len(bad):
            bad[-1] |= _is_open(text[end:stop], dialect)
        waiting += [(end + int(inner.starts[n]), end + int(inner.stops[n])) for n in np.flatnonzero(bad)[::-1]]
    text = bytes(masked)
    records = find_records(text, dialect)
    opened = np.searchsorted(records.starts, np.sort(np.array(stray, np.int64)))
    reasons = [(number, _OPEN) for number in opened.tolist()]
    for number in np.flatnonzero(records.is_malformed).tolist():
        first, last = piece.line + int(records.lines[number]), _last_line(piece, records, number)
        lines = f"lines {first} to {last}: " if last > first else ""
        reasons.append((number, f"{lines}{_GOES_ON}"))
    is_comment = records.begin_with(table.comment, text)
    return text, records, [(number, f"{reason}; {_STRAY}") for number, reason in reasons if not is_comment[number]]


_OPEN = "a field opens with a quote that its line does not close; the lines after it are read on their own"
_GOES_ON = "text goes on after the quote that closes a field; expected the delimiter or the line's end"
_STRAY = "is a quote stray? --quote '' turns quoting off"
_FILLER = b"x"


def _last_line(piece: CsvPiece, records: Records, number: int) -> int:
    if number + 1 < len(records.lines):
        return piece.line + int(records.lines[number + 1]) - 1
    last = piece.text[int(records.starts[number]) :].rstrip(_NEWLINES)
    return piece.line + int(records.lines[number]) + count_lines(last)


def _is_open(text: bytes, dialect: Dialect) -> bool:
    return scan_range(text, dialect).scans[0].is_inside


def _find_undecodable(
    piece: CsvPiece, records: Records, kept: Flags, table: Table
) -> tuple[dict[int, str], Undecodable]:
    """Return the reason for each kept record, by number, that is not in the encoding; if UTF-8, with encodings."""
    text = piece.text
    high = np.flatnonzero(np.frombuffer(text, np.uint8) >= 128)
    numbers = np.unique(records.record_numbers(high))
    numbers = numbers[kept[numbers]]
    parted = find_delimiters(text, table.dialect)
    reasons, encodings = {}, Undecodable()
    for number, start, stop in zip(numbers.tolist(), records.starts[numbers].tolist(), records.stops[numbers].tolist()):
        try:
            text[start:stop].decode()
            encodings = encodings.merge(Undecodable(has_utf8=True))
        except UnicodeDecodeError as error:
            first, bad = np.searchsorted(parted, (start, start + error.start)).tolist()
            index = bad - first  # of the field
            column = f"column {table.columns[index]!r}" if index < len(table.columns) else f"field {index + 1}"
            reasons[number] = (
                f"{column}: {invalid_byte(error) if table.encoding == 'utf-8' else 'the text'} is not {table.encoding}"
            )
            found = Undecodable.of_record(text[start:stop], table.name, piece.line + int(records.lines[number]))
            encodings = encodings.merge(found)
    return reasons, encodings if table.encoding == "utf-8" else Undecodable()


_MAGIC = (  # of what is often named .csv by mistake
    (b"\x1f\x8b", "gzip data: name it .csv.gz"),
    (b"\x28\xb5\x2f\xfd", "zstd data: name it .csv.zst"),
    (b"BZh91AY&", "bzip2 data: name it .csv.bz2"),
    (b"PK\x03\x04", "a zip archive or a spreadsheet: export it as CSV"),
    (b"\xd0\xcf\x11\xe0", "an old Excel file: export it as CSV"),
    (b"PAR1\x15", "a Parquet file"),
)


def check_start(start: bytes, name: str, encoding: str) -> None:
    """Raise a UserError if the file `name`, which begins with `start`, is of another known format."""
    for magic, format_name in _MAGIC:
        if start.startswith(magic):
            raise UserError(f"{name} is not CSV; it begins like {format_name}")
    formats.check_start(start, name, encoding)


def header_columns(text: bytes, dialect: Dialect, where: str, encoding: str) -> tuple[str, ...]:
    """Return the columns that a header, which is UTF-8, names; none if it is empty.

    `where` and `encoding`, for errors, are the file with its line, and its encoding.

    Raises:
        UserError: if the header is not text, or does not name each column once.
    """
    if not text:
        return ()
    if b"\0" in text:
        raise UserError(
            f"{where}: there is a NUL byte in the header; expected names of columns: is it text, in the encoding given?"
        )
    if not is_utf8(text):
        found = Undecodable.of_record(text, where, 0).first if encoding == "utf-8" else None
        shown = found and f"as cp1252, it is {shorten(found[2])!r}: if that is right, give --encoding cp1252"
        advice = f"{shown}, and otherwise" if shown else "give with --encoding"
        raise UserError(f"{where}: the header is not {encoding}; {advice} the encoding of the file")
    if is_malformed(text, dialect):
        raise UserError(
            f"{where}: in the header, text goes on after the quote that closes a name; expected the delimiter"
        )
    columns = name_columns(parse_header(text, dialect))
    if problem := column_problem(columns):
        raise UserError(f"{where}: the header {problem}; {looks_like_row(columns)}")
    return columns


def name_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns with names for those without: the first one is `index`, as pandas and R write it."""
    return tuple(
        name or ("index" if number == 1 and "index" not in columns else f"column_{number}")
        for number, name in enumerate(columns, 1)
    )


def column_problem(columns: Sequence[str]) -> str | None:
    """Return the problem of these column names; None if they are valid."""
    if not columns:
        return "names no columns"
    if "" in columns:
        return f"has no name for column {columns.index('') + 1} of {len(columns)}; give every column a name"
    twice = next(((name, number) for name, number in Counter(columns).items() if number > 1), None)
    return None if twice is None else f"names the column {twice[0]!r} {twice[1]} times; rename all but one"
