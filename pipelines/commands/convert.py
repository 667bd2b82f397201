"""The converting commands."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from shardmill.addons.registry import ADD_ONS
from shardmill.errors import UserError
from shardmill.installed import importing_beam
from shardmill.pipelines.commands.frame import Command, reach_stores
from shardmill.pipelines.config.flags import EPILOG, BuildOutputOptions, Parser, add_flags, beam_options, to_plain
from shardmill.pipelines.jobs.kind import Kind
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.pipelines.reports import log
from shardmill.text import did_you_mean, to_printable
from shardmill.transforms.features.options import AddOnOptions
from shardmill.transforms.options.declare import options_of
from shardmill.transforms.stores.clients import set_options

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

    from shardmill.pipelines.config.job import JobConfig
    from shardmill.pipelines.jobs.job import Job
    from shardmill.pipelines.jobs.outcome import Built, Published

_RECIPES = [add_on.module("recipe") for add_on in ADD_ONS if add_on.recipes]
_SMALL_SHARD = 1_000_000  # bytes: below, opening files takes longer than reading them


def convert_command(kind: Kind) -> Command:
    """Return the record of the command of `kind`."""
    return Command(
        name=kind.name,
        has_message_flags=False,
        description=kind.description,
        epilog=EPILOG,
        examples=_find_help(kind)[1],
        add_arguments=partial(_add_arguments, kind),
        run=partial(_run, kind),
    )


def _find_help(kind: Kind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the flags of a command's short help, and its examples, with those of add-ons."""
    flags, examples = kind.short_help, kind.examples
    for owner in dict.fromkeys(option.owner for option in kind.options):
        if issubclass(owner, AddOnOptions) and kind.name in owner.short_help:
            more, *added = owner.short_help[kind.name]
            place = flags.index(more[0]) if more[0] in flags else len(flags)
            flags, examples = (*flags[:place], *more, *flags[place + 1 :]), (*examples, *added)
    return flags, examples


def _add_arguments(kind: Kind, parser: Parser) -> None:
    add_flags(parser, (*kind.options, *options_of(BuildOutputOptions)))
    command = parser.add_argument_group("command")
    command.add_argument(
        "--dry_run", action="store_true", help="Report what would be read and written, without writing anything"
    )
    if _RECIPES:
        command.add_argument(
            "--write_recipe",
            metavar="FILE",
            help="Write these flags to FILE as a recipe for `shardmill rebuild`, without converting anything",
        )
    command.add_argument("--debug", action="store_true", help="Show the full traceback of a failure")
    inputs = tuple(option.name for option in kind.options if option.name == "input")
    parser.add_short_help((*inputs, "output", "name", *_find_help(kind)[0], "splits", "overwrite", "dry_run"))


def _run(kind: Kind, parser: Parser, arguments: Sequence[str]) -> int:
    args, rest = parser.parse_known_args(list(arguments))
    values = vars(args)
    dry, recipe, _ = values.pop("dry_run"), values.pop("write_recipe", None), values.pop("debug")
    output_options = BuildOutputOptions(
        **{name: values.pop(name) for name in ("json", "log_format", "quiet", "verbose") if name in values}
    )
    kind.refuse(rest)
    kind.check_installed()
    with importing_beam(not rest and _is_about_local_files(values)):
        options = beam_options(rest, parser)
        from shardmill.pipelines.jobs.runner import check_dataflow_submission

        set_options(options)
        if not dry and recipe is None:
            check_dataflow_submission(options)  # before a store is asked, which Dataflow's flags need not wait for
        config = kind.make_config(values)

        from shardmill.pipelines.jobs.job import check_input, check_job, dry_run, make_tuned_job, run_recorded
        from shardmill.pipelines.jobs.outcome import Interrupted, begin_record, exit_interrupted, interruption_of_report
        from shardmill.pipelines.jobs.runner import runner_warning

    if recipe is not None:
        check_input(config)
        log.print_result(import_module(_RECIPES[0]).write_recipe(recipe, config.secret_flags, kind, values, rest))
        return 0
    if not dry:  # which checks it, too
        check_job(config, options)
    if (message := runner_warning(rest, options)) is not None:
        log.warn(message)
    if config.shard_size is not None and config.shard_size < _SMALL_SHARD:
        log.warn(
            f"--shard_size is {config.shard_size:,} bytes, a file for each; a number without a unit is bytes: give one,"
            " such as 100MiB; trainers read files of 100 to 200 MB fastest"
        )
    make_job = partial(make_tuned_job, kind.make_job, options)
    if dry:
        log.print_result(dry_run(make_job, config, options, output_options.quiet))
        return 0
    built: Built | None = None
    try:
        built = run_recorded(make_job, config, options, begin_record(config.name, config.version), output_options.quiet)
        _report_end(config, built, output_options)
    except KeyboardInterrupt as cause:
        if isinstance(cause, Interrupted):
            interrupted = cause
        elif built is not None:
            interrupted = interruption_of_report(built, cause)
        else:
            raise
        log.info(f"interrupted; {interrupted}")
        if output_options.json and interrupted.record is not None:
            print(interrupted.record.without_page_checks.to_json(), flush=True)
        exit_interrupted(interrupted.__cause__)
    return 0


def _is_about_local_files(values: Mapping[str, Any]) -> bool:
    """Return True if no flag names a URL, or brings code that may use Beam itself."""
    of_add_ons = [name for add_on in ADD_ONS for name in add_on.code]
    is_plain = not any(values.get(name) for name in of_add_ons)
    return is_plain and "://" not in str(list(values.values()))


def _report_end(config: "JobConfig", built: "Built", output_options: BuildOutputOptions) -> None:
    from shardmill.pipelines.jobs.outcome import name_published
    from shardmill.pipelines.reports import summary
    from shardmill.pipelines.reports.inspection import column_lines
    from shardmill.pipelines.reports.log import published_line

    if output_options.json:
        log.print_done(
            built.record.without_page_checks.to_json(), f"{config.name} {built.record.version}: {built.record.status}"
        )
    if built.error is not None:
        raise built.error
    if built.record.status == "launched":
        log.info(built.record.reason, build=json.loads(built.record.without_page_checks.to_json()))
    elif output_options.log_format == "json":
        log.info(published_line(built.record), build=json.loads(built.record.without_page_checks.to_json()))
    elif built.published is not None and not (output_options.quiet or output_options.json):
        dataset = built.published.dataset
        since = f"\n\n{to_printable(built.record.since)}" if built.record.since else ""
        with name_published(dataset.directory):
            columns, is_first = column_lines(dataset, built.profile), not built.record.before
            text = summary.job_summary(config, dataset, built.index, columns, output_options.verbose or is_first)
        log.print_done(f"{text}{since}", f"{dataset.directory} is published")


@dataclass(frozen=True, slots=True)
class Plan:
    """A job that was planned and not run, as `--dry_run` shows it.

    Attributes:
        text: input, output and amount of work of the job.
    """

    text: str

    def __repr__(self) -> str:
        return self.text


def convert(command: str, *, beam_options: Sequence[str] = (), progress: bool = False, **options: Any) -> "Published":
    """Run a job and wait for its end.

    The function never ends the process, restores all process settings, and prints nothing unless `progress` is set.
    Ctrl-C, and SIGTERM in the main thread, raise a KeyboardInterrupt.

    Args:
        command: name of the converting command: `images`, `csv`, …
        beam_options: options of Apache Beam as on the command line: `["--runner", "DataflowRunner", …]`.
        progress: show progress on stderr, or as a bar in a notebook.
        options: options by flag name; each a text as on the command line, a path, or a Python value such as
            `splits={"train": 0.9, "test": 0.1}`, `drop=["id", "name"]` or `resize=(224, 224)`.

    Returns:
        The published version.

    Raises:
        UserError: a mistake in an option or the input; nothing was written.
        JobError: the job failed; the message says if anything was published.
    """
    _import_jobs()
    from shardmill.pipelines.jobs.runner import refuse_template

    with reach_stores(command, beam_options) as beam:
        refuse_template(beam, "`convert` waits for the job's end")
        kind, config = make_config(command, options)
        return run_config(kind.make_job, config, beam, progress)


def run_config(
    make_job: "Callable[[Any], Job]", config: "JobConfig", beam: "PipelineOptions", progress: bool = False
) -> "Published":
    """Run the job of a configuration and wait for its end, see `convert`."""
    from shardmill.pipelines.jobs.job import check_job, run_recorded
    from shardmill.pipelines.jobs.outcome import begin_record

    check_job(config, beam)
    record = begin_record(config.name, config.version)
    built = run_recorded(make_job, config, beam, record, quiet=not progress)
    if built.error is not None:
        raise built.error
    assert built.published is not None
    return built.published


def write(
    data: Any, *, beam_options: Sequence[str] = (), progress: bool = False, dry_run: bool = False, **options: Any
) -> "Published | Plan":
    """Write rows that the program holds as a data set, and wait for the end of the job.

    The same rows give the same shards as `shardmill parquet` on a file of them. Iterators are written to temporary
    files first, next to the data set, so that memory stays flat. Rejects number the rows from 1.

    Args:
        data: rows: a pandas or polars DataFrame, a pyarrow Table, RecordBatchReader or Dataset, a Hugging Face Dataset,
            a dictionary of NumPy arrays, or an iterable of dictionaries. A Hugging Face DatasetDict, or a dictionary of
            such tables, names the splits.
        beam_options: options of Apache Beam as on the command line.
        progress: show progress on stderr, or as a bar in a notebook.
        dry_run: return the plan, without writing anything.
        options: options by flag name, as those of `convert`: `output`, `name`, `label`, `splits`, …

    Returns:
        The published version; the plan with `dry_run`.

    Raises:
        UserError: a mistake in an option or the data; nothing was written.
        JobError: the job or the iterator failed; the message says if anything was published.
    """
    _import_jobs()
    from shardmill.pipelines.jobs.job import dry_run as plan_job
    from shardmill.pipelines.jobs.job import rows_job
    from shardmill.pipelines.jobs.record_kinds import DATA
    from shardmill.pipelines.jobs.runner import refuse_template
    from shardmill.transforms.rows.sources import is_read_once, open_rows

    with reach_stores("write", beam_options) as beam:
        refuse_template(beam, "`write` waits for the job's end")
        if dry_run and is_read_once(data):
            raise UserError("dry_run would use up the rows of an iterator; give a list, a table or a dataset")
        rows = open_rows(data)
        values = {name: to_plain(value) for name, value in options.items()}
        config: Any = DATA.make_config(
            values, rows_source=rows.description.removeprefix("the "), has_splits=rows.has_splits
        )
        make_job = partial(rows_job, rows=rows)
        if dry_run:
            return Plan(plan_job(make_job, config, beam, quiet=not progress))
        return run_config(make_job, config, beam, progress)


def plan(command: str, *, beam_options: Sequence[str] = (), progress: bool = False, **options: Any) -> Plan:
    """Plan a job on this machine without writing anything, as `--dry_run` does.

    Args:
        command: name of the converting command: `images`, `csv`, …
        beam_options: options of Apache Beam as on the command line.
        progress: show progress on stderr, or as a bar in a notebook.
        options: options by flag name, as those of `convert`.

    Returns:
        The plan, which prints as its text.

    Raises:
        UserError: a mistake in an option or the input.
        JobError: the input cannot be read.
    """
    _import_jobs()
    with reach_stores(command, beam_options) as beam:
        kind, config = make_config(command, options)
        from shardmill.pipelines.jobs.job import dry_run

        return Plan(dry_run(kind.make_job, config, beam, quiet=not progress))


def make_config(command: str, options: Mapping[str, Any]) -> "tuple[Kind, JobConfig]":
    """Return the kind of input and the configuration of a job; raises UserError."""
    if command not in KINDS:
        hint = did_you_mean(command, KINDS, "did you mean {}? The commands are") or "expected"
        raise UserError(f"unknown command {command!r}; {hint} {', '.join(KINDS)}")
    kind = KINDS[command]
    kind.check_installed()
    return kind, kind.make_config({name: to_plain(value) for name, value in options.items()})


def _import_jobs() -> None:
    with importing_beam(for_local_files=False):
        import_module("shardmill.pipelines.jobs.job")
