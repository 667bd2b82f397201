"""The Python interface: `configure` makes a configuration, `convert` runs it."""

from collections.abc import Sequence
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.errors import UserError
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.jobs.job import run_recorded
from shardmill.pipelines.jobs.outcome import Published, begin_record
from shardmill.pipelines.jobs.registry import KINDS, kind_of
from shardmill.pipelines.jobs.runner import refuse_template
from shardmill.transforms.stores.clients import using_options


def configure(command: str, **options: Any) -> JobConfig:
    """Make the configuration of a job.

    Args:
        command: the name of the converting command: `images`, `csv`, …
        options: by flag name; each a text as on the command line, or an already parsed value

    Raises:
        UserError: a command or option is unknown, or a value is not allowed; with the message of the command line.
    """
    if command not in KINDS:
        raise UserError(f"unknown command {command!r}; expected {', '.join(KINDS)}")
    return KINDS[command].make_config(options)


def convert(config: JobConfig, beam_options: Sequence[str] = (), progress: bool = False) -> Published:
    """Run the job that `config` describes, and wait for its end.

    The function never ends the process, restores all process settings, and prints nothing unless `progress` is set.
    Ctrl-C, and SIGTERM in the main thread, raise `pipelines.jobs.outcome.Interrupted`, a KeyboardInterrupt.

    Args:
        config: made by `configure`
        beam_options: as on the command line: `["--runner", "DataflowRunner", …]`
        progress: show progress on stderr

    Returns:
        The published version.

    Raises:
        UserError: a mistake in an option or the input; nothing was written.
        JobError: the job failed; the message says so if anything was published.
    """
    kind = kind_of(config)
    kind.check_installed()
    options = PipelineOptions(list(beam_options))
    refuse_template(options, "`convert` waits for the job's end")
    with using_options(options):
        record = begin_record(config.name, config.version)
        built = run_recorded(kind.make_job, config, options, record, quiet=not progress)
    if built.error is not None:
        raise built.error
    assert built.published is not None
    return built.published
