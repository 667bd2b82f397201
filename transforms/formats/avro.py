"""The Avro input format: container files, their schemas and their damage."""

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from functools import partial
from io import BytesIO
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import zstandard
from fastavro import parse_schema, schemaless_reader
from fastavro.schema import SchemaParseException, UnknownType

from shardmill.data.example import encode_varint, read_varint
from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import parse_interval, to_batch
from shardmill.transforms.columns.conversion import UnsupportedTypeError, arrow_scalar_type
from shardmill.transforms.columns.nested import NO_NESTING, FlatColumnType, Nesting, to_json
from shardmill.transforms.columns.types import ColumnNames, ColumnType, ColumnTypes, Inferred, ValuesOf
from shardmill.transforms.formats import format as formats
from shardmill.transforms.formats.format import STAGE, BlockRef, CutError, FileRef, RawBatch, UnreadableError
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import error_text

_MAX_DIGITS = 76  # of pa.decimal256
_EXACT = Context(prec=10 * _MAX_DIGITS)  # digits: more than any value has, so that none is rounded


_PRIMITIVE = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.large_binary(),
    "string": pa.large_string(),  # of `text_types`; otherwise strings are bytes, see `storage_schema`
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    **{
        ("long", f"{local}timestamp-{word}"): pa.timestamp(unit, None if local else "UTC")
        for word, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
        for local in ("", "local-")
    },
}


_FIXED = {(16, "uuid"): pa.uuid(), (12, "duration"): pa.month_day_nano_interval()}
_BIG_DECIMAL = pa.string()  # which no other value becomes


def arrow_types(fields: Sequence[Any], named: Mapping[str, Any]) -> dict[str, FlatColumnType]:
    """Return the Arrow type of each field; a union of itself, which Arrow does not read, if it has none.

    Source: Apache Avro 1.12, Specification, "Logical Types" (https://avro.apache.org/docs/1.12.0/specification/).
    """
    kinds: dict[str, FlatColumnType] = {}
    for field in fields:
        name = field["name"]
        try:
            kind = _arrow_type(field["type"], named)
            kinds[name] = FlatColumnType(name, kind, description=_describe(kind))
        except UnsupportedTypeError as error:
            kinds[name] = FlatColumnType(name, _NO_TYPE, description=str(error))
    return kinds


_TEXT = pa.large_string()
_NO_TYPE = pa.dense_union([pa.field("any", pa.null())])  # of values that no other Arrow type holds


def _describe(kind: pa.DataType) -> str:
    while pa.types.is_large_list(kind):
        kind = kind.value_type
    return "a map" if pa.types.is_map(kind) else "a record" if pa.types.is_struct(kind) else ""


def _arrow_type(schema: Any, named: Mapping[str, Any], outer: tuple[str, ...] = ()) -> pa.DataType:
    """Return the Arrow type of a schema, of which `named` holds the named types; raise UnsupportedTypeError."""
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        if len(branches) > 1:
            names = [branch["type"] if isinstance(branch, dict) else branch for branch in branches]
            raise UnsupportedTypeError(f"a union of {', '.join(names[:-1])} and {names[-1]}")
        return _arrow_type(branches[0], named, outer) if branches else pa.null()
    if isinstance(schema, str):
        return _PRIMITIVE[schema] if schema in _PRIMITIVE else _arrow_type(named[schema], named, outer)
    kind, logical = schema["type"], schema.get("logical")
    if kind in ("record", "error"):
        if schema["name"] in outer:
            raise UnsupportedTypeError("a record that may hold another one of itself")
        inner = (*outer, schema["name"])
        return pa.struct([(field["name"], _arrow_type(field["type"], named, inner)) for field in schema["fields"]])
    if kind == "map":
        return pa.map_(pa.string(), _arrow_type(schema["values"], named, outer))
    if kind == "array":
        return pa.large_list(_arrow_type(schema["items"], named, outer))
    if kind == "enum":
        return pa.large_string()
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema.get("precision", 0), schema.get("scale", 0)
        if precision > _MAX_DIGITS:
            raise UnsupportedTypeError(f"a decimal of {precision} digits")
        if kind == "fixed":
            precision = precision if precision < len(str((1 << 8 * schema["size"]) >> 1)) else 0
        if 0 <= scale <= precision and precision:  # else the specification has readers skip it
            return pa.decimal256(_MAX_DIGITS, scale)
    if kind == "fixed":
        return _FIXED.get((schema["size"], logical), pa.large_binary())
    if (kind, logical) == ("bytes", "big-decimal"):
        return _BIG_DECIMAL
    return _LOGICAL.get((kind, logical)) or _arrow_type(kind, named, outer)


_KEPT_KEYS = ("name", "namespace", "size", "symbols", "precision", "scale")


def storage_schema(schema: Any, string: str = "bytes") -> Any:
    """Return a schema for the same bytes that decodes strings, of any encoding, as bytes and drops logical types."""
    if isinstance(schema, list):
        several = len(schema) > 2  # a union may not have bytes twice
        return [branch if several and branch == "string" else storage_schema(branch, string) for branch in schema]
    if not isinstance(schema, dict):
        return string if schema == "string" else schema
    kept = {name: schema[name] for name in _KEPT_KEYS if name in schema}
    kept |= {"logical": schema["logicalType"]} if "logicalType" in schema else {}
    kept |= {name: storage_schema(schema[name], string) for name in ("type", "items", "values") if name in schema}
    fields = {"fields": [storage_schema(field, string) for field in schema["fields"]]} if "fields" in schema else {}
    return kept | fields


def _converter(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return what makes values for Arrow of those of fastavro, such as decimals of bytes; None if nothing does."""
    if pa.types.is_decimal(kind):
        return lambda value: (
            None if value is None else Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-kind.scale, _EXACT)
        )
    if pa.types.is_interval(kind):
        return lambda value: None if value is None else pa.MonthDayNano(parse_interval(value))
    if kind == _BIG_DECIMAL:
        return _big_decimal_text
    if pa.types.is_large_list(kind):
        each = _converter(kind.value_type)
        if each is None:
            return None
        return lambda value: None if value is None else list(map(each, value))
    if pa.types.is_map(kind):
        item = _converter(kind.item_type) or (lambda value: value)
        return lambda value: None if value is None else [(key, item(inner)) for key, inner in value.items()]
    if pa.types.is_struct(kind):
        fields = {field.name: convert for field in kind if (convert := _converter(field.type)) is not None}
        return lambda value: (
            None if value is None else value | {name: convert(value[name]) for name, convert in fields.items()}
        )
    return None


def _big_decimal_text(value: bytes | None) -> str | None:
    if value is None:
        return None
    size, start = _read_long(value, 0)
    scale, end = _read_long(value, start + size)
    if size < 1 or end != len(value):
        raise ValueError("a big-decimal does not end where its bytes do")
    return str(Decimal(int.from_bytes(value[start : start + size], "big", signed=True)).scaleb(-scale, _EXACT))


_MAGIC = b"Obj\x01"
_MARKER_BYTES = 16  # behind each block (Avro 1.11, object container files)
_HEADER = parse_schema(
    {
        "type": "record",
        "name": "Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": len(_MAGIC)}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": _MARKER_BYTES}},
        ],
    }
)
_HEAD_BYTES = 64 << 10  # of a file, read at first: most headers are a few KB
_MAX_HEAD_BYTES = 64 << 20  # of a header
_LONG_BYTES = 10  # of the longest varint
# Of a block, as it is stored and as it is decompressed: writers end one after some 16 to 64 KB, so what has more is
# damaged, or made to fill a worker's memory
MAX_BLOCK_BYTES = 1 << 30
_CHUNK_BYTES = 1 << 20  # decompressed at once, where the library would have room for all there may be
# What fastavro, the decompressors and Arrow raise for bytes of another format; bz2: OSError.
_DAMAGE = (
    *(EOFError, OSError, ValueError, LookupError, TypeError, OverflowError, MemoryError, RecursionError),
    *(zlib.error, lzma.LZMAError, zstandard.ZstdError, pa.ArrowException),
)


@dataclass(frozen=True, slots=True, eq=False)
class Header:
    """The header of an Avro file."""

    fields: dict[str, FlatColumnType]  # the fields, of which those that are asked for are decoded
    columns: dict[str, FlatColumnType]  # the columns that these become
    nesting: Nesting  # how nested values are stored
    records: Any  # fastavro schema of a block: an array of records
    codec: str  # compression of the blocks
    sync: bytes  # marker after each block
    schema: Any  # of the file
    size_bytes: int  # size of the header

    def decode(self, frame: "Frame", names: Iterable[str]) -> pa.RecordBatch:
        """Decode the columns `names` of a block, without those the file lacks; a damaged one is an UnreadableError."""
        try:
            records = _decode_records(frame.records, _DECOMPRESS[self.codec](frame.data), self.records)
            sources = dict.fromkeys(self.columns[name].source for name in names if name in self.columns)
            arrays: dict[str, pa.Array] = {}
            for source in sources:
                values, kind = [record[source] for record in records], self.fields[source].kind
                if kind == _NO_TYPE:
                    arrays[source] = pa.array([None if value is None else to_json(value) for value in values], _TEXT)
                    continue
                convert = _converter(kind)
                array = pa.array(values if convert is None else list(map(convert, values)), kind)
                arrays |= {name: flat for name, flat, _ in self.nesting.flatten_array(source, array)}
            return to_batch({name: arrays[name] for name in names if name in self.columns}, len(records))
        except _DAMAGE as error:
            what = f"the block of {frame.records:,} records at byte {frame.start:,}"
            raise UnreadableError(f"{what} cannot be decoded: {_reason(error)}") from None


def read_header(stream: BinaryIO, file: FileRef, nesting: Nesting = NO_NESTING) -> Header:
    """Read the header from `stream`, which is at the start of the file.

    Raises:
        UnreadableError: if the header is damaged or not Avro.
        UserError: if the file's values are not records, or a column occurs twice.
    """
    data = stream.read(_HEAD_BYTES)
    if not data.startswith(_MAGIC):
        raise UnreadableError(
            f"not an Avro file: it {f'begins with {data[:4]!r}' if data else 'is empty'}; expected {_MAGIC!r}"
        )
    while True:
        buffer = BytesIO(data)
        try:
            found: Any = schemaless_reader(buffer, _HEADER, None)
            break
        except _DAMAGE as error:
            more = stream.read(3 * len(data)) if len(data) < _MAX_HEAD_BYTES else b""
            if not more:
                raise UnreadableError(f"its header is cut short or damaged: {_reason(error)}") from None
            data += more
    codec = found["meta"].get("avro.codec", b"null").decode(errors="replace")
    if codec not in _DECOMPRESS:
        raise UnreadableError(f"its blocks are compressed by {codec!r}; expected one of {', '.join(_DECOMPRESS)}")
    named: dict[str, Any] = {}
    try:
        schema = json.loads(found["meta"].get("avro.schema", b""))
        records: Any = parse_schema({"type": "array", "items": storage_schema(schema)}, named)
    except (SchemaParseException, UnknownType, *_DAMAGE) as error:
        raise UnreadableError(f"its schema cannot be read: {_reason(error)}") from None
    parsed = records["items"]
    if not isinstance(parsed, dict) or parsed["type"] not in ("record", "error"):
        what = "union" if isinstance(schema, list) else schema["type"] if isinstance(schema, dict) else schema
        raise UserError(f"{file.name}: each value is of type {what}; expected records, whose fields are the columns")
    formats.check_unique_names(file.name, [field["name"] for field in parsed["fields"]])
    fields = arrow_types(parsed["fields"], named)
    columns = _flatten_types(fields, nesting)
    return Header(fields, columns, nesting, records, codec, found["sync"], schema, buffer.tell())


def _with_texts(batch: pa.RecordBatch, schema: Any) -> pa.RecordBatch:
    """Return a batch whose strings, which are decoded as bytes, are strings where they are UTF-8."""
    named: dict[str, Any] = {}
    records: Any = parse_schema({"type": "array", "items": storage_schema(schema, "string")}, named)
    kinds = arrow_types(records["items"]["fields"], named)
    arrays = {}
    for name in batch.schema.names:
        arrays[name] = batch[name]
        if kinds[name].kind not in (batch[name].type, _NO_TYPE):
            with suppress(pa.ArrowException):
                arrays[name] = batch[name].cast(kinds[name].kind)
    return to_batch(arrays, len(batch))


def _flatten_types(fields: Mapping[str, FlatColumnType], nesting: Nesting) -> dict[str, FlatColumnType]:
    flat = nesting.flatten_types({name: field.kind for name, field in fields.items() if field.kind != _NO_TYPE})
    others = {name: field for name, field in fields.items() if field.kind == _NO_TYPE}
    others |= {name: FlatColumnType(name, _TEXT) for name in others if name in nesting.json_columns}
    described = {
        name: replace(column, description=fields[name].description) if name in fields else column
        for name, column in (flat | others).items()
    }
    order = {name: place for place, name in enumerate(fields)}
    return dict(sorted(described.items(), key=lambda item: order[item[1].source]))


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One Avro block: its byte range with sync marker, its stated number of records, and their bytes."""

    start: int
    end: int
    records: int
    data: bytes


def read_frames(stream: BinaryIO, header: Header, offset: int, end: int, with_data: bool) -> Iterator[Frame]:
    """Yield the Avro blocks from `offset` to `end`.

    fastavro decodes records. Blocks are found and decompressed here, so that files can be split and a damaged block is
    recognized. Source: Apache Avro 1.12, Specification, "Object Container Files"
    (https://avro.apache.org/docs/1.12.0/specification/).

    Raises:
        UnreadableError: at a damaged block, after which no more can be found.
    """
    while offset < end:
        stream.seek(offset)
        head = stream.read(min(2 * _LONG_BYTES, end - offset))
        records, position = _read_long(head, 0)
        size, position = _read_long(head, position)
        start, stop = offset + position, offset + position + size
        if records < 0 or not 0 <= size <= MAX_BLOCK_BYTES or records >> 10 > size:
            raise UnreadableError(f"the block at byte {offset:,} says it has {records:,} records in {size:,} bytes")
        if stop + _MARKER_BYTES > end:
            raise CutError(
                f"the block at byte {offset:,} is cut short, {end - start:,} of {size + _MARKER_BYTES:,} bytes", records
            )
        stream.seek(start if with_data else stop)
        data = stream.read(size) if with_data else b""
        if stream.read(_MARKER_BYTES) != header.sync:
            raise UnreadableError(f"the block at byte {offset:,} is not followed by the file's sync marker")
        yield Frame(offset, stop + _MARKER_BYTES, records, data)
        offset = stop + _MARKER_BYTES


def _read_long(data: bytes, position: int) -> tuple[int, int]:
    try:
        value, position = read_varint(data, position)
    except ValueError:
        raise CutError("the header of its last block is cut short") from None
    return value >> 1 ^ -(value & 1), position


def _decode_records(count: int, data: bytes, schema: Any) -> list[dict[str, Any]]:
    """Decode the records of a block at once, as an array: their number is put before them and a zero after them."""
    array = (encode_varint(2 * count) if count else b"") + data + b"\0"
    stream = BytesIO(array)
    records: Any = schemaless_reader(stream, schema, None)
    if len(records) != count or stream.tell() != len(array):
        raise ValueError("they do not end where its bytes do")
    return records


def _decompress_snappy(data: bytes) -> bytes:
    size = shift = 0
    for byte in data[:_LONG_BYTES]:
        size, shift = size | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            break
    if size > MAX_BLOCK_BYTES:
        raise ValueError(f"the snappy data say that they hold {size:,} bytes")
    raw = pa.decompress(data[:-4], decompressed_size=size, codec="snappy", asbytes=True)
    if zlib.crc32(raw) != int.from_bytes(data[-4:], "big"):
        raise ValueError("the checksum of the snappy data does not match")
    return raw


def _decompress_streams(start: Callable[[], Any], several: bool, data: bytes) -> bytes:
    """Decompress a block's `data`; `start` makes a decompressor for one stream.

    `several` streams may follow each other. Some writers leave part of a checksum after a deflate stream.
    """
    found = bytearray()
    while data and (several or not found):
        stream = start()
        found += stream.decompress(data, MAX_BLOCK_BYTES + 1 - len(found))
        _check_size(len(found))
        if not stream.eof:
            raise EOFError
        data = stream.unused_data
    return bytes(found)


def _decompress_zstd(data: bytes) -> bytes:
    found = bytearray()
    with zstandard.ZstdDecompressor().stream_reader(data) as reader:
        while chunk := reader.read(_CHUNK_BYTES):
            found += chunk
            _check_size(len(found))
    return bytes(found)


def _check_size(size: int) -> None:
    if size > MAX_BLOCK_BYTES:
        raise ValueError(f"it is decompressed to more than {MAX_BLOCK_BYTES:,} bytes")


_DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": partial(_decompress_streams, partial(zlib.decompressobj, wbits=-zlib.MAX_WBITS), False),
    "bzip2": partial(_decompress_streams, bz2.BZ2Decompressor, True),
    "snappy": _decompress_snappy,
    "xz": partial(_decompress_streams, lzma.LZMADecompressor, True),
    "zstandard": _decompress_zstd,
}


def _reason(error: BaseException) -> str:
    return error_text(error, lines=1) if str(error) else "its bytes end too early"


_BATCH_BYTES = 256 << 10  # of records decoded at once, about: as Python objects they are some twenty times larger
_BATCH_ROWS = 1 << 16  # of tiny records, decoded at once


@dataclass(frozen=True)
class AvroFormat(formats.RecordFormat):
    """A row for each record of an Avro container file.

    * Ints and longs become int64, floats and doubles float32; strings, bytes, fixed and enums become bytes.
    * Dates, times, timestamps, decimals, UUIDs and durations become text.
    * Arrays of these, nested or not, become lists.
    * A null of a union is a missing value.
    * Records, maps and other unions are read as `nesting` says, or not at all.

    Lines are the records' numbers in their file, from 1. An Avro block that cannot be decoded loses the records that
    its header counts.
    """

    block_size: int  # approximate bytes of a BlockRef, which spans Avro blocks
    fill: tuple[tuple[str, str], ...] = ()  # (column, text) of fill values, see parse_fill
    nesting: Nesting = NO_NESTING  # how nested values are stored

    def index(self, file: FileRef) -> Iterator[BlockRef | Reject]:
        """Yield blocks that each span several Avro blocks; the last one ends where the file does.

        Damage is left to `read`.
        """
        with storage.open_read(file.path, file.size_bytes) as stream:
            try:
                header = read_header(stream, file, self.nesting)
            except UnreadableError as error:
                yield formats.reject_file(file.name, file.size_bytes, str(error))
                return
            start, first, row, whole = header.size_bytes, 1, 1, True
            try:
                for frame in read_frames(stream, header, start, file.size_bytes, with_data=False):
                    row += frame.records
                    if frame.end - start >= self.block_size:
                        yield BlockRef(file, start, frame.end - start, first, tuple(header.columns), row - first)
                        start, first = frame.end, row
            except UnreadableError:
                whole = False
            if start < file.size_bytes:
                records = row - first if whole else None
                yield BlockRef(file, start, file.size_bytes - start, first, tuple(header.columns), records)

    def header(self, file: FileRef) -> tuple[str, ...]:
        with suppress(UnreadableError), storage.open_read(file.path, file.size_bytes) as stream:
            return tuple(read_header(stream, file, self.nesting).columns)
        return ()

    def infer(self, block: BlockRef, columns: ColumnNames, values_of: Sequence[ValuesOf]) -> Iterator[Inferred]:
        """Infer the types from the schema; count values and list lengths in all records, also those `read` rejects."""
        fills = formats.parse_fills(self.fill)
        every = [name for name in (*block.columns, *fills) if name not in self.nesting.drop]
        wanted = list(dict.fromkeys(every if columns is None else columns))
        merged = Inferred()
        for part in _parts(block, [*wanted, *(column.name for column in values_of)], self.nesting):
            if isinstance(part, _Part):
                types = {name: found for name in wanted if (found := part.infer(name, fills)) is not None}
                values = formats.distinct_values(part.batch, values_of, fills)
                merged = merged.merge(Inferred(types, len(part.numbers), values))
        yield merged

    def read(self, block: BlockRef, types: ColumnTypes, keys: formats.Keys = ()) -> Iterator[formats.Rows]:
        """Yield the rows of several Avro blocks at a time; a damaged block is one reject."""
        fills = formats.parse_fills(self.fill)
        for part in _parts(block, [*types, *(key.name for key in keys)], self.nesting):
            if isinstance(part, Reject):
                yield formats.empty_rows(types, [part], keys)
            else:
                yield formats.typed_rows(block.file.name, part.batch, part.numbers, types, keys, fills, part.parallel)

    def raw_batches(self, block: BlockRef) -> Iterator[RawBatch | Reject]:
        """Yield all columns of the records of several Avro blocks at a time, nested as they are."""
        for part in _parts(block, block.columns, NO_NESTING, is_raw=True):
            yield part if isinstance(part, Reject) else RawBatch(_with_texts(part.batch, part.schema), part.numbers)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    batch: pa.RecordBatch
    numbers: np.ndarray
    parallel: frozenset[str] = frozenset()  # the columns that a list of records was divided into
    schema: Any = None  # of the file

    def infer(self, name: str, fills: Mapping[str, Any]) -> ColumnType | None:
        found, missing = None, len(self.numbers)
        if self.batch.schema.get_field_index(name) >= 0:
            array = self.batch[name]
            found, missing = formats.infer_present_type(array, arrow_scalar_type(array.type)), array.null_count
            if found is not None and name in self.parallel:
                found = formats.with_variable_length(found)
        return formats.merge_fill(found, fills.get(name), missing)


def _parts(block: BlockRef, names: Iterable[str], nesting: Nesting, is_raw: bool = False) -> Iterator[_Part | Reject]:
    """Yield the records of a block with the columns `names`; a Reject for records that cannot be read.

    Raises UserError if no feature can hold one of the columns, unless `is_raw`.
    """
    names = list(dict.fromkeys(names))
    offset, row = block.offset, block.first_line  # of the next block of the file
    parts: list[_Part] = []
    size_bytes = rows = 0  # of `parts`
    problem: Exception | None = None
    try:
        with storage.open_read(block.file.path, block.end) as stream:
            header = read_header(stream, block.file, nesting)
            if not is_raw and (unsupported := formats.unsupported_columns(header.columns, names)):
                raise formats.unsupported_error(block.file.name, unsupported, header.columns, nesting)
            parallel = frozenset(name for name, column in header.columns.items() if column.is_parallel)
            for frame in read_frames(stream, header, offset, block.end, with_data=True):
                try:
                    numbers = np.arange(row, row + frame.records)
                    parts.append(_Part(header.decode(frame, names), numbers, parallel, header.schema))
                except UnreadableError as error:
                    yield Reject(block.file.name, row, STAGE, str(error), frame.records, frame.end - frame.start)
                size_bytes, rows = size_bytes + len(frame.data), rows + frame.records
                offset, row = frame.end, row + frame.records
                if parts and (size_bytes >= _BATCH_BYTES or rows >= _BATCH_ROWS):
                    yield from _join_parts(parts)
                    parts, size_bytes, rows = [], 0, 0
    except (UnreadableError, OSError) as error:
        problem = error
    if parts:
        yield from _join_parts(parts)
    if problem is not None:
        yield _lost_records(block, offset, row, problem)


def _join_parts(parts: Sequence[_Part]) -> Iterator[_Part]:
    numbers = np.concatenate([part.numbers for part in parts])
    has_columns = parts[0].batch.num_columns
    whole = pa.concat_batches([part.batch for part in parts]) if has_columns else to_batch({}, len(numbers))
    for start in range(0, len(numbers), _BATCH_ROWS):
        yield replace(parts[0], batch=whole.slice(start, _BATCH_ROWS), numbers=numbers[start : start + _BATCH_ROWS])


def _lost_records(block: BlockRef, offset: int, row: int, problem: Exception) -> Reject:
    name, left = block.file.name, block.end - offset
    reason = f"{formats.unreadable_reason(problem, block.file.path)}; all from row {row:,} on is lost"
    if isinstance(problem, CutError):
        return Reject(name, row, STAGE, reason, problem.records, left, "at least")
    if block.records is not None:  # the file was whole when it was indexed
        return Reject(name, row, STAGE, reason, max(block.records - (row - block.first_line), 1), left)
    return formats.Damage(reason, left, left / max(offset, 1)).make_reject(name, row, reason, row - 1, left)
