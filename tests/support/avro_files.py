"""Avro files, and what AvroFormat makes of them."""

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fastavro

from shardmill.data.example import encode_varint
from shardmill.transforms.formats.avro import AvroFormat
from shardmill.transforms.formats.format import FileRef
from tests.support import format_files
from tests.support.format_files import infer, read

SYNC = bytes(range(16))


def file_ref(folder: Path, content: bytes) -> FileRef:
    return format_files.file_ref(folder, content, "file.avro")


def record(**fields: Any) -> dict[str, Any]:
    """The schema of records of these fields."""
    return {"type": "record", "name": "row", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def array(items: Any) -> dict[str, Any]:
    """The schema of lists of these."""
    return {"type": "array", "items": items}


def avro(schema: Any, rows: Iterable[Any], block_bytes: int = 200, codec: str = "null") -> bytes:
    """A file in blocks of about `block_bytes`."""
    out = io.BytesIO()
    fastavro.writer(out, schema, rows, codec=codec, sync_interval=block_bytes, sync_marker=SYNC)
    return out.getvalue()


def with_schema(data: bytes, schema: Any) -> bytes:
    """The blocks of a file without compression, below a header with another schema."""
    text = json.dumps(schema).encode()
    return b"Obj\x01\x02\x16avro.schema" + encode_varint(2 * len(text)) + text + b"\0" + data[data.index(SYNC) :]


def column(folder: Path, kind: Any, values: Iterable[Any], fill: str | None = None) -> tuple[Any, ...]:
    """The type, the values and the reasons of the rejects of a file's only column."""
    file = file_ref(folder, avro(record(x=kind), [{"x": value} for value in values]))
    format_ = AvroFormat(1024, (("x", fill),) if fill is not None else ())
    found = infer(format_, file).types.get("x")
    if found is None:
        return None, [], []
    rows, _, rejects, _ = read(format_, file, {"x": found})
    return found, [row["x"] for row in rows], [reject.reason for reject in rejects]
