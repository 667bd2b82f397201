"""A parser of the flags that a configuration declares, and its values to a configuration."""

import argparse
import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING
from typing import Any, TypeVar

from shardmill.errors import UserError
from shardmill.pipelines.flags.options import Parser
from shardmill.transforms.options.declare import Option, Options

# The headings of --help in their order; others come where they are first declared.
_GROUPS = ("input", "features", "images", "arrays", "audio", "labels", "output", "splits and order", "shards", "run")

Config = TypeVar("Config", bound=Options)


def add_flags(parser: Parser, options: Iterable[Option]) -> None:
    """Add a flag for each of `options` to `parser`. Values stay texts, which the configuration parses."""
    groups: dict[str, list[Option]] = {name: [] for name in _GROUPS}
    for option in options:
        if not option.flag.hidden:
            groups.setdefault(option.group, []).append(option)
    for name, members in groups.items():
        if members:
            group = parser.add_argument_group(name)
            for option in members:
                _add_flag(group, option)


def _add_flag(group: Any, option: Option) -> None:
    name, attributes = f"--{option.name}", {"dest": option.field, "default": argparse.SUPPRESS, "help": _help(option)}
    if option.type is bool and option.flag.parse is None:
        group.add_argument(name, action="store_true", **attributes)
        return
    choices = option.flag.choices and f"{{{','.join(choice or 'none' for choice in option.flag.choices)}}}"
    metavar = option.flag.metavar or choices or option.name.upper()
    action = "append" if option.flag.repeats else "store"
    group.add_argument(
        name, action=action, metavar=metavar, required=option.default is MISSING or option.flag.required, **attributes
    )


def _help(option: Option) -> str:
    said = option.default is None or option.default is MISSING or isinstance(option.default, bool)
    default = option.flag.default_words or ("" if said or option.default in ("", ()) else str(option.default))
    words = f"{option.flag.help} (default: {default})" if default else option.flag.help
    return words.replace("%", "%%")


def make_config(cls: type[Config], options: Sequence[Option], values: Mapping[str, Any], **given: Any) -> Config:
    """The configuration that `values` describe, by the names of fields or flags, as texts or as they are used.

    Args:
      cls: of the configuration.
      options: those of `cls` that may be given.
      values: what was given.
      given: fields that are no options.

    Raises:
      UserError: a mistake, named.
    """
    fields = {option.field: option.field for option in options} | {
        o.name: o.field for o in options if not o.flag.hidden
    }
    named = {fields[name]: value for name, value in values.items() if name in fields}
    for name in values:
        if name not in fields:
            near = difflib.get_close_matches(name, fields, 1)
            raise UserError(f"unknown option {name!r}{f'; did you mean {near[0]}?' if near else ''}")
    missing = [option.name for option in options if option.default is MISSING and option.field not in named]
    if missing:
        raise UserError(f"--{missing[0]} is required")
    return cls(**named, **given)
