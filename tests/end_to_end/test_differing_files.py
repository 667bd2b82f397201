"""Files of one folder that differ: in their columns, and in the types of one column; empty files among them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.avro_files import avro, record
from tests.support.bad_tables import parquet
from tests.support.command import Run, check_mistake, write_files
from tests.support.table_results import convert


def of_rows(command: str, rows: list[dict[str, Any]]) -> bytes:
    """A file of rows in the format of a command."""
    if command == "parquet":
        return parquet(pa.Table.from_pylist(rows))
    if command == "avro":
        kinds = {int: "long", str: "string", float: "double"}
        return avro(record(**{name: kinds[type(value)] for name, value in rows[0].items()}), rows)
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.mark.parametrize("command", ["csv", "parquet", "avro"])
def test_columns_that_some_files_lack(tmp_path: Path, run: Run, command: str) -> None:
    files = {
        f"a.{command}": of_rows(command, [{"n": 1, "b": "x", "c": 1.5}, {"n": 2, "b": "y", "c": 2.5}]),
        f"b.{command}": of_rows(command, [{"d": 7, "n": 3, "c": 3.5}]),
        f"c.{command}": of_rows(command, [{"c": 4.5, "n": 4, "e": 7}]),
    }
    source = write_files(tmp_path / "in", files)
    given = (command, "--input", source, "--output", tmp_path / "out", "--name", "n")

    said = f"headers differ: 'b.{command}' lacks 'b' and has 'd' in addition to what 'a.{command}' has"
    check_mistake(run(*given), said, "; --drop b,d,e leaves these columns out")

    expected = [{"n": number, "c": number + 0.5} for number in (1, 2, 3, 4)]
    for number, flags in enumerate((("--drop", "b,d,e"), ("--only", "n,c"))):
        rows = convert(command, source, tmp_path / str(number), *flags).rows
        assert sorted(rows, key=lambda row: row["n"]) == expected


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
    tmp_path: Path, one: pa.Array, other: pa.Array, values: set[Any], said: str
) -> None:
    files = {f"{name}.parquet": parquet(pa.table({"x": x, "n": [1]})) for name, x in (("a", one), ("b", other))}
    source = write_files(tmp_path / "in", files)

    table = convert("parquet", source, tmp_path)

    assert set(table.column("x")) == values
    notices = [notice for notice in table.dataset.manifest.notices if "column 'x' has " in notice and " in '" in notice]
    assert len(notices) == bool(said)
    assert all(said in notice and notice.endswith("; --drop x leaves it out") for notice in notices)
    if said:
        assert convert("parquet", source, tmp_path / "dropped", "--drop", "x").features == {"n": "int64"}
