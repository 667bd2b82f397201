"""Read the rows of an SQL query through SQLAlchemy, in ranges of a column, from one state of the database."""

import logging
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import pyarrow as pa

from shardmill.addons.sql.database_url import DatabaseUrl
from shardmill.errors import JobError, UserError
from shardmill.installed import install_hint
from shardmill.text import is_unicode, plural, shorten
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.elements import Spread

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

MAX_RANGES = 64  # as many workers read at once
_FETCHED_BYTES = 8 << 20  # rows fetched at once have about as many
_FIRST_ROWS, _MOST_ROWS = 16, 10_000  # fetched at once
_STREAMED = {"stream_results": True}  # the database keeps the rows until they are fetched
# Drivers whose package has another name than their module
_PACKAGES = {"MySQLdb": "mysqlclient", "psycopg2": "psycopg2-binary"}
# Words of drivers for a database that may answer the next try
_TRANSIENT = re.compile(
    r"refused|timed? ?out|timeout|starting up|shutting down|too many|remaining connection slots|locked"
    r"|closed the connection|connection is closed|terminating connection|snapshot",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """A query, and the column whose ranges workers read."""

    url: DatabaseUrl
    text: str
    partition_by: str | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """The rows of a query with a partition column from `start` up to `end`, or with no value in it."""

    start: Any = None  # included; None for no lower bound
    end: Any = None  # excluded; None for no upper bound
    is_null: bool = False


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The ranges, types and database state with which workers read a query."""

    query: SqlQuery
    ranges: tuple[Range, ...]
    columns: tuple[str, ...]
    schema: pa.Schema | None = None  # types of columns, if the database knows them; else the values decide
    text_types: tuple[int, ...] = ()  # PostgreSQL's types whose values are read as the text that it prints
    snapshot: str = ""  # PostgreSQL's name of the transaction whose state all workers read
    revisions: tuple[tuple[str, str], ...] = ()  # (path, revision) of the files of an SQLite database

    @property
    def is_one_state(self) -> bool:
        """Return True if all rows come from one state of the database, or a change is found."""
        return bool(self.snapshot or self.revisions) or len(self.ranges) == 1


@contextmanager
def hold_query(query: SqlQuery, holds: bool = True) -> Iterator[QueryPlan]:
    """Plan a query, and keep the state of the database that the plan names while the context lasts.

    Args:
        query: the query.
        holds: False if the job goes on after this context, so that no state can be kept.

    Raises:
        UserError: the database refuses the login or the query, or has no such column, or a type has two meanings.
        JobError: the database does not answer.
    """
    engine = _make_engine(query.url)
    connection: Connection | None = None
    try:
        connection = _connect(engine, query.url)
        with _database_errors("--query", query.url, engine):
            plan = _plan_query(connection, query)
            if holds and engine.name == "postgresql":
                # A server may end transactions that wait, and this one waits for the workers
                connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
                plan = replace(plan, snapshot=connection.exec_driver_sql("SELECT pg_export_snapshot()").scalar_one())
        yield plan
    finally:
        if connection is not None:
            connection.close()


@dataclass(eq=False)
class ReadSql(beam.PTransform):
    """Read each range of a planned query on any worker: root -> Arrow batches or dictionaries."""

    plan: QueryPlan

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection[Any]:
        ranges = pbegin | "Ranges" >> beam.Create(list(enumerate(self.plan.ranges)))
        spread = ranges | "SpreadRanges" >> Spread(lambda numbered: str(numbered[0]))
        return spread | "ReadRange" >> beam.FlatMap(lambda numbered, plan: read_range(plan, numbered[1]), self.plan)


def read_range(plan: QueryPlan, part: Range) -> Iterator[pa.RecordBatch | dict[str, Any]]:
    """Yield the rows of a range: Arrow batches if the database knows all types, otherwise dictionaries.

    Raises:
        UserError: the database finds a mistake in a row, or a value does not have its column's type.
        JobError: the database no longer answers, or was written since the plan was made.
    """
    query = plan.query
    engine = _make_engine(query.url)
    with _connect(engine, query.url) as connection, _database_errors("--query", query.url, engine):
        if plan.snapshot:
            connection.exec_driver_sql(f"SET TRANSACTION SNAPSHOT '{plan.snapshot}'")
        _register_texts(connection, plan.text_types)
        result = connection.execute(_select_range(query, part), execution_options=_STREAMED)
        yield from _fetch(result, plan)
    for path, revision in plan.revisions:
        if _revision(path) != revision:
            raise JobError(f"{path} was written while it was read; run it again when nothing writes to it")


def _fetch(result: Any, plan: QueryPlan) -> Iterator[pa.RecordBatch | dict[str, Any]]:
    count = _FIRST_ROWS
    while rows := result.fetchmany(count):
        if plan.schema is not None:
            batch = _to_batch(rows, plan.schema)
            yield batch
            size_bytes = batch.nbytes
        else:
            yield from (dict(zip(plan.columns, map(_to_element, row), strict=True)) for row in rows)
            size_bytes = sum(16 + (len(item) if isinstance(item, str | bytes) else 0) for row in rows for item in row)
        count = max(1, min(_MOST_ROWS, 4 * count, _FETCHED_BYTES * len(rows) // max(size_bytes, 1)))


def _to_batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for field, values in zip(schema, zip(*rows, strict=True), strict=True):
        try:
            arrays.append(pa.array(values, field.type))
        except UnicodeEncodeError:  # as a text of SQLite that is not UTF-8 is read; its row is a reject
            texts = [value and value.encode(errors="surrogateescape") for value in values]
            arrays.append(pa.array(texts, pa.binary()).view(field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            found = next(value for value in values if not _fits(value, field.type))
            raise UserError(
                f"--query: column {field.name!r} holds {shorten(repr(found))}, which is no {field.type}; convert it in"
                f" the query{f': array_to_json({field.name}) AS {field.name}' if isinstance(found, list) else ''}"
            ) from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def _to_element(value: Any) -> Any:
    """Return a value that Beam can encode: of a text that is not UTF-8, what refuses its row."""
    return ValueError(f"{value!a} is not utf-8") if isinstance(value, str) and not is_unicode(value) else value


def _plan_query(connection: "Connection", query: SqlQuery) -> QueryPlan:
    result = connection.execute(_statement(query.text), execution_options=_STREAMED)
    if not result.returns_rows:
        raise UserError("--query returns no rows; expected one SELECT")
    described: list[Any] = list(result.cursor.description)
    result.close()
    names = tuple(str(column[0]) for column in described)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(
            f"--query has two columns {twice!r}; give each a name of its own, for example {twice} AS other_{twice}"
        )
    files = (query.url.file, f"{query.url.file}-wal") if query.url.file else ()
    plan = QueryPlan(query, (Range(),), names, revisions=tuple((path, _revision(path)) for path in files))
    if query.partition_by is not None:
        plan = replace(plan, ranges=_plan_ranges(connection, query, names))
    if connection.engine.driver == "psycopg":
        schema, text_types = _postgresql_schema([(str(column[0]), column[1]) for column in described])
        plan = replace(plan, schema=schema, text_types=text_types)
    if connection.engine.name == "sqlite":
        plan = replace(plan, schema=_sqlite_schema(connection, plan))
    return plan


def _plan_ranges(connection: "Connection", query: SqlQuery, columns: Sequence[str]) -> tuple[Range, ...]:
    """Divide the values of the partition column into ranges; rows without a value are one more."""
    from sqlalchemy import func, select

    name = query.partition_by
    if name not in columns:
        raise UserError(f"--partition_by {name}: no such column in --query; the columns are {', '.join(columns)}")
    source, column = _subquery(query)
    least, most = connection.execute(select(func.min(column), func.max(column)).select_from(source)).one()
    if least is None:  # no row has a value
        return (Range(),)
    bounds = divide_values(least, most)
    if bounds is None:
        raise UserError(
            f"--partition_by {name}: its values, such as {shorten(repr(least))}, cannot be divided into ranges;"
            " expected a column of integers, dates or timestamps"
        )
    if not bounds:
        return (Range(),)
    return (*(Range(*ends) for ends in pairwise([None, *bounds, None])), Range(is_null=True))


def divide_values(least: Any, most: Any) -> list[Any] | None:
    """Return the bounds between at most MAX_RANGES ranges of equal width; None if the values are of no known kind.

    Values are integers, dates or timestamps; `least` and `most` are the ends. No bound lies outside of them, so that
    the first and the last range, which have no outer bound, hold all rows whatever is inserted later.
    """
    if isinstance(least, Decimal) and isinstance(most, Decimal) and least.is_finite() and most.is_finite():
        least, most = int(least), int(most)
    is_known = isinstance(least, (int, date)) and not isinstance(least, bool)
    if not is_known or not isinstance(most, int if isinstance(least, int) else date):
        return None
    span = most - least
    bounds = (least + span * number // MAX_RANGES for number in range(1, MAX_RANGES))
    if isinstance(least, date) and not isinstance(least, datetime):
        days = span.days
        bounds = (least + type(span)(days * number // MAX_RANGES) for number in range(1, MAX_RANGES))
    return [bound for bound in dict.fromkeys(bounds) if bound > least]


def _select_range(query: SqlQuery, part: Range) -> Any:
    from sqlalchemy import select, text

    if part == Range():
        return _statement(query.text)
    source, column = _subquery(query)
    selected = select(text("*")).select_from(source)
    if part.is_null:
        return selected.where(column.is_(None))
    if part.start is not None:
        selected = selected.where(column >= _bound(part.start))
    return selected if part.end is None else selected.where(column < _bound(part.end))


def _bound(value: Any) -> Any:
    """Return a bound with its type, which drivers would guess too narrow for large integers and times with zones."""
    from sqlalchemy import BigInteger, Date, DateTime, Numeric, literal

    if isinstance(value, datetime):
        return literal(value, DateTime(timezone=value.tzinfo is not None))
    if isinstance(value, date):
        return literal(value, Date())
    return literal(value, BigInteger() if -(1 << 63) <= value < 1 << 63 else Numeric())


_SQLITE_TYPES: Mapping[frozenset[str], pa.DataType] = {
    frozenset(): pa.null(),
    frozenset({"integer"}): pa.int64(),
    frozenset({"real"}): pa.float64(),
    frozenset({"integer", "real"}): pa.float64(),
    frozenset({"text"}): pa.string(),
    frozenset({"blob"}): pa.binary(),
}


def _sqlite_schema(connection: "Connection", plan: QueryPlan) -> pa.Schema | None:
    """Return the Arrow schema of columns in SQLite, where each value has a type; None if types in a column disagree."""
    from sqlalchemy import column, func, select

    columns: list[Any] = [column(name) for name in plan.columns]
    source = _statement(plan.query.text, "\n").columns(*columns).subquery("shardmill_rows")
    kinds = (func.group_concat(func.typeof(source.columns[name]).distinct()) for name in plan.columns)
    found = connection.execute(select(*kinds)).one()
    types = [_SQLITE_TYPES.get(frozenset((text or "null").split(",")) - {"null"}) for text in found]
    return None if None in types else pa.schema(list(zip(plan.columns, types, strict=True)))


def _subquery(query: SqlQuery) -> tuple[Any, Any]:
    from sqlalchemy import column

    assert query.partition_by is not None
    name: Any = column(query.partition_by)
    source = _statement(query.text, "\n").columns(name).subquery("shardmill_rows")  # after "\n" no comment goes on
    return source, source.columns[query.partition_by]


def _statement(query: str, end: str = "") -> Any:
    """Return the text of a query without its `;`, with `end`; no word in it is the name of a parameter."""
    from sqlalchemy import text

    return text(f"{query.strip().rstrip(';').rstrip()}{end}".replace(":", "\\:"))


def _make_engine(url: DatabaseUrl) -> "Engine":
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SAWarning, SQLAlchemyError

    resolved = url.resolve()
    try:
        parsed = make_url(resolved)
    except (ArgumentError, ValueError):  # whose message has the URL
        raise UserError(f"--url {url}: not a database URL of SQLAlchemy") from None
    if parsed.get_backend_name() == "sqlite" and url.file and not os.path.isfile(url.file):
        raise UserError(f"--url {url}: no such file {url.file}")  # SQLite would make one
    try:
        return _make_cached_engine(parsed, os.getcwd())
    except NoSuchModuleError:
        raise UserError(
            f"--url {url}: SQLAlchemy knows no {parsed.drivername}://; correct it, or install the package of that"
            " dialect"
        ) from None
    except ModuleNotFoundError as error:
        module = str(error.name).partition(".")[0]
        hint = install_hint("sql") if module == "psycopg" else f"run: pip install {_PACKAGES.get(module, module)}"
        raise UserError(f"--url {url} needs the driver {module}; {hint}") from None
    except (SAWarning, SQLAlchemyError, ImportError, TypeError, ValueError) as error:
        reason = url.hide(" ".join(str(error).split())).partition(" (Background on ")[0]
        raise UserError(f"--url {url}: {reason}") from None


@cache
def _make_cached_engine(url: "URL", _: str) -> "Engine":
    """Return an engine, which asks the database for its version and settings once; a folder is that of SQLite's file.

    It opens a connection for each use.
    """
    from sqlalchemy import create_engine
    from sqlalchemy.exc import SAWarning
    from sqlalchemy.pool import NullPool

    logging.getLogger(f"sqlalchemy.pool.impl.NullPool.{__name__}").disabled = True  # errors are raised, too
    with warnings.catch_warnings():
        warnings.simplefilter("error", SAWarning)  # of a parameter that is ignored
        return create_engine(url, poolclass=NullPool, pool_logging_name=__name__)


def _connect(engine: "Engine", url: DatabaseUrl) -> "Connection":
    with _database_errors(f"--url {url}", url, engine):
        try:
            connection = engine.connect()
        except (TypeError, ValueError) as error:  # of a parameter that the driver does not take
            raise UserError(f"--url {url}: {url.hide(str(error))}") from None
    if engine.name == "postgresql":
        return connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    if engine.name == "sqlite":
        connection.exec_driver_sql("PRAGMA query_only = ON")
        decode = partial(str, encoding="utf-8", errors="surrogateescape")
        connection.connection.dbapi_connection.text_factory = decode  # type: ignore[union-attr]
    return connection


@contextmanager
def _database_errors(where: str, url: DatabaseUrl, engine: "Engine") -> Iterator[None]:
    """Raise errors of the database or its driver as a UserError or a JobError that begins with `where`."""
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    driver: Any = engine.dialect.loaded_dbapi
    try:
        yield
    except (SQLAlchemyError, driver.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        message = getattr(getattr(cause, "diag", None), "message_primary", None) or str(cause)  # psycopg's, or any
        reason = url.hide(" ".join(message.split()))
        failed = JobError if _TRANSIENT.search(reason) else UserError
        raise failed(f"{where}: {reason}") from None


def _revision(path: str) -> str:
    try:
        return storage.read_revision(path)
    except FileNotFoundError:
        return ""


# Arrow types of PostgreSQL's types, by name; a value of any other type is the text that PostgreSQL prints
_ARROW_TYPES: Mapping[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "oid": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "text": pa.string(),
    "varchar": pa.string(),
    "bpchar": pa.string(),
    "name": pa.string(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}


def _postgresql_schema(columns: Sequence[tuple[str, int]]) -> tuple[pa.Schema, tuple[int, ...]]:
    """Return the Arrow schema of columns, given as (name, OID of type), and the OIDs whose values are read as text."""
    from psycopg import postgres

    fields, text_types = [], []
    for name, oid in columns:
        info = postgres.types.get(oid)
        known = "" if info is None else info.name
        is_list = info is not None and oid == info.array_oid
        kind = _ARROW_TYPES.get(known)
        if kind is None:
            text_types.append(oid if info is None else info.oid)
            kind = pa.string()
        fields.append(pa.field(name, pa.list_(kind) if is_list else kind))
    return pa.schema(fields), tuple(dict.fromkeys(text_types))


def _register_texts(connection: "Connection", text_types: Sequence[int]) -> None:
    """Let psycopg return values of these types, by OID, as the text that PostgreSQL prints."""
    if not text_types:
        return
    from psycopg.types.string import TextLoader

    adapters: Any = connection.connection.dbapi_connection.adapters  # type: ignore[union-attr]
    for oid in text_types:
        adapters.register_loader(oid, TextLoader)


def one_state_notice(plan: QueryPlan) -> str:
    """Return a notice if rows that change while the database is read may be missed; "" if they cannot."""
    if plan.is_one_state:
        return ""
    return (
        f"the database was read in {plural(len(plan.ranges), 'transaction')}: rows that changed meanwhile may be"
        " missing or there twice; without --partition_by one statement reads one state"
    )
