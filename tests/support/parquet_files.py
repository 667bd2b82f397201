"""Parquet files, and what the format makes of them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats.format import FileRef
from shardmill.transforms.formats.parquet import ParquetFormat
from tests.support.format_files import Row, Types, infer, read_numbered


def file_ref(path: Path) -> FileRef:
    return FileRef(path.name, str(path), path.stat().st_size)


def write(folder: Path, table: pa.Table, rows: int = 3, **options: Any) -> FileRef:
    """`table` as a file of row groups of `rows` rows."""
    pq.write_table(table, folder / "file.parquet", row_group_size=rows, **options)
    return file_ref(folder / "file.parquet")


def read(format_: ParquetFormat, file: FileRef, types: Types) -> tuple[list[tuple[int, Row]], list[tuple[int, str]]]:
    """The rows with their numbers, and of each reject its row and reason."""
    found, rejects = read_numbered(format_, file, types)
    assert {(reject.source, reject.stage) for reject in rejects} <= {("file.parquet", "read")}
    return found, [(reject.line or 0, reject.reason) for reject in rejects]


def column(
    folder: Path, array: pa.Array, fill: str | None = None, types: ColumnType | None = None, **options: Any
) -> tuple[Any, ...]:
    """The type, the values and the rejects of a file's only column."""
    file = write(folder, pa.table({"x": array}), **options)
    format_ = ParquetFormat((("x", fill),) if fill is not None else ())
    inferred = infer(format_, file)
    assert inferred.rows == len(array)
    found = types or inferred.types.get("x")
    if found is None:
        return None, [], []
    rows, rejects = read(format_, file, {"x": found})
    return found, [row["x"] for _, row in rows], rejects
