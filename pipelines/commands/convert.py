"""The converting commands, and their Flex Template for Dataflow."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import MISSING, dataclass
from functools import partial
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from shardmill.addons.registry import ADD_ONS
from shardmill.errors import UserError
from shardmill.installed import importing_beam
from shardmill.pipelines.commands.frame import Command, reach_stores
from shardmill.pipelines.config.flags import EPILOG, BuildOutputOptions, Parser, add_flags, beam_options, to_plain
from shardmill.pipelines.jobs.kind import Kind
from shardmill.pipelines.jobs.registry import KINDS, entries
from shardmill.pipelines.reports import log
from shardmill.text import did_you_mean, to_printable
from shardmill.transforms.options.declare import Option, options_of
from shardmill.transforms.stores.clients import set_options
from shardmill.transforms.values.options import is_making_graph

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
        description=kind.description,
        epilog=EPILOG,
        examples=kind.examples,
        add_arguments=partial(_add_arguments, kind),
        run=partial(_run, kind),
    )


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
    parser.add_short_help((*inputs, "output", "name", *kind.short_help, "splits", "overwrite", "dry_run"))


def _run(kind: Kind, parser: Parser, arguments: Sequence[str]) -> int:
    args, rest = parser.parse_known_args(list(arguments))
    values = vars(args)
    dry, recipe, _ = values.pop("dry_run"), values.pop("write_recipe", None), values.pop("debug")
    output_options = BuildOutputOptions(
        **{name: values.pop(name) for name in ("json", "log_format", "quiet") if name in values}
    )
    with ExitStack() as stack:
        if not (dry or recipe or rest) and is_making_graph(values):
            from shardmill.transforms.values.graph_process import prestarted

            stack.enter_context(prestarted())  # of all that is slow to import, Beam being the next
        return _convert(kind, parser, values, rest, output_options, recipe, dry)


def _convert(
    kind: Kind,
    parser: Parser,
    values: dict[str, Any],
    rest: Sequence[str],
    output_options: BuildOutputOptions,
    recipe: str | None,
    dry: bool,
) -> int:
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
        from shardmill.pipelines.jobs.outcome import (
            Interrupted,
            begin_record,
            exit_interrupted,
            interruption_of_report,
        )
        from shardmill.pipelines.jobs.runner import runner_warning

    if recipe is not None:
        check_input(config)
        log.print_result(import_module(_RECIPES[0]).write_recipe(recipe, config.secret_flags, kind, values, rest))
        return 0
    check_job(config, options, asks=not dry)
    if (message := runner_warning(rest, options)) is not None:
        log.warn(message)
    if config.shard_size is not None and config.shard_size < _SMALL_SHARD:
        log.warn(
            f"--shard_size is {config.shard_size:,} bytes, a file for each; a number without a unit is bytes: give one,"
            " such as 100MiB; trainers read files of 100 to 200 MB fastest"
        )
    make_job = partial(make_tuned_job, kind.make_job, options)
    if dry:
        log.print_result(dry_run(make_job(config), config.name, options, output_options.quiet))
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


_RUNS_OTHER_CODE = ("map", "map_batches", "module_file", "transform", "annotations")  # flags of jobs that import more


def _is_about_local_files(values: Mapping[str, Any]) -> bool:
    """Return True if no flag names a URL, or brings code that may use Beam itself."""
    return not any(values.get(name) for name in _RUNS_OTHER_CODE) and "://" not in str(list(values.values()))


def _report_end(config: "JobConfig", built: "Built", output_options: BuildOutputOptions) -> None:
    """Print how a build ended, or raise its error."""
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
        text = summary.job_summary(config, dataset, built.index, column_lines(dataset, built.profile))
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

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"


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
        return run_config(*make_config(command, options), beam, progress)


def run_config(kind: "Kind", config: "JobConfig", beam: "PipelineOptions", progress: bool = False) -> "Published":
    """Run the job of a configuration and wait for its end, see `convert`."""
    return _run_config(kind.make_job, config, beam, progress)


def _run_config(
    make_job: "Callable[[Any], Job]", config: "JobConfig", beam: "PipelineOptions", progress: bool
) -> "Published":
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
            return Plan(plan_job(make_job(config), config.name, beam, quiet=not progress))
        return _run_config(make_job, config, beam, progress)


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

        return Plan(dry_run(kind.make_job(config), config.name, beam, quiet=not progress))


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


COMMAND = "command"
SEPARATOR = ";"  # of the values of a flag that repeats
_PLACES = ("input", "manifest", "output")  # which the workers must reach
_URL = r"^[a-z][a-z0-9]*://.+"  # POSIX, extended, as all regexes of the metadata
_NAMED_URL = r"^([A-Za-z0-9_.-]+=)?[a-z][a-z0-9]*://.+"  # or several, of which the first is looked at
_WHOLE_NUMBER = r"^-?[0-9]+$"
_IMAGE = {  # Beam's, which a launch must be given to run its workers in the same image
    "name": "sdk_container_image",
    "label": "sdk_container_image",
    "helpText": "Container image of the workers; the template's image contains all that they need",
    "isOptional": True,
    "paramType": "TEXT",
}


def template_metadata(kinds: Mapping[str, Kind] = KINDS) -> dict[str, Any]:
    """Return the content of a Flex Template's metadata.json: a parameter for each flag of any of `kinds`.

    Source: https://cloud.google.com/dataflow/docs/guides/templates/configuring-flex-templates#metadata-parameters
    """
    commands = [{"value": name, "label": f"{name}: {entries()[name].summary}"} for name in kinds]
    command = {"name": COMMAND, "label": COMMAND, "helpText": "Kind of the input"}
    command_parameter = {**command, "paramType": "ENUM", "enumOptions": commands}
    return {
        "name": "shardmill",
        "description": "Raw images, arrays, audio, text and tables to balanced, reproducible TFRecord shards",
        "parameters": [command_parameter, *_make_parameters(kinds), _IMAGE],
    }


def _make_parameters(kinds: Mapping[str, Kind]) -> Iterator[dict[str, Any]]:
    """Yield the parameters of all flags: required ones first, then paths, then those that most commands have."""
    found: dict[str, dict[str, Option]] = {}  # by name and command
    for command, kind in kinds.items():
        for option in _list_visible_options(kind):
            found.setdefault(option.name, {})[command] = option
    first = {name: next(iter(options.values())) for name, options in found.items()}

    def importance(name: str) -> tuple[bool, bool, int]:
        is_required = _is_required(first[name]) and len(found[name]) == len(kinds)
        return not is_required, name not in _PLACES, -len(found[name])

    for name in sorted(found, key=importance):
        several = [command for command, option in found[name].items() if option.flag.repeats]
        only = [] if len(found[name]) == len(kinds) else list(found[name])
        yield _make_parameter(first[name], only, [] if len(several) == len(found[name]) else several, kinds)


def _list_commands(only: Sequence[str], kinds: Iterable[str]) -> str:
    """Return which commands have a flag; "" if all have it, which is an empty `only`."""
    others = [command for command in kinds if command not in only]
    return "" if not only else f"of {', '.join(only)}" if len(only) < len(others) else f"not of {', '.join(others)}"


def _make_parameter(
    option: Option, only: Sequence[str], several: Sequence[str], kinds: Iterable[str]
) -> dict[str, Any]:
    """Return the metadata of a flag's parameter.

    `only` are the commands that have the flag, `several` those that take it more than once, with names; empty for all.
    """
    help_texts = [option.flag.help, f"several are separated by {SEPARATOR}" if option.flag.repeats else ""]
    if several:
        named = SEPARATOR.join(f"{name}=PATH" for name in ("NAME", "OTHER"))
        help_texts.append(f"of {', '.join(several)} also several: {named}")
    help_texts.append(_list_commands(only, kinds))
    parameter: dict[str, Any] = {
        "name": option.name,
        "label": option.name,
        "helpText": "; ".join(filter(None, help_texts)),
        "isOptional": not _is_required(option) or bool(only),
        "paramType": "TEXT",
    }
    plain = option.flag.parse is None
    if option.type is bool and plain:
        parameter |= {"paramType": "BOOLEAN", "defaultValue": "false"}
    elif choices := tuple(filter(None, option.flag.choices)):
        parameter |= {"paramType": "ENUM", "enumOptions": [{"value": choice, "label": choice} for choice in choices]}
    elif option.type is int and plain:
        parameter |= {"paramType": "NUMBER", "regexes": [_WHOLE_NUMBER]}
    elif option.name in _PLACES and not option.flag.repeats:  # several, or each with its split, are no one URL
        parameter["regexes"] = [_NAMED_URL if several else _URL]
    return parameter


def _list_visible_options(kind: Kind) -> Iterator[Option]:
    return (option for option in kind.options if not option.flag.hidden)


def _is_required(option: Option) -> bool:
    return option.default is MISSING or option.flag.required


def launch_arguments(words: Iterable[str], kinds: Mapping[str, Kind] = KINDS) -> list[str]:
    """Return the command line of a launch from its parameters and Beam's options `words`, each `--name=value`.

    A template has only named parameters. So the command is a parameter, a flag without a value has one (`true` or
    `false`), and a repeated flag has all values in one.
    """
    given = [word.removeprefix("--").partition("=") for word in words]
    command = next((value for name, _, value in given if name == COMMAND), "")
    if command not in kinds:
        raise UserError(f"the parameter {COMMAND} is {command!r}; expected one of {', '.join(kinds)}")
    own = {option.name: option for option in _list_visible_options(kinds[command])}
    anyones = {option.name for kind in kinds.values() for option in _list_visible_options(kind)}
    line = [command]
    for name, equals, value in given:
        if name == COMMAND:
            continue
        if name in own:
            line += _make_flag_arguments(own[name], value)
        elif name in anyones:
            raise UserError(f"the parameter {name} has no meaning for the command {command}")
        else:
            line.append(f"--{name}{equals}{value}")
    return line


def _make_flag_arguments(option: Option, value: str) -> list[str]:
    if option.type is bool and option.flag.parse is None:
        if value.lower() not in ("true", "false"):
            raise UserError(f"the parameter {option.name} is {value!r}; expected true or false")
        return [f"--{option.name}"] if value.lower() == "true" else []
    values = value.split(SEPARATOR) if option.flag.repeats else [value]
    return [f"--{option.name}={one}" for one in values]
