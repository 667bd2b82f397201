"""The registry of converting commands by name; each is imported when it is looked up."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardmill.pipelines.jobs.kind import Kind

_FILE_COMMANDS = ("images", "arrays", "audio")
_QUERY_COMMANDS = ("sql", "bigquery")
_MODULES = ("file_kinds", "record_kinds", "query_kinds")


class _Kinds(Mapping[str, "Kind"]):
    """All kinds by command. A module is imported when one of its kinds is looked up, for this takes milliseconds."""

    def __getitem__(self, command: str) -> "Kind":
        module = "file_kinds" if command in _FILE_COMMANDS else "record_kinds"
        module = "query_kinds" if command in _QUERY_COMMANDS else module
        return {kind.command: kind for kind in _import_kinds(module)}[command]

    def __iter__(self) -> Iterator[str]:
        return (kind.command for module in _MODULES for kind in _import_kinds(module))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _import_kinds(module: str) -> "tuple[Kind, ...]":
    return import_module(f"{__package__}.{module}").KINDS


KINDS = _Kinds()
