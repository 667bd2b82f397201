"""One rule for values: what true is beside a number, and what becomes of a number beyond float32, is the same by every
route."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardmill.data.features import Feature
from tests.support.command import Run, image, write_files
from tests.support.table_results import Table, read_table

# In the last row, a number that float32 does not hold.
ROWS: list[dict[str, Any]] = [
    {"flag": True, "mixed": True, "real": True, "size": 0.5},
    {"flag": False, "mixed": 1, "real": 0.5, "size": 1e38},
    {"flag": True, "mixed": 0, "real": 2.5, "size": 1e39},
]


def _csv(rows: list[dict[str, Any]]) -> bytes:
    return "".join(f"{','.join(map(str, values))}\n" for values in (rows[0], *(row.values() for row in rows))).encode()


def _jsonl(rows: list[dict[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def _parquet(row: dict[str, Any]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({name: [value] for name, value in row.items()}), sink)
    return sink.getvalue().to_pybytes()


def _manifest_rows(**more: list[Any]) -> list[dict[str, Any]]:
    added = [{name: values[number] for name, values in more.items()} for number in range(len(ROWS))]
    return [{"file_name": f"{number}.jpg", **row, **added[number]} for number, row in enumerate(ROWS)]


def _convert(run: Run, command: str, flag: str, source: Path, output: Path) -> Table:
    result = run(command, flag, source, "--output", output, "--name", "n", "--max_reject_fraction", "1")
    assert result.status == 0, result.err
    return read_table(output / "n")


def _check(table: Table) -> None:
    features = {feature.name: feature for feature in table.dataset.manifest.features}
    assert (features["flag"].dtype, features["flag"].kind) == ("int64", "bool")
    assert [(features[name].dtype, features[name].shape) for name in ("mixed", "real", "size")] == [
        ("bytes", ()),
        ("bytes", ()),
        ("float32", ()),
    ]
    rows = sorted((row["flag"], row["mixed"].lower(), row["real"].lower()) for row in table.rows)
    assert rows == [(0, b"1", b"0.5"), (1, b"true", b"true")]
    (reject,) = table.rejects()
    assert reject["reason"].startswith("column 'size': ")
    assert reject["reason"].endswith(" is beyond the range of float32")


@pytest.mark.parametrize("command", ["csv", "jsonl", "parquet"])
def test_values_of_tables(run: Run, command: str, tmp_path: Path) -> None:
    files = {"csv": {"a.csv": _csv(ROWS)}, "jsonl": {"a.jsonl": _jsonl(ROWS)}}
    parquet = {f"{number}.parquet": _parquet(row) for number, row in enumerate(ROWS)}
    source = write_files(tmp_path / "in", files.get(command, parquet))
    _check(_convert(run, command, "--input", source, tmp_path / "out"))


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_values_of_manifests(run: Run, suffix: str, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {f"{number}.jpg": image(number) for number in range(3)})
    (folder / f"m.{suffix}").write_bytes((_csv if suffix == "csv" else _jsonl)(_manifest_rows()))
    _check(_convert(run, "images", "--manifest", folder / f"m.{suffix}", tmp_path / "out"))


def test_lists_of_manifests(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {f"{number}.jpg": image(number) for number in range(3)})
    lists: dict[str, list[Any]] = {
        "flags": [[True], [], [False, True]],
        "words": [[True, 1], [2], []],
        "box": [[0.5, 1], [0, 1e39], [2, 3]],
    }
    rows = [{**row, "size": 1} for row in _manifest_rows(**lists)]
    lines = _jsonl(rows).replace(b'"file_name": "2.jpg"', b'"more": -1e400, "file_name": "2.jpg"')
    (folder / "m.jsonl").write_bytes(lines)
    table = _convert(run, "images", "--manifest", folder / "m.jsonl", tmp_path / "out")

    features = {feature.name: feature for feature in table.dataset.manifest.features}
    assert features["flags"] == Feature("flags", "int64", "bool", (None,))
    assert [row["words"] for row in table.rows] == [[b"true", b"1"]]
    assert sorted(reject["reason"] for reject in table.rejects()) == [
        "-1e400 is beyond the range of float32",
        "column 'box': 1e+39 is beyond the range of float32",
    ]
