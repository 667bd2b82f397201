"""Folders of Parquet files as other programs write them: Spark, pandas, Delta, Iceberg and Hudi."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.jobs import Jobs
from tests.support.later import Later
from tests.support.table_results import parquet

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
        ("Iceberg", "data/{}", "data"),
        ("Delta", "{}", "a.parquet"),
        ("Hudi", "day=2024-01-31/{}", "day=2024-01-31"),
        ("Iceberg", "day=2024-01-31/{}", "day=*/*.parquet"),
    ],
)
def test_a_table_whose_log_says_which_files_are_its_own(jobs: Jobs, name: str, place: str, pattern: str) -> None:
    jobs.write({f"t/{file}": data for file, data in LOGS[name].items()})
    jobs.write({f"t/{place.format(file)}": data for file, data in (("a.parquet", OLD), ("b.parquet", NEW))})
    line = f"parquet --input in/t/{pattern}".rstrip("/")

    jobs.refuse(line, f"in/t is a table of {name}…or give --exclude {EXCLUDED[name]} to read all files")
    rows = jobs.build(f"{line} --exclude {EXCLUDED[name]}").table.column("n")
    assert sorted(rows) == ([1, 2] if pattern == "a.parquet" else [1, 2, 3])


def test_folders_called_metadata_without_a_log(jobs: Jobs) -> None:
    files = {"metadata/a.parquet": OLD, "data/b.parquet": NEW, "metadata/x.json": b"{}"}
    assert sorted(jobs.build("parquet", files=files).table.column("n")) == [1, 2, 3]


def test_names_of_sparks_own(jobs: Jobs) -> None:
    """pyarrow and Spark leave out names that begin with _ or a dot, except for partitions."""
    files = {
        "part-0.parquet": OLD,
        "_day=1/part-1.parquet": NEW,
        "_SUCCESS": b"",
        "_common_metadata": b"PAR1",
        ".part-0.parquet.crc": b"crc",
        "_temporary/0/part-2.parquet": parquet(pa.table({"n": [4]})),
        "_x.parquet": parquet(pa.table({"n": [5]})),
    }
    jobs.write(files)
    pq.write_metadata(pa.schema([("n", pa.int64())]), jobs.folder / "in/_metadata")

    built = jobs.build("parquet")

    assert sorted(built.table.column("n")) == [1, 2, 3]
    assert "passed over 5 internal files whose name begins with _, such as '_SUCCESS'" in built.notices
    assert jobs.build("parquet --input in/_x.parquet --output named").table.column("n") == [5]


def test_an_index_of_pandas(jobs: Jobs) -> None:
    jobs.write({"./": b""})
    pd.DataFrame({"n": [1, 2]}, index=[5, 7]).to_parquet(jobs.folder / "in/a.parquet")

    built = jobs.build("parquet")

    assert sorted((row["n"], row["__index_level_0__"]) for row in built.table.rows) == [(1, 5), (2, 7)]
    (notice,) = (notice for notice in built.notices if "index" in notice)
    said = "column '__index_level_0__' is the index of a pandas table; --drop __index_level_0__ leaves"
    assert notice.startswith(said)
    dropped = jobs.build("parquet --drop __index_level_0__ --output a").table
    renamed = jobs.build("parquet --rename __index_level_0__=index --output b").table
    assert (dropped.features, renamed.features) == ({"n": "int64"}, {"n": "int64", "index": "int64"})


def test_an_index_that_is_no_column(jobs: Jobs) -> None:
    jobs.write({"./": b""})
    pd.DataFrame({"n": [1, 2]}).to_parquet(jobs.folder / "in/a.parquet")
    index = pd.Index([8, 9], name="id")
    pd.DataFrame({"n": [3, 4]}, index=index).reset_index().to_parquet(jobs.folder / "in/b.parquet")
    assert sorted(jobs.build("parquet --only n").table.column("n")) == [1, 2, 3, 4]
