"""`shardmill sql` on a real PostgreSQL, by `make check NAME=postgres`: types, one snapshot, secrets, mistakes."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from datetime import time as time_of_day
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shardmill
from shardmill.addons.sql.database_url import parse_url
from shardmill.addons.sql.query import MAX_RANGES, QueryPlan, SqlQuery, hold_query, read_range
from shardmill.errors import JobError, UserError
from shardmill.flag_values import OptionValueError
from tests.addons.sql.postgres import Postgres, serve
from tests.support.command import SOURCE, Run
from tests.support.jobs import Jobs

PASSWORD = "s3cr3t/p@ss"
WRITTEN = "s3cr3t%2Fp%40ss"  # in a URL
TWO_WORKERS = "--direct_num_workers 2 --direct_running_mode multi_processing"
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with serve(PASSWORD) as server:
        server.execute(
            "CREATE TYPE mood AS ENUM ('sad', 'ok')",
            "CREATE TABLE orders (id bigint, day date, at timestamptz, word text)",
            "INSERT INTO orders SELECT NULLIF(n % 3000, 0), date '2024-01-01' + n % 400, "
            "timestamptz '2024-01-01 00:00Z' + n * interval '1 hour', 'a:b%' || n FROM generate_series(1, 5000) AS n",
        )
        yield server


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", PASSWORD)


def query(postgres: Postgres, text: str, partition_by: str | None = None) -> SqlQuery:
    return SqlQuery(parse_url(postgres.url("${PW}")), text, partition_by)


def read(asked: SqlQuery) -> tuple[QueryPlan, Rows]:
    with hold_query(asked) as plan:
        return plan, read_all(plan)


def read_all(plan: QueryPlan) -> Rows:
    return [row for part in plan.ranges for batch in read_range(plan, part) for row in batch.to_pylist()]  # type: ignore[union-attr]


# (type, literal, type of Arrow, value in Arrow)
UUID = "0b1e0000-12ab-4cd3-8ef4-0123456789ab"
ZONE = timezone(timedelta(hours=2))
TYPES: list[tuple[str, str, pa.DataType, Any]] = [
    ("boolean", "true", pa.bool_(), True),
    ("smallint", "-2", pa.int16(), -2),
    ("integer", "3", pa.int32(), 3),
    ("bigint", "9007199254740993", pa.int64(), 9007199254740993),
    ("oid", "4000000000", pa.int64(), 4000000000),
    ("real", "1.5", pa.float32(), 1.5),
    ("double precision", "16777217", pa.float64(), 16777217.0),
    ("numeric(10, 2)", "12.50", pa.string(), "12.50"),
    ("numeric", "1e-12", pa.string(), "0.000000000001"),
    ("text", "a:b%c", pa.string(), "a:b%c"),
    ("varchar(5)", "ü", pa.string(), "ü"),
    ("char(3)", "c", pa.string(), "c  "),
    ("bytea", r"\x00ff", pa.binary(), b"\x00\xff"),
    ("date", "2024-02-29", pa.date32(), date(2024, 2, 29)),
    ("time", "01:02:03.004", pa.time64("us"), time_of_day(1, 2, 3, 4000)),
    ("timetz", "01:02:03+01", pa.string(), "01:02:03+01"),
    ("timestamp", "2024-02-29 01:02:03.000007", pa.timestamp("us"), datetime(2024, 2, 29, 1, 2, 3, 7)),
    ("timestamptz", "2024-02-29 01:02:03+02", pa.timestamp("us", "UTC"), datetime(2024, 2, 29, 1, 2, 3, tzinfo=ZONE)),
    ("interval", "1 mon 2 days", pa.string(), "1 mon 2 days"),
    ("uuid", UUID, pa.string(), UUID),
    ("json", '{"a" :1}', pa.string(), '{"a" :1}'),
    ("jsonb", '{"a" :1}', pa.string(), '{"a": 1}'),
    ("mood", "ok", pa.string(), "ok"),
    ("mood[]", "{ok,sad}", pa.string(), "{ok,sad}"),
    ("inet", "10.0.0.1", pa.string(), "10.0.0.1"),
    ("int4range", "[1,5)", pa.string(), "[1,5)"),
    ("point", "(1,2)", pa.string(), "(1,2)"),
    ("integer[]", "{1,2}", pa.list_(pa.int32()), [1, 2]),
    ("text[]", '{a,"b c"}', pa.list_(pa.string()), ["a", "b c"]),
    (
        "uuid[]",
        "{0b1e0000-12ab-4cd3-8ef4-0123456789ab}",
        pa.list_(pa.string()),
        ["0b1e0000-12ab-4cd3-8ef4-0123456789ab"],
    ),
    ("real[]", "{}", pa.list_(pa.float32()), []),
]


def test_types_are_exact_and_the_bytes_are_those_of_parquet(postgres: Postgres, jobs: Jobs) -> None:
    """Rows of all types, some without values; as one query, in ranges, and on two workers."""
    columns = [f"c{number} {kind}" for number, (kind, *_) in enumerate(TYPES)]
    literals = [f"'{literal}'" for _, literal, *_ in TYPES]
    postgres.execute(
        "DROP TABLE IF EXISTS typed",
        f"CREATE TABLE typed (id integer, {', '.join(columns)}, nothing integer)",
        f"INSERT INTO typed SELECT n, {', '.join(literals)} FROM generate_series(1, 50) AS n",
        "INSERT INTO typed (c9) VALUES ('x'), ('y')",
    )
    schema = pa.schema([("id", pa.int32()), *((f"c{number}", kind[2]) for number, kind in enumerate(TYPES))])
    values = {f"c{number}": value for number, (*_, value) in enumerate(TYPES)}
    rows: Rows = [*({"id": n, **values} for n in range(1, 51)), {"c9": "x"}, {"c9": "y"}]
    pq.write_table(pa.Table.from_pylist(rows, schema), "typed.parquet")
    plan, found = read(query(postgres, "SELECT * FROM typed", "id"))

    assert plan.schema == schema.append(pa.field("nothing", pa.int32()))
    assert sorted(found, key=repr) == sorted(
        ({**pa.Table.from_pylist([row], schema).to_pylist()[0], "nothing": None} for row in rows), key=repr
    )
    options = "--types c7=float32,c8=bytes --splits train=0.8,test=0.2 --fill id=0"
    expected = jobs.build(f"parquet --input typed.parquet {options}")
    words = f"sql --url {postgres.url(WRITTEN)} --query 'SELECT * FROM typed' {options}"
    shards = {path.name: path.read_bytes() for path in expected.directory.glob("*.tfrecord-*")}
    for number, more in enumerate(["", "--partition_by id", f"--partition_by id {TWO_WORKERS}"], 1):
        built = jobs.build(f"{words} --version 1.0.{number} {more}")
        assert {path.name: path.read_bytes() for path in built.directory.glob("*.tfrecord-*")} == shards
        assert "column 'nothing' has no value in any row, and was left out" in built.notices
    assert not any(b"s3cr3t" in path.read_bytes() for path in Path("out").rglob("*") if path.is_file())


@pytest.mark.parametrize("partition_by", [None, "id", "day", "at", "big", "zero", "none"])
def test_every_row_is_read_once(postgres: Postgres, partition_by: str | None) -> None:
    text = "SELECT *, id::numeric * 1e20 AS big, 0 AS zero, NULL::int AS none FROM orders -- :x %s"
    plan, rows = read(query(postgres, text, partition_by))

    assert sorted(row["word"] for row in rows) == sorted(f"a:b%{n}" for n in range(1, 5001))
    assert sum(row["id"] is None for row in rows) == 1
    assert len(plan.ranges) == {None: 1, "zero": 1, "none": 1}.get(partition_by, MAX_RANGES + 1)
    assert {row["at"].tzinfo is not None for row in rows} == {True}


def test_all_ranges_are_read_from_one_snapshot(postgres: Postgres) -> None:
    postgres.execute("CREATE TABLE accounts AS SELECT n AS id, 100 AS amount FROM generate_series(1, 1000) AS n")
    with hold_query(query(postgres, "SELECT * FROM accounts", "id")) as plan:
        before = [row for batch in read_range(plan, plan.ranges[0]) for row in batch.to_pylist()]  # type: ignore[union-attr]
        postgres.execute("UPDATE accounts SET amount = 0", "INSERT INTO accounts VALUES (1, 1)", "DELETE FROM accounts")
        rows = read_all(plan)

    assert before == rows[: len(before)]
    assert sorted(row["id"] for row in rows) == [*range(1, 1001)]
    assert {row["amount"] for row in rows} == {100}
    assert read(query(postgres, "SELECT * FROM accounts", "id"))[1] == []
    with pytest.raises(JobError, match=r"^--query: invalid snapshot identifier"):  # of a command that has ended
        read_all(plan)


def test_a_job_sees_one_state_of_accounts_between_which_money_moves(postgres: Postgres, tmp_path: Path) -> None:
    postgres.execute("CREATE TABLE moving AS SELECT n AS id, 100 AS amount FROM generate_series(1, 3000) AS n")
    done, moves = threading.Event(), 0

    def move() -> None:
        nonlocal moves
        with postgres.connect() as connection:
            while not done.is_set():
                connection.execute(
                    "UPDATE moving SET amount = amount + CASE id WHEN %s THEN -7 ELSE 7 END WHERE id IN (%s, %s)",
                    (moves % 1500 + 1, moves % 1500 + 1, 3000 - moves % 1500),
                )
                moves += 1

    mover = threading.Thread(target=move)
    mover.start()
    try:
        url = postgres.url("${PW}")
        words: dict[str, Any] = {
            "query": "SELECT * FROM moving",
            "partition_by": "id",
            "output": tmp_path,
            "name": "n",
            "url": url,
        }
        shardmill.convert("sql", **words)
    finally:
        done.set()
        mover.join()
    amounts = [example["amount"] for example in shardmill.examples(tmp_path / "n", "train")]

    assert moves > 50
    assert (len(amounts), sum(amounts)) == (3000, 300_000)


def test_a_server_that_ends_idle_transactions_waits(postgres: Postgres) -> None:
    postgres.execute("ALTER ROLE postgres SET idle_in_transaction_session_timeout = 300")
    try:
        with hold_query(query(postgres, "SELECT id FROM orders", "id")) as plan:
            time.sleep(0.8)
            assert len(read_all(plan)) == 5000
    finally:
        postgres.execute("ALTER ROLE postgres RESET idle_in_transaction_session_timeout")


def test_a_server_that_ends_midway_may_answer_the_next_try(postgres: Postgres) -> None:
    with hold_query(query(postgres, "SELECT id FROM orders, generate_series(1, 50)")) as plan:
        batches = read_range(plan, plan.ranges[0])
        next(batches)
        ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'FETCH%'"
        assert postgres.execute(ends) == [(True,)]
        with pytest.raises(JobError, match=r"^--query: .*terminating connection"):
            list(batches)


@pytest.mark.parametrize(
    ("text", "partition_by", "sentence"),
    [
        ("SELECT ARRAY[[1, 2]] AS m", None, "column 'm' holds [[1, 2]], …in the query: array_to_json(m) AS m"),
        ("INSERT INTO orders (id) VALUES (1) RETURNING id", None, '--query: syntax error at or near "INSERT"'),
        ("WITH x AS (DELETE FROM orders RETURNING id) SELECT * FROM x", None, "must not contain data-modifying"),
        ("SELECT nextval('numbers')", None, "--query: cannot execute nextval() in a read-only transaction"),
        ("SELECT 1; DROP TABLE orders", None, "--query: cannot insert multiple commands"),
        ("SELECT * FROM nope", None, '--query: relation "nope" does not exist'),
        ("SELECT a.id, b.id FROM orders a JOIN orders b USING (id)", None, "--query has two columns 'id'; give each"),
        ("SELECT id FROM orders", "word", "--partition_by word: no such column in --query; the columns are id"),
        ("SELECT id, word FROM orders", "word", "such as 'a:b%1', cannot be divided into ranges"),
        ("SELECT 1 / (id - 1) FROM orders", None, "--query: division by zero"),
        ("SELECT timestamp 'infinity' AS t", None, "--query: timestamp too large (after year 10K): 'infinity'"),
    ],
)
def test_a_mistake_is_one_sentence(postgres: Postgres, text: str, partition_by: str | None, sentence: str) -> None:
    postgres.execute("CREATE SEQUENCE IF NOT EXISTS numbers")
    with pytest.raises(UserError) as caught:
        read(query(postgres, text, partition_by))

    said = str(caught.value)
    assert all(words in said for words in sentence.split("…")), said
    assert "\n" not in said
    assert postgres.execute("SELECT count(*) FROM orders") == [(5000,)]


def test_advice_about_types_helps(postgres: Postgres, jobs: Jobs) -> None:
    url = postgres.url(r"\${PW}")
    text = "SELECT sum(id) AS n, ARRAY[1.5, 2.5]::real[] AS m, array_to_json(ARRAY[[1, 2]]) AS j FROM orders"
    said = jobs.build(f'sql --url {url} --query "{text}" --version 0.9.0').said
    assert "column 'n' is stored as text, and its 1 values are numbers; --types n=int64 stores numbers" in said
    found = {}
    for number, kind in enumerate(("float32", "int64", "bytes")):
        built = jobs.build(f'sql --url {url} --query "{text}" --types n={kind} --version 1.0.{number}')
        (found[kind],) = built.examples()

    total = sum(n % 3000 for n in range(1, 5001))
    assert [row["n"].tolist() if hasattr(row["n"], "tolist") else row["n"] for row in found.values()] == [
        pytest.approx(total),
        total,
        str(total).encode(),
    ]
    assert found["bytes"]["m"].tolist() == [1.5, 2.5]
    assert found["bytes"]["j"] == b"[[1,2]]"


def test_no_secret_is_written_or_printed(postgres: Postgres, jobs: Jobs, run: Run) -> None:
    """With the password in a variable, in the URL and in a parameter; of jobs that work, and of those that do not."""
    urls = {
        postgres.url("${PW}"): 0,
        postgres.url(WRITTEN): 0,
        f"postgresql://127.0.0.1:{postgres.port}/postgres?user=postgres&password={WRITTEN}": 0,
        postgres.url("wrong-s3cr3t"): 2,
        postgres.url(WRITTEN).replace("127.0.0.1", "no-such-host.invalid"): 2,
        postgres.url(WRITTEN).replace("/postgres", "/no_such_database"): 2,
        postgres.url(WRITTEN).replace(str(postgres.port), "1"): 1,
        postgres.url("s3cr3t/p@ss"): 2,
        f"{postgres.url(WRITTEN)}?nope={WRITTEN}": 2,
        postgres.url(WRITTEN).replace("postgresql:", "postgresql+psycopg2:"): 2,
    }
    printed = []
    for number, (url, status) in enumerate(urls.items()):
        words = ["sql", "--url", url, "--query", "SELECT id FROM orders", "--output", "out", "--name", "n"]
        words += ["--version", f"1.0.{number}", "--partition_by", "id"]
        printed.append(run(*words, "--json"))
        assert printed[-1].status == status, (url, printed[-1])
        printed += [run(*words, "--query", "SELECT nope FROM orders"), run(*words, "--dry_run")]
    files = [path for path in Path("out").rglob("*") if path.is_file()]

    assert len(files) > 20
    assert not any(b"s3cr3t" in path.read_bytes() for path in files)
    assert "s3cr3t" not in repr(printed)
    assert "password authentication failed" in repr(printed)


def test_a_password_with_an_at_sign_is_not_taken_for_a_host(postgres: Postgres) -> None:
    with pytest.raises(OptionValueError, match=r"write %40 for one that is part of the password"):
        parse_url(postgres.url(PASSWORD))


MEASURE = """
import sys
from shardmill.addons.sql.database_url import parse_url
from shardmill.addons.sql.query import SqlQuery, hold_query, read_range

def measure(rows):
    text = f"SELECT repeat('x', 1000) AS word, n FROM generate_series(1, {rows}) AS n"
    with hold_query(SqlQuery(parse_url(sys.argv[1]), text)) as plan:
        read = sum(len(batch) for batch in read_range(plan, plan.ranges[0]))
    assert read == rows
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) >> 10

few = measure(30_000)
print(measure(300_000) - few)
"""


def test_memory_is_flat(postgres: Postgres) -> None:
    """Reading 300 MB of rows takes less than 50 MB more than reading 30 MB."""
    words = [sys.executable, "-c", MEASURE, postgres.url("${PW}")]
    done = subprocess.run(words, cwd=SOURCE, capture_output=True, text=True, check=True)

    assert int(done.stdout) < 50  # MiB


def test_each_night_builds_with_a_password_of_the_environment(postgres: Postgres, jobs: Jobs) -> None:
    recipe = f"name: n\noutput: out\nenvironment: [PW]\nsql:\n  url: {postgres.url(WRITTEN)}\n"
    Path("r.yaml").write_text(f"{recipe}  query: SELECT id FROM orders WHERE day < '{{YYYY}}-{{MM}}-{{DD}}'\n")
    nights = [shardmill.rebuild("r.yaml", date=day) for day in ("2024-01-02", "2024-02-01")]

    assert [(night.status, night.record.version) for night in nights] == [
        ("published", "1.0.0"),
        ("published", "1.0.1"),
    ]
    assert not any(b"s3cr3t" in path.read_bytes() for path in Path("out").rglob("*") if path.is_file())


def test_times_are_utc(postgres: Postgres) -> None:
    _, rows = read(query(postgres, "SELECT timestamptz '2024-06-01 12:00+02' AS at"))
    assert rows == [{"at": datetime(2024, 6, 1, 10, tzinfo=UTC)}]
