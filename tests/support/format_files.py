"""Files of records, and what a format makes of them."""

from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import arrow_type
from shardmill.transforms.columns.types import ColumnType, Inferred, ValuesOf
from shardmill.transforms.findings import PassedOver
from shardmill.transforms.formats.format import BlockRef, FileRef, RecordFormat

Row = dict[str, Any]
Types = Mapping[str, ColumnType]


class Found(NamedTuple):
    """The records of a file."""

    rows: list[Row]
    lines: list[int]
    rejects: list[Reject]
    blank: int


def file_ref(folder: Path, data: bytes, name: str = "file.txt") -> FileRef:
    (folder / name).write_bytes(data)
    return FileRef(name, str(folder / name), len(data))


def blocks(format_: RecordFormat, file: FileRef) -> list[BlockRef]:
    """The blocks of a file that can be read."""
    items = list(format_.index(file))
    assert not any(isinstance(item, Reject) for item in items), items
    return [item for item in items if isinstance(item, BlockRef)]


def read(format_: RecordFormat, file: FileRef, types: Types) -> Found:
    parts = [part for block in blocks(format_, file) for part in format_.read(block, types)]
    for part in parts:
        part.batch.validate(full=True)
        assert part.lines.dtype == np.int64
        if types:
            assert part.batch.schema == pa.schema([(name, arrow_type(column)) for name, column in types.items()])
            assert part.batch.num_rows == len(part.lines)
    return Found(
        [row for part in parts for row in part.batch.to_pylist()],
        [line for part in parts for line in part.lines.tolist()],
        [reject for part in parts for reject in part.rejects],
        sum(sum(part.findings.find(PassedOver).counts.values()) for part in parts),
    )


def read_numbered(format_: RecordFormat, file: FileRef, types: Types) -> tuple[list[tuple[int, Row]], list[Reject]]:
    """The rows, each with its line, and the rejects."""
    found = read(format_, file, types)
    assert found.blank == 0
    return list(zip(found.lines, found.rows, strict=True)), found.rejects


def infer(
    format_: RecordFormat, file: FileRef, columns: list[str] | None = None, values_of: str | None = None
) -> Inferred:
    """The types of all blocks, merged."""
    values = [ValuesOf(values_of)] if values_of else []
    parts = [part for block in blocks(format_, file) for part in format_.infer(block, columns, values)]
    return reduce(Inferred.merge, parts, Inferred())
