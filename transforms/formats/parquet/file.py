"""A Parquet file that is open: its schema, its row groups, and what is wrong with it in words."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shardmill.errors import UserError
from shardmill.transforms.columns.arrow import to_batch
from shardmill.transforms.columns.arrow_lists import is_list
from shardmill.transforms.columns.arrow_values import UnsupportedTypeError, spelled_type
from shardmill.transforms.columns.inferred import Told
from shardmill.transforms.columns.types import ColumnType, Spelled
from shardmill.transforms.formats.arrow_rows import check_names, unsupported
from shardmill.transforms.formats.base import BlockRef, FileRef
from shardmill.transforms.formats.damage import UnreadableError
from shardmill.transforms.formats.parquet.footer import ENCRYPTED, TAIL_BYTES, encrypted_columns, with_variable_lists
from shardmill.transforms.formats.parquet.huggingface import (
    OBJECTS,
    is_file,
    is_list_of_files,
    object_classes,
    object_fields,
    objects_of_schema,
    told_columns,
)
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.error_text import error_text

_BATCH_BYTES = 16 << 20  # of values that are decoded at once
_BATCH_ROWS = 1 << 16  # at most: what is repeated is many times larger than it is in the file
_BUFFER_BYTES = 1 << 20  # read ahead of each column; without a buffer, all of its bytes in a row group would be


class OpenedParquet:
    """A Parquet file that is open."""

    def __init__(self, file: FileRef) -> None:
        """Read the footer; raises UnreadableError, or UserError if a column is there twice."""
        self._file = file
        self._source = _Source(file)
        try:
            if self._source.checked(lambda: self._source.tail(TAIL_BYTES), "not a Parquet file: ").endswith(ENCRYPTED):
                raise UnreadableError("its footer is encrypted, and there is no key; decrypt the file")
            self._parquet = self._source.checked(self._open, "not a Parquet file: ")
            self.metadata = self._parquet.metadata
            self._encrypted = self._source.checked(self._encrypted_columns, "its footer: ")
            footer = (
                self._source.checked(lambda: with_variable_lists(self.metadata), "its footer: ")
                if not self._encrypted
                else None
            )
            if footer is not None:
                self._parquet = self._source.checked(lambda: self._open(footer), "its footer: ")
            self._schema = self._source.checked(lambda: self._parquet.schema_arrow, "its schema: ")
            self.columns = tuple(self._schema.names)
            of_objects = objects_of_schema(self._schema)
            if of_objects is not None:
                of_objects = of_objects.in_place(file.name)
            spans = {field.name: _told_of_span(field) for field in self._schema if pa.types.is_duration(field.type)}
            self.told = told_columns(self._schema) | spans | ({OBJECTS: of_objects} if of_objects is not None else {})
            check_names(file.name, self.columns)
        except BaseException:
            self._source.close()
            raise

    def _open(self, footer: pq.FileMetaData | None = None) -> pq.ParquetFile:
        return pq.ParquetFile(
            self._source.file,
            metadata=footer,
            buffer_size=_BUFFER_BYTES,
            pre_buffer=False,
            page_checksum_verification=True,
        )

    def _encrypted_columns(self) -> frozenset[int]:
        """The leaf columns that are encrypted, which Arrow ends the process for if it is asked about them."""
        tail = self._source.tail(TAIL_BYTES)
        length = int.from_bytes(tail[:4], "little")
        if length == self.metadata.serialized_size:  # where something is encrypted, a signature follows
            return frozenset()
        return encrypted_columns(self._source.tail(length + TAIL_BYTES))

    def __enter__(self) -> "OpenedParquet":
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def spelled(self, name: str) -> Spelled | None:
        """The type of a column's values; None if there are none. Raises UserError for one that cannot be read."""
        if name not in self.columns:
            return None
        if not self._encrypted.isdisjoint(self._leaves_of(name)):
            raise UserError(
                f"{self._file.name}: column {name!r} is encrypted, and there is no key; decrypt the file, or leave the"
                f" column out with --drop {name}"
            )
        kind, told = self._schema.field(name).type, self.told.get(name)
        if told is not None and told.kind == "audio":
            raise UserError(
                f"{self._file.name}: column {name!r} is Hugging Face's Audio, and sounds inside of tables are not read;"
                f" write them to WAV files for `shardmill audio`, or leave it out with --drop {name}"
            )
        if is_list_of_files(kind):
            raise UserError(
                f"{self._file.name}: column {name!r} is lists of files as Hugging Face has them; expected one image in"
                f" each row, so give each a row of its own, or leave it out with --drop {name}"
            )
        if is_file(kind):
            return "bytes"
        if object_fields(kind):
            if name == OBJECTS:
                return "bytes"
            raise UserError(
                f"{self._file.name}: column {name!r} is of boxes as Hugging Face has them, which are read of a column"
                f" {OBJECTS!r} alone; call it so if its boxes are [x, y, width, height] in pixels, or leave it out with"
                f" --drop {name}"
            )
        try:
            return spelled_type(kind)
        except UnsupportedTypeError as error:
            raise unsupported(self._file.name, name, str(error)) from None

    def guess(self, name: str, rows: int) -> ColumnType | None:
        """The type of some rows of a column that cannot be read."""
        dtype = self.spelled(name)
        length = 0 if is_list(self._schema.field(name).type) else None  # nobody knows what they hold
        return None if dtype is None or not rows else ColumnType(dtype, length, rows)

    def null_count(self, block: BlockRef, name: str) -> int | None:
        """How many rows of a row group have no value in a column that holds no lists, if the file says it."""
        kind = self._schema.field(name).type if name in self.columns else pa.null()
        if object_fields(kind):
            return 0  # no object is a value, too
        if is_list(kind):
            return None
        leaves = self._leaves_of(name)
        if not leaves or leaves[0] in self._encrypted:
            return None
        leaf = leaves[kind.get_field_index("bytes")] if is_file(kind) else leaves[0]
        chunk = self.metadata.row_group(block.offset).column(leaf)
        statistics = chunk.statistics if chunk.is_stats_set else None
        return statistics.null_count if statistics is not None and statistics.has_null_count else None

    def size_bytes(self, group: int) -> int:
        """The compressed bytes of a row group, encrypted columns apart, whose size is encrypted too."""
        chunks = self.metadata.row_group(group)
        return sum(
            chunks.column(leaf).total_compressed_size
            for leaf in range(chunks.num_columns)
            if leaf not in self._encrypted
        )

    def _leaves_of(self, name: str) -> range:
        """The numbers of the columns in the file that hold a column."""
        leaf = 0
        for field in self._schema:
            if field.name == name:
                return range(leaf, leaf + _leaves(field.type))
            leaf += _leaves(field.type)
        return range(0)

    def batches(self, block: BlockRef, names: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Those of the columns `names` that there are, a part of the row group at a time."""
        names = list(dict.fromkeys(names))
        there = [name for name in names if name in self.columns]
        group = self.metadata.row_group(block.offset)
        if not there:
            yield to_batch({}, group.num_rows)
            return
        row_bytes = max(group.total_byte_size / max(group.num_rows, 1), 1)
        rows = min(max(int(_BATCH_BYTES / row_bytes), 1), _BATCH_ROWS)
        batches = self._source.checked(
            lambda: self._parquet.iter_batches(
                batch_size=rows, row_groups=[block.offset], columns=there, use_threads=False
            )
        )
        while (batch := self._source.checked(lambda: next(batches, None))) is not None:
            yield to_batch({name: self._plain(batch[name]) for name in there}, len(batch))

    def is_file(self, name: str) -> bool:
        """Whether a column holds files as Hugging Face has them."""
        return name in self.columns and is_file(self._schema.field(name).type)

    def first_file(self, block: BlockRef, name: str) -> tuple[bytes | None, str | None]:
        """Of a column of such files, the first one's bytes in a row group; where there are none, its path."""
        path = None
        batches = self._source.checked(
            lambda: self._parquet.iter_batches(
                batch_size=1, row_groups=[block.offset], columns=[name], use_threads=False
            )
        )
        while (batch := self._source.checked(lambda: next(batches, None))) is not None:
            for value in filter(None, batch[name].to_pylist()):
                if value["bytes"] is not None:
                    return value["bytes"], None
                path = path or value.get("path")
        return None, path

    def object_classes(self, block: BlockRef) -> frozenset[str]:
        """The classes of the objects in images of a row group, names or ids, as texts."""
        batches = self._source.checked(
            lambda: self._parquet.iter_batches(row_groups=[block.offset], columns=[OBJECTS], use_threads=False)
        )
        found: frozenset[str] = frozenset()
        while (batch := self._source.checked(lambda: next(batches, None))) is not None:
            found |= object_classes(batch[OBJECTS])
        return found

    @staticmethod
    def _plain(array: pa.Array) -> pa.Array:
        """A column, of files their bytes, of objects in images their JSON."""
        if is_file(array.type):
            return pc.struct_field(array, "bytes")
        if not object_fields(array.type):
            return array
        texts = [None if value is None else json.dumps(value, default=str) for value in array.to_pylist()]
        return pa.array(texts, pa.large_string())


class _Source:
    """A file as Arrow reads it, which tells a store that fails from data that are damaged."""

    def __init__(self, file: FileRef) -> None:
        path = file.path
        self._local = storage.is_local(path)
        self._error: BaseException | None = None
        self._stream = None if self._local else storage.open_read(path, file.size_bytes)
        self.file = pa.OSFile(path) if self._local else pa.PythonFile(self, "r")
        self.closed = False

    def checked(self, function: Any, what: str = "") -> Any:
        """What `function` returns; raises UnreadableError where Arrow refuses the data, or the error of an object
        store."""
        try:
            return function()
        except (pa.ArrowException, OSError, ValueError) as error:
            if self._error is not None:
                raise self._error from error
            raise UnreadableError(what + error_text(error, lines=1)) from None

    def tail(self, size: int) -> bytes:
        """The last bytes."""
        end = self.file.size()
        return self.file.read_at(size, max(end - size, 0))

    def read(self, size: int = -1) -> bytes:
        """As files have it, for Arrow."""
        return self._call("read", size)

    def seek(self, offset: int, whence: int = 0) -> int:
        """As files have it, for Arrow."""
        return self._call("seek", offset, whence)

    def tell(self) -> int:
        """As files have it, for Arrow."""
        return self._call("tell")

    def close(self) -> None:
        """Close the file below."""
        self.closed = True
        if self._stream is None:
            self.file.close()
        else:
            self._stream.close()

    def _call(self, method: str, *arguments: int) -> Any:
        try:
            return getattr(self._stream, method)(*arguments)
        except Exception as error:
            self._error = error
            raise


def _told_of_span(field: pa.Field) -> Told:
    said = (
        f"column {field.name!r} holds durations, stored as texts of numbers of {field.type.unit}; no reader is told so"
    )
    return Told("text", said=said)


def _leaves(kind: pa.DataType) -> int:
    """How many columns of a Parquet file hold a field of this type."""
    if isinstance(kind, pa.BaseExtensionType):
        return _leaves(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _leaves(kind.value_type)
    return sum(_leaves(kind.field(index).type) for index in range(kind.num_fields)) or 1
