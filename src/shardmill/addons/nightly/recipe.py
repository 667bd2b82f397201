"""Recipes: read them from YAML files and write a command as one."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from typing import Any, ClassVar

import yaml

from shardmill.addons.nightly import recipe_values
from shardmill.errors import JobError, UserError
from shardmill.flag_values import OptionValueError
from shardmill.metadata import file_names
from shardmill.pipelines.config.flags import BuildOutputOptions
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.config.yaml_nodes import Document, Node, read_documents
from shardmill.pipelines.jobs.kind import Kind
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.text import did_you_mean, mask_urls, to_printable
from shardmill.transforms.options.declare import Option, Options, expected_words, flag, options_of
from shardmill.transforms.options.job_options import CheckOptions, parse_check_names, parse_constraints
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import file_error, writing_error

AUTO = "auto"
KEEP, NEXT, OVERWRITE = "keep", "next", "overwrite"  # of `on_published`
_MAX_DAYS = 3_660  # of a window: ten years of folders
_MAX_STATUS = 125  # above, shells and schedulers have meanings of their own


def parse_url(value: Any) -> str:
    """Check an http or https URL and return it."""
    text = str(value)
    if not text.startswith(("https://", "http://")) or any(letter.isspace() for letter in text):
        raise OptionValueError("expected a URL that begins with https:// or http://")  # which may hold a secret
    return text


def check_status(status: int) -> str | None:
    """Return why a number cannot be an exit status; None if it can."""
    return None if 0 <= status <= _MAX_STATUS else f"expected 0 to {_MAX_STATUS}"


@dataclass(frozen=True, kw_only=True)
class FreshnessOptions(Options):
    """The allowed age of the newest input, in seconds."""

    title: ClassVar[str] = "freshness"

    warn_after: float | None = flag(
        None,
        "Age of the newest input above which a warning is given, for example 26h",
        parse=recipe_values.parse_duration,
    )
    error_after: float | None = flag(
        None,
        "Age of the newest input above which the build fails, because the source has stopped; for example 2d",
        parse=recipe_values.parse_duration,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warn_after and self.error_after and self.error_after < self.warn_after:
            raise UserError("--error_after is less than --warn_after; expected the error to come after the warning")


@dataclass(frozen=True, kw_only=True)
class RetainOptions(Options):
    """The section on deleting versions: one is deleted only if both options allow it; without the section, none is."""

    title: ClassVar[str] = "retain"

    min_versions: int | None = flag(
        None,
        "Number of newest versions that are kept, whatever their age",
        check=lambda number: None if number >= 1 else "expected at least 1",
    )
    max_age: float | None = flag(
        None,
        "Age up to which versions are kept, such as 30d; 0d keeps none",
        parse=partial(recipe_values.parse_duration, least=0),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.min_versions is None) != (self.max_age is None):
            raise UserError("give --min_versions and --max_age, for both must allow a deletion; 0d always does")


@dataclass(frozen=True, kw_only=True)
class FailureOptions(Options):
    """The section on reporting that nothing was published."""

    title: ClassVar[str] = "on_failure"

    webhook: str | None = flag(None, "URL to which the build record is sent by POST", parse=parse_url)


@dataclass(frozen=True, kw_only=True)
class BuildOptions(Options):
    """The options of a rebuild outside the sections."""

    title: ClassVar[str] = "rebuild"

    version: str = flag(
        AUTO, "Version as three numbers, which may contain {YYYY}, {MM} and {DD}; auto increments the patch number"
    )
    on_published: str = flag(
        KEEP,
        "Action for a published version whose input has changed since: keep it (exit status 5), overwrite it, "
        "or build the next patch number",
        choices=(KEEP, OVERWRITE, NEXT),
    )
    labels: str = flag(
        "rebuild", "Class ids: keep those of the previous version, or rebuild them", choices=("keep", "rebuild")
    )
    schema: str = flag(
        "rebuild", "Column types: keep those of the previous version, or rebuild them", choices=("keep", "rebuild")
    )
    like: str | None = flag(None, "Version, tag or LATEST whose labels and schema are kept")
    fingerprint: str = flag(
        "metadata",
        "Way to detect changed inputs: by name, size and time, or by content",
        choices=("metadata", "content"),
    )
    baseline: str | None = flag(None, "Version, tag or LATEST that the checks compare with", default_words="LATEST")
    # days, up to --date, that the input's dates cover; 1 for --date alone
    window: int = flag(
        1,
        "Number of days to which the dates in the input are expanded, for example 7d",
        parse=recipe_values.parse_days,
        check=lambda days: None if 1 <= days <= _MAX_DAYS else f"expected 1d to {_MAX_DAYS}d",
    )
    unchanged_status: int = flag(
        0, "Exit status if nothing had to be built; at 99, Airflow skips the following tasks", check=check_status
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not file_names.is_version(self.version) and self.version != AUTO:
            raise UserError(f"--version {self.version!r}: expected three numbers, such as 1.0.0, or auto")


_request_flag = partial(flag, affects_output=False)  # of one rebuild, whatever the recipe says


@dataclass(frozen=True, kw_only=True)
class RebuildOptions(BuildOutputOptions):
    """The options of `shardmill rebuild`."""

    title: ClassVar[str] = "rebuild"

    dry_run: bool = _request_flag(False, "Report what would be done, without writing anything")
    force: bool = _request_flag(False, "Build a new version even if nothing changed")
    full: bool = _request_flag(False, "Read every input file, without copying records from shards of an older version")
    version: str | None = _request_flag(
        None,
        "Version to build instead of the recipe's, for example to build one day again",
        check=lambda version: None if file_names.is_version(version) else "expected three numbers, such as 1.0.0",
    )
    accept: tuple[str, ...] = _request_flag(
        (),
        "Comma-separated checks that may fail in this build; the build record says who accepted them",
        parse=parse_check_names,
        metavar="CHECK,…",
    )
    overwrite: bool = _request_flag(False, "Replace the version if it is already published")
    set_latest: bool = _request_flag(False, "Point LATEST at this version even if it now points at a newer one")
    allow_future: bool = _request_flag(
        False, "Build although the date or version is more than two days ahead of this machine's clock"
    )
    date: Any = flag(
        None,
        "Date that replaces {YYYY}, {MM} and {DD} in inputs and versions, for example 2026-11-20",
        parse=recipe_values.parse_date,
        default_words="today, in UTC",
        affects_output=False,
    )
    set: tuple[str, ...] = _request_flag(
        (),
        "Value for ${NAME} in recipes; repeatable",
        parse=lambda value: (value,) if isinstance(value, str) else tuple(value),
        repeats=True,
        metavar="NAME=VALUE",
    )
    unchanged_status: int | None = _request_flag(
        None,
        "Exit status if nothing had to be built; at 99, Airflow skips the following tasks",
        check=check_status,
        default_words="the recipe's setting, or 0",
    )
    tunes_memory: bool = _request_flag(True, hidden=True)  # False in a process that is not ours


# Flags at the top of a recipe, because they are about the data set, not about the command.
_TOP_KEYS = {"name": "the name of the data set", "output": "the folder of all data sets"}
_OTHER_KEYS = {
    "environment": "Environment variables that ${NAME} may use, in addition to those of --set",
    "beam": "Options of Apache Beam, without dashes, for example {runner: DataflowRunner}",
}
_SECTIONS: dict[str, type[Options]] = {
    cls.title: cls for cls in (FreshnessOptions, CheckOptions, RetainOptions, FailureOptions)
}
_ANY_VERSION = "0.0.0"  # while `auto` is not decided


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The checked recipe of one data set.

    ```yaml
    name: flowers
    output: gs://bucket/datasets
    images:
      input: gs://bucket/flowers
      splits: train=0.9,test=0.1
    labels: keep
    retain: {min_versions: 7, max_age: 30d}
    ```
    """

    file: str  # its path, as the user gave it
    kind: Kind  # of its command
    options: Mapping[str, Any]  # parsed values of the command's options, by field
    beam: tuple[str, ...]  # Beam's command-line arguments
    build: BuildOptions  # a section, as the next four
    freshness: FreshnessOptions
    checks: CheckOptions
    retain: RetainOptions
    on_failure: FailureOptions
    lines: Mapping[str, Node] = field(repr=False)  # nodes of all keys, for errors with a line
    command: Node = field(repr=False)  # the node of the command

    @property
    def name(self) -> str:
        return str(self.options["name"])

    @property
    def output(self) -> str:
        return str(self.options["output"])

    @property
    def keeps_labels(self) -> bool:
        """True if classes keep the ids that they have in an earlier version."""
        return self.build.labels == "keep" or self.build.like is not None

    @property
    def keeps_schema(self) -> bool:
        """True if columns keep the types that they have in an earlier version."""
        return self.build.schema == "keep" or self.build.like is not None

    def config(self, version: str, **changes: Any) -> JobConfig:
        """Make the configuration that builds `version`; `changes` are fields that override the recipe's.

        If labels are kept but none are given, because there is no version yet, `on_new_label` is ignored: no class is
        new. Raises UserError with the line if options contradict each other.
        """
        options = {**self.options, "version": version, **changes}
        if self.keeps_labels and options.get("labels") is None:
            options.pop("on_new_label", None)
        try:
            return self.kind.make_config(options)
        except UserError as error:
            raise self.located(error) from None

    def located(self, error: UserError) -> UserError:
        """Return `error` with the line of the first flag it names, or of the command, unless it has a line already."""
        if str(error).startswith(f"{self.file} line "):
            return error
        return recipe_values.with_line(error, self.lines, self.command)


# (Beam's command-line arguments) -> a context in which object stores are reached with them
ReachStores = Callable[[Sequence[str]], AbstractContextManager[None]]


def parse_recipe(recipe: Node, day: date, reach_stores: ReachStores = lambda _: nullcontext()) -> Recipe:
    """Parse a recipe, whose variables are filled in, for `day`; raises UserError with file and line.

    Stores, which hold files that its flags name, are reached as its section `beam` says. Raises JobError if one fails.
    """
    entries = recipe.mapping()
    command = _find_command(recipe, entries)
    _check_keys(recipe, entries, command)
    beam = tuple(recipe_values.beam_arguments(entries["beam"])) if "beam" in entries else ()
    try:
        reached = reach_stores(beam)
    except UserError as error:
        raise recipe_values.with_line(
            error, {**entries, **(entries["beam"].mapping() if beam else {})}, command
        ) from None
    with reached:
        return _parse_recipe(recipe, command, beam, day)


def _parse_recipe(recipe: Node, command: Node, beam: tuple[str, ...], day: date) -> Recipe:
    entries, kind, own = recipe.mapping(), KINDS[command.key], command.mapping()
    _check_flags(kind, own)
    build = recipe_values.parse_section(BuildOptions, _build_entries(entries, day), recipe)
    if build.on_published != KEEP:
        _check_on_published(entries["on_published"], entries.get("version"))
    if build.window > 1:
        _check_window(entries["window"], own.get("input"), day, build.window)
    top = {name: entries[name] for name in _TOP_KEYS}
    flags = top | {name: _fill_dates(name, node, day, build.window) for name, node in own.items()}
    known = _find_options(kind)
    parsed = Recipe(
        file=recipe.file,
        kind=kind,
        options={known[name].field: recipe_values.parse_value(known[name], node) for name, node in flags.items()},
        beam=beam,
        build=build,
        freshness=_parse_optional_section(FreshnessOptions, entries, recipe),
        checks=_parse_checks(entries, recipe, build, flags.get("schema")),
        retain=_parse_optional_section(RetainOptions, entries, recipe),
        on_failure=_parse_optional_section(FailureOptions, entries, recipe),
        lines={**entries, **(entries["beam"].mapping() if "beam" in entries else {}), **flags},
        command=command,
    )
    with suppress(OSError):  # of a store that fails: making the plan asks it again, within the build and its record
        parsed.config(_ANY_VERSION if build.version == AUTO else build.version)
    return parsed


def _find_command(recipe: Node, entries: Mapping[str, Node]) -> Node:
    found = [node for key, node in entries.items() if key in KINDS]
    if len(found) > 1:
        raise found[1].error(
            f"{found[1].key}, but {found[0].key} is there too; expected one command: put --- between two recipes"
        )
    if found:
        return found[0]
    for key, node in entries.items():
        hint = did_you_mean(key, KINDS)
        if hint and key not in (*_SECTIONS, "beam") and isinstance(node.value, Mapping):
            raise node.error(f"unknown key {key!r}; {hint}")
    raise recipe.error(f"there is no command; expected one of {', '.join(KINDS)}, with its flags below it")


def _check_keys(recipe: Node, entries: Mapping[str, Node], command: Node) -> None:
    build = (option.name for option in options_of(BuildOptions))
    known = (*_TOP_KEYS, command.key, *_OTHER_KEYS, *build, *_SECTIONS)
    for key, node in entries.items():
        if key in known:
            continue
        if key in _find_options(KINDS[command.key]):
            raise node.error(f"{key} is a flag of {command.key}: put it below {command.key}, in line {command.line}")
        raise node.error(f"unknown key {key!r}; {expected_words(key, known)}")
    for key, what in _TOP_KEYS.items():
        if key not in entries:
            raise recipe.error(f"{key} is missing, {what}; write {key}: … at the top")


def _find_options(kind: Kind) -> dict[str, Option]:
    return {option.name: option for option in kind.options if not option.flag.hidden and option.name != "version"}


def _check_flags(kind: Kind, command_flags: Mapping[str, Node]) -> None:
    known = _find_options(kind)
    for name, node in command_flags.items():
        bare = name.removeprefix("--")
        if bare in (*_TOP_KEYS, "version"):
            raise node.error(f"{name} belongs at the top of a recipe, not below {kind.name}")
        if name not in known:
            hint = did_you_mean(bare, known) or f"`shardmill {kind.name} --help-all` lists them"
            raise node.error(f"{kind.name} has no flag {name!r}; {hint}")


def _parse_optional_section(
    cls: type[recipe_values.Section], entries: Mapping[str, Node], recipe: Node
) -> recipe_values.Section:
    node = entries.get(cls.title)
    return cls() if node is None else recipe_values.parse_section(cls, node.mapping(), node)


def _parse_checks(entries: Mapping[str, Node], recipe: Node, build: BuildOptions, schema: Node | None) -> CheckOptions:
    checks = _parse_optional_section(CheckOptions, entries, recipe)
    if schema is not None and checks.schema is None:
        with suppress(OptionValueError):  # which the flag tells, with its line
            checks = replace(checks, schema=parse_constraints(schema.text()))
    if build.baseline is None:
        return checks
    if "checks" in entries and "baseline" in entries["checks"].mapping():
        raise entries["baseline"].error("baseline is in checks, too; leave one of them out")
    try:
        return replace(checks, baseline=build.baseline)
    except UserError as error:
        raise entries["baseline"].error(str(error).removeprefix("--")) from None


def _build_entries(entries: Mapping[str, Node], day: date) -> dict[str, Node]:
    found = {option.name: entries[option.name] for option in options_of(BuildOptions) if option.name in entries}
    if "version" in found:
        _check_date_words([found["version"]])
        found["version"] = found["version"].map_texts(lambda node: recipe_values.dated_version(node.text(), day))
    return found


def _fill_dates(name: str, node: Node, day: date, days: int) -> Node:
    if name in ("input", "manifest"):
        _check_date_words(node.texts())
    window = recipe_values.days_up_to(day, days) if name == "input" else [day]
    return node.map_texts(lambda text: recipe_values.dated_glob(text.text(), window))


def _check_date_words(nodes: Iterable[Node]) -> None:
    for node in nodes:
        if (word := recipe_values.unknown_date_word(node.text())) is not None:
            raise node.error(f"{node.key}: {word} is no part of a date; expected {{YYYY}}, {{MM}} and {{DD}}")


def _check_on_published(key: Node, version: Node | None) -> None:
    """Check that the version is not `auto`, and that its patch number can count; raises UserError."""
    if version is None or version.text() == AUTO:
        raise key.error(f"on_published: {key.text()} has no meaning with version: auto, which is always a new number")
    if key.text() == NEXT and recipe_values.has_dates(version.text().rpartition(".")[2]):
        raise key.error(
            f"on_published: next counts up the last number, which in version: {version.text()} is a date; write the"
            " date before it, such as 1.{YYYY}{MM}{DD}.0"
        )


def _check_window(window: Node, input_pattern: Node | None, day: date, days: int) -> None:
    if input_pattern is None or not recipe_values.has_dates(input_pattern.text()):
        raise window.error(
            f"window: {window.text()} is about the days in the input, which names none; write {{YYYY}}, {{MM}} and"
            " {DD} in its path instead of the date"
        )
    if (day - date.min).days < days - 1:
        raise window.error(f"window: {window.text()} up to {day} begins before there are dates, in the year 1")


def read_recipes(data: bytes, file: str) -> list[Node]:
    """Return the recipes of a YAML file as nodes; raises UserError as `read_documents`."""
    return read_documents(data, file, Document("a recipe", "name, output, and a command over its flags"))


SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class InvalidRecipe:
    """A recipe file that cannot be loaded, and the error."""

    name: str
    error: UserError | JobError


def load_recipes(
    paths: Sequence[str],
    set_values: Mapping[str, str],
    day: date,
    environment: Mapping[str, str],
    reach_stores: ReachStores = lambda _: nullcontext(),
) -> list[Recipe | InvalidRecipe]:
    """Load the recipes in files and in folders of files, in order.

    Each is loaded on its own, so that an error in one does not stop the others.

    Raises:
        UserError: if a path cannot be read, a folder has no recipe, or no recipe uses a name in `set_values`.
        JobError: if the store of a folder fails.
    """
    found: list[Recipe | InvalidRecipe] = []
    used_names: set[str] = set()
    places: dict[tuple[str, str], Node] = {}
    for path in (file for folder in paths for file in _list_recipe_files(folder)):
        try:
            nodes = read_recipes(_read_file(path), path)
        except (UserError, JobError) as error:
            found.append(InvalidRecipe(path, error))
            continue
        for node in nodes:
            used_names |= recipe_values.names_in(node)
            try:
                found.append(_load_recipe(node, set_values, day, environment, places, reach_stores))
            except (UserError, JobError) as error:
                found.append(InvalidRecipe(path, error))
    if not any(isinstance(item, InvalidRecipe) for item in found):
        recipe_values.check_all_used(set_values, used_names, ", ".join(paths))
    return found


def _load_recipe(
    node: Node,
    set_values: Mapping[str, str],
    day: date,
    environment: Mapping[str, str],
    places: dict[tuple[str, str], Node],
    reach_stores: ReachStores,
) -> Recipe:
    filled = recipe_values.Variables(set_values, recipe_values.environment_names(node), environment).fill(node)
    recipe = parse_recipe(filled, day, reach_stores)
    output = os.path.realpath(recipe.output) if storage.is_local(recipe.output) else recipe.output.rstrip("/")
    first = places.setdefault((output, recipe.name), node)
    if first is not node:
        raise recipe.lines["name"].error(f"{recipe.name} in {recipe.output} is built by {first.location} already")
    return recipe


def _list_recipe_files(path: str) -> Iterator[str]:
    is_folder = os.path.isdir(path) if storage.is_local(path) else not path.endswith(SUFFIXES)
    if not is_folder:
        yield path
        return
    try:
        names = [name for name, _ in storage.list_files(path) if name.endswith(SUFFIXES)]
    except OSError as error:
        raise file_error(f"{path} cannot be listed", error) from None
    names = sorted(name for name in names if "/" not in name and not name.startswith("."))
    if not names:
        raise UserError(f"{path} has no recipe; expected files whose names end in {' or '.join(SUFFIXES)}")
    yield from (storage.join(path, name) for name in names)


def _read_file(path: str) -> bytes:
    try:
        return storage.read_bytes(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file or folder") from None
    except OSError as error:
        raise file_error(f"{path} cannot be read", error) from None


_SECRET_NAME = re.compile("secret|token|password|connection_string|access_key")  # of an option of Beam
_ONCE = ("version", "overwrite", "set_latest", "allow_future")  # about one version; those of a recipe follow each other
_HEAD = """\
# Made by `shardmill {command} --write_recipe`. `shardmill rebuild` follows it, with --dry_run it says what it would do.
# Paths that are not absolute are seen from where it is run.
"""


class _PlainDumper(yaml.SafeDumper):
    """A YAML dumper that leaves out quotes where the text reads back the same: in a recipe numbers are texts, too."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # PyYAML's own way


_PlainDumper.add_implicit_resolver(
    "tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]
)


def recipe_text(kind: Kind, values: Mapping[str, Any], beam: Sequence[str]) -> str:
    """Return the recipe of a command line: the given values of flags by field, and the arguments for Beam."""
    names = {option.field: option.name for option in kind.options if not option.flag.hidden}
    given = {names[field]: _to_yaml_value(value) for field, value in values.items()}
    flags = {name: value for name, value in given.items() if name not in (*_TOP_KEYS, *_ONCE)}
    recipe = {**{name: given[name] for name in _TOP_KEYS}, "version": AUTO, kind.name: flags}
    if beam:
        recipe["beam"] = {name: _to_yaml_value(value) for name, value in recipe_values.beam_entries(beam).items()}
    text = yaml.dump(recipe, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True, width=10_000)
    return _HEAD.format(command=kind.name) + text


def write_recipe(
    path: str, secret_flags: Sequence[str], kind: Kind, values: Mapping[str, Any], beam: Sequence[str]
) -> str:
    """Write the recipe of a command line to a new file, and return a sentence about it.

    Raises UserError if the file exists or cannot be written, or a flag holds a password. Raises JobError if there is no
    room for it.
    """
    names, of_beam = {option.field: option.name for option in kind.options}, recipe_values.beam_entries(beam)
    given = {**{names[field]: value for field, value in values.items()}, **of_beam}
    found = [f"--{name}" for name, value in given.items() if mask_urls(value) != value]
    found += [f"--{name}" for name in of_beam if _SECRET_NAME.search(name)]
    for secret in (*secret_flags, *found):
        raise UserError(
            f"--write_recipe {path}: {secret} holds a password, and a recipe would, too; leave that out, and write"
            " ${NAME} in its place in the recipe, and NAME, an environment variable, under `environment`"
        )
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(recipe_text(kind, values, beam))
    except FileExistsError:
        raise UserError(f"--write_recipe {path}: the file is there; delete it, or give another name") from None
    except OSError as error:
        raise file_error(f"--write_recipe {path}", writing_error(error, path)) from None
    message = f"wrote {path}; `shardmill rebuild {path} --dry_run` says what it would do"
    omitted = [f"--{name}" for name in _ONCE if name in values]
    verb = "is" if len(omitted) == 1 else "are"
    without = f"; {' and '.join(omitted)} {verb} left out, for each build is the next patch" if omitted else ""
    return to_printable(f"{message}{without}")


def _to_yaml_value(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return [_to_yaml_value(item) for item in value]
    return str(value).replace("${", "$${")  # a recipe takes this literally
