"""The registry of converting commands by name; each is imported when it is looked up."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from shardmill.addons.registry import ADD_ONS

if TYPE_CHECKING:
    from shardmill.pipelines.jobs.kind import Kind

_FILE_COMMANDS = ("images", "arrays", "audio")
_FILES, _RECORDS = f"{__package__}.file_kinds", f"{__package__}.record_kinds"
_ADDED = {command: add_on.module("commands") for add_on in ADD_ONS for command in add_on.commands}


class _Kinds(Mapping[str, "Kind"]):
    """All kinds by command. A module is imported when one of its kinds is looked up, for this takes milliseconds."""

    def __getitem__(self, command: str) -> "Kind":
        module = _ADDED.get(command, _FILES if command in _FILE_COMMANDS else _RECORDS)
        return {kind.command: kind for kind in _import_kinds(module)}[command]

    def __iter__(self) -> Iterator[str]:
        modules = dict.fromkeys((_FILES, _RECORDS, *_ADDED.values()))
        return (kind.command for module in modules for kind in _import_kinds(module))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _import_kinds(module: str) -> "tuple[Kind, ...]":
    return import_module(module).KINDS


KINDS = _Kinds()
