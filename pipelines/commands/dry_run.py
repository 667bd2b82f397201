"""`--dry_run`: say what would be read and written, and write nothing."""

from apache_beam.options.pipeline_options import (
    DirectOptions,
    FlinkRunnerOptions,
    PipelineOptions,
    StandardOptions,
    WorkerOptions,
)

from shardmill.pipelines.graphs.jobs import Job
from shardmill.pipelines.running.plan import plan_of


def dry_run(job: Job, name: str, options: PipelineOptions) -> str:
    """Plan on this machine, whatever the runner, and describe the plan of the data set `name`, and what it is to do."""
    options.view_as(StandardOptions).runner = None
    slots = max(
        options.view_as(FlinkRunnerOptions).parallelism or 0,
        options.view_as(WorkerOptions).max_num_workers or options.view_as(WorkerOptions).num_workers or 0,
        options.view_as(DirectOptions).direct_num_workers or 0,
    )
    plan = plan_of(job, options, f"{name}, dry run")
    return "\n".join([job.describe(plan), *job.work(plan).sentences(slots)])
