"""Tables in CSV, and what the format makes of them."""

from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.types import ColumnType, Inferred, ScalarType, ValuesOf
from shardmill.transforms.formats.csv import CsvFormat
from shardmill.transforms.formats.format import BlockRef, FileRef

CSV = CsvFormat()
SIZES = [1, 7, 30, 1 << 20]
Read = tuple[list[dict[str, Any]], list[int], list[Reject], int]


def write(folder: Path, data: str | bytes, name: str = "a.csv") -> FileRef:
    content = data.encode() if isinstance(data, str) else data
    (folder / name).write_bytes(content)
    return FileRef(name, str(folder / name), len(content))


def types(**dtypes: ScalarType) -> dict[str, ColumnType]:
    return {name: ColumnType(dtype, None, 1) for name, dtype in dtypes.items()}


def blocks(found: CsvFormat, file: FileRef) -> list[BlockRef]:
    indexed = list(found.index(file))
    assert all(isinstance(block, BlockRef) for block in indexed), indexed
    return [block for block in indexed if isinstance(block, BlockRef)]


def read(found: CsvFormat, file: FileRef, wanted: Mapping[str, ColumnType]) -> Read:
    """All rows, their lines, the rejects, and how many lines are blank."""
    rows, lines, rejects, blank = [], [], [], 0
    for block in blocks(found, file):
        for part in found.read(block, wanted):
            assert part.batch.num_rows == len(part.lines) or not wanted
            rows += part.batch.to_pylist()
            lines += part.lines.tolist()
            rejects += part.rejects
            blank += part.blank_lines
    return rows, lines, rejects, blank


def infer(found: CsvFormat, file: FileRef, columns: list[str] | None = None, values_of: str | None = None) -> Inferred:
    values = [ValuesOf(values_of)] if values_of else []
    parts = [part for block in blocks(found, file) for part in found.infer(block, columns, values)]
    return reduce(Inferred.merge, parts, Inferred())


def reasons(rejects: list[Reject]) -> list[tuple[int | None, str]]:
    assert all(reject.source == "a.csv" and reject.stage == "read" for reject in rejects)
    return [(reject.line, reject.reason) for reject in rejects]
