"""`--dry_run`: say what would be read and written, and write nothing."""

import os
import pickle

from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from pipelines.graphs.jobs import Job
from pipelines.running import launch
from pipelines.running.scratch import scratch_folder


def dry_run(job: Job, name: str, options: PipelineOptions) -> str:
    """Plan on this machine, whatever the runner, and describe the plan of the data set `name`."""
    options.view_as(StandardOptions).runner = None
    with scratch_folder("plan") as folder:
        path = os.path.join(folder, "plan")
        launch.run(lambda pipeline, _: job.plan(pipeline, path), options, f"{name}, dry run")
        with open(path, "rb") as file:
            return job.describe(pickle.load(file))
