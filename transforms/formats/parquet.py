"""The Parquet input format: row groups as blocks, and footers."""

import base64
import binascii
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shardmill.data.example import encode_varint
from shardmill.errors import UserError
from shardmill.flag_values import quote
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns import arrow
from shardmill.transforms.columns.conversion import arrow_scalar_type
from shardmill.transforms.columns.nested import NO_NESTING, FlatColumnType, Nesting
from shardmill.transforms.columns.types import (
    ColumnNames,
    ColumnType,
    ColumnTypes,
    DeclaredColumn,
    Inferred,
    ScalarType,
    Values,
    ValuesOf,
    merge_values,
)
from shardmill.transforms.formats import format as formats
from shardmill.transforms.formats.conventions import looks_like_image
from shardmill.transforms.formats.format import OBJECTS, BlockRef, UnreadableError
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import error_text

ENCRYPTED = b"PARE"  # ends a file whose footer is encrypted, in the place of PAR1
TAIL_BYTES = 8  # of a file: the length of its footer, and PAR1
_ARROW_SCHEMA = b"ARROW:schema"


def with_variable_lists(metadata: pq.FileMetaData) -> pq.FileMetaData | None:
    """Return the footer with lists of any size instead of fixed-size lists in its Arrow schema; None without these.

    Parquet stores both alike, and a null has no items. Arrow refuses a whole row group for one null in a fixed-size
    list.
    """
    stored = (metadata.metadata or {}).get(_ARROW_SCHEMA)
    if stored is None:
        return None
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(stored)))
    except (pa.ArrowException, binascii.Error, OSError):
        return None  # which Arrow skips too
    changed = pa.schema([field.with_type(_variable(field.type)) for field in schema], schema.metadata)
    if changed.equals(schema):
        return None
    written = io.BytesIO()
    metadata.write_metadata_file(written)
    footer = written.getvalue()[4:-TAIL_BYTES]
    new = base64.b64encode(changed.serialize().to_pybytes())
    footer = footer.replace(encode_varint(len(stored)) + stored, encode_varint(len(new)) + new)
    return pq.read_metadata(io.BytesIO(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"))


def _variable(kind: pa.DataType) -> pa.DataType:
    """Return the type with lists of any size for fixed-size lists; an extension over such a list becomes the list."""
    if isinstance(kind, pa.BaseExtensionType):
        storage = _variable(kind.storage_type)
        return kind if storage.equals(kind.storage_type) else storage
    if not (pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return kind
    make_list = pa.large_list if pa.types.is_large_list(kind) else pa.list_
    return make_list(kind.value_field.with_type(_variable(kind.value_type)))


_BATCH_BYTES = 16 << 20  # of values that are decoded at once
_BATCH_ROWS = 1 << 16  # at most: what is repeated is many times larger than it is in the file
_BUFFER_BYTES = 1 << 20  # read ahead of each column; without a buffer, all of its bytes in a row group would be


class OpenedParquet:
    """An open Parquet file."""

    def __init__(self, file: formats.FileRef, nesting: Nesting = NO_NESTING) -> None:
        """Read the footer; a file that is damaged, encrypted or not Parquet is an UnreadableError."""
        self._file = file
        self._nesting = nesting
        with ExitStack() as stack:
            self._source = stack.enter_context(closing(_ArrowSource(file)))
            with self._source.checking("not a Parquet file: "):
                if self._source.tail(TAIL_BYTES).endswith(ENCRYPTED):
                    raise UnreadableError("its footer is encrypted, and there is no key; decrypt the file")
                self._parquet = self._open()
            self.metadata = self._parquet.metadata
            with self._source.checking("its schema: "):
                of_file = {field.name: field for field in self._parquet.schema_arrow}
            self._tensors = {
                name: tuple(field.type.shape)
                for name, field in of_file.items()
                if isinstance(field.type, pa.FixedShapeTensorType) and arrow.is_shape(field.type.shape)
            }
            with self._source.checking("its footer: "):
                self._encrypted = self._encrypted_columns()
                if not self._encrypted and (footer := with_variable_lists(self.metadata)) is not None:
                    self._parquet = self._open(footer)
            with self._source.checking("its schema: "):
                self._schema = self._parquet.schema_arrow
            formats.check_unique_names(file.name, self._schema.names)
            self._leaves: dict[str, dict[int, str]] = {name: {} for name in self._schema.names}
            of_leaves = ((field.name, path) for field in self._schema for path in _leaf_paths(field.name, field.type))
            for place, (name, path) in enumerate(of_leaves):
                self._leaves[name][place] = path
            leaves = list(map(self._parquet.schema.column, range(len(self._parquet.schema))))
            types = {field.name: field.type for field in self._schema}
            fixed = {name for name, kind in types.items() if pa.types.is_fixed_size_binary(kind)}
            self._intervals = fixed.intersection(leaf.path for leaf in leaves if leaf.converted_type == "INTERVAL")
            self._columns = self._flatten_types(types)
            self.columns = tuple(self._columns)
            self.parallel = {name for name, column in self._columns.items() if column.is_parallel}
            self.declared = formats.declared_columns(self._schema)
            int96 = {place for place, leaf in enumerate(leaves) if leaf.physical_type == "INT96"}
            for name, column in self._columns.items():
                is_int96 = bool(int96) and not int96.isdisjoint(self._leaves_of(name))
                described = _describe_conversion(name, column.kind, of_file.get(name), is_int96)
                if described is not None and name not in self.declared:
                    self.declared[name] = described
            if (of_objects := formats.declared_objects(self._schema)) is not None:
                located = frozenset(replace(item, location=file.name) for item in of_objects.objects)
                self.declared[OBJECTS] = replace(of_objects, objects=located)
            stack.pop_all()  # the file stays open

    def _flatten_types(self, types: Mapping[str, pa.DataType]) -> dict[str, FlatColumnType]:
        flat = self._nesting.flatten_types({name: kind for name, kind in types.items() if not _is_whole(name, kind)})
        whole = {name: FlatColumnType(name, kind) for name, kind in types.items() if _is_whole(name, kind)}
        order = {name: place for place, name in enumerate(types)}
        return dict(sorted((flat | whole).items(), key=lambda item: order[item[1].source]))

    def _open(self, footer: pq.FileMetaData | None = None) -> pq.ParquetFile:
        options: dict[str, Any] = {"buffer_size": _BUFFER_BYTES, "pre_buffer": False}
        options |= {"page_checksum_verification": True, "coerce_int96_timestamp_unit": "us"}  # ns wrap after 2262
        return pq.ParquetFile(self._source.file, metadata=footer, **options)

    def _encrypted_columns(self) -> frozenset[int]:
        """Return the encrypted leaf columns: no row of them can be read. Arrow ends a process that asks for more."""
        length = int.from_bytes(self._source.tail(TAIL_BYTES)[:4], "little")
        if length == self.metadata.serialized_size:  # where something is encrypted, a signature follows
            return frozenset()
        schema, groups = self.metadata.schema, range(min(self.metadata.num_row_groups, 1))
        encrypted = set()
        for leaf in range(len(schema)):
            try:
                next(self._parquet.iter_batches(1, row_groups=groups, columns=[schema.column(leaf).path]), None)
            except OSError as error:
                if "Cannot decrypt" not in str(error):
                    raise
                encrypted.add(leaf)
        return frozenset(encrypted)

    def __enter__(self) -> "OpenedParquet":
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def check(self, names: Iterable[str]) -> None:
        """Raise a UserError that names all columns among `names` which cannot be read."""
        names = list(dict.fromkeys(names))
        problems = {name: problem for name in names if (problem := self._problem(name))}
        others = {name: column for name, column in self._columns.items() if not _is_whole(name, column.kind)}
        unsupported = formats.unsupported_columns(others, [name for name in names if name not in problems])
        if problems:
            flag = f"--drop {quote(*self._nesting.drop, *problems, *unsupported)}"
            more = "".join(f", and column {name!r} is {kind}" for name, kind in unsupported.items())
            columns = ", and column ".join(f"{name!r} is {problem}" for name, problem in problems.items())
            raise UserError(f"{self._file.name}: column {columns} with {flag}{more}")
        if unsupported:
            raise formats.unsupported_error(self._file.name, unsupported, self._columns, self._nesting)

    def _problem(self, name: str) -> str:
        """Return what keeps a column from being read besides its type; "" if nothing does."""
        if name not in self.columns:
            return ""
        kind, declared = self._columns[name].kind, self.declared.get(name)
        if not self._encrypted.isdisjoint(self._leaves[self._columns[name].source]):
            return "encrypted, and there is no key; decrypt the file, or leave the column out"
        if declared is not None and declared.kind == "audio":
            return (
                "Hugging Face's Audio, and sounds inside of tables are not read; write them to WAV files for"
                " `shardmill audio`, or leave it out"
            )
        if arrow.is_list(kind) and formats.is_hf_file(kind.value_type):
            return (
                "lists of files as Hugging Face has them; expected one image in each row, so give each a row of its"
                " own, or leave it out"
            )
        if formats.object_fields(kind) and not _is_whole(name, kind):
            return (
                f"of boxes as Hugging Face has them, which are read of a column {OBJECTS!r} alone; call it so if its"
                " boxes are [x, y, width, height] in pixels, or leave it out"
            )
        return ""

    def spelled(self, name: str) -> ScalarType | None:
        """Return the type of a column's values, None if it has none; see `check` for columns that cannot be read."""
        if name not in self.columns:
            return None
        kind = self._columns[name].kind
        return "bytes" if _is_whole(name, kind) else arrow_scalar_type(kind)

    def type_class(self, name: str) -> str:
        """Return the class of a column's type, whose members are stored alike; "" if the file lacks the column."""
        if name not in self.columns or _is_whole(name, self._columns[name].kind):
            return ""
        kind, lists = arrow.storage_type_of(self._columns[name].kind), 0
        while arrow.is_list(kind):
            kind, lists = arrow.storage_type_of(kind.value_type), lists + 1
        found = next((word for word, test in _TYPE_CLASSES.items() if test(kind)), "")
        return f"{'lists of ' * lists}{found}" if found else ""

    def guess(self, name: str, rows: int) -> ColumnType | None:
        """Return a type for `rows` rows of a column whose values cannot be read."""
        dtype = self.spelled(name)
        has_lists = arrow.is_list(arrow.storage_type_of(self._columns[name].kind))
        length = 0 if has_lists else None  # nobody knows what they hold
        return None if dtype is None or not rows else ColumnType(dtype, length, rows)

    def null_count(self, block: BlockRef, name: str) -> int | None:
        """Return how many rows of a row group have no value in a column; None for lists, or if that is not stored."""
        if name not in self.columns:
            return None
        kind = self._columns[name].kind
        if formats.object_fields(kind):
            return 0  # no object is a value, too
        place = self._schema.get_field_index(name)
        if arrow.is_list(arrow.storage_type_of(kind)) or place < 0 or self._schema.field(place).type != kind:
            return None
        leaves = self._leaves_of(name)
        if leaves[0] in self._encrypted:
            return None
        leaf = leaves[kind.get_field_index("bytes")] if formats.is_hf_file(kind) else leaves[0]
        statistics = self.metadata.row_group(block.offset).column(leaf).statistics
        return statistics.null_count if statistics is not None and statistics.has_null_count else None

    def size_bytes(self, group: int) -> int:
        """Return the compressed bytes of a row group, without encrypted columns, whose size is encrypted too."""
        chunks = self.metadata.row_group(group)
        readable = (chunks.column(leaf) for leaf in range(chunks.num_columns) if leaf not in self._encrypted)
        return sum(chunk.total_compressed_size for chunk in readable)

    def _leaves_of(self, name: str) -> list[int]:
        leaves = self._leaves[self._columns[name].source]
        return [leaf for leaf, path in leaves.items() if f"{path}.".startswith(f"{name}.")]

    def batches(self, block: BlockRef, names: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Yield the row group in batches of the columns `names`, without those the file lacks."""
        names = list(dict.fromkeys(names))
        there = [name for name in names if name in self.columns]
        sources = list(dict.fromkeys(self._columns[name].source for name in there))
        group = self.metadata.row_group(block.offset)
        if not there:
            yield arrow.to_batch({}, group.num_rows)
            return
        row_bytes = max(group.total_byte_size / max(group.num_rows, 1), 1)
        for batch in self._batches(block, sources, min(max(int(_BATCH_BYTES / row_bytes), 1), _BATCH_ROWS)):
            if self._nesting.is_used:
                flat = dict(chain.from_iterable(self._flatten(source, batch[source]) for source in sources))
                yield arrow.to_batch({name: flat[name] for name in there}, len(batch))
            else:
                yield arrow.to_batch({name: self._plain(name, batch[name]) for name in there}, len(batch))

    def _plain(self, name: str, array: pa.Array) -> pa.Array:
        """Return a column of the file as values that features can hold, as far as its type is one of Parquet's own."""
        if name in self._intervals:
            return arrow.interval_texts(array)
        if name in self._tensors and arrow.is_list(array.type):
            return arrow.to_tensors(array, self._tensors[name])
        return _without_extension(_plain(array))

    def _flatten(self, name: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
        if _is_whole(name, array.type):
            yield name, _plain(array)
            return
        for column, values, _ in self._nesting.flatten_array(name, self._plain(name, array)):
            yield column, _without_extension(values)

    def _batches(self, block: BlockRef, columns: list[str], rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        with self._source.checking():
            yield from self._parquet.iter_batches(rows, row_groups=[block.offset], columns=columns, use_threads=False)

    def is_file(self, name: str) -> bool:
        """Return True if a column holds Hugging Face files."""
        return name in self.columns and formats.is_hf_file(self._columns[name].kind)

    def first_file(self, block: BlockRef, name: str) -> tuple[bytes | None, str | None]:
        """Return the first file's bytes in a row group's column of Hugging Face files; else the first path."""
        path = None
        for batch in self._batches(block, [name], 1):
            for value in filter(None, batch[name].to_pylist()):
                if value["bytes"] is not None:
                    return value["bytes"], None
                path = path or value.get("path")
        return None, path

    def declare_order(self, block: BlockRef, name: str, values: pa.Array) -> dict[str, DeclaredColumn]:
        """Return the classes of an ordered category or an Enum in their order, by column; {} for other columns."""
        while arrow.is_list(values.type):
            values = values.values
        kind = values.type
        if not (pa.types.is_dictionary(kind) and kind.ordered and arrow_scalar_type(kind.value_type) == "bytes"):
            return {}
        if not self.metadata.row_group(block.offset).column(self._leaves_of(name)[0]).has_dictionary_page:
            message = f"column {name!r} is an ordered category, and its order is not in the file: classes are sorted"
            return {name: DeclaredColumn("text", message=message)}
        classes = tuple(arrow.as_text(value) for value in values.dictionary.to_pylist() if value)
        return {name: DeclaredColumn("text", frozenset([classes]))}

    def object_classes(self, block: BlockRef) -> frozenset[str]:
        """Return the distinct classes of the objects in a row group's images, names or ids, as texts."""
        return frozenset[str]().union(
            *(formats.object_classes(batch[OBJECTS]) for batch in self._batches(block, [OBJECTS]))
        )


def _without_extension(array: pa.Array) -> pa.Array:
    return arrow.decode_array(array) if isinstance(array.type, pa.BaseExtensionType) else array


_TYPE_CLASSES = {
    "booleans": pa.types.is_boolean,
    "integers": pa.types.is_integer,
    "floats": pa.types.is_floating,
    "decimals": pa.types.is_decimal,
    "dates": pa.types.is_date,
    "times": pa.types.is_time,
    "timestamps": pa.types.is_timestamp,
    "durations": pa.types.is_duration,
    "texts": lambda kind: arrow_scalar_type(kind) == "bytes",
}


def _is_whole(name: str, kind: pa.DataType) -> bool:
    return formats.is_hf_file(kind) or (name == OBJECTS and bool(formats.object_fields(kind)))


def _plain(array: pa.Array) -> pa.Array:
    """Replace files by their bytes, and objects in images by their JSON."""
    if formats.is_hf_file(array.type):
        return pc.struct_field(array, "bytes")
    if not formats.object_fields(array.type):
        return array
    texts = [None if value is None else json.dumps(value, default=str) for value in array.to_pylist()]
    return pa.array(texts, pa.large_string())


class _ArrowSource:
    """A file object for Arrow that distinguishes store failures from damaged data."""

    def __init__(self, file: formats.FileRef) -> None:
        path = file.path
        self._local = storage.is_local(path)
        self._error: BaseException | None = None
        self._stream = None if self._local else storage.open_read(path, file.size_bytes)
        self.file = pa.OSFile(path) if self._local else pa.PythonFile(self, "r")
        self.closed = False

    @contextmanager
    def checking(self, description: str = "") -> Iterator[None]:
        """Raise UnreadableError if Arrow refuses the data, but the error of the stream if reading it failed."""
        try:
            yield
        except (pa.ArrowException, OSError, ValueError) as error:
            if self._error is not None:
                raise self._error from error
            raise UnreadableError(description + error_text(error, lines=1)) from None

    def tail(self, size: int) -> bytes:
        end = self.file.size()
        return self.file.read_at(size, max(end - size, 0))

    def read(self, size: int = -1) -> bytes:
        return self._call("read", size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._call("seek", offset, whence)

    def tell(self) -> int:
        return self._call("tell")

    def close(self) -> None:
        self.closed = True
        (self.file if self._stream is None else self._stream).close()

    def _call(self, method: str, *arguments: int) -> Any:
        try:
            return getattr(self._stream, method)(*arguments)
        except Exception as error:
            self._error = error
            raise


_NAMED_EXTENSIONS = ("arrow.uuid", "arrow.bool8", "arrow.json", "arrow.fixed_shape_tensor")  # which are converted
_INDEX = re.compile(r"__index_level_\d+__")  # what pandas calls an index without a name
_EXTENSION_NAME = b"ARROW:extension:name"


def _describe_conversion(name: str, kind: pa.DataType, field: pa.Field | None, is_int96: bool) -> DeclaredColumn | None:
    """Describe what is stored of a column whose type says more than its feature; None for most columns.

    `field` is the column in the file, None if it is a field of one.
    """
    extension = kind.extension_name if isinstance(kind, pa.BaseExtensionType) else ""
    if not extension and field is not None:  # of a type that is not installed here
        extension = (field.metadata or {}).get(_EXTENSION_NAME, b"").decode(errors="replace")
    item = kind
    while arrow.is_list(item):
        item = arrow.storage_type_of(item).value_type
    message = unit = ""
    if is_int96:
        message = "holds times of Parquet's INT96, which are read to a microsecond"
    elif field is not None and isinstance(field.type, pa.FixedShapeTensorType):
        order = field.type.permutation
        if order is not None and list(order) != sorted(order):
            shape = f"they have the shape {','.join(map(str, field.type.shape))} as they are stored"
            message = f"holds tensors with the permutation {order}, which is not applied: {shape}"
    elif _INDEX.fullmatch(name):
        message = f"is the index of a pandas table; --drop {name} leaves it out"
    elif extension and extension not in _NAMED_EXTENSIONS:
        message = f"has the extension type {extension}, of which the storage is read: {arrow.storage_type_of(kind)}"
    elif pa.types.is_timestamp(item) and not arrow.is_known_zone(item.tz):
        message = f"holds times in the zone {item.tz!r}, which no database of zones has; they are stored in UTC"
    elif pa.types.is_duration(item):
        unit = item.unit
        message = f"holds durations, of which the numbers of {unit} are stored"
    return DeclaredColumn("text", message=f"column {name!r} {message}", unit=unit) if message else None


def _leaf_paths(name: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the name that each leaf of a column has with --flatten."""
    kind = arrow.storage_type_of(kind)
    if arrow.is_list(kind):
        yield from _leaf_paths(name, kind.value_type)
    elif pa.types.is_struct(kind) or pa.types.is_map(kind):
        for field in [kind.key_field, kind.item_field] if pa.types.is_map(kind) else kind:
            yield from _leaf_paths(f"{name}.{field.name}", field.type)
    else:
        yield name


@dataclass(frozen=True)
class ParquetFormat(formats.RecordFormat):
    """A row for each row of a Parquet file.

    * Integers become int64, floats float32, strings and binary bytes.
    * Dates, times, timestamps and decimals become text as Arrow casts them to strings, UUIDs and intervals text, too.
    * Durations become int64, with a message about their unit.
    * Lists of these, nested or not, become lists; tensors of a fixed shape keep it.
    * Hugging Face files become their bytes. They are images if its metadata, --image or the first file's first bytes
    say so.
    * Hugging Face objects in images become JSON.
    * Other structs and maps are read as `nesting` says, or not at all.

    A row is a reject if a value does not fit, such as an unsigned integer beyond int64, a finite number beyond float32,
    or inner lists of two lengths.
    """

    fill: tuple[tuple[str, str], ...] = ()  # (column, text) of fill values: JSON scalar or any text
    nesting: Nesting = NO_NESTING  # how nested values are stored
    images: tuple[str, ...] = ()  # columns known to be images

    def index(self, file: formats.FileRef) -> Iterator[BlockRef | Reject]:
        """Yield the row groups as blocks; `first_line` is the number of the first row."""
        try:
            opened = OpenedParquet(file, self.nesting)
        except UnreadableError as error:
            yield formats.reject_file(file.name, file.size_bytes, str(error))
            return
        with opened:
            row = 1
            for number in range(opened.metadata.num_row_groups):
                group = opened.metadata.row_group(number)
                if group.num_rows:
                    yield BlockRef(file, number, opened.size_bytes(number), row, opened.columns, group.num_rows)
                row += group.num_rows

    def header(self, file: formats.FileRef) -> tuple[str, ...]:
        with suppress(UnreadableError), OpenedParquet(file, self.nesting) as opened:
            return opened.columns
        return ()

    def infer(self, block: BlockRef, columns: ColumnNames, values_of: Sequence[ValuesOf]) -> Iterator[Inferred]:
        """Infer the types from the schema; read only lists, columns without null counts, and `values_of`.

        Rows that `read` will reject, because a value does not fit, are counted too.
        """
        try:
            with OpenedParquet(block.file, self.nesting) as opened:
                yield self._infer(opened, block, columns, values_of)
        except (UnreadableError, OSError) as error:
            formats.unreadable_reason(error, block.file.path)  # `read` rejects the rows

    def read(self, block: BlockRef, types: ColumnTypes, keys: formats.Keys = ()) -> Iterator[formats.Rows]:
        """Yield the rows in batches that fit into memory; rows that cannot be decoded are one reject."""
        row = block.first_line
        try:
            with OpenedParquet(block.file, self.nesting) as opened:
                wanted = list(dict.fromkeys([*types, *(key.name for key in keys)]))
                opened.check(wanted)
                fills = formats.parse_fills(self.fill)
                for batch in opened.batches(block, wanted):
                    numbers = np.arange(row, row + len(batch))
                    yield formats.typed_rows(block.file.name, batch, numbers, types, keys, fills, opened.parallel)
                    row += len(batch)
                rows, expected = row - block.first_line, opened.metadata.row_group(block.offset).num_rows
                if rows != expected:
                    raise UnreadableError(f"there are {rows:,} rows in it, where the footer says {expected:,}")
        except (UnreadableError, OSError) as error:
            yield formats.empty_rows(types, [_reject_rest(block, row, error)], keys)

    def raw_batches(self, block: BlockRef) -> Iterator[formats.RawBatch | Reject]:
        """Yield all columns of the row group in batches that fit into memory, nested as they are."""
        row = block.first_line
        try:
            with OpenedParquet(block.file) as opened:
                for batch in opened.batches(block, opened.columns):
                    yield formats.RawBatch(batch, np.arange(row, row + len(batch)))
                    row += len(batch)
        except (UnreadableError, OSError) as error:
            yield _reject_rest(block, row, error)

    def _infer(
        self, opened: OpenedParquet, block: BlockRef, columns: ColumnNames, values_of: Sequence[ValuesOf]
    ) -> Inferred:
        fills = formats.parse_fills(self.fill)
        every = [name for name in (*opened.columns, *fills) if name not in self.nesting.drop]
        wanted = list(dict.fromkeys(every if columns is None else columns))
        opened.check(wanted)
        group = opened.metadata.row_group(block.offset)
        found: dict[str, ColumnType | None] = dict.fromkeys(wanted)
        nulls = dict.fromkeys(wanted, group.num_rows)
        unknown = []
        paths: dict[str, DeclaredColumn] = {}
        for name in wanted:
            dtype, count = opened.spelled(name), opened.null_count(block, name)
            if dtype is None:
                continue
            if opened.is_file(name) and count in (None, group.num_rows):
                data, path = opened.first_file(block, name)
                if data is None and path is not None:
                    paths[name] = DeclaredColumn("image", path=path)
            if count is None:
                unknown.append(name)
            elif count < group.num_rows:
                found[name] = ColumnType(dtype, None, group.num_rows - count)
                nulls[name] = count
        values: Values = {}
        try:
            read = [*unknown, *(column.name for column in values_of)]
            for batch in opened.batches(block, read) if read else ():
                for name in unknown:
                    present = formats.infer_present_type(batch[name], opened.spelled(name))
                    if present is not None and name in opened.parallel:
                        present = formats.with_variable_length(present)
                    found[name] = formats.merge_optional_types(found[name], present)
                    nulls[name] -= len(batch) - batch[name].null_count
                values = merge_values(values, formats.distinct_values(batch, values_of, fills))
                for column in values_of:
                    if column.name in batch.schema.names:
                        paths |= opened.declare_order(block, column.name, batch[column.name])
            if OBJECTS in wanted and (of_objects := opened.declared.get(OBJECTS)) and not of_objects.class_names:
                values = {**values, OBJECTS: opened.object_classes(block)}
        except UnreadableError:  # the columns must be asked for nevertheless, so that `read` rejects the rows
            for name in unknown:
                found[name] = formats.merge_optional_types(found[name], opened.guess(name, nulls[name]))
        merged = {name: formats.merge_fill(column, fills.get(name), nulls[name]) for name, column in found.items()}
        types = {name: column for name, column in merged.items() if column is not None}
        declared = paths | {name: what for name, what in opened.declared.items() if name in types}
        for name in types:
            if opened.is_file(name) and name not in self.images and name not in declared:
                data, _ = opened.first_file(block, name)
                if data is not None:
                    declared[name] = _guess_kind(block.file.name, name, data)
        classes = tuple((name, opened.type_class(name)) for name in types)
        return Inferred(types, group.num_rows, values, declared, file_types={classes: block.file.name})


def _reject_rest(block: BlockRef, row: int, error: Exception) -> Reject:
    problem = formats.unreadable_reason(error, block.file.path)
    reason = f"row group {block.offset} cannot be read from row {row:,} on, all of which is lost: {problem}"
    promised = block.records or 1
    lost = max(promised - (row - block.first_line), 1)
    return Reject(block.file.name, row, formats.STAGE, reason, lost, max(block.length * lost // promised, 1))


def _guess_kind(source: str, name: str, data: bytes) -> DeclaredColumn:
    if not looks_like_image(data):
        raise UserError(
            f"{source}: column {name!r} holds files as Hugging Face has them, and no metadata says of what kind;"
            f" give --image {quote(name)} if they are images, or leave it out with --drop {quote(name)}"
        )
    message = (
        f"column {name!r} is taken for images, by the first bytes of its first value; --image {quote(name)} says it is"
    )
    return DeclaredColumn("image", is_required=True, message=message)
