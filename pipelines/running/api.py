"""A job from Python: `configure` says what it is told, `convert` runs it."""

from collections.abc import Sequence
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.errors import UserError
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.kinds.registry import KINDS, kind_of
from shardmill.pipelines.running.dataflow import refuse_template
from shardmill.pipelines.running.outcome import Published, begin_record
from shardmill.pipelines.running.recorded import run_recorded
from shardmill.transforms.stores.clients import reaching


def configure(command: str, **options: Any) -> JobConfig:
    """What a job of `command` (`images`, `csv`, …) is told.

    Args:
      command: the name of the kind of input.
      options: by the names of the command's flags; texts, or what they stand for.

    Raises:
      UserError: there is no such command or option, or a value is not allowed; the sentence is that of the command
        line.
    """
    if command not in KINDS:
        raise UserError(f"unknown command {command!r}; expected {', '.join(KINDS)}")
    return KINDS[command].make_config(options)


def convert(config: JobConfig, beam_options: Sequence[str] = (), progress: bool = False) -> Published:
    """Run the job that `config` describes, and wait for its end.

    It ends no process, leaves the settings of this one as they were, and prints nothing unless `progress`. Ctrl-C, and
    SIGTERM in the main thread, raise `shardmill.pipelines.running.outcome.Interrupted`, a KeyboardInterrupt.

    Args:
      config: what to do; see `configure`.
      beam_options: Beam's, as on the command line: `["--runner", "DataflowRunner", …]`.
      progress: whether to show how far it is, on stderr.

    Returns:
      What was published.

    Raises:
      UserError: a mistake in an option or the input; nothing was written.
      JobError: the job failed; the message says so if anything was published.
    """
    kind = kind_of(config)
    kind.check_installed()
    options = PipelineOptions(list(beam_options))
    refuse_template(options, "`convert` waits for the job's end")
    with reaching(options):
        record = begin_record(config.name, config.version)
        built = run_recorded(kind.make_job, config, options, record, quiet=not progress)
    if built.error is not None:
        raise built.error
    assert built.published is not None
    return built.published
