"""Nodes of a recipe to the values of declared options, and their mistakes with the line that each stands in."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from shardmill.errors import UserError
from shardmill.transforms.options.declare import Option, Options, options_of
from shardmill.transforms.options.words import meant
from shardmill.transforms.options.yaml_nodes import Node

Section = TypeVar("Section", bound=Options)
_FLAG = re.compile(r"--(\w+)")


def value_of(option: Option, node: Node) -> Any:
    """The value of an option, as it is used.

    Raises:
      UserError: it is not allowed; the sentence is the flag's own, with the line.
    """
    value = node.plain()
    if option.type is bool and option.flag.parse is None and isinstance(value, str):
        value = {"true": True, "false": False}.get(value, value)
    try:
        return option.parse(value)
    except UserError as error:
        raise node.wrong(str(error)) from None
    except (TypeError, ValueError, AttributeError, KeyError):  # a list or a mapping that this flag cannot be
        raise node.wrong(f"--{option.name}: expected it as on the command line: {option.flag.help}") from None


def section_of(cls: type[Section], entries: Mapping[str, Node], place: Node) -> Section:
    """The section `cls` with the values of `entries`, which stand at or below `place`.

    Raises:
      UserError: a key is unknown, or a value not allowed; the sentence names the line.
    """
    known = {option.name: option for option in options_of(cls)}
    values = {}
    for name, node in entries.items():
        if name not in known:
            raise node.wrong(f"unknown key {name!r} in {cls.title}; {meant(name, known)}")
        try:
            values[known[name].field] = value_of(known[name], node)
        except UserError as error:
            raise UserError(_without_dashes(str(error))) from None
    try:
        return cls(**values)
    except UserError as error:
        raise UserError(_without_dashes(str(located(error, entries, place)))) from None


def located(error: UserError, lines: Mapping[str, Node], place: Node) -> UserError:
    """`error` with the line of the first flag that its sentence names and `lines` have; else with that of `place`."""
    return next((lines[name] for name in _FLAG.findall(str(error)) if name in lines), place).wrong(str(error))


def _without_dashes(sentence: str) -> str:
    """A sentence about keys of a recipe that are no flags."""
    return _FLAG.sub(r"\1", sentence)
