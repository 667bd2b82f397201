"""Parquet files, and what the format makes of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shardmill.transforms.columns.arrow import arrow_type
from shardmill.transforms.columns.types import ColumnType, Inferred, ValuesOf
from shardmill.transforms.formats.format import BlockRef, FileRef
from shardmill.transforms.formats.parquet import ParquetFormat

Types = dict[str, ColumnType]


def file_ref(path: Path) -> FileRef:
    return FileRef(path.name, str(path), path.stat().st_size)


def write(folder: Path, table: pa.Table, rows: int = 3, **options: Any) -> FileRef:
    """`table` as a file of row groups of `rows` rows."""
    pq.write_table(table, folder / "file.parquet", row_group_size=rows, **options)
    return file_ref(folder / "file.parquet")


def blocks(file: FileRef) -> list[BlockRef]:
    found = list(ParquetFormat().index(file))
    return [block for block in found if isinstance(block, BlockRef)]


def infer(
    file: FileRef, format_: ParquetFormat, columns: list[str] | None = None, values_of: str | None = None
) -> Inferred:
    merged = Inferred()
    for block in blocks(file):
        for part in format_.infer(block, columns, [ValuesOf(values_of)] if values_of else ()):
            merged = merged.merge(part)
    return merged


def read(
    file: FileRef, types: Types, format_: ParquetFormat
) -> tuple[list[tuple[int, dict[str, Any]]], list[tuple[int, str]]]:
    rows = [part for block in blocks(file) for part in format_.read(block, types)]
    for part in rows:
        part.batch.validate(full=True)
        assert part.batch.schema == pa.schema([(name, arrow_type(column)) for name, column in types.items()])
        assert part.lines.dtype == np.int64
        assert part.blank_lines == 0
    found = [pair for part in rows for pair in zip(part.lines.tolist(), part.batch.to_pylist(), strict=True)]
    rejects = [reject for part in rows for reject in part.rejects]
    assert {(reject.source, reject.stage) for reject in rejects} <= {("file.parquet", "read")}
    return found, [(reject.line or 0, reject.reason) for reject in rejects]


def column(
    folder: Path, array: pa.Array, fill: str | None = None, types: ColumnType | None = None, **options: Any
) -> tuple[Any, ...]:
    """The type, the values and the rejects of a file's only column."""
    file = write(folder, pa.table({"x": array}), **options)
    format_ = ParquetFormat((("x", fill),) if fill is not None else ())
    inferred = infer(file, format_)
    assert inferred.rows == len(array)
    found = types or inferred.types.get("x")
    if found is None:
        return None, [], []
    rows, rejects = read(file, {"x": found}, format_)
    return found, [row["x"] for _, row in rows], rejects
