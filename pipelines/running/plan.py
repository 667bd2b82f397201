"""What a job would do, found out by a job of its own."""

import pickle
from contextlib import nullcontext
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.errors import UserError
from shardmill.pipelines.graphs.jobs import Job
from shardmill.pipelines.running import launch, runner
from shardmill.pipelines.running.dataflow import template_of
from shardmill.pipelines.running.scratch import scratch_folder
from shardmill.transforms.stores import storage


def plan_of(job: Job, options: PipelineOptions, title: str, quiet: bool = False, shared: str | None = None) -> Any:
    """Run the planning of `job`, and return what it found.

    Args:
      job: whose.
      options: Beam's.
      title: progress is shown under it.
      quiet: whether it is not shown.
      shared: a folder that workers on other machines reach too; not needed by the local runner.

    Raises:
      UserError, JobError: as shardmill.pipelines.running.launch.run.
    """
    if (template := template_of(options)) is not None:
        raise UserError(f"--template_location {template}: {job.plans_first}, which a template cannot wait for")
    local = runner.is_local(options)
    with scratch_folder("plan") if local or shared is None else nullcontext(shared) as folder:
        path = storage.join(folder, "plan")
        launch.run(lambda pipeline, _: job.plan(pipeline, path), options, title, quiet, shared)
        return pickle.loads(storage.read_bytes(path))
