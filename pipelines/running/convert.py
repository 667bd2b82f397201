"""A conversion as a function: what the command line, recipes and Python call."""

from collections.abc import Mapping
from dataclasses import dataclass

from apache_beam.options.pipeline_options import PipelineOptions

from pipelines.config.job import JobConfig
from pipelines.graphs.jobs import Job
from pipelines.running import launch, runner
from pipelines.running.checks import check
from pipelines.running.cleaning import claim, clean_up, missing_folders
from pipelines.running.taking_up import take_up
from shardmill.dataset import open_dataset
from shardmill.errors import JobError, UserError
from transforms.publishing import inputs_file
from transforms.stores import locks, storage


class Interrupted(KeyboardInterrupt):
    """A job that was interrupted; the message says what became of it, the cause how."""


@dataclass(frozen=True, slots=True)
class Published:
    """A data set that a job has published.

    Attributes:
      directory: of the version.
      splits: examples by split, in the splits' order.
      rejected: records that were left out.
      notices: what there is to know about it.
    """

    directory: str
    splits: Mapping[str, int]
    rejected: int
    notices: tuple[str, ...]


def run(
    job: Job, config: JobConfig, options: PipelineOptions, quiet: bool = False, inputs: bytes | None = None
) -> Published:
    """Run the job that `config` describes to its end, and clean up after a failure. Nothing is printed but progress.

    Args:
      job: of `config`.
      config: what to do.
      options: Beam's.
      quiet: whether progress is not shown.
      inputs: what the version is made from, which the next build will compare with; see
        transforms.publishing.inputs_file.

    Raises:
      UserError: a mistake; nothing was written.
      JobError: the job failed; the message says so if anything was published.
      Interrupted: by Ctrl-C or SIGTERM; threads of a local runner may still be under way, and end with the process.
    """
    check(config, options)
    if take_up(config):
        return published(config)
    missing = missing_folders(config)
    held = None
    try:
        with launch.terminable():
            held = claim(config)
            if inputs is not None:
                inputs_file.stage(storage.join(config.directory, config.temporary), inputs)
            launch.run(job.build, options, config.name, quiet)
    except (JobError, UserError):
        clean_up(config, missing)
        raise
    except KeyboardInterrupt as cause:
        if runner.is_local(options):
            raise Interrupted(clean_up(config, missing)) from cause
        raise Interrupted("the job itself goes on, and its runner can cancel it") from cause
    finally:
        locks.release(held)
    return published(config)


def published(config: JobConfig) -> Published:
    """What stands in the version directory of `config`."""
    manifest = open_dataset(config.directory, storage.BeamFiles()).manifest
    splits = {split.name: split.examples for split in manifest.splits}
    return Published(config.directory, splits, int(manifest.rejects.get("records", 0)), tuple(manifest.notices))
