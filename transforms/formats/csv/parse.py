"""A piece of CSV to columns of text, with Arrow; records that are no good are left out, one by one, and said to be."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from shardmill.metadata.rejects import Reject
from shardmill.transforms.formats.csv.dialect import Dialect
from shardmill.transforms.formats.csv.pieces import Piece, check_length, is_blank
from shardmill.transforms.formats.csv.scan import (
    Flags,
    Positions,
    Records,
    count_lines,
    delimiters,
    is_malformed,
    records,
)
from shardmill.transforms.formats.encodings import BOM, is_utf8

_STAGE = "read"


@dataclass(frozen=True, slots=True)
class Table:
    """How the text of a file is to be parsed.

    Attributes:
      name: of the file, for rejects.
      columns: all that its records have, in their order.
      dialect: how it is written.
      missing: the texts, quoted or not, that stand for no value.
      encoding: of the file, for rejects; the text is UTF-8 by now, but for what could not be decoded.
    """

    name: str
    columns: tuple[str, ...]
    dialect: Dialect
    missing: tuple[str, ...]
    encoding: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """The records of a piece.

    Attributes:
      columns: of those that were wanted, binary arrays with null for missing.
      rows: how many records there are.
      lines: int64, shape (rows,): on which line each starts.
      rejects: those left out, by line.
      blank: lines without a record.
    """

    columns: list[pa.Array]
    rows: int
    lines: npt.NDArray[np.int64]
    rejects: list[Reject]
    blank: int


def parse_piece(piece: Piece, table: Table, wanted: Sequence[str], with_lines: bool) -> Parsed:
    """The records of `piece`, as the columns `wanted`, which the table has; `lines`, `rejects` and `blank` only
    `with_lines`."""
    check_length(len(piece.text), piece.line, table.name)
    if is_blank(piece.text):
        columns, rows = _parse(b"", table, wanted)
        return Parsed(columns, rows, np.zeros(0, np.int64), [], count_lines(piece.text))
    fine = is_utf8(piece.text)
    if fine and not with_lines and not is_malformed(piece.text, table.dialect):
        try:
            columns, rows = _parse(piece.text, table, wanted)
        except pa.ArrowInvalid:  # some record has too few fields, or too many
            pass
        else:
            return Parsed(columns, rows, np.zeros(0, np.int64), [], 0)
    found = records(piece.text, table.dialect)
    keep = ~(found.blank | found.malformed)
    reasons = [_malformed(piece, found)]
    if not fine:
        numbers, places = _undecodable(piece.text, found, keep)
        keep[numbers] = False
        reasons.append(_undecodable_reasons(piece.text, found, table, numbers, places))
    try:
        columns, rows = _parse(_kept(piece.text, found, keep | found.blank), table, wanted)
    except pa.ArrowInvalid:
        fields = _field_counts(piece.text, found, table.dialect)
        ragged = np.flatnonzero(keep & (fields != len(table.columns)))
        keep[ragged] = False
        reasons.append(_ragged_reasons(ragged, fields, table))
        columns, rows = _parse(_kept(piece.text, found, keep), table, wanted)
    if rows != np.count_nonzero(keep):
        raise RuntimeError(
            f"{table.name}, from line {piece.line}: Arrow reads {rows} rows where there are {np.count_nonzero(keep)}; "
            "this is a bug of shardmill, and the file would help to mend it"
        )
    if not with_lines:
        return Parsed(columns, rows, np.zeros(0, np.int64), [], 0)
    lines = found.lines + piece.line
    rejects = [
        Reject(table.name, int(lines[number]), _STAGE, reason)
        for number, reason in sorted(chain.from_iterable(reasons))
    ]
    return Parsed(columns, rows, lines[keep], rejects, int(np.count_nonzero(found.blank)))


def _parse(text: bytes, table: Table, wanted: Sequence[str]) -> tuple[list[pa.Array], int]:
    """The columns `wanted`, and the number of rows; raises pa.ArrowInvalid if a record has not as many fields as the
    table."""
    if not text:
        return [pa.array([], pa.binary()) for _ in wanted], 0
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
            null_values=list(table.missing),
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        ),
    )
    return [_one_array(column) for column in read.columns[: len(wanted)]], read.num_rows


def parse_header(text: bytes, dialect: Dialect) -> tuple[str, ...]:
    """The fields of the one record in `text`, which is UTF-8."""
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


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _kept(text: bytes, found: Records, keep: Flags) -> bytes:
    """The records to keep, one after the other."""
    if keep.all():
        return text
    # Where runs of kept records begin and end
    edges = np.flatnonzero(np.diff(keep.astype(np.int8), prepend=0, append=0))
    begins, ends = found.starts[edges[::2]].tolist(), found.stops[edges[1::2] - 1].tolist()
    return b"".join(text[begin:end] for begin, end in zip(begins, ends))


def _malformed(piece: Piece, found: Records) -> Iterator[tuple[int, str]]:
    """(number, reason) of each record that goes on after a quote was closed."""
    for number in np.flatnonzero(found.malformed).tolist():
        first = piece.line + int(found.lines[number])
        is_last = number + 1 == len(found.lines)
        last = _last_line(piece, found) if is_last else piece.line + int(found.lines[number + 1]) - 1
        yield (
            number,
            f"{f'lines {first} to {last}: ' if last > first else ''}text goes on after the quote that closes a field; "
            "expected the delimiter or the line's end: is a quote stray?",
        )


def _last_line(piece: Piece, found: Records) -> int:
    """The line on which the last record ends."""
    last = piece.text[int(found.starts[-1]) :].rstrip(b"\r\n")
    return piece.line + int(found.lines[-1]) + last.count(b"\n") + last.count(b"\r") - last.count(b"\r\n")


def _undecodable(text: bytes, found: Records, keep: Flags) -> tuple[Positions, Positions]:
    """The numbers of the records to keep that are not UTF-8, and where the first byte of each is that is not."""
    high = np.flatnonzero(np.frombuffer(text, np.uint8) >= 128)
    numbers = np.unique(found.of(high))
    numbers = numbers[keep[numbers]]
    bad, places = [], []
    for number, start, stop in zip(numbers.tolist(), found.starts[numbers].tolist(), found.stops[numbers].tolist()):
        try:
            text[start:stop].decode()
        except UnicodeDecodeError as error:
            bad.append(number)
            places.append(start + error.start)
    return np.array(bad, np.int64), np.array(places, np.int64)


def _undecodable_reasons(
    text: bytes, found: Records, table: Table, numbers: Positions, places: Positions
) -> Iterator[tuple[int, str]]:
    parted = delimiters(text, table.dialect)
    fields = np.searchsorted(parted, places) - np.searchsorted(parted, found.starts[numbers])
    for number, field in zip(numbers.tolist(), fields.tolist()):
        column = f"column {table.columns[field]!r}" if field < len(table.columns) else f"field {field + 1}"
        yield number, f"{column}: the text is not {table.encoding}"


def _ragged_reasons(numbers: Positions, fields: Positions, table: Table) -> Iterator[tuple[int, str]]:
    for number, count in zip(numbers.tolist(), fields[numbers].tolist()):
        yield (
            number,
            f"the row has {count} field{'s' if count > 1 else ''}; expected {len(table.columns)}, one for each column",
        )


def _field_counts(text: bytes, found: Records, dialect: Dialect) -> Positions:
    parted = delimiters(text, dialect)
    return np.searchsorted(parted, found.stops) - np.searchsorted(parted, found.starts) + 1
