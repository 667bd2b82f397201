"""`shardmill rebuild`: recipes to versions, every night."""

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
from shardmill.metadata import naming
from shardmill.pipelines.flags.options import Parser, beam_options
from shardmill.pipelines.flags.parser import add_flags
from shardmill.pipelines.flags.say import BuildSayOptions
from shardmill.pipelines.recipes.dates import parse_date
from shardmill.pipelines.recipes.load import Mistaken, load_recipes
from shardmill.pipelines.recipes.recipe import Recipe
from shardmill.pipelines.recipes.sections import check_status
from shardmill.pipelines.recipes.variables import parse_set
from shardmill.pipelines.reports import log
from shardmill.transforms.options.declare import flag, options_of
from shardmill.transforms.stores.clients import reaching
from shardmill.versions.build_record import BuildRecord

if TYPE_CHECKING:
    from shardmill.pipelines.running.outcome import Built, Failure, Interrupted

_EPILOG = (
    "Every option of Apache Beam is passed through, and takes the place of the recipe's. "
    "Exit status: 0 published, or unchanged unless --unchanged_status says otherwise; 1 failed; 2 a mistake; 3 the data"
    " failed the checks; 4 another job builds that version, or has published a newer one; 130 interrupted. Of several"
    " recipes, the worst: that of a failure, of a mistake, of checks, of a lock."
)
_WORST = (1, 2, 3, 4)  # which of several statuses is that of the command


def _pairs(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _version(version: str) -> str | None:
    return None if naming.is_version(version) else "expected three numbers, such as 1.0.0"


@dataclass(frozen=True, kw_only=True)
class RebuildOptions(BuildSayOptions):
    """What the command is told beside its recipes."""

    title: ClassVar[str] = "rebuild"

    dry_run: bool = flag(False, "say what would be done, and write nothing", shapes=False)
    force: bool = flag(False, "build although nothing differs", shapes=False)
    full: bool = flag(False, "read every file: take nothing from the shards of an older version", shapes=False)
    version: str | None = flag(None, "in place of the recipe's, as for one day again", check=_version, shapes=False)
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
        (), "the value of ${NAME} in recipes; repeat", parse=_pairs, repeats=True, metavar="NAME=VALUE", shapes=False
    )
    unchanged_status: int | None = flag(
        None,
        "the exit status where there was nothing to do, such as 99 for Airflow to skip what follows",
        check=check_status,
        default_words="the recipe's, or 0",
        shapes=False,
    )


def rebuild_parser() -> Parser:
    """The parser of `shardmill rebuild`."""
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


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    parser = rebuild_parser()
    args, rest = parser.parse_known_args(list(arguments))
    values = vars(args)
    paths, debug = values.pop("recipes"), values.pop("debug")
    told = RebuildOptions(**values)
    day = told.date or datetime.now(UTC).date()
    with _reaching(rest, parser):  # by which recipes in object stores are read
        recipes = load_recipes(paths, parse_set(told.set), day, os.environ)
    if told.version is not None and len(recipes) > 1:
        raise UserError(
            f"--version {told.version} is about one data set, and there are {len(recipes)} recipes; give one"
        )
    ends = [_follow(recipe, told, rest, parser, debug) for recipe in recipes]
    if len(ends) > 1:
        _tell(told, _summary(ends))
    statuses = [status for _, status in ends]
    worst = next((status for status in _WORST if status in statuses), None)
    if worst is not None:
        return worst
    return statuses[0] if len(set(statuses)) == 1 else 0


def _follow(
    recipe: Recipe | Mistaken, told: RebuildOptions, rest: Sequence[str], parser: Parser, debug: bool
) -> tuple[str, int]:
    """How one recipe ended, in a word, and the status of that."""
    if isinstance(recipe, Mistaken):
        return _mistaken(recipe.name, recipe.error, told)
    from shardmill.pipelines.rebuilding.rebuild import rebuild
    from shardmill.pipelines.running.outcome import Interrupted

    words = [*recipe.beam, *rest]
    options = partial(beam_options, words, parser)
    try:
        reached = _reaching(words, parser)
    except UserError as error:
        return _mistaken(recipe.name, recipe.located(error), told)
    with reached:
        if (said := _said_of_flags(words, options)) is not None:
            log.warn(f"{recipe.name}: {said}")
        if told.dry_run:
            return _dry_run(recipe, told, options)
        try:
            built = rebuild(recipe, _asked(told), options, *_voices(recipe, told))
        except Interrupted as interrupted:
            _end_interrupted(recipe, interrupted, told)
    if debug and built.error is not None:
        raise built.error
    status = _status_of(built.record, recipe, told) if built.error is None else built.error.exit_status
    _tell_end(built, told, status)
    if built.error is not None:
        _notify(recipe, built.record)
    return built.record.status, status


def _end_interrupted(recipe: Recipe, interrupted: "Interrupted", told: RebuildOptions) -> NoReturn:
    """End this process, with the other recipes' nights; somebody is told of this one's as of a failure."""
    from shardmill.pipelines.running.signals import interrupt

    record = interrupted.record
    log.say(f"interrupted; {interrupted}", **({} if record is None else {"build": json.loads(record.said.to_json())}))
    if record is not None:
        if told.json:
            print(record.said.to_json(), flush=True)
        if record.status == "interrupted":
            _notify(recipe, record)
    interrupt(interrupted.__cause__)


def _notify(recipe: Recipe, record: BuildRecord) -> None:
    """Tell whom the recipe says of a night that has published nothing."""
    from shardmill.pipelines.rebuilding.webhook import notify

    if recipe.on_failure.webhook is not None and (failed := notify(recipe.on_failure.webhook, record)) is not None:
        log.warn(failed)


def _mistaken(name: str, error: UserError, told: RebuildOptions) -> tuple[str, int]:
    """The end of a recipe that cannot be followed; `name` is that of its file where it has none."""
    from shardmill.pipelines.running.outcome import begin_record, failed_record

    if told.json:
        print(failed_record(begin_record(name, ""), error).to_json(), flush=True)
    log.complain(str(error), exit_status=2)
    return "mistaken", 2


def _reaching(words: Sequence[str], parser: Parser) -> AbstractContextManager[None]:
    """Object stores are reached as options of Beam say; without any of them there is no need for Beam.

    Raises:
      UserError: one is wrong, and is so whether there is anything to do or not.
    """
    if not words:
        return nullcontext()
    from shardmill.pipelines.running.runner import check_runner_options

    options = beam_options(words, parser)
    check_runner_options(options)
    return reaching(options)


def _said_of_flags(words: Sequence[str], options: Any) -> str | None:
    if not words:
        return None
    from shardmill.pipelines.running.runner import said_of_flags

    return said_of_flags(words, options())


def _asked(told: RebuildOptions) -> Any:
    from shardmill.pipelines.rebuilding.planning import Asked

    return Asked(
        version=told.version,
        force=told.force,
        full=told.full,
        set_latest=told.set_latest,
        overwrite=told.overwrite,
        quiet=told.quiet,
    )


def _voices(recipe: Recipe, told: RebuildOptions) -> tuple[Any, Any]:
    return (lambda text: _tell(told, f"{recipe.name}: {text}")), (lambda text: log.warn(f"{recipe.name}: {text}"))


def _dry_run(recipe: Recipe, told: RebuildOptions, options: Any) -> tuple[str, int]:
    """Say what would be done."""
    from shardmill.errors import CorruptDataError, JobError
    from shardmill.pipelines.rebuilding.decide import Unchanged
    from shardmill.pipelines.rebuilding.keep import keep
    from shardmill.pipelines.rebuilding.planning import begin, plan
    from shardmill.transforms.stores.error_text import sentence_of

    say, warn = _voices(recipe, told)
    try:
        recipe.kind.check_installed()
        made = plan(recipe, begin(recipe, _asked(told)), _asked(told), warn)
        if isinstance(made.decision, Unchanged):
            say(f"{made.decision}: nothing would be done")
            return "unchanged", _status_of(made.record, recipe, told)
        from shardmill.pipelines.commands.dry_run import dry_run

        say(f"{made.decision}: {made.config.version} would be built")
        kept = keep(recipe, made.config.parent)
        for sentence in kept.said:
            say(sentence)
        config = kept.config(recipe, made.config.version)
        _tell(told, dry_run(recipe.kind.make_job(config), recipe.name, options()))
    except (UserError, JobError, CorruptDataError) as error:
        return _not_planned(recipe, recipe.located(error) if isinstance(error, UserError) else error)
    except OSError as error:
        return _not_planned(recipe, JobError(f"a store failed: {sentence_of(error)}"))
    return "to be built", 0


def _not_planned(recipe: Recipe, error: "Failure") -> tuple[str, int]:
    log.complain(f"{recipe.name}: {error}", exit_status=error.exit_status)
    return "failed", error.exit_status


def _status_of(record: BuildRecord, recipe: Recipe, told: RebuildOptions) -> int:
    """The exit status of what went well."""
    if record.status != "unchanged":
        return 0
    return recipe.build.unchanged_status if told.unchanged_status is None else told.unchanged_status


def _tell_end(built: "Built", told: RebuildOptions, status: int) -> None:
    from shardmill.pipelines.reports.builds import published_line

    record, error = built.record, built.error
    if told.json:
        print(record.said.to_json(), flush=True)
    as_object = {"build": json.loads(record.said.to_json())}
    if error is not None:
        log.complain(f"{record.name}: {error}", exit_status=status, **as_object)
        return
    _tell(
        told, f"{record.name}: {record.reason}" if record.status == "unchanged" else published_line(record), **as_object
    )
    for said in filter(None, (record.since, *(f"NOTE: {notice}" for notice in _notices(built)))):
        _tell(told, said)
    for check in record.checks:
        if check.get("severity") == "warn":
            log.warn(f"{record.name}: {check.get('check')}: {check.get('sentence')}")


def _notices(built: "Built") -> list[str]:
    """What there is to know of a version that was published, but for what the plan has warned of already."""
    if built.published is None:
        return []
    from shardmill.transforms.layout.notices import is_of_choices

    return [notice for notice in built.published.notices if not is_of_choices(notice)]


def _tell(told: RebuildOptions, text: str, **fields: Any) -> None:
    """On stdout, unless that is for the record alone, or there are to be lines of a log."""
    if told.json or told.log_format == "json":
        log.say(text, **fields)
    elif not told.quiet:
        log.tell(text)


def _summary(ends: Sequence[tuple[str, int]]) -> str:
    counts = Counter(word for word, _ in ends)
    said = ", ".join(f"{number} {word.replace('_', ' ')}" for word, number in counts.items())
    return f"{len(ends)} recipes: {said}"
