"""An Avro container file: its header, and its blocks of records between sync markers.

Source: Apache Avro 1.12, Specification, "Object Container Files" (https://avro.apache.org/docs/1.12.0/specification/).
fastavro decodes records; blocks are found and decompressed here, so that files are split, and a damaged block is told
apart.
"""

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any, BinaryIO

import pyarrow as pa
import zstandard
from fastavro import parse_schema, schemaless_reader
from fastavro.schema import SchemaParseException, UnknownType

from shardmill.errors import UserError
from shardmill.records.example import varint
from shardmill.transforms.columns.arrow import to_batch
from shardmill.transforms.formats.arrow_rows import check_names
from shardmill.transforms.formats.avro.schema import array_of, as_stored, kinds_of
from shardmill.transforms.formats.base import FileRef
from shardmill.transforms.formats.damage import UnreadableError
from shardmill.transforms.stores.error_text import error_text

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
_MAX_BLOCK_BYTES = 1 << 30
_CHUNK_BYTES = 1 << 20  # decompressed at once, where the library would have room for all there may be
# What fastavro, the decompressors and Arrow raise for bytes that are none of theirs; bz2: OSError.
_DAMAGE = (
    *(EOFError, OSError, ValueError, LookupError, TypeError, OverflowError, MemoryError, RecursionError),
    *(zlib.error, lzma.LZMAError, zstandard.ZstdError, pa.ArrowException),
)


@dataclass(frozen=True, slots=True, eq=False)
class Header:
    """What stands at the start of a file.

    Attributes:
      kinds: of each field as Arrow calls it; in words where no feature can hold it.
      records: the schema of the records of a block, as one array of them, for fastavro.
      codec: that compresses a block's records.
      sync: what stands behind each block.
      size_bytes: of all that.
    """

    kinds: dict[str, pa.DataType | str]
    records: Any
    codec: str
    sync: bytes
    size_bytes: int

    def decode(self, frame: "Frame", names: Iterable[str]) -> pa.RecordBatch:
        """Those of the columns `names` of a block that there are; raises UnreadableError."""
        try:
            records = _decoded(frame.records, _DECOMPRESS[self.codec](frame.data), self.records)
            return self._arrays(records, names)
        except _DAMAGE as error:
            what = f"the block of {frame.records:,} records at byte {frame.start:,}"
            raise UnreadableError(f"{what} cannot be decoded: {_why(error)}") from None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(self.kinds)

    def _arrays(self, records: list[dict[str, Any]], names: Iterable[str]) -> pa.RecordBatch:
        """Those of the columns `names` that there are."""
        there = [name for name in dict.fromkeys(names) if isinstance(self.kinds.get(name), pa.DataType)]
        arrays = {name: array_of([record[name] for record in records], self.kinds[name]) for name in there}
        return to_batch(arrays, len(records))


def read_header(stream: BinaryIO, file: FileRef) -> Header:
    """The header of a file, at whose start `stream` is; raises UnreadableError, or UserError for what is no table."""
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
                raise UnreadableError(f"its header is cut short or damaged: {_why(error)}") from None
            data += more
    codec = found["meta"].get("avro.codec", b"null").decode(errors="replace")
    if codec not in _DECOMPRESS:
        raise UnreadableError(f"its blocks are compressed by {codec!r}; expected one of {', '.join(_DECOMPRESS)}")
    try:
        schema = json.loads(found["meta"].get("avro.schema", b""))
        named: dict[str, Any] = {}
        records: Any = parse_schema({"type": "array", "items": as_stored(schema)}, named)
    except (SchemaParseException, UnknownType, *_DAMAGE) as error:
        raise UnreadableError(f"its schema cannot be read: {_why(error)}") from None
    parsed = records["items"]
    if not isinstance(parsed, dict) or parsed["type"] not in ("record", "error"):
        what = "union" if isinstance(schema, list) else schema["type"] if isinstance(schema, dict) else schema
        raise UserError(f"{file.name}: each value is of type {what}; expected records, whose fields are the columns")
    check_names(file.name, [field["name"] for field in parsed["fields"]])
    return Header(kinds_of(parsed["fields"], named), records, codec, found["sync"], buffer.tell())


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A block of a file: where it starts and ends, its sync marker included, how many records it says it has, and their
    bytes."""

    start: int
    end: int
    records: int
    data: bytes


class CutError(UnreadableError):
    """A file that ends within a block.

    Attributes:
      records: of the block, as its header says; at least one.
    """

    def __init__(self, why: str, records: int = 1) -> None:
        super().__init__(why)
        self.records = max(records, 1)


def frames_of(stream: BinaryIO, header: Header, offset: int, end: int, with_data: bool) -> Iterator[Frame]:
    """The blocks from `offset` to `end`; raises UnreadableError where there is none, after which nothing can be
    found."""
    while offset < end:
        stream.seek(offset)
        head = stream.read(min(2 * _LONG_BYTES, end - offset))
        records, position = _long(head, 0)
        size, position = _long(head, position)
        start, stop = offset + position, offset + position + size
        if records < 0 or not 0 <= size <= _MAX_BLOCK_BYTES or records >> 10 > size:
            raise UnreadableError(
                f"the block at byte {offset:,} says that it has {records:,} records in {size:,} bytes"
            )
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


def _long(data: bytes, position: int) -> tuple[int, int]:
    """The number in zigzag and variable length at `position`, and where it ends."""
    value = shift = 0
    while position < len(data):
        byte = data[position]
        value, shift, position = value | (byte & 0x7F) << shift, shift + 7, position + 1
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), position
    raise CutError("the header of its last block is cut short")


def _decoded(count: int, data: bytes, schema: Any) -> list[dict[str, Any]]:
    """The records of a block: with their number before them and a zero behind, they are an array, read in one go."""
    array = (varint(2 * count) if count else b"") + data + b"\0"
    stream = BytesIO(array)
    records: Any = schemaless_reader(stream, schema, None)
    if len(records) != count or stream.tell() != len(array):
        raise ValueError("they do not end where its bytes do")
    return records


def _unsnap(data: bytes) -> bytes:
    """What Snappy made `data` of; four bytes of crc32 follow it."""
    size = shift = 0
    for byte in data[:_LONG_BYTES]:
        size, shift = size | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            break
    if size > _MAX_BLOCK_BYTES:
        raise ValueError(f"the snappy data say that they hold {size:,} bytes")
    raw = pa.decompress(data[:-4], decompressed_size=size, codec="snappy", asbytes=True)
    if zlib.crc32(raw) != int.from_bytes(data[-4:], "big"):
        raise ValueError("the checksum of the snappy data does not match")
    return raw


def _expanded(start: Callable[[], Any], several: bool, data: bytes) -> bytes:
    """What `data` is decompressed to; raises ValueError for more than a block may hold, EOFError where it ends early.

    Args:
      start: makes what decompresses one stream.
      several: whether streams may follow each other. Behind one of deflate some writers leave a part of its checksum.
      data: of a block.
    """
    found = bytearray()
    while data and (several or not found):
        stream = start()
        found += stream.decompress(data, _MAX_BLOCK_BYTES + 1 - len(found))
        _check_size(len(found))
        if not stream.eof:
            raise EOFError
        data = stream.unused_data
    return bytes(found)


def _unzstd(data: bytes) -> bytes:
    """As `_expanded`, of Zstandard."""
    found = bytearray()
    with zstandard.ZstdDecompressor().stream_reader(data) as reader:
        while chunk := reader.read(_CHUNK_BYTES):
            found += chunk
            _check_size(len(found))
    return bytes(found)


def _check_size(size: int) -> None:
    if size > _MAX_BLOCK_BYTES:
        raise ValueError(f"it is decompressed to more than {_MAX_BLOCK_BYTES:,} bytes")


_DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": partial(_expanded, partial(zlib.decompressobj, wbits=-zlib.MAX_WBITS), False),
    "bzip2": partial(_expanded, bz2.BZ2Decompressor, True),
    "snappy": _unsnap,
    "xz": partial(_expanded, lzma.LZMADecompressor, True),
    "zstandard": _unzstd,
}


def _why(error: BaseException) -> str:
    return error_text(error, lines=1) if str(error) else "its bytes end too early"
