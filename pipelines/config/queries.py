"""Configurations of jobs over the rows of a query: SQL databases and BigQuery."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardmill.errors import UserError
from shardmill.pipelines.config.records import RowsConfig
from shardmill.text import shorten
from shardmill.transforms.options.declare import OptionValueError, flag
from shardmill.transforms.rows.database_url import DatabaseUrl, parse_url

if TYPE_CHECKING:
    from shardmill.transforms.rows.sql import SqlQuery


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
    query: str = flag(
        help="SELECT whose rows become examples",
        parse=_parse_query,
        metavar="SELECT",
        group="input",
        affects_output=False,
    )
    partition_by: str | None = flag(
        None,
        "Column of integers, dates or timestamps in whose ranges all workers read the rows",
        metavar="COLUMN",
        group="input",
        default_words="one worker reads all rows",
        affects_output=False,
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
        """Return the query, and the columns whose types are chosen or that are not read."""
        from shardmill.transforms.rows.sql import SqlQuery

        return SqlQuery(self.url, self.query, self.partition_by)

    def is_decided(self, column: str) -> bool:
        """Return True for a column whose type the options choose, or that they leave out."""
        chosen = self.function is not None or self.schema is not None or column in (*dict(self.types), *self.drop)
        return chosen or bool(self.only and column not in self.only)


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

    query: str | None = flag(
        None,
        "SELECT in GoogleSQL whose rows become examples",
        parse=_parse_query,
        metavar="SELECT",
        group="input",
        affects_output=False,
    )
    table: str | None = flag(
        None,
        "Table whose rows become examples, as PROJECT.DATASET.TABLE or DATASET.TABLE",
        parse=_parse_table,
        metavar="TABLE",
        group="input",
        affects_output=False,
    )
    temp_dataset: tuple[str, str] | None = flag(
        None,
        "Dataset for the temporary table of --query, as PROJECT.DATASET or DATASET",
        parse=_parse_dataset,
        metavar="DATASET",
        group="input",
        default_words="a new one, which is deleted",
        affects_output=False,
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
