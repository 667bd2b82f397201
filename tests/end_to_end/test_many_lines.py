"""Lines of a byte or four: many more of them than bytes would suggest, and what is kept of each must not add up."""

import gzip
import tracemalloc
from pathlib import Path

import pytest

from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats import csv_parse as csv_pieces
from shardmill.transforms.formats import format as blocks
from shardmill.transforms.formats import json_lines as read_json_lines
from shardmill.transforms.formats import line_blocks
from shardmill.transforms.formats.csv import CsvFormat
from shardmill.transforms.formats.format import FileRef, RecordFormat, Rows
from shardmill.transforms.formats.json_lines import JsonLinesFormat
from shardmill.transforms.formats.lines import LinesFormat

BLOCK = 16 << 20
# The format, a header, a row, its types
FORMATS: dict[str, tuple[RecordFormat, bytes, bytes, dict[str, ColumnType]]] = {
    "csv": (CsvFormat(block_size=BLOCK), b"a,b\n", b"0,0\n", {"a": ColumnType("int64", None, 0)}),
    "jsonl": (JsonLinesFormat(BLOCK), b"", b'{"a":0}\n', {"a": ColumnType("int64", None, 0)}),
    "text": (LinesFormat(BLOCK), b"", b"0\n", {"text": ColumnType("bytes", None, 0)}),
}


def rows_of(folder: Path, kind: str, data: bytes, suffix: str) -> list[Rows]:
    """All rows of a file with `data`, after what `infer` sees."""
    format_, _, _, types = FORMATS[kind]
    path = folder / f"file.{kind}{suffix}"
    path.write_bytes(gzip.compress(data, 1) if suffix else data)
    file = FileRef(path.name, str(path), path.stat().st_size)
    found: list[Rows] = []
    for block in format_.index(file):
        assert isinstance(block, blocks.BlockRef)
        list(format_.infer(block, None, ()))
        found += format_.read(block, types)
    return found


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("kind", FORMATS)
def test_rows_come_a_bounded_number_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, suffix: str
) -> None:
    for module in (csv_pieces, line_blocks, read_json_lines):
        monkeypatch.setattr(module, "MAX_LINES", 1000)
    _, header, row, _ = FORMATS[kind]
    found = rows_of(tmp_path, kind, header + row * 50_000, suffix)

    first = 1 + header.count(b"\n")
    assert [line for rows in found for line in rows.lines.tolist()] == list(range(first, first + 50_000))
    most = 1000 if kind != "jsonl" else 1000 + (64 << 10) // len(row)  # JSON is parsed 64 KiB at once
    assert max(len(rows.lines) for rows in found) <= most


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
@pytest.mark.parametrize("kind", FORMATS)
def test_blank_lines_take_no_memory_each(tmp_path: Path, kind: str, newline: bytes) -> None:
    _, header, row, _ = FORMATS[kind]
    blank = 10_000_000
    data = header + row + newline * blank + row
    tracemalloc.start()
    try:
        found = rows_of(tmp_path, kind, data, ".gz")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    lines = [line for rows in found for line in rows.lines.tolist()]
    first = 1 + header.count(b"\n")
    assert (lines, sum(rows.blank_lines for rows in found)) == ([first, first + 1 + blank], blank)
    assert peak < 5 * BLOCK
