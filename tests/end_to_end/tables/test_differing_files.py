"""Files of one folder that differ: in their columns, and in the types of one column; empty files among them."""

import gzip
from typing import Any

import pyarrow as pa
import pytest

from tests.support.jobs import Jobs
from tests.support.table_results import check_consistent, encode_rows, parquet


@pytest.mark.parametrize("command", ["csv", "parquet"])
def test_columns_that_some_files_lack(jobs: Jobs, command: str) -> None:
    files = {
        f"a.{command}": encode_rows(command, [{"n": 1, "b": "x", "c": 1.5}, {"n": 2, "b": "y", "c": 2.5}]),
        f"b.{command}": encode_rows(command, [{"d": 7, "n": 3, "c": 3.5}]),
        f"c.{command}": encode_rows(command, [{"c": 4.5, "n": 4, "e": 7}]),
    }
    said = f"headers differ: 'b.{command}' lacks 'b' and has 'd' in addition to what 'a.{command}' has"
    remedies = "; --drop b,d,e leaves these columns out…; --on_other_columns union takes"
    jobs.refuse(command, f"{said}…{remedies}", files=files)
    for flags in ("--drop b,d,e", "--only n,c"):
        rows = jobs.build(f"{command} --overwrite {flags}").table.rows
        assert sorted(rows, key=lambda row: row["n"]) == [{"n": n, "c": n + 0.5} for n in (1, 2, 3, 4)]


def three_files(command: str) -> dict[str, bytes]:
    """Two files of equal columns in another order, and between them one with another column."""
    return {
        f"a.{command}": encode_rows(command, [{"n": 1, "b": "x", "c": 1.5}, {"n": 2, "b": "y", "c": 2.5}]),
        f"b.{command}": encode_rows(command, [{"d": 7, "n": 3, "c": 3.5}, {"d": 8, "n": 4, "c": 4.5}]),
        f"c.{command}": encode_rows(command, [{"c": 5.5, "b": "z", "n": 5}]),
    }


@pytest.mark.parametrize("command", ["csv", "avro"])
def test_the_union_of_columns(jobs: Jobs, command: str) -> None:
    made = jobs.build(f"{command} --on_other_columns union", files=three_files(command))
    assert sorted(made.table.rows, key=lambda row: row["n"]) == [
        {"n": 1, "b": b"x", "c": 1.5},
        {"n": 2, "b": b"y", "c": 2.5},
        {"n": 3, "d": 7, "c": 3.5},
        {"n": 4, "d": 8, "c": 4.5},
        {"n": 5, "b": b"z", "c": 5.5},
    ]
    assert made.table.features == {"n": "int64", "b": "bytes?", "c": "float32", "d": "int64?"}
    assert made.manifest.configuration["on_other_columns"] == "union"
    filled = jobs.build(f"{command} --on_other_columns union --fill d=-1 --overwrite").table
    assert sorted(filled.column("d")) == [-1, -1, -1, 7, 8]


@pytest.mark.parametrize("suffix", ["csv.gz", "parquet"])
def test_files_with_other_columns_than_most_are_rejected(jobs: Jobs, suffix: str) -> None:
    command = suffix.removesuffix(".gz")
    files = three_files(command)
    if suffix == "csv.gz":
        files = {f"{name}.gz": gzip.compress(content) for name, content in files.items()}

    made = jobs.build(f"{command} --on_other_columns reject --max_reject_fraction 0.4", files=files)

    assert sorted(made.table.column("n")) == [1, 2, 5]
    assert made.table.features == {"n": "int64", "b": "bytes", "c": "float32"}
    (reject,) = made.rejects
    found = (reject["source"], reject["stage"], reject["records"], reject["count"])
    assert found == (f"b.{suffix}", "columns", 2, "exact")
    assert reject["reason"] == f"lacks 'b' and has 'd' in addition to what most files have, such as 'a.{suffix}'"
    assert made.manifest.rejects["records"] == 2
    assert made.manifest.input["records"] == 5
    check_consistent(made.table)
    sentence = f"2 of 5 records were rejected…such as 'b.{suffix}'"
    jobs.fail(f"{command} --on_other_columns reject --max_reject_fraction 0.3 --output other", sentence)


def test_no_columns_are_those_of_most_files(jobs: Jobs) -> None:
    files = {name: data for name, data in three_files("csv").items() if name != "c.csv"}
    sentence = "1 file has the columns of 'a.csv', and as many those of 'b.csv', which lacks 'b' and has"
    jobs.refuse("csv --on_other_columns reject", sentence, files=files)
    assert len(jobs.build("csv --on_other_columns reject --exclude b.csv").table.rows) == 2


@pytest.mark.parametrize("flags", ["--drop b,d", "--only n,c"])
def test_dropped_columns_do_not_differ(jobs: Jobs, flags: str) -> None:
    made = jobs.build(f"csv --on_other_columns reject {flags}", files=three_files("csv"))
    assert sorted(made.table.column("n")) == [1, 2, 3, 4, 5]


def test_large_files_with_other_columns(jobs: Jobs) -> None:
    """Each file has several blocks; quoted line ends and bad rows are counted as rows."""
    rows = "".join(f'{number},"a\nb"\n' for number in range(2_000))
    files = {f"{name}.csv": f"n,{name[:1]}\n{rows}1,2,3\n" for name in ("x1", "x2", "y")}
    made = jobs.build("csv --on_other_columns reject --max_reject_fraction 0.5 --block_size 4KiB", files=files)
    assert len(made.table.rows) == 4_000
    assert sum(reject["records"] for reject in made.rejects if reject["source"] == "y.csv") == 2_001
    assert made.manifest.rejects["records"] == 2_003


@pytest.mark.parametrize(
    ("one", "other", "values", "said"),
    [
        (pa.array([1]), pa.array(["x"]), {b"1", b"x"}, "integers in 'a.parquet' and texts in 'b.parquet', and"),
        (pa.array([1]), pa.array([0.5]), {1.0, 0.5}, "integers in 'a.parquet' and floats in 'b.parquet'"),
        (pa.array([True]), pa.array([2]), {b"true", b"2"}, "booleans in 'a.parquet' and integers in 'b.parquet'"),
        (pa.array([1], pa.date32()), pa.array(["2024"]), {b"1970-01-02", b"2024"}, "dates in 'a.parquet' and texts in"),
        (pa.array([1], pa.int32()), pa.array([1 << 40]), {1, 1 << 40}, ""),
        (pa.array(["a"]), pa.array(["b"]).dictionary_encode(), {b"a", b"b"}, ""),
        (pa.array([1]), pa.nulls(1), {1}, ""),
    ],
)  # fmt: skip
def test_types_that_differ_between_files(
    jobs: Jobs, one: pa.Array, other: pa.Array, values: set[Any], said: str
) -> None:
    files = {f"{name}.parquet": parquet(pa.table({"x": x, "n": [1]})) for name, x in (("a", one), ("b", other))}
    made = jobs.build("parquet", files=files)
    assert set(made.table.column("x")) == values
    notices = [notice for notice in made.notices if "column 'x' has " in notice and " in '" in notice]
    assert len(notices) == bool(said)
    assert all(said in notice and notice.endswith("; --drop x leaves it out") for notice in notices)
    if values == {b"1", b"x"}:  # --drop takes no look at the types
        assert jobs.build("parquet --drop x --overwrite").table.features == {"n": "int64"}
