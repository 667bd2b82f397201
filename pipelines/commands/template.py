"""The commands that convert as one Flex Template of Dataflow: what its metadata says, and from the parameters of a
launch to a command line.

A template has parameters and no words before them, and the program that launches it passes each as `--name=value`. So
the command is a parameter, a flag without a value has one, `true` or `false`, and what a flag that repeats is given is
written in one value.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING
from typing import Any

from shardmill.errors import UserError
from shardmill.pipelines.kinds.kind import Kind
from shardmill.pipelines.kinds.registry import KINDS
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
    "helpText": "the image of the workers: that of the template holds all they need",
    "isOptional": True,
    "paramType": "TEXT",
}


def metadata(kinds: Mapping[str, Kind] = KINDS) -> dict[str, Any]:
    """The content of a Flex Template's metadata.json: a parameter for each flag of any of `kinds`.

    Source: https://cloud.google.com/dataflow/docs/guides/templates/configuring-flex-templates#metadata-parameters
    """
    commands = [{"value": name, "label": f"{name}: {kind.summary}"} for name, kind in kinds.items()]
    command = {
        "name": COMMAND,
        "label": COMMAND,
        "helpText": "what the input is",
        "paramType": "ENUM",
        "enumOptions": commands,
    }
    return {
        "name": "shardmill",
        "description": "Raw images, arrays, audio, text and tables to balanced, reproducible TFRecord shards",
        "parameters": [command, *_parameters(kinds), _IMAGE],
    }


def _parameters(kinds: Mapping[str, Kind]) -> Iterator[dict[str, Any]]:
    """Of all flags; one that most commands have comes before those of few."""
    known: dict[str, list[str]] = {}
    options: dict[str, Option] = {}
    several: dict[str, list[str]] = {}  # the commands that take it more than once
    for command, kind in kinds.items():
        for option in _shown(kind):
            known.setdefault(option.name, []).append(command)
            options.setdefault(option.name, option)
            if option.flag.repeats:
                several.setdefault(option.name, []).append(command)
    needed = [name for name, option in options.items() if _is_required(option)]
    for name in sorted(known, key=lambda name: (name not in needed, name not in _PLACES, -len(known[name]))):
        only = [] if len(known[name]) == len(kinds) else known[name]
        yield _parameter(options[name], only, [] if several.get(name) == known[name] else several.get(name, []))


def _parameter(option: Option, only: Sequence[str], several: Sequence[str]) -> dict[str, Any]:
    """What the metadata says of a flag: `only` the commands that have it, if not all do; `several` those that take it
    more than once, each with a name, if not all or none do."""
    told = [option.flag.help, f"several are separated by {SEPARATOR}" if option.flag.repeats else ""]
    if several:
        named = SEPARATOR.join(f"{name}=PATH" for name in ("NAME", "OTHER"))
        told.append(f"of {', '.join(several)} also several: {named}")
    told.append(f"of {', '.join(only)}" if only else "")
    made: dict[str, Any] = {
        "name": option.name,
        "label": option.name,
        "helpText": "; ".join(filter(None, told)),
        "isOptional": not _is_required(option),
        "paramType": "TEXT",
    }
    plain = option.flag.parse is None
    if option.type is bool and plain:
        made |= {"paramType": "BOOLEAN", "defaultValue": "false"}
    elif choices := tuple(filter(None, option.flag.choices)):
        made |= {"paramType": "ENUM", "enumOptions": [{"value": choice, "label": choice} for choice in choices]}
    elif option.type is int and plain:
        made |= {"paramType": "NUMBER", "regexes": [_WHOLE_NUMBER]}
    elif option.name in _PLACES and not option.flag.repeats:  # several, or each with its split, are no one URL
        made["regexes"] = [_NAMED_URL if several else _URL]
    return made


def _shown(kind: Kind) -> Iterator[Option]:
    return (option for option in kind.options if not option.flag.hidden)


def _is_required(option: Option) -> bool:
    return option.default is MISSING or option.flag.required


def command_line(words: Iterable[str], kinds: Mapping[str, Kind] = KINDS) -> list[str]:
    """The command line of a launch with the parameters and options of Beam `words`, each `--name=value`.

    Raises:
      UserError: there is no command, or a parameter has no meaning for it.
    """
    given = [word.removeprefix("--").partition("=") for word in words]
    command = next((value for name, _, value in given if name == COMMAND), "")
    if command not in kinds:
        raise UserError(f"the parameter {COMMAND} is {command!r}; expected one of {', '.join(kinds)}")
    own = {option.name: option for option in _shown(kinds[command])}
    anyones = {option.name for kind in kinds.values() for option in _shown(kind)}
    line = [command]
    for name, equals, value in given:
        if name == COMMAND:
            continue
        if name in own:
            line += _words(own[name], value)
        elif name in anyones:
            raise UserError(f"the parameter {name} has no meaning for the command {command}")
        else:
            line.append(f"--{name}{equals}{value}")
    return line


def _words(option: Option, value: str) -> list[str]:
    if option.type is bool and option.flag.parse is None:
        if value.lower() not in ("true", "false"):
            raise UserError(f"the parameter {option.name} is {value!r}; expected true or false")
        return [f"--{option.name}"] if value.lower() == "true" else []
    values = value.split(SEPARATOR) if option.flag.repeats else [value]
    return [f"--{option.name}={one}" for one in values]
