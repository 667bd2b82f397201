"""CSV and TSV: files with a header or without, as blocks of records, and these as typed rows."""

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.errors import JobError, UserError
from shardmill.metadata.rejects import Count, Reject
from shardmill.transforms.columns.arrow import distinct_texts, to_batch
from shardmill.transforms.columns.inferred import Inferred, ValuesOf
from shardmill.transforms.columns.key_texts import key_texts, without_leading_zeros
from shardmill.transforms.columns.rounded import rounded_texts
from shardmill.transforms.columns.text_types import infer_type
from shardmill.transforms.columns.text_values import misfit, parse_values
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats.base import (
    MAX_TEXT_BYTES,
    BlockRef,
    FileRef,
    KeyColumn,
    Rows,
    key_column,
    no_rows,
    too_long,
)
from shardmill.transforms.formats.csv.dialect import MISSING, Dialect
from shardmill.transforms.formats.csv.header import (
    START_BYTES,
    check_start,
    column_problem,
    header_columns,
    one_column_problem,
)
from shardmill.transforms.formats.csv.parse import Parsed, Table, parse_piece
from shardmill.transforms.formats.csv.pieces import (
    Head,
    Lost,
    Piece,
    TooLong,
    bounded,
    read_head,
    read_pieces,
    read_ranges,
    unclosed,
)
from shardmill.transforms.formats.csv.scan import stitch
from shardmill.transforms.formats.damage import of_compressed, unread_file
from shardmill.transforms.formats.encodings import BOM, Stream, Utf8Stream, encoding_name, keeps_bytes, to_utf8
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.compressed import TruncatedError, is_compressed, open_decompressed
from shardmill.transforms.stores.error_text import error_text
from shardmill.transforms.stores.failures import raise_if_store_failed


@dataclass(frozen=True)
class CsvFormat:
    """RFC 4180 as Arrow reads it.

    Attributes:
      delimiter, quote: one ASCII character each; without a quote, "", fields are what stands between the delimiters.
        Without a delimiter, "", it is a tab in files called .tsv, compressed or not, and a comma in others.
      columns: the columns of files without a header; None if the first record of each file is one.
      encoding: of the files, as Python calls it; the values of bytes columns are UTF-8.
      missing: the texts that stand for a missing value, in quotes too.
      fill: (column, text) of columns whose missing values are to be read as that text; a mapping will do.
      block_size: the bytes of a block, about.

    Raises:
      ValueError: one of these is no good.
    """

    delimiter: str = ""
    quote: str = '"'
    columns: tuple[str, ...] | None = None
    encoding: str = "utf-8"
    missing: tuple[str, ...] = MISSING
    fill: Mapping[str, str] | tuple[tuple[str, str], ...] = ()
    block_size: int = 16 << 20

    def __post_init__(self) -> None:
        fill = tuple(self.fill.items() if isinstance(self.fill, Mapping) else self.fill)
        object.__setattr__(self, "fill", fill)
        object.__setattr__(self, "missing", tuple(self.missing))
        object.__setattr__(self, "columns", None if self.columns is None else tuple(self.columns))
        object.__setattr__(self, "encoding", encoding_name(self.encoding))
        for what, char in (("delimiter", self.delimiter), ("quote", self.quote)):
            if char and (len(char) != 1 or not char.isascii() or char.isalnum() or char in "\r\n\0"):
                raise ValueError(
                    f"the {what} {char!r} is no good; expected one ASCII character that is no letter or digit"
                )
        if self.delimiter and self.delimiter == self.quote:
            raise ValueError(f"the delimiter and the quote are both {self.quote!r}; expected two different characters")
        if self.columns is not None and (problem := column_problem(self.columns)):
            raise ValueError(f"the columns given for files without a header: {problem}")
        if not 1 <= self.block_size <= 1 << 30:
            raise ValueError(f"a block size of {self.block_size} bytes; expected 1 to {1 << 30}")

    def header(self, file: FileRef) -> tuple[str, ...]:
        """The columns of `file`; none if it is empty.

        Raises:
          UserError: the header is no good.
          OSError: the file cannot be read; TruncatedError where its compressed data is damaged.
        """
        if self.columns is not None:
            return self.columns
        with self._open(file) as (stream, _):
            return self._header(read_head(stream, self._dialect(file.name), file.name), file)

    def index(self, file: FileRef) -> Iterator[BlockRef | Reject]:
        """The blocks of `file`, in order; a Reject if it is empty or cannot be read.

        Raises:
          UserError: its header is no good, it is no text, or a quote is never closed.
        """
        try:
            with self._open(file) as (stream, base):
                yield from self._index(file, stream, base)
        except TruncatedError as error:
            count: Count = "at least" if error.is_cut else "estimated"
            yield unread_file(file.name, file.size_bytes, "index", f"{error}; no record could be read", count)
        except OSError as error:
            raise_if_store_failed(error, file.path)
            yield unread_file(file.name, file.size_bytes, "index", f"cannot be read: {error_text(error)}")

    def infer(
        self, block: BlockRef, columns: Iterable[str] | None, values_of: Sequence[ValuesOf]
    ) -> Iterator[Inferred]:
        """The types of `columns` (None: all the file has) over the block's rows, and the distinct values of
        `values_of`.

        Raises:
          UserError: a quote is never closed, in a file that cannot be cut into blocks.
          JobError: the file has changed since it was indexed.
        """
        names = list(block.columns if columns is None else columns)
        wanted = list(dict.fromkeys([*names, *(column.name for column in values_of)]))
        for piece in self._pieces(block):
            if not isinstance(piece, Piece):
                continue  # `read` says so
            texts, parsed = self._texts(piece, block, wanted, with_lines=False)
            types = {name: found for name in names if (found := infer_type(texts[name]))}
            values = {column.name: distinct_texts(texts[column.name], column.separator) for column in values_of}
            yield Inferred(types, parsed.rows, values)

    def read(self, block: BlockRef, types: Mapping[str, ColumnType], keys: Sequence[KeyColumn] = ()) -> Iterator[Rows]:
        """The rows of a block; one that does not fit `types` is a Reject, as is a record that is not as it should be.

        Raises:
          UserError: a type of lists, which CSV has none of; or as `infer` does.
          JobError: as `infer` does.
        """
        if lists := [name for name, column in types.items() if column.length is not None]:
            raise UserError(f"column {lists[0]!r} is to hold lists, and {block.file.name} is CSV, which holds none")
        records, file = 0, block.file
        for piece in self._pieces(block):
            if isinstance(piece, Lost):
                damage = of_compressed(piece.error, file.size_bytes)
                reason = f"{damage.reason}; the records from line {piece.line} on are lost"
                lost = damage.reject(file.name, piece.line, "read", reason, records, file.size_bytes)
                yield no_rows(types, [lost], keys)
            elif isinstance(piece, TooLong):
                reject = Reject(file.name, piece.line, "read", too_long(piece.size_bytes, MAX_TEXT_BYTES))
                records += 1
                yield no_rows(types, [reject], keys)
            else:
                rows = self._rows(piece, block, types, keys)
                records += len(rows.batch) + len(rows.rejects)
                yield rows

    def _rows(self, piece: Piece, block: BlockRef, types: Mapping[str, ColumnType], keys: Sequence[KeyColumn]) -> Rows:
        wanted = dict.fromkeys([*types, *(key.name for key in keys)])
        texts, parsed = self._texts(piece, block, wanted, with_lines=True)
        values, rejects = {}, {}
        for name in types:
            text = texts[name]
            values[name], misfits = parse_values(text, types[name].dtype)
            for row, value in zip(misfits.tolist(), text.take(pa.array(misfits)).to_pylist()):
                if row not in rejects:
                    reason = f"column {name!r}: {misfit(value, types[name].dtype)}"
                    rejects[row] = Reject(block.file.name, int(parsed.lines[row]), "read", reason)
        values |= {key_column(key.name): _keys(texts[key.name], key) for key in keys}
        batch, lines, left_out = to_batch(values, parsed.rows), parsed.lines, parsed.rejects
        if rejects:
            keep = np.ones(parsed.rows, bool)
            keep[list(rejects)] = False
            texts = {name: texts[name].filter(pa.array(keep)) for name in types}
            batch, lines = batch.filter(pa.array(keep)), lines[keep]
            left_out = sorted([*left_out, *rejects.values()], key=lambda reject: reject.line or 0)
        floats = [name for name, column in types.items() if column.dtype == "float32"]
        rounded = {name: found for name in floats if (found := rounded_texts(texts[name], batch[name]))}
        return Rows(batch, lines, left_out, parsed.blank, rounded=rounded)

    def _texts(
        self, piece: Piece, block: BlockRef, wanted: Iterable[str], with_lines: bool
    ) -> tuple[dict[str, pa.Array], Parsed]:
        """The columns `wanted` as text, with missing values filled; those that the file lacks are missing in all
        rows."""
        names = list(wanted)
        columns = set(block.columns)
        there = [name for name in names if name in columns]
        table = Table(block.file.name, block.columns, self._dialect(block.file.name), self.missing, self.encoding)
        parsed = parse_piece(piece, table, there, with_lines)
        found = dict(zip(there, parsed.columns))
        fill = dict(self.fill)
        texts = {}
        for name in names:
            text = found[name] if name in found else pa.nulls(parsed.rows, pa.binary())
            texts[name] = pc.fill_null(text, fill[name].encode()) if name in fill and text.null_count else text
        return texts, parsed

    def _pieces(self, block: BlockRef) -> Iterator[Piece | TooLong | Lost]:
        dialect = self._dialect(block.file.name)
        for piece in self._large_pieces(block):
            if isinstance(piece, Piece):
                yield from bounded(piece, dialect, block.file.name)
            else:
                yield piece

    def _large_pieces(self, block: BlockRef) -> Iterator[Piece | TooLong | Lost]:
        file = block.file
        try:
            if self._is_cut(file):
                yield from self._pieces_of_range(block)
                return
            with self._open(file) as (stream, _):
                head = (
                    Head(b"", 1, 0, 1, b"")
                    if self.columns is not None
                    else read_head(stream, self._dialect(file.name), file.name)
                )
                yield from read_pieces(stream, self._dialect(file.name), self.block_size, file.name, head)
        except OSError as error:
            raise_if_store_failed(error, file.path)
            raise JobError(
                f"{file.name} can no longer be read: {error_text(error)}; leave the input as it is while a job runs"
            ) from error

    def _pieces_of_range(self, block: BlockRef) -> Iterator[Piece | TooLong | Lost]:
        """A block as one piece, or, where one of its records may be too long, several."""
        if block.length <= MAX_TEXT_BYTES:
            yield Piece(to_utf8(_read_range(block), self.encoding), block.first_line)
            return
        dialect, head = self._dialect(block.file.name), Head(b"", 1, 0, block.first_line, b"")
        with storage.open_read(block.file.path, block.end) as raw:
            raw.seek(block.offset)
            for piece in read_pieces(_Part(raw, block), dialect, self.block_size, block.file.name, head):
                yield Piece(to_utf8(piece.text, self.encoding), piece.line) if isinstance(piece, Piece) else piece

    def _dialect(self, name: str) -> Dialect:
        is_tabs = ".tsv" in PurePosixPath(name.lower()).suffixes[-2:]
        return Dialect((self.delimiter or ("\t" if is_tabs else ",")).encode(), self.quote.encode())

    def _is_cut(self, file: FileRef) -> bool:
        """Whether blocks can be found in the file's bytes as they are."""
        return not is_compressed(file.name) and keeps_bytes(
            self.encoding, f"{self.delimiter},\t{self.quote}\r\n".encode()
        )

    @contextlib.contextmanager
    def _open(self, file: FileRef) -> Iterator[tuple[Stream, int]]:
        """The text of `file` after a byte order mark, and the mark's length: as it is if it can be cut, or else
        UTF-8."""
        with open_decompressed(file.path, file.name, file.size_bytes) as raw:
            start = raw.read(START_BYTES)
            check_start(start, file.name, self.encoding)
            if not self._is_cut(file):
                try:
                    yield Utf8Stream(_Pushed(start, raw), self.encoding), 0
                except UnicodeError as error:  # UTF-16 without a byte order mark, say
                    raise UserError(
                        f"{file.name} is not {self.encoding}: {error}; give the encoding of the file with --encoding"
                    ) from None
            else:
                text = start.removeprefix(BOM) if self.encoding == "utf-8" else start
                yield _Pushed(text, raw), len(start) - len(text)

    def _header(self, head: Head, file: FileRef) -> tuple[str, ...]:
        text = to_utf8(head.record, self.encoding) if self._is_cut(file) else head.record
        dialect, where = self._dialect(file.name), f"{file.name}, line {head.line}"
        columns = header_columns(text, dialect, where, self.encoding)
        if not self.delimiter and (problem := one_column_problem(columns, dialect.delimiter.decode())):
            raise UserError(f"{where}: {problem}")
        return columns

    def _index(self, file: FileRef, stream: Stream, base: int) -> Iterator[BlockRef | Reject]:
        head = Head(b"", 1, 0, 1, b"")
        columns = self.columns
        if columns is None:
            head = read_head(stream, self._dialect(file.name), file.name)
            columns = self._header(head, file)
            if not columns:
                yield Reject(file.name, None, "index", "the file is empty: no header")
                return
        if not self._is_cut(file):
            if head.rest or stream.read(1):
                yield BlockRef(file, 0, file.size_bytes, head.next_line, columns)
            return
        begin = base + head.stop
        ranges = [part for _, part in read_ranges(stream, self._dialect(file.name), self.block_size, begin, head.rest)]
        stitched = stitch(ranges, begin, head.next_line)
        if stitched.open_line is not None:
            raise unclosed(file.name, stitched.open_line, self._dialect(file.name))
        end = ranges[-1].stop if ranges else begin
        for (offset, line), (stop, _) in itertools.pairwise([*stitched.cuts, (end, 0)]):
            if stop > offset:
                yield BlockRef(file, offset, stop - offset, line, columns)


class _Pushed:
    """A stream that starts with `start` and goes on with `stream`."""

    def __init__(self, start: bytes, stream: Stream) -> None:
        self._start, self._stream = start, stream

    def read(self, size: int, /) -> bytes:
        """About `size` bytes, none at the end only."""
        start, self._start = self._start, b""
        return start + self._stream.read(size) if start else self._stream.read(size)


def _read_range(block: BlockRef) -> bytes:
    """The bytes of `block`; raises OSError if the file has fewer."""
    try:
        return storage.read_range(block.file.path, block.offset, block.length)
    except EOFError as error:
        raise _shorter(block, storage.size(block.file.path) - block.offset) from error


class _Part:
    """The bytes of `block`, from a stream that stands at its start; reading raises OSError if there are fewer."""

    def __init__(self, raw: Stream, block: BlockRef) -> None:
        self._raw, self._block, self._done = raw, block, 0

    def read(self, size: int, /) -> bytes:
        """`size` bytes, or what is left."""
        data = self._raw.read(min(size, self._block.length - self._done))
        self._done += len(data)
        if not data and size and self._done < self._block.length:
            raise _shorter(self._block, self._done)
        return data


def _shorter(block: BlockRef, found: int) -> OSError:
    return OSError(f"it has {block.offset + found:,} bytes instead of {block.end:,} or more")


def _keys(text: pa.Array, key: KeyColumn) -> pa.LargeBinaryArray:
    return key_texts(without_leading_zeros(text) if key.is_number else text)
