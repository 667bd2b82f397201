"""Files and records that are too large for the memory of a worker, and records whose text is too long: they are left
out as soon as that is known, what their reason advises reads them, and those after them are read."""

import codecs
import gzip
import io
import re
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data.tfrecord import frame_record
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats import format as format_module
from shardmill.transforms.formats.csv import CsvFormat
from shardmill.transforms.formats.format import BlockRef, FileRef, RecordFormat
from shardmill.transforms.formats.json_lines import JsonLinesFormat
from shardmill.transforms.formats.lines import LinesFormat
from shardmill.transforms.stores.clients import set_options
from shardmill.transforms.workers.resources import find_memory_problem
from tests.support.archives import tar
from tests.support.command import npy
from tests.support.encoded import encode_example
from tests.support.jobs import Jobs

LARGE = 40 << 20  # of three copies more than the 64 MiB that are taken even of the smallest memory


def _arrays() -> dict[str, bytes]:
    sizes = {"a/0.npy": 5, "a/1.npy": LARGE, "a/2.npy": 7}
    return {name: npy(np.arange(size, dtype=np.uint8)) for name, size in sizes.items()}


def _zipped() -> dict[str, bytes]:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in _arrays().items():
            archive.writestr(name, data)
    return {"a.zip": out.getvalue()}


def _records() -> dict[str, bytes]:
    values = [b"a", b"x" * LARGE, b"b"]
    return {"a.tfrecord": b"".join(frame_record(encode_example({"v": [value]})) for value in values)}


def _text(suffix: str, *lines: bytes) -> dict[str, bytes]:
    return {f"a.{suffix}.gz": gzip.compress(b"".join(line + b"\n" for line in lines), 1)}


LONG = b"x" * (9 << 20)  # of fourteen copies, too
ROUTES: Mapping[str, tuple[str, Callable[[], dict[str, bytes]]]] = {
    "arrays": ("arrays --shape None --dtype uint8", _arrays),
    "zip": ("arrays --input in/a.zip --shape None --dtype uint8", _zipped),
    "tar": ("webdataset", lambda: {"a.tar": tar([("0.txt", b"a"), ("1.txt", b"x" * LARGE), ("2.txt", b"b")])}),
    "tfrecord": ("reshard", _records),
    "csv": ("csv", lambda: _text("csv", b"v", b"a", LONG, b"b")),
    "jsonl": ("jsonl", lambda: _text("jsonl", b'{"v": "a"}', b'{"v": "%s"}' % LONG, b'{"v": "b"}')),
}


@pytest.fixture(autouse=True)
def usual_options() -> Iterator[None]:
    """Forget the memory of a job, which the process keeps."""
    yield
    set_options(None)


@pytest.mark.parametrize("route", list(ROUTES))
def test_what_does_not_fit_into_memory_is_a_reject(route: str, jobs: Jobs) -> None:
    line, make = ROUTES[route]
    flags = "--on_damaged_file reject --max_reject_fraction 0.9 --worker_memory 330MiB"
    made = jobs.build(f"{line} {flags}", files=make())
    (reject,) = made.rejects
    advice = re.search(r"--worker_memory (\d+MiB)", reject["reason"])
    assert advice is not None, reject
    assert reject.get("records", 1) == 1
    assert sum(split.examples for split in made.manifest.splits) == 2
    made = jobs.build(f"{line} --version 2.0.0 --worker_memory {advice[1]}")
    assert sum(split.examples for split in made.manifest.splits) == 3


def test_small_files_need_no_look_at_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmill.transforms.workers.resources.most_bytes", lambda copies: 1)
    assert find_memory_problem(20 << 20, 3) == ""
    assert find_memory_problem(30 << 20, 3) != ""


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


@pytest.mark.parametrize(("kind", "suffix"), [("csv", ""), ("csv", ".gz"), ("jsonl", ".gz"), ("text", ".gz")])
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
    """Count the rows of the file that `read` left."""
    path = folder / f"file.{kind}{suffix}"
    format_ = format_of(kind, 1 << 20, "utf-8")
    blocks = format_.index(FileRef(path.name, str(path), path.stat().st_size))
    return sum(
        len(rows.lines) for block in blocks if isinstance(block, BlockRef) for rows in format_.read(block, TYPES)
    )
