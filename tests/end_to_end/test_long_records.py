"""A record whose text is too long is left out as soon as that is known, and those after it are read: in every format of
lines."""

import codecs
import gzip
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats import format as format_module
from shardmill.transforms.formats.csv import CsvFormat
from shardmill.transforms.formats.format import BlockRef, FileRef, RecordFormat
from shardmill.transforms.formats.json_lines import JsonLinesFormat
from shardmill.transforms.formats.lines import LinesFormat

LIMIT = 1000
ENCODINGS = {"": "utf-8", ".gz": "utf-8", ".utf16": "utf-16"}
TYPES = {"text": ColumnType("bytes", None, 0)}


def format_of(kind: str, block_size: int, encoding: str) -> RecordFormat:
    if kind == "csv":
        return CsvFormat(block_size=block_size, columns=("text",), encoding=encoding)
    return JsonLinesFormat(block_size) if kind == "jsonl" else LinesFormat(block_size, encoding)


def record(kind: str, size: int, letter: str = "x") -> bytes:
    """A record of `size` bytes, its line's end included; in CSV, with a line break and a doubled quote in quotes."""
    ends = {"csv": ('"\n""', '"\n'), "jsonl": ('{"text":"', '"}\n'), "text": ("", "\n")}[kind]
    return (ends[0] + letter * (size - len("".join(ends))) + ends[1]).encode()


def read(folder: Path, kind: str, data: bytes, suffix: str, block_size: int) -> tuple[list[int], list[Reject]]:
    """The lines of the rows, and the rejects, after what `infer` counts."""
    encoding = ENCODINGS[suffix]
    path = folder / f"file.{kind}{'.gz' if suffix == '.gz' else ''}"
    data = codecs.BOM_UTF16_LE + data.decode().encode("utf-16-le") if encoding == "utf-16" else data
    path.write_bytes(gzip.compress(data, 1) if suffix == ".gz" else data)
    format_, file = format_of(kind, block_size, encoding), FileRef(path.name, str(path), path.stat().st_size)
    lines: list[int] = []
    rejects: list[Reject] = []
    inferred = 0
    for block in format_.index(file):
        assert isinstance(block, BlockRef)
        inferred += sum(found.rows for found in format_.infer(block, None, ()))
        for rows in format_.read(block, TYPES):
            lines += rows.lines.tolist()
            rejects += rows.rejects
    assert inferred in (0, len(lines))  # CSV counts none
    return lines, rejects


def set_limit(patch: pytest.MonkeyPatch, limit: int) -> None:
    patch.setattr(format_module, "MAX_TEXT_BYTES", limit)


@pytest.mark.parametrize("suffix", ENCODINGS)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "text"])
@given(
    st.lists(st.sampled_from([20, 40, 300, LIMIT - 1, LIMIT, LIMIT + 1, LIMIT + 7, 5 * LIMIT]), max_size=12),
    st.integers(1, 3000),
    st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_any_block_size_leaves_out_the_same(
    tmp_path_factory: pytest.TempPathFactory, kind: str, suffix: str, sizes: list[int], block_size: int, ends: bool
) -> None:
    if kind == "jsonl" and suffix == ".utf16":  # which JSON is not
        suffix = ""
    data = b"".join(record(kind, size) for size in sizes)
    if sizes and not ends:
        data, sizes = data[:-1], [*sizes[:-1], sizes[-1] - 1]
    with pytest.MonkeyPatch.context() as patch:
        set_limit(patch, LIMIT)
        lines, rejects = read(tmp_path_factory.mktemp("long"), kind, data, suffix, block_size)

    step = 2 if kind == "csv" else 1
    starts = {1 + step * number: size for number, size in enumerate(sizes)}
    assert lines == [line for line, size in starts.items() if size <= LIMIT]
    assert [(reject.line, reject.reason) for reject in rejects] == [
        (
            line,
            f"a record of {size:,} bytes of text; expected 1,000 at most: is the end of a line, or a quote, missing?",
        )
        for line, size in starts.items()
        if size > LIMIT
    ]


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "text"])
def test_memory_is_bounded_by_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, suffix: str
) -> None:
    set_limit(monkeypatch, 4 << 20)
    data = record(kind, 20) + record(kind, 100_000_000) + record(kind, 20)
    tracemalloc.start()
    try:
        lines, rejects = read(tmp_path, kind, data, suffix, 1 << 20)
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        again = read_only(tmp_path, kind, suffix)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    step = 2 if kind == "csv" else 1
    assert (lines, [reject.line for reject in rejects]) == ([1, 1 + 2 * step], [1 + step])
    assert again == len(lines)
    assert peak - before < 20 << 20


def read_only(folder: Path, kind: str, suffix: str) -> int:
    """How many rows the file that `read` left has."""
    path = folder / f"file.{kind}{suffix}"
    format_ = format_of(kind, 1 << 20, "utf-8")
    blocks = format_.index(FileRef(path.name, str(path), path.stat().st_size))
    return sum(
        len(rows.lines) for block in blocks if isinstance(block, BlockRef) for rows in format_.read(block, TYPES)
    )
