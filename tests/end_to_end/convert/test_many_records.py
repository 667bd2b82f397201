"""Rejects that are too many to travel, the limit of rejects, and very many lines of a byte or four: what is kept of
each must not add up."""

import gzip
import json
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.findings import PassedOver
from shardmill.transforms.formats import format as blocks
from shardmill.transforms.formats.csv import CsvFormat
from shardmill.transforms.formats.format import FileRef, RecordFormat, Rows
from shardmill.transforms.formats.json_lines import JsonLinesFormat
from shardmill.transforms.formats.lines import LinesFormat
from tests.support.command import Run, image_tree, write_files
from tests.support.detection import Thing, scenes, write_coco
from tests.support.table_results import convert

SCHEMA = "".join(
    f'feature {{ name: "{name}" type: INT presence {{ min_fraction: 1 }} shape {{}} }}\n' for name in ("x", "y")
)
ROWS = "".join(f"{n if n % 4 == 0 else f'v{n}'},{n}\n" for n in range(4000))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("rejects")
    write_files(root / "in", {name: f"x,y\n{ROWS}".encode() for name in ("a.csv", "b.csv")})
    (root / "schema.pbtxt").write_text(SCHEMA)
    return root


def test_their_order_is_that_of_the_input(folder: Path, tmp_path: Path) -> None:
    flags = ("--schema", folder / "schema.pbtxt", "--max_reject_fraction", 1)
    whole = convert("csv", folder / "in", tmp_path / "whole", *flags)
    pieces = convert("csv", folder / "in", tmp_path / "pieces", *flags, "--block_size", 4096)
    (file,), (other,) = whole.directory.glob("rejects/*"), pieces.directory.glob("rejects/*")
    assert file.read_bytes() == other.read_bytes()
    found = [(reject["source"], reject["line"]) for reject in whole.rejects()]
    assert found == [(name, n + 2) for name in ("a.csv", "b.csv") for n in range(4000) if n % 4]
    assert whole.dataset.manifest.rejects["records"] == len(found)
    assert sum(whole.dataset.manifest.rejects["reasons"].values()) == 200  # a hundred of two each
    assert {path.name for path in (tmp_path / "pieces" / "n").iterdir()} == {"1.0.0", "LATEST", "builds"}


def test_a_job_that_fails_for_them_leaves_them_in_a_file(folder: Path, tmp_path: Path, run: Run) -> None:
    arguments = ("csv", "--input", folder / "in", "--output", tmp_path, "--name", "n")
    result = run(*arguments, "--schema", folder / "schema.pbtxt")
    assert result.status == 1
    assert result.err.startswith(
        "shardmill: error: 6000 of 8000 records were rejected, more than --max_reject_fraction"
    )
    assert "most often (2 times): column 'x': 'v1' is not an integer (int64), such as 'a.csv'" in result.err
    lines = (tmp_path / "n" / "1.0.0-rejects.jsonl").read_text().splitlines()
    assert [json.loads(line)["line"] for line in lines[:3]] == [3, 4, 5]
    assert len(lines) == 6000


def small_input(route: str, folder: Path, bad: int) -> tuple[object, ...]:
    """Write 60 records, of which the first `bad` are rejects; return the arguments that read them."""
    if route == "csv":
        write_files(folder, {"a.csv": b"x\n" + b"".join(b"bad\n" if n < bad else b"%d\n" % n for n in range(60))})
        return "csv", "--input", folder, "--types", "x=int64"
    if route == "images":
        tree = image_tree(["cat", "dog"], 30)
        write_files(folder, {name: b"text" if n < bad else data for n, (name, data) in enumerate(tree.items())})
        return "images", "--input", folder
    outside = (Thing("red", (900, 0, 5, 5)),)
    drawn = [replace(scene, things=outside) if n < bad else scene for n, scene in enumerate(scenes(60))]
    return "images", "--coco", write_coco(folder, drawn)


@pytest.mark.parametrize("route", ["csv", "coco"])
def test_three_rejects_of_sixty_are_allowed_and_the_message_names_what_goes_on(
    run: Run, tmp_path: Path, route: str
) -> None:
    arguments = (*small_input(route, tmp_path / "in", 3), "--output", tmp_path, "--name", "n")
    result = run(*arguments, "--max_reject_fraction", 0.04)
    assert result.status == 1
    assert "3 of 60 records were rejected, more than --max_reject_fraction 0.04 allows" in result.err
    assert run(*arguments).status == 0
    manifest = json.loads((tmp_path / "n" / "1.0.0" / "manifest.json").read_text())
    assert manifest["rejects"]["records"] == 3

    arguments = (*small_input(route, tmp_path / "more", 4), "--output", tmp_path, "--name", "n", "--overwrite")
    result = run(*arguments)
    assert result.status == 1
    assert "4 of 60 records were rejected, more than --max_reject_fraction 0.01 allows" in result.err
    named = re.findall(r"; (--\w+) (\S+) ", result.err)
    assert named == [("--on_bad_box", "drop")] * (route == "coco") + [("--max_reject_fraction", "0.07")]
    for flags in named:
        result = run(*arguments, *flags)
        assert result.status == 0, result.err


@pytest.mark.parametrize(("good", "status"), [(3, 1), (4, 0)])
def test_half_of_the_records_is_too_much(run: Run, tmp_path: Path, good: int, status: int) -> None:
    (tmp_path / "a.jsonl").write_text("{\n" * 3 + '{"x": 1}\n' * good)
    assert run("jsonl", "--input", tmp_path / "a.jsonl", "--output", tmp_path, "--name", "n").status == status


def test_nothing_but_rejects_is_no_data_set_and_no_limit_helps(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{\n{\n")
    result = run("jsonl", "--input", tmp_path / "a.jsonl", "--output", tmp_path, "--name", "n")
    assert result.status == 1
    assert "--max_reject_fraction" not in result.err


BLOCK = 16 << 20
# The format, a header, a row, its types
FORMATS: dict[str, tuple[RecordFormat, bytes, bytes, dict[str, ColumnType]]] = {
    "csv": (CsvFormat(block_size=BLOCK), b"a,b\n", b"0,0\n", {"a": ColumnType("int64", None, 0)}),
    "jsonl": (JsonLinesFormat(BLOCK // 8), b"", b'{"a":0}\n', {"a": ColumnType("int64", None, 0)}),
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
    monkeypatch.setattr(blocks, "MAX_LINES", 1000)
    _, header, row, _ = FORMATS[kind]
    found = rows_of(tmp_path, kind, header + row * 50_000, suffix)

    first = 1 + header.count(b"\n")
    assert [line for rows in found for line in rows.lines.tolist()] == list(range(first, first + 50_000))
    most = 1000 if kind != "jsonl" else 1000 + (64 << 10) // len(row)  # JSON is parsed 64 KiB at once
    assert max(len(rows.lines) for rows in found) <= most


@pytest.mark.parametrize("kind", FORMATS)
def test_blank_lines_take_no_memory_each(tmp_path: Path, kind: str) -> None:
    _, header, row, _ = FORMATS[kind]
    smaller = 8 if kind == "jsonl" else 1  # Python sees each of its lines
    blank = 10_000_000 // smaller
    data = header + row + b"\n" * blank + row
    tracemalloc.start()
    try:
        found = rows_of(tmp_path, kind, data, ".gz")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    lines = [line for rows in found for line in rows.lines.tolist()]
    first = 1 + header.count(b"\n")
    assert (lines, sum(rows.findings.find(PassedOver).counts.get("blank line", 0) for rows in found)) == (
        [first, first + 1 + blank],
        blank,
    )
    assert peak < 5 * BLOCK // smaller
