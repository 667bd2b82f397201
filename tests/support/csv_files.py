"""Tables in CSV."""

from pathlib import Path
from typing import Any

from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.types import ColumnType, ScalarType
from shardmill.transforms.formats.csv import CsvFormat
from shardmill.transforms.formats.format import FileRef
from tests.support.format_files import Found, Types, file_ref, read

CSV = CsvFormat()
SIZES = [1, 7, 30, 1 << 20]


def write(folder: Path, data: str | bytes, name: str = "a.csv") -> FileRef:
    return file_ref(folder, data.encode() if isinstance(data, str) else data, name)


def read_each_size(folder: Path, data: str | bytes, wanted: Types, **options: Any) -> Found:
    """Read a file in blocks of several sizes, which must make no difference."""
    file = write(folder, data)
    first, *others = [read(CsvFormat(block_size=size, **options), file, wanted) for size in SIZES]
    assert all(found == first for found in others)
    return first


def types(**dtypes: ScalarType) -> dict[str, ColumnType]:
    return {name: ColumnType(dtype, None, 1) for name, dtype in dtypes.items()}


def reasons(rejects: list[Reject]) -> list[tuple[int | None, str]]:
    assert all(reject.source == "a.csv" and reject.stage == "read" for reject in rejects)
    return [(reject.line, reject.reason) for reject in rejects]
