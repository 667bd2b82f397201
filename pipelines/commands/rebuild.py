"""`shardmill rebuild`: build new versions by recipes, for example every night."""

import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from shardmill.errors import UserError
from shardmill.metadata import file_names
from shardmill.metadata.versions import BuildRecord
from shardmill.pipelines.config.flags import BuildOutputOptions, Parser, add_flags, beam_options
from shardmill.pipelines.nightly.recipe import InvalidRecipe, Recipe, check_status, load_recipes
from shardmill.pipelines.nightly.recipe_values import parse_date, parse_set
from shardmill.pipelines.reports import log
from shardmill.transforms.options.declare import flag, options_of
from shardmill.transforms.stores.clients import using_options

if TYPE_CHECKING:
    from shardmill.pipelines.jobs.outcome import Built, Failure, Interrupted

_EPILOG = (
    "Every option of Apache Beam is passed through, and takes the place of the recipe's. "
    "Exit status: 0 published, or unchanged unless --unchanged_status says otherwise; 1 failed; 2 a mistake; 3 the data"
    " failed the checks; 4 another job builds that version, or has published a newer one; 130 interrupted. Of several"
    " recipes, the worst: that of a failure, of a mistake, of checks, of a lock."
)
_STATUS_ORDER = (1, 2, 3, 4)  # which of several statuses is that of the command


def _as_tuple(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _check_version(version: str) -> str | None:
    return None if file_names.is_version(version) else "expected three numbers, such as 1.0.0"


@dataclass(frozen=True, kw_only=True)
class RebuildOptions(BuildOutputOptions):
    """The options of `shardmill rebuild`."""

    title: ClassVar[str] = "rebuild"

    dry_run: bool = flag(False, "say what would be done, and write nothing", shapes=False)
    force: bool = flag(False, "build although nothing differs", shapes=False)
    full: bool = flag(False, "read every file: take nothing from the shards of an older version", shapes=False)
    version: str | None = flag(
        None, "in place of the recipe's, as for one day again", check=_check_version, shapes=False
    )
    overwrite: bool = flag(False, "replace that version if it is published", shapes=False)
    set_latest: bool = flag(False, "let LATEST name the version although it names a newer one", shapes=False)
    date: Any = flag(
        None,
        "of {YYYY}, {MM} and {DD} in inputs and versions, such as 2026-11-20",
        parse=parse_date,
        default_words="today, in UTC",
        shapes=False,
    )
    set: tuple[str, ...] = flag(
        (), "the value of ${NAME} in recipes; repeat", parse=_as_tuple, repeats=True, metavar="NAME=VALUE", shapes=False
    )
    unchanged_status: int | None = flag(
        None,
        "the exit status where there was nothing to do, such as 99 for Airflow to skip what follows",
        check=check_status,
        default_words="the recipe's, or 0",
        shapes=False,
    )


def rebuild_parser() -> Parser:
    """Return the parser of `shardmill rebuild`."""
    parser = Parser(
        prog="shardmill rebuild",
        description=(
            "Build data sets anew where their inputs or options differ, by recipes: a new version of each is checked"
            " against the one that LATEST names, published, and old ones are deleted."
        ),
        epilog=_EPILOG,
    )
    parser.add_argument(
        "recipes", nargs="+", metavar="RECIPE", help="a YAML file, or a folder of them; local, gs://, s3://, az://"
    )
    add_flags(parser, options_of(RebuildOptions))
    parser.add_argument("--debug", action="store_true", help="show the full trace of a failure")
    return parser


def run_rebuild(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    parser = rebuild_parser()
    args, rest = parser.parse_known_args(list(arguments))
    values = vars(args)
    paths, debug = values.pop("recipes"), values.pop("debug")
    told = RebuildOptions(**values)
    day = told.date or datetime.now(UTC).date()
    with _stores_configured(rest, parser):  # by which recipes in object stores are read
        recipes = load_recipes(paths, parse_set(told.set), day, os.environ)
    if told.version is not None and len(recipes) > 1:
        raise UserError(
            f"--version {told.version} is about one data set, and there are {len(recipes)} recipes; give one"
        )
    ends = [_run_recipe(recipe, told, rest, parser, debug) for recipe in recipes]
    if len(ends) > 1:
        _print_message(told, _summary(ends))
    statuses = [status for _, status in ends]
    worst = next((status for status in _STATUS_ORDER if status in statuses), None)
    if worst is not None:
        return worst
    return statuses[0] if len(set(statuses)) == 1 else 0


def _run_recipe(
    recipe: Recipe | InvalidRecipe, told: RebuildOptions, rest: Sequence[str], parser: Parser, debug: bool
) -> tuple[str, int]:
    """Follow one recipe; return its end in a word, and its exit status."""
    if isinstance(recipe, InvalidRecipe):
        return _report_invalid(recipe.name, recipe.error, told)
    from shardmill.pipelines.jobs.outcome import Interrupted
    from shardmill.pipelines.nightly.rebuild import rebuild

    words = [*recipe.beam, *rest]
    options = partial(beam_options, words, parser)
    try:
        reached = _stores_configured(words, parser)
    except UserError as error:
        return _report_invalid(recipe.name, recipe.located(error), told)
    with reached:
        if (said := _runner_warning(words, options)) is not None:
            log.warn(f"{recipe.name}: {said}")
        if told.dry_run:
            return _dry_run(recipe, told, options)
        try:
            built = rebuild(recipe, _build_request(told), options, *_message_functions(recipe, told))
        except Interrupted as interrupted:
            _end_interrupted(recipe, interrupted, told)
    if debug and built.error is not None:
        raise built.error
    status = _exit_status(built.record, recipe, told) if built.error is None else built.error.exit_status
    _report_end(built, told, status)
    if built.error is not None:
        _notify(recipe, built.record)
    return built.record.status, status


def _end_interrupted(recipe: Recipe, interrupted: "Interrupted", told: RebuildOptions) -> NoReturn:
    """Exit at an interrupt; notify this recipe's webhook as for a failure."""
    from shardmill.pipelines.jobs.outcome import exit_interrupted

    record = interrupted.record
    log.info(f"interrupted; {interrupted}", **({} if record is None else {"build": json.loads(record.said.to_json())}))
    if record is not None:
        if told.json:
            print(record.said.to_json(), flush=True)
        if record.status == "interrupted":
            _notify(recipe, record)
    exit_interrupted(interrupted.__cause__)


def _notify(recipe: Recipe, record: BuildRecord) -> None:
    """Notify the recipe's webhook that nothing was published."""
    from shardmill.pipelines.nightly.rebuild import notify

    if recipe.on_failure.webhook is not None and (failed := notify(recipe.on_failure.webhook, record)) is not None:
        log.warn(failed)


def _report_invalid(name: str, error: UserError, told: RebuildOptions) -> tuple[str, int]:
    """Report a recipe that cannot be followed, by its name or that of its file; return its end and exit status."""
    from shardmill.pipelines.jobs.outcome import begin_record, failed_record

    if told.json:
        print(failed_record(begin_record(name, ""), error).to_json(), flush=True)
    log.error(str(error), exit_status=2)
    return "mistaken", 2


def _stores_configured(words: Sequence[str], parser: Parser) -> AbstractContextManager[None]:
    """Configure access to object stores with Beam's options; without any, Beam is not imported.

    Raises:
        UserError: an option is wrong, whether or not there is anything to do.
    """
    if not words:
        return nullcontext()
    from shardmill.pipelines.jobs.runner import check_runner_options

    options = beam_options(words, parser)
    check_runner_options(options)
    return using_options(options)


def _runner_warning(words: Sequence[str], options: Any) -> str | None:
    if not words:
        return None
    from shardmill.pipelines.jobs.runner import runner_warning

    return runner_warning(words, options())


def _build_request(told: RebuildOptions) -> Any:
    from shardmill.pipelines.nightly.planning import RebuildRequest

    return RebuildRequest(
        version=told.version,
        force=told.force,
        full=told.full,
        set_latest=told.set_latest,
        overwrite=told.overwrite,
        quiet=told.quiet,
    )


def _message_functions(recipe: Recipe, told: RebuildOptions) -> tuple[Any, Any]:
    return (lambda text: _print_message(told, f"{recipe.name}: {text}")), (
        lambda text: log.warn(f"{recipe.name}: {text}")
    )


def _dry_run(recipe: Recipe, told: RebuildOptions, options: Any) -> tuple[str, int]:
    """Report what would be done; return the recipe's end and exit status."""
    from shardmill.errors import CorruptDataError, JobError
    from shardmill.pipelines.nightly.planning import Unchanged, begin_build, find_kept, make_plan
    from shardmill.transforms.stores.protocol import os_error_text

    say, warn = _message_functions(recipe, told)
    try:
        recipe.kind.check_installed()
        made = make_plan(recipe, begin_build(recipe, _build_request(told)), _build_request(told), warn)
        if isinstance(made.decision, Unchanged):
            say(f"{made.decision}: nothing would be done")
            return "unchanged", _exit_status(made.record, recipe, told)
        from shardmill.pipelines.jobs.job import dry_run

        say(f"{made.decision}: {made.config.version} would be built")
        kept = find_kept(recipe, made.config.parent)
        for sentence in kept.said:
            say(sentence)
        config = kept.config(recipe, made.config.version)
        _print_message(told, dry_run(recipe.kind.make_job(config), recipe.name, options()))
    except (UserError, JobError, CorruptDataError) as error:
        return _not_planned(recipe, recipe.located(error) if isinstance(error, UserError) else error)
    except OSError as error:
        return _not_planned(recipe, JobError(f"a store failed: {os_error_text(error)}"))
    return "to be built", 0


def _not_planned(recipe: Recipe, error: "Failure") -> tuple[str, int]:
    log.error(f"{recipe.name}: {error}", exit_status=error.exit_status)
    return "failed", error.exit_status


def _exit_status(record: BuildRecord, recipe: Recipe, told: RebuildOptions) -> int:
    """Return the exit status of a recipe that did not fail."""
    if record.status != "unchanged":
        return 0
    return recipe.build.unchanged_status if told.unchanged_status is None else told.unchanged_status


def _report_end(built: "Built", told: RebuildOptions, status: int) -> None:
    from shardmill.pipelines.reports.log import published_line

    record, error = built.record, built.error
    if told.json:
        print(record.said.to_json(), flush=True)
    as_object = {"build": json.loads(record.said.to_json())}
    if error is not None:
        log.error(f"{record.name}: {error}", exit_status=status, **as_object)
        return
    _print_message(
        told, f"{record.name}: {record.reason}" if record.status == "unchanged" else published_line(record), **as_object
    )
    for said in filter(None, (record.since, *(f"NOTE: {notice}" for notice in _notices(built)))):
        _print_message(told, said)
    for check in record.checks:
        if check.get("severity") == "warn":
            log.warn(f"{record.name}: {check.get('check')}: {check.get('sentence')}")


def _notices(built: "Built") -> list[str]:
    """Return the notices of a published version, without those that the plan has warned of already."""
    if built.published is None:
        return []
    from shardmill.transforms.layout.options import is_missing_choice

    return [notice for notice in built.published.notices if not is_missing_choice(notice)]


def _print_message(told: RebuildOptions, text: str, **fields: Any) -> None:
    """Print a message on stdout, or log it if stdout is for the record alone or messages are JSON."""
    if told.json or told.log_format == "json":
        log.info(text, **fields)
    elif not told.quiet:
        log.print_result(text)


def _summary(ends: Sequence[tuple[str, int]]) -> str:
    counts = Counter(word for word, _ in ends)
    said = ", ".join(f"{number} {word.replace('_', ' ')}" for word, number in counts.items())
    return f"{len(ends)} recipes: {said}"
