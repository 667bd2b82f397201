"""`shardmill rebuild`: build new versions by recipes, for example every night."""

import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from shardmill.errors import EXIT_STATUSES, JobError, UserError, describe_exit_statuses
from shardmill.metadata.versions import BuildRecord
from shardmill.pipelines.config.flags import Parser, add_flags, beam_options
from shardmill.pipelines.nightly.recipe import InvalidRecipe, RebuildOptions, Recipe, load_recipes
from shardmill.pipelines.nightly.recipe_values import parse_set
from shardmill.pipelines.reports import log
from shardmill.text import to_printable
from shardmill.transforms.options.declare import options_of
from shardmill.transforms.stores.clients import using_options

if TYPE_CHECKING:
    from shardmill.pipelines.jobs.outcome import Built, Failure, Interrupted

_EPILOG = (
    "Every option of Apache Beam is passed through, and takes the place of the recipe's. "
    f"{describe_exit_statuses(*EXIT_STATUSES)} If nothing had to be built, the status is --unchanged_status. With"
    " several recipes, it is the first of 1, 2, 3, 4 and 5 that occurs."
)
_STATUS_ORDER = (1, 2, 3, 4, 5)  # of several recipes' statuses, the command returns the last one in this order


def rebuild_parser() -> Parser:
    """Return the parser of `shardmill rebuild`."""
    parser = Parser(
        prog="shardmill rebuild",
        description=(
            "Rebuild data sets from recipes if their inputs or options changed. Each new version is"
            " checked against LATEST's and published; then old versions are deleted."
        ),
        epilog=_EPILOG,
    )
    parser.add_argument(
        "recipes",
        nargs="+",
        metavar="RECIPE",
        help="YAML file of a recipe, or a folder of recipes; local, gs://, s3://, az://",
    )
    add_flags(parser, options_of(RebuildOptions))
    parser.add_argument("--debug", action="store_true", help="Show the full traceback of a failure")
    return parser


def run_rebuild(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    parser = rebuild_parser()
    args, rest = parser.parse_known_args(list(arguments))
    values = vars(args)
    paths, debug = values.pop("recipes"), values.pop("debug")
    flags = RebuildOptions(**values)
    day = flags.date or datetime.now(UTC).date()

    def reach_stores(words: Sequence[str]) -> AbstractContextManager[None]:
        return configure_stores([*words, *rest], parser)

    with reach_stores(()):  # by which recipes in object stores are read
        recipes = load_recipes(paths, parse_set(flags.set), day, os.environ, reach_stores)
    if flags.version is not None and len(recipes) > 1:
        raise UserError(
            f"--version {flags.version} is about one data set, and there are {len(recipes)} recipes; give one"
        )
    if flags.accept and len(recipes) > 1:
        raise UserError(
            f"--accept {','.join(flags.accept)} is about one night of one data set, and there are {len(recipes)}"
            " recipes; give one"
        )
    ends = [_run_recipe(recipe, flags, rest, parser, debug) for recipe in recipes]
    if len(ends) > 1:
        counts = Counter(word for word, _ in ends).items()
        found = ", ".join(f"{number} {word.replace('_', ' ')}" for word, number in counts)
        _print_message(flags, f"{len(ends)} recipes: {found}")
    statuses = [status for _, status in ends]
    same = statuses[0] if len(set(statuses)) == 1 else 0
    return next((status for status in _STATUS_ORDER if status in statuses), same)


def _run_recipe(
    recipe: Recipe | InvalidRecipe, flags: RebuildOptions, rest: Sequence[str], parser: Parser, debug: bool
) -> tuple[str, int]:
    """Build by one recipe; return a word on how that ended, and the exit status."""
    if isinstance(recipe, InvalidRecipe):
        return _report_invalid(recipe.name, recipe.error, flags)
    from shardmill.pipelines.jobs.outcome import Interrupted
    from shardmill.pipelines.nightly.rebuild import rebuild

    words = [*recipe.beam, *rest]
    options = partial(beam_options, words, parser)
    with configure_stores(words, parser):  # which loading it has checked
        if words:
            from shardmill.pipelines.jobs.runner import runner_warning

            if (warning := runner_warning(words, options())) is not None:
                log.warn(f"{recipe.name}: {warning}")
        if flags.dry_run:
            return _dry_run(recipe, flags, options)
        try:
            built = rebuild(recipe, flags, options, *_make_message_functions(recipe, flags))
        except Interrupted as interrupted:
            _end_interrupted(recipe, interrupted, flags)
    if debug and built.error is not None:
        raise built.error
    status = _find_exit_status(built.record, recipe, flags) if built.error is None else built.error.exit_status
    _report_end(built, flags, status)
    if built.error is not None:
        _notify(recipe, built.record)
    return built.record.status, status


def _end_interrupted(recipe: Recipe, interrupted: "Interrupted", flags: RebuildOptions) -> NoReturn:
    """End the process after an interrupt; notify the recipe's webhook as for a failure."""
    from shardmill.pipelines.jobs.outcome import exit_interrupted

    record = interrupted.record
    build = {} if record is None else {"build": json.loads(record.without_page_checks.to_json())}
    log.info(f"interrupted; {interrupted}", **build)
    if record is not None:
        if flags.json:
            print(record.without_page_checks.to_json(), flush=True)
        if record.status == "interrupted":
            _notify(recipe, record)
    exit_interrupted(interrupted.__cause__)


def _notify(recipe: Recipe, record: BuildRecord) -> None:
    """Notify the recipe's webhook that nothing was published."""
    from shardmill.pipelines.nightly.rebuild import notify

    if recipe.on_failure.webhook is not None and (failed := notify(recipe.on_failure.webhook, record)) is not None:
        log.warn(failed)


def _report_invalid(name: str, error: UserError | JobError, flags: RebuildOptions) -> tuple[str, int]:
    """Report a recipe that cannot be followed, by its name or that of its file; return its end and exit status."""
    from shardmill.pipelines.jobs.outcome import begin_record, failed_record

    if flags.json:
        log.print_done(failed_record(begin_record(name, ""), error).to_json(), f"{name}: failed")
    log.error(str(error), exit_status=error.exit_status)
    return ("mistaken" if isinstance(error, UserError) else "failed"), error.exit_status


def configure_stores(words: Sequence[str], parser: Parser) -> AbstractContextManager[None]:
    """Configure access to object stores with Beam's options; without any, Beam is not imported."""
    if not words:
        return nullcontext()
    from shardmill.pipelines.jobs.runner import check_runner_options

    options = beam_options(words, parser)
    check_runner_options(options)
    return using_options(options)


def _make_message_functions(recipe: Recipe, flags: RebuildOptions) -> tuple[Any, Any]:
    return (lambda text: _print_message(flags, f"{recipe.name}: {text}")), (
        lambda text: log.warn(f"{recipe.name}: {text}")
    )


def _dry_run(recipe: Recipe, flags: RebuildOptions, options: Any) -> tuple[str, int]:
    """Report what a recipe would build; return a word on the outcome and the exit status."""
    from shardmill.errors import CorruptDataError, JobError
    from shardmill.pipelines.nightly.planning import (
        Unchanged,
        apply_on_published,
        begin_build,
        find_kept_settings,
        make_plan,
    )
    from shardmill.transforms.stores.protocol import os_error_text

    say, warn = _make_message_functions(recipe, flags)
    failure: Failure
    try:
        recipe.kind.check_installed()
        plan = make_plan(recipe, begin_build(recipe, flags), flags, warn)
        if isinstance(plan.decision, Unchanged):
            say(f"{plan.decision}: nothing would be done")
            return "unchanged", _find_exit_status(plan.record, recipe, flags)
        from shardmill.pipelines.jobs.job import dry_run

        plan, _ = apply_on_published(recipe, plan, flags)
        say(f"{plan.decision}: {plan.config.version} would be built")
        kept_settings = find_kept_settings(recipe, plan.config.parent)
        for sentence in kept_settings.messages:
            say(sentence)
        config = kept_settings.config(recipe, plan.config.version)
        _print_message(flags, dry_run(recipe.kind.make_job(config), recipe.name, options()))
        return "to be built", 0
    except (UserError, JobError, CorruptDataError) as error:
        failure = recipe.located(error) if isinstance(error, UserError) else error
    except OSError as error:
        failure = JobError(f"a store failed: {os_error_text(error)}")
    log.error(f"{recipe.name}: {failure}", exit_status=failure.exit_status)
    return "failed", failure.exit_status


def _find_exit_status(record: BuildRecord, recipe: Recipe, flags: RebuildOptions) -> int:
    """Return the exit status of a recipe that did not fail."""
    if record.status != "unchanged":
        return 0
    return recipe.build.unchanged_status if flags.unchanged_status is None else flags.unchanged_status


def _report_end(built: "Built", flags: RebuildOptions, status: int) -> None:
    from shardmill.pipelines.reports.log import published_line

    record, error = built.record, built.error
    if flags.json:
        log.print_done(record.without_page_checks.to_json(), f"{record.name} {record.version}: {record.status}")
    as_object = {"build": json.loads(record.without_page_checks.to_json())}
    if error is not None:
        log.error(f"{record.name}: {error}", exit_status=status, **as_object)
        return
    line = f"{record.name}: {record.reason}" if record.status == "unchanged" else published_line(record)
    _print_message(flags, line, **as_object)
    notices: tuple[str, ...] = ()
    if built.published is not None:
        from shardmill.transforms.layout.options import is_missing_choice

        notices = tuple(
            notice for notice in built.published.notices if not is_missing_choice(notice)
        )  # warned of before
    for message in filter(None, (record.since, *(f"NOTE: {notice}" for notice in notices))):
        _print_message(flags, message)
    for check in record.checks:
        if check.get("severity") in ("warn", "error"):  # an error of a published version is accepted
            accepted = "accepted: " if check.get("severity") == "error" else ""
            log.warn(f"{record.name}: {accepted}{check.get('check')}: {check.get('sentence')}")


def _print_message(flags: RebuildOptions, text: str, **fields: Any) -> None:
    """Print a message on stdout, or log it if stdout is for the record alone or messages are JSON."""
    if flags.json or flags.log_format == "json":
        log.info(text, **fields)
    elif not flags.quiet:
        log.print_done("\n".join(map(to_printable, text.split("\n"))), text)
