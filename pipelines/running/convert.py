"""A conversion as a function: what the command line, recipes and Python call."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial

from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.errors import JobError, OutrunError, UserError
from shardmill.metadata import naming
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.graphs.jobs import Job
from shardmill.pipelines.reports import log
from shardmill.pipelines.running import launch, runner
from shardmill.pipelines.running.checks import check, check_output
from shardmill.pipelines.running.cleaning import clean_up, missing_folders, sealed, take_lease
from shardmill.pipelines.running.dataflow import template_of
from shardmill.pipelines.running.outcome import Interrupted, Launched, Published
from shardmill.pipelines.running.plan import plan_of
from shardmill.pipelines.running.signals import terminable
from shardmill.pipelines.running.taking_up import take_up
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.preprocessing.graph_process import begun_ahead
from shardmill.transforms.preprocessing.options import makes_graph
from shardmill.transforms.publishing import inputs_file
from shardmill.transforms.publishing.latest import is_newer, latest
from shardmill.transforms.publishing.lease import DETACHED_SECONDS, Lease
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.brief import briefly
from shardmill.transforms.stores.error_text import sentence_of
from shardmill.transforms.stores.stored import Stored
from shardmill.transforms.stores.together import together


def run(
    job: Job, config: JobConfig, options: PipelineOptions, quiet: bool = False, inputs: bytes | None = None
) -> Published | Launched:
    """Run the job that `config` describes to its end, and clean up after a failure. Nothing is printed but progress.

    A job that is written as a template is not waited for: nothing that it needs is left to do here.

    Args:
      job: of `config`.
      config: what to do.
      options: Beam's.
      quiet: whether progress is not shown.
      inputs: what the version is made from, which the next build will compare with; see
        shardmill.transforms.publishing.inputs_file.

    Raises:
      UserError: a mistake; nothing was written.
      LockedError: another job builds that version.
      OutrunError: another job has published a newer one since this one began.
      JobError: the job failed; the message says so if anything was published.
      Interrupted: by Ctrl-C or SIGTERM; threads of a local runner may still be under way, and end with the process.
    """
    check(config, options)
    missing = missing_folders(config)
    before, named = together(config.directory, partial(sealed, config), partial(latest, config.directory))
    lease = None
    try:
        with terminable():
            lease = take_lease(config, detached=not runner.works_here(options))
            names = check_output(config, config.overwrite)  # once more: another job may have published until now
            if naming.PUBLISHING not in names or not take_up(config):
                temporary = storage.join(config.directory, config.temporary)
                if inputs is not None:
                    inputs_file.stage(temporary, inputs)
                if not runner.is_local(options):
                    storage.make_directory(temporary)  # where steps say how they do
                build = job.build
                if job.plans_first:
                    build = partial(build, plan=plan_of(job, options, f"{config.name}, types", quiet, temporary))
                ahead = begun_ahead() if runner.is_local(options) and makes_graph(vars(config)) else nullcontext()
                with ahead:
                    launch.run(build, options, config.name, quiet, shared=temporary)
                if (template := template_of(options)) is not None:
                    lease.leave()
                    return Launched(config.directory, template)
            found = published(config)  # as long as nobody else may replace it
    except (JobError, UserError):
        _give_up(lease, config, missing, before)
        raise
    except OSError as error:  # as what is staged beside the shards is written, or what was published is read again
        raise JobError(f"{sentence_of(error)}; {_give_up(lease, config, missing, before)}") from error
    except KeyboardInterrupt as cause:
        if runner.works_here(options):
            raise Interrupted(_give_up(lease, config, missing, before)) from cause
        if lease is not None:
            lease.leave()
        raise Interrupted(
            f"the job itself goes on, and its runner can cancel it; {config.version} stays its own until it has written"
            f" nothing for {DETACHED_SECONDS / 3600:g} h, or {storage.join(config.directory, naming.LOCK)} is deleted"
        ) from cause
    finally:
        _release(lease)
    check_not_outrun(config, named)
    return found


def _give_up(lease: Lease | None, config: JobConfig, made: Sequence[str], before: Stored | None) -> str:
    """End the lease of a job that failed, and clear up; returns what to say of it."""
    with briefly():
        _release(lease)
        return clean_up(config, made, before)


def _release(lease: Lease | None) -> None:
    if lease is not None:
        lease.release()


def published(config: JobConfig) -> Published:
    """What stands in the version directory of `config`."""
    dataset = open_dataset(config.parent, storage.StorageFiles(), config.version)
    splits = {split.name: split.examples for split in dataset.manifest.splits}
    rejected, notices = int(dataset.manifest.rejects.get("records", 0)), tuple(dataset.manifest.notices)
    return Published(config.directory, splits, rejected, notices, dataset)


def check_not_outrun(config: JobConfig, before: str) -> None:
    """Check that no other job published a newer version while this one ran; that LATEST names a newer one as before,
    for this is a backfill, is said.

    Args:
      config: of the job, which has published its version.
      before: what LATEST named when it began.

    Raises:
      OutrunError: one did.
    """
    now = latest(config.directory)
    if not naming.is_version(now) or not is_newer(now, config.version):
        return
    if now != before:
        raise OutrunError(
            f"{config.directory} is published, but LATEST names {now}, which another job published while this one ran;"
            " --set_latest lets it name an older version"
        )
    log.say(f"LATEST names {now} as before, which is newer; --set_latest lets it name {config.version}")
