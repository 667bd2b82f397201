"""`shardmill retain`: delete expired versions, and what dead jobs left."""

import os
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from shardmill.addons.nightly.rebuild_command import configure_stores
from shardmill.addons.nightly.recipe import SUFFIXES, InvalidRecipe, RetainOptions, load_recipes
from shardmill.addons.nightly.recipe_values import parse_set
from shardmill.addons.nightly.retention import Problem, retain_by_recipe
from shardmill.addons.nightly.retention import retain as retain_in_folder
from shardmill.errors import JobError, UserError
from shardmill.metadata import file_names
from shardmill.pipelines.commands import frame
from shardmill.pipelines.config.flags import Parser, add_flags
from shardmill.pipelines.reports import log
from shardmill.transforms.options.declare import options_of
from shardmill.transforms.stores import storage


def _add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "path",
        metavar="DIR|RECIPE",
        help="Recipe with a section `retain`, a folder of recipes, or the folder of a data set. Local, gs://, s3:// or"
        " az://",
    )
    add_flags(parser, options_of(RetainOptions))
    parser.add_argument("--dry_run", action="store_true", help="Report what would be deleted, and delete nothing")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="Value for ${NAME} in recipes; repeatable"
    )


def _run(parser: Parser, arguments: Sequence[str]) -> int:
    args, rest = frame.parse_messages(parser, arguments)
    given = RetainOptions(**{name: value for name, value in vars(args).items() if name in ("min_versions", "max_age")})
    statuses = []
    for name, found in retain_versions(args.path, given, args.dry_run, args.set, rest, parser):
        if isinstance(found, UserError | JobError):
            log.error(str(found), exit_status=found.exit_status)
            statuses.append(found.exit_status)
        else:
            statuses.append(_report(args, name, found))
    return max(statuses)


_RETAIN = frame.Command(
    name="retain",
    description="Delete expired versions of a data set, failed versions that were kept long enough, and what dead jobs"
    " left. `shardmill rebuild` does so before and after each build. LATEST, versions with a tag, and what a living job"
    " builds are never deleted.",
    epilog="Beam's options for access to an object store, such as --s3_endpoint_url, may follow the path. Exit status:"
    " 0 done; 1 something could not be deleted; 2 a mistake in a flag or a recipe, or no data set.",
    examples=("datasets/flowers --min_versions 7 --max_age 30d --dry_run", "nightly/flowers.yaml"),
    add_arguments=_add_arguments,
    run=_run,
)
COMMANDS = (_RETAIN,)


@dataclass(frozen=True, slots=True, repr=False)
class Retained:
    """The result of `retain`.

    Attributes:
        messages: sentences on what was deleted, or would be.
        problems: sentences on what could not be deleted; the next build tries again.
    """

    messages: tuple[str, ...]
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Return True if everything that had to be deleted is deleted."""
        return not self.problems

    def __repr__(self) -> str:
        return "\n".join([*self.messages, *self.problems])


def retain(
    path: str | os.PathLike[str],
    *,
    min_versions: int | None = None,
    max_age: str | float | None = None,
    dry_run: bool = False,
    set: Mapping[str, str] | None = None,
    beam_options: Sequence[str] = (),
) -> Retained:
    """Delete expired versions, failed versions that were kept long enough, and what dead jobs left.

    LATEST, versions with a tag, and what a living job builds are never deleted. `shardmill.rebuild` does the same
    before and after each build.

    Args:
        path: recipe, whose section `retain` counts, a folder of recipes, or the folder of a data set.
        min_versions: number of newest versions to keep, for the folder of a data set.
        max_age: age up to which versions are kept, such as `30d`, or in seconds; given with `min_versions`.
        dry_run: return what would be deleted, and delete nothing.
        set: values of ${NAME} in recipes, by name.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        What was deleted; `ok` is False if something could not be deleted, as `problems` says.

    Raises:
        UserError: a mistake in an option or a recipe, or there is no data set. The other recipes of a folder are
            followed before that.
        JobError: a store failed.
    """
    limits: dict[str, Any] = {"min_versions": min_versions, "max_age": max_age}
    given, pairs = RetainOptions(**limits), [f"{name}={value}" for name, value in (set or {}).items()]
    rest = frame.to_words(beam_options)
    messages: list[str] = []
    problems: list[str] = []
    errors: list[UserError | JobError] = []
    with frame.raise_job_errors():
        for name, found in retain_versions(os.fspath(path), given, dry_run, pairs, rest, _RETAIN.parser()):
            if isinstance(found, UserError | JobError):
                errors.append(found)
                continue
            for message in found or ["nothing to delete"]:
                (problems if isinstance(message, Problem) else messages).append(f"{name}: {message}")
    if errors:
        raise errors[0]
    return Retained(tuple(messages), tuple(problems))


def retain_versions(
    path: str, given: RetainOptions, dry_run: bool, set_values: Sequence[str], rest: Sequence[str], parser: Parser
) -> "Iterator[tuple[str, list[str] | UserError | JobError]]":
    """Delete expired versions, see `shardmill.retain`; yield messages, or an error, with the data set's name."""
    path = path.rstrip("/") or "/"

    reach_stores = partial(configure_stores, parser, rest)
    with reach_stores():
        if not _is_of_recipes(path):
            messages = retain_in_folder(path, given, dry_run=dry_run)
            yield path, [*messages, *_explain(given, "give --min_versions and --max_age")]
            return
        if given.min_versions is not None:
            raise UserError(
                f"--min_versions and --max_age have no meaning with the recipe {path}, whose section is `retain`"
            )
        day = datetime.now(UTC).date()
        recipes = load_recipes([path], parse_set(tuple(set_values)), day, os.environ, reach_stores)
    for recipe in recipes:
        if isinstance(recipe, InvalidRecipe):
            yield recipe.name, recipe.error
            continue
        with reach_stores(recipe.beam):
            messages = retain_by_recipe(recipe, dry_run=dry_run)
        yield recipe.name, [*messages, *_explain(recipe.retain, "the recipe has no section `retain`")]


def _report(args: Namespace, name: str, messages: Sequence[str]) -> int:
    for message in messages or ["nothing to delete"]:
        if isinstance(message, Problem):
            log.warn(f"{name}: {message}")
        else:
            frame.print_outcome(args, f"{name}: {message}")
    return 1 if any(isinstance(message, Problem) for message in messages) else 0


def _explain(options: RetainOptions, hint: str) -> list[str]:
    return [f"no version expires: {hint}"] if options.min_versions is None else []


def _is_of_recipes(path: str) -> bool:
    """Return True for a recipe or a folder of recipes, False for a data set; raises UserError for anything else."""
    if path.endswith(SUFFIXES):
        return True
    try:
        folders = storage.list_folders(path)
        if any(map(file_names.is_version, folders)) or storage.exists(storage.join(path, file_names.LATEST)):
            return False
        if any(name.endswith(SUFFIXES) for name, _ in storage.list_files(path)):
            return True
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
    above, _, last = path.rpartition("/")
    if file_names.is_version(last):
        raise UserError(f"{path} is one version; give the folder of all of them, {above or '.'}")
    raise UserError(f"{path} is no recipe, no folder of recipes, and has no version of a data set")
