"""Folders of Parquet files as other programs write them: Spark, pandas, Delta, Iceberg and Hudi."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.command import Run, check_mistake, write_files
from tests.support.later import Later
from tests.support.table_results import convert, parquet

pd = Later("pandas")

OLD, NEW = parquet(pa.table({"n": [1, 2]})), parquet(pa.table({"n": [3]}))
ACTIONS = [{"add": {"path": "a.parquet"}}, {"remove": {"path": "a.parquet"}}, {"add": {"path": "b.parquet"}}]
LOGS = {
    "Delta": {
        "_delta_log/00000000000000000000.json": "\n".join(map(json.dumps, ACTIONS)).encode(),
        "_delta_log/00000000000000000010.checkpoint.parquet": parquet(pa.table({"add": [{"path": "b.parquet"}]})),
    },
    "Iceberg": {"metadata/v1.metadata.json": b"{}", "metadata/snap-1.avro": b"Obj\x01"},
    "Hudi": {".hoodie/hoodie.properties": b"hoodie.table.name=t"},
}
EXCLUDED = {"Delta": "_delta_log", "Iceberg": "metadata", "Hudi": ".hoodie"}


@pytest.mark.parametrize(
    ("name", "place", "pattern"),
    [
        *((name, "{}", "") for name in LOGS),
        *((name, "data/{}", "data") for name in LOGS),
        ("Delta", "{}", "*.parquet"),
        ("Delta", "{}", "a.parquet"),
        ("Delta", "day=2024-01-31/{}", ""),
        ("Hudi", "day=2024-01-31/{}", "day=2024-01-31"),
        ("Iceberg", "day=2024-01-31/{}", "day=*/*.parquet"),
    ],
)
def test_a_table_whose_log_says_which_files_are_its_own(
    tmp_path: Path, run: Run, name: str, place: str, pattern: str
) -> None:
    table = tmp_path / "tables/t"
    write_files(table, {place.format("a.parquet"): OLD, place.format("b.parquet"): NEW, **LOGS[name]})
    source = table / pattern if pattern else table
    given = ("parquet", "--input", source, "--output", tmp_path / "out", "--name", "n")

    check_mistake(run(*given), f"{table} is a table of {name}", f"or give --exclude {EXCLUDED[name]} to read all files")
    assert not (tmp_path / "out").exists()
    above = ("--input", tmp_path / "tables", *given[3:])
    check_mistake(run("parquet", *above), f"{table} is a table of {name}")

    rows = convert("parquet", source, tmp_path, "--exclude", EXCLUDED[name]).rows
    assert sorted(row["n"] for row in rows) == ([1, 2] if pattern == "a.parquet" else [1, 2, 3])


def test_folders_called_metadata_without_a_log(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"metadata/a.parquet": OLD, "data/b.parquet": NEW, "metadata/x.json": b"{}"})
    assert sorted(row["n"] for row in convert("parquet", source, tmp_path).rows) == [1, 2, 3]


def test_names_of_sparks_own(tmp_path: Path) -> None:
    """pyarrow and Spark leave out names that begin with _ or a dot, except for partitions."""
    source = write_files(
        tmp_path / "in",
        {
            "part-0.parquet": OLD,
            "_day=1/part-1.parquet": NEW,
            "_SUCCESS": b"",
            "_common_metadata": b"PAR1",
            ".part-0.parquet.crc": b"crc",
            "_temporary/0/part-2.parquet": parquet(pa.table({"n": [4]})),
            "_x.parquet": parquet(pa.table({"n": [5]})),
        },
    )
    pq.write_metadata(pa.schema([("n", pa.int64())]), source / "_metadata")

    table = convert("parquet", source, tmp_path)

    assert sorted(row["n"] for row in table.rows) == [1, 2, 3]
    said = "passed over 5 internal files whose name begins with _, such as '_SUCCESS'"
    assert said in table.dataset.manifest.notices
    named = convert("parquet", source / "_x.parquet", tmp_path / "named")
    assert [row["n"] for row in named.rows] == [5]


def test_an_index_of_pandas(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pd.DataFrame({"n": [1, 2]}, index=[5, 7]).to_parquet(tmp_path / "in/a.parquet")

    table = convert("parquet", tmp_path / "in", tmp_path)

    assert sorted((row["n"], row["__index_level_0__"]) for row in table.rows) == [(1, 5), (2, 7)]
    (notice,) = (notice for notice in table.dataset.manifest.notices if "index" in notice)
    assert notice.startswith(
        "column '__index_level_0__' is the index of a pandas table; --drop __index_level_0__ leaves"
    )
    dropped = convert("parquet", tmp_path / "in", tmp_path / "a", "--drop", "__index_level_0__")
    renamed = convert("parquet", tmp_path / "in", tmp_path / "b", "--rename", "__index_level_0__=index")
    assert (dropped.features, renamed.features) == ({"n": "int64"}, {"n": "int64", "index": "int64"})


def test_an_index_that_is_no_column(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pd.DataFrame({"n": [1, 2]}).to_parquet(tmp_path / "in/a.parquet")
    pd.DataFrame({"n": [3, 4]}, index=pd.Index([8, 9], name="id")).reset_index().to_parquet(tmp_path / "in/b.parquet")
    table = convert("parquet", tmp_path / "in", tmp_path, "--only", "n")
    assert sorted(row["n"] for row in table.rows) == [1, 2, 3, 4]
