"""A conversion with its record and its page: how it ended, for schedulers and people, beside the versions."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.checks.profile import Profile
from shardmill.errors import CorruptDataError, JobError, LockedError, OutrunError, UserError
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.graphs.jobs import Job
from shardmill.pipelines.reports import log
from shardmill.pipelines.reports.build_page import with_page_checks, write_page
from shardmill.pipelines.reports.reuse import remembered
from shardmill.pipelines.reports.since import profile_of, profile_of_opened, since_line
from shardmill.pipelines.running.convert import run
from shardmill.pipelines.running.outcome import (
    Built,
    Launched,
    Published,
    failed_record,
    interrupted,
    not_written,
    write_unpublished,
)
from shardmill.pipelines.running.signals import terminable
from shardmill.transforms.publishing.build_records import read_record, write_record
from shardmill.transforms.stores.brief import briefly
from shardmill.transforms.stores.together import together
from shardmill.versions.build_record import BuildRecord, failed_record_path, record_path


def run_recorded(
    make_job: Callable[[JobConfig], Job],
    config: JobConfig,
    options: PipelineOptions,
    record: BuildRecord,
    quiet: bool = False,
    run_job: Callable[..., Published | Launched] = run,
    first_too: bool = False,
) -> Built:
    """As `run`, but what it raises of ours is in the result, and the record of the build is written, with
    the page about it. Of a job that was launched the record is the job's to write.

    Args:
      make_job: the graph of a configuration.
      config, options, quiet: see `run`.
      record: as it began.
      run_job: what runs it.
      first_too: whether it is on record also where it fails and there is no data set yet.

    Raises:
      Interrupted: see `run`; also once the version is published, which it says.
    """
    begun = time.monotonic()
    before = profile_of(config.parent)
    record = replace(record, before="" if before is None else before.version)
    config = replace(config, record=record)
    try:
        with terminable():
            return _run_recorded(
                lambda: run_job(make_job(config), config, options, quiet), config, record, before, begun, first_too
            )
    except KeyboardInterrupt as interruption:
        since_then = replace(record, seconds=time.monotonic() - begun)
        told_of = interrupted(config.parent, since_then, interruption, first_too)
        raise told_of from (interruption.__cause__ or interruption)


def _run_recorded(
    job: Callable[[], Published | Launched],
    config: JobConfig,
    record: BuildRecord,
    before: Profile | None,
    begun: float,
    first_too: bool,
) -> Built:
    try:
        published = job()
    except (UserError, JobError, CorruptDataError) as error:
        with briefly():
            ended = _as_written(config, failed_record(record, error))
        ended = replace(ended, seconds=time.monotonic() - begun)
        told = not isinstance(error, (UserError, LockedError)) or isinstance(error, OutrunError)
        if told and (path := write_unpublished(config.parent, ended, first_too)):
            write_page(config.parent, ended, path, before)
        return Built(ended, None, error)
    if isinstance(published, Launched):
        return Built(replace(record, status="launched", reason=str(published), seconds=time.monotonic() - begun))
    opened = published.dataset
    index, as_written, profile = together(
        config.parent,
        partial(remembered, config, opened.manifest_crc32c),
        partial(_as_written, config, record),
        partial(profile_of_opened, opened),
    )
    notices = () if index is None else index.notices
    for notice in notices:  # also where all that is well is left out
        log.warn(notice)
    ended = replace(
        as_written,
        splits=dict(published.splits),
        rejected=published.rejected,
        notices=published.notices + notices,
        since=since_line(profile, before),
        reused=None if index is None else index.reused,
        read=None if index is None else index.read,
        seconds=time.monotonic() - begun,
    )
    ended = with_page_checks(ended, profile, before)
    path = record_path(config.parent, ended.version)
    try:
        path = write_record(config.parent, ended)
    except OSError as error:  # the one that the job itself has written stands, without the seconds
        log.warn(not_written(error))
    write_page(config.parent, ended, path, before, profile and (opened, profile))
    return Built(ended, published, index=index)


def _as_written(config: JobConfig, record: BuildRecord) -> BuildRecord:
    """`record` with what the job itself has found and written: the checks, and what they compared with; as it is where
    that cannot be read."""
    for path in (record_path(config.parent, record.version), failed_record_path(config.parent, record.version)):
        with suppress(OSError):
            found = read_record(path)
            if found is not None and found.is_of(record):
                return replace(record, checks=found.checks, baseline=found.baseline)
    return record
