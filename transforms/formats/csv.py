"""The CSV input format."""

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.errors import JobError, UserError
from shardmill.metadata.manifest import Certainty, Reject
from shardmill.transforms.columns.arrow import distinct_texts, to_batch
from shardmill.transforms.columns.conversion import rounded_texts, sample_limit
from shardmill.transforms.columns.text import (
    NumberStyle,
    find_odd_texts,
    infer_list_type,
    infer_types,
    key_texts,
    misfit_reason,
    parse_columns,
    parse_lists,
    split_lists,
    take_missing_texts,
    without_leading_zeros,
)
from shardmill.transforms.columns.types import ColumnNames, ColumnType, ColumnTypes, Inferred, ScalarType, ValuesOf
from shardmill.transforms.encodings import (
    BOM,
    Stream,
    Utf8Stream,
    encoding_name,
    is_ascii_transparent,
    is_utf8,
    not_encoded_error,
    to_utf8,
)
from shardmill.transforms.findings import Findings, JoinedRows, MissingTexts, Remarks, RoundedNumbers
from shardmill.transforms.formats import csv_parse
from shardmill.transforms.formats import format as formats
from shardmill.transforms.formats.conventions import MISSING, Dialect
from shardmill.transforms.formats.csv_doubts import columns_problem, header_problem
from shardmill.transforms.formats.csv_scan import Positions, stitch
from shardmill.transforms.formats.format import BlockRef, FileRef, Keys, RecordNotice, Rows
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import error_text
from shardmill.transforms.stores.storage import raise_if_store_failed
from shardmill.transforms.stores.streams import TruncatedError, is_compressed, open_decompressed

_LONGEST_QUOTED = 1 << 20  # bytes in which a quoted field is looked for if separators have several characters
_UNIT = b"\x1f"  # in place of separators of several characters: the unit separator of ASCII, which no text has
WHITE_SPACE = r"\s+"


SPACED_ROWS = "row has spaces around values, which are left out\nrows have spaces around values, which are left out"


@dataclass(frozen=True)
class CsvFormat(formats.RecordFormat):
    """A row for each record of a CSV file: RFC 4180 as Arrow reads it.

    An empty delimiter means tab for files named .tsv, compressed or not, and comma for others. An empty quote means
    that fields are never quoted.

    Raises:
        ValueError: if one of these is invalid.
    """

    delimiter: str = ""  # one ASCII character, or ""
    quote: str = '"'  # one ASCII character, or ""
    columns: tuple[str, ...] | None = None  # column names of files without header; None with header
    encoding: str = "utf-8"  # Python's name; bytes columns are converted to UTF-8
    missing: tuple[str, ...] = MISSING  # texts that mean a missing value, also in quotes
    # (column, text) pairs or a mapping, text for missing values
    fill: Mapping[str, str] | tuple[tuple[str, str], ...] = ()
    block_size: int = 4 << 20  # approximate bytes of a block
    # What line 1 holds: the names ("first"), a row ("none"), or the names unless it looks like a row ("auto")
    header_line: str = "auto"
    skip_lines: int = 0  # lines to pass over at the start of each file
    comment: str = ""  # lines that begin with this text are passed over; "" for none
    strip: bool = False  # whether spaces and tabs around values and names are removed
    remarks_spaces: bool = False  # True to add a remark on the rows that `strip` changes
    is_quote_given: bool = False  # True if the user chose the quote: long quoted fields are then not doubted
    escape: str = ""  # character that makes a quote part of a quoted field, such as a backslash; "" for none
    numbers: NumberStyle = field(default_factory=NumberStyle)  # how numbers are spelled
    list_separators: tuple[tuple[str, str], ...] = ()  # (column, text between the values of a field)
    checks_rows: bool = False  # True if `index` also reads all rows, and raises the UserErrors that `read` would

    @classmethod
    def of(cls, options: Any) -> "CsvFormat":
        """Return the format that options for reading tables, `TableReadOptions`, describe."""
        return cls(
            options.delimiter or "",
            options.quote_char,
            options.columns,
            options.text_encoding,
            options.missing,
            options.fill,
            header_line=options.header,
            skip_lines=options.skip_lines,
            comment=options.comment,
            is_quote_given=options.quote is not None,
            escape=options.escape,
            numbers=NumberStyle(options.decimal, options.thousands),
            list_separators=options.list_separator,
        )

    def __post_init__(self) -> None:
        fill = tuple(self.fill.items() if isinstance(self.fill, Mapping) else self.fill)
        object.__setattr__(self, "fill", fill)
        object.__setattr__(self, "missing", tuple(self.missing))
        object.__setattr__(self, "columns", None if self.columns is None else tuple(self.columns))
        object.__setattr__(self, "encoding", encoding_name(self.encoding))
        for what, char in (("delimiter", self.delimiter), ("quote", self.quote), ("escape", self.escape)):
            is_separator = len(char.encode()) > 1 and char.isprintable() and not any(map(str.isalnum, char))
            if what == "delimiter" and (char == WHITE_SPACE or is_separator):
                continue
            if char and (len(char) != 1 or not char.isascii() or char.isalnum() or char in "\r\n\0"):
                raise ValueError(f"the {what} {char!r} is invalid; expected an ASCII character, no letter or digit")
        if self.comment and not (self.comment.isascii() and self.comment.isprintable() and self.comment[0] != " "):
            raise ValueError(f"the mark of comments {self.comment!r} is invalid; expected one such as # or //")
        if self.delimiter and self.delimiter == self.quote:
            raise ValueError(f"the delimiter and the quote are both {self.quote!r}; expected two different characters")
        if self.columns is not None and (problem := csv_parse.column_problem(self.columns)):
            raise ValueError(f"the columns given for files without a header: {problem}")
        if not 1 <= self.block_size <= 1 << 30:
            raise ValueError(f"a block size of {self.block_size} bytes; expected 1 to {1 << 30}")

    def header(self, file: FileRef) -> tuple[str, ...]:
        """Return the columns of `file`; none if it is empty. Damaged compressed data is a TruncatedError."""
        if self.columns is not None:
            return self.columns
        with self._open(file) as (stream, _):
            return self._start(stream, file)[0]

    def index(self, file: FileRef) -> Iterator[BlockRef | Reject | RecordNotice]:
        try:
            with self._open(file) as (stream, base):
                found = self._index(file, stream, base)
                yield from self._check_rows(list(found)) if self.checks_rows else found
        except TruncatedError as error:
            count: Certainty = "at least" if error.is_cut else "estimated"
            yield formats.reject_file(file.name, file.size_bytes, f"{error}; no record could be read", count)
        except OSError as error:
            raise_if_store_failed(error, file.path)
            yield formats.reject_file(file.name, file.size_bytes, f"cannot be read: {error_text(error)}")

    def _check_rows(self, found: list[BlockRef | Reject | RecordNotice]) -> list[BlockRef | Reject | RecordNotice]:
        """Read the rows of all blocks in `found` and return it; raise a UserError if quotes make them doubtful."""
        joined = JoinedRows()
        for block in found:
            if isinstance(block, BlockRef):
                for rows in self.read(block, {}):
                    joined = joined.merge(rows.findings.find(JoinedRows))
        joined.notices()
        return found

    def infer(self, block: BlockRef, columns: ColumnNames, values_of: Sequence[ValuesOf]) -> Iterator[Inferred]:
        names = list(block.columns if columns is None else columns)
        wanted = list(dict.fromkeys([*names, *(column.name for column in values_of)]))
        separators = dict(self.list_separators)
        for piece in self._pieces(block):
            if isinstance(piece, csv_parse.CsvPiece):  # `read` reports the others
                texts, parsed, _ = self._texts(piece, block, wanted, with_lines=False)
                types = self._infer(names, texts)
                are_texts = (
                    len(block.columns) > 1 and types and all(column.dtype == "bytes" for column in types.values())
                )
                if are_texts and all(name.strip().encode() in piece.text for name in block.columns[1:]):  # the header
                    texts, parsed, _ = self._texts(piece, block, wanted, with_lines=True)
                    types = self._infer(names, texts)
                for name in separators.keys() & {column.name for column in values_of}:
                    texts[name], _ = split_lists(texts[name], separators[name])
                values = {column.name: distinct_texts(texts[column.name], column.separator) for column in values_of}
                yield Inferred(types, parsed.rows, values, findings=parsed.findings)

    def _infer(self, names: Sequence[str], texts: Mapping[str, pa.Array]) -> dict[str, ColumnType]:
        separators = dict(self.list_separators)
        found = {name: infer_list_type(texts[name], separators[name]) for name in names if name in separators}
        scalars = [name for name in names if name not in separators]
        plain = [texts[name] for name in scalars]
        others = set()
        if not self.numbers.is_plain:
            for place, name in enumerate(scalars):
                if texts[name].null_count < len(texts[name]):
                    plain[place], is_number = self.numbers.rewrite(texts[name])
                    others |= set() if is_number else {name}
        for name, inferred in zip(scalars, infer_types(plain)):
            is_other = name in others and inferred is not None and inferred.dtype in ("int64", "float32")
            found[name] = replace(inferred, dtype="bytes") if inferred is not None and is_other else inferred
        return {name: inferred for name in names if (inferred := found[name]) is not None}

    def read(self, block: BlockRef, types: ColumnTypes, keys: Keys = ()) -> Iterator[Rows]:
        separated = dict(self.list_separators)
        if lists := [name for name, column in types.items() if column.length is not None and name not in separated]:
            raise UserError(
                f"column {lists[0]!r} is to hold lists, and {block.file.name} is CSV, which holds none; give"
                f" --list_separator {lists[0]}=' ' if a space is between the values in its fields"
            )
        records, file = 0, block.file
        for piece in self._pieces(block):
            if isinstance(piece, csv_parse.LostRecords):
                damage = formats.compressed_damage(piece.error, file.size_bytes)
                reason = f"{damage.reason}; any records from line {piece.line} on are lost"
                lost = damage.make_reject(file.name, piece.line, reason, records, file.size_bytes)
                yield formats.empty_rows(types, [lost], keys)
            elif isinstance(piece, Reject):
                records += 1
                yield formats.empty_rows(types, [piece], keys)
            else:
                rows = self._rows(piece, block, types, keys)
                records += len(rows.batch) + len(rows.rejects)
                yield rows

    def _rows(self, piece: csv_parse.CsvPiece, block: BlockRef, types: ColumnTypes, keys: Keys) -> Rows:
        wanted = dict.fromkeys([*types, *(key.name for key in keys)])
        texts, parsed, missing = self._texts(piece, block, wanted, with_lines=True)
        values, problems, separators = {}, dict[int, str](), dict(self.list_separators)
        scalars, spelled = dict[ScalarType, list[str]](), dict[str, pa.Array]()
        for name, column in types.items():
            if column.length is not None:
                values[name], reasons = parse_lists(texts[name], column, separators[name])
                for row, why in reasons.items():
                    problems.setdefault(row, f"column {name!r}: {why}")
                continue
            if not self.numbers.is_plain and (column.dtype in ("int64", "float32") or column.is_counted):
                spelled[name], texts[name] = texts[name], self.numbers.rewrite(texts[name])[0]
            scalars.setdefault(column.dtype, []).append(name)
        misfits = {}
        for dtype, names in scalars.items():
            for name, (values[name], rows) in zip(names, parse_columns([texts[name] for name in names], dtype)):
                if len(rows):
                    misfits[name] = rows
        for name in filter(misfits.__contains__, types):
            for row, value in zip(misfits[name].tolist(), texts[name].take(pa.array(misfits[name])).to_pylist()):
                if row not in problems:
                    problems[row] = f"column {name!r}: {misfit_reason(value, types[name].dtype)}"
        values = {name: values[name] for name in types}
        for key in keys:
            text = without_leading_zeros(texts[key.name]) if key.is_number else texts[key.name]
            values[formats.key_column_name(key.name)] = key_texts(text)
        kept = Rows(to_batch(values, parsed.rows), parsed.lines, parsed.rejects).without(problems, block.file.name)
        batch = kept.batch
        if problems:
            keep = pa.array(np.isin(np.arange(parsed.rows), list(problems), invert=True))
            texts = {name: texts[name].filter(keep) for name in types}
            spelled = {name: column.filter(keep) for name, column in spelled.items()}
        numbers = {name: (texts[name], batch[name]) for name in types if types[name].dtype in ("int64", "float32")}
        for name in numbers.keys() & separators.keys():
            numbers[name] = split_lists(texts[name], separators[name])[0], batch[name].flatten()
        limit = sample_limit(sum(types[name].dtype == "float32" for name in numbers))
        rounded = {name: rounded_texts(*pair, limit, spelled.get(name)) for name, pair in numbers.items()}
        odd = find_odd_texts(batch, types, block.file.name, kept.lines, None if self.numbers.is_plain else self.numbers)
        taken, spaces = MissingTexts(dict(missing)), self._find_spaces(parsed, block.file.name)
        findings = Findings.of(RoundedNumbers(rounded), odd, taken, spaces)
        return replace(kept, findings=parsed.findings.merge(findings))

    def _find_spaces(self, parsed: csv_parse.Parsed, name: str) -> Remarks:
        """Return a remark on the rows that `strip` changes, if there are any and they are to be remarked on."""
        if not self.remarks_spaces:
            return Remarks()
        flags = [_is_spaced(column) for column in parsed.columns if column.null_count < len(column)]
        rows = np.flatnonzero(np.logical_or.reduce([np.zeros(parsed.rows, bool), *flags]))
        return Remarks.of_lines({SPACED_ROWS: parsed.lines[rows]}, name)

    def _texts(
        self, piece: csv_parse.CsvPiece, block: BlockRef, wanted: Iterable[str], with_lines: bool
    ) -> tuple[dict[str, pa.Array], csv_parse.Parsed, Counter[tuple[str, str]]]:
        """Parse the columns `wanted` as text, with missing values filled; absent columns are missing in all rows.

        The counts are of the texts that mean a missing value, by column and text.
        """
        names, columns = list(wanted), set(block.columns)
        there = [name for name in names if name in columns]
        first_rows, comment = partial(self._first_rows, block), self.comment.encode()
        of_file = block.file.name, block.columns, self._dialect(block.file.name)
        table = csv_parse.Table(*of_file, self.missing, self.encoding, comment, self.is_quote_given, first_rows)
        parsed = csv_parse.parse_piece(piece, table, there, with_lines)
        texts, missing = take_missing_texts(dict(zip(there, parsed.columns)), self.missing, self.strip)
        if len(columns) > 1 and (not there or formats.find_empty(texts.values()) is not None):
            arrays = csv_parse.parse_piece(piece, table, block.columns, with_lines).columns
            every, _ = take_missing_texts(dict(zip(block.columns, arrays)), self.missing, self.strip)
            if (is_empty := formats.find_empty(every.values())) is not None:
                parsed, keep = parsed.without(is_empty), pc.invert(is_empty)
                texts = {name: text.filter(keep) for name, text in texts.items()}
        fill = dict(self.fill)
        for name in names:
            text = texts[name] if name in columns else pa.nulls(parsed.rows, pa.binary())
            if self.escape:
                text = pc.replace_substring(text.view(pa.string()), self.escape * 2, self.escape).view(pa.binary())
            texts[name] = pc.fill_null(text, fill[name].encode()) if name in fill and text.null_count else text
        return texts, parsed, missing

    def _first_rows(self, block: BlockRef) -> list[list[str]]:
        with self._open(block.file) as (stream, _):
            _, head = self._start(stream, block.file)
            _, sample = csv_parse.read_sample(stream, replace(head, record=b""))
        dialect = self._dialect(block.file.name)
        lines = self._text_of(sample, block.file).decode(errors="replace").splitlines()
        quote, delimiter = dialect.quote.decode(), dialect.delimiter.decode()
        rows = [line.split(delimiter) for line in lines if not quote or quote not in line]
        return [fields for fields in rows if len(fields) == len(block.columns)]

    def _pieces(self, block: BlockRef) -> Iterator[csv_parse.CsvPiece | Reject | csv_parse.LostRecords]:
        for piece in self._large_pieces(block):
            if isinstance(piece, csv_parse.CsvPiece):
                yield from csv_parse.split_piece(piece, self._dialect(block.file.name), block.file.name)
            else:
                yield piece

    def _large_pieces(self, block: BlockRef) -> Iterator[csv_parse.CsvPiece | Reject | csv_parse.LostRecords]:
        file, dialect = block.file, self._dialect(block.file.name)
        try:
            if self._is_splittable(file):
                yield from self._pieces_of_range(block)
                return
            with self._open(file) as (stream, _):
                _, head = self._start(stream, file)
                yield from csv_parse.read_pieces(stream, dialect, self.block_size, file.name, head)
        except OSError as error:
            raise_if_store_failed(error, file.path)
            raise JobError(
                f"{file.name} can no longer be read: {error_text(error)}; leave the input as it is while a job runs"
            ) from error

    def _pieces_of_range(self, block: BlockRef) -> Iterator[csv_parse.CsvPiece | Reject | csv_parse.LostRecords]:
        if not formats.is_long_text(block.length):
            yield csv_parse.CsvPiece(to_utf8(self._unescape(_read_range(block)), self.encoding), block.first_line)
            return
        dialect, head = self._dialect(block.file.name), csv_parse.Head(next_line=block.first_line)
        with storage.open_read(block.file.path, block.end) as raw:
            raw.seek(block.offset)
            for piece in csv_parse.read_pieces(
                self._unescaped(_BlockStream(raw, block)), dialect, self.block_size, block.file.name, head
            ):
                if isinstance(piece, csv_parse.CsvPiece):
                    piece = csv_parse.CsvPiece(to_utf8(piece.text, self.encoding), piece.line)
                yield piece

    def _dialect(self, name: str) -> Dialect:
        if len(self.delimiter.encode()) > 1:
            return Dialect(_UNIT, self.quote.encode())
        is_tabs = ".tsv" in PurePosixPath(name.lower()).suffixes[-2:]
        return Dialect((self.delimiter or ("\t" if is_tabs else ",")).encode(), self.quote.encode())

    def _is_splittable(self, file: FileRef) -> bool:
        special = f"{self.delimiter},\t{self.quote}{self.escape}\r\n".encode()
        is_plain = not is_compressed(file.name) and len(self.delimiter.encode()) < 2
        return is_plain and is_ascii_transparent(self.encoding, special)

    def _unescape(self, data: bytes) -> bytes:
        if not self.escape:
            return data
        pair, quote = re.compile(re.escape(self.escape.encode()) + rb"(.)", re.DOTALL), self.quote.encode()
        return pair.sub(lambda found: quote * 2 if found[1] == quote else found[0], data)

    def _unescaped(self, stream: Stream) -> Stream:
        """Return a stream as the parser reads it: quotes doubled, and one character between fields."""
        if self.escape:
            stream = _ChangedStream(stream, self._unescape, self._after_last_pair)
        return (
            _ChangedStream(stream, self._unite, self._after_last_record) if len(self.delimiter.encode()) > 1 else stream
        )

    def _after_last_pair(self, data: bytes) -> int:
        return len(data) - (len(data) - len(data.rstrip(self.escape.encode()))) % 2

    def _unite(self, data: bytes) -> bytes:
        between, quote = re.escape(self.delimiter.encode()), re.escape(self.quote.encode())
        if self.delimiter == WHITE_SPACE:
            data, between = re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", data), rb"[ \t]+"
        if not quote or self.quote.encode() not in data:
            is_space = self.delimiter == WHITE_SPACE
            return re.sub(between, _UNIT, data) if is_space else data.replace(self.delimiter.encode(), _UNIT)
        before = rb"(?<=[ \t])" if self.delimiter == WHITE_SPACE else rb"(?<=%b)" % between
        quoted = rb"(?:^|%b)%b(?:[^%b]|%b%b)*%b(?=%b|\r?$)" % (before, quote, quote, quote, quote, quote, between)
        return re.sub(
            rb"(?m)(%b)|%b" % (quoted, between), lambda found: found[0] if found[1] is not None else _UNIT, data
        )

    def _after_last_record(self, data: bytes) -> int:
        """Return where the last record ends, as far as the quotes before it are in pairs."""
        last = end = data.rfind(b"\n") + 1
        if not self.quote:
            return end
        quote = self.quote.encode()
        is_open = data.count(quote, 0, end) % 2
        while is_open and end and len(data) <= _LONGEST_QUOTED:
            start = data.rfind(b"\n", 0, end - 1) + 1
            is_open ^= data.count(quote, start, end) % 2
            end = start
        return end if len(data) <= _LONGEST_QUOTED else last

    @contextlib.contextmanager
    def _open(self, file: FileRef) -> Iterator[tuple[Stream, int]]:
        """Open the text of `file` after a byte order mark; yield it with the mark's length.

        The text is in the file's encoding if the file can be cut into blocks, otherwise UTF-8.
        """
        with open_decompressed(file.path, file.name, file.size_bytes) as raw:
            start = raw.read(formats.START_BYTES)
            csv_parse.check_start(start, file.name, self.encoding)
            if not self._is_splittable(file):
                try:
                    decoded = self._unescaped(Utf8Stream(_PrefixedStream(start, raw), self.encoding))
                    yield _PrefixedStream(csv_parse.pass_lines(decoded, self.skip_lines)[0], decoded), 0
                except UnicodeError as error:  # UTF-16 without a byte order mark, say
                    raise not_encoded_error(file.name, self.encoding, error) from None
            else:
                text = start.removeprefix(BOM) if self.encoding == "utf-8" else start
                behind = self._unescaped(_PrefixedStream(text, raw))
                rest, passed = csv_parse.pass_lines(behind, self.skip_lines)
                yield _PrefixedStream(rest, behind), len(start) - len(text) + passed

    def _start(self, stream: Stream, file: FileRef, is_doubted: bool = False) -> tuple[tuple[str, ...], csv_parse.Head]:
        """Return the columns of a file, none if it is empty, and the head after which its rows begin.

        Args:
            stream: the text, after the lines to skip.
            file: the file.
            is_doubted: True to raise a UserError if the first rows look as if the file is read the wrong way.
        """
        first = self.skip_lines + 1
        dialect = self._dialect(file.name)
        if self.columns is not None:
            head, sample = csv_parse.Head(b"", first, 0, first, b""), b""
            if is_doubted:
                head, sample = csv_parse.read_sample(stream, head)
            rows = self._text_of(sample, file).decode(errors="replace")
            if problem := columns_problem(rows, first, dialect, self.columns):
                raise UserError(f"{file.name}, line {first}: {problem}")
            return self.columns, head
        head = csv_parse.read_head(stream, dialect, file.name, first, self.comment.encode())
        text, where = self._text_of(head.record, file), f"{file.name}, line {head.line}"
        if self.header_line == "none":
            columns = (
                tuple(f"column_{number}" for number in range(1, len(csv_parse.parse_header(text, dialect)) + 1))
                if text
                else ()
            )
            return columns, csv_parse.Head(
                b"", head.line, head.stop - len(head.record), head.line, head.record + head.rest
            )
        if is_doubted and text and b"\0" not in text and is_utf8(text):
            head, sample = csv_parse.read_sample(stream, head)
            rows = self._text_of(sample, file).decode(errors="replace")
            is_given = self.header_line == "first"
            if problem := header_problem(rows, head.line, dialect, self.delimiter != "", is_given):
                raise UserError(f"{where}: {problem}")
        columns = csv_parse.header_columns(text, dialect, where, self.encoding)
        return tuple(column.strip(" \t") for column in columns) if self.strip else columns, head

    def _text_of(self, data: bytes, file: FileRef) -> bytes:
        text = to_utf8(data, self.encoding) if self._is_splittable(file) else data
        return text.removeprefix(BOM).replace(b"\n" + BOM, b"\n")

    def _index(self, file: FileRef, stream: Stream, base: int) -> Iterator[BlockRef | Reject | RecordNotice]:
        columns, head = self._start(stream, file, is_doubted=True)
        if not columns:
            yield Reject(file.name, None, "index", "the file is empty: no header")
            return
        if head.record:
            names = csv_parse.parse_header(self._text_of(head.record, file), self._dialect(file.name))
            for number, (name, column) in enumerate(zip(names, columns), 1):
                if not name:
                    text = f"the header has no name for column {number}, which is called {column!r}"
                    yield RecordNotice(text, f"{file.name}, line {head.line}", 1)
        if not self._is_splittable(file):
            if head.rest or stream.read(1):
                yield BlockRef(file, 0, file.size_bytes, head.next_line, columns)
            return
        begin, dialect = base + head.stop, self._dialect(file.name)
        size = formats.widen_block(self.block_size, len(columns))
        ranges = [part for _, part in csv_parse.read_ranges(stream, dialect, size, begin, head.rest)]
        stitched = stitch(ranges, begin, head.next_line)
        if stitched.open_line is not None:
            end_byte = storage.read_range(file.path, file.size_bytes - 1, 1)
            raise csv_parse.unclosed_quote_error(file.name, stitched.open_line, dialect, end_byte)
        end = ranges[-1].stop if ranges else begin
        for (offset, line), (stop, _) in itertools.pairwise([*stitched.cuts, (end, 0)]):
            if stop > offset:
                yield BlockRef(file, offset, stop - offset, line, columns)


def _is_spaced(column: pa.Array) -> Positions:
    found = pc.match_substring_regex(column.view(pa.string()), r"\A[ \t]|[ \t]\z")
    return pc.fill_null(found, False).to_numpy(zero_copy_only=False)


class _PrefixedStream:
    """A stream of `start`, followed by `stream`."""

    def __init__(self, start: bytes, stream: Stream) -> None:
        self._start, self._stream = start, stream

    def read(self, size: int, /) -> bytes:
        start, self._start = self._start, b""
        return start + self._stream.read(size) if start else self._stream.read(size)


class _ChangedStream:
    """A stream whose bytes are changed by `change`, in parts that end where `find_end` says."""

    def __init__(self, stream: Stream, change: Callable[[bytes], bytes], find_end: Callable[[bytes], int]) -> None:
        self._stream, self._change, self._find_end = stream, change, find_end
        self._held = b""

    def read(self, size: int, /) -> bytes:
        while more := self._stream.read(size):
            data = self._held + more
            end = self._find_end(data)
            self._held = data[end:]
            if end:
                return self._change(data[:end])
        rest, self._held = self._held, b""
        return self._change(rest)


def _read_range(block: BlockRef) -> bytes:
    try:
        return storage.read_range(block.file.path, block.offset, block.length)
    except EOFError as error:
        raise _short_file_error(block, storage.size(block.file.path) - block.offset) from error


class _BlockStream:
    """The bytes of `block`, read from a stream at the block's start; reading raises OSError if there are fewer."""

    def __init__(self, raw: Stream, block: BlockRef) -> None:
        self._raw, self._block, self._done = raw, block, 0

    def read(self, size: int, /) -> bytes:
        data = self._raw.read(min(size, self._block.length - self._done))
        self._done += len(data)
        if not data and size and self._done < self._block.length:
            raise _short_file_error(self._block, self._done)
        return data


def _short_file_error(block: BlockRef, found_bytes: int) -> OSError:
    return OSError(f"it has {block.offset + found_bytes:,} bytes instead of {block.end:,} or more")
