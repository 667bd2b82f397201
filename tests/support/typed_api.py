"""Types of the options of `convert`, `plan` and `write`: `python -m tests.support.typed_api` writes the stub."""

import json

from shardmill.flag_values import read_name
from shardmill.pipelines.jobs.record_kinds import DATA
from shardmill.pipelines.jobs.registry import KINDS, entries
from shardmill.transforms.options.declare import Option
from tests.support.command import SOURCE

STUB = SOURCE / "shardmill" / "_typed.pyi"

_HEAD = '''"""The functions of commands with their options, for editors and type checkers.

Written by `python -m tests.support.typed_api`.
"""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Literal, Required, TypedDict, Unpack, overload

IMPORTS

_Path = str | PathLike[str]
_Item = str | int | float | PathLike[str] | None
_Value = _Item | Sequence[_Item] | Mapping[str, _Item]
_Function = _Path | Callable[..., object]

'''


def type_of(option: Option) -> str:
    """Return the type of an option's values: a text as on the command line, or a Python value."""
    if option.type is bool and option.flag.parse is None:
        return "bool"
    if option.flag.choices:
        return f"Literal[{', '.join(json.dumps(choice) for choice in option.flag.choices if choice)}]"
    if option.flag.parse in (None, read_name) and not option.flag.repeats:
        return {int: "int", float: "float", str: "str"}[option.type]
    if option.name in ("map", "map_batches"):
        return "_Function"
    return "_Path" if option.name == "output" else "_Value"


def stub() -> str:
    """Return the text of the stub."""
    kinds = {command: [option for option in kind.options if not option.flag.hidden] for command, kind in KINDS.items()}
    shared = set.intersection(*({(option.name, type_of(option)) for option in options} for options in kinds.values()))
    parts = [
        _HEAD.replace("IMPORTS", "\n".join(_imports())),
        "class _Options(TypedDict, total=False):\n",
        *_fields(kinds[next(iter(kinds))], shared, True),
    ]
    for command, options in kinds.items():
        parts += [f"\nclass _{command.capitalize()}Options(_Options, total=False):\n", *_fields(options, shared, False)]
    for function, result, sentence in (
        ("convert", "Published", "Run a job"),
        ("plan", "Plan", "Plan a job, without running it"),
    ):
        for command in kinds:
            parts.append(
                f'\n@overload\ndef {function}(\n    command: Literal["{command}"],\n    *,\n'
                f"    beam_options: Sequence[str] = (),\n    progress: bool = False,\n"
                f"    **options: Unpack[_{command.capitalize()}Options],\n) -> {result}:\n"
                f'    """{sentence}: {entries()[command].summary}."""\n'
            )
    rows = [option for option in DATA.options if not option.flag.hidden]
    parts += ["\nclass _WriteOptions(TypedDict, total=False):\n", *_fields(rows, set(), False)]
    for result, dry_run in (("Published", "Literal[False] = False"), ("Plan", "Literal[True]")):
        parts.append(
            "\n@overload\ndef write(\n    data: object,\n    *,\n    beam_options: Sequence[str] = (),\n"
            f"    progress: bool = False,\n    dry_run: {dry_run},\n    **options: Unpack[_WriteOptions],\n"
            f') -> {result}:\n    """Write rows that the program holds as TFRecord shards."""\n'
        )
    return "".join(parts)


def _imports() -> list[str]:
    """Return the imports of the functions of commands and of the classes of their results."""
    names = {"shardmill.pipelines.commands.convert": ["Plan"], "shardmill.pipelines.jobs.outcome": ["Published"]}
    for entry in entries().values():
        names.setdefault(entry.module, []).extend(entry.exports)
    return [f"from {module} import {name} as {name}" for module in sorted(names) for name in sorted(names[module])]


def _fields(options: list[Option], shared: set[tuple[str, str]], is_shared: bool) -> list[str]:
    lines = []
    for option in options:
        if ((option.name, type_of(option)) in shared) == is_shared:
            kind = f"Required[{type_of(option)}]" if option.name in ("output", "name") else type_of(option)
            lines.append(f"    {option.name}: {kind}\n")
    return lines


if __name__ == "__main__":
    STUB.write_text(stub())
