"""The Flex Template of the converting commands: the parameters of a launch, and the command line that they make.

A Flex Template's launcher runs this file, in the image that the workers run in too.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING
from typing import Any

from shardmill.errors import UserError
from shardmill.pipelines.cli import main
from shardmill.pipelines.jobs.kind import Kind
from shardmill.pipelines.jobs.registry import KINDS, entries
from shardmill.transforms.options.declare import Option

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


if __name__ == "__main__":
    try:
        words = launch_arguments(sys.argv[1:])
    except UserError as error:
        sys.exit(f"shardmill: error: {error}")
    sys.exit(main([*words, "--log_format=json"]))
