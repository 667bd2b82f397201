"""A recipe: what a scheduled rebuild is told. Its keys are the flags of a command, and the sections.

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

import difflib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from shardmill.errors import UserError
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.kinds.kind import Kind
from shardmill.pipelines.kinds.registry import KINDS
from shardmill.pipelines.recipes import dates
from shardmill.pipelines.recipes.beam import beam_arguments
from shardmill.pipelines.recipes.sections import AUTO, BuildOptions, FailureOptions, FreshnessOptions, RetainOptions
from shardmill.pipelines.recipes.values import Section, located, section_of, value_of
from shardmill.transforms.options.checks import CheckOptions, parse_constraints
from shardmill.transforms.options.declare import Option, ValueMistake, options_of
from shardmill.transforms.options.words import meant
from shardmill.transforms.options.yaml_nodes import Node

# Flags that stand at the top of a recipe, for they are about the data set, not about the command.
_TOP = {"name": "what the data set is called", "output": "the folder of all data sets"}
_SECTIONS = ("freshness", "checks", "retain", "on_failure")
_ANY_VERSION = "0.0.0"  # while `auto` is not decided


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What one data set's rebuild is told, every value checked.

    Attributes:
      file: that it stands in, as the user called it.
      kind: its command.
      options: of the command, by field, as they are used.
      beam: Beam's, as words of a command line.
      build, freshness, checks, retain, on_failure: the sections.
      lines: the keys, for sentences about them.
      command: the command's own key.
    """

    file: str
    kind: Kind
    options: Mapping[str, Any]
    beam: tuple[str, ...]
    build: BuildOptions
    freshness: FreshnessOptions
    checks: CheckOptions
    retain: RetainOptions
    on_failure: FailureOptions
    lines: Mapping[str, Node] = field(repr=False)
    command: Node = field(repr=False)

    @property
    def name(self) -> str:
        """Of the data set."""
        return str(self.options["name"])

    @property
    def output(self) -> str:
        """The folder of all data sets."""
        return str(self.options["output"])

    @property
    def keeps_labels(self) -> bool:
        """Whether classes keep the ids that they have in a version before."""
        return self.build.labels == "keep" or self.build.like is not None

    @property
    def keeps_schema(self) -> bool:
        """Whether columns keep the types that they have in a version before."""
        return self.build.schema == "keep" or self.build.like is not None

    def config(self, version: str, **changes: Any) -> JobConfig:
        """What the job is told that builds `version`; `changes` are fields of it, in place of the recipe's.

        Where labels are kept, but none are given, because there is no version yet, no class is a new one.

        Raises:
          UserError: options contradict each other; the sentence names the line.
        """
        options = {**self.options, "version": version, **changes}
        if self.keeps_labels and options.get("labels") is None:
            options.pop("on_new_label", None)
        try:
            return self.kind.make_config(options)
        except UserError as error:
            raise self.located(error) from None

    def located(self, error: UserError) -> UserError:
        """`error`, which is about flags, with the line of the first of them that the recipe has, unless it has one."""
        if str(error).startswith(f"{self.file} line "):
            return error
        return located(error, self.lines, self.command)


def parse_recipe(recipe: Node, day: date) -> Recipe:
    """The recipe that `recipe`, whose variables are filled in, is on `day`.

    Raises:
      UserError: a mistake; the sentence names file and line.
    """
    entries = recipe.mapping()
    command = _command(recipe, entries)
    kind, own = KINDS[command.key], command.mapping()
    _check_keys(recipe, entries, command)
    _check_flags(kind, own)
    build = section_of(BuildOptions, _build_entries(entries, day), recipe)
    if build.window > 1:
        _check_window(entries["window"], own.get("input"), day, build.window)
    top = {name: entries[name] for name in _TOP}
    flags = top | {name: _of_day(name, node, day, build.window) for name, node in own.items()}
    known = _flags(kind)
    made = Recipe(
        file=recipe.file,
        kind=kind,
        options={known[name].field: value_of(known[name], node) for name, node in flags.items()},
        beam=tuple(beam_arguments(entries["beam"])) if "beam" in entries else (),
        build=build,
        freshness=_section(FreshnessOptions, entries, recipe),
        checks=_checks(entries, recipe, build, flags.get("schema")),
        retain=_section(RetainOptions, entries, recipe),
        on_failure=_section(FailureOptions, entries, recipe),
        lines={**entries, **(entries["beam"].mapping() if "beam" in entries else {}), **flags},
        command=command,
    )
    made.config(_ANY_VERSION if build.version == AUTO else build.version)
    return made


def _command(recipe: Node, entries: Mapping[str, Node]) -> Node:
    found = [node for key, node in entries.items() if key in KINDS]
    if len(found) > 1:
        raise found[1].wrong(
            f"{found[1].key}, but {found[0].key} is there too; expected one command: put --- between two recipes"
        )
    if found:
        return found[0]
    for key, node in entries.items():
        near = difflib.get_close_matches(key, KINDS, 1)
        if near and key not in (*_SECTIONS, "beam") and isinstance(node.value, Mapping):
            raise node.wrong(f"unknown key {key!r}; did you mean {near[0]}?")
    raise recipe.wrong(f"there is no command; expected one of {', '.join(KINDS)}, with its flags below it")


def _check_keys(recipe: Node, entries: Mapping[str, Node], command: Node) -> None:
    """Check that all keys are known, and that what must be there is."""
    build = (option.name for option in options_of(BuildOptions))
    known = (*_TOP, command.key, "environment", "beam", *build, *_SECTIONS)
    for key, node in entries.items():
        if key in known:
            continue
        if key in _flags(KINDS[command.key]):
            raise node.wrong(f"{key} is a flag of {command.key}: put it below {command.key}, in line {command.line}")
        raise node.wrong(f"unknown key {key!r}; {meant(key, known)}")
    for key, what in _TOP.items():
        if key not in entries:
            raise recipe.wrong(f"{key} is missing, {what}; write {key}: … at the top")


def _flags(kind: Kind) -> dict[str, Option]:
    """The options of a command that a recipe may have, by their names."""
    return {option.name: option for option in kind.options if not option.flag.hidden and option.name != "version"}


def _check_flags(kind: Kind, own: Mapping[str, Node]) -> None:
    known = _flags(kind)
    for name, node in own.items():
        bare = name.removeprefix("--")
        if bare in (*_TOP, "version"):
            raise node.wrong(f"{name} stands at the top of a recipe, not below {kind.command}")
        if name not in known:
            near = difflib.get_close_matches(bare, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"`shardmill {kind.command} --help` lists them"
            raise node.wrong(f"{kind.command} has no flag {name!r}; {hint}")


def _section(cls: type[Section], entries: Mapping[str, Node], recipe: Node) -> Section:
    node = entries.get(cls.title)
    return cls() if node is None else section_of(cls, node.mapping(), node)


def _checks(entries: Mapping[str, Node], recipe: Node, build: BuildOptions, schema: Node | None) -> CheckOptions:
    """What is checked, against the version that `baseline` names, which may stand in the section as well; what the
    command's --schema asks for holds, unless the section has another."""
    checks = _section(CheckOptions, entries, recipe)
    if schema is not None and checks.schema is None:
        with suppress(ValueMistake):  # which the flag tells, with its line
            checks = replace(checks, schema=parse_constraints(schema.text()))
    if build.baseline is None:
        return checks
    if "checks" in entries and "baseline" in entries["checks"].mapping():
        raise entries["baseline"].wrong("baseline stands in checks, too; leave one of them out")
    try:
        return replace(checks, baseline=build.baseline)
    except UserError as error:
        raise entries["baseline"].wrong(str(error).removeprefix("--")) from None


def _build_entries(entries: Mapping[str, Node], day: date) -> dict[str, Node]:
    found = {option.name: entries[option.name] for option in options_of(BuildOptions) if option.name in entries}
    if "version" in found:
        _check_words([found["version"]])
        found["version"] = found["version"].replaced(lambda node: dates.dated_version(node.text(), day))
    return found


def _of_day(name: str, node: Node, day: date, days: int) -> Node:
    """A flag's value on a day; an input is that of all the days of the window."""
    if name in ("input", "manifest"):
        _check_words(node.texts())
    window = dates.window(day, days) if name == "input" else [day]
    return node.replaced(lambda text: dates.dated_glob(text.text(), window))


def _check_words(nodes: Iterable[Node]) -> None:
    for node in nodes:
        word = dates.odd_word(node.text())
        if word is not None:
            raise node.wrong(f"{node.key}: {word} is no part of a date; expected {{YYYY}}, {{MM}} and {{DD}}")


def _check_window(window: Node, asked: Node | None, day: date, days: int) -> None:
    if asked is None or not dates.has_dates(asked.text()):
        raise window.wrong(
            f"window: {window.text()} is about the days in the input, which names none; write {{YYYY}}, {{MM}} and"
            " {DD} where they stand in its path"
        )
    if (day - date.min).days < days - 1:
        raise window.wrong(f"window: {window.text()} up to {day} begins before there are dates, in the year 1")
