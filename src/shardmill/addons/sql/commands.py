"""The commands that read the rows of a query, and their options: SQL databases and BigQuery."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from shardmill.addons.sql.database_url import DatabaseUrl, parse_url
from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError, read_name
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.config.records import RowsConfig
from shardmill.pipelines.jobs.record_kinds import ROWS, RowsKind
from shardmill.text import shorten
from shardmill.transforms.options.declare import flag

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    from shardmill.addons.sql.query import SqlQuery
    from shardmill.pipelines.jobs.job import Job

_input_flag = partial(flag, group="input", affects_output=False)


def _parse_query(value: object) -> str:
    query = str(value).strip().rstrip(";").rstrip()
    if not query:
        raise OptionValueError("expected a SELECT")
    return query


@dataclass(frozen=True, kw_only=True)
class SqlConfig(RowsConfig):
    """The configuration of `shardmill sql`."""

    url: DatabaseUrl = flag(
        help="URL of the database, for example postgresql://me:${PASSWORD}@host/shop or sqlite:///shop.db; ${NAME} is"
        " an environment variable",
        parse=parse_url,
        metavar="URL",
        group="input",
        affects_output=False,
    )
    query: str = _input_flag(help="SELECT whose rows become examples", parse=_parse_query, metavar="SELECT")
    partition_by: str | None = _input_flag(
        None,
        "Column of integers, dates or timestamps in whose ranges all workers read the rows",
        parse=read_name,
        metavar="COLUMN",
        default_words="one worker reads all rows",
    )

    @property
    def source(self) -> str:
        return f"--query {shorten(' '.join(self.query.split()))}"

    @property
    def pattern(self) -> str:
        return f"{self.url} {self.query}"

    @property
    def secret_flags(self) -> tuple[str, ...]:
        return ("--url",) if self.url.variable else ()

    @property
    def local_files(self) -> tuple[tuple[str, str], ...]:
        return (("--url", self.url.file),) if self.url.file else ()

    @property
    def sql_query(self) -> "SqlQuery":
        """Return the query."""
        from shardmill.addons.sql.query import SqlQuery

        return SqlQuery(self.url, self.query, self.partition_by)


_TABLE = re.compile(r"(?:(?P<project>[\w.:-]+?)[:.])?(?P<dataset>\w+)\.(?P<table>[\w$-]+)")
_DATASET = re.compile(r"(?:(?P<project>[\w.:-]+?)[:.])?(?P<dataset>\w+)")


def _parse_table(value: object) -> str:
    found = _TABLE.fullmatch(str(value).strip("`"))
    if found is None:
        raise OptionValueError(f"{value!r}: expected PROJECT.DATASET.TABLE or DATASET.TABLE")
    return f"{found['project'] + ':' if found['project'] else ''}{found['dataset']}.{found['table']}"


def _parse_dataset(value: object) -> tuple[str, str]:
    project, dataset = value if isinstance(value, tuple) else ("", str(value))
    found = _DATASET.fullmatch(dataset)
    if found is None:
        raise OptionValueError(f"{value!r}: expected PROJECT.DATASET or DATASET")
    return project or found["project"] or "", found["dataset"]


@dataclass(frozen=True, kw_only=True)
class BigQueryConfig(RowsConfig):
    """The configuration of `shardmill bigquery`."""

    query: str | None = _input_flag(
        None, "SELECT in GoogleSQL whose rows become examples", parse=_parse_query, metavar="SELECT"
    )
    table: str | None = _input_flag(
        None,
        "Table whose rows become examples, as PROJECT.DATASET.TABLE or DATASET.TABLE",
        parse=_parse_table,
        metavar="TABLE",
    )
    temp_dataset: tuple[str, str] | None = _input_flag(
        None,
        "Dataset for the temporary table of --query, as PROJECT.DATASET or DATASET",
        parse=_parse_dataset,
        metavar="DATASET",
        default_words="a new one, which is deleted",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.query is None) == (self.table is None):
            raise UserError("give --query, a SELECT, or --table, and not both")
        if self.temp_dataset is not None and self.query is None:
            raise UserError("--temp_dataset is for the result of --query, and --table has none; leave it out")

    @property
    def source(self) -> str:
        return f"--table {self.table}" if self.query is None else f"--query {shorten(' '.join(self.query.split()))}"

    @property
    def pattern(self) -> str:
        return f"bigquery {self.table if self.query is None else self.query}"


@dataclass(frozen=True)
class QueryKind(RowsKind):
    """A command that converts the rows of a query."""

    open_query: Callable[..., Any] = field(kw_only=True)  # checks the query of (configuration, Beam's options)

    def make_job(self, config: JobConfig) -> "Job":
        from shardmill.pipelines.jobs.job import record_job

        assert isinstance(config, RowsConfig)
        return replace(record_job(config), open_rows=partial(self.open_query, config))


@contextmanager
def _open_sql(config: SqlConfig, options: "PipelineOptions") -> "Iterator[Callable[[], beam.PTransform]]":
    from shardmill.addons.sql.query import ReadSql, hold_query, one_state_notice
    from shardmill.pipelines.jobs.runner import template_of
    from shardmill.pipelines.reports import log

    with hold_query(config.sql_query, holds=template_of(options) is None) as plan:
        if notice := one_state_notice(plan):
            log.warn(notice)
        yield partial(ReadSql, plan)


@contextmanager
def _open_bigquery(config: BigQueryConfig, options: "PipelineOptions") -> "Iterator[Callable[[], beam.PTransform]]":
    """Check that BigQuery takes the query, or has the table; yield what makes the PTransform that reads its rows."""
    from apache_beam.options.pipeline_options import GoogleCloudOptions

    from shardmill.addons.sql.bigquery import BigQueryRows
    from shardmill.pipelines.jobs.runner import check_google_credentials

    google = options.view_as(GoogleCloudOptions)
    if not google.project:
        raise UserError("bigquery: no --project; expected the id of the project that pays for the query")
    if not (google.temp_location or "").startswith("gs://"):
        raise UserError(
            "bigquery: no --temp_location; expected a folder of a bucket such as gs://bucket/tmp, to which BigQuery"
            " exports the rows, and where the job deletes them"
        )
    check_google_credentials(options, "bigquery")
    rows = BigQueryRows(config.query, config.table, config.temp_dataset)
    rows.check(options)
    yield partial(rows.reader, google.project)


COMMANDS = (
    QueryKind(
        "sql",
        "Turn the rows of an SQL query into balanced, shuffled TFRecord shards. Any database of SQLAlchemy is"
        " read; PostgreSQL and SQLite are tested.",
        SqlConfig,
        open_query=_open_sql,
        short_help=("url", "query", "partition_by", "label", "stratify_by"),
        examples=(
            "--url sqlite:///shop.db --query 'SELECT * FROM orders' --output datasets --name orders --label paid",
            "--url 'postgresql://me:${PASSWORD}@host/shop' --query 'SELECT id, paid FROM orders' --partition_by id"
            " --output datasets --name orders",
        ),
        spec=replace(
            ROWS.spec,
            name="sql",
            flags=("url", "query", "partition_by", *ROWS.spec.flags),
            required_modules=(("sqlalchemy", "sql reads databases with SQLAlchemy", "sql"),),
        ),
    ),
    QueryKind(
        "bigquery",
        "Turn a table or the rows of a query of BigQuery into balanced, shuffled TFRecord shards. BigQuery"
        " exports them as Avro files to --temp_location.",
        BigQueryConfig,
        open_query=_open_bigquery,
        short_help=("query", "table", "temp_dataset", "label", "stratify_by"),
        examples=(
            "--query 'SELECT id, paid FROM shop.orders' --output gs://bucket/datasets --name orders --label paid"
            " --project shop-1 --temp_location gs://bucket/tmp",
            "--table shop.orders --output gs://bucket/datasets --name orders --project shop-1"
            " --temp_location gs://bucket/tmp",
        ),
        spec=replace(
            ROWS.spec,
            name="bigquery",
            flags=("query", "table", "temp_dataset", *ROWS.spec.flags),
            required_modules=(("apitools", "bigquery reads with Google's clients", "gcp"),),
        ),
    ),
)
