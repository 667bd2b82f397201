"""Read a table or the result of a query of BigQuery with Beam's ReadFromBigQuery."""

import json
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions

from shardmill.errors import JobError, UserError

_REFUSALS = range(400, 500)  # statuses of mistakes; after any other the next try may be well
_TRY_AGAIN = (408, 429)


@dataclass(frozen=True, slots=True)
class BigQueryRows:
    """The rows of a query in GoogleSQL, or of a table."""

    query: str | None
    table: str | None  # as PROJECT:DATASET.TABLE or DATASET.TABLE
    temp_dataset: tuple[str, str] | None = None  # (project or "", dataset) for the result of the query

    def check(self, options: PipelineOptions) -> None:
        """Check that BigQuery accepts the query without running it, or that it has the table.

        Raises:
            UserError: BigQuery refuses it.
            JobError: BigQuery does not answer.
        """
        from apache_beam.io.gcp import bigquery_tools
        from apitools.base.py.exceptions import HttpError

        client = bigquery_tools.BigQueryWrapper.from_pipeline_options(options)
        project = options.view_as(GoogleCloudOptions).project
        try:
            if self.query is not None:
                client.get_query_location(project, self.query, False)
            else:
                table = bigquery_tools.parse_table_reference(self.table)
                client.get_table(table.projectId or project, table.datasetId, table.tableId)
        except HttpError as error:
            status = int(error.status_code)
            failed = UserError if status in _REFUSALS and status not in _TRY_AGAIN else JobError
            flag = "--table" if self.query is None else "--query"
            raise failed(f"{flag}: BigQuery answers with status {status}: {_message_of(error)}") from None

    def reader(self, project: str) -> beam.PTransform:
        """Return the PTransform that reads the rows as dictionaries; `project` is that of --project."""
        from apache_beam.io import ReadFromBigQuery
        from apache_beam.io.gcp.internal.clients import bigquery

        if self.query is None:
            return ReadFromBigQuery(table=self.table)
        temporary = None
        if self.temp_dataset is not None:
            own_project, dataset = self.temp_dataset
            temporary = bigquery.DatasetReference(projectId=own_project or project, datasetId=dataset)
        return ReadFromBigQuery(query=self.query, use_standard_sql=True, flatten_results=False, temp_dataset=temporary)


def _message_of(error: Any) -> str:
    try:
        return " ".join(str(json.loads(error.content)["error"]["message"]).split())
    except (ValueError, KeyError, TypeError):
        return " ".join(str(error).split())
