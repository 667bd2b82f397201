"""The Python interface: `convert` runs a job, `plan` only plans it."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.errors import JobError, UserError
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.jobs.job import dry_run, run_recorded
from shardmill.pipelines.jobs.kind import Kind
from shardmill.pipelines.jobs.outcome import Published, begin_record
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.pipelines.jobs.runner import refuse_template
from shardmill.text import did_you_mean
from shardmill.transforms.stores.clients import using_options
from shardmill.transforms.stores.protocol import os_error_text


@dataclass(frozen=True, slots=True)
class Plan:
    """A job that was planned and not run, as `--dry_run` shows it."""

    text: str  # what the job would read and write, and the work it would be

    def __repr__(self) -> str:
        return self.text


def convert(command: str, *, beam_options: Sequence[str] = (), progress: bool = False, **options: Any) -> Published:
    """Run a job and wait for its end.

    The function never ends the process, restores all process settings, and prints nothing unless `progress` is set.
    Ctrl-C, and SIGTERM in the main thread, raise `pipelines.jobs.outcome.Interrupted`, a KeyboardInterrupt.

    Args:
        command: the name of the converting command: `images`, `csv`, …
        beam_options: as on the command line: `["--runner", "DataflowRunner", …]`
        progress: show progress on stderr
        options: by flag name; each a text as on the command line, a path, or a Python value such as
            `splits={"train": 0.9, "test": 0.1}`, `drop=["id", "name"]` or `resize=(224, 224)`

    Returns:
        The published version.

    Raises:
        UserError: a mistake in an option or the input; nothing was written.
        JobError: the job failed; the message says so if anything was published.
    """
    beam = PipelineOptions(list(beam_options))
    refuse_template(beam, "`convert` waits for the job's end")
    with _reach_stores(beam):
        return run_config(*make_config(command, options), beam, progress)


def run_config(kind: Kind, config: JobConfig, beam: PipelineOptions, progress: bool = False) -> Published:
    """Run the job of a configuration and wait for its end, see `convert`."""
    record = begin_record(config.name, config.version)
    built = run_recorded(kind.make_job, config, beam, record, quiet=not progress)
    if built.error is not None:
        raise built.error
    assert built.published is not None
    return built.published


def plan(command: str, *, beam_options: Sequence[str] = (), **options: Any) -> Plan:
    """Plan a job on this machine without writing anything, as `--dry_run` does.

    Args:
        command: the name of the converting command: `images`, `csv`, …
        beam_options: as on the command line
        options: as those of `convert`

    Raises:
        UserError: a mistake in an option or the input
        JobError: the input cannot be read
    """
    beam = PipelineOptions(list(beam_options))
    with _reach_stores(beam):
        kind, config = make_config(command, options)
        return Plan(dry_run(kind.make_job(config), config.name, beam))


@contextmanager
def _reach_stores(beam: PipelineOptions) -> Iterator[None]:
    """Reach stores with Beam's options within this context, and raise a JobError for an OSError."""
    try:
        with using_options(beam):
            yield
    except OSError as error:
        raise JobError(os_error_text(error)) from error


def make_config(command: str, options: Mapping[str, Any]) -> tuple[Kind, JobConfig]:
    """Return the kind of input and the configuration of a job; raises UserError."""
    if command not in KINDS:
        hint = did_you_mean(command, KINDS, "did you mean {}? The commands are") or "expected"
        raise UserError(f"unknown command {command!r}; {hint} {', '.join(KINDS)}")
    kind = KINDS[command]
    kind.check_installed()
    return kind, kind.make_config({name: _to_plain(value) for name, value in options.items()})


def _to_plain(value: Any) -> Any:
    """Return a value with texts for paths, also in lists, tuples and dictionaries."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {_to_plain(key): _to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_to_plain, value))
    return value
