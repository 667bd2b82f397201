"""The interface of record formats, and rows that come as Arrow batches."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import PurePosixPath
from typing import Any, ClassVar, NamedTuple, Protocol
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.addons import registry
from shardmill.errors import UserError
from shardmill.flag_values import assign
from shardmill.metadata.manifest import Certainty, Reject
from shardmill.text import FIRST_UNORDERED
from shardmill.transforms.columns import arrow, conversion
from shardmill.transforms.columns.nested import FlatColumnType, Nesting
from shardmill.transforms.columns.text import (
    find_odd_texts,
    infer_type,
    key_texts,
    key_texts_of_values,
    take_missing_texts,
)
from shardmill.transforms.columns.types import (
    ColumnNames,
    ColumnType,
    ColumnTypes,
    DeclaredColumn,
    DeclaredObjects,
    Inferred,
    ScalarType,
    Values,
    ValuesOf,
)
from shardmill.transforms.encodings import encoding_name, to_nfc
from shardmill.transforms.findings import Findings, MissingTexts, OddTexts, Remarks, RoundedNumbers
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import changed_error, error_text
from shardmill.transforms.stores.storage import raise_if_store_failed
from shardmill.transforms.stores.streams import TruncatedError
from shardmill.transforms.workers.resources import find_memory_problem, most_bytes

# Parsed at once, about: what is kept of each, positions and offsets, may be fifty times the bytes of the shortest
MAX_LINES = 1 << 19
# Of a record in a file of lines: while it is parsed and encoded, there are several copies of it
MAX_TEXT_BYTES = 256 << 20
_TEXT_COPIES = 14  # of such a record at once: 200 MB of CSV or JSON lines took 2.9 GB
STAGE = "read"  # of the rejects that `RecordFormat.read` yields


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file of the input."""

    name: str  # path relative to the input's root, for errors and rejects
    path: str  # path or URL to open
    size_bytes: int  # size on disk; of parallel files, the sum
    key_start: int = 0  # with key_span, the file's part of the 64-bit key space, in name order
    key_span: int = 1 << 63
    parts: tuple["FileRef", ...] = ()  # parallel files; the first one lends name and path
    revision: str = ""  # of the file as listed, see `storage.read_revision`; "" if unknown
    records: int = 0  # of spooled rows, how many it has
    first_line: int = 1  # number of its first row among all spooled rows of its name
    is_ordered: bool = True  # False of spooled rows whose numbers only tell them apart, as those of a PCollection


_ASKED_AT_ONCE = 32  # requests of a store


def check_unchanged(files: Iterable[FileRef]) -> None:
    """Check, once files have been read, that they are those that were listed; raise JobError otherwise.

    A file that is replaced or written while a job reads it would be old data in one part and new data in another.
    """
    known = [part for file in dict.fromkeys(files) for part in file.parts or (file,) if part.revision]
    if all(storage.is_local(part.path) for part in known):
        found: Iterable[bool] = map(_is_unchanged, known)
    else:
        with ThreadPoolExecutor(_ASKED_AT_ONCE, "shardmill-unchanged") as pool:
            found = list(pool.map(_is_unchanged, known))
    for part, is_unchanged in zip(known, found, strict=True):
        if not is_unchanged:
            raise changed_error(part.path)


def _is_unchanged(file: FileRef) -> bool:
    return storage.is_unchanged(file.path, file.revision)


@dataclass(frozen=True, slots=True)
class BlockRef:
    """Consecutive records of a file that one worker reads at once.

    A compressed file is one block with the file's size on disk as its length. For Parquet, `offset` is the row group's
    number and `length` its compressed bytes.
    """

    file: FileRef
    offset: int  # with length, the byte range, at record boundaries
    length: int
    first_line: int = 1  # line or, without lines, number of the first record, from 1
    columns: tuple[str, ...] = ()  # the file's columns in order, if a header names them
    records: int | None = None  # number of records, if a footer or the index knows it
    parts: tuple["BlockRef", ...] = ()  # parallel blocks of the same lines; offset and length are sums

    @property
    def end(self) -> int:
        """The offset after the block's bytes; meaningless for Parquet."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class SkippedItems:
    """Things in a file that are not records and are skipped."""

    kind: str
    first_item: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class RecordNotice:
    """A remark about records of a file that are read nevertheless."""

    text: str
    first_record: str
    count: int  # of records


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column used as key, group or stratum of rows; see transforms.columns.text."""

    name: str  # the column, which may also be a feature
    is_number: bool = False  # True if --schema declares it a number


Keys = Sequence[KeyColumn]
KEY_PREFIX = "\0key:"


def key_column_name(name: str) -> str:
    """Return the name under which a batch holds the key texts of column `name`."""
    return f"{KEY_PREFIX}{name}"


# Columns of a batch that say where the largest image of each row is in the row's file, if it can be read from there
# again: its offset in bytes, and the number of its column among the requested ones; -1 without such an image
IMAGE_OFFSET, IMAGE_COLUMN = "\0image:offset", "\0image:column"


class RawBatch(NamedTuple):
    """Records of one block as their file has them, with nested values and without conversion to features."""

    batch: pa.RecordBatch
    lines: np.ndarray  # int64 (rows,), first line of each record


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A batch of typed records of one block, in order."""

    batch: pa.RecordBatch  # requested columns in order, then key texts by key_column_name
    lines: np.ndarray  # int64 (rows,), first line of each record
    rejects: list[Reject] = field(default_factory=list)  # records left out; source is the file's name, stage "read"
    findings: Findings = field(default_factory=Findings)  # about these records and rejects

    def without(self, problems: Mapping[int, str], source: str) -> "Rows":
        """Return the rows that have no problem; the others are rejects of the file `source`."""
        if not problems:
            return self
        good = np.ones(len(self.batch), bool)
        good[list(problems)] = False
        found = [Reject(source, int(self.lines[row]), STAGE, reason) for row, reason in sorted(problems.items())]
        rejects = sorted([*self.rejects, *found], key=lambda reject: reject.line or 0)
        return replace(self, batch=self.batch.filter(pa.array(good)), lines=self.lines[good], rejects=rejects)


def max_text_bytes() -> int:
    """Return the size of the largest record that is read of a file of lines."""
    return min(MAX_TEXT_BYTES, most_bytes(_TEXT_COPIES))


def is_long_text(size_bytes: int) -> bool:
    """Return True if a record of a file of lines is larger than `max_text_bytes`."""
    return size_bytes > MAX_TEXT_BYTES or find_memory_problem(size_bytes, _TEXT_COPIES) != ""


def reject_long(name: str, line: int, size_bytes: int) -> Reject:
    """Return the Reject of a record of `size_bytes` bytes that `is_long_text`."""
    problem = f"{size_bytes:,} bytes of text; expected {MAX_TEXT_BYTES:,} at most"
    if size_bytes <= MAX_TEXT_BYTES:
        problem = find_memory_problem(size_bytes, _TEXT_COPIES)
    return Reject(name, line, STAGE, f"a record of {problem}: is the end of a line, or a quote, missing?")


def describe_cut_end(text: bytes) -> str:
    """Return the end of a message about the last record of a file, the end of which is `text`.

    It is "" if the text ends with a line break.
    """
    if not text or text.endswith((b"\n", b"\r")):
        return ""
    return "; the file ends there without a line break, so it may be cut short: compare its size with the original's"


# In each character, the places of the byte with ASCII and of one that is then NUL; the bytes of a character
_PLACES = {"utf-32-le": (0, 2, 4), "utf-32-be": (3, 1, 4), "utf-16-le": (0, 1, 2), "utf-16-be": (1, 0, 2)}
START_BYTES = 256  # in which NULs are counted


def check_start(start: bytes, name: str, encoding: str) -> None:
    """Raise a UserError if `start`, of the file `name`, is UTF-16 or UTF-32, and `encoding` is none of these."""
    if encoding_name(encoding).startswith(("utf-16", "utf-32")):
        return
    for found, (low, high, step) in _PLACES.items():
        highs, is_marked = start[high:START_BYTES:step], start.startswith("\ufeff".encode(found))
        if is_marked or highs.count(0) > max(3, len(highs) / 2, 8 * start[low:START_BYTES:step].count(0)):
            raise UserError(f"{name} begins like {found[:6].upper()}; give --encoding {found[: 6 if is_marked else 9]}")


_WIDE_COLUMNS, _WIDE_FACTOR = 4096, 4


def widen_block(block_size: int, columns: int) -> int:
    """Return the bytes of a block of rows: several times `block_size` if there are thousands of columns.

    Work on a block has a cost for each column. For 20,000 columns it is half of the work on 4 MiB.
    """
    return block_size * (_WIDE_FACTOR if columns > _WIDE_COLUMNS else 1)


def split_rows(rows: Rows, max_rows: int) -> Iterator[Rows]:
    """Split rows into parts of at most `max_rows`; rejects and findings go with the first part."""
    if len(rows.lines) <= max_rows:
        yield rows
        return
    for start in range(0, len(rows.lines), max_rows):
        batch, lines = rows.batch.slice(start, max_rows), rows.lines[start : start + max_rows]
        yield Rows(batch, lines) if start else replace(rows, batch=batch, lines=lines)


class RecordFormat(Protocol):
    """An input format: how its records are found and read. Any worker may call any method any number of times.

    A format is a frozen dataclass that workers receive pickled; its only side effect is reading files.

    Raises:
        UserError: if the file contradicts the flags, or holds no usable text or columns, so that the whole input is
            suspect; or if a requested column cannot be read as its type.
        JobError: if the file has changed since it was indexed.
        OSError: if the file cannot be read; `read` makes Rejects of most.
    """

    infers_with_index: ClassVar[bool] = False  # True if `index_and_infer` reads a file once for both
    lock_share: ClassVar[float] = 0.25  # part of its core time under Python's lock (bench_lock.py), see `offload`

    def index(self, file: FileRef) -> Iterator[BlockRef | Reject | SkippedItems | RecordNotice]:
        """Yield the blocks of `file` in order, and a Reject for anything that cannot be read at all."""

    def index_and_infer(
        self, file: FileRef, columns: ColumnNames, values_of: Sequence[ValuesOf]
    ) -> Iterator[BlockRef | Reject | SkippedItems | RecordNotice | Inferred]:
        """Yield what `index` yields, and what `infer` finds in all blocks."""
        blocks = []
        for item in self.index(file):
            yield item
            if isinstance(item, BlockRef):
                blocks.append(item)
        for block in blocks:
            yield from self.infer(block, columns, values_of)

    def header(self, file: FileRef) -> tuple[str, ...]:
        """Return the columns that the file's header names, in order; () if the format names none before the records."""
        return ()

    def infer(self, block: BlockRef, columns: ColumnNames, values_of: Sequence[ValuesOf]) -> Iterator[Inferred]:
        """Infer the types of `columns` (None: all) over the rows, and collect the distinct values of `values_of`."""

    def read(self, block: BlockRef, types: ColumnTypes, keys: Keys = ()) -> Iterator[Rows]:
        """Yield the rows of a block in pieces that fit into memory; a row that does not fit `types` is a Reject.

        Text lines and Examples ignore `keys`, because their rows have other columns than their records; the encoder
        computes the keys.
        """


def read_stacked(
    format_: RecordFormat, block: BlockRef, types: Mapping[str, ColumnType], keys: Sequence[KeyColumn] = ()
) -> Iterator[Rows]:
    """Yield the rows of a block as `RecordFormat.read` does, with the columns that --stack joins as one column."""
    stacks = {name: column for name, column in types.items() if column.members}
    if not stacks:
        yield from format_.read(block, types, keys)
        return
    single = {name: column for name, column in types.items() if not column.members}
    for column in stacks.values():
        kind = ColumnType("int64" if column.dtype == "bytes" else column.dtype, None, 0)
        single |= dict.fromkeys(column.members, kind)
    for rows in format_.read(block, single, keys):
        yield _stack(rows, types, block.file.name)


def _stack(rows: Rows, types: Mapping[str, ColumnType], source: str) -> Rows:
    problems, arrays = dict[int, str](), dict[str, pa.Array]()
    others = [name for name in rows.batch.schema.names if name.startswith(KEY_PREFIX)]
    for name, column in types.items():
        if not column.members:
            arrays[name] = rows.batch[name]
            continue
        parts = [rows.batch[member] for member in column.members]
        for member, part in zip(column.members, parts):
            for row in part.is_null().to_numpy(zero_copy_only=False).nonzero()[0].tolist() if part.null_count else ():
                remedy = f"--stack {name} needs one in each row; --fill {assign(member, '0')} supplies it"
                problems.setdefault(row, f"column {member!r} has no value, and {remedy}")
        values = np.stack([pc.fill_null(part, 0).to_numpy() for part in parts], axis=1)
        offsets = np.arange(len(values) + 1, dtype=np.int64) * len(parts)
        if column.dtype != "bytes":
            arrays[name] = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values.ravel()))
            continue
        for row, index in np.argwhere(values.view(np.uint64) > 255).tolist():
            reason = f"column {column.members[index]!r}: {values[row, index]} is not 0 to 255 (uint8)"
            problems.setdefault(row, reason)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values.astype(np.uint8))]
        arrays[name] = pa.Array.from_buffers(pa.large_binary(), len(values), buffers)
    batch = arrow.to_batch(arrays | {name: rows.batch[name] for name in others}, len(rows.batch))
    return replace(rows, batch=batch).without(problems, source)


_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"  # in place of a missing value


def folder_columns(file: FileRef) -> dict[str, pa.Scalar]:
    """Return the values that the folders of a file name, as in `year=2024/month=1`, by column."""
    pairs = [part.partition("=") for part in PurePosixPath(file.name).parent.parts if "=" in part]
    texts = {unquote(name): None if text == _NO_PARTITION else unquote(text).encode() for name, _, text in pairs}
    return {name: pa.scalar(text, pa.binary()) for name, text in texts.items()}


@dataclass(frozen=True)
class PartitionedFormat(RecordFormat):
    """Rows of files with further columns that their folders name; a column of the file with such a name is not read."""

    inner: RecordFormat  # format of the files

    def folder_texts(self, file: FileRef, rows: int) -> tuple[dict[str, pa.Array], Counter[tuple[str, str]]]:
        """Return `rows` times what the folders of a file say, by column, and the counts of texts for missing values."""
        texts = {name: pa.repeat(text, rows) for name, text in folder_columns(file).items()}
        return take_missing_texts(texts, getattr(self.inner, "missing", ()), getattr(self.inner, "strip", False))

    def index(self, file: FileRef) -> Iterator[BlockRef | Reject | SkippedItems | RecordNotice]:
        folders = folder_columns(file)
        if not folders:
            raise UserError(f"{file.name} is in no folder such as year=2024; leave --hive_partitioning out")
        yield from self.inner.index(file)
        for name in self.inner.header(file):
            if name in folders:
                yield SkippedItems("file column whose folder says its value", f"{file.name}: {name}")

    def header(self, file: FileRef) -> tuple[str, ...]:
        columns = self.inner.header(file)
        return tuple(dict.fromkeys((*columns, *folder_columns(file)))) if columns else ()

    def infer(self, block: BlockRef, columns: ColumnNames, values_of: Sequence[ValuesOf]) -> Iterator[Inferred]:
        folders, _ = self.folder_texts(block.file, 1)
        texts = {name: text for name, text in folders.items() if columns is None or name in set(columns)}
        own = None if columns is None else [name for name in columns if name not in folders]
        fills, batch = parse_fills(getattr(self.inner, "fill", ())), arrow.to_batch(folders, 1)
        values = distinct_values(batch, [column for column in values_of if column.name in folders], fills)
        for part in self.inner.infer(block, own, [column for column in values_of if column.name not in folders]):
            types = {name: kind for name, kind in part.types.items() if name not in folders}
            for name, text in texts.items():
                if (kind := merge_fill(infer_type(text), fills.get(name), text.null_count)) is not None:
                    types[name] = replace(kind, present=part.rows)
            yield replace(part, types=types, values={**part.values, **values})

    def read(self, block: BlockRef, types: ColumnTypes, keys: Keys = ()) -> Iterator[Rows]:
        folders = folder_columns(block.file)
        named = {name: column for name, column in types.items() if name in folders}
        own = {name: column for name, column in types.items() if name not in folders}
        fills = parse_fills(getattr(self.inner, "fill", ()))
        for rows in self.inner.read(block, own, [key for key in keys if key.name not in folders]):
            texts, counts = self.folder_texts(block.file, len(rows.batch))
            taken = {place: count for place, count in counts.items() if place[0] in named}
            batch, folder_keys = arrow.to_batch(texts, len(rows.batch)), [key for key in keys if key.name in folders]
            added = typed_rows(block.file.name, batch, rows.lines, named, folder_keys, fills)
            rows = rows.without({row: reject.reason for row, reject in enumerate(added.rejects)}, block.file.name)
            columns = {name: part.batch[name] for part in (rows, added) for name in part.batch.schema.names}
            names = (*types, *(key_column_name(key.name) for key in keys))
            # No flag for the spelling of fields is one for folders
            odd = {name: replace(each, remarks={}) for name, each in added.findings.find(OddTexts).columns.items()}
            found = Findings.of(added.findings.find(RoundedNumbers), OddTexts(odd), MissingTexts(taken))
            batch = arrow.to_batch({name: columns[name] for name in names}, len(rows.batch))
            yield replace(rows, batch=batch, findings=rows.findings.merge(found))


def empty_rows(types: Mapping[str, ColumnType], rejects: Sequence[Reject], keys: Sequence[KeyColumn] = ()) -> Rows:
    """Return zero rows with these rejects."""
    arrays = {name: arrow.missing_values(column, 0) for name, column in types.items()}
    arrays |= {key_column_name(key.name): pa.nulls(0, pa.large_binary()) for key in keys}
    return Rows(arrow.to_batch(arrays, 0), np.zeros(0, np.int64), list(rejects))


class UnreadableError(Exception):
    """Data that is damaged or not of the format; the message is the reason."""


class CutError(UnreadableError):
    """A file that ends too early, after at least `records` lost ones."""

    def __init__(self, reason: str, records: int = 1) -> None:
        super().__init__(reason)
        self.records = max(records, 1)


def unreadable_reason(error: Exception, path: str) -> str:
    """Return why the file at `path` cannot be read; raise the error of a store again, so that the runner retries."""
    if not isinstance(error, OSError):
        return str(error)
    raise_if_store_failed(error, path)
    return error_text(error)


@dataclass(frozen=True, slots=True)
class Damage:
    """The reason why a file or block cannot be read any further, and how much is lost."""

    reason: str  # as text
    size_bytes: int  # unreadable bytes on disk; 0 if only the end is missing
    ratio: float  # unreadable to readable; 0 if the missing size is unknown

    def make_reject(self, source: str, line: int | None, reason: str, records: int, whole_bytes: int) -> Reject:
        """Return one Reject for all lost records, of a file of `whole_bytes` of which `records` were read.

        If that is 0, the loss is estimated once all files are read.
        """
        count: Certainty = "estimated" if self.ratio else "at least"
        if not records:
            return Reject(source, line, STAGE, reason, None, whole_bytes, count)
        return Reject(source, line, STAGE, reason, max(round(records * self.ratio), 1), self.size_bytes, count)


def compressed_damage(error: TruncatedError, size_bytes: int) -> Damage:
    """Return the damage of a compressed file of `size_bytes`, as described by `error`."""
    if not error.is_cut:
        left = max(size_bytes - error.good_bytes, 0)
        return Damage(str(error), left, left / max(error.good_bytes, 1))
    missing = max(error.promised_bytes - error.decompressed_bytes, 0)
    return Damage(str(error), 0, missing / max(error.decompressed_bytes, 1))


def reject_file(name: str, size_bytes: int, reason: str, count: Certainty = "estimated") -> Reject:
    """Return the Reject of a file that cannot be indexed; its records are estimated once all files are read."""
    return Reject(name, None, "index", reason, None, size_bytes, count)


def parse_fills(fill: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Parse the fill value of each column."""
    return {column: arrow.parse_fill(text) for column, text in fill}


def check_unique_names(source: str, columns: Sequence[str]) -> None:
    """Check that the column names of file `source` are unique; raise a UserError otherwise."""
    twice = next((name for name, number in Counter(columns).items() if number > 1), None)
    if twice is not None:
        raise UserError(f"{source}: column {twice!r} is there twice; expected names that differ")


def unsupported_columns(columns: Mapping[str, FlatColumnType], names: Iterable[str]) -> dict[str, str]:
    """Return those among `names` that no feature can hold, with their types as text."""
    found: dict[str, str] = {}
    for name in names:
        if name in columns:
            try:
                conversion.arrow_scalar_type(columns[name].kind)
            except conversion.UnsupportedTypeError as error:
                found[name] = columns[name].description or str(error)
    return found


def unsupported_error(
    source: str, found: Mapping[str, str], columns: Mapping[str, FlatColumnType], nesting: Nesting
) -> UserError:
    """Return the error that names all columns which `unsupported_columns` found in file `source`."""
    described = ", ".join(f"column {name!r} is {kind}" for name, kind in found.items())
    remedy = nesting.remedy({name: columns[name].has_objects for name in found})
    return UserError(f"{source}: {described}; expected numbers, strings or lists of them: {remedy}")


def typed_rows(
    source: str,
    batch: pa.RecordBatch,
    numbers: np.ndarray,
    types: Mapping[str, ColumnType],
    keys: Sequence[KeyColumn],
    fills: Mapping[str, Any],
    parallel: Collection[str] = (),
) -> Rows:
    """Convert `batch`, with the file's types, to `types`; rows that do not fit become rejects of file `source`.

    Absent columns are missing values. `numbers` are the rows' numbers in the file, `parallel` the columns that a list
    of objects was divided into.

    Raises:
        UserError: if int64 is requested for a column of dates or times, for example by --schema; or points in time for
            a column of durations or times of day.
    """
    problems: dict[int, str] = {}
    columns: dict[str, conversion.ConvertedColumn] = {}
    present = frozenset(batch.schema.names)
    for name, column in types.items():
        values = batch[name] if name in present else pa.nulls(len(batch))
        kind = arrow.storage_type_of(values.type)
        if column.dtype == "int64" and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
            has_remedy, seconds = registry.has_flag("timestamp"), assign(name, "s")
            raise UserError(
                f"{source}: column {name!r} holds dates or times, where integers are asked for"
                + f"; --timestamp {seconds} makes seconds since 1970 of them, and so do ms, us and ns" * has_remedy
            )
        if column.is_time and (pa.types.is_duration(kind) or pa.types.is_time(kind)):
            asks = f"{'--timestamp or ' * registry.has_flag('timestamp')}a schema's time_domain asks for points in time"
            raise UserError(
                f"{source}: column {name!r} holds {values.type}, where {asks}; expected dates or times since 1970;"
                " without the flag, or as BYTES of a schema, it is stored as it is"
            )
        columns[name] = conversion.convert_column(values, column, fills.get(name))
        for row, reason in columns[name].problems.items():
            remedy = f"; --fill {assign(name, 'VALUE')} is for objects without this field" if name in parallel else ""
            problems.setdefault(row, f"column {name!r}: {reason}{remedy if 'null' in reason else ''}")
    arrays = {name: converted.array for name, converted in columns.items()}
    for key in keys:
        texts = key_texts(batch[key.name]) if key.name in present else pa.nulls(len(batch), pa.large_binary())
        fill = key_texts_of_values([fills.get(key.name)])[0]
        arrays[key_column_name(key.name)] = pc.fill_null(texts, fill) if fill.is_valid else texts
    typed = arrow.to_batch(arrays, len(numbers))
    good = np.ones(len(numbers), bool)
    good[list(problems)] = False
    limit = conversion.sample_limit(sum(column.dtype == "float32" for column in types.values()))
    summaries = {name: converted.summarize_rounded(good, limit) for name, converted in columns.items()}
    rounded = RoundedNumbers({name: found for name, found in summaries.items() if found is not None})
    rows = Rows(typed, numbers).without(problems, source)
    return replace(rows, findings=Findings.of(rounded, find_odd_texts(rows.batch, types, source, rows.lines)))


def infer_present_type(array: pa.Array, dtype: ScalarType | None) -> ColumnType | None:
    """Return the type of a column of `dtype` over the rows of `array`; None if it has no value."""
    present = len(array) - array.null_count
    if dtype is None or not present:
        return None
    if not arrow.is_list(array.type):
        return ColumnType(dtype, None, present)
    return arrow.list_type(array, dtype)


def with_variable_length(column: ColumnType) -> ColumnType:
    """Return the type of a column of lists as one of lists of any length."""
    return replace(column, length=-1, empty=column.present if column.length == 0 else column.empty)


def merge_optional_types(one: ColumnType | None, other: ColumnType | None) -> ColumnType | None:
    """Merge the types over two sets of rows, either of which may have no value."""
    return one.merge(other) if one is not None and other is not None else one or other


def merge_fill(found: ColumnType | None, fill: int | float | str | None, missing: int) -> ColumnType | None:
    """Merge the type of a column with that of its fill value, if it has one and rows are missing."""
    if fill is None or not missing:
        return found
    types: dict[type, ScalarType] = {bool: "bool", int: "int64", float: "float32"}
    return merge_optional_types(found, ColumnType(types.get(type(fill), "bytes"), None, missing))


def distinct_values(batch: pa.RecordBatch, columns: Sequence[ValuesOf], fills: Mapping[str, Any]) -> Values:
    """Return the distinct values of each column, as texts."""
    return {column.name: _distinct(batch, column, fills.get(column.name)) for column in columns}


def _distinct(batch: pa.RecordBatch, wanted: ValuesOf, fill: Any) -> frozenset[str] | None:
    if wanted.name not in batch.schema.names:
        return arrow.distinct_texts(
            pa.array([] if fill is None else [arrow.as_text(fill)], pa.string()), wanted.separator
        )
    column = ColumnType("bytes", -1 if arrow.is_list(batch[wanted.name].type) else None, 0)
    array = conversion.convert_column(batch[wanted.name], column, fill).array
    return arrow.distinct_texts(array.flatten() if column.is_variable else array, wanted.separator)


_EMPTY = "row has no value of its own to store\nrows have no value of their own to store"


def find_empty(columns: Collection[pa.Array]) -> pa.BooleanArray | None:
    """Return the rows that have no value in any of some columns, an empty list being none; None if there are none."""
    if not columns or not all(column.null_count or arrow.is_list(column.type) for column in columns):
        return None
    values = (pc.list_value_length(column) if arrow.is_list(column.type) else column.is_valid() for column in columns)
    is_empty = pc.invert(reduce(pc.or_, (pc.fill_null(value.cast(pa.bool_()), False) for value in values)))
    return is_empty if pc.any(is_empty).as_py() else None


def remark_empty(rows: Rows, file: FileRef, columns: Iterable[str], good: np.ndarray) -> Remarks:
    """Return the remark on rows that are `good` and have no value in any of the `columns` but those of folders."""
    folders = folder_columns(file)
    is_empty = find_empty([rows.batch[name] for name in columns if name not in folders])
    lines = rows.lines[:0] if is_empty is None else rows.lines[good & is_empty.to_numpy(zero_copy_only=False)]
    return Remarks.of_lines({_EMPTY: lines if file.is_ordered else np.full(len(lines), FIRST_UNORDERED)}, file.name)


_DECOMPOSED = "row has a key or group whose Unicode form is not NFC, and counts for the text in that form"
_UNGROUPED = "row has no value in column {!r} of --group_by, and is a group of its own"


def compose_keys(rows: Rows, file: FileRef, keys: Sequence[KeyColumn], group_by: str | None) -> Rows:
    """Return rows whose key texts have the Unicode form NFC, with remarks on others and on rows without a group."""
    batch, remarks = rows.batch, Findings()
    lines = rows.lines if file.is_ordered else np.full(len(rows.lines), FIRST_UNORDERED)
    for key in keys:
        place = batch.schema.get_field_index(key_column_name(key.name))
        texts = batch.column(place)
        composed = to_nfc(texts)
        marked = {_DECOMPOSED: pc.fill_null(pc.not_equal(texts, composed), False)}
        marked |= {_UNGROUPED.format(key.name): texts.is_null()} if key.name == group_by else {}
        for text, flags in marked.items():
            several = text.replace("row has", "rows have").replace("counts", "count").replace("is a", "are each a")
            found = {f"{text}\n{several}": lines[flags.to_numpy(zero_copy_only=False)]}
            remarks.add(Remarks.of_lines(found, file.name))
        batch = batch.set_column(place, batch.schema.field(place), composed)
    return replace(rows, batch=batch, findings=rows.findings.merge(remarks))


_KEY = b"huggingface"
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)  # of metadata that is not as expected
_FIELDS = {"bytes", "path"}
_IS_BINARY = (pa.types.is_binary, pa.types.is_large_binary)
OBJECTS = "objects"  # the column of what is in images
BOX = "bbox"  # of an object in an image: [x, y, width, height]
LABELS = ("category", "categories", "category_id", "category_ids", "label", "labels", "class", "classes")  # of one


def declared_columns(schema: pa.Schema) -> dict[str, DeclaredColumn]:
    """Return the metadata of a schema by column; empty if the schema has none from Hugging Face.

    Source: datasets 4, Features.to_dict below `huggingface` in the schema's metadata. Image and Audio are stored as a
    struct of `bytes` and `path`, ClassLabel as ids.
    """
    try:
        features = json.loads((schema.metadata or {})[_KEY])["info"]["features"]
        return {name: column for name, feature in features.items() if (column := _declared_column(feature)) is not None}
    except _MALFORMED:
        return {}


def _declared_column(feature: Any) -> DeclaredColumn | None:
    if isinstance(feature, list) and len(feature) == 1:
        feature = {"_type": "List", "feature": feature[0]}
    if not isinstance(feature, dict):
        return None
    kind = feature.get("_type")
    if kind in ("Sequence", "List", "LargeList"):
        inner = _declared_column(feature.get("feature"))
        return inner if inner is not None and inner.kind == "class_label" else None
    if kind == "ClassLabel" and all(isinstance(name, str) for name in feature["names"]):
        return DeclaredColumn("class_label", frozenset({tuple(feature["names"])}))
    if kind == "Image":
        return DeclaredColumn("image", is_required=True)
    return DeclaredColumn("audio") if kind == "Audio" else None


def is_hf_file(kind: pa.DataType) -> bool:
    """Return True if an Arrow type is a Hugging Face file: a struct of its bytes and optionally its path."""
    fields = _struct_fields(kind)
    return fields.keys() <= _FIELDS and "bytes" in fields and any(test(fields["bytes"]) for test in _IS_BINARY)


def _struct_fields(kind: pa.DataType) -> dict[str, pa.DataType]:
    if not pa.types.is_struct(kind):
        return {}
    return {kind.field(index).name: kind.field(index).type for index in range(kind.num_fields)}


def object_fields(kind: pa.DataType) -> dict[str, pa.DataType]:
    """Return the fields of a column of objects in images; empty if the column has no boxes.

    The type is a struct of lists of one length, or a list of structs.
    """
    kind = kind.value_type if arrow.is_list(kind) else kind
    return _struct_fields(kind) if pa.types.is_struct(kind) and kind.get_field_index(BOX) >= 0 else {}


def declared_objects(schema: pa.Schema) -> DeclaredColumn | None:
    """Return the metadata of the schema's column of objects in images; None if there is no such column."""
    if OBJECTS not in schema.names or not (fields := object_fields(schema.field(OBJECTS).type)):
        return None
    label = label_key(fields)
    of_label = fields.get(label, pa.null())
    numbered = pa.types.is_integer(of_label.value_type if arrow.is_list(of_label) else of_label)
    names = _class_names(schema, label)
    objects = DeclaredObjects(tuple(sorted(fields)), numbered)
    return DeclaredColumn("bbox", frozenset({names} if names else ()), objects=frozenset({objects}))


def label_key(keys: Collection[str]) -> str:
    """Return the field name that holds an object's class; "" without one."""
    return next((key for key in LABELS if key in keys), "")


def object_classes(objects: pa.Array) -> frozenset[str]:
    """Return the distinct classes in a column of objects in images, names or ids, as texts."""
    label = label_key(object_fields(objects.type))
    while arrow.is_list(objects.type) or pa.types.is_struct(objects.type):
        objects = objects.flatten() if arrow.is_list(objects.type) else pc.struct_field(objects, label)
    return frozenset(map(str, pc.unique(objects).drop_null().to_pylist()))


def _class_names(schema: pa.Schema, label: str) -> tuple[str, ...]:
    """Return the class names of objects from Hugging Face's metadata; () if there are none."""
    try:
        metadata = json.loads((schema.metadata or {})[_KEY])["info"]["features"][OBJECTS]
        while "_type" in metadata and "feature" in metadata:
            metadata = metadata["feature"]
        metadata = metadata[label]
        while "feature" in metadata:
            metadata = metadata["feature"]
        return tuple(map(str, metadata["names"])) if metadata.get("_type") == "ClassLabel" else ()
    except _MALFORMED:
        return ()
