"""`--dry_run`: say what would be read and written, and write nothing."""

from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from pipelines.graphs.jobs import Job
from pipelines.running.plan import plan_of


def dry_run(job: Job, name: str, options: PipelineOptions) -> str:
    """Plan on this machine, whatever the runner, and describe the plan of the data set `name`."""
    options.view_as(StandardOptions).runner = None
    return job.describe(plan_of(job, options, f"{name}, dry run"))
