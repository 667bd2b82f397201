"""A CSV text, read forwards in pieces: its header, its ranges for an index, and pieces of whole records."""

import io
from collections.abc import Iterator
from dataclasses import dataclass

from shardmill.errors import UserError
from shardmill.records import spans
from shardmill.transforms.formats.base import MAX_LINES, MAX_TEXT_BYTES
from shardmill.transforms.formats.csv.dialect import Dialect
from shardmill.transforms.formats.csv.scan import Range, count_lines, records, scan
from shardmill.transforms.formats.encodings import Stream
from shardmill.transforms.stores.compressed import TruncatedError

MAX_PIECE = (1 << 31) - (1 << 16)  # bytes: Arrow's parser counts with 31 bits
_MAX_HEADER = 64 << 20  # bytes
_FIRST_READ = 64 << 10  # bytes, in which a header mostly ends
_BLANK_READ = 1 << 20  # bytes, at most, while all is blank
_NEWLINES = b"\r\n"


@dataclass(frozen=True, slots=True)
class Head:
    """The first record of a text that is not blank.

    Attributes:
      record: its bytes, with the newline; b"" if there is none.
      line: where it starts, from 1.
      stop: where it ends, counted from the text's first byte.
      next_line: the line after it.
      rest: what has been read of the text after it.
    """

    record: bytes
    line: int
    stop: int
    next_line: int
    rest: bytes


@dataclass(frozen=True, slots=True)
class Piece:
    """Some whole records, the first of which starts on `line`, from 1."""

    text: bytes
    line: int


@dataclass(frozen=True, slots=True)
class TooLong:
    """A record that starts on `line` and has more than MAX_TEXT_BYTES; it has been passed over."""

    line: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Lost:
    """What cannot be read: all from the record that starts on `line`; and why, with how far the compressed data could
    be."""

    line: int
    error: TruncatedError


def read_head(stream: Stream, dialect: Dialect, name: str) -> Head:
    """The first record of the text in `stream`, that of the file `name`.

    Raises:
      UserError: it does not end within a reasonable length, or has a quote that is never closed.
      OSError: it cannot be read; TruncatedError where it is compressed and cut short before the record's end.
    """
    text, size, line, offset = b"", _FIRST_READ, 1, 0
    while True:
        more = stream.read(size)
        text += more
        size *= 2
        passed = _blank_bytes(text, at_end=not more)
        line += count_lines(text, 0, passed)
        offset += passed
        text = text[passed:]
        if is_blank(text) and more:  # newlines, which may be many
            size = min(size, _BLANK_READ)
            continue
        found = records(text, dialect)
        whole = [
            number for number in (~found.blank).nonzero()[0][:1].tolist() if not more or found.stops[number] < len(text)
        ]
        if whole:
            start, stop = int(found.starts[whole[0]]), int(found.stops[whole[0]])
            break
        if not more:
            start = stop = len(text)
            break
        if len(text) > _MAX_HEADER:
            raise UserError(
                f"{name}: no record ends within the first {len(text):,} bytes; expected lines of CSV: is it a text"
                " file?"
            )
    lines = scan(text, dialect, 0, start).lines
    if not more and stop == len(text) and scan(text[start:], dialect).sides[0].inside:
        raise unclosed(name, line + lines, dialect)
    next_line = line + lines + scan(text, dialect, start, stop).lines
    return Head(text[start:stop], line + lines, offset + stop, next_line, text[stop:])


def _blank_bytes(text: bytes, at_end: bool) -> int:
    """How many bytes of blank lines `text` starts with; a CR as the last byte, unless it is the last of all, may be
    half of one."""
    blank = len(text) - len(text.lstrip(_NEWLINES))
    return blank - 1 if blank == len(text) and text.endswith(b"\r") and not at_end else blank


def read_ranges(
    stream: Stream, dialect: Dialect, size: int, at: int, rest: bytes = b""
) -> Iterator[tuple[bytes, Range]]:
    """The text of `rest` and then of `stream`, in consecutive parts of about `size` bytes, and what each is.

    Args:
      stream: where the text goes on.
      dialect: how it is written.
      size: in bytes.
      at: where `rest` begins, to which positions are relative; a record starts there.
      rest: what has been read of the text already.
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
        data = text if at_end else _up_to_a_cut(text, dialect)
        held = text[len(data) :]
        if data:
            yield data, scan(before + data, dialect, len(before), None, at - len(before))
            before, at = data[-1:], at + len(data)


def _up_to_a_cut(text: bytes, dialect: Dialect) -> bytes:
    """All but the last few bytes: a range may not end between quotes, or between CR and LF."""
    data = text.rstrip(dialect.quote) if dialect.quote else text
    return data[:-1] if len(data) == len(text) and data.endswith(b"\r") else data


def read_pieces(stream: Stream, dialect: Dialect, size: int, name: str, head: Head) -> Iterator[Piece | TooLong | Lost]:
    """The records of the text after `head`, in pieces of about `size` bytes; a Lost at the end if its compressed data
    is damaged.

    Raises:
      UserError: a quote is never closed.
      OSError: the file cannot be read.
    """
    at, line, inside, open_line = head.stop, head.next_line, False, 0
    pending: list[bytes] = []  # of the record that is not finished
    pending_bytes = 0  # which are counted only once they are too many
    before = b""
    size = min(size, max(MAX_TEXT_BYTES // 2, 1))
    first_line = line
    try:
        for data, part in read_ranges(stream, dialect, size, at, head.rest):
            side = part.sides[inside]
            start = 0
            if pending_bytes + len(data) > MAX_TEXT_BYTES:
                end = len(data) if side.last is None else _first_end(data, before, inside, dialect)
                if pending_bytes + end > MAX_TEXT_BYTES:
                    pending.clear()
                    if side.last is not None:
                        yield TooLong(first_line, pending_bytes + end)
                        start, first_line = end, line + count_lines(data, 0, end)
            if side.last is not None:
                cut = len(data) - (part.stop - side.last)
                if text := b"".join([*pending, data[start:cut]]):
                    yield Piece(text, first_line)
                pending, pending_bytes = [data[cut:]], len(data) - cut
                first_line = line + side.last_lines
            else:
                pending_bytes += len(data)
                if pending_bytes <= MAX_TEXT_BYTES:
                    pending.append(data)
            before = data[-1:]
            if side.opened is not None:
                open_line = line + side.opened_lines
            line += part.lines
            inside = side.inside
    except TruncatedError as error:
        yield Lost(first_line, error)
        return
    if inside:
        raise unclosed(name, open_line, dialect)
    if pending_bytes > MAX_TEXT_BYTES:
        yield TooLong(first_line, pending_bytes)
    elif any(pending):
        yield Piece(b"".join(pending), first_line)


def _first_end(data: bytes, before: bytes, inside: bool, dialect: Dialect) -> int:
    """Where the first record that ends in `data` does, given the byte before it, and whether that is inside quotes."""
    start = dialect.quote if inside else before  # as the first byte of a text, a quote opens a field
    return int(records(start + data, dialect).stops[0]) - len(start)


def bounded(piece: Piece, dialect: Dialect, name: str) -> Iterator[Piece]:
    """The records of `piece`, some of the file `name`, in pieces of MAX_LINES lines, about, or of nothing but blank
    ones."""
    text = piece.text
    if len(text) <= MAX_LINES or count_lines(text) <= MAX_LINES or is_blank(text):
        yield piece
        return
    for part in read_pieces(io.BytesIO(text), dialect, MAX_LINES, name, Head(b"", 1, 0, piece.line, b"")):
        if isinstance(part, Piece):  # a text in memory loses nothing
            yield part


def is_blank(text: bytes) -> bool:
    """Whether there is nothing but newlines."""
    return sum(spans.count(text, newline) for newline in _NEWLINES) == len(text)  # ten times as fast as bytes.strip


def check_length(size_bytes: int, line: int, name: str) -> None:
    """Check that the records from `line` on can be parsed in one go; raises UserError if they are too long."""
    if size_bytes > MAX_PIECE:
        raise UserError(
            f"{name}, line {line}: {size_bytes:,} bytes cannot be parsed at once, and a record may have at most"
            f" {MAX_PIECE:,}; is a quote never closed? give --quote '' if quotes mean nothing in this file"
        )


def unclosed(name: str, line: int, dialect: Dialect) -> UserError:
    """The error of a field of the file `name` that opens a quote on `line` and does not close it."""
    return UserError(
        f"{name}, line {line}: a field opens with {dialect.quote.decode()} there and is never closed; close it,"
        " doubling the quotes within, or give --quote '' if quotes mean nothing in this file"
    )
