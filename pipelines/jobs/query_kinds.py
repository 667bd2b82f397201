"""The commands that read the rows of a query: SQL databases and BigQuery."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from shardmill.errors import UserError
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.config.queries import BigQueryConfig, SqlConfig
from shardmill.pipelines.config.records import FormatSpec
from shardmill.pipelines.jobs.record_kinds import ROWS, RowsKind

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    from shardmill.pipelines.jobs.job import Job


@dataclass(frozen=True)
class SqlKind(RowsKind):
    """The sql command."""

    def make_job(self, config: JobConfig) -> "Job":
        from shardmill.pipelines.jobs.job import record_job

        assert isinstance(config, SqlConfig)
        return replace(record_job(config), open_rows=partial(_open_sql, config))


@contextmanager
def _open_sql(config: SqlConfig, options: "PipelineOptions") -> "Iterator[Callable[[], beam.PTransform]]":
    """Plan the query, and keep the state of the database while the job runs."""
    from shardmill.pipelines.jobs.runner import template_of
    from shardmill.pipelines.reports import log
    from shardmill.transforms.rows.queries import ReadSql
    from shardmill.transforms.rows.sql import hold_query, one_state_notice

    with hold_query(config.sql_query, config.is_decided, holds=template_of(options) is None) as plan:
        if notice := one_state_notice(plan):
            log.warn(notice)
        yield partial(ReadSql, plan)


@dataclass(frozen=True)
class BigQueryKind(RowsKind):
    """The bigquery command."""

    def make_job(self, config: JobConfig) -> "Job":
        from shardmill.pipelines.jobs.job import record_job

        assert isinstance(config, BigQueryConfig)
        return replace(record_job(config), open_rows=partial(_open_bigquery, config))


@contextmanager
def _open_bigquery(config: BigQueryConfig, options: "PipelineOptions") -> "Iterator[Callable[[], beam.PTransform]]":
    """Check that BigQuery takes the query, or has the table; yield what makes the PTransform that reads its rows."""
    from apache_beam.options.pipeline_options import GoogleCloudOptions

    from shardmill.pipelines.jobs.runner import check_google_credentials
    from shardmill.transforms.rows.bigquery import BigQueryRows

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


SQL = FormatSpec(
    name="sql",
    command="sql",
    plural="rows",
    suffixes="rows",
    summary="turn the rows of an SQL query into TFRecord shards",
    description="Turn the rows of an SQL query into balanced, shuffled TFRecord shards. Any database of SQLAlchemy is"
    " read; PostgreSQL and SQLite are tested.",
    flags=("url", "query", "partition_by", *ROWS.spec.flags),
    has_objects=True,
    required_modules=(("sqlalchemy", "sql reads databases with SQLAlchemy", "sql"),),
)
BIGQUERY = FormatSpec(
    name="bigquery",
    command="bigquery",
    plural="rows",
    suffixes="rows",
    summary="turn a table or a query of BigQuery into TFRecord shards",
    description="Turn a table or the rows of a query of BigQuery into balanced, shuffled TFRecord shards. BigQuery"
    " exports them as Avro files to --temp_location.",
    flags=("query", "table", "temp_dataset", *ROWS.spec.flags),
    has_objects=True,
    required_modules=(("apitools", "bigquery reads with Google's clients", "gcp"),),
)
KINDS = (
    SqlKind(SQL.command, SQL.summary, SQL.description, SqlConfig, spec=SQL),
    BigQueryKind(BIGQUERY.command, BIGQUERY.summary, BIGQUERY.description, BigQueryConfig, spec=BIGQUERY),
)
