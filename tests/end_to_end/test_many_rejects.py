"""Rejects that are too many to travel: in one order however the input is cut, and nothing of them is left behind."""

import json
from pathlib import Path

import pytest

from tests.support.command import Run, write_files
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
