"""What cannot be read is counted: by the arithmetic, and end to end over every route whose records lie inside files."""

import bz2
import gzip
import io
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from shardmill.data import tfrecord
from shardmill.metadata.manifest import Reject
from shardmill.transforms.formats.format import compressed_damage, reject_file
from shardmill.transforms.stores.streams import TruncatedError, open_decompressed
from shardmill.transforms.workers.rejects import Losses
from tests.support.command import Result, Run, write_files
from tests.support.encoded import encode_example
from tests.support.table_results import Table, check_consistent, convert, parquet, read_table

BAD = Reject("a.csv", 3, "read", "the row has 2 fields")
GROUP = Reject("b.parquet", 101, "read", "row group 1", 900, 5000)
REST = Reject("c.csv.gz", 41, "read", "damaged", 60, 700, "estimated")
CUT = Reject("d.csv.gz", 7, "read", "ends too early", 1, 0, "at least")


def test_only_what_is_more_than_a_record_is_a_loss() -> None:
    assert BAD.to_json() == {"source": "a.csv", "line": 3, "stage": "read", "reason": "the row has 2 fields"}
    position = {"source": "c.csv.gz", "line": 41, "stage": "read", "reason": "damaged"}
    assert REST.to_json() == {**position, "records": 60, "size_bytes": 700, "count": "estimated"}
    assert [reject.is_loss for reject in (BAD, GROUP, REST, CUT, reject_file("e", 9, "no"))] == [False, *[True] * 4]


@pytest.mark.parametrize(
    ("error", "size", "read", "expected"),
    [
        (TruncatedError("x", good_bytes=1000, decompressed_bytes=9000), 4000, 50, (150, 3000, "estimated")),
        (TruncatedError("x", good_bytes=3999, decompressed_bytes=9000), 4000, 50, (1, 1, "estimated")),
        (TruncatedError("x", good_bytes=4000, decompressed_bytes=8000, is_cut=True), 4000, 50, (1, 0, "at least")),
        (TruncatedError("x", 4000, 8000, promised_bytes=20_000, is_cut=True), 4000, 50, (75, 0, "estimated")),
        (TruncatedError("x", good_bytes=0, decompressed_bytes=0), 4000, 0, (None, 4000, "estimated")),
        (TruncatedError("x", is_cut=True), 4000, 0, (None, 4000, "at least")),
    ],
)
def test_the_rest_of_a_compressed_file(
    error: TruncatedError, size: int, read: int, expected: tuple[object, ...]
) -> None:
    reject = compressed_damage(error, size).make_reject("a", 1, "x", read, size)
    assert (reject.records, reject.size_bytes, reject.count) == expected


@pytest.mark.parametrize(
    ("suffix", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("zst", zstandard.compress)]
)
def test_how_far_compressed_data_could_be_read(tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]) -> None:
    contents = np.random.default_rng(0).bytes(3_000_000)
    data = compress(contents)
    damaged = [("cut", data[: len(data) // 2], True), ("flipped", flipped(data, len(data) // 2), False)]
    for name, stored, is_cut in damaged[: 1 if suffix == "zst" else 2]:
        (tmp_path / name).write_bytes(stored)
        with open_decompressed(str(tmp_path / name), f"a.{suffix}") as stream, pytest.raises(TruncatedError) as raised:
            stream.readlines()
        error = raised.value
        assert error.is_cut == is_cut
        # Bytes that are not compressed break no stream
        assert abs(error.good_bytes - len(data) // 2) < 1 << 20 or not is_cut
        assert error.decompressed_bytes <= len(contents)
        assert error.promised_bytes == (len(contents) if is_cut and suffix == "zst" else 0)


# End to end.

ROWS = 3_000
LINES = {"csv": b"%d,%x\n", "jsonl": b'{"id": %d, "name": "%x"}\n', "text": b"%d %x\n"}
SUFFIXES = {"csv": "csv", "jsonl": "jsonl", "text": "txt", "reshard": "tfrecord"}
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "zst": zstandard.compress}


def flipped(data: bytes, at: int) -> bytes:
    """`data` with 16 bytes changed."""
    return data[:at] + bytes(byte ^ 0x5A for byte in data[at : at + 16]) + data[at + 16 :]


def content(route: str, file: int, rows: int = ROWS) -> bytes:
    """A file of `rows` records whose ids begin with those of file number `file`."""
    pairs = [(n, n * 2654435761 % 2**32) for n in range(file * ROWS, file * ROWS + rows)]
    if route == "reshard":
        return b"".join(tfrecord.frame_record(encode_example({"id": [n], "name": [b"%x" % name]})) for n, name in pairs)
    return (b"id,name\n" if route == "csv" else b"") + b"".join(LINES[route] % pair for pair in pairs)


def check_fails_then_passes(run: Run, folder: Path, tmp_path: Path, route: str, *words: str) -> Table:
    """A job that fails by default and says what is lost, and publishes the rest where that is allowed."""
    flags = ("--max_reject_fraction", "0.9", "--no_shuffle")
    failed: Result = run(route, "--input", folder, "--output", tmp_path / "out", "--name", "n", *flags)
    assert failed.status == 1
    for word in (*words, "--on_damaged_file reject", "nothing was published", "1.0.0-rejects.jsonl"):
        assert word in failed.err
    assert not list((tmp_path / "out").rglob("_SUCCESS"))
    table = convert(route, folder, tmp_path / "out", *flags, "--on_damaged_file", "reject")
    check_consistent(table)
    assert json.loads((table.directory / "manifest.json").read_text())["configuration"]["on_damaged_file"] == "reject"
    return table


def file_of(row: dict[str, Any]) -> int:
    """Which of some files of ROWS rows a row is of, by its number; -1 where that is damaged."""
    number = row["id"] if "id" in row else row["text"].split()[0]
    return int(number) // ROWS if isinstance(number, int) or number.isdigit() else -1


@pytest.mark.parametrize("route", SUFFIXES)
def test_compressed_files_that_are_cut_or_damaged(run: Run, tmp_path: Path, route: str) -> None:
    """Zstandard has no checksum as it is written by default, so damage may be other values, and nobody can tell."""
    name, compressors = SUFFIXES[route], ("gz",) if route == "reshard" else ("gz", "bz2", "zst")
    files, cut = {f"10.{name}": content(route, 100)}, dict[str, tuple[int, int]]()
    for file, suffix in enumerate(compressors, 11):
        size = 6 * ROWS if suffix == "zst" else ROWS  # Zstandard gives 128 KiB out at once
        data = COMPRESSORS[suffix](content(route, 10 * file, size))
        cut[f"{file}.{name}.{suffix}"] = 10 * file, size
        files[f"{file}.{name}.{suffix}"] = data[: len(data) * 2 // 3]
    for file, suffix in enumerate(compressors[:2], 15):
        data = COMPRESSORS[suffix](content(route, 10 * file))
        files[f"{file}.{name}.{suffix}"] = flipped(data, len(data) * 2 // 3)
    table = check_fails_then_passes(
        run, write_files(tmp_path / "in", files), tmp_path, route, "about ", "such as ", "nobody knows"
    )
    kept = Counter(file_of(row) // 10 for row in table.rows)  # what damage makes of a number is lower
    assert kept[10] == ROWS
    assert kept[11]  # of gzip, a part was read
    rejects = {reject["source"]: reject for reject in table.rejects() if "records" in reject}
    assert rejects.keys() == files.keys() - {f"10.{name}"}
    for source, (file, size) in cut.items():
        reject, lost = rejects.pop(source), size - kept[file // 10]
        assert lost > 0
        assert "data ends too early" in reject["reason"]
        if source.endswith("zst"):  # whose header promises so many bytes
            assert reject["count"] == "estimated"
            assert 0.9 * lost < reject["records"] < 1.1 * lost
        else:
            assert (reject["count"], reject["records"] == 1 or not kept[file // 10]) == ("at least", True)
    assert all(reject["count"] == "estimated" and reject["size_bytes"] > 1000 for reject in rejects.values())
    lost = len(rejects) * ROWS - (len(table.rows) - sum(kept[file] for file in (10, 11, 12, 13)))
    assert lost / 3 < sum(reject["records"] for reject in rejects.values()) < 3 * lost
    told = table.dataset.manifest.rejects["lost"]
    losses = Losses(len(files) - 1, told["records"], told["size_bytes"], min(len(compressors), 2), True)
    assert told["records"] == sum(reject.get("records", 0) for reject in table.rejects())
    assert told["uncounted_files"] == losses.uncounted_files
    assert str(losses) in table.dataset.manifest.notices


def test_a_row_group_that_is_damaged_is_counted_row_by_row(run: Run, tmp_path: Path) -> None:
    numbers = np.random.default_rng(0)
    rows = {"x": numbers.random(ROWS), "y": numbers.integers(0, 1 << 60, ROWS)}
    data = parquet(pa.table(rows), row_group_size=ROWS // 2, write_page_checksum=True)
    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(1)
    at = group.column(0).data_page_offset + group.column(0).total_compressed_size // 2
    folder = write_files(tmp_path / "in", {"a.parquet": data, "b.parquet": flipped(data, at)})
    command = ("parquet", "--input", folder, "--output", tmp_path / "out", "--name", "n")
    failed = run(*command)
    assert failed.status == 1
    assert f"{ROWS // 2} of {2 * ROWS} records were rejected, more than --max_reject_fraction 0.01 allows" in failed.err
    result = run(*command, "--max_reject_fraction", "0.25")  # known for certain, so no other flag is needed
    assert result.status == 0
    assert f"{ROWS // 2:,} of {2 * ROWS:,} records rejected" in result.out
    assert f"NOTE: {ROWS // 2:,} records in 1 damaged file cannot be read, " in result.out
    table = read_table(tmp_path / "out/n")
    check_consistent(table)
    assert run("verify", table.directory).status == 0
    (reject,) = table.rejects()
    assert (reject["records"], reject["count"], reject["line"]) == (ROWS // 2, "exact", ROWS // 2 + 1)
    size = sum(group.column(index).total_compressed_size for index in range(group.num_columns))
    assert reject["size_bytes"] == size
    assert table.dataset.manifest.rejects["lost"] == {
        "files": 1, "records": ROWS // 2, "size_bytes": size, "uncounted_files": 0, "estimated": False,
    }  # fmt: skip


def test_a_parquet_file_without_its_footer_is_estimated_by_the_others(run: Run, tmp_path: Path) -> None:
    data = parquet(pa.table({"x": np.random.default_rng(0).random(ROWS)}))
    folder = write_files(tmp_path / "in", {"a.parquet": data, "b.parquet": data[: len(data) // 2]})
    table = check_fails_then_passes(
        run, folder, tmp_path, "parquet", "b.parquet", "about ", f"{len(data) // 2:,} bytes"
    )
    (reject,) = table.rejects()
    assert abs(reject["records"] - ROWS // 2) < ROWS // 100
    assert (reject["size_bytes"], reject["count"]) == (len(data) // 2, "estimated")
    refused = run("parquet", "--input", folder, "--output", tmp_path, "--name", "n", "--on_damaged_file", "reject")
    assert refused.status == 1
    assert f"{reject['records']} of {ROWS + reject['records']} records were rejected, more than --max" in refused.err


def test_a_file_that_is_not_there(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"a.csv": content("csv", 0)})
    os.symlink("nowhere", folder / "b.csv")
    failed = run("csv", "--input", folder, "--output", tmp_path / "out", "--name", "n", "--max_reject_fraction", "0.9")
    assert failed.status == 1
    for word in ("at least 1 record", "'b.csv': dangling", "--on_damaged_file reject"):
        assert word in failed.err
