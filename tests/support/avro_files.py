"""Avro files, and what AvroFormat makes of them."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import arrow_type
from shardmill.transforms.columns.types import ColumnType, Inferred, ValuesOf
from shardmill.transforms.formats.avro import AvroFormat
from shardmill.transforms.formats.format import BlockRef, FileRef

Row = dict[str, Any]
SYNC = bytes(range(16))


def record(**fields: Any) -> dict[str, Any]:
    """The schema of records of these fields."""
    return {"type": "record", "name": "row", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def avro(schema: Any, rows: Iterable[Any], block_bytes: int = 200, codec: str = "null") -> bytes:
    """A file in blocks of about `block_bytes`."""
    out = io.BytesIO()
    fastavro.writer(out, schema, rows, codec=codec, sync_interval=block_bytes, sync_marker=SYNC)
    return out.getvalue()


def file_ref(folder: Path, content: bytes) -> FileRef:
    """A file of this content."""
    path = folder / "file.avro"
    path.write_bytes(content)
    return FileRef(path.name, str(path), len(content))


def blocks(file: FileRef, format_: AvroFormat) -> list[BlockRef]:
    """The blocks of a file that can be read."""
    found = list(format_.index(file))
    assert all(isinstance(block, BlockRef) for block in found), found
    return [block for block in found if isinstance(block, BlockRef)]


def infer(
    file: FileRef, format_: AvroFormat, columns: list[str] | None = None, values_of: str | None = None
) -> Inferred:
    """The types of all blocks, merged."""
    merged = Inferred()
    for block in blocks(file, format_):
        for part in format_.infer(block, columns, [ValuesOf(values_of)] if values_of else ()):
            merged = merged.merge(part)
    return merged


def read(
    file: FileRef, types: dict[str, ColumnType], format_: AvroFormat
) -> tuple[list[tuple[int, Row]], list[Reject]]:
    """The rows of all blocks with their numbers, and the rejects."""
    parts = [part for block in blocks(file, format_) for part in format_.read(block, types)]
    for part in parts:
        part.batch.validate(full=True)
        assert part.batch.schema == pa.schema([(name, arrow_type(column)) for name, column in types.items()])
        assert part.lines.dtype == np.int64
    rows = [pair for part in parts for pair in zip(part.lines.tolist(), part.batch.to_pylist(), strict=True)]
    return rows, [reject for part in parts for reject in part.rejects]


def column(folder: Path, kind: Any, values: Iterable[Any], fill: str | None = None) -> tuple[Any, ...]:
    """The type, the values and the reasons of the rejects of a file's only column."""
    file = file_ref(folder, avro(record(x=kind), [{"x": value} for value in values]))
    format_ = AvroFormat(1024, (("x", fill),) if fill is not None else ())
    found = infer(file, format_).types.get("x")
    if found is None:
        return None, [], []
    rows, rejects = read(file, {"x": found}, format_)
    return found, [row["x"] for _, row in rows], [reject.reason for reject in rejects]


def array(items: Any) -> dict[str, Any]:
    """The schema of lists of these."""
    return {"type": "array", "items": items}
