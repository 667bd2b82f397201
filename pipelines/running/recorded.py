"""A conversion with its record: how it ended, for schedulers, written beside the versions."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from apache_beam.options.pipeline_options import PipelineOptions

import shardmill
from pipelines.config.job import JobConfig
from pipelines.graphs.jobs import Job
from pipelines.reports.since import profile_of, since_line
from pipelines.running.convert import Published, run
from shardmill.build_record import BuildRecord, Status, failed_record_path, record_path
from shardmill.errors import ChecksError, CorruptDataError, JobError, LockedError, OutrunError, UserError
from shardmill.naming import LATEST
from transforms.publishing.build_records import read_record, write_record
from transforms.stores import storage

Failure = UserError | JobError | CorruptDataError
_STATUSES: tuple[tuple[type[Exception], Status], ...] = (
    (OutrunError, "outrun"),
    (LockedError, "locked"),
    (ChecksError, "checks_failed"),
)


@dataclass(frozen=True, slots=True)
class Built:
    """How a build ended.

    Attributes:
      record: of it.
      published: what it has published, None if nothing.
      error: that it ended with, None if it did well.
    """

    record: BuildRecord
    published: Published | None = None
    error: Failure | None = None

    @property
    def exit_status(self) -> int:
        """Of a command that did nothing else."""
        return 0 if self.error is None else self.error.exit_status


def begin_record(name: str, version: str) -> BuildRecord:
    """The record of a build that begins now; it says that it is published, which it will be or be replaced."""
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return BuildRecord(name, version, "published", started, shardmill=shardmill.__version__)


def failed_record(record: BuildRecord, error: Exception) -> BuildRecord:
    """`record` of a build that `error` ended."""
    status: Status = next((status for kind, status in _STATUSES if isinstance(error, kind)), "failed")
    return replace(record, status=status, reason=str(error))


def run_recorded(
    make_job: Callable[[JobConfig], Job],
    config: JobConfig,
    options: PipelineOptions,
    record: BuildRecord,
    quiet: bool = False,
    run_job: Callable[..., Published] = run,
) -> Built:
    """As `run`, but what it raises of ours is in the result, and the record of the build is written.

    Args:
      make_job: the graph of a configuration.
      config, options, quiet: see `run`.
      record: as it began.
      run_job: what runs it.

    Raises:
      Interrupted: see `run`.
    """
    begun = time.monotonic()
    before = profile_of(config.parent)
    config = replace(config, record=record)
    try:
        published = run_job(make_job(config), config, options, quiet)
    except (UserError, JobError, CorruptDataError) as error:
        ended = _as_written(config, failed_record(record, error))
        ended = replace(ended, seconds=time.monotonic() - begun)
        if not isinstance(error, (UserError, LockedError)) or isinstance(error, OutrunError):
            write_if_there(config.parent, ended)
        return Built(ended, None, error)
    ended = replace(
        _as_written(config, record),
        splits=dict(published.splits),
        rejected=published.rejected,
        notices=published.notices,
        since=since_line(published.directory, before),
        seconds=time.monotonic() - begun,
    )
    write_record(config.parent, ended)
    return Built(ended, published)


def write_if_there(parent: str, record: BuildRecord) -> None:
    """Write the record of a build that published nothing, where there is a data set that it belongs to."""
    if storage.exists(storage.join(parent, LATEST)):
        write_record(parent, record)


def _as_written(config: JobConfig, record: BuildRecord) -> BuildRecord:
    """`record` with what the job itself has found and written: the checks, and what they compared with."""
    for path in (record_path(config.parent, record.version), failed_record_path(config.parent, record.version)):
        found = read_record(path)
        if found is not None and (found.started, found.data_version) == (record.started, record.data_version):
            return replace(record, checks=found.checks, baseline=found.baseline)
    return record
