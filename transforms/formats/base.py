"""What a format of records inside files is to the rest: files are indexed as blocks, a block is read as typed rows.

A format is a frozen dataclass, pure but for reading files, that workers receive pickled. CSV, JSON lines, Parquet,
Avro, text lines and TFRecords are formats.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from shardmill.metadata.rejects import Reject
from shardmill.transforms.columns.arrow import missing_values, to_batch
from shardmill.transforms.columns.inferred import Inferred, ValuesOf
from shardmill.transforms.columns.rounded import RoundedColumns
from shardmill.transforms.columns.types import ColumnType

# Parsed at once, about: what is kept of each, positions and offsets, may be fifty times the bytes of the shortest
MAX_LINES = 1 << 19
# Of a record in a file of lines: while it is parsed and encoded, there are several copies of it
MAX_TEXT_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file of the input.

    Attributes:
      name: relative to the input's root, as errors and rejects call it.
      path: where it lies.
      size_bytes: on disk.
      key_start, key_span: the file's share of the 64-bit key space where files keep the order of their names.
      parts: of parallel files, all of them, the first of which lends the name and the path; the size is that of all.
    """

    name: str
    path: str
    size_bytes: int
    key_start: int = 0
    key_span: int = 1 << 63
    parts: tuple["FileRef", ...] = ()


@dataclass(frozen=True, slots=True)
class BlockRef:
    """Some consecutive records of a file, read by one worker at once.

    Attributes:
      file: that holds them.
      offset, length: its bytes, from the start of a record to the end of one; a compressed file is one block, whose
        length is that of the file on disk. Of a Parquet file, the row group's number and its bytes.
      first_line: the line, from 1, on which the first record starts; where a format has no lines, the record, from 1.
      columns: the columns of the file in its order, where a header says them.
      records: how many there are, where a footer or the index of the file says it.
      parts: of parallel files, the block of each that has the same lines; offset and length are the sums of theirs.
    """

    file: FileRef
    offset: int
    length: int
    first_line: int = 1
    columns: tuple[str, ...] = ()
    records: int | None = None
    parts: tuple["BlockRef", ...] = ()

    @property
    def end(self) -> int:
        """The offset after its bytes; of no Parquet file."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class PassedOver:
    """What is in a file beside its records.

    Attributes:
      kind: of thing.
      name: of the first one.
      number: how many there are.
    """

    kind: str
    name: str
    number: int = 1


@dataclass(frozen=True, slots=True)
class Noted:
    """What must be said of records of a file, which are read all the same.

    Attributes:
      what: there is to say.
      name: of the first one.
      number: how many there are.
    """

    what: str
    name: str
    number: int


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column that is asked for as the key, the group or the stratum of rows, see transforms.columns.key_texts.

    Attributes:
      name: of the column, which may be a feature too.
      is_number: whether it is one of numbers by --schema, whatever its values look like.
    """

    name: str
    is_number: bool = False


def key_column(name: str) -> str:
    """How the keys of column `name` are called in a batch, beside the column itself if that is a feature."""
    return f"\0key:{name}"


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Some records of one block, typed, in their order.

    Attributes:
      batch: a column for each type asked for, in that order: int64, float32, large_binary, or a large_list of them;
        null where a value is missing. Then the texts of each key asked for, which are called by key_column.
      lines: int64, shape (rows,), the line on which each record starts: with the file's name, its position.
      rejects: records left out; `source` is the file's name, `stage` is "read".
      blank: lines without a record that were passed over.
      others: names of what nobody asked for, where records name what they have themselves, as JSON's objects do.
      rounded: of columns of float32, what it changes of integers.
    """

    batch: pa.RecordBatch
    lines: np.ndarray
    rejects: list[Reject] = field(default_factory=list)
    blank: int = 0
    others: frozenset[str] = frozenset()
    rounded: RoundedColumns = field(default_factory=dict)


def too_long(size_bytes: int, most: int) -> str:
    """The reason to leave out a record whose text has `size_bytes` bytes where `most` are read."""
    return (
        f"a record of {size_bytes:,} bytes of text; expected {most:,} at most: is the end of a line, or a quote,"
        " missing?"
    )


def split_rows(rows: Rows, most: int) -> Iterator[Rows]:
    """The same rows, `most` at a time; what is no row goes with the first of them."""
    if len(rows.lines) <= most:
        yield rows
        return
    for start in range(0, len(rows.lines), most):
        batch, lines = rows.batch.slice(start, most), rows.lines[start : start + most]
        yield Rows(batch, lines) if start else replace(rows, batch=batch, lines=lines)


class RecordFormat(Protocol):
    """How the records of one format are found and read. Every method may be called on any worker, any number of
    times."""

    def index(self, file: FileRef) -> Iterator[BlockRef | Reject] | Iterator[BlockRef | Reject | PassedOver | Noted]:
        """The blocks of `file`, in order; a Reject for what cannot be read at all.

        Raises:
          UserError: the file is not what the flags say it is, and the whole input is suspect.
        """

    def header(self, file: FileRef) -> tuple[str, ...]:
        """The columns that `file` itself names, in its order; () where its format names none ahead of the records."""

    def infer(
        self, block: BlockRef, columns: Iterable[str] | None, values_of: Sequence[ValuesOf]
    ) -> Iterator[Inferred]:
        """The types of `columns` (None: all) over the block's rows, and the distinct values of `values_of`."""

    def read(self, block: BlockRef, types: Mapping[str, ColumnType], keys: Sequence[KeyColumn] = ()) -> Iterator[Rows]:
        """The rows of a block, in pieces that fit into memory; a row that does not fit `types` is a Reject.

        Formats whose rows have other columns than their records, lines and Examples, leave `keys` to the encoder.
        """


def no_rows(types: Mapping[str, ColumnType], rejects: Sequence[Reject], keys: Sequence[KeyColumn] = ()) -> Rows:
    """Nothing but rejects."""
    arrays = {name: missing_values(column, 0) for name, column in types.items()}
    arrays |= {key_column(key.name): pa.nulls(0, pa.large_binary()) for key in keys}
    return Rows(to_batch(arrays, 0), np.zeros(0, np.int64), list(rejects))
