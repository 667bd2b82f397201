"""Many files, many columns, and Parquet files that are damaged or of no known type."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.command import Run, check_mistake, write_files
from tests.support.table_results import TOLERANT, check_consistent, convert, parquet, read_table


def test_400_files_of_a_row_each(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {f"{n % 7}/{n}.csv": f"a,b\n{n},x{n}\n".encode() for n in range(400)})
    table = convert("csv", folder, tmp_path, "--num_shards", 4)
    assert sorted((row["a"], row["b"]) for row in table.rows) == [(n, b"x%d" % n) for n in range(400)]
    assert table.sizes == {"train": [100] * 4}


def test_row_of_thousands_of_columns(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(2000)]
    lines = [",".join(names), ",".join(map(str, range(2000))), ",".join(["1"] * 1999)]
    folder = write_files(tmp_path / "in", {"a.csv": "\n".join(lines).encode()})
    table = convert("csv", folder, tmp_path, *TOLERANT)
    assert table.rows == [{name: number for number, name in enumerate(names)}]
    assert [reject["reason"] for reject in table.rejects()] == [
        "the row has 1999 fields; expected 2000, one for each column; the file ends there without a line break, so it"
        " may be cut short: compare its size with the original's"
    ]


PARQUET = pa.table({"id": range(1000), "name": [f"n{number}" for number in range(1000)]})
WHOLE = parquet(PARQUET, row_group_size=250, compression="none", use_dictionary=False)


def overwritten(data: bytes, at: int) -> bytes:
    return data[:at] + b"\xff" * 40 + data[at + 40 :]


def test_bad_parquet_files(tmp_path: Path) -> None:
    odd = pa.table({"id": pa.array([2000, 1 << 63], pa.uint64()), "name": ["a", "b"]})
    files = {
        "broken-group.parquet": overwritten(WHOLE, 3000),
        "cut.parquet": WHOLE[:-10],
        "empty.parquet": b"",
        "footer.parquet": overwritten(WHOLE, len(WHOLE) - 60),
        "no-rows.parquet": parquet(PARQUET.slice(0, 0)),
        "odd.parquet": parquet(odd),
        "text.parquet": b"id,name\n1,2\n",
    }
    table = convert("parquet", write_files(tmp_path / "in", files), tmp_path, *TOLERANT)
    kept = {number: b"n%d" % number for number in range(250, 1000)} | {2000: b"a"}
    assert {row["id"]: row["name"] for row in table.rows} == kept
    assert len(table.rows) == len(kept)
    rejects = {reject["source"]: (reject["line"], reject["stage"], reject["reason"]) for reject in table.rejects()}
    assert [(source, *found[:2]) for source, found in rejects.items()] == [
        ("broken-group.parquet", 1, "read"),
        ("cut.parquet", None, "index"),
        ("empty.parquet", None, "index"),
        ("footer.parquet", None, "index"),
        ("odd.parquet", 2, "read"),
        ("text.parquet", None, "index"),
    ]
    assert rejects["broken-group.parquet"][2].startswith(
        "row group 0 cannot be read from row 1 on, all of which is lost: "
    )
    assert "column 'id': 9223372036854775808" in rejects["odd.parquet"][2]
    assert all(
        rejects[name][2].startswith("not a Parquet file: ") for name in ("cut.parquet", "empty.parquet", "text.parquet")
    )
    check_consistent(table)


NESTED = pa.table(
    {"a": [1, 2], "s": [{"x": 1}, {"x": 2}], "m": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64()))}
)


def test_parquet_column_that_cannot_be_read_is_dropped(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"a.parquet": parquet(NESTED)})
    command = ("parquet", "--input", folder, "--output", tmp_path / "out", "--name", "n")
    check_mistake(run(*command), "a.parquet: column 's' is struct<x: int64>, column 'm' is map<", "--drop s,m leaves")
    check_mistake(run(*command, "--drop", "s"), "a.parquet: column 'm' is map<", "--drop s,m leaves")
    assert not (tmp_path / "out").exists()
    assert run(*command, "--drop", "s,m").status == 0
    assert sorted(row["a"] for row in read_table(tmp_path / "out" / "n").rows) == [1, 2]


WRONG_PARQUET: list[tuple[dict[str, Callable[[], pa.Table]], tuple[str, ...], tuple[str, ...]]] = [
    (
        {"a.pq": lambda: pa.table({"a": [1]}), "b.pq": lambda: pa.table({"b": [1]})},
        (),
        ("headers differ: 'b.pq' lacks 'a' and has 'b'",),
    ),
    ({"a.pq": lambda: pa.table({"": [1]})}, (), ("a column without a name",)),
    ({"a.pq": lambda: pa.table({})}, (), ("has no rows",)),
    (
        {"a.pq": lambda: pa.table({"label": [1]})},
        ("--label", "lable"),
        ("--label lable: no such column", "did you mean label?"),
    ),
    ({"a.pq": lambda: pa.table({"a": [1]})}, ("--fill", "b=1"), ("--fill b: no such column",)),
    ({"a.pq": lambda: pa.table([[1], [2]], names=["a", "a"])}, (), ("a.pq: column 'a' is there twice",)),
]


@pytest.mark.parametrize(("files", "flags", "words"), WRONG_PARQUET, ids=lambda value: ascii(value)[:30])
def test_wrong_parquet_is_one_sentence_and_writes_nothing(
    run: Run, tmp_path: Path, files: dict[str, Callable[[], pa.Table]], flags: tuple[str, ...], words: tuple[str, ...]
) -> None:
    folder = write_files(tmp_path / "in", {name: parquet(make()) for name, make in files.items()})
    check_mistake(run("parquet", "--input", folder, "--output", tmp_path / "out", "--name", "n", *flags), *words)
    assert not (tmp_path / "out").exists()
