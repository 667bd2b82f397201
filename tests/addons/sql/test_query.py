"""Queries of SQLite, whose rows are compared with those of sqlite3; check_postgres.py is about PostgreSQL."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import BigInteger, Numeric

from shardmill.addons.sql.database_url import parse_url
from shardmill.addons.sql.query import (
    MAX_RANGES,
    QueryPlan,
    Range,
    SqlQuery,
    _bound,
    divide_values,
    hold_query,
    one_state_notice,
    read_range,
)
from shardmill.errors import JobError, UserError

Rows = list[dict[str, Any]]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A database with 1,000 rows, in some of which `id` or another column has no value."""
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.row_factory = sqlite3.Row
    connection.execute("CREATE TABLE t (id INTEGER, word TEXT, x REAL, data BLOB, ok BOOLEAN, mixed, empty)")
    rows = [
        (n * 7 % 997 if n % 9 else None, f"a:b%{n}" if n % 3 else None, n / 2, bytes([n % 256]), n % 2, mixed(n), None)
        for n in range(1000)
    ]
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    connection.commit()
    yield connection
    connection.close()


def mixed(number: int) -> Any:
    return (number, str(number), number / 4)[number % 3]


def query(folder: Path, text: str, partition_by: str | None = None) -> SqlQuery:
    return SqlQuery(parse_url(f"sqlite:///{folder}/shop.db"), text, partition_by)


def read(asked: SqlQuery) -> tuple[QueryPlan, Rows]:
    """The plan of a query and its rows, range after range."""
    rows: Rows = []
    with hold_query(asked) as plan:
        for part in plan.ranges:
            for item in read_range(plan, part):
                rows += item.to_pylist() if isinstance(item, pa.RecordBatch) else [item]
    return plan, rows


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=repr)


@pytest.mark.parametrize("partition_by", [None, "id", "ok", "empty"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t",
        "SELECT id, ok, empty, word || ':x' AS word FROM t WHERE word LIKE '%:b%%' OR word IS NULL ;\n",
        "WITH some AS (SELECT * FROM t WHERE x > 20) SELECT id, ok, empty, data FROM some -- a comment",
        "SELECT id, ok, empty FROM t WHERE id IS NULL",
        "SELECT id, ok, empty FROM t WHERE 0",
        "SELECT id, ok, empty, 1 AS \"Group's\", 2 AS ':x' FROM t",
    ],
)
def test_every_row_is_read_once(
    database: sqlite3.Connection, tmp_path: Path, text: str, partition_by: str | None
) -> None:
    plan, rows = read(query(tmp_path, text, partition_by))

    assert in_order(rows) == in_order([dict(row) for row in database.execute(text)])
    assert len(plan.ranges) == {None: 1, "empty": 1}.get(partition_by, len(plan.ranges))
    if partition_by == "id" and "WHERE 0" not in text and "IS NULL" not in text.partition("WHERE id")[2]:
        assert len(plan.ranges) == MAX_RANGES + 1


def test_types_are_those_of_the_values(database: sqlite3.Connection, tmp_path: Path) -> None:
    plan, _ = read(query(tmp_path, "SELECT id, word, x, data, ok, empty, id / 2 + x AS y FROM t"))
    kinds = [pa.int64(), pa.string(), pa.float64(), pa.binary(), pa.int64(), pa.null(), pa.float64()]
    assert plan.schema is not None
    assert plan.schema.types == kinds

    plan, rows = read(query(tmp_path, "SELECT mixed, data FROM t"))  # of which the rules of JSON decide
    assert plan.schema is None
    assert rows[:3] == [{"mixed": mixed(n), "data": bytes([n])} for n in range(3)]


@pytest.mark.parametrize(
    ("text", "partition_by", "sentence"),
    [
        ("SELECT * FROM nope", None, "--query: no such table: nope"),
        ("SELECT a.id, b.id FROM t AS a JOIN t AS b USING (x)", None, "--query has two columns 'id'; give each a name"),
        ("SELECT 1; SELECT 2", None, "--query: You can only execute one statement at a time"),
        ("INSERT INTO t (id) VALUES (1)", None, "--query: attempt to write a readonly database"),
        ("INSERT INTO t (id) VALUES (1) RETURNING id", None, "--query: attempt to write a readonly database"),
        ("DROP TABLE t", None, "--query: attempt to write a readonly database"),
        ("PRAGMA cache_size = 10", None, "--query returns no rows; expected one SELECT"),
        ("SELECT id, x FROM t", "word", "--partition_by word: no such column in --query; the columns are id, x"),
        ("SELECT id, word FROM t", "word", "--partition_by word: its values, such as 'a:b%1', cannot be divided"),
        (
            "SELECT x FROM t",
            "x",
            "--partition_by x: its values, such as 0.0, cannot be divided into ranges; expected a",
        ),
        ("SELECT abs(-9223372036854775808 - 0 * id) AS x FROM t", None, "--query: integer overflow"),
        (
            "SELECT 0.5 AS x UNION ALL SELECT 9007199254740993",
            None,
            "column 'x' holds 9007199254740993, which is no double",
        ),
    ],
)
def test_a_mistake_is_one_sentence(
    database: sqlite3.Connection, tmp_path: Path, text: str, partition_by: str | None, sentence: str
) -> None:
    with pytest.raises(UserError) as caught:
        read(query(tmp_path, text, partition_by))

    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert database.execute("SELECT count(*) FROM t").fetchone()[0] == 1000


@pytest.mark.parametrize("wal", [False, True])
def test_a_database_that_is_written_while_it_is_read(database: sqlite3.Connection, tmp_path: Path, wal: bool) -> None:
    if wal:
        database.execute("PRAGMA journal_mode = WAL")
    with hold_query(query(tmp_path, "SELECT id FROM t", "id")) as plan:
        for part in plan.ranges:
            list(read_range(plan, part))  # which changes empty
        database.execute("UPDATE t SET id = 1 WHERE id = 2")
        database.commit()
        with pytest.raises(JobError, match=r"shop\.db(-wal)? was written while it was read; run it again"):
            list(read_range(plan, plan.ranges[0]))
    assert plan.is_one_state
    assert one_state_notice(plan) == ""


def test_a_database_that_another_has_locked_may_answer_the_next_try(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    database.execute("BEGIN EXCLUSIVE")
    asked = SqlQuery(parse_url(f"sqlite:///{tmp_path}/shop.db?timeout=0"), "SELECT id FROM t")
    with pytest.raises(JobError, match=r"^--query: database is locked$"):
        read(asked)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("sqlite:///{folder}/nope.db", "no such file {folder}/nope.db"),
        ("nope://me:hunter2@host/shop", "--url nope://***@host/shop: SQLAlchemy knows no nope://"),
        ("mysql://me:hunter2@host/shop", "needs the driver MySQLdb; run: pip install mysqlclient"),
        ("mssql+pymssql://me:hunter2@host/shop", "needs the driver pymssql; run: pip install pymssql"),
        ("postgresql://me:hunter2@host:port/shop", "not a database URL of SQLAlchemy"),
        ("sqlite:///{folder}", "no such file {folder}"),
    ],
)
def test_a_database_that_cannot_be_opened(tmp_path: Path, url: str, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        read(SqlQuery(parse_url(url.format(folder=tmp_path)), "SELECT 1"))

    assert sentence.format(folder=tmp_path) in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_other_databases_are_read_in_several_transactions() -> None:
    plan = QueryPlan(SqlQuery(parse_url("mysql://host/shop"), "SELECT 1"), (Range(end=1), Range(1)), ("a",))
    assert one_state_notice(plan).startswith("the database was read in 2 transactions: rows that changed meanwhile")


DATES = st.dates(date(1900, 1, 1), date(2100, 1, 1))
TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))


@given(
    st.one_of(
        st.lists(st.integers(), min_size=1),
        st.lists(st.integers(0, 100).map(Decimal), min_size=1),
        st.lists(DATES, min_size=1),
        st.lists(TIMES, min_size=1),
        st.lists(TIMES.map(lambda time: time.replace(tzinfo=UTC)), min_size=1),
    )
)
def test_each_value_is_in_one_range(values: Sequence[Any]) -> None:
    bounds = divide_values(min(values), max(values))

    assert bounds is not None
    assert len(bounds) < MAX_RANGES
    assert bounds == sorted(set(bounds))
    assert all(min(values) < bound <= max(values) for bound in bounds)


def test_ranges_are_of_equal_width() -> None:
    assert divide_values(0, 6_399) == [*range(99, 6_300, 100)] or divide_values(0, 6_400) == [*range(100, 6_400, 100)]
    assert divide_values(5, 7) == [6]
    assert divide_values(5, 5) == []
    assert divide_values(date(2024, 1, 1), date(2024, 3, 5)) == [date(2024, 1, 1) + timedelta(n) for n in range(1, 64)]
    (half,) = [bound for bound in divide_values(datetime(2024, 1, 1), datetime(2024, 1, 3)) or () if bound.day == 2][:1]
    assert half - datetime(2024, 1, 1) >= timedelta(days=1)


def test_only_bounds_of_64_bits_are_integers_of_the_database() -> None:
    kinds = [type(_bound(value).type) for value in (-(1 << 63) - 1, -(1 << 63), (1 << 63) - 1, 1 << 63)]
    assert kinds == [Numeric, BigInteger, BigInteger, Numeric]


@pytest.mark.parametrize(
    ("least", "most"), [("a", "b"), (0.5, 1.5), (False, True), (1, "a"), (Decimal(1), Decimal("NaN"))]
)
def test_values_that_are_not_divided(least: Any, most: Any) -> None:
    assert divide_values(least, most) is None


def test_memory_is_flat_with_wide_rows(tmp_path: Path) -> None:
    """A batch has about 8 MiB, however wide the rows are, once the first rows have told it."""
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.execute("CREATE TABLE t (data BLOB)")
    connection.executemany("INSERT INTO t VALUES (zeroblob(?))", [(1 << 20,)] * 60)
    connection.commit()
    connection.close()
    with hold_query(query(tmp_path, "SELECT data FROM t")) as plan:
        sizes = [len(batch) for batch in read_range(plan, plan.ranges[0])]

    assert sizes == [16, 7, 7, 7, 7, 7, 7, 2]
