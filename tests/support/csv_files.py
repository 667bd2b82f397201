"""Tables in CSV."""

from pathlib import Path

from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.types import ColumnType, ScalarType
from shardmill.transforms.formats.csv import CsvFormat
from shardmill.transforms.formats.format import FileRef
from tests.support.format_files import file_ref

CSV = CsvFormat()
SIZES = [1, 7, 30, 1 << 20]


def write(folder: Path, data: str | bytes, name: str = "a.csv") -> FileRef:
    return file_ref(folder, data.encode() if isinstance(data, str) else data, name)


def types(**dtypes: ScalarType) -> dict[str, ColumnType]:
    return {name: ColumnType(dtype, None, 1) for name, dtype in dtypes.items()}


def reasons(rejects: list[Reject]) -> list[tuple[int | None, str]]:
    assert all(reject.source == "a.csv" and reject.stage == "read" for reject in rejects)
    return [(reject.line, reject.reason) for reject in rejects]
