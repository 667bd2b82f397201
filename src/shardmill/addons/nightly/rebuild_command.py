"""`shardmill rebuild`: build new versions by recipes, for example every night."""

import json
import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from datetime import date as Date
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from shardmill import errors
from shardmill.addons.nightly.recipe import InvalidRecipe, RebuildOptions, Recipe, load_recipes
from shardmill.addons.nightly.recipe_values import parse_set
from shardmill.metadata import file_names
from shardmill.metadata.versions import BuildRecord, Status
from shardmill.pipelines.commands.frame import Command, raise_job_errors, to_words
from shardmill.pipelines.config.flags import Parser, add_flags, beam_options
from shardmill.pipelines.reports import log
from shardmill.text import to_printable
from shardmill.transforms.options.declare import options_of
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.clients import using_options

if TYPE_CHECKING:
    from shardmill.addons.nightly.planning import Say
    from shardmill.pipelines.jobs.outcome import Built, Interrupted

_EPILOG = (
    "Every option of Apache Beam, such as --runner, may follow the recipes and overrides the option in a recipe. "
    f"{errors.describe_exit_statuses(*errors.EXIT_STATUSES)} If nothing had to be built, the status is"
    " --unchanged_status. With several recipes, it is the first of 1, 2, 3, 4 and 5 that occurs."
)
_STATUS_ORDER = (1, 2, 3, 4, 5)  # of several recipes' statuses, the command returns the first one in this order


def _add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "recipes",
        nargs="+",
        metavar="RECIPE",
        help="YAML file of a recipe, or a folder of recipes. Local, gs://, s3:// or az://",
    )
    add_flags(parser, options_of(RebuildOptions))
    parser.add_argument("--debug", action="store_true", help="Show the full traceback of a failure")
    parser.add_short_help(("dry_run", "force", "version", "date", "set", "accept", "overwrite", "json", "quiet"))


def _run(parser: Parser, arguments: Sequence[str]) -> int:
    args, rest = parser.parse_known_args(list(arguments))
    values = vars(args)
    paths, debug = values.pop("recipes"), values.pop("debug")
    flags = RebuildOptions(**values)
    recipes = load_for_rebuild(paths, flags, rest, parser)
    ends = [_run_recipe(recipe, flags, rest, parser, debug) for recipe in recipes]
    if len(ends) > 1:
        counts = Counter(word for word, _ in ends).items()
        found = ", ".join(f"{number} {word.replace('_', ' ')}" for word, number in counts)
        _print_message(flags, f"{len(ends)} recipes: {found}")
    statuses = [status for _, status in ends]
    same = statuses[0] if len(set(statuses)) == 1 else 0
    return next((status for status in _STATUS_ORDER if status in statuses), same)


_REBUILD = Command(
    name="rebuild",
    has_message_flags=False,
    description="Rebuild data sets from recipes if their inputs or options changed. Each new version is checked"
    " against LATEST's and published; then old versions are deleted.",
    epilog=_EPILOG,
    examples=("nightly/flowers.yaml", "nightly --dry_run"),
    add_arguments=_add_arguments,
    run=_run,
)
COMMANDS = (_REBUILD,)


def load_for_rebuild(
    paths: Sequence[str], flags: RebuildOptions, rest: Sequence[str], parser: Parser
) -> list[Recipe | InvalidRecipe]:
    """Load the recipes to rebuild; raise a UserError if an option is about one data set and there are several."""
    day = flags.date or datetime.now(UTC).date()

    reach_stores = partial(configure_stores, parser, rest)
    with reach_stores():  # by which recipes in object stores are read
        recipes = load_recipes(paths, parse_set(flags.set), day, os.environ, reach_stores)
    if flags.version is not None and len(recipes) > 1:
        raise errors.UserError(
            f"--version {flags.version} is about one data set, and there are {len(recipes)} recipes; give one"
        )
    if flags.accept and len(recipes) > 1:
        raise errors.UserError(
            f"--accept {','.join(flags.accept)} is about one night of one data set, and there are {len(recipes)}"
            " recipes; give one"
        )
    return recipes


def _run_recipe(
    recipe: Recipe | InvalidRecipe, flags: RebuildOptions, rest: Sequence[str], parser: Parser, debug: bool
) -> tuple[str, int]:
    if isinstance(recipe, InvalidRecipe):
        return _report_invalid(recipe.name, recipe.error, flags)
    from shardmill.pipelines.jobs.outcome import Interrupted, interruption_of_report

    try:
        built = follow_recipe(recipe, flags, rest, parser, partial(_print_message, flags), log.warn)
    except Interrupted as interrupted:
        _end_interrupted(recipe, interrupted, flags)
    try:
        return _finish(recipe, built, flags, rest, parser, debug)
    except KeyboardInterrupt as cause:
        _end_interrupted(recipe, interruption_of_report(built, cause), flags)


def _finish(
    recipe: Recipe, built: "Built", flags: RebuildOptions, rest: Sequence[str], parser: Parser, debug: bool
) -> tuple[str, int]:
    if debug and built.error is not None and not flags.dry_run:
        raise built.error
    status = 0 if built.error is None else built.error.exit_status
    if built.record.status == "unchanged":
        status = recipe.build.unchanged_status if flags.unchanged_status is None else flags.unchanged_status
    if flags.dry_run:
        if built.error is not None:
            log.error(f"{recipe.name}: {built.error}", exit_status=status)
            return "failed", status
        return "unchanged" if built.record.status == "unchanged" else "to be built", status
    with configure_stores(parser, rest, recipe.beam):  # where the page of the build may be
        _report_end(recipe, built, flags, status)
    notify_webhook(recipe, built.record, log.warn)
    return built.record.status, status


def follow_recipe(
    recipe: Recipe, flags: RebuildOptions, rest: Sequence[str], parser: Parser, show: "Say", show_warning: "Say"
) -> "Built":
    """Build by one recipe, or plan that for --dry_run; `rest` are options of Beam in addition to the recipe's.

    A dry run returns the status "published" for a version that would be built.

    Raises:
        Interrupted: by Ctrl-C or SIGTERM.
    """
    from shardmill.addons.nightly.rebuild import rebuild

    def say(text: str) -> None:
        show(f"{recipe.name}: {text}")

    def warn(text: str) -> None:
        show_warning(f"{recipe.name}: {text}")

    words = [*recipe.beam, *rest]
    options = partial(beam_options, words, parser)
    with configure_stores(parser, rest, recipe.beam):  # which loading it has checked
        if words:
            from shardmill.pipelines.jobs.runner import runner_warning

            if (warning := runner_warning(words, options())) is not None:
                warn(warning)
        if not flags.dry_run:
            return rebuild(recipe, flags, options, say, warn)
        built, plan = _dry_run(recipe, flags, options, say, warn)
        if plan:
            show(plan)
        return built


@dataclass(frozen=True, slots=True, repr=False)
class Rebuilt:
    """The outcome of `rebuild` for one data set.

    Attributes:
        status: `published`, `unchanged`, `planned`, `checks_failed`, `locked`, `outrun` or `outdated`.
        directory: folder of the version that was built or would be, or that is kept because nothing changed. A version
            that failed its checks is in `failed/`.
        record: record of the build, with the results of its checks.
        messages: sentences that the command prints meanwhile; for a dry run also the plan.
        error: why a version was not published, or not as LATEST; None for success.
    """

    status: Literal[Status, "planned"]
    directory: str
    record: BuildRecord
    messages: tuple[str, ...]
    error: errors.UserError | errors.JobError | errors.CorruptDataError | None = None

    @property
    def ok(self) -> bool:
        """Return True if the data set is up to date, or the plan was made."""
        return self.error is None

    @property
    def name(self) -> str:
        """Return the name of the data set."""
        return self.record.name

    @property
    def version(self) -> str:
        """Return the version that was built, or is kept."""
        return self.record.version

    @property
    def reason(self) -> str:
        """Return why a version was built, or not published, as a sentence."""
        return str(self.error or self.record.reason)

    @property
    def splits(self) -> Mapping[str, int]:
        """Return the numbers of examples by split; empty if nothing was built."""
        return self.record.splits

    @property
    def failed_checks(self) -> tuple[str, ...]:
        """Return the names of the checks that failed; `accept` takes them."""
        found = (str(check["check"]) for check in self.record.checks if check.get("severity") == "error")
        return tuple(dict.fromkeys(found))

    def __repr__(self) -> str:
        head = [f"{self.name} {self.version}: {self.status}", self.reason]
        if self.status == "planned":
            return "\n".join([*head, *self.messages])
        counts = ", ".join(f"{examples:,} in {split}" for split, examples in self.splits.items())
        findings = (check for check in self.record.checks if check.get("severity") in ("warn", "error"))
        checks = [f"{check['severity']}: {check['check']}: {check['sentence']}" for check in findings]
        return "\n".join([*head, *filter(None, [counts, self.record.since]), *checks])


def rebuild(
    recipe: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    force: bool = False,
    full: bool = False,
    version: str | None = None,
    accept: Sequence[str] = (),
    overwrite: bool = False,
    set_latest: bool = False,
    allow_future: bool = False,
    date: str | Date | None = None,
    set: Mapping[str, str] | None = None,
    beam_options: Sequence[str] = (),
    progress: bool = False,
) -> Rebuilt:
    """Rebuild a data set from a recipe if its input or options changed, as `shardmill rebuild` does.

    The new version is checked against LATEST's and published; then old versions are deleted. If nothing is published,
    the recipe's webhook is notified.

    Args:
        recipe: file with one recipe, or folder that holds one.
        dry_run: return what would be done, without writing anything.
        force: build a new version even if nothing changed.
        full: read every input file, without copying records from shards of an older version.
        version: version to build instead of the recipe's.
        accept: names of checks that may fail this once.
        overwrite: replace the version if it is already published.
        set_latest: point LATEST at this version even if it now points at a newer one.
        allow_future: build although the date or version is more than two days ahead of this machine's clock.
        date: date that replaces {YYYY}, {MM} and {DD} in inputs and versions; None for today, in UTC.
        set: values of ${NAME} in the recipe, by name.
        beam_options: options of Apache Beam, which take the place of the recipe's.
        progress: show progress on stderr, or as a bar in a notebook.

    Returns:
        The outcome. Its `status` is `published`, `unchanged`, or `planned` for a dry run. It is `checks_failed`,
            `locked`, `outrun` or `outdated` if a version was not published, or not as LATEST, for that reason: then
            `ok` is False and `error` says more.

    Raises:
        UserError: a mistake in the recipe, an option or the input.
        JobError: the job failed; the message says if anything was published.
        CorruptDataError: an earlier version, which the build needs, is damaged.
    """
    given: dict[str, Any] = {"version": version, "date": date, "accept": accept, "allow_future": allow_future}
    given |= {"dry_run": dry_run, "force": force, "full": full, "overwrite": overwrite, "set_latest": set_latest}
    pairs = tuple(f"{name}={value}" for name, value in (set or {}).items())
    request = RebuildOptions(**given, set=pairs, quiet=not progress, tunes_memory=False)
    parser, path, rest = _REBUILD.parser(), os.fspath(recipe), to_words(beam_options)
    with raise_job_errors():
        loaded = load_for_rebuild([path], request, rest, parser)
        if len(loaded) > 1:
            raise errors.UserError(
                f"{path} holds {len(loaded)} recipes; `rebuild` takes one, and the command takes several"
            )
        if isinstance(loaded[0], InvalidRecipe):
            raise loaded[0].error
        found = follow_to_end(loaded[0], request, rest, parser)
    if found.error is not None and not isinstance(
        found.error, (errors.ChecksError, errors.LockedError, errors.OutdatedError)
    ):
        raise found.error
    return found


def follow_to_end(recipe: Recipe, flags: RebuildOptions, rest: Sequence[str], parser: Parser) -> Rebuilt:
    """Build by one recipe and notify its webhook, as the command does, without printing anything.

    Raises:
        Interrupted: by Ctrl-C or SIGTERM.
    """
    from shardmill.pipelines.jobs.outcome import Interrupted

    messages: list[str] = []
    note = messages.append
    try:
        built = follow_recipe(recipe, flags, rest, parser, note, note)
    except Interrupted as interrupted:
        if interrupted.record is not None:
            notify_webhook(recipe, interrupted.record, note)
        raise
    if not flags.dry_run:
        notify_webhook(recipe, built.record, note)
    record = built.record
    status: Literal[Status, "planned"] = record.status
    if flags.dry_run and status == "published":
        status = "planned"
    parent = storage.join(recipe.output, recipe.name)
    directory, kept = (storage.join(folder, record.version) for folder in (parent, f"{parent}/{file_names.FAILED}"))
    if status == "checks_failed":
        with configure_stores(parser, rest, recipe.beam):
            directory = kept if storage.exists(storage.join(kept, file_names.MANIFEST)) else directory
    return Rebuilt(status, directory, record, tuple(messages), built.error)


def _end_interrupted(recipe: Recipe, interrupted: "Interrupted", flags: RebuildOptions) -> NoReturn:
    from shardmill.pipelines.jobs.outcome import exit_interrupted

    record = interrupted.record
    build = {} if record is None else {"build": json.loads(record.without_page_checks.to_json())}
    log.info(f"interrupted; {interrupted}", **build)
    if record is not None:
        if flags.json:
            print(record.without_page_checks.to_json(), flush=True)
        notify_webhook(recipe, record, log.warn)
    exit_interrupted(interrupted.__cause__)


def notify_webhook(recipe: Recipe, record: BuildRecord, warn: "Say") -> None:
    """Notify the recipe's webhook if nothing was published, or LATEST was not moved."""
    from shardmill.addons.nightly.rebuild import notify
    from shardmill.transforms.publishing.catalog import is_about_latest

    url = recipe.on_failure.webhook
    is_well = record.status in ("published", "unchanged") and not any(map(is_about_latest, record.notices))
    if url is not None and not is_well and (failed := notify(url, record)) is not None:
        warn(failed)


def _report_invalid(name: str, error: errors.UserError | errors.JobError, flags: RebuildOptions) -> tuple[str, int]:
    """Report a recipe that cannot be followed, by its name or that of its file; return its end and exit status."""
    from shardmill.pipelines.jobs.outcome import begin_record, failed_record

    if flags.json:
        log.print_done(failed_record(begin_record(name, ""), error).to_json(), f"{name}: failed")
    log.error(str(error), exit_status=error.exit_status)
    return ("mistaken" if isinstance(error, errors.UserError) else "failed"), error.exit_status


def configure_stores(parser: Parser, rest: Sequence[str], words: Sequence[str] = ()) -> AbstractContextManager[None]:
    """Configure access to object stores with Beam's options, `words` and `rest`; without any, Beam is not imported."""
    words = [*words, *rest]
    if not words:
        return nullcontext()
    from shardmill.pipelines.jobs.runner import check_runner_options

    options = beam_options(words, parser)
    check_runner_options(options)
    return using_options(options)


def _dry_run(recipe: Recipe, flags: RebuildOptions, options: Any, say: "Say", warn: "Say") -> "tuple[Built, str]":
    """Plan a recipe's build; return its end, "published" if there is a version to build, and the plan."""
    from shardmill.addons.nightly.planning import (
        Unchanged,
        apply_on_published,
        begin_build,
        find_kept_settings,
        make_plan,
    )
    from shardmill.addons.nightly.rebuild import failure_of
    from shardmill.pipelines.jobs.outcome import Built, begin_record, failed_record

    record = begin_record(recipe.name, "")
    try:
        recipe.kind.check_installed()
        record = begin_build(recipe, flags)
        plan = make_plan(recipe, record, flags, warn)
        record = plan.record
        if isinstance(plan.decision, Unchanged):
            say(f"{plan.decision}: nothing would be done")
            version = plan.decision.latest or plan.decision.version
            return Built(replace(record, version=version, status="unchanged", reason=str(plan.decision))), ""
        from shardmill.pipelines.jobs.job import dry_run

        plan, _ = apply_on_published(recipe, plan, flags)
        say(f"{plan.decision}: {plan.config.version} would be built")
        kept_settings = find_kept_settings(recipe, plan.config.parent)
        for sentence in kept_settings.messages:
            say(sentence)
        config = kept_settings.config(recipe, plan.config.version)
        text = dry_run(recipe.kind.make_job, config, options(), flags.quiet)
        return Built(replace(record, version=config.version, reason=str(plan.decision))), text
    except Exception as error:
        failure = failure_of(recipe, error)
    return Built(failed_record(record, failure), None, failure), ""


def _report_end(recipe: Recipe, built: "Built", flags: RebuildOptions, status: int) -> None:
    from shardmill.pipelines.reports.log import published_line

    record, error = built.record, built.error
    if flags.json:
        log.print_done(record.without_page_checks.to_json(), f"{record.name} {record.version}: {record.status}")
    as_object = {"build": json.loads(record.without_page_checks.to_json())}
    if error is not None:
        message = str(error).replace(" RECIPE", f" {shlex.quote(recipe.file)}")
        log.error(f"{record.name}: {message}", exit_status=status, **as_object)
        return
    line = f"{record.name}: {record.reason}" if record.status == "unchanged" else published_line(record)
    _print_message(flags, line, **as_object)
    messages = [record.since] if record.since else []
    if built.published is not None:
        from shardmill.pipelines.reports.summary import reading_code
        from shardmill.transforms.layout.options import is_missing_choice

        notices = (notice for notice in built.published.notices if not is_missing_choice(notice))  # warned of before
        messages += [f"NOTE: {notice}" for notice in notices]
        messages += ["Read it:", *reading_code(built.published.dataset)] if flags.verbose else []
    for message in messages:
        _print_message(flags, message)
    for check in record.checks:
        if check.get("severity") in ("warn", "error"):  # an error of a published version is accepted
            accepted = "accepted: " if check.get("severity") == "error" else ""
            log.warn(f"{record.name}: {accepted}{check.get('check')}: {check.get('sentence')}")


def _print_message(flags: RebuildOptions, text: str, **fields: Any) -> None:
    if flags.json or flags.log_format == "json":
        log.info(text, **fields)
    elif not flags.quiet:
        log.print_done("\n".join(map(to_printable, text.split("\n"))), text)
