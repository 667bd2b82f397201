"""A piece of CSV to columns of text, with Arrow; records that are no good are left out, one by one, and said to be."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from transforms.csv_pieces import Piece, check_length
from transforms.csv_scan import Dialect, Flags, Positions, Records, delimiters, is_malformed, records
from transforms.refs import Reject
from transforms.text_encoding import BOM, is_utf8

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
      lines: int64, shape (rows,): on which line each starts; empty if they were not wanted.
      rejects: those left out.
      blank: lines without a record; 0 if lines were not wanted.
    """

    columns: list[pa.Array]
    rows: int
    lines: npt.NDArray[np.int64]
    rejects: list[Reject]
    blank: int


def parse_piece(piece: Piece, table: Table, wanted: Sequence[str], with_lines: bool) -> Parsed:
    """The records of `piece`, as the columns `wanted`, which the table has."""
    check_length(len(piece.text), piece.line, table.name)
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
    rejects = _malformed(piece, found, table)
    if not fine:
        rejects += _undecodable(piece, found, table, keep)
    try:
        columns, rows = _parse(_kept(piece.text, found, keep | found.blank), table, wanted)
    except pa.ArrowInvalid:
        rejects += _ragged(piece, found, table, keep)
        columns, rows = _parse(_kept(piece.text, found, keep), table, wanted)
    if rows != np.count_nonzero(keep):
        raise RuntimeError(
            f"{table.name}, from line {piece.line}: Arrow reads {rows} rows where there are {np.count_nonzero(keep)}; "
            "this is a bug of shardmill, and the file would help to mend it"
        )
    rejects.sort(key=lambda reject: reject.line or 0)
    return Parsed(columns, rows, found.lines[keep] + piece.line, rejects, int(np.count_nonzero(found.blank)))


def _parse(text: bytes, table: Table, wanted: Sequence[str]) -> tuple[list[pa.Array], int]:
    """The columns `wanted`, and the number of rows; raises pa.ArrowInvalid if a record has not as many fields as the table."""
    if not text:
        return [pa.array([], pa.binary()) for _ in wanted], 0
    if text.startswith(BOM):  # which Arrow would leave out, though here it is data; the line is blank
        text = b"\n" + text
    numbers = {column: str(number) for number, column in enumerate(table.columns)}  # Arrow's names need not be the file's
    included = [numbers[column] for column in wanted] or ["0"]
    read = pa.csv.read_csv(
        pa.BufferReader(text),
        read_options=pa.csv.ReadOptions(column_names=list(numbers.values()), use_threads=False, block_size=len(text) + 1),
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
    return tuple(pa.csv.read_csv(pa.BufferReader(text), read_options=options, parse_options=_options(dialect)).column_names)


def _options(dialect: Dialect) -> pa.csv.ParseOptions:
    return pa.csv.ParseOptions(
        delimiter=dialect.delimiter.decode(), quote_char=dialect.quote.decode() or False, newlines_in_values=bool(dialect.quote)
    )


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _kept(text: bytes, found: Records, keep: Flags) -> bytes:
    """The records to keep, one after the other."""
    if keep.all():
        return text
    edges = np.flatnonzero(np.diff(keep.astype(np.int8), prepend=0, append=0))  # where runs of kept records begin and end
    begins, ends = found.starts[edges[::2]].tolist(), found.stops[edges[1::2] - 1].tolist()
    return b"".join(text[begin:end] for begin, end in zip(begins, ends))


def _malformed(piece: Piece, found: Records, table: Table) -> list[Reject]:
    rejects = []
    for number in np.flatnonzero(found.malformed).tolist():
        first = piece.line + int(found.lines[number])
        after = found.lines[number + 1] if number + 1 < len(found.lines) else None
        last = piece.line + int(after) - 1 if after is not None else _last_line(piece, found)
        reason = (
            f"{f'lines {first} to {last}: ' if last > first else ''}text goes on after the quote that closes a field; "
            "expected the delimiter or the line's end: is a quote stray?"
        )
        rejects.append(Reject(table.name, first, _STAGE, reason))
    return rejects


def _last_line(piece: Piece, found: Records) -> int:
    """The line on which the last record ends."""
    last = piece.text[int(found.starts[-1]) :].rstrip(b"\r\n")
    return piece.line + int(found.lines[-1]) + last.count(b"\n") + last.count(b"\r") - last.count(b"\r\n")


def _undecodable(piece: Piece, found: Records, table: Table, keep: Flags) -> list[Reject]:
    """Rejects for the records to keep that are not UTF-8; `keep` is updated."""
    high = np.flatnonzero(np.frombuffer(piece.text, np.uint8) >= 128)
    parted = delimiters(piece.text, table.dialect)
    rejects = []
    for number in np.unique(found.of(high)).tolist():
        start = int(found.starts[number])
        try:
            piece.text[start : int(found.stops[number])].decode()
        except UnicodeDecodeError as error:
            if keep[number]:
                field = np.searchsorted(parted, start + error.start) - np.searchsorted(parted, start)
                column = f"column {table.columns[field]!r}" if field < len(table.columns) else f"field {field + 1}"
                rejects.append(
                    Reject(table.name, piece.line + int(found.lines[number]), _STAGE, f"{column}: the text is not {table.encoding}")
                )
                keep[number] = False
    return rejects


def _ragged(piece: Piece, found: Records, table: Table, keep: Flags) -> list[Reject]:
    """Rejects for the records to keep that have too few or too many fields; `keep` is updated."""
    fields = _field_counts(piece.text, found, table.dialect)
    rejects = []
    for number in np.flatnonzero(keep & (fields != len(table.columns))).tolist():
        reason = f"the row has {fields[number]} fields; expected {len(table.columns)}, as many as there are columns"
        rejects.append(Reject(table.name, piece.line + int(found.lines[number]), _STAGE, reason))
        keep[number] = False
    return rejects


def _field_counts(text: bytes, found: Records, dialect: Dialect) -> Positions:
    parted = delimiters(text, dialect)
    return np.searchsorted(parted, found.stops) - np.searchsorted(parted, found.starts) + 1
